/*
 * The arithmetic of diagnose on measurements made by hand: noise, the fit of ports, whom a survey
 * suspects, and who comes late.
 */
#include "suspects/judge.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define NODES 7
#define RAILS 2
#define MOST_ROUNDS 24

/* Seven nodes that have all met all, over two rails. */
struct survey {
	struct bb_rounds rounds;
	struct bb_quantity m;
	struct bb_view view;
	float log_s[MOST_ROUNDS * NODES * RAILS];
};

/* LOG_S of each measurement by its ends and rail; NAN: none. */
static void survey_make(struct survey *s, int rounds, double (*log_s)(int from, int to, int rail))
{
	memset(s, 0, sizeof(*s));
	assert_int_equal(bb_rounds_survey(&s->rounds, NODES, rounds, false, 1), BB_OK);
	assert_true(s->rounds.n <= MOST_ROUNDS);
	s->m = (struct bb_quantity){&s->rounds, RAILS, s->log_s, NULL};
	for (int r = 0; r < s->rounds.n; r++)
		for (int i = 0; i < NODES; i++)
			for (int k = 0; k < RAILS; k++) {
				const int from = bb_rounds_partner(&s->rounds, r, i);

				s->log_s[(r * NODES + i) * RAILS + k] =
					from == BB_NOBODY ? NAN : (float)log_s(from, i, k);
			}
}

static void survey_free(struct survey *s)
{
	free(s->view.out);
	bb_rounds_free(&s->rounds);
}

/* ---- noise ----------------------------------------------------------------------------------- */

static void test_noise(void **state)
{
	double five[] = {2, -3, 0, -1, 1}, one[] = {-2}, even[] = {-4, 1, 2, 3};
	double many[101];
	struct bb_noise noise = bb_noise_of(five, 5);

	/* 1, 0, 1, 2, 3 without signs: the median is 1; 2% of -3 to 2 exceed the fourth. */
	assert_float_equal(noise.sigma, 1.4826, 1e-12);
	assert_float_equal(noise.rare, 1, 1e-12);
	noise = bb_noise_of(one, 1);
	assert_float_equal(noise.sigma, 2 * 1.4826, 1e-12);
	assert_float_equal(noise.rare, -2, 1e-12);
	/* The lower middle of 1, 2, 3, 4 is 2. */
	noise = bb_noise_of(even, 4);
	assert_float_equal(noise.sigma, 2 * 1.4826, 1e-12);
	assert_float_equal(noise.rare, 2, 1e-12);
	for (int i = 0; i < 101; i++)
		many[i] = i;
	noise = bb_noise_of(many, 101);
	assert_float_equal(noise.rare, 98, 1e-12);
	assert_float_equal(noise.sigma, 50 * 1.4826, 1e-12);
	/* At least LEAST, at most four sigma or what is rare. */
	assert_float_equal(bb_slow_from(1, (struct bb_noise){0.5, 3}), 2, 1e-12);
	assert_float_equal(bb_slow_from(1, (struct bb_noise){0.5, 1.5}), 1.5, 1e-12);
	assert_float_equal(bb_slow_from(1, (struct bb_noise){0.5, 0.5}), 1, 1e-12);
	assert_float_equal(bb_slow_from(1, (struct bb_noise){0.1, 3}), 1, 1e-12);
}

/* The commonest distance is the level of all; one that nobody has is level. */
static double by_distance(int from, int to, int rail)
{
	return 10 + (from < 5) + (to < 5) + 4 * rail * 0;
}

