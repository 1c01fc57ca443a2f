/*
 * Clusters: every known system with every figure changed, and with machines that differ; their
 * links, rails, routes and faults, and the times of collectives on them.
 */
#include "clusters.h"
#include "sweep.h"

#include "core/random.h"
#include "simulator/timeline/timeline.h"
#include "topology/rates.h"
#include "topology/systems.h"

#include <unistd.h>

static int draw(uint64_t *state, int n)
{
	return (int)((bb_random_next(state) >> 33) % (uint64_t)n);
}

static double draw_of(uint64_t *state, const double *values, int n)
{
	return values[draw(state, n)];
}

#define DRAW(state, ...)                                                                           \
	draw_of(state, (const double[]){__VA_ARGS__},                                              \
		(int)(sizeof((const double[]){__VA_ARGS__}) / sizeof(double)))

/* ---- machines ---------------------------------------------------------------------------- */

static uint64_t machine_seed;

static void change_devices(struct bb_topology *t, uint64_t *seed)
{
	for (int d = 0; d < t->ndevices; d++) {
		struct bb_device *v = &t->devices[d];

		if (v->kind == BB_NIC && draw(seed, 5) == 0)
			v->rate_Mbps = (int64_t)DRAW(seed, 0, 25000, 100000, 400000);
		if (v->kind == BB_NIC && draw(seed, 5) == 0)
			v->layer = (enum bb_nic_layer)draw(seed, 3);
		if (v->kind == BB_NIC && draw(seed, 6) == 0)
			v->state = (enum bb_nic_state)draw(seed, 3);
		if (v->kind == BB_NIC && v->pci >= 0 && draw(seed, 6) == 0) {
			t->pcis[v->pci].vendor = 0x1d0f;
			t->pcis[v->pci].device = 0xefa0 + (uint32_t)draw(seed, 4);
		}
		if (v->kind == BB_GPU && draw(seed, 9) == 0)
			v->sm = (int)DRAW(seed, 0, 70, 80, 90);
	}
}

/* A known system, changed: it stands for any file. */
static bb_status parse(const char *text, size_t length, const char *name, struct bb_topology **out,
		       struct bb_error *error)
{
	static const char *const gpus[] = {"GeForce GTX 1080", "RTX 4090",    "RTX 6000 Ada",
					   "RTX A6000",        "RTX 2080 Ti", "H100"};
	uint64_t seed = machine_seed;
	int systems = 0;

	while (bb_system_at(systems))
		systems++;
	const bb_status st =
		bb_topology_system(bb_system_at(draw(&seed, systems))->name, out, error);
	struct bb_topology *const t = *out;
	const int n = st == BB_OK ? bb_topology_count(t, BB_GPU) : 0;

	if (st != BB_OK || draw(&seed, 5) == 0)
		return st;
	change_devices(t, &seed);
	if (draw(&seed, 3) == 0 && n > 0) {
		const int model = draw(&seed, 6);

		for (int d = 0; d < n; d++)
			snprintf(t->devices[d].model, BB_TEXT, "%s", gpus[model]);
	}
	if (draw(&seed, 3) == 0)
		t->nlinks = 0;
	for (int l = 0; l < t->nlinks; l++)
		if (draw(&seed, 6) == 0)
			t->links[l].count = draw(&seed, 5);
	for (int p = draw(&seed, 3); p < t->npcis; p += 1 + draw(&seed, 4)) {
		const int gen = draw(&seed, 7);

		if (draw(&seed, 2))
			t->pcis[p].most = t->pcis[p].now = bb_pcie(gen, 8);
	}
	if (draw(&seed, 3) == 0 && n > 0) {
		if (bb_add_p2p(t, error) != BB_OK)
			return BB_EINTERNAL;
		for (int i = 0; i < n * n; i++)
			t->p2p[i] = draw(&seed, 3) ? BB_P2P_OK
						   : (uint8_t)draw(&seed, BB_P2P_UNKNOWN + 1);
	}
	t->nvlink_nodes = draw(&seed, 4) ? t->nvlink_nodes : 1 + draw(&seed, 4);
	t->nodes = draw(&seed, 3) ? t->nodes : 1 + draw(&seed, 9);
	t->links_unknown = draw(&seed, 30) == 0;
	if (draw(&seed, 3) == 0)
		snprintf(t->host.arch, sizeof(t->host.arch), "arm64");
	return BB_OK;
}

