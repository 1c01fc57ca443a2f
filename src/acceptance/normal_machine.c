/*
 * normal_machine.c - which machine claims come from: as the user says, else by the evidence in the
 * log, else the first known system with such GPUs; and the bounds of its links.
 */
#include "acceptance/normal.h"

#include "harness/run/plugin.h"
#include "simulator/nccl/model.h"
#include "topology/bound.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MOST_NODES (1 << 14)

void bb_normal_machine_close(struct bb_claimed_machine *machine)
{
	bb_cluster_free(machine->cluster);
	*machine = (struct bb_claimed_machine){.cluster = NULL};
}

bool bb_normal_is_near(const struct bb_card *card, int64_t ranks, int64_t nodes)
{
	if (card->of_domain == 0)
		return nodes <= 1;
	return ranks <= card->of_domain && nodes * card->of_node <= card->of_domain;
}

/* Rank I of RANKS on NODES nodes, of which the first have one rank more. */
static struct bb_rank_place rank_place(int64_t ranks, int64_t nodes, int64_t i)
{
	const int64_t each = ranks / nodes, more = ranks % nodes, first = more * (each + 1);

	return (struct bb_rank_place){
		.node = (int)(i < first ? i / (each + 1) : more + (i - first) / each),
		.device = (int)(i < first ? i % (each + 1) : (i - first) % each)};
}

/* Ranks of a node of Q; 0: unknown. */
static int64_t ranks_of_node(const struct bb_question *q)
{
	return q->nodes > 0 ? (q->ranks + q->nodes - 1) / q->nodes : 0;
}

bb_status bb_normal_machine_open(const struct bb_question *q, const char *text,
				 struct bb_cluster_change change,
				 struct bb_claimed_machine *machine, struct bb_error *error)
{
	struct bb_error ignored = {0};

	*machine = (struct bb_claimed_machine){.cluster = NULL};
	change.nodes = (int)q->nodes;
	bb_status st = bb_cluster_open_changed(text, &change, bb_plugin_parse_topology,
					       &machine->cluster, error);
	if (st != BB_OK)
		return st;
	if (ranks_of_node(q) > bb_topology_count(machine->cluster->node, BB_GPU)) {
		st = bb_fail(error, BB_EUSAGE, "%s has %d GPUs in a node, not %lld", text,
			     bb_topology_count(machine->cluster->node, BB_GPU),
			     (long long)ranks_of_node(q));
		bb_normal_machine_close(machine);
		return st;
	}
	machine->nics = bb_cluster_nics_of(machine->cluster->node);
	snprintf(machine->system, sizeof(machine->system), "%.*s", (int)strcspn(text, ":"), text);
	snprintf(machine->name, sizeof(machine->name), "%s", machine->system);
	/* The model of NCCL, if there is one. */
	const struct bb_cluster *const c = machine->cluster;
	const int gpu = bb_topology_device(c->node, BB_GPU, 0);
	int *const members = calloc((size_t)q->ranks, sizeof(*members));
	for (int i = 0; members && i < q->ranks; i++) {
		const struct bb_rank_place at = rank_place(q->ranks, q->nodes, i);

		members[i] = at.node * c->gpus + at.device;
	}
	if (!members || gpu < 0 || bb_topology_is_amd(c->node, gpu) ||
	    bb_nccl_constants_find(&machine->constants, c->node->devices[gpu].sm, &ignored) !=
		    BB_OK ||
	    !bb_nccl_shape_make(&machine->nccl, c, 0, members, (int)q->ranks))
		machine->constants.generation = NULL;
	free(members);
	return BB_OK;
}

