#include "harness/run/world.h"

#include "core/clock.h"
#include "harness/run/guard.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define MOST 8

/* A launch whose processes are threads. */
struct hub {
	pthread_barrier_t met;
	int n;
	const void *given[MOST];
	int broken; /* process whose launch fails; -1: none */
};

struct process {
	struct hub *hub;
	pthread_t thread;
	struct bb_launch launch;
	struct bb_error error;
	struct bb_assembly assembly;
	void (*body)(struct process *process);
	/* What the bodies below are given, and what they come to. */
	bb_status mine, status;
	uint64_t number, least;
	const struct bb_backend *backend;
	char *argv[40];
	struct bb_environment environment;
};

static bb_status gather(struct bb_launch *launch, const void *mine, size_t bytes, void *all,
			bool everywhere)
{
	struct hub *hub = launch->own;

	hub->given[launch->proc] = mine;
	pthread_barrier_wait(&hub->met);
	for (int p = 0; (everywhere || launch->proc == 0) && p < hub->n; p++)
		memcpy((char *)all + (size_t)p * bytes, hub->given[p], bytes);
	pthread_barrier_wait(&hub->met);
	return hub->broken == launch->proc ? BB_EBACKEND : BB_OK;
}

static void *main_of_process(void *argument)
{
	struct process *process = argument;

	process->body(process);
	return NULL;
}

static void prepare(struct process *processes, struct hub *hub, int n,
		    void (*body)(struct process *process))
{
	static char program[] = "/opt/bin/all_reduce_perf", flag[] = "-b", size[] = "8";

	memset(processes, 0, MOST * sizeof(*processes));
	*hub = (struct hub){.n = n, .broken = -1};
	for (int p = 0; p < n; p++)
		processes[p] = (struct process){
			.hub = hub,
			.launch = {.proc = p,
				   .nprocs = n,
				   .gather = gather,
				   .library = "Some MPI 1.0",
				   .own = hub},
			.body = body,
			.backend = &bb_backend_null,
			.argv = {program, flag, size},
		};
}

static void run(struct process *processes)
{
	struct hub *hub = processes[0].hub;

	pthread_barrier_init(&hub->met, NULL, (unsigned)hub->n);
	for (int p = 0; p < hub->n; p++) {
		processes[p].error = (struct bb_error){0};
		processes[p].assembly = (struct bb_assembly){.launch = &processes[p].launch,
							     .error = &processes[p].error};
		assert_int_equal(
			pthread_create(&processes[p].thread, NULL, main_of_process, &processes[p]),
			0);
	}
	for (int p = 0; p < hub->n; p++) {
		pthread_join(processes[p].thread, NULL);
		free(processes[p].assembly.members);
	}
	pthread_barrier_destroy(&hub->met);
}

/* ---- agreeing -------------------------------------------------------------------------- */

static void agree(struct process *process)
{
	if (process->mine != BB_OK)
		bb_fail(&process->error, process->mine, "cause %d", process->launch.proc);
	process->status = bb_assembly_agree(&process->assembly, process->mine);
}

/* All come to the status of the first that failed; process 0 has its cause. */
static void test_agree(void **state)
{
	struct process processes[MOST];
	struct hub hub;

	prepare(processes, &hub, 4, agree);
	run(processes);
	for (int p = 0; p < 4; p++) {
		assert_int_equal(processes[p].status, BB_OK);
		assert_int_equal(bb_error_status(&processes[p].error), BB_OK);
	}
	processes[3].mine = BB_EUSAGE;
	processes[2].mine = BB_EBACKEND;
	run(processes);
	for (int p = 0; p < 4; p++)
		assert_int_equal(processes[p].status, BB_EBACKEND);
	assert_memory_equal(processes[0].error.text, "process 2 (", 11);
	assert_non_null(strstr(processes[0].error.text, "): cause 2"));
	processes[0].mine = BB_EINTERNAL;
	run(processes);
	for (int p = 0; p < 4; p++) {
		assert_int_equal(processes[p].status, BB_EINTERNAL);
		assert_false(processes[p].assembly.lost);
	}
	assert_string_equal(processes[0].error.text, "cause 0");
}

