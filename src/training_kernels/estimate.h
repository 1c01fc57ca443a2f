/*
 * estimate.h - what benchmarks of training steps work out before or instead of a run: whether the
 * data fits, and how many ranks there will be.
 */
#ifndef BB_TRAINING_KERNELS_ESTIMATE_H
#define BB_TRAINING_KERNELS_ESTIMATE_H

#include "harness/run/estimate.h"

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

#endif
