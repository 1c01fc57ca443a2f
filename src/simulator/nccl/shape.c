#include "simulator/nccl/shape.h"
#include "core/stats.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Members on nodes that share NVSwitches, which NCCL counts as one node; or the least of each
   number over several. */
struct domain {
	int n;             /* members */
	int nodes;         /* of the cluster; the most */
	int rails;         /* of all its nodes, that members use */
	double rail_share; /* the members' share of these rails, in rails */
	double least;      /* their smallest share of one of them */
	double each;       /* RAIL_SHARE per member */
	/* The lowest rate of a member's NVLinks to other members, where NVLinks join pairs; 0: they
	   do not connect all members. INFINITY: there are no such links, or one member. */
	double links;
	struct bb_cluster_slots slots; /* of its node with the slowest */
	bool some;                     /* not all GPUs of its nodes are members */
};

static int domain_of(const struct bb_cluster *cluster, int rank)
{
	return bb_cluster_node(cluster, rank) / cluster->domain;
}

/* ---- the members of a node ------------------------------------------------------------ */

/* The GPUs of SET that GPU has NVLinks to, and the *RATE of all these links. */
static uint64_t linked_gpus(const struct bb_cluster *c, int gpu, uint64_t set, double *rate)
{
	uint64_t found = 0;

	*rate = 0;
	for (int other = 0; other < c->gpus; other++) {
		const struct bb_fabric_pair *pair = &c->pairs[gpu * c->gpus + other];

		if (!(set >> other & 1) || pair->path != BB_CLUSTER_NVLINK)
			continue;
		*rate += 1 / pair->second_per_byte;
		found |= UINT64_C(1) << other;
	}
	return found;
}

