/*
 * estimate.h - what benchmarks of training steps work out before or instead of a run: whether the
 * data fits, how many ranks there will be, and records of results that are computed, not measured.
 */
#ifndef BB_TRAINING_KERNELS_ESTIMATE_H
#define BB_TRAINING_KERNELS_ESTIMATE_H

#include "harness/run/run.h"

/*
 * BB_EUNSUPPORTED unless BYTES fit on each rank of this process. The reason names SUBJECT, an
 * option with its value; DATA, in the plural; and what to GIVE instead.
 */
BB_MUST bb_status bb_estimate_room(struct bb_run *run, uint64_t bytes, const char *subject,
				   const char *data, const char *give);

/* The number of ranks that OPTIONS request, before the world is known. */
int bb_estimate_ranks(const struct bb_options *options, const struct bb_environment *environment);

/* What the intervals of RUN's times are, for struct bb_recommendation; NULL: it runs in virtual
   time without noise, so they are exact. */
const char *bb_estimate_noise(const struct bb_run *run);

/* As many ranks as N, unless a process is a rank, or their number is given. */
void bb_estimate_set_ranks(struct bb_options *options, const struct bb_environment *environment,
			   int64_t n);

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
