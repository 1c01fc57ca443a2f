/*
 * inside.h - the state of the experiment, known to drive.c and deliver.c only.
 */
#ifndef BB_TRAINING_KERNELS_PIPELINE_INSIDE_H
#define BB_TRAINING_KERNELS_PIPELINE_INSIDE_H

#include "training_kernels/pipeline/pipeline.h"

/* A driver's state. */
struct bb_pipeline_session {
	struct bb_engine engine;
	const struct bb_pipeline_options *options;
	struct bb_pipeline pipeline; /* hop included */
	const char *hop_source;
	int stage; /* this rank's */
};

/* One schedule on one rank. */
struct bb_pipeline_job {
	struct bb_pipeline_session *s;
	const struct bb_pipeline_schedule *schedule;
	struct bb_order order;
	struct bb_pipeline_program program;
	struct bb_pass_times predicted, measured;
	struct bb_pipeline_result prediction;
	/* [stage], all in one piece of memory, which begins at PREDICTED_SPANS: seconds, M_B,
	   bytes, layers. Those without "predicted" are measured. */
	double *predicted_spans, *spans;
	double *predicted_peaks, *peaks, *predicted_kept;
	double *predicted_sent, *sent;
	double *layers;
	double *steps; /* makespans */
	/* This rank's begin and end of each iteration, then of each pass of the last one, then its
	   activations held and bytes sent. */
	double *report;
	double published; /* bubble_over_total with first_wraps; NAN: not interleaved */
	int64_t wrong;    /* BB_ABSENT: not verified */
};

/* The slot of pass number I of STAGE. */
static inline size_t bb_pipeline_job_slot(const struct bb_pipeline_job *j, int stage, size_t i)
{
	return bb_order_slot(&j->order, stage, &bb_order_passes(&j->order, stage)[i]);
}

/* Rank 0: the records of J to the sinks. */
BB_MUST bb_status bb_pipeline_deliver(struct bb_pipeline_job *j);

#endif
