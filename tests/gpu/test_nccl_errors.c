/*
 * What the nccl backend does when things go wrong: each call of CUDA and NCCL is made to fail, one
 * at a time; a rank does not come; work on the device fails. Every time all ranks end, the first
 * cause is told with the call and the file, and nothing is left behind.
 */
#include "backends/gpu.h"
#include "backends/graphs.h"
#include "backends/messages.h"
#include "core/clock.h"
#include "fake.h"
#include "gpus.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define N 3
#define COUNT 100
#define BYTES ((size_t)4 * N * COUNT)
#define MOST_FUNCTIONS 128

struct world {
	struct meeting meeting;
	struct bb_error error;
	struct bb_context *context;
	struct player {
		struct world *world;
		pthread_t thread;
		int local;
		bb_status status;
	} players[N];
};

/* What a rank has open. */
struct stage {
	const struct bb_backend *backend;
	struct bb_rank *rank;
	struct bb_group *all, *part;
	bool first; /* of the part */
	struct bb_queue *queue;
	struct bb_event *events[2];
	struct bb_graph *graph;
	char *in, *out, *tmp;
};

/* ---- a piece that touches everything
 * -------------------------------------------------------------- */

static bb_status open_stage(struct world *w, struct stage *s, int local)
{
	const int everybody[] = {0, 1, 2}, most[] = {2, 0};
	const struct bb_backend *b = s->backend;
	bb_status st;

	BB_TRY(st, b->attach(w->context, local, &s->rank, &(struct bb_location){0}, &w->error),
	       out);
	BB_TRY(st, b->group_open(s->rank, everybody, N, &s->all, &w->error), out);
	s->first = local == most[0];
	if (local != 1)
		BB_TRY(st, b->group_open(s->rank, most, 2, &s->part, &w->error), out);
	BB_TRY(st, b->alloc(s->rank, BYTES, (void **)&s->in), out);
	BB_TRY(st, b->alloc(s->rank, BYTES, (void **)&s->out), out);
	BB_TRY(st, b->alloc(s->rank, 4 * BYTES, (void **)&s->tmp), out);
	BB_TRY(st, b->queue_open(s->rank, &s->queue, &w->error), out);
	BB_TRY(st, b->event_open(s->rank, &s->events[0], &w->error), out);
	st = b->event_open(s->rank, &s->events[1], &w->error);
out:
	return st;
}

static bb_status call_one(struct stage *s, const struct bb_collective *collective,
			  const char *schedule, const struct bb_native *native, enum bb_op op,
			  bool in_place)
{
	const struct bb_backend *b = s->backend;
	struct bb_call call = {.collective = collective,
			       .schedule =
				       schedule ? bb_algorithm_find(collective, schedule) : NULL,
			       .native = native,
			       .dtype = BB_FLOAT,
			       .op = op,
			       .shape = {.nranks = N, .count = COUNT, .in_place = in_place},
			       .in = s->in,
			       .out = in_place ? s->in : s->out,
			       .tmp = s->tmp};
	bb_status st = BB_OK;

	if (!schedule && !native)
		BB_TRY(st, b->choose(s->all, &call), out);
	BB_TRY(st, b->tune(s->all, &call), out);
	BB_TRY(st, b->gpu->ready(s->all, &call), out);
	BB_TRY(st, b->collective(s->all, NULL, &call), out);
	st = b->finish(s->rank, NULL);
out:
	return st;
}

static bb_status call_all(struct stage *s)
{
	bb_status st;

	for (int i = 0; bb_collectives[i]; i++) {
		const bool hypercube = bb_collectives[i] == &bb_hypercube;

		if (hypercube || (bb_collectives[i]->flags & BB_VARIABLE))
			continue;
		BB_TRY(st, call_one(s, bb_collectives[i], NULL, NULL, BB_SUM, false), out);
	}
	BB_TRY(st, call_one(s, &bb_alltoall, NULL, NULL, BB_SUM, true), out);
	BB_TRY(st, call_one(s, &bb_all_reduce, NULL, NULL, BB_MULSUM, false), out);
	BB_TRY(st, call_one(s, &bb_all_reduce, "ring", NULL, BB_AVG, false), out);
	BB_TRY(st, call_one(s, &bb_all_reduce, "tree", NULL, BB_MULSUM, true), out);
	st = call_one(s, &bb_all_reduce, NULL, way_named("tree"), BB_SUM, false);
out:
	return st;
}

