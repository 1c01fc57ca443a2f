/*
 * collectives.c - what every rank sends and receives, as data.
 */
#include <string.h>

#include "schedules/schedule.h"

/* ---- how much ------------------------------------------------------------------------ */

size_t bb_alltoall_count(const struct bb_shape *shape, int source, int destination)
{
	size_t row = (size_t)source * (size_t)shape->nranks;

	return shape->matrix ? shape->matrix[row + (size_t)destination] : shape->count;
}

size_t bb_alltoall_in(const struct bb_shape *shape, int source, int destination)
{
	size_t start = 0;

	if (!shape->matrix)
		return shape->count * (size_t)destination;
	for (int k = 0; k < destination; k++)
		start += bb_alltoall_count(shape, source, k);
	return start;
}

size_t bb_alltoall_out(const struct bb_shape *shape, int source, int destination)
{
	size_t start = 0;

	if (!shape->matrix)
		return shape->count * (size_t)source;
	for (int k = 0; k < source; k++)
		start += bb_alltoall_count(shape, k, destination);
	return start;
}

/* Elements to all destinations less than DISTANCE away, of the TOTAL that a rank sends. */
static size_t sent_before(int distance, int nranks, size_t total, double spread)
{
	long double d = distance, n = nranks, share;

	if (distance >= nranks)
		return total;
	share = (1 - (long double)spread) * d / n;
	if (nranks > 1)
		share += (long double)spread * d * (d - 1) / (n * (n - 1));
	return (size_t)((long double)total * share);
}

void bb_alltoallv_matrix(size_t *matrix, int nranks, size_t count, double spread)
{
	size_t n = (size_t)nranks, src, d;

	for (d = 0; d < n; d++) {
		size_t elements = sent_before((int)d + 1, nranks, n * count, spread) -
				  sent_before((int)d, nranks, n * count, spread);

		for (src = 0; src < n; src++)
			matrix[src * n + (src + d) % n] = elements;
	}
}

size_t bb_collective_in(const struct bb_collective *c, const struct bb_shape *shape, int rank)
{
	if ((c->flags & (BB_ROOTED | BB_TO_ROOT)) == BB_ROOTED && rank != shape->root)
		return 0;
	return c->flags & BB_SENDS_BLOCKS ? bb_alltoall_in(shape, rank, shape->nranks)
					  : shape->count;
}

size_t bb_collective_out(const struct bb_collective *c, const struct bb_shape *shape, int rank)
{
	if (c->flags & BB_TO_ROOT && rank != shape->root)
		return 0;
	return c->flags & BB_RECEIVES_BLOCKS ? bb_alltoall_out(shape, shape->nranks, rank)
					     : shape->count;
}

/* A side without blocks lies where the other has the rank's own block. */
size_t bb_collective_at(const struct bb_collective *c, const struct bb_shape *shape, int rank,
			enum bb_buffer buffer)
{
	const unsigned other = buffer == BB_IN ? BB_RECEIVES_BLOCKS : BB_SENDS_BLOCKS;

	return (c->flags & (BB_SENDS_BLOCKS | BB_RECEIVES_BLOCKS)) == other
		       ? shape->count * (size_t)rank
		       : 0;
}

/* ---- what OUT holds in the end ------------------------------------------------------- */

int bb_collective_segments(const struct bb_collective *c, const struct bb_shape *shape, int rank)
{
	if (c->flags & BB_TO_ROOT && rank != shape->root)
		return 0;
	return c->flags & BB_RECEIVES_BLOCKS ? shape->nranks : 1;
}

struct bb_segment bb_collective_segment(const struct bb_collective *c, const struct bb_shape *shape,
					int rank, int k)
{
	const int source = c->flags & BB_REDUCES           ? BB_REDUCED
			   : c->flags & BB_RECEIVES_BLOCKS ? k
			   : c->flags & BB_ROOTED          ? shape->root
						  : (rank + shape->nranks - 1) % shape->nranks;

	return (struct bb_segment){
		.out = c->flags & BB_RECEIVES_BLOCKS ? bb_alltoall_out(shape, source, rank) : 0,
		.in = c->flags & BB_SENDS_BLOCKS ? bb_alltoall_in(shape, source, rank) : 0,
		.count = bb_alltoall_count(shape, source, rank),
		.source = source,
	};
}

/* ---- bandwidth as nccl-tests defines it ---------------------------------------------- */

static double factor_one(int n)
{
	return 1.0;
}

static double factor_others(int n)
{
	return (double)(n - 1) / n;
}

static double factor_twice_others(int n)
{
	return 2.0 * (n - 1) / n;
}

static const char *only_powers_of_two(int n)
{
	return n & (n - 1) ? "a hypercube needs a power of two of ranks" : NULL;
}

/* ---- the collectives ----------------------------------------------------------------- */

const struct bb_collective bb_all_reduce = {
	.name = "all_reduce",
	.brief = "every rank gets the reduction of all ranks' data",
	.flags = BB_REDUCES | BB_SAME_OUTPUT,
	.share = BB_SHARE_EVEN,
	.bus_factor = factor_twice_others,
};

