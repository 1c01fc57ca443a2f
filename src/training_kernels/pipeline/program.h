/*
 * program.h - an order of passes as a program (programs/program.h): a stage is a rank.
 *
 * Queue 0 of a stage computes. Results for other stages are sent and received on queues of their
 * own; forward and backward have a lane each, in folded orders one for each chunk. Receives are
 * issued as early as the messages before them allow, so that a pass waits only for what it needs.
 */
#pragma once

#include "harness/run/options.h"
#include "programs/program.h"
#include "simulator/timeline/timeline.h"
#include "training_kernels/pipeline/order.h"

struct bb_pipeline_form {
	size_t elements; /* of each message, BB_UINT32 */
	double rate;     /* FLOPs per second that the times of passes follow from; 0: unknown */
	/* Messages around the ring, between the last stage and the first, are sent only for the
	   first of as many microbatches as stages. Table 5 of arXiv 2401.10241 evaluates
	   interleaved so. */
	bool first_wraps;
	/* Of a stage: its passes take longer (BB_FAULT_SLOW), or its first F and that microbatch's
	   B are swapped (BB_FAULT_SWAP). Others have no effect. */
	struct bb_fault fault;
};

/* The program's own. The work and item of a computation are the kind and slot of its pass; those of
   a message are of the pass whose result it carries. */
struct bb_pipeline_program {
	struct bb_program program;
	struct bb_order order; /* borrowed lists */
	struct bb_pipeline_form form;
	struct bb_pipeline_list *lists; /* [stage] */
	size_t messages;                /* of all stages together */
	size_t swapped[2];              /* slots of passes that are swapped */
};

/*
 * PROGRAM performs ORDER, which has passed its check and outlives PROGRAM. PROGRAM must not move.
 * BB_EINTERNAL without memory. Free PROGRAM whatever comes back.
 */
BB_MUST bb_status bb_pipeline_program_make(struct bb_pipeline_program *program,
					   const struct bb_order *order,
					   const struct bb_pipeline_form *form,
					   struct bb_error *error);
void bb_pipeline_program_free(struct bb_pipeline_program *program);

/* ---- results -------------------------------------------------------------------------------- */

/* What was observed of a step. */
struct bb_pass_times {
	const struct bb_order *order; /* borrowed */
	double *from, *to;            /* [slot]: seconds on the clock of the stage; 0: not yet */
	/* [stage], each behind the one before, as TO is behind FROM: activations held now and at
	   most, bytes times chunks; bytes sent; seconds from its first pass to its last. */
	double *held, *peaks, *sent, *spans;
};

/* ORDER is borrowed. Close TIMES whatever comes back. */
BB_MUST bb_status bb_pass_times_open(struct bb_pass_times *times, const struct bb_order *order,
				     struct bb_error *error);
void bb_pass_times_close(struct bb_pass_times *times);
/* A step begins: nothing is held or sent. */
void bb_pass_times_begin(struct bb_pass_times *times);
/* The done of a struct bb_timeline_watch; TIMES is a struct bb_pass_times. */
void bb_pass_times_note(void *times, int rank, size_t index, const struct bb_operation *operation,
			double from, double to, int source);

/* One step, all times in seconds. */
struct bb_pipeline_result {
	double makespan; /* end of the last pass, from 0 */
	double span;     /* longest time of a stage from its first pass to its last */
	double ideal;    /* all passes of the busiest stage */
};

/* All passes of TIMES have been observed; its spans become known. */
struct bb_pipeline_result bb_pipeline_result_of(struct bb_pass_times *times);

/* The idle part of TIME, of which passes take IDEAL, as a share of WHOLE: either of them. */
double bb_pipeline_bubble(double time, double ideal, double whole);