static void nothing(void *argument)
{
}

/* From the group's first member to the other. */
static bb_status pass_on(struct stage *s)
{
	const int second = 1;
	const struct bb_message m = {.kind = s->first ? BB_MESSAGE_SEND : BB_MESSAGE_RECV,
				     .group = s->part,
				     .to = &second,
				     .from = 0,
				     .out = s->out,
				     .in = s->in,
				     .bytes = BYTES};

	return s->backend->messages->pass(s->queue, &m);
}

static bb_status use_queues(struct stage *s)
{
	const struct bb_call call = {.collective = &bb_all_reduce,
				     .schedule = bb_algorithm_find(&bb_all_reduce, "ring"),
				     .dtype = BB_FLOAT,
				     .shape = {.nranks = N, .count = COUNT},
				     .in = s->in,
				     .out = s->out,
				     .tmp = s->tmp};
	const struct bb_backend *b = s->backend;
	double seconds;
	bb_status st;

	BB_TRY(st, b->event_record(s->rank, NULL, s->events[0]), out);
	BB_TRY(st, b->event_wait(s->rank, s->queue, s->events[0]), out);
	BB_TRY(st, b->compute(s->rank, s->queue, nothing, NULL), out);
	BB_TRY(st, b->collective(s->all, s->queue, &call), out);
	BB_TRY(st, b->gpu->spin(s->rank, s->queue, 1e-4), out);
	if (s->part)
		BB_TRY(st, pass_on(s), out);
	BB_TRY(st, b->event_record(s->rank, s->queue, s->events[1]), out);
	BB_TRY(st, b->finish(s->rank, s->queue), out);
	BB_TRY(st, b->gpu->elapsed(s->rank, s->events[0], s->events[1], &seconds), out);
	BB_TRY(st, b->graphs->begin(s->rank, NULL), out);
	st = b->collective(s->all, NULL, &call);
	if (st == BB_OK)
		st = b->graphs->end(s->rank, NULL, &s->graph);
	if (st == BB_OK)
		BB_TRY(st, b->graphs->launch(s->rank, NULL, s->graph), out);
	if (st == BB_OK)
		st = b->finish(s->rank, NULL);
out:
	return st;
}

static bb_status use_patterns(struct stage *s)
{
	static const uint32_t table[64] = {[3] = 1};
	const struct bb_pattern p = {table, 32, sizeof(table[0]), 9};
	const struct bb_backend *b = s->backend;
	uint64_t wrong = 0;
	bb_status st;

	BB_TRY(st, b->fill(s->rank, s->in, &p, 0, COUNT), out);
	BB_TRY(st, b->copy(s->rank, s->out, s->in, BYTES), out);
	BB_TRY(st, b->verify(s->rank, s->out, &p, 0, COUNT, BB_FLOAT, 2, &wrong), out);
	if (wrong != 0)
		return BB_EDATA;
	if (s->part)
		BB_TRY(st, b->barrier(s->part), out);
	st = b->barrier(s->all);
out:
	return st;
}

static void close_stage(struct stage *s)
{
	const struct bb_backend *b = s->backend;

	if (!s->rank)
		return;
	b->graphs->close(s->graph);
	b->event_close(s->events[0]);
	b->event_close(s->events[1]);
	b->queue_close(s->queue);
	b->group_close(s->part);
	b->group_close(s->all);
	b->release(s->rank, s->in, BYTES);
	b->release(s->rank, s->out, BYTES);
	/* tmp goes with the rank */
	b->detach(s->rank);
}

/* As the drivers do it: whoever fails ends everybody's waits. */
static void *play(void *argument)
{
	struct player *me = argument;
	struct world *w = me->world;
	struct stage s = {.backend = &bb_plugin_backend};
	bb_status st;

	BB_TRY(st, open_stage(w, &s, me->local), out);
	BB_TRY(st, use_patterns(&s), out);
	BB_TRY(st, call_all(&s), out);
	st = use_queues(&s);
out:
	me->status = st;
	if (st != BB_OK) {
		bb_plugin_backend.abort(w->context);
		meeting_stop(&w->meeting);
	}
	close_stage(&s);
	return NULL;
}

