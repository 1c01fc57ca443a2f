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

/* Lists of options that subjects are put together from. AGAIN: the member is that of another list.
 */
#define BB_MEMORY_MODEL(OPTION, AGAIN)                                                             \
	OPTION(STRING, model, "model", 0, NULL,                                                    \
	       "a preset (llama2-7b), a family and its hyperparameters (llama:layers=2,…), or "  \
	       "the path of a config.json of Hugging Face; --list names them",                     \
	       .argument = "MODEL", .section = "What is calculated")                               \
	OPTION(COUNT, params, "params", 0, NULL,                                                   \
	       "instead of a model a number of parameters, such as 7.5B; its activations are not " \
	       "known",                                                                            \
	       .min = 1, .max = MOST_PARAMETERS)                                                   \
	OPTION(FLAG, list, "list", 0, NULL, "the models that are known")

#define BB_MEMORY_STATES(OPTION, AGAIN)                                                            \
	OPTION(CHOICE, precision, "precision", 0, "mixed",                                         \
	       "what is kept of a parameter; mixed: 2 bytes, a gradient of 2 and an fp32 copy",    \
	       .choices = bb_precision_words, .section = "States")                                 \
	OPTION(CHOICE, optimizer, "optimizer", 0, "adamw", "sgd: with momentum",                   \
	       .choices = bb_optimizer_words)

#define BB_MEMORY_PARALLEL(OPTION, AGAIN)                                                          \
	OPTION(PERCENT, trainable, "trainable", 0, "100%",                                         \
	       "of the parameters, that have gradients and optimiser states: adapters, LoRA",      \
	       .section = "Training")                                                              \
	OPTION(INT, zero, "zero", 0, "0",                                                          \
	       "stage of ZeRO: 1 divides the optimiser, 2 gradients too (FSDP: SHARD_GRAD_OP), 3 " \
	       "parameters too (FULL_SHARD)",                                                      \
	       .min = 0, .max = BB_ZERO_STAGES - 1, .section = "ZeRO")                             \
	OPTION(CHOICE, offload, "offload", 0, "none",                                              \
	       "what is in the host's memory; optimizer: with gradients",                          \
	       .choices = bb_offload_words)                                                        \
	OPTION(STRING, ds_config, "ds-config", 0, NULL,                                            \
	       "a ds_config.json of DeepSpeed: stage, offload, precision, optimizer and batch",    \
	       .argument = "FILE")                                                                 \
	OPTION(INT, dp, "dp", 0, "1", "data-parallel ranks", .min = 1, .max = MOST_RANKS,          \
	       .section = "Ranks: dp x tp x pp")                                                   \
	OPTION(INT, tp, "tp", 0, "1", "tensor-parallel ranks", .min = 1, .max = MOST_RANKS)        \
	OPTION(FLAG, sequence_parallel, "sequence-parallel", 0, NULL,                              \
	       "tensor-parallel ranks divide the sequence where they do not divide matrices")      \
	OPTION(INT, pp, "pp", 0, "1", "stages of the pipeline", .min = 1, .max = 4096)             \
	OPTION(INT, ep, "ep", 0, "1", "of the data-parallel ranks, how many divide the experts",   \
	       .min = 1, .max = 4096)                                                              \
	OPTION(INT, seq, "seq", 0, "0", "tokens of a sequence; 0: as many as the model says",      \
	       .min = 0, .max = 1 << 28, .section = "Activations")                                 \
	OPTION(INT, micro_batch, "micro-batch", 0, "1", "sequences of a micro-batch", .min = 1,    \
	       .max = 1 << 20)                                                                     \
	OPTION(INT, micro_batches, "micro-batches", 0, "0",                                        \
	       "of a step; 0: 4 for each stage of the pipeline", .min = 0, .max = 1 << 20)         \
	OPTION(CHOICE, schedule, "schedule", 0, "1f1b", "of the pipeline",                         \
	       .choices = bb_pipeline_words)                                                       \
	OPTION(INT, chunks, "chunks", 0, "1", "of a stage, with --schedule interleaved", .min = 1, \
	       .max = 4096)                                                                        \
	OPTION(FLAG, flash, "flash-attention", 0, NULL, "scores of attention are never stored")    \
	OPTION(CHOICE, recompute, "recompute", 0, "none",                                          \
	       "what the backward pass computes again; selective: the core of attention",          \
	       .choices = bb_recompute_words)

#define BB_MEMORY_FITS(OPTION, AGAIN)                                                              \
	OPTION(SIZE, fits, "fits", 0, NULL,                                                        \
	       "list which dp, tp, pp, stage, recomputation and micro-batch fit into GPUs of "     \
	       "that memory (80G is 80 GiB); what is given of stage, recomputation and "           \
	       "micro-batch stays; exit status 7 if nothing fits",                                 \
	       .min = 1, .max = 0, .section = "What fits")                                         \
	OPTION(INT, gpus, "gpus", 0, NULL, "how many; default: dp x tp x pp", .min = 1,            \
	       .max = MOST_RANKS)                                                                  \
	OPTION(INT, gpus_per_node, "gpus-per-node", 0, "8",                                        \
	       "most ranks of tensor parallelism that are tried", .min = 1, .max = 4096)           \
	OPTION(SIZE, reserve, "reserve", 0, "0",                                                   \
	       "of that memory for what is not calculated: CUDA, buffers of libraries, "           \
	       "fragmentation")

