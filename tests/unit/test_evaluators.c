/*
 * The evaluators of virtual time held against each other and against closed forms, on links that
 * are all alike and on networks.
 */
#include "simulator/timeline/timeline.h"
#include "script.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define MOST 64
#define RAIL 2e-11 /* seconds per byte */
#define PORT 3e-12
#define HOP 1e-6
#define NET 4e-6
#define OVERHEAD 5e-7
#define SELF                                                                                       \
	{                                                                                          \
		0, 0, BB_CLUSTER_SELF                                                              \
	}
#define PAIR                                                                                       \
	{                                                                                          \
		PORT, HOP, BB_CLUSTER_NVLINK                                                       \
	}

static const int own_rails[] = {0, 1, 2, 3}, one_for_two[] = {0, 0, 1, 1};
static const struct bb_fabric_pair pairs[16] = {
	SELF, PAIR, PAIR, PAIR, PAIR, SELF, PAIR, PAIR,
	PAIR, PAIR, SELF, PAIR, PAIR, PAIR, PAIR, SELF,
};

static struct bb_fabric fabric_of(int nodes, const int *rail_of, double taper)
{
	return (struct bb_fabric){
		.nodes = nodes,
		.per_node = 4,
		.domain = 1,
		.leaf = 2,
		.pod = 4,
		.rails = rail_of[3] + 1,
		.rail_of = rail_of,
		.pairs = pairs,
		.rail_second_per_byte = RAIL,
		.latency = {NET, NET + 1e-6, NET + 2e-6},
		.overhead = OVERHEAD,
		.leaf_taper = taper,
		.pod_taper = taper,
	};
}

static void play(enum bb_evaluator evaluator, const struct bb_link_model *links,
		 const struct bb_algorithm *schedule, const struct bb_shape *shape,
		 const double *from, double *times)
{
	for (int r = 0; r < shape->nranks; r++)
		times[r] = from ? from[r] : 0;
	assert_int_equal(bb_timeline_collective_by(evaluator, links, schedule, shape, 4, 0, times),
			 BB_OK);
}

static void same(const struct bb_algorithm *schedule, const struct bb_shape *shape, const double *a,
		 const double *b)
{
	for (int r = 0; r < shape->nranks; r++)
		if (a[r] != b[r])
			fail_msg("%s %s of %zu among %d: rank %d is done at %.17g or %.17g",
				 schedule->collective->name, schedule->name, shape->count,
				 shape->nranks, r, a[r], b[r]);
}

/* Every algorithm whose ranks are alike, begun together and not. */
static int hold_alike(const struct bb_link_model *links, int n)
{
	double late[MOST] = {0}, a[MOST], b[MOST];
	int held = 0;

	for (int r = 0; r < n; r++)
		late[r] = 1e-7 * (r * r % 17);
	for (const struct bb_algorithm *const *s = bb_algorithms; *s; s++)
		for (int cut = 0; cut < 2; cut++) {
			struct bb_shape shape = {
				.nranks = n, .count = 720 * (size_t)n, .chunk = cut ? 240 : 0};

			if (!((*s)->flags & BB_SHIFT_INVARIANT) ||
			    (*s)->collective->flags & BB_VARIABLE ||
			    ((*s)->refuses && (*s)->refuses(&shape)) ||
			    ((*s)->collective->refuses && (*s)->collective->refuses(n)))
				continue;
			for (int skewed = 0; skewed < 2; skewed++) {
				play(BB_EVALUATOR_SWEEP, links, *s, &shape, skewed ? late : NULL,
				     a);
				play(BB_EVALUATOR_ALIKE, links, *s, &shape, skewed ? late : NULL,
				     b);
				same(*s, &shape, a, b);
			}
			held++;
		}
	return held;
}

static void test_alike_is_the_sweep(void **state)
{
	const struct bb_link_model links = {.rate = 25e9, .latency = 5e-6};
	const struct bb_link_model ports = {.rate = 25e9, .latency = 5e-6, .port = true};

	for (int n = 2; n <= 20; n += 1 + n / 6) {
		assert_true(hold_alike(&links, n) > 10);
		assert_true(hold_alike(&ports, n) > 10);
	}
}

