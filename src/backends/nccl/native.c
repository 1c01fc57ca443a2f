/*
 * NCCL's collectives. Those that it lacks are built from its messages, as nccl-tests builds them. A
 * collective that cannot run in place reads its input from a copy in TMP.
 */
#include "backends/nccl/nccl.h"

#include "core/scalar.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- kernels on NCCL's device API ---------------------------------------------------- */

/*
 * Collectives as kernels on NCCL's device API: whether they can run, and the part of a communicator
 * that they need.
 */

#define DEFAULT_BLOCKS 16 /* nccl-tests' */
#define FIRST_MULTIMEM 3  /* kernel that NVSwitch reduces for */

/* device.cu is empty with older headers; nccl_device_limits then refuses its kernels. */
#pragma weak bb_device_open
#pragma weak bb_device_run

static unsigned blocks_of(const struct bb_group *group)
{
	const int blocks = group->rank->context->config.device_blocks;

	return blocks > 0 ? (unsigned)blocks : DEFAULT_BLOCKS;
}

/* NULL, or why no kernel can make CALL, whose native is one of them: the same on all ranks. */
static const char *nccl_device_limits(const struct bb_group *group, const struct bb_call *call)
{
	const struct bb_context *const c = group->rank->context;
	const int version = group->rank->version, kernel = bb_nccl_kernel(call->native);
	const enum bb_dtype dtype = call->dtype;

	if (NCCL_VERSION_CODE < BB_NCCL_SINCE_DEVICE)
		return "busbench was built with headers of NCCL without the device API (before "
		       "2.28.7)";
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
	if (!(call->collective->flags & BB_REDUCES))
		return NULL;
	if (call->op != BB_SUM)
		return "the kernels of the device API only sum";
	if (kernel < FIRST_MULTIMEM)
		return dtype == BB_F8E4M3 || dtype == BB_F8E5M2 || dtype == BB_FLOAT_INT
			       ? "the kernels of the device API do not have this datatype"
			       : NULL;
	if (group->rank->capability < 90)
		return "NVSwitch reduces from compute capability 9.0 on";
	if (dtype == BB_FLOAT || (dtype == BB_DOUBLE && kernel == 3))
		return NULL;
	return kernel == 3 ? "this kernel sums float and double alone"
			   : "this kernel sums float alone";
}

/* ---- opening ----------------------------------------------------------------------------- */

