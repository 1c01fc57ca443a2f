/*
 * nccl_paths.c - what passes the path between the NICs of two nodes, of all that leaves a NIC.
 *
 * NCCL orders nodes by their first rank and keeps to a rail between them (connectRings,
 * connectTrees and connectNvls of src/graph/connect.cc, ncclGetDtree of
 * src/graph/trees.cc, 2.30.7):
 *
 * - A ring sends all that leaves a node to the next node.
 * - Trees: two binary trees with half of the bytes each, up and down each edge. The second is the
 *   mirror of the first or, of an odd number of nodes, is shifted by one. A NIC of three or more
 *   nodes sends four such halves, one of two nodes two, both to the other.
 * - An alltoall sends a NIC of each other node as much; NVLinks bring messages to their rail (PXN).
 */
#include "simulator/nccl_model.h"

#include <math.h>

/* The parent of NODE in NCCL's binary tree of N nodes (ncclGetBtree); -1: it is the root. */
static int parent_of(int node, int n)
{
	const int low = node & -node, joined = node ^ low;

	if (node == 0)
		return -1;
	return (joined | low << 1) < n ? joined | low << 1 : joined;
}

static bool are_joined(int a, int b, int n)
{
	return parent_of(a, n) == b || parent_of(b, n) == a;
}

/* Edges between nodes FROM and TO in both trees of N nodes. */
static int tree_edges(int from, int to, int n)
{
	const bool odd = n % 2;

	return are_joined(from, to, n) + (odd ? are_joined((from + n - 1) % n, (to + n - 1) % n, n)
					      : are_joined(n - 1 - from, n - 1 - to, n));
}

double bb_nccl_path_share(const struct bb_nccl_machine *machine,
			  const struct bb_collective *collective, enum bb_nccl_algorithm algorithm)
{
	const int n = machine->nodes, from = machine->slow_path.from, to = machine->slow_path.to;

	if (from == to)
		return NAN;
	switch (algorithm) {
	case BB_NCCL_RING:
		return to == (from + 1) % n;
	case BB_NCCL_TREE:
	case BB_NCCL_NVLSTREE:
		return tree_edges(from, to, n) / (n == 2 ? 2.0 : 4.0);
	case BB_NCCL_ANY:
		return collective == &bb_alltoall && machine->nvlink ? 1.0 / (n - 1) : NAN;
	default:
		return NAN;
	}
}

const char *bb_nccl_path_unknown(const struct bb_nccl_constants *c, const struct bb_nccl_call *call)
{
	enum bb_nccl_algorithm algorithm = BB_NCCL_ANY;
	enum bb_nccl_protocol protocol;

	if (call->machine->slow_path.factor < 1)
		return NULL;
	if (!bb_nccl_lacks(call->collective, BB_NCCL_ANY))
		(void)bb_nccl_choose(c, call, &algorithm, &protocol);
	if (!isnan(bb_nccl_path_share(call->machine, call->collective, algorithm)))
		return NULL;
	if (call->machine->slow_path.from == call->machine->slow_path.to)
		return "NCCL's paths between GPUs of a node are not modelled, so the cost of "
		       "slow_link there is unknown; name a schedule, as busbench:ring";
	return "which of NCCL's messages take this slow_link is not modelled, so its cost is "
	       "unknown; name a schedule, as busbench:ring";
}

double bb_nccl_path_delay(const struct bb_nccl_machine *machine,
			  const struct bb_collective *collective, enum bb_nccl_algorithm algorithm)
{
	return machine->slow_path.factor >= 1 &&
			       bb_nccl_path_share(machine, collective, algorithm) > 0
		       ? machine->slow_path.factor - 1
		       : 0;
}

double bb_nccl_net_fault(const struct bb_nccl_machine *machine,
			 const struct bb_collective *collective, enum bb_nccl_algorithm algorithm)
{
	double most = fmax(machine->net_fault, 1);

	if (machine->slow_path.factor >= 1)
		most = fmax(most, machine->slow_path.factor *
					  bb_nccl_path_share(machine, collective, algorithm));
	return most;
}
