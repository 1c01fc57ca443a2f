/*
 * nccl_likeness.c - machines that are alike, and the published rows of each kind of machine.
 */
#include "simulator/nccl_likeness.h"

#include "core/units.h"

#include <stdio.h>

enum links { SWITCH, RACK, LINKS, PEERS, HOST, LONE, ALL_LINKS };
enum network { INFINIBAND, EFA, OTHER, STAGED, NETWORKS };

/* Of nccl.txt, and for people. */
static const char *const links_names[ALL_LINKS][2] = {
	[SWITCH] = {"switch", "NVSwitches"},   [RACK] = {"rack", "racks of NVSwitches"},
	[LINKS] = {"links", "NVLinks"},        [PEERS] = {"peers", "PCIe with P2P"},
	[HOST] = {"host", "PCIe without P2P"}, [LONE] = {"lone", "one GPU on a node"},
};
static const char *const network_names[NETWORKS][2] = {
	[INFINIBAND] = {"infiniband", "InfiniBand"},
	[EFA] = {"efa", "EFA"},
	[OTHER] = {"other", "another network"},
	[STAGED] = {"staged", "no GPUDirect"},
};

static enum links links_of(const struct bb_nccl_machine *m)
{
	if (m->ranks == m->nodes)
		return LONE;
	if (m->nvswitch)
		return m->wide ? RACK : SWITCH;
	return m->nvlink ? LINKS : m->through_host ? HOST : PEERS;
}

static enum network network_of(const struct bb_nccl_machine *m)
{
	if (m->staged)
		return STAGED;
	return m->nics == BB_NICS_INFINIBAND ? INFINIBAND : m->nics >= BB_NICS_EFA ? EFA : OTHER;
}

/* A kind is links, whether some GPUs are idle, and what is between the nodes: nothing, or a
 * network. */
enum { BETWEEN = 1 + NETWORKS };
_Static_assert(BB_NCCL_KINDS == ALL_LINKS * 2 * BETWEEN, "kinds");

int bb_nccl_kind(const struct bb_nccl_machine *m)
{
	const enum links links = links_of(m);
	const bool some = m->some_gpus && links != LONE;

	return (links * 2 + some) * BETWEEN + (m->nodes > 1 ? 1 + network_of(m) : 0);
}

void bb_nccl_kind_name(int kind, char name[BB_NCCL_KIND_TEXT])
{
	const int between = kind % BETWEEN, some = kind / BETWEEN % 2;

	snprintf(name, BB_NCCL_KIND_TEXT, "%s/%s/%s", links_names[kind / BETWEEN / 2][0],
		 some ? "some" : "all", between ? network_names[between - 1][0] : "node");
}

static void describe_kind(int kind, char text[BB_NCCL_KIND_TEXT])
{
	const int between = kind % BETWEEN, links = kind / BETWEEN / 2;
	const char *gpus = links == LONE ? "" : kind / BETWEEN % 2 ? ", some GPUs" : ", all GPUs";

	snprintf(text, BB_NCCL_KIND_TEXT, "%s%s, %s", links_names[links][1], gpus,
		 between ? network_names[between - 1][1] : "one node");
}

enum bb_nccl_basis_lack bb_nccl_basis(const struct bb_nccl_constants *c,
				      const struct bb_nccl_call *call, struct bb_nccl_basis *basis)
{
	const struct bb_nccl_likeness *like = &c->likeness[bb_nccl_kind(call->machine)];

	*basis = like->basis[bb_nccl_interval_class(call)];
	if (basis->machines < c->like_least)
		return BB_NCCL_FEW_MACHINES;
	return call->machine->nodes > c->like_nodes * like->nodes ? BB_NCCL_FEW_NODES
								  : BB_NCCL_ENOUGH;
}

void bb_nccl_basis_describe(const struct bb_nccl_constants *c, const struct bb_nccl_call *call,
			    char text[BB_NCCL_BASIS_TEXT])
{
	struct bb_nccl_basis basis;
	const enum bb_nccl_basis_lack lack = bb_nccl_basis(c, call, &basis);
	char kind[BB_NCCL_KIND_TEXT], of[32] = "";

	describe_kind(bb_nccl_kind(call->machine), kind);
	if (basis.machines > 0)
		snprintf(of, sizeof(of), " of %d machine%s", basis.machines,
			 bb_plural(basis.machines));
	snprintf(text, BB_NCCL_BASIS_TEXT, "%d row%s%s%s%s: %s", basis.rows, bb_plural(basis.rows),
		 of, lack == BB_NCCL_FEW_NODES ? " on fewer nodes" : "",
		 lack == BB_NCCL_ENOUGH ? "" : ", so the widest", kind);
}
