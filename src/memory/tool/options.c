/*
 * options.c - the options of model_memory.
 */
#include "models/memory/activations.h"
#include "models/memory/quantise.h"
#include "memory/tool/tool.h"

#define MOST_RANKS (1 << 20)
#define MOST_PARAMETERS INT64_C(1000000000000000) /* bytes of so many fit into 64 bits */

#define ROW(kind, word, field, text)                                                               \
	.name = word, .type = kind, .offset = offsetof(struct options, field), .help = text
#define STRING(word, field, arg, text) ROW(BB_OPT_STRING, word, field, text), .argument = arg
#define FLAG(word, field, text) ROW(BB_OPT_FLAG, word, field, text)
#define INT(word, field, least, most, otherwise, text)                                             \
	ROW(BB_OPT_INT, word, field, text), .argument = "N", .min = least, .max = most,            \
					    .initial = otherwise
#define CHOICE(word, field, words, otherwise, text)                                                \
	ROW(BB_OPT_CHOICE, word, field, text), .choices = words, .initial = otherwise
#define COUNT(word, field, most, otherwise, text)                                                  \
	ROW(BB_OPT_COUNT, word, field, text), .argument = "COUNT", .min = 1, .max = most,          \
					      .initial = otherwise
#define GIVEN(field) .given = offsetof(struct options, field)

static const char *const format_words[] = {"all", "int8", "int4", NULL};
static const char *const method_words[] = {"all", "minmax", "scale", NULL};

const struct bb_option bb_memory_model_rows[] = {
	{STRING("model", model, "MODEL",
		"a preset (llama2-7b), a family and its hyperparameters (llama:layers=2,…), or the "
		"path of a config.json of Hugging Face; --list names them"),
	 GIVEN(model_given), .section = "What is calculated"},
	{COUNT("params", params, MOST_PARAMETERS, NULL,
	       "instead of a model a number of parameters, such as 7.5B; its activations are not "
	       "known"),
	 GIVEN(params_given)},
	{FLAG("list", list, "the models that are known")},
	{0},
};

const struct bb_option bb_memory_states_rows[] = {
	{CHOICE("precision", precision, bb_precision_words, "mixed",
		"what is kept of a parameter; mixed: 2 bytes, a gradient of 2 and an fp32 copy"),
	 GIVEN(precision_given), .section = "States"},
	{CHOICE("optimizer", optimizer, bb_optimizer_words, "adamw", "sgd: with momentum"),
	 GIVEN(optimizer_given)},
	{0},
};

const struct bb_option bb_memory_parallel_rows[] = {
	{ROW(BB_OPT_PERCENT, "trainable", trainable,
	     "of the parameters, that have gradients and optimiser states: adapters, LoRA"),
	 .argument = "PERCENT", .initial = "100%", .section = "Training"},
	{INT("zero", zero, 0, BB_ZERO_STAGES - 1, "0",
	     "stage of ZeRO: 1 divides the optimiser, 2 gradients too (FSDP: SHARD_GRAD_OP), 3 "
	     "parameters too (FULL_SHARD)"),
	 GIVEN(zero_given), .section = "ZeRO"},
	{CHOICE("offload", offload, bb_offload_words, "none",
		"what is in the host's memory; optimizer: with gradients"),
	 GIVEN(offload_given)},
	{STRING("ds-config", ds_config, "FILE",
		"a ds_config.json of DeepSpeed: stage, offload, precision, optimizer and batch")},

	{INT("dp", dp, 1, MOST_RANKS, "1", "data-parallel ranks"), GIVEN(dp_given),
	 .section = "Ranks: dp x tp x pp"},
	{INT("tp", tp, 1, MOST_RANKS, "1", "tensor-parallel ranks")},
	{FLAG("sequence-parallel", sequence_parallel,
	      "tensor-parallel ranks divide the sequence where they do not divide matrices")},
	{INT("pp", pp, 1, 4096, "1", "stages of the pipeline")},
	{INT("ep", ep, 1, 4096, "1", "of the data-parallel ranks, how many divide the experts")},

	{INT("seq", seq, 0, 1 << 28, "0", "tokens of a sequence; 0: as many as the model says"),
	 .section = "Activations"},
	{INT("micro-batch", micro_batch, 1, 1 << 20, "1", "sequences of a micro-batch"),
	 GIVEN(micro_batch_given)},
	{INT("micro-batches", micro_batches, 0, 1 << 20, "0",
	     "of a step; 0: 4 for each stage of the pipeline"),
	 GIVEN(micro_batches_given)},
	{CHOICE("schedule", schedule, bb_pipeline_words, "1f1b", "of the pipeline")},
	{INT("chunks", chunks, 1, 4096, "1", "of a stage, with --schedule interleaved")},
	{FLAG("flash-attention", flash, "scores of attention are never stored")},
	{CHOICE("recompute", recompute, bb_recompute_words, "none",
		"what the backward pass computes again; selective: the core of attention"),
	 GIVEN(recompute_given)},
	{0},
};