void bb_normal_describe_nics(const struct bb_claimed_machine *machine, struct bb_strbuf *out)
{
	static const char *const kinds[] = {[BB_NICS_OTHER] = "Ethernet",
					    [BB_NICS_INFINIBAND] = "InfiniBand",
					    [BB_NICS_EFA] = "EFA",
					    [BB_NICS_EFA_P5] = "EFA",
					    [BB_NICS_EFA_LATER] = "EFA"};
	const struct bb_cluster_nics *const n = &machine->nics;

	bb_strbuf_addf(out, "%d NIC%s of %.4g Gb/s %s", n->n, n->n == 1 ? "" : "s",
		       n->n > 0 ? (double)n->Mbps / n->n / 1e3 : 0.0, kinds[n->kind]);
}

/* Open TEXT with the NICs that the user, else the log, names, where these differ from its own. More
   NICs than a machine has, whose rate is unknown, are those for storage, too, unless the user named
   them. */
static bb_status open_changed(const struct bb_question *q, const char *text,
			      struct bb_claimed_machine *machine, struct bb_error *error)
{
	const struct bb_fact *const nics = bb_claims_fact(q->claims, BB_FACT_NICS);
	const struct bb_fact *const rate = bb_claims_fact(q->claims, BB_FACT_NIC_RATE);
	const struct bb_cluster_nics *const now = &machine->nics;
	struct bb_cluster_change change = {.nodes = 0};
	struct bb_strbuf described = {0};
	bb_status st = bb_normal_machine_open(q, text, change, machine, error);

	if (st != BB_OK || now->n == 0)
		return st;
	change.nics = (int)q->given->nics;
	change.nic_Mbps = q->given->nic_Mbps;
	if (change.nics == 0 && nics &&
	    (rate || nics->value < now->n || strstr(nics->quote, "NCCL_IB_HCA")))
		change.nics = (int)nics->value;
	if (change.nic_Mbps == 0 && rate)
		change.nic_Mbps = rate->value * 1000;
	/* Each rank has a NIC of its own, as on the machine. */
	if (q->given->nics == 0 && change.nics < now->n && change.nics == ranks_of_node(q))
		change.nics = 0;
	/* More of them, of half the rate, are the same machine otherwise cut. */
	if (change.nics > now->n && change.nic_Mbps == 0)
		change.nic_Mbps = now->Mbps / change.nics;
	if (change.nics == now->n)
		change.nics = 0;
	if (change.nic_Mbps == now->Mbps / now->n)
		change.nic_Mbps = 0;
	if (bb_claims_fact(q->claims, BB_FACT_ROCE) && now->kind == BB_NICS_INFINIBAND)
		change.layer = BB_ETHERNET;
	if (bb_claims_fact(q->claims, BB_FACT_INFINIBAND) && now->kind == BB_NICS_OTHER)
		change.layer = BB_INFINIBAND;
	if (change.nics == 0 && change.nic_Mbps == 0 && change.layer == BB_LAYER_UNKNOWN)
		return BB_OK;
	bb_normal_machine_close(machine);
	st = bb_normal_machine_open(q, text, change, machine, error);
	if (st != BB_OK)
		return st;
	/* More than there are have the rates of several: it is said as it was asked for. */
	if (change.nics > machine->nics.n)
		machine->nics.n = change.nics;
	bb_normal_describe_nics(machine, &described);
	snprintf(machine->name, sizeof(machine->name), "%s with %s", machine->system,
		 bb_strbuf_text(&described));
	bb_strbuf_free(&described);
	return BB_OK;
}

bb_status bb_normal_machine_find(const struct bb_question *q, struct bb_claimed_machine *machine,
				 struct bb_error *error)
{
	const struct bb_cluster_change none = {.nodes = 0};
	const char *first = NULL, *fits = NULL;
	const struct bb_fact *const nics = bb_claims_fact(q->claims, BB_FACT_NICS);
	const struct bb_fact *const rate = bb_claims_fact(q->claims, BB_FACT_NIC_RATE);
	const struct bb_fact *const efa = bb_claims_fact(q->claims, BB_FACT_EFA);
	const struct bb_cluster_nics *const n = &machine->nics;
	struct bb_error ignored = {0};