static void test_levels(void **state)
{
	struct bb_spot places[NODES];
	double level[BB_NEARNESSES];
	struct survey s;

	/* Nodes 0 to 4 are cores of one NUMA node, 5 and 6 share a core of another. */
	for (int i = 0; i < NODES; i++)
		places[i] = (struct bb_spot){.core = i < 5 ? i : 5, .numa = i < 5 ? 0 : 1};
	survey_make(&s, NODES, by_distance);
	assert_int_equal(bb_level_find(level, &s.m, places), BB_OK);
	/* 12 within the first, 10 within the other's core, 11 across: 20, 2 and 20 of 42 pairs. */
	assert_float_equal(level[0], -2, 1e-6);
	assert_float_equal(level[1], 0, 1e-6);
	assert_float_equal(level[2], -1, 1e-6);
	bb_level_apply(level, &s.m, places);
	for (int i = 0; i < s.rounds.n * NODES * RAILS; i++)
		assert_true(isnan(s.log_s[i]) || fabsf(s.log_s[i] - 12) < 1e-5f);
	/* All are cores of one NUMA node: 11 is the lower median of 20 x 12, 20 x 11 and 2 x 10. */
	survey_free(&s);
	for (int i = 0; i < NODES; i++)
		places[i] = (struct bb_spot){.core = i, .numa = 0};
	survey_make(&s, NODES, by_distance);
	assert_int_equal(bb_level_find(level, &s.m, places), BB_OK);
	for (int k = 0; k < BB_NEARNESSES; k++)
		assert_float_equal(level[k], 0, 1e-6);
	survey_free(&s);
}

static void test_rails(void **state)
{
	static const double two[] = {1, 4}, three[] = {1, 2, 5}, falling[] = {5, 2, 1};

	assert_float_equal(bb_typical_base(two, 2), 1, 1e-12);
	assert_float_equal(bb_typical_base(three, 3), 2, 1e-12);
	assert_float_equal(bb_typical_base(three, 1), 1, 1e-12);
	assert_float_equal(bb_typical_base(falling, 3), 2, 1e-12);
	assert_float_equal(falling[0], 5, 0);
}

/* ---- the fit --------------------------------------------------------------------------------- */

/* Rail 1 takes longer by 0.25; node 3 sends slowly over rail 0, 4 receives slowly, 5 is fast; the
   link from 1 to 2 is slow, and that from 2 to 6 a little. */
static double planted(int from, int to, int rail)
{
	if (from == 0 && to == 6)
		return NAN;
	return -9 + 0.25 * rail + (from == 3 && rail == 0 ? 0.5 : 0) + (to == 4 ? 0.75 : 0) -
	       (from == 5 ? 0.125 : 0) + (from == 1 && to == 2 ? 1 : 0) +
	       (from == 2 && to == 6 ? 0.2 : 0);
}

static void test_fit(void **state)
{
	struct survey s;

	survey_make(&s, NODES, planted);
	assert_int_equal(bb_view_make(&s.view, &s.m, 0.2), BB_OK);
	for (int k = 0; k < RAILS; k++) {
		assert_float_equal(s.view.base[k], -9 + 0.25 * k, 1e-5);
		for (int i = 0; i < NODES; i++) {
			assert_float_equal(s.view.out[i * RAILS + k],
					   i == 3 && k == 0 ? 0.5
					   : i == 5         ? -0.125
							    : 0,
					   1e-5);
			assert_float_equal(s.view.in[i * RAILS + k], i == 4 ? 0.75 : 0, 1e-5);
		}
	}
	/* 1 / 0.8 of the time is tolerated, which is 0.2231. */
	assert_float_equal(s.view.limit, 0.22314355, 1e-6);
	assert_true(s.view.noise.sigma < 1e-5);
	/* 41 pairs over two rails; those of the slow link are slow. */
	assert_int_equal(s.view.of, 82);
	assert_int_equal(s.view.slow, 2);
	for (int r = 0; r < s.rounds.n; r++)
		for (int i = 0; i < NODES; i++) {
			const int from = bb_rounds_partner(&s.rounds, r, i);
			const double e = bb_view_excess(&s.view, r, i, 0, false, false);

			if (from == BB_NOBODY || (from == 0 && i == 6)) {
				assert_true(isnan(e));
				continue;
			}
			assert_float_equal(e, planted(from, i, 0) + 9, 1e-5);
			assert_float_equal(bb_view_excess(&s.view, r, i, 0, true, false),
					   e - (from == 3 ? 0.5 : 0), 1e-5);
			assert_float_equal(bb_view_excess(&s.view, r, i, 0, false, true),
					   e - (i == 4 ? 0.75 : 0), 1e-5);
			assert_float_equal(bb_view_excess(&s.view, r, i, 0, true, true),
					   e - (from == 3 ? 0.5 : 0) - (i == 4 ? 0.75 : 0), 1e-5);
		}
	/* A floor is the least limit; again on the same view. */
	s.view.floor = 1.5;
	assert_int_equal(bb_view_make(&s.view, &s.m, 0.2), BB_OK);
	assert_float_equal(s.view.limit, 1.5, 1e-12);
	assert_int_equal(s.view.slow, 0);
	assert_int_equal(s.view.of, 82);
	survey_free(&s);
}

