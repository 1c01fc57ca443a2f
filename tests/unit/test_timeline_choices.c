/*
 * The choice of a schedule and its chunk against all others, which placements share a choice, and
 * the counts of a network by hand: periods, and users of its links.
 */
#include "simulator/timeline/timeline.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define MOST 16

static double seconds_of(const struct bb_link_model *links, const struct bb_algorithm *schedule,
			 const struct bb_shape *shape)
{
	double times[MOST] = {0}, latest = 0;

	assert_int_equal(bb_timeline_collective(links, schedule, shape, 4, 0, times), BB_OK);
	for (int r = 0; r < shape->nranks; r++)
		latest = fmax(latest, times[r]);
	return latest;
}

/* No other schedule is faster, nor twice or half the chunk of this one by more than it must gain.
 */
static void hold_choice(const struct bb_link_model *links, const struct bb_collective *collective,
			int n, size_t count)
{
	const struct bb_shape asked = {.nranks = n, .count = count};
	struct bb_shape best = asked;
	struct bb_error error = {0};
	const struct bb_algorithm *chosen;
	double least;

	if (collective->refuses && collective->refuses(n))
		return;
	chosen = bb_timeline_choose(links, NULL, collective, &best, 4, &error);
	assert_non_null(chosen);
	assert_ptr_equal(chosen->collective, collective);
	least = seconds_of(links, chosen, &best);
	for (const struct bb_algorithm *const *a = bb_algorithms; *a; a++) {
		struct bb_shape shape = asked, other;
		double time;

		if ((*a)->collective != collective)
			continue;
		error = (struct bb_error){0};
		if ((*a)->refuses && (*a)->refuses(&asked)) {
			assert_null(bb_timeline_choose(links, (*a)->name, collective, &shape, 4,
						       &error));
			assert_int_equal(bb_error_status(&error), BB_EUNSUPPORTED);
			continue;
		}
		assert_ptr_equal(
			bb_timeline_choose(links, (*a)->name, collective, &shape, 4, &error), *a);
		time = seconds_of(links, *a, &shape);
		if (time < least || (*a == chosen && shape.chunk != best.chunk))
			fail_msg("%s by %s of %zu among %d: %g < %g by %s", collective->name,
				 (*a)->name, count, n, time, least, chosen->name);
		other = shape;
		other.chunk = 0;
		assert_true(shape.chunk == 0 || time < 0.99 * seconds_of(links, *a, &other));
		if (shape.chunk > 0 && 2 * shape.chunk < count) {
			other.chunk = 2 * shape.chunk;
			assert_true(time <= seconds_of(links, *a, &other));
		}
		if (shape.chunk > 1) {
			other.chunk = shape.chunk / 2;
			assert_true(seconds_of(links, *a, &other) >= 0.99 * time);
		}
	}
}

static void test_choices(void **state)
{
	static const struct bb_link_model models[] = {
		{.rate = 25e9, .latency = 5e-6},
		{.rate = 1e9, .latency = 1e-4, .port = true},
	};
	static const struct bb_collective *const collectives[] = {
		&bb_all_reduce, &bb_all_gather, &bb_reduce_scatter, &bb_broadcast, &bb_reduce};

	for (size_t m = 0; m < 2; m++)
		for (size_t c = 0; c < sizeof(collectives) / sizeof(collectives[0]); c++)
			for (int n = 2; n <= 9; n += 1 + (n > 3)) {
				hold_choice(&models[m], collectives[c], n, 1 << 8);
				hold_choice(&models[m], collectives[c], n, 1 << 18);
			}
}

