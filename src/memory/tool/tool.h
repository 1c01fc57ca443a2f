/*
 * tool.h - the program model_memory: its subjects, and their options.
 *
 *   main.c        the subjects, their options, and the program around them
 *   subject.c     the model, or a number of parameters
 *   train.c       one training run, or the combinations that fit
 *   zero.c        stages of ZeRO, compared, and DeepSpeed's estimates
 *   infer.c       inference
 *   checkpoint.c  checkpointing, measured
 *   quantise.c    a tensor in integers
 */
#pragma once

#include "core/about.h"
#include "core/json.h"
#include "core/table.h"
#include "models/memory/fits.h"

/* Lists of options of which subjects are composed. AGAIN marks a member that another list has. */
#define BB_CALCULATE_MODEL(OPTION, AGAIN)                                                          \
	OPTION(STRING, model, "model", 0, NULL,                                                    \
	       "a preset (llama2-7b), a family and its hyperparameters (llama:layers=2,…), or "  \
	       "the path of a config.json of Hugging Face; --list names them",                     \
	       .argument = "MODEL", .section = "Model", .usual = true, .excludes = {{"params"}})   \
	OPTION(COUNT, params, "params", 0, NULL,                                                   \
	       "number of parameters instead of a model, such as 7.5B; its activations are not "   \
	       "known",                                                                            \
	       .min = 1, .max = MOST_PARAMETERS, .usual = true)                                    \
	OPTION(FLAG, list, "list", 0, NULL, "list of the known models")

#define BB_CALCULATE_STATES(OPTION, AGAIN)                                                         \
	OPTION(CHOICE, precision, "precision", 0, "mixed",                                         \
	       "formats of a parameter's states; mixed: 2 bytes, a gradient of 2 and an fp32 "     \
	       "copy",                                                                             \
	       .choices = bb_precision_words, .section = "States")                                 \
	OPTION(CHOICE, optimizer, "optimizer", 0, "adamw", "optimizer; sgd: with momentum",        \
	       .choices = bb_optimizer_words)

#define BB_CALCULATE_TRAIN(OPTION, AGAIN)                                                          \
	OPTION(PERCENT, trainable, "trainable", 0, "100%",                                         \
	       "share of the parameters with gradients and optimizer states: adapters, LoRA",      \
	       .section = "Training")                                                              \
	OPTION(INT, zero, "zero", 0, "0",                                                          \
	       "stage of ZeRO: 1 divides optimizer states, 2 also gradients (FSDP: "               \
	       "SHARD_GRAD_OP), 3 also parameters (FULL_SHARD)",                                   \
	       .min = 0, .max = BB_ZERO_STAGES - 1, .section = "ZeRO", .usual = true)              \
	OPTION(CHOICE, offload, "offload", 0, "none",                                              \
	       "states in host memory; optimizer: with gradients", .choices = bb_offload_words)    \
	OPTION(STRING, ds_config, "ds-config", 0, NULL,                                            \
	       "ds_config.json of DeepSpeed: stage, offload, buckets, precision, optimizer, "      \
	       "batch",                                                                            \
	       .argument = "FILE")                                                                 \
	OPTION(INT, dp, "dp", 0, "1", "data-parallel ranks", .min = 1, .max = MOST_RANKS,          \
	       .section = "Ranks: dp x tp x pp", .usual = true)                                    \
	OPTION(INT, tp, "tp", 0, "1", "tensor-parallel ranks", .min = 1, .max = MOST_RANKS,        \
	       .usual = true)                                                                      \
	OPTION(FLAG, sequence_parallel, "sequence-parallel", 0, NULL,                              \
	       "sequence parallelism: tensor-parallel ranks divide the sequence outside of "       \
	       "matrix products")                                                                  \
	OPTION(INT, pp, "pp", 0, "1", "pipeline stages", .min = 1, .max = 4096, .usual = true)     \
	OPTION(INT, ep, "ep", 0, "1", "data-parallel ranks that divide the experts", .min = 1,     \
	       .max = 4096)                                                                        \
	OPTION(INT, seq, "seq", 0, "0", "tokens per sequence; 0: the model's", .min = 0,           \
	       .max = 1 << 28, .section = "Activations", .needs = {{"model"}})                     \
	OPTION(INT, micro_batch, "micro-batch", 0, "1", "sequences per microbatch", .min = 1,      \
	       .max = 1 << 20)                                                                     \
	OPTION(INT, micro_batches, "micro-batches", 0, "0",                                        \
	       "microbatches per step; 0: 4 for each pipeline stage", .min = 0, .max = 1 << 20)    \
	OPTION(CHOICE, schedule, "schedule", 0, "1f1b", "pipeline schedule",                       \
	       .choices = bb_pipeline_words)                                                       \
	OPTION(INT, chunks, "chunks", 0, "1", "chunks per stage, with --schedule interleaved",     \
	       .min = 1, .max = 4096)                                                              \
	BB_ATTENTION_OPTION(OPTION, "")                                                            \
	OPTION(FLAG, flash, "flash-attention", 0, NULL, "the same as --attention flash",           \
	       .excludes = {{"attention=eager"}})                                                  \
	OPTION(CHOICE, recompute, "recompute", 0, "none",                                          \
	       "activations that the backward pass recomputes; selective: the core of attention",  \
	       .choices = bb_recompute_words, .usual = true)                                       \
	OPTION(SIZE, fits, "fits", 0, NULL,                                                        \
	       "memory of a GPU (80G: an H100's 81559 MiB): list the combinations of dp, tp, pp, " \
	       "stage, recomputation and microbatch that fit; the last three stay as given; exit " \
	       "status 7 if nothing fits",                                                         \
	       .min = 1, .max = 0, .section = "What fits", .usual = true)                          \
	OPTION(INT, gpus, "gpus", 0, NULL, "number of GPUs (default: dp x tp x pp)", .min = 1,     \
	       .max = MOST_RANKS, .usual = true, .needs = {{"fits"}})                              \
	OPTION(INT, gpus_per_node, "gpus-per-node", 0, "8",                                        \
	       "largest number of tensor-parallel ranks to try", .min = 1, .max = 4096,            \
	       .usual = true)                                                                      \
	BB_RESERVE_OPTION(OPTION, .needs = {{"fits"}})

