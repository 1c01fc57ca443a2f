/*
 * The host backend from outside: messages and the counters behind them, the three modes of
 * `direct` one after another, groups, barriers, aborts, pacing. Where a machine has more
 * or fewer cores than a case wants, the test says itself whether the ranks are crowded.
 */
#include "backends/host/host.h"
#include "ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define MOST 4096 /* elements of a buffer */

struct buffers {
	int32_t *in, *out;
	void *tmp;
};

static void buffers_open(struct one *me, struct buffers *b)
{
	const struct bb_backend *host = me->backend;

	CHECK(me, host->alloc(me->handle, 4 * MOST, (void **)&b->in) == BB_OK);
	CHECK(me, host->alloc(me->handle, 4 * MOST, (void **)&b->out) == BB_OK);
	CHECK(me, host->alloc(me->handle, 16 * MOST, &b->tmp) == BB_OK);
}

static void buffers_close(struct one *me, struct buffers *b)
{
	me->backend->release(me->handle, b->in, 4 * MOST);
	me->backend->release(me->handle, b->out, 4 * MOST);
	me->backend->release(me->handle, b->tmp, 16 * MOST);
}

static struct bb_call call_of(const struct buffers *b, const struct bb_collective *collective,
			      const char *algorithm, int n, size_t count)
{
	const struct bb_algorithm *schedule = bb_algorithm_find(collective, algorithm);

	return (struct bb_call){.collective = collective,
				.schedule = schedule,
				.native = schedule ? NULL : &bb_host_natives[0],
				.dtype = BB_INT32,
				.op = BB_SUM,
				.shape = {.nranks = n, .count = count},
				.in = b->in,
				.out = b->out,
				.tmp = b->tmp};
}

static int32_t value_of(int rank, uint32_t call, size_t i)
{
	return (int32_t)((uint32_t)rank * 1000003u + call * 10007u + (uint32_t)i);
}

static void fill(int32_t *in, int rank, uint32_t call, size_t count)
{
	for (size_t i = 0; i < count; i++)
		in[i] = value_of(rank, call, i);
}

static int32_t sum_of(int n, uint32_t call, size_t i)
{
	uint32_t sum = 0;

	for (int r = 0; r < n; r++)
		sum += (uint32_t)value_of(r, call, i);
	return (int32_t)sum;
}

static bool is_sum(const int32_t *out, int n, uint32_t call, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (out[i] != sum_of(n, call, i))
			return false;
	return true;
}

static bool is_from(const int32_t *out, int rank, uint32_t call, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (out[i] != value_of(rank, call, i))
			return false;
	return true;
}

static void nap(double seconds)
{
	const struct timespec t = {.tv_sec = (time_t)seconds,
				   .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};

	nanosleep(&t, NULL);
}

/* Now and then a rank falls behind, each at its own calls. */
static void stumble(int rank, uint32_t call)
{
	if ((call * 2654435761u >> 7) % 97 == (uint32_t)rank)
		nap(100e-6);
}

/* ---- messages and direct, with counters anywhere ------------------------------------------ */

/* As if this rank had already made START calls of everything; the others do the same. */
static void set_counters(struct one *me, uint32_t start)
{
	struct bb_group *group = me->world;
	struct bb_host_team *team = group->team;
	struct bb_host_offer *offer = &team->offers[me->rank];

	for (int k = 0; k < me->n * BB_CHANNELS; k++) {
		struct bb_pipe *pipe = &team->pipes[me->rank * me->n * BB_CHANNELS + k];

		group->peers[k / BB_CHANNELS].sent[k % BB_CHANNELS] = start;
		group->peers[k / BB_CHANNELS].received[k % BB_CHANNELS] = start;
		atomic_store(&pipe->taken, start);
		for (uint32_t number = start; number != start - BB_SLOTS; number--)
			atomic_store(&pipe->slots[number % BB_SLOTS].sequence, number);
	}
	group->calls = group->entered = group->barriers = start;
	atomic_store(&offer->arrived, start);
	atomic_store(&offer->left, start);
	for (uint32_t number = start - 1; number != start + 1; number++)
		atomic_store(&offer->flat[number & 1].posted, number);
	atomic_store(&team->pool.arrived, start * (uint32_t)me->n);
	atomic_store(&team->pool.open, start);
	atomic_store(&team->pool.closed, start);
	atomic_store(&team->barrier_arrived, start * (uint32_t)me->n);
	atomic_store(&team->barrier_opened, start);
}

