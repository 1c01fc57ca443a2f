/*
 * fusion.h - how gradients are grouped into buckets, each of which one call reduces, and when that
 * may begin. Each framework has a rule of its own; rules are rows of a table. Pure arithmetic.
 *
 *   ddp       PyTorch's DistributedDataParallel: a bucket is closed by the tensor that brings it to
 *             its cap; the caps are a list, whose last one holds for all later buckets
 *             (compute_bucket_assignment_by_size in reducer.cpp)
 *   horovod   What is ready when a cycle begins is fused up to a threshold; tensors of another
 *             datatype are passed over, as long as those taken and passed over are within it
 *             (RunLoopOnce in operations.cc, FuseResponses in controller.cc)
 *   tf        MultiWorkerMirroredStrategy: from the last variable to the first, a pack is closed by
 *             the tensor that brings it above bytes_per_pack; 0: a single pack (group_by_size in
 *             cross_device_utils.py)
 *   megatron  Megatron-LM's DistributedDataParallel: as ddp, but from the last parameter to the
 *             first, and the cap is a number of elements (param_and_grad_buffer.py)
 *   mirrored  MirroredStrategy: all gradients as one vector, cut into num_packs packs of equally
 *             many elements, the last with the rest; 0: a pack for each tensor
 *             (_ConcatAndSplitPacker in cross_device_ops.py)
 *   fsdp      FullyShardedDataParallel: a bucket for each unit (units.h)
 *
 * No bucket has two datatypes. Buckets are reduced in the order of their list: for ddp and tf that
 * in which they are closed, whatever is complete; for horovod that of its cycles; for the others
 * that in which they become complete.
 */
#pragma once

#include "core/datatype.h"
#include "models/units.h"

#define BB_BUCKET_UNLIMITED UINT64_MAX
#define BB_FUSION_MOST_CYCLES 100000

/* The gradient of a tensor. Arrays of them are in the order in which they become complete. */
struct bb_fusion_tensor {
	uint64_t elements;
	enum bb_dtype dtype;
	double ready_s; /* since the backward pass began */
	size_t place;   /* in the order of registration, a permutation */
	size_t unit;    /* of FSDP */
};

struct bb_fusion_rule {
	const char *name;
	const char *none; /* what a cap of 0 makes of the gradients */
	enum { BB_FUSION_READY, BB_FUSION_REVERSED, BB_FUSION_REGISTERED } order; /* of tensors */
	bool elements; /* caps are numbers of elements, not bytes */
	bool above;    /* a bucket is closed above its cap, not at it */
	bool units;    /* it is closed at the end of its unit, whatever its size */
	bool complete; /* buckets are reduced as they become complete, else as they are closed */
	bool clocked;  /* they are reduced by cycles */
	bool cut;      /* caps are a number of equal parts */
};

enum bb_fusion_framework {
	BB_FUSION_DDP,
	BB_FUSION_HOROVOD,
	BB_FUSION_TF,
	BB_FUSION_MEGATRON,
	BB_FUSION_MIRRORED,
	BB_FUSION_FSDP,
	BB_FUSION_RULES
};
extern const struct bb_fusion_rule bb_fusion_rules[BB_FUSION_RULES];
extern const char *const bb_fusion_names[]; /* of the rules, in the same order; ends with NULL */

/* A rule with its parameters. */
struct bb_fusion_setting {
	const struct bb_fusion_rule *rule;
	/* Caps, bucket by bucket, of each datatype; the last one holds for all later ones. */
	const uint64_t *caps;
	size_t ncaps;
	uint64_t multiple;       /* of elements, to which each bucket is padded; 0: none is */
	uint64_t fused_multiple; /* the same for buckets of several tensors */
	/* Horovod. */
	uint64_t round; /* of bytes, to which each of several tensors is padded; 0: none is */
	double cycle_s; /* between the begins of cycles; 0: one for each gradient */
};

struct bb_bucket {
	size_t first, count; /* buckets.tensors[first …]; parts of tensors, if they are cut */
	size_t turn;         /* its place among the buckets, which are sorted by it */
	size_t last;         /* the one that completes it: its place in the order of completion */
	size_t before;       /* bytes before it in memory that holds all buckets */
	uint64_t elements, bytes;
	uint64_t padded; /* elements with padding: what the call reduces */
	enum bb_dtype dtype;
	double launch_s; /* since the backward pass began: not before; 0: when it is complete */
};

