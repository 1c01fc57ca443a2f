/*
 * sampler.h - the samples of each rank, divided as PyTorch's DistributedSampler does.
 *
 * The order of samples follows from seed + epoch. Its length becomes a multiple of the n ranks: it
 * is padded with samples from its start, repeatedly if necessary, or cut with drop_last. Rank r has
 * numbers r, r + n, r + 2n, ….
 *
 * The permutation is busbench's own, so indices differ from those of PyTorch's generator; their
 * properties are the same.
 */
#ifndef BB_TRAINING_KERNELS_DATA_PARALLEL_SAMPLER_H
#define BB_TRAINING_KERNELS_DATA_PARALLEL_SAMPLER_H

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
 * is number i * nranks + r. The caller frees it. BB_EINTERNAL without memory.
 */
BB_MUST bb_status bb_sampler_order(const struct bb_sampler *sampler, uint64_t epoch, size_t **order,
				   struct bb_error *error);

/* How an order covers the samples. */
struct bb_coverage {
	size_t covered;  /* samples in the order */
	size_t repeated; /* places with a sample that an earlier place has */
	size_t overlaps; /* samples of more than one rank */
};
BB_MUST bb_status bb_sampler_coverage(const struct bb_sampler *sampler, const size_t *order,
				      struct bb_coverage *coverage, struct bb_error *error);

/* Append the samples of all ranks in EPOCHS epochs, and their coverage. */
BB_MUST bb_status bb_sampler_describe(const struct bb_sampler *sampler, uint64_t epochs,
				      struct bb_strbuf *out, struct bb_error *error);

#endif
