/*
 * exchange.h - a mixture of experts: the experts of each token, and the loads of ranks that follow;
 * the exchange of rows with the experts of other ranks (dispatch) and back (combine), as operations
 * of a program; and the memory of the rows.
 */
#pragma once

#include "programs/tape.h"

/* ---- loads ----------------------------------------------------------------------------------- */

/*
 * Experts are divided equally among the ranks, in order. Each token goes through top_k different
 * experts. The share of tokens that choose expert e falls as (e + 1)^-skew (Zipf; 0: evenly), up to
 * 1; the excess goes to the other experts. Choices are evenly spaced (systematic sampling), so they
 * meet the shares as well as whole tokens can, and are the same on each rank. Real routers also
 * differ between ranks and steps.
 *
 * With a capacity factor c an expert takes at most ceil(c tokens top_k / experts) rows of each rank
 * and drops those of later tokens, as in GShard (arXiv 2006.16668) and Switch Transformer
 * (2101.03961, section 2.2).
 */

struct bb_moe_form {
	int nranks, experts, top_k; /* nranks divides experts; top_k <= experts */
	int64_t tokens;             /* of a rank */
	double skew, capacity;      /* capacity 0: no limit */
};

/* A row is a token for one of its experts. */
struct bb_moe_load {
	struct bb_moe_form form;
	double *shares;   /* [e]: of the tokens that choose one of the experts below e; e <= experts
			   */
	int64_t *rows;    /* [e]: of a rank's tokens, through expert e, after dropping */
	int64_t *rows_to; /* [r]: of a rank's tokens, through the experts of rank r */
	int64_t *rows_before; /* [r]: to ranks below r; one more for the end */
	int64_t dropped;      /* rows of a rank */
	int busiest;          /* the rank that receives most rows */
};

/* BB_EINTERNAL without memory. Free LOAD whatever comes back. */
BB_MUST bb_status bb_moe_load_make(struct bb_moe_load *load, const struct bb_moe_form *form,
				   struct bb_error *error);
void bb_moe_load_free(struct bb_moe_load *load);

/* Expert number SLOT (0 to top_k - 1) of TOKEN (0 to tokens - 1), on any rank, dropped or not. It
   ascends with SLOT. */
int bb_moe_choice(const struct bb_moe_load *load, int64_t token, int slot);

/* Rows at the experts of RANK, from all ranks including itself. */
int64_t bb_moe_rows_at(const struct bb_moe_load *load, int rank);
/* Those from other ranks. */
int64_t bb_moe_rows_received(const struct bb_moe_load *load, int rank);
/* Rows of the busiest rank over the mean. */
double bb_moe_imbalance(const struct bb_moe_load *load);

/* ---- operations ------------------------------------------------------------------------------ */

/*
 * Rows go directly from rank to rank, shift by shift: in shift k each rank sends to the rank k
 * after it and receives from the rank k before it. All receives of an exchange are posted together,
 * so that no rank waits for slower ones. Rows for the rank's own experts are not moved. The ranks
 * that a shift connects form a ring, in which one rank receives before it sends; so everything ends
 * even if a rank does one operation at a time. Shift k has gcd(k, ranks) rings, and their lowest
 * ranks come first.
 */

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
char *bb_moe_rows_of(const struct bb_moe_rows *rows, const struct bb_operation *o);
