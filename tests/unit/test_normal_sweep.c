/*
 * The verdict on made-up claims: every card with collectives, ranks, nodes, facts of a log, options
 * of a user, and tables that are fast, slow, uneven or strange, by a seeded generator; and all that
 * the verdict follows from.
 */
#include "draws.h"

#include "acceptance/normal.h"
#include "core/array.h"

static const char *const collectives[] = {
	"all_reduce", "all_reduce", "all_gather", "reduce_scatter", "alltoall",  "alltoallv",
	"broadcast",  "reduce",     "gather",     "scatter",        "sendrecv",  "hypercube",
	"mystery",    "",           "all_reduce", "all_gather",     "all_reduce"};

static void claims_free(struct bb_claims *c)
{
	free(c->facts);
	free(c->list);
}

static void fact_draw(struct bb_claims *c, enum bb_fact_kind kind, int64_t value, const char *text)
{
	struct bb_fact fact = {.value = value, .line = (int)DRAW_BELOW(40), .observed = RARELY(2)};
	static const char *const quotes[] = {"NCCL INFO Using network IB",
					     "NCCL_IB_HCA=mlx5_0",
					     "Test NCCL failure common.cu:1",
					     "Test CUDA failure",
					     "",
					     "Test is slow"};

	snprintf(fact.text, sizeof(fact.text), "%s", text);
	snprintf(fact.quote, sizeof(fact.quote), "%s", DRAW_OF(quotes));
	assert_true(bb_claims_add_fact(c, kind, &fact));
}

/* Some facts of a log. */
static void facts_draw(struct bb_claims *c)
{
	static const char *const algorithms[] = {"Ring",      "Tree",  "NVLS",     "^NVLS,NVLSTREE",
						 "ring,Tree", "^Ring", "nonsense", "CollnetDirect",
						 "^",         "PAT",   "^NVLS"};
	static const char *const protocols[] = {"LL", "LL128", "Simple", "^LL", "simple"};
	static const enum bb_fact_kind plain[] = {
		BB_FACT_SOCKET,     BB_FACT_SHARP,    BB_FACT_GDR_OFF,   BB_FACT_P2P_OFF,
		BB_FACT_SHM_OFF,    BB_FACT_NVLS_OFF, BB_FACT_MNNVL_OFF, BB_FACT_SHARED_GPU,
		BB_FACT_INFINIBAND, BB_FACT_ROCE,     BB_FACT_EFA,       BB_FACT_ERROR};

	if (RARELY(3))
		return;
	if (RARELY(3))
		fact_draw(c, BB_FACT_NICS, (int64_t)DRAW(1, 2, 4, 8, 8, 9, 16), "");
	if (RARELY(3))
		fact_draw(c, BB_FACT_NIC_RATE, (int64_t)DRAW(25, 100, 200, 400, 400, 800), "");
	if (RARELY(5))
		fact_draw(c, BB_FACT_CHANNELS, (int64_t)DRAW(1, 4, 5, 16), "");
	if (RARELY(4))
		fact_draw(c, BB_FACT_ALGORITHM, 0, DRAW_OF(algorithms));
	if (RARELY(4))
		fact_draw(c, BB_FACT_PROTOCOL, 0, DRAW_OF(protocols));
	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
		if (RARELY(8))
			fact_draw(c, plain[i], (int64_t)DRAW_BELOW(9), "");
}

/* A plateau of GBPS from HALF on, which RANKS reach with LATENCY_US. */
struct curve {
	double GBps, latency_us, factor;
	uint64_t dip; /* the size that reaches only DEPTH of it; 0: none */
	bool collapses, in_place_slow;
	double depth;
};

