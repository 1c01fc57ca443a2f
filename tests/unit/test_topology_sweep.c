/*
 * Topologies: every known system as it is and with drawn changes of its links, devices and peer
 * access; paths, bounds, findings, digests and exports of each.
 */
#include "sweep.h"

#include "core/random.h"
#include "topology/bound.h"
#include "topology/build.h"
#include "topology/files/files.h"
#include "topology/rates.h"
#include "topology/systems.h"

#define VARIANTS 16 /* of each system */
#define NODES 5

static int draw(uint64_t *state, int n)
{
	return (int)(bb_random_next(state) >> 33) % n;
}

#define DRAW(state, ...)                                                                           \
	((const double[]){__VA_ARGS__})[draw(                                                      \
		state, (int)(sizeof((const double[]){__VA_ARGS__}) / sizeof(double)))]

/* ---- changes ----------------------------------------------------------------------------- */

static void change_pci(struct bb_topology *t, uint64_t *state)
{
	struct bb_pci *p = &t->pcis[t->npcis > 0 ? draw(state, t->npcis) : 0];
	const int width = (int)DRAW(state, 4, 8, 16);

	if (t->npcis == 0)
		return;
	switch (draw(state, 12)) {
	case 0:
		p->now.width = (int)DRAW(state, 0, 1, 4, 8, 16);
		break;
	case 1:
		p->most.width = (int)DRAW(state, 0, 4, 8, 16, 32);
		break;
	case 2:
		p->now = bb_pcie(draw(state, 7), width);
		break;
	case 3:
		p->most = bb_pcie(draw(state, 7), width);
		break;
	case 4:
		p->now = (struct bb_pcie){.GBps = DRAW(state, 0, 3.9, 8, 20), .width = width / 8};
		p->most.gen = 0;
		break;
	case 5:
		p->acs = (enum bb_acs)draw(state, 3);
		break;
	case 6:
		p->vendor = (uint32_t)DRAW(state, 0x1b36, 0x1af4, 0x104c, 0x1002, 0x10de, 0);
		p->device = (uint32_t)DRAW(state, 0x8232, 0x8233, 0x74a1, 0x2330, 0);
		break;
	case 7:
		p->role = (enum bb_pci_role)draw(state, 4);
		break;
	case 8:
		p->root = draw(state, 3);
		break;
	case 9:
		p->parent = -1;
		break;
	case 10:
		p->now = (struct bb_pcie){0};
		p->most = (struct bb_pcie){.gen = draw(state, 7)};
		break;
	default:
		p->acs = BB_ACS_REDIRECT;
		p->role = BB_PCI_SWITCH_DOWN;
	}
}

static void change_device(struct bb_topology *t, uint64_t *state)
{
	struct bb_device *d = &t->devices[draw(state, t->ndevices)];

	switch (draw(state, 9)) {
	case 0:
		d->numa = draw(state, t->host.nnumas + 1) - 1;
		break;
	case 1:
		d->rate_Mbps = (int64_t)DRAW(state, 0, 1000, 25000, 100000, 200000, 400000, 800000);
		break;
	case 2:
		d->layer = (enum bb_nic_layer)draw(state, 3);
		break;
	case 3:
		d->state = (enum bb_nic_state)draw(state, 3);
		break;
	case 4:
		d->gdr = (enum bb_gdr)draw(state, 3);
		break;
	case 5:
		d->pci = t->npcis > 0 && draw(state, 3) ? draw(state, t->npcis) : -1;
		break;
	case 6:
		snprintf(d->model, sizeof(d->model), "%s", draw(state, 2) ? "another" : "");
		break;
	case 7:
		d->sm = (int)DRAW(state, 0, 60, 62, 63, 75, 80, 86, 90, 100, 103, 120);
		break;
	default:
		d->bytes = (int64_t)(draw(state, 400)) << 28;
	}
}

