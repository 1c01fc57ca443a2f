/*
 * training.h - memory of a rank of a training run: states and activations of its part of a model,
 * and DeepSpeed's buffers where they are given. It is calculated by pure functions of numbers,
 * without the memory of libraries, other buffers and fragmentation.
 *
 * A run has dp x tp x pp ranks. Tensor parallelism divides matrices and leaves vectors whole. A
 * pipeline divides the blocks (bb_layers_before); the first stage has the embedding too, and the
 * last one the head, with a second copy of the embedding if both share weights. Experts are divided
 * among EP of the data-parallel ranks, so that dp / ep ranks hold the same.
 */
#pragma once

#include "models/memory/onebit.h"
#include "models/model.h"

/* ---- states ---------------------------------------------------------------------------------- */

/*
 * The memory of each parameter: the parameter itself, its gradient and the state of the optimizer;
 * and how ZeRO divides them among data-parallel ranks. All bytes are exact.
 *
 *   stage   parameters   gradients   optimizer    FSDP
 *   0       whole        whole       whole        NO_SHARD (and DistributedDataParallel)
 *   1       whole        whole       divided
 *   2       whole        divided     divided      SHARD_GRAD_OP
 *   3       divided      divided     divided      FULL_SHARD
 *
 * Rajbhandari et al., ZeRO (arXiv 1910.02054), section 5 and figure 1.
 */

#define BB_ZERO_STAGES 4

/* Number formats, as bytes of one parameter. */
struct bb_precision {
	const char *name;
	unsigned parameter; /* as the forward pass reads it */
	unsigned gradient;  /* as the backward pass writes it and ranks reduce it */
	unsigned master;    /* fp32 copies of parameter and gradient, part of the optimizer */
	unsigned moment;    /* each moment of an optimizer without a format of its own */
};

struct bb_optimizer {
	const char *name;
	unsigned moments; /* of each parameter */
	unsigned moment;  /* bytes of one; 0: that of the precision */
	bool factored;    /* one more moment, kept as sums of the rows and columns of a matrix */
	enum bb_onebit_kind onebit; /* exchanges signs and remembers what they lose */
};

/* Indices of bb_precisions and bb_optimizers. */
enum bb_precision_index { BB_MIXED, BB_MEGATRON_BF16, BB_MEGATRON_FP16, BB_ALL_FP32, BB_ALL_BF16 };
enum bb_optimizer_index {
	BB_ADAMW,
	BB_ADAMW_8BIT,
	BB_SGD,
	BB_ADAFACTOR,
	BB_ADAM_1BIT,
	BB_ADAM_0_1,
	BB_LAMB_1BIT
};

/* Both end with name NULL; the words are their names in the same order, and end with NULL. */
extern const struct bb_precision bb_precisions[];
extern const char *const bb_precision_words[];
extern const struct bb_optimizer bb_optimizers[];
extern const char *const bb_optimizer_words[];

struct bb_recipe {
	const struct bb_precision *precision;
	const struct bb_optimizer *optimizer;
};

/* Bytes of the three kinds. */
struct bb_states {
	uint64_t parameters, gradients, optimizer;
};

uint64_t bb_states_sum(const struct bb_states *states);

/* Bytes of one parameter, without a factored moment: {2, 2, 12} is ZeRO's fp16 Adam with K = 12. */
struct bb_states bb_states_each(const struct bb_recipe *recipe);

/*
 * Elements of a rank if ELEMENTS are divided among RANKS (at least 1). As in ZeRO and FSDP they
 * form one flat array, padded to a multiple of RANKS. The padding, less than RANKS elements at the
 * end, takes memory like any other element.
 */
uint64_t bb_partition(uint64_t elements, uint64_t ranks);

/*
 * Bytes of a rank for ELEMENTS (at most 2^56) under ZeRO STAGE (0 to 3) with RANKS data-parallel
 * ranks. FACTORED is the number of sums of rows and columns (bb_factored_elements), 0 unless the
 * optimizer is factored. Only stage 0 allows them, since a flat array has no rows and columns.
 */
struct bb_states bb_states_of_rank(const struct bb_recipe *recipe, uint64_t elements,
				   uint64_t factored, int stage, uint64_t ranks);

/*
 * Bytes of the error memory of a coded optimizer among RANKS ranks, 0 of any other: fp32 of all
 * ELEMENTS, padded to a multiple of RANKS lcm(RANKS, 8), for what a rank loses as a worker, and of
 * its part of them, for what it loses as a server (deepspeed/runtime/comm/nccl.py). DeepSpeed pads
 * each tensor; the elements are taken as one here.
 */
uint64_t bb_error_bytes(const struct bb_recipe *recipe, uint64_t elements, uint64_t ranks);

/* Sums that Adafactor keeps instead of the squares of a tensor of ROWS x COLUMNS (1: a vector,
   whose squares it keeps). */
uint64_t bb_factored_elements(uint64_t rows, uint64_t columns);

/*
 * Bytes that each of RANKS ranks sends by rings in a step of STEPS microbatches on ELEMENTS.
 * Gradients are reduced and parameters gathered in their own formats; stage 0 reduces and gathers
 * gradients, as an all-reduce. With one microbatch that is 2 times ELEMENTS for stages 0 to 2 and 3
 * times for stage 3, each times (ranks - 1) / ranks, which section 7 of the paper rounds to 1.
 * Stages 0 and 1 reduce once a step, stage 2 for each microbatch; stage 3 gathers twice and reduces
 * once for each microbatch.
 */
uint64_t bb_zero_bytes(const struct bb_recipe *recipe, uint64_t elements, int stage, uint64_t ranks,
		       uint64_t steps);

/* ---- activations ----------------------------------------------------------------------------- */