static void row_add(struct bb_claims *c, const struct curve *curve, uint64_t size, bool in_place)
{
	struct bb_claim row = {.size_bytes = size, .in_place = in_place, .line = (int)c->n + 3};
	const bool dips =
		curve->dip > 0 && (curve->collapses ? size >= curve->dip : size == curve->dip);

	row.time_us = curve->latency_us + (double)size * curve->factor / curve->GBps / 1e3;
	row.time_us *= DRAW_WITHIN(1, 1.03);
	if (dips && in_place == curve->in_place_slow)
		row.time_us /= curve->depth;
	row.algbw_GBps = (double)size / row.time_us / 1e3;
	row.busbw_GBps = row.algbw_GBps * curve->factor;
	assert_true(bb_claim_add(c, &row));
}

/* The table of C, with about GBPS at its largest size. */
static void rows_draw(struct bb_claims *c, double GBps, double factor)
{
	const int last = (int)DRAW(12, 15, 18, 19, 20, 24, 27, 28, 29, 30, 32, 33, 33, 34);
	const int first = last - (int)DRAW(0, 1, 2, 3, 5, 8, 12);
	const int placements = (int)DRAW(1, 2, 2, 3);
	const struct curve curve = {.GBps = GBps,
				    .latency_us = DRAW(0, 4, 15, 40, 200),
				    .factor = factor,
				    .dip = RARELY(2) ? 1ull << (last - (int)DRAW_BELOW(4)) : 0,
				    .collapses = RARELY(2),
				    .in_place_slow = RARELY(2),
				    .depth = DRAW(0.97, 0.91, 0.89, 0.81, 0.79, 0.6, 0.4, 0.2)};

	for (int i = first; i <= last; i++)
		for (int in_place = 0; in_place < 2; in_place++)
			if (placements & (in_place + 1))
				row_add(c, &curve, (1ull << i) - 24 * (uint64_t)RARELY(9),
					in_place == 1);
	if (RARELY(6) && c->n > 2)
		c->list[DRAW_BELOW(c->n)].busbw_GBps *= DRAW(0, 0.5, 0.85, 1.2, 4);
	if (RARELY(40))
		for (size_t i = 0; i < c->n; i++)
			c->list[i].busbw_GBps = 0;
	if (RARELY(8))
		for (size_t i = 0; i < c->n / 2; i++) {
			const struct bb_claim row = c->list[i];

			c->list[i] = c->list[c->n - 1 - i];
			c->list[c->n - 1 - i] = row;
		}
}

/* A run of which the log has the average alone. */
static void average_draw(struct bb_claims *c, double GBps)
{
	const int last = (int)DRAW(20, 28, 33, 34);

	c->average_GBps = GBps;
	c->most_bytes = 1ull << last;
	c->least_bytes = RARELY(5) ? 0 : c->most_bytes >> DRAW_BELOW(10);
	c->factor = DRAW(0, 1, 2, 2, 4);
	c->step_bytes = RARELY(2) ? 0 : 1ull << (last - (int)DRAW_BELOW(12));
}

static struct bb_claims claims_draw(const struct bb_card *card)
{
	static const char *const algorithms[] = {
		"",        "auto", "ring",        "Tree", "nvls",         "nvlstree",
		"ring:LL", "nope", "auto:Simple", "pat:", "collnetdirect"};
	static const char *const redops[] = {"sum", "none", "prod", "max", ""};
	static const char *const types[] = {"float", "half", "bfloat16", "int8", "double", ""};
	struct bb_claims c = {.percent_of_bound = NAN};
	const int nodes = (int)DRAW(1, 1, 1, 2, 2, 3, 4, 6, 16);
	const int each = card->of_node > 0 && !RARELY(5) ? card->of_node : (int)DRAW(1, 2, 4, 8);
	const int ranks = nodes * each + (int)DRAW(0, 0, 0, 0, 0, -1, 1);
	const char *const collective = DRAW_OF(collectives);
	const struct bb_collective *const known = bb_collective_find(collective);
	const double factor = known && ranks > 1 ? known->bus_factor(ranks) : DRAW(1, 0.875, 1.75);
	const struct bb_normal_shape shape = {collective[0] ? collective : "all_reduce", "", ranks,
					      nodes, false};
	double bound = bb_normal_bound_of(card, shape).GBps;
	const double share = DRAW(0.02, 0.125, 0.25, 0.375, 0.49, 0.51, 0.6, 0.7, 0.75, 0.8, 0.85,
				  0.9, 0.95, 0.99, 1.01, 1.03, 1.12, 1.9, 4);