const struct bb_collective bb_all_gather = {
	.name = "all_gather",
	.brief = "every rank gets the blocks of all ranks, in order",
	.flags = BB_RECEIVES_BLOCKS | BB_SAME_OUTPUT | BB_ROUNDED,
	.share = BB_SHARE_BY_SOURCE,
	.bus_factor = factor_others,
};

const struct bb_collective bb_reduce_scatter = {
	.name = "reduce_scatter",
	.brief = "every rank gets its block of the reduction of all ranks' data",
	.flags = BB_SENDS_BLOCKS | BB_REDUCES | BB_ROUNDED,
	.share = BB_SHARE_BY_DESTINATION,
	.bus_factor = factor_others,
};

const struct bb_collective bb_broadcast = {
	.name = "broadcast",
	.brief = "every rank gets the root's data",
	.flags = BB_ROOTED | BB_SAME_OUTPUT,
	.share = BB_SHARE_EVEN,
	.bus_factor = factor_one,
};

const struct bb_collective bb_reduce = {
	.name = "reduce",
	.brief = "the root gets the reduction of all ranks' data",
	.flags = BB_ROOTED | BB_TO_ROOT | BB_REDUCES,
	.share = BB_SHARE_EVEN,
	.bus_factor = factor_one,
};

const struct bb_collective bb_gather = {
	.name = "gather",
	.brief = "the root gets the blocks of all ranks, in order",
	.flags = BB_ROOTED | BB_TO_ROOT | BB_RECEIVES_BLOCKS | BB_ROUNDED,
	.share = BB_SHARE_BY_SOURCE,
	.bus_factor = factor_others,
};

const struct bb_collective bb_scatter = {
	.name = "scatter",
	.brief = "every rank gets its block of the root's data",
	.flags = BB_ROOTED | BB_SENDS_BLOCKS | BB_ROUNDED,
	.share = BB_SHARE_BY_DESTINATION,
	.bus_factor = factor_others,
};

const struct bb_collective bb_alltoall = {
	.name = "alltoall",
	.brief = "every rank gets its block of every rank's data",
	.flags = BB_SENDS_BLOCKS | BB_RECEIVES_BLOCKS | BB_ROUNDED,
	.share = BB_SHARE_BY_DESTINATION,
	.bus_factor = factor_others,
};

const struct bb_collective bb_alltoallv = {
	.name = "alltoallv",
	.brief = "every rank gets its block of every rank's data, of any length",
	.flags = BB_SENDS_BLOCKS | BB_RECEIVES_BLOCKS | BB_ROUNDED | BB_VARIABLE,
	.share = BB_SHARE_BY_DESTINATION,
	.bus_factor = factor_others,
};

const struct bb_collective bb_sendrecv = {
	.name = "sendrecv",
	.brief = "every rank sends to the next and receives from the previous",
	.share = BB_SHARE_BY_DESTINATION,
	.bus_factor = factor_one,
};

const struct bb_collective bb_hypercube = {
	.name = "hypercube",
	.brief = "every rank gets all blocks over the edges of a hypercube",
	.flags = BB_RECEIVES_BLOCKS | BB_SAME_OUTPUT | BB_ROUNDED,
	.share = BB_SHARE_BY_SOURCE,
	.bus_factor = factor_one,
	.refuses = only_powers_of_two,
};

const struct bb_collective *const bb_collectives[] = {
	&bb_all_reduce, &bb_all_gather, &bb_reduce_scatter, &bb_broadcast,
	&bb_reduce,     &bb_gather,     &bb_scatter,        &bb_alltoall,
	&bb_alltoallv,  &bb_sendrecv,   &bb_hypercube,      NULL,
};

const struct bb_collective *bb_collective_find(const char *name)
{
	for (int i = 0; bb_collectives[i]; i++) {
		if (!strcmp(bb_collectives[i]->name, name))
			return bb_collectives[i];
	}
	return NULL;
}

size_t bb_count_for_size(const struct bb_collective *collective, size_t bytes, size_t element_size,
			 int nranks)
{
	size_t count = bytes / element_size, unit = 16 / element_size;

	if (!(collective->flags & BB_ROUNDED))
		return count;
	count /= (size_t)nranks;
	return unit > 1 ? count - count % unit : count;
}

size_t bb_size_count(const struct bb_collective *collective, const struct bb_shape *shape)
{
	size_t most = 0;

	for (int rank = 0; rank < shape->nranks; rank++) {
		size_t in = bb_collective_in(collective, shape, rank);
		size_t out = bb_collective_out(collective, shape, rank);

		most = in > most ? in : most;
		most = out > most ? out : most;
		/* Only the root and the counts of alltoallv make ranks differ. */
		if (!(collective->flags & (BB_ROOTED | BB_VARIABLE)))
			break;
	}
	return most;
}

size_t bb_algbw_count(const struct bb_collective *collective, const struct bb_shape *shape)
{
	return collective == &bb_hypercube ? shape->count * (size_t)(shape->nranks - 1)
					   : bb_size_count(collective, shape);
}
