/*
 * likeness.h - machines that are alike. The interval of a prediction follows from published
 * rows of such machines; where these are few it is that of machines that were predicted
 * without their like.
 */
#ifndef BB_SIMULATOR_NCCL_LIKENESS_H
#define BB_SIMULATOR_NCCL_LIKENESS_H

#include "simulator/nccl/model.h"

enum { BB_NCCL_KIND_TEXT = 72, BB_NCCL_BASIS_TEXT = 176 };

/* The kind of MACHINE, below BB_NCCL_KINDS: links within a node (NVSwitches, racks of them,
   NVLinks, PCIe with or without peer access, one GPU), whether all GPUs take part, and the network.
 */
int bb_nccl_kind(const struct bb_nccl_machine *machine);
/* Write the name of KIND that nccl.txt has: "switch/all/efa". */
void bb_nccl_kind_name(int kind, char name[BB_NCCL_KIND_TEXT]);

/* Why published rows do not suffice for an interval of their own. */
enum bb_nccl_basis_lack { BB_NCCL_ENOUGH, BB_NCCL_FEW_MACHINES, BB_NCCL_FEW_NODES };

/* *BASIS = the published rows of machines like that of CALL, of the class of its size. */
enum bb_nccl_basis_lack bb_nccl_basis(const struct bb_nccl_constants *c,
				      const struct bb_nccl_call *call, struct bb_nccl_basis *basis);
/* Write "320 rows of 20 machines: NVSwitches, all GPUs, one node", or where they do not suffice "6
   rows of 1 machine, so the widest: PCIe with P2P, all GPUs, one node". */
void bb_nccl_basis_describe(const struct bb_nccl_constants *c, const struct bb_nccl_call *call,
			    char text[BB_NCCL_BASIS_TEXT]);

#endif
