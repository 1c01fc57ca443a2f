/*
 * session.h - the experiment: one driver's run of all stages.
 *
 *   drive.c         stage by stage
 *   check.c         verification of the parameters
 *   deliver.c       records
 */
#ifndef BB_TRAINING_KERNELS_ZERO_SESSION_H
#define BB_TRAINING_KERNELS_ZERO_SESSION_H

#include "training_kernels/zero/rank.h"

/* State of a driver. */
struct bb_zero_session {
	struct bb_engine engine;
	struct bb_zero *zero;
	struct bb_zero_blocks blocks;
	struct bb_zero_reference reference;
	bool has_reference, has_checksum;
	uint64_t checksum; /* of the first stage */
	int64_t steps;     /* of a stage, with warm-up */
};

/* Measurements of a stage on this rank. */
struct bb_zero_measured {
	/* Bytes of the process before and after the rehearsal, and after the last step; BB_ABSENT:
	   unknown. */
	int64_t system_at_first, system_before, system_after;
	struct bb_zero_times *times; /* [timed step]; owned */
	size_t timed;                /* steps that were not skipped */
	double *scratch;             /* as many; owned */
	struct {
		uint64_t wrong, checksum;
	} sum; /* first of this rank, then of all */
};

/* Train the reference if results are checked and the model is small enough. BB_EINTERNAL without
   memory. */
BB_MUST bb_status bb_zero_open_reference(struct bb_zero_session *session);
/* Set m->sum to the number of wrong elements on all ranks and the checksum of all parameters.
   Collective over the world. */
BB_MUST bb_status bb_zero_verify(struct bb_zero_session *session, struct bb_zero_rank *z,
				 struct bb_zero_measured *m);

/* Write the records of a stage to the sinks; for rank 0. */
BB_MUST bb_status bb_zero_deliver(struct bb_zero_session *session, const struct bb_zero_rank *z,
				  const struct bb_zero_measured *m);

#endif
