#include "simulator/nccl/model.h"
#include "core/stats.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int domain_of(const struct bb_cluster *cluster, int rank)
{
	return bb_cluster_node(cluster, rank) / cluster->domain;
}

/* ---- the members of a node ------------------------------------------------------------ */

/* The links among the members of a node; of several nodes, the least. */
struct links {
	/* The lowest rate of a member's NVLinks to other members, where NVLinks join pairs; 0: they
	   do not connect all members. INFINITY: there are no such links, or one member. */
	double nvlink;
	struct bb_cluster_slots slots;
};

/* The nvlink of struct links of the GPUs of SET. */
static double nvlink_among(const struct bb_cluster *c, uint64_t set)
{
	uint64_t linked[BB_MOST_GPUS] = {0}, joined = set & -set, before = 0;
	double least = INFINITY;

	if (c->inside != BB_INSIDE_LINKS || joined == set)
		return INFINITY;
	for (int gpu = 0; gpu < c->gpus; gpu++) {
		double rate = 0;

		for (int other = 0; other < c->gpus; other++) {
			const struct bb_fabric_pair *pair = &c->pairs[gpu * c->gpus + other];

			if (!(set >> other & 1) || pair->path != BB_CLUSTER_NVLINK)
				continue;
			rate += 1 / pair->second_per_byte;
			linked[gpu] |= UINT64_C(1) << other;
		}
		least = set >> gpu & 1 ? fmin(least, rate) : least;
	}
	while (joined != before) {
		before = joined;
		for (int gpu = 0; gpu < c->gpus; gpu++)
			joined |= before >> gpu & 1 ? linked[gpu] : 0;
	}
	return joined == set ? least : 0;
}

/* Ranks of the world on RAIL of NODE; WORLD 0: the MEMBERS alone. */
static int count_on_rail(const struct bb_cluster *c, int world, int node, int rail, int members)
{
	const int end = (node + 1) * c->gpus;
	int on = world > 0 ? 0 : members;

	for (int rank = node * c->gpus; rank < end && rank < world; rank++)
		on += bb_cluster_rail(c, rank) == rail;
	return on;
}

/* ---- the whole group ------------------------------------------------------------------ */

/* Set M's nodes, as NCCL counts them, and what is the least of any: of the N MEMBERS, sorted. */
static struct links find_nodes(const struct bb_cluster *c, int world, const int *members, int n,
			       struct bb_nccl_machine *m)
{
	struct links links = {INFINITY, {false, INFINITY, INFINITY}};
	int first = 0, nodes = 0, rails = 0; /* of the domain so far */
	double share = 0;                    /* of its rails, in rails */

	m->fewest = n;
	m->rails = INT_MAX;
	m->net_rate = m->rank_rate = INFINITY;
	m->rail_rate = c->nic_rate;
	for (int at = 0; at < n;) {
		const int node = bb_cluster_node(c, members[at]);
		int on[BB_MOST_GPUS] = {0}; /* [rail]: members */
		uint64_t gpus = 0;

		for (; at < n && bb_cluster_node(c, members[at]) == node; at++) {
			gpus |= UINT64_C(1) << members[at] % c->gpus;
			if (c->rails)
				on[bb_cluster_rail(c, members[at])]++;
		}
		nodes++;
		for (int rail = 0; rail < c->rails; rail++) {
			const int all = count_on_rail(c, world, node, rail, on[rail]);
			const double part = on[rail] ? (double)on[rail] / all : 0;

			rails += on[rail] > 0;
			share += part;
			if (on[rail])
				m->rail_rate = fmin(m->rail_rate, part * c->nic_rate);
		}
		links.nvlink = fmin(links.nvlink, nvlink_among(c, gpus));
		if (c->inside != BB_INSIDE_SWITCH) {
			const struct bb_cluster_slots slots = bb_cluster_slots(c, gpus);

			links.slots.through_host |= slots.through_host;
			links.slots.alone = fmin(links.slots.alone, slots.alone);
			links.slots.together = fmin(links.slots.together, slots.together);
		}
		if (at < n && domain_of(c, members[at]) == domain_of(c, members[first]))
			continue;
		m->nodes++;
		m->fewest = at - first < m->fewest ? at - first : m->fewest;
		m->wide |= nodes > 1;
		m->some_gpus |= at - first < nodes * c->gpus;
		m->rails = rails < m->rails ? rails : m->rails;
		m->net_rate = fmin(m->net_rate, share * c->nic_rate);
		m->rank_rate = fmin(m->rank_rate, share / (at - first) * c->nic_rate);
		first = at;
		nodes = rails = 0;
		share = 0;
	}
	return links;
}

