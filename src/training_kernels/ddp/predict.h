/*
 * predict.h - a prediction under way: predict.c works it out and makes records of it,
 * predict_text.c makes text of it.
 */
#ifndef BB_TRAINING_KERNELS_DDP_PREDICT_H
#define BB_TRAINING_KERNELS_DDP_PREDICT_H

#include "core/units.h"
#include "training_kernels/ddp/ddp.h"
#include "training_kernels/reduce_time.h"

/* What a row is about: a cap, or what all are compared with. */
enum bb_prediction_kind {
	BB_PREDICT_ONE,     /* all gradients in one bucket */
	BB_PREDICT_TENSOR,  /* each by itself */
	BB_PREDICT_DEFAULT, /* 25 MiB, as PyTorch has it */
	BB_PREDICT_CAP
};

struct bb_prediction_row {
	enum bb_prediction_kind kind;
	struct bb_buckets buckets;
	uint64_t cap, first_cap;
	char name[BB_UNIT_TEXT];
	struct bb_train_step steps[2]; /* by the algorithm at hand; without and with overlap */
};

struct bb_prediction {
	const struct bb_ddp *ddp;
	const struct bb_options *options;
	struct bb_run *run; /* its sinks, and the end record that counts what they got */
	struct bb_strbuf *out;
	struct bb_error *error;
	int nranks;
	bool computes; /* it is known how long a rank computes; */
	bool links;    /* how fast bytes go */
	double forward_s, backward_s;
	double *ready; /* see bb_model_ready */
	struct bb_bucket_times *times;
	double *numbers;              /* room for three of each bucket */
	struct bb_reduce_time reduce; /* the algorithm at hand */
	/* One row each of what all are compared with, in the order of their kinds; then the caps.
	 */
	struct bb_prediction_row rows[BB_PREDICT_CAP + BB_OPTION_MOST];
	size_t nrows;
};

/* The step of ROW by the algorithm at hand; TIMES of its buckets, where not NULL. */
struct bb_train_step bb_prediction_step(struct bb_prediction *p,
					const struct bb_prediction_row *row, bool overlap,
					struct bb_bucket_times *times);

/* Text: the model and the setting; the buckets, TIMED by the algorithm at hand or not; the steps by
   it; what is not known. */
void bb_prediction_tell_model(const struct bb_prediction *p);
void bb_prediction_tell_buckets(struct bb_prediction *p, bool timed);
void bb_prediction_tell_steps(const struct bb_prediction *p, const char *algorithm);
void bb_prediction_tell_missing(const struct bb_prediction *p);

#endif