/* ---- what is asked ----------------------------------------------------------------------- */

static void cluster_add(struct sweep *s, const struct bb_cluster *c, uint64_t *seed)
{
	struct bb_strbuf out = {0};
	const uint64_t all = c->gpus >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << c->gpus) - 1;

	bb_cluster_describe(c, &out);
	sweep_add_text(s, bb_strbuf_text(&out));
	bb_strbuf_free(&out);
	SWEEP_ADD(s, c->nodes, c->gpus, c->ranks, c->domain, c->inside, c->rails, c->nics,
		  c->near_nics, c->staged, c->gpu_rate, c->nic_rate, bb_cluster_cache(c),
		  bb_cluster_loops_back(c), c->node->nvlink_nodes, c->node->nodes);
	for (int gpu = 0; gpu < c->gpus && gpu < 80; gpu++)
		SWEEP_ADD(s, c->rail_of[gpu], c->rail_gpus[gpu]);
	for (int figure = 0; figure < BB_FIGURES; figure++)
		sweep_add(s, c->figures[figure]);
	for (int i = 0; i < c->gpus * c->gpus && i < 300; i++)
		SWEEP_ADD(s, c->pairs[i].second_per_byte, c->pairs[i].latency, c->pairs[i].path);
	for (int k = 0; k < 3 && bb_cluster_has_gpus(c); k++) {
		const uint64_t set = k ? all & bb_random_next(seed) : all;
		const struct bb_cluster_slots slots = bb_cluster_slots(c, set);

		SWEEP_ADD(s, slots.through_host, slots.alone, slots.together);
	}
	for (int k = 0; k < 20; k++) {
		const int from = draw(seed, c->ranks), to = draw(seed, c->ranks);
		const struct bb_cluster_route route = bb_cluster_route(c, from, to);

		SWEEP_ADD(s, route.rate, route.latency, route.path);
		sweep_add_text(s, bb_cluster_path_name(c, route.path));
	}
}

static void crowds_add(struct sweep *s, const struct bb_fabric *f, int world, uint64_t *seed)
{
	struct bb_crowds crowds = {.fabric = NULL};

	assert_true(bb_crowds_open(&crowds, f, world));
	for (int k = 0; k < 4; k++) {
		int members[256], n = 0;
		const int step = 1 + draw(seed, k == 0 ? 1 : 2 * f->per_node);
		double *crowd = NULL;

		for (int rank = draw(seed, step); rank < world && n < 256; rank += step)
			members[n++] = rank;
		assert_true(bb_crowds_find(&crowds, members, n, &crowd));
		sweep_add(s, crowd ? n : -1);
		for (int i = 0; crowd && i < n * BB_LEVELS; i++)
			sweep_add(s, crowd[i]);
		free(crowd);
	}
	bb_crowds_free(&crowds);
}

