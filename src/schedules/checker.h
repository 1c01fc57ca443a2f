/*
 * checker.h - proves an algorithm for one shape by running it on symbols: a group's buffers whose
 * elements are the ranks whose contributions they sum, and the element of IN.
 */
#pragma once

#include "core/status.h"
#include "schedules/schedule.h"

#define BB_CHECKER_RANKS 64 /* maximum of ranks: a contribution is one bit of a word */

struct bb_symbol {
	uint64_t ranks; /* bit r: contains the contribution of rank r; 0: nothing was written */
	uint32_t index; /* of that element in the contributors' IN */
	bool final;     /* promised not to be read again */
};

struct bb_symbols { /* one rank's buffers */
	struct bb_symbol *cells;
	size_t start[3]; /* of IN, OUT and TMP; in place the first two share cells */
	size_t count[3];
};

static inline struct bb_symbol *bb_symbols_at(const struct bb_symbols *symbols,
					      struct bb_place place)
{
	return symbols->cells + symbols->start[place.buffer] + place.offset;
}

/* The expected symbol of element I of SEGMENT. */
static inline struct bb_symbol bb_symbol_expected(const struct bb_segment *segment, int nranks,
						  size_t i)
{
	uint64_t all = nranks == 64 ? ~UINT64_C(0) : (UINT64_C(1) << nranks) - 1;
	uint64_t ranks = segment->source == BB_REDUCED ? all : UINT64_C(1) << segment->source;

	return (struct bb_symbol){.ranks = ranks, .index = (uint32_t)(segment->in + i)};
}

/* A rank of a group that performs an algorithm on symbols. */
struct bb_check_rank {
	int rank;
	struct bb_role role;
	struct bb_symbols symbols;
	size_t round; /* that it performs */
	bool loaded;  /* steps are those of round, in the order of execution */
	int nsteps;
	int next;
	struct bb_step steps[BB_MAX_STEPS];
	struct bb_check_message *sent; /* not yet received, oldest first */
	size_t nsent, room;
};

struct bb_check {
	const struct bb_algorithm *algorithm;
	const struct bb_shape *shape;
	int slots;
	struct bb_error *error;
	struct bb_check_rank *ranks;
};

/* Open a group of SHAPE, with at most BB_CHECKER_RANKS ranks, before round 0 of ALGORITHM, which it
   performs as bb_check_algorithm has it. All arguments are borrowed. Close CHECK whatever comes
   back. */
BB_MUST bb_status bb_check_open(struct bb_check *check, const struct bb_algorithm *algorithm,
				const struct bb_shape *shape, int slots, struct bb_error *error);
/* Perform all rounds below ROUNDS. BB_EDATA: a rank cannot. */
BB_MUST bb_status bb_check_advance(struct bb_check *check, size_t rounds);
void bb_check_close(struct bb_check *check);

/*
 * Run ALGORITHM on SHAPE (nranks <= BB_CHECKER_RANKS) with every element a symbol, the way the
 * executor does: sends are posted into at most SLOTS outstanding messages per (pair, channel),
 * receivers read the sender's buffer in place, and a rank waits before it overwrites a message that
 * is not read yet. Proves that
 *   - every send meets one receive of the same peer, channel, order and count; none is left over;
 *   - nothing deadlocks, whatever the timing;
 *   - within a round no write overlaps another step's read or write, no step leaves its buffer,
 *     and IN is never written (in place: except where it is OUT);
 *   - every element of OUT holds what the collective promises: each contribution exactly once;
 *   - what a final step wrote is not read again, by anyone;
 *   - BB_SHIFT_INVARIANT is true where it is claimed.
 * BB_OK, or BB_EDATA with the rank, round and step in ERROR; BB_EINTERNAL: out of memory.
 */
BB_MUST bb_status bb_check_algorithm(const struct bb_algorithm *algorithm,
				     const struct bb_shape *shape, int slots,
				     struct bb_error *error);
