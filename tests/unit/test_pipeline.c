/*
 * Pipeline schedules: every order is complete and ends, takes the memory that the literature says,
 * and the times that published tables give; and an order with two passes swapped is found out.
 */
#include "pipelines.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* ---- every order is right ------------------------------------------------------------------- */

static void test_all_orders(void **state)
{
	for (const struct bb_pipeline_schedule *s = bb_pipeline_schedules; s->name; s++)
		for (int p = 1; p <= 8; p++)
			for (int m = 1; m <= 20; m++)
				for (int v = 1; v <= (s->chunks ? 1 : 3); v++) {
					struct bb_pipeline pipe = unit_pipeline(p, m, v);
					struct bb_order o;

					if (bb_pipeline_refuses(s, &pipe))
						continue;
					o = make_order(s->name, &pipe);
					bb_order_free(&o);
				}
}

/* Layers stay whole, none is lost, and the ends of the model are at its ends. */
static void test_layers(void **state)
{
	for (const struct bb_pipeline_schedule *s = bb_pipeline_schedules; s->name; s++)
		for (int layers = 8; layers <= 48; layers += 4)
			for (int p = 1; p <= 8; p++) {
				struct bb_pipeline pipe = unit_pipeline(p, 2 * p, 2);
				int64_t sum = 0, kept = 0;
				int seen = 0;
				struct bb_order o;

				pipe.layers = layers;
				pipe.first = (struct bb_pipeline_end){1, 2, 3, 40, 0};
				pipe.last = (struct bb_pipeline_end){100, 200, 300, 4000, 500};
				if (bb_pipeline_refuses(s, &pipe)) {
					assert_true(layers % (p * bb_pipeline_chunks(s, &pipe)));
					continue;
				}
				o = make_order(s->name, &pipe);
				for (int d = 0; d < o.stages * o.chunks; d++) {
					const int n = bb_part_layers(&o, d);

					assert_in_range(n, layers / (p * o.chunks),
							layers / (p * o.chunks) + 1);
					seen += n;
				}
				for (int i = 0; i < p; i++) {
					sum += bb_stage_ns(&o, i);
					kept += bb_part_of_stage(&o, i).change[BB_PASS_F];
				}
				assert_int_equal(seen, layers);
				assert_int_equal(sum, layers * INT64_C(3000000) + 606);
				assert_int_equal(kept, o.chunks * (layers * INT64_C(2000) + 4040));
				bb_order_free(&o);
			}
}

/* Two stages of two chunks have 7 layers as 1, 2, 2, 2, and both ends; or 4 equal parts. */
static void test_parts(void **state)
{
	struct bb_order o = {.stages = 2, .chunks = 2, .microbatches = 3};
	struct bb_part part;

	o.pipeline = (struct bb_pipeline){.stages = 2,
					  .chunks = 2,
					  .layers = 7,
					  .f = 10,
					  .b = 20,
					  .w = 30,
					  .kept = 100,
					  .kept_w = 40,
					  .first = {1, 2, 3, 4, 5},
					  .last = {100, 200, 300, 400, 500}};
	for (int d = 0; d < 4; d++) {
		const int n = d == 0 ? 1 : 2, first = d == 0, last = d == 3;
		const int f = 10 * n + first + 100 * last, b = 20 * n + 2 * first + 200 * last;
		const int w = 30 * n + 3 * first + 300 * last;
		const int kept = 2 * (100 * n + 4 * first + 400 * last);
		const int kept_w = 2 * (40 * n + 5 * first + 500 * last);

		assert_int_equal(bb_part_layers(&o, d), n);
		part = bb_part_of(&o, d);
		assert_int_equal(part.cost[BB_PASS_F], f);
		assert_int_equal(part.cost[BB_PASS_B], b);
		assert_int_equal(part.cost[BB_PASS_W], w);
		assert_int_equal(part.cost[BB_PASS_BW], b + w);
		assert_int_equal(part.change[BB_PASS_F], kept);
		assert_int_equal(part.change[BB_PASS_B], kept_w - kept);
		assert_int_equal(part.change[BB_PASS_W], -kept_w);
		assert_int_equal(part.change[BB_PASS_BW], -kept);
	}
	/* Stage 1 has parts 1 and 3: 40 + 100, 80 + 200, 120 + 300. */
	part = bb_part_of_stage(&o, 1);
	assert_int_equal(part.cost[BB_PASS_F], 140);
	assert_int_equal(part.cost[BB_PASS_B], 280);
	assert_int_equal(part.cost[BB_PASS_W], 420);
	assert_int_equal(part.change[BB_PASS_F], 2 * (400 + 400));
	assert_int_equal(bb_stage_ns(&o, 1), 840);
	assert_int_equal(bb_stage_ns(&o, 0), 30 + 1 + 60 + 2 + 90 + 3);
	o.split = true;
	assert_int_equal(bb_stage_ns(&o, 1), 840);
	/* folded: stage 1 has parts 1 and 2 */
	o.folded = true;
	assert_int_equal(bb_stage_ns(&o, 1), 240);
	o.pipeline.layers = 0;
	part = bb_part_of(&o, 3);
	assert_int_equal(part.cost[BB_PASS_F], (10 + 100) / 2);
	assert_int_equal(part.cost[BB_PASS_BW], (50 + 500) / 2);
	part = bb_part_of(&o, 1);
	assert_int_equal(part.cost[BB_PASS_F], 5);
	assert_int_equal(part.change[BB_PASS_F], 100);
	/* A slot is a pass: kind, then depth, then microbatch. */
	for (size_t slot = 0; slot < bb_order_slots(&o); slot++) {
		int depth;
		const struct bb_pass pass = bb_order_pass(&o, slot, &depth);

		assert_int_equal(pass.kind, slot / 12);
		assert_int_equal(depth, slot / 3 % 4);
		assert_int_equal(pass.chunk, slot / 3 % 4 / 2);
		assert_int_equal(pass.microbatch, slot % 3);
		assert_int_equal(bb_order_slot_at(&o, pass.kind, depth, pass.microbatch), slot);
	}
	o.split = false;
	assert_int_equal(bb_order_pass(&o, 12, &(int){0}).kind, BB_PASS_BW);
	assert_int_equal(bb_order_pass(&o, 24, &(int){0}).kind, BB_PASS_W);
}

