/*
 * What runs make of their results and ranks: tables of algorithms, paths and bounds of pairs, the
 * links below collectives, ranks and rails of nodes, and the data of every type and operation.
 */
#include "draws.h"

#include "collectives/summary.h"
#include "diagnose/diagnose.h"
#include "harness/run/link_bound.h"
#include "harness/run/pattern.h"
#include "p2p/pairs.h"
#include "suspects/findings.h"
#include "topology/systems.h"

/* ---- tables of algorithms ------------------------------------------------------------------- */

static const char *const library_names[] = {
	"ring:LL", "ring:Simple",     "tree:LL128",           "nvls:Simple", "odd:LL",
	"ring",    "nvlstree:Simple", "collnetdirect:Simple", "tree:odd"};

/* A result of ALGORITHM; times are a few values, so that some are equal. */
static struct bb_result_record result_draw(const char *algorithm, int64_t size, bool in_place)
{
	struct bb_result_record r;

	bb_record_init(&bb_record_result, &r);
	r.collective = "all_reduce";
	r.algorithm_asked = algorithm;
	r.algorithm =
		strcmp(algorithm, "auto") == 0 ? DRAW_TEXT("ring", "tree", "native") : algorithm;
	r.library_algorithm = RARELY(3) ? DRAW_OF(library_names) : NULL;
	r.dtype = "float";
	r.op = "sum";
	r.root = -1;
	r.size_bytes = size;
	r.in_place = in_place;
	r.time_us = RARELY(25) ? NAN
			       : DRAW(10, 10, 10.02, 20, 30.5, 99.996, 400, 12345) *
					 (RARELY(2) ? 1 : 1 + (double)size / 65536);
	r.busbw_GBps = RARELY(9) ? NAN : (double)size / r.time_us;
	if (!RARELY(3)) {
		r.percent_of_bound = DRAW(0.5, 9.97, 40, 60, 104, 131);
		r.bound_source = RARELY(9) ? "links" : "copies";
		r.bound_doubt = r.percent_of_bound > 100 && RARELY(2) ? "a doubt" : NULL;
	}
	r.cycle = 1;
	if (RARELY(2)) {
		r.predicted_low_us = r.time_us * DRAW(0.8, 0.8, 0.9);
		r.predicted_high_us = r.time_us * DRAW(1.2, 1.2, 1.3);
	}
	r.predicted_from = DRAW_TEXT(NULL, "rows", "rows", "others");
	r.other_versions = DRAW_TEXT(NULL, NULL, "2.20: tree", "2.21: ring");
	return r;
}

static void results_draw(struct bb_results *all)
{
	static const char *const names[] = {"ring", "tree", "auto",    "bruck",      "nvls:LL",
					    "a",    "b",    "ring:LL", "tree:Simple"};
	const int algorithms = 1 + (int)DRAW_BELOW(RARELY(4) ? 9 : 4),
		  sizes = (int)DRAW(1, 2, 4, 7);
	const int first = (int)DRAW_BELOW(5), placements = (int)DRAW(1, 2, 3);
	const bool evaluated = RARELY(2), faultless = RARELY(2);
	const char *const matrix = RARELY(6) ? "hot" : NULL;
	const int64_t root = RARELY(6) ? 3 : -1;

	all->cycles = RARELY(5) ? 3 : 1;
	for (int a = 0; a < algorithms; a++)
		for (int i = 0; i < sizes; i++)
			for (int in_place = 0; in_place < 2; in_place++) {
				const int64_t size = i == 0 && RARELY(8) ? 0 : 1024ll << (2 * i);
				struct bb_result_record r =
					result_draw(names[(first + a) % 9], size, in_place == 1);

				if (!(placements & (in_place + 1)) || RARELY(20))
					continue;
				r.op = RARELY(15) ? "none" : "sum";
				r.dtype = RARELY(15) ? "half" : "float";
				r.matrix = matrix;
				r.root = root;
				r.evaluator = evaluated ? DRAW_TEXT("sweep", "loads") : NULL;
				if (evaluated && !r.algorithm)
					r.algorithm = "ring";
				r.faultless_us = faultless ? r.time_us * 0.7 : NAN;
				assert_int_equal(bb_results_keep(all, &r), BB_OK);
			}
}

struct kept {
	struct bb_sink sink;
	struct sweep_texts *s;
};

