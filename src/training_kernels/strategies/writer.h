/*
 * writer.h - writes programs operation by operation. Known to strategies/ only.
 */
#ifndef BB_TRAINING_KERNELS_STRATEGIES_WRITER_H
#define BB_TRAINING_KERNELS_STRATEGIES_WRITER_H

#include "training_kernels/strategies/strategy.h"

#include <math.h>

enum { COMPUTING, SENDING, RECEIVING, QUEUES };
enum { TO_SERVER, TO_WORKER, LANES };

/* Functions append operations to the tape of RANK. */

/* The batches of a step. */
void bb_writer_add_batches(struct bb_strategy_program *w, int rank);
/* A computation that takes no time; no-op unless the setting is real. */
void bb_writer_add_real(struct bb_strategy_program *w, int rank, int queue,
			enum bb_strategy_work work, size_t item);
/* Messages with part ITEM of all elements, as divided among the servers; without servers there is
   one part. */
void bb_writer_add_send(struct bb_strategy_program *w, int rank, enum bb_strategy_work work,
			int peer, size_t item);
void bb_writer_add_recv(struct bb_strategy_program *w, int rank, enum bb_strategy_work work,
			int peer, size_t item);
/* A server's receive from any worker, and the answer to that worker, both in the receiving queue.
 */
void bb_writer_add_serve(struct bb_strategy_program *w, int rank, size_t item);
void bb_writer_add_answer(struct bb_strategy_program *w, int rank, size_t item);
/* A collective of all active ranks, in place. */
void bb_writer_add_collective(struct bb_strategy_program *w, int rank, enum bb_strategy_work work,
			      const struct bb_collective *collective, size_t count);

static inline double bb_strategy_compute(const struct bb_strategy_setting *s)
{
	return s->compute_s * (double)s->batches;
}

/* Bytes of all gradients. */
static inline double bb_strategy_bytes(const struct bb_strategy_setting *s)
{
	return (double)s->elements * (double)bb_dtype_size(s->dtype);
}

/* Seconds that the largest of PARTS parts takes to enter a link. */
static inline double bb_strategy_slowest_entry(const struct bb_strategy_setting *s,
					       const struct bb_link_model *links, int parts)
{
	const size_t most = bb_part_count(s->elements, parts, 0);

	return links->rate > 0 ? (double)(most * bb_dtype_size(s->dtype)) / links->rate : 0;
}

#endif
