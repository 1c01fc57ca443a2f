/*
 * bound_net.c - payload out of a machine over its NICs.
 */
#include "topology/bound_parts.h"
#include "topology/build.h"
#include "topology/rates.h"

/* The rate of a NIC, or else the maximum of its model (ASSUMED). 0: it is down, or its rate is
   unknown. */
static int64_t nic_rate(const struct bb_topology *t, int nic, bool *assumed)
{
	const struct bb_device *d = &t->devices[nic];
	const struct bb_pci *p = d->pci >= 0 ? &t->pcis[d->pci] : NULL;

	*assumed = d->rate_Mbps == 0;
	if (d->state == BB_STATE_DOWN)
		return 0;
	if (d->rate_Mbps > 0)
		return d->rate_Mbps;
	return p ? bb_pci_model(p->vendor, p->device).rate_Mbps : 0;
}

int64_t bb_nic_Mbps(const struct bb_topology *t, int nic)
{
	bool assumed;

	return nic_rate(t, nic, &assumed);
}

bool bb_nic_serves(const struct bb_topology *t, int gpu, int nic)
{
	bool assumed;
	const int64_t rate = nic_rate(t, nic, &assumed);
	const enum bb_path path = gpu < 0 ? BB_PATH_SELF : bb_topology_pci_path(t, gpu, nic);

	if (rate <= 0)
		return false;
	for (int other = 0; other < t->ndevices; other++) {
		int64_t its = nic_rate(t, other, &assumed);
		enum bb_path near = gpu < 0 ? BB_PATH_SELF : bb_topology_pci_path(t, gpu, other);

		if (t->devices[other].kind == BB_NIC && its > 0 &&
		    (near < path || (near == path && its > rate)))
			return false;
	}
	return true;
}

static bool is_used(const struct bb_topology *t, bb_gpus set, int nic)
{
	if (set == 0)
		return bb_nic_serves(t, -1, nic);
	for (bb_gpus s = set; s; s &= s - 1)
		if (bb_nic_serves(t, __builtin_ctzll(s), nic))
			return true;
	return false;
}

/* Whether two NICs are ports of one card, which share its slot. */
static bool on_card(const struct bb_topology *t, int a, int b)
{
	const int p = t->devices[a].pci, q = t->devices[b].pci;

	return p < 0 || q < 0 ? a == b : bb_pci_same_card(&t->pcis[p], &t->pcis[q]);
}

/* Payload of the ports in USED on the card of NIC; 0 unless NIC is the first of them. */
static double card_GBps(const struct bb_topology *t, const bool *used, int nic)
{
	double GBps = 0, slot;
	bool assumed;

	for (int d = 0; d < t->ndevices; d++) {
		if (!used[d] || !on_card(t, nic, d))
			continue;
		if (d < nic)
			return 0;
		GBps += (double)nic_rate(t, d, &assumed) / 8000 * bb_nic_share(t->devices[d].layer);
	}
	if (t->devices[nic].pci >= 0) {
		struct bb_pcie link = bb_pci_link(t, t->devices[nic].pci);

		slot = bb_pcie_payload(&link);
		if (slot > 0 && slot < GBps)
			return slot;
	}
	return GBps;
}

double bb_nic_GBps(const struct bb_topology *t, int nic)
{
	bool used[BB_MOST_DEVICES] = {false};

	used[nic] = true;
	return card_GBps(t, used, nic);
}

/* Payload of the links from the GPUs in SET: C2C to the CPU is wider than a slot. INFINITY:
   unknown. */
static double gpus_GBps(const struct bb_topology *t, bb_gpus set)
{
	double GBps = 0;

	for (bb_gpus s = set; s; s &= s - 1) {
		const int gpu = __builtin_ctzll(s);
		const struct bb_link *c2c = bb_topology_link(t, gpu, BB_C2C);
		struct bb_pcie link = {0};

		if (t->devices[gpu].pci >= 0)
			link = bb_pci_link(t, t->devices[gpu].pci);
		if (c2c && c2c->GBps > 0)
			GBps += c2c->count * c2c->GBps;
		else if (link.GBps > 0)
			GBps += bb_pcie_payload(&link);
		else
			return INFINITY;
	}
	return set ? GBps : INFINITY;
}

struct bb_egress bb_egress_of(const struct bb_topology *t, bb_gpus set)
{
	struct bb_egress e = {.gpus_GBps = gpus_GBps(t, set)};
	bool used[BB_MOST_DEVICES] = {false};
	bool assumed;

	for (int d = 0; d < t->ndevices; d++)
		used[d] = t->devices[d].kind == BB_NIC && is_used(t, set, d);
	for (int d = 0; d < t->ndevices; d++) {
		int64_t rate;

		if (!used[d])
			continue;
		rate = nic_rate(t, d, &assumed);
		e.assumed = e.assumed || assumed;
		e.rate_Mbps = e.nics == 0 || e.rate_Mbps == rate ? rate : 0;
		e.layer = t->devices[d].layer;
		e.GBps += card_GBps(t, used, d);
		e.nics++;
	}
	return e;
}