static bb_status record_add(struct bb_sink *sink, const struct bb_record_kind *kind,
			    const void *record)
{
	struct sweep_texts *const s = ((struct kept *)sink)->s;

	if (kind == &bb_record_winner) {
		const struct bb_winner_record *const r = record;

		SWEEP_ADD(&s->numbers, (double)r->size_bytes, r->in_place, r->time_us,
			  r->times_second, r->auto_behind_percent);
		sweep_texts_add(s, r->algorithm_asked);
		sweep_texts_add(s, r->algorithm);
	} else if (kind == &bb_record_crossing) {
		const struct bb_crossing_record *const r = record;

		sweep_texts_add(s, r->ahead);
		sweep_texts_add(s, r->behind);
		sweep_add(&s->numbers, r->in_place);
		for (size_t i = 0; i < r->crossing_bytes.n; i++)
			sweep_add(&s->numbers, r->crossing_bytes.values[i]);
	}
	return BB_OK;
}

static void test_tables(void **none)
{
	static const struct bb_sink_ops ops = {.record = record_add};
	struct sweep_texts s = sweep_texts_open("runs_tables");

	for (int i = 1; i <= 2500; i++) {
		struct kept kept = {.sink.ops = &ops, .s = &s};
		struct bb_sinks sinks = {.list = {&kept.sink}, .n = 1};
		struct bb_results all = {.n = 0};
		struct bb_strbuf out = {0}, answers = {0};
		int rows = 0;

		drawn_begin((uint64_t)i);
		results_draw(&all);
		bb_compare_text(&all, &out, RARELY(2) ? &answers : NULL);
		sweep_add(&s.numbers, bb_compare_records(&all, &sinks));
		sweep_add(&s.numbers, bb_compare_tuner(&all, 2, 16, &out, &rows));
		sweep_add(&s.numbers, rows);
		bb_costs_text(&all, RARELY(2) ? "slow:1:2" : NULL, RARELY(2), &out);
		sweep_texts_add(&s, bb_strbuf_text(&out));
		sweep_texts_add(&s, bb_strbuf_text(&answers));
		bb_strbuf_free(&out);
		bb_strbuf_free(&answers);
		bb_results_free(&all);
		if (i % 125 == 0)
			sweep_texts_end(&s, "tables", i);
	}
	for (const struct bb_collective *const *c = bb_collectives; *c; c++)
		sweep_add(&s.numbers, bb_compare_is_tunable((*c)->name));
	sweep_texts_end(&s, "tunable", 0);
	sweep_texts_close(&s);
}

/* ---- pairs ---------------------------------------------------------------------------------- */

#define RANKS 16

static const struct bb_backend cpus = {.name = "cpus"};
static const struct bb_backend cards = {.name = "cards",
					.gpu = (const struct bb_gpu *)(const void *)&cpus};
static const struct bb_backend sim = {.name = "sim",
				      .virtual = (const struct bb_virtual *)(const void *)&cpus};

struct machine {
	struct bb_run run;
	struct bb_pairs pairs;
	struct bb_rank_info infos[RANKS];
	struct bb_rank_place places[RANKS];
	int ranks[RANKS];
};

/* Ranks on the GPUs, or the cores, of some nodes like SYSTEM. */
static struct machine *machine_draw(struct bb_topology *t)
{
	struct machine *const m = calloc(1, sizeof(*m));
	const int gpus = bb_topology_count(t, BB_GPU), each = gpus < RANKS / 2 ? gpus : RANKS / 2;
	const int n = RARELY(3) ? each : 2 * each;