static void change_links(struct bb_topology *t, uint64_t *state)
{
	const int gpus = bb_topology_count(t, BB_GPU);
	struct bb_link *l = t->nlinks > 0 ? &t->links[draw(state, t->nlinks)] : NULL;
	struct bb_error error;

	if (gpus < 2)
		return;
	switch (l ? draw(state, 12) : 12) {
	case 0:
		l->count = draw(state, 6);
		break;
	case 1:
		l->down = draw(state, 3);
		break;
	case 2:
		l->version = draw(state, 6);
		break;
	case 3:
		l->GBps = DRAW(state, 0, 25, 26.5625, 50);
		break;
	case 4:
		l->peer = draw(state, gpus + 3) - 3;
		break;
	case 5:
		l->kind = (enum bb_link_kind)draw(state, 2);
		break;
	case 6:
	case 7:
		l->count -= l->count > 0;
		l->down++;
		break;
	case 8: /* of all */
	case 9:
		for (int k = 0, way = draw(state, 4); k < t->nlinks; k++)
			if (draw(state, 2)) {
				t->links[k].GBps = way == 0 ? 0 : t->links[k].GBps;
				t->links[k].version = way == 1 ? 3 : t->links[k].version;
				t->links[k].count = way == 2 ? 0 : t->links[k].count;
				t->links[k].kind = way == 3 ? BB_C2C : t->links[k].kind;
			}
		break;
	default: {
		const int from = draw(state, gpus), count = 1 + draw(state, 4);
		const int to = (from + 1 + draw(state, gpus - 1)) % gpus;
		const struct bb_link there = bb_gpu_links(t, from, to, count);
		const struct bb_link back = bb_gpu_links(t, to, from, count);

		assert_int_equal(bb_add_link(t, &there, &error), BB_OK);
		if (draw(state, 4))
			assert_int_equal(bb_add_link(t, &back, &error), BB_OK);
	}
	}
}

static void change_whole(struct bb_topology *t, uint64_t *state)
{
	const int gpus = bb_topology_count(t, BB_GPU);
	struct bb_error error;

	switch (draw(state, 13)) {
	case 0:
		t->hidden_gpus = draw(state, 4);
		break;
	case 1:
		t->links_unknown = draw(state, 3) == 0;
		break;
	case 2:
		t->nvlink_nodes = 1 + draw(state, 3);
		break;
	case 3:
		if (t->host.nnumas > 0)
			t->host.numas[draw(state, t->host.nnumas)].bytes = 0;
		break;
	case 4:
		assert_int_equal(bb_add_distances(t, &error), BB_OK);
		for (int k = 0; k < t->host.nnumas; k++)
			t->host.distances[k] = 10 + draw(state, 30);
		break;
	case 5:
		t->nlinks = 0;
		break;
	case 6: /* as nvidia-smi shows it */
		t->npcis = 0;
		for (int d = 0; d < t->ndevices; d++)
			t->devices[d].pci = -1;
		break;
	case 7:
	case 8: /* slow switches */
		for (int p = draw(state, 3); p < t->npcis; p += 1 + draw(state, 3))
			if (t->pcis[p].role == BB_PCI_SWITCH_UP)
				t->pcis[p].now = t->pcis[p].most = bb_pcie(1 + draw(state, 4), 8);
		break;
	case 9: /* one NUMA node */
		while (t->host.nnumas > 1)
			free(t->host.numas[--t->host.nnumas].cpus);
		for (int d = 0; d < t->ndevices; d++)
			t->devices[d].numa = draw(state, t->host.nnumas + 1) - 1;
		break;
	case 10: /* without names */
		for (int d = 0; d < t->ndevices; d++) {
			if (draw(state, 5))
				t->devices[d].model[0] = '\0';
			if (t->devices[d].kind == BB_NIC && draw(state, 2))
				t->devices[d].rate_Mbps /= 2;
		}
		break;
	default:
		assert_int_equal(bb_add_p2p(t, &error), BB_OK);
		for (int i = 0, way = draw(state, 3); i < gpus * gpus; i++)
			if (way == 0)
				t->p2p[i] = BB_P2P_CHIPSET;
			else if (draw(state, 3) == 0)
				t->p2p[i] = (uint8_t)draw(state, BB_P2P_UNKNOWN + 1);
	}
}

