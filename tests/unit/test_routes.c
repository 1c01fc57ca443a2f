/*
 * Routes between two ranks: the bytes arrive, in either direction and in both at once, whatever
 * their number; words come back as often as they go; a paced link and a slow one take their time.
 */
#include "backends/backend.h"
#include "backends/routes.h"
#include "ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define MOST ((size_t)3 << 20)
#define GUARD 64

struct job {
	const struct bb_route *route;
	size_t forth, back; /* bytes from rank 0 to rank 1 and the other way */
	void *memory[2];
	struct bb_token tokens[2][2]; /* [rank]: of its source and its target */
};

static unsigned char value(int rank, size_t i)
{
	return (unsigned char)(i * 31 + i / 251 + (size_t)rank * 101 + 7);
}

static struct bb_half half(struct one *me, struct job *job, bool out)
{
	const int peer = 1 - me->rank;
	struct bb_half h = {.mine = (char *)job->memory[me->rank] + (out ? 0 : MOST),
			    .bytes = (me->rank == 0) == out ? job->forth : job->back};
	struct bb_error error = {0};

	CHECK(me, me->backend->routes->reach(me->world, peer, &job->tokens[peer][out ? 1 : 0],
					     &h.theirs, &error) == BB_OK);
	return h;
}

static bool acts(const struct bb_route *route, bool out, bool in)
{
	return route->actor == BB_BY_BOTH || (route->actor == BB_BY_TARGET ? in : out);
}

static void transfer(struct one *me, void *argument)
{
	const struct bb_backend *backend = me->backend;
	const int peer = 1 - me->rank;
	struct job *job = argument;
	struct bb_half out, in;
	unsigned char *mine, *target;
	void *memory = NULL;

	CHECK(me, backend->alloc(me->handle, 2 * MOST + GUARD, &memory) == BB_OK);
	job->memory[me->rank] = mine = memory;
	target = mine + MOST;
	for (size_t i = 0; i < MOST; i++)
		mine[i] = value(me->rank, i);
	memset(target, 0xa5, MOST + GUARD);
	CHECK(me,
	      backend->routes->share(me->handle, mine, MOST, &job->tokens[me->rank][0]) == BB_OK);
	CHECK(me,
	      backend->routes->share(me->handle, target, MOST, &job->tokens[me->rank][1]) == BB_OK);
	CHECK(me, backend->barrier(me->world) == BB_OK);
	out = half(me, job, true);
	in = half(me, job, false);
	for (int i = 0; i < 3; i++)
		if (acts(job->route, out.bytes > 0, in.bytes > 0))
			CHECK(me, backend->routes->transfer(me->world, job->route, peer, &out,
							    &in) == BB_OK);
	CHECK(me, backend->barrier(me->world) == BB_OK);
	for (size_t i = 0; i < in.bytes; i++)
		CHECK(me, target[i] == value(peer, i));
	for (size_t i = in.bytes; i < MOST + GUARD; i++)
		CHECK(me, target[i] == 0xa5);
	CHECK(me, backend->barrier(me->world) == BB_OK);
	backend->routes->unreach(me->world, peer, out.theirs);
	backend->routes->unreach(me->world, peer, in.theirs);
	backend->release(me->handle, memory, 2 * MOST + GUARD);
}

static void test_transfer(void **state)
{
	static const size_t sizes[] = {1, 40, 41, 131072, 131073, 524288, 700001, MOST};

	for (const struct bb_route *r = bb_backend_host.routes->list; r->name; r++) {
		for (size_t i = 0; (r->uses & BB_ROUTE_TRANSFER) && i < 8; i++) {
			struct job jobs[] = {{.route = r, .forth = sizes[i]},
					     {.route = r, .back = sizes[i]},
					     {.route = r, .forth = sizes[i], .back = sizes[i]},
					     {.route = r, .forth = sizes[i], .back = sizes[7 - i]}};

			for (int k = 0; k < 4; k++)
				for (int crowded = 0; crowded < 2; crowded++)
					ranks_host(2, crowded, transfer, &jobs[k]);
		}
	}
}

static void ping(struct one *me, void *argument)
{
	const struct bb_route *route = argument;

	/* Any two of three, in turns, whoever begins. */
	for (int a = 0; a < 3; a++)
		for (int b = 0; b < 3; b++)
			if (a != b && (me->rank == a || me->rank == b))
				CHECK(me, me->backend->routes->ping(
						  me->world, route, me->rank == a ? b : a,
						  me->rank == a, ROUNDS(500)) == BB_OK);
}

static void test_ping(void **state)
{
	for (const struct bb_route *r = bb_backend_host.routes->list; r->name; r++)
		for (int crowded = 0; (r->uses & BB_ROUTE_PING) && crowded < 2; crowded++)
			ranks_host(3, crowded, ping, (void *)(uintptr_t)r);
}

static void timed(struct one *me, void *argument)
{
	struct job *job = argument;
	double start = me->backend->now(me->handle), seconds;

	transfer(me, job);
	seconds = me->backend->now(me->handle) - start;
	/* Three times 1 MiB at 100 MB/s and 1 ms. */
	CHECK(me, seconds > 3 * 0.01148);
}

/* That it takes long enough: how much longer is the machine's affair. */
static void test_pace(void **state)
{
	const struct bb_backend_config config = {.link_rate = 100e6, .link_latency = 1e-3};
	struct ranks ranks;

	ranks_open(&ranks, &bb_backend_host, 2, &config);
	for (const struct bb_route *r = bb_backend_host.routes->list; r->name; r++) {
		struct job forth = {.route = r, .forth = (size_t)1 << 20};
		struct job back = {.route = r, .back = (size_t)1 << 20};

		if (!(r->uses & BB_ROUTE_TRANSFER))
			continue;
		assert_int_equal(ranks_run(&ranks, timed, &forth), 0);
		assert_int_equal(ranks_run(&ranks, timed, &back), 0);
	}
	ranks_close(&ranks);
}

/* To itself a rank can only copy. */
static void ask(struct one *me, void *argument)
{
	for (const struct bb_route *r = me->backend->routes->list; r->name; r++) {
		const bool copies = (r->uses & BB_ROUTE_TRANSFER) && r->direct;

		CHECK(me, !me->backend->routes->refuses(me->world, r, 1 - me->rank));
		CHECK(me, !me->backend->routes->refuses(me->world, r, me->rank) == copies);
	}
}

static void test_refuses(void **state)
{
	ranks_host(2, false, ask, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_transfer),
		cmocka_unit_test(test_ping),
		cmocka_unit_test(test_pace),
		cmocka_unit_test(test_refuses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
