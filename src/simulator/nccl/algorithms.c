/*
 * algorithms.c - NCCL's algorithms and protocols as closed forms. The formulas of the tuner are
 * those of NCCL's src/graph/tuning.cc; model.h derives the others.
 */
#include "simulator/nccl/model.h"

#include <math.h>
#include <string.h>

struct view {
	const struct bb_nccl_constants *c;
	const struct bb_nccl_machine *m;
	const struct bb_collective *collective;
	enum bb_nccl_algorithm algorithm;
	enum bb_nccl_protocol protocol;
	bool tuned;  /* BB_NCCL_AS_TUNED */
	int span;    /* index of limits: one node, two, more */
	double gpus; /* of a node */
	int levels;  /* of the tree over nodes */
	double link; /* rate of a GPU's links */
	double bytes;
	struct bb_nccl_faults faults;
	struct bb_nccl_channels rings, trees;
};

static const char *const algorithm_names[] = {"ring", "tree", "nvls", "nvlstree", "pat", "auto"};
static const char *const protocol_names[] = {"LL", "LL128", "Simple", ""};

const char *bb_nccl_algorithm_name(enum bb_nccl_algorithm algorithm)
{
	return algorithm_names[algorithm];
}

const char *bb_nccl_protocol_name(enum bb_nccl_protocol protocol)
{
	return protocol_names[protocol];
}

bool bb_nccl_named(const char *name, enum bb_nccl_algorithm *algorithm,
		   enum bb_nccl_protocol *protocol)
{
	const char *by = strchr(name, ':');
	const size_t length = by ? (size_t)(by - name) : strlen(name);
	int a = 0, p = 0;

	while (a < BB_NCCL_ANY && (strlen(algorithm_names[a]) != length ||
				   strncmp(algorithm_names[a], name, length) != 0))
		a++;
	while (p < BB_NCCL_ANY_PROTOCOL && !(by && strcmp(protocol_names[p], by + 1) == 0))
		p++;
	*algorithm = a;
	*protocol = p;
	if (by && p == BB_NCCL_ANY_PROTOCOL)
		return false;
	return a < BB_NCCL_ANY || length == 0 || (length == 4 && strncmp(name, "auto", 4) == 0);
}

/* ---- support -------------------------------------------------------------------------- */

static bool is_gather(const struct bb_collective *collective)
{
	return collective == &bb_all_gather || collective == &bb_reduce_scatter;
}

static bool is_chain(const struct bb_collective *collective)
{
	return collective == &bb_broadcast || collective == &bb_reduce;
}

const char *bb_nccl_lacks(const struct bb_collective *collective, enum bb_nccl_algorithm algorithm)
{
	const bool reduces_all = collective == &bb_all_reduce;

	if (!reduces_all && !is_gather(collective) && !is_chain(collective))
		return "NCCL_ALGO and NCCL_PROTO do not govern NCCL's messages";
	switch (algorithm) {
	case BB_NCCL_RING:
	case BB_NCCL_ANY:
		return NULL;
	case BB_NCCL_PAT:
		if (is_gather(collective))
			return NULL;
		break;
	case BB_NCCL_NVLS:
		if (is_gather(collective))
			return "there is no model of NVLS for this collective";
		/* fall through */
	default:
		if (reduces_all)
			return NULL;
	}
	return "NCCL has no such algorithm for this collective";
}