/* ---- what is asked ----------------------------------------------------------------------- */

static void bounds_of(struct sweep *s, const struct bb_topology *t,
		      const struct bb_rank_place *ranks, int n)
{
	for (enum bb_bound what = 0; what < BB_BOUNDS; what++) {
		struct bb_strbuf why = {0};
		double GBps = -1;

		sweep_add(s, bb_speed_of_light(t, ranks, n, what, &GBps, &why));
		sweep_add(s, GBps);
		sweep_add_text(s, bb_strbuf_text(&why));
		bb_strbuf_free(&why);
	}
}

static void pairs_add(struct sweep *s, const struct bb_topology *t, int gpus, uint64_t *state)
{
	int gpu[10];

	for (int i = 0; i < 10; i++)
		gpu[i] = draw(state, gpus);
	const int wrong = draw(state, gpus + 2) - 2, node = draw(state, NODES + 2) - 1;
	const struct bb_rank_place pairs[][2] = {
		{{0, 0}, {0, gpus - 1}},
		{{0, gpu[0]}, {0, gpu[1]}},
		{{0, gpu[2]}, {0, gpu[3]}},
		{{0, gpu[4]}, {1, gpu[5]}},
		{{0, gpu[6]}, {0, BB_ON_HOST}},
		{{1, BB_ON_HOST}, {1, gpu[7]}},
		{{0, BB_ON_HOST}, {3, BB_ON_HOST}},
		{{2, BB_ON_HOST}, {2, BB_ON_HOST}},
		{{0, BB_ON_HOST}, {1, gpu[8]}},
		{{1, gpus - 1}, {2, gpus - 1}},
		{{0, 0}, {2, 0}},
		{{0, gpu[9]}, {3, gpu[0]}},
		{{0, wrong}, {node, 0}},
		{{0, 0}, {0, gpus}},
	};

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
		bounds_of(s, t, pairs[i], 2);
	bounds_of(s, t, pairs[0], 1);
}

static void groups_add(struct sweep *s, const struct bb_topology *t, uint64_t *state)
{
	struct bb_rank_place some[NODES * BB_MOST_GPUS];
	int n = 0, gpus = 0;

	for (int nodes = 1; nodes <= 3; nodes++) {
		struct bb_rank_place *const all = bb_all_gpus(t, nodes, &n);

		gpus = n / nodes;
		bounds_of(s, t, all, n);
		free(all);
	}
	/* The same ones of each node, then others of each, then some ranks on hosts. */
	for (int way = 0; way < 5; way++) {
		const uint64_t same = bb_random_next(state) | bb_random_next(state);
		const int nodes = 1 + draw(state, NODES);

		n = 0;
		for (int node = 0; node < nodes; node++)
			for (int gpu = 0; gpu < gpus; gpu++)
				if (way % 2 ? same >> gpu & 1 : draw(state, 3) > 0)
					some[n++] = (struct bb_rank_place){node, gpu};
		if (way == 4)
			some[n++] = (struct bb_rank_place){draw(state, nodes), BB_ON_HOST};
		bounds_of(s, t, some, n);
	}
	for (n = 0; n < NODES; n++)
		some[n] = (struct bb_rank_place){n, BB_ON_HOST};
	bounds_of(s, t, some, n);
	for (n = 0; n < 4; n++)
		some[n] = (struct bb_rank_place){n / 2, BB_ON_HOST};
	bounds_of(s, t, some, n);
}

static void paths_add(struct sweep *s, const struct bb_topology *t)
{
	char text[BB_PATH_TEXT], link[BB_LINK_TEXT];

	for (int a = 0; a < t->ndevices; a++)
		for (int b = a % 3; b < t->ndevices; b += 1 + a % 2) {
			int nvlinks = -1;
			const enum bb_path path = bb_topology_path(t, a, b, &nvlinks);

			SWEEP_ADD(s, path, nvlinks, bb_topology_pci_path(t, a, b));
			sweep_add_text(s, bb_topology_path_text(text, path, nvlinks));
		}
	for (int a = 0; a < bb_topology_count(t, BB_GPU); a++) {
		sweep_add_text(s, bb_topology_link_text(link, t, a));
		for (int b = -4; b < bb_topology_count(t, BB_GPU); b++) {
			sweep_add(s, bb_topology_nvlinks(t, a, b));
			if (b >= 0)
				SWEEP_ADD(s, bb_topology_p2p(t, a, b),
					  bb_topology_reaches(t, a, b));
		}
	}
}

