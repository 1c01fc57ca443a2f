/*
 * ds_config.h - settings of a ds_config.json of DeepSpeed that concern memory.
 */
#pragma once

#include "core/status.h"
#include "models/memory/training.h"

/* -1 (0 for the last three): missing or "auto", which leaves the value to the command line. */
struct bb_ds_config {
	int zero;               /* zero_optimization.stage */
	int offload;            /* enum bb_offload; .offload_optimizer, .offload_param */
	int precision;          /* enum bb_precision_index; fp16.enabled, bf16.enabled; else fp32 */
	int optimizer;          /* enum bb_optimizer_index; optimizer.type */
	uint64_t micro_batch;   /* train_micro_batch_size_per_gpu */
	uint64_t micro_batches; /* gradient_accumulation_steps */
	uint64_t batch;         /* train_batch_size: of all data-parallel ranks */
	/* zero_optimization.reduce_bucket_size, .allgather_bucket_size,
	   .stage3_prefetch_bucket_size, .stage3_max_live_parameters and .overlap_comm; DeepSpeed's
	   defaults if they are missing. Of "auto", transformers' Trainer makes hidden² elements to
	   reduce, and 0.9 hidden² to prefetch; without a width DeepSpeed's defaults remain. */
	struct bb_training_buffers buffers;
};

/*
 * Read the file at PATH for MODEL (NULL: unknown); keys that do not concern memory are ignored.
 * BB_EUSAGE with a sentence that names file and key for a wrong type or value.
 */
BB_MUST bb_status bb_ds_config_read(const char *path, const struct bb_model *model,
				    struct bb_ds_config *config, struct bb_error *error);

/*
 * Complete the batch for DP data-parallel ranks as DeepSpeed does: batch = micro_batch x
 * micro_batches x dp, where missing factors follow from the others, or are 1. BB_EUSAGE if they
 * contradict each other.
 */
BB_MUST bb_status bb_ds_config_batch(struct bb_ds_config *config, const char *path, uint64_t dp,
				     struct bb_error *error);
