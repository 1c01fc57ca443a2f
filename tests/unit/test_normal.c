/*
 * The verdict on claims against every row of the table of published runs: none is above its bound,
 * each is normal beside the others, and none of them dips.
 */
#include "acceptance/normal_inside.h"
#include "topology/bound.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static struct bb_references read_table(void)
{
	struct bb_references table;
	struct bb_error error = {0};

	assert_int_equal(bb_references_own(&table, &error), BB_OK);
	return table;
}

static int64_t nodes_of(const struct bb_reference *r)
{
	return r->nodes > 0 ? r->nodes : bb_normal_nodes(r->card, r->nranks);
}

/* ---- bounds ------------------------------------------------------------------------------------
 */

/* Both directions between the first two GPUs of the known systems with CARD, GB/s; 0: no system. */
static double pair_bound(const struct bb_card *card)
{
	double most = 0;

	for (int i = 0; bb_card_system(card, i); i++) {
		const struct bb_rank_place pair[] = {{0, 0}, {0, 1}};
		struct bb_topology *t = NULL;
		struct bb_error error = {0};
		struct bb_strbuf why = {0};
		double GBps;

		assert_int_equal(bb_topology_system(bb_card_system(card, i), &t, &error), BB_OK);
		assert_int_equal(bb_speed_of_light(t, pair, 2, BB_BOUND_PAIR, &GBps, &why), BB_OK);
		most = fmax(most, 2 * GBps);
		bb_strbuf_free(&why);
		bb_topology_free(t);
	}
	return most;
}

/* Of a row that does not name its collective the bound of rings. */
static double bound_of(const struct bb_reference *r)
{
	if (strncmp(r->collective, "p2p", 3) == 0)
		return pair_bound(r->card);
	return bb_normal_bound_of(r->card, &(struct bb_normal_shape){r->collective, "", r->nranks,
								     nodes_of(r), false})
		.GBps;
}

/* Bounds are limits: no row of the table, whatever it is and whoever measured it, exceeds one. */
static void test_bounds_hold(void **state)
{
	struct bb_references table = read_table();
	size_t held = 0;

	for (size_t i = 0; i < table.n; i++) {
		const struct bb_reference *const r = &table.rows[i];
		const double bound = bound_of(r);

		if (bound == 0 || r->busbw_GBps > bound)
			print_message("%s, %s on %lld of %s: %g, bound %g\n", r->id, r->collective,
				      (long long)r->nranks, r->card->name, r->busbw_GBps, bound);
		assert_true(bound > 0 && r->busbw_GBps <= bound);
		held++;
	}
	assert_true(held > 500);
	bb_references_free(&table);
}

/* ---- verdicts ----------------------------------------------------------------------------------
 */

static bool same_series(const struct bb_reference *a, const struct bb_reference *b)
{
	return strcmp(a->id, b->id) == 0 && a->nranks == b->nranks && a->nodes == b->nodes &&
	       strcmp(a->collective, b->collective) == 0 && strcmp(a->algo, b->algo) == 0;
}

/* Whether row I is the first of a series that could be anybody's log. */
static bool begins_series(const struct bb_references *t, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (same_series(&t->rows[k], &t->rows[i]))
			return false;
	return strcmp(t->rows[i].kind, "measured") == 0 && t->rows[i].size_bytes > 0 &&
	       t->rows[i].collective[0] != '(';
}

/* As the log of the series that FIRST belongs to has it. */
static struct bb_claims claims_of(const struct bb_references *t, const struct bb_reference *first)
{
	struct bb_claims c = {.nranks = first->nranks,
			      .hosts = nodes_of(first),
			      .rounding = 0.0051,
			      .percent_of_bound = NAN};

	snprintf(c.collective, sizeof(c.collective), "%s", first->collective);
	snprintf(c.gpu, sizeof(c.gpu), "%s", first->card->name);
	if (strstr(first->algo, " off)"))
		snprintf(c.algorithm, sizeof(c.algorithm), "%s", "ring");
	for (size_t i = 0; i < t->n; i++) {
		const struct bb_reference *const r = &t->rows[i];
		const double factor = (strcmp(r->collective, "all_reduce") == 0 ? 2.0 : 1.0) *
				      (double)(r->nranks - 1) / (double)r->nranks;
		struct bb_claim claim = {r->size_bytes, r->in_place == 1, 0, 0, r->busbw_GBps, 0};

		claim.algbw_GBps = claim.busbw_GBps / factor;
		claim.time_us = (double)claim.size_bytes / claim.algbw_GBps / 1e3;
		if (same_series(r, first) && r->size_bytes > 0 && r->busbw_GBps > 0)
			assert_true(bb_claim_add(&c, &claim));
	}
	return c;
}

