/*
 * collectives.c - what every rank sends and receives, as data.
 */
#include <string.h>

#include "schedules/schedule.h"

/* ---- how much ------------------------------------------------------------------------ */

static size_t whole(const struct bb_shape *shape, int rank)
{
	return shape->count;
}

static size_t times_n(const struct bb_shape *shape, int rank)
{
	return shape->count * (size_t)shape->nranks;
}

static size_t whole_at_root(const struct bb_shape *shape, int rank)
{
	return rank == shape->root ? shape->count : 0;
}

static size_t times_n_at_root(const struct bb_shape *shape, int rank)
{
	return rank == shape->root ? times_n(shape, rank) : 0;
}

static size_t row_sum(const struct bb_shape *shape, int rank)
{
	return bb_alltoall_in(shape, rank, shape->nranks);
}

static size_t column_sum(const struct bb_shape *shape, int rank)
{
	return bb_alltoall_out(shape, shape->nranks, rank);
}

static size_t at_own_block(const struct bb_shape *shape, int rank)
{
	return shape->count * (size_t)rank;
}

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

/* ---- what OUT holds in the end ------------------------------------------------------- */

static int one_segment(const struct bb_shape *shape, int rank)
{
	return 1;
}

static int n_segments(const struct bb_shape *shape, int rank)
{
	return shape->nranks;
}

static int one_at_root(const struct bb_shape *shape, int rank)
{
	return rank == shape->root ? 1 : 0;
}

static int n_at_root(const struct bb_shape *shape, int rank)
{
	return rank == shape->root ? shape->nranks : 0;
}

static void all_of_reduction(const struct bb_shape *shape, int rank, int k, struct bb_segment *s)
{
	*s = (struct bb_segment){.count = shape->count, .source = BB_REDUCED};
}

static void own_of_reduction(const struct bb_shape *shape, int rank, int k, struct bb_segment *s)
{
	*s = (struct bb_segment){
		.in = at_own_block(shape, rank), .count = shape->count, .source = BB_REDUCED};
}

static void all_of_kth(const struct bb_shape *shape, int rank, int k, struct bb_segment *s)
{
	*s = (struct bb_segment){.out = at_own_block(shape, k), .count = shape->count, .source = k};
}

static void all_of_root(const struct bb_shape *shape, int rank, int k, struct bb_segment *s)
{
	*s = (struct bb_segment){.count = shape->count, .source = shape->root};
}

static void own_of_root(const struct bb_shape *shape, int rank, int k, struct bb_segment *s)
{
	*s = (struct bb_segment){
		.in = at_own_block(shape, rank), .count = shape->count, .source = shape->root};
}

static void own_of_kth(const struct bb_shape *shape, int rank, int k, struct bb_segment *s)
{
	*s = (struct bb_segment){.out = bb_alltoall_out(shape, k, rank),
				 .in = bb_alltoall_in(shape, k, rank),
				 .count = bb_alltoall_count(shape, k, rank),
				 .source = k};
}

