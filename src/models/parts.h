/*
 * parts.h - families of models as data: tables of the parts of their blocks, hyperparameters, and
 * what transformers takes for absent ones.
 */
#pragma once

#include "models/model.h"

struct bb_builder; /* model.c */

/*
 * Sizes of tensors, by the hyperparameters H, and in latent attention the rotated width of a key.
 *
 *   EMBEDDING      width of the embedding, where it differs from the hidden one
 *   SLOTS          positions, and the two that OPT leaves free
 *   PATCH          numbers of an image's patch: 3 channels
 *   ADAPTER …      widths behind the blocks of a vision tower
 *   KEYS           heads of keys x width; those of values are as many
 *   QKV, FFN_2     queries, keys and values in one matrix; gate and up
 *   OUTPUTS        heads x width of a value
 *   EXPERT, SHARED inner width of an expert, and of the shared experts together
 *   Q_LORA         latent attention: width of the queries' latent vector
 *   KV_LORA        that of keys and values
 *   KV_DOWN        the same and the rotated part of the keys
 *   KV_UP          keys without that part, and values, of all heads
 */
#define BB_SIZES(SIZE)                                                                             \
	SIZE(ONE, 1)                                                                               \
	SIZE(TWO, 2)                                                                               \
	SIZE(HIDDEN, h->hidden)                                                                    \
	SIZE(EMBEDDING, h->embedding > 0 ? h->embedding : h->hidden)                               \
	SIZE(VOCAB, h->vocab)                                                                      \
	SIZE(POSITIONS, h->positions)                                                              \
	SIZE(SLOTS, h->positions + 2)                                                              \
	SIZE(TYPES, h->types)                                                                      \
	SIZE(LABELS, h->labels)                                                                    \
	SIZE(PATCH, 3 * h->patch * h->patch)                                                       \
	SIZE(ADAPTER, h->adapter)                                                                  \
	SIZE(ADAPTER_OUT, h->adapter_out)                                                          \
	SIZE(VISION_OUT, h->vision_out)                                                            \
	SIZE(BUCKETS, h->buckets)                                                                  \
	SIZE(HEADS, h->heads)                                                                      \
	SIZE(HEAD, h->head_dim)                                                                    \
	SIZE(QUERIES, h->heads * h->head_dim)                                                      \
	SIZE(KEYS, h->kv_heads * h->head_dim)                                                      \
	SIZE(QKV, (h->heads + 2 * h->kv_heads) * h->head_dim)                                      \
	SIZE(OUTPUTS, h->heads * h->value_dim)                                                     \
	SIZE(FFN, h->ffn)                                                                          \
	SIZE(FFN_2, 2 * h->ffn)                                                                    \
	SIZE(EXPERTS, h->experts)                                                                  \
	SIZE(EXPERT, h->expert_ffn)                                                                \
	SIZE(EXPERT_2, 2 * h->expert_ffn)                                                          \
	SIZE(SHARED, h->shared_ffn)                                                                \
	SIZE(Q_LORA, h->q_lora)                                                                    \
	SIZE(KV_LORA, h->kv_lora)                                                                  \
	SIZE(KV_DOWN, h->kv_lora + rotated)                                                        \
	SIZE(KV_UP, h->heads *(h->head_dim - rotated + h->value_dim))

#define BB_SIZE_NAME(name, value) BB_SIZE_##name,
enum bb_size { BB_SIZES(BB_SIZE_NAME) BB_NSIZES };

