/*
 * program.h - an order of passes as a program (schedules/program.h): a stage is a rank.
 *
 * Queue 0 of a stage computes. What a pass hands to another stage leaves on a queue of its own and
 * comes in on one; forward and backward have a lane each, in folded orders one for each chunk.
 * Receives are issued as early as the messages before them allow, so that no pass waits for more
 * than what it needs.
 */
#ifndef BB_TRAINING_KERNELS_PIPELINE_PROGRAM_H
#define BB_TRAINING_KERNELS_PIPELINE_PROGRAM_H

#include "programs/program.h"
#include "simulator/timeline.h"
#include "training_kernels/pipeline/order.h"

struct bb_pipeline_step;

struct bb_pipeline_form {
	size_t elements; /* of each message, BB_UINT32 */
	double rate;     /* FLOPs per second that passes are timed by; 0: not known */
	/* Of what goes around from the last stage to the first, or back, only that of the first
	   microbatch of as many as there are stages is sent and waited for. So was interleaved
	   evaluated for Table 5 of arXiv 2401.10241. */
	bool first_wraps;
	int late_stage; /* whose passes take LATE seconds more; -1: none */
	double late;
	int swapped_stage; /* whose first F and its B change places; -1: none */
};

/* What the program's own points to. Operations of messages and computations have as WORK the kind
   of the pass that makes what is sent, or is done, and as ITEM its slot. */
struct bb_pipeline_program {
	struct bb_program program;
	struct bb_order order;       /* borrowed lists */
	struct bb_pipeline pipeline; /* whose times the passes take */
	struct bb_pipeline_form form;
	struct bb_pipeline_step *steps; /* of all stages */
	size_t *begins;                 /* [stage]; one more for the end */
	size_t messages;                /* of all stages together */
};

/*
 * PROGRAM does ORDER, which has passed its check and lasts as long as PROGRAM, which stays where it
 * is. BB_EINTERNAL without memory. To be freed whatever comes back.
 */
BB_MUST bb_status bb_pipeline_program_make(struct bb_pipeline_program *program,
					   const struct bb_order *order,
					   const struct bb_pipeline *pipeline,
					   const struct bb_pipeline_form *form,
					   struct bb_error *error);
void bb_pipeline_program_free(struct bb_pipeline_program *program);

/* The pass that has SLOT of ORDER; BW is B there where the order is not split. */
struct bb_pass bb_order_pass(const struct bb_order *order, size_t slot, int *stage);

/* ---- what comes of it (result.c) --------------------------------------------------- */

/* What was heard of a step, as it was played. */
struct bb_pass_times {
	const struct bb_order *order; /* borrowed */
	const struct bb_pipeline *pipeline;
	double *from, *to; /* [slot] of passes, in seconds on their stage's clock; NAN: not yet */
	/* Of each stage: activations held, and at most, bytes times chunks; bytes sent. */
	int64_t *held, *peaks, *sent;
};

/* PIPELINE and ORDER last as long. */
BB_MUST bb_status bb_pass_times_open(struct bb_pass_times *times, const struct bb_order *order,
				     const struct bb_pipeline *pipeline, struct bb_error *error);
void bb_pass_times_close(struct bb_pass_times *times);
/* Before each step: nothing is held or sent. */
void bb_pass_times_begin(struct bb_pass_times *times);
/* A bb_timeline_watch's done; its own is a struct bb_pass_times. */
void bb_pass_times_note(void *times, int rank, size_t index, const struct bb_operation *operation,
			double from, double to, int source);

/* Of one step, all times in seconds. */
struct bb_pipeline_result {
	double makespan; /* from 0 until the last pass is done */
	double span;     /* the longest that a stage takes from its first pass to its last */
	int span_stage;
	double ideal; /* what the passes of a stage take, of that which has most to do */
	/* Idle time as a share of IDEAL, and of all; by either definition of what a step costs. */
	double bubble_over_ideal, bubble_over_total;
	double span_bubble_over_ideal, span_bubble_over_total;
};

/* SPANS, one of each stage, may be NULL. All passes have been noted. */
struct bb_pipeline_result bb_pipeline_result_of(const struct bb_pass_times *times,
						const struct bb_pipeline *pipeline, double *spans);

#endif
