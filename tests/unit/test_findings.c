/*
 * What is found in matrices of pairs, in virtual time: a healthy machine with noise, on which
 * nothing is; and one planted fault at a time, on which that is found and nothing else.
 */
#include "suspects/findings.h"

#include "suspects/retest.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define SEEDS 20
#define MOST 8
#define ROUNDS 7
#define MOST_ROUNDS 64 /* with those that measure suspects again */
#define MATRICES 5     /* read, write, staged; read and staged both ways */

enum fault {
	HEALTHY,
	ASYMMETRY,
	SLOW_LINK,
	SLOW_RANK,
	SLOWER_DIRECT,
	BELOW_BOUND,
	SLOW_CARD, /* a rank, over the slower link alone */
	NFAULTS
};

static const enum bb_finding_kind finds[] = {
	[ASYMMETRY] = BB_FIND_ASYMMETRY,     [SLOW_LINK] = BB_FIND_SLOW_PAIR,
	[SLOW_RANK] = BB_FIND_SLOW_RANK,     [SLOWER_DIRECT] = BB_FIND_SLOWER_DIRECT,
	[BELOW_BOUND] = BB_FIND_BELOW_BOUND, [SLOW_CARD] = BB_FIND_SLOW_RANK,
};

/*
 * Measured on 4 ranks of a virtual machine with 2 cores, at 1 MiB, the best of three samples a
 * round, November 2026: the logarithm of a round's time over the floor of its pair
 * (bb_floor_usual), at these shares of the rounds. Of one end at work, of both, of both ways at
 * once; pairs that share a core are left out. Rounds are drawn one by one: what lasts, such as a
 * neighbour of the whole machine, is not in it.
 */
#define POINTS 11
#define EFFORTS 3
static const double shares[POINTS] = {0, .05, .1, .25, .5, .75, .9, .95, .98, .99, 1};

static const struct place {
	const char *name;
	double rounds[EFFORTS][POINTS];
} places[] = {
	/* Beside `make -j2` of busbench and the work of others, at a load of 12: 2016, 672 and 2016
	   rounds. */
	{"beside a build",
	 {{-.0498, -.0019, 0, .0109, .0346, .0715, .1219, .2086, .4005, .5027, 3.7691},
	  {-.7455, -.0449, 0, .3361, 3.3941, 4.5996, 4.9999, 5.1847, 5.435, 5.5029, 5.8669},
	  {-3.2854, -.0308, 0, .0882, .3376, .7629, 2.1407, 2.7582, 3.3478, 3.6377, 4.5173}}},
	/* Beside three busy loops, at a load of 12: 840, 252 and 504 rounds. */
	{"beside three busy loops",
	 {{-.0102, 0, .0015, .0151, .0309, .0682, .1159, .1632, .2431, .3095, .8823},
	  {-3.3822, 0, .1387, .8571, 3.5115, 4.4561, 4.9985, 5.1612, 5.3992, 5.437, 6.0954},
	  {-.1839, 0, .0374, .1752, .3325, .4562, .5689, .6711, .9585, 1.1171, 1.3244}}},
};

/* How far apart the floors of healthy pairs are: the logarithm of a pair's speed over the median of
   its kind, at the same shares of 960 pairs of 40 quieter runs. */
static const double pairs_of_cores[POINTS] = {-.1856, -.077, -.0528, -.0244, 0,    .0314,
					      .0642,  .079,  .0991,  .1146,  .1486};

struct machine {
	int nranks;
	int rounds;
	double noise;              /* standard deviation of what a round takes longer */
	const struct place *place; /* NULL: noise is made up */
	bool far;                  /* half of the ranks are across a slower link */
	enum fault fault;
	int a, b;
	double factor;
	uint64_t random;
	double speeds[MATRICES][MOST * MOST]; /* undisturbed */
	struct bb_floor floors[MATRICES][MOST * MOST];
	struct bb_pair_value values[MATRICES][MOST * MOST];
	struct bb_pair_matrix matrices[MATRICES];
};

static double uniform(struct machine *m)
{
	m->random = m->random * 6364136223846793005u + 1442695040888963407u;
	return (double)(m->random >> 11) * 0x1p-53;
}

/* At random from what was measured at these shares. */
static double draw(struct machine *m, const double points[POINTS])
{
	const double share = uniform(m);
	int at = 0;

	while (shares[at + 1] < share)
		at++;
	return points[at] +
	       (points[at + 1] - points[at]) * (share - shares[at]) / (shares[at + 1] - shares[at]);
}