bb_status bb_nccl_device_open(struct bb_group *group, const struct bb_call *call, bool *refused)
{
	struct bb_rank *rank = group->rank;
	char *const why = group->refusal;
	const size_t room = sizeof(group->refusal);
	bool mine; /* this rank cannot run the kernel */
	int lsa;
	bb_status status = BB_OK;

	*refused = false;
	if (group->device || bb_nccl_native_limits(group, call))
		return BB_OK;
	const ncclResult_t result = bb_device_open(rank->nccl->ncclDevCommCreate, group->comm,
						   bb_nccl_kernel(call->native) >= FIRST_MULTIMEM,
						   blocks_of(group), &group->device, &lsa);
	if (!group->device)
		return bb_no_memory(rank->context->error, "a rank");
	mine = result == ncclSuccess
		       ? lsa < group->n
		       : result == ncclInvalidUsage || result == ncclInvalidArgument ||
				 result == ncclInternalError;
	if (!mine)
		BB_TRY(status, BB_NCCL_RESULT(rank, result, "ncclDevCommCreate"), out);
	else if (result == ncclSuccess)
		snprintf(why, room, "a rank can access the memory of %d of %d ranks", lsa,
			 group->n);
	else
		bb_nccl_last_error(rank->nccl, why, room);
	if (mine && !why[0])
		snprintf(why, room, "%s", rank->nccl->ncclGetErrorString(result));
	BB_TRY(status, bb_nccl_any(rank, mine, refused), out);
	if (*refused && !mine)
		snprintf(why, room, "another rank cannot open the device part of its communicator");
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

/* A call in NCCL's terms. */
struct library_call {
	const struct bb_group *group;
	const struct bb_call *call;
	const void *in; /* the call's, or its copy */
	ncclDataType_t type;
	ncclRedOp_t op;
	cudaStream_t stream;
};

enum algorithm { RING = 1, TREE = 2, COLLNET = 4, NVLS = 8, NVLSTREE = 16, PAT = 32 };

/* A function of NCCL, or messages to and from all ranks. */
struct nccl_function {
	const char *name; /* for errors */
	ncclResult_t (*run)(const struct library_call *w);
};

struct nccl_collective {
	const struct bb_collective *collective;
	struct nccl_function function; /* without name: messages */
	unsigned algorithms;           /* that NCCL has for it */
	bool out_of_place;             /* IN and OUT must not overlap */
	int device;                    /* kernels 1 to DEVICE are in device.cu; 0: none */
	/* Used instead of FUNCTION from BB_NCCL_SINCE_ALLTOALL on; without name: never. */
	struct nccl_function newer;
};

/* ---- collectives that NCCL has ------------------------------------------------------- */

/* NAME calls FUNCTION, which may take further arguments after the type. */
#define LIBRARY(name, function, ...)                                                               \
	static ncclResult_t name(const struct library_call *w)                                     \
	{                                                                                          \
		return w->group->rank->nccl->function(w->in, w->call->out, w->call->shape.count,   \
						      w->type, ##__VA_ARGS__, w->group->comm,      \
						      w->stream);                                  \
	}
#define ROOT w->call->shape.root

LIBRARY(all_reduce, ncclAllReduce, w->op)
LIBRARY(all_gather, ncclAllGather)
LIBRARY(reduce_scatter, ncclReduceScatter, w->op)
LIBRARY(broadcast, ncclBroadcast, ROOT)
LIBRARY(reduce, ncclReduce, w->op, ROOT)
LIBRARY(newer_gather, ncclGather, ROOT)
LIBRARY(newer_scatter, ncclScatter, ROOT)
LIBRARY(newer_alltoall, ncclAlltoAll)

/* ---- collectives built from messages ----------------------------------------------- */

/* Elements that rank FROM sends to TO. The blocks of IN, and of OUT, follow each other by peer. */
static size_t message_count(const struct library_call *w, int from, int to)
{
	const struct bb_shape *shape = &w->call->shape;
	const struct bb_collective *c = w->call->collective;

	if (c == &bb_sendrecv)
		return to == (from + 1) % shape->nranks ? shape->count : 0;
	if (c == &bb_gather)
		return to == shape->root ? shape->count : 0;
	if (c == &bb_scatter)
		return from == shape->root ? shape->count : 0;
	return bb_alltoall_count(shape, from, to);
}

/* The messages are issued as one group. */
static ncclResult_t messages_issue(const struct library_call *w)
{
	const struct bb_nccl_library *const nccl = w->group->rank->nccl;
	const size_t element = bb_dtype_size(w->call->dtype);
	const ncclComm_t comm = w->group->comm;
	const int me = w->group->me;
	const char *from = w->in;
	char *to = w->call->out;
	ncclResult_t result = nccl->ncclGroupStart(), end;

	if (result != ncclSuccess)
		return result;
	for (int peer = 0; peer < w->group->n && result == ncclSuccess; peer++) {
		const size_t out = message_count(w, me, peer), in = message_count(w, peer, me);

		if (out > 0)
			result = nccl->ncclSend(from, out, w->type, peer, comm, w->stream);
		if (in > 0 && result == ncclSuccess)
			result = nccl->ncclRecv(to, in, w->type, peer, comm, w->stream);
		from += out * element;
		to += in * element;
	}
	end = nccl->ncclGroupEnd();
	return result != ncclSuccess ? result : end;
}

static const struct nccl_function messages = {"ncclSend and ncclRecv", messages_issue};

static const struct nccl_collective collectives[] = {
	{.collective = &bb_all_reduce,
	 .function = {"ncclAllReduce", all_reduce},
	 .algorithms = RING | TREE | COLLNET | NVLS | NVLSTREE,
	 .device = BB_DEVICE_KERNELS},
	{.collective = &bb_all_gather,
	 .function = {"ncclAllGather", all_gather},
	 .algorithms = RING | COLLNET | NVLS | PAT},
	{.collective = &bb_reduce_scatter,
	 .function = {"ncclReduceScatter", reduce_scatter},
	 .algorithms = RING | COLLNET | NVLS | PAT},
	{.collective = &bb_broadcast, .function = {"ncclBroadcast", broadcast}, .algorithms = RING},
	{.collective = &bb_reduce, .function = {"ncclReduce", reduce}, .algorithms = RING},
	{.collective = &bb_gather, .newer = {"ncclGather", newer_gather}},
	{.collective = &bb_scatter, .newer = {"ncclScatter", newer_scatter}},
	{.collective = &bb_alltoall,
	 .out_of_place = true,
	 .device = BB_DEVICE_ALLTOALL_KERNELS,
	 .newer = {"ncclAlltoAll", newer_alltoall}},
	{.collective = &bb_alltoallv, .out_of_place = true},
	{.collective = &bb_sendrecv, .out_of_place = true},
};

static const struct nccl_collective *nccl_collective_find(const struct bb_collective *collective)
{
	for (size_t i = 0; i < sizeof(collectives) / sizeof(collectives[0]); i++)
		if (collectives[i].collective == collective)
			return &collectives[i];
	return NULL;
}

/* The same on all ranks. */
static const struct nccl_function *function_of(const struct bb_group *group,
					       const struct bb_call *call)
{
	const struct nccl_collective *const c = nccl_collective_find(call->collective);

	return c->newer.name && bb_nccl_has(group->rank->version, BB_NCCL_SINCE_ALLTOALL)
		       ? &c->newer
	       : c->function.name ? &c->function
				  : &messages;
}

/* ---- forced algorithms ------------------------------------------------------------- */

static const char *native_refuses(const struct bb_native *native,
				  const struct bb_collective *collective)
{
	const struct bb_nccl_selection *selection = native->own;
	const struct nccl_collective *c = nccl_collective_find(collective);

	if (!c)
		return "NCCL has no such collective";
	if (selection->device > 0 && c->device == 0)
		return "busbench has no kernel of it on NCCL's device API";
	if (selection->device > 0)
		return selection->device <= c->device
			       ? NULL
			       : "kernels 3 and 4 of it would send over the network (GIN), which "
				 "busbench has no kernels for";
	if (selection->algorithms == 0)
		return NULL;
	if (c->algorithms == 0)
		return "NCCL_ALGO and NCCL_PROTO do not govern NCCL's messages";
	return c->algorithms & selection->algorithms
		       ? NULL
		       : "NCCL has no such algorithm for this collective";
}

/* A native with the members of its bb_nccl_selection. */
#define NATIVE(text, sentence, ...)                                                                \
	{                                                                                          \
		.name = text, .brief = sentence, .refuses = native_refuses,                        \
		.own = &(const struct bb_nccl_selection)                                           \
		{                                                                                  \
			__VA_ARGS__                                                                \
		}                                                                                  \
	}

#define PROTOCOL(text, sentence, proto, ...)                                                       \
	NATIVE(text proto, sentence " NCCL_PROTO=" proto, .protocol = proto, __VA_ARGS__)
/* The same under each protocol. */
#define PROTOCOLS(text, sentence, ...)                                                             \
	PROTOCOL(text, sentence, "LL", __VA_ARGS__),                                               \
		PROTOCOL(text, sentence, "LL128", __VA_ARGS__),                                    \
		PROTOCOL(text, sentence, "Simple", __VA_ARGS__)

const struct bb_native bb_nccl_natives[] = {
	NATIVE("ring", "NCCL_ALGO=Ring", .algorithms = RING, .algorithm = "Ring"),
	NATIVE("tree", "NCCL_ALGO=Tree", .algorithms = TREE, .algorithm = "Tree"),
	NATIVE("collnet", "NCCL_ALGO=CollnetDirect,CollnetChain: reduced by the network",
	       .algorithms = COLLNET, .algorithm = "CollnetDirect,CollnetChain"),
	NATIVE("nvls", "NCCL_ALGO=NVLS: reduced by NVSwitch", .algorithms = NVLS,
	       .algorithm = "NVLS"),
	NATIVE("nvlstree", "NCCL_ALGO=NVLSTree: NVSwitch in a node, a tree between them",
	       .algorithms = NVLSTREE, .algorithm = "NVLSTree"),
	NATIVE("pat", "NCCL_ALGO=PAT: parallel aggregated trees", .algorithms = PAT,
	       .algorithm = "PAT"),
	PROTOCOLS("ring:", "and", .algorithms = RING, .algorithm = "Ring"),
	PROTOCOLS("tree:", "and", .algorithms = TREE, .algorithm = "Tree"),
	PROTOCOLS("auto:", "NCCL's choice under", .algorithms = RING | TREE),
	NATIVE("device:1", "a kernel on NCCL's device API (-D 1), element by element", .device = 1),
	NATIVE("device:2", "the same (-D 2), in pieces of 16 bytes", .device = 2),
	NATIVE("device:3", "NVSwitch sums (-D 3), element by element", .device = 3),
	NATIVE("device:4", "the same (-D 4), in pieces of 16 bytes", .device = 4),
	{.name = NULL},
};

const struct bb_native bb_nccl_auto = NATIVE("auto", "NCCL's own choice", .algorithms = 0);

/* ---- types and operations ---------------------------------------------------------- */

#define NO_TYPE ((ncclDataType_t)127)

static const ncclDataType_t types[BB_NDTYPES] = {
	[BB_INT8] = ncclInt8,         [BB_UINT8] = ncclUint8,
	[BB_INT32] = ncclInt32,       [BB_UINT32] = ncclUint32,
	[BB_INT64] = ncclInt64,       [BB_UINT64] = ncclUint64,
	[BB_HALF] = ncclFloat16,      [BB_FLOAT] = ncclFloat32,
	[BB_DOUBLE] = ncclFloat64,    [BB_BFLOAT16] = BB_NCCL_BFLOAT16,
	[BB_F8E4M3] = BB_NCCL_F8E4M3, [BB_F8E5M2] = BB_NCCL_F8E5M2,
	[BB_FLOAT_INT] = NO_TYPE,
};

static bool is_fp8(enum bb_dtype dtype)
{
	return dtype == BB_F8E4M3 || dtype == BB_F8E5M2;
}

static ncclDataType_t reduced_type(const struct bb_group *group, enum bb_dtype dtype)
{
	return is_fp8(dtype) && !bb_nccl_has(group->rank->version, BB_NCCL_SINCE_FP8)
		       ? NO_TYPE
		       : types[dtype];
}

static bool reduces(const struct bb_call *call)
{
	return call->collective->flags & BB_REDUCES;
}

const char *bb_nccl_native_limits(const struct bb_group *group, const struct bb_call *call)
{
	const struct bb_nccl_selection *const selection = call->native->own;
	const struct bb_rank *rank = group->rank;
	const char *const reason = call->native->refuses(call->native, call->collective);

	if (reason)
		return reason;
	if (bb_nccl_kernel(call->native) > 0)
		return nccl_device_limits(group, call);
	if (strcmp(call->native->name, "pat") == 0 && rank->version < BB_NCCL_SINCE_PAT)
		return "PAT is in NCCL from 2.23 on";
	/* See BB_NCCL_SINCE_STRICT. */
	if (rank->version < BB_NCCL_SINCE_STRICT && selection->algorithm &&
	    selection->algorithms & ~(RING | TREE))
		return "NCCL before 2.24 may silently run a ring instead";
	if (!reduces(call))
		return NULL;
	if (call->op > BB_MULSUM)
		return "NCCL has no logical or bitwise operations, no maxloc and no minloc";
	if (reduced_type(group, call->dtype) == NO_TYPE)
		return is_fp8(call->dtype) ? "NCCL has eight-bit floats from 2.24 on"
					   : "NCCL does not have this datatype";
	if (is_fp8(call->dtype) && rank->capability < 90)
		return "NCCL reduces eight-bit floats from compute capability 9.0 on";
	return NULL;
}

/* ---- calls ------------------------------------------------------------------------- */

static bool needs_copy(const struct bb_call *call)
{
	return call->shape.in_place && nccl_collective_find(call->collective)->out_of_place;
}

size_t bb_nccl_native_tmp_bytes(const struct bb_call *call, int rank)
{
	return needs_copy(call) ? bb_call_in_bytes(call, rank) : 0;
}

static bb_status library_call_prepare(struct library_call *w, struct bb_group *group,
				      cudaStream_t stream, const struct bb_call *call)
{
	static const ncclRedOp_t ops[] = {
		[BB_SUM] = ncclSum, [BB_PROD] = ncclProd, [BB_MIN] = ncclMin,
		[BB_MAX] = ncclMax, [BB_AVG] = ncclAvg,
	};
	const enum bb_dtype dtype = call->dtype;
	const ncclDataType_t type = reduced_type(group, dtype);
	const int weight = bb_mulsum_weight(group->me);
	uint64_t scalar = (uint64_t)weight;
	bb_status status = BB_OK;

	*w = (struct library_call){.group = group,
				   .call = call,
				   .in = needs_copy(call) ? call->tmp : call->in,
				   /* What does not reduce may use any type of the same size. */
				   .type = type != NO_TYPE                   ? type
					   : bb_dtype_size(call->dtype) == 1 ? ncclUint8
									     : ncclUint64,
				   .stream = stream};
	if (!reduces(call) || call->op != BB_MULSUM) {
		w->op = reduces(call) ? ops[call->op] : ncclSum;
		return BB_OK;
	}
	/* NCCL multiplies each rank's input by its weight. The operation lasts as long as the
	   communicator. */
	if (!group->weighted[dtype]) {
		if (bb_dtype_is_float(dtype))
			bb_scalar_encode(dtype, weight, &scalar);
		status = BB_NCCL(group->rank, ncclRedOpCreatePreMulSum(
						      &group->weights[dtype], &scalar, types[dtype],
						      ncclScalarHostImmediate, group->comm));
		group->weighted[dtype] = status == BB_OK;
	}
	w->op = group->weights[dtype];
	return status;
}

bb_status bb_nccl_native(struct bb_group *group, cudaStream_t stream, const struct bb_call *call)
{
	const struct nccl_function *const function = function_of(group, call);
	struct bb_rank *rank = group->rank;
	struct bb_device_call device = {.alltoall = call->collective == &bb_alltoall,
					.kernel = bb_nccl_kernel(call->native),
					.blocks = blocks_of(group),
					.dtype = call->dtype,
					.count = call->shape.count};
	struct library_call w;
	bb_status status;

	BB_TRY(status, library_call_prepare(&w, group, stream, call), out);
	if (needs_copy(call))
		BB_TRY(status,
		       BB_CUDA(rank, cudaMemcpyAsync(call->tmp, call->in,
						     bb_nccl_native_tmp_bytes(call, group->me),
						     cudaMemcpyDeviceToDevice, stream)),
		       out);
	if (device.kernel == 0)
		return BB_NCCL_RESULT(rank, function->run(&w), function->name);
	if (!find_window(group, w.in, &device.in, &device.in_offset) ||
	    !find_window(group, call->out, &device.out, &device.out_offset))
		return bb_fail(rank->context->error, BB_EUNSUPPORTED,
			       "rank %d: a kernel of the device API needs symmetric windows, and "
			       "NCCL made none for its buffers",
			       rank->rank);
	status = BB_CUDA(rank, bb_device_run(stream, group->device, &device));
out:
	return status;
}

/* NCCL refuses an algorithm only when a collective is called, so a call of one element is made. */
bb_status bb_nccl_native_probe(struct bb_group *group, const struct bb_call *call)
{
	const struct nccl_function *const function = function_of(group, call);
	struct bb_rank *rank = group->rank;
	struct bb_call probe = *call;
	char *const area = rank->scratch + BB_SCRATCH_PROBES;
	struct library_call w;
	bb_status status;

	if (bb_nccl_native_limits(group, call))
		return BB_OK;
	probe.shape = (struct bb_shape){.nranks = group->n, .count = 1};
	probe.in = area;
	probe.out = area + (size_t)group->n * BB_SCRATCH_PROBE;
	BB_TRY(status, library_call_prepare(&w, group, rank->main, &probe), out);
	const ncclResult_t result = function->run(&w);
	/* A refusal leaves its reason in group->refusal. Some versions return an internal error. */
	bb_nccl_last_error(rank->nccl, group->refusal, sizeof(group->refusal));
	if (result == ncclInvalidUsage ||
	    (result == ncclInternalError && strcasestr(group->refusal, "no algorithm")))
		return BB_OK;
	group->refusal[0] = '\0';
	BB_TRY(status, BB_NCCL_RESULT(rank, result, function->name), out);
	status = bb_nccl_wait(rank, rank->main);
out:
	return status;
}
