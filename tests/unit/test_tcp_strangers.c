/*
 * The launch over TCP among strangers: who comes and does not belong there, or does not fit.
 */
#include "core/version.h"
#include "processes.h"
#include "launch/greet.h"
#include "launch/wire.h"
#include "tcp_runs.h"

#define SILENT 300 /* more than may be here at once */

/* Process 1 comes with a crowd that talks nonsense or nothing. */
static void join_with_crowd(struct process *me)
{
	const struct bb_hello hello = {.magic = BB_HELLO_PLAIN, .proc = 1, .nprocs = 3};
	const double start = bb_clock_now();
	struct bb_launch launch;
	char noise[4096];

	memset(noise, 'x', sizeof(noise));
	if (me->launch.proc == 1) {
		for (int i = 0; i < SILENT; i++)
			knock("", 0);
		knock(noise, sizeof(noise));
		knock("GET / HTTP/1.1\r\n\r\n", 18);
		knock(&hello, sizeof(hello));
		knock(&hello, sizeof(hello) - 1);
		shutdown(knock(noise, 1), SHUT_RDWR);
	}
	launch = join(me);
	CHECK(me->meeting, bb_launch_barrier(&launch) == BB_OK);
	CHECK(me->meeting, bb_clock_now() - start < 10);
	launch.close(&launch);
}

static void test_strangers(void **state)
{
	run_all(3, join_with_crowd, NULL, -1);
}

/* Somebody else listens where process 0 should, and says what it hears: that is no answer. */
static void test_echo(void **state)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(at);
	const int door = socket(AF_INET, SOCK_STREAM, 0);
	struct bb_launch launch = {0};
	struct bb_error error = {0};
	char heard[4096];
	pid_t echo;

	assert_int_equal(bind(door, (struct sockaddr *)&at, length), 0);
	assert_int_equal(listen(door, 10), 0);
	assert_int_equal(getsockname(door, (struct sockaddr *)&at, &length), 0);
	echo = fork();
	if (echo == 0) {
		for (;;) {
			const int fd = accept(door, NULL, NULL);
			const ssize_t got = recv(fd, heard, sizeof(heard), 0);

			send(fd, heard, got > 0 ? (size_t)got : 0, MSG_NOSIGNAL);
		}
	}
	close(door);
	set_run(2, ntohs(at.sin_port));
	assert_int_equal(open_as(&launch, 1, 1, &error), BB_ETIMEOUT);
	assert_non_null(strstr(error.text, "cannot reach process 0 at localhost, port "));
	kill(echo, SIGKILL);
	waitpid(echo, NULL, 0);
}

/* ---- who does not fit -------------------------------------------------------------------- */

#define BRIEF_S 1.5 /* for those who wait in vain */

/* Process 2 of 3 claims to be something else. */
struct misfit {
	const char *variable, *value;
	bb_status status;
	const char *said[3]; /* by process 0 */
};

static const struct misfit misfits[] = {
	{"WORLD_SIZE", "4", BB_EUSAGE, {"process 2 (", "has WORLD_SIZE 4, process 0 (", "has 3"}},
	{"WORLD_SIZE", "1000", BB_EUSAGE, {"has WORLD_SIZE 1000, process 0 ("}},
	{"RANK", "1", BB_EUSAGE, {"process 1 (", " and process 1 (", "have the same RANK"}},
};

/*
 * With a secret it is one of the run, which ends at once; process 0 alone says why. Without it may
 * be a stranger: it says itself why it goes, and process 0 waits for another one till time is over.
 */
static void misfit(struct process *me)
{
	const struct misfit *m = me->argument;
	const bool secured = getenv(BB_SECRET_VARIABLE) != NULL;
	const double start = bb_clock_now(), time = secured ? PATIENCE_S : BRIEF_S;
	struct bb_launch launch = {0};
	struct bb_error error = {0};
	int proc = me->launch.proc;

	if (proc == 2) {
		/* Whoever comes second is the one that is sent away. */
		nap_ms(500);
		setenv(m->variable, m->value, 1);
		proc = strcmp(m->variable, "RANK") == 0 ? atoi(m->value) : proc;
	}
	CHECK(me->meeting, open_as(&launch, proc, time, &error) == m->status);
	CHECK(me->meeting, bb_clock_now() - start < 10);
	CHECK(me->meeting, launch.silent == (proc != 0 && (secured || me->launch.proc != 2)));
	for (int i = 0; i < 3 && m->said[i] && !launch.silent; i++) {
		const bool swapped = me->launch.proc == 2 && strcmp(m->variable, "RANK") != 0;

		if (swapped || strstr(error.text, m->said[i]))
			continue;
		CHECK(me->meeting, false);
		fprintf(stderr, "%s\n", error.text);
	}
}

static void test_misfits(void **state)
{
	for (size_t i = 0; i < 2 * sizeof(misfits) / sizeof(misfits[0]); i++) {
		if (i % 2)
			setenv(BB_SECRET_VARIABLE, SECRET, 1);
		run_all(3, misfit, (void *)(uintptr_t)&misfits[i / 2], -1);
		unsetenv(BB_SECRET_VARIABLE);
	}
}