/* Times that are not alike, and hops longer than passes, lead to other orders. */
static void test_found_orders(void **state)
{
	static const char *const names[] = {"zb-v", "zb-auto"};
	uint32_t random = 1;

	for (int i = 0; i < 2000; i++) {
		int64_t drawn[6];
		struct bb_pipeline pipe = unit_pipeline(1 + i % 7, 1 + i % 23, 1);
		struct bb_order o;

		for (int k = 0; k < 6; k++) {
			random = random * 1664525 + 1013904223;
			drawn[k] = 1 + random % 1000 * (random >> 16 & 7);
		}
		pipe.f = drawn[0];
		pipe.b = drawn[1];
		pipe.w = drawn[2];
		pipe.hop = drawn[3] / 4;
		pipe.kept = drawn[4] + drawn[5];
		pipe.kept_w = drawn[5];
		pipe.limit = pipe.stages + i % 5;
		if (i % 4 == 1) {
			pipe.layers = pipe.stages * (1 + i % 5);
			pipe.last = (struct bb_pipeline_end){drawn[1], drawn[2], drawn[0],
							     drawn[3] + drawn[4], drawn[4]};
		}
		if (bb_pipeline_refuses(bb_pipeline_find(names[i % 2]), &pipe))
			continue;
		o = make_order(names[i % 2], &pipe);
		bb_order_free(&o);
	}
}

/* The busiest stage's time at least: two stages, four microbatches of 10, 20 and 5, hops of 3. The
   first waits 10 for the second, and 20 + 2 * 3 and 10 for an F and a B there: 46, of which an F of
   each microbatch that it has memory for fills 10. */
static void test_least(void **state)
{
	static const struct {
		int64_t limit, least;
	} cases[] = {{1, 140 + 36}, {2, 140 + 26}, {4, 140 + 6}, {5, 140 + 6}, {100, 140 + 6}};

	for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(cases[0]); i++) {
		const struct bb_pipeline pipe = {.stages = 2,
						 .microbatches = 4,
						 .chunks = 1,
						 .f = 10,
						 .b = 20,
						 .w = 5,
						 .hop = 3,
						 .kept = 1,
						 .limit = cases[i / 2].limit,
						 .by_step = i % 2};

		assert_int_equal(bb_auto_least(&pipe), cases[i / 2].least);
	}
}

/* A search within 2^25 passes: six kinds of each of at least two microbatches a stage. */
static void test_stages_of_searches(void **state)
{
	static const struct {
		int stages, microbatches;
		bool refused;
	} cases[] = {{1024, 1, false},    {2048, 1, true},    {1024, 2048, false},
		     {1024, 5461, false}, {1024, 5462, true}, {2, 2796202, false},
		     {2, 2796203, true}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct bb_pipeline pipe =
			unit_pipeline(cases[i].stages, cases[i].microbatches, 2);

		if ((bb_pipeline_refuses(bb_pipeline_find("zb-v"), &pipe) != NULL) !=
		    cases[i].refused)
			fail_msg("%d stages, %d microbatches", cases[i].stages,
				 cases[i].microbatches);
	}
}