/* What a round of matrix K takes longer: as on a shared machine, now and then twice the time. */
static double noise(struct machine *m, int k)
{
	double sum = -6;

	if (m->place)
		return exp(draw(m, m->place->rounds[k == 2 ? 1 : k > 2 ? 2 : 0]));
	for (int i = 0; i < 12; i++)
		sum += uniform(m);
	return uniform(m) < 0.03 ? 2 : 1 + m->noise * fabs(sum);
}

static bool is_across(const struct machine *m, int from, int to)
{
	return m->far && (from < m->nranks / 2) != (to < m->nranks / 2);
}

static bool is_hit(const struct machine *m, int k, int from, int to)
{
	const bool same = from == m->a && to == m->b, back = from == m->b && to == m->a;
	const bool both = m->matrices[k].bidirectional;

	switch (m->fault) {
	case ASYMMETRY:
		return same || (both && back);
	case SLOW_LINK:
		return same || back;
	case SLOW_RANK: /* who acts is slow */
		return k == 0 ? to == m->a : k == 1 ? from == m->a : from == m->a || to == m->a;
	case SLOWER_DIRECT:
		return m->matrices[k].direct && (same || (both && back));
	case BELOW_BOUND:
		return true;
	case SLOW_CARD:
		return (from == m->a || to == m->a) && is_across(m, from, to);
	default:
		return false;
	}
}

static double speed_of(struct machine *m, int k, int from, int to)
{
	double speed = m->matrices[k].direct ? 10 : 8;

	speed *= is_across(m, from, to) ? 0.5 : 1;
	speed *= m->matrices[k].bidirectional ? 1.8 : 1;
	speed *= m->place ? exp(draw(m, pairs_of_cores)) : 1;
	return is_hit(m, k, from, to) ? speed / m->factor : speed;
}

/* One more round of a pair. */
static void measure(struct machine *m, int k, int from, int to)
{
	const int at = from * m->nranks + to;
	const bool is_far = is_across(m, from, to);
	struct bb_floor *floor = &m->floors[k][at];

	bb_floor_add(floor, noise(m, k) / m->speeds[k][at]);
	m->values[k][at] = (struct bb_pair_value){.from = from,
						  .to = to,
						  .like = is_far,
						  .best = 1 / floor->kept[0],
						  .usual = 1 / bb_floor_usual(floor),
						  .rounds = floor->rounds,
						  .near = floor->near,
						  .factor = m->place ? BB_SLOW_CORES : BB_SLOW_PAIR,
						  .unit = 1,
						  .bound = k < 2 ? (is_far ? 5.5 : 11) : 0};
}

/* A round of all pairs of matrix K. */
static void measure_all(struct machine *m, int k)
{
	for (int from = 0; from < m->nranks; from++)
		for (int to = 0; to < m->nranks; to++)
			if (from != to && (k < 3 || from < to))
				measure(m, k, from, to);
}

#define AT_ONCE 4 /* rounds between two looks at the findings */

/* More rounds of each matrix that has a suspect. Returns how many there are. */
static int measure_again(struct machine *m, const struct bb_findings *found)
{
	bool again[MATRICES] = {false};
	int n = 0;

	for (size_t i = 0; i < found->n; i++) {
		const struct bb_finding *f = &found->list[i];

		n += !f->confirmed;
		again[f->matrix] |= !f->confirmed;
		again[2] |= !f->confirmed && f->kind == BB_FIND_SLOWER_DIRECT;
	}
	for (int k = 0; k < MATRICES; k++)
		for (int i = 0; i < AT_ONCE && again[k]; i++)
			measure_all(m, k);
	return n;
}

/* Those whom nobody could judge; returns how many there were. */
static size_t drop_unjudged(struct bb_findings *found)
{
	const size_t all = found->n;
	size_t n = 0;

	for (size_t i = 0; i < found->n; i++)
		if (found->list[i].confirmed)
			found->list[n++] = found->list[i];
	found->n = n;
	return all - n;
}

