/*
 * calibration.h - a model of busbench's schedules on a measured machine, fitted to records of real
 * runs.
 *
 * The common part has a latency of each round, by the number of ranks, and a time of each byte that
 * the busiest processor moves, by the size of all inputs (caches): piecewise linear in its
 * logarithm with a knot every two octaves, fitted to all records at once by least squares of
 * relative errors. Each series (collective, algorithm, ranks, placement) has a correction factor by
 * size, which is interpolated; a series that was not measured takes that of the nearest number of
 * ranks.
 */
#ifndef BB_SIMULATOR_CALIBRATION_H
#define BB_SIMULATOR_CALIBRATION_H

#include "core/status.h"
#include "core/strbuf.h"
#include "schedules/schedule.h"

struct bb_calibration;

/*
 * Fit a model to the file of JSON lines at PATH. BB_EUSAGE: it cannot be read or has too few
 * results of schedules. The caller frees *C.
 */
BB_MUST bb_status bb_calibration_read(struct bb_calibration **c, const char *path,
				      struct bb_error *error);
void bb_calibration_free(struct bb_calibration *c); /* NULL: nothing */

/* Seconds of SCHEDULE for SHAPE with elements of ELEMENT bytes. */
double bb_calibration_time(const struct bb_calibration *c, const struct bb_algorithm *schedule,
			   const struct bb_shape *shape, size_t element);

/* Set *LOW and *HIGH to multiples of that time between which nine in ten measurements should lie,
   by cross-validation; NAN: too few predictions of this kind could be tested. */
void bb_calibration_interval(const struct bb_calibration *c, const struct bb_algorithm *schedule,
			     const struct bb_shape *shape, size_t element, double *low,
			     double *high);

/* The fastest schedule of COLLECTIVE for SHAPE, among the measured ones if there are any; NULL: no
   schedule supports SHAPE. */
const struct bb_algorithm *bb_calibration_choose(const struct bb_calibration *c,
						 const struct bb_collective *collective,
						 const struct bb_shape *shape, size_t element);

/* The measured chunk of SCHEDULE in elements; 0: not measured, or not cut. */
size_t bb_calibration_chunk(const struct bb_calibration *c, const struct bb_algorithm *schedule,
			    const struct bb_shape *shape, size_t element);

/* Append what was fitted and how well, in all and for each series, in lines that begin with "# ".
 */
void bb_calibration_describe(const struct bb_calibration *c, struct bb_strbuf *out);

#endif
