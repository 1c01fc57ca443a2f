/*
 * ds_config.h - settings of a ds_config.json of DeepSpeed that concern memory and communication.
 */
#pragma once

#include "core/status.h"
#include "core/strbuf.h"
#include "models/memory/onebit.h"
#include "models/memory/training.h"

/* -1 (0 for the last three): missing or "auto", which leaves the value to the command line. */
struct bb_ds_config {
	int64_t zero;           /* zero_optimization.stage */
	int offload;            /* enum bb_offload; .offload_optimizer, .offload_param */
	int precision;          /* enum bb_precision_index; fp16.enabled, bf16.enabled; else fp32 */
	int optimizer;          /* enum bb_optimizer_index; optimizer.type */
	const char *type;       /* optimizer.type as DeepSpeed spells it; NULL: missing */
	double rate;            /* optimizer.params.lr of Adam and AdamW */
	int overlap;            /* zero_optimization.overlap_comm, 0 or 1 */
	bool qwz, qgz;          /* .zero_quantized_weights, .zero_quantized_gradients */
	int64_t hpz;            /* .zero_hpz_partition_size; 0 or 1: none */
	uint64_t micro_batch;   /* train_micro_batch_size_per_gpu */
	uint64_t micro_batches; /* gradient_accumulation_steps */
	uint64_t batch;         /* train_batch_size: of all data-parallel ranks */
	/* zero_optimization.reduce_bucket_size, .allgather_bucket_size,
	   .stage3_prefetch_bucket_size, .stage3_max_live_parameters and .overlap_comm; DeepSpeed's
	   defaults if they are missing. Of "auto", transformers' Trainer makes hidden² elements to
	   reduce, and 0.9 hidden² to prefetch; without a width DeepSpeed's defaults remain. */
	struct bb_training_buffers buffers;
	bool bf16;            /* bf16.enabled, in mixed precision */
	int64_t loss_scale;   /* fp16.loss_scale; 0: dynamic, from 2 to the power of scale_power */
	int64_t scale_power;  /* fp16.initial_scale_power */
	int64_t scale_window; /* fp16.loss_scale_window */
	int64_t total_steps;  /* scheduler.params.total_num_steps; 0: missing */
	struct bb_onebit onebit; /* optimizer.params of a 1-bit optimizer, else of kind NONE */
};

/*
 * Read the file at PATH for MODEL (NULL: unknown); keys that concern neither memory nor
 * communication are ignored. Unless OTHERS is NULL, the keys that hold a value but are not in USED,
 * a list that ends with NULL, nor parameters of a 1-bit optimizer, are appended to it, with commas
 * between them; a key there includes all below it. BB_EUSAGE with a sentence that names file and
 * key for a wrong type or value, and for what DeepSpeed refuses with LAMB or a 1-bit optimizer.
 */
BB_MUST bb_status bb_ds_config_read(const char *path, const struct bb_model *model,
				    const char *const used[], struct bb_strbuf *others,
				    struct bb_ds_config *config, struct bb_error *error);

/* The value of an option, and that of the file; -1: missing. */
struct bb_ds_setting {
	const char *option;
	bool given;
	int64_t value, in_file;
};

/* Give N options the values of the file at PATH. BB_EUSAGE if another one was given. */
BB_MUST bb_status bb_ds_config_settle(struct bb_ds_setting *settings, size_t n, const char *path,
				      struct bb_error *error);

/* Append how much less than gradients of BITS bits the 1-bit optimizer of CONFIG sends, as a
   comment line; without such an optimizer nothing. */
void bb_ds_config_add_saving(const struct bb_ds_config *config, int bits, struct bb_strbuf *out);

/*
 * Complete the batch for DP data-parallel ranks as DeepSpeed does: batch = micro_batch x
 * micro_batches x dp, where missing factors follow from the others, or are 1. BB_EUSAGE if they
 * contradict each other.
 */
BB_MUST bb_status bb_ds_config_batch(struct bb_ds_config *config, const char *path, uint64_t dp,
				     struct bb_error *error);