#define BB_CALCULATE_ZERO(OPTION, AGAIN)                                                           \
	AGAIN(INT, dp, "dp", 0, NULL, "data-parallel ranks (default: 1, 4, 16 … 1024)", .min = 1,  \
	      .max = MOST_RANKS, .section = "Ranks", .usual = true)                                \
	AGAIN(INT, micro_batches, "micro-batches", 0, "1",                                         \
	      "microbatches per step (gradient accumulation); stages 2 and 3 communicate in each", \
	      .min = 1, .max = 1 << 20)

#define BB_CALCULATE_DEEPSPEED(OPTION, AGAIN)                                                      \
	OPTION(COUNT, largest_layer, "largest-layer", 0, NULL,                                     \
	       "parameters of the largest single module (default: that of the model)", .min = 1,   \
	       .max = MOST_PARAMETERS, .section = "GPUs", .usual = true)                           \
	OPTION(INT, nodes, "nodes", 0, "1", "nodes", .min = 1, .max = MOST_RANKS, .usual = true)   \
	AGAIN(INT, gpus_per_node, "gpus-per-node", 0, "8", "GPUs per node", .min = 1, .max = 4096, \
	      .usual = true)

#define BB_CALCULATE_INFER(OPTION, AGAIN)                                                          \
	OPTION(INT, bits, "bits", 0, "16", "bits per weight", .min = 1, .max = 32,                 \
	       .section = "Inference", .usual = true)                                              \
	OPTION(INT, cache_bits, "cache-bits", 0, "16", "bits per key or value in the cache",       \
	       .min = 1, .max = 32)                                                                \
	OPTION(INT, batch, "batch", 0, "1", "sequences per batch", .min = 1, .max = 1 << 24,       \
	       .usual = true)                                                                      \
	OPTION(INT, context, "context", 0, NULL,                                                   \
	       "tokens per sequence in the cache (default: the model's)", .min = 1,                \
	       .max = 1 << 28, .usual = true)                                                      \
	AGAIN(INT, tp, "tp", 0, "1", "tensor-parallel ranks", .min = 1, .max = MOST_RANKS,         \
	      .usual = true)

#define BB_CALCULATE_CHECKPOINT(OPTION, AGAIN)                                                     \
	OPTION(INT, every, "checkpoint-every", 0, NULL,                                            \
	       "distance N between layers whose input is kept (default: 1, 2, 4 … all layers)",    \
	       .min = 1, .max = 4096, .section = "The chain", .usual = true)                       \
	OPTION(INT, layers, "layers", 0, "16", "layers of the chain", .min = 1, .max = 4096,       \
	       .usual = true)                                                                      \
	OPTION(INT, width, "width", 0, "64", "width of a layer; inside it is four times as wide",  \
	       .min = 1, .max = 4096)                                                              \
	OPTION(INT, rows, "rows", 0, "128", "rows of a batch", .min = 1, .max = 1 << 16)           \
	OPTION(INT, repeat, "repeat", 0, "5", "passes of each variant; times are medians",         \
	       .min = 1, .max = 1000)