static void devices_add(struct sweep *s, const struct bb_topology *t, uint64_t *state)
{
	const int gpus = bb_topology_count(t, BB_GPU);
	const bb_gpus whole = gpus >= BB_MOST_GPUS ? ~(bb_gpus)0 : ((bb_gpus)1 << gpus) - 1;

	for (int p = 0; p < t->npcis; p++) {
		const struct bb_pcie link = bb_pci_link(t, p);

		SWEEP_ADD(s, link.gen, link.width, link.GBps, bb_pcie_payload(&link),
			  bb_pcie_usable(&link), bb_pci_kind(&t->pcis[p]),
			  bb_pci_virtual(&t->pcis[p]), bb_efa_generation(&t->pcis[p]),
			  bb_port_role(t, p), bb_find_pci(t, t->pcis[p].id),
			  bb_pci_same_card(&t->pcis[p], &t->pcis[draw(state, t->npcis)]));
	}
	for (int d = 0; d < t->ndevices; d++) {
		const bb_gpus some = bb_random_next(state) & whole;
		const struct bb_pcie link = bb_device_link(t, d);

		SWEEP_ADD(s, link.gen, link.width, link.GBps, bb_pci_slowest_switch(t, d),
			  (double)bb_nic_Mbps(t, d), bb_nic_GBps(t, d), bb_nic_serves(t, 0, d),
			  bb_nic_serves(t, whole, d), bb_topology_find(t, t->devices[d].name),
			  bb_nic_share(t->devices[d].layer), bb_numa_number(t, t->devices[d].numa));
		if (some)
			SWEEP_ADD(s, bb_nic_serves(t, some, d), bb_fabric_of(t, some));
	}
	for (enum bb_device_kind kind = 0; kind < BB_DEVICE_KINDS; kind++)
		SWEEP_ADD(s, bb_topology_device(t, kind, 1), bb_topology_count(t, kind));
	SWEEP_ADD(s, bb_may_have_links(t), (double)(bb_topology_digest(t) >> 24));
}

static void finding_add(void *context, const char *text)
{
	sweep_add_text(context, text);
}

static void topology_add(struct sweep *s, const struct bb_topology *t, bool with_paths,
			 uint64_t *state)
{
	const int gpus = bb_topology_count(t, BB_GPU);
	struct bb_strbuf out = {0};

	sweep_add(s, bb_topology_findings(t, finding_add, s));
	if (with_paths)
		paths_add(s, t);
	devices_add(s, t, state);
	if (gpus > 0) {
		pairs_add(s, t, gpus, state);
		groups_add(s, t, state);
	}
	bb_topology_export(t, &out);
	sweep_add_text(s, bb_strbuf_text(&out));
	bb_strbuf_free(&out);
}

static void test_systems(void **state)
{
	struct sweep s = sweep_open("topology_systems");
	struct bb_error error;

	for (int i = 0; bb_system_at(i); i++) {
		uint64_t seed = (uint64_t)i + 1;

		for (int variant = 0; variant < VARIANTS; variant++) {
			struct bb_topology *t = NULL;
			const int changes = variant ? 1 + draw(&seed, variant) : 0;

			assert_int_equal(bb_topology_system(bb_system_at(i)->name, &t, &error),
					 BB_OK);
			t->nodes = NODES;
			/* Its model is looked up for the rate, which takes long. */
			for (int d = 0; d < t->ndevices && variant > 0; d++)
				if (t->devices[d].kind != BB_NIC)
					t->devices[d].rate_Mbps = 1;
			for (int k = 0; k < changes; k++)
				switch (draw(&seed, 5)) {
				case 0:
				case 1:
					change_pci(t, &seed);
					break;
				case 2:
					change_device(t, &seed);
					break;
				case 3:
					change_links(t, &seed);
					break;
				default:
					change_whole(t, &seed);
				}
			topology_add(&s, t, variant % 3 == 0, &seed);
			bb_topology_free(t);
		}
		sweep_end(&s, "%s", bb_system_at(i)->name);
	}
	sweep_close(&s);
}

