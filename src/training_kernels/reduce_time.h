/*
 * reduce_time.h - the time of an all-reduce over modelled links, by a schedule.
 */
#ifndef BB_TRAINING_KERNELS_REDUCE_TIME_H
#define BB_TRAINING_KERNELS_REDUCE_TIME_H

#include "simulator/timeline/timeline.h"

struct bb_reduce_known {
	uint64_t bytes;
	double seconds;
	const char *algorithm; /* that takes this time */
};

/* An all-reduce algorithm over one kind of links; the times of known sizes are kept. */
struct bb_reduce_time {
	struct bb_link_model links;
	const char *algorithm; /* NULL: the fastest for each size */
	int nranks;
	enum bb_dtype dtype;
	struct bb_error *error; /* the first failure, after which all times are 0 */
	bb_status status;
	struct bb_reduce_known *known;
	size_t nknown, room;
};

/* A bb_reduce_seconds; OWN is a struct bb_reduce_time. Seconds until the last rank ends, if all
   begin together. */
double bb_reduce_time_seconds(void *own, size_t bucket, uint64_t bytes);
void bb_reduce_time_close(struct bb_reduce_time *r);

#endif