/* Process 1 says hello with words of its own. */
static void say_hello(struct process *me)
{
	const struct bb_hello *hello = me->argument;
	const bool valid = hello->proc >= 0 && hello->proc < BB_TCP_MOST_PROCESSES;
	struct bb_launch launch = {0};
	struct bb_error error = {0};
	struct bb_frame frame;
	struct bb_hello answer;

	if (me->launch.proc == 0) {
		CHECK(me->meeting, open_as(&launch, 0, BRIEF_S, &error) != BB_OK);
		CHECK(me->meeting, valid == (strstr(error.text, "(far, pid 77)") != NULL));
		CHECK(me->meeting, strstr(error.text, "1 connection closed: 1 not ") != NULL);
	} else {
		const int fd = knock(hello, sizeof(*hello));
		const ssize_t got = recv(fd, &answer, sizeof(answer), MSG_WAITALL);

		CHECK(me->meeting, got == (valid ? (ssize_t)sizeof(answer) : 0));
		if (!valid)
			return;
		CHECK(me->meeting, memcmp(answer.password, "busbench, indeed", 16) == 0);
		CHECK(me->meeting,
		      recv(fd, &frame, BB_FRAME_HEAD, MSG_WAITALL) == (ssize_t)BB_FRAME_HEAD);
		CHECK(me->meeting, frame.kind == BB_FRAME_STOP && frame.status != BB_OK);
		CHECK(me->meeting, recv(fd, frame.text, frame.length, MSG_WAITALL) == frame.length);
		CHECK(me->meeting, recv(fd, &frame, 1, 0) == 0);
	}
}

static void test_hello(void **state)
{
	struct bb_hello hello = {.magic = BB_HELLO_PLAIN,
				 .proc = 1,
				 .password = "busbench, hello",
				 .nprocs = 2,
				 .pid = 77,
				 .nonce = 5,
				 .version = "0.0.0",
				 .host = "far"};
	const int procs[] = {1, 0, 2, -1, 1 << 30};

	for (size_t i = 0; i < sizeof(procs) / sizeof(procs[0]); i++) {
		hello.proc = procs[i];
		run_all(2, say_hello, &hello, -1);
		snprintf(hello.version, sizeof(hello.version), "%s", BB_VERSION);
	}
}

/* A process that has another secret, or none, finds nobody; and one that has the only one. */
struct keyless {
	const char *first, *second; /* secrets of the two processes */
	bb_status statuses[2];
	const char *said[2];
};

static const struct keyless keyless[] = {
	{SECRET,
	 "another secret of tests",
	 {BB_ETIMEOUT, BB_EBACKEND},
	 {"without the right BUSBENCH_SECRET", "does not know this BUSBENCH_SECRET"}},
	{SECRET,
	 NULL,
	 {BB_ETIMEOUT, BB_EUSAGE},
	 {"without the right BUSBENCH_SECRET", "requires BUSBENCH_SECRET, which is not set here"}},
	{NULL,
	 SECRET,
	 {BB_ETIMEOUT, BB_EBACKEND},
	 {"without the right BUSBENCH_SECRET", "does not know this BUSBENCH_SECRET"}},
};

static void lack_secret(struct process *me)
{
	const struct keyless *k = me->argument;
	const char *secret = me->launch.proc == 0 ? k->first : k->second;
	struct bb_launch launch = {0};
	struct bb_error error = {0};

	if (secret)
		setenv(BB_SECRET_VARIABLE, secret, 1);
	CHECK(me->meeting,
	      open_as(&launch, me->launch.proc, BRIEF_S, &error) == k->statuses[me->launch.proc]);
	CHECK(me->meeting, strstr(error.text, k->said[me->launch.proc]) != NULL);
	if (!strstr(error.text, k->said[me->launch.proc]))
		fprintf(stderr, "%s\n", error.text);
}

static void test_secrets(void **state)
{
	for (size_t i = 0; i < sizeof(keyless) / sizeof(keyless[0]); i++)
		run_all(2, lack_secret, (void *)(uintptr_t)&keyless[i], -1);
}

static void exchange(struct process *me)
{
	struct bb_launch launch = join(me);
	int mine = 100 + launch.proc, all[4];

	CHECK(me->meeting, launch.gather(&launch, &mine, sizeof(mine), all, true) == BB_OK);
	for (int p = 0; p < 4; p++)
		CHECK(me->meeting, all[p] == 100 + p);
	if (launch.proc == 0)
		CHECK(me->meeting, strstr(launch.note, "all processes proved") != NULL);
	launch.close(&launch);
}

static void test_secured_exchange(void **state)
{
	setenv(BB_SECRET_VARIABLE, SECRET, 1);
	run_all(4, exchange, NULL, -1);
	unsetenv(BB_SECRET_VARIABLE);
}

static void test_port_in_use(void **state)
{
	struct sockaddr_in at = {.sin_family = AF_INET};
	socklen_t length = sizeof(at);
	const int door = socket(AF_INET, SOCK_STREAM, 0);
	struct bb_launch launch = {0};
	struct bb_error error = {0};

	assert_int_equal(bind(door, (struct sockaddr *)&at, length), 0);
	assert_int_equal(listen(door, 1), 0);
	assert_int_equal(getsockname(door, (struct sockaddr *)&at, &length), 0);
	set_run(2, ntohs(at.sin_port));
	assert_int_equal(open_as(&launch, 0, PATIENCE_S, &error), BB_EBACKEND);
	assert_non_null(strstr(error.text, "process 0 cannot listen on port "));
	assert_non_null(strstr(error.text, "BUSBENCH_PORT"));
	close(door);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_strangers),   cmocka_unit_test(test_echo),
		cmocka_unit_test(test_misfits),     cmocka_unit_test(test_hello),
		cmocka_unit_test(test_secrets),     cmocka_unit_test(test_secured_exchange),
		cmocka_unit_test(test_port_in_use),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
