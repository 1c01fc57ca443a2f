/*
 * training.h - memory of a rank of a training run: states (states.h) and activations
 * (activations.h) of its part of a model, and DeepSpeed's buffers where they are given. It is
 * calculated, without the memory of libraries, other buffers and fragmentation.
 *
 * A run has dp x tp x pp ranks. Tensor parallelism divides matrices and leaves vectors whole. A
 * pipeline divides the blocks (bb_layers_before); the first stage has the embedding too, and the
 * last one the head, with a second copy of the embedding if both share weights. Experts are divided
 * among EP of the data-parallel ranks, so that dp / ep ranks hold the same.
 */
#pragma once

#include "models/memory/activations.h"
#include "models/memory/states.h"

/* DeepSpeed's ZeRO-Offload: states in the memory of the host. */
enum bb_offload {
	BB_OFFLOAD_NONE,
	BB_OFFLOAD_OPTIMIZER, /* with gradients, which it needs there; from stage 1 on */
	BB_OFFLOAD_PARAMETERS /* all states; stage 3 */
};
extern const char *const bb_offload_words[];

/* Elements of one or several layers. */
struct bb_piece {
	uint64_t matrices, vectors, experts;
	uint64_t factored;       /* bb_factored_elements of all tensors */
	uint64_t blocks, sparse; /* blocks of the model among them; those with experts */
};

/* Elements and FLOPs of a model by layer. */
struct bb_model_layout {
	struct bb_piece *before; /* [i]: sum of pieces 0 to i-1: embedding, blocks, head; owned */
	size_t pieces;
	struct bb_work *works;   /* [i]: FLOPs of the same layers; owned; NULL without a model */
	struct bb_piece largest; /* that with the most elements; zero without a model */
	uint64_t embedding;      /* elements of the embedding that the head shares; 0: none */
};

/* The layout of MODEL or, if that is NULL, of PARAMETERS in one block. BB_EINTERNAL without
   memory. */
BB_MUST bb_status bb_model_layout_make(struct bb_model_layout *layout, const struct bb_model *model,
				       uint64_t parameters, struct bb_error *error);
void bb_model_layout_free(struct bb_model_layout *layout);

/*
 * DeepSpeed's buffers, in elements, as its page "DeepSpeed Configuration JSON" defines them; all 0:
 * not counted. Stages 1 and 2 have REDUCE gradients at a time, twice if they OVERLAP
 * (deepspeed/runtime/zero/stage_1_and_2.py has two buffers then), and all-gather GATHER parameters
 * at a time. Stage 3 has REDUCE, too, a fixed buffer of PREFETCH parameters, and keeps LIVE
 * gathered ones before it releases some.
 */
struct bb_training_buffers {
	uint64_t reduce, gather, prefetch, live;
	bool overlap;
};

struct bb_training {
	const struct bb_model *model; /* NULL: only a number of parameters; no activations */
	const struct bb_model_layout *layout;
	struct bb_recipe recipe;
	double trainable; /* share of the parameters with gradient and state, 0 < f <= 1 */
	int zero;
	enum bb_offload offload;
	uint64_t dp, tp, pp, ep;
	bool sequence_parallel;
	bool eager; /* attention stores its scores: no FlashAttention */
	enum bb_pipelining schedule;
	uint64_t chunks;                     /* of a stage; above 1 only if interleaved */
	uint64_t micro_batch, micro_batches; /* sequences of one; number in a step */
	enum bb_recompute recompute;
	struct bb_training_buffers buffers;
};

/* MODEL on one rank: all of it is trained by AdamW in mixed precision, a sequence at a time. */
struct bb_training bb_training_alone(const struct bb_model *model);

enum bb_category {
	BB_NEED_PARAMETERS,
	BB_NEED_GRADIENTS,
	BB_NEED_OPTIMIZER,
	/* Stage 3: parameters and gradients of the largest layer, whole, or buffers.live parameters
	   if they are more. */
	BB_NEED_GATHERED,
	BB_NEED_BUCKETS, /* the other buffers */
	BB_NEED_ACTIVATIONS,
	BB_NEED_RECOMPUTED, /* activations of one layer, recomputed */
	BB_NEED_ENDS,       /* activations of embedding, head and logits */
	BB_CATEGORIES
};
extern const char *const bb_category_words[BB_CATEGORIES];

/* Memory of one rank. */
struct bb_need {
	uint64_t bytes[BB_CATEGORIES];
	uint64_t total;          /* of them; UINT64_MAX: exceeds 64 bits */
	uint64_t host;           /* offloaded, not in the total */
	uint64_t elements;       /* parameters of this stage and tensor rank, before ZeRO */
	uint64_t experts;        /* those of experts */
	uint64_t layers, sparse; /* blocks of this stage; those with experts */
	uint64_t stage;          /* of the pipeline */
	uint64_t chunks;         /* bb_in_flight */
};

/*
 * Number of LAYERS in the stages before STAGE of PP, which is at most LAYERS; all of them for STAGE
 * PP. If PP divides LAYERS + 2 but not LAYERS, embedding and head count as a layer each, so that
 * the first and the last stage have one layer less, as in BLOOM and in Megatron-LM with
 * --account-for-embedding-in-pipeline-split and its like for the loss. Otherwise STAGE x LAYERS /
 * PP.
 */
uint64_t bb_layers_before(uint64_t layers, uint64_t pp, uint64_t stage);

/* Whether activations are known: the model is a transformer. */
bool bb_training_has_activations(const struct bb_training *t);

/* BB_EUSAGE with a sentence that names the option which contradicts others. */
BB_MUST bb_status bb_training_check(const struct bb_training *t, struct bb_error *error);

/* Memory of a rank of STAGE, and of the stage that needs most, of a training that bb_training_check
   accepts. */
struct bb_need bb_training_stage(const struct bb_training *t, uint64_t stage);
struct bb_need bb_training_most(const struct bb_training *t);

/* Memory of a rank of STAGE if that keeps the activations of CHUNKS, each as in bb_in_flight, by a
   schedule of its own. A chunk has up to one layer more than an equal share, also of those with
   experts. */
struct bb_need bb_training_keeping(const struct bb_training *t, uint64_t stage, uint64_t chunks);

/* Elements of the layers FIRST to LAST-1 of LAYOUT, of which 0 is the embedding and the last the
   head; and those of PIECE added to TO. */
struct bb_piece bb_layout_pieces(const struct bb_model_layout *layout, size_t first, size_t last);
void bb_piece_add(struct bb_piece *to, const struct bb_piece *piece);

/* Sets the states of NEED to those of a rank that has PIECE, all tensor ranks together. */
void bb_training_states(const struct bb_training *t, const struct bb_piece *piece,
			struct bb_need *need);

/* The largest category. */
enum bb_category bb_need_tightest(const struct bb_need *need);