/* The next measurement by round, receiver and rail, without those that are missing. */
static void test_measurements(void **state)
{
	struct bb_measurement at = BB_BEFORE_MEASUREMENT;
	struct survey s;
	int n = 0, last = -1;

	survey_make(&s, NODES, planted);
	while (bb_quantity_next(&s.m, &at)) {
		const int place = (at.met.round * NODES + at.met.to) * RAILS + at.rail;

		assert_true(place > last);
		assert_true(at.log_s == (double)s.log_s[place]);
		assert_int_equal(bb_rounds_partner(&s.rounds, at.met.round, at.met.to),
				 at.met.from);
		last = place;
		n++;
	}
	assert_int_equal(n, 82);
	survey_free(&s);
}

/* ---- suspects -------------------------------------------------------------------------------- */

static double slow_node(int from, int to, int rail)
{
	return from == 3 || to == 3 ? 1 : 0;
}

static double slow_sender(int from, int to, int rail)
{
	return from == 3 && rail == 1 ? 1 : 0;
}

static double slow_link(int from, int to, int rail)
{
	return (from == 2 && to == 5 && rail == 0) || (from == 5 && to == 2 && rail == 1);
}

static double two_links(int from, int to, int rail)
{
	return from == 5 && to == 2 && rail == 0 ? 0.5 : from == 1 && to == 6 ? 1 : 0;
}

static double slow_rail(int from, int to, int rail)
{
	return rail;
}

static double nothing(int from, int to, int rail)
{
	return 0;
}

static double three_slow(int from, int to, int rail)
{
	return (from < 3) + (to < 3);
}

static void test_suspects(void **state)
{
	static const struct {
		double (*log_s)(int from, int to, int rail);
		unsigned suspects; /* nodes, as bits */
		bool rails;
		int npairs, pairs[2][2];
	} cases[] = {
		{slow_node, 1 << 3, false, 0, {{0}}},
		{slow_sender, 1 << 3, false, 0, {{0}}},
		{slow_link, 0, false, 1, {{2, 5}}},
		/* the worst first, the lower node first */
		{two_links, 0, false, 2, {{1, 6}, {2, 5}}},
		{slow_rail, 0, true, 0, {{0}}},
		{nothing, 0, false, 0, {{0}}},
		{three_slow, 7, false, 0, {{0}}},
	};

	for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
		struct bb_suspects suspects = {0};
		struct survey s;
		int proven = 0;

		survey_make(&s, NODES, cases[c].log_s);
		assert_int_equal(bb_view_make(&s.view, &s.m, 0.2), BB_OK);
		assert_int_equal(bb_suspect(&suspects, &s.view, 1), BB_OK);
		assert_int_equal(suspects.nodes, NODES);
		assert_int_equal(suspects.rails, cases[c].rails);
		assert_int_equal(suspects.npairs, cases[c].npairs);
		for (int i = 0; i < suspects.npairs; i++) {
			assert_int_equal(suspects.pairs[i].a, cases[c].pairs[i][0]);
			assert_int_equal(suspects.pairs[i].b, cases[c].pairs[i][1]);
		}
		for (int i = 0; i < NODES; i++) {
			if ((suspects.standing[i] == BB_SUSPECT) != (cases[c].suspects >> i & 1))
				fail_msg("%zu: node %d", c, i);
			proven += suspects.standing[i] == BB_PROVEN;
			/* Ends of suspected links are proven, or questioned until the links are. */
			assert_true(suspects.standing[i] != BB_QUESTIONED || cases[c].npairs > 0);
		}
		/* At least half of those that are no suspects. */
		assert_true(2 * proven >= NODES - __builtin_popcount(cases[c].suspects) - 1);
		assert_int_equal(bb_suspects_any(&suspects),
				 cases[c].suspects || cases[c].rails || cases[c].npairs);
		free(suspects.standing);
		survey_free(&s);
	}
}

/* ---- stragglers ------------------------------------------------------------------------------ */

#define STEPS 20
#define RANKS 5