/* Set the taper of MACHINE to the cost of uplinks for its ranks, the MEMBERS, which are sorted.
   Without NVLinks messages change among rails on the uplinks of leaves. */
static void find_tapers(struct bb_nccl_machine *machine, const struct bb_cluster *cluster,
			const int *members)
{
	const int rails = machine->nvlink ? 1 : machine->rails;
	static const struct {
		enum bb_figure nodes, taper;
	} levels[] = {{BB_FIGURE_LEAF_NODES, BB_FIGURE_LEAF_TAPER},
		      {BB_FIGURE_POD_NODES, BB_FIGURE_POD_TAPER}};

	for (size_t level = 0; level < sizeof(levels) / sizeof(*levels); level++) {
		const int below = (int)cluster->figures[levels[level].nodes] / cluster->domain;
		int most = 1, here = 0, before = -1;

		/* A domain may be larger than a leaf: then BELOW is 0. */
		for (int i = 0; i < machine->ranks && below > 1; i++) {
			const int domain = domain_of(cluster, members[i]);

			if (domain == before)
				continue;
			here = before >= 0 && domain / below == before / below ? here + 1 : 1;
			most = here > most ? here : most;
			before = domain;
		}
		bb_nccl_taper(&machine->taper, machine->nodes, most, level == 0 ? rails : 1,
			      cluster->figures[levels[level].taper]);
	}
}

bool bb_nccl_shape_make(struct bb_nccl_machine *machine, const struct bb_cluster *cluster,
			int world, const int *members, int n)
{
	const double *f = cluster->figures;
	const struct bb_host *host = &cluster->node->host;
	const double share = f[BB_FIGURE_GPU_EFFICIENCY];
	int *sorted = malloc((size_t)n * sizeof(*sorted));

	if (!sorted)
		return false;
	memcpy(sorted, members, (size_t)n * sizeof(*sorted));
	bb_stats_sort_ints(sorted, (size_t)n);
	*machine = (struct bb_nccl_machine){
		.ranks = n,
		.nvswitch = cluster->inside == BB_INSIDE_SWITCH,
		.nvls_off = (f[BB_FIGURE_NCCL_NVLS] < 0),
		.near_nics = cluster->near_nics,
		.staged = cluster->staged,
		.amd = host->npackages && strcmp(host->packages[0].vendor, "AuthenticAMD") == 0,
		.x86 = strcmp(host->arch, "x86_64") == 0,
		.gpu_share = share,
		.nic_rate = cluster->nic_rate / f[BB_FIGURE_NIC_EFFICIENCY],
		.nic_latency = f[BB_FIGURE_NCCL_NIC_LATENCY],
		.nics = cluster->nics,
		.net_fill = f[BB_FIGURE_NCCL_TREE_FILL],
		.issue = f[BB_FIGURE_NCCL_ISSUE],
		.process_gpus = f[BB_FIGURE_NCCL_PROCESS_GPUS],
	};
	const struct links links = find_nodes(cluster, world, sorted, n, machine);
	/* A node with one member has no links within. */
	machine->nvlink =
		machine->nvswitch || (cluster->inside == BB_INSIDE_LINKS && links.nvlink > 0);
	machine->gpu_rate = cluster->inside == BB_INSIDE_NOTHING
				    ? INFINITY
				    : fmin(cluster->gpu_rate, links.nvlink) / share;
	find_tapers(machine, cluster, sorted);
	free(sorted);
	if (!machine->nvlink && cluster->inside != BB_INSIDE_NOTHING) {
		/* The rates of PCIe. A gpu_rate that is given replaces that of the slots; members
		   below a switch share it alike. */
		machine->through_host = links.slots.through_host;
		machine->alone_rate = cluster->inside == BB_INSIDE_PCIE ? cluster->gpu_rate / share
									: links.slots.alone;
		machine->gpu_rate = machine->alone_rate;
		if (links.slots.together < links.slots.alone)
			machine->gpu_rate *= links.slots.together / links.slots.alone;
	}
	if (n == 1)
		machine->unknown = "NCCL does nothing for one rank in place and copies within its "
				   "GPU's memory out of place; that is not modelled";
	return true;
}