	assert_non_null(m);
	m->pairs = (struct bb_pairs){.run = &m->run, .n = n};
	m->run.options.backend = RARELY(3) ? &cpus : RARELY(4) ? &sim : &cards;
	m->run.infos = m->infos;
	m->run.world.nranks = n;
	m->run.topology = t;
	m->run.link_bounds.places = m->places;
	m->run.link_bounds.n = m->run.options.backend == &cards && !RARELY(8) ? n : 0;
	m->run.options.config.link_rate = DRAW(0, 0, 1e9, 2e10, 1e12);
	m->run.options.config.link_latency = DRAW(0, 2e-6, 1e-4);
	m->run.options.config.link_port = RARELY(2);
	for (int r = 0; r < n; r++) {
		struct bb_location *const l = &m->infos[r].location;

		l->device = RARELY(20) ? 0 : r % each;
		l->numa = r % each / 2;
		snprintf(l->host, sizeof(l->host), "h%d", r / each);
		snprintf(l->bus, sizeof(l->bus), "%d", RARELY(20) ? 0 : r % each);
		snprintf(l->name, sizeof(l->name), "%s", RARELY(40) ? "X (not pinned)" : "X");
		m->places[r] = (struct bb_rank_place){
			.node = r / each, .device = bb_topology_device(t, BB_GPU, r % each)};
		m->ranks[r] = n - 1 - r;
	}
	if (RARELY(3))
		m->pairs.ranks = m->ranks;
	for (int i = 0; i < gpus * gpus && t->p2p; i++)
		t->p2p[i] = (uint8_t)(RARELY(8) ? (int)DRAW_BELOW(BB_P2P_UNKNOWN + 1) : BB_P2P_OK);
	for (int i = 0; i < t->nlinks; i++)
		t->links[i].down = (int)DRAW(0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2);
	for (int i = 0; i < t->npcis; i++) {
		t->pcis[i].acs = RARELY(20) ? BB_ACS_REDIRECT : t->pcis[i].acs;
		if (RARELY(20))
			t->pcis[i].now.width = (int)DRAW(0, 4, 8);
	}
	return m;
}

static void pairs_add(struct sweep_texts *s, struct machine *m)
{
	static const int actors[] = {BB_BY_SOURCE, BB_BY_TARGET, BB_BY_BOTH};
	struct bb_route route = {.actor = BB_BY_SOURCE};
	char name[BB_PAIR_PATH_TEXT], text[BB_CAUSE_TEXT];

	for (int i = 0; i < 24; i++) {
		const int from = (int)DRAW_BELOW(m->pairs.n), to = (int)DRAW_BELOW(m->pairs.n);
		const bool fan = RARELY(3);
		const struct bb_cell cell = {
			.route = &route,
			.direct = !RARELY(3),
			.ping = RARELY(8),
			.bidirectional = RARELY(8),
			.fan = fan ? RARELY(2) ? BB_ALL_TO_ONE : BB_ONE_TO_ALL : 0,
			.bytes = (uint64_t)DRAW(4096, 1 << 20, 7 << 20, 1 << 30)};
		const struct bb_finding f = {.rank = RARELY(3) ? from : -1, .from = from, .to = to};
		const char *source = NULL, *planned = NULL;

		route.actor = (enum bb_route_actor)DRAW_OF(actors);
		sweep_add(&s->numbers, bb_pair_path(&m->pairs, from, to, name));
		sweep_texts_add(s, name);
		SWEEP_ADD(&s->numbers, bb_pair_factor(&m->pairs, &cell, from, to),
			  bb_pair_planned_s(&m->pairs, 1e6, from, to, &planned),
			  bb_pair_bound(&m->pairs, &cell, from, fan ? from : to,
					DRAW(0, 1e-6, 1e-3, 1), &source));
		sweep_texts_add(s, source ? source : "none");
		sweep_texts_add(s, planned);
		const char *const cause = bb_pair_cause(&m->pairs, &f, text);
		sweep_texts_add(s, cause ? cause : "none");
	}
	bb_pair_link_bounds_close(&m->pairs);
	m->pairs.link_bounds = NULL;
}

static void test_pairs(void **none)
{
	struct sweep_texts s = sweep_texts_open("runs_pairs");

	for (int i = 0; bb_system_at(i); i++) {
		for (int k = 0; k < 20; k++) {
			struct bb_error error = {.text = ""};
			struct bb_topology *t = NULL;
			struct bb_cluster *c = NULL;
			char name[128];

			drawn_begin((uint64_t)(i * 20 + k));
			assert_int_equal(bb_topology_system(bb_system_at(i)->name, &t, &error),
					 BB_OK);
			if (bb_topology_count(t, BB_GPU) > 0) {
				struct machine *const m = machine_draw(t);

				snprintf(name, sizeof(name), "%s:2", bb_system_at(i)->name);
				/* Without a cluster, and where there is no second node, --link
				 * alone counts. */
				if (m->run.options.backend == &sim && !RARELY(3) &&
				    bb_cluster_open(name, NULL, &c, &error) != BB_OK)
					c = NULL;
				if (!c || c->ranks >= m->pairs.n) {
					m->run.options.cluster = c;
					pairs_add(&s, m);
				}
				free(m);
			}
			bb_cluster_free(c);
			bb_topology_free(t);
		}
		sweep_texts_end(&s, bb_system_at(i)->name, i);
	}
	sweep_texts_close(&s);
}

