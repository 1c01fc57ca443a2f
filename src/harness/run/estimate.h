/*
 * estimate.h - records of what is computed or explained instead of measured: nothing is started.
 */
#ifndef BB_HARNESS_RUN_ESTIMATE_H
#define BB_HARNESS_RUN_ESTIMATE_H

#include "harness/run/run.h"

/*
 * Open RUN's sinks for records of ROWS, without text, and write the run's record, with NRANKS and
 * ALGORITHMS (NULL: none); fields that only a run has are absent. Of several processes the first
 * alone writes. Close by bb_sinks_close whatever comes back.
 */
BB_MUST bb_status bb_estimate_open(struct bb_run *run, const struct bb_record_kind *rows,
				   int nranks, const char *algorithms);
BB_MUST bb_status bb_estimate_record(struct bb_run *run, const struct bb_record_kind *kind,
				     const void *record);
/* Write the end record with STATUS. Fold the '#' lines of the text in OUT, or clear it where
   records go to stdout. Returns STATUS, or why the records could not be written. */
BB_MUST bb_status bb_estimate_end(struct bb_run *run, struct bb_strbuf *out, bb_status status);

#endif
