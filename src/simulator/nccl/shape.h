/*
 * shape.h - a group of a cluster's ranks, in any order, as NCCL would detect it.
 */
#ifndef BB_SIMULATOR_NCCL_SHAPE_H
#define BB_SIMULATOR_NCCL_SHAPE_H

#include "simulator/nccl/model.h"
#include "simulator/fabric.h"
#include "simulator/cluster/cluster.h"

/*
 * Fill MACHINE with what NCCL would detect of the N MEMBERS, ranks of CLUSTER: their nodes (nodes
 * that share NVSwitches count as one), their rails, and the NVLinks between them. Nodes that differ
 * are combined as in NCCL (src/init.cc, src/graph/tuning.cc): rates are those of the slowest node,
 * ranks of a node are their mean. Members of a node that NVLinks do not connect exchange messages
 * over PCIe. machine->unknown names what is not modelled: a single rank. WORLD is the number of
 * ranks of the run, the first of the cluster; those outside the group count as groups that do the
 * same at the same time, so a group's share of a rail is in proportion to its ranks on it. WORLD 0:
 * there are no others. False: out of memory.
 */
bool bb_nccl_shape_make(struct bb_nccl_machine *machine, const struct bb_cluster *cluster,
			int world, const int *members, int n);

/* Apply FLAW (NULL: none) to MACHINE. NCCL uses all rails of its members evenly and waits for the
   slowest node, so a fault of one of these rails slows all members. As in fabric.h, the ranks
   of a lost rail share the next one with its own ranks, members or not: if equally many groups use
   both, each has half of it. */
void bb_nccl_shape_apply_flaw(struct bb_nccl_machine *machine, const struct bb_cluster *cluster,
			      const struct bb_fabric_flaw *flaw, int world, const int *members,
			      int n);

/* Apply a path that takes FACTOR times as long from rank FROM to rank TO to MACHINE, of the N
   MEMBERS. With NVLinks NCCL keeps to a rail between nodes, so a path between two rails is not
   used. False: out of memory. */
bool bb_nccl_shape_apply_slow_path(struct bb_nccl_machine *machine,
				   const struct bb_cluster *cluster, double factor, int from,
				   int to, const int *members, int n);

#endif