/* Returns how many suspects nobody could judge. */
static size_t run(struct machine *m, struct bb_findings *found)
{
	for (int k = 0; k < MATRICES; k++) {
		struct bb_pair_matrix *matrix = &m->matrices[k];

		*matrix = (struct bb_pair_matrix){.direct = k != 2 && k != 4,
						  .bidirectional = k > 2,
						  .by_source = k == 1,
						  .by_target = k == 0 || k == 3,
						  .values = m->values[k],
						  .nranks = m->nranks};
		memset(m->values[k], 0, sizeof(m->values[k]));
		memset(m->floors[k], 0, sizeof(m->floors[k]));
		for (int i = 0; i < m->nranks * m->nranks; i++)
			m->speeds[k][i] = speed_of(m, k, i / m->nranks, i % m->nranks);
		for (int round = 0; round < m->rounds; round++)
			measure_all(m, k);
	}
	for (int round = m->rounds; round < MOST_ROUNDS; round += AT_ONCE) {
		free(found->list);
		assert_int_equal(bb_findings_make(found, m->matrices, MATRICES), BB_OK);
		if (measure_again(m, found) == 0)
			break;
	}
	return drop_unjudged(found);
}

static void print(const struct bb_findings *found)
{
	for (size_t i = 0; i < found->n; i++)
		print_message("kind %d matrix %zu rank %d pair %d -> %d: %g of %g, %d pairs\n",
			      (int)found->list[i].kind, found->list[i].matrix, found->list[i].rank,
			      found->list[i].from, found->list[i].to, found->list[i].value,
			      found->list[i].reference, found->list[i].pairs);
}

static void expect(struct machine m, size_t wanted)
{
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct bb_findings found = {.n = 0};
		bool right;

		m.random = seed * 0x9e3779b97f4a7c15u;
		run(&m, &found);
		right = found.n == wanted;
		for (size_t i = 0; i < found.n && right; i++) {
			const struct bb_finding *f = &found.list[i];

			right = f->kind == finds[m.fault] && f->value < 0.85 * f->reference &&
				(f->like >= 0) == (m.fault == BELOW_BOUND || m.fault == SLOW_CARD);
			if (m.fault == SLOW_RANK)
				right = right && f->rank == m.a && f->from < 0;
			else if (m.fault == SLOW_CARD)
				right = right && f->rank == m.a && f->like == 1;
			else if (m.fault == SLOW_LINK)
				right = right && f->from < f->to && f->from + f->to == m.a + m.b;
			else if (m.fault != BELOW_BOUND)
				right = right && f->from == m.a && f->to == m.b;
		}
		if (!right)
			print(&found);
		free(found.list);
		assert_true(right);
	}
}

static void test_healthy(void **state)
{
	for (int n = 2; n <= MOST; n++)
		for (int far = 0; far < 2; far++)
			for (int i = 0; i < 4; i++)
				expect((struct machine){.nranks = n,
							.rounds = ROUNDS,
							.noise = 0.02 + 0.06 * i,
							.far = far == 1},
				       0);
}

static void test_pairs(void **state)
{
	for (int n = 2; n <= MOST; n++)
		for (int a = 0; a < n; a += 3)
			for (int b = 0; b < n; b += 2) {
				struct machine m = {.nranks = n,
						    .rounds = ROUNDS,
						    .noise = 0.03,
						    .a = a,
						    .b = b,
						    .factor = 2};

				if (a == b)
					continue;
				m.fault = ASYMMETRY;
				expect(m, 1);
				m.fault = SLOWER_DIRECT;
				expect(m, 1);
				/* What two ranks' only link could do is not known. */
				m.fault = SLOW_LINK;
				if (n >= 4)
					expect(m, 1);
			}
}

static void test_slow_rank(void **state)
{
	for (int n = 2; n <= MOST; n++)
		for (int a = 0; a < n; a += 2)
			for (int far = 0; far < 2; far++)
				expect((struct machine){.nranks = n,
							.rounds = ROUNDS,
							.noise = 0.03,
							.far = far == 1 && n > 5,
							.fault = SLOW_RANK,
							.a = a,
							.factor = 2},
				       1);
}

/* It is fast with those that are near: as if its network card were slow. */
static void test_slow_card(void **state)
{
	for (int a = 0; a < MOST; a++)
		expect((struct machine){.nranks = MOST,
					.rounds = ROUNDS,
					.noise = 0.03,
					.far = true,
					.fault = SLOW_CARD,
					.a = a,
					.factor = 2},
		       1);
}

/* All pairs of a kind of path are one finding, whatever the route. */
static void test_below_bound(void **state)
{
	struct machine m = {
		.nranks = 4, .rounds = ROUNDS, .noise = 0.03, .fault = BELOW_BOUND, .factor = 3};

	expect(m, 1);
	m.far = true;
	expect(m, 2);
}

