/*
 * What the nccl backend has beside collectives: ways to switch between, batches, graphs, queues and
 * events, registered buffers, groups, patterns, and which device is whose.
 */
#include "backends/gpu.h"
#include "backends/graphs.h"
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

#define N 4
#define COUNT 1000

/* ---- sums of numbers that are easy to know ------------------------------------------- */

struct sums {
	int32_t *in, *out;
	char *tmp;
	struct bb_call call;
};

static void sums_open(struct one *me, struct sums *s)
{
	int32_t numbers[COUNT];

	CHECK(me, me->backend->alloc(me->handle, sizeof(numbers), (void **)&s->in) == BB_OK);
	CHECK(me, me->backend->alloc(me->handle, sizeof(numbers), (void **)&s->out) == BB_OK);
	CHECK(me, me->backend->alloc(me->handle, 4 * sizeof(numbers), (void **)&s->tmp) == BB_OK);
	for (int i = 0; i < COUNT; i++)
		numbers[i] = i + 1000 * me->rank;
	CHECK(me, me->backend->copy(me->handle, s->in, numbers, sizeof(numbers)) == BB_OK);
	s->call = (struct bb_call){.collective = &bb_all_reduce,
				   .dtype = BB_INT32,
				   .op = BB_SUM,
				   .shape = {.nranks = me->n, .count = COUNT},
				   .in = s->in,
				   .out = s->out,
				   .tmp = s->tmp};
	CHECK(me, me->backend->choose(me->world, &s->call) == BB_OK);
}

static void sums_close(struct one *me, struct sums *s)
{
	me->backend->release(me->handle, s->in, COUNT * 4);
	me->backend->release(me->handle, s->out, COUNT * 4);
	me->backend->release(me->handle, s->tmp, 4 * COUNT * 4);
}

static void forget(struct one *me, const struct sums *s)
{
	const int32_t none[COUNT] = {0};

	CHECK(me, me->backend->copy(me->handle, s->out, none, sizeof(none)) == BB_OK);
}

/* OUT is the sum over the ranks of MEMBERS, of which there are n. */
static bool is_sum(struct one *me, const struct sums *s, const int *members, int n)
{
	int32_t got[COUNT];
	bool right = true;

	CHECK(me, me->backend->copy(me->handle, got, s->out, sizeof(got)) == BB_OK);
	for (int i = 0; i < COUNT; i++) {
		int32_t sum = 0;

		for (int m = 0; m < n; m++)
			sum += i + 1000 * members[m];
		right = right && got[i] == sum;
	}
	return right;
}

static bool is_sum_of_all(struct one *me, const struct sums *s)
{
	const int members[] = {0, 1, 2, 3, 4, 5, 6, 7};

	return is_sum(me, s, members, me->n);
}

/* ---- ways ---------------------------------------------------------------------------- */

static void switch_ways(struct one *me, void *argument)
{
	static const char *const names[] = {"ring",       "tree", "ring:LL", "auto:Simple",
					    "tree:LL128", "ring", "ring"};
	const struct bb_native *automatic;
	struct sums s;

	sums_open(me, &s);
	automatic = s.call.native;
	CHECK(me, me->backend->collective(me->world, NULL, &s.call) == BB_OK);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		forget(me, &s);
		s.call.native = way_named(names[i]);
		CHECK(me, me->backend->gpu->ready(me->world, &s.call) == BB_OK);
		CHECK(me, strcmp(getenv("NCCL_ALGO"), "Tree") == 0 && !getenv("NCCL_PROTO"));
		CHECK(me, me->backend->refuses(me->world, &s.call) == NULL);
		CHECK(me, me->backend->collective(me->world, NULL, &s.call) == BB_OK);
		CHECK(me, is_sum_of_all(me, &s));
	}
	s.call.native = automatic;
	CHECK(me, me->backend->gpu->ready(me->world, &s.call) == BB_OK);
	CHECK(me, me->backend->collective(me->world, NULL, &s.call) == BB_OK);
	CHECK(me, me->backend->finish(me->handle, NULL) == BB_OK);
	sums_close(me, &s);
}

static void test_switch_ways(void **state)
{
	const int before = fake_calls("ncclCommInitRankConfig");

	setenv("NCCL_ALGO", "Tree", 1);
	on_gpus(N, NULL, switch_ways, NULL);
	unsetenv("NCCL_ALGO");
	/* auto, six ways of which the last is asked for twice, and auto again */
	assert_int_equal(fake_calls("ncclCommInitRankConfig") - before, 8 * N);
}