static void test_refused(void **state)
{
	struct bb_pipeline pipe = unit_pipeline(4, 6, 2);
	struct bb_error error = {.text = ""};
	struct bb_order o;

	assert_non_null(bb_pipeline_refuses(bb_pipeline_find("interleaved"), &pipe));
	assert_null(bb_pipeline_find("zb-h3"));
	pipe.limit = 1;
	assert_int_equal(bb_order_make(bb_pipeline_find("zb-auto"), &pipe, &o, &error), BB_OK);
	bb_order_free(&o);
	pipe.limit = 0;
	assert_int_equal(bb_order_make(bb_pipeline_find("zb-auto"), &pipe, &o, &error),
			 BB_EUNSUPPORTED);
	assert_non_null(strstr(error.text, "memory of 0"));
	bb_order_free(&o);
}

/* ---- memory --------------------------------------------------------------------------------- */

static void assert_peaks(const char *name, int p, int m, int v, double (*expected)(int p, int s))
{
	const struct bb_pipeline pipe = unit_pipeline(p, m, v);
	struct bb_order o = make_order(name, &pipe);
	double peaks[16];

	o.pipeline.kept = 1000;
	o.pipeline.kept_w = 300;
	order_memory(&o, peaks);
	for (int s = 0; s < p; s++)
		if (!(fabs(peaks[s] - expected(p, s)) <= 1e-9))
			fail_msg("%s: stage %d of %d holds %g", name, s, p, peaks[s]);
	bb_order_free(&o);
}

static double one(int p, int s)
{
	return 1;
}

static double twelve(int p, int s)
{
	return 12;
}

static double behind(int p, int s)
{
	return p - s;
}

static double all(int p, int s)
{
	return p;
}

static double h1(int p, int s)
{
	return p - s + 0.3 * s;
}

static double h2(int p, int s)
{
	return 2 * p - 2 * s - 1 + 0.3 * 2 * s;
}

static void test_memory(void **state)
{
	struct bb_pipeline pipe = unit_pipeline(4, 8, 2);
	struct bb_order o = make_order("interleaved", &pipe);
	double peaks[4];

	assert_peaks("naive", 4, 12, 1, one);
	assert_peaks("gpipe", 4, 12, 1, twelve);
	assert_peaks("1f1b", 4, 12, 1, behind);
	assert_peaks("zb-h1", 4, 12, 1, h1);
	assert_peaks("zb-h2", 4, 12, 1, h2);
	assert_peaks("zb-v", 4, 12, 1, all);
	/* p (1 + (p - 1) / (p v)), arXiv 2104.04473 */
	order_memory(&o, peaks);
	assert_true(peaks[0] == 5.5);
	bb_order_free(&o);
}

/* ---- times ---------------------------------------------------------------------------------- */

/* p = 4, m = 8, each pass 1: from the start, and of a stage. */
static void test_unit_costs(void **state)
{
	static const struct {
		const char *name;
		double makespan, span;
	} rows[] = {{"naive", 96, 96},           {"gpipe", 33, 33},  {"1f1b", 33, 33},
		    {"interleaved", 28.5, 28.5}, {"zb-h1", 27, 27},  {"zb-h2", 27, 24},
		    {"zb-v", 25.5, 24},          {"zb-auto", 27, 24}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct bb_pipeline pipe = unit_pipeline(4, 8, 2);
		struct bb_order o = make_order(rows[i].name, &pipe);
		double span;
		const double makespan = evaluate(&o, false, &span);

		if (makespan != rows[i].makespan * 1e6 || span != rows[i].span * 1e6)
			fail_msg("%s takes %g, a stage %g", rows[i].name, makespan / 1e6,
				 span / 1e6);
		bb_order_free(&o);
	}
}

/* (cost - ideal) / cost, to four decimals: "0.1585". */
static void assert_bubble(const char *name, const struct bb_pipeline *pipe, bool by_span,
			  bool first_wraps, const char *expected)
{
	struct bb_order o = make_order(name, pipe);
	const double ideal = (double)pipe->microbatches * (double)(pipe->f + pipe->b + pipe->w);
	double span, cost = evaluate(&o, first_wraps, &span);
	char text[16];

	cost = by_span ? span : cost;
	snprintf(text, sizeof(text), "%.4f", 1 - ideal / cost);
	if (strcmp(text, expected) != 0)
		fail_msg("%s, p = %d, m = %d: %s, not %s", name, pipe->stages, pipe->microbatches,
			 text, expected);
	bb_order_free(&o);
}

