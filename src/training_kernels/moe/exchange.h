/*
 * exchange.h - the exchange of rows with the experts of other ranks (dispatch) and back (combine):
 * the operations of a program, and the memory of the rows.
 *
 * Rows go directly from rank to rank, shift by shift: in shift k each rank sends to the rank k
 * after it and receives from the rank k before it. All receives of an exchange are posted together,
 * so that no rank waits for slower ones. Rows for the rank's own experts are not moved. The ranks
 * that a shift connects form a ring, in which one rank receives before it sends; so everything ends
 * even if a rank does one operation at a time. Shift k has gcd(k, ranks) rings, and their lowest
 * ranks come first.
 */
#pragma once

#include "programs/tape.h"
#include "training_kernels/moe/load.h"

struct bb_known;
struct bb_patterns;

#define BB_MOE_LANES 2 /* dispatch and combine */

/* The exchanges of a program. */
struct bb_moe_exchange {
	const struct bb_moe_load *load;
	size_t hidden; /* elements of a row */
	enum bb_dtype dtype;
	int computes, sends; /* queues; receives have the one after SENDS */
	int lane;            /* of dispatches, even; combines have the next one */
};

/* Append to TAPE the messages of an exchange, of WORK, each to be completed for its rank. FORKS:
   they wait for the computations before them; JOINS: the next computations wait for them. */
void bb_moe_write(const struct bb_moe_exchange *exchange, struct bb_tape *tape, int work,
		  bool combines, bool forks, bool joins);
/* Complete O, a message of the tape, for the rank with PLACE among the ranks. Peer and item become
   the place of the other rank. */
void bb_moe_message(const struct bb_moe_load *load, int place, struct bb_operation *o);

/* ---- data ------------------------------------------------------------------------------------ */

/* Rows of one rank: MINE, ordered by expert; THEIRS, from other ranks to its experts, ordered by
   rank; BACK, its own after the return, ordered as MINE. */
struct bb_moe_rows {
	const struct bb_moe_load *load;
	size_t hidden;
	enum bb_dtype dtype;
	int place;        /* among the ranks */
	const int *ranks; /* [place]: the rank whose pattern its rows have; NULL: the place */
	char *mine, *theirs, *back;
};

/* Lay out MINE, BACK and THEIRS in KNOWN. MINE has known rows, the others different data, which the
   exchange overwrites with the rows of all other ranks; a rank's own are not moved. */
void bb_moe_rows_lay_out(struct bb_moe_rows *rows, struct bb_known *known,
			 const struct bb_patterns *patterns);

/* The first row of the message O. */
char *bb_moe_rows_of(const struct bb_moe_rows *rows, bool combines, const struct bb_operation *o);
