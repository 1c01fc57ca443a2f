/*
 * Collectives as kernels on NCCL's device API: whether they can run, and the part of a communicator
 * that they need.
 */
#include "backends/nccl/nccl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_BLOCKS 16 /* nccl-tests' */

#ifdef BB_NCCL_HAS_DEVICE

static int kernel_of(const struct bb_call *call)
{
	const struct bb_nccl_selection *const selection = call->native->own;

	return selection->device;
}

static enum bb_device_need need_of(const struct bb_call *call)
{
	return kernel_of(call) <= 2 ? BB_DEVICE_LSA : BB_DEVICE_MULTIMEM;
}

static unsigned blocks_of(const struct bb_group *group)
{
	const int blocks = group->rank->context->config.device_blocks;

	return blocks > 0 ? (unsigned)blocks : DEFAULT_BLOCKS;
}

static const char *reduction_limits(const struct bb_group *group, const struct bb_call *call)
{
	if (call->op != BB_SUM)
		return "the kernels of the device API only sum";
	if (need_of(call) == BB_DEVICE_LSA)
		return call->dtype == BB_F8E4M3 || call->dtype == BB_F8E5M2 ||
				       call->dtype == BB_FLOAT_INT
			       ? "the kernels of the device API do not have this datatype"
			       : NULL;
	if (group->rank->capability < 90)
		return "NVSwitch reduces from compute capability 9.0 on";
	if (call->dtype == BB_FLOAT || (call->dtype == BB_DOUBLE && kernel_of(call) == 3))
		return NULL;
	return kernel_of(call) == 3 ? "this kernel sums float and double alone"
				    : "this kernel sums float alone";
}

const char *bb_nccl_device_limits(const struct bb_group *group, const struct bb_call *call)
{
	const struct bb_context *const c = group->rank->context;
	const int version = group->rank->version;

	if (version < BB_NCCL_SINCE_DEVICE)
		return "NCCL's device API can be used from 2.28.7 on";
	/* The structs of 2.28 carry no version; later libraries take those of older headers. */
	if (NCCL_VERSION_CODE < BB_NCCL_SINCE_DEVICE_VERSIONS
		    ? version >= BB_NCCL_SINCE_DEVICE_VERSIONS
		    : version < NCCL_VERSION_CODE)
		return "the device API of this NCCL does not fit the headers that busbench was "
		       "built with";
	if (c->config.registration != BB_REGISTER_SYMMETRIC)
		return "the kernels of the device API need symmetric windows (-R 2)";
	if (c->ranks_per_device > 1)
		return "ranks share a GPU, which may not run the kernels of all at once";
	return call->collective->flags & BB_REDUCES ? reduction_limits(group, call) : NULL;
}

/* ---- opening ----------------------------------------------------------------------------- */

/* Do RESULT and what was opened mean that the kernel cannot run here? The reason goes into
   group->refusal. */
static bool is_device_refused(struct bb_group *group, const struct bb_call *call,
			      ncclResult_t result)
{
	const int lsa = result == ncclSuccess ? bb_device_lsa_ranks(group->device) : 0;

	if (result == ncclInvalidUsage || result == ncclInvalidArgument ||
	    result == ncclInternalError)
		bb_nccl_last_error(group->rank->nccl, group->refusal, sizeof(group->refusal));
	else if (result == ncclSuccess && lsa < group->n)
		snprintf(group->refusal, sizeof(group->refusal),
			 "a rank can access the memory of %d of %d ranks", lsa, group->n);
	else
		return false;
	if (!group->refusal[0])
		snprintf(group->refusal, sizeof(group->refusal), "%s",
			 group->rank->nccl->ncclGetErrorString(result));
	return true;
}

bb_status bb_nccl_device_open(struct bb_group *group, const struct bb_call *call, bool *refused)
{
	struct bb_rank *rank = group->rank;
	ncclResult_t result;
	bool mine;
	bb_status status = BB_OK;

	*refused = false;
	if (group->device || bb_nccl_native_limits(group, call))
		return BB_OK;
	result = bb_device_open(rank->nccl->ncclDevCommCreate, group->comm, need_of(call),
				blocks_of(group), &group->device);
	if (!group->device)
		return bb_no_memory(rank->context->error, "a rank");
	mine = is_device_refused(group, call, result);
	if (!mine)
		BB_TRY(status, bb_nccl_check(rank, result, "ncclDevCommCreate", __FILE__, __LINE__),
		       out);
	BB_TRY(status, bb_nccl_any(rank, mine, refused), out);
	if (*refused && !mine)
		snprintf(group->refusal, sizeof(group->refusal),
			 "another rank cannot open the device part of its communicator");
out:
	if (result != ncclSuccess) {
		free(group->device);
		group->device = NULL;
	}
	return status;
}

bb_status bb_nccl_device_close(struct bb_group *group)
{
	struct ncclDevComm *const device = group->device;
	bb_status status = BB_OK;

	if (!device)
		return BB_OK;
	group->device = NULL;
	if (!bb_nccl_aborted(group->rank->context))
		status = BB_NCCL(group->rank, ncclDevCommDestroy(group->comm, device));
	free(device);
	return status;
}

/* ---- calls ------------------------------------------------------------------------------- */

/* *WINDOW and *OFFSET = where AT is registered; false: it is not. */
static bool find_window(struct bb_group *group, const void *at, ncclWindow_t *window,
			size_t *offset)
{
	const struct bb_nccl_memory *const m = *bb_nccl_memory_link(group->rank, at);

	for (const struct bb_nccl_registration *r = group->registrations; r && m; r = r->next)
		if (r->memory == m && r->handle) {
			*window = r->handle;
			*offset = (size_t)((const char *)at - (char *)m->base);
			return true;
		}
	return false;
}

bb_status bb_nccl_device_call(struct bb_group *group, cudaStream_t stream,
			      const struct bb_call *call, const void *in)
{
	struct bb_device_call device = {.alltoall = call->collective == &bb_alltoall,
					.kernel = kernel_of(call),
					.blocks = blocks_of(group),
					.dtype = call->dtype,
					.count = call->shape.count};

	if (!find_window(group, in, &device.in, &device.in_offset) ||
	    !find_window(group, call->out, &device.out, &device.out_offset))
		return bb_fail(group->rank->context->error, BB_EUNSUPPORTED,
			       "rank %d: a kernel of the device API needs symmetric windows, and "
			       "NCCL made none for its buffers",
			       group->rank->rank);
	return BB_CUDA(group->rank, bb_device_run(stream, group->device, &device));
}

#else

const char *bb_nccl_device_limits(const struct bb_group *group, const struct bb_call *call)
{
	return "busbench was built with headers of NCCL without the device API (before 2.28.7)";
}

bb_status bb_nccl_device_open(struct bb_group *group, const struct bb_call *call, bool *refused)
{
	*refused = false;
	return BB_OK;
}

bb_status bb_nccl_device_close(struct bb_group *group)
{
	return BB_OK;
}

bb_status bb_nccl_device_call(struct bb_group *group, cudaStream_t stream,
			      const struct bb_call *call, const void *in)
{
	return bb_fail(group->rank->context->error, BB_EINTERNAL, "%s",
		       bb_nccl_device_limits(group, call));
}

#endif