/* All ranks set their counters, none uses one before the others have. */
static void start_at(struct one *me, uint32_t start, atomic_int *ready)
{
	set_counters(me, start);
	atomic_fetch_add(ready, 1);
	while (atomic_load(ready) < me->n)
		nap(100e-6);
}

struct from {
	uint32_t start;
	atomic_int ready;
};

static void send_messages(struct one *me, void *argument)
{
	struct from *from = argument;
	const int previous = (me->rank + me->n - 1) % me->n;
	struct buffers b;

	start_at(me, from->start, &from->ready);
	buffers_open(me, &b);
	for (uint32_t k = 0; k < ROUNDS(3000); k++) {
		const size_t count = k % 3 == 0 ? 10 : k % 3 == 1 ? 11 : 200; /* in the slot, not */
		const struct bb_call call = call_of(&b, &bb_sendrecv, "ring", me->n, count);

		assert_non_null(call.schedule);
		fill(b.in, me->rank, k, count);
		stumble(me->rank, k);
		CHECK(me, me->backend->collective(me->world, NULL, &call) == BB_OK);
		CHECK(me, is_from(b.out, previous, k, count));
		if (k % 50 == 0)
			CHECK(me, me->backend->barrier(me->world) == BB_OK);
	}
	buffers_close(me, &b);
}

static void test_messages(void **state)
{
	static const uint32_t starts[] = {0, (uint32_t)-1000, 0x7fffff00u};

	for (int n = 2; n <= 5; n++)
		for (int i = 0; i < 3; i++) {
			struct from from = {.start = starts[i]};

			ranks_host(n, i % 2 == 0, send_messages, &from);
		}
}

/* Calls of all sizes and splits, so that flat and static (or pooled) ones alternate. */
static void run_direct(struct one *me, void *argument)
{
	struct from *from = argument;
	const size_t most = MOST / (size_t)me->n;
	struct buffers b;

	start_at(me, from->start, &from->ready);
	buffers_open(me, &b);
	for (uint32_t k = 0; k < ROUNDS(1500); k++) {
		const uint32_t x = (k + 1) * 2654435761u >> 8;
		const size_t count = x % 3 == 0 ? x / 3 % most : x / 3 % 60;
		const struct bb_collective *const kinds[] = {&bb_all_reduce, &bb_all_gather,
							     &bb_broadcast, &bb_sendrecv};
		struct bb_call call = call_of(&b, kinds[x / 7 % 4], "", me->n, count);

		if (call.collective == &bb_broadcast)
			call.shape.root = (int)(x % (uint32_t)me->n);
		fill(b.in, me->rank, k, count);
		stumble(me->rank, k);
		CHECK(me, me->backend->collective(me->world, NULL, &call) == BB_OK);
		if (call.collective == &bb_all_reduce)
			CHECK(me, is_sum(b.out, me->n, k, count));
		for (int r = 0; r < me->n && call.collective == &bb_all_gather; r++)
			CHECK(me, is_from(&b.out[(size_t)r * count], r, k, count));
		if (call.collective == &bb_broadcast)
			CHECK(me, is_from(b.out, call.shape.root, k, count));
		if (call.collective == &bb_sendrecv)
			CHECK(me, is_from(b.out, (me->rank + me->n - 1) % me->n, k, count));
		memset(b.in, 0x5a, 4 * count); /* mine again: nobody may still read it */
	}
	buffers_close(me, &b);
}

static void test_direct_modes(void **state)
{
	static const uint32_t starts[] = {0, (uint32_t)-700, 0x7fffff00u};

	for (int n = 1; n <= 4; n++)
		for (int i = 0; i < 3; i++)
			for (int crowded = 0; crowded < 2; crowded++) {
				struct from from = {.start = starts[i]};

				ranks_host(n, crowded, run_direct, &from);
			}
}