	bound = bound > 0 ? bound : DRAW(0.3, 2, 20, 200);
	snprintf(c.collective, sizeof(c.collective), "%s", RARELY(5) ? "" : collective);
	snprintf(c.algorithm, sizeof(c.algorithm), "%s", RARELY(2) ? "" : DRAW_OF(algorithms));
	snprintf(c.type, sizeof(c.type), "%s", DRAW_OF(types));
	snprintf(c.op, sizeof(c.op), "%s", DRAW_OF(redops));
	snprintf(c.root, sizeof(c.root), "%s", RARELY(3) ? "" : RARELY(3) ? "0" : "-1");
	/* Without a name of the GPU all cards are tried, which takes long. */
	if (!RARELY(6))
		snprintf(c.gpu, sizeof(c.gpu), "%s", RARELY(60) ? "H100 PCLe" : card->name);
	else if (!RARELY(8))
		fact_draw(&c, BB_FACT_CARD, 0, card->name);
	snprintf(c.backend, sizeof(c.backend), "%s", RARELY(9) ? "gloo" : RARELY(2) ? "nccl" : "");
	c.nranks = RARELY(6) ? (int64_t)DRAW(0, 1, 2, 7, 2000000) : ranks;
	c.hosts = RARELY(4) ? (int64_t)DRAW(0, 1, 3, 100) : nodes;
	c.rounding = DRAW(0, 0.005, 0.005, 0.05);
	facts_draw(&c);
	if (RARELY(10))
		average_draw(&c, share * bound);
	else
		rows_draw(&c, share * bound * DRAW_WITHIN(0.99, 1.01), factor);
	c.runs = (int64_t)DRAW(0, 0, 0, 1, 2);
	c.simulated = RARELY(60);
	c.wrong = RARELY(30) ? 2 : 0;
	c.unchecked = RARELY(8) ? 1 + DRAW_BELOW(3) : 0;
	c.unchecked_in_place = c.unchecked > 0 && RARELY(2) ? c.unchecked : 0;
	c.implausible = RARELY(20);
	c.not_finite = RARELY(20);
	c.incomplete = RARELY(30);
	if (c.n > 0 && RARELY(5)) {
		c.percent_of_bound = DRAW(3, 19, 21, 49, 51, 90, 109, 111, 300);
		snprintf(c.bound_source, sizeof(c.bound_source), "%s",
			 RARELY(2) ? "copy speed of 2 cores" : "pair bandwidth");
	}
	return c;
}

static struct bb_circumstances given_draw(void)
{
	static const char *const machines[] = {"hgx-h100:2", "hgx-a100", "dgx-2",     "gb200-nvl72",
					       "nonsense:3", "aws-p5:4", "pcie-4090", "hgx-h100:0"};
	struct bb_circumstances g = {NULL, NULL, NULL, 0, 0, 0, 0};

	if (RARELY(2))
		return g;
	if (RARELY(4))
		g.gpu = RARELY(12) ? "H300" : "NVIDIA A100-SXM4-80GB";
	if (RARELY(5))
		g.collective = DRAW_OF(collectives);
	if (RARELY(4))
		g.machine = DRAW_OF(machines);
	if (RARELY(4))
		g.nodes = (int64_t)DRAW(1, 2, 4, 5, 20000);
	if (RARELY(5))
		g.ranks = (int64_t)DRAW(1, 2, 8, 16, 64);
	if (RARELY(4))
		g.nics = (int64_t)DRAW(1, 2, 4, 8, 16);
	if (RARELY(4))
		g.nic_Mbps = (int64_t)DRAW(25000, 100000, 200000, 400000);
	return g;
}

