/*
 * model.h - a neural network as training sees it: its gradients, the order in which the
 * backward pass completes them, and the FLOPs in between. All of it follows from a few
 * hyperparameters; no weights are needed.
 *
 *   model.c        what all families share: putting a model together
 *   attention.c    FLOPs of attention by FlashAttention
 *   transformer.c  transformers, built from the tables of their family
 *   decoders.c     families, and tables of the parts of their blocks
 *   vision.c       resnet, vgg, and linear, a stack of linear layers
 *   presets.c      known models
 *   families.c     hyperparameters, and the text of --model
 *   config.c       Hugging Face's config.json
 *   defaults.c     what it leaves to transformers' configuration classes
 */
#ifndef BB_MODELS_MODEL_H
#define BB_MODELS_MODEL_H

#include "core/status.h"
#include "core/strbuf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BB_TENSOR_NAME 96

/* Hyperparameters in the order in which --model and its list have them; 0 where the family has
 * none. */
struct bb_hyper {
	int64_t layers; /* blocks of a transformer, linear layers; of resnet its name's number */
	int64_t hidden; /* width of the residual stream, or of a linear layer */
	int64_t heads;  /* of attention */
	int64_t vocab;
	int64_t seq;       /* tokens of a sample; tensors do not depend on it */
	int64_t kv_heads;  /* groups of heads that share keys and values */
	int64_t head_dim;  /* width of a head */
	int64_t ffn;       /* inner width of the feed-forward network */
	int64_t positions; /* with a learned embedding */
	int64_t types;     /* of tokens: the segments of bert */
	int64_t experts;   /* feed-forward networks of a block */
	int64_t top_k;     /* experts that compute each token */
	int64_t fused; /* 1: a block's experts are stacked in two tensors, as in transformers 5 */
	int64_t tied;  /* 1: the head's weights are those of the embedding */
	int64_t expert_ffn; /* inner width of an expert; ffn is that of blocks without experts */
	int64_t shared;     /* shared experts, which compute every token */
	int64_t shared_ffn; /* inner width of all of them together */
	int64_t dense;      /* blocks before the first one with experts */
	int64_t moe_every;  /* from there on each of that many blocks has experts, the last of them
			     */
	/* Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434); kv_lora 0: none. */
	int64_t q_lora, kv_lora; /* widths of the latent vectors; q_lora 0: queries have none */
	int64_t nope, rope;      /* parts of head_dim; the rotated one of keys is shared by heads */
	int64_t value_dim;       /* width of a head's values */
	int64_t window;          /* tokens that a local layer attends to; 0: all */
	int64_t global_every;    /* each of that many layers is global, the last one; 0: none */
	int64_t bias, mlp_bias, qk_norm, gated; /* 1: has them */
	int64_t decoders;                       /* blocks of T5's decoder; layers: of its encoder */
	int64_t embedding;                      /* width of the embedding; 0: hidden */
	int64_t pre_norm;                       /* 1: norms stand before the parts of a block */
	int64_t multi_query;                    /* 1: all heads share keys and values */
	int64_t parallel;     /* 1: attention and feed-forward network read the same input */
	int64_t two_norms;    /* 1: each of them with a norm of its own */
	int64_t buckets;      /* of relative positions */
	int64_t image, patch; /* pixels of a side */
	int64_t pooled;       /* tokens of an image behind the vision tower */
	int64_t adapter, adapter_out, vision_out; /* widths between tower and projector */
	int64_t vision_head;                      /* 1: the tower has a pooling head, without use */
	int64_t labels;                           /* classes of a classifier */
	int64_t head;                             /* index of the family's heads */
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
	/* Of a config.json: "read as llama4 (Llama4TextConfig); defaults: …"; empty: of no file. */
	struct bb_strbuf origin;
	double forward;  /* FLOPs of a sample, all works */
	double backward; /* input and weights of all works */
};

/*
 * Open the model that TEXT names: a preset ("gpt2"), a family with its hyperparameters
 * ("llama:layers=2,hidden=64,…", "linear:20x2000", "resnet:50"), or the path of a config.json of
 * Hugging Face, or of its folder. SEQ is the number of tokens of a sample; 0: the model's.
 * BB_EUSAGE with a sentence that names the mistake; BB_EINTERNAL without memory. The caller calls
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

#endif