	*machine = (struct bb_claimed_machine){.cluster = NULL};
	if (q->ranks < 2 || q->nodes < 1 || q->nodes > MOST_NODES || q->nodes > q->ranks ||
	    q->ranks > BB_CLUSTER_MOST_RANKS)
		return BB_OK;
	if (q->given->machine)
		return open_changed(q, q->given->machine, machine, error);
	for (int i = 0; q->card && bb_card_system(q->card, i) && !fits; i++) {
		const char *const system = bb_card_system(q->card, i);

		if (bb_normal_machine_open(q, system, none, machine, &ignored) != BB_OK)
			continue;
		first = first ? first : system;
		/* The log contradicts it? Fewer of the same NICs are no other machine. */
		if ((!efa || n->kind >= BB_NICS_EFA) &&
		    (!bb_claims_fact(q->claims, BB_FACT_INFINIBAND) ||
		     n->kind == BB_NICS_INFINIBAND) &&
		    (!bb_claims_fact(q->claims, BB_FACT_ROCE) || n->kind == BB_NICS_OTHER) &&
		    (!rate || n->n == 0 ||
		     (rate->value * 1000 == n->Mbps / n->n && (!nics || nics->value == n->n))))
			fits = system;
		bb_normal_machine_close(machine);
	}
	if (!first)
		return BB_OK;
	const bb_status st = open_changed(q, fits ? fits : first, machine, error);
	machine->assumed = q->given->nics == 0 && q->given->nic_Mbps == 0 && !nics && !efa;
	return st;
}

/* ---- bounds ---------------------------------------------------------------------------------- */

/* True if bound WHAT applies: to a named algorithm its own, to all_reduce all, to alltoall its own,
   to other collectives that of rings. */
static bool is_usable(const struct bb_normal_shape *s, enum bb_bound what)
{
	const bool alltoall = strncmp(s->collective, "alltoall", 8) == 0;

	if (alltoall || what == BB_BOUND_ALLTOALL)
		return alltoall && what == BB_BOUND_ALLTOALL;
	if (strcmp(s->collective, "all_reduce") != 0)
		return what == BB_BOUND_RING;
	if (what == BB_BOUND_SHARP)
		return s->by_sharp;
	for (int named = BB_BOUND_RING; named < BB_BOUNDS; named++)
		if (strcasecmp(s->algorithm, bb_bound_name(named)) == 0)
			return what == (enum bb_bound)named;
	return true;
}

#define ROUNDING 1e-9 /* systems whose bounds differ by less are alike: the first one is named */

struct bb_normal_bound bb_normal_bound_on(const struct bb_topology *t, struct bb_normal_shape shape)
{
	const int64_t nodes = shape.nodes;
	const int64_t each = nodes > 0 ? (shape.ranks + nodes - 1) / nodes : 0;
	struct bb_normal_bound bound = {.GBps = 0};
	struct bb_topology spread = *t;
	struct bb_rank_place *places = NULL;
	int ranks = (int)shape.ranks;
	double beyond = 1;