static void fabric_add(struct sweep *s, const struct bb_fabric *f, uint64_t *seed)
{
	const int world = f->nodes * f->per_node;

	SWEEP_ADD(s, f->leaf, f->pod, f->packages, f->overhead, f->sum_second_per_byte, f->pulls,
		  f->limits[0].most, f->limits[0].latency, f->limits[1].most, f->limits[1].latency,
		  f->cache_bytes, f->memory_second_per_byte, f->loopback, f->domain_latency,
		  f->latency[0], f->latency[1], f->latency[2], bb_fabric_has_outside(f));
	for (int n = 1; n <= world && n < 2000; n += 1 + n / 2) {
		SWEEP_ADD(s, bb_fabric_period(f, n), bb_fabric_period(f, n * f->per_node));
		if (f->packages > 0)
			SWEEP_ADD(
				s, bb_fabric_copy(f, n),
				bb_fabric_of_working_set(f, n, 1e3 * n * n).memory_second_per_byte);
	}
	for (int i = 0; i < 40; i++) {
		const int from = draw(seed, world), to = draw(seed, world);
		const struct bb_fabric_route r = bb_fabric_route(f, from, to);

		SWEEP_ADD(s, r.second_per_byte, r.latency, r.path, r.outside, r.out_rail,
			  r.in_rail);
	}
	for (enum bb_fabric_level level = 0; level < BB_LEVELS; level++) {
		sweep_add(s, bb_fabric_shares(f, level));
		if (level == BB_LEVEL_MEMORY ? f->packages == 0 : f->rails == 0)
			continue;
		sweep_add(s, (double)bb_fabric_shared_count(f, level));
		for (int i = 0; i < 12; i++) {
			const int rank = draw(seed, world);
			const int rail = f->rails ? draw(seed, f->rails) : 0;

			SWEEP_ADD(s, (double)bb_fabric_shared(f, level, rank, rail),
				  bb_fabric_shared_second_per_byte(f, level, rank, rail));
		}
	}
	if (world <= 400 && (f->rails > 0 || !bb_fabric_has_outside(f)))
		crowds_add(s, f, world, seed);
}

/* ---- collectives on it --------------------------------------------------------------------- */

static void times_add(struct sweep *s, const struct bb_link_model *l, int n, uint64_t *seed)
{
	static size_t matrix[32 * 32];
	struct bb_shape shape = {.nranks = n, .in_place = draw(seed, 2)};
	double times[32], entered[32];
	int algorithms = 0;

	while (bb_algorithms[algorithms])
		algorithms++;
	const struct bb_algorithm *const a = bb_algorithms[draw(seed, algorithms)];
	const enum bb_evaluator evaluator =
		a->flags & BB_SHIFT_INVARIANT && l->noise == 0 && draw(seed, 2)
			? BB_EVALUATOR_ALIKE
			: BB_EVALUATOR_SWEEP;

	if ((a->refuses && a->refuses(&shape)) ||
	    (a->collective->refuses && a->collective->refuses(n)))
		return;
	shape.count = (size_t)DRAW(seed, 0, 1, 7, 100, 3000, 1 << 16, 1 << 20);
	if (a->collective->flags & BB_ROOTED)
		shape.root = draw(seed, n);
	if (a->collective->flags & BB_VARIABLE) {
		for (int i = 0; i < n * n; i++)
			matrix[i] = (size_t)draw(seed, (int)shape.count + 1);
		shape.matrix = matrix;
	}
	shape.chunk = draw(seed, 2) ? 0 : shape.count / 5;
	for (int rank = 0; rank < n; rank++)
		entered[rank] = draw(seed, 3) ? 0 : 1e-6 * draw(seed, 50);
	memcpy(times, entered, sizeof(times));
	sweep_add(s, bb_timeline_collective_by(evaluator, l, a, &shape, 4, 3, times));
	for (int rank = 0; rank < n; rank++)
		sweep_add(s, times[rank]);
	SWEEP_ADD(s, bb_timeline_evaluator(l, a, &shape),
		  l->fabric && l->fabric->packages == 0 ? 0 : bb_timeline_copy(l, a, &shape, 4),
		  bb_timeline_noise(l, shape.count));
	sweep_add_text(s, bb_evaluator_name(evaluator, l));
	if (draw(seed, 4) == 0 && l->noise == 0 && !shape.matrix) {
		struct bb_error error = {.text = ""};
		const struct bb_algorithm *const best = bb_timeline_choose(
			l, draw(seed, 3) ? NULL : a->name, a->collective, &shape, 4, &error);

		sweep_add_text(s, best ? best->name : error.text);
		sweep_add(s, (double)shape.chunk);
	}
}