/* ---- links below collectives ---------------------------------------------------------------- */

static void test_links(void **none)
{
	static const char *const algorithms[] = {"ring",   "tree",       "nvls",          "auto",
						 "native", "ring:LL",    "busbench:tree", "bruck",
						 "ringer", "nvls:Simple"};
	struct sweep_texts s = sweep_texts_open("runs_links");

	for (int i = 0; bb_system_at(i); i++) {
		for (int k = 0; k < 6; k++) {
			struct bb_rank_info ranks[32];
			struct bb_link_bounds links;
			struct bb_error error = {.text = ""};
			struct bb_topology *t = NULL;

			drawn_begin((uint64_t)(i * 6 + k));
			assert_int_equal(bb_topology_system(bb_system_at(i)->name, &t, &error),
					 BB_OK);
			const int gpus =
				bb_topology_count(t, BB_GPU) > 0 ? bb_topology_count(t, BB_GPU) : 1;
			const int n = (int)DRAW(1, 2, 3, 8, 16, 32),
				  split = (int)DRAW(64, 64, 8, 2);
			memset(ranks, 0, sizeof(ranks));
			for (int r = 0; r < n; r++) {
				const int d = bb_topology_device(t, BB_GPU, r % gpus);

				ranks[r].node = r / gpus;
				ranks[r].group = r / split;
				if (d >= 0 && t->devices[d].pci >= 0 && !RARELY(200))
					snprintf(ranks[r].location.bus,
						 sizeof(ranks[r].location.bus), "%.10s",
						 t->pcis[t->devices[d].pci].id);
			}
			const struct bb_rank_infos infos = {ranks, (size_t)n};
			sweep_add(&s.numbers, bb_link_bounds_open(&links, RARELY(20) ? NULL : t,
								  &infos, !RARELY(4)));
			SWEEP_ADD(&s.numbers, links.n, t->nodes);
			for (int r = 0; r < links.n; r++)
				SWEEP_ADD(&s.numbers, links.places[r].node, links.places[r].device);
			for (const struct bb_collective *const *c = bb_collectives; *c; c++)
				for (size_t a = 0; a < sizeof(algorithms) / sizeof(algorithms[0]);
				     a++) {
					const char *source = "none";

					sweep_add(&s.numbers,
						  bb_link_bounds_find(&links, *c, algorithms[a],
								      &source));
					sweep_texts_add(&s, source);
				}
			bb_link_bounds_close(&links);
			bb_topology_free(t);
		}
		sweep_texts_end(&s, bb_system_at(i)->name, i);
	}
	sweep_texts_close(&s);
}

/* ---- ranks and rails of nodes --------------------------------------------------------------- */

static void test_ports(void **none)
{
	struct sweep_texts s = sweep_texts_open("runs_ports");

	for (int i = 1; i <= 3000; i++) {
		struct bb_rank_info infos[40];
		struct bb_cluster cluster = {.gpus = 0};
		struct bb_run run = {.infos = infos};
		struct bb_ports ports = {.nodes = 0};
		struct bb_error error = {.text = ""};

		drawn_begin((uint64_t)i);
		const int n = 1 + (int)DRAW_BELOW(40), each = 1 + (int)DRAW_BELOW(9);
		memset(infos, 0, sizeof(infos));
		for (int r = 0; r < n; r++)
			infos[r].node = RARELY(12) && r > 0 ? infos[r - 1].node : r / each;
		cluster.gpus = (int)DRAW(1, 2, 4, 8);
		run.world.nranks = n;
		run.options.cluster = RARELY(3) ? &cluster : NULL;
		/* Hosts are numbered without gaps. */
		for (int r = 1; r < n; r++)
			if (infos[r].node > infos[r - 1].node + 1)
				infos[r].node = infos[r - 1].node + 1;
		sweep_add(&s.numbers,
			  bb_ports_find(&ports, &run, (int64_t)DRAW(0, 0, 0, 1, 2, 3, 4), &error));
		SWEEP_ADD(&s.numbers, ports.nodes, ports.rails);
		for (int r = 0; r < n; r++)
			SWEEP_ADD(&s.numbers, ports.node[r], ports.rail[r], ports.rank[r]);
		sweep_texts_add(&s, error.text);
		free(ports.rank);
		if (i % 300 == 0)
			sweep_texts_end(&s, "ranks", i);
	}
	sweep_texts_close(&s);
}

