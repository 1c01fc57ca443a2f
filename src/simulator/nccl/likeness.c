/*
 * likeness.c - the intervals of predictions: by the published rows of machines that are alike,
 * and by what an unknown network plug-in may add.
 */
#include "simulator/nccl/model.h"

#include "core/units.h"

#include <math.h>
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

/* A kind is links, whether some GPUs are idle, and what is between the nodes: nothing, or a
 * network. */
enum { BETWEEN = 1 + NETWORKS };
_Static_assert(BB_NCCL_KINDS == ALL_LINKS * 2 * BETWEEN, "kinds");

int bb_nccl_kind(const struct bb_nccl_machine *m)
{
	const enum links links = m->ranks == m->nodes ? LONE
				 : m->nvswitch        ? (m->wide ? RACK : SWITCH)
				 : m->nvlink          ? LINKS
				 : m->through_host    ? HOST
						      : PEERS;
	const bool some = m->some_gpus && links != LONE;
	const enum network network = m->staged                       ? STAGED
				     : m->nics == BB_NICS_INFINIBAND ? INFINIBAND
				     : m->nics >= BB_NICS_EFA        ? EFA
								     : OTHER;

	return (links * 2 + some) * BETWEEN + (m->nodes > 1 ? 1 + network : 0);
}

void bb_nccl_kind_name(int kind, char name[BB_NCCL_KIND_TEXT])
{
	const int between = kind % BETWEEN, some = kind / BETWEEN % 2;

	snprintf(name, BB_NCCL_KIND_TEXT, "%s/%s/%s", links_names[kind / BETWEEN / 2][0],
		 some ? "some" : "all", between ? network_names[between - 1][0] : "node");
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
	const int kind = bb_nccl_kind(call->machine), between = kind % BETWEEN;
	const int links = kind / BETWEEN / 2;
	const char *gpus = links == LONE ? "" : kind / BETWEEN % 2 ? ", some GPUs" : ", all GPUs";
	char of[32] = "";

	if (basis.machines > 0)
		snprintf(of, sizeof(of), " of %d machine%s", basis.machines,
			 bb_plural(basis.machines));
	snprintf(text, BB_NCCL_BASIS_TEXT, "%d row%s%s%s%s: %s%s, %s", basis.rows,
		 bb_plural(basis.rows), of, lack == BB_NCCL_FEW_NODES ? " on fewer nodes" : "",
		 lack == BB_NCCL_ENOUGH ? "" : ", so the widest", links_names[links][1], gpus,
		 between ? network_names[between - 1][1] : "one node");
}

/* ---- the interval --------------------------------------------------------------------- */

/* How many times as long CALL takes on OTHER as on its own machine. */
static double times_on(const struct bb_nccl_constants *c, const struct bb_nccl_call *call,
		       const struct bb_nccl_machine *other)
{
	struct bb_nccl_call there = *call;

	there.machine = other;
	return bb_nccl_call_time(c, &there) / bb_nccl_call_time(c, call);
}

double bb_nccl_slow_plugin(const struct bb_nccl_constants *c, const struct bb_nccl_call *call)
{
	struct bb_nccl_machine slow = *call->machine;

	if (slow.nodes == 1 || slow.nics == BB_NICS_INFINIBAND || slow.nic_latency > 0)
		return 1;
	slow.nic_latency = c->interval_plugin;
	return fmax(1, times_on(c, call, &slow));
}

enum bb_nccl_interval_class bb_nccl_interval_class(const struct bb_nccl_call *call)
{
	if (call->bytes < 0x1p28)
		return call->bytes < 0x1p20 ? BB_NCCL_SMALL : BB_NCCL_MEDIUM;
	return call->machine->nodes > 1 && bb_nccl_lacks(call->collective, BB_NCCL_ANY)
		       ? BB_NCCL_LARGE_MESSAGES
		       : BB_NCCL_LARGE;
}

double bb_nccl_fast_host(const struct bb_nccl_constants *c, const struct bb_nccl_call *call)
{
	struct bb_nccl_machine fast = *call->machine;

	if (!fast.through_host && !fast.staged)
		return 1;
	fast.through_host = fast.staged = false;
	return fmin(1, times_on(c, call, &fast));
}

void bb_nccl_interval(const struct bb_nccl_constants *c, const struct bb_nccl_call *call,
		      double *low, double *high)
{
	const struct bb_nccl_machine *m = call->machine;
	const enum bb_nccl_interval_class class = bb_nccl_interval_class(call);
	const double slow = bb_nccl_slow_plugin(c, call);
	struct bb_nccl_basis basis;
	const bool alike = bb_nccl_basis(c, call, &basis) == BB_NCCL_ENOUGH;

	*low = alike ? c->interval_low[class]
		     : fmin(c->interval_unlike_low[class], bb_nccl_fast_host(c, call));
	*high = alike ? c->interval_high[class] : c->interval_unlike_high[class];
	/* More racks than were measured: NCCL may have chosen otherwise than the model does. */
	for (int i = 0; i < BB_NCCL_INTERVAL_CLASSES && m->wide && m->nodes > c->racks_measured;
	     i++) {
		*low = fmin(*low, c->interval_unlike_low[i]);
		*high = fmax(*high, c->interval_unlike_high[i]);
	}
	/* In steps of a tenth, above 2 of a half: an unknown plug-in needs no more. */
	const double steps = *high * slow < 2 ? 10 : 2;
	if (slow > 1)
		*high = ceil(*high * slow * steps) / steps;
}