const char *bb_nccl_unfit(const struct bb_nccl_constants *c, const struct bb_nccl_machine *machine,
			  enum bb_nccl_algorithm algorithm)
{
	if (machine->unknown)
		return machine->unknown;
	if (algorithm == BB_NCCL_NVLS || algorithm == BB_NCCL_NVLSTREE) {
		if (!machine->nvswitch || c->nvls_share == 0)
			return "these GPUs have no NVSwitch that reduces";
		if (machine->nvls_off)
			return "this machine is described as without NVLS (nccl_nvls = no)";
		if (machine->fewest < c->nvls_least)
			return "NCCL does not use NVLS with so few GPUs on a node";
		if (machine->nodes > 1 && machine->rails < 2)
			return "NCCL does not use NVLS with one NIC on a node";
	}
	if (algorithm == BB_NCCL_NVLS && machine->nodes > 1)
		return "NVLS is for one node; use nvlstree over several nodes";
	if (algorithm == BB_NCCL_NVLSTREE && machine->nodes < 2)
		return "NVLSTree is for several nodes; use nvls on one node";
	if (algorithm == BB_NCCL_PAT && machine->ranks != machine->nodes)
		return "PAT is for one GPU on each node";
	return NULL;
}

/* LL128 needs NVLinks within a node, and NICs that reach the GPUs without the CPU (tuning.cc:523).
   On machines with NVLinks these are near. */
static bool has_protocol(const struct view *v)
{
	if (v->protocol == BB_NCCL_SIMPLE)
		return true;
	if (v->algorithm != BB_NCCL_RING && v->algorithm != BB_NCCL_TREE)
		return false;
	return v->protocol == BB_NCCL_LL || ((v->m->nodes == 1 || !v->m->staged) &&
					     (v->m->nvlink || (v->gpus == 1 && v->m->near_nics)));
}

/* ---- datatypes and operations --------------------------------------------------------- */

/*
 * The rules are those of NCCL 2.30.7: hostToDevRedOp (src/enqueue.cc:2480) turns avg into sums that
 * are scaled, of integers after and of floats before; ncclNvlsSupported (src/include/device.h:587)
 * and required_cuda (src/device/generate.py:106) list what NVSwitches reduce; updateCollCostTable
 * (src/enqueue.cc:1989) excludes PAT and defers rings. NVLS has had its rule since 2.18, PAT since
 * 2.23 and fp8 since 2.24, its first version.
 */
static bool is_fp8(enum bb_dtype dtype)
{
	return dtype == BB_F8E4M3 || dtype == BB_F8E5M2;
}

static bool switches_reduce(enum bb_dtype dtype, enum bb_op op)
{
	switch (dtype) {
	case BB_INT32:
	case BB_UINT32:
	case BB_INT64:
	case BB_UINT64:
	case BB_HALF:
	case BB_BFLOAT16:
		return op == BB_SUM || op == BB_MIN || op == BB_MAX;
	case BB_FLOAT:
	case BB_DOUBLE:
		return op == BB_SUM;
	default:
		return false;
	}
}

const char *bb_nccl_cannot_reduce(const struct bb_nccl_constants *c,
				  const struct bb_nccl_call *call, enum bb_nccl_algorithm algorithm)
{
	const bool scaled = call->op == BB_AVG || call->op == BB_MULSUM;

	if (!(call->collective->flags & BB_REDUCES))
		return NULL;
	if (call->op > BB_MULSUM)
		return "NCCL has no logical or bitwise operations, no maxloc and no minloc";
	if (is_fp8(call->dtype) && c->fp8 == 0)
		return "NCCL reduces fp8 from Hopper on";
	if ((algorithm == BB_NCCL_NVLS || algorithm == BB_NCCL_NVLSTREE) &&
	    !switches_reduce(call->dtype, call->op))
		return "NVSwitches reduce sums of all types but int8, uint8 and fp8, and min and "
		       "max of integers of 4 or 8 bytes, half and bfloat16";
	if (algorithm == BB_NCCL_PAT && call->collective == &bb_reduce_scatter && scaled)
		return "PAT reduces neither avg nor mulsum";
	return NULL;
}

/* ---- channels ------------------------------------------------------------------------- */

/* The rates that NCCL tries, from the highest on; 0 ends them. */
static const double *rates_tried(const struct bb_nccl_constants *c, const struct bb_nccl_machine *m)
{
	return m->nodes > 1 ? c->channel_rates : c->channel_rates_node;
}