static bb_status play_all(struct world *w)
{
	const struct bb_world world = {.nranks = N, .nprocs = 1, .nlocal = N};
	struct bb_backend_config config = {.registration = BB_REGISTER_LOCAL};
	bb_status st;

	memset(w, 0, sizeof(*w));
	meeting_open(&w->meeting, N);
	config.exchange = meeting_exchange(&w->meeting);
	st = bb_plugin_backend.open(&w->context, &world, &config, &w->error);
	for (int i = 0; i < N && st == BB_OK; i++) {
		w->players[i] = (struct player){.world = w, .local = i};
		assert_int_equal(pthread_create(&w->players[i].thread, NULL, play, &w->players[i]),
				 0);
	}
	for (int i = 0; i < N && st == BB_OK; i++)
		pthread_join(w->players[i].thread, NULL);
	if (st == BB_OK)
		bb_plugin_backend.close(w->context);
	meeting_close(&w->meeting);
	return st;
}

/* ---- every call fails
 * --------------------------------------------------------------------------------- */

/* What open calls before there are ranks. */
static bool is_of_open(const char *function, int call)
{
	static const char *const names[] = {"cudaGetDeviceCount", "ncclGetVersion",
					    "cudaRuntimeGetVersion", "cudaDriverGetVersion"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(function, names[i]) == 0)
			return true;
	return strcmp(function, "cudaSetDevice") == 0 && call == 1;
}

/* A kernel is named, not how it is launched; of no GPU it is said what that means. */
static const char *told_name(const char *function)
{
	return strcmp(function, "cudaLaunchKernel") == 0     ? "bb_gpu_"
	       : strcmp(function, "cudaGetDeviceCount") == 0 ? "no GPU"
							     : function;
}

static void fail_once(const char *function, int call)
{
	struct world w;
	bb_status st;
	int failed = 0;

	fake_reset();
	fake_fail(function, call);
	st = play_all(&w);
	unsetenv("NCCL_ALGO"); /* a failure may leave it changed */
	if (fake_calls(function) < call)
		return; /* in this order of things it was not called as often */
	if (is_of_open(function, call)) {
		assert_int_equal(st, BB_EBACKEND);
		assert_non_null(strstr(w.error.text, told_name(function)));
		return;
	}
	assert_int_equal(st, BB_OK);
	for (int i = 0; i < N; i++) {
		st = w.players[i].status;
		assert_true(st == BB_OK || st == BB_EBACKEND || st == BB_ETIMEOUT);
		failed += st != BB_OK;
	}
	if (bb_error_status(&w.error) != BB_EBACKEND ||
	    !strstr(w.error.text, told_name(function)) ||
	    !strstr(w.error.text, "failed in src/backends/nccl/"))
		fail_msg("call %d of %s: \"%s\" (%d ranks failed)", call, function, w.error.text,
			 failed);
	fake_forget_memory();
	gpus_left_nothing();
}

static void test_every_call(void **state)
{
	char names[MOST_FUNCTIONS][48];
	int calls[MOST_FUNCTIONS], n = 0, fails = 0;
	struct world w;

	fake_reset();
	assert_int_equal(play_all(&w), BB_OK);
	for (int i = 0; i < N; i++)
		if (w.players[i].status != BB_OK)
			fail_msg("rank %d: %s", i, w.error.text);
	gpus_left_nothing();
	for (; fake_function(n); n++) {
		assert_true(n < MOST_FUNCTIONS);
		snprintf(names[n], sizeof(names[n]), "%s", fake_function(n));
		calls[n] = fake_calls(names[n]);
	}
	assert_true(n > 30);
	for (int i = 0; i < n; i++) {
		const int places[] = {1, 2, calls[i] / 2, calls[i] - 1, calls[i]};

		/* ncclCommAbort is called only after a failure. */
		for (int k = 0; k < 5; k++)
			if (places[k] >= 1 && (k == 0 || places[k] > places[k - 1])) {
				fail_once(names[i], places[k]);
				fails++;
			}
	}
	fake_reset();
	print_message("%d functions, %d failures\n", n, fails);
	assert_true(fails > 90);
}

/* ---- a rank does not come
 * --------------------------------------------------------------------------------- */

struct hang {
	atomic_int inside;
};

/* Rank 0: when all others are inside, and a moment later, nobody shall wait any more. */
static void abandon_others(struct one *me, struct hang *hang)
{
	const struct timespec moment = {.tv_nsec = 1000000}, later = {.tv_nsec = 50000000};

	while (atomic_load(&hang->inside) < me->n - 1)
		nanosleep(&moment, NULL);
	nanosleep(&later, NULL);
	me->backend->abort(me->context);
}