/* A model of links: of FABRIC or (NULL) of equal ones. */
static void links_add(struct sweep *s, struct bb_fabric *fabric, int world, uint64_t *seed)
{
	int members[32];
	struct bb_link_model l = {.rate = 25e9 * draw(seed, 3),
				  .latency = 3e-6,
				  .fabric = fabric,
				  .port = fabric == NULL && world % 2};
	const int n = 1 + draw(seed, world < 20 ? world : 20);
	const int step = 1 + draw(seed, (world - 1) / n + 1);
	struct bb_crowds crowds = {.fabric = NULL};
	double *crowd = NULL;

	l.noise = draw(seed, 4) ? 0 : 0.05;
	l.seed = 7;
	for (int i = 0; i < n; i++)
		members[i] = (i * step) % world;
	if ((n - 1) * step < world && draw(seed, 2))
		l.members = members;
	if (fabric && l.members && world <= 400) {
		assert_true(bb_crowds_open(&crowds, fabric, world));
		assert_true(bb_crowds_find(&crowds, members, n, &crowd));
		l.crowd = crowd;
	}
	if (draw(seed, 4) == 0) {
		const int from = draw(seed, n);

		l.slow_link.from = l.members ? members[from] : from;
		l.slow_link.to = l.members ? members[(from + 1) % n] : (from + 1) % n;
		l.slow_link.factor = 3;
	}
	for (int k = 0; k < 4; k++)
		times_add(s, &l, n, seed);
	free(crowd);
	bb_crowds_free(&crowds);
}

static void all_add(struct sweep *s, struct bb_cluster *c, uint64_t *seed)
{
	struct bb_fabric f = c->fabric;

	/* A cluster known by its links alone has no devices. */
	if (c->node->ndevices > 0)
		cluster_add(s, c, seed);
	if (c->ranks > 5000)
		return;
	for (int k = 0; k < 2; k++) {
		fabric_add(s, &f, seed);
		if (c->rails > 0 || !bb_fabric_has_outside(&f))
			links_add(s, &f, c->ranks, seed);
		links_add(s, NULL, c->ranks, seed);
		f.flawed = true;
		f.flaw.node = draw(seed, c->nodes);
		f.flaw.rail = draw(seed, c->rails + 1) - 1;
		f.flaw.factor = f.flaw.rail < 0 || draw(seed, 2) ? 2.5 : 0;
	}
}

/* ---- files of figures ---------------------------------------------------------------------- */

static const char *value_of(enum bb_setting_unit unit, uint64_t *seed)
{
	static const char *const values[][5] = {
		[BB_SETTING_RATE] = {"20GB/s", "3.5GB/s", "450GB/s", "0", "fast"},
		[BB_SETTING_SHARE] = {"92%", "7/9", "50%", "100%", "120%"},
		[BB_SETTING_TIME] = {"6.6us", "900ns", "1ms", "0", "6.6"},
		[BB_SETTING_SIZE] = {"64K", "4K", "100", "1M", "-1"},
		[BB_SETTING_COUNT] = {"2", "3", "4", "1", "0"},
		[BB_SETTING_NUMBER] = {"1.4", "2", "1", "4", "1001"},
		[BB_SETTING_YES] = {"yes", "no", "yes", "no", "maybe"},
	};
	const int wrong = draw(seed, 40) == 0;

	return values[unit][wrong ? 4 : draw(seed, 4)];
}

static void write_figures(FILE *file, uint64_t *seed)
{
	const int kind = draw(seed, 20), few = draw(seed, 3);
	int systems = 0;

	while (bb_system_at(systems))
		systems++;
	if (kind > 10)
		fprintf(file, "system = %s\n", bb_system_at(draw(seed, systems))->name);
	if (kind > 0 && kind < 12)
		fputs("topology = machine\n", file);
	if (draw(seed, 2))
		fprintf(file, "nodes = %d\n", 1 + draw(seed, 12));
	for (int f = 0; f < BB_FIGURES; f++)
		if (draw(seed, few ? 9 : 2) == 0)
			fprintf(file, "%s = %s # a source\n", bb_figure_rows[f].name,
				value_of(bb_figure_rows[f].unit, seed));
	if (draw(seed, 40) == 0)
		fputs("node = 3\n", file);
	if (draw(seed, 40) == 0)
		fputs("node_ranks = 2000\n", file);
	if (draw(seed, 2))
		fputs("pod_nodes = 6\n", file);
}

