/*
 * How often the nccl backend calls NCCL, which algorithms that has, and which device is whose: what
 * only stand-ins tell, or only they have.
 */
#include "backends/gpu.h"
#include "backends/graphs.h"
#include "backends/library.h"
#include "backends/messages.h"
#include "backends/nccl/kernels.h"
#include "backends/routes.h"
#include "backends/spaces.h"
#include "fake.h"
#include "gpus.h"
#include "sums.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define N 4

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
		sums_forget(me, &s);
		s.call.native = way_named(names[i]);
		CHECK(me, me->backend->gpu->ready(me->world, &s.call) == BB_OK);
		CHECK(me, strcmp(getenv("NCCL_ALGO"), "Tree") == 0 && !getenv("NCCL_PROTO"));
		CHECK(me, me->backend->refuses(me->world, &s.call) == NULL);
		CHECK(me, me->backend->collective(me->world, NULL, &s.call) == BB_OK);
		CHECK(me, sums_are_of_all(me, &s));
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
	CHECK(me, reason && strstr(reason, "No algorithm/protocol") &&
			  strstr(reason, "NCCL_ALGO was set to NVLS"));
	s.call.op = BB_MAX; /* of another call it is not known */
	CHECK(me, me->backend->refuses(me->world, &s.call) == NULL);
	s.call.op = BB_SUM;
	s.call.native = way_named("ring");
	CHECK(me, me->backend->gpu->ready(me->world, &s.call) == BB_OK);
	CHECK(me, me->backend->refuses(me->world, &s.call) == NULL);
	CHECK(me, me->backend->collective(me->world, NULL, &s.call) == BB_OK);
	CHECK(me, sums_are_of_all(me, &s));
	sums_close(me, &s);
}

static void test_refused_by_library(void **state)
{
	on_gpus(N, NULL, ask_in_vain, NULL);
}

/* A batch is a group of the library's. */
static void issue_batch(struct one *me, void *argument)
{
	struct sums s;

	sums_open(me, &s);
	CHECK(me, me->backend->gpu->batch(me->handle, false) == BB_OK);
	CHECK(me, me->backend->collective(me->world, NULL, &s.call) == BB_OK);
	CHECK(me, me->backend->gpu->batch(me->handle, true) == BB_OK);
	sums_close(me, &s);
}