/* Two rounds do not tell how far values spread. */
static void test_too_few_rounds(void **state)
{
	for (int fault = 0; fault < NFAULTS; fault++)
		expect((struct machine){.nranks = 4,
					.rounds = BB_FINDING_ROUNDS - 1,
					.noise = 0.02,
					.fault = (enum fault)fault,
					.b = 1,
					.factor = 4},
		       0);
}

/* A rank alone, or nothing at all. */
static void test_nothing(void **state)
{
	struct bb_pair_value alone = {.rounds = 0};
	const struct bb_pair_matrix m = {.values = &alone, .nranks = 1};
	struct bb_findings found;

	assert_int_equal(bb_findings_make(&found, &m, 1), BB_OK);
	assert_int_equal(found.n, 0);
	free(found.list);
	assert_int_equal(bb_findings_make(&found, NULL, 0), BB_OK);
	assert_int_equal(found.n, 0);
	free(found.list);
}

/* ---- the score ----------------------------------------------------------------------------- */

#define DRAWS 100
#define NAMED 95 /* draws of planted faults, at least */
#define BLAMED 1 /* draws in which anybody healthy is, at most */
#define FACTOR 4

struct score {
	int named, blamed, unjudged;
	double least, most; /* factors that were told */
};

static void count(const struct machine *m, const struct bb_findings *found, struct score *score)
{
	bool named = false, blamed = false;

	for (size_t i = 0; i < found->n; i++) {
		const struct bb_finding *f = &found->list[i];
		const bool right = m->fault != HEALTHY && f->kind == finds[m->fault] &&
				   (m->fault == SLOW_RANK ? f->rank == m->a
							  : f->from == m->a && f->to == m->b);
		const double factor = f->reference / f->value;

		named = named || right;
		blamed = blamed || !right;
		if (!right)
			continue;
		score->least = fmin(score->least, factor);
		score->most = fmax(score->most, factor);
	}
	score->named += named;
	score->blamed += blamed;
}

static void play(const struct place *place, enum fault fault, int nranks)
{
	static const char *const names[] = {[HEALTHY] = "nothing",
					    [ASYMMETRY] = "a slow link one way",
					    [SLOW_RANK] = "a slow rank"};
	struct score score = {.least = INFINITY};

	for (uint64_t draw = 1; draw <= DRAWS; draw++) {
		struct machine m = {.nranks = nranks,
				    .rounds = ROUNDS,
				    .place = place,
				    .fault = fault,
				    .factor = FACTOR,
				    .random = draw * 0x9e3779b97f4a7c15u + (uint64_t)fault};
		struct bb_findings found = {.n = 0};

		m.a = (int)(uniform(&m) * nranks);
		m.b = (m.a + 1 + (int)(uniform(&m) * (nranks - 1))) % nranks;
		score.unjudged += run(&m, &found) > 0;
		count(&m, &found, &score);
		free(found.list);
	}
	printf("| %s | %d | %s | %d | ", place->name, nranks, names[fault], DRAWS);
	if (fault == HEALTHY)
		printf("| %d | %d | |\n", score.blamed, score.unjudged);
	else
		printf("%d | %d | %d | %.1f to %.1f |\n", score.named, score.blamed, score.unjudged,
		       score.least, score.most);
	assert_true(fault == HEALTHY || score.named >= NAMED);
	assert_true(score.blamed <= BLAMED);
}

/* Prints the table that docs/p2p.md shows. */
static void test_score(void **state)
{
	static const enum fault faults[] = {HEALTHY, ASYMMETRY, SLOW_RANK};

	printf("| noise | ranks | planted | draws | named | blamed healthy | not all judged | "
	       "factor told |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n");
	for (size_t p = 0; p < sizeof(places) / sizeof(places[0]); p++)
		for (size_t f = 0; f < sizeof(faults) / sizeof(faults[0]); f++)
			for (int nranks = 4; nranks <= MOST; nranks *= 2)
				play(&places[p], faults[f], nranks);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_healthy),     cmocka_unit_test(test_pairs),
		cmocka_unit_test(test_slow_rank),   cmocka_unit_test(test_slow_card),
		cmocka_unit_test(test_below_bound), cmocka_unit_test(test_too_few_rounds),
		cmocka_unit_test(test_nothing),     cmocka_unit_test(test_score),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
