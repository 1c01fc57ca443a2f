/*
 * digest.c - a digest of a machine that other numbers and another order of buses and devices do
 * not change.
 */
#include "topology/bound.h"
#include "topology/topology.h"

static uint64_t mix(uint64_t hash, uint64_t value) /* FNV-1a over the bytes of VALUE */
{
	for (int i = 0; i < 8; i++)
		hash = (hash ^ (value >> (8 * i) & 0xff)) * 0x100000001b3ull;
	return hash;
}

#define START 0xcbf29ce484222325ull

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
		uint64_t own = mix_text(mix(START, v->kind), v->model), paths = 0;

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
				paths += mix(path, t->devices[e].kind);
			}
		devices += mix(own, paths);
	}
	return mix(hash, devices);
}
