/*
 * buckets.h - buckets of a model's gradients, as DistributedDataParallel forms them.
 */
#pragma once

#include "models/fusion.h"

#include <stdlib.h>

/* The buckets of MODEL in elements of DTYPE. Free BUCKETS. */
static inline bb_status ddp_buckets(struct bb_buckets *buckets, const struct bb_model *model,
				    enum bb_dtype dtype, uint64_t first, uint64_t cap)
{
	const uint64_t caps[] = {first, cap};
	const struct bb_fusion_setting ddp = {.rule = bb_fusion_rules, .caps = caps, .ncaps = 2};
	struct bb_error error = {.text = ""};
	double *ready_s = calloc(model->ntensors, sizeof(*ready_s));
	struct bb_fusion_tensor *tensors = calloc(model->ntensors, sizeof(*tensors));
	bb_status status = BB_EINTERNAL;

	if (ready_s && tensors) {
		bb_fusion_tensors(tensors, model, dtype, dtype, ready_s, NULL);
		status = bb_fusion_make(buckets, tensors, model->ntensors, &ddp, &error);
	}
	free(ready_s);
	free(tensors);
	return status;
}