/* ---- faults --------------------------------------------------------------------------- */

/* How many of the MEMBERS leave NODE by RAIL (-1: by any). */
static int count_leaving(const struct bb_cluster *cluster, const int *members, int n, int node,
			 int rail)
{
	int leaving = 0;

	for (int i = 0; i < n; i++)
		leaving += bb_cluster_node(cluster, members[i]) == node &&
			   (rail < 0 || bb_cluster_rail(cluster, members[i]) == rail);
	return leaving;
}

void bb_nccl_shape_apply_flaw(struct bb_nccl_machine *machine, const struct bb_cluster *c,
			      const struct bb_fabric_flaw *flaw, int world, const int *members,
			      int n)
{
	double factor = 1;

	if (!flaw)
		return;
	const int mine = count_leaving(c, members, n, flaw->node, flaw->rail);
	if (flaw->factor > 0) {
		factor = mine ? flaw->factor : 1;
	} else {
		/* Groups like this one that used the lost rail share the next one with those there.
		 */
		const int next = (flaw->rail + 1) % c->rails;
		const int others = count_leaving(c, members, n, flaw->node, next);
		double here = count_on_rail(c, world, flaw->node, flaw->rail, mine);
		double there = count_on_rail(c, world, flaw->node, next, others);

		here /= mine ? mine : others;
		there /= others ? others : mine;
		if (mine)
			factor = (here + there) / here;
		if (others)
			factor = fmax(factor, (here + there) / there);
	}
	machine->net_fault = factor;
	if (flaw->rail < 0)
		machine->node_fault = factor;
}

/* The number of the NIC by which RANK leaves its domain. */
static int nic_of(const struct bb_cluster *cluster, int rank)
{
	return bb_cluster_node(cluster, rank) % cluster->domain * cluster->rails +
	       bb_cluster_rail(cluster, rank);
}

bool bb_nccl_shape_apply_slow_path(struct bb_nccl_machine *machine,
				   const struct bb_cluster *cluster, double factor, int from,
				   int to, const int *members, int n)
{
	const int one = domain_of(cluster, from), other = domain_of(cluster, to);
	const bool meet = nic_of(cluster, from) == nic_of(cluster, to) || !machine->nvlink;
	bool *const has = calloc((size_t)cluster->nodes, sizeof(*has)); /* [domain]: members */
	struct bb_nccl_slow_path path = {.factor = factor};
	int ends = 0;

	if (!has)
		return false;
	for (int i = 0; i < n; i++) {
		has[domain_of(cluster, members[i])] = true;
		ends += members[i] == from || members[i] == to;
	}
	for (int d = 0; d < cluster->nodes; d++) {
		path.from += d < one && has[d];
		path.to += d < other && has[d];
	}
	free(has);
	if (ends == 2 && (one == other || meet))
		machine->slow_path = path;
	return true;
}
