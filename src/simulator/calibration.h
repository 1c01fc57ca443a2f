/*
 * calibration.h - how long busbench's schedules take on a machine that was measured: a model fitted
 * to the records of real runs.
 *
 * What is the same for all is a latency for each round of a schedule, by the number of ranks, and a
 * time for each byte that the busiest processor moves, by how much there is in all (caches):
 * piecewise linear in the logarithm, a knot every two octaves, fitted to all records at once, least
 * squares of relative errors. What is left of each series (collective, algorithm, ranks, placement)
 * is a factor, between sizes interpolated: other sizes of it are predicted with it, and other
 * numbers of ranks with that of the nearest.
 */
#ifndef BB_SIMULATOR_CALIBRATION_H
#define BB_SIMULATOR_CALIBRATION_H

#include "core/status.h"
#include "core/strbuf.h"
#include "schedules/schedule.h"

struct bb_calibration;

/*
 * From the file of JSON lines at PATH. BB_EUSAGE: it cannot be read or has too few results of
 * schedules. Free what comes back.
 */
BB_MUST bb_status bb_calibration_read(struct bb_calibration **c, const char *path,
				      struct bb_error *error);
void bb_calibration_free(struct bb_calibration *c); /* NULL: nothing */

/* Seconds that SCHEDULE takes for SHAPE with elements of ELEMENT bytes. */
double bb_calibration_time(const struct bb_calibration *c, const struct bb_algorithm *schedule,
			   const struct bb_shape *shape, size_t element);

/* The schedule of COLLECTIVE that takes SHAPE in the least time, among those that were measured
   where there are any; NULL: none takes it. */
const struct bb_algorithm *bb_calibration_choose(const struct bb_calibration *c,
						 const struct bb_collective *collective,
						 const struct bb_shape *shape, size_t element);

/* Elements of its messages, as it was measured; 0: it was not, or they are not cut. */
size_t bb_calibration_chunk(const struct bb_calibration *c, const struct bb_algorithm *schedule,
			    const struct bb_shape *shape, size_t element);

/* Append what was fitted and how well, in all and for each series, in lines that begin with "# ".
 */
void bb_calibration_describe(const struct bb_calibration *c, struct bb_strbuf *out);

#endif