static void test_agree_alone(void **state)
{
	struct bb_launch launch = bb_launch_single();
	struct bb_error error = {0};
	struct bb_assembly alone = {.launch = &launch, .error = &error};
	uint64_t least;

	assert_int_equal(bb_assembly_agree(&alone, BB_OK), BB_OK);
	assert_int_equal(bb_assembly_least(&alone, 17, &least), BB_OK);
	assert_int_equal(least, 17);
	bb_fail(&error, BB_EUSAGE, "the cause");
	assert_int_equal(bb_assembly_agree(&alone, BB_EUSAGE), BB_EUSAGE);
	assert_string_equal(error.text, "the cause");
}

static void find_least(struct process *process)
{
	process->status = bb_assembly_least(&process->assembly, process->number, &process->least);
}

static void test_least(void **state)
{
	struct process processes[MOST];
	struct hub hub;

	prepare(processes, &hub, 3, find_least);
	processes[0].number = UINT64_MAX;
	processes[1].number = 5;
	processes[2].number = UINT64_C(1) << 40;
	run(processes);
	for (int p = 0; p < 3; p++) {
		assert_int_equal(processes[p].status, BB_OK);
		assert_int_equal(processes[p].least, 5);
	}
}

/* Whose launch fails knows nothing of the others. */
static void test_lost(void **state)
{
	struct process processes[MOST];
	struct hub hub;

	prepare(processes, &hub, 3, find_least);
	hub.broken = 1;
	run(processes);
	assert_int_equal(processes[1].status, BB_EBACKEND);
	assert_true(processes[1].assembly.lost);
	assert_non_null(strstr(processes[1].error.text, "process 1"));
	assert_non_null(strstr(processes[1].error.text, "Some MPI 1.0"));
	assert_false(processes[0].assembly.lost || processes[2].assembly.lost);
}

/* ---- comparing ------------------------------------------------------------------------- */

static void compare(struct process *process)
{
	int argc = 0;

	while (process->argv[argc])
		argc++;
	process->status = bb_assembly_compare(&process->assembly, argc, process->argv,
					      &process->environment, process->backend);
}

/* All come to STATUS, and process 0 says SAYS. */
static void expect_compared(struct process *processes, bb_status status, const char *says)
{
	run(processes);
	for (int p = 0; p < processes[0].hub->n; p++) {
		assert_int_equal(processes[p].status, status);
		assert_false(processes[p].assembly.lost);
	}
	if (!strstr(processes[0].error.text, says))
		fail_msg("'%s' lacks '%s'", processes[0].error.text, says);
}

static void test_same(void **state)
{
	static char elsewhere[] = "./all_reduce_perf";
	struct process processes[MOST];
	struct hub hub;

	prepare(processes, &hub, 4, compare);
	processes[2].argv[0] = elsewhere;
	expect_compared(processes, BB_OK, "");
	prepare(processes, &hub, 1, compare);
	expect_compared(processes, BB_OK, "");
}

static void test_library(void **state)
{
	struct process processes[MOST];
	struct hub hub;

	prepare(processes, &hub, 3, compare);
	processes[2].launch.library = "Some MPI 1.1";
	expect_compared(processes, BB_EBACKEND, "process 2 (");
	assert_non_null(strstr(processes[0].error.text, "Some MPI 1.1"));
}

/* --backend auto may come to something else where a GPU is gone. */
static void test_backend(void **state)
{
	struct process processes[MOST];
	struct hub hub;

	prepare(processes, &hub, 3, compare);
	processes[1].backend = &bb_backend_host;
	expect_compared(processes, BB_EUSAGE, "the backend of process 1 (");
	assert_non_null(strstr(processes[0].error.text, "host instead of null; name one"));
}