const struct bb_option bb_memory_fits_rows[] = {
	{ROW(BB_OPT_SIZE, "fits", fits,
	     "list which dp, tp, pp, stage, recomputation and micro-batch fit into GPUs of that "
	     "memory (80G is 80 GiB); what is given of stage, recomputation and micro-batch stays; "
	     "exit status 7 if nothing fits"),
	 .argument = "SIZE", .min = 1, .max = 0, GIVEN(fits_given), .section = "What fits"},
	{INT("gpus", gpus, 1, MOST_RANKS, NULL, "how many; default: dp x tp x pp"),
	 GIVEN(gpus_given)},
	{INT("gpus-per-node", gpus_per_node, 1, 4096, "8",
	     "most ranks of tensor parallelism that are tried")},
	{ROW(BB_OPT_SIZE, "reserve", reserve,
	     "of that memory for what is not calculated: CUDA, buffers of libraries, "
	     "fragmentation"),
	 .argument = "SIZE", .initial = "0"},
	{0},
};

const struct bb_option bb_memory_zero_rows[] = {
	{INT("dp", dp, 1, MOST_RANKS, NULL, "data-parallel ranks; default: 1, 4, 16 … 1024"),
	 GIVEN(dp_given), .section = "Ranks"},
	{INT("micro-batches", micro_batches, 1, 1 << 20, "1",
	     "of a step: gradient accumulation, which stages 2 and 3 communicate for each time")},
	{0},
};

const struct bb_option bb_memory_deepspeed_rows[] = {
	{COUNT("largest-layer", largest_layer, MOST_PARAMETERS, NULL,
	       "parameters of the largest single module (default: that of the model)"),
	 GIVEN(layer_given), .section = "GPUs"},
	{INT("nodes", nodes, 1, MOST_RANKS, "1", "machines")},
	{INT("gpus-per-node", gpus_per_node, 1, 4096, "8", "GPUs of each")},
	{0},
};

const struct bb_option bb_memory_infer_rows[] = {
	{INT("bits", bits, 1, 32, "16", "of a weight"), .section = "Inference"},
	{INT("cache-bits", cache_bits, 1, 32, "16", "of a key or value in the cache")},
	{INT("batch", batch, 1, 1 << 24, "1", "sequences at a time")},
	{INT("context", context, 1, 1 << 28, NULL,
	     "tokens of each that the cache holds; default: as many as the model says"),
	 GIVEN(context_given)},
	{INT("tp", tp, 1, MOST_RANKS, "1", "tensor-parallel ranks")},
	{0},
};

const struct bb_option bb_memory_checkpoint_rows[] = {
	{INT("checkpoint-every", every, 1, 4096, NULL,
	     "keep the input of every N-th layer; default: 1, 2, 4 … all layers"),
	 GIVEN(every_given), .section = "The chain"},
	{INT("layers", layers, 1, 4096, "16", "of the chain")},
	{INT("width", width, 1, 4096, "64", "of a layer; inside it is four times as wide")},
	{INT("rows", rows, 1, 1 << 16, "128", "of a batch")},
	{INT("repeat", repeat, 1, 1000, "5", "passes of each, of which the median time counts")},
	{0},
};

const struct bb_option bb_memory_quantise_rows[] = {
	{STRING("values", values, "LIST", "the tensor, such as 1,2,3"), .section = "The tensor"},
	{COUNT("count", count, 1 << 28, "1M", "without --values: so many normal numbers")},
	{INT("seed", seed, 0, INT64_MAX, "1", "that they are made from")},
	{CHOICE("format", format, format_words, "all", "integers"), .section = "Quantisation"},
	{CHOICE("method", method, method_words, "all",
		"minmax: the least number to the least code, the largest to the largest; scale: "
		"round(x / scale)")},
	{0},
};

const struct bb_option bb_memory_about_rows[] = {
	{STRING("json", json, "FILE|-", "all as JSON; -: to standard output, instead of text"),
	 .section = "About"},
	{ROW(BB_OPT_FLAG, "help", help, "this text"), .key = 'h'},
	{FLAG("help-markdown", help_markdown, "the same as Markdown tables")},
	{FLAG("version", version, "the version")},
	{0},
};
