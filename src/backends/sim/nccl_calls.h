/*
 * nccl_calls.h - the model of NCCL for calls of the sim backend: NCCL's names of algorithms, their
 * limits and times.
 */
#ifndef BB_BACKENDS_SIM_NCCL_CALLS_H
#define BB_BACKENDS_SIM_NCCL_CALLS_H

#include "backends/backend.h"
#include "backends/library.h"
#include "backends/virtual.h"
#include "simulator/calibration.h"
#include "simulator/nccl_constants.h"
#include "simulator/nccl_shape.h"

/* The algorithms of the nccl backend; ends with name NULL. */
extern const struct bb_native bb_sim_nccl_natives[];
/* NCCL's own choice. */
extern const struct bb_native bb_sim_nccl_auto;

/*
 * Set *C to NCCL's constants for the GPUs of CLUSTER, and TEXT to their description for records,
 * empty where there are none.
 */
#define BB_SIM_NCCL_TEXT 128
BB_MUST bb_status bb_sim_nccl_find(struct bb_nccl_constants *c, const struct bb_cluster *cluster,
				   char text[BB_SIM_NCCL_TEXT], struct bb_error *error);

/* NULL, or why CALL, which is native, cannot run. */
const char *bb_sim_nccl_refuses(const struct bb_nccl_constants *c,
				const struct bb_nccl_machine *machine, const struct bb_call *call);

/* Set PREDICTION to the interval and the older versions' choice for CALL, which is native. */
void bb_sim_nccl_predict(const struct bb_nccl_constants *c, const struct bb_nccl_machine *machine,
			 const struct bb_call *call, struct bb_model_prediction *prediction);

/* The factor of CALIBRATION on the time of CALL, which is native, and its SUPPORT. MACHINE is
   adjusted. */
double bb_sim_nccl_correct(const struct bb_calibration *calibration,
			   const struct bb_nccl_machine *machine, const struct bb_call *call,
			   struct bb_calibrated *support);

/* Seconds of CALL, which is native and not refused. CHOSEN (may be NULL) becomes "ring:LL128", or
   empty for collectives made of messages. */
double bb_sim_nccl_time(const struct bb_nccl_constants *c, const struct bb_nccl_machine *machine,
			const struct bb_call *call, char chosen[BB_CHOSEN_TEXT]);

#endif