/* What NCCL has no such algorithm for is refused in its words; then all goes on. */
static void ask_in_vain(struct one *me, void *argument)
{
	const char *reason;
	struct sums s;

	sums_open(me, &s);
	s.call.native = way_named("nvls");
	CHECK(me, me->backend->gpu->ready(me->world, &s.call) == BB_OK);
	reason = me->backend->refuses(me->world, &s.call);
	CHECK(me, reason && strstr(reason, "No algorithm/protocol available") &&
			  strstr(reason, "NCCL_ALGO was set to NVLS"));
	s.call.op = BB_MAX; /* of another call it is not known */
	CHECK(me, me->backend->refuses(me->world, &s.call) == NULL);
	s.call.op = BB_SUM;
	s.call.native = way_named("ring");
	CHECK(me, me->backend->gpu->ready(me->world, &s.call) == BB_OK);
	CHECK(me, me->backend->refuses(me->world, &s.call) == NULL);
	CHECK(me, me->backend->collective(me->world, NULL, &s.call) == BB_OK);
	CHECK(me, is_sum_of_all(me, &s));
	sums_close(me, &s);
}

static void test_refused_by_library(void **state)
{
	on_gpus(N, NULL, ask_in_vain, NULL);
}

static const char *refusal(const char *way, const struct bb_collective *collective)
{
	return way_named(way)->refuses(way_named(way), collective);
}

static void test_refused_beforehand(void **state)
{
	assert_null(refusal("ring", &bb_broadcast));
	assert_non_null(refusal("tree", &bb_broadcast));
	assert_non_null(refusal("pat", &bb_all_reduce));
	assert_null(refusal("pat", &bb_all_gather));
	assert_non_null(refusal("ring", &bb_alltoall));
	assert_non_null(refusal("auto:LL", &bb_sendrecv));
	assert_non_null(refusal("ring", &bb_hypercube));
}

/* What the library has no operation for is done by a schedule of ours, on its own choice. */
static void choose_for(struct one *me, void *argument)
{
	struct sums s;

	sums_open(me, &s);
	CHECK(me, s.call.native && !s.call.schedule);
	s.call.op = BB_BXOR;
	CHECK(me, me->backend->refuses(me->world, &s.call) != NULL);
	CHECK(me, me->backend->choose(me->world, &s.call) == BB_OK);
	CHECK(me, !s.call.native && s.call.schedule);
	s.call.collective = &bb_hypercube;
	CHECK(me, me->backend->choose(me->world, &s.call) == BB_OK);
	CHECK(me, s.call.schedule && strcmp(s.call.schedule->name, "hypercube") == 0);
	sums_close(me, &s);
}

static void test_choose(void **state)
{
	on_gpus(N, NULL, choose_for, NULL);
}

/* ---- batches and graphs
 * ----------------------------------------------------------------------------- */

static void issue_batches(struct one *me, void *argument)
{
	struct bb_call second;
	struct sums s;

	sums_open(me, &s);
	CHECK(me, me->backend->gpu->batch_begin(me->handle) == BB_OK);
	for (int i = 0; i < 5; i++)
		CHECK(me, me->backend->collective(me->world, NULL, &s.call) == BB_OK);
	CHECK(me, me->backend->gpu->batch_end(me->handle) == BB_OK);
	CHECK(me, is_sum_of_all(me, &s));
	/* A schedule in a batch keeps its own order. */
	forget(me, &s);
	second = s.call;
	second.native = NULL;
	second.schedule = bb_algorithm_find(&bb_all_reduce, "ring");
	CHECK(me, me->backend->gpu->batch_begin(me->handle) == BB_OK);
	CHECK(me, me->backend->collective(me->world, NULL, &s.call) == BB_OK);
	CHECK(me, me->backend->collective(me->world, NULL, &second) == BB_OK);
	CHECK(me, me->backend->gpu->batch_end(me->handle) == BB_OK);
	CHECK(me, is_sum_of_all(me, &s));
	/* An empty one. */
	CHECK(me, me->backend->gpu->batch_begin(me->handle) == BB_OK);
	CHECK(me, me->backend->gpu->batch_end(me->handle) == BB_OK);
	sums_close(me, &s);
}

static void test_batches(void **state)
{
	const int before = fake_calls("ncclGroupStart");

	on_gpus(N, NULL, issue_batches, NULL);
	assert_true(fake_calls("ncclGroupStart") > before);
}

