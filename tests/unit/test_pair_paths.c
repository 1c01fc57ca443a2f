/*
 * The path between two ranks, its bound and its likely fault, on machines made by hand.
 */
#include "p2p/pairs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define RANKS 6

static const struct bb_backend cpus = {.name = "cpus"};
static const struct bb_backend cards = {.name = "cards",
					.gpu = (const struct bb_gpu *)(const void *)&cpus};

struct machine {
	struct bb_run run;
	struct bb_pairs pairs;
	struct bb_rank_info infos[RANKS];
	struct bb_rank_place places[RANKS];
	struct bb_topology t;
	struct bb_device devices[4];
	struct bb_pci pcis[6];
	struct bb_link links[4];
	uint8_t p2p[16];
};

/* Ranks 0 to 3 are GPUs 0 to 3 of this host, 4 and 5 are GPUs 0 and 1 of the next. Without GPUs:
   cores of two NUMA nodes. GPUs 0 and 1 are below one switch. */
static struct machine *machine_of(bool gpus)
{
	struct machine *const m = calloc(1, sizeof(*m));

	assert_non_null(m);
	m->pairs = (struct bb_pairs){.run = &m->run, .n = RANKS};
	m->run.options.backend = gpus ? &cards : &cpus;
	m->run.infos = m->infos;
	m->run.world.nranks = RANKS;
	m->run.topology = &m->t;
	m->run.link_bounds.places = m->places;
	m->run.link_bounds.n = gpus ? RANKS : 0;
	for (int r = 0; r < RANKS; r++) {
		struct bb_location *const l = &m->infos[r].location;

		l->device = r % 4;
		l->numa = r % 4 / 2;
		snprintf(l->host, sizeof(l->host), "h%d", r / 4);
		snprintf(l->bus, sizeof(l->bus), "%d", r % 4);
		snprintf(l->name, sizeof(l->name), "X");
		m->places[r] = (struct bb_rank_place){.node = r / 4, .device = r % 4};
	}
	for (int p = 0; p < 6; p++)
		m->pcis[p] = (struct bb_pci){.class_code = p < 4 ? 0x0302 : 0x0604,
					     .role = p < 4 ? BB_PCI_ENDPOINT : BB_PCI_SWITCH_UP,
					     .parent = p < 2 ? 4 : -1,
					     .root = p < 2 || p == 4 ? 0 : 1,
					     .now = {5, 16, 63},
					     .most = {5, 16, 63}};
	for (int d = 0; d < 4; d++) {
		m->devices[d] = (struct bb_device){.kind = BB_GPU, .pci = d, .sm = 90};
		snprintf(m->devices[d].name, sizeof(m->devices[d].name), "GPU%d", d);
	}
	memset(m->p2p, BB_P2P_OK, sizeof(m->p2p));
	m->t = (struct bb_topology){.nodes = 2,
				    .nvlink_nodes = 1,
				    .npcis = 6,
				    .ndevices = 4,
				    .pcis = m->pcis,
				    .devices = m->devices,
				    .links = m->links,
				    .p2p = m->p2p};
	return m;
}

static void expect_path(struct machine *m, int from, int to, const char *name)
{
	char text[BB_PAIR_PATH_TEXT];

	bb_pair_path(&m->pairs, from, to, text);
	if (strcmp(text, name) != 0)
		fail_msg("from %d to %d: %s, not %s", from, to, text, name);
}

static void test_places(void **state)
{
	struct machine *const m = machine_of(false);
	char text[BB_PAIR_PATH_TEXT];

	expect_path(m, 0, 0, "same device");
	expect_path(m, 0, 1, "same NUMA node");
	expect_path(m, 1, 2, "across NUMA nodes");
	expect_path(m, 0, 4, "across hosts");
	expect_path(m, 4, 5, "same NUMA node");
	assert_int_equal(bb_pair_path(&m->pairs, 0, 1, text), bb_pair_path(&m->pairs, 3, 2, text));
	assert_int_not_equal(bb_pair_path(&m->pairs, 0, 1, text),
			     bb_pair_path(&m->pairs, 1, 2, text));
	/* another package, the same number */
	m->infos[1].location.device = 0;
	expect_path(m, 0, 1, "same NUMA node");
	strcpy(m->infos[1].location.bus, "0");
	expect_path(m, 0, 1, "same device");
	free(m);
}

