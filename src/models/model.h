/*
 * model.h - a neural network as training sees it: its gradients, the order in which the
 * backward pass completes them, and the FLOPs in between. All of it follows from a few
 * hyperparameters; no weights are needed.
 *
 *   model.c        tensors and works, built from the tables of a family, and what follows from
 *                  them; FLOPs of attention
 *   decoders.c     families, and tables of the parts of their blocks
 *   presets.c      known models
 *   families.c     hyperparameters, and the text of --model
 *   config.c       Hugging Face's config.json
 */
#pragma once

#include "core/status.h"
#include "core/strbuf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BB_TENSOR_NAME 96

/*
 * Hyperparameters in the order in which --model and its list have them; 0 where the family has
 * none. HYPER has the member, its name, its limits, far beyond any built model, so that products of
 * three fit into 64 bits, and members of struct bb_hyper_row (parts.h).
 *
 *   layers        blocks of a transformer, linear layers; of resnet its name's number
 *   hidden        width of the residual stream, or of a linear layer
 *   heads         of attention
 *   seq           tokens of a sample; tensors do not depend on it
 *   kv_heads      groups of heads that share keys and values
 *   head_dim      width of a head
 *   ffn           inner width of the feed-forward network
 *   positions     with a learned embedding
 *   types         of tokens: the segments of bert
 *   experts       feed-forward networks of a block
 *   top_k         experts that compute each token
 *   fused         1: a block's experts are stacked in two tensors, as in transformers 5
 *   tied          1: the head's weights are those of the embedding
 *   expert_ffn    inner width of an expert; ffn is that of blocks without experts
 *   shared        shared experts, which compute every token
 *   shared_ffn    inner width of all of them together
 *   dense         blocks before the first one with experts
 *   moe_every     from there on each of that many blocks has experts, the last of them
 *                 Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434):
 *   q_lora        width of the latent vector of queries; 0: they have none
 *   kv_lora       that of keys and values; 0: no latent attention
 *   nope, rope    parts of head_dim; the rotated one of keys is shared by heads
 *   value_dim     width of a head's values
 *   window        tokens that a local layer attends to; 0: all
 *   global_every  each of that many layers is global, the last one; 0: none
 *   bias, mlp_bias, qk_norm, gated: 1: has them
 *   decoders      blocks of T5's decoder; layers: of its encoder
 *   embedding     width of the embedding; 0: hidden
 *   pre_norm      1: norms stand before the parts of a block
 *   multi_query   1: all heads share keys and values
 *   parallel      1: attention and feed-forward network read the same input
 *   two_norms     1: each of them with a norm of its own
 *   buckets       of relative positions
 *   image, patch  pixels of a side
 *   pooled        tokens of an image behind the vision tower
 *   adapter, adapter_out, vision_out: widths between tower and projector
 *   vision_head   1: the tower has a pooling head, without use
 *   labels        classes of a classifier
 *   head          index of the family's heads
 */
