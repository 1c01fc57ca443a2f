/*
 * The rules of docs/p2p.md on matrices made by hand: what is slow, whose it is, and by which
 * numbers.
 */
#include "suspects/findings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
#include <cmocka.h>

#define MOST 6

/* Speeds of pairs; 0: not measured. Ranks up to NEAR - 1 are of one kind, paths beyond of another.
 */
struct machine {
	int n, near;
	struct bb_pair_value values[2][MOST * MOST];
	struct bb_pair_matrix matrices[2];
	size_t nmatrices;
	struct bb_findings found;
};

static void machine_init(struct machine *m, int n, int near)
{
	memset(m, 0, sizeof(*m));
	m->n = n;
	m->near = near;
	m->nmatrices = 1;
	for (int k = 0; k < 2; k++)
		m->matrices[k] = (struct bb_pair_matrix){
			.direct = k == 0, .exact = true, .values = m->values[k], .nranks = n};
}

static struct bb_pair_value *value_of(struct machine *m, int k, int from, int to)
{
	return &m->values[k][from * m->n + to];
}

static void set(struct machine *m, int k, int from, int to, double speed)
{
	*value_of(m, k, from, to) =
		(struct bb_pair_value){.from = from,
				       .to = to,
				       .like = (from < m->near) != (to < m->near),
				       .best = speed,
				       .usual = speed,
				       .rounds = 4,
				       .near = 3,
				       .factor = BB_SLOW_PAIR,
				       .unit = 1};
}

static void set_all(struct machine *m, int k, double speed)
{
	for (int a = 0; a < m->n; a++)
		for (int b = 0; b < m->n; b++)
			if (a != b && (!m->matrices[k].bidirectional || a < b))
				set(m, k, a, b, speed);
}

static void judge(struct machine *m, size_t wanted)
{
	assert_int_equal(bb_findings_make(&m->found, m->matrices, m->nmatrices), BB_OK);
	for (size_t i = 0; m->found.n != wanted && i < m->found.n; i++)
		print_message("kind %d rank %d pair %d %d: %g of %g\n", m->found.list[i].kind,
			      m->found.list[i].rank, m->found.list[i].from, m->found.list[i].to,
			      m->found.list[i].value, m->found.list[i].reference);
	assert_int_equal(m->found.n, wanted);
}

static void expect(const struct machine *m, size_t i, struct bb_finding want)
{
	const struct bb_finding *const f = &m->found.list[i];

	if (f->kind != want.kind || f->matrix != want.matrix || f->rank != want.rank ||
	    f->from != want.from || f->to != want.to || f->like != want.like ||
	    f->pairs != want.pairs)
		fail_msg("kind %d matrix %zu rank %d pair %d %d like %d, %d pairs", f->kind,
			 f->matrix, f->rank, f->from, f->to, f->like, f->pairs);
	assert_float_equal(f->value, want.value, 1e-9);
	assert_float_equal(f->reference, want.reference, 1e-9);
	assert_int_equal(f->rounds, want.rounds);
	assert_int_equal(f->near, want.near);
	assert_int_equal(f->of, want.of);
	assert_true(f->confirmed);
}

/* One direction is slow from 1.25 times the time on, with three rounds at least, if even its best
   round is. */
