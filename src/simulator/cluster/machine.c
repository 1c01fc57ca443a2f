/*
 * machine.c - a cluster's links, rails and rates, derived from the topology of its machine.
 */
#include "topology/bound.h"
#include "simulator/cluster/machine.h"
#include "topology/rates.h"

#include <math.h>
#include <string.h>

/* ---- between the GPUs ----------------------------------------------------------------- */

static int links_between(const struct bb_topology *t, int gpu, int n)
{
	int count = 0;

	for (int other = 0; other < n; other++)
		if (other != gpu)
			count += bb_topology_nvlinks(t, gpu, other);
	return count;
}

/* N GPUs, or none and RANKS ranks. */
static enum bb_inside inside_of(const struct bb_topology *t, int n, int ranks)
{
	if (n == 0 && ranks > 1)
		return BB_INSIDE_MEMORY;
	if (n > 0 &&
	    bb_fabric_of(t, n >= 64 ? ~(bb_gpus)0 : ((bb_gpus)1 << n) - 1) == BB_FABRIC_SWITCH)
		return BB_INSIDE_SWITCH;
	if (n < 2)
		return BB_INSIDE_NOTHING;
	for (int gpu = 0; gpu < n; gpu++)
		if (links_between(t, gpu, n) > 0)
			return BB_INSIDE_LINKS;
	return BB_INSIDE_PCIE;
}

/* GeForce cards have neither peer access over PCIe nor GPUDirect RDMA. Their numbers end with the
   class of the card, those of other RTX cards in 00. */
static bool is_geforce(const struct bb_device *gpu)
{
	const char *rtx = strstr(gpu->model, "RTX ");

	if (strstr(gpu->model, "GeForce"))
		return true;
	return rtx && strspn(rtx + 4, "0123456789") == 4 && strncmp(rtx + 6, "00", 2) != 0;
}

bool bb_cluster_reaches(const struct bb_cluster *c, int a, int b)
{
	const enum bb_peer_access access = bb_topology_p2p(c->node, a, b);

	if (c->figures[BB_FIGURE_PEER_ACCESS] != 0)
		return c->figures[BB_FIGURE_PEER_ACCESS] > 0;
	if (access != BB_P2P_UNKNOWN)
		return access == BB_P2P_OK;
	return !is_geforce(&c->node->devices[a]) &&
	       bb_topology_pci_path(c->node, a, b) <= BB_PATH_PXB;
}

/* The GPUs of SET below PCI object P. */
static uint64_t gpus_below(const struct bb_topology *t, uint64_t set, int p)
{
	uint64_t below = 0;

	for (uint64_t s = set; s; s &= s - 1) {
		int at = t->devices[__builtin_ctzll(s)].pci;

		while (at >= 0 && at != p)
			at = t->pcis[at].parent;
		below |= at >= 0 ? s & -s : 0;
	}
	return below;
}

static bool all_reach(const struct bb_cluster *c, uint64_t set)
{
	for (uint64_t s = set; s; s &= s - 1)
		for (uint64_t r = s & (s - 1); r; r &= r - 1)
			if (!bb_cluster_reaches(c, __builtin_ctzll(s), __builtin_ctzll(r)))
				return false;
	return true;
}

/* How many GPUs of SET send across the link above PCI object P at once, if each sends to its next:
   those below a switch that reach each other cross it once, if others are beyond. */
static int crossings(const struct bb_cluster *c, uint64_t set, int p)
{
	const uint64_t below = gpus_below(c->node, set, p);

	if (!all_reach(c, below))
		return __builtin_popcountll(below);
	return below != set || c->node->pcis[p].role == BB_PCI_ENDPOINT;
}

struct bb_cluster_slots bb_cluster_slots(const struct bb_cluster *c, uint64_t set)
{
	const struct bb_topology *t = c->node;
	struct bb_cluster_slots slots = {false, INFINITY, INFINITY};

	/* A cluster known by its links alone has no slots. */
	if (bb_topology_count(t, BB_GPU) == 0)
		return slots;
	slots.through_host = !all_reach(c, set);
	for (uint64_t s = set; s; s &= s - 1)
		for (int p = t->devices[__builtin_ctzll(s)].pci; p >= 0; p = t->pcis[p].parent) {
			const struct bb_pcie link = bb_pci_link(t, p);
			const double rate = 1e9 * bb_pcie_usable(&link);
			const enum bb_pci_role role = t->pcis[p].role;
			const int n = crossings(c, set, p);

			if (rate <= 0 || (role != BB_PCI_ENDPOINT && role != BB_PCI_SWITCH_UP))
				continue;
			slots.alone = fmin(slots.alone, rate);
			slots.together = n > 0 ? fmin(slots.together, rate / n) : slots.together;
		}
	return slots;
}