/* What a model, or one of its blocks, has: bits of a set. */
enum bb_trait {
	BB_HAS_ALWAYS = 1 << 0,
	BB_HAS_BIAS = 1 << 1, /* attention's, in some families that of all matrices */
	BB_HAS_MLP_BIAS = 1 << 2,
	BB_HAS_GATE = 1 << 3,
	BB_HAS_MOE = 1 << 4, /* this block has experts */
	BB_HAS_FUSED = 1 << 5,
	BB_HAS_SHARED = 1 << 6,
	BB_HAS_Q_LORA = 1 << 7,
	BB_HAS_MLA = 1 << 8,
	BB_HAS_QK_NORM = 1 << 9,
	BB_HAS_POST_NORMS = 1 << 10,
	BB_HAS_PRE_NORM = 1 << 11, /* norms stand before attention and feed-forward network */
	BB_HAS_PARALLEL = 1 << 12, /* attention and feed-forward network read the same input */
	BB_HAS_TWO_NORMS = 1 << 13,
	BB_HAS_FIRST = 1 << 14,      /* this block is the first of its stack */
	BB_HAS_PROJECTION = 1 << 15, /* the embedding is not as wide as the blocks */
	BB_HAS_TIED = 1 << 16,
	BB_HAS_LM = 1 << 17, /* heads: projection to the vocabulary, … */
	BB_HAS_POOLER = 1 << 18,
	BB_HAS_NEXT = 1 << 19,
	BB_HAS_CLASSES = 1 << 20,
	BB_HAS_SCORE = 1 << 21,
	BB_HAS_CHOICE = 1 << 22,
	BB_HAS_QUESTION = 1 << 23,
	BB_HAS_CROSS = 1 << 24,      /* this block attends to the output of an encoder */
	BB_HAS_CAUSAL = 1 << 25,     /* an encoder's blocks, used as a decoder */
	BB_HAS_CLASS_TOKEN = 1 << 26 /* before the patches of an image */
};

enum bb_part_kind {
	BB_PART_MATRIX,       /* a linear layer: NAME.weight, NAME.bias */
	BB_PART_TRANSPOSED,   /* the same; its weight has a row for each input, as GPT-2's Conv1D */
	BB_PART_CONVOLUTION,  /* the same; autograd completes the weight before the bias */
	BB_PART_NORM,         /* NAME.weight, NAME.bias; no product */
	BB_PART_TABLE,        /* an embedding: NAME.weight */
	BB_PART_TENSOR,       /* the tensor NAME, without a product */
	BB_PART_EXPERT,       /* a matrix of each expert: NAME.0.OF.weight … */
	BB_PART_STACK,        /* the tensor NAME: the matrices of all experts */
	BB_PART_STACKED_BIAS, /* the tensor NAME: a row for each expert */
	BB_PART_RAW,          /* a matrix without a module: the tensor NAME */
	BB_PART_PRODUCT       /* a matrix product with tied weights: no tensor */
};

/*
 * A part: its place in the table is that of its tensors in the order of registration, AT its
 * place in the forward pass; parts of equal AT run in the order of the table. It exists in a block
 * that has all of NEEDS and none of LACKS.
 */
struct bb_model_part {
	const char *name, *of;
	unsigned char kind, at, rows, columns; /* enum bb_size of the shape */
	bool once;                             /* applied to one token of a sample, not to all */
	bool pooled;                           /* applied to hyper.pooled tokens */
	unsigned needs, lacks;
	unsigned bias; /* traits with which there is a bias */
};

/* Places in a block's forward pass: before and behind BB_AT_CORE, where attention itself is. */
enum {
	BB_AT_NORM = 0,
	BB_AT_Q,
	BB_AT_Q_NORM,
	BB_AT_K,
	BB_AT_K_NORM,
	BB_AT_V,
	BB_AT_QK_NORM,
	BB_AT_CORE,
	BB_AT_OUT,
	BB_AT_CROSS_NORM,
	BB_AT_CROSS_IN,
	BB_AT_CROSS,
	BB_AT_CROSS_OUT,
	BB_AT_MIDDLE,
	BB_AT_SHARED_FIRST,
	BB_AT_ROUTER,
	BB_AT_UP_BIAS,
	BB_AT_UP,
	BB_AT_DOWN_BIAS,
	BB_AT_DOWN,
	BB_AT_SHARED,
	BB_AT_END,
	BB_AT_PLACES,
	BB_AT_BEHIND = BB_AT_PLACES /* behind all blocks, though registered before them */
};

#define BB_MODEL_PARTS 40 /* of a table, at most */

/* Blocks one after the other. Tables of parts end with a part without a name. */
struct bb_stack {
	const char *prefix; /* of its blocks: "model.layers" */
	const struct bb_model_part *block;
	const struct bb_model_part *behind; /* the norm behind its blocks and what stands there */
};

/* ---- families ------------------------------------------------------------------------------ */

enum bb_hyper_use {
	BB_HYPER_NONE, /* the family has no such hyperparameter */
	BB_HYPER_NEEDED,
	BB_HYPER_OPTIONAL, /* the family has a default */
};

