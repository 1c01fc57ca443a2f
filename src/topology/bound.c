/*
 * bound.c - bounds of ranks on several machines, from those within and between machines.
 */
#include "core/units.h"
#include "topology/bound_parts.h"
#include "topology/rates.h"

#include <stdio.h>
#include <stdlib.h>

const char *bb_bound_name(enum bb_bound what)
{
	static const char *const names[] = {"pair", "ring", "tree", "NVLS", "SHARP", "all-to-all"};

	return names[what];
}

struct bb_rank_place *bb_all_gpus(const struct bb_topology *t, int nodes, int *n)
{
	const int gpus = bb_topology_count(t, BB_GPU);
	struct bb_rank_place *ranks = calloc((size_t)nodes * (size_t)gpus + 1, sizeof(*ranks));

	*n = nodes * gpus;
	for (int i = 0; ranks && i < *n; i++)
		ranks[i] = (struct bb_rank_place){.node = i / gpus, .device = i % gpus};
	return ranks;
}

/* The ranks by node. */
struct world {
	const struct bb_topology *t;
	int n;
	int nodes;     /* from 0 to the last one with a rank */
	bb_gpus *gpus; /* of each node */
	int *hosts;    /* ranks on the host of each node */
	bool on_host;  /* all ranks are on hosts */
	int span;      /* nodes that share NVSwitches, if all ranks are on these; else 1 */
};

/* A node, or the nodes that share NVSwitches. */
struct group {
	int ranks;
	bb_gpus set; /* GPUs of any of its nodes */
	struct bb_egress out;
	double GBps; /* payload out of the group */
};

static bb_status place_ranks(struct world *w, const struct bb_rank_place *ranks,
			     struct bb_limit *limit)
{
	int on_host = 0;

	for (int i = 0; i < w->n; i++) {
		const struct bb_rank_place r = ranks[i];

		if (r.node < 0 || r.node >= w->t->nodes)
			return bb_limit_refuse(limit, BB_EUSAGE,
					       "rank %d is on node %d, of %d nodes", i, r.node,
					       w->t->nodes);
		if (r.device == BB_ON_HOST) {
			w->hosts[r.node]++;
			on_host++;
			continue;
		}
		if (r.device < 0 || r.device >= w->t->ndevices ||
		    w->t->devices[r.device].kind != BB_GPU)
			return bb_limit_refuse(limit, BB_EUSAGE,
					       "rank %d is on device %d, which is no GPU", i,
					       r.device);
		if (w->gpus[r.node] >> r.device & 1)
			return bb_limit_refuse(limit, BB_EUSAGE, "two ranks are on %s of node %d",
					       w->t->devices[r.device].name, r.node);
		w->gpus[r.node] |= 1ull << r.device;
	}
	w->on_host = on_host == w->n;
	if (on_host > 0 && !w->on_host && w->n != 2)
		return bb_limit_refuse(limit, BB_EUNSUPPORTED,
				       "some ranks are on GPUs, others on the host");
	return BB_OK;
}

/* Whether every rank's GPU is on NVSwitches that several nodes share. */
static bool shares_switches(const struct world *w)
{
	if (w->on_host || w->t->nvlink_nodes <= 1)
		return false;
	for (int node = 0; node < w->nodes; node++)
		for (bb_gpus s = w->gpus[node]; s; s &= s - 1)
			if (bb_topology_nvlinks(w->t, __builtin_ctzll(s), BB_PEER_SWITCH) == 0)
				return false;
	return true;
}

static bb_status open_world(struct world *w, const struct bb_topology *t,
			    const struct bb_rank_place *ranks, int n, struct bb_limit *limit)
{
	bb_status st;

	*w = (struct world){.t = t, .n = n};
	for (int i = 0; i < n; i++)
		if (ranks[i].node >= w->nodes && ranks[i].node < t->nodes)
			w->nodes = ranks[i].node + 1;
	w->gpus = calloc((size_t)w->nodes + 1, sizeof(*w->gpus));
	w->hosts = calloc((size_t)w->nodes + 1, sizeof(*w->hosts));
	if (!w->gpus || !w->hosts)
		return bb_limit_refuse(limit, BB_EINTERNAL, "out of memory");
	st = place_ranks(w, ranks, limit);
	if (st == BB_OK)
		w->span = shares_switches(w) ? t->nvlink_nodes : 1;
	return st;
}

static void close_world(struct world *w)
{
	free(w->gpus);
	free(w->hosts);
}

static double egress_GBps(const struct bb_egress *e)
{
	return e->GBps < e->gpus_GBps ? e->GBps : e->gpus_GBps;
}

/* The group that begins at node FIRST. LAST_OUT is the egress of LAST_SET, kept because most nodes
   have the same set. */
static struct group read_group(const struct world *w, int first, bb_gpus *last_set,
			       struct bb_egress *last_out)
{
	struct group g = {0};

