/*
 * exchange.h - rows on their way to the experts of other ranks (dispatch) and back (combine):
 * the operations of a program that do it, and the memory that the rows are in.
 *
 * Rows go straight from rank to rank, shift by shift: each rank sends to the one that is k further,
 * and receives from the one k before it. All receives of an exchange are posted together, so that
 * nobody who is ahead waits for those who are behind. Rows that stay are not moved. Ranks that a
 * shift leads to from each other are a ring, in which one receives before it sends: so everything
 * ends also where a rank does one thing at a time. The rings of shift k are as many as divide both
 * it and the ranks, and their lowest ranks come first.
 */
#ifndef BB_TRAINING_KERNELS_MOE_EXCHANGE_H
#define BB_TRAINING_KERNELS_MOE_EXCHANGE_H

#include "backends/backend.h"
#include "harness/measure/pattern.h"
#include "programs/program.h"
#include "training_kernels/moe/load.h"

#define BB_MOE_LANES 2 /* dispatch and combine */

/* How a program does exchanges; constant. */
struct bb_moe_exchange {
	const struct bb_moe_load *load;
	size_t hidden; /* elements of a row */
	enum bb_dtype dtype;
	int computes, sends, receives; /* queues */
	int lane;                      /* of dispatches; combines have the next one */
};

/* Messages of a rank in an exchange. */
size_t bb_moe_messages(const struct bb_moe_load *load);
/* Number K of them, of the rank with this PLACE among the ranks. Peer and item are the other's
   place; what kind of work it is stays as it is. */
void bb_moe_message(const struct bb_moe_exchange *exchange, bool combines, int place, size_t k,
		    struct bb_operation *o);

/* Before an exchange: operation K of those by which its queues wait for what was computed; and
   after it, by which computing waits for them. Each EVENT is recorded once, the last is EVENT + 1.
 */
#define BB_MOE_LEAVES 3
#define BB_MOE_MEETS 4
void bb_moe_leave(const struct bb_moe_exchange *exchange, int event, size_t k,
		  struct bb_operation *o);
void bb_moe_meet(const struct bb_moe_exchange *exchange, int event, size_t k,
		 struct bb_operation *o);

/* ---- data ------------------------------------------------------------------------------------ */

/* Of one rank: rows that it has, by the expert that they go through; rows that come, by the rank
   that they come from; rows that come back, as the first. */
struct bb_moe_rows {
	const struct bb_moe_load *load;
	size_t hidden;
	enum bb_dtype dtype;
	int place;        /* among the ranks */
	const int *ranks; /* [place]: whose pattern a member's rows have; NULL: its place's */
	char *mine, *theirs, *back;
};

/* Bytes at MINE, as many at BACK, and at THEIRS. */
size_t bb_moe_bytes_mine(const struct bb_moe_rows *rows);
size_t bb_moe_bytes_theirs(const struct bb_moe_rows *rows);

/* Where the rows of the message O begin, whose item is the peer's place. */
char *bb_moe_rows_of(const struct bb_moe_rows *rows, bool combines, const struct bb_operation *o);

/* Known rows; everything that is to be overwritten holds something else: rows that come hold this
   rank's own, those that come back are shifted by one number. */
BB_MUST bb_status bb_moe_rows_fill(const struct bb_moe_rows *rows, const struct bb_backend *backend,
				   struct bb_rank *rank, const struct bb_patterns *patterns);
/* Adds to *WRONG the elements that are not what was sent, at the experts and of those that are
   back, of all other ranks. */
BB_MUST bb_status bb_moe_rows_verify(const struct bb_moe_rows *rows,
				     const struct bb_backend *backend, struct bb_rank *rank,
				     const struct bb_patterns *patterns, uint64_t *wrong);

#endif