#define OF_A_CARD 32

static void test_verdicts(void **none)
{
	struct sweep_texts s = sweep_texts_open("normal_verdicts");
	struct bb_references references;
	struct bb_error error = {.text = ""};

	assert_int_equal(bb_references_own(&references, &error), BB_OK);
	for (int i = 0; bb_card_at(i); i++) {
		for (int k = 0; k < OF_A_CARD; k++) {
			drawn_begin((uint64_t)(i * OF_A_CARD + k));
			struct bb_claims c = claims_draw(bb_card_at(i));
			const struct bb_circumstances given = given_draw();
			enum bb_normality verdict = BB_UNKNOWN;
			struct bb_strbuf out = {0};

			error.text[0] = '\0';
			sweep_add(&s.numbers,
				  bb_normal(&c, &references, &given, &verdict, &out, &error));
			sweep_add(&s.numbers, verdict);
			sweep_texts_add(&s, bb_strbuf_text(&out));
			sweep_texts_add(&s, error.text);
			bb_strbuf_free(&out);
			claims_free(&c);
		}
		sweep_texts_end(&s, bb_card_at(i)->name, OF_A_CARD);
	}
	free(references.rows);
	sweep_texts_close(&s);
}

#define TABLES 12000

/* The rows alone: the largest, latency, dips, and placements. */
static void test_rows(void **none)
{
	struct sweep_texts s = sweep_texts_open("normal_rows");

	for (int i = 1; i <= TABLES; i++) {
		drawn_begin((uint64_t)i);
		struct bb_claims c = {.percent_of_bound = NAN};
		struct bb_strbuf out = {0};
		struct bb_question q = {.claims = &c, .collective = "", .out = &out};

		rows_draw(&c, DRAW(1, 40, 400), DRAW(1, 1.75));
		const struct bb_claim last = bb_normal_largest(&c);
		sweep_add(&s.numbers, bb_normal_evenness(&q));
		q.out = RARELY(9) ? &out : NULL;
		sweep_add(&s.numbers, bb_normal_evenness(&q));
		SWEEP_ADD(&s.numbers, (double)last.size_bytes, last.in_place, last.busbw_GBps,
			  bb_normal_is_latency(&c));
		sweep_texts_add(&s, bb_strbuf_text(&out));
		bb_strbuf_free(&out);
		claims_free(&c);
		if (i % 1000 == 0)
			sweep_texts_end(&s, "tables", i);
	}
	sweep_texts_close(&s);
}

static void bound_add(struct sweep_texts *s, const struct bb_normal_bound *bound)
{
	sweep_add(&s->numbers, bound->GBps);
	if (bound->GBps > 0) {
		sweep_texts_add(s, bound->system);
		sweep_texts_add(s, bound->algorithm);
		sweep_texts_add(s, bound->why);
	}
}

