/*
 * nccl_shape.h - what NCCL would find of a group of a cluster's GPUs: any of them, in any order.
 */
#ifndef BB_SIMULATOR_NCCL_SHAPE_H
#define BB_SIMULATOR_NCCL_SHAPE_H

#include "simulator/nccl_model.h"
#include "simulator/fabric.h"
#include "simulator/cluster.h"

/*
 * *MACHINE = what NCCL would find of the N MEMBERS, ranks of CLUSTER: how many of its nodes they
 * are on, which share NVSwitches, over how many rails they leave each, and what NVLinks they have
 * to each other. Where nodes differ it is as in NCCL (src/init.cc, src/graph/tuning.cc): rates are
 * those of the node that has least, ranks of a node their mean. machine->unknown says of what there
 * is no model: of GPUs that no NVLinks join where others of their node have some, and of a rank
 * alone. The WORLD's other ranks, the first of the cluster, are groups that do the same at the same
 * time: of a rail the group has as large a part as of the ranks on it. False: out of memory.
 */
bool bb_nccl_shape_make(struct bb_nccl_machine *machine, const struct bb_cluster *cluster,
			int world, const int *members, int n);

/* The same with FLAW (NULL: none). NCCL uses all rails of its members alike and waits for the
   slowest node: what is wrong with a rail that one of them uses is wrong with all. As in
   bb_fabric_route, who had a rail that is lost shares the next one with its own, be they members or
   not: where as many groups use the one as the other, all have half of it. */
void bb_nccl_shape_apply_flaw(struct bb_nccl_machine *machine, const struct bb_cluster *cluster,
			      const struct bb_fabric_flaw *flaw, int world, const int *members,
			      int n);

#endif