static double gpus_of_node(const struct bb_nccl_machine *m)
{
	return (double)m->ranks / m->nodes;
}

/* The channels of RATE for which the GPUs of a node have links. A factor above 1: the links may be
   an exact multiple of RATE but for rounding. */
static double links_for(const struct bb_nccl_machine *m, double rate, bool returns)
{
	const double gpus = gpus_of_node(m), each = floor(m->gpu_rate / rate * (1 + 1e-9));

	if (gpus == 1)
		return INFINITY;
	return returns ? each : floor(each * gpus / (gpus - 1));
}

static double nics_for(const struct bb_nccl_machine *m, double rate)
{
	return m->nodes > 1 ? m->rails * floor(m->nic_rate / rate) : INFINITY;
}

/* NCCL tries no rate below half of the best, and none once all links are in use. */
static bool is_done(const struct bb_nccl_machine *m, const struct bb_nccl_channels *best,
		    double rate)
{
	return best->count > 0 &&
	       (rate <= 0.49 * best->between || best->count * best->between >= m->gpu_rate);
}

struct bb_nccl_channels bb_nccl_search_rings(const struct bb_nccl_constants *c,
					     const struct bb_nccl_machine *m)
{
	const double *rates = rates_tried(c, m);
	struct bb_nccl_channels best = {.count = 0};

	for (int i = 0; i < BB_NCCL_CHANNEL_RATES && rates[i] > 0; i++) {
		if (is_done(m, &best, rates[i]))
			break;
		double count = fmin(c->channels_most, fmin(nics_for(m, rates[i]),
							   links_for(m, rates[i], m->nodes == 1)));
		if (count * rates[i] > best.count * best.between)
			best = (struct bb_nccl_channels){count, rates[i], rates[i]};
	}
	if (best.count == 0) /* NCCL then has one channel of a nominal rate. */
		best = (struct bb_nccl_channels){1, 0.1e9, 0.1e9};
	if (best.between >= c->channels_double[best.count > 4]) {
		const double count = fmin(2 * best.count, c->channels_most);

		best.inside = best.between = best.between / ceil(count / best.count);
		best.count = count;
	}
	return best;
}

struct bb_nccl_channels bb_nccl_search_trees(const struct bb_nccl_constants *c,
					     const struct bb_nccl_machine *m,
					     const struct bb_nccl_channels *rings)
{
	const double *rates = rates_tried(c, m);
	struct bb_nccl_channels trees = *rings;
	int i = 0;

	while (i < BB_NCCL_CHANNEL_RATES && rates[i] > rings->between &&
	       fmin(nics_for(m, rates[i]), links_for(m, rates[i], false)) < rings->count)
		i++;
	if (i < BB_NCCL_CHANNEL_RATES && rates[i] > rings->between)
		trees.inside = trees.between = rates[i];
	/* Over nodes it raises the rate within a node until it is twice that between nodes, as far
	   as links allow. */
	i = 0;
	while (i + 1 < BB_NCCL_CHANNEL_RATES && rates[i + 1] > trees.between)
		i++;
	for (; m->nodes > 1 && i >= 0 && trees.inside < 2 * trees.between &&
	       links_for(m, rates[i], false) >= trees.count;
	     i--)
		trees.inside = fmax(trees.inside, rates[i]);
	return trees;
}

struct bb_nccl_channels bb_nccl_search_heads(const struct bb_nccl_constants *c,
					     const struct bb_nccl_machine *m)
{
	const double *rates = rates_tried(c, m), most = fmin(c->nvls_heads, gpus_of_node(m));
	struct bb_nccl_channels best = {.count = 0};

	for (int i = 0; i < BB_NCCL_CHANNEL_RATES && rates[i] > 0; i++) {
		/* Each head has a NIC of its own, if there are any. */
		const double heads = m->nodes == 1             ? most
				     : rates[i] <= m->nic_rate ? fmin(most, m->rails)
							       : 0;

		if (is_done(m, &best, rates[i]))
			break;
		/* A head has the rate of all heads, and its own once more. */
		if ((heads + 1) * rates[i] <= m->gpu_rate * (1 + 1e-9) &&
		    (heads > best.count || heads * rates[i] > best.count * best.between))
			best = (struct bb_nccl_channels){heads, rates[i], rates[i]};
	}
	for (int i = BB_NCCL_CHANNEL_RATES - 1; i >= 0 && m->nodes > 1 && best.count > 0; i--)
		if (rates[i] > best.between && best.between < 2 * best.inside &&
		    rates[i] <= m->nic_rate)
			best.between = rates[i];
	return best;
}