static void test_paths_of_gpus(void **state)
{
	struct machine *const m = machine_of(true);
	char text[BB_PAIR_PATH_TEXT];
	int few, many;

	expect_path(m, 0, 1, "PIX");
	expect_path(m, 2, 3, "PHB");
	expect_path(m, 0, 4, "across hosts");
	m->links[0] = (struct bb_link){.device = 2, .peer = 3, .count = 4, .GBps = 25};
	m->links[1] = (struct bb_link){.device = 3, .peer = 2, .count = 4, .GBps = 25};
	m->t.nlinks = 2;
	expect_path(m, 2, 3, "NV4");
	many = bb_pair_path(&m->pairs, 2, 3, text);
	m->links[0].count = m->links[1].count = 2;
	few = bb_pair_path(&m->pairs, 2, 3, text);
	assert_int_not_equal(few, many);
	assert_int_not_equal(few, bb_pair_path(&m->pairs, 0, 1, text));
	/* Of devices that the topology does not know, by the place. */
	m->run.link_bounds.n = 0;
	expect_path(m, 2, 3, "same NUMA node");
	free(m);
}

static void test_factors(void **state)
{
	static const struct bb_route by_source = {.actor = BB_BY_SOURCE},
				     by_both = {.actor = BB_BY_BOTH};
	static const struct {
		bool gpus;
		int from, to;
		bool both;
		const struct bb_route *route;
		double factor;
	} cases[] = {
		{false, 0, 1, false, &by_source, BB_SLOW_CORES},
		{false, 0, 4, false, &by_source, BB_SLOW_PAIR},
		{false, 0, 0, false, &by_source, BB_SLOW_CORES},
		/* Two ranks at work on one core. */
		{false, 0, 0, true, &by_source, BB_CROWDED},
		{false, 0, 0, false, &by_both, BB_CROWDED},
		{false, 0, 1, true, &by_both, BB_SLOW_CORES},
		{true, 0, 1, false, &by_source, BB_SLOW_PAIR},
		{true, 0, 4, true, &by_both, BB_SLOW_PAIR},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct bb_cell cell = {.route = cases[i].route,
					     .bidirectional = cases[i].both};
		struct machine *const m = machine_of(cases[i].gpus);

		assert_float_equal(bb_pair_factor(&m->pairs, &cell, cases[i].from, cases[i].to),
				   cases[i].factor, 0);
		free(m);
	}
}

