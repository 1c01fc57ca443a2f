/*
 * Findings in matrices of six ranks without noise: which, in which order, and every field.
 */
#include "suspects/findings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#define N 6
#define ROUNDS 7
#define HEALTHY 10.

struct machine {
	struct bb_pair_value values[2][N * N];
	struct bb_pair_matrix matrices[2];
};

/* All pairs are alike; the second matrix is that of P2P off, three quarters as fast. */
static void make_machine(struct machine *m)
{
	for (int k = 0; k < 2; k++) {
		m->matrices[k] = (struct bb_pair_matrix){
			.direct = k == 0, .by_source = k == 0, .values = m->values[k], .nranks = N};
		for (int i = 0; i < N * N; i++) {
			const double speed = k == 0 ? HEALTHY : 0.75 * HEALTHY;

			m->values[k][i] =
				(struct bb_pair_value){.from = i / N,
						       .to = i % N,
						       .best = speed,
						       .usual = speed,
						       .rounds = i / N == i % N ? 0 : ROUNDS,
						       .near = i / N == i % N ? 0 : ROUNDS,
						       .factor = BB_SLOW_PAIR,
						       .unit = 1};
		}
	}
}

static void slow(struct machine *m, int k, int from, int to, double speed)
{
	m->values[k][from * N + to].best = m->values[k][from * N + to].usual = speed;
}

static struct bb_findings find(const struct machine *m, size_t n)
{
	struct bb_findings found = {.n = 0};

	assert_int_equal(bb_findings_make(&found, m->matrices, n), BB_OK);
	return found;
}

static void assert_found(const struct bb_finding *f, struct bb_finding wanted)
{
	assert_int_equal(f->kind, wanted.kind);
	assert_int_equal(f->matrix, wanted.matrix);
	assert_int_equal(f->rank, wanted.rank);
	assert_int_equal(f->from, wanted.from);
	assert_int_equal(f->to, wanted.to);
	assert_int_equal(f->like, wanted.like);
	assert_int_equal(f->pairs, wanted.pairs);
	assert_true(f->value == wanted.value && f->reference == wanted.reference);
	/* The rounds of the healthy pairs beside it, or its own. */
	assert_int_equal(f->rounds, ROUNDS);
	assert_int_equal(f->near, wanted.near);
	assert_int_equal(f->of, wanted.near);
	assert_false(f->confirmed);
}

static void test_healthy(void **state)
{
	struct machine m;
	struct bb_findings found;

	make_machine(&m);
	/* Up to the factor. */
	slow(&m, 0, 1, 2, HEALTHY / 1.24);
	found = find(&m, 2);
	assert_int_equal(found.n, 0);
	free(found.list);
}

/* Several pairs at once, each slow in one direction or in both. */
static void test_pairs(void **state)
{
	struct machine m;
	struct bb_findings found;

	make_machine(&m);
	slow(&m, 0, 2, 4, 4);
	slow(&m, 0, 5, 0, 8 - 0.1);
	slow(&m, 0, 1, 3, 5);
	slow(&m, 0, 3, 1, 5);
	found = find(&m, 1);
	assert_int_equal(found.n, 3);
	assert_found(&found.list[0], (struct bb_finding){BB_FIND_ASYMMETRY, 0, -1, 2, 4, -1, 1, 4,
							 HEALTHY, .near = ROUNDS});
	assert_found(&found.list[1], (struct bb_finding){BB_FIND_ASYMMETRY, 0, -1, 5, 0, -1, 1, 7.9,
							 HEALTHY, .near = ROUNDS});
	assert_found(&found.list[2], (struct bb_finding){BB_FIND_SLOW_PAIR, 0, -1, 1, 3, -1, 1, 5,
							 HEALTHY, .near = 26 * ROUNDS});
	free(found.list);
}

/* A rank that sends slowly, or over both routes: the clearer matrix is named. */
static void test_slow_rank(void **state)
{
	struct machine m;
	struct bb_findings found;

	make_machine(&m);
	for (int p = 0; p < N; p++)
		slow(&m, 0, 3, p, 6);
	found = find(&m, 2);
	assert_int_equal(found.n, 1);
	assert_found(&found.list[0], (struct bb_finding){BB_FIND_SLOW_RANK, 0, 3, -1, -1, -1, 5, 6,
							 HEALTHY, .near = 25 * ROUNDS});
	free(found.list);
	for (int p = 0; p < N; p++) {
		slow(&m, 0, p, 3, 6);
		slow(&m, 1, 3, p, 4);
		slow(&m, 1, p, 3, 4);
	}
	found = find(&m, 2);
	assert_int_equal(found.n, 1);
	assert_found(&found.list[0], (struct bb_finding){BB_FIND_SLOW_RANK, 1, 3, -1, -1, -1, 10, 4,
							 7.5, .near = 20 * ROUNDS});
	free(found.list);
}

/* All pairs at a quarter of their bound, or slower with P2P than without it. */
static void test_all_pairs(void **state)
{
	struct machine m;
	struct bb_findings found;

	make_machine(&m);
	for (int i = 0; i < N * N; i++)
		m.values[0][i].bound = 4 * HEALTHY;
	found = find(&m, 2);
	assert_int_equal(found.n, 1);
	assert_found(&found.list[0], (struct bb_finding){BB_FIND_BELOW_BOUND, 0, -1, 0, 1, 0, 30,
							 HEALTHY, 4 * HEALTHY, .near = ROUNDS});
	free(found.list);
	make_machine(&m);
	for (int i = 0; i < N * N; i++)
		slow(&m, 0, i / N, i % N, 5);
	found = find(&m, 2);
	assert_int_equal(found.n, N * (N - 1));
	for (int i = 0; i < N * (N - 1); i++) {
		const int from = i / (N - 1), to = i % (N - 1) + (i % (N - 1) >= from);

		assert_found(&found.list[i],
			     (struct bb_finding){BB_FIND_SLOWER_DIRECT, 0, -1, from, to, -1, 1, 5,
						 7.5, .near = ROUNDS});
	}
	free(found.list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_healthy),
		cmocka_unit_test(test_pairs),
		cmocka_unit_test(test_slow_rank),
		cmocka_unit_test(test_all_pairs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