static void test_alike_is_the_sweep_on_networks(void **state)
{
	const struct bb_fabric fabrics[] = {
		fabric_of(1, own_rails, 1),   fabric_of(2, own_rails, 1),
		fabric_of(3, own_rails, 1),   fabric_of(8, own_rails, 1),
		fabric_of(8, one_for_two, 1), fabric_of(8, own_rails, 3),
		fabric_of(8, one_for_two, 2), fabric_of(2, own_rails, 4),
	};

	for (size_t i = 0; i < sizeof(fabrics) / sizeof(fabrics[0]); i++) {
		const struct bb_link_model links = {.fabric = &fabrics[i]};

		assert_true(hold_alike(&links, fabrics[i].nodes * 4) > 10);
	}
}

/* Four ranks on two CPUs that share memory, whose messages have an overhead by their length. */
static struct bb_fabric cpus(int nodes, bool loopback)
{
	struct bb_fabric fabric = fabric_of(nodes, one_for_two, 1);

	fabric.packages = 2;
	fabric.memory_second_per_byte = 2 * PORT;
	fabric.cache_bytes = 1e4;
	fabric.limits[0].most = 256;
	fabric.limits[0].latency = 1e-6;
	fabric.limits[1].most = 4096;
	fabric.limits[1].latency = 3e-6;
	fabric.pulls = true;
	fabric.sum_second_per_byte = PORT / 2;
	fabric.loopback = loopback;
	return fabric;
}

static void test_alike_is_the_sweep_on_cpus(void **state)
{
	const struct bb_fabric fabrics[] = {cpus(1, false), cpus(3, false), cpus(1, true),
					    cpus(8, true)};

	for (size_t i = 0; i < sizeof(fabrics) / sizeof(fabrics[0]); i++) {
		const struct bb_link_model links = {.fabric = &fabrics[i]};

		assert_true(hold_alike(&links, fabrics[i].nodes * 4) > 10);
	}
}

/* Seconds of a sendrecv of COUNT elements of 4 bytes among the ranks of one node. */
static double exchange(const struct bb_fabric *fabric, size_t count)
{
	const struct bb_link_model links = {.fabric = fabric};
	const struct bb_shape shape = {.nranks = 4, .count = count};
	double times[4] = {0};

	assert_int_equal(bb_timeline_collective(&links, bb_algorithm_find(&bb_sendrecv, "ring"),
						&shape, 4, 0, times),
			 BB_OK);
	return times[0];
}

/* Both ranks of a package send at once. Their IN and OUT, 16 bytes for each element sent, exceed
   10,000 bytes of cache from 625 elements on. */
static void test_memory_of_a_package(void **state)
{
	const struct bb_fabric shared = cpus(1, false), nic = cpus(1, true);

	assert_float_equal(exchange(&shared, 64), HOP + OVERHEAD + 256 * PORT, 1e-15);
	assert_float_equal(exchange(&shared, 65), HOP + OVERHEAD + 1e-6 + 260 * PORT, 1e-15);
	assert_float_equal(exchange(&shared, 1250),
			   HOP + OVERHEAD + 4e-6 + 5000 * fmax(PORT, 2 * 0.5 * 2 * PORT), 1e-14);
	assert_float_equal(exchange(&shared, 62500),
			   HOP + OVERHEAD + 4e-6 + 250000 * 2 * 0.99 * 2 * PORT, 1e-13);
	assert_float_equal(exchange(&nic, 64), NET + OVERHEAD + 256 * 2 * RAIL, 1e-6);
}

/* Of a faulty network nothing repeats. */
static void test_alike_is_the_sweep_with_faults(void **state)
{
	const struct bb_fabric_flaw flaws[] = {{1, 2, 3}, {2, -1, 1.5}, {0, 1, 0}};
	struct bb_fabric fabric = fabric_of(4, own_rails, 1);
	const struct bb_link_model links = {.fabric = &fabric, .slow_link = {3, 4, 2}};
	const struct bb_link_model plain = {.rate = 25e9, .latency = 5e-6, .slow_link = {3, 4, 2}};

	fabric.flawed = true;
	for (int i = 0; i < 3; i++) {
		fabric.flaw = flaws[i];
		assert_int_equal(bb_fabric_period(&fabric, 16), 16);
		assert_true(hold_alike(&links, 16) > 10);
	}
	assert_true(hold_alike(&plain, 16) > 10);
}

