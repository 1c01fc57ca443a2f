#include "topology/topology.h"
#include "core/random.h"
#include "topology/bound.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void bb_topology_free(struct bb_topology *t)
{
	if (!t)
		return;
	bb_host_free(&t->host);
	free(t->pcis);
	free(t->devices);
	free(t->links);
	free(t->p2p);
	free(t);
}

int bb_topology_count(const struct bb_topology *t, enum bb_device_kind kind)
{
	int n = 0;

	for (int d = 0; d < t->ndevices; d++)
		n += t->devices[d].kind == kind;
	return n;
}

int bb_topology_device(const struct bb_topology *t, enum bb_device_kind kind, int i)
{
	for (int d = 0; d < t->ndevices; d++)
		if (t->devices[d].kind == kind && i-- == 0)
			return d;
	return -1;
}

int bb_topology_find(const struct bb_topology *t, const char *name)
{
	for (int d = 0; d < t->ndevices; d++)
		if (strcmp(t->devices[d].name, name) == 0)
			return d;
	return -1;
}

int bb_topology_nvlinks(const struct bb_topology *t, int gpu, int peer)
{
	int n = 0;

	for (int l = 0; l < t->nlinks; l++)
		if (t->links[l].kind == BB_NVLINK && t->links[l].device == gpu &&
		    (t->links[l].peer == peer || peer == BB_PEER_ANY))
			n += t->links[l].count;
	return n;
}

bool bb_topology_is_amd(const struct bb_topology *t, int gpu)
{
	return t->devices[gpu].pci >= 0 && t->pcis[t->devices[gpu].pci].vendor == 0x1002;
}

const char *bb_topology_link_text(char text[BB_LINK_TEXT], const struct bb_topology *t, int gpu)
{
	const struct bb_link *link = bb_topology_link(t, gpu, BB_NVLINK);

	if (bb_topology_is_amd(t, gpu))
		snprintf(text, BB_LINK_TEXT, "xGMI");
	else if (link && link->version > 0)
		snprintf(text, BB_LINK_TEXT, "NVLink%u", (unsigned)link->version & 0xff);
	else
		snprintf(text, BB_LINK_TEXT, "NVLink");
	return text;
}

const struct bb_link *bb_topology_link(const struct bb_topology *t, int gpu, enum bb_link_kind kind)
{
	for (int l = 0; l < t->nlinks; l++)
		if (t->links[l].kind == kind && t->links[l].device == gpu)
			return &t->links[l];
	return NULL;
}

/* NVLinks bonded between two GPUs, directly or through switches. */
static int bonded(const struct bb_topology *t, int a, int b)
{
	const int direct = bb_topology_nvlinks(t, a, b);
	const int of_a = bb_topology_nvlinks(t, a, BB_PEER_SWITCH);
	const int of_b = bb_topology_nvlinks(t, b, BB_PEER_SWITCH);

	return direct > 0 ? direct : of_a < of_b ? of_a : of_b;
}

enum bb_peer_access bb_topology_p2p(const struct bb_topology *t, int a, int b)
{
	int ngpus = bb_topology_count(t, BB_GPU);

	if (a == b || bonded(t, a, b) > 0)
		return BB_P2P_OK;
	if (!t->p2p || a >= ngpus || b >= ngpus)
		return BB_P2P_UNKNOWN;
	return (enum bb_peer_access)t->p2p[a * ngpus + b];
}

bool bb_topology_reaches(const struct bb_topology *t, int a, int b)
{
	const enum bb_peer_access p2p = bb_topology_p2p(t, a, b);

	return p2p == BB_P2P_OK || p2p == BB_P2P_UNKNOWN;
}

int bb_numa_number(const struct bb_topology *t, int numa)
{
	return numa >= 0 ? t->host.numas[numa].os : -1;
}

const char *bb_nic_layer_name(enum bb_nic_layer layer)
{
	static const char *const names[] = {"", "InfiniBand", "Ethernet"};

	return names[layer];
}

/* ---- paths ------------------------------------------------------------------------------- */

/* Number of switches from P up to, but without, the port ABOVE. */
static int switches_below(const struct bb_topology *t, int p, int above)
{
	int n = 0;

	for (; p != above; p = t->pcis[p].parent)
		n += t->pcis[p].role == BB_PCI_SWITCH_UP;
	return n;
}

bool bb_pci_same_card(const struct bb_pci *a, const struct bb_pci *b)
{
	size_t length = strcspn(a->id, ".");

	return length > 0 && a->id[length] == '.' && strncmp(a->id, b->id, length + 1) == 0;
}

enum bb_path bb_topology_pci_path(const struct bb_topology *t, int a, int b)
{
	const struct bb_device *da = &t->devices[a], *db = &t->devices[b];
	int port, switches;

	if (a == b)
		return BB_PATH_SELF;
	if (da->pci >= 0 && db->pci >= 0) {
		if (da->pci == db->pci || bb_pci_same_card(&t->pcis[da->pci], &t->pcis[db->pci]))
			return BB_PATH_PIX;
		/* The lowest port above both. */
		for (port = t->pcis[da->pci].parent; port >= 0; port = t->pcis[port].parent) {
			int p = t->pcis[db->pci].parent;

			while (p >= 0 && p != port)
				p = t->pcis[p].parent;
			if (p == port)
				break;
		}
		if (port >= 0) {
			switches = (t->pcis[port].role == BB_PCI_SWITCH_UP) +
				   switches_below(t, da->pci, port) +
				   switches_below(t, db->pci, port);
			return switches <= 1 ? BB_PATH_PIX : BB_PATH_PXB;
		}
		if (t->pcis[da->pci].root == t->pcis[db->pci].root)
			return BB_PATH_PHB;
	}
	if (t->host.nnumas <= 1)
		return BB_PATH_NODE;
	if (da->numa < 0 || db->numa < 0)
		return BB_PATH_UNKNOWN;
	return da->numa == db->numa ? BB_PATH_NODE : BB_PATH_SYS;
}

