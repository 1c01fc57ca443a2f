/*
 * The verdict on claims against every row of the table of published runs: none is above its bound,
 * each is normal beside the others, and none of them dips.
 */
#include "acceptance/normal.h"
#include "core/array.h"
#include "schedules/schedule.h"
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

static void add_fact(struct bb_claims *c, enum bb_fact_kind kind, int64_t value)
{
	const struct bb_fact fact = {.value = value, .line = 1};

	assert_true(bb_claims_add_fact(c, kind, &fact));
}

/* What NCCL's INFO lines would have said of FABRIC, "EFA 4x100G". */
static void add_evidence(struct bb_claims *c, const char *fabric)
{
	int nics, Gbps;

	for (const char *at = fabric; *at; at++)
		if (sscanf(at, "%dx%dG", &nics, &Gbps) == 2) {
			add_fact(c, BB_FACT_NICS, nics);
			add_fact(c, BB_FACT_NIC_RATE, Gbps);
			break;
		}
	if (strstr(fabric, "EFA"))
		add_fact(c, BB_FACT_EFA, 0);
	if (strstr(fabric, "RoCE"))
		add_fact(c, BB_FACT_ROCE, 0);
	if (strstr(fabric, "SHARP"))
		add_fact(c, BB_FACT_SHARP, 0);
}

static void claims_free(struct bb_claims *c)
{
	free(c->facts);
	free(c->list);
}

/* ---- bounds --------------------------------------------------------------------------------- */

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
	return bb_normal_bound_of(r->card, (struct bb_normal_shape){r->collective, "", r->nranks,
								    r->nodes, false})
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
	free(table.rows);
}

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

/* The largest row of the series that FIRST begins. */
static const struct bb_reference *largest_of(const struct bb_references *t,
					     const struct bb_reference *first)
{
	const struct bb_reference *largest = first;

	for (size_t i = 0; i < t->n; i++)
		if (same_series(&t->rows[i], first) && t->rows[i].size_bytes > largest->size_bytes)
			largest = &t->rows[i];
	return largest;
}

/* Nineteen of twenty published runs reach the share of the bound of rings below which a number is
   low where nothing else compares. */
static void test_shares(void **state)
{
	struct bb_references table = read_table();
	size_t all = 0, below = 0;

	for (size_t i = 0; i < table.n; i++) {
		const struct bb_reference *const r = largest_of(&table, &table.rows[i]);
		const bool alltoall = strcmp(r->collective, "alltoall") == 0;
		const struct bb_normal_shape shape = {r->collective, alltoall ? "" : "ring",
						      r->nranks, r->nodes, false};
		struct bb_claimed_machine machine;
		struct bb_claims claims = {.nranks = r->nranks};
		const struct bb_circumstances nothing = {.gpu = NULL};
		const struct bb_question q = {.claims = &claims,
					      .given = &nothing,
					      .card = r->card,
					      .ranks = r->nranks,
					      .nodes = r->nodes};
		struct bb_error error = {0};

		if (!begins_series(&table, i) || r->size_bytes < BB_NORMAL_WIDE ||
		    strncmp(r->collective, "p2p", 3) == 0)
			continue;
		add_evidence(&claims, r->fabric);
		assert_int_equal(bb_normal_machine_find(&q, &machine, &error), BB_OK);
		all++;
		below += r->busbw_GBps <
			 BB_NORMAL_SHARE * bb_normal_bound_on(machine.cluster->node, shape).GBps;
		bb_normal_machine_close(&machine);
		claims_free(&claims);
	}
	if (20 * below > all)
		print_message("%zu of %zu runs are below\n", below, all);
	assert_true(all > 40 && 20 * below <= all);
	free(table.rows);
}

/* ---- verdicts ------------------------------------------------------------------------------- */

/* As the log of the series that FIRST belongs to has it. */
static struct bb_claims claims_of(const struct bb_references *t, const struct bb_reference *first)
{
	struct bb_claims c = {.nranks = first->nranks,
			      .hosts = first->nodes,
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
		struct bb_claim claim = {.size_bytes = r->size_bytes,
					 .in_place = r->in_place == 1,
					 .busbw_GBps = r->busbw_GBps};