static void all_of_previous(const struct bb_shape *shape, int rank, int k, struct bb_segment *s)
{
	*s = (struct bb_segment){.count = shape->count,
				 .source = (rank + shape->nranks - 1) % shape->nranks};
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

static size_t others_blocks(const struct bb_shape *shape)
{
	return shape->count * (size_t)(shape->nranks - 1);
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
	.in_count = whole,
	.out_count = whole,
	.segments = one_segment,
	.segment = all_of_reduction,
	.bus_factor = factor_twice_others,
};

const struct bb_collective bb_all_gather = {
	.name = "all_gather",
	.brief = "every rank gets the blocks of all ranks, in order",
	.flags = BB_SAME_OUTPUT | BB_ROUNDED,
	.share = BB_SHARE_BY_SOURCE,
	.in_count = whole,
	.out_count = times_n,
	.in_place_in = at_own_block,
	.segments = n_segments,
	.segment = all_of_kth,
	.bus_factor = factor_others,
};

const struct bb_collective bb_reduce_scatter = {
	.name = "reduce_scatter",
	.brief = "every rank gets its block of the reduction of all ranks' data",
	.flags = BB_REDUCES | BB_ROUNDED,
	.share = BB_SHARE_BY_DESTINATION,
	.in_count = times_n,
	.out_count = whole,
	.in_place_out = at_own_block,
	.segments = one_segment,
	.segment = own_of_reduction,
	.bus_factor = factor_others,
};

const struct bb_collective bb_broadcast = {
	.name = "broadcast",
	.brief = "every rank gets the root's data",
	.flags = BB_ROOTED | BB_SAME_OUTPUT,
	.share = BB_SHARE_EVEN,
	.in_count = whole_at_root,
	.out_count = whole,
	.segments = one_segment,
	.segment = all_of_root,
	.bus_factor = factor_one,
};

const struct bb_collective bb_reduce = {
	.name = "reduce",
	.brief = "the root gets the reduction of all ranks' data",
	.flags = BB_ROOTED | BB_REDUCES,
	.share = BB_SHARE_EVEN,
	.in_count = whole,
	.out_count = whole_at_root,
	.segments = one_at_root,
	.segment = all_of_reduction,
	.bus_factor = factor_one,
};

const struct bb_collective bb_gather = {
	.name = "gather",
	.brief = "the root gets the blocks of all ranks, in order",
	.flags = BB_ROOTED | BB_ROUNDED,
	.share = BB_SHARE_BY_SOURCE,
	.in_count = whole,
	.out_count = times_n_at_root,
	.in_place_in = at_own_block,
	.segments = n_at_root,
	.segment = all_of_kth,
	.bus_factor = factor_others,
};

const struct bb_collective bb_scatter = {
	.name = "scatter",
	.brief = "every rank gets its block of the root's data",
	.flags = BB_ROOTED | BB_ROUNDED,
	.share = BB_SHARE_BY_DESTINATION,
	.in_count = times_n_at_root,
	.out_count = whole,
	.in_place_out = at_own_block,
	.segments = one_segment,
	.segment = own_of_root,
	.bus_factor = factor_others,
};

const struct bb_collective bb_alltoall = {
	.name = "alltoall",
	.brief = "every rank gets its block of every rank's data",
	.flags = BB_ROUNDED,
	.share = BB_SHARE_BY_DESTINATION,
	.in_count = times_n,
	.out_count = times_n,
	.segments = n_segments,
	.segment = own_of_kth,
	.bus_factor = factor_others,
};

const struct bb_collective bb_alltoallv = {
	.name = "alltoallv",
	.brief = "every rank gets its block of every rank's data, of any length",
	.flags = BB_ROUNDED | BB_VARIABLE,
	.share = BB_SHARE_BY_DESTINATION,
	.in_count = row_sum,
	.out_count = column_sum,
	.segments = n_segments,
	.segment = own_of_kth,
	.bus_factor = factor_others,
};

const struct bb_collective bb_sendrecv = {
	.name = "sendrecv",
	.brief = "every rank sends to the next and receives from the previous",
	.share = BB_SHARE_BY_DESTINATION,
	.in_count = whole,
	.out_count = whole,
	.segments = one_segment,
	.segment = all_of_previous,
	.bus_factor = factor_one,
};

const struct bb_collective bb_hypercube = {
	.name = "hypercube",
	.brief = "every rank gets all blocks over the edges of a hypercube",
	.flags = BB_SAME_OUTPUT | BB_ROUNDED,
	.share = BB_SHARE_BY_SOURCE,
	.in_count = whole,
	.out_count = times_n,
	.in_place_in = at_own_block,
	.segments = n_segments,
	.segment = all_of_kth,
	.bus_factor = factor_one,
	.algbw_count = others_blocks,
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
		size_t in = collective->in_count(shape, rank);
		size_t out = collective->out_count(shape, rank);

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
	return collective->algbw_count ? collective->algbw_count(shape)
				       : bb_size_count(collective, shape);
}