static void test_words(void **state)
{
	static char other[] = "16", more[] = "-e", program[] = "all_gather_perf";
	struct process processes[MOST];
	struct hub hub;

	prepare(processes, &hub, 4, compare);
	processes[2].argv[2] = other;
	expect_compared(processes, BB_EUSAGE, "\"16\" instead of \"8\" as word 2");
	assert_memory_equal(processes[0].error.text, "the command line of process 2 (", 31);
	processes[1].argv[3] = more;
	expect_compared(processes, BB_EUSAGE, "\"-e\" instead of nothing as word 3");
	assert_non_null(strstr(processes[0].error.text, "process 1"));
	assert_non_null(strstr(processes[0].error.text, "(2 processes differ)"));
	processes[1].argv[3] = NULL;
	processes[1].argv[2] = NULL;
	expect_compared(processes, BB_EUSAGE, "nothing instead of \"8\" as word 2");
	processes[1].argv[0] = program;
	expect_compared(processes, BB_EUSAGE, "all_gather_perf instead of all_reduce_perf");
}

/* A difference is found wherever it is, and told as far as there is room. */
static void test_long_words(void **state)
{
	struct process processes[MOST];
	char one[2000], two[2000];
	struct hub hub;

	prepare(processes, &hub, 2, compare);
	memset(one, 'x', sizeof(one));
	one[sizeof(one) - 1] = '\0';
	memcpy(two, one, sizeof(two));
	processes[0].argv[2] = one;
	processes[1].argv[2] = two;
	expect_compared(processes, BB_OK, "");
	two[sizeof(two) - 2] = 'y';
	expect_compared(processes, BB_EUSAGE, "a long word instead of a long word as word 2");
	/* Words are kept apart: these two lines read the same when run together. */
	prepare(processes, &hub, 2, compare);
	processes[0].argv[1] = &one[sizeof(one) - 3]; /* xx x */
	processes[0].argv[2] = &one[sizeof(one) - 2];
	processes[1].argv[1] = &one[sizeof(one) - 2]; /* x xx */
	processes[1].argv[2] = &one[sizeof(one) - 3];
	expect_compared(processes, BB_EUSAGE, "\"x\" instead of \"xx\" as word 1");
	/* Of many words the last ones are compared together. */
	for (int word = 1; word < 39; word++)
		processes[0].argv[word] = processes[1].argv[word] = &one[sizeof(one) - 3];
	expect_compared(processes, BB_OK, "");
	processes[1].argv[38] = &one[sizeof(one) - 2];
	expect_compared(processes, BB_EUSAGE,
			"other words instead of other words as word 32 and later");
}

static void test_environments(void **state)
{
	struct process processes[MOST];
	struct hub hub;

	prepare(processes, &hub, 3, compare);
	for (int p = 0; p < 3; p++) {
		processes[p].environment.nccl_algo = "ring";
		processes[p].environment.launch.proc = p;
	}
	expect_compared(processes, BB_OK, "");
	processes[2].environment.nccl_algo = NULL;
	expect_compared(processes, BB_EUSAGE, "nothing instead of \"ring\"");
	assert_memory_equal(processes[0].error.text, "NCCL_ALGO of process 2 (", 24);
	assert_non_null(strstr(processes[0].error.text, "with mpirun: -x NCCL_ALGO"));
	processes[2].environment.nccl_algo = "ring";
	processes[1].environment.split = "";
	expect_compared(processes, BB_EUSAGE, "NCCL_TESTS_SPLIT of process 1");
	processes[1].environment.split = NULL;
	processes[0].environment.secret = processes[2].environment.secret = "set";
	expect_compared(processes, BB_EUSAGE, "nothing instead of \"set\"");
	assert_memory_equal(processes[0].error.text, "BUSBENCH_SECRET of process 1 (", 30);
}

static void test_environment_rows(void **state)
{
	struct bb_environment e;

	for (int i = 0; i < BB_NENVIRONMENT; i++)
		unsetenv(bb_environment_names[i]);
	/* No process sends its secret to another. */
	setenv("BUSBENCH_SECRET", "0123456789abcdef", 1);
	e = bb_environment_read();
	assert_string_equal(e.secret, "set");
	unsetenv("BUSBENCH_SECRET");
	setenv("NCCL_TESTS_MIN_BW", "3", 1);
	e = bb_environment_read();
	assert_string_equal(e.min_bw, "3");
	for (int i = 0; i < BB_NENVIRONMENT; i++)
		assert_true(!e.values[i] ||
			    strcmp(bb_environment_names[i], "NCCL_TESTS_MIN_BW") == 0);
	unsetenv("NCCL_TESTS_MIN_BW");
}

