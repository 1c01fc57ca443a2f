/*
 * model.h - a neural network as training sees it: its gradients, the order in which the
 * backward pass completes them, and the FLOPs in between. All of it follows from a few
 * hyperparameters; no weights are needed.
 *
 *   model.c        what all families share: putting a model together
 *   transformer.c  gpt2, bloom, bert, llama, mistral, mixtral
 *   resnet.c       resnet, and linear, a stack of linear layers
 *   families.c     hyperparameters of the families, presets, and the text of --model
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

/* Hyperparameters; 0 where the family has none. */
struct bb_hyper {
	int64_t layers;   /* blocks of a transformer, linear layers; of resnet its name's number */
	int64_t hidden;   /* width of the residual stream, or of a linear layer */
	int64_t heads;    /* of attention */
	int64_t kv_heads; /* groups of heads that share keys and values */
	int64_t head_dim; /* width of a head */
	int64_t ffn;      /* inner width of the feed-forward network */
	int64_t vocab;
	int64_t positions; /* with a learned embedding */
	int64_t types;     /* of tokens: the segments of bert */
	int64_t experts;   /* feed-forward networks of a block */
	int64_t top_k;     /* experts that compute each token */
	int64_t fused; /* 1: a block's experts are stacked in two tensors, as in transformers 5 */
	int64_t tied;  /* 1: the head's weights are those of the embedding */
	int64_t seq;   /* tokens of a sample; tensors do not depend on it */
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

/*
 * A step of the forward pass; the backward pass runs the steps from last to first. FLOPs are those
 * of one sample (a sequence, an image, a row). Only matrix products count, a multiply-add as two,
 * as in Megatron-LM (Narayanan et al., SC21, section 5.1, and Korthikanti et al. 2022, appendix A):
 * norms, activations, softmax and lookups are limited by memory.
 */
struct bb_work {
	int layer;
	double forward;
	double input;   /* backward pass: the gradient of the input */
	double weights; /* backward pass: the gradients of its tensors */
};

struct bb_model {
	const char *name;   /* as requested; borrowed */
	const char *family; /* "llama"; constant */
	struct bb_hyper hyper;
	bool gated;                /* feed-forward networks are gated; there is no dropout */
	bool logits;               /* ends in a projection to the vocabulary */
	bool encoder;              /* tokens attend to later ones: it does not generate */
	int blocks;                /* layers 0 … blocks-1 */
	struct bb_tensor *tensors; /* in the order of registration */
	size_t ntensors;
	struct bb_work *works; /* in the order of the forward pass */
	size_t nworks;
	/* Indices of tensors in the order in which the backward pass completes their gradients;
	   within a work, the tensor registered last comes first. */
	size_t *order;
	uint64_t parameters; /* all elements */
	double forward;      /* FLOPs of a sample, all works */
	double backward;     /* input and weights of all works */
};

/*
 * Open the model that TEXT names: a preset ("gpt2"), a family with its hyperparameters
 * ("llama:layers=2,hidden=64,…", "linear:20x2000", "resnet:50"), or the path of a config.json of
 * Hugging Face. SEQ is the number of tokens of a sample; 0: the model's. BB_EUSAGE
 * with a sentence that names the mistake; BB_EINTERNAL without memory. The caller calls
 * bb_model_free whatever is returned. TEXT becomes the model's name and must outlive it.
 */
BB_MUST bb_status bb_model_open(struct bb_model *model, const char *text, int64_t seq,
				struct bb_error *error);
void bb_model_free(struct bb_model *model); /* of a zeroed model: nothing */

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