/* Each launch adds the input once more. */
static void launch_graphs(struct one *me, void *argument)
{
	const char *const schedule = argument;
	struct bb_graph *graph = NULL;
	struct sums s;

	sums_open(me, &s);
	if (schedule) {
		s.call.native = NULL;
		s.call.schedule = bb_algorithm_find(&bb_all_reduce, schedule);
		CHECK(me, me->backend->tmp_bytes(me->world, &s.call) <= 4 * COUNT * 4);
	}
	forget(me, &s);
	CHECK(me, me->backend->graphs->begin(me->handle, NULL) == BB_OK);
	for (int i = 0; i < 3; i++)
		CHECK(me, me->backend->collective(me->world, NULL, &s.call) == BB_OK);
	CHECK(me, me->backend->graphs->end(me->handle, NULL, &graph) == BB_OK);
	CHECK(me, me->backend->finish(me->handle, NULL) == BB_OK);
	CHECK(me, !is_sum_of_all(me, &s)); /* kept, not done */
	for (int i = 0; i < 4; i++) {
		forget(me, &s);
		CHECK(me, me->backend->graphs->launch(me->handle, NULL, graph) == BB_OK);
		CHECK(me, me->backend->finish(me->handle, NULL) == BB_OK);
		CHECK(me, is_sum_of_all(me, &s));
	}
	me->backend->graphs->close(graph);
	me->backend->graphs->close(NULL);
	sums_close(me, &s);
}

static void test_graphs(void **state)
{
	char schedule[] = "ring";

	on_gpus(N, NULL, launch_graphs, NULL);
	on_gpus(N, NULL, launch_graphs, schedule);
}

/* ---- queues and events
 * -------------------------------------------------------------------------------- */

static void nap(void *argument)
{
	const struct timespec t = {.tv_nsec = 20000000};

	nanosleep(&t, NULL);
	atomic_fetch_add((atomic_int *)argument, 1);
}

static void use_queues(struct one *me, void *argument)
{
	struct bb_error error = {0};
	struct bb_event *events[2];
	struct bb_queue *queue;
	atomic_int naps = 0;
	struct sums s;
	double seconds;

	sums_open(me, &s);
	CHECK(me, me->backend->queue_open(me->handle, &queue, &error) == BB_OK);
	for (int i = 0; i < 2; i++)
		CHECK(me, me->backend->event_open(me->handle, &events[i], &error) == BB_OK);
	CHECK(me, me->backend->event_record(me->handle, queue, events[0]) == BB_OK);
	CHECK(me, me->backend->compute(me->handle, queue, nap, &naps) == BB_OK);
	CHECK(me, atomic_load(&naps) == 0);
	CHECK(me, me->backend->collective(me->world, queue, &s.call) == BB_OK);
	CHECK(me, me->backend->event_record(me->handle, queue, events[1]) == BB_OK);
	CHECK(me, me->backend->event_wait(me->handle, NULL, events[1]) == BB_OK);
	CHECK(me, is_sum_of_all(me, &s)); /* read by the main queue, after the event */
	CHECK(me, atomic_load(&naps) == 1);
	CHECK(me, me->backend->gpu->elapsed(me->handle, events[0], events[1], &seconds) == BB_OK);
	CHECK(me, seconds >= 0.02 && seconds < 10);
	CHECK(me, me->backend->finish(me->handle, queue) == BB_OK);
	CHECK(me, me->backend->compute(me->handle, queue, nap, &naps) == BB_OK);
	me->backend->queue_close(queue); /* drains */
	CHECK(me, atomic_load(&naps) == 2);
	me->backend->queue_close(NULL);
	me->backend->event_close(NULL);
	for (int i = 0; i < 2; i++)
		me->backend->event_close(events[i]);
	sums_close(me, &s);
}

static void test_queues(void **state)
{
	const struct bb_backend_config plain = {.default_stream = true};

	on_gpus(N, NULL, use_queues, NULL);
	on_gpus(N, &plain, use_queues, NULL);
}

/* ---- registered buffers
 * ----------------------------------------------------------------------------- */

static void use_registered(struct one *me, void *argument)
{
	struct sums s;
	void *more;

	sums_open(me, &s);
	for (int i = 0; i < 3; i++) {
		s.call.native = i == 1 ? way_named("ring") : NULL;
		if (!s.call.native)
			CHECK(me, me->backend->choose(me->world, &s.call) == BB_OK);
		CHECK(me, me->backend->gpu->ready(me->world, &s.call) == BB_OK);
		CHECK(me, me->backend->collective(me->world, NULL, &s.call) == BB_OK);
		CHECK(me, is_sum_of_all(me, &s));
	}
	CHECK(me, me->backend->alloc(me->handle, 5000, &more) == BB_OK);
	CHECK(me, me->backend->gpu->ready(me->world, &s.call) == BB_OK);
	me->backend->release(me->handle, more, 5000);
	sums_close(me, &s);
}