static void stay_away(struct one *me, void *argument)
{
	struct hang *hang = argument;
	struct stage s = {.backend = me->backend, .rank = me->handle, .all = me->world};
	bb_status st;

	CHECK(me, me->backend->alloc(me->handle, BYTES, (void **)&s.in) == BB_OK);
	CHECK(me, me->backend->alloc(me->handle, BYTES, (void **)&s.out) == BB_OK);
	if (me->rank == 0) {
		abandon_others(me, hang);
		return;
	}
	atomic_fetch_add(&hang->inside, 1);
	st = call_one(&s, &bb_all_reduce, NULL, NULL, BB_SUM, false);
	CHECK(me, st == BB_ETIMEOUT);
	CHECK(me, call_one(&s, &bb_all_reduce, NULL, NULL, BB_SUM, false) == BB_ETIMEOUT);
}

/* What has to wait for a collective that will not end can be called away too. */
static void stay_away_from_fill(struct one *me, void *argument)
{
	static const uint32_t table[64];
	const struct bb_pattern p = {table, 32, sizeof(table[0]), 1};
	struct bb_call call = {.collective = &bb_all_reduce,
			       .dtype = BB_FLOAT,
			       .shape = {.nranks = me->n, .count = COUNT}};
	struct hang *hang = argument;
	char *memory;
	float number;

	CHECK(me, me->backend->alloc(me->handle, BYTES, (void **)&memory) == BB_OK);
	call.in = call.out = memory;
	CHECK(me, me->backend->choose(me->world, &call) == BB_OK);
	if (me->rank == 0) {
		abandon_others(me, hang);
		return;
	}
	CHECK(me, me->backend->collective(me->world, NULL, &call) == BB_OK);
	atomic_fetch_add(&hang->inside, 1);
	if (me->rank == 1)
		CHECK(me, me->backend->fill(me->handle, memory, &p, 0, COUNT) == BB_ETIMEOUT);
	else
		CHECK(me, me->backend->copy(me->handle, &number, memory, 4) == BB_ETIMEOUT);
}

/* Between the beginning and the end of a batch. */
static void leave_in_batch(struct one *me, void *argument)
{
	struct bb_call call = {.collective = &bb_all_reduce,
			       .dtype = BB_FLOAT,
			       .shape = {.nranks = me->n, .count = COUNT}};
	char *memory;

	CHECK(me, me->backend->alloc(me->handle, BYTES, (void **)&memory) == BB_OK);
	call.in = call.out = memory;
	CHECK(me, me->backend->choose(me->world, &call) == BB_OK);
	CHECK(me, me->backend->gpu->batch(me->handle, false) == BB_OK);
	CHECK(me, me->backend->collective(me->world, NULL, &call) == BB_OK);
	CHECK(me, me->backend->barrier(me->world) == BB_OK);
	me->backend->abort(me->context);
}

static void abandon(ranks_job *job, struct hang *hang)
{
	struct gpus g;
	int failures;

	atomic_store(&hang->inside, 0);
	gpus_open(&g, N, NULL);
	failures = ranks_run(&g.ranks, job, hang);
	gpus_close_abandoned(&g);
	assert_int_equal(failures, 0);
}

static void test_abort(void **state)
{
	struct hang hang = {0};

	abandon(stay_away, &hang);
	abandon(stay_away_from_fill, &hang);
	abandon(leave_in_batch, &hang);
}

/* ---- wrong use
 * -----------------------------------------------------------------------------------------------
 */

static void call_unready(struct one *me, void *argument)
{
	struct bb_call call = {.collective = &bb_all_reduce,
			       .native = way_named("ring"),
			       .dtype = BB_FLOAT,
			       .shape = {.nranks = me->n}};

	CHECK(me, me->backend->collective(me->world, NULL, &call) == BB_EINTERNAL);
}

static void test_unready(void **state)
{
	on_gpus(2, NULL, call_unready, NULL);
}

static void test_config(void **state)
{
	const struct bb_world world = {.nranks = 1, .nprocs = 1, .nlocal = 1};
	const struct bb_backend_config none = {0};
	struct bb_context *context;
	struct bb_error error = {0};

	assert_int_equal(bb_plugin_backend.open(&context, &world, &none, &error), BB_EINTERNAL);
	assert_non_null(strstr(error.text, "no exchange"));
}

