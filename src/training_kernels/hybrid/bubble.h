/*
 * bubble.h - what the schedule of a pipeline costs: idle time, messages that stages wait for, and
 * the micro-batches whose activations a stage keeps. Pure arithmetic, but for zb-v and zb-auto,
 * whose order is searched (training_kernels/pipeline/order.h).
 *
 * With F, B and W of the slowest stage, T = F + B + W, p stages, v virtual stages of each and m
 * micro-batches:
 *
 *   schedule     idle                 waits for messages            micro-batches kept
 *   naive        (p-1) m T            2 (p-1) m                     1
 *   gpipe        (p-1) T              2 (p-1)                       m
 *   1f1b         (p-1) T              2 (p-1) (m/p + 1) - 2         p - stage
 *   interleaved  (p-1) T / v          2 (p v - 1)                   bb_in_flight
 *   zb-h1        (p-1) (F + B - W)    4 (p-1), at most as 1f1b      p
 *   zb-h2        (p-1) (F + B - 2 W)  2 (p-1)                       2 p - 1
 *   zb-v         of its order         of its order                  p
 *   zb-auto      of its order         of its order                  as many as requested
 *
 * Idle times of zb are those of a stage from its first pass to its last: stages begin the next step
 * without waiting for each other (Qi et al., arXiv 2401.10241, sections 2.3 and 4), and none is
 * below 0. Waits are exact where p divides m: interleaved stages have other micro-batches to
 * compute while a message travels, but for the first micro-batch on its way through all p v parts
 * and back.
 */
#pragma once

#include "training_kernels/pipeline/order.h"

struct bb_bubble_form {
	const struct bb_pipeline_schedule *schedule;
	uint64_t stages, chunks, micro_batches;
	uint64_t kept; /* zb-auto: most micro-batches whose activations a stage keeps */
	/* Seconds of a micro-batch on the slowest stage, communication within the stage included:
	   forward pass, gradient of the input, gradients of the weights. */
	double forward, input, weights;
	double hop;      /* seconds of a message between stages */
	bool overlapped; /* only the messages that fill and drain the pipeline are waited for */
};

/* Seconds of a step. */
struct bb_bubble {
	double idle, messages;
};

/*
 * The orders that a plan has searched. Each takes up to seconds, and many divisions have the same
 * passes. All 0 at first.
 */
struct bb_bubble_orders {
	struct bb_bubble_order *list; /* owned by the caller, who frees it */
	size_t n, room;
};

/*
 * *BUBBLE = what FORM costs. False: its schedule has no such order, or there is no memory to search
 * it. With ORDERS (else NULL) an order is searched once, and only if it may cost at most MOST
 * seconds; else *BUBBLE is a bound from below.
 */
bool bb_bubble_find(const struct bb_bubble_form *form, struct bb_bubble_orders *orders, double most,
		    struct bb_bubble *bubble);

/* Most chunks of micro-batches whose activations STAGE keeps, of stages that have FORM's CHUNKS
   each. */
uint64_t bb_bubble_kept(const struct bb_bubble_form *form, uint64_t stage);

/* The schedule of a pipeline with CHUNKS virtual stages of each stage that names none. */
const struct bb_pipeline_schedule *bb_bubble_usual(uint64_t chunks);