		claim.algbw_GBps = claim.busbw_GBps / factor;
		claim.time_us = (double)claim.size_bytes / claim.algbw_GBps / 1e3;
		if (same_series(r, first) && r->size_bytes > 0 && r->busbw_GBps > 0)
			assert_true(bb_claim_add(&c, &claim));
	}
	add_evidence(&c, first->fabric);
	return c;
}

static enum bb_normality judge(const struct bb_claims *claims, const struct bb_references *table,
			       struct bb_strbuf *out)
{
	const struct bb_circumstances nothing = {.gpu = NULL};
	struct bb_error error = {0};
	enum bb_normality n;

	assert_int_equal(bb_normal(claims, table, &nothing, &n, out, &error), BB_OK);
	return n;
}

static void expect_title(const struct bb_claims *claims, const char *text)
{
	const struct bb_references none = {.n = 0};
	struct bb_strbuf out = {0};

	assert_int_equal(judge(claims, &none, &out), BB_UNKNOWN);
	assert_string_equal(bb_strbuf_text(&out), text);
	bb_strbuf_free(&out);
}

/* What a run is called, up to where nothing can be judged. */
static void test_titles(void **state)
{
#define SIMULATED "  Simulated in virtual time: no hardware was measured, so nothing is compared.\n"
#define OSU                                                                                        \
	"  OSU prints times of a rank's message, and this log no number of ranks; give --ranks.\n"
	struct bb_claims c = {.simulated = true};

	expect_title(&c, "a collective: 0 results\n" SIMULATED);
	c = (struct bb_claims){.collective = "AllReduce",
			       .algorithm = "ring",
			       .gpu = "a GPU",
			       .nranks = 1,
			       .hosts = 1,
			       .n = 1,
			       .implausible = 1,
			       .not_finite = 1,
			       .wrong = 1,
			       .unchecked = 1,
			       .simulated = true};
	expect_title(&c,
		     "AllReduce, ring, 1 rank on 1 host, a GPU: 1 result\n"
		     "  1 left out: algbw is not size over time, or busbw / algbw is not that out "
		     "of place.\n"
		     "  1 left out: nan or inf is among their numbers.\n" SIMULATED);
	c.simulated = false;
	c.incomplete = true;
	c.algorithm[0] = 0;
	c.nranks = 16;
	c.hosts = 2;
	c.gpu[0] = 0;
	c.n = 3;
	c.implausible = c.not_finite = 0;
	expect_title(&c,
		     "AllReduce, 16 ranks on 2 hosts: 3 results\n"
		     "  Wrong data in 1 result (#wrong is not 0): fast but wrong is not normal.\n"
		     "  The data of 1 result was not checked.\n" OSU);
	c.wrong = 0;
	c.unchecked = 2;
	expect_title(&c, "AllReduce, 16 ranks on 2 hosts: 3 results\n"
			 "  The data of 2 results was not checked.\n" OSU);
	c.unchecked = 0;
	expect_title(&c, "AllReduce, 16 ranks on 2 hosts: 3 results\n" OSU);
#undef SIMULATED
#undef OSU
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
		claims_free(&claims);
	}
	assert_true(series > 40);
	free(table.rows);
}

/* Small sizes alone are bound by latency, and large ones are not, in every published sweep. */
static void test_latency(void **state)
{
	struct bb_references table = read_table();
	size_t sweeps = 0;

	for (size_t i = 0; i < table.n; i++) {
		struct bb_claims claims;
		size_t small = 0;

		if (!begins_series(&table, i))
			continue;
		claims = claims_of(&table, &table.rows[i]);
		assert_false(bb_normal_is_latency(&claims));
		/* Two decimals of a bandwidth say little of smaller ones. */
		for (size_t k = 0; k < claims.n; k++)
			if (claims.list[k].size_bytes <= 262144 && claims.list[k].busbw_GBps >= 1)
				claims.list[small++] = claims.list[k];
		claims.n = small;
		if (claims.n > 1) {
			assert_true(bb_normal_is_latency(&claims));
			sweeps++;
		}
		claims_free(&claims);
	}
	assert_true(sweeps > 5);
	free(table.rows);
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

/* Beside the others alone every healthy run is normal: beside those of another number of ranks or
   place, else by the model or the share of its bound. */
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
		/* A quarter of its bound: no source says why. */
		if (strcmp(table.rows[i].id, "oci_gb300_2r") != 0 ||
		    strcmp(table.rows[i].collective, "alltoall") != 0) {
			if (n != BB_NORMAL)
				print_message("%s: %s", table.rows[i].id, bb_strbuf_text(&out));
			assert_int_equal(n, BB_NORMAL);
		}
		bb_strbuf_free(&out);
		claims_free(&claims);
		free(rest.rows);
	}
	free(table.rows);
}