	for (int node = first; node < first + w->span && node < w->nodes; node++) {
		bb_gpus set = w->gpus[node];
		int ranks = __builtin_popcountll(set) + w->hosts[node];

		if (ranks == 0)
			continue;
		if (set != *last_set) {
			*last_out = bb_egress_of(w->t, set);
			*last_set = set;
		}
		g.ranks += ranks;
		g.set |= set;
		g.GBps += egress_GBps(last_out);
		g.out.nics += last_out->nics;
		g.out.rate_Mbps = last_out->rate_Mbps;
		g.out.layer = last_out->layer;
		g.out.assumed = last_out->assumed;
		g.out.GBps += last_out->GBps;
		g.out.gpus_GBps += last_out->gpus_GBps;
	}
	return g;
}

/* ---- within a group ------------------------------------------------------------------------ */

/*
 * The factor from the rate of a GPU's links to the bound of WHAT among N ranks, of which G are in
 * this group (docs/topology.md):
 * - ring: each link carries the bus bandwidth itself.
 * - tree: each rank sends 2(g-1)/g of the data inside the group; busbw = size/time x 2(n-1)/n.
 * - NVLS: each GPU sends and receives S + S/g.
 * - all-to-all: (g-1)/(n-1) of what a rank sends stays inside.
 */
static double inside_factor(enum bb_bound what, double g, double n)
{
	switch (what) {
	case BB_BOUND_TREE:
		return g / (g - 1) * (n - 1) / n;
	case BB_BOUND_NVLS:
		return g / (g + 1) * 2 * (n - 1) / n;
	case BB_BOUND_ALLTOALL:
		return (n - 1) / (g - 1);
	default:
		return 1;
	}
}

static bool switches_reduce(const struct bb_topology *t, bb_gpus set)
{
	for (bb_gpus s = set; s; s &= s - 1) {
		const struct bb_link *l = bb_topology_link(t, __builtin_ctzll(s), BB_NVLINK);

		if (!l || l->version < 4)
			return false;
	}
	return true;
}

/* What SHARP uses within a group: the better of NVLS and trees. */
static enum bb_bound inside_of_sharp(const struct world *w, const struct group *g)
{
	const bool better = inside_factor(BB_BOUND_NVLS, g->ranks, w->n) >
			    inside_factor(BB_BOUND_TREE, g->ranks, w->n);

	return better && bb_fabric_of(w->t, g->set) == BB_FABRIC_SWITCH &&
			       switches_reduce(w->t, g->set)
		       ? BB_BOUND_NVLS
		       : BB_BOUND_TREE;
}

static bb_status bound_inside(const struct world *w, const struct group *g, enum bb_bound of,
			      struct bb_limit *limit)
{
	const enum bb_bound what = of == BB_BOUND_SHARP ? inside_of_sharp(w, g) : of;
	struct bb_limit in = {.GBps = INFINITY};
	const double factor = inside_factor(what, g->ranks, w->n);
	enum bb_fabric_kind fabric = bb_fabric_of(w->t, g->set);
	bb_status st;

	if (w->t->links_unknown)
		return bb_limit_refuse(limit, BB_EUNSUPPORTED, BB_NO_LINKS);
	if (what == BB_BOUND_NVLS && (fabric != BB_FABRIC_SWITCH || !switches_reduce(w->t, g->set)))
		return bb_limit_refuse(limit, BB_EUNSUPPORTED,
				       "NVLS needs NVSwitches that reduce: NVLink4 or newer");
	if (fabric == BB_FABRIC_SWITCH)
		st = bb_bound_switch(w->t, g->set, &in);
	else if (fabric == BB_FABRIC_MESH)
		st = bb_bound_mesh(w->t, g->set, what, &in);
	else
		st = bb_bound_pcie(w->t, g->set, what, &in);
	if (st != BB_OK)
		*limit = in;
	else
		bb_limit_to(limit, in.GBps,
			    fabric != BB_FABRIC_SWITCH && g->ranks == w->n ? 1 : factor, what, "%s",
			    in.why);
	return st;
}

/* ---- between groups ------------------------------------------------------------------------ */

static double outside_factor(enum bb_bound what, double g, double n, double k)
{
	switch (what) {
	case BB_BOUND_TREE:
	case BB_BOUND_NVLS:
		return k / (k - 1) * (n - 1) / n;
	case BB_BOUND_SHARP: /* a node sends its part once and receives the result */
		return 2 * (n - 1) / n;
	case BB_BOUND_ALLTOALL:
		return (n - 1) / (g * (n - g));
	default:
		return 1;
	}
}

