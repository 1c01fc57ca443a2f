/*
 * operands.c - the datatypes and operations that NCCL's algorithms reduce.
 *
 * The rules are those of NCCL 2.30.7: hostToDevRedOp (src/enqueue.cc:2480) turns avg into sums that
 * are scaled, of integers after and of floats before; ncclNvlsSupported (src/include/device.h:587)
 * and required_cuda (src/device/generate.py:106) list what NVSwitches reduce; updateCollCostTable
 * (src/enqueue.cc:1989) excludes PAT and defers rings. NVLS has had its rule since 2.18, PAT since
 * 2.23 and fp8 since 2.24, its first version.
 */
#include "simulator/nccl/model.h"

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

double bb_nccl_reluctance(const struct bb_nccl_call *call, enum bb_nccl_algorithm algorithm)
{
	const bool reduces = call->collective->flags & BB_REDUCES;

	return reduces && is_fp8(call->dtype) && algorithm == BB_NCCL_RING &&
			       call->machine->ranks > 8
		       ? 1024
		       : 1;
}