static void test_asymmetry(void **state)
{
	static const struct {
		double speed, best, back, factor, planned;
		int rounds, back_rounds;
		bool is_slow;
	} cases[] = {
		{7.9, 7.9, 10, 1.25, 0, 4, 4, true},
		{8.1, 8.1, 10, 1.25, 0, 4, 4, false},
		{5, 8.1, 10, 1.25, 0, 4, 4, false},
		{5, 7.9, 10, 1.25, 0, 4, 4, true},
		{7.9, 7.9, 10, 1.6, 0, 4, 4, false},
		{6.3, 6.3, 10, 1.6, 0, 4, 4, false},
		{6.2, 6.2, 10, 1.6, 0, 4, 4, true},
		/* Never below 1.25 times, whatever the factor says. */
		{8.1, 8.1, 10, 1.1, 0, 4, 4, false},
		/* Half of the 0.1 s are the link's: 1 + 0.6 / 2 = 1.3 times. */
		{7.8, 7.8, 10, 1.6, 0.05, 4, 4, false},
		{7.6, 7.6, 10, 1.6, 0.05, 4, 4, true},
		{7.9, 7.9, 10, 1.25, 0, 3, 3, true},
		{7.9, 7.9, 10, 1.25, 0, 2, 4, false},
		{7.9, 7.9, 10, 1.25, 0, 4, 2, false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bb_pair_value *v;
		struct machine m;

		machine_init(&m, 2, 2); /* without others of the kind */
		set_all(&m, 0, 10);
		set(&m, 0, 1, 0, cases[i].back);
		value_of(&m, 0, 1, 0)->rounds = cases[i].back_rounds;
		set(&m, 0, 0, 1, cases[i].speed);
		v = value_of(&m, 0, 0, 1);
		v->best = cases[i].best;
		v->factor = cases[i].factor;
		v->planned_s = cases[i].planned;
		v->rounds = cases[i].rounds;
		assert_int_equal(bb_findings_make(&m.found, m.matrices, 1), BB_OK);
		if ((m.found.n == 1) != cases[i].is_slow || m.found.n > 1)
			fail_msg("%zu: %zu findings", i, m.found.n);
		if (cases[i].is_slow)
			expect(&m, 0,
			       (struct bb_finding){.kind = BB_FIND_ASYMMETRY,
						   .rank = -1,
						   .from = 0,
						   .to = 1,
						   .like = -1,
						   .pairs = 1,
						   .value = cases[i].speed,
						   .reference = cases[i].back,
						   .rounds = cases[i].rounds,
						   .near = 3,
						   .of = cases[i].rounds});
		free(m.found.list);
	}
}

/* The evidence is that of the side that was disturbed more. */
static void test_evidence(void **state)
{
	static const struct {
		int near, rounds, back_near, back_rounds, want_near, want_of;
	} cases[] = {
		{3, 4, 1, 4, 1, 4}, {1, 4, 3, 4, 1, 4}, {4, 8, 3, 4, 4, 8}, {7, 8, 3, 4, 3, 4}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct machine m;

		machine_init(&m, 3, 3);
		set_all(&m, 0, 10);
		set(&m, 0, 1, 2, 5);
		value_of(&m, 0, 1, 2)->near = cases[i].near;
		value_of(&m, 0, 1, 2)->rounds = cases[i].rounds;
		value_of(&m, 0, 2, 1)->near = cases[i].back_near;
		value_of(&m, 0, 2, 1)->rounds = cases[i].back_rounds;
		judge(&m, 1);
		assert_int_equal(m.found.list[0].rounds, cases[i].rounds);
		assert_int_equal(m.found.list[0].near, cases[i].want_near);
		assert_int_equal(m.found.list[0].of, cases[i].want_of);
		free(m.found.list);
		/* Where time is not exact, four rounds convict nobody. */
		m.matrices[0].exact = false;
		assert_int_equal(bb_findings_make(&m.found, m.matrices, 1), BB_OK);
		assert_int_equal(m.found.n, 1);
		assert_false(m.found.list[0].confirmed);
		free(m.found.list);
	}
}

/* A pair that is slow both ways, against the median of the others of its kind: three at least. */
static void test_slow_pairs(void **state)
{
	struct bb_finding slow = {.kind = BB_FIND_SLOW_PAIR,
				  .rank = -1,
				  .from = 1,
				  .to = 3,
				  .like = -1,
				  .pairs = 1,
				  .value = 5,
				  .reference = 10,
				  .rounds = 4,
				  .near = 30, /* of the 10 others */
				  .of = 40};
	struct machine m;

	machine_init(&m, 4, 4);
	set_all(&m, 0, 10);
	set(&m, 0, 1, 3, 5);
	set(&m, 0, 3, 1, 5);
	set(&m, 0, 0, 2, 9);
	set(&m, 0, 0, 1, 12);
	judge(&m, 1);
	expect(&m, 0, slow);
	free(m.found.list);
	/* The slower direction tells, from the lower rank to the higher. */
	set(&m, 0, 3, 1, 4.9);
	judge(&m, 1);
	slow.value = 4.9;
	expect(&m, 0, slow);
	free(m.found.list);
	/* Three ranks have four other values, two of them of another kind: too few. */
	machine_init(&m, 3, 3);
	set_all(&m, 0, 10);
	set(&m, 0, 0, 1, 5);
	set(&m, 0, 1, 0, 5);
	value_of(&m, 0, 0, 2)->like = value_of(&m, 0, 2, 0)->like = 7;
	assert_int_equal(bb_findings_make(&m.found, m.matrices, 1), BB_OK);
	assert_int_equal(m.found.n, 0);
	free(m.found.list);
	/* One of them is enough. */
	value_of(&m, 0, 0, 2)->like = 0;
	judge(&m, 1);
	assert_int_equal(m.found.list[0].kind, BB_FIND_SLOW_PAIR);
	free(m.found.list);
}

/* All pairs of a rank, in both roles or in one; beside pairs of another speed. */
static void test_slow_ranks(void **state)
{
	struct machine m;

	for (int role = 0; role < 3; role++) {
		machine_init(&m, 4, 4);
		set_all(&m, 0, 10);
		for (int k = 0; k < 4; k++)
			if (k != 2) {
				if (role != 2)
					set(&m, 0, 2, k, 4 + 0.5 * k);
				if (role != 1)
					set(&m, 0, k, 2, 4 + 0.5 * k);
			}
		judge(&m, 1);
		/* 4, 4.5, 5.5: the median 4.5 against 10 / 5.5 of the fastest. */
		expect(&m, 0,
		       (struct bb_finding){.kind = BB_FIND_SLOW_RANK,
					   .rank = 2,
					   .from = -1,
					   .to = -1,
					   .like = -1,
					   .pairs = role == 0 ? 6 : 3,
					   .value = 4.5,
					   .reference = 4.5 / 5.5 * 10,
					   .rounds = 4,
					   .near = role == 0 ? 18 : 27, /* of 6 or 9 others */
					   .of = role == 0 ? 24 : 36});
		free(m.found.list);
		/* One fast pair acquits the rank: then its slow pairs are to blame. */
		set(&m, 0, 2, 3, 10);
		set(&m, 0, 3, 2, 10);
		assert_int_equal(bb_findings_make(&m.found, m.matrices, 1), BB_OK);
		assert_int_equal(m.found.n, 2);
		for (int i = 0; i < 2; i++) {
			assert_int_equal(m.found.list[i].kind,
					 role == 0 ? BB_FIND_SLOW_PAIR : BB_FIND_ASYMMETRY);
			assert_int_equal(m.found.list[i].rank, -1);
		}
		free(m.found.list);
	}
}

/* Two pairs and two others are enough for a rank, one other is not; its rounds are the fewest. */
static void test_ranks_of_few_pairs(void **state)
{
	struct bb_finding slow = {.kind = BB_FIND_SLOW_RANK,
				  .from = -1,
				  .to = -1,
				  .like = -1,
				  .pairs = 2,
				  .value = 5,
				  .reference = 10,
				  .rounds = 3,
				  .near = 5, /* of its 3 + 5 rounds */
				  .of = 8};
	struct machine m;

	machine_init(&m, 4, 4);
	set(&m, 0, 0, 1, 5);
	set(&m, 0, 1, 0, 5);
	set(&m, 0, 2, 3, 10);
	value_of(&m, 0, 0, 1)->rounds = 3;
	value_of(&m, 0, 0, 1)->near = 2;
	value_of(&m, 0, 1, 0)->rounds = 5;
	judge(&m, 0);
	free(m.found.list);
	set(&m, 0, 3, 2, 10);
	judge(&m, 2); /* both ends: nobody else has met them */
	for (int i = 0; i < 2; i++) {
		slow.rank = i;
		expect(&m, (size_t)i, slow);
	}
	free(m.found.list);
	/* Two rounds are too few to judge. */
	value_of(&m, 0, 0, 1)->rounds = 2;
	judge(&m, 0);
	free(m.found.list);
}

/* What needs fewest ends at the same moment is judged first, and explains the pairs of others;
   alike findings of several matrices are one, where it is clearest. */
static void test_order_of_matrices(void **state)
{
	for (int first = 0; first < 3; first++) {
		struct machine m;

		machine_init(&m, 3, 3);
		m.nmatrices = 2;
		m.matrices[1].direct = true;
		for (int k = 0; k < 2; k++) {
			set_all(&m, k, 10);
			set(&m, k, 0, 1, 5 - k);
		}
		m.matrices[0].by_source = first == 0;
		m.matrices[1].by_target = first == 1;
		judge(&m, 1);
		expect(&m, 0,
		       (struct bb_finding){.kind = BB_FIND_ASYMMETRY,
					   .matrix = first == 0 ? 0 : 1,
					   .rank = -1,
					   .from = 0,
					   .to = 1,
					   .like = -1,
					   .pairs = 1,
					   .value = first == 0 ? 5 : 4,
					   .reference = 10,
					   .rounds = 4,
					   .near = 3,
					   .of = 4});
		free(m.found.list);
		/* A slow rank explains its pairs everywhere, and is reported where it is clearest.
		 */
		set(&m, 0, 0, 2, 5);
		set(&m, 0, 1, 2, 10);
		set(&m, 1, 0, 2, 4);
		judge(&m, 1);
		assert_int_equal(m.found.list[0].kind, BB_FIND_SLOW_RANK);
		assert_int_equal(m.found.list[0].rank, 0);
		assert_int_equal(m.found.list[0].matrix, 1);
		assert_int_equal(m.found.list[0].pairs, 2);
		free(m.found.list);
	}
}

/* A rank that is slow over one kind of path alone, relative to that kind. */
static void test_slow_cards(void **state)
{
	struct machine m;

	machine_init(&m, 6, 3);
	for (int a = 0; a < 6; a++)
		for (int b = 0; b < 6; b++)
			if (a != b)
				set(&m, 0, a, b,
				    (a < 3) == (b < 3) ? 20
				    : a == 1 || b == 1 ? 4
						       : 10);
	judge(&m, 1);
	/* The first of its pairs across, 1 to 3 before 3 to 1. */
	expect(&m, 0,
	       (struct bb_finding){.kind = BB_FIND_SLOW_RANK,
				   .rank = 1,
				   .from = 1,
				   .to = 3,
				   .like = 1,
				   .pairs = 6,
				   .value = 4,
				   .reference = 10,
				   .rounds = 4,
				   .near = 36, /* of 12 others across */
				   .of = 48});
	free(m.found.list);
	/* Slow everywhere, each kind by half: values are relative to their kinds. */
	for (int k = 0; k < 6; k++)
		if (k != 1) {
			set(&m, 0, 1, k, k < 3 ? 10 : 5);
			set(&m, 0, k, 1, k < 3 ? 10 : 5);
		}
	judge(&m, 1);
	assert_int_equal(m.found.list[0].kind, BB_FIND_SLOW_RANK);
	assert_int_equal(m.found.list[0].rank, 1);
	assert_int_equal(m.found.list[0].like, -1);
	assert_int_equal(m.found.list[0].pairs, 10);
	/* 10 four times, 5 six times: 5 or between, in half the speed of the others */
	assert_float_equal(m.found.list[0].reference, 2 * m.found.list[0].value, 1e-9);
	free(m.found.list);
}

/* In both directions at once, a pair has one value. */
static void test_both_ways(void **state)
{
	struct machine m;

	machine_init(&m, 5, 5);
	m.matrices[0].bidirectional = true;
	set_all(&m, 0, 10);
	set(&m, 0, 1, 2, 5);
	judge(&m, 1);
	assert_int_equal(m.found.list[0].kind, BB_FIND_SLOW_PAIR);
	assert_int_equal(m.found.list[0].from, 1);
	assert_int_equal(m.found.list[0].to, 2);
	free(m.found.list);
	for (int k = 0; k < 5; k++)
		if (k != 3)
			set(&m, 0, k < 3 ? k : 3, k < 3 ? 3 : k, 5);
	set(&m, 0, 1, 2, 10);
	judge(&m, 1);
	assert_int_equal(m.found.list[0].kind, BB_FIND_SLOW_RANK);
	assert_int_equal(m.found.list[0].rank, 3);
	assert_int_equal(m.found.list[0].pairs, 4);
	free(m.found.list);
}

/* P2P on that is slower than P2P off, of the fastest route each; the pair has no second finding. */
static void test_slower_direct(void **state)
{
	struct machine m;

	machine_init(&m, 3, 3);
	m.nmatrices = 2;
	set_all(&m, 0, 10);
	set_all(&m, 1, 9);
	set(&m, 0, 2, 1, 6);
	judge(&m, 1);
	expect(&m, 0,
	       (struct bb_finding){.kind = BB_FIND_SLOWER_DIRECT,
				   .rank = -1,
				   .from = 2,
				   .to = 1,
				   .like = -1,
				   .pairs = 1,
				   .value = 6,
				   .reference = 9,
				   .rounds = 4,
				   .near = 3,
				   .of = 4});
	free(m.found.list);
	/* 7.2 is 9 / 1.25. */
	set_all(&m, 0, 7.3);
	judge(&m, 0);
	free(m.found.list);
	set_all(&m, 0, 7.1);
	judge(&m, 6);
	free(m.found.list);
	/* Too few rounds of the other. */
	set_all(&m, 0, 10);
	set(&m, 0, 2, 1, 6);
	set(&m, 0, 1, 2, 6);
	set(&m, 1, 2, 1, 9);
	value_of(&m, 1, 2, 1)->rounds = 2;
	assert_int_equal(bb_findings_make(&m.found, m.matrices, 2), BB_OK);
	for (size_t i = 0; i < m.found.n; i++)
		assert_true(m.found.list[i].kind != BB_FIND_SLOWER_DIRECT ||
			    m.found.list[i].from == 1);
	free(m.found.list);
	/* Of both ways at once nothing is compared with one way. */
	machine_init(&m, 3, 3);
	m.nmatrices = 2;
	m.matrices[1].bidirectional = true;
	set_all(&m, 0, 10);
	set_all(&m, 1, 30);
	judge(&m, 0);
	free(m.found.list);
}

/* Below half of their bound: one finding a kind of path, with the worst of its pairs. */
static void test_below_bounds(void **state)
{
	static const struct {
		double speed, best, bound;
		bool is_below;
	} cases[] = {{4.9, 4.9, 10, true}, {5.1, 5.1, 10, false},  {4.9, 5.1, 10, false},
		     {4.9, 4.9, 0, false}, {4.9, 4.9, 9.7, false}, {0.1, 0.1, 10, true}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct machine m;

		machine_init(&m, 3, 3);
		set_all(&m, 0, cases[i].speed);
		for (int k = 0; k < 9; k++) {
			m.values[0][k].best = cases[i].best;
			m.values[0][k].bound = cases[i].bound;
		}
		value_of(&m, 0, 1, 0)->usual *= 0.95;
		assert_int_equal(bb_findings_make(&m.found, m.matrices, 1), BB_OK);
		if ((m.found.n > 0) != cases[i].is_below)
			fail_msg("%zu: %zu", i, m.found.n);
		if (m.found.n)
			expect(&m, 0,
			       (struct bb_finding){.kind = BB_FIND_BELOW_BOUND,
						   .rank = -1,
						   .from = 1,
						   .to = 0,
						   .like = 0,
						   .pairs = 6,
						   .value = 0.95 * cases[i].speed,
						   .reference = 10,
						   .rounds = 4,
						   .near = 3,
						   .of = 4});
		free(m.found.list);
	}
}

/* A slow rank acts as the target over one route, as the source over another. */
static void test_contrary(void **state)
{
	for (int joined = 0; joined < 2; joined++) {
		struct machine m;

		machine_init(&m, 2, 2);
		m.nmatrices = 2;
		m.matrices[1].direct = true;
		m.matrices[0].by_target = true;
		m.matrices[1].by_source = joined;
		set_all(&m, 0, 10);
		set_all(&m, 1, 10);
		set(&m, 0, 0, 1, 5);
		set(&m, 1, 1, 0, 4);
		assert_int_equal(bb_findings_make(&m.found, m.matrices, 2), BB_OK);
		if (joined) {
			assert_int_equal(m.found.n, 1);
			assert_int_equal(m.found.list[0].kind, BB_FIND_SLOW_RANK);
			assert_int_equal(m.found.list[0].rank, 1);
			assert_int_equal(m.found.list[0].pairs, 2);
			assert_int_equal(m.found.list[0].from, -1);
			assert_int_equal(m.found.list[0].to, -1);
			assert_float_equal(m.found.list[0].value, 5, 1e-9);
		} else {
			assert_int_equal(m.found.n, 2);
			for (int i = 0; i < 2; i++)
				assert_int_equal(m.found.list[i].kind, BB_FIND_ASYMMETRY);
		}
		free(m.found.list);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_asymmetry),         cmocka_unit_test(test_evidence),
		cmocka_unit_test(test_slow_pairs),        cmocka_unit_test(test_slow_ranks),
		cmocka_unit_test(test_slow_cards),        cmocka_unit_test(test_both_ways),
		cmocka_unit_test(test_slower_direct),     cmocka_unit_test(test_below_bounds),
		cmocka_unit_test(test_contrary),          cmocka_unit_test(test_ranks_of_few_pairs),
		cmocka_unit_test(test_order_of_matrices),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