#define BB_CALCULATE_QUANTISE(OPTION, AGAIN)                                                       \
	OPTION(STRING, values, "values", 0, NULL, "the tensor, such as 1,2,3", .argument = "LIST", \
	       .section = "The tensor", .usual = true)                                             \
	OPTION(COUNT, count, "count", 0, "1M", "normally distributed numbers, without --values",   \
	       .min = 1, .max = 1 << 28, .usual = true)                                            \
	OPTION(INT, seed, "seed", 0, "1", "seed of these numbers", .min = 0, .max = INT64_MAX)     \
	OPTION(CHOICE, format, "format", 0, "all", "integer format", .choices = format_words,      \
	       .section = "Quantisation", .usual = true)                                           \
	OPTION(CHOICE, method, "method", 0, "usual",                                               \
	       "mapping of numbers to codes; minmax: smallest to smallest, largest to largest; "   \
	       "scale: round(x / scale); usual: these two; ds: DeepSpeed, symmetric or not; "      \
	       "torch: MinMaxObserver; mxfp8: blocks of 32; sign: 1-bit Adam",                     \
	       .choice = bb_quantise_method, .usual = true)                                        \
	OPTION(FLAG, explain, "explain", 0, NULL,                                                  \
	       "each number step by step: scale, quotient, code, decoded number, error",           \
	       .usual = true)

#define BB_CALCULATE_OUTPUT(OPTION, AGAIN)                                                         \
	OPTION(STRING, json, "json", 0, NULL,                                                      \
	       "file for the result as JSON; -: standard output, instead of text",                 \
	       .argument = "FILE|-", .section = "Output", .usual = true)

struct options {
	BB_OPTION_MEMBERS(BB_CALCULATE_MODEL)
	BB_OPTION_MEMBERS(BB_CALCULATE_STATES)
	BB_OPTION_MEMBERS(BB_CALCULATE_TRAIN)
	BB_OPTION_MEMBERS(BB_CALCULATE_ZERO)
	BB_OPTION_MEMBERS(BB_CALCULATE_DEEPSPEED)
	BB_OPTION_MEMBERS(BB_CALCULATE_INFER)
	BB_OPTION_MEMBERS(BB_CALCULATE_CHECKPOINT)
	BB_OPTION_MEMBERS(BB_CALCULATE_QUANTISE)
	BB_OPTION_MEMBERS(BB_CALCULATE_OUTPUT)
	struct bb_about about;
};

/* A run of the program. */
struct job {
	const struct options *o;
	struct bb_strbuf text;
	struct bb_text_table table; /* its rows are not in the text yet; it folds to its limit */
	struct bb_json json;        /* in its open object */
	struct bb_error *error;
	/* Of the subjects with a model: */
	struct bb_model model;
	bool has_model; /* false: only a number of parameters */
	struct bb_model_layout layout;
	uint64_t parameters;
};

/* The subjects. They complete text and JSON if they return BB_OK, or BB_EDATA without an error:
   nothing fits, or a measured result is wrong. */
BB_MUST bb_status bb_calculate_train(struct job *job);
BB_MUST bb_status bb_calculate_zero(struct job *job);
BB_MUST bb_status bb_calculate_infer(struct job *job);
BB_MUST bb_status bb_calculate_deepspeed(struct job *job);
BB_MUST bb_status bb_calculate_checkpoint(struct job *job);
BB_MUST bb_status bb_calculate_quantise(struct job *job);
/* The word of --method at INDEX; NULL: beyond the last. */
const char *bb_quantise_method(int index);

/* Open the model, or take the number of parameters, that the options name, and describe it in text
   and JSON. */
BB_MUST bb_status bb_job_open_model(struct job *job);

/* Add the states of a parameter to text and JSON. */
void bb_job_add_recipe(struct job *job, const struct bb_recipe *recipe);

/* Add VALUE, or null unless it is KNOWN, under KEY to an open object. */
void bb_job_add_known(struct bb_json *json, const char *key, bool known, uint64_t value);

/* Print the rows of the table into the text; the next table has other columns. */
void bb_job_end_table(struct job *job);

/* Write BYTES in suitable units into TEXT: "13.48 GB = 12.55 GiB", below 1000 "999 B". Returns
   TEXT. */
#define BB_BOTH_TEXT 64
const char *bb_job_bytes(char text[BB_BOTH_TEXT], uint64_t bytes);
/* Write NUMBER into TEXT as "6,738,415,616". Returns TEXT. */
#define BB_GROUPED_TEXT 32
const char *bb_job_grouped(char text[BB_GROUPED_TEXT], uint64_t number);

#define GB(bytes) ((double)(bytes) / 1e9)
#define GiB(bytes) ((double)(bytes) / (double)(1 << 30))
