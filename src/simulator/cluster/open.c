/*
 * open.c - a cluster by its name, its file or its links; its links, rails and rates, derived from
 * the topology of its machine; and the routes between its ranks.
 */
#include "simulator/cluster/cluster.h"

#include "core/embed.h"
#include "core/file.h"
#include "core/option.h"
#include "core/share.h"
#include "core/units.h"
#include "topology/bound.h"
#include "topology/rates.h"
#include "topology/systems.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

BB_EMBED(bb_cluster_data, "src/simulator/cluster/clusters.txt");

#define FIGURE(figure, name, unit) [BB_FIGURE_##figure] = {name, BB_SETTING_##unit},

const struct bb_figure_row bb_figure_rows[BB_FIGURES] = {BB_FIGURE_LIST(FIGURE)};

#define FILE_MOST ((size_t)64 << 20) /* bytes of a file of figures or of a topology */

void bb_cluster_free(struct bb_cluster *c)
{
	if (!c)
		return;
	bb_topology_free(c->node);
	free(c->pairs);
	free(c);
}

/* ---- files ---------------------------------------------------------------------------- */

/* What a cluster is read with. */
struct reading {
	struct bb_cluster *cluster;
	bb_topology_parser *parse;
	struct bb_error *error;
};

/* Settings of a file other than figures; empty or 0 where it has none. */
struct figure_head {
	char system[BB_TEXT], topology[BB_SETTING_LINE];
	int nodes;
};

static const char *const examples[] = {
	[BB_SETTING_RATE] = "a rate as in 48GB/s",
	[BB_SETTING_SHARE] = "a share as in 97%",
	[BB_SETTING_TIME] = "a time as in 2.7us",
	[BB_SETTING_SIZE] = "a size as in 4K",
	[BB_SETTING_COUNT] = "a number of nodes, or of ranks, from 1 to 1048576",
	[BB_SETTING_NUMBER] = "a factor from 1 to 1000",
	[BB_SETTING_YES] = "yes or no",
};

static bb_status read_line(const struct bb_settings *l, double *figures, struct figure_head *head,
			   struct bb_error *error)
{
	enum bb_setting_unit unit = BB_SETTING_COUNT; /* of nodes */
	double value, most;
	int f = 0;

	while (f < BB_FIGURES && strcmp(bb_figure_rows[f].name, l->key) != 0)
		f++;
	if (strcmp(l->key, "system") == 0) {
		snprintf(head->system, sizeof(head->system), "%s", l->value);
		return BB_OK;
	}
	if (strcmp(l->key, "topology") == 0) {
		snprintf(head->topology, sizeof(head->topology), "%s", l->value);
		return BB_OK;
	}
	if (f < BB_FIGURES) {
		unit = bb_figure_rows[f].unit;
	} else if (strcmp(l->key, "nodes") != 0) {
		const char *names[BB_FIGURES + 4] = {"system", "topology", "nodes"};
		char hint[BB_SUGGESTION];

		for (f = 0; f < BB_FIGURES; f++)
			names[3 + f] = bb_figure_rows[f].name;
		return bb_fail(error, BB_EUSAGE,
			       "%s: line %d: \"%s\" is not a figure of a cluster%s", l->name,
			       l->line, l->key, bb_suggest(hint, l->key, names));
	}
	most = unit == BB_SETTING_COUNT    ? BB_CLUSTER_MOST_RANKS
	       : unit == BB_SETTING_NUMBER ? 1000
					   : INFINITY;
	if (!bb_setting_read(unit, l->value, &value) ||
	    (!isinf(most) && !(value >= 1 && value <= most)))
		return bb_fail(error, BB_EUSAGE, "%s: line %d: %s = \"%s\": expected %s", l->name,
			       l->line, l->key, l->value, examples[unit]);
	if (f < BB_FIGURES)
		figures[f] = value;
	else
		head->nodes = (int)value;
	return BB_OK;
}

/* Read a TEXT of settings: figures into FIGURES, others into HEAD. BB_EUSAGE names the line that is
   wrong. */
static bb_status read_figures(const struct bb_settings *text, double *figures,
			      struct figure_head *head, struct bb_error *error)
{
	struct bb_settings l = *text;
	bool more = true;
	bb_status st = BB_OK;