/* A mode that rested for more calls than half a counter's range must not look ahead of time. */
static void rest_long(struct one *me, void *argument)
{
	static const size_t modes[2][2] = {{4, 1000}, {1000, 4}}; /* flat is at most 2 KiB */
	struct buffers b;
	uint32_t k = 0;

	buffers_open(me, &b);
	for (int i = 0; i < 4; i++)
		for (int part = 0; part < 2; part++)
			for (int jump = 0; jump < 5; jump++, k++) {
				const size_t count = modes[i % 2][part];
				const struct bb_call call =
					call_of(&b, &bb_all_reduce, "", me->n, count);

				/* The first calls in a mode, then half a billion of them. */
				if (jump > 0 && jump < 4) {
					me->world->calls += (1u << 30) - 1;
					me->world->calls &= ~0xffffffu;
					me->world->calls -= 1;
					me->world->entered = me->world->calls;
				}
				CHECK(me, me->backend->barrier(me->world) == BB_OK);
				if (me->rank == 1)
					nap(2e-3);
				fill(b.in, me->rank, k, count);
				CHECK(me, me->backend->collective(me->world, NULL, &call) == BB_OK);
				CHECK(me, is_sum(b.out, me->n, k, count));
			}
	buffers_close(me, &b);
}

static void test_long_rest(void **state)
{
	ranks_host(2, false, rest_long, NULL);
}

/* More ranks than a kernel has streams. */
static void reduce_many(struct one *me, void *argument)
{
	const enum bb_op ops[] = {BB_SUM, BB_MULSUM, BB_AVG};
	struct buffers b;

	buffers_open(me, &b);
	for (int k = 0; k < 6; k++) {
		const size_t count = k < 3 ? 50 : 1000;
		struct bb_call call = call_of(&b, &bb_all_reduce, "", me->n, count);

		call.op = ops[k % 3];
		for (size_t i = 0; i < count; i++)
			b.in[i] = me->rank + (int)i;
		CHECK(me, me->backend->collective(me->world, NULL, &call) == BB_OK);
		for (size_t i = 0; i < count; i++) {
			int expected = 0;

			for (int r = 0; r < me->n; r++)
				expected += (r + (int)i) * (call.op == BB_MULSUM && r % 2 ? 2 : 1);
			CHECK(me, b.out[i] == (call.op == BB_AVG ? expected / me->n : expected));
		}
	}
	buffers_close(me, &b);
}

static void test_many_ranks(void **state)
{
	ranks_host(BB_KERNEL_STREAMS + 6, true, reduce_many, NULL);
	ranks_host(2 * BB_KERNEL_STREAMS + 1, true, reduce_many, NULL);
}

/* ---- groups and barriers --------------------------------------------------------------------- */

static void check_group(struct one *me, struct bb_group *group, const int *members, int n,
			struct buffers *b, uint32_t k)
{
	const size_t count = k % 2 ? 40 : 800;
	const struct bb_call call = call_of(b, &bb_all_gather, k % 3 ? "ring" : "", n, count);

	fill(b->in, me->rank, k, count);
	CHECK(me, me->backend->collective(group, NULL, &call) == BB_OK);
	for (int r = 0; r < n; r++)
		CHECK(me, is_from(&b->out[(size_t)r * count], members[r], k, count));
}

static void use_groups(struct one *me, void *argument)
{
	static const int all[] = {0, 1, 2, 3}, even[] = {0, 2}, odd[] = {3, 1};
	const int *mine = me->rank % 2 ? odd : even;
	struct bb_group *pair;
	struct bb_error error = {0};
	struct buffers b;

	buffers_open(me, &b);
	CHECK(me, me->backend->group_open(me->handle, mine, 2, &pair, &error) == BB_OK);
	for (uint32_t k = 0; k < 400; k++) {
		stumble(me->rank, k);
		check_group(me, pair, mine, 2, &b, k);
		if (k % 5 == 0)
			check_group(me, me->world, all, 4, &b, k);
		if (k % 7 == (uint32_t)(me->rank & 1)) /* the pairs at different times */
			CHECK(me, me->backend->barrier(pair) == BB_OK);
	}
	me->backend->group_close(pair);
	buffers_close(me, &b);
}

