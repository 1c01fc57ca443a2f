/*
 * constants.h - the constants of the model of NCCL, from nccl.txt.
 */
#ifndef BB_SIMULATOR_NCCL_CONSTANTS_H
#define BB_SIMULATOR_NCCL_CONSTANTS_H

#include "simulator/nccl/model.h"
#include "core/status.h"

/* Set *C to the constants for GPUs of compute capability SM (90); generation is NULL where there
   are none. BB_EINTERNAL: the file is malformed. */
BB_MUST bb_status bb_nccl_constants_find(struct bb_nccl_constants *c, int sm,
					 struct bb_error *error);

/* Set *OTHER to C with the constants of other versions, whose tuner differs; INDEX counts from 0.
 *MORE = false: there is none of this INDEX. */
BB_MUST bb_status bb_nccl_constants_other(struct bb_nccl_constants *other,
					  const struct bb_nccl_constants *c, int index, bool *more,
					  struct bb_error *error);

/* Set the constant KEY to VALUE, which is written as in nccl.txt and cut in place. Returns false if
   there is no such constant, or VALUE does not suit it. */
bool bb_nccl_constants_set(struct bb_nccl_constants *c, const char *key, char *value);

#endif
