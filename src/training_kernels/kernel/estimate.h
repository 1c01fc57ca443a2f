/*
 * estimate.h - what benchmarks of training steps work out before or instead of a run: whether the
 * data fits, and how many ranks there will be.
 */
#ifndef BB_TRAINING_KERNELS_KERNEL_ESTIMATE_H
#define BB_TRAINING_KERNELS_KERNEL_ESTIMATE_H

#include "harness/run/run.h"
#include "models/attention.h"
#include "models/memory/capacity.h"
#include "models/memory/fits.h"
#include "training_kernels/kernel/options.h"

#define BB_MEMORY_OPTION(OPTION, ...)                                                              \
	OPTION(SIZE, memory, "memory", 0, "80G",                                                   \
	       "memory of a rank, into which the model fits or not (default: that of the GPUs of " \
	       "--cluster, else 80G)",                                                             \
	       .min = 1, .max = BB_MOST_BYTES, ##__VA_ARGS__)                                      \
	BB_RESERVE_OPTION(OPTION)

/* The fields of a record about a struct bb_fit_verdict. */
#define BB_FIT_FIELDS(FIELD)                                                                       \
	FIELD(INT, memory_bytes, "bytes",                                                          \
	      "states and activations of a rank of the stage that needs most, calculated")         \
	FIELD(INT, memory_limit_bytes, "bytes", "memory of a rank, by which fit judges")           \
	FIELD(STRING, fit, "",                                                                     \
	      "whether that fits, its parts in GB, and a division of the model that would fit")
/* Set them in the record R. */
#define BB_FIT_SET(r, verdict)                                                                     \
	((r)->memory_bytes = (int64_t)(verdict)->need.total,                                       \
	 (r)->memory_limit_bytes = (int64_t)(verdict)->limit, (r)->fit = (verdict)->text)

/*
 * BB_EUNSUPPORTED unless BYTES fit on each rank of this process. The reason names SUBJECT, an
 * option with its value; DATA, in the plural; and what to GIVE instead.
 */
BB_MUST bb_status bb_estimate_room(struct bb_run *run, uint64_t bytes, const char *subject,
				   const char *data, const char *give);

/* The options of a replica: its model, and the time of a batch; STEP_TIME and MORE as in
   BB_STEP_TIME_OPTION. */
#define BB_REPLICA_MODEL_OPTIONS(OPTION)                                                           \
	BB_MODEL_OPTION(OPTION, "resnet50", "model of the gradients: ", .section = "Model")        \
	BB_SEQ_OPTION(OPTION)                                                                      \
	BB_ATTENTION_OPTION(OPTION, "")                                                            \
	OPTION(INT, batch, "batch", 0, "1",                                                        \
	       "sequences or images of a batch of each rank, for --flops", .min = 1,               \
	       .max = INT64_C(1) << 30, BB_TIME_CONFLICT)                                          \
	OPTION(DTYPE, dtype, "datatype", 'd', "float", "datatype of the gradients",                \
	       .choices = bb_replica_dtypes)
#define BB_REPLICA_TIME_OPTIONS(OPTION, step_time, more)                                           \
	BB_FLOPS_OPTION(OPTION, ", for the time of a batch", .section = "Time", BB_TIME_CONFLICT)  \
	BB_STEP_TIME_OPTION(OPTION, step_time, more)                                               \
	BB_COMPUTE_OPTION(OPTION)                                                                  \
	BB_MEMORY_OPTION(OPTION)
extern const char *const bb_replica_dtypes[]; /* ends with NULL */

/* What they request; A has their members. */
#define BB_REPLICA_REQUEST(a)                                                                      \
	((struct bb_replica_request){(a)->model_text, (a)->seq, (enum bb_attention)(a)->attention, \
				     (a)->dtype, (a)->batch, (a)->flops, (a)->step_ns,             \
				     (a)->memory, (a)->memory_given, (a)->reserve})

struct bb_replica_request {
	const char *model;
	int64_t seq;
	enum bb_attention attention;
	enum bb_dtype dtype; /* of the gradients */
	int64_t batch;
	double flops;     /* 0: not given */
	uint64_t step_ns; /* 0: the time of a batch is unknown, unless FLOPS are given */
	uint64_t memory;
	bool memory_given;
	uint64_t reserve;
};

/* One of the replicas of a model that train data-parallel by AdamW, without ZeRO, in fp32, fp64 or
   mixed precision. */
struct bb_replica {
	struct bb_replica_request request;
	struct bb_model model;
	uint64_t bytes;                        /* of all gradients */
	double batch_s, forward_s, backward_s; /* of a batch; 0: unknown */
	struct bb_capacity capacity;
	struct bb_fit_verdict fit;
};

/* Read the model and judge the memory. The caller closes REPLICA whatever comes back. */
BB_MUST bb_status bb_replica_open(struct bb_replica *replica,
				  const struct bb_replica_request *request,
				  const struct bb_options *options, struct bb_error *error);
/* Judge whether one of NRANKS replicas fits. */
BB_MUST bb_status bb_replica_judge(struct bb_replica *replica, int nranks, struct bb_error *error);
/* The same among the ranks of RUN; and BB_EUNSUPPORTED unless COPIES of the gradients, DATA, fit on
   each rank of this process, with what to GIVE instead. */
BB_MUST bb_status bb_replica_plan(struct bb_replica *replica, struct bb_run *run, uint64_t copies,
				  const char *data, const char *give);
void bb_replica_close(struct bb_replica *replica); /* zeroed: no-op */

/* The capacity of the GPUs of CLUSTER, if that is not NULL, and MEMORY, the bytes of OPTION, is not
   GIVEN; else that of MEMORY. */
BB_MUST bb_status bb_estimate_capacity(struct bb_capacity *capacity, const char *option,
				       int64_t memory, bool given, int64_t reserve,
				       const struct bb_cluster *cluster, struct bb_error *error);

/* The number of ranks that OPTIONS request, before the world is known. */
int bb_estimate_ranks(const struct bb_options *options, const struct bb_environment *environment);

/* What the intervals of RUN's times are, for struct bb_recommendation; NULL: it runs in virtual
   time without noise, so they are exact. */
const char *bb_estimate_noise(const struct bb_run *run);

/* As many ranks as N, unless a process is a rank, or their number is given. */
void bb_estimate_set_ranks(struct bb_options *options, const struct bb_environment *environment,
			   int64_t n);

#endif