/* Without links of GPUs: --link, or private copies, whichever is lower. */
static void test_bounds(void **state)
{
	static const struct bb_route by_source = {.actor = BB_BY_SOURCE},
				     by_both = {.actor = BB_BY_BOTH};
	static const struct {
		double rate, latency, private_s;
		bool direct, ping, both;
		const struct bb_route *route;
		int from, to;
		double bound; /* bytes per second, of 1000 bytes */
		const char *source;
	} cases[] = {
		{0, 0, 0, true, false, false, &by_source, 0, 1, 0, NULL},
		{0, 0, 0.5, true, false, false, &by_source, 0, 1, 2000, bb_pair_private_copy},
		{0, 0, 0.5, false, false, false, &by_source, 0, 1, 0, NULL},
		{0, 0, 0.5, true, false, false, &by_both, 0, 1, 0, NULL},
		{0, 0, 0.5, true, true, false, &by_source, 0, 1, 0, NULL},
		{0, 0, 0.5, true, false, true, &by_source, 0, 1, 0, NULL},
		{0, 0, 0.5, true, false, false, &by_source, 1, 1, 0, NULL},
		{1000, 0, 0, true, false, false, &by_source, 0, 1, 1000, "--link"},
		/* a second and a quarter */
		{1000, 0.25, 0, true, false, false, &by_source, 0, 1, 800, "--link"},
		{1000, 0.25, 0.5, true, false, false, &by_source, 0, 1, 800, "--link"},
		{1000, 0.25, 2, true, false, false, &by_source, 0, 1, 500, bb_pair_private_copy},
		{1000, 0.25, 2, false, false, false, &by_source, 0, 1, 800, "--link"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct bb_cell cell = {.route = cases[i].route,
					     .direct = cases[i].direct,
					     .ping = cases[i].ping,
					     .bidirectional = cases[i].both,
					     .bytes = 1000};
		struct machine *const m = machine_of(false);
		const char *source = NULL;

		m->run.options.config.link_rate = cases[i].rate;
		m->run.options.config.link_latency = cases[i].latency;
		assert_float_equal(bb_pair_bound(&m->pairs, &cell, cases[i].from, cases[i].to,
						 cases[i].private_s, &source),
				   cases[i].bound, 1e-9);
		if (cases[i].source)
			assert_string_equal(source, cases[i].source);
		free(m);
	}
}

/* One rank with all five others, in parts of 1000 bytes: by links of their own, or by one port. */
static void test_fans(void **state)
{
	static const struct bb_route route = {.actor = BB_BY_SOURCE};

	for (int port = 0; port < 2; port++)
		for (int fan = BB_ALL_TO_ONE; fan <= BB_ONE_TO_ALL; fan++) {
			const struct bb_cell cell = {
				.route = &route, .fan = (enum bb_direction)fan, .bytes = 5120};
			struct machine *const m = machine_of(false);
			const char *source = NULL;

			m->run.options.config.link_rate = 1024;
			m->run.options.config.link_latency = 9; /* not of a stream */
			m->run.options.config.link_port = port;
			assert_float_equal(bb_pair_bound(&m->pairs, &cell, 2, 2, 0, &source),
					   port ? 1024 : 5120, 1e-9);
			assert_string_equal(source, "--link");
			free(m);
		}
}

/* GPUs 2 and 3 have four NVLinks of 25 GB/s; PCIe 5.0 carries 57.6 GB/s. The hub's link to 3 is its
   own, those to 0 and 1 share its port. */
static void test_links_of_gpus(void **state)
{
	static const struct bb_route route = {.actor = BB_BY_SOURCE};
	const double pcie = 32 * 128.0 / 130 * 2 * 256 / 280 * 1e9;
	struct bb_cell cell = {.route = &route, .direct = true, .bytes = 3 << 20};
	struct machine *const m = machine_of(true);
	const char *source = NULL;

	for (int p = 0; p < 6; p++)
		m->pcis[p].now = m->pcis[p].most = (struct bb_pcie){5, 16, 32 * 128.0 / 130 * 2};
	for (int i = 0; i < 2; i++)
		m->links[i] =
			(struct bb_link){.device = 2 + i, .peer = 3 - i, .count = 4, .GBps = 25};
	m->t.nlinks = 2;
	m->pairs.n = 4;
	assert_float_equal(bb_pair_bound(&m->pairs, &cell, 2, 3, 1, &source), 100e9, 1e3);
	assert_float_equal(bb_pair_bound(&m->pairs, &cell, 0, 1, 1, &source), pcie, 1e3);
	/* --link, if lower */
	m->run.options.config.link_rate = 1e9;
	assert_float_equal(bb_pair_bound(&m->pairs, &cell, 0, 1, 1, &source), 1e9, 1e3);
	assert_string_equal(source, "--link");
	m->run.options.config.link_rate = 1e12;
	assert_float_equal(bb_pair_bound(&m->pairs, &cell, 0, 1, 1, &source), pcie, 1e3);
	m->run.options.config.link_rate = 0;
	for (int fan = BB_ALL_TO_ONE; fan <= BB_ONE_TO_ALL; fan++) {
		cell.fan = (enum bb_direction)fan;
		assert_float_equal(bb_pair_bound(&m->pairs, &cell, 2, 2, 1, &source), 1.5 * pcie,
				   1e3);
		assert_float_equal(bb_pair_bound(&m->pairs, &cell, 0, 0, 1, &source), pcie, 1e3);
	}
	bb_pair_link_bounds_close(&m->pairs);
	free(m);
}

static void expect_cause(struct machine *m, struct bb_finding f, const char *words)
{
	char cause[BB_CAUSE_TEXT];
	const char *const said = bb_pair_cause(&m->pairs, &f, cause);

	if ((said != NULL) != (words != NULL) || (said && !strstr(said, words)))
		fail_msg("%s, not %s", said ? said : "nothing", words ? words : "nothing");
	free(m);
}

#define FROM(a, b) ((struct bb_finding){.rank = -1, .from = a, .to = b})
#define RANK(a) ((struct bb_finding){.rank = a, .from = -1, .to = -1})

static void test_causes(void **state)
{
	static const struct {
		enum bb_peer_access access;
		const char *words;
	} reasons[] = {{BB_P2P_OK, NULL},
		       {BB_P2P_CHIPSET, "chipset"},
		       {BB_P2P_GPU, "GPUs do not"},
		       {BB_P2P_TOPOLOGY, "topology does not"},
		       {BB_P2P_DISABLED, "disabled"},
		       {BB_P2P_NOT_SUPPORTED, "not supported"},
		       {BB_P2P_UNKNOWN, NULL}};
	struct machine *m;

	expect_cause(machine_of(false), FROM(0, 1), NULL);
	for (int end = 0; end < 2; end++) {
		m = machine_of(false);
		strcpy(m->infos[end].location.name, "X (not pinned)");
		expect_cause(m, FROM(0, 1), "not be pinned");
	}
	m = machine_of(false);
	strcpy(m->infos[2].location.name, "X (not pinned)");
	expect_cause(m, FROM(0, 1), NULL);
	m = machine_of(false);
	m->infos[1].location.device = 0;
	strcpy(m->infos[1].location.bus, "0");
	expect_cause(m, FROM(0, 1), "take turns");
	expect_cause(machine_of(false), RANK(1), NULL);
	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
		m = machine_of(true);
		m->p2p[2 * 4 + 3] = reasons[i].access;
		expect_cause(m, FROM(2, 3), reasons[i].words);
	}
	/* A rank has no peer, and the topology is not that of the next host. */
	m = machine_of(true);
	m->p2p[0] = BB_P2P_DISABLED;
	expect_cause(m, RANK(0), NULL);
	for (int b = 1; b < 5; b++) {
		m = machine_of(true);
		m->pcis[1].now.width = 8;
		expect_cause(m, FROM(0, b), b == 1 ? "GPU1's PCIe link has 8 lanes of 16" : NULL);
	}
	m = machine_of(true);
	m->pcis[1].now.width = 8;
	expect_cause(m, FROM(0, 5), NULL);
	m = machine_of(true);
	m->pcis[1].now.width = 8;
	expect_cause(m, RANK(1), "8 lanes");
	m = machine_of(true);
	m->pcis[1].now.width = 0;
	expect_cause(m, RANK(1), NULL);
	/* links that are down, before lanes */
	m = machine_of(true);
	m->pcis[2].now.width = 8;
	m->links[0] = (struct bb_link){.device = 2, .peer = 3, .count = 1, .down = 1};
	m->t.nlinks = 1;
	expect_cause(m, FROM(3, 2), "1 NVLink of GPU2 is down");
	m = machine_of(true);
	m->links[0] = (struct bb_link){.device = 2, .peer = 3, .count = 1, .down = 2};
	m->links[1] = (struct bb_link){.device = 2, .peer = 0, .count = 1, .down = 1};
	m->links[2] = (struct bb_link){.kind = BB_C2C, .device = 2, .count = 1, .down = 1};
	m->t.nlinks = 3;
	expect_cause(m, RANK(2), "3 NVLinks of GPU2 are down");
	/* ACS above either of two below one switch; not between host bridges */
	for (int p = 0; p < 2; p++) {
		m = machine_of(true);
		m->pcis[p].acs = BB_ACS_REDIRECT;
		expect_cause(m, FROM(0, 1), "ACS");
	}
	m = machine_of(true);
	m->pcis[4].acs = BB_ACS_REDIRECT;
	expect_cause(m, FROM(0, 1), "ACS");
	m = machine_of(true);
	m->pcis[0].acs = BB_ACS_OFF;
	expect_cause(m, FROM(0, 1), NULL);
	m = machine_of(true);
	m->pcis[0].acs = BB_ACS_REDIRECT;
	expect_cause(m, FROM(0, 2), NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_places),  cmocka_unit_test(test_paths_of_gpus),
		cmocka_unit_test(test_factors), cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_fans),    cmocka_unit_test(test_links_of_gpus),
		cmocka_unit_test(test_causes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