#define FILES 1500

static void test_files(void **state)
{
	static const char *const ends[] = {"", "", ":3", ":5", ":40", ":0", ":x"};
	struct sweep s = sweep_open("cluster_files");
	char folder[] = "/tmp/busbench-sweep-XXXXXX", before[4096];

	assert_non_null(getcwd(before, sizeof(before)));
	assert_non_null(mkdtemp(folder));
	assert_int_equal(chdir(folder), 0);
	for (int i = 0; i < FILES; i++) {
		uint64_t seed = (uint64_t)i;
		FILE *const file = fopen("figures", "w"), *const machine = fopen("machine", "w");
		struct bb_cluster *c = NULL;
		struct bb_error error = {.text = ""};
		char name[40];

		assert_true(file && machine);
		write_figures(file, &seed);
		fputs("<machine/>\n", machine);
		fclose(file);
		fclose(machine);
		machine_seed = bb_random_next(&seed);
		snprintf(name, sizeof(name), "./%s%s", draw(&seed, 5) ? "figures" : "machine",
			 ends[draw(&seed, 7)]);
		struct bb_cluster_change change = {.nodes = draw(&seed, 4) ? 0 : draw(&seed, 20)};
		if (draw(&seed, 3) == 0) {
			change.nics = draw(&seed, 10);
			change.layer = (enum bb_nic_layer)draw(&seed, 3);
			change.nic_Mbps = draw(&seed, 3) * 100000;
		}
		sweep_add(&s, bb_cluster_open_changed(name, &change, draw(&seed, 30) ? parse : NULL,
						      &c, &error));
		sweep_add_text(&s, error.text);
		if (c)
			all_add(&s, c, &seed);
		bb_cluster_free(c);
		if (i % 10 == 9)
			sweep_end(&s, "files %d to %d", i - 9, i);
	}
	unlink("figures");
	unlink("machine");
	assert_int_equal(chdir(before), 0);
	rmdir(folder);
	sweep_close(&s);
}

static void test_systems(void **state)
{
	static const char *const ends[] = {"", ":1", ":2", ":3", ":36", ":300", ":99999999", ":-1"};
	struct sweep s = sweep_open("cluster_systems");

	for (int i = 0; bb_system_at(i); i++) {
		uint64_t seed = (uint64_t)i;

		for (size_t k = 0; k < sizeof(ends) / sizeof(ends[0]); k++) {
			struct bb_cluster *c = NULL;
			struct bb_error error = {.text = ""};
			char name[80];

			snprintf(name, sizeof(name), "%s%s", bb_system_at(i)->name, ends[k]);
			sweep_add(&s, bb_cluster_open(name, NULL, &c, &error));
			sweep_add_text(&s, error.text);
			if (c)
				all_add(&s, c, &seed);
			bb_cluster_free(c);
		}
		sweep_end(&s, "%s", bb_system_at(i)->name);
	}
	for (int nodes = 1; nodes < 5; nodes++)
		for (int n = 1; n < 9; n++) {
			const struct bb_cluster_link inside = {1e11 / n, 1e-6},
						     between = {1e10, 3e-6};
			uint64_t seed = (uint64_t)n;
			struct bb_cluster *c = NULL;
			struct bb_error error;

			assert_int_equal(
				bb_cluster_of_links(&c, nodes, n, &inside, &between, &error),
				BB_OK);
			all_add(&s, c, &seed);
			bb_cluster_free(c);
		}
	sweep_end(&s, "of links");
	sweep_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_systems),
		cmocka_unit_test(test_files),
	};

	return cmocka_run_group_tests_name("cluster_sweep", tests, NULL, NULL);
}