static void test_batch(void **state)
{
	const int before = fake_calls("ncclGroupStart");

	on_gpus(N, NULL, issue_batch, NULL);
	assert_int_equal(fake_calls("ncclGroupStart") - before, N);
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
		CHECK(me, sums_are_of_all(me, &s));
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

static void look_around(struct one *me, void *argument)
{
	const struct bb_location l = me->location;

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
	assert_non_null(strstr(error.text, "8 GPUs are requested on this host, but only 4 exist"));
	assert_int_equal(open_status("4", 2, 4, &error), BB_EUSAGE);
	assert_non_null(strstr(error.text, "6 GPUs are requested on this host, but only 4 exist"));
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
	struct sums s;

	CHECK(me, me->location.device == me->rank % 2);
	sums_open(me, &s);
	CHECK(me, me->backend->collective(me->world, NULL, &s.call) == BB_OK);
	CHECK(me, sums_are_of_all(me, &s));
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

/* ---- without the library
 * ---------------------------------------------------------------------------------- */

#define TOGETHER 3 /* of N ranks are in a group */
#define MEETINGS 100

struct reached {
	struct bb_token tokens[N];
	atomic_int arrived;
};

/* Nobody leaves a barrier before all have come. */
static void meet_often(struct one *me, struct reached *all, struct bb_group *group)
{
	for (int i = 1; i <= MEETINGS; i++) {
		atomic_fetch_add(&all->arrived, 1);
		CHECK(me, me->backend->barrier(group) == BB_OK);
		CHECK(me, atomic_load(&all->arrived) >= TOGETHER * i);
		CHECK(me, me->backend->barrier(group) == BB_OK);
	}
}

static void do_without(struct one *me, void *argument)
{
	const int members[TOGETHER] = {2, 0, 3};
	const struct bb_backend *const b = me->backend;
	struct reached *all = argument;
	struct bb_call call = {.collective = &bb_all_reduce, .native = way_named("ring")};
	struct bb_group *group = NULL;
	struct bb_error error = {0};
	void *memory, *theirs[N];

	CHECK(me, b->alloc(me->handle, 4096, &memory) == BB_OK);
	CHECK(me, b->routes->share(me->handle, memory, 4096, &all->tokens[me->rank]) == BB_OK);
	CHECK(me, b->barrier(me->world) == BB_OK);
	for (int r = 0; r < N; r++)
		CHECK(me,
		      b->routes->reach(me->world, r, &all->tokens[r], &theirs[r], &error) == BB_OK);
	if (me->rank != 1) {
		CHECK(me, b->group_open(me->handle, members, TOGETHER, &group, &error) == BB_OK);
		meet_often(me, all, group);
	}
	CHECK(me, b->gpu->ready(me->world, &call) == BB_EBACKEND);
	b->group_close(group);
	for (int r = 0; r < N; r++)
		b->routes->unreach(me->world, r, theirs[r]);
	b->release(me->handle, memory, 4096);
}

/* Those that do not reach each other cannot meet. */
static void open_too_early(struct one *me, void *argument)
{
	const int members[2] = {me->rank & ~1, me->rank | 1};
	struct bb_group *group = NULL;
	struct bb_error error = {0};

	CHECK(me, me->backend->group_open(me->handle, members, 2, &group, &error) == BB_EBACKEND);
}

static void test_without_library(void **state)
{
	const struct bb_backend_config optional = {.reached = true, .library_optional = true};
	struct reached all = {.arrived = 0};
	struct bb_error error;

	setenv("BUSBENCH_FAKE_NCCL", "0", 1);
	fake_reset();
	on_gpus(N, &optional, do_without, &all);
	on_gpus(N, &optional, open_too_early, NULL);
	for (int i = 0; fake_function(i); i++)
		if (strncmp(fake_function(i), "nccl", 4) == 0)
			assert_int_equal(fake_calls(fake_function(i)), 0);
	assert_int_equal(open_status("4", 4, 0, &error), BB_EBACKEND);
	assert_non_null(strstr(error.text, "needs NCCL 2.18 or newer"));
	unsetenv("BUSBENCH_FAKE_NCCL");
}

/* A kernel that takes time needs nothing that CUDA may delay until the device is idle: neither
   memory nor a kernel that is not loaded yet. */
static void spin_at_once(struct one *me, void *argument)
{
	struct bb_error error = {0};
	struct bb_queue *queue;

	CHECK(me, fake_calls("cudaLaunchKernel") > 0);
	CHECK(me, me->backend->queue_open(me->handle, &queue, &error) == BB_OK);
	fake_reset();
	CHECK(me, me->backend->gpu->spin(me->handle, queue, 1e-4) == BB_OK);
	CHECK(me, fake_calls("cudaLaunchKernel") == 1);
	CHECK(me, fake_calls("cudaMallocHost") == 0);
	me->backend->queue_close(queue);
}

static void test_spin_is_prepared(void **state)
{
	fake_reset();
	on_gpus(1, NULL, spin_at_once, NULL);
}

/* An H100 has room for 2048 threads in each of 132 multiprocessors, compute capability 7.5 for
   1024. */
static void test_blocks(void **state)
{
	assert_int_equal(bb_gpu_blocks(132, 2048), 132 * 5);
	assert_int_equal(bb_gpu_blocks(40, 1024), 40 * 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_switch_ways),
					   cmocka_unit_test(test_refused_by_library),
					   cmocka_unit_test(test_batch),
					   cmocka_unit_test(test_registration),
					   cmocka_unit_test(test_locations),
					   cmocka_unit_test(test_devices),
					   cmocka_unit_test(test_shared_devices),
					   cmocka_unit_test(test_without_library),
					   cmocka_unit_test(test_spin_is_prepared),
					   cmocka_unit_test(test_blocks)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