/* ---- hops and rates ------------------------------------------------------------------- */

static double inside(const struct view *v)
{
	const struct bb_nccl_constants *c = v->c;
	const enum bb_nccl_hop over = v->m->nvlink ? BB_NCCL_OVER_NVLINK : BB_NCCL_OVER_PCIE;
	const bool nvlink = v->m->nvlink, ll = v->protocol == BB_NCCL_LL;
	double measured = 0;

	if (v->tuned)
		return c->hop[over][v->algorithm][v->protocol];
	if (!nvlink && ll)
		return c->ring_pcie_ll_hop;
	if (nvlink && v->algorithm == BB_NCCL_RING && v->protocol == BB_NCCL_SIMPLE)
		measured = c->ring_simple_hop;
	else if (nvlink && ll)
		measured = v->m->wide && c->ring_wide_ll_hop > 0 ? c->ring_wide_ll_hop
								 : c->ring_ll_hop;
	if (measured > 0)
		return measured;
	return c->hop[over][v->algorithm][v->protocol] +
	       (nvlink && v->protocol == BB_NCCL_LL128 ? c->ll128_hop_more : 0);
}

/* Over the network, by the latency of ALGORITHM. */
static double net_hop(const struct view *v, enum bb_nccl_algorithm algorithm)
{
	return v->c->hop[BB_NCCL_OVER_NET][algorithm][v->protocol] +
	       bb_nccl_plugin(v->c, v->m) * (v->protocol == BB_NCCL_SIMPLE ? 2 : 1);
}

/* With one GPU on a node nothing hides the network's latency; it is that of trees. */
static double between(const struct view *v)
{
	return net_hop(v, v->gpus == 1 ? BB_NCCL_TREE : v->algorithm);
}

/* The additional latency of a hop over a slow path. */
static double path_delay(const struct view *v)
{
	return v->faults.delay > 0 && !v->tuned ? v->faults.delay * between(v) : 0;
}

/* The rate of a node's NICs for an algorithm that crosses the network CROSSINGS times, slowed by
   TAPER and by a fault. */
static double through_net(const struct view *v, double crossings, double taper)
{
	const double staged = v->m->staged ? v->c->staged_part : 1;
	const double slowdown = v->tuned ? 1 : fmax(taper, 1) * v->faults.net / staged;

	return v->m->net_rate / slowdown / crossings;
}

/* The lower rate of the node's links and NICs. */
static double through_node(const struct view *v, double crossings, double taper)
{
	const double net = through_net(v, crossings, taper);

	if (v->m->nodes == 1)
		return v->link;
	return v->gpus > 1 && v->link < net ? v->link : net;
}

static double ll_most(const struct view *v)
{
	if (v->span > 0)
		return v->c->ll_most_net[v->m->amd][v->span - 1];
	if (!v->tuned && v->m->wide && v->c->ring_wide_ll_rate > 0)
		return v->c->ring_wide_ll_rate;
	return !v->tuned && v->c->ring_ll_rate > 0 ? v->c->ring_ll_rate : v->c->ll_most_node;
}

/* ---- rings ---------------------------------------------------------------------------- */

static double ring_steps(const struct view *v)
{
	const double n = v->m->ranks;

	return is_chain(v->collective) ? n : is_gather(v->collective) ? n - 1 : 2 * (n - 1);
}

