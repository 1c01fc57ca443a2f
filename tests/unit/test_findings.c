/*
 * What is found in matrices of pairs, in virtual time: a healthy machine with noise, on which
 * nothing is; and one planted fault at a time, on which that is found and nothing else.
 */
#include "p2p/findings.h"

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
#define MATRICES 5 /* read, write, staged; read and staged both ways */

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

struct machine {
	int nranks;
	int rounds;
	double noise; /* standard deviation of a round */
	bool far;     /* half of the ranks are across a slower link */
	enum fault fault;
	int a, b;
	double factor;
	uint64_t random;
	struct bb_pair_value values[MATRICES][MOST * MOST];
	struct bb_pair_matrix matrices[MATRICES];
};

static double uniform(struct machine *m)
{
	m->random = m->random * 6364136223846793005u + 1442695040888963407u;
	return (double)(m->random >> 11) * 0x1p-53;
}

/* About normal; and as on a shared machine, now and then a round is spoilt. */
static double noise(struct machine *m)
{
	double sum = -6;

	for (int i = 0; i < 12; i++)
		sum += uniform(m);
	return uniform(m) < 0.03 ? 0.5 : 1 + m->noise * sum;
}

static int compare(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static bool is_across(const struct machine *m, int from, int to)
{
	return m->far && (from < m->nranks / 2) != (to < m->nranks / 2);
}

static bool is_hit(const struct machine *m, int k, int from, int to)
{
	const bool same = from == m->a && to == m->b, back = from == m->b && to == m->a;
	const bool both = m->matrices[k].both_ways;

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

static struct bb_pair_value measure(struct machine *m, int k, int from, int to)
{
	const bool is_far = is_across(m, from, to);
	double rounds[ROUNDS];
	double speed = m->matrices[k].direct ? 10 : 8;

	speed *= is_far ? 0.5 : 1;
	speed *= m->matrices[k].both_ways ? 1.8 : 1;
	if (is_hit(m, k, from, to))
		speed /= m->factor;
	for (int i = 0; i < m->rounds; i++)
		rounds[i] = speed * noise(m);
	qsort(rounds, (size_t)m->rounds, sizeof(*rounds), compare);
	return (struct bb_pair_value){.from = from,
				      .to = to,
				      .like = is_far,
				      .low = rounds[m->rounds / 4],
				      .mid = rounds[m->rounds / 2],
				      .high = rounds[m->rounds - 1 - m->rounds / 4],
				      .rounds = m->rounds,
				      .bound = k < 2 ? (is_far ? 5.5 : 11) : 0};
}

static void run(struct machine *m, struct bb_findings *found)
{
	for (int k = 0; k < MATRICES; k++) {
		struct bb_pair_matrix *matrix = &m->matrices[k];

		*matrix = (struct bb_pair_matrix){.direct = k != 2 && k != 4,
						  .both_ways = k > 2,
						  .by_source = k == 1,
						  .by_target = k == 0 || k == 3,
						  .values = m->values[k],
						  .nranks = m->nranks};
		memset(m->values[k], 0, sizeof(m->values[k]));
		for (int from = 0; from < m->nranks; from++)
			for (int to = 0; to < m->nranks; to++)
				if (from != to && (k < 3 || from < to))
					m->values[k][from * m->nranks + to] =
						measure(m, k, from, to);
	}
	assert_int_equal(bb_findings_make(found, m->matrices, MATRICES), BB_OK);
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
		struct bb_findings found;
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
		bb_findings_free(&found);
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
	bb_findings_free(&found);
	assert_int_equal(bb_findings_make(&found, NULL, 0), BB_OK);
	assert_int_equal(found.n, 0);
	bb_findings_free(&found);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_healthy),     cmocka_unit_test(test_pairs),
		cmocka_unit_test(test_slow_rank),   cmocka_unit_test(test_slow_card),
		cmocka_unit_test(test_below_bound), cmocka_unit_test(test_too_few_rounds),
		cmocka_unit_test(test_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
