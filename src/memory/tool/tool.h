/*
 * tool.h - the binary model_memory: a subject, its options, and what it says as text and as JSON.
 *
 *   main.c        the subjects, and what they share
 *   options.c     rows of options
 *   subject.c     the model or the size that is asked about
 *   train.c       one training run; which fit: fit.c
 *   zero.c        stages of ZeRO side by side; deepspeed.c: DeepSpeed's estimates
 *   infer.c       inference
 *   measure.c     checkpointing, measured; quantise.c: a tensor in integers
 */
#ifndef BB_MEMORY_TOOL_TOOL_H
#define BB_MEMORY_TOOL_TOOL_H

#include "core/json.h"
#include "core/option.h"
#include "models/memory/training.h"

struct options {
	const char *model, *ds_config, *values, *json;
	bool model_given, params_given, zero_given, offload_given, precision_given, optimizer_given;
	bool micro_batch_given, micro_batches_given, recompute_given, fits_given, gpus_given;
	bool layer_given, every_given, dp_given, context_given;
	uint64_t params, fits, reserve, largest_layer;
	int64_t seq, zero, dp, tp, pp, ep, chunks, micro_batch, micro_batches;
	int64_t gpus, gpus_per_node, nodes, bits, cache_bits, batch, context;
	int64_t layers, width, rows, every, repeat, seed;
	uint64_t count;
	double trainable;
	int precision, optimizer, offload, schedule, recompute, format, method;
	bool sequence_parallel, flash, list, help, help_markdown, version;
};

/* Rows that subjects are put together from. */
extern const struct bb_option bb_memory_model_rows[];
extern const struct bb_option bb_memory_states_rows[], bb_memory_parallel_rows[];
extern const struct bb_option bb_memory_fits_rows[], bb_memory_zero_rows[];
extern const struct bb_option bb_memory_deepspeed_rows[], bb_memory_infer_rows[];
extern const struct bb_option bb_memory_checkpoint_rows[], bb_memory_quantise_rows[];
extern const struct bb_option bb_memory_about_rows[];

/* A run of the binary. */
struct job {
	const struct options *o;
	struct bb_strbuf text;
	struct bb_json json; /* into an open object */
	struct bb_error *error;
	/* Of subjects that are about a model: */
	struct bb_model model;
	bool has_model; /* else a size alone */
	struct bb_model_layout layout;
	uint64_t parameters;
};

/* Subjects. What they write is complete where they return BB_OK, or BB_EDATA: nothing fits. */
BB_MUST bb_status bb_memory_train(struct job *job);
BB_MUST bb_status bb_memory_zero(struct job *job);
BB_MUST bb_status bb_memory_infer(struct job *job);
BB_MUST bb_status bb_memory_deepspeed(struct job *job);
BB_MUST bb_status bb_memory_checkpoint(struct job *job);
BB_MUST bb_status bb_memory_quantise(struct job *job);
BB_MUST bb_status bb_memory_fit(struct job *job, const struct bb_training *base);

/* The model or size that the options name, into JOB, and what it is into text and JSON. */
BB_MUST bb_status bb_memory_open_subject(struct job *job);

/* What is kept of a parameter, into text and JSON. */
void bb_memory_add_recipe(struct job *job, const struct bb_recipe *recipe);

/* Whole numbers by their keys, which end with NULL, into an open object. */
struct named {
	const char *key;
	uint64_t value;
};
void bb_memory_add_named(struct bb_json *json, const struct named *numbers);

/* "13.48 GB = 12.55 GiB", in units that suit; bytes below 1000 alone. Returns TEXT. */
#define BB_BOTH_TEXT 64
const char *bb_memory_both(char text[BB_BOTH_TEXT], uint64_t bytes);
/* "6,738,415,616". Returns TEXT. */
#define BB_GROUPED_TEXT 32
const char *bb_memory_grouped(char text[BB_GROUPED_TEXT], uint64_t number);

#define GB(bytes) ((double)(bytes) / 1e9)
#define GiB(bytes) ((double)(bytes) / (double)(1 << 30))

#endif