#define BB_MEMORY_ZERO(OPTION, AGAIN)                                                              \
	AGAIN(INT, dp, "dp", 0, NULL, "data-parallel ranks; default: 1, 4, 16 … 1024", .min = 1,   \
	      .max = MOST_RANKS, .section = "Ranks")                                               \
	AGAIN(INT, micro_batches, "micro-batches", 0, "1",                                         \
	      "of a step: gradient accumulation, which stages 2 and 3 communicate for each time",  \
	      .min = 1, .max = 1 << 20)

#define BB_MEMORY_DEEPSPEED(OPTION, AGAIN)                                                         \
	OPTION(COUNT, largest_layer, "largest-layer", 0, NULL,                                     \
	       "parameters of the largest single module (default: that of the model)", .min = 1,   \
	       .max = MOST_PARAMETERS, .section = "GPUs")                                          \
	OPTION(INT, nodes, "nodes", 0, "1", "machines", .min = 1, .max = MOST_RANKS)               \
	AGAIN(INT, gpus_per_node, "gpus-per-node", 0, "8", "GPUs of each", .min = 1, .max = 4096)

#define BB_MEMORY_INFER(OPTION, AGAIN)                                                             \
	OPTION(INT, bits, "bits", 0, "16", "of a weight", .min = 1, .max = 32,                     \
	       .section = "Inference")                                                             \
	OPTION(INT, cache_bits, "cache-bits", 0, "16", "of a key or value in the cache", .min = 1, \
	       .max = 32)                                                                          \
	OPTION(INT, batch, "batch", 0, "1", "sequences at a time", .min = 1, .max = 1 << 24)       \
	OPTION(INT, context, "context", 0, NULL,                                                   \
	       "tokens of each that the cache holds; default: as many as the model says",          \
	       .min = 1, .max = 1 << 28)                                                           \
	AGAIN(INT, tp, "tp", 0, "1", "tensor-parallel ranks", .min = 1, .max = MOST_RANKS)

#define BB_MEMORY_CHECKPOINT(OPTION, AGAIN)                                                        \
	OPTION(INT, every, "checkpoint-every", 0, NULL,                                            \
	       "keep the input of every N-th layer; default: 1, 2, 4 … all layers", .min = 1,      \
	       .max = 4096, .section = "The chain")                                                \
	OPTION(INT, layers, "layers", 0, "16", "of the chain", .min = 1, .max = 4096)              \
	OPTION(INT, width, "width", 0, "64", "of a layer; inside it is four times as wide",        \
	       .min = 1, .max = 4096)                                                              \
	OPTION(INT, rows, "rows", 0, "128", "of a batch", .min = 1, .max = 1 << 16)                \
	OPTION(INT, repeat, "repeat", 0, "5", "passes of each, of which the median time counts",   \
	       .min = 1, .max = 1000)

#define BB_MEMORY_QUANTISE(OPTION, AGAIN)                                                          \
	OPTION(STRING, values, "values", 0, NULL, "the tensor, such as 1,2,3", .argument = "LIST", \
	       .section = "The tensor")                                                            \
	OPTION(COUNT, count, "count", 0, "1M", "without --values: so many normal numbers",         \
	       .min = 1, .max = 1 << 28)                                                           \
	OPTION(INT, seed, "seed", 0, "1", "that they are made from", .min = 0, .max = INT64_MAX)   \
	OPTION(CHOICE, format, "format", 0, "all", "integers", .choices = format_words,            \
	       .section = "Quantisation")                                                          \
	OPTION(CHOICE, method, "method", 0, "all",                                                 \
	       "minmax: the least number to the least code, the largest to the largest; scale: "   \
	       "round(x / scale)",                                                                 \
	       .choices = method_words)

#define BB_MEMORY_ABOUT(OPTION, AGAIN)                                                             \
	OPTION(STRING, json, "json", 0, NULL,                                                      \
	       "all as JSON; -: to standard output, instead of text", .argument = "FILE|-",        \
	       .section = "About")                                                                 \
	OPTION(FLAG, help, "help", 'h', NULL, "this text")                                         \
	OPTION(FLAG, help_markdown, "help-markdown", 0, NULL, "the same as Markdown tables")       \
	OPTION(FLAG, version, "version", 0, NULL, "the version")

struct options {
	BB_OPTION_MEMBERS(BB_MEMORY_MODEL)
	BB_OPTION_MEMBERS(BB_MEMORY_STATES)
	BB_OPTION_MEMBERS(BB_MEMORY_PARALLEL)
	BB_OPTION_MEMBERS(BB_MEMORY_FITS)
	BB_OPTION_MEMBERS(BB_MEMORY_ZERO)
	BB_OPTION_MEMBERS(BB_MEMORY_DEEPSPEED)
	BB_OPTION_MEMBERS(BB_MEMORY_INFER)
	BB_OPTION_MEMBERS(BB_MEMORY_CHECKPOINT)
	BB_OPTION_MEMBERS(BB_MEMORY_QUANTISE)
	BB_OPTION_MEMBERS(BB_MEMORY_ABOUT)
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

/* VALUE under KEY into an open object; null unless it is KNOWN. */
void bb_memory_add_known(struct bb_json *json, const char *key, bool known, uint64_t value);

/* "13.48 GB = 12.55 GiB", in units that suit; bytes below 1000 alone. Returns TEXT. */
#define BB_BOTH_TEXT 64
const char *bb_memory_both(char text[BB_BOTH_TEXT], uint64_t bytes);
/* "6,738,415,616". Returns TEXT. */
#define BB_GROUPED_TEXT 32
const char *bb_memory_grouped(char text[BB_GROUPED_TEXT], uint64_t number);

#define GB(bytes) ((double)(bytes) / 1e9)
#define GiB(bytes) ((double)(bytes) / (double)(1 << 30))

#endif