static void test_names(void **state)
{
	const struct bb_link_model links = {.rate = 1e9, .latency = 1e-6};
	struct bb_shape shape = {.nranks = 6, .count = 64};
	struct bb_error error = {0}, other = {0};

	assert_null(bb_timeline_choose(&links, "carousel", &bb_all_reduce, &shape, 4, &error));
	assert_int_equal(bb_error_status(&error), BB_EUNSUPPORTED);
	assert_non_null(strstr(error.text, "carousel"));
	for (const struct bb_algorithm *const *a = bb_algorithms; *a; a++)
		if ((*a)->collective == &bb_all_reduce)
			assert_non_null(strstr(error.text, (*a)->name));
	assert_null(strstr(error.text, "  "));
	assert_null(strstr(error.text, ", ,"));
	/* of another collective */
	assert_null(bb_timeline_choose(&links, "bruck", &bb_all_reduce, &shape, 4, &other));
	assert_int_equal(bb_error_status(&other), BB_EUNSUPPORTED);
}

/* Seconds that a pipelined chain of N ranks with PIECES takes by 64 of its ranks, the first 32 and
   others evenly spaced: rank r sends piece k in round r + k. */
static double chain_estimate(int n, int pieces, double message)
{
	const int rounds = n - 2 + pieces, step = 1 + rounds / 1000;
	double all = 0;

	for (int round = 0; round < rounds; round += step) {
		bool busy = false;

		for (int i = 0; i < 64; i++) {
			const int rank = i < 32 ? i : (i - 32) * n / 32;

			busy |= rank < n - 1 && round - rank >= 0 && round - rank < pieces;
		}
		all += busy ? message * (step < rounds - round ? step : rounds - round) : 0;
	}
	return all;
}

/* Where a sweep would take too long, the chunk is chosen by that estimate: from the longest on,
   until two in a row save less than a hundredth. */
static void test_estimates(void **state)
{
	static const struct {
		int n;
		size_t count;
		double rate, latency;
	} cases[] = {
		{512, 1 << 22, 1e10, 1e-6}, {512, 1 << 20, 1e10, 2e-5}, {450, 1 << 24, 1e9, 1e-6},
		{512, 1 << 12, 1e9, 1e-4},  {1024, 1 << 20, 5e9, 3e-6},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct bb_link_model links = {.rate = cases[i].rate,
						    .latency = cases[i].latency};
		const int n = cases[i].n;
		struct bb_shape shape = {.nranks = n, .count = cases[i].count};
		struct bb_error error = {0};
		size_t wanted = 0;
		double best = chain_estimate(
			n, 1, 4. * (double)cases[i].count / links.rate + links.latency);
		int worse = 0;

		for (size_t chunk = cases[i].count / 2; chunk > 0 && worse < 2; chunk /= 2) {
			const double seconds =
				chain_estimate(n, (int)(cases[i].count / chunk),
					       4. * (double)chunk / links.rate + links.latency);

			worse++;
			if (seconds >= 0.99 * best)
				continue;
			worse = 0;
			best = seconds;
			wanted = chunk;
		}
		assert_non_null(
			bb_timeline_choose(&links, "ring", &bb_broadcast, &shape, 4, &error));
		if (shape.chunk != wanted)
			fail_msg("%zu: chunks of %zu, not %zu", i, shape.chunk, wanted);
	}
}

/* ---- placements ------------------------------------------------------------------------------ */

static const int rail_of[] = {0, 0, 1, 1};
#define SELF                                                                                       \
	{                                                                                          \
		0, 0, BB_CLUSTER_SELF                                                              \
	}
#define PAIR                                                                                       \
	{                                                                                          \
		3e-12, 1e-6, BB_CLUSTER_NVLINK                                                     \
	}
static const struct bb_fabric_pair pairs[16] = {SELF, PAIR, PAIR, PAIR, PAIR, SELF, PAIR, PAIR,
						PAIR, PAIR, SELF, PAIR, PAIR, PAIR, PAIR, SELF};

static struct bb_fabric fabric_of(int nodes, int domain, int leaf, int pod, double taper)
{
	return (struct bb_fabric){.nodes = nodes,
				  .per_node = 4,
				  .domain = domain,
				  .leaf = leaf,
				  .pod = pod,
				  .rails = 2,
				  .rail_of = rail_of,
				  .pairs = pairs,
				  .rail_second_per_byte = 2e-11,
				  .latency = {4e-6, 5e-6, 6e-6},
				  .leaf_taper = taper,
				  .pod_taper = taper,
				  .packages = 1};
}