static void describe_egress(const struct group *g, char text[200])
{
	const struct bb_egress *e = &g->out;
	const char *const layer = bb_nic_layer_name(e->layer);
	int at;

	if (e->gpus_GBps < e->GBps) {
		snprintf(text, 200, "its GPUs' PCIe, %s GB/s payload", GBPS(g->GBps));
		return;
	}
	at = snprintf(text, 200, "%d NIC%s", e->nics, bb_plural(e->nics));
	if (e->rate_Mbps > 0)
		at += snprintf(text + at, (size_t)(200 - at), " × %.4g Gb/s%s%s%s × %.3g payload",
			       (double)e->rate_Mbps / 1000, *layer ? " " : "", layer,
			       e->assumed ? " (maximum of its model)" : "", bb_nic_share(e->layer));
	snprintf(text + at, (size_t)(200 - at), " = %s GB/s", GBPS(g->GBps));
}

static bb_status bound_outside(const struct world *w, const struct group *g, int groups,
			       enum bb_bound what, struct bb_limit *limit)
{
	const double factor = outside_factor(what, g->ranks, w->n, groups);
	char text[200];

	if (g->out.nics == 0)
		return bb_limit_refuse(limit, BB_EUNSUPPORTED, "no NIC whose rate is known");
	if (what == BB_BOUND_SHARP && g->out.layer != BB_INFINIBAND)
		return bb_limit_refuse(limit, BB_EUNSUPPORTED, "SHARP needs InfiniBand");
	describe_egress(g, text);
	bb_limit_to(limit, g->GBps, factor, what, "out of %s: %s",
		    w->span > 1 ? "an NVLink domain" : "a node", text);
	return BB_OK;
}

/* ---- all together --------------------------------------------------------------------------- */

static int count_groups(const struct world *w)
{
	bb_gpus last_set = ~0ull;
	struct bb_egress last_out = {0};
	int groups = 0;

	for (int first = 0; first < w->nodes; first += w->span)
		groups += read_group(w, first, &last_set, &last_out).ranks > 0;
	return groups;
}

static bb_status bound_all(const struct world *w, enum bb_bound what, struct bb_limit *limit)
{
	const int groups = count_groups(w);
	struct group last = {0};
	bb_gpus last_set = ~0ull;
	struct bb_egress last_out = {0};
	bb_status st = BB_OK;

	if (groups == 1 && w->on_host)
		return bb_limit_refuse(limit, BB_EUNSUPPORTED,
				       "ranks share one host's memory: no link limits them");
	if (groups == 1 && what == BB_BOUND_SHARP)
		return bb_limit_refuse(limit, BB_EUNSUPPORTED,
				       "SHARP needs several nodes, on InfiniBand");
	for (int first = 0; first < w->nodes; first += w->span) {
		struct group g = read_group(w, first, &last_set, &last_out);

		if (g.ranks == 0 || (g.ranks == last.ranks && g.set == last.set))
			continue;
		if (g.ranks > 1 && !w->on_host)
			BB_TRY(st, bound_inside(w, &g, what, limit), out);
		if (what == BB_BOUND_NVLS && g.ranks == 1)
			return bb_limit_refuse(limit, BB_EUNSUPPORTED,
					       "NVLS needs several GPUs on each node");
		if (groups > 1)
			BB_TRY(st, bound_outside(w, &g, groups, what, limit), out);
		last = g;
	}
out:
	return st;
}

static bb_status bound_pair(const struct world *w, const struct bb_rank_place *ranks,
			    struct bb_limit *limit)
{
	int a = ranks[0].device, b = ranks[1].device;

	/* GPUs on shared switches are like those of one node. */
	if (ranks[0].node != ranks[1].node &&
	    (w->span == 1 || ranks[0].node / w->span != ranks[1].node / w->span))
		return bound_all(w, BB_BOUND_PAIR, limit);
	if (a == BB_ON_HOST) {
		a = b;
		b = BB_ON_HOST;
	}
	if (a == BB_ON_HOST)
		return bb_limit_refuse(limit, BB_EUNSUPPORTED,
				       "ranks share one host's memory: no link limits them");
	if (a == b) /* the same GPU of two nodes: like any other on these switches */
		b = a == 0 ? bb_topology_count(w->t, BB_GPU) - 1 : 0;
	return bb_bound_pair(w->t, a, b, limit);
}

bb_status bb_speed_of_light(const struct bb_topology *t, const struct bb_rank_place *ranks, int n,
			    enum bb_bound what, double *GBps, struct bb_strbuf *why)
{
	struct bb_limit limit = {.GBps = INFINITY};
	struct world w;
	bb_status st;

	if (n < 2 || (what == BB_BOUND_PAIR && n != 2)) {
		*GBps = 0;
		bb_strbuf_addf(why, "%s, not %d",
			       what == BB_BOUND_PAIR ? "a pair has two ranks"
						     : "a collective has two ranks or more",
			       n);
		return BB_EUSAGE;
	}
	BB_TRY(st, open_world(&w, t, ranks, n, &limit), out);
	st = what == BB_BOUND_PAIR ? bound_pair(&w, ranks, &limit) : bound_all(&w, what, &limit);
out:
	close_world(&w);
	bb_strbuf_add(why, limit.why);
	*GBps = limit.GBps;
	return st;
}