static void test_registration(void **state)
{
	const struct bb_backend_config local = {.registration = BB_REGISTER_LOCAL};
	const struct bb_backend_config windows = {.registration = BB_REGISTER_SYMMETRIC};

	fake_reset();
	on_gpus(N, NULL, use_registered, NULL);
	assert_int_equal(fake_calls("ncclCommRegister"), 0);
	on_gpus(N, &local, use_registered, NULL);
	/* three buffers known to three communicators, and one more to the last */
	assert_int_equal(fake_calls("ncclCommRegister"), 10 * N);
	assert_int_equal(fake_calls("ncclCommDeregister"), 10 * N);
	on_gpus(N, &windows, use_registered, NULL);
	assert_int_equal(fake_calls("ncclCommWindowRegister"), 10 * N);
}

/* ---- groups
 * --------------------------------------------------------------------------------------------- */

/* Even and odd ranks apart, in another order than in the world; both at the same time. */
static void use_groups(struct one *me, void *argument)
{
	const int even[] = {4, 0, 2}, odd[] = {3, 1};
	const int *const members = me->rank % 2 ? odd : even;
	const int n = me->rank % 2 ? 2 : 3;
	struct bb_error error = {0};
	struct bb_group *group = NULL;
	struct sums s;

	CHECK(me, me->backend->group_open(me->handle, members, n, &group, &error) == BB_OK);
	sums_open(me, &s);
	s.call.shape.nranks = n;
	for (int i = 0; i < 4; i++) {
		s.call.native = i == 2 ? way_named("tree") : NULL;
		if (i == 3)
			s.call.schedule = bb_algorithm_find(&bb_all_reduce, "ring");
		else if (i != 2)
			CHECK(me, me->backend->choose(group, &s.call) == BB_OK);
		CHECK(me, i == 0 || me->backend->gpu->ready(group, &s.call) == BB_OK);
		forget(me, &s);
		CHECK(me, me->backend->collective(group, NULL, &s.call) == BB_OK);
		CHECK(me, me->backend->barrier(group) == BB_OK);
		CHECK(me, is_sum(me, &s, members, n));
	}
	me->backend->group_close(group);
	me->backend->group_close(NULL);
	sums_close(me, &s);
}

static void test_groups(void **state)
{
	on_gpus(5, NULL, use_groups, NULL);
}

/* ---- patterns and places
 * ---------------------------------------------------------------------------------- */

static void use_patterns(struct one *me, void *argument)
{
	enum { PERIOD = 1021, LENGTH = 5000 };
	uint16_t *table = malloc(2 * PERIOD * sizeof(*table)), *memory, one;
	struct bb_pattern p = {table, PERIOD, sizeof(*table), 77 + (uint64_t)me->rank};
	uint64_t wrong = 1;

	for (int i = 0; i < PERIOD; i++)
		table[i] = table[PERIOD + i] = (uint16_t)(i * 31 + me->rank);
	CHECK(me, me->backend->alloc(me->handle, LENGTH * 2, (void **)&memory) == BB_OK);
	CHECK(me, ((uintptr_t)memory & 4095) == 0);
	CHECK(me, me->backend->fill(me->handle, memory, &p, 3, LENGTH) == BB_OK);
	CHECK(me,
	      me->backend->verify(me->handle, memory, &p, 3, LENGTH, BB_HALF, 0, &wrong) == BB_OK);
	CHECK(me, wrong == 1);
	CHECK(me, me->backend->copy(me->handle, &one, &memory[999], 2) == BB_OK);
	one ^= 1;
	CHECK(me, me->backend->copy(me->handle, &memory[999], &one, 2) == BB_OK);
	CHECK(me,
	      me->backend->verify(me->handle, memory, &p, 3, LENGTH, BB_HALF, 0, &wrong) == BB_OK);
	CHECK(me, wrong == 2);
	p.period = 5;
	CHECK(me, me->backend->fill(me->handle, memory, &p, 0, 10) == BB_EINTERNAL);
	me->backend->release(me->handle, memory, LENGTH * 2);
	free(table);
}

static void test_patterns(void **state)
{
	on_gpus(2, NULL, use_patterns, NULL);
}

