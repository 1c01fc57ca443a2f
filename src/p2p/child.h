/*
 * child.h - the half of a run that needs the library in another state. A library chooses its state
 * once per process, so the half with its P2P off is measured by a child process: the same program
 * with the same command line, which sends its results over a pipe. Its stdout is discarded; its
 * stderr is the user's.
 */
#ifndef BB_P2P_CHILD_H
#define BB_P2P_CHILD_H

#include "core/status.h"
#include "p2p/series.h"

#define BB_CHILD_TEXT 192

struct bb_driver;
struct bb_pairs;

/* What a child process sent about one cell; owned by the cell. */
struct bb_child_cell {
	/* [rank * nranks + peer]; NULL: it was not measured, or is not judged. AGAIN holds the
	   floors after the child's review and nothing else. */
	struct bb_pair_part *first, *again;
	double end_unix_s;        /* end of the first measurement */
	char skip[BB_CHILD_TEXT]; /* why it was not measured */
};

void bb_child_cell_free(struct bb_child_cell *cell); /* NULL: nothing */

/* ---- in the parent --------------------------------------------------------------------------- */

/*
 * Rank 0: start the child, and wait until it has sent all its cells of PAIRS and has ended. The
 * state of the library in the child is added to PAIRS->library_text. All drivers wait for it before
 * they allocate memory, so that the child has the memory. A child that fails is a failure with its
 * exit status; one that sends nothing for longer than -T is BB_ETIMEOUT. BB_ETIMEOUT without a
 * report once the run is being abandoned. The child ends with the run and with this process.
 */
BB_MUST bb_status bb_child_run(struct bb_driver *driver, struct bb_pairs *pairs);

/* ---- in the child ---------------------------------------------------------------------------- */

/* *IS = whether this process is such a child. If so, it dies with its parent from now on. */
BB_MUST bb_status bb_child_find(bool *is, struct bb_error *error);

/* Rank 0 reports to the parent: the start and the state of the library; another turn; PARTS (see
   bb_pairs_deliver) of cell CELL, with AGAIN after the review; the end. Where this process is no
   child, these do nothing. */
BB_MUST bb_status bb_child_send_begin(struct bb_pairs *pairs);
BB_MUST bb_status bb_child_send_alive(struct bb_pairs *pairs);
BB_MUST bb_status bb_child_send_cell(struct bb_pairs *pairs, size_t cell,
				     const struct bb_pair_part *parts, bool again);
BB_MUST bb_status bb_child_send_end(struct bb_pairs *pairs);

#endif