/* A rank that never comes holds up those that depend on it. */
static void test_tree_without_some(void **state)
{
	const struct bb_link_model links = {.rate = 25e9, .latency = 5e-6};
	const struct bb_shape shape = {.nranks = 33, .count = 100003, .chunk = 700, .root = 5};
	const struct bb_algorithm *tree = bb_algorithm_find(&bb_reduce, "tree");
	double from[33] = {0}, times[33];

	from[9] = from[20] = INFINITY;
	play(BB_EVALUATOR_SWEEP, &links, tree, &shape, from, times);
	assert_true(isinf(times[5]));
}

static double last(const struct bb_link_model *links, const struct bb_collective *collective,
		   const char *name, int n, size_t count)
{
	const struct bb_algorithm *schedule = bb_algorithm_find(collective, name);
	const struct bb_shape shape = {.nranks = n, .count = count};
	double *times = calloc((size_t)n, sizeof(*times)), latest = 0;

	assert_non_null(times);
	assert_int_equal(bb_timeline_collective(links, schedule, &shape, 4, 0, times), BB_OK);
	for (int r = 0; r < n; r++)
		latest = fmax(latest, times[r]);
	free(times);
	return latest;
}

static void near(double got, double want)
{
	if (!(fabs(got - want) <= 1e-9 * fabs(want)))
		fail_msg("%.17g instead of %.17g", got, want);
}

/* What no sweep would reach. */
static void test_closed_forms_at_scale(void **state)
{
	const struct bb_link_model links = {.rate = 25e9, .latency = 5e-6};

	for (int n = 16384; n <= 102400; n += 102400 - 16384) {
		const double part = 4.0 * 1000 / 25e9;

		near(last(&links, &bb_all_reduce, "ring", n, 1000 * (size_t)n),
		     2.0 * (n - 1) * (5e-6 + part));
		near(last(&links, &bb_all_gather, "ring", n, 1000), (n - 1) * (5e-6 + part));
	}
}

/* A ring over nodes: nobody waits for anything but the slowest of its messages, which are those
   over rails; the last part has them all on its way. */
static void test_ring_over_nodes(void **state)
{
	const struct bb_fabric fabric = fabric_of(2, own_rails, 1);
	const struct bb_link_model links = {.fabric = &fabric};
	/* Long messages: a round takes what a rail takes, and each way around the ring adds its
	   latencies once. */
	const size_t part = 1 << 20;
	const double rail = OVERHEAD + 4.0 * (double)part * RAIL;
	const double got = last(&links, &bb_all_gather, "ring", 8, part);

	assert_true(got > 7 * rail);
	assert_true(got < 7 * (rail + NET + 1e-6));
}

/* Two ranks over one rail take twice as long, and so does a leaf with half the links up. */
static void test_what_is_shared(void **state)
{
	const struct bb_fabric two = fabric_of(2, one_for_two, 1);
	const struct bb_fabric tapered = fabric_of(4, own_rails, 2);
	const struct bb_fabric even = fabric_of(4, own_rails, 1);
	const struct bb_link_model on_two = {.fabric = &two}, on_tapered = {.fabric = &tapered},
				   on_even = {.fabric = &even};
	const size_t count = 1 << 20;
	const double bytes = 4.0 * (double)count;
	const struct bb_algorithm *pairs_of = bb_algorithm_find(&bb_alltoall, "pairwise");
	double times[MOST];
	struct bb_shape shape = {.nranks = 8, .count = count};

	play(BB_EVALUATOR_SWEEP, &on_two, pairs_of, &shape, NULL, times);
	assert_true(times[0] > 4 * 2 * bytes * RAIL); /* four partners are on the other node */
	shape.nranks = 16;
	play(BB_EVALUATOR_SWEEP, &on_tapered, pairs_of, &shape, NULL, times);
	assert_true(times[0] > 8 * 2 * bytes * RAIL); /* eight are below another leaf */
	play(BB_EVALUATOR_SWEEP, &on_even, pairs_of, &shape, NULL, times);
	assert_true(times[0] < 8 * 2 * bytes * RAIL);
}

static double run_on(const struct bb_link_model *links, struct script *s)
{
	struct bb_error error = {0};
	double end = 0;

	if (bb_program_check(&s->program, &error) != BB_OK ||
	    bb_timeline_program(links, &s->program, NULL, &end, &error) != BB_OK)
		fail_msg("%s", error.text);
	script_close(s);
	return end;
}