static void test_groups(void **state)
{
	ranks_host(4, true, use_groups, NULL);
	ranks_host(4, false, use_groups, NULL);
}

/* Groups of the same members are different groups, and match in the order of opening even if one
   rank opens all of its own before another opens any. */
static void open_twins(struct one *me, void *argument)
{
	static const int members[] = {0, 1};
	struct bb_group *twins[3];
	struct bb_error error = {0};
	struct buffers b;

	buffers_open(me, &b);
	for (int i = 0; i < 3; i++) {
		if (me->rank == 1 && i == 0)
			nap(20e-3);
		CHECK(me,
		      me->backend->group_open(me->handle, members, 2, &twins[i], &error) == BB_OK);
	}
	for (uint32_t k = 0; k < 30; k++)
		check_group(me, twins[k % 3], members, 2, &b, k);
	for (int i = 0; i < 3; i++)
		me->backend->group_close(twins[i]);
	buffers_close(me, &b);
}

static void test_twin_groups(void **state)
{
	ranks_host(2, true, open_twins, NULL);
	ranks_host(2, false, open_twins, NULL);
}

static void reopen_groups(struct one *me, void *argument)
{
	static const int members[] = {2, 0, 1};
	struct bb_error error = {0};
	struct buffers b;

	buffers_open(me, &b);
	for (uint32_t k = 0; k < 200; k++) {
		struct bb_group *group;

		CHECK(me, me->backend->group_open(me->handle, members, 3, &group, &error) == BB_OK);
		if (k % 4 != 0) /* sometimes opened for nothing */
			check_group(me, group, members, 3, &b, k);
		me->backend->group_close(group);
	}
	CHECK(me, me->backend->barrier(me->world) == BB_OK);
	CHECK(me, me->context->teams && !me->context->teams->next); /* only the world */
	buffers_close(me, &b);
}

static void test_groups_reopened(void **state)
{
	ranks_host(3, true, reopen_groups, NULL);
}

static void meet_often(struct one *me, void *argument)
{
	atomic_int *met = argument;

	for (int k = 1; k <= 50; k++) {
		atomic_fetch_add(met, 1);
		CHECK(me, me->backend->barrier(me->world) == BB_OK);
		CHECK(me, atomic_load(met) >= k * me->n);
		CHECK(me, atomic_load(met) < (k + 1) * me->n);
	}
}

static void test_barrier(void **state)
{
	static const int sizes[] = {1, 2, 64};

	for (int i = 0; i < 3; i++) {
		atomic_int met = 0;

		ranks_host(sizes[i], i > 0, meet_often, &met);
	}
}

/* A sleeper is woken by whom it waits for, not by the alarm clock of 20 ms that lets it see an
   abort: however busy the machine is, some of its waits for a peer that naps are shorter. */
static void wake_often(struct one *me, void *argument)
{
	struct timespec t;
	int woken = 0;

	for (int k = 0; k < 200; k++) {
		const double start = me->backend->now(me->handle);

		if (me->rank == k % 2)
			nap(300e-6);
		CHECK(me, me->backend->barrier(me->world) == BB_OK);
		woken += me->rank != k % 2 && me->backend->now(me->handle) - start < 15e-3;
	}
	CHECK(me, woken > 0);
	if (me->rank == 1)
		nap(0.2);
	CHECK(me, me->backend->barrier(me->world) == BB_OK);
	CHECK(me, clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) == 0);
	CHECK(me, t.tv_sec == 0 && t.tv_nsec < 150000000L); /* slept, not spun */
}

static void test_sleepers(void **state)
{
	ranks_host(2, true, wake_often, NULL);
}

/* ---- abort ---------------------------------------------------------------------------------- */

enum wait { ON_MESSAGE, ON_SLOT, ON_FLAT, ON_LARGE, ON_BARRIER, WAITS };

