/*
 * model.h - a neural network as training sees it: the gradients that it makes, in which order the
 * backward pass makes them, and the arithmetic that lies between. All of it follows from a few
 * hyperparameters; no weights are needed.
 *
 *   model.c        what all families share: putting a model together
 *   transformer.c  gpt2, bloom, bert, llama, mistral, mixtral
 *   resnet.c       resnet, and linear, a stack of linear layers
 *   families.c     which hyperparameters a family has, presets, and models in words
 *   config.c       Hugging Face's config.json
 */
#ifndef BB_MODELS_MODEL_H
#define BB_MODELS_MODEL_H

#include "core/status.h"
#include "core/strbuf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BB_TENSOR_NAME 64

/* What a model is generated from; 0 where its family has no such thing. */
struct bb_hyper {
	int64_t layers;   /* blocks of a transformer, linear layers; of resnet its name's number */
	int64_t hidden;   /* width of the residual stream, or of a linear layer */
	int64_t heads;    /* of attention */
	int64_t kv_heads; /* groups of heads that share keys and values */
	int64_t head_dim; /* width of a head */
	int64_t ffn;      /* inner width of the feed-forward network */
	int64_t vocab;
	int64_t positions; /* that an embedding is learned for */
	int64_t types;     /* of tokens: the segments of bert */
	int64_t experts;   /* feed-forward networks that a token chooses from */
	int64_t top_k;     /* how many of them it goes through */
	int64_t fused; /* 1: a block's experts are stacked in two tensors, as in transformers 5 */
	int64_t tied;  /* 1: the head's weights are those of the embedding */
	int64_t seq;   /* tokens of a sample; not what the tensors depend on */
};

/* The parameters outside all blocks belong to these layers: the embedding or the stem, and from
   model.blocks on the last norm, head, pooler or classifier. */
#define BB_LAYER_BEFORE (-1)

/* One gradient, of the shape of the parameters. */
struct bb_tensor {
	char name[BB_TENSOR_NAME]; /* as in Hugging Face's transformers or torchvision */
	uint64_t elements;
	uint64_t rows, columns; /* of a matrix; columns 1: a vector */
	uint64_t matrices;      /* so many of them, stacked; else 1 */
	bool expert;            /* belongs to an expert: a token may pass it by */
	int layer;
	size_t work; /* the gradient is complete when this work's backward is */
};

/*
 * A step of the forward pass; the backward pass does them from last to first. FLOPs of one sample
 * (a sequence, an image, a row), a multiply-add being two: matrix products alone, as in Megatron-LM
 * (Narayanan et al., SC21, section 5.1, and Korthikanti et al. 2022, appendix A). Norms,
 * activations, softmax and lookups are bound by memory, not by arithmetic, and count nothing.
 */
struct bb_work {
	int layer;
	double forward;
	double input;   /* backward, the half that makes the gradient of the input */
	double weights; /* backward, the half that makes the gradients of its tensors */
};

struct bb_model {
	const char *name;   /* as it was asked for */
	const char *family; /* "llama"; constant */
	struct bb_hyper hyper;
	bool gated;                /* feed-forward networks are gated, and nothing drops out */
	bool logits;               /* ends in a product with the vocabulary */
	bool encoder;              /* tokens see those behind them, too: it does not generate */
	int blocks;                /* layers 0 … blocks-1 */
	struct bb_tensor *tensors; /* in the order of registration */
	size_t ntensors;
	struct bb_work *works; /* in the order of the forward pass */
	size_t nworks;
	/* Indices of tensors in the order in which the backward pass completes their gradients: as
	   their works do, and of one work the one registered last first. */
	size_t *order;
	uint64_t parameters; /* all elements */
	double forward;      /* FLOPs of a sample, all works */
	double backward;     /* input and weights of all works */
};

/*
 * The model that WORD says: a preset ("gpt2"), a family with its hyperparameters
 * ("llama:layers=2,hidden=64,…", "linear:20x2000", "resnet:50"), or the path of a config.json of
 * Hugging Face. SEQ: tokens of a sample; 0: as many as the model says. BB_EUSAGE with a sentence
 * that names what is wrong; BB_EINTERNAL without memory. bb_model_free whatever comes back. WORD
 * becomes its name, and must last as long.
 */
BB_MUST bb_status bb_model_open(struct bb_model *model, const char *word, int64_t seq,
				struct bb_error *error);
void bb_model_free(struct bb_model *model); /* of a zeroed model: nothing */

/* Presets with where their hyperparameters come from, and families with their hyperparameters. */
void bb_model_list(struct bb_strbuf *out);

/*
 * The module that has most parameters of its own, without those of modules below it: a matrix with
 * its bias, an embedding; what DeepSpeed calls the largest layer (model_to_params in
 * deepspeed/runtime/zero/stage3.py). NAME is that of its first tensor up to the last point.
 */
struct bb_module {
	char name[BB_TENSOR_NAME];
	uint64_t parameters;
};
struct bb_module bb_model_largest_module(const struct bb_model *model);

/*
 * When the gradient of model.order[i] is complete, into READY[i], in seconds since the backward
 * pass began, which takes BACKWARD_S in all and spends them as its FLOPs are. Never descends; the
 * last one is BACKWARD_S.
 */
void bb_model_ready(const struct bb_model *model, double backward_s, double *ready);

#endif