static double ring_latency(const struct view *v)
{
	const bool both_ways = v->collective == &bb_all_reduce, chain = is_chain(v->collective);
	const double n = v->m->ranks, nodes = v->m->nodes;
	double hops = chain ? n - 1 : ring_steps(v), out = 0, in = inside(v);

	/* NCCL counts one hop of a broadcast if all channels pass the GPUs in the same order, as in
	   one node or with one NIC; else one for each rank, of Simple with a tree's latency. */
	if (chain && v->tuned) {
		const bool same = nodes == 1 || v->m->rails == 1;
		const bool of_tree = !same && v->protocol == BB_NCCL_SIMPLE;

		return (same ? 1 : n) *
		       v->c->hop[bb_nccl_slowest_hop(v->m)][of_tree ? BB_NCCL_TREE : BB_NCCL_RING]
				[v->protocol];
	}
	if (nodes > 1) {
		in = fmax(in, v->c->ring_net_least[v->m->amd][v->protocol]);
		out = both_ways ? 2 * (nodes - 1) : nodes - 1;
	}
	return (hops - out) * in + out * between(v) + (both_ways ? 2 : 1) * path_delay(v);
}

/* The rate that rings reach: a part of NVLinks among nodes that share switches; over nodes
   all_gather and reduce_scatter move so much on a channel. */
static double ring_reach(const struct view *v)
{
	const double n = v->m->ranks;
	/* SMs load and store each byte of a ring several times: in an all_reduce of n ranks 3n - 2
	   times each, n times and 2n - 1 times in an all_gather, and likewise in a reduce_scatter
	   (prims_simple.h). Few ranks thus reach less than their links carry. */
	const double operations = v->collective == &bb_all_reduce ? 3 * n - 2
				  : is_gather(v->collective)      ? 3 * n - 1
								  : 0;
	double bus = through_node(v, 1, v->m->taper.ring);

	if (v->tuned)
		return v->rings.count * v->rings.between;
	/* Of two ranks one sends and one receives, so that neither direction is shared. */
	if (v->m->through_host && is_chain(v->collective) && n == 2)
		return v->m->alone_rate * v->m->gpu_share / fmax(v->m->node_fault, 1);
	if (v->m->nvlink && operations > 0 && n != v->m->nodes)
		bus = fmin(bus, v->link * v->c->ring_operations * (n - 1) / operations);
	if (is_gather(v->collective) && v->m->nodes > 1)
		bus = fmin(bus, v->c->ring_gather_channel * v->rings.count);
	return v->m->wide ? fmin(bus, v->c->ring_wide_part * v->link) : bus;
}

static double ring_bus(const struct view *v)
{
	const struct bb_nccl_constants *c = v->c;
	double bus = ring_reach(v);

	if (v->protocol == BB_NCCL_LL)
		return fmin(ll_most(v), c->ring_ll_part * bus);
	if (v->protocol == BB_NCCL_SIMPLE)
		return bus;
	/* The flags of LL128 cost a part of the slowest link's rate; the measured limit is that of
	   NVLink. */
	bus = fmin(c->ring_ll128_part * bus, v->rings.count * c->ring_ll128_channel[v->span]);
	return v->tuned || c->ring_ll128_share == 0 ? bus
						    : fmin(bus, c->ring_ll128_share * v->link);
}

/* The factor by which NCCL raises the latency of long rings by Simple, so that it does not choose
   them too early; their real latency is not higher. Over nodes that is one factor for all_reduce.
   In one node, where RING_PLATEAU_NODE says so (src/tuning/ring.cc), fewer steps have less of it,
   and so have parts of a channel beyond 256 KiB. */
