/*
 * estimate.h - what benchmarks of training steps work out before or instead of a run: whether the
 * data fits, and how many ranks there will be.
 */
#ifndef BB_TRAINING_KERNELS_ESTIMATE_H
#define BB_TRAINING_KERNELS_ESTIMATE_H

#include "harness/run/estimate.h"
#include "models/attention.h"
#include "models/memory/capacity.h"
#include "models/memory/fits.h"

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

/* Data-parallel training by AdamW, without ZeRO: one of NRANKS replicas of MODEL with gradients of
   DTYPE and BATCH sequences, in fp32, fp64 or mixed precision. */
struct bb_replica {
	const struct bb_model *model;
	enum bb_dtype dtype;
	enum bb_attention attention;
	int64_t batch;
	int nranks;
};

/* Judge REPLICA by LIMIT usable bytes. */
BB_MUST bb_status bb_estimate_fit(struct bb_fit_verdict *verdict, const struct bb_replica *replica,
				  uint64_t limit, struct bb_error *error);

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