/* ---- data ----------------------------------------------------------------------------------- */

static void patterns_add(struct sweep *s, enum bb_dtype dtype, int op, int n, uint64_t seed)
{
	struct bb_patterns *p = NULL;

	assert_int_equal(bb_patterns_make(&p, dtype, op, n, seed), BB_OK);
	for (int rank = op < 0 ? 0 : BB_REDUCED; rank < n; rank++) {
		const struct bb_pattern pattern = bb_patterns_get(p, rank);

		sweep_add(s, (double)(bb_random_hash(BB_RANDOM_HASH, pattern.table,
						     2 * pattern.period * pattern.element_size) >>
				      40));
		SWEEP_ADD(s, (double)pattern.period, (double)pattern.element_size,
			  (double)(pattern.seed >> 40), bb_patterns_ulps(p, rank));
	}
	sweep_add(s, bb_patterns_dtype(p));
	bb_patterns_free(p);
}

static void test_patterns(void **none)
{
	static const int ranks[] = {1, 2, 3, 9};
	struct sweep s = sweep_open("runs_patterns");

	for (int dtype = 0; dtype < BB_NDTYPES; dtype++) {
		for (int op = -1; op < BB_NOPS; op++)
			for (int i = 0; i < 4; i++)
				if (op < 0 || bb_op_accepts((enum bb_op)op, (enum bb_dtype)dtype))
					patterns_add(&s, (enum bb_dtype)dtype, op, ranks[i],
						     (uint64_t)(i + 1));
		sweep_end(&s, "%s", bb_dtype_name((enum bb_dtype)dtype));
	}
	/* More ranks than a mantissa holds. */
	patterns_add(&s, BB_F8E5M2, BB_SUM, 70, 1);
	patterns_add(&s, BB_F8E4M3, BB_MULSUM, 70, 1);
	patterns_add(&s, BB_BFLOAT16, BB_PROD, 70, 1);
	patterns_add(&s, BB_HALF, BB_AVG, 70, 1);
	sweep_end(&s, "many ranks");
	sweep_close(&s);
}

#define HOLDERS 6

/* Which holders of a store share their patterns, as they are taken and given back. */
static void test_stores(void **none)
{
	struct sweep s = sweep_open("runs_stores");

	for (int i = 1; i <= 200; i++) {
		const struct bb_patterns *held[HOLDERS] = {NULL};
		struct bb_pattern_store store;

		drawn_begin((uint64_t)i);
		bb_pattern_store_open(&store);
		for (int k = 0; k < 20; k++) {
			const size_t who = DRAW_BELOW(HOLDERS);
			size_t same = 0;

			bb_pattern_store_give(&store, held[who]);
			held[who] = NULL;
			sweep_add(&s, store.first != NULL);
			if (RARELY(3))
				continue;
			assert_int_equal(
				bb_pattern_store_take(&store, RARELY(3) ? BB_FLOAT : BB_HALF,
						      RARELY(3) ? -1 : BB_SUM, 1 + RARELY(3),
						      7 + RARELY(3), &held[who]),
				BB_OK);
			assert_non_null(held[who]);
			while (held[same] != held[who])
				same++;
			SWEEP_ADD(&s, (double)same, bb_patterns_dtype(held[who]),
				  (double)bb_patterns_get(held[who], 0).seed);
		}
		for (size_t who = 0; who < HOLDERS && RARELY(2); who++)
			bb_pattern_store_give(&store, held[who]);
		bb_pattern_store_close(&store);
		if (i % 20 == 0)
			sweep_end(&s, "stores up to %d", i);
	}
	sweep_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tables),   cmocka_unit_test(test_pairs),
		cmocka_unit_test(test_links),    cmocka_unit_test(test_ports),
		cmocka_unit_test(test_patterns), cmocka_unit_test(test_stores),
	};

	return cmocka_run_group_tests_name("runs_sweep", tests, NULL, NULL);
}