/* Groups placed alike share a choice: the same GPUs, as far apart. */
static void test_placements(void **state)
{
	/* Leaves are nodes 0 and 1, 2 and 3, ...; pods 0 to 3, ...; domains single nodes. */
	static const struct {
		int a, b; /* ranks; four a node */
		size_t known;
	} cases[] = {
		{0, 1, 1},   {4, 5, 1}, /* within a node */
		{1, 2, 2},              /* of other GPUs */
		{13, 14, 2}, {0, 4, 3}, /* of nodes beside each other, below one leaf */
		{8, 12, 3},  {4, 8, 4}, /* of two leaves */
		{20, 24, 4},            /* 5 and 6 */
		{12, 16, 5},            /* of two pods */
		{0, 5, 6},   {0, 8, 7}, /* two nodes further */
		{16, 24, 7}, {4, 0, 8}, /* the other way */
	};
	const struct bb_fabric fabric = fabric_of(8, 1, 2, 4, 1);
	static const double crowds[2 * BB_LEVELS] = {1, 1, 1, 1, 1, 1, 1, 2};
	struct bb_choices choices = {0};
	struct bb_error error = {0};

	for (size_t i = 0; i <= sizeof(cases) / sizeof(cases[0]); i++) {
		const bool crowded = i == sizeof(cases) / sizeof(cases[0]);
		const int members[] = {crowded ? 0 : cases[i].a, crowded ? 1 : cases[i].b};
		const struct bb_link_model links = {.fabric = &fabric,
						    .members = members,
						    .crowd = crowded ? crowds : NULL,
						    .choices = &choices};
		struct bb_shape shape = {.nranks = 2, .count = 1 << 16};

		assert_non_null(
			bb_timeline_choose(&links, NULL, &bb_all_reduce, &shape, 4, &error));
		if (choices.n != (crowded ? 9 : cases[i].known))
			fail_msg("%zu: %zu choices", i, choices.n);
	}
	bb_choices_free(&choices);
}

/* Each part of a call makes it another one. */
static void test_other_calls(void **state)
{
	const struct bb_fabric fabric = fabric_of(2, 1, 2, 2, 1);
	struct bb_choices choices = {0};
	const struct bb_link_model links = {.fabric = &fabric, .choices = &choices};
	const struct bb_shape shapes[] = {
		{.nranks = 4, .count = 1024},
		{.nranks = 3, .count = 1024},
		{.nranks = 4, .count = 1025},
		{.nranks = 4, .count = 1024, .root = 1},
		{.nranks = 4, .count = 1024, .in_place = true},
	};
	struct bb_error error = {0};
	size_t n = 0;

	for (int again = 0; again < 2; again++)
		for (size_t i = 0; i < 5; i++)
			for (size_t element = 4; element <= 8; element += 4)
				for (int named = 0; named < 2; named++) {
					struct bb_shape shape = shapes[i];

					assert_non_null(bb_timeline_choose(
						&links, named ? "tree" : NULL, &bb_broadcast,
						&shape, element, &error));
					n += !again;
					assert_int_equal(choices.n, n);
				}
	bb_choices_free(&choices);
}

/* ---- networks -------------------------------------------------------------------------------- */

/* Ranks a period apart have the same routes. */
static void test_periods(void **state)
{
	static const struct {
		int nodes, domain, leaf, pod;
		double taper;
		int n, period;
	} cases[] = {
		{8, 1, 2, 4, 1, 32, 16},  {8, 1, 2, 4, 1, 24, 24}, /* no multiple */
		{8, 1, 2, 4, 1, 16, 16},  {8, 1, 8, 8, 1, 32, 4},    {8, 1, 8, 8, 2, 32, 32},
		{8, 2, 8, 8, 1, 32, 8},   {12, 2, 3, 12, 1, 48, 24}, {12, 2, 3, 4, 1, 48, 48},
		{12, 1, 6, 4, 1, 48, 48}, {12, 1, 4, 6, 1, 48, 48},  {4, 4, 1, 1, 1, 16, 4},
		{8, 4, 8, 8, 1, 32, 16},  {16, 1, 2, 4, 1, 48, 16},  {1, 1, 1, 1, 1, 4, 4},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bb_fabric f = fabric_of(cases[i].nodes, cases[i].domain, cases[i].leaf,
					       cases[i].pod, cases[i].taper);

		if (bb_fabric_period(&f, cases[i].n) != cases[i].period)
			fail_msg("%zu: %d", i, bb_fabric_period(&f, cases[i].n));
		f.flawed = true;
		assert_int_equal(bb_fabric_period(&f, cases[i].n), cases[i].n);
	}
}

