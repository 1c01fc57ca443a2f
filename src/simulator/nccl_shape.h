/*
 * nccl_shape.h - a group of a cluster's GPUs, any of them in any order, as NCCL would detect it.
 */
#ifndef BB_SIMULATOR_NCCL_SHAPE_H
#define BB_SIMULATOR_NCCL_SHAPE_H

#include "simulator/nccl_model.h"
#include "simulator/fabric.h"
#include "simulator/cluster.h"

/*
 * Fill MACHINE with what NCCL would detect of the N MEMBERS, ranks of CLUSTER: their nodes, where
 * nodes that share NVSwitches count as one, the rails that they leave each by, and the NVLinks
 * among them. Nodes that differ are combined as in NCCL (src/init.cc, src/graph/tuning.cc): rates
 * are those of the slowest node, ranks of a node are their mean. machine->unknown names what is not
 * modelled: GPUs without NVLinks among GPUs that have some, and a rank alone. The other ranks of
 * WORLD, the first of the cluster, count as groups that do the same at the same time, so a group
 * has a share of a rail in proportion to its ranks on it. False: out of memory.
 */
bool bb_nccl_shape_make(struct bb_nccl_machine *machine, const struct bb_cluster *cluster,
			int world, const int *members, int n);

/* Apply FLAW (NULL: none) to MACHINE. NCCL uses all rails of its members evenly and waits for the
   slowest node, so a fault of a rail that one of them uses slows all. As in bb_fabric_rail, the
   ranks of a lost rail share the next one with its own ranks, members or not: where as many groups
   use the one as the other, each has half of it. */
void bb_nccl_shape_apply_flaw(struct bb_nccl_machine *machine, const struct bb_cluster *cluster,
			      const struct bb_fabric_flaw *flaw, int world, const int *members,
			      int n);

#endif