/* Which machine is meant, its NICs, and the bounds of its links. */
static void test_machines(void **none)
{
	struct sweep_texts s = sweep_texts_open("normal_machines");

	for (int i = 0; bb_card_at(i); i++) {
		const struct bb_card *const card = bb_card_at(i);

		for (int k = 0; k < OF_A_CARD; k++) {
			drawn_begin((uint64_t)(i * OF_A_CARD + k));
			struct bb_claims c = {.percent_of_bound = NAN};
			const struct bb_circumstances given = given_draw();
			struct bb_claimed_machine m;
			struct bb_error error = {.text = ""};
			struct bb_strbuf out = {0};
			struct bb_question q = {.claims = &c,
						.given = &given,
						.card = RARELY(9) ? NULL : card,
						.collective = collectives[DRAW_BELOW(14)],
						.nodes = (long long)DRAW(0, 1, 1, 2, 3, 5, 20),
						.machine = &m};
			struct bb_normal_shape shape;

			q.ranks = q.nodes * (long long)DRAW(1, 2, 4, 8) +
				  (long long)DRAW(0, 0, 0, -1, 1);
			facts_draw(&c);
			sweep_add(&s.numbers, bb_normal_machine_find(&q, &m, &error));
			sweep_texts_add(&s, error.text);
			sweep_texts_add(&s, m.name);
			sweep_texts_add(&s, m.system);
			SWEEP_ADD(&s.numbers, m.assumed, m.nics.n, (double)m.nics.Mbps, m.nics.kind,
				  m.nccl.ranks, m.nccl.nodes, m.nccl.net_rate,
				  bb_normal_is_near(card, q.ranks, q.nodes));
			sweep_add(&s.numbers, m.constants.generation != NULL);
			shape = bb_normal_shape_of(&q);
			shape.algorithm =
				(const char *const[]){"", "ring", "NVLS", "tree"}[DRAW_BELOW(4)];
			shape.by_sharp = RARELY(3);
			struct bb_normal_bound bound = bb_normal_bound_of(card, shape);
			bound_add(&s, &bound);
			if (m.cluster) {
				bound = bb_normal_bound_on(m.cluster->node, bb_normal_ring_of(&q));
				bound_add(&s, &bound);
				bb_normal_describe_nics(&m, &out);
				rows_draw(&c, bound.GBps * DRAW(0.9, 1.01, 1.03, 1.2, 2, 5) + 1, 1);
				q.out = &out;
				sweep_add(&s.numbers, bb_normal_judge_bound(&q));
				sweep_texts_add(&s, bb_strbuf_text(&out));
				bb_strbuf_free(&out);
			}
			bb_normal_machine_close(&m);
			claims_free(&c);
		}
		sweep_texts_end(&s, card->name, OF_A_CARD);
	}
	sweep_texts_close(&s);
}

/* What NCCL's INFO lines would have said of FABRIC, "EFA 4x100G". */
static void evidence_add(struct bb_claims *c, const char *fabric)
{
	int nics, Gbps;

	for (const char *at = fabric; *at; at++)
		if (sscanf(at, "%dx%dG", &nics, &Gbps) == 2) {
			fact_draw(c, BB_FACT_NICS, nics, "");
			fact_draw(c, BB_FACT_NIC_RATE, Gbps, "");
			break;
		}
	if (strstr(fabric, "EFA"))
		fact_draw(c, BB_FACT_EFA, 0, "");
	if (strstr(fabric, "RoCE"))
		fact_draw(c, BB_FACT_ROCE, 0, "");
	if (strstr(fabric, "SHARP") || RARELY(20))
		fact_draw(c, BB_FACT_SHARP, 0, "");
	if (RARELY(12))
		fact_draw(c, BB_FACT_NVLS_OFF, 0, "");
}