	while (st == BB_OK && (st = bb_settings_next(&l, &more, error)) == BB_OK && more)
		st = read_line(&l, figures, head, error);
	return st;
}

/* The figures of all clusters, and those of SYSTEM (empty: none), of which there may be none. */
static bb_status read_known(const struct reading *r, const char *system)
{
	struct bb_settings text = {
		.name = "clusters.txt", .rest = bb_cluster_data, .section = "all"};
	struct figure_head none = {0};
	bb_status st = read_figures(&text, r->cluster->figures, &none, r->error);

	text.section = system;
	return st == BB_OK && *system ? read_figures(&text, r->cluster->figures, &none, r->error)
				      : st;
}

static bb_status read_system(const struct reading *r, const char *name)
{
	const bb_status st = bb_topology_system(name, &r->cluster->node, r->error);

	return st == BB_OK ? read_known(r, r->cluster->node->name) : st;
}

static bb_status read_file(const struct reading *r, const char *path, bool only_topology);

/* A file of figures names a system or a topology (as it is, else beside PATH) and then overrides
   figures. */
static bb_status read_settings(const struct reading *r, const char *path, const char *text)
{
	const struct bb_settings in = {.name = path, .rest = text};
	const char *slash = strrchr(path, '/');
	struct figure_head head = {.nodes = 0};
	double given[BB_FIGURES];
	char file[BB_SHARE_PATH];
	bb_status st;

	for (int f = 0; f < BB_FIGURES; f++)
		given[f] = NAN;
	BB_TRY(st, read_figures(&in, given, &head, r->error), out);
	if (!*head.system == !*head.topology)
		return bb_fail(r->error, BB_EUSAGE,
			       "%s: give one of system = NAME and topology = FILE", path);
	snprintf(file, sizeof(file), "%s", head.topology);
	if (*head.topology != '/' && access(head.topology, R_OK) != 0)
		snprintf(file, sizeof(file), "%.*s%s", slash ? (int)(slash + 1 - path) : 0, path,
			 head.topology);
	st = *head.system ? read_system(r, head.system) : read_file(r, file, true);
	for (int f = 0; f < BB_FIGURES; f++)
		if (!isnan(given[f]))
			r->cluster->figures[f] = given[f];
	r->cluster->nodes = head.nodes;
out:
	return st;
}

static bb_status read_file(const struct reading *r, const char *path, bool only_topology)
{
	const struct bb_file_request request = {
		.option = "--cluster", .path = path, .most = FILE_MOST};
	char *text = NULL;
	size_t length;
	bb_status st;

	BB_TRY(st, bb_file_read(&request, &text, &length, r->error), out);
	/* The matrix of nvidia-smi topo -m names GPUs and has no keys. */
	bool is_topology = only_topology || text[strspn(text, " \t\r\n\xef\xbb\xbf")] == '<' ||
			   (strstr(text, "GPU0") && !strchr(text, '='));
	if (!is_topology)
		st = read_settings(r, path, text);
	else if (!r->parse)
		st = bb_fail(r->error, BB_EUNSUPPORTED,
			     "--cluster %s: busbench was built without its XML reader; build it "
			     "with libexpat1-dev",
			     path);
	else
		st = r->parse(text, length, path, &r->cluster->node, r->error);
	if (is_topology && st == BB_OK && r->cluster->node->links_unknown)
		st = bb_fail(
			r->error, BB_EUSAGE,
			"--cluster %s: the file does not show NVLinks, which its GPUs may have; "
			"give NCCL's dump (NCCL_TOPO_DUMP_FILE) or a known system",
			path);
	else if (is_topology && st == BB_OK)
		st = read_known(r, "");
out:
	free(text);
	return st;
}

/* Set *LENGTH and *NODES (0: not given) of TEXT, a name or a path. */
static bb_status request_parse(const char *text, int *length, int *nodes, struct bb_error *error)
{
	const char *colon = strrchr(text, ':');
	int64_t given = 0;

	*length = colon ? (int)(colon - text) : (int)strlen(text);
	if (colon &&
	    (!bb_parse_int(colon + 1, &given) || given < 1 || given > BB_CLUSTER_MOST_RANKS))
		return bb_fail(error, BB_EUSAGE,
			       "--cluster %s: \"%s\" is not a number of nodes from 1 to %d; give "
			       "NAME:NODES, as in hgx-h100:128",
			       text, colon + 1, BB_CLUSTER_MOST_RANKS);
	if (*length == 0 || *length >= BB_SETTING_LINE)
		return bb_fail(error, BB_EUSAGE,
			       "--cluster %s: give the name of a system or of a file, as in "
			       "hgx-h100:128",
			       text);
	*nodes = (int)given;
	return BB_OK;
}