double bb_cluster_pcie_rate(const struct bb_topology *t, int a, int b)
{
	double least = INFINITY;

	for (int i = 0; i < 2; i++) {
		const int pci = t->devices[i ? b : a].pci;
		struct bb_pcie link = pci >= 0 ? bb_pci_link(t, pci) : (struct bb_pcie){0};

		least = fmin(least, 1e9 * bb_pcie_usable(&link));
	}
	return least;
}

/* Set the rate of the slowest GPU, for which collectives wait, where none is given. */
static bb_status derive_gpu_rate(struct bb_cluster *c, struct bb_error *error)
{
	const struct bb_topology *t = c->node;
	double *rate = &c->figures[BB_FIGURE_GPU_RATE], least = INFINITY;

	if (c->inside == BB_INSIDE_MEMORY)
		*rate = c->figures[BB_FIGURE_CORE_RATE];
	if (c->inside == BB_INSIDE_NOTHING || c->inside == BB_INSIDE_MEMORY || *rate > 0)
		return BB_OK;
	for (int gpu = 0; gpu < c->gpus; gpu++)
		if (c->inside == BB_INSIDE_PCIE) {
			least = gpu > 0 ? fmin(least, bb_cluster_pcie_rate(t, 0, gpu)) : least;
		} else {
			const int links = c->inside == BB_INSIDE_SWITCH
						  ? bb_topology_nvlinks(t, gpu, BB_PEER_SWITCH)
						  : links_between(t, gpu, c->gpus);

			least = fmin(least,
				     1e9 * (links * bb_nvlink_of(t->devices[gpu].sm).usable));
		}
	*rate = least;
	if (*rate > 0)
		return BB_OK;
	return bb_fail(error, BB_EUNSUPPORTED,
		       "--cluster %s: the rate of its %s is unknown; give gpu_rate in a file",
		       c->name, c->inside == BB_INSIDE_PCIE ? "PCIe links" : "NVLinks");
}

/* ---- out of the node ------------------------------------------------------------------ */

struct rail_search {
	int first[BB_CLUSTER_NODE_RANKS]; /* [rail]: the NIC that it was made for */
	int rails;
	int others; /* NICs that are not InfiniBand */
	int efa;    /* generation of AWS's adapters; 0: they are others */
	int nics;
	double GBps;    /* of all NICs */
	int64_t Mbps;   /* likewise */
	bool near, far; /* a GPU has a NIC behind the same PCIe switches; another has not */
};

/* GPU gets the rail that fewest GPUs use so far, of those of its NICs. */
static void assign_rail(struct bb_cluster *c, struct rail_search *search, int gpu)
{
	const struct bb_topology *t = c->node;
	const bool is_host = bb_topology_count(t, BB_GPU) == 0;
	int best = -1, best_rail = -1, best_users = 0;

	for (int i = 0; i < bb_topology_count(t, BB_NIC); i++) {
		const int nic = bb_topology_device(t, BB_NIC, i);
		int rail = 0, users;

		if (!bb_nic_serves(t, is_host ? -1 : gpu, nic))
			continue;
		while (rail < search->rails && search->first[rail] != nic)
			rail++;
		users = rail < search->rails ? c->rail_gpus[rail] : 0;
		if (best >= 0 && users >= best_users)
			continue;
		if (!is_host && bb_topology_pci_path(t, gpu, nic) > BB_PATH_PXB)
			search->far = true;
		else
			search->near = true;
		best = nic;
		best_rail = rail;
		best_users = users;
	}
	if (best < 0)
		return;
	if (best_rail == search->rails)
		search->first[search->rails++] = best;
	c->rail_of[gpu] = best_rail;
	c->rail_gpus[best_rail]++;
}

bool bb_cluster_nic_serves(const struct bb_topology *t, int nic)
{
	const int gpus = bb_topology_count(t, BB_GPU);
	bool serves = gpus == 0 && bb_nic_serves(t, -1, nic);

	for (int gpu = 0; gpu < gpus && !serves; gpu++)
		serves = bb_nic_serves(t, gpu, nic);
	return serves && t->devices[nic].kind == BB_NIC;
}

/* Count NIC, if it serves a rank. */
static void search_add(struct rail_search *search, const struct bb_topology *t, int nic)
{
	if (!bb_cluster_nic_serves(t, nic))
		return;
	search->nics++;
	search->GBps += bb_nic_GBps(t, nic);
	search->Mbps += bb_nic_Mbps(t, nic);
	search->others += t->devices[nic].layer != BB_INFINIBAND;
	search->efa =
		t->devices[nic].pci >= 0 ? bb_efa_generation(&t->pcis[t->devices[nic].pci]) : 0;
}