static double run(const struct bb_fabric *fabric, struct script *s)
{
	const struct bb_link_model links = {.fabric = fabric};

	return run_on(&links, s);
}

/* A slow link is one between two ranks of the world, whatever their places in a group. */
static void test_slow_link_of_a_group(void **state)
{
	const struct bb_link_model links = {.rate = 1e9, .latency = 1e-6, .slow_link = {1, 3, 3}};

	for (int other = 2; other <= 3; other++) {
		struct script s;

		script_open(&s, 4);
		s.program.groups = 2;
		s.sizes[1] = 2;
		s.members[1][0] = 1;
		s.members[1][1] = other;
		s.program.algorithm = "recursive_doubling";
		script_all_reduce(&s, 1, 0, 1, 1000);
		script_all_reduce(&s, other, 0, 1, 1000);
		near(run_on(&links, &s), (other == 3 ? 3 : 1) * 5e-6);
	}
}

/* Messages of programs go the same ways; two ranks of one rail take turns, what stays within the
   node has a way of its own. */
static void test_programs(void **state)
{
	const struct bb_fabric fabric = fabric_of(2, one_for_two, 1);
	const double rail = OVERHEAD + 4e6 * RAIL, port = OVERHEAD + 4e6 * PORT;
	struct script s;

	script_open(&s, 8);
	script_send(&s, 0, 0, 0, 1, 1000000);
	script_recv(&s, 1, 0, 0, 0, 1000000);
	near(run(&fabric, &s), port + HOP);

	script_open(&s, 8);
	script_send(&s, 0, 0, 0, 4, 1000000);
	script_send(&s, 1, 0, 0, 5, 1000000);
	script_send(&s, 0, 1, 0, 1, 1000000);
	script_recv(&s, 4, 0, 0, 0, 1000000);
	script_recv(&s, 5, 0, 0, 1, 1000000);
	script_recv(&s, 1, 1, 0, 0, 1000000);
	near(run(&fabric, &s), OVERHEAD + 2 * 4e6 * RAIL + NET);

	/* A pair on different nodes. */
	script_open(&s, 8);
	s.program.groups = 2;
	s.sizes[1] = 2;
	s.members[1][0] = 1;
	s.members[1][1] = 5;
	s.program.algorithm = "recursive_doubling";
	script_all_reduce(&s, 1, 0, 1, 1000000);
	script_all_reduce(&s, 5, 0, 1, 1000000);
	near(run(&fabric, &s), rail + NET);
}

/* FROM sends TO so many floats, AFTER seconds of work. */
static void pass(struct script *s, int from, int to, double after, size_t count)
{
	if (after > 0)
		script_compute(s, from, 0, after);
	script_send(s, from, 0, 0, to, count);
	script_recv(s, to, 0, 0, from, count);
}

/* Messages that are on their way through one thing at the same time have even parts of it. */
static void test_programs_share(void **state)
{
	const struct bb_fabric two = fabric_of(2, one_for_two, 1);
	const struct bb_fabric tapered = fabric_of(4, own_rails, 2);
	const double mega = 4e6 * RAIL; /* of 1000000 floats */
	struct bb_fabric slow = cpus(2, false);
	struct script s;

	/* The shorter one has half of the rail as long as it goes, the longer one the rest. */
	script_open(&s, 8);
	pass(&s, 0, 4, 0, 1000000);
	pass(&s, 1, 6, 0, 3000000);
	near(run(&two, &s), OVERHEAD + 4 * mega + NET + 1e-6);

	/* Who comes when half of the other is through ends when all of it is. */
	script_open(&s, 8);
	pass(&s, 0, 4, 0, 2000000);
	pass(&s, 1, 6, mega, 1000000);
	near(run(&two, &s), OVERHEAD + 3 * mega + NET + 1e-6);

	/* What one rank sends leaves one after the other, beside the neighbour's. */
	script_open(&s, 8);
	script_send(&s, 0, 0, 0, 4, 1000000);
	script_send(&s, 0, 1, 1, 6, 1000000);
	script_recv(&s, 4, 0, 0, 0, 1000000);
	script_recv(&s, 6, 0, 1, 0, 1000000);
	pass(&s, 1, 5, 0, 4000000);
	near(run(&two, &s), OVERHEAD + (4 * mega + OVERHEAD) + 2 * mega - OVERHEAD + NET);

	/* Memory is that of collectives alone. */
	slow.memory_second_per_byte = 10 * RAIL;
	script_open(&s, 8);
	pass(&s, 0, 4, 0, 1000000);
	near(run(&slow, &s), OVERHEAD + mega + NET + 4e-6);

	/* A rail comes in by one way, too. */
	script_open(&s, 8);
	pass(&s, 0, 4, 0, 1000000);
	pass(&s, 2, 5, 0, 1000000);
	near(run(&two, &s), OVERHEAD + 2 * mega + NET + 1e-6);

	/* Two nodes of a leaf have one rail's rate up, but what stays below it has no part in it.
	 */
	script_open(&s, 16);
	pass(&s, 0, 8, 0, 1000000);
	near(run(&tapered, &s), OVERHEAD + mega + NET + 1e-6);
	script_open(&s, 16);
	pass(&s, 0, 8, 0, 1000000);
	pass(&s, 4, 12, 0, 1000000);
	near(run(&tapered, &s), OVERHEAD + 2 * mega + NET + 1e-6);
	script_open(&s, 16);
	pass(&s, 0, 4, 0, 1000000);
	pass(&s, 8, 12, 0, 1000000);
	near(run(&tapered, &s), OVERHEAD + mega + NET);
}