/* How many times as many ranks use a link as those of the group. */
static void test_crowds(void **state)
{
	static const struct {
		int members[8], n;
		double rail, leaf, pod; /* of the first member; 0: none are others' */
	} cases[] = {
		/* Two of a node share a rail, four of two nodes a leaf, sixteen of four a pod. */
		{{0, 4, 8, 12}, 4, 2, 2, 4},
		{{0, 4}, 2, 2, 2, 8},
		{{0, 8}, 2, 2, 4, 8},
		{{0, 1, 4, 5}, 4, 1, 1, 4},
		{{0, 1, 2, 3, 4, 5, 6, 7}, 8, 1, 1, 2},
		{{0, 1, 2, 3}, 4, 0, 0, 0}, /* nobody leaves the node */
		{{5}, 1, 0, 0, 0},
	};
	const struct bb_fabric f = fabric_of(4, 1, 2, 4, 2);
	struct bb_crowds crowds = {0};

	assert_true(bb_crowds_open(&crowds, &f, 16));
	for (int again = 0; again < 2; again++)
		for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
			double *crowd;

			assert_true(bb_crowds_find(&crowds, cases[i].members, cases[i].n, &crowd));
			if (cases[i].rail == 0) {
				assert_null(crowd);
				continue;
			}
			assert_non_null(crowd);
			if (crowd[BB_LEVEL_RAIL] != cases[i].rail ||
			    crowd[BB_LEVEL_LEAF] != cases[i].leaf ||
			    crowd[BB_LEVEL_POD] != cases[i].pod || crowd[BB_LEVEL_MEMORY] != 1)
				fail_msg("%zu: %g %g %g %g", i, crowd[BB_LEVEL_RAIL],
					 crowd[BB_LEVEL_LEAF], crowd[BB_LEVEL_POD],
					 crowd[BB_LEVEL_MEMORY]);
			free(crowd);
		}
	bb_crowds_free(&crowds);
}

/* Without a taper only rails are counted, and a group that has all ranks of them is alone. */
static void test_no_crowds(void **state)
{
	static const int all[] = {0, 1, 2, 3, 4, 5, 6, 7}, rail[] = {0, 1, 4, 5}, half[] = {0, 4};
	const struct bb_fabric f = fabric_of(2, 1, 2, 2, 1);
	struct bb_crowds crowds = {0};
	double *crowd;

	assert_true(bb_crowds_open(&crowds, &f, 8));
	assert_true(bb_crowds_find(&crowds, all, 8, &crowd));
	assert_null(crowd);
	assert_true(bb_crowds_find(&crowds, rail, 4, &crowd));
	assert_null(crowd);
	assert_true(bb_crowds_find(&crowds, half, 2, &crowd));
	assert_non_null(crowd);
	for (int i = 0; i < 2 * BB_LEVELS; i++)
		assert_true(crowd[i] == (i % BB_LEVELS == BB_LEVEL_RAIL ? 2 : 1));
	free(crowd);
	bb_crowds_free(&crowds);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_choices),     cmocka_unit_test(test_names),
		cmocka_unit_test(test_estimates),   cmocka_unit_test(test_placements),
		cmocka_unit_test(test_other_calls), cmocka_unit_test(test_periods),
		cmocka_unit_test(test_crowds),      cmocka_unit_test(test_no_crowds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