static double ring_plateau(const struct view *v)
{
	const struct bb_nccl_constants *c = v->c;
	const double part = floor(v->bytes / (2 * v->rings.count * v->m->ranks));
	const double less = 0.1, whole = 0x1p18;
	double more = c->ring_plateau_node - 1;

	if (part < 64 || is_chain(v->collective))
		return 1;
	if (v->m->nodes > 1)
		return v->collective == &bb_all_reduce ? c->ring_plateau : 1;
	if (!v->m->nvlink || more <= 0)
		return 1;
	return 1 + (1 - pow(less / more, fmax(0, ring_steps(v) - 1))) *
			   (more - less * fmin(1, fmax(0, part / whole - 1)));
}

static double ring_time(const struct view *v)
{
	double latency = v->c->base[BB_NCCL_RING][v->protocol] + ring_latency(v);

	if (v->tuned && v->protocol == BB_NCCL_SIMPLE)
		latency *= ring_plateau(v);
	return latency + v->bytes * ring_steps(v) / v->m->ranks / ring_bus(v);
}

/* ---- trees ---------------------------------------------------------------------------- */

/* Trees send S up and S down: a node receives 2 S, but each of two nodes only S. */
static double tree_crossings(const struct view *v)
{
	return v->m->nodes == 2 ? 0.5 : 1;
}

/* The share of a tree's rate at this size, from the first SIZES entries of its table. NCCL's own
   steps would let times fall from one size to the next; measured times lie between, so AS_MEASURED
   interpolates. */
static double tree_share(const struct view *v, int sizes)
{
	const double *share = v->c->tree_share[v->protocol];
	const double place = v->bytes >= 64 ? log2(v->bytes / 64) : -1;
	const int size = (int)floor(place);

	if (size < 0 || size >= sizes)
		return 1;
	if (v->tuned)
		return share[size];
	const double next = size + 1 < sizes ? share[size + 1] : 1;
	return share[size] + (place - size) * (next - share[size]);
}

/* NCCL counts the rate within a node for two of them, unless TWO_BETWEEN is not 0. */
static double tree_tuned_links(const struct view *v, double two_between)
{
	const bool within = v->m->nodes == 2 && two_between == 0;

	return v->trees.count * (within ? v->trees.inside : v->trees.between);
}

static double tree_bus(const struct view *v)
{
	const struct bb_nccl_constants *c = v->c;
	const double links = v->tuned ? tree_tuned_links(v, c->tree_two_between)
				      : through_node(v, tree_crossings(v), v->m->taper.tree);
	const double channels = v->tuned ? v->trees.count : fmax(v->trees.count, c->tree_channels);
	const double bus = fmin(c->tree_part * links, channels * c->tree_channel[v->span]);
	/* A balanced tree enters a node by one GPU and leaves it by another, both near the same
	   NIC. Where there is none, NCCL takes a plain tree: with one GPU on a node, and from
	   Hopper on as soon as the NIC nearest to each GPU is its own, before it tries farther
	   NICs. Before Hopper it tries these first. */
	const bool plain =
		v->m->nodes > 1 &&
		(v->gpus == 1 || (c->tree_plain > 0 && v->m->x86 && v->m->rails >= v->gpus));
	const double pattern = v->tuned && plain ? c->tree_plain_part : 1;

	if (v->protocol == BB_NCCL_LL)
		return pattern * fmin(c->tree_ll_part * bus, ll_most(v));
	if (v->protocol == BB_NCCL_LL128)
		return pattern * fmin(bus * c->tree_ll128_part[v->span],
				      channels * c->tree_ll128_channel[v->span]);
	return pattern * bus;
}

/* The measured excess of a hop over the network above NCCL's constants. */
static double tree_net_more(const struct view *v)
{
	return v->tuned ? 0 : v->c->tree_net_more * fmin(1, sqrt(v->bytes / v->c->tree_net_whole));
}

static double tree_time(const struct view *v)
{
	const double hops = 2 * ((v->gpus - 1) * inside(v) +
				 v->levels * (between(v) + tree_net_more(v)) + path_delay(v));

	return v->c->base[BB_NCCL_TREE][v->protocol] + hops +
	       v->bytes / (0.5 * tree_bus(v) * tree_share(v, BB_NCCL_TREE_SIZES - 1));
}

