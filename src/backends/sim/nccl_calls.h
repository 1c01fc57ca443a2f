/*
 * nccl_calls.h - the model of NCCL as the sim backend calls it: groups of a cluster's GPUs, and
 * NCCL's names for algorithms.
 */
#ifndef BB_BACKENDS_SIM_NCCL_CALLS_H
#define BB_BACKENDS_SIM_NCCL_CALLS_H

#include "backends/backend.h"
#include "backends/library.h"
#include "simulator/nccl_constants.h"
#include "simulator/nccl_shape.h"

/* Those of the nccl backend; ends with name NULL. */
extern const struct bb_native bb_sim_nccl_natives[];
/* NCCL's own choice. */
extern const struct bb_native bb_sim_nccl_auto;

/*
 * *C = NCCL's constants for the GPUs of CLUSTER, and in TEXT what they are, for records; empty
 * where there are none.
 */
#define BB_SIM_NCCL_TEXT 128
BB_MUST bb_status bb_sim_nccl_find(struct bb_nccl_constants *c, const struct bb_cluster *cluster,
				   char text[BB_SIM_NCCL_TEXT], struct bb_error *error);

/* NULL, or why CALL, which is native, cannot be made. */
const char *bb_sim_nccl_refuses(const struct bb_nccl_constants *c,
				const struct bb_nccl_machine *machine, const struct bb_call *call);

/* Seconds that CALL, which is native and not refused, takes. CHOSEN (may be NULL) = "ring:LL128",
   or empty for what is made of messages. */
double bb_sim_nccl_time(const struct bb_nccl_constants *c, const struct bb_nccl_machine *machine,
			const struct bb_call *call, char chosen[BB_CHOSEN_TEXT]);

#endif