static bb_status wait_for(struct one *me, struct buffers *b, enum wait wait)
{
	struct bb_call call = call_of(b, &bb_all_reduce, "", me->n, wait == ON_FLAT ? 4 : 1000);

	if (wait == ON_BARRIER)
		return me->backend->barrier(me->world);
	if (wait == ON_MESSAGE)
		call = call_of(b, &bb_all_reduce, "ring", me->n, 1000);
	if (wait == ON_SLOT) { /* more messages than a pipe holds, and nobody takes them */
		call = call_of(b, &bb_broadcast, "ring", me->n, 1000);
		call.shape.chunk = 20;
	}
	return me->backend->collective(me->world, NULL, &call);
}

static void be_aborted(struct one *me, void *argument)
{
	const enum wait *wait = argument;
	struct buffers b;
	double start;

	buffers_open(me, &b);
	memset(b.in, 0, 4 * MOST);
	CHECK(me, me->backend->barrier(me->world) == BB_OK);
	start = me->backend->now(me->handle);
	if (me->rank == me->n - 1) {
		nap(30e-3);
		me->backend->abort(me->context);
	} else {
		CHECK(me, wait_for(me, &b, *wait) == BB_ETIMEOUT);
	}
	CHECK(me, me->backend->now(me->handle) - start < 30);
	if (me->rank != me->n - 1) /* for good */
		CHECK(me, me->backend->barrier(me->world) == BB_ETIMEOUT);
	CHECK(me, me->backend->finish(me->handle, NULL) == BB_ETIMEOUT);
	buffers_close(me, &b);
}

static void test_abort(void **state)
{
	for (enum wait wait = 0; wait < WAITS; wait++)
		for (int crowded = 0; crowded < 2; crowded++)
			for (int n = 2; n <= 3; n++)
				ranks_host(n, crowded, be_aborted, &wait);
}

/* ---- pacing
 * -------------------------------------------------------------------------------------- */

struct paced {
	_Atomic double started[3];
};

static void send_paced(struct one *me, void *argument)
{
	struct paced *paced = argument;
	const int previous = (me->rank + me->n - 1) % me->n;
	const struct bb_backend_config *config = &me->context->cpu.config;
	struct buffers b;
	struct bb_call call;

	buffers_open(me, &b);
	fill(b.in, me->rank, 0, MOST);
	call = call_of(&b, &bb_sendrecv, "ring", me->n, 2500);
	for (int k = 0; k < 3; k++) {
		CHECK(me, me->backend->barrier(me->world) == BB_OK);
		atomic_store(&paced->started[me->rank], me->backend->now(me->handle));
		if (k == 2) { /* the bytes of all messages of a link add up */
			call = call_of(&b, &bb_broadcast, "ring", me->n, 2500);
			call.shape.chunk = 500;
		}
		CHECK(me, me->backend->refuses(me->world, &call) == NULL);
		CHECK(me, me->backend->collective(me->world, NULL, &call) == BB_OK);
		if (k < 2 || me->rank == 1)
			CHECK(me, me->backend->now(me->handle) -
						  atomic_load(&paced->started[previous]) >=
					  1e4 / config->link_rate + config->link_latency);
		CHECK(me, is_from(b.out, k < 2 ? previous : 0, 0, 2500));
	}
	call = call_of(&b, &bb_sendrecv, "", me->n, 10);
	CHECK(me, me->backend->refuses(me->world, &call) != NULL);
	buffers_close(me, &b);
}

static void test_pacing(void **state)
{
	const struct bb_backend_config config = {.link_rate = 1e6, .link_latency = 3e-3};
	struct paced paced = {{0}};
	struct ranks ranks;
	int failures;

	ranks_open(&ranks, &bb_backend_host, 3, &config);
	failures = ranks_run(&ranks, send_paced, &paced);
	ranks_close(&ranks);
	assert_int_equal(failures, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_messages),        cmocka_unit_test(test_direct_modes),
		cmocka_unit_test(test_long_rest),       cmocka_unit_test(test_many_ranks),
		cmocka_unit_test(test_groups),          cmocka_unit_test(test_twin_groups),
		cmocka_unit_test(test_groups_reopened), cmocka_unit_test(test_barrier),
		cmocka_unit_test(test_sleepers),        cmocka_unit_test(test_abort),
		cmocka_unit_test(test_pacing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