/* Which evaluator is taken. */
static void test_choice(void **state)
{
	const struct bb_fabric even = fabric_of(4, own_rails, 1);
	const struct bb_fabric tapered = fabric_of(4, own_rails, 2);
	const struct bb_link_model plain = {.fabric = &even}, loaded = {.fabric = &tapered},
				   noisy = {.fabric = &even, .noise = 0.1};
	const struct bb_algorithm *ring = bb_algorithm_find(&bb_all_reduce, "ring");
	const struct bb_algorithm *tree = bb_algorithm_find(&bb_all_reduce, "tree");
	struct bb_shape shape = {.nranks = 16, .count = 1600};

	assert_int_equal(bb_timeline_evaluator(&plain, ring, &shape), BB_EVALUATOR_ALIKE);
	assert_int_equal(bb_timeline_evaluator(&loaded, ring, &shape), BB_EVALUATOR_ALIKE);
	assert_int_equal(bb_timeline_evaluator(&plain, tree, &shape), BB_EVALUATOR_SWEEP);
	assert_int_equal(bb_timeline_evaluator(&loaded, tree, &shape), BB_EVALUATOR_SWEEP);
	assert_int_equal(bb_timeline_evaluator(&noisy, ring, &shape), BB_EVALUATOR_SWEEP);
	assert_int_equal(bb_timeline_evaluator(&noisy, tree, &shape), BB_EVALUATOR_SWEEP);
	shape.count = 1601; /* parts differ: exact, as long as that takes no time */
	assert_int_equal(bb_timeline_evaluator(&plain, ring, &shape), BB_EVALUATOR_SWEEP);
	shape.nranks = 16384;
	assert_int_equal(bb_timeline_evaluator(&plain, ring, &shape), BB_EVALUATOR_ALIKE);
	assert_string_equal(bb_evaluator_name(BB_EVALUATOR_ALIKE, &loaded), "alike+loads");
	assert_string_equal(bb_evaluator_name(BB_EVALUATOR_ALIKE, &plain), "alike");
	assert_string_equal(bb_evaluator_name(BB_EVALUATOR_SWEEP, &loaded), "loads");
	assert_string_equal(bb_evaluator_name(BB_EVALUATOR_SWEEP, &plain), "sweep");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_alike_is_the_sweep),
		cmocka_unit_test(test_alike_is_the_sweep_on_networks),
		cmocka_unit_test(test_alike_is_the_sweep_on_cpus),
		cmocka_unit_test(test_memory_of_a_package),
		cmocka_unit_test(test_alike_is_the_sweep_with_faults),
		cmocka_unit_test(test_tree_without_some),
		cmocka_unit_test(test_closed_forms_at_scale),
		cmocka_unit_test(test_ring_over_nodes),
		cmocka_unit_test(test_what_is_shared),
		cmocka_unit_test(test_programs),
		cmocka_unit_test(test_programs_share),
		cmocka_unit_test(test_slow_link_of_a_group),
		cmocka_unit_test(test_choice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
