/*
 * normal_machine.c - which machine claims come from: as the user says, else by the evidence in the
 * log, else the first known system with such GPUs.
 */
#include "acceptance/normal_inside.h"

#include "harness/run/plugin.h"
#include "simulator/nccl_shape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_NODES (1 << 14)

const struct bb_fact *bb_normal_fact(const struct bb_question *q, enum bb_fact_kind kind)
{
	for (size_t i = 0; i < q->claims->nfacts; i++)
		if (q->claims->facts[i].kind == kind)
			return &q->claims->facts[i];
	return NULL;
}

void bb_normal_machine_close(struct bb_claimed_machine *machine)
{
	bb_cluster_free(machine->cluster);
	*machine = (struct bb_claimed_machine){.cluster = NULL};
}

/* Ranks of a node of Q; 0: unknown. */
static int64_t ranks_of_node(const struct bb_question *q)
{
	return q->nodes > 0 ? (q->ranks + q->nodes - 1) / q->nodes : 0;
}

static int member_of(const struct bb_question *q, const struct bb_cluster *c, int i)
{
	int64_t node, gpu;

	bb_normal_place(q->ranks, q->nodes, i, &node, &gpu);
	return (int)(node * c->gpus + gpu);
}

/* Fill the model of NCCL of MACHINE, or leave it without. */
static void model_find(const struct bb_question *q, struct bb_claimed_machine *machine)
{
	const struct bb_cluster *const c = machine->cluster;
	const int gpu = bb_topology_device(c->node, BB_GPU, 0);
	int *const members = calloc((size_t)q->ranks, sizeof(*members));
	struct bb_error ignored = {0};

	for (int i = 0; members && i < q->ranks; i++)
		members[i] = member_of(q, c, i);
	if (!members || gpu < 0 || bb_topology_is_amd(c->node, gpu) ||
	    bb_nccl_constants_find(&machine->constants, c->node->devices[gpu].sm, &ignored) !=
		    BB_OK ||
	    !bb_nccl_shape_make(&machine->nccl, c, 0, members, (int)q->ranks))
		machine->constants.generation = NULL;
	free(members);
}

static bb_status machine_open(const struct bb_question *q, const char *text,
			      const struct bb_cluster_change *change,
			      struct bb_claimed_machine *machine, struct bb_error *error)
{
	struct bb_cluster_change of_nodes = *change;
	bb_status st;

	*machine = (struct bb_claimed_machine){.cluster = NULL};
	of_nodes.nodes = (int)q->nodes;
	st = bb_cluster_open_changed(text, &of_nodes, bb_plugin_parse_topology, &machine->cluster,
				     error);
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
	model_find(q, machine);
	return BB_OK;
}

static bool is_shaped(const struct bb_question *q)
{
	return q->ranks >= 2 && q->nodes >= 1 && q->nodes <= MOST_NODES && q->nodes <= q->ranks &&
	       q->ranks <= BB_CLUSTER_MOST_RANKS;
}

bool bb_normal_machine_open(const struct bb_question *q, const char *system, int nics,
			    struct bb_claimed_machine *machine)
{
	struct bb_error ignored = {0};

	*machine = (struct bb_claimed_machine){.cluster = NULL};
	return is_shaped(q) && machine_open(q, system, &(struct bb_cluster_change){.nics = nics},
					    machine, &ignored) == BB_OK;
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

/* True if the log contradicts that MACHINE has such NICs. Fewer of the same are no other machine.
 */
static bool is_contradicted(const struct bb_question *q, const struct bb_claimed_machine *machine)
{
	const struct bb_fact *const nics = bb_normal_fact(q, BB_FACT_NICS);
	const struct bb_fact *const rate = bb_normal_fact(q, BB_FACT_NIC_RATE);
	const struct bb_cluster_nics *const n = &machine->nics;

	if ((bb_normal_fact(q, BB_FACT_EFA) && n->kind < BB_NICS_EFA) ||
	    (bb_normal_fact(q, BB_FACT_INFINIBAND) && n->kind != BB_NICS_INFINIBAND) ||
	    (bb_normal_fact(q, BB_FACT_ROCE) && n->kind != BB_NICS_OTHER))
		return true;
	return rate && n->n > 0 &&
	       (rate->value * 1000 != n->Mbps / n->n || (nics && nics->value != n->n));
}

/* What the user, else the log, says of the NICs of a machine with NOW, where it differs. More NICs
   than a machine has, whose rate is unknown, are those for storage, too, unless the user named
   them. */
static struct bb_cluster_change change_of(const struct bb_question *q,
					  const struct bb_cluster_nics *now)
{
	const struct bb_fact *const nics = bb_normal_fact(q, BB_FACT_NICS);
	const struct bb_fact *const rate = bb_normal_fact(q, BB_FACT_NIC_RATE);
	struct bb_cluster_change change = {.nics = (int)q->given->nics,
					   .nic_Mbps = q->given->nic_Mbps};

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
	if (bb_normal_fact(q, BB_FACT_ROCE) && now->kind == BB_NICS_INFINIBAND)
		change.layer = BB_ETHERNET;
	if (bb_normal_fact(q, BB_FACT_INFINIBAND) && now->kind == BB_NICS_OTHER)
		change.layer = BB_INFINIBAND;
	return change;
}

/* Open TEXT with the NICs that the user or the log names. */
static bb_status open_changed(const struct bb_question *q, const char *text,
			      struct bb_claimed_machine *machine, struct bb_error *error)
{
	struct bb_cluster_change change = {.nodes = 0};
	struct bb_strbuf nics = {0};
	bb_status st = machine_open(q, text, &change, machine, error);

	if (st != BB_OK || machine->nics.n == 0)
		return st;
	change = change_of(q, &machine->nics);
	if (change.nics == 0 && change.nic_Mbps == 0 && change.layer == BB_LAYER_UNKNOWN)
		return BB_OK;
	bb_normal_machine_close(machine);
	st = machine_open(q, text, &change, machine, error);
	if (st != BB_OK)
		return st;
	/* More than there are have the rates of several: it is said as it was asked for. */
	if (change.nics > machine->nics.n)
		machine->nics.n = change.nics;
	bb_normal_describe_nics(machine, &nics);
	snprintf(machine->name, sizeof(machine->name), "%s with %s", machine->system,
		 bb_strbuf_text(&nics));
	bb_strbuf_free(&nics);
	return BB_OK;
}

bb_status bb_normal_machine_find(const struct bb_question *q, struct bb_claimed_machine *machine,
				 struct bb_error *error)
{
	const char *first = NULL, *fits = NULL;
	bb_status st;

	*machine = (struct bb_claimed_machine){.cluster = NULL};
	if (!is_shaped(q))
		return BB_OK;
	if (q->given->machine)
		return open_changed(q, q->given->machine, machine, error);
	for (int i = 0; q->card && bb_card_system(q->card, i) && !fits; i++) {
		const char *const system = bb_card_system(q->card, i);

		if (!bb_normal_machine_open(q, system, 0, machine))
			continue;
		first = first ? first : system;
		fits = is_contradicted(q, machine) ? NULL : system;
		bb_normal_machine_close(machine);
	}
	if (!first)
		return BB_OK;
	st = open_changed(q, fits ? fits : first, machine, error);
	machine->assumed = q->given->nics == 0 && q->given->nic_Mbps == 0 &&
			   !bb_normal_fact(q, BB_FACT_NICS) && !bb_normal_fact(q, BB_FACT_EFA);
	return st;
}
