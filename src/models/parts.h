/*
 * parts.h - the builder of models, and the table of families.
 */
#ifndef BB_MODELS_PARTS_H
#define BB_MODELS_PARTS_H

#include "models/model.h"

#define BB_MODEL_MOST_TENSORS ((size_t)1 << 20)
#define BB_MODEL_MOST_PARAMETERS (UINT64_C(1) << 56) /* so that bytes fit into 64 bits */

/* A model under construction. STATUS keeps the first failure, so that only bb_build_finish needs a
   check. */
struct bb_builder {
	struct bb_model *model;
	struct bb_error *error;
	bb_status status;
	size_t tensor_room, work_room;
	int layer;         /* of the tensors and works that follow */
	bool expert;       /* the tensors that follow belong to an expert */
	uint64_t matrices; /* stacked in each tensor that follows; 0: one */
	bool from_file;
};

/* Add a tensor of ROWS x COLUMNS (1: a vector). The work added last completes its gradient; there
   must be one. */
void bb_build_tensor(struct bb_builder *b, uint64_t rows, uint64_t columns, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
/* Let WORK complete the gradient of the tensor added last. */
void bb_build_set_work(struct bb_builder *b, size_t work);
/* Add a work without matrix products: a norm, a lookup. */
void bb_build_light(struct bb_builder *b);
/* Add matrix products with weights, of FORWARD FLOPs. The backward pass spends as many on the
   gradient of the weights and, if anything before it LEARNS, as many on that of the input. */
void bb_build_product(struct bb_builder *b, double forward, bool learns);
/* Add products of two inputs (attention), of FORWARD FLOPs. The backward pass spends as many on the
   gradient of each. */
void bb_build_attention(struct bb_builder *b, double forward);

/* Compute order and sums. Returns the first failure. */
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
	BB_HYPER_OPTIONAL, /* the family has a default */
};

#define BB_NHYPERS 14
#define BB_HYPER_KEYS 3

struct bb_hyper_row {
	const char *name; /* "layers" */
	size_t offset;    /* of an int64_t in struct bb_hyper */
	int64_t min, max;
	const char *keys[BB_HYPER_KEYS + 1]; /* in a config.json, synonyms; ends with NULL */
	bool is_bool;                        /* true or false in a config.json */
};

struct bb_family {
	const char *name; /* also model_type in a config.json */
	const char *brief;
	void (*build)(struct bb_builder *b);
	unsigned char uses[BB_NHYPERS]; /* enum bb_hyper_use of each of bb_hyper_rows */
	int64_t tied;                   /* default */
	int64_t seq;                    /* default for a config.json; 0: none */
};

extern const struct bb_hyper_row bb_hyper_rows[BB_NHYPERS];

/* The family of a config.json's model_type; NULL: none. */
const struct bb_family *bb_family_of_config(const char *model_type);
/* "bert, gpt2, …" */
void bb_family_config_types(struct bb_strbuf *out);

int64_t *bb_hyper_at(struct bb_hyper *hyper, const struct bb_hyper_row *row);

/*
 * Read the config.json at PATH into HYPER and FAMILY. Hyperparameters that the file lacks, or gives
 * as null, stay unchanged. BB_EUSAGE with a sentence that names file and key.
 */
BB_MUST bb_status bb_config_read(const char *path, struct bb_hyper *hyper,
				 const struct bb_family **family, struct bb_error *error);

#endif