/* Rows like the published ones, faster and slower, of nearby sizes and numbers of ranks. */
static void test_published(void **none)
{
	struct sweep_texts s = sweep_texts_open("normal_published");
	struct bb_references table;
	struct bb_error error = {.text = ""};

	assert_int_equal(bb_references_own(&table, &error), BB_OK);
	for (size_t i = 0; i < table.n; i++) {
		drawn_begin(i);
		const struct bb_reference *const r = &table.rows[i];
		const struct bb_circumstances given = {NULL, NULL, NULL, 0, 0, 0, 0};
		struct bb_claims c = {.percent_of_bound = NAN, .nranks = r->nranks};
		enum bb_normality verdict;
		struct bb_strbuf out = {0};
		uint64_t size = r->size_bytes ? r->size_bytes : 1ull << 30;

		snprintf(c.collective, sizeof(c.collective), "%.20s", r->collective);
		snprintf(c.gpu, sizeof(c.gpu), "%s", r->card->name);
		snprintf(c.algorithm, sizeof(c.algorithm), "%.20s",
			 RARELY(6)    ? r->algo
			 : RARELY(12) ? "ring"
				      : "");
		c.hosts = r->nodes;
		evidence_add(&c, r->fabric);
		size = RARELY(4) ? (uint64_t)((double)size * DRAW(0.5, 0.7, 1.5, 2, 3, 5)) : size;
		const struct curve curve = {.GBps = r->busbw_GBps * DRAW(0.5, 0.85, 0.89, 0.91,
									 0.97, 1, 1.08, 1.12, 1.3),
					    .factor = 1};
		if (r->nranks > 2 && RARELY(4))
			c.nranks = (int64_t)((double)r->nranks * DRAW(0.5, 0.75, 2, 3));
		row_add(&c, &curve, size, false);
		if (RARELY(3))
			row_add(&c, &curve, size, true);
		if (RARELY(3))
			row_add(&c, &curve, size * (uint64_t)DRAW(2, 4, 5, 64), false);
		if (c.nranks > 1 && bb_collective_find(c.collective))
			for (size_t k = 0; k < c.n; k++)
				c.list[k].algbw_GBps /=
					bb_collective_find(c.collective)->bus_factor((int)c.nranks);
		sweep_add(&s.numbers, bb_normal(&c, &table, &given, &verdict, &out, &error));
		sweep_add(&s.numbers, verdict);
		sweep_texts_add(&s, bb_strbuf_text(&out));
		bb_strbuf_free(&out);
		claims_free(&c);
		if (i % 30 == 29 || i + 1 == table.n)
			sweep_texts_end(&s, "rows up to", (int)i + 2);
	}
	free(table.rows);
	sweep_texts_close(&s);
}

/* Each row by its key, and by keys and figures that are slightly others. */
static void test_references(void **none)
{
	struct sweep_texts s = sweep_texts_open("normal_references");
	struct bb_references table;
	struct bb_error error = {.text = ""};

	assert_int_equal(bb_references_own(&table, &error), BB_OK);
	sweep_add(&s.numbers, (double)table.n);
	for (size_t i = 0; i < table.n; i++) {
		const struct bb_reference *const r = &table.rows[i];

		SWEEP_ADD(&s.numbers, (double)r->nodes, (double)r->nranks, (double)r->size_bytes,
			  r->in_place, r->busbw_GBps);
		sweep_texts_add(&s, r->id);
		sweep_texts_add(&s, r->card->name);
		sweep_texts_add(&s, r->system);
		sweep_texts_add(&s, r->fabric);
		sweep_texts_add(&s, r->kind);
		sweep_texts_add(&s, r->source);
		for (int k = 0; k < 64; k++) {
			const struct bb_reference *found = NULL;
			char key[96];

			snprintf(key, sizeof(key), "%.*s%s%s", (int)strlen(r->id) - (k == 1), r->id,
				 k & 2 ? ":" : "", k & 2 ? r->algo : "");
			error.text[0] = '\0';
			sweep_add(&s.numbers, bb_references_find(&table, key,
								 k & 4 ? "alltoall" : r->collective,
								 r->size_bytes + (k & 8 ? 1 : 0),
								 r->nranks + (k & 16 ? 1 : 0),
								 k & 32 ? r->in_place : k % 3 - 1,
								 &found, &error));
			sweep_add(&s.numbers, found ? (double)(found - table.rows) : -1);
			sweep_texts_add(&s, error.text);
		}
		if (i % 100 == 99 || i + 1 == table.n)
			sweep_texts_end(&s, "rows up to", (int)i + 2);
	}
	free(table.rows);
	sweep_texts_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_verdicts),   cmocka_unit_test(test_rows),
		cmocka_unit_test(test_machines),   cmocka_unit_test(test_published),
		cmocka_unit_test(test_references),
	};

	return cmocka_run_group_tests_name("normal_sweep", tests, NULL, NULL);
}