/* ---- between the GPUs ----------------------------------------------------------------- */

/* All GPUs of a node. */
static bb_gpus gpus_of(const struct bb_topology *t)
{
	const int n = bb_topology_count(t, BB_GPU);

	return n >= BB_MOST_GPUS ? ~(bb_gpus)0 : ((bb_gpus)1 << n) - 1;
}

/* NVLinks of GPU to other GPUs. */
static int links_between(const struct bb_topology *t, int gpu)
{
	return bb_topology_nvlinks(t, gpu, BB_PEER_ANY) -
	       bb_topology_nvlinks(t, gpu, BB_PEER_SWITCH) -
	       bb_topology_nvlinks(t, gpu, BB_PEER_CPU);
}

/* N GPUs, or none and RANKS ranks. */
static enum bb_inside inside_of(const struct bb_topology *t, int n, int ranks)
{
	if (n == 0 && ranks > 1)
		return BB_INSIDE_MEMORY;
	if (n > 0 && bb_fabric_of(t, gpus_of(t)) == BB_FABRIC_SWITCH)
		return BB_INSIDE_SWITCH;
	if (n < 2)
		return BB_INSIDE_NOTHING;
	for (int gpu = 0; gpu < n; gpu++)
		if (links_between(t, gpu) > 0)
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

/* Whether GPUs A and B of a node access each other's memory over PCIe: as the figure or the
   topology has it. If neither does, as is usual: below one host bridge, but for GeForce cards. */
static bool reaches(const struct bb_cluster *c, int a, int b)
{
	const enum bb_peer_access access = bb_topology_p2p(c->node, a, b);

	if (c->figures[BB_FIGURE_PEER_ACCESS] != 0)
		return c->figures[BB_FIGURE_PEER_ACCESS] > 0;
	if (access != BB_P2P_UNKNOWN)
		return access == BB_P2P_OK;
	return !is_geforce(&c->node->devices[a]) &&
	       bb_topology_pci_path(c->node, a, b) <= BB_PATH_PXB;
}

static bool all_reach(const struct bb_cluster *c, uint64_t set)
{
	for (uint64_t s = set; s; s &= s - 1)
		for (uint64_t r = s & (s - 1); r; r &= r - 1)
			if (!reaches(c, __builtin_ctzll(s), __builtin_ctzll(r)))
				return false;
	return true;
}

/* How many GPUs of SET send across the link above PCI object P at once, if each sends to its next:
   those below a switch that reach each other cross it once, if others are beyond. */
static int crossings(const struct bb_cluster *c, uint64_t set, int p)
{
	const struct bb_topology *t = c->node;
	uint64_t below = 0;

	for (uint64_t s = set; s; s &= s - 1) {
		int at = t->devices[__builtin_ctzll(s)].pci;

		while (at >= 0 && at != p)
			at = t->pcis[at].parent;
		below |= at >= 0 ? s & -s : 0;
	}
	if (!all_reach(c, below))
		return __builtin_popcountll(below);
	return below != set || t->pcis[p].role == BB_PCI_ENDPOINT;
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

/* The rate between GPUs A and B over PCIe, bytes per second; 0 unknown. */
static double pcie_rate(const struct bb_topology *t, int a, int b)
{
	const struct bb_pcie of_a = bb_device_link(t, a), of_b = bb_device_link(t, b);

	return 1e9 * fmin(bb_pcie_usable(&of_a), bb_pcie_usable(&of_b));
}

/* ---- out of the node ------------------------------------------------------------------ */

struct bb_cluster_nics bb_cluster_nics_of(const struct bb_topology *t)
{
	struct bb_cluster_nics nics = {.kind = BB_NICS_INFINIBAND};
	int efa = 0; /* generation of AWS's adapters */

	for (int nic = 0; nic < t->ndevices; nic++) {
		const int pci = t->devices[nic].pci;

		if (!bb_nic_serves(t, gpus_of(t), nic))
			continue;
		nics.n++;
		nics.GBps += bb_nic_GBps(t, nic);
		nics.Mbps += bb_nic_Mbps(t, nic);
		if (t->devices[nic].layer != BB_INFINIBAND)
			nics.kind = BB_NICS_OTHER;
		efa = pci >= 0 ? bb_efa_generation(&t->pcis[pci]) : 0;
	}
	if (efa > 0)
		nics.kind = efa == 1 ? BB_NICS_EFA : efa == 2 ? BB_NICS_EFA_P5 : BB_NICS_EFA_LATER;
	return nics;
}

/* Whether NICs have no access to the memory of the GPUs: by the figure, or as is usual for GeForce
   cards, and for V100 with AWS's first adapters (p3dn: GPUDirect RDMA came with p4d). NCCL does not
   use it between cards of different host bridges (ncclTopoCheckGdr, src/graph/paths.cc), but over
   C2C; nodes with NVSwitches have near NICs, even if a virtual machine does not show it. */
static bool is_staged(const struct bb_cluster *c, bool far)
{
	const struct bb_device *gpu = &c->node->devices[0];

	if (!bb_cluster_has_gpus(c) || c->figures[BB_FIGURE_GPUDIRECT] != 0)
		return c->figures[BB_FIGURE_GPUDIRECT] < 0;
	if (is_geforce(gpu) || (gpu->sm == 70 && c->nics == BB_NICS_EFA))
		return true;
	return c->inside != BB_INSIDE_SWITCH && far && strcmp(c->node->host.arch, "x86_64") == 0;
}

/* Without a known NIC, a given nic_rate stands for one NIC of each GPU, or of a node without. */
static bb_status derive_rails(struct bb_cluster *c, struct bb_error *error)
{
	const struct bb_topology *const t = c->node;
	const struct bb_cluster_nics nics = bb_cluster_nics_of(t);
	const bool is_host = !bb_cluster_has_gpus(c);
	double *rate = &c->figures[BB_FIGURE_NIC_RATE];
	int found, first[BB_CLUSTER_NODE_RANKS]; /* rails; [rail]: its NIC */
	/* Some GPU's NIC is behind the same PCIe switches, or is not. */
	bool near = false, far = false;

	/* A GPU gets the rail that fewest GPUs use so far, of those of its NICs. */
	for (int gpu = 0; gpu < c->gpus; gpu++) {
		int best = -1, best_rail = 0;

		for (int nic = 0; nic < t->ndevices; nic++) {
			int rail = 0;

			if (!bb_nic_serves(t, is_host ? 0 : (bb_gpus)1 << gpu, nic))
				continue;
			while (rail < c->rails && first[rail] != nic)
				rail++;
			if (best >= 0 && c->rail_gpus[rail] >= c->rail_gpus[best_rail])
				continue;
			best = nic;
			best_rail = rail;
		}
		if (best < 0)
			continue;
		*(!is_host && bb_topology_pci_path(t, gpu, best) > BB_PATH_PXB ? &far : &near) =
			true;
		if (best_rail == c->rails)
			first[c->rails++] = best;
		c->rail_of[gpu] = best_rail;
		c->rail_gpus[best_rail]++;
	}
	found = c->rails;
	for (int gpu = 0; gpu < c->gpus && found == 0 && *rate > 0; gpu++) {
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
		c->nics = nics.kind == BB_NICS_INFINIBAND && *rate > 0 ? BB_NICS_OTHER : nics.kind;
	c->near_nics = found > 0 && !far;
	c->staged = is_staged(c, far && !near);
	/* Several NICs of one GPU are one rail. */
	if (c->rails > 0 && *rate == 0)
		*rate = 1e9 * nics.GBps / c->rails;
	return BB_OK;
}

static int packages_of(const struct bb_cluster *c)
{
	return c->node->host.npackages > 0 ? c->node->host.npackages : 1;
}

double bb_cluster_cache(const struct bb_cluster *c)
{
	const struct bb_host *host = &c->node->host;
	double bytes = 0;

	for (int i = 0; i < host->ncaches; i++)
		if (host->caches[i].level > 1)
			bytes += (double)host->caches[i].bytes * host->caches[i].count;
	return bytes / packages_of(c);
}

/* Derive from c->node the ranks of a node, the links between them and the rails; and both rates
   where c->figures has none. BB_EUNSUPPORTED: the topology lacks a rate. */
static bb_status cluster_derive(struct bb_cluster *c, struct bb_error *error)
{
	const struct bb_topology *const t = c->node;
	const int n = bb_topology_count(t, BB_GPU);
	double *const rate = &c->figures[BB_FIGURE_GPU_RATE], least = INFINITY;

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
	/* The rate of the slowest GPU, for which collectives wait, where none is given. */
	if (c->inside == BB_INSIDE_MEMORY)
		*rate = c->figures[BB_FIGURE_CORE_RATE];
	if (c->inside == BB_INSIDE_NOTHING || c->inside == BB_INSIDE_MEMORY || *rate > 0)
		return derive_rails(c, error);
	for (int gpu = 0; gpu < n; gpu++) {
		const int links = c->inside == BB_INSIDE_SWITCH
					  ? bb_topology_nvlinks(t, gpu, BB_PEER_SWITCH)
					  : links_between(t, gpu);

		if (c->inside != BB_INSIDE_PCIE)
			least = fmin(least,
				     1e9 * (links * bb_nvlink_of(t->devices[gpu].sm).usable));
		else if (gpu > 0)
			least = fmin(least, pcie_rate(t, 0, gpu));
	}
	*rate = least;
	if (*rate > 0)
		return derive_rails(c, error);
	return bb_fail(error, BB_EUNSUPPORTED,
		       "--cluster %s: the rate of its %s is unknown; give gpu_rate in a file",
		       c->name, c->inside == BB_INSIDE_PCIE ? "PCIe links" : "NVLinks");
}

/* ---- the pairs of a node -------------------------------------------------------------- */

static double per_byte(double rate)
{
	return rate > 0 && !isinf(rate) ? 1 / rate : 0;
}

/* The link between ranks A and B of a node. Where messages loop back it is not used. */
static struct bb_fabric_pair pair_of(const struct bb_cluster *c, int a, int b)
{
	const struct bb_topology *t = c->node;
	const int links = bb_topology_nvlinks(t, a, b);
	enum bb_cluster_path path = BB_CLUSTER_NVLINK;
	enum bb_figure latency = BB_FIGURE_GPU_LATENCY;
	double rate = c->gpu_rate;

	if (a == b)
		return (struct bb_fabric_pair){0, 0, BB_CLUSTER_SELF};
	if (c->inside == BB_INSIDE_MEMORY) {
		path = BB_CLUSTER_MEMORY;
		latency = bb_fabric_shared(&c->fabric, BB_LEVEL_MEMORY, a, 0) ==
					  bb_fabric_shared(&c->fabric, BB_LEVEL_MEMORY, b, 0)
				  ? BB_FIGURE_CORE_LATENCY
				  : BB_FIGURE_PACKAGE_LATENCY;
	} else if (c->inside != BB_INSIDE_SWITCH && links > 0) {
		rate = rate * links / links_between(t, a);
	} else if (c->inside != BB_INSIDE_SWITCH) {
		path = BB_CLUSTER_PCIE;
		latency = BB_FIGURE_PCIE_LATENCY;
		if (c->inside == BB_INSIDE_LINKS)
			rate = pcie_rate(t, a, b) * c->figures[BB_FIGURE_GPU_EFFICIENCY];
		if (!reaches(c, a, b))
			rate *= c->figures[BB_FIGURE_HOST_EFFICIENCY];
	}
	return (struct bb_fabric_pair){per_byte(rate), c->figures[latency], path};
}

/* The fabric of C, whose pairs are set later. */
static struct bb_fabric fabric_of(const struct bb_cluster *c)
{
	const double *f = c->figures;
	struct bb_fabric fabric = {
		.nodes = c->nodes,
		.per_node = c->gpus,
		.domain = c->domain,
		.leaf = (int)f[BB_FIGURE_LEAF_NODES],
		.pod = (int)f[BB_FIGURE_POD_NODES],
		.rails = c->rails,
		.rail_of = c->rail_of,
		.pairs = c->pairs,
		.domain_second_per_byte = per_byte(c->gpu_rate),
		.domain_latency = f[BB_FIGURE_GPU_LATENCY],
		.rail_second_per_byte = per_byte(c->nic_rate),
		.overhead = f[BB_FIGURE_MESSAGE_OVERHEAD],
		.leaf_taper = f[BB_FIGURE_LEAF_TAPER],
		.pod_taper = f[BB_FIGURE_POD_TAPER],
	};

	for (int hops = 0; hops < 3; hops++)
		fabric.latency[hops] =
			f[BB_FIGURE_NET_LATENCY] + 2 * hops * f[BB_FIGURE_SWITCH_LATENCY];
	if (c->inside != BB_INSIDE_MEMORY)
		return fabric;
	fabric.limits[0].most = f[BB_FIGURE_INLINE_SIZE];
	fabric.limits[0].latency = f[BB_FIGURE_EAGER_LATENCY];
	fabric.limits[1].most = f[BB_FIGURE_EAGER_SIZE];
	fabric.limits[1].latency = f[BB_FIGURE_RENDEZVOUS_LATENCY];
	fabric.pulls = true;
	fabric.sum_second_per_byte = per_byte(f[BB_FIGURE_ADD_RATE]);
	fabric.loopback = bb_cluster_loops_back(c);
	fabric.packages = packages_of(c);
	fabric.memory_second_per_byte =
		per_byte(f[BB_FIGURE_MEMORY_RATE] * f[BB_FIGURE_MEMORY_EFFICIENCY]);
	fabric.cache_bytes = bb_cluster_cache(c);
	return fabric;
}

/* ---- opening -------------------------------------------------------------------------- */

/* Apply CHANGE to the NICs of T that serve GPUs: as many remain, evenly spread. */
static bb_status change_nics(struct bb_topology *t, const struct bb_cluster_change *change,
			     struct bb_error *error)
{
	const struct bb_cluster_nics now = bb_cluster_nics_of(t);
	const int kept = change->nics > 0 && change->nics < now.n ? change->nics : now.n;
	const int nics = change->nics > 0 ? change->nics : now.n;
	bool serves[BB_MOST_DEVICES];

	if (change->nics == 0 && change->nic_Mbps == 0 && change->layer == BB_LAYER_UNKNOWN)
		return BB_OK;
	if (now.n == 0)
		return bb_fail(error, BB_EUSAGE, "%s has no NIC whose number or rate could differ",
			       t->name);
	for (int d = 0; d < t->ndevices; d++)
		serves[d] = bb_nic_serves(t, gpus_of(t), d);
	for (int d = 0, i = 0; d < t->ndevices; d++) {
		const int64_t each = change->nic_Mbps > 0 ? change->nic_Mbps : now.Mbps / now.n;

		if (!serves[d]) {
			/* Else the GPUs that lose theirs would take those for storage. */
			if (t->devices[d].kind == BB_NIC && kept < now.n)
				t->devices[d].state = BB_STATE_DOWN;
			continue;
		}
		if (i * kept % now.n >= kept)
			t->devices[d].state = BB_STATE_DOWN;
		t->devices[d].rate_Mbps = each * nics / kept;
		if (change->layer != BB_LAYER_UNKNOWN)
			t->devices[d].layer = change->layer;
		i++;
	}
	return BB_OK;
}

bb_status bb_cluster_open(const char *text, bb_topology_parser *parse, struct bb_cluster **cluster,
			  struct bb_error *error)
{
	return bb_cluster_open_changed(text, &(struct bb_cluster_change){.nodes = 0}, parse,
				       cluster, error);
}

bb_status bb_cluster_open_changed(const char *text, const struct bb_cluster_change *change,
				  bb_topology_parser *parse, struct bb_cluster **cluster,
				  struct bb_error *error)
{
	struct bb_cluster *c = calloc(1, sizeof(*c));
	const struct reading r = {c, parse, error};
	char name[BB_SETTING_LINE], path[BB_SHARE_PATH];
	const double *f = c ? c->figures : NULL;
	int length, nodes = 0;
	bb_status st;

	if (!c)
		return bb_no_memory(error, "a cluster");
	snprintf(c->name, sizeof(c->name), "%s", text);
	BB_TRY(st, request_parse(text, &length, &nodes, error), out);
	snprintf(name, sizeof(name), "%.*s", length, text);
	/* A name that no system has is a file of a shelf or, with a dot or a slash, any file. */
	if (!bb_system_find(name) && bb_shelf_find(&bb_shelf_clusters, name, path))
		st = read_file(&r, path, false);
	else if (!bb_system_find(name) && strpbrk(name, "./"))
		st = read_file(&r, name, false);
	else
		st = read_system(&r, name);
	if (st == BB_OK && f[BB_FIGURE_NODE_RANKS] > BB_CLUSTER_NODE_RANKS)
		st = bb_fail(error, BB_EUSAGE, "%s: node_ranks %.0f is more than %d", name,
			     f[BB_FIGURE_NODE_RANKS], BB_CLUSTER_NODE_RANKS);
	else if (st == BB_OK && f[BB_FIGURE_POD_NODES] < f[BB_FIGURE_LEAF_NODES])
		st = bb_fail(error, BB_EUSAGE,
			     "%s: pod_nodes %.0f is below leaf_nodes %.0f; a pod holds leaves",
			     name, f[BB_FIGURE_POD_NODES], f[BB_FIGURE_LEAF_NODES]);
	if (st != BB_OK)
		goto out;
	if (nodes > 0)
		c->nodes = nodes;
	if (change->nodes > 0) {
		const int span = c->node->nvlink_nodes;
		const int domains = (change->nodes + span - 1) / span;

		c->nodes = change->nodes;
		c->node->nvlink_nodes = (c->nodes + domains - 1) / domains;
		c->node->nodes = c->nodes;
	}
	if (c->nodes == 0)
		c->nodes = c->node->nodes;
	BB_TRY(st, change_nics(c->node, change, error), out);
	BB_TRY(st, cluster_derive(c, error), out);
	c->gpu_rate = f[BB_FIGURE_GPU_RATE] *
		      (c->inside == BB_INSIDE_MEMORY ? 1 : f[BB_FIGURE_GPU_EFFICIENCY]);
	c->nic_rate = f[BB_FIGURE_NIC_RATE] * f[BB_FIGURE_NIC_EFFICIENCY];
	c->pairs = malloc((size_t)c->gpus * (size_t)c->gpus * sizeof(*c->pairs));
	if (!c->pairs)
		st = bb_no_memory(error, "a cluster");
	c->fabric = fabric_of(c);
	for (int i = 0; i < c->gpus * c->gpus && c->pairs; i++)
		c->pairs[i] = pair_of(c, i / c->gpus, i % c->gpus);
out:
	if (st == BB_OK)
		*cluster = c;
	else
		bb_cluster_free(c);
	return st;
}

/* ---- a cluster known by its links alone ----------------------------------------------- */

bb_status bb_cluster_of_links(struct bb_cluster **cluster, int nodes, int ranks,
			      const struct bb_cluster_link *inside,
			      const struct bb_cluster_link *between, struct bb_error *error)
{
	struct bb_cluster *c = calloc(1, sizeof(*c));

	*cluster = NULL;
	if (!c)
		return bb_no_memory(error, "a cluster");
	*c = (struct bb_cluster){
		.node = calloc(1, sizeof(*c->node)),
		.nodes = nodes,
		.gpus = ranks,
		.ranks = nodes * ranks,
		.domain = 1,
		.inside = ranks > 1 ? BB_INSIDE_LINKS : BB_INSIDE_NOTHING,
		.rails = ranks,
		.gpu_rate = inside->rate,
		.nic_rate = between->rate,
		.figures = {[BB_FIGURE_GPU_EFFICIENCY] = 1,
			    [BB_FIGURE_NIC_EFFICIENCY] = 1,
			    [BB_FIGURE_GPU_LATENCY] = inside->latency,
			    [BB_FIGURE_NET_LATENCY] = between->latency,
			    [BB_FIGURE_LEAF_NODES] = nodes,
			    [BB_FIGURE_POD_NODES] = nodes,
			    [BB_FIGURE_LEAF_TAPER] = 1,
			    [BB_FIGURE_POD_TAPER] = 1},
		.pairs = calloc((size_t)ranks * (size_t)ranks, sizeof(*c->pairs)),
	};
	if (!c->node || !c->pairs) {
		bb_cluster_free(c);
		return bb_no_memory(error, "a cluster");
	}
	snprintf(c->name, sizeof(c->name), "%d nodes of %d ranks", nodes, ranks);
	for (int i = 0; i < ranks; i++) {
		c->rail_of[i] = i;
		c->rail_gpus[i] = 1;
		for (int to = 0; to < ranks; to++)
			if (to != i)
				c->pairs[i * ranks + to] = (struct bb_fabric_pair){
					per_byte(inside->rate), inside->latency, BB_CLUSTER_NVLINK};
	}
	c->fabric = fabric_of(c);
	*cluster = c;
	return BB_OK;
}

/* ---- routes --------------------------------------------------------------------------- */

const char *bb_cluster_path_name(const struct bb_cluster *c, enum bb_cluster_path path)
{
	static const char *const names[BB_CLUSTER_PATHS] = {
		[BB_CLUSTER_SELF] = "self", [BB_CLUSTER_NVLINK] = "NVLink",
		[BB_CLUSTER_PCIE] = "PCIe", [BB_CLUSTER_MEMORY] = "memory",
		[BB_CLUSTER_LEAF] = "leaf", [BB_CLUSTER_POD] = "spine",
		[BB_CLUSTER_CORE] = "core",
	};

	return path == BB_CLUSTER_NVLINK && bb_topology_is_amd(c->node, 0) ? "xGMI" : names[path];
}

struct bb_cluster_route bb_cluster_route(const struct bb_cluster *c, int from, int to)
{
	const struct bb_fabric_route route = bb_fabric_route(&c->fabric, from, to);

	if (from == to)
		return (struct bb_cluster_route){BB_CLUSTER_SELF, INFINITY, 0};
	return (struct bb_cluster_route){
		.path = route.path,
		.rate = 1 / route.second_per_byte,
		.latency = route.latency,
	};
}

/* ---- text ----------------------------------------------------------------------------- */

void bb_cluster_describe(const struct bb_cluster *c, struct bb_strbuf *out)
{
	static const char *const inside[] = {[BB_INSIDE_SWITCH] = "NVSwitches",
					     [BB_INSIDE_LINKS] = "NVLinks between pairs",
					     [BB_INSIDE_PCIE] = "PCIe"};
	const int leaf = (int)c->figures[BB_FIGURE_LEAF_NODES];
	const int pod = (int)c->figures[BB_FIGURE_POD_NODES];

	bb_strbuf_addf(out, "room for %d rank%s on %d node%s of %s", c->ranks, bb_plural(c->ranks),
		       c->nodes, bb_plural(c->nodes), c->node->name);
	if (bb_cluster_loops_back(c))
		bb_strbuf_add(out, "; messages take the NICs within a node, too");
	else if (c->inside == BB_INSIDE_MEMORY)
		bb_strbuf_addf(out, "; shared memory, %.4g GB/s a rank", c->gpu_rate / 1e9);
	else if (c->inside != BB_INSIDE_NOTHING)
		bb_strbuf_addf(out, "; %s, %.4g GB/s a GPU",
			       c->inside == BB_INSIDE_LINKS && bb_topology_is_amd(c->node, 0)
				       ? "xGMI between pairs"
				       : inside[c->inside],
			       c->gpu_rate / 1e9);
	if (c->fabric.memory_second_per_byte > 0)
		bb_strbuf_addf(out, ", %.4g GB/s a package beyond %.4g MB of cache",
			       c->figures[BB_FIGURE_MEMORY_RATE] *
				       c->figures[BB_FIGURE_MEMORY_EFFICIENCY] / 1e9,
			       bb_cluster_cache(c) / 1e6);
	if (c->domain > 1)
		bb_strbuf_addf(out, ", shared by %d nodes", c->domain);
	if (c->nodes <= c->domain && !bb_cluster_loops_back(c))
		return;
	bb_strbuf_addf(out, "; %d rail%s of %.4g GB/s; leaves of %d node%s", c->rails,
		       bb_plural(c->rails), c->nic_rate / 1e9, leaf, bb_plural(leaf));
	if (c->nics != BB_NICS_INFINIBAND && c->figures[BB_FIGURE_NCCL_NIC_LATENCY] == 0 &&
	    bb_topology_count(c->node, BB_GPU) > 0 && !bb_topology_is_amd(c->node, 0))
		bb_strbuf_addf(out, "; nccl_nic_latency not stated%s",
			       c->nics >= BB_NICS_EFA ? ", EFA's usual one is used" : "");
	if (c->nodes > leaf)
		bb_strbuf_addf(out, ", taper %g", c->figures[BB_FIGURE_LEAF_TAPER]);
	if (c->nodes > pod)
		bb_strbuf_addf(out, "; pods of %d nodes, taper %g", pod,
			       c->figures[BB_FIGURE_POD_TAPER]);
}