struct bb_buckets {
	struct bb_bucket *list; /* in the order in which they are reduced */
	size_t n;
	size_t *tensors; /* of each bucket, one after another: places in the order of completion */
	uint64_t bytes;  /* of all buckets, without padding */
	uint64_t room;   /* of memory that holds them */
	uint64_t least, most; /* bytes of the smallest and the largest one */
	double *cycles;       /* begins of Horovod's cycles, since the backward pass began */
	size_t ncycles;
};

/*
 * The buckets of TENSORS [n], n at least 1, by SETTING. BB_EUSAGE for more than
 * BB_FUSION_MOST_CYCLES cycles, more packs than elements, and several datatypes in one vector;
 * BB_EINTERNAL without memory. Free BUCKETS whatever comes back.
 */
BB_MUST bb_status bb_fusion_make(struct bb_buckets *buckets, const struct bb_fusion_tensor *tensors,
				 size_t n, const struct bb_fusion_setting *setting,
				 struct bb_error *error);
void bb_fusion_free(struct bb_buckets *buckets); /* zeroed: no-op */

/* Do A and B, of the same tensors, have buckets of the same sizes, complete and launched at the
   same times? */
bool bb_fusion_is_same(const struct bb_buckets *a, const struct bb_buckets *b);

/* TENSORS [model->ntensors] = the gradients of MODEL in elements of DTYPE, those of vectors
   (biases, norms) in elements of VECTORS; READY_S by bb_model_ready; UNITS NULL: all are in one. */
void bb_fusion_tensors(struct bb_fusion_tensor *tensors, const struct bb_model *model,
		       enum bb_dtype dtype, enum bb_dtype vectors, const double *ready_s,
		       const struct bb_fsdp_units *units);

/* Seconds from the begin of the backward pass until bucket B is complete; READY_S: [tensor]. */
static inline double bb_bucket_ready(const struct bb_bucket *b, const double *ready_s)
{
	return ready_s[b->last];
}

/* ---- Horovod --------------------------------------------------------------------------------- */

/* BYTES of a fusion threshold, as Horovod rounds them for LOCAL ranks of each node: up to a
   multiple of LOCAL * 8 * 64 (TensorFusionThresholdBytes in controller.cc). */
static inline uint64_t bb_fusion_threshold(uint64_t bytes, uint64_t local)
{
	return (bytes + local * 512 - 1) / (local * 512) * (local * 512);
}

/* Words of 8 bytes by which ranks agree that CACHED tensors are ready: a bit for each, and 3 of
   status (CacheCoordinator::sync in response_cache.cc). */
static inline size_t bb_fusion_words(size_t cached)
{
	return (cached + 3 + 63) / 64;
}

/* An all-reduce of ELEMENTS by ranks of nodes of LOCAL each: each rank has EACH in its node, and
   the REST goes by the rank ROOT of its node (NCCLHierarchicalAllreduce in nccl_operations.cc).
   Nodes of UNEQUAL sizes have no parts. */
struct bb_fusion_shares {
	uint64_t each, rest;
	int root;
};
static inline struct bb_fusion_shares bb_fusion_divide(uint64_t elements, int local, bool unequal)
{
	const uint64_t l = (uint64_t)local, each = unequal ? 0 : elements / l;

	return (struct bb_fusion_shares){each, elements - each * l, unequal ? 0 : local - 1};
}

/* Bytes that a rank sends by rings in an all-reduce of BYTES on NODES of LOCAL ranks: within its
   node, a reduce-scatter and an all-gather of BYTES; across, an all-reduce of its share. */
struct bb_fusion_traffic {
	double inside, across;
};
static inline struct bb_fusion_traffic bb_fusion_hierarchical(uint64_t bytes, int local, int nodes)
{
	const double b = (double)bytes, l = local, h = nodes;

	return (struct bb_fusion_traffic){2 * (l - 1) / l * b, 2 * (h - 1) / h * b / l};
}

/* ---- Megatron-LM ----------------------------------------------------------------------------- */

/* Elements at which a bucket is closed for RANKS, unless it is set: 40 million, or a million for
   each rank (DistributedDataParallelConfig). */
static inline uint64_t bb_fusion_megatron_cap(int ranks)
{
	return ranks > 40 ? UINT64_C(1000000) * (uint64_t)ranks : 40000000;
}

/* Elements to a multiple of which it pads buckets: the least common one of 2^16 and the ranks. */
static inline uint64_t bb_fusion_megatron_multiple(int ranks)
{
	const uint64_t n = (uint64_t)ranks, odd = n / (n & -n);

	return odd * (n / odd > 1 << 16 ? n / odd : 1 << 16);
}