enum bb_path bb_topology_path(const struct bb_topology *t, int a, int b, int *nvlinks)
{
	int n = 0;

	if (a != b && t->devices[a].kind == BB_GPU && t->devices[b].kind == BB_GPU)
		n = bonded(t, a, b);
	if (nvlinks)
		*nvlinks = n;
	if (n == 0)
		return bb_topology_pci_path(t, a, b);
	return bb_topology_is_amd(t, a) ? BB_PATH_XGMI : BB_PATH_NVLINK;
}

static const struct {
	const char *word, *meaning;
} paths[] = {
	[BB_PATH_SELF] = {"X", "itself"},
	[BB_PATH_NVLINK] = {"NV#", "a bonded set of # NVLinks"},
	[BB_PATH_XGMI] = {"XGMI", "xGMI between two GPUs"},
	[BB_PATH_PIX] = {"PIX", "at most one PCIe switch"},
	[BB_PATH_PXB] = {"PXB", "several PCIe switches, but no host bridge"},
	[BB_PATH_PHB] = {"PHB", "a PCIe host bridge, typically the CPU"},
	[BB_PATH_NODE] = {"NODE", "several PCIe host bridges of one NUMA node"},
	[BB_PATH_SYS] = {"SYS", "the interconnect between NUMA nodes"},
	[BB_PATH_UNKNOWN] = {"?", NULL},
};

const char *bb_path_word(enum bb_path path)
{
	return paths[path].word;
}

const char *bb_path_meaning(enum bb_path path)
{
	return paths[path].meaning;
}

const char *bb_topology_path_text(char text[BB_PATH_TEXT], enum bb_path path, int nvlinks)
{
	if (path == BB_PATH_NVLINK)
		snprintf(text, BB_PATH_TEXT, "NV%d", nvlinks);
	else
		snprintf(text, BB_PATH_TEXT, "%s", paths[path].word);
	return text;
}

/* ---- the digest, which other numbers and other orders of devices do not change ----------- */

/* Digests are compared between machines, all of which are little-endian. */
static uint64_t mix(uint64_t hash, uint64_t value)
{
	return bb_random_hash(hash, &value, sizeof(value));
}

#define START BB_RANDOM_HASH

static uint64_t mix_text(uint64_t hash, const char *text)
{
	for (; *text; text++)
		hash = mix(hash, (unsigned char)*text);
	return mix(hash, 0);
}

static uint64_t gib(int64_t bytes)
{
	return (uint64_t)(bytes + (1 << 29)) >> 30;
}

uint64_t bb_topology_digest(const struct bb_topology *t)
{
	const struct bb_host *h = &t->host;
	uint64_t hash = mix_text(START, h->arch), devices = 0;

	for (int i = 0; i < h->npackages; i++)
		hash = mix_text(hash, h->packages[i].model);
	for (int i = 0; i < h->nnumas; i++)
		hash = mix(hash, gib(h->numas[i].bytes));
	for (int i = 0; h->distances && i < h->nnumas * h->nnumas; i++)
		hash = mix(hash, (uint64_t)h->distances[i]);
	hash = mix(mix(hash, (uint64_t)h->ncores), (uint64_t)h->nthreads);
	/* Sums, since they may come in any order. */
	for (int d = 0; d < t->ndevices; d++) {
		const struct bb_device *v = &t->devices[d];
		const int numa = bb_numa_number(t, v->numa);
		const int slowest = bb_pci_slowest_switch(t, d);
		const double GBps = slowest < 0 ? 0 : bb_pci_link(t, slowest).GBps;
		uint64_t own = mix_text(mix(START, v->kind), v->model), others = 0;

		own = mix(mix(own, gib(v->bytes)), (uint64_t)v->sm);
		own = mix(mix(own, (uint64_t)v->rate_Mbps), v->layer);
		own = mix(mix(own, v->state), (uint64_t)numa);
		own = mix(mix(own, v->gdr), (uint64_t)(1e6 * GBps));
		if (v->pci >= 0) {
			own = mix(own, (uint64_t)t->pcis[v->pci].now.width);
			own = mix(own, (uint64_t)t->pcis[v->pci].most.width);
			own = mix(own, (uint64_t)t->pcis[v->pci].most.gen);
		}
		for (int l = 0; l < t->nlinks; l++)
			if (t->links[l].device == d && t->links[l].peer < 0) {
				own = mix(mix(own, t->links[l].kind), (uint64_t)t->links[l].peer);
				own = mix(mix(own, (uint64_t)t->links[l].count),
					  (uint64_t)t->links[l].down);
			}

		for (int e = 0; e < t->ndevices; e++)
			if (e != d) {
				int nvlinks = 0;
				uint64_t path = mix(START, bb_topology_path(t, d, e, &nvlinks));

				path = mix(path, (uint64_t)nvlinks);
				if (t->devices[d].kind == BB_GPU && t->devices[e].kind == BB_GPU)
					path = mix(path, bb_topology_reaches(t, d, e));
				others += mix(path, t->devices[e].kind);
			}
		devices += mix(own, others);
	}
	return mix(hash, devices);
}
