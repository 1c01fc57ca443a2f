/*
 * calibration_calls.h - calibrated schedules for calls of the sim backend.
 */
#ifndef BB_BACKENDS_SIM_CALIBRATION_CALLS_H
#define BB_BACKENDS_SIM_CALIBRATION_CALLS_H

#include "backends/backend.h"
#include "simulator/calibration.h"

/* Set CALL's schedule to NAME or (NULL) the fastest, and its chunk to that of its measurement.
   BB_EUNSUPPORTED with the reason. */
BB_MUST bb_status bb_calibration_resolve(const struct bb_calibration *c, const char *name,
					 struct bb_call *call, struct bb_error *error);

/* Seconds of CALL, whose schedule and chunk are set. */
double bb_calibration_call_time(const struct bb_calibration *c, const struct bb_call *call);

#endif