/* A word that NCCL does not know makes the first communicator fail, in its own words. */
static void test_bad_environment(void **state)
{
	struct world w;

	setenv("NCCL_ALGO", "Ring,Tee", 1);
	assert_int_equal(play_all(&w), BB_OK);
	unsetenv("NCCL_ALGO");
	for (int i = 0; i < N; i++)
		assert_true(w.players[i].status != BB_OK);
	assert_non_null(
		strstr(w.error.text, "ncclCommInitRankConfig failed in src/backends/nccl/"));
	assert_non_null(strstr(w.error.text, "Unrecognized element token \"Tee\""));
	fake_forget_memory();
	gpus_left_nothing();
}

/* ---- several processes
 * --------------------------------------------------------------------------------------- */

/* Two contexts in one process stand for two processes. */
struct process {
	struct meeting *meeting;
	int first;
	int nlocal;
	struct bb_context *context;
	struct bb_error error;
};

struct member {
	struct process *process;
	pthread_t thread;
	int local;
	bool well;
};

static bb_status gather(void *own, int local, const struct bb_payload *table, const void *mine,
			void *all)
{
	const struct process *p = own;
	const struct bb_exchange exchange = meeting_exchange(p->meeting);

	return exchange.gather(exchange.own, p->first + local, table, mine, all);
}

static void *take_part(void *argument)
{
	const int everybody[] = {0, 1, 2};
	struct member *me = argument;
	struct process *p = me->process;
	struct stage s = {.backend = &bb_plugin_backend};
	struct bb_location l;
	double offset, uncertainty;

	me->well = s.backend->attach(p->context, me->local, &s.rank, &l, &p->error) == BB_OK &&
		   s.backend->group_open(s.rank, everybody, N, &s.all, &p->error) == BB_OK &&
		   s.backend->alloc(s.rank, BYTES, (void **)&s.in) == BB_OK &&
		   s.backend->alloc(s.rank, BYTES, (void **)&s.out) == BB_OK &&
		   call_one(&s, &bb_all_gather, NULL, NULL, BB_SUM, false) == BB_OK &&
		   s.backend->clocks->offset(s.rank, &offset, &uncertainty) == BB_OK;
	/* It is one clock. */
	me->well = me->well && l.device == p->first + me->local && uncertainty < 1 &&
		   offset <= uncertainty && -offset <= uncertainty &&
		   (uncertainty > 0) == (p->first + me->local > 0);
	s.backend->group_close(s.all);
	s.backend->detach(s.rank);
	return NULL;
}

static void test_processes(void **state)
{
	struct meeting meeting;
	struct process processes[2] = {{&meeting, 0, 1, NULL, {0}}, {&meeting, 1, 2, NULL, {0}}};
	struct member members[N] = {{&processes[0], 0, 0, false},
				    {&processes[1], 0, 0, false},
				    {&processes[1], 0, 1, false}};

	meeting_open(&meeting, N);
	for (int i = 0; i < 2; i++) {
		struct process *p = &processes[i];
		const struct bb_world world = {.nranks = N,
					       .nprocs = 2,
					       .proc = i,
					       .first_rank = p->first,
					       .nlocal = p->nlocal};
		const struct bb_backend_config config = {.exchange = {.gather = gather, .own = p},
							 .ranks_before = p->first};

		assert_int_equal(bb_plugin_backend.open(&p->context, &world, &config, &p->error),
				 BB_OK);
	}
	for (int i = 0; i < N; i++)
		assert_int_equal(pthread_create(&members[i].thread, NULL, take_part, &members[i]),
				 0);
	for (int i = 0; i < N; i++)
		pthread_join(members[i].thread, NULL);
	for (int i = 0; i < 2; i++)
		bb_plugin_backend.close(processes[i].context);
	meeting_close(&meeting);
	for (int i = 0; i < N; i++)
		if (!members[i].well)
			fail_msg("rank %d: %s", i, members[i].process->error.text);
	gpus_left_nothing();
}

static int forget_failures(void **state)
{
	fake_reset();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_every_call, forget_failures),
		cmocka_unit_test_setup(test_abort, forget_failures),
		cmocka_unit_test_setup(test_unready, forget_failures),
		cmocka_unit_test_setup(test_config, forget_failures),
		cmocka_unit_test_setup(test_bad_environment, forget_failures),
		cmocka_unit_test_setup(test_processes, forget_failures),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