#define BB_HYPERS(HYPER)                                                                           \
	HYPER(layers, "layers", 1, 4096, .keys = {"num_hidden_layers", "n_layer", "num_layers"})   \
	HYPER(hidden, "hidden", 1, 1 << 20,                                                        \
	      .keys = {"hidden_size", "n_embd", "n_embed", "d_model"})                             \
	HYPER(heads, "heads", 1, 1 << 14, .keys = {"num_attention_heads", "n_head", "num_heads"})  \
	HYPER(vocab, "vocab", 1, 1 << 28, .keys = {"vocab_size"})                                  \
	HYPER(seq, "seq", 1, 1 << 28,                                                              \
	      .keys = {"max_position_embeddings", "n_positions", "seq_length"})                    \
	HYPER(kv_heads, "kv", 1, 1 << 14, .keys = {"num_key_value_heads", "num_kv_heads"})         \
	HYPER(head_dim, "head_dim", 1, 1 << 14, .keys = {"head_dim", "d_kv"})                      \
	HYPER(ffn, "ffn", 1, 1 << 24,                                                              \
	      .keys = {"intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size", "d_ff"})      \
	HYPER(positions, "positions", 1, 1 << 28)                                                  \
	HYPER(types, "types", 1, 1 << 20, .keys = {"type_vocab_size"})                             \
	HYPER(experts, "experts", 1, 4096,                                                         \
	      .keys = {"num_local_experts", "num_experts", "n_routed_experts"})                    \
	HYPER(top_k, "top_k", 1, 4096, .keys = {"num_experts_per_tok", "experts_per_token"})       \
	HYPER(fused, "fused", 0, 1, .trait = BB_HAS_FUSED)                                         \
	HYPER(tied, "tied", 0, 1, .keys = {"tie_word_embeddings"}, .trait = BB_HAS_TIED)           \
	HYPER(expert_ffn, "expert_ffn", 1, 1 << 24, .keys = {"moe_intermediate_size"})             \
	HYPER(shared, "shared", 0, 4096, .keys = {"n_shared_experts"})                             \
	HYPER(shared_ffn, "shared_ffn", 0, 1 << 24, .keys = {"shared_expert_intermediate_size"},   \
	      .trait = BB_HAS_SHARED)                                                              \
	HYPER(dense, "dense", 0, 4096, .keys = {"first_k_dense_replace"})                          \
	HYPER(moe_every, "moe_every", 1, 4096,                                                     \
	      .keys = {"decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_freq"})      \
	HYPER(q_lora, "q_lora", 0, 1 << 20, .keys = {"q_lora_rank"}, .trait = BB_HAS_Q_LORA)       \
	HYPER(kv_lora, "kv_lora", 1, 1 << 20, .keys = {"kv_lora_rank"}, .trait = BB_HAS_MLA)       \
	HYPER(nope, "nope", 1, 1 << 13, .keys = {"qk_nope_head_dim"})                              \
	HYPER(rope, "rope", 1, 1 << 13, .keys = {"qk_rope_head_dim"})                              \
	HYPER(value_dim, "value_dim", 1, 1 << 14, .keys = {"v_head_dim"})                          \
	HYPER(window, "window", 0, 1 << 28, .keys = {"sliding_window", "attention_chunk_size"})    \
	HYPER(global_every, "global_every", 0, 4096,                                               \
	      .keys = {"sliding_window_pattern", "_sliding_window_pattern",                        \
		       "no_rope_layer_interval"})                                                  \
	HYPER(bias, "bias", 0, 1, .keys = {"attention_bias", "qkv_bias", "enable_bias", "bias"},   \
	      .trait = BB_HAS_BIAS)                                                                \
	HYPER(mlp_bias, "mlp_bias", 0, 1, .keys = {"mlp_bias"}, .trait = BB_HAS_MLP_BIAS)          \
	HYPER(qk_norm, "qk_norm", 0, 1, .trait = BB_HAS_QK_NORM)                                   \
	HYPER(gated, "gated", 0, 1, .keys = {"is_gated_act"}, .trait = BB_HAS_GATE)                \
	HYPER(decoders, "decoders", 1, 4096, .keys = {"num_decoder_layers"})                       \
	HYPER(embedding, "embedding", 1, 1 << 20, .keys = {"word_embed_proj_dim"})                 \
	HYPER(pre_norm, "pre_norm", 0, 1, .keys = {"do_layer_norm_before"},                        \
	      .trait = BB_HAS_PRE_NORM)                                                            \
	HYPER(multi_query, "multi_query", 0, 1, .keys = {"multi_query"})                           \
	HYPER(parallel, "parallel", 0, 1, .keys = {"parallel_attn"}, .trait = BB_HAS_PARALLEL)     \
	HYPER(two_norms, "two_norms", 0, 1, .keys = {"new_decoder_architecture"},                  \
	      .trait = BB_HAS_TWO_NORMS)                                                           \
	HYPER(buckets, "buckets", 1, 1 << 20, .keys = {"relative_attention_num_buckets"})          \
	HYPER(image, "image", 1, 1 << 14, .keys = {"image_size"})                                  \
	HYPER(patch, "patch", 1, 1 << 14, .keys = {"patch_size"})                                  \
	HYPER(pooled, "pooled", 1, 1 << 20, .keys = {"mm_tokens_per_image"})                       \
	HYPER(adapter, "adapter", 1, 1 << 20, .keys = {"projector_input_dim"})                     \
	HYPER(adapter_out, "adapter_out", 1, 1 << 20, .keys = {"projector_output_dim"})            \
	HYPER(vision_out, "vision_out", 1, 1 << 20, .keys = {"vision_output_dim"})                 \
	HYPER(vision_head, "vision_head", 0, 1, .keys = {"vision_use_head"},                       \
	      .trait = BB_HAS_POOLER)                                                              \
	HYPER(labels, "labels", 1, 1 << 20, .keys = {"num_labels"})                                \
	HYPER(head, "head", 0, 15)