static void look_around(struct one *me, void *argument)
{
	struct bb_location l;

	me->backend->locate(me->handle, &l);
	CHECK(me, l.device == me->rank && strcmp(l.name, "Fake GPU") == 0);
	CHECK(me, strncmp(l.bus, "0000:", 5) == 0 && strlen(l.bus) == 10);
	CHECK(me, l.host[0] && l.pid > 0);
	CHECK(me, me->backend->memory_available(me->context) <= (uint64_t)me->n << 30);
	CHECK(me, me->backend->memory_available(me->context) >= (uint64_t)me->n << 29);
}

static void test_locations(void **state)
{
	on_gpus(N, NULL, look_around, NULL);
}

/* ---- whose device is which
 * ---------------------------------------------------------------------------------- */

static bb_status nothing(void *own, int local, const struct bb_payload *table, const void *mine,
			 void *all)
{
	return BB_OK;
}

/* Status of opening NLOCAL ranks behind BEFORE others where GPUS are seen. */
static bb_status open_status(const char *gpus, int nlocal, int before, struct bb_error *error)
{
	const struct bb_world world = {.nranks = nlocal, .nprocs = 1, .nlocal = nlocal};
	const struct bb_backend_config config = {.exchange = {.gather = nothing},
						 .ranks_before = before};
	struct bb_context *context = NULL;
	bb_status status;

	*error = (struct bb_error){0};
	setenv("BUSBENCH_FAKE_GPUS", gpus, 1);
	status = bb_plugin_backend.open(&context, &world, &config, error);
	if (status == BB_OK)
		bb_plugin_backend.close(context);
	unsetenv("BUSBENCH_FAKE_GPUS");
	return status;
}

static void test_devices(void **state)
{
	struct bb_error error;

	assert_int_equal(open_status("4", 4, 0, &error), BB_OK);
	assert_int_equal(open_status("4", 2, 2, &error), BB_OK);
	assert_int_equal(open_status("1", 1, 3, &error), BB_OK); /* each process sees its own */
	assert_int_equal(open_status("4", 8, 0, &error), BB_EUSAGE);
	assert_non_null(strstr(error.text, "8 GPUs are asked for on this host, 4 are there"));
	assert_int_equal(open_status("4", 2, 4, &error), BB_EUSAGE);
	assert_non_null(strstr(error.text, "6 GPUs are asked for on this host, 4 are there"));
	assert_int_equal(open_status("0", 1, 0, &error), BB_EBACKEND);
	assert_non_null(strstr(error.text, "finds no GPU: no CUDA-capable device is detected"));
	setenv("NCCL_TESTS_DEVICE", "3", 1);
	assert_int_equal(open_status("4", 1, 7, &error), BB_OK);
	assert_int_equal(open_status("4", 2, 0, &error), BB_EUSAGE);
	setenv("NCCL_TESTS_DEVICE", "4", 1);
	assert_int_equal(open_status("4", 1, 0, &error), BB_EUSAGE);
	assert_non_null(strstr(error.text, "NCCL_TESTS_DEVICE=4"));
	setenv("NCCL_TESTS_DEVICE", "x", 1);
	assert_int_equal(open_status("4", 1, 0, &error), BB_EUSAGE);
	unsetenv("NCCL_TESTS_DEVICE");
	setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
	assert_int_equal(open_status("1", 4, 0, &error), BB_OK);
	unsetenv("NCCL_MULTI_RANK_GPU_ENABLE");
}

static void share_a_device(struct one *me, void *argument)
{
	struct bb_location l;
	struct sums s;

	me->backend->locate(me->handle, &l);
	CHECK(me, l.device == me->rank % 2);
	sums_open(me, &s);
	CHECK(me, me->backend->collective(me->world, NULL, &s.call) == BB_OK);
	CHECK(me, is_sum_of_all(me, &s));
	sums_close(me, &s);
}

static void test_shared_devices(void **state)
{
	setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
	setenv("BUSBENCH_FAKE_GPUS", "2", 1);
	on_gpus(N, NULL, share_a_device, NULL);
	unsetenv("BUSBENCH_FAKE_GPUS");
	unsetenv("NCCL_MULTI_RANK_GPU_ENABLE");
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_switch_ways),
					   cmocka_unit_test(test_refused_by_library),
					   cmocka_unit_test(test_refused_beforehand),
					   cmocka_unit_test(test_choose),
					   cmocka_unit_test(test_batches),
					   cmocka_unit_test(test_graphs),
					   cmocka_unit_test(test_queues),
					   cmocka_unit_test(test_registration),
					   cmocka_unit_test(test_groups),
					   cmocka_unit_test(test_patterns),
					   cmocka_unit_test(test_locations),
					   cmocka_unit_test(test_devices),
					   cmocka_unit_test(test_shared_devices)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