static void test_hosts(void **state)
{
	struct bb_member members[] = {
		{.host = "a"}, {.host = "a"}, {.host = "a"}, {.host = "b"}, {.host = "b"}};
	struct bb_launch launch = {.nprocs = 5};
	struct bb_assembly a = {.launch = &launch, .members = members};
	const bool speaks[] = {false, true, false, true, false};

	for (launch.proc = 0; launch.proc < 5; launch.proc++)
		assert_int_equal(bb_assembly_speaks_for_host(&a), speaks[launch.proc]);
}

/* ---- the guard ------------------------------------------------------------------------- */

struct call {
	atomic_int count, signal;
};

static void count_call(void *argument, int signal)
{
	struct call *call = argument;

	atomic_store(&call->signal, signal);
	atomic_fetch_add(&call->count, 1);
}

static void wait_for(struct call *call)
{
	const double until = bb_clock_now() + 20;

	while (atomic_load(&call->count) == 0 && bb_clock_now() < until)
		usleep(1000);
	assert_int_equal(atomic_load(&call->count), 1);
}

static void test_guard(void **state)
{
	struct bb_error error = {0};
	struct call call = {.signal = -1};
	struct bb_guard guard;

	bb_guard_signals();
	assert_int_equal(bb_guard_start(&guard, 10000000, true, count_call, &call, &error), BB_OK);
	wait_for(&call);
	bb_guard_stop(&guard);
	assert_int_equal(atomic_load(&call.signal), 0);

	atomic_store(&call.count, 0);
	assert_int_equal(bb_guard_start(&guard, 0, true, count_call, &call, &error), BB_OK);
	kill(getpid(), SIGTERM);
	wait_for(&call);
	bb_guard_stop(&guard);
	assert_int_equal(atomic_load(&call.signal), SIGTERM);

	/* Stopped in time it calls nobody. */
	atomic_store(&call.count, 0);
	assert_int_equal(
		bb_guard_start(&guard, UINT64_C(100000000000), true, count_call, &call, &error),
		BB_OK);
	bb_guard_stop(&guard);
	assert_int_equal(atomic_load(&call.count), 0);
}

/* ---- what makes no sense --------------------------------------------------------------- */

/* A launch of two processes of which the second gives what the first does, altered: in exchange
   CALL, counted from 1 on, LENGTH bytes at OFFSET are VALUE. */
struct mirror {
	int call;
	size_t offset, length;
	const void *value;
	int calls;
};

static bb_status look_into_mirror(struct bb_launch *launch, const void *mine, size_t bytes,
				  void *all, bool everywhere)
{
	struct mirror *m = launch->own;

	if (!all)
		return BB_OK;
	memcpy(all, mine, bytes);
	memcpy((char *)all + bytes, mine, bytes);
	if (++m->calls == m->call)
		memcpy((char *)all + bytes + m->offset, m->value, m->length);
	return BB_OK;
}

static void refused(void (*body)(struct process *process), struct mirror mirror, const char *reason)
{
	struct process processes[MOST], *p = &processes[0];
	struct hub hub;

	prepare(processes, &hub, 2, body);
	p->launch.gather = look_into_mirror;
	p->launch.own = &mirror;
	p->assembly = (struct bb_assembly){.launch = &p->launch, .error = &p->error};
	body(p);
	free(p->assembly.members);
	assert_int_equal(p->status, BB_EBACKEND);
	assert_true(p->assembly.lost);
	assert_memory_equal(p->error.text, "process 1 sent ", 15);
	if (!strstr(p->error.text, reason))
		fail_msg("%s", p->error.text);
}

/* What is no status would be an exit status that nobody has documented, or 0. */
static void test_strange_status(void **state)
{
	const int32_t statuses[] = {256, -1, 6, 8, 255, INT32_MIN, INT32_MAX};

	for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++)
		refused(agree, (struct mirror){1, 0, sizeof(int32_t), &statuses[i], 0},
			"which no exit status of busbench is");
}