#define BB_HYPER_MEMBER(member, ...) int64_t member;
struct bb_hyper {
	BB_HYPERS(BB_HYPER_MEMBER)
};

/* The layer of the parameters before all blocks: embedding or stem. Those behind them (last norm,
   head, pooler, classifier) have layer model.blocks. */
#define BB_LAYER_BEFORE (-1)

/* A tensor of parameters; its gradient has the same shape. */
struct bb_tensor {
	char name[BB_TENSOR_NAME]; /* as in Hugging Face's transformers or torchvision */
	uint64_t elements;
	uint64_t rows, columns; /* of a matrix; columns 1: a vector */
	uint64_t matrices;      /* number of stacked matrices, at least 1 */
	bool expert;            /* belongs to an expert: only some tokens use it */
	int layer;
	size_t work; /* index of the work whose backward pass completes the gradient */
};

/* The products of attention without weights, queries with keys and scores with values. A causal
   mask hides half of them. */
enum bb_attention_core { BB_CORE_NONE, BB_CORE_CAUSAL, BB_CORE_FULL };

/*
 * A step of the forward pass; the backward pass runs the steps from last to first. FLOPs are those
 * of one sample (a sequence, an image, a row). Only matrix products count, a multiply-add as two,
 * as in Megatron-LM (Narayanan et al., SC21, section 5.1, and Korthikanti et al. 2022, appendix A):
 * norms, activations, softmax and lookups are limited by memory.
 */
struct bb_work {
	int layer;
	enum bb_attention_core core;
	double forward;
	double input;   /* backward pass: the gradient of the input */
	double weights; /* backward pass: the gradients of its tensors */
	bool reversed;  /* of its tensors, the one registered last is complete first */
};

/* A block of a transformer, as far as blocks of a model differ. */
struct bb_block_kind {
	bool sparse;  /* has experts */
	bool decodes; /* has a cache of keys and values: not of an encoder */
	bool cross;   /* attends to the output of an encoder, too */
	bool local;   /* attends to the last hyper.window tokens only */
};

struct bb_model {
	const char *name;   /* as requested; borrowed */
	const char *family; /* "llama"; constant */
	struct bb_hyper hyper;
	struct bb_hyper
		vision; /* of the tower that reads images, before the blocks; heads 0: none */
	bool gated;     /* feed-forward networks are gated; there is no dropout */
	bool logits;    /* ends in a projection to the vocabulary */
	bool encoder;   /* tokens attend to later ones: it does not generate */
	int blocks;     /* layers 0 to blocks-1 */
	struct bb_tensor *tensors; /* in the order of registration */
	size_t ntensors;
	struct bb_work *works; /* in the order of the forward pass */
	size_t nworks;
	/* Indices of tensors in the order in which the backward pass completes their gradients,
	   which is autograd's. */
	size_t *order;
	uint64_t parameters; /* all elements */
	/* Of batch norms: means and variances in fp32, and counts of batches, an int64 each. */
	uint64_t buffers, counters;
	/* Of a config.json: "read as llama4 (Llama4TextConfig); defaults: …"; empty: of no file. */
	struct bb_strbuf origin;
	double forward;  /* FLOPs of a sample, all works */
	double backward; /* input and weights of all works */
};