/* The index of a hyperparameter: its place in struct bb_hyper, whose members are all int64_t. */
#define BB_HYPER(field) ((int)(offsetof(struct bb_hyper, field) / sizeof(int64_t)))
#define BB_NHYPERS ((int)(sizeof(struct bb_hyper) / sizeof(int64_t)))

#define BB_HYPER_KEYS 6

struct bb_hyper_row {
	const char *name;                    /* "layers" */
	int64_t min, max;                    /* 0 and 1: false and true in a config.json */
	const char *keys[BB_HYPER_KEYS + 1]; /* in a config.json, synonyms; ends with NULL */
	unsigned trait; /* enum bb_trait that a value other than 0 gives to all blocks */
};

#define BB_MODEL_HEADS 9 /* of a family, at most */

/* A head that transformers has for a family. */
struct bb_head {
	const char *word;       /* "masked" */
	const char *classes[2]; /* ends of a class's name in a config.json's architectures */
	unsigned traits;
	bool is_base; /* the model itself, whose names lack the family's base */
};

struct bb_family {
	const char *name; /* also model_type in a config.json */
	const char *brief;
	/* Of a family with a config.json: transformers' configuration class, and its defaults for
	   absent keys, "n_layer=12 n_embd=768": those of version 5.23.0 that change a tensor, the
	   sequence or attention, unless they are off or follow from others. */
	const char *class, *absent;
	void (*build)(struct bb_builder *b); /* NULL: a transformer, of the tables below */
	const char *base;                    /* what a head puts before each name: "model." */
	const struct bb_model_part *before;  /* embeddings */
	struct bb_stack stacks[2];           /* the second one, if any, is T5's decoder */
	const struct bb_model_part *heads;
	const char *head_base;         /* what stands before the heads' names; NULL: nothing */
	const struct bb_family *tower; /* of vision, registered first; its heads: the projector */
	const struct bb_head *known;   /* heads; the first is the default; ends without a word */
	unsigned traits;
	bool encoder;
	unsigned char uses[BB_NHYPERS]; /* enum bb_hyper_use of each of bb_hyper_rows */
	struct bb_hyper defaults;       /* 0: none */
	/* Keys of a config.json that mean something else than in other families. */
	struct {
		const char *key;
		unsigned char row;
	} keys[3];
};

/* Ends with a family without a name. */
extern const struct bb_family bb_families[];

/* Builders of models that are not transformers. */
void bb_build_resnet(struct bb_builder *b);
void bb_build_vgg(struct bb_builder *b);
void bb_build_linear(struct bb_builder *b);

/* Build MODEL, whose hyper and, with a tower, vision are checked and complete. BB_EUSAGE: it is too
   large, or has a depth that is not known; BB_EINTERNAL without memory. */
BB_MUST bb_status bb_model_build(struct bb_model *model, const struct bb_family *family,
				 struct bb_error *error);

/* Models that --model names. */
struct bb_model_preset {
	const char *name, *text, *source;
};
extern const struct bb_model_preset bb_model_presets[]; /* ends without a name */

#define BB_NOT_GIVEN (-1)
#define BB_GIVEN_NULL (-2) /* null in a config.json: it follows from others */

extern const struct bb_hyper_row bb_hyper_rows[BB_NHYPERS];

/* The family whose name are the first LENGTH bytes of NAME; NULL: none. */
const struct bb_family *bb_family_find(const char *name, size_t length);
/* "bert, gpt2, …": those with a config.json. */
void bb_family_config_types(struct bb_strbuf *out);

/* Hyperparameter number I, as in bb_hyper_rows. */
static inline int64_t *bb_hyper_at(struct bb_hyper *hyper, int i)
{
	return (int64_t *)hyper + i;
}

/*
 * Read the config.json at PATH into MODEL's hyper, its vision if the family has a tower, and
 * origin, and into FAMILY. Keys that the file lacks have the default of their class;
 * hyperparameters without one, or given as null, stay BB_NOT_GIVEN. BB_EUSAGE with a sentence that
 * names the file and its key, or all of its keys that are not known. ERROR has no cause yet.
 */
BB_MUST bb_status bb_config_read(const char *path, struct bb_model *model,
				 const struct bb_family **family, struct bb_error *error);
