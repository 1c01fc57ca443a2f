/*
 * child.h - the half of a run that needs the library in another state. A library settles its state
 * once in a process: the half with its P2P off is measured by a child process, the same program
 * with the same command line, which tells what its ranks measured over a pipe. What it writes to
 * stdout goes nowhere, what it says on stderr is the user's to read.
 */
#ifndef BB_P2P_CHILD_H
#define BB_P2P_CHILD_H

#include "core/status.h"
#include "p2p/series.h"

#define BB_CHILD_TEXT 192

struct bb_driver;
struct bb_pairs;

/* What a child process told of one cell; owned by the cell. */
struct bb_child_cell {
	/* [rank * nranks + peer]; NULL: it was not measured, or is not judged. Again: its floors
	   after the child's review, nothing else. */
	struct bb_pair_part *first, *again;
	double end_unix_s;        /* when it was done the first time */
	char skip[BB_CHILD_TEXT]; /* why it was not measured */
};

void bb_child_cell_free(struct bb_child_cell *cell); /* NULL: nothing */

/* ---- in the parent --------------------------------------------------------------------------- */

/*
 * Rank 0: start the child, and wait until it has told of all cells of PAIRS that are its own, and
 * ended; the library's state there is added to PAIRS->library_text. Other drivers wait meanwhile,
 * all of them before they take memory, which is then the child's. A child that fails is a failure
 * with its exit status; one that says nothing for longer than -T is BB_ETIMEOUT. BB_ETIMEOUT
 * without a word once the run is being abandoned: the child ends with it, as it does when this
 * process dies.
 */
BB_MUST bb_status bb_child_run(struct bb_driver *driver, struct bb_pairs *pairs);

/* ---- in the child ---------------------------------------------------------------------------- */

/* *IS = is this process such a child? From then on it dies with its parent. */
BB_MUST bb_status bb_child_find(bool *is, struct bb_error *error);

/* Rank 0 tells the parent: that it begins, in which state of the library; that it has begun another
   turn; what all ranks measured in cell CELL, PARTS as bb_pairs_deliver has them, AGAIN: the second
   time; that it has told all. Where this is no child: nothing. */
BB_MUST bb_status bb_child_tell_begin(struct bb_pairs *pairs);
BB_MUST bb_status bb_child_tell_alive(struct bb_pairs *pairs);
BB_MUST bb_status bb_child_tell_cell(struct bb_pairs *pairs, size_t cell,
				     const struct bb_pair_part *parts, bool again);
BB_MUST bb_status bb_child_tell_end(struct bb_pairs *pairs);

#endif