/* ---- every collective, card and number of nodes --------------------------------------------- */

/* Judges SHARE of the bound of COLLECTIVE at SIZE on all GPUs of NODES nodes with CARD;
   BB_NORMALITIES where there is no bound. */
#define BB_NORMALITIES (BB_WRONG + 1)
static int judge_share(const struct bb_references *table, const struct bb_card *card,
		       const struct bb_collective *collective, int nodes, uint64_t size,
		       double share, struct bb_strbuf *out)
{
	struct bb_topology *t = NULL;
	struct bb_error error = {0};
	struct bb_claim row = {.size_bytes = size};
	struct bb_claims c = {.hosts = nodes, .rounding = 1e-9, .percent_of_bound = NAN};
	double bound;

	assert_non_null(bb_card_system(card, 0));
	assert_int_equal(bb_topology_system(bb_card_system(card, 0), &t, &error), BB_OK);
	c.nranks = (int64_t)nodes * bb_topology_count(t, BB_GPU);
	bound = bb_normal_bound_on(
			t, (struct bb_normal_shape){collective->name, "", c.nranks, nodes, false})
			.GBps;
	bb_topology_free(t);
	if (!(bound > 0))
		return BB_NORMALITIES;
	snprintf(c.collective, sizeof(c.collective), "%s", collective->name);
	snprintf(c.gpu, sizeof(c.gpu), "%s", card->name);
	row.busbw_GBps = share * bound;
	row.algbw_GBps = row.busbw_GBps / collective->bus_factor((int)c.nranks);
	row.time_us = (double)size / row.algbw_GBps / 1e3;
	c.list = &row;
	c.n = 1;
	return (int)judge(&c, table, out);
}

/* A number of which the collective, the GPU and the ranks are known gets a verdict, at any share of
   its bound; what cannot be judged has a reason. */
static void test_everything_is_judged(void **state)
{
	static const double shares[] = {0.3, 0.6, 0.9, 1.0};
	static const uint64_t sizes[] = {16 << 20, 1 << 30};
	static const int nodes[] = {1, 2, 4, 16};
	struct bb_references table = read_table();
	int all = 0, unknown = 0, low[4] = {0}, of[4] = {0};

	for (int card = 0; bb_card_at(card); card++)
		for (int k = 0; bb_collectives[k]; k++)
			for (int i = 0; i < 4 * 2 * 4; i++) {
				const int share = i % 4;
				struct bb_strbuf out = {0};
				const int n = judge_share(&table, bb_card_at(card),
							  bb_collectives[k], nodes[i / 8],
							  sizes[i / 4 % 2], shares[share], &out);

				/* It is no collective of NCCL: it has neither a model nor runs. */
				if (n == BB_NORMALITIES || bb_collectives[k] == &bb_hypercube) {
					bb_strbuf_free(&out);
					continue;
				}
				all++;
				of[share]++;
				low[share] += n == BB_LOW;
				if (n == BB_UNKNOWN || n == BB_LATENCY || n == BB_IMPOSSIBLE) {
					unknown++;
					assert_non_null(strstr(bb_strbuf_text(&out), "Not judged"));
				}
				bb_strbuf_free(&out);
			}
	print_message("%d numbers, %.1f%% not judged; low: %d, %d, %d, %d of %d\n", all,
		      100.0 * unknown / all, low[0], low[1], low[2], low[3], of[0]);
	assert_true(all > 1000 && 20 * unknown < all);
	free(table.rows);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bounds_hold),
		cmocka_unit_test(test_shares),
		cmocka_unit_test(test_published_runs_are_normal),
		cmocka_unit_test(test_latency),
		cmocka_unit_test(test_titles),
		cmocka_unit_test(test_left_out),
		cmocka_unit_test(test_everything_is_judged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
