/*
 * system_build.c - the model of a known system.
 */
#include "core/option.h"
#include "topology/build.h"
#include "topology/rates.h"
#include "topology/systems.h"

#include <stdio.h>
#include <string.h>

#define GIB ((int64_t)1 << 30)
#define MIB ((int64_t)1 << 20)

struct builder {
	struct bb_topology *t;
	const struct bb_system *s;
	struct bb_error *error;
	int bus, root; /* last numbers of a bus and a host bridge */
	int numa;
	bool bridged; /* all objects have the same host bridge */
	int ngpus, nnics;
};

static bb_status build_host(struct builder *b)
{
	const struct bb_system_cpu *c = b->s->cpu;
	struct bb_host *h = &b->t->host;
	const int n = c->packages * c->numas, of_numa = c->cores / c->numas;
	bb_status st;

	snprintf(h->arch, sizeof(h->arch), "%s", c->arch);
	for (int i = 0; i < c->packages; i++) {
		struct bb_package p = {.family = c->family, .number = c->number};

		snprintf(p.model, sizeof(p.model), "%s", c->model);
		snprintf(p.vendor, sizeof(p.vendor), "%s", c->vendor);
		BB_TRY(st, bb_add_package(b->t, &p, NULL, b->error), out);
	}
	for (int i = 0; i < n; i++) {
		const struct bb_numa numa = {
			.os = i, .package = i / c->numas, .bytes = c->gib / n * GIB};
		const int first = i * of_numa, last = first + of_numa - 1,
			  all = c->packages * c->cores;
		char cpus[64];
		/* Second threads follow all first ones: "0-19,40-59". */
		const int at = snprintf(cpus, sizeof(cpus), "%d-%d", first, last);

		if (c->threads > 1)
			snprintf(cpus + at, sizeof(cpus) - (size_t)at, ",%d-%d", all + first,
				 all + last);
		BB_TRY(st, bb_add_numa(b->t, &numa, cpus, NULL, b->error), out);
	}
	if (n > 1)
		BB_TRY(st, bb_add_distances(b->t, b->error), out);
	for (int i = 0; i < n * n && n > 1; i++)
		h->distances[i] = i / n == i % n                         ? 10
				  : i / n / c->numas == i % n / c->numas ? c->near
									 : c->far;
	h->caches[0] = (struct bb_cpu_cache){2, c->l2_kib * (MIB / 1024), c->packages * c->cores};
	h->caches[1] =
		(struct bb_cpu_cache){3, c->l3_mib * MIB, c->packages * c->cores / c->l3_cores};
	h->ncaches = 2;
	for (int i = 0; i < c->packages * c->cores; i++) {
		const struct bb_core core = {.pu = i, .package = i / c->cores, .numa = i / of_numa};

		BB_TRY(st, bb_add_core(b->t, &core, b->error), out);
	}
	h->nthreads = h->ncores * c->threads;
out:
	return st;
}

/* A PCI object on a new bus below PARENT. */
static bb_status plug(struct builder *b, int parent, enum bb_pci_role role, int gen, int *index)
{
	struct bb_pci p = {.class_code = 0x0604,
			   .vendor = 0x1000, /* Broadcom */
			   .device = 0xc030,
			   .role = role,
			   .parent = parent,
			   .root = b->root,
			   .numa = b->numa,
			   .now = bb_pcie(gen, 16),
			   .most = bb_pcie(gen, 16)};

	snprintf(p.id, sizeof(p.id), "0000:%02x:00.0", ++b->bus);
	return bb_add_pci(b->t, &p, index, b->error);
}

/* The generation of the CPUs' PCIe, and of the devices'. */
static int host_gen(const struct builder *b)
{
	return b->s->cpu->gen > 0 ? b->s->cpu->gen : b->s->gpu->gen;
}

static int device_gen(const struct builder *b)
{
	return b->s->gpu ? b->s->gpu->gen : host_gen(b);
}

/* Add the device of card CARD (systems.h) below PORT. */
static bb_status build_card(struct builder *b, char card, int port)
{
	const struct bb_system_gpu *const gpu = b->s->gpu;
	const struct bb_system_nic *const nic = b->s->nic;
	struct bb_device d = {.numa = b->numa};
	struct bb_pci pci, *p;
	bb_status st;

	if (card == 'P') {
		pci = b->t->pcis[b->t->npcis - 1];
		pci.id[strlen(pci.id) - 1]++; /* the next function */
		BB_TRY(st, bb_add_pci(b->t, &pci, &d.pci, b->error), out);
	} else {
		BB_TRY(st, plug(b, port, BB_PCI_ENDPOINT, device_gen(b), &d.pci), out);
	}
	p = &b->t->pcis[d.pci];
	if (card == 'G') {
		const bool amd = bb_xgmi_of(gpu->device) > 0;

		p->class_code = amd ? 0x1200 : 0x0302;
		p->vendor = amd ? 0x1002 : 0x10de;
		p->device = gpu->device;
		d.kind = BB_GPU;
		d.bytes = gpu->gib * GIB;
		d.sm = gpu->sm;
		snprintf(d.model, sizeof(d.model), "%s", gpu->model);
		b->ngpus++;
	} else {
		const bool side = card != 'N', cxi = nic->vendor == 0x17db;

		p->class_code = nic->layer == BB_INFINIBAND && !side ? 0x0207 : 0x0200;
		p->vendor = nic->vendor;
		p->device = nic->device;
		p->now = p->most = bb_pcie(nic->gen, nic->lanes);
		d.kind = BB_NIC;
		d.rate_Mbps = 1000 * (int64_t)(side ? nic->side_Gbps : nic->Gbps);
		d.layer = side ? BB_ETHERNET : nic->layer;
		d.state = BB_STATE_UP;
		snprintf(d.model, sizeof(d.model), "%s", bb_pci_model(p->vendor, p->device).name);
		if (nic->layer == BB_LAYER_UNKNOWN)
			snprintf(d.name, sizeof(d.name), cxi ? "cxi%d" : "rdmap%ds0",
				 cxi ? b->nnics++ : b->bus);
		else
			snprintf(d.name, sizeof(d.name), "mlx5_%d", b->nnics++);
	}
	st = bb_add_device(b->t, &d, NULL, b->error);
out:
	return st;
}

