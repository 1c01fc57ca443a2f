/*
 * shown.h - records of what is worked out and not run: where they go, and what stands around them.
 */
#ifndef BB_TRAINING_KERNELS_SHOWN_H
#define BB_TRAINING_KERNELS_SHOWN_H

#include "harness/run/run.h"

/*
 * Open RUN's sinks for records of ROWS, without text, and tell of the run, as if it had NRANKS and
 * were of ALGORITHMS (NULL: of none); what only a run has is absent. One process of those that a
 * launcher has started writes. To be closed by bb_sinks_close.
 */
BB_MUST bb_status bb_shown_open(struct bb_run *run, const struct bb_record_kind *rows, int nranks,
				const char *algorithms);
/* A result. */
BB_MUST bb_status bb_shown_record(struct bb_run *run, const struct bb_record_kind *kind,
				  const void *record);
/* The end, with what became of it. Returns STATUS, or why the records could not be written. */
BB_MUST bb_status bb_shown_end(struct bb_run *run, bb_status status);

#endif
