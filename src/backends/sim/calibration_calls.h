/*
 * calibration_calls.h - calibrated schedules as the sim backend calls them.
 */
#ifndef BB_BACKENDS_SIM_CALIBRATION_CALLS_H
#define BB_BACKENDS_SIM_CALIBRATION_CALLS_H

#include "backends/backend.h"
#include "simulator/calibration.h"

/* Set CALL's schedule, to that of NAME or (NULL) the fastest, and how long its messages are: as
   they were when it was measured. */
BB_MUST bb_status bb_calibration_resolve(const struct bb_calibration *c, const char *name,
					 struct bb_call *call, struct bb_error *error);

/* Seconds of CALL, which is settled. */
double bb_calibration_call_time(const struct bb_calibration *c, const struct bb_call *call);

#endif
