/*
 * ddp.h - the benchmark of data-parallel training: gradients in buckets, reduced while the backward
 * pass goes on.
 *
 *   ddp.c          the benchmark: what it can do, how it ends
 *   options.c      its options
 *   predict.c      --predict: buckets and step worked out, nothing run; predict_text.c tells it
 *   step.c         a step as a program
 *   sweep.c        what every driver does: steps of all sizes of buckets, timed and verified
 *   rows.c         what comes of it; record.c its fields, text.c the table
 */
#ifndef BB_TRAINING_KERNELS_DDP_DDP_H
#define BB_TRAINING_KERNELS_DDP_DDP_H

#include "core/units.h"
#include "harness/run/options_check.h"
#include "harness/measure/play.h"
#include "harness/run/run.h"
#include "training_kernels/step_model.h"

#define BB_DDP_MOST_CAPS 32
#define BB_DDP_MOST_ALGORITHMS 32

enum bb_overlap_choice { BB_OVERLAP_ON, BB_OVERLAP_OFF, BB_OVERLAP_BOTH };

struct bb_ddp_options {
	/* As given. */
	const char *model_text, *buckets_text, *first_text, *dtype_text, *flops_text, *algo_text;
	int64_t seq; /* 0: the model's */
	int64_t batch, accumulate, iters;
	bool iters_given;
	uint64_t step_ns; /* forward and backward of a batch; 0: not given */
	int overlap;      /* enum bb_overlap_choice */
	int stand_in;     /* enum bb_stand_in */
	bool predict;
	bool batch_given, step_given;

	/* Worked out from them. */
	enum bb_dtype dtype;
	double flops; /* of a rank, per second; 0: not given */
	uint64_t caps[BB_DDP_MOST_CAPS];
	size_t ncaps;
	uint64_t first_cap; /* 0: as all others */
	/* --algo, name by name. */
	char algorithms[BB_DDP_MOST_ALGORITHMS][BB_WORD];
	size_t nalgorithms;
};

/* One way to put gradients into buckets, reduced by one algorithm with or without overlap. */
struct bb_ddp_record {
	const char *model, *family, *dtype;
	int64_t nranks, batches;
	const char *grouping; /* "one", "tensor", "cap" */
	int64_t cap_bytes, first_cap_bytes;
	const char *algorithm; /* NULL: times are not known; so too overlap */
	const char *overlap;
	int64_t tensors, parameters, gradient_bytes;
	int64_t buckets, least_bytes, most_bytes, last_bytes;
	double mean_bytes;
	struct bb_numbers bucket_bytes, bucket_tensors, bucket_ready_us;
	double forward_us, backward_us;
	double predicted_step_us, predicted_reduce_us, predicted_exposed_us, predicted_hidden;
	double predicted_times_one, predicted_times_tensor, predicted_times_25M;
	/* Measured. */
	const char *compute; /* NULL: nothing was run */
	double step_us, low_us, high_us, p95_us;
	int64_t samples;
	double compute_us, reduce_us, reduce_busbw_GBps, exposed_us, hidden, contention;
	double error_percent;
	double broadcast_us;
	double times_one, times_tensor, times_25M;
	int64_t best, as_good; /* 0 or 1 */
	int64_t wrong;
	struct bb_numbers bucket_us;
	double end_unix_s;
};

extern const struct bb_record_kind bb_record_ddp;

struct bb_ddp;

/* R = what holds of all records of DDP among NRANKS, all else absent. */
void bb_ddp_describe(const struct bb_ddp *ddp, int nranks, struct bb_ddp_record *r);
/*
 * What R says of BUCKETS, which are closed at CAP, the first at FIRST (0: not grouped by caps).
 * READY_S: see bb_model_ready; NULL: not known. NUMBERS has room for three of each bucket, and
 * lasts as long as R.
 */
void bb_ddp_describe_buckets(struct bb_ddp_record *r, const struct bb_buckets *buckets,
			     uint64_t cap, uint64_t first, const double *ready_s, double *numbers);

/* The state of the benchmark. */
struct bb_ddp {
	struct bb_ddp_options asked; /* first: the rows are read into it */
	struct bb_model model;
};

extern const struct bb_option bb_ddp_rows[];
extern const struct bb_benchmark bb_ddp_benchmark;

/* The benchmark's check (see benchmark.h). Opens the model, which bb_ddp_predict or the benchmark's
   close frees. */
BB_MUST bb_status bb_ddp_check(const struct bb_benchmark *benchmark, void *own,
			       struct bb_options *options, const struct bb_environment *environment,
			       struct bb_error *error);

/* -d, and whether what is said of time goes together: the same for all
   that train. BB_EUSAGE with the reason. */
BB_MUST bb_status bb_ddp_read_dtype(const char *text, enum bb_dtype *dtype, struct bb_error *error);
BB_MUST bb_status bb_ddp_check_time(const char *flops, bool step_given, bool batch_given,
				    struct bb_error *error);

/* Is it known how long a rank computes? Then *FORWARD_S and *BACKWARD_S are that of one batch:
   its FLOPs at --flops, or --step-time shared out as they are. */
bool bb_ddp_compute(const struct bb_ddp *ddp, double *forward_s, double *backward_s);

/* TEXT = what buckets of CAP are called: "25M", "one", "tensor". */
const char *bb_ddp_cap_text(char text[BB_UNIT_TEXT], uint64_t cap);

extern const struct bb_experiment bb_ddp_experiment;

bb_sink_open bb_ddp_text_open;

/* The benchmark's show. */
BB_MUST bb_status bb_ddp_predict(struct bb_run *run, struct bb_strbuf *out);

#endif