/*
 * Open the model that TEXT names: a preset ("gpt2"), a family with its hyperparameters
 * ("llama:layers=2,hidden=64,…", "linear:20x2000", "resnet:50"), or the path of a config.json of
 * Hugging Face, or of its folder. SEQ is the number of tokens of a sample; 0: the model's.
 * BB_EUSAGE with a sentence that names the mistake; BB_EINTERNAL without memory. ERROR has no
 * cause yet. The caller calls
 * bb_model_free whatever is returned. TEXT becomes the model's name and must outlive it.
 */
BB_MUST bb_status bb_model_open(struct bb_model *model, const char *text, int64_t seq,
				struct bb_error *error);
/* BLOCK (0 to blocks-1) of a transformer. */
struct bb_block_kind bb_model_block(const struct bb_model *model, int block);
void bb_model_free(struct bb_model *model); /* of a zeroed model: nothing */

/* Append a line "# config.json: …" of what a model from a file was read as; of another, nothing. */
void bb_model_add_origin(struct bb_strbuf *out, const struct bb_model *model);

/* Append the presets with their sources, and the families with their hyperparameters. */
void bb_model_list(struct bb_strbuf *out);

/*
 * The module with the most parameters of its own, without those of its submodules: a matrix with
 * its bias, or an embedding. DeepSpeed calls it the largest layer (model_to_params in
 * deepspeed/runtime/zero/stage3.py). NAME is the name of its first tensor up to the last point.
 */
struct bb_module {
	char name[BB_TENSOR_NAME];
	uint64_t parameters;
};
struct bb_module bb_model_largest_module(const struct bb_model *model);

/*
 * Set READY[i] to the seconds from the start of the backward pass until the gradient of tensor
 * model.order[i] is complete. The pass takes BACKWARD_S, divided in proportion to FLOPs. READY
 * never decreases, and its last element is BACKWARD_S.
 */
void bb_model_ready(const struct bb_model *model, double backward_s, double *ready);

/* ---- attention ------------------------------------------------------------------------------ */

/*
 * The kernels of attention: eager ones store the scores of all pairs of tokens,
 * FlashAttention (Dao et al., arXiv 2205.14135) none. Memory follows in memory/training.h, FLOPs
 * here: FlashAttention skips what a causal mask hides, half of the products of queries with keys
 * and of scores with values, and computes the scores once more in the backward pass, five products
 * instead of four.
 */
enum bb_attention { BB_ATTENTION_FLASH, BB_ATTENTION_EAGER };
extern const char *const bb_attention_words[];

/* A line of a program's table of options; MORE is added to its help. */
#define BB_ATTENTION_OPTION(OPTION, more, ...)                                                     \
	OPTION(CHOICE, attention, "attention", 0, "flash",                                         \
	       "kernels of attention; flash: FlashAttention, which stores no scores and skips "    \
	       "masked ones; eager: all scores" more,                                              \
	       .choices = bb_attention_words, ##__VA_ARGS__)

/* "FlashAttention", "attention eager". */
const char *bb_attention_name(enum bb_attention attention);

/* WORK of a model as bb_model_open makes it, which is eager, by the kernels of ATTENTION. */
struct bb_work bb_attention_work(const struct bb_work *work, enum bb_attention attention);

/* Replace the FLOPs of MODEL, as bb_model_open made it, by those with ATTENTION. */
void bb_attention_apply(struct bb_model *model, enum bb_attention attention);