	if (nodes >= 1 && nodes <= 1 << 14 && shape.ranks >= 2 && shape.ranks >= nodes &&
	    each <= bb_topology_count(t, BB_GPU))
		places = calloc((size_t)shape.ranks, sizeof(*places));
	if (!places)
		return bound;
	for (int64_t i = 0; i < shape.ranks; i++)
		places[i] = rank_place(shape.ranks, nodes, i);
	/* Evenly over as few NVLink domains as possible: the placement is unknown, and no other one
	   has a higher bound. */
	spread.nodes = (int)nodes;
	const int domains = (spread.nodes + t->nvlink_nodes - 1) / t->nvlink_nodes;
	spread.nvlink_nodes = (spread.nodes + domains - 1) / domains;
	/* One rank of each node sends out: the last one to the first of the next node. */
	if (strcmp(shape.collective, "sendrecv") == 0 && nodes > 1) {
		places[0] = places[each - 1];
		places[1] = places[each];
		ranks = 2;
	}
	/* What can be carried beyond rings: the data of gather and scatter that crosses the root's
	   node is (n-g)/n of the whole, with nodes of g ranks; that of a ring (n-1)/n. */
	if (nodes > 1 &&
	    (strcmp(shape.collective, "gather") == 0 || strcmp(shape.collective, "scatter") == 0))
		beyond = (double)(ranks - 1) / ((double)ranks - (double)ranks / (double)nodes);
	/* The highest bound of the algorithms that the collective could use. */
	for (int what = BB_BOUND_RING; what < BB_BOUNDS; what++) {
		struct bb_strbuf why = {0};
		double GBps = 0;

		if (is_usable(&shape, (enum bb_bound)what) &&
		    bb_speed_of_light(&spread, places, ranks, what, &GBps, &why) == BB_OK &&
		    GBps * beyond > bound.GBps * (1 + ROUNDING)) {
			bound.GBps = GBps * beyond;
			bound.system = t->name;
			bound.algorithm = bb_bound_name(what);
			if (beyond > 1)
				bb_strbuf_addf(&why, ", × %.3g for %s", beyond, shape.collective);
			snprintf(bound.why, sizeof(bound.why), "%s", bb_strbuf_text(&why));
		}
		bb_strbuf_free(&why);
	}
	free(places);
	return bound;
}

struct bb_normal_bound bb_normal_bound_of(const struct bb_card *card, struct bb_normal_shape shape)
{
	struct bb_normal_bound highest = {.GBps = 0};

	for (int i = 0; bb_card_system(card, i); i++) {
		struct bb_normal_bound bound = {.GBps = 0};
		struct bb_topology *t = NULL;
		struct bb_error ignored = {0};

		if (bb_topology_system(bb_card_system(card, i), &t, &ignored) == BB_OK)
			bound = bb_normal_bound_on(t, shape);
		if (bound.GBps > highest.GBps * (1 + ROUNDING)) {
			highest = bound;
			highest.system = bb_card_system(card, i);
		}
		bb_topology_free(t);
	}
	return highest;
}

enum bb_normality bb_normal_judge_bound(const struct bb_question *q)
{
	struct bb_normal_shape shape = bb_normal_shape_of(q);
	const struct bb_claims *const c = q->claims;
	const bool is_given =
		q->given->machine || q->given->nics > 0 || q->given->nic_Mbps > 0 || !q->card;
	double most = c->average_GBps;

	if (!q->machine->cluster)
		return BB_NORMAL;
	struct bb_normal_bound bound = bb_normal_bound_on(q->machine->cluster->node, shape);
	if (!(bound.GBps > 0))
		return BB_NORMAL;
	for (size_t i = 0; i < c->n; i++)
		most = fmax(most, c->list[i].busbw_GBps);
	SAY(q, "  %s: %.4g GB/s, %.0f%% of the %s bound of %lld x %s: %s.\n",
	    c->n > 0 ? "Best row" : "Average", most, 100 * most / bound.GBps, bound.algorithm,
	    q->nodes, q->machine->name, bound.why);
	if (most <= BB_NORMAL_ABOVE_LINKS * bound.GBps)
		return BB_NORMAL;
	/* Links of any known machine with such cards may carry it, or switches that reduce; but a
	   machine that the user names has no other links. */
	for (int sharp = 0; sharp < 2; sharp++) {
		shape.by_sharp = sharp == 1;
		bound = is_given ? bb_normal_bound_on(q->machine->cluster->node, shape)
				 : bb_normal_bound_of(q->card, shape);
		if (most > BB_NORMAL_ABOVE_LINKS * bound.GBps)
			continue;
		SAY(q, "  Possible %s%s: up to %.4g GB/s.\n", sharp ? "only with " : "on ",
		    sharp ? "switches that reduce (SHARP)" : bound.system, bound.GBps);
		return BB_NORMAL;
	}
	SAY(q, "  Impossible on such links. Likely: another system, or a wrong number of ranks or "
	       "nodes.\n");
	return BB_IMPOSSIBLE;
}