/*
 * arXiv 2401.10241: Table 9's times, and what Table 5 makes of them. Interleaved twice: as there,
 * and with everything that goes around waited for. M_B and M_W follow from hidden size and heads,
 * at 1024 tokens: 34 h + 5 a s and 32 h.
 */
static void test_published(void **state)
{
	static const struct {
		int p, m;
		int64_t f, b, w, hop;
		int hidden, heads, chunks;
		const char *b_1f1b, *interleaved, *around, *h1, *h2, *p2, *p1;
	} rows[] = {
		{8, 24, 18522, 18086, 9337, 601, 2304, 24, 3, "0.2431", "0.1055", "0.1090",
		 "0.1585", "0.1083", "0.0433", "0.1585"},
		{8, 32, 18513, 18086, 9331, 626, 2304, 24, 3, "0.1985", "0.0818", "0.0847",
		 "0.1242", "0.0837", "0.0039", "0.1242"},
		{8, 64, 18546, 18097, 9321, 762, 2304, 24, 3, "0.1240", "0.0443", "0.0461",
		 "0.0674", "0.0444", "0.0026", "0.0674"},
		{8, 24, 29718, 29444, 19927, 527, 4096, 32, 4, "0.2347", "0.0808", "0.0827",
		 "0.1323", "0.0698", "0.0029", "0.1323"},
		{8, 32, 29802, 29428, 19530, 577, 4096, 32, 4, "0.1898", "0.0628", "0.0644",
		 "0.1045", "0.0559", "0.0022", "0.1045"},
		{8, 64, 29935, 29621, 19388, 535, 4096, 32, 4, "0.1091", "0.0320", "0.0328",
		 "0.0554", "0.0294", "0.0010", "0.0554"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct bb_pipeline pipe = {.stages = rows[i].p,
					   .microbatches = rows[i].m,
					   .chunks = rows[i].chunks,
					   .f = rows[i].f * 1000,
					   .b = rows[i].b * 1000,
					   .w = rows[i].w * 1000,
					   .hop = rows[i].hop * 1000,
					   .kept = 34 * rows[i].hidden + 5120 * rows[i].heads,
					   .kept_w = 32 * rows[i].hidden,
					   .limit = 2 * rows[i].p};

		assert_bubble("1f1b", &pipe, false, false, rows[i].b_1f1b);
		assert_bubble("interleaved", &pipe, false, true, rows[i].interleaved);
		assert_bubble("interleaved", &pipe, false, false, rows[i].around);
		assert_bubble("zb-h1", &pipe, false, false, rows[i].h1);
		assert_bubble("zb-h2", &pipe, true, false, rows[i].h2);
		assert_bubble("zb-auto", &pipe, true, false, rows[i].p2);
		pipe.limit = rows[i].p;
		assert_bubble("zb-auto", &pipe, true, false, rows[i].p1);
	}
}

/* ZB-V by the generator of the paper's authors, of Table 9's times of its chunks. */
static void test_published_v(void **state)
{
	static const struct {
		int p, m;
		int64_t f, b, w, hop;
		int hidden, heads;
		const char *bubble;
	} rows[] = {{16, 48, 14407, 14380, 9676, 1610, 4096, 32, "0.0697"},
		    {16, 64, 14412, 14393, 9688, 1621, 4096, 32, "0.0533"},
		    {16, 128, 14316, 14306, 9639, 1619, 4096, 32, "0.0274"},
		    {24, 72, 6763, 6969, 5251, 755, 5120, 40, "0.0638"}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct bb_pipeline pipe = {
			.stages = rows[i].p,
			.microbatches = rows[i].m,
			.chunks = 2,
			.f = rows[i].f * 2000,
			.b = rows[i].b * 2000,
			.w = rows[i].w * 2000,
			.hop = rows[i].hop * 1000,
			.kept = 34 * rows[i].hidden + 5120 * rows[i].heads,
			.kept_w = 32 * rows[i].hidden,
		};

		assert_bubble("zb-v", &pipe, true, false, rows[i].bubble);
	}
}

/* Bubbles as the papers give them, where the microbatches are many. */
static void test_formulas(void **state)
{
	for (int p = 1; p <= 8; p++) {
		struct bb_pipeline pipe = {.stages = p,
					   .microbatches = 3 * p,
					   .chunks = 1,
					   .f = 5000,
					   .b = 4700,
					   .w = 3100,
					   .hop = 300,
					   .kept = 2,
					   .kept_w = 1,
					   .limit = 2 * p};
		const double ideal = 3 * p * 12800, hops = p > 1 ? 300 : 0;
		struct bb_order o;
		double span;

		o = make_order("gpipe", &pipe);
		assert_true(evaluate(&o, false, &span) - ideal ==
			    (p - 1) * 12800 + 2 * (p - 1) * hops);
		bb_order_free(&o);
		o = make_order("1f1b", &pipe);
		assert_true(evaluate(&o, false, &span) - ideal ==
			    (p - 1) * 12800 + (p > 1 ? 2 * (p - 1) * (3 + 1) - 2 : 0) * hops);
		bb_order_free(&o);
		o = make_order("zb-h1", &pipe);
		assert_true(evaluate(&o, false, &span) - ideal ==
			    (p - 1) * (5000 + 4700 - 3100 + 4 * hops));
		bb_order_free(&o);
		o = make_order("zb-h2", &pipe);
		evaluate(&o, false, &span);
		assert_true(span - ideal == (p - 1) * (5000 + 4700 - 2 * 3100 + 2 * hops));
		bb_order_free(&o);
	}
}

/* ---- what is wrong is found ----------------------------------------------------------------- */

static void swap(struct bb_order *o, int stage, size_t a, size_t b)
{
	struct bb_pass *passes = &o->passes[(size_t)stage * o->length];
	const struct bb_pass pass = passes[a];

	passes[a] = passes[b];
	passes[b] = pass;
}

static void assert_wrong(struct bb_order *o, const char *word)
{
	struct bb_error error = {.text = ""};

	assert_int_equal(bb_order_check(o, &error), BB_EDATA);
	if (!strstr(error.text, word))
		fail_msg("\"%s\" does not say \"%s\"", error.text, word);
	bb_order_free(o);
}

static void test_swapped(void **state)
{
	const struct bb_pipeline pipe = unit_pipeline(4, 8, 1);
	struct bb_order o = make_order("zb-h1", &pipe);

	swap(&o, 3, 0, 1); /* F0 B0 */
	assert_wrong(&o, "B of microbatch 0, chunk 0, on stage 3 comes before");
	o = make_order("zb-h1", &pipe);
	swap(&o, 0, 4, 5); /* B0 W0 */
	assert_wrong(&o, "W of microbatch 0, chunk 0, on stage 0 comes before");
	o = make_order("1f1b", &pipe);
	o.passes[0].microbatch = 7;
	assert_wrong(&o, "twice");
	o = make_order("naive", &pipe);
	swap(&o, 1, 0, 2); /* F1 before F0, while stage 0 does no F1 before BW0 */
	assert_wrong(&o, "in a cycle");
}

/* Neighbours of one microbatch build on each other: whichever are swapped, that is found. */
static void test_every_swap(void **state)
{
	const struct bb_pipeline pipe = unit_pipeline(3, 6, 1);

	for (const struct bb_pipeline_schedule *s = bb_pipeline_schedules; s->name; s++) {
		struct bb_order o = make_order(s->name, &pipe);

		for (int stage = 0; stage < 3; stage++)
			for (size_t i = 0; i + 1 < o.length; i++) {
				const struct bb_pass *a = &bb_order_passes(&o, stage)[i];
				const bool breaks = a[0].microbatch == a[1].microbatch &&
						    a[0].chunk == a[1].chunk;
				struct bb_error error = {.text = ""};
				bb_status status;

				swap(&o, stage, i, i + 1);
				status = bb_order_check(&o, &error);
				swap(&o, stage, i, i + 1);
				if (breaks)
					assert_int_equal(status, BB_EDATA);
			}
		assert_int_equal(bb_order_check(&o, &(struct bb_error){.text = ""}), BB_OK);
		bb_order_free(&o);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_orders),  cmocka_unit_test(test_found_orders),
		cmocka_unit_test(test_layers),      cmocka_unit_test(test_parts),
		cmocka_unit_test(test_least),       cmocka_unit_test(test_stages_of_searches),
		cmocka_unit_test(test_refused),     cmocka_unit_test(test_memory),
		cmocka_unit_test(test_unit_costs),  cmocka_unit_test(test_published),
		cmocka_unit_test(test_published_v), cmocka_unit_test(test_formulas),
		cmocka_unit_test(test_swapped),     cmocka_unit_test(test_every_swap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
