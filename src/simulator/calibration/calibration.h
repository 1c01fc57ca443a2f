/*
 * calibration.h - predictions by a measured run, with the errors and intervals of its
 * cross-validation: of busbench's schedules on a measured machine, or of NCCL on a cluster.
 *
 * Of schedules, the common part has a latency of each round, by the number of ranks, and a time of
 * each byte that the busiest processor moves, by the size of all inputs (caches): piecewise linear
 * in its logarithm with a knot every two octaves, fitted to all records at once by least squares of
 * relative errors. Each series (collective, algorithm, ranks, placement) has a correction factor by
 * size, which is interpolated; a series that was not measured takes that of the nearest number of
 * ranks. Of NCCL, the common part is nccl/model.h with fitted figures of the cluster, and only the
 * sizes of a measured series use its correction.
 */
#pragma once

#include "core/status.h"
#include "core/strbuf.h"
#include "schedules/schedule.h"
#include "simulator/cluster/cluster.h"
#include "simulator/nccl/model.h"

struct bb_calibration;

/*
 * Without a CLUSTER, fit a model of schedules to the records at PATH. With a CLUSTER, which holds
 * GPUs with these CONSTANTS, fit its figures and what is left to NCCL's results at PATH: records,
 * or a log of nccl-tests; both are borrowed. BB_EUSAGE: PATH cannot be read, has too few results,
 * or is of another machine than CLUSTER. The caller frees *C.
 */
BB_MUST bb_status bb_calibration_read(struct bb_calibration **c, const char *path,
				      const struct bb_cluster *cluster,
				      const struct bb_nccl_constants *constants,
				      struct bb_error *error);
void bb_calibration_free(struct bb_calibration *c); /* NULL: nothing */

/* The evidence for a prediction. NAN: unknown. */
struct bb_calibrated {
	/* Multiples of the prediction between which nine in ten measurements lie that the model was
	   not fitted to. */
	double low, high;
	/* In the file that the model was fitted to: */
	double measured;                   /* seconds of this very case, */
	double measured_min, measured_p95; /* least and 95th percentile of its samples */
	double left_out;                   /* seconds predicted for it without its size */
};

/* Seconds of SCHEDULE for SHAPE with elements of ELEMENT bytes; *SUPPORT = the evidence. */
double bb_calibration_time(const struct bb_calibration *c, const struct bb_algorithm *schedule,
			   const struct bb_shape *shape, size_t element,
			   struct bb_calibrated *support);

/* The schedule of COLLECTIVE called NAME or (NULL) the fastest for SHAPE, among the measured ones
   if there are any. Sets shape->chunk to the measured chunk, 0: not measured, or not cut. Returns
   NULL if no schedule supports SHAPE. */
const struct bb_algorithm *bb_calibration_choose(const struct bb_calibration *c, const char *name,
						 const struct bb_collective *collective,
						 struct bb_shape *shape, size_t element);

/* ---- NCCL on a cluster ---------------------------------------------------------------- */

/* Apply the fitted figures to MACHINE, a group of the cluster without a fault. */
void bb_calibration_adjust(const struct bb_calibration *c, struct bb_nccl_machine *machine);

/*
 * The factor on the model's time of CALL, whose machine is adjusted, by the measurements of its
 * series. Where cross-validation tested too little, SUPPORT has the interval of unseen machines.
 */
double bb_calibration_of_nccl(const struct bb_calibration *c, const struct bb_nccl_call *call,
			      struct bb_calibrated *support);

/* Append what was fitted and how well, in all and for each series, in lines that begin with "# ".
 */
void bb_calibration_describe(const struct bb_calibration *c, struct bb_strbuf *out);
