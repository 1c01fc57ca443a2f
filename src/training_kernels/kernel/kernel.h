/*
 * kernel.h - what the training kernels share. A kernel is a program writer, an expectation of its
 * data and a row. Here are
 *
 *   options and fields that several kernels have, declared once
 *   what is worked out before a run: whether data and model fit, and the number of ranks
 *   a driver's state: variants of the step, sweeps over them, memory, known data, rows
 *   the recommendation of the best
 *
 * Parameters after OPTION are added to the help or to the row of an option.
 *
 * The state of a kernel's driver begins with a struct bb_kernel, each of its variants with a struct
 * bb_variant. Its experiment is
 *
 *   open      bb_engine_alloc and bb_engine_patterns for the data; bb_kernel_sweep, or for each
 *             variant bb_variant_new and bb_variant_add; their programs by bb_taped_begin,
 *             operations, bb_taped_end (programs/tape.h); their data by bb_known_lay_out and
 *             bb_known_add
 *   deliver   bb_kernel_deliver, or bb_kernel_deliver_setting where rows come one by one, of the
 *             kernel's fields and BB_TIMES_SET or BB_HALVES_SET; then bb_best_recommend or a
 *             sentence, and bb_engine_answer
 *   close     bb_kernel_close
 *
 * so that it frees nothing itself.
 */
#pragma once

#include "training_kernels/kernel/coded.h"
#include "core/clock.h"
#include "core/recommend.h"
#include "harness/measure/engine.h"
#include "models/model.h"
#include "models/memory/fits.h"
#include "programs/tape.h"

/* ---- options --------------------------------------------------------------------------------- */

