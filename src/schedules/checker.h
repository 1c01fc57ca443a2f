/*
 * checker.h - proves an algorithm for one shape by running it on symbols.
 */
#ifndef BB_SCHEDULES_CHECKER_H
#define BB_SCHEDULES_CHECKER_H

#include "core/status.h"
#include "schedules/schedule.h"

#define BB_CHECKER_RANKS 64 /* maximum of ranks: a contribution is one bit of a word */

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

#endif