/*
 * Memory that the forward pass of a transformer keeps for the backward pass. Bytes that exceed 64
 * bits are UINT64_MAX.
 *
 * Korthikanti et al. 2022 (arXiv 2205.05198), sections 4 and 5 and table 2. For heads x width = h,
 * a feed-forward network of 4 h and 16 bits, a layer keeps, for a microbatch of b sequences of s
 * tokens, with a heads and t tensor-parallel ranks:
 *
 *   none                            s b h (34 + 5 a s / h)
 *   tensor parallel                 s b h (10 + 24 / t + 5 a s / (h t))
 *   tensor and sequence parallel    s b h (34 / t + 5 a s / (h t))
 *   selective recomputation         the same without the term 5 a s / h
 *   full recomputation              2 s b h, divided by t if sequence parallel
 *
 * The 34 are: inputs of two norms 4, input of queries, keys and values 2, these themselves 6, input
 * of the output projection 2, input of the feed-forward network 2 and its two inner inputs 16, and
 * two dropout masks of one byte each. The 5 are the output of softmax, the dropout mask and the
 * output of dropout. Other widths follow: fewer heads for keys and values, another inner width, and
 * gates (three inner inputs instead of two). Gated families train without dropout: neither masks
 * nor its output. FlashAttention (Dao et al., arXiv 2205.14135), the default, replaces the 5 by a
 * sum of each row of scores, 4 bytes for each token and head. The feed-forward network counts once
 * for each expert that computes a token. Latent attention adds the latent vectors of queries, keys
 * and values.
 */

enum bb_recompute { BB_RECOMPUTE_NONE, BB_RECOMPUTE_SELECTIVE, BB_RECOMPUTE_FULL };
extern const char *const bb_recompute_words[];

enum bb_pipelining { BB_1F1B, BB_INTERLEAVED, BB_GPIPE };
extern const char *const bb_pipeline_words[];

/* A layer and its microbatch. */
struct bb_layer {
	uint64_t seq, batch;    /* tokens of a sequence, sequences of a microbatch */
	uint64_t hidden, heads; /* as in struct bb_hyper */
	uint64_t queries, keys; /* heads x width: of queries, of keys (and values) */
	uint64_t ffn, routes; /* inner width; networks that compute each token, shared ones, too */
	int64_t extra;  /* numbers of a token beside these: latent vectors, widths that differ */
	bool gated;     /* gated feed-forward network, no dropout */
	unsigned bytes; /* of an element: 2 or 4 */
	uint64_t tp;    /* tensor-parallel ranks, at least 1 */
	bool sequence_parallel; /* among the same ranks */
	bool eager; /* scores are stored; FlashAttention keeps an fp32 sum of each row */
};

/* A layer of MODEL, a transformer, without parallelism, by FlashAttention; SPARSE: one that has
   experts. */
struct bb_layer bb_layer_of_model(const struct bb_model *model, bool sparse, uint64_t batch,
				  unsigned bytes);

/* Bytes that a layer keeps on each rank until its backward pass. */
uint64_t bb_layer_kept(const struct bb_layer *layer, enum bb_recompute recompute);

/* Bytes that the backward pass of a layer recomputes and then holds beside them. */
uint64_t bb_layer_recomputed(const struct bb_layer *layer, enum bb_recompute recompute);

/*
 * Bytes outside the layers on each rank, for a microbatch (section 4.3): before them the dropout
 * mask of the embedding; behind them the inputs of the last norm and of the head, and logits in
 * fp32.
 */
uint64_t bb_embedding_kept(const struct bb_layer *layer);
uint64_t bb_head_kept(const struct bb_layer *layer, uint64_t vocab);

/*
 * Maximum number of chunks whose activations STAGE (0 to STAGES-1) of a pipeline keeps. A chunk is
 * one of MICRO_BATCHES microbatches in 1 / CHUNKS of the layers of the stage:
 *
 *   GPipe        all of them                               Huang et al. (arXiv 1811.06965)
 *   1F1B         STAGES - STAGE                            Narayanan et al., SC21, section 2.2.1
 *   interleaved  2 (p-1-i) + (v-1) p + 1 for stage i of p in v chunks: those of its warm-up and one
 *                more, on stage 0 p (1 + (p-1) / (p v)) microbatches    Megatron-LM; section 2.2.2
 */
uint64_t bb_in_flight(enum bb_pipelining schedule, uint64_t stage, uint64_t stages, uint64_t chunks,
		      uint64_t micro_batches);

/* a + b and a * b; UINT64_MAX if that exceeds 64 bits. */
uint64_t bb_bytes_add(uint64_t a, uint64_t b);
uint64_t bb_bytes_times(uint64_t a, uint64_t b);

/* ---- a run ----------------------------------------------------------------------------------- */

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
/* FLOPs of a sequence through some layers, with eager attention. */
struct bb_layers_work {
	double forward, input, weights; /* as in struct bb_work */
	/* Of FORWARD: the cores of attention, and what FlashAttention does of these. */
	double core, flash;
};

struct bb_model_layout {
	struct bb_piece *before; /* [i]: sum of pieces 0 to i-1: embedding, blocks, head; owned */
	size_t pieces;
	struct bb_layers_work *works; /* [i]: of the same layers; owned; NULL without a model */
	struct bb_piece largest;      /* that with the most elements; zero without a model */
	uint64_t embedding;           /* elements of the embedding that the head shares; 0: none */
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
 * gathered ones before it releases some. Its hpZ (ZeRO++, arXiv 2306.10209) divides the parameters
 * a second time, among the HPZ ranks of a node; 0 or 1: it does not.
 */
struct bb_training_buffers {
	uint64_t reduce, gather, prefetch, live;
	uint64_t hpz;
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
	BB_NEED_ERRORS, /* bb_error_bytes */
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