static void end(struct process *process)
{
	int exit_status = process->launch.proc == 0 ? BB_EDATA : BB_OK;

	process->status = bb_assembly_end(&process->assembly, &exit_status);
	if (process->status == BB_OK && exit_status != BB_EDATA)
		process->status = BB_EINTERNAL;
}

static void test_end(void **state)
{
	const int32_t statuses[] = {256, -1, 6, 8, 127, 128, 128 + 9, 128 + 16, 128 + 65};
	struct process processes[MOST];
	struct hub hub;

	prepare(processes, &hub, 3, end);
	run(processes);
	for (int p = 0; p < 3; p++)
		assert_int_equal(processes[p].status, BB_OK);
	for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++)
		refused(end, (struct mirror){1, 0, sizeof(int32_t), &statuses[i], 0},
			"sent an exit status in which ");
}

static void fail_together(struct process *process)
{
	bb_fail(&process->error, BB_EUSAGE, "process 1 sent me here");
	process->status = bb_assembly_agree(&process->assembly, BB_EUSAGE);
}

/* Exchanges of a comparison: 1 the origins, 2 the requests, 3 how that went; of a failure: 1 the
   statuses, 2 the causes. */
static void test_strange_text(void **state)
{
	const size_t pieces[] = {0, 32, 33, 34};
	const int32_t many = 769;
	char endless[1024];

	memset(endless, 'x', sizeof(endless));
	refused(compare, (struct mirror){1, 0, 32, endless, 0}, "the version has no end");
	refused(compare, (struct mirror){1, 32, 128, endless, 0}, "the library has no end");
	refused(compare, (struct mirror){1, 160, 64, endless, 0}, "the host has no end");
	/* Of each piece 8 bytes are its digest: the program, the last word, the backend, a
	 * variable. */
	for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++)
		refused(compare, (struct mirror){2, 72 * pieces[i] + 8, 64, endless, 0},
			"a text has no end");
	refused(compare, (struct mirror){3, 0, sizeof(int32_t), &many, 0}, "the status is 769");
}

/* The causes are exchanged where the error is process 0's already: it is lost all the same. */
static void test_strange_cause(void **state)
{
	struct process processes[MOST], *p = &processes[0];
	struct mirror mirror = {2, 64, BB_ERROR_TEXT, NULL, 0};
	char endless[BB_ERROR_TEXT];
	struct hub hub;

	memset(endless, 'x', sizeof(endless));
	mirror.value = endless;
	prepare(processes, &hub, 2, fail_together);
	p->launch.gather = look_into_mirror;
	p->launch.own = &mirror;
	p->assembly = (struct bb_assembly){.launch = &p->launch, .error = &p->error};
	fail_together(p);
	assert_int_equal(p->status, BB_EBACKEND);
	assert_true(p->assembly.lost);
}

/* What a process gave is its own, whatever came back of it. */
static void test_own_share(void **state)
{
	struct process processes[MOST], *p = &processes[1];
	struct mirror mirror = {1, 0, 224, NULL, 0};
	char endless[224];
	struct hub hub;

	memset(endless, 'x', sizeof(endless));
	mirror.value = endless;
	prepare(processes, &hub, 2, compare);
	p->launch.gather = look_into_mirror;
	p->launch.own = &mirror;
	p->assembly = (struct bb_assembly){.launch = &p->launch, .error = &p->error};
	compare(p);
	assert_int_equal(p->status, BB_OK);
	assert_string_not_equal(p->assembly.members[1].host, "");
	assert_int_not_equal(p->assembly.members[1].host[0], 'x');
	free(p->assembly.members);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_agree),
		cmocka_unit_test(test_agree_alone),
		cmocka_unit_test(test_least),
		cmocka_unit_test(test_lost),
		cmocka_unit_test(test_same),
		cmocka_unit_test(test_library),
		cmocka_unit_test(test_backend),
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_long_words),
		cmocka_unit_test(test_environments),
		cmocka_unit_test(test_environment_rows),
		cmocka_unit_test(test_hosts),
		cmocka_unit_test(test_guard),
		cmocka_unit_test(test_strange_status),
		cmocka_unit_test(test_end),
		cmocka_unit_test(test_strange_text),
		cmocka_unit_test(test_strange_cause),
		cmocka_unit_test(test_own_share),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