/* ---- switches that reduce ------------------------------------------------------------- */

static bool is_wide(const struct view *v)
{
	return v->gpus > v->c->nvls_few && v->c->nvls_wide_rate > 0;
}

/* The time to fill the pipeline of a few GPUs is FILL; beyond, each adds to it, and a part that no
   size hides. */
static double wide_fill(const struct view *v, double fill)
{
	const double further = is_wide(v) ? v->gpus - v->c->nvls_few : 0;
	/* The time to fill a pipeline over the longest such time. */
	const double share = v->bytes < v->c->fill_most ? sqrt(v->bytes / v->c->fill_most) : 1;

	return further * v->c->nvls_gpu_least + (fill + further * v->c->nvls_gpu) * share;
}

/* The rate of a GPU's links; RATE is that of a few GPUs with all of their links. */
static double nvls_rate(const struct view *v, double rate)
{
	rate *= fmin(1, v->m->gpu_rate / fmax(v->m->node_fault, 1) / v->c->nvls_link);
	return is_wide(v) ? rate * v->c->nvls_wide_rate / v->c->nvls_rate : rate;
}

/* As NCCL's tuner counts NVLS and NVLSTree: by heads, of which each has twice the rate of its
   links, for two operations at once. */
static double nvls_tuned(const struct view *v)
{
	const struct bb_nccl_constants *c = v->c;
	const bool tree = v->algorithm == BB_NCCL_NVLSTREE;
	const struct bb_nccl_channels heads = bb_nccl_search_heads(c, v->m);
	const double n = v->m->ranks, spread = (heads.count - 1) / heads.count;
	const double between = tree ? heads.between / tree_crossings(v) : INFINITY;
	const double most = tree ? fmin(between, c->nvlstree_channel[v->span - 1]) : INFINITY;
	double latency = c->hop[BB_NCCL_OVER_NVLINK][v->algorithm][v->protocol], rate = 0;

	if (c->nvls_part > 0)
		rate = c->nvls_part * heads.count * fmin(heads.inside, between / 2);
	else if (heads.count > 0)
		rate = heads.count * fmin(2 * heads.inside * c->nvls_share * spread, most) * n /
		       (2 * (n - 1));
	if (tree)
		latency += 2 * v->levels * net_hop(v, v->algorithm);
	if (tree && c->nvlstree_by_size > 0 && v->m->x86)
		rate *= tree_share(v, BB_NCCL_TREE_SIZES);
	return latency + v->bytes / rate;
}

static double nvls_time(const struct view *v)
{
	const struct bb_nccl_constants *c = v->c;
	const double n = v->m->ranks, wire = v->bytes * (1 + 1 / n);

	if (v->tuned)
		return nvls_tuned(v);
	return c->nvls_base + wire / nvls_rate(v, c->nvls_rate) + wide_fill(v, c->nvls_fill);
}

static double nvlstree_time(const struct view *v)
{
	const struct bb_nccl_constants *c = v->c;
	const double heads = fmin(v->gpus, v->m->rails); /* GPUs with a NIC of their own */

	if (v->tuned)
		return nvls_tuned(v);
	const double rate = fmin(nvls_rate(v, c->nvlstree_rate) / (1 + 1 / heads),
				 through_net(v, 2 * tree_crossings(v), v->m->taper.tree));
	return c->nvls_base + 2 * v->levels * (between(v) + tree_net_more(v)) + 2 * path_delay(v) +
	       v->bytes / rate + wide_fill(v, v->m->net_fill);
}

/* ---- PAT, and all of them ------------------------------------------------------------- */

/* NCCL's tuner counts a rank's own part as sent. */
static double pat_time(const struct view *v)
{
	const struct bb_nccl_constants *c = v->c;
	const double n = v->m->ranks, sent = v->tuned ? 1 : (n - 1) / n;
	const double links = v->tuned ? tree_tuned_links(v, c->pat_two_between)
				      : through_node(v, 1, v->m->taper.pat);

	return c->base[BB_NCCL_PAT][v->protocol] + v->levels * between(v) * c->pat_hop_part +
	       n * c->pat_rank + v->bytes * sent / (c->pat_part * links);
}

