/*
 * training.h - what a rank of a training run needs: states (states.h) and activations
 * (activations.h) of its part of a model. Calculated, never measured; not counted are what the
 * libraries keep for themselves, buffers of communication and fragmentation.
 *
 * A run has dp x tp x pp ranks. Tensor parallelism divides matrices and leaves vectors whole; a
 * pipeline gives stage i of p the blocks i L / p … (i + 1) L / p - 1, the first one the embedding
 * too and the last one the head, with a second copy of the embedding where both share weights.
 * Experts are divided among EP of the data-parallel ranks, so that dp / ep ranks hold the same.
 */
#ifndef BB_MODELS_MEMORY_TRAINING_H
#define BB_MODELS_MEMORY_TRAINING_H

#include "models/memory/activations.h"
#include "models/memory/states.h"

/* DeepSpeed's ZeRO-Offload: what is in the memory of the host instead. */
enum bb_offload {
	BB_OFFLOAD_NONE,
	BB_OFFLOAD_OPTIMIZER, /* and gradients, which the optimizer there needs; from stage 1 on */
	BB_OFFLOAD_PARAMETERS /* all; stage 3 */
};
extern const char *const bb_offload_words[];

/* Elements of a layer, or of several. */
struct bb_piece {
	uint64_t matrices, vectors, experts;
	uint64_t factored; /* bb_factored_elements of all tensors */
};

/* How a model's elements lie in its layers. */
struct bb_model_layout {
	struct bb_piece *before; /* [i]: all pieces before piece i; 0: embedding, blocks, head */
	size_t pieces;
	struct bb_piece
		largest;    /* the piece that has most elements; none is known of a size alone */
	uint64_t embedding; /* elements of the embedding that the head shares; 0: none */
};

/* Of MODEL, or, where that is NULL, of PARAMETERS of which no more is known: one block.
   BB_EINTERNAL without memory. */
BB_MUST bb_status bb_model_layout_make(struct bb_model_layout *layout, const struct bb_model *model,
				       uint64_t parameters, struct bb_error *error);
void bb_model_layout_free(struct bb_model_layout *layout);

struct bb_training {
	const struct bb_model *model; /* NULL: a size alone, states alone */
	const struct bb_model_layout *layout;
	struct bb_recipe recipe;
	double trainable; /* 0 < f <= 1: of the parameters, that have a gradient and a state */
	int zero;
	enum bb_offload offload;
	uint64_t dp, tp, pp, ep;
	bool sequence_parallel, flash;
	enum bb_pipelining schedule;
	uint64_t chunks;                     /* of a stage; interleaved alone: more than 1 */
	uint64_t micro_batch, micro_batches; /* sequences; of a step */
	enum bb_recompute recompute;
};

enum bb_category {
	BB_NEED_PARAMETERS,
	BB_NEED_GRADIENTS,
	BB_NEED_OPTIMIZER,
	BB_NEED_GATHERED, /* stage 3: parameters and gradients of the layer that is worked on */
	BB_NEED_ACTIVATIONS,
	BB_NEED_MADE_AGAIN, /* activations of the layer that is computed again */
	BB_NEED_ENDS,       /* activations of embedding, head and logits */
	BB_CATEGORIES
};
extern const char *const bb_category_words[BB_CATEGORIES];

/* Of one rank. */
struct bb_need {
	uint64_t bytes[BB_CATEGORIES];
	uint64_t total;    /* of them; UINT64_MAX: does not fit into 64 bits */
	uint64_t host;     /* offloaded, beside them */
	uint64_t elements; /* parameters of this stage and tensor rank, before ZeRO */
	uint64_t experts;  /* those of them that are of experts */
	uint64_t stage;    /* of the pipeline */
	uint64_t chunks;   /* bb_in_flight */
};

/*
 * Layers of the stages before STAGE of PP, which is at most LAYERS; STAGE PP: all of them. Where PP
 * does not divide the layers but does once embedding and head count as one each, they do, so that
 * the first and the last stage have one less: so was BLOOM divided, and so does Megatron-LM with
 * --account-for-embedding-in-pipeline-split and its like for the loss. Otherwise STAGE LAYERS / PP.
 */
uint64_t bb_layers_before(uint64_t layers, uint64_t pp, uint64_t stage);

/* Are activations known of it? */
bool bb_training_has_activations(const struct bb_training *t);

/* BB_EUSAGE with a sentence that names the option that does not go with the others. */
BB_MUST bb_status bb_training_check(const struct bb_training *t, struct bb_error *error);

/* Of a training that bb_training_check likes: of a rank of STAGE, and of the stage that needs most.
 */
struct bb_need bb_training_stage(const struct bb_training *t, uint64_t stage);
struct bb_need bb_training_most(const struct bb_training *t);

/* The category that takes most. */
enum bb_category bb_need_tightest(const struct bb_need *need);

#endif
