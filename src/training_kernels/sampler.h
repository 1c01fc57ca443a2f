/*
 * sampler.h - which samples each rank trains on, shared out as PyTorch's DistributedSampler does
 * it.
 *
 * The samples are put into an order that follows from seed + epoch. With n ranks the order is made
 * a multiple of n: filled up with samples from its start, over and over if need be, or cut off with
 * drop_last. Rank r then takes number r, r + n, r + 2n, ….
 *
 * The permutation is busbench's own, so indices differ from those of PyTorch's generator; what
 * holds of them is the same.
 */
#ifndef BB_TRAINING_KERNELS_SAMPLER_H
#define BB_TRAINING_KERNELS_SAMPLER_H

#include "core/status.h"
#include "core/strbuf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bb_sampler {
	size_t samples; /* > 0 */
	int nranks;
	bool drop_last;
	uint64_t seed;
};

/* Samples of each rank: ceil(samples / n), with drop_last floor. */
size_t bb_sampler_length(const struct bb_sampler *sampler);

/*
 * *ORDER = the samples of all ranks in EPOCH, bb_sampler_length * nranks of them: rank r's sample i
 * is number i * nranks + r. To be freed. BB_EINTERNAL without memory.
 */
BB_MUST bb_status bb_sampler_order(const struct bb_sampler *sampler, uint64_t epoch, size_t **order,
				   struct bb_error *error);

/* How an order covers the samples, counted. */
struct bb_coverage {
	size_t covered;  /* samples that some rank has */
	size_t repeated; /* places that hold a sample which another place holds too */
	size_t overlaps; /* samples that more than one rank has */
};
BB_MUST bb_status bb_sampler_coverage(const struct bb_sampler *sampler, const size_t *order,
				      struct bb_coverage *coverage, struct bb_error *error);

/* Append the shares of all ranks in EPOCHS epochs, and what holds of them. */
BB_MUST bb_status bb_sampler_tell(const struct bb_sampler *sampler, uint64_t epochs,
				  struct bb_strbuf *out, struct bb_error *error);

#endif