double bb_nccl_time(const struct bb_nccl_constants *c, const struct bb_nccl_call *call,
		    enum bb_nccl_view view)
{
	static double (*const times[])(const struct view *) = {
		[BB_NCCL_RING] = ring_time, [BB_NCCL_TREE] = tree_time,
		[BB_NCCL_NVLS] = nvls_time, [BB_NCCL_NVLSTREE] = nvlstree_time,
		[BB_NCCL_PAT] = pat_time,
	};
	const struct bb_nccl_machine *const m = call->machine;
	const enum bb_nccl_algorithm algorithm = call->algorithm;
	struct view v = {
		.c = c,
		.m = m,
		.collective = call->collective,
		.algorithm = algorithm,
		.protocol = call->protocol,
		.tuned = view == BB_NCCL_AS_TUNED,
		.span = m->nodes < 3 ? m->nodes - 1 : BB_NCCL_SPANS - 1,
		.gpus = gpus_of_node(m),
		.levels = ilogb(m->nodes),
		.link = m->gpu_rate,
		.bytes = call->bytes,
		.faults = bb_nccl_faults_of(m, call->collective, algorithm),
		.rings = bb_nccl_search_rings(c, m),
	};

	if (bb_nccl_lacks(call->collective, algorithm) || bb_nccl_unfit(c, m, algorithm) ||
	    !has_protocol(&v))
		return INFINITY;
	v.trees = bb_nccl_search_trees(c, m, &v.rings);
	if (v.tuned)
		return times[algorithm](&v);
	v.link *= m->gpu_share;
	if (m->through_host)
		v.link *= c->host_part;
	else if (!m->nvlink && m->ranks > m->nodes)
		v.link = fmin(v.link, c->peers_most);
	v.link /= fmax(m->node_fault, 1);
	/* Operations are not faster than they are issued. */
	return fmax(times[algorithm](&v), bb_nccl_issue(c, m));
}

bool bb_nccl_choose(const struct bb_nccl_constants *c, const struct bb_nccl_call *call,
		    struct bb_nccl_call *chosen)
{
	const bool reduces_fp8 = (call->collective->flags & BB_REDUCES) && is_fp8(call->dtype);
	struct bb_nccl_call one = *call;
	double best = INFINITY;

	for (one.algorithm = 0; one.algorithm < BB_NCCL_ALGORITHMS; one.algorithm++) {
		/* What NCCL multiplies times by where rings lose precision. */
		const double reluctance =
			reduces_fp8 && one.algorithm == BB_NCCL_RING && call->machine->ranks > 8
				? 1024
				: 1;

		if ((call->algorithm != BB_NCCL_ANY && call->algorithm != one.algorithm) ||
		    bb_nccl_cannot_reduce(c, call, one.algorithm))
			continue;
		for (one.protocol = 0; one.protocol < BB_NCCL_PROTOCOLS; one.protocol++) {
			if (call->protocol != BB_NCCL_ANY_PROTOCOL &&
			    call->protocol != one.protocol)
				continue;
			const double time = reluctance * bb_nccl_time(c, &one, BB_NCCL_AS_TUNED);
			if (time < best) {
				best = time;
				*chosen = one;
			}
		}
	}
	return best < INFINITY;
}

double bb_nccl_call_time(const struct bb_nccl_constants *c, const struct bb_nccl_call *call)
{
	struct bb_nccl_call chosen;

	if (bb_nccl_lacks(call->collective, BB_NCCL_ANY))
		return bb_nccl_messages_time(c, call);
	return bb_nccl_choose(c, call, &chosen) ? bb_nccl_time(c, &chosen, BB_NCCL_AS_MEASURED)
						: INFINITY;
}