#define BB_MODEL_OPTION(OPTION, initial, what, ...)                                                \
	OPTION(STRING, model_text, "model", 0, initial,                                            \
	       what "a preset, a family with its hyperparameters (see --list), or a config.json",  \
	       .argument = "NAME|FILE", .usual = true, ##__VA_ARGS__)
#define BB_SEQ_OPTION(OPTION, ...)                                                                 \
	OPTION(INT, seq, "seq", 0, NULL, "tokens of a sequence (default: that of the model)",      \
	       .min = 1, .max = INT64_C(1) << 28, ##__VA_ARGS__)
#define BB_FLOPS_OPTION(OPTION, more, ...)                                                         \
	OPTION(FLOPS, flops, "flops", 0, NULL,                                                     \
	       "FLOPs per second of a rank's computations, as in 100T" more, ##__VA_ARGS__)
/* The alternative to --flops. */
#define BB_STEP_TIME_OPTION(OPTION, initial, more)                                                 \
	OPTION(DURATION, step_ns, "step-time", 0, initial,                                         \
	       "instead of --flops: time of forward and backward pass of a batch together" more,   \
	       .min = 1, .max = BB_YEAR_NS)
/* What speaks against --flops or --batch beside --step-time. */
#define BB_TIME_CONFLICT .excludes = {{"step-time", "both set the time of a batch"}}
/* STAND_IN is an enum bb_stand_in. */
#define BB_COMPUTE_OPTION(OPTION, ...)                                                             \
	OPTION(CHOICE, stand_in, "compute", 0, "sleep",                                            \
	       "stand-in for computations; spin: a busy core or part of the GPU, gemm: cuBLAS",    \
	       .choices = bb_stand_in_names, ##__VA_ARGS__)
#define BB_MEMORY_OPTION(OPTION, ...)                                                              \
	OPTION(SIZE, memory, "memory", 0, "80G",                                                   \
	       "memory of a rank, into which the model fits or not (default: that of the GPUs of " \
	       "--cluster, else 80G)",                                                             \
	       .min = 1, .max = BB_MOST_BYTES, ##__VA_ARGS__)                                      \
	BB_RESERVE_OPTION(OPTION)

/* The options of a replica: its model, and the time of a batch; STEP_TIME and MORE as in
   BB_STEP_TIME_OPTION; DTYPES are the names of those of the gradients. */
#define BB_REPLICA_MODEL_OPTIONS(OPTION, dtypes)                                                   \
	BB_MODEL_OPTION(OPTION, "resnet50", "model of the gradients: ", .section = "Model")        \
	BB_SEQ_OPTION(OPTION)                                                                      \
	BB_ATTENTION_OPTION(OPTION, "")                                                            \
	OPTION(INT, batch, "batch", 0, "1",                                                        \
	       "sequences or images of a batch of each rank, for --flops", .min = 1,               \
	       .max = INT64_C(1) << 30, BB_TIME_CONFLICT)                                          \
	OPTION(DTYPE, dtype, "datatype", 'd', "float", "datatype of the gradients",                \
	       .choices = dtypes)
#define BB_REPLICA_TIME_OPTIONS(OPTION, step_time, more)                                           \
	BB_FLOPS_OPTION(OPTION, ", for the time of a batch", .section = "Time", BB_TIME_CONFLICT)  \
	BB_STEP_TIME_OPTION(OPTION, step_time, more)                                               \
	BB_COMPUTE_OPTION(OPTION)                                                                  \
	BB_MEMORY_OPTION(OPTION)
extern const char *const bb_replica_dtypes[]; /* ends with NULL */

/* ---- fields of records ----------------------------------------------------------------------- */

/* The confidence interval of the median that stands before it. */
#define BB_INTERVAL_FIELDS(FIELD)                                                                  \
	FIELD(DOUBLE, low_us, "us", "95% confidence interval of the median, lower end")            \
	FIELD(DOUBLE, high_us, "us", "its upper end")

/* The times of a step and of its halves alone (enum bb_step_half). */
#define BB_HALVES_FIELDS(FIELD)                                                                    \
	FIELD(DOUBLE, compute_us, "us", "computations without communication: median",              \
	      BB_COLUMN("compute", 8, 3), BB_MS)                                                   \
	FIELD(DOUBLE, communicate_us, "us", "communication without computations: median",          \
	      BB_COLUMN("communic.", 8, 3), BB_MS)                                                 \
	FIELD(DOUBLE, step_us, "us", "measured step, until the last rank ends: median",            \
	      BB_COLUMN("step", 8, 3), BB_MS)                                                      \
	BB_INTERVAL_FIELDS(FIELD)                                                                  \
	FIELD(DOUBLE, p95_us, "us", "95th percentile of the steps")                                \
	FIELD(DOUBLE, exposed_us, "us", "step_us - compute_us: time that the step waits",          \
	      BB_COLUMN("exposed", 8, 3), BB_MS)                                                   \
	FIELD(DOUBLE, hidden_us, "us", "communicate_us - exposed_us; null: no computations",       \
	      BB_COLUMN("hidden", 8, 3), BB_MS)                                                    \
	FIELD(DOUBLE, hidden, "fraction", "hidden_us / communicate_us", BB_COLUMN("hidden", 6, 1), \
	      BB_SHARE)                                                                            \
	FIELD(INT, samples, "", "number of timed steps")

/* The last field of a record. */
#define BB_END_FIELD(FIELD) FIELD(DOUBLE, end_unix_s, "s", "time of the end, since 1970 UTC")

/* Elements that differ from what they must be; PLACE as in struct bb_field. */
#define BB_WRONG_FIELD(FIELD, place_, what)                                                        \
	FIELD(INT, wrong, "elements", what, BB_COLUMN("#wrong", 6, 0), .place = place_,            \
	      .head_unit = "")

/* Set FIELD (microseconds), interval, samples and end of the record R from TRIAL, of which each
   sample is STEPS steps. */
#define BB_TIMES_SET(r, field, trial, steps)                                                       \
	((r)->field = 1e6 / (double)(steps) * (trial)->stats.p50,                                  \
	 (r)->low_us = 1e6 / (double)(steps) * (trial)->stats.ci_low,                              \
	 (r)->high_us = 1e6 / (double)(steps) * (trial)->stats.ci_high,                            \
	 (r)->samples = (int64_t)(trial)->stats.n, (r)->end_unix_s = bb_clock_unix())

/* Set BB_HALVES_FIELDS and the end of the record R from a SETTING of the sweep of KERNEL, which
   COMPUTES, and so may hide communication. */
#define BB_HALVES_SET(r, kernel, setting, computes)                                                \
	do {                                                                                       \
		const struct bb_trial *const step_ =                                               \
			bb_kernel_trial(kernel, setting, BB_HALF_STEP);                            \
                                                                                                   \
		BB_TIMES_SET(r, step_us, step_, 1);                                                \
		(r)->p95_us = 1e6 * step_->stats.p95;                                              \
		(r)->compute_us = 1e6 * bb_kernel_median(kernel, setting, BB_HALF_COMPUTE);        \
		(r)->communicate_us =                                                              \
			1e6 * bb_kernel_median(kernel, setting, BB_HALF_COMMUNICATE);              \
		(r)->exposed_us = (r)->step_us - (r)->compute_us;                                  \
		(r)->hidden_us = (computes) ? (r)->communicate_us - (r)->exposed_us : NAN;         \
		(r)->hidden =                                                                      \
			(r)->communicate_us > 0 ? (r)->hidden_us / (r)->communicate_us : NAN;      \
	} while (0)

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

/* ---- before a run ---------------------------------------------------------------------------- */

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

/*
 * BB_EUNSUPPORTED unless BYTES fit on each rank of this process. The reason names OPTION and its
 * VALUE; DATA, in the plural; and what to GIVE instead.
 */
BB_MUST bb_status bb_estimate_room(struct bb_run *run, uint64_t bytes, const char *option,
				   const char *value, const char *data, const char *give);

/* What the options of a replica request; A has their members. */
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

/* Read the model and the capacity of a rank. The caller frees the model whatever comes back. */
BB_MUST bb_status bb_replica_open(struct bb_replica *replica,
				  const struct bb_replica_request *request,
				  const struct bb_options *options, struct bb_error *error);
/* Judge whether one of NRANKS replicas fits. */
BB_MUST bb_status bb_replica_judge(struct bb_replica *replica, int nranks, struct bb_error *error);
/* The same among the ranks of RUN; and BB_EUNSUPPORTED unless COPIES of the gradients, DATA, fit on
   each rank of this process, with what to GIVE instead. */
BB_MUST bb_status bb_replica_plan(struct bb_replica *replica, struct bb_run *run, uint64_t copies,
				  const char *data, const char *give);

/* ---- a driver's state ------------------------------------------------------------------------ */

struct bb_kernel_memory;

/* What is done with a region of memory: it is filled before a verified step; verified after it;
   verified, and its first byte is wrong with --fault corrupt. */
enum bb_known_use { BB_KNOWN_FILL, BB_KNOWN_CHECK, BB_KNOWN_VICTIM };

/* COUNT elements AT: those of RANK of PATTERNS from FIRST on. */
struct bb_region {
	enum bb_known_use use;
	char *at;
	const struct bb_patterns *patterns;
	int rank;
	size_t first, count;
};

/* Memory of a rank, and the known data in it. */
struct bb_known {
	char *memory;           /* NULL: only its bytes are counted */
	size_t bytes;           /* that are laid out */
	struct bb_region *list; /* used in this order; owned */
	size_t n, room;
	bool failed; /* no memory */
};

struct bb_kernel {
	struct bb_engine engine;
	/* In the order of bb_variant_new; those of a sweep at setting * parts + part. */
	struct bb_variant **variants;
	size_t nvariants, room;
	size_t settings; /* of a sweep */
	int parts;       /* of each of them */
	/* Of a sweep: the first setting whose PART is also that of SETTING, which may be SETTING.
	   NULL: each has its own. */
	size_t (*first)(const struct bb_kernel *kernel, size_t setting, int part);
	struct bb_kernel_memory *memory;
};

/* One timed program; own of its workload. */
struct bb_variant {
	struct bb_kernel *kernel;
	size_t place;   /* among the kernel's variants */
	size_t trial;   /* its number */
	size_t setting; /* of several that share it the first */
	int part;
	/* What is skipped if its setting cannot run, its algorithm and datatype. Subject NULL:
	   another variant has them, or nothing is reported. */
	const char *subject, *algorithm, *dtype;
	const void *record;    /* rank 0: the last one delivered of its setting; NULL: none */
	struct bb_taped taped; /* freed with the variant; zeroed: its program is another */
	struct bb_known known; /* freed with it */
	/* Frees what else the variant holds. NULL: nothing. */
	void (*release)(struct bb_variant *variant);
};

/* N zeroed elements of BYTES in CPU memory, until the experiment ends. NULL without memory, with
   the run's error set. */
void *bb_kernel_keep(struct bb_kernel *kernel, size_t n, size_t bytes);

/* A zeroed variant of BYTES; NULL without memory, with the run's error set. It does not move. */
void *bb_variant_new(struct bb_kernel *kernel, size_t bytes);

/* Add VARIANT as a copy of TRIAL, whose workload.own becomes VARIANT and whose program, unless set,
   that of its tapes. FORMAT is its name; REFUSAL as in bb_engine_add. */
BB_MUST bb_status bb_variant_add(struct bb_variant *variant, const struct bb_trial *trial,
				 const char *refusal, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* ---- known data ------------------------------------------------------------------------------ */

/* Add a region to KNOWN, unless AT is NULL or COUNT 0. */
void bb_known_add(struct bb_known *known, enum bb_known_use use, char *at,
		  const struct bb_patterns *patterns, int rank, size_t first, size_t count);
/* The next COUNT elements of DTYPE in the memory, a region that is filled. NULL without memory. */
char *bb_known_lay_out(struct bb_known *known, size_t count, enum bb_dtype dtype,
		       const struct bb_patterns *patterns, int rank, size_t first);

/* That a variant's step finds and leaves the data that it knows. */
extern const struct bb_expectation bb_known_expectation;

/* ---- sweeps ---------------------------------------------------------------------------------- */

/* The parts of a step that most kernels time: all of it, and each half of it alone. */
enum bb_step_half { BB_HALF_STEP, BB_HALF_COMPUTE, BB_HALF_COMMUNICATE, BB_HALVES };

/*
 * Add a variant of BYTES for each of PARTS of SETTINGS more settings, as variant->setting and part,
 * unless an earlier setting has the same one. WRITE makes its program, and fills the rest of TRIAL,
 * its name included; it sets *REFUSAL where that cannot run.
 */
typedef bb_status bb_variant_write(struct bb_variant *variant, struct bb_trial *trial,
				   const char **refusal);
BB_MUST bb_status bb_kernel_sweep(struct bb_kernel *kernel, size_t settings, int parts,
				  size_t bytes, bb_variant_write *write);
/* Add a variant that is no part of a setting, but has a SETTING and a PART for WRITE. No sweep may
   follow. */
BB_MUST bb_status bb_kernel_add(struct bb_kernel *kernel, size_t setting, int part, size_t bytes,
				bb_variant_write *write);

static inline struct bb_variant *bb_kernel_variant(const struct bb_kernel *kernel, size_t setting,
						   int part)
{
	return kernel->variants[setting * (size_t)kernel->parts + (size_t)part];
}

/* What was measured of PART of SETTING, and median seconds of its steps; the reason why one of the
   setting's parts cannot run, or NULL. */
const struct bb_trial *bb_kernel_trial(const struct bb_kernel *kernel, size_t setting, int part);
double bb_kernel_median(const struct bb_kernel *kernel, size_t setting, int part);
const char *bb_kernel_refusal(const struct bb_kernel *kernel, size_t setting);

/* Fills RECORD, which is initialised, from SETTING. */
typedef void bb_kernel_describe(const struct bb_kernel *kernel, size_t setting, void *record);

/* Rank 0: deliver a record of KIND for SETTING, whose data is that of the first part that is
   verified; or skip it if it cannot run. */
BB_MUST bb_status bb_kernel_deliver_setting(struct bb_kernel *kernel, size_t setting,
					    const struct bb_record_kind *kind,
					    bb_kernel_describe *describe);
/* The same for all settings, skipped ones first. BB_EUNSUPPORTED with the first reason if none can
   run, or if some cannot and none of them is reported. */
BB_MUST bb_status bb_kernel_deliver(struct bb_kernel *kernel, const struct bb_record_kind *kind,
				    bb_kernel_describe *describe);

/* What was measured of VARIANT. */
static inline const struct bb_trial *bb_variant_trial(const struct bb_variant *variant)
{
	return &variant->kernel->engine.trials[variant->trial];
}

/* The buffers of the collective O, in place in ALL, of a rank at PLACE in its group. */
void bb_kernel_in_place(const struct bb_operation *o, int place, char *all, void **in, void **out);

/* The `close` of an experiment whose state begins with a struct bb_kernel; and between two parts of
   it: no variant, memory or trial is left. */
void bb_kernel_close(struct bb_engine *engine);

/*
 * *GAP = what is open in BALANCE over NRANKS ranks, relative to the root of its squares; those that
 * take no part have zeros. NAN: numbers that are not finite, or huge, cannot be balanced. BROKEN:
 * it exceeds rounding. Collective.
 */
BB_MUST bb_status bb_kernel_settle(struct bb_engine *engine, const struct bb_coded_balance *balance,
				   int nranks, double *gap, bool *broken);

/* ---- the best -------------------------------------------------------------------------------- */

/* The candidates of a recommendation, as they are found. */
struct bb_best {
	struct bb_recommendation choice; /* its list and number are set by bb_best_add */
	struct bb_candidate *list;
	size_t room;
	bool failed; /* out of memory */
};

/* Add CANDIDATE with the name FORMAT. */
void bb_best_add(struct bb_best *best, struct bb_candidate candidate, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The steps of TRIAL as a candidate, each divided by PER; OWN is for the cause. */
struct bb_candidate bb_best_steps(const struct bb_trial *trial, double per, const void *own);

/* Append the recommendation to OUT. Frees the candidates. */
void bb_best_recommend(struct bb_best *best, struct bb_strbuf *out);