static enum bb_normality judge(const struct bb_claims *claims, const struct bb_references *table,
			       struct bb_strbuf *out)
{
	const struct bb_circumstances nothing = {NULL, NULL, 0, 0};

	return bb_normal(claims, table, &nothing, out);
}

static void test_published_runs_are_normal(void **state)
{
	struct bb_references table = read_table();
	size_t series = 0;

	for (size_t i = 0; i < table.n; i++) {
		struct bb_strbuf out = {0};
		struct bb_claims claims;
		enum bb_normality n;

		if (!begins_series(&table, i))
			continue;
		claims = claims_of(&table, &table.rows[i]);
		n = judge(&claims, &table, &out);
		if (n != BB_NORMAL)
			print_message("%s: %s", table.rows[i].id, bb_strbuf_text(&out));
		assert_int_equal(n, BB_NORMAL);
		series++;
		bb_strbuf_free(&out);
		free(claims.list);
	}
	assert_true(series > 40);
	bb_references_free(&table);
}

/* Small sizes alone are bound by latency, and large ones are not, in every published sweep. */
static void test_latency(void **state)
{
	struct bb_references table = read_table();
	size_t sweeps = 0;

	for (size_t i = 0; i < table.n; i++) {
		struct bb_strbuf out = {0};
		struct bb_claims claims;
		struct bb_question q = {.claims = &claims, .out = &out};
		size_t small = 0;

		if (!begins_series(&table, i))
			continue;
		claims = claims_of(&table, &table.rows[i]);
		assert_false(bb_normal_is_latency(&q));
		/* Two decimals of a bandwidth say little of smaller ones. */
		for (size_t k = 0; k < claims.n; k++)
			if (claims.list[k].size_bytes <= 262144 && claims.list[k].busbw_GBps >= 1)
				claims.list[small++] = claims.list[k];
		claims.n = small;
		if (claims.n > 1) {
			assert_true(bb_normal_is_latency(&q));
			sweeps++;
		}
		bb_strbuf_free(&out);
		free(claims.list);
	}
	assert_true(sweeps > 5);
	bb_references_free(&table);
}

/* The table without the rows of ID. */
static struct bb_references without(const struct bb_references *table, const char *id)
{
	struct bb_references rest = {.rows = calloc(table->n, sizeof(*rest.rows))};

	assert_non_null(rest.rows);
	for (size_t i = 0; i < table->n; i++)
		if (strcmp(table->rows[i].id, id) != 0)
			rest.rows[rest.n++] = table->rows[i];
	return rest;
}

/* Runs that are low beside the others, and why. */
static const struct {
	const char *id, *why;
} outliers[] = {
	{"aws_p4de_2n", "4 NICs of 100 Gb/s a node, a quarter of what the other has"},
	{"cw_gb200_20r", "1440 ranks, 11 times as many as the next"},
};

static bool is_outlier(const char *id)
{
	for (size_t i = 0; i < sizeof(outliers) / sizeof(outliers[0]); i++)
		if (strcmp(outliers[i].id, id) == 0)
			return true;
	return false;
}

/* Beside the others alone no healthy run is low: of another number of ranks or from another place.
 */
static void test_left_out(void **state)
{
	struct bb_references table = read_table();

	for (size_t i = 0; i < table.n; i++) {
		struct bb_strbuf out = {0};
		struct bb_references rest;
		struct bb_claims claims;
		enum bb_normality n;

		if (!begins_series(&table, i))
			continue;
		rest = without(&table, table.rows[i].id);
		claims = claims_of(&table, &table.rows[i]);
		n = judge(&claims, &rest, &out);
		if ((n >= BB_LOW) != is_outlier(table.rows[i].id))
			print_message("%s: %s", table.rows[i].id, bb_strbuf_text(&out));
		assert_true((n >= BB_LOW) == is_outlier(table.rows[i].id));
		bb_strbuf_free(&out);
		free(claims.list);
		bb_references_free(&rest);
	}
	bb_references_free(&table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bounds_hold),
		cmocka_unit_test(test_published_runs_are_normal),
		cmocka_unit_test(test_latency),
		cmocka_unit_test(test_left_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