static void test_stragglers(void **state)
{
	static const struct {
		double late; /* of rank 3, seconds of a step of 1 s */
		int first, every, times;
		bool found, flapping;
	} cases[] = {
		{0.5, 0, 1, 20, true, false},   {0.21, 0, 1, 20, true, false},
		{0.19, 0, 1, 20, false, false},                                /* tolerated */
		{-0.5, 0, 1, 20, false, false},                                /* early */
		{0.5, 0, 2, 10, true, true},    {0.5, 0, 1, 10, false, false}, /* once, for long */
		{0.5, 0, 1, 16, true, false},                               /* 80% of the steps */
		{0.5, 0, 1, 15, false, false},  {0.5, 1, 3, 6, true, true}, /* steps 1, 4, ... 16 */
		{0.5, 3, 7, 3, false, false},                               /* chance */
		{0.5, 3, 9, 2, false, false},
	};

	for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
		struct bb_verdicts verdicts = {0};
		float waits[RANKS * STEPS];

		for (int r = 0; r < RANKS; r++)
			for (int i = 0; i < STEPS; i++)
				waits[r * STEPS + i] = 2;
		for (int k = 0; k < cases[c].times; k++)
			waits[3 * STEPS + cases[c].first + k * cases[c].every] -=
				(float)cases[c].late;
		assert_int_equal(bb_find_stragglers(&verdicts, waits, STEPS, RANKS, 1, 0.2), BB_OK);
		if (verdicts.n != cases[c].found)
			fail_msg("%zu: %d verdicts", c, verdicts.n);
		if (cases[c].found) {
			const struct bb_diagnosis *const v = &verdicts.list[0];

			assert_int_equal(v->charge, BB_CHARGE_STRAGGLER);
			assert_int_equal(v->node, 3);
			assert_int_equal(v->peer, -1);
			assert_int_equal(v->rail, -1);
			assert_float_equal(v->factor, 1 + cases[c].late, 1e-5);
			assert_float_equal(v->share, cases[c].times / 20.0, 1e-9);
			assert_int_equal(v->measured, STEPS);
			assert_int_equal(v->flapping, cases[c].flapping);
			/* five ranks; of the others none was late */
			assert_float_equal(v->chance,
					   5 * bb_chance(cases[c].times, STEPS, 0, 4 * STEPS),
					   1e-12);
		}
		free(verdicts.list);
	}
}

/* The chance that one is slow as often, by the sum of the beta-binomial distribution: of two, with
   one slow of two, (1 + 1) / 4 and on from there. */
static void test_chances(void **state)
{
	/* k of n, x of m: with x = 0 of m = 0 all counts 0 to n are alike. */
	for (int n = 1; n <= 5; n++)
		for (int k = 0; k <= n; k++)
			assert_float_equal(bb_chance(k, n, 0, 0), (n - k + 1.0) / (n + 1), 1e-12);
	/* one of one, after x of m: (x + 1) / (m + 2) */
	assert_float_equal(bb_chance(1, 1, 0, 8), 0.1, 1e-12);
	assert_float_equal(bb_chance(1, 1, 3, 8), 0.4, 1e-12);
	/* two of two: (x + 1)(x + 2) / (m + 2)(m + 3) */
	assert_float_equal(bb_chance(2, 2, 3, 8), 20 / 110.0, 1e-12);
	/* one or two of two: 1 - (m - x + 1)(m - x + 2) / (m + 2)(m + 3) */
	assert_float_equal(bb_chance(1, 2, 3, 8), 1 - 42 / 110.0, 1e-12);
	assert_float_equal(bb_chance(0, 2, 3, 8), 1, 1e-12);
	/* The work, without what the link takes: 1 + 0.5 * 3 / 4. */
	assert_float_equal(bb_slow_factor(1.5, 4, 1), 1.375, 1e-12);
	assert_float_equal(bb_slow_factor(1.5, 4, 0), 1.5, 1e-12);
	assert_float_equal(bb_slow_factor(1.5, 4, 5), 1, 1e-12);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_noise),        cmocka_unit_test(test_levels),
		cmocka_unit_test(test_rails),        cmocka_unit_test(test_fit),
		cmocka_unit_test(test_measurements), cmocka_unit_test(test_suspects),
		cmocka_unit_test(test_stragglers),   cmocka_unit_test(test_chances),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