/* The member links of struct domain for the GPUs of SET. */
static double links_among(const struct bb_cluster *c, uint64_t set)
{
	uint64_t joined = set & -set, before = 0;
	double least = INFINITY, rate;

	if (c->inside != BB_INSIDE_LINKS || joined == set)
		return INFINITY;
	for (int gpu = 0; gpu < c->gpus; gpu++)
		if (set >> gpu & 1) {
			linked_gpus(c, gpu, set, &rate);
			least = fmin(least, rate);
		}
	while (joined != before) {
		before = joined;
		for (int gpu = 0; gpu < c->gpus; gpu++)
			if (before >> gpu & 1)
				joined |= linked_gpus(c, gpu, set, &rate);
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

/* Lower the links of ALL to those of ONE. */
static void combine_links(struct domain *all, double links, struct bb_cluster_slots slots)
{
	all->links = fmin(all->links, links);
	all->slots.through_host |= slots.through_host;
	all->slots.alone = fmin(all->slots.alone, slots.alone);
	all->slots.together = fmin(all->slots.together, slots.together);
}

/* Add the N MEMBERS of one node to DOMAIN. */
static void count_node(const struct bb_cluster *c, int world, const int *members, int n,
		       struct domain *domain)
{
	const int node = bb_cluster_node(c, *members);
	struct bb_cluster_slots slots = {false, INFINITY, INFINITY};
	int on[BB_MOST_GPUS] = {0}; /* [rail]: members */
	uint64_t gpus = 0;

	for (int i = 0; i < n; i++) {
		gpus |= UINT64_C(1) << members[i] % c->gpus;
		if (c->rails)
			on[bb_cluster_rail(c, members[i])]++;
	}
	for (int rail = 0; rail < c->rails; rail++) {
		const double part =
			on[rail] ? (double)on[rail] / count_on_rail(c, world, node, rail, on[rail])
				 : 0;

		domain->rails += on[rail] > 0;
		domain->rail_share += part;
		domain->least = on[rail] ? fmin(domain->least, part) : domain->least;
	}
	if (c->inside != BB_INSIDE_SWITCH)
		slots = bb_cluster_slots(c, gpus);
	combine_links(domain, links_among(c, gpus), slots);
	domain->n += n;
	domain->nodes++;
}

/* ---- the whole group ------------------------------------------------------------------ */

/* Count the domains of N MEMBERS, which are sorted. *LEAST combines them. */
static int count_domains(const struct bb_cluster *c, int world, const int *members, int n,
			 struct domain *least)
{
	const struct bb_cluster_slots unlimited = {false, INFINITY, INFINITY};
	int domains = 0;

	*least = (struct domain){.n = n,
				 .rails = INT_MAX,
				 .rail_share = INFINITY,
				 .least = 1,
				 .each = INFINITY,
				 .links = INFINITY,
				 .slots = unlimited};
	for (int at = 0; at < n; domains++) {
		const int which = domain_of(c, members[at]);
		struct domain next = {.least = 1, .links = INFINITY, .slots = unlimited};

		while (at < n && domain_of(c, members[at]) == which) {
			const int node = bb_cluster_node(c, members[at]);
			int end = at;

			while (end < n && bb_cluster_node(c, members[end]) == node)
				end++;
			count_node(c, world, &members[at], end - at, &next);
			at = end;
		}
		least->n = next.n < least->n ? next.n : least->n;
		least->nodes = next.nodes > least->nodes ? next.nodes : least->nodes;
		least->rails = next.rails < least->rails ? next.rails : least->rails;
		least->rail_share = fmin(least->rail_share, next.rail_share);
		least->least = fmin(least->least, next.least);
		least->each = fmin(least->each, next.rail_share / next.n);
		least->some |= next.n < next.nodes * c->gpus;
		combine_links(least, next.links, next.slots);
	}
	return domains;
}

/* Set SLOWDOWN to the cost of tapered uplinks for N MEMBERS, which are sorted and lie in DOMAINS
   domains. Messages change among RAILS on the uplinks of leaves. */
static void find_tapers(struct bb_nccl_slowdown *slowdown, const struct bb_cluster *cluster,
			const int *members, int n, int domains, int rails)
{
	static const struct {
		enum bb_figure nodes, taper;
	} levels[] = {{BB_FIGURE_LEAF_NODES, BB_FIGURE_LEAF_TAPER},
		      {BB_FIGURE_POD_NODES, BB_FIGURE_POD_TAPER}};

	for (size_t level = 0; level < sizeof(levels) / sizeof(*levels); level++) {
		const int below = (int)cluster->figures[levels[level].nodes] / cluster->domain;
		int most = 1, here = 0, before = -1;

		/* A domain may be larger than a leaf: then BELOW is 0. */
		for (int i = 0; i < n && below > 1; i++) {
			const int domain = domain_of(cluster, members[i]);

			if (domain == before)
				continue;
			here = before >= 0 && domain / below == before / below ? here + 1 : 1;
			most = here > most ? here : most;
			before = domain;
		}
		bb_nccl_taper(slowdown, domains, most, level == 0 ? rails : 1,
			      cluster->figures[levels[level].taper]);
	}
}

bool bb_nccl_shape_make(struct bb_nccl_machine *machine, const struct bb_cluster *cluster,
			int world, const int *members, int n)
{
	const double *f = cluster->figures;
	const struct bb_host *host = &cluster->node->host;
	const double share = f[BB_FIGURE_GPU_EFFICIENCY];
	int *sorted = malloc((size_t)n * sizeof(*sorted)), domains;
	struct domain least;

	if (!sorted)
		return false;
	memcpy(sorted, members, (size_t)n * sizeof(*sorted));
	bb_stats_sort_ints(sorted, (size_t)n);
	domains = count_domains(cluster, world, sorted, n, &least);
	*machine = (struct bb_nccl_machine){
		.ranks = n,
		.nodes = domains,
		.fewest = least.n,
		.some_gpus = least.some,
		.wide = least.nodes > 1,
		/* A node with one member has no links within. */
		.nvlink = cluster->inside == BB_INSIDE_SWITCH ||
			  (cluster->inside == BB_INSIDE_LINKS && least.links > 0),
		.nvswitch = cluster->inside == BB_INSIDE_SWITCH,
		.nvls_off = (f[BB_FIGURE_NCCL_NVLS] < 0),
		.near_nics = cluster->near_nics,
		.staged = cluster->staged,
		.amd = host->npackages && strcmp(host->packages[0].vendor, "AuthenticAMD") == 0,
		.x86 = strcmp(host->arch, "x86_64") == 0,
		.gpu_rate = cluster->inside == BB_INSIDE_NOTHING
				    ? INFINITY
				    : fmin(cluster->gpu_rate, least.links) / share,
		.gpu_share = share,
		.rails = least.rails,
		.nic_rate = cluster->nic_rate / f[BB_FIGURE_NIC_EFFICIENCY],
		.net_rate = least.rail_share * cluster->nic_rate,
		.rank_rate = least.each * cluster->nic_rate,
		.rail_rate = least.least * cluster->nic_rate,
		.nic_latency = f[BB_FIGURE_NCCL_NIC_LATENCY],
		.nics = cluster->nics,
		.net_fill = f[BB_FIGURE_NCCL_TREE_FILL],
		.issue = f[BB_FIGURE_NCCL_ISSUE],
		.process_gpus = f[BB_FIGURE_NCCL_PROCESS_GPUS],
	};
	find_tapers(&machine->taper, cluster, sorted, n, domains,
		    machine->nvlink ? 1 : least.rails);
	free(sorted);
	if (!machine->nvlink && cluster->inside != BB_INSIDE_NOTHING) {
		/* The rates of PCIe. A gpu_rate that is given replaces that of the slots; members
		   below a switch share it alike. */
		machine->through_host = least.slots.through_host;
		machine->alone_rate = cluster->inside == BB_INSIDE_PCIE ? cluster->gpu_rate / share
									: least.slots.alone;
		machine->gpu_rate = machine->alone_rate;
		if (least.slots.together < least.slots.alone)
			machine->gpu_rate *= least.slots.together / least.slots.alone;
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

/* How many times as long the network takes when RAIL of NODE is lost: groups like this one that
   used it share the next rail with the groups there. */
static double lost_rail_factor(const struct bb_cluster *cluster, int world, const int *members,
			       int n, int node, int rail)
{
	const int next = (rail + 1) % cluster->rails;
	const int mine = count_leaving(cluster, members, n, node, rail);
	const int others = count_leaving(cluster, members, n, node, next);
	double here, there, factor = 1;

	if (mine + others == 0)
		return 1;
	here = (double)count_on_rail(cluster, world, node, rail, mine) / (mine ? mine : others);
	there = (double)count_on_rail(cluster, world, node, next, others) /
		(others ? others : mine);
	if (mine)
		factor = (here + there) / here;
	return others ? fmax(factor, (here + there) / there) : factor;
}

void bb_nccl_shape_apply_flaw(struct bb_nccl_machine *machine, const struct bb_cluster *cluster,
			      const struct bb_fabric_flaw *flaw, int world, const int *members,
			      int n)
{
	double factor;

	if (!flaw)
		return;
	if (flaw->factor == 0)
		factor = lost_rail_factor(cluster, world, members, n, flaw->node, flaw->rail);
	else
		factor = count_leaving(cluster, members, n, flaw->node, flaw->rail) ? flaw->factor
										    : 1;
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
