/*
 * ds_config.h - what a ds_config.json of DeepSpeed says about memory.
 */
#ifndef BB_MODELS_MEMORY_DS_CONFIG_H
#define BB_MODELS_MEMORY_DS_CONFIG_H

#include "core/status.h"
#include "models/memory/training.h"

/* -1, NULL or 0: it does not say, or says "auto", which leaves it to the command line. */
struct bb_ds_config {
	int zero;    /* zero_optimization.stage */
	int offload; /* enum bb_offload; .offload_optimizer, .offload_param */
	const struct bb_precision *precision; /* fp16.enabled, bf16.enabled; else fp32 */
	const struct bb_optimizer *optimizer; /* optimizer.type */
	uint64_t micro_batch;                 /* train_micro_batch_size_per_gpu */
	uint64_t micro_batches;               /* gradient_accumulation_steps */
	uint64_t batch;                       /* train_batch_size: of all data-parallel ranks */
};

/*
 * Read the file PATH. Keys that say nothing about memory may be there; BB_EUSAGE with a sentence
 * that names file and key for one that does and has a wrong type or value.
 */
BB_MUST bb_status bb_ds_config_read(const char *path, struct bb_ds_config *config,
				    struct bb_error *error);

/*
 * What follows of the batch for DP data-parallel ranks: batch = micro_batch x micro_batches x dp,
 * where two of the three give the third and what is left is 1, as DeepSpeed has it. BB_EUSAGE if
 * they contradict each other.
 */
BB_MUST bb_status bb_ds_config_batch(struct bb_ds_config *config, const char *path, uint64_t dp,
				     struct bb_error *error);

#endif
