/*
 * predict.h - a prediction in the making: predict.c computes it and makes its records,
 * predict_text.c its text.
 */
#ifndef BB_TRAINING_KERNELS_DDP_PREDICT_H
#define BB_TRAINING_KERNELS_DDP_PREDICT_H

#include "core/units.h"
#include "training_kernels/ddp/ddp.h"
#include "training_kernels/reduce_time.h"

/* The first rows, which all others are compared with. */
enum bb_prediction_reference {
	BB_PREDICT_ONE,     /* a single bucket */
	BB_PREDICT_TENSOR,  /* a bucket per tensor */
	BB_PREDICT_DEFAULT, /* 25 MiB, PyTorch's default */
	BB_PREDICT_CAP      /* then the requested ones */
};

struct bb_prediction_row {
	struct bb_ddp_cap cap;
	struct bb_train_step steps[2]; /* by the current algorithm; without and with overlap */
};

/* A predicted step, as a candidate. */
struct bb_predicted_step {
	struct bb_candidate candidate;
	struct bb_train_step step;
	bool overlap;
};

struct bb_prediction {
	const struct bb_ddp *ddp;
	struct bb_run *run;
	struct bb_strbuf *out;
	int nranks;
	bool computes; /* the time of computations is known */
	bool links;    /* the links are known */
	double forward_s, backward_s;
	double *ready; /* see bb_model_ready */
	struct bb_bucket_times *times;
	double *numbers;              /* room for three numbers of each bucket */
	struct bb_reduce_time reduce; /* by the current algorithm */
	struct bb_prediction_row rows[BB_PREDICT_CAP + BB_OPTION_MOST];
	size_t nrows;
	struct bb_predicted_step *steps; /* by all algorithms so far */
	size_t nsteps, step_room;
};

/* The first and the last of the requested rows with the buckets of row I; a reference is by itself.
 */
size_t bb_prediction_first(const struct bb_prediction *p, size_t i);
size_t bb_prediction_last(const struct bb_prediction *p, size_t i);

/* The step of ROW by the current algorithm; unless NULL, TIMES of its buckets. */
struct bb_train_step bb_prediction_step(struct bb_prediction *p,
					const struct bb_prediction_row *row, bool overlap,
					struct bb_bucket_times *times);

/* Text: the model and the setting; the buckets, with times by the current algorithm if TIMED; the
   steps by it; the best of all kept steps; the options that are missing. */
void bb_prediction_add_model(const struct bb_prediction *p);
void bb_prediction_add_buckets(struct bb_prediction *p, bool timed);
void bb_prediction_add_steps(const struct bb_prediction *p, const char *algorithm);
void bb_prediction_add_best(struct bb_prediction *p);
void bb_prediction_add_missing(const struct bb_prediction *p);

#endif
