/*
 * reduce_time.c - the time of an all-reduce, from the timeline of its schedule.
 */
#include "training_kernels/reduce_time.h"

#include "core/array.h"

#include <stdlib.h>

/* The seconds and the algorithm; r->status if there is none. */
static double evaluate_reduce(struct bb_reduce_time *r, uint64_t bytes, const char **algorithm)
{
	const size_t element = bb_dtype_size(r->dtype), n = (size_t)r->nranks;
	struct bb_shape shape = {.nranks = r->nranks, .in_place = true, .count = bytes / element};
	const struct bb_algorithm *schedule = bb_timeline_choose(
		&r->links, r->algorithm, &bb_all_reduce, &shape, element, r->error);
	double *times = schedule ? calloc(n, sizeof(*times)) : NULL, latest = 0;

	if (!schedule)
		r->status = bb_error_status(r->error);
	else if (!times || bb_timeline_collective(&r->links, schedule, &shape, element, 0, times))
		r->status = bb_no_memory(r->error, "a timeline");
	for (size_t i = 0; r->status == BB_OK && i < n; i++)
		latest = times[i] > latest ? times[i] : latest;
	*algorithm = schedule ? schedule->name : NULL;
	free(times);
	return latest;
}

double bb_reduce_time_seconds(void *own, size_t bucket, uint64_t bytes)
{
	struct bb_reduce_time *r = own;
	struct bb_reduce_known *known;

	if (r->status != BB_OK)
		return 0;
	/* Few sizes: models repeat a block. */
	for (size_t i = 0; i < r->nknown; i++)
		if (r->known[i].bytes == bytes)
			return r->known[i].seconds;
	known = BB_ARRAY_ADD(r->known, r->nknown, r->room);
	if (!known) {
		r->status = bb_no_memory(r->error, "the times of reductions");
		return 0;
	}
	known->bytes = bytes;
	known->seconds = evaluate_reduce(r, bytes, &known->algorithm);
	return known->seconds;
}

void bb_reduce_time_close(struct bb_reduce_time *r)
{
	free(r->known);
	r->known = NULL;
}