/* Build what *SLOTS lists, up to the end of the switch with upstream port UP (-1: none). */
static bb_status build_slots(struct builder *b, const char **slots, int up)
{
	const enum bb_pci_role role = up < 0 ? BB_PCI_ROOT_PORT : BB_PCI_SWITCH_DOWN;
	const int gen = up < 0 ? host_gen(b) : device_gen(b);
	int port = -1, inner;
	bb_status st = BB_OK;

	while (**slots && **slots != ')') {
		const char c = *(*slots)++;
		const bool plugs = strchr("GNS(", c);

		if (c >= '0' && c <= '9')
			b->numa = c - '0';
		b->bridged = c == '[' || (b->bridged && c != ']');
		if (c == '[' || (plugs && up < 0 && !b->bridged))
			b->root++;
		if (plugs)
			BB_TRY(st, plug(b, up, role, gen, &port), out);
		if (c == '(') {
			BB_TRY(st, plug(b, port, BB_PCI_SWITCH_UP, gen, &inner), out);
			BB_TRY(st, build_slots(b, slots, inner), out);
			++*slots;
		} else if (plugs || c == 'P') {
			BB_TRY(st, build_card(b, c, port), out);
		}
	}
out:
	return st;
}

static bb_status build_links(struct builder *b)
{
	struct bb_link l;
	bb_status st = BB_OK;

	for (int i = 0; i < b->ngpus; i++) {
		const int gpu = bb_topology_device(b->t, BB_GPU, i);
		const struct bb_link c2c = {.kind = BB_C2C,
					    .device = gpu,
					    .peer = BB_PEER_CPU,
					    .count = b->s->c2c,
					    .GBps = b->s->c2c_GBps > 0 ? b->s->c2c_GBps : 44.712};

		l = bb_gpu_links(b->t, gpu, BB_PEER_SWITCH, b->s->switched);
		if (l.count > 0)
			BB_TRY(st, bb_add_link(b->t, &l, b->error), out);
		for (int j = 0; b->s->bridged && j < b->ngpus; j++) {
			const char c = b->s->bridged[i][j];

			l.peer = bb_topology_device(b->t, BB_GPU, j);
			l.count = c >= 'a' ? c - 'a' + 10 : c - '0';
			if (l.count > 0)
				BB_TRY(st, bb_add_link(b->t, &l, b->error), out);
		}
		if (c2c.count > 0)
			BB_TRY(st, bb_add_link(b->t, &c2c, b->error), out);
	}
out:
	return st;
}

bb_status bb_topology_system(const char *name, struct bb_topology **topology,
			     struct bb_error *error)
{
	const struct bb_system *const s = bb_system_find(name);
	struct bb_topology *const t = bb_topology_new();
	struct builder b = {.t = t, .s = s, .error = error, .root = -1};
	const char *names[128] = {NULL}, *nearest, *slots;
	bb_status st;

	if (!t)
		return bb_no_memory(error, name);
	if (!s) {
		for (int i = 0; i < 127 && bb_system_at(i); i++)
			names[i] = bb_system_at(i)->name;
		nearest = bb_nearest(name, names);
		st = bb_fail(error, BB_EUSAGE, "%s: not a known system%s%s%s", name,
			     nearest ? "; did you mean " : "; topology --list-systems lists them",
			     nearest ? nearest : "", nearest ? "?" : "");
		goto out;
	}
	snprintf(t->name, sizeof(t->name), "%s", s->name);
	snprintf(t->source, sizeof(t->source), "known system");
	t->nvswitches = s->nvswitches;
	t->nodes = t->nvlink_nodes = s->nodes > 0 ? s->nodes : 1;
	slots = s->slots;
	BB_TRY(st, build_host(&b), out);
	BB_TRY(st, build_slots(&b, &slots, -1), out);
	BB_TRY(st, build_links(&b), out);
	BB_TRY(st, bb_add_p2p(t, error), out);
	memset(t->p2p, s->no_p2p ? BB_P2P_CHIPSET : BB_P2P_OK, (size_t)b.ngpus * (size_t)b.ngpus);
	BB_TRY(st, bb_topology_finish(t, error), out);
	*topology = t;
	return BB_OK;
out:
	bb_topology_free(t);
	return st;
}
