/*
 * parts.h - what the families put models together with.
 */
#ifndef BB_MODELS_PARTS_H
#define BB_MODELS_PARTS_H

#include "models/model.h"

#define BB_MODEL_MOST_TENSORS ((size_t)1 << 20)
#define BB_MODEL_MOST_PARAMETERS (UINT64_C(1) << 56) /* so that bytes fit into 64 bits */

/* A model under construction. The first failure stays, so that nothing needs a check before
   bb_model_finish. */
struct bb_builder {
	struct bb_model *model;
	struct bb_error *error;
	bb_status status;
	size_t tensor_room, work_room;
	int layer;         /* that tensors and works are added to */
	bool expert;       /* whether tensors are of an expert */
	uint64_t matrices; /* that are stacked in a tensor; 0: one */
	bool from_file;
};

/* A tensor of ROWS x COLUMNS (1: a vector). Its gradient is complete with the work that was added
   last; there has been one. */
void bb_build_tensor(struct bb_builder *b, uint64_t rows, uint64_t columns, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
/* The tensor that was added last is complete only with WORK. */
void bb_build_belongs(struct bb_builder *b, size_t work);
/* A work without arithmetic: a norm, a lookup. */
void bb_build_light(struct bb_builder *b);
/* Matrix products of FORWARD FLOPs with weights: the backward pass does the same for the gradient
   of the input, unless nothing before it LEARNS, and again for that of the weights. */
void bb_build_product(struct bb_builder *b, double forward, bool learns);
/* Products of FORWARD FLOPs of two inputs, both of which want a gradient: attention. */
void bb_build_attention(struct bb_builder *b, double forward);

/* Works out order and sums. Returns the first failure. */
BB_MUST bb_status bb_build_finish(struct bb_builder *b);

/* Generators: model.hyper is checked and complete (families.c). */
void bb_build_gpt2(struct bb_builder *b);  /* gpt2 */
void bb_build_bloom(struct bb_builder *b); /* bloom */
void bb_build_bert(struct bb_builder *b);  /* bert */
void bb_build_llama(struct bb_builder *b); /* llama, mistral, mixtral */
void bb_build_resnet(struct bb_builder *b);
void bb_build_linear(struct bb_builder *b);

/* ---- families ------------------------------------------------------------------------------ */

enum bb_hyper_use {
	BB_HYPER_NONE, /* the family has no such hyperparameter */
	BB_HYPER_NEEDED,
	BB_HYPER_OPTIONAL, /* its family knows what it then is */
};

#define BB_NHYPERS 14
#define BB_HYPER_KEYS 3

struct bb_hyper_row {
	const char *word; /* "layers" */
	size_t offset;    /* of an int64_t in struct bb_hyper */
	int64_t min, max;
	const char *keys[BB_HYPER_KEYS + 1]; /* in a config.json; any of them, ends with NULL */
	bool is_bool;                        /* there: true or false */
};

struct bb_family {
	const char *name; /* and model_type in a config.json */
	const char *brief;
	void (*build)(struct bb_builder *b);
	/* Of each of bb_hyper_rows. */
	unsigned char uses[BB_NHYPERS];
	int64_t tied; /* where it is not said */
	int64_t seq;  /* where a config.json does not say it; 0: it must */
};

extern const struct bb_hyper_row bb_hyper_rows[BB_NHYPERS];

/* The family of a config.json's model_type; NULL: none. */
const struct bb_family *bb_family_of_config(const char *model_type);
/* "bert, gpt2, …" */
void bb_family_config_types(struct bb_strbuf *out);

int64_t *bb_hyper_at(struct bb_hyper *hyper, const struct bb_hyper_row *row);

/*
 * Read a config.json into HYPER, -1 where it says nothing, and FAMILY. BB_EUSAGE with a sentence
 * that names file and key. The file is read whole, if it is regular and not larger than any
 * config.json is.
 */
BB_MUST bb_status bb_config_read(const char *path, struct bb_hyper *hyper,
				 const struct bb_family **family, struct bb_error *error);

#endif