static enum bb_nic_kind nics_of(const struct rail_search *search, bool rate_given)
{
	if (search->efa > 0)
		return search->efa == 1   ? BB_NICS_EFA
		       : search->efa == 2 ? BB_NICS_EFA_P5
					  : BB_NICS_EFA_LATER;
	return search->others > 0 || rate_given ? BB_NICS_OTHER : BB_NICS_INFINIBAND;
}

struct bb_cluster_nics bb_cluster_nics_of(const struct bb_topology *t)
{
	struct rail_search search = {0};

	for (int i = 0; i < bb_topology_count(t, BB_NIC); i++)
		search_add(&search, t, bb_topology_device(t, BB_NIC, i));
	return (struct bb_cluster_nics){search.nics, search.Mbps, nics_of(&search, false)};
}

/* Whether NICs have no access to the memory of the GPUs: by the figure, or as is usual for GeForce
   cards, and for V100 with AWS's first adapters (p3dn: GPUDirect RDMA came with p4d). NCCL does not
   use it between cards of different host bridges (ncclTopoCheckGdr, src/graph/paths.cc), but over
   C2C; nodes with NVSwitches have near NICs, even if a virtual machine does not show it. */
static bool is_staged(const struct bb_cluster *c, const struct rail_search *search)
{
	const struct bb_device *gpu = &c->node->devices[0];

	if (!bb_cluster_has_gpus(c) || c->figures[BB_FIGURE_GPUDIRECT] != 0)
		return c->figures[BB_FIGURE_GPUDIRECT] < 0;
	if (is_geforce(gpu) || (gpu->sm == 70 && c->nics == BB_NICS_EFA))
		return true;
	return c->inside != BB_INSIDE_SWITCH && search->far && !search->near &&
	       strcmp(c->node->host.arch, "x86_64") == 0;
}

/* Without a known NIC, a given nic_rate stands for one NIC of each GPU, or of a node without. */
static bb_status derive_rails(struct bb_cluster *c, struct bb_error *error)
{
	double *rate = &c->figures[BB_FIGURE_NIC_RATE];
	struct rail_search search = {0};

	for (int gpu = 0; gpu < c->gpus; gpu++)
		assign_rail(c, &search, gpu);
	for (int i = 0; i < bb_topology_count(c->node, BB_NIC); i++)
		search_add(&search, c->node, bb_topology_device(c->node, BB_NIC, i));
	c->rails = search.rails;
	for (int gpu = 0; gpu < c->gpus && search.rails == 0 && *rate > 0; gpu++) {
		c->rail_of[gpu] = c->inside == BB_INSIDE_MEMORY ? 0 : gpu;
		c->rails = c->rail_of[gpu] + 1;
		c->rail_gpus[c->rail_of[gpu]]++;
	}
	if (c->rails == 0 && (c->nodes > c->domain || bb_cluster_loops_back(c)))
		return bb_fail(error, BB_EUNSUPPORTED,
			       "--cluster %s: the machine has no NIC whose rate is known; give "
			       "nic_rate in a file",
			       c->name);
	if (c->rails > 0)
		c->nics = nics_of(&search, *rate > 0);
	c->near_nics = search.rails > 0 && !search.far;
	c->staged = is_staged(c, &search);
	if (c->rails == 0 || *rate > 0)
		return BB_OK;
	/* Several NICs of one GPU are one rail. */
	*rate = 1e9 * search.GBps / search.rails;
	return BB_OK;
}

double bb_cluster_cache(const struct bb_cluster *c)
{
	const struct bb_host *host = &c->node->host;
	double bytes = 0;

	for (int i = 0; i < host->ncaches; i++)
		if (host->caches[i].level > 1)
			bytes += (double)host->caches[i].bytes * host->caches[i].count;
	return bytes / (host->npackages > 0 ? host->npackages : 1);
}

bb_status bb_cluster_derive(struct bb_cluster *c, struct bb_error *error)
{
	const int n = bb_topology_count(c->node, BB_GPU);
	bb_status st;

	c->gpus = n > 0 ? n : (int)c->figures[BB_FIGURE_NODE_RANKS];
	c->inside = inside_of(c->node, n, c->gpus);
	if (c->inside == BB_INSIDE_MEMORY)
		c->figures[BB_FIGURE_MESSAGE_OVERHEAD] = c->figures[BB_FIGURE_INLINE_OVERHEAD];
	c->domain = c->inside == BB_INSIDE_SWITCH ? c->node->nvlink_nodes : 1;
	if ((int64_t)c->nodes * c->gpus > BB_CLUSTER_MOST_RANKS)
		return bb_fail(error, BB_EUSAGE,
			       "--cluster %s: %d nodes of %d ranks are more than %d ranks", c->name,
			       c->nodes, c->gpus, BB_CLUSTER_MOST_RANKS);
	c->ranks = c->nodes * c->gpus;
	st = derive_gpu_rate(c, error);
	return st == BB_OK ? derive_rails(c, error) : st;
}