/* ---- rates and models ---------------------------------------------------------------------- */

static void test_rates(void **state)
{
	static const uint32_t vendors[] = {0,      0x10de, 0x1002, 0x8086, 0x15b3, 0x1d0f,
					   0x17db, 0x1b36, 0x1af4, 0x104c, 0x102b};
	static const uint32_t classes[] = {0x0302, 0x1200, 0x0300, 0x0380, 0x0200,
					   0x0207, 0x0108, 0x0104, 0x0604, 0x0680};
	struct sweep s = sweep_open("topology_rates");

	for (int tenths = 0; tenths < 800; tenths++)
		sweep_add(&s, bb_pcie_gen(tenths / 10.0));
	for (int gen = -1; gen < 9; gen++)
		for (int width = -1; width < 70; width++) {
			const struct bb_pcie link = bb_pcie(gen, width);
			const struct bb_pcie rate = {.GBps = gen + width / 7.0};

			SWEEP_ADD(&s, link.gen, link.width, link.GBps, bb_pcie_payload(&link),
				  bb_pcie_usable(&link), bb_pcie_usable(&rate),
				  bb_pcie_gigatransfers(link.gen));
		}
	sweep_end(&s, "PCIe");
	for (int sm = 0; sm < 130; sm++) {
		const struct bb_nvlink link = bb_nvlink_of(sm);

		SWEEP_ADD(&s, link.version, link.payload, link.usable);
	}
	sweep_end(&s, "NVLink");
	for (size_t v = 0; v < sizeof(vendors) / sizeof(vendors[0]); v++) {
		for (uint32_t device = 0; device < 0x10000; device++) {
			const struct bb_pci p = {.vendor = vendors[v], .device = device};
			const bool known = device >> 8 == 0x74 || device >> 8 == 0x10 ||
					   device >> 4 == 0xefa || device % 499 == 0;

			if (!known)
				continue;
			const struct bb_pci_device model = bb_pci_model(p.vendor, device);
			SWEEP_ADD(&s, model.sm, (double)model.rate_Mbps, bb_xgmi_of(device),
				  bb_pci_virtual(&p), bb_efa_generation(&p));
			sweep_add_text(&s, model.name);
		}
		for (size_t k = 0; k < sizeof(classes) / sizeof(classes[0]); k++)
			sweep_add(&s, bb_pci_kind(&(struct bb_pci){.vendor = vendors[v],
								   .class_code = classes[k]}));
		for (uint32_t device = 0x8230; device < 0x8236; device++)
			sweep_add(&s, bb_pci_virtual(&(struct bb_pci){.vendor = vendors[v],
								      .device = device}));
		sweep_end(&s, "vendor %x", vendors[v]);
	}
	for (int i = 0; bb_system_at(i); i++)
		if (bb_system_at(i)->gpu) {
			const struct bb_system_gpu *gpu = bb_system_at(i)->gpu;
			const struct bb_pci_device model = bb_pci_model(0x10de, gpu->device);

			SWEEP_ADD(&s, bb_gpu_sm(gpu->model), bb_gpu_sm(gpu->card), model.sm);
			sweep_add_text(&s, model.name);
			sweep_add_text(&s, bb_pci_model(0x1002, gpu->device).name);
		}
	SWEEP_ADD(&s, bb_gpu_sm("Tesla P100"), bb_gpu_sm("NVIDIA B100"), bb_gpu_sm("B10"),
		  bb_gpu_sm(""));
	sweep_end(&s, "GPUs");
	sweep_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_systems),
		cmocka_unit_test(test_rates),
	};

	return cmocka_run_group_tests_name("topology_sweep", tests, NULL, NULL);
}
