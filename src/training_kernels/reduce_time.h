/*
 * reduce_time.h - how long gradients take to be reduced over modelled links, by a schedule.
 */
#ifndef BB_TRAINING_KERNELS_REDUCE_TIME_H
#define BB_TRAINING_KERNELS_REDUCE_TIME_H

#include "simulator/timeline.h"

struct bb_reduce_known {
	uint64_t bytes;
	double seconds;
	const char *algorithm; /* that it is done by */
};

/* One all-reduce algorithm over one kind of links; what was worked out for a size is kept. */
struct bb_reduce_time {
	struct bb_link_model links;
	const char *algorithm; /* NULL: for each size the one that takes the least time */
	int nranks;
	enum bb_dtype dtype;
	struct bb_error *error; /* the first failure, after which all times are 0 */
	bb_status status;
	struct bb_reduce_known *known;
	size_t nknown, room;
};

/* bb_reduce_seconds of a struct bb_reduce_time: until the last rank is done, all having begun
   together. */
double bb_reduce_time_seconds(void *own, size_t bucket, uint64_t bytes);
void bb_reduce_time_close(struct bb_reduce_time *r);

#endif
