/*
 * calculators.h - what the subjects infer, deepspeed and quantise of model_memory calculate. Pure.
 */
#ifndef BB_MEMORY_TOOL_CALCULATORS_H
#define BB_MEMORY_TOOL_CALCULATORS_H

#include "core/status.h"
#include "models/model.h"

/* ---- infer.c -------------------------------------------------------------------------------- */

/* Memory of inference: weights and the cache of keys and values. Bytes that exceed 64 bits are
   UINT64_MAX. */

/* Bytes of PARAMETERS (at most 2^56) of BITS (1 to 32) each. */
uint64_t bb_weight_bytes(uint64_t parameters, unsigned bits);

/*
 * The rule of thumb M = P x 4 bytes / (32 / Q) x 1.2 for P PARAMETERS of Q BITS: 20% for everything
 * beside the weights, for any batch and context.
 */
uint64_t bb_serving_rule(uint64_t parameters, unsigned bits);

/*
 * Numbers that the cache of MODEL, a transformer that generates, keeps on each of TP
 * tensor-parallel ranks for a sequence of TOKENS: keys and values of each layer. With grouped-query
 * attention their heads are fewer than those of queries (Ainslie et al., arXiv 2305.13245); if
 * ranks outnumber them, several ranks hold the same head. A local layer keeps those of its window.
 * Latent attention keeps a latent vector and the rotated part of the keys, whole on each rank
 * (arXiv 2405.04434). A layer that attends to an encoder's output, taken to be as long, keeps
 * those, too.
 */
uint64_t bb_cache_numbers(const struct bb_model *model, uint64_t tp, uint64_t tokens);

/* Bytes of NUMBERS of BITS each, for each of SEQUENCES. */
uint64_t bb_cache_bytes(uint64_t numbers, uint64_t sequences, unsigned bits);

/* ---- zero.c --------------------------------------------------------------------------------- */

/*
 * DeepSpeed's own estimates, reproduced exactly: those of
 * estimate_zero2_model_states_mem_needs in deepspeed/runtime/zero/stage_1_and_2.py and of
 * estimate_zero3_model_states_mem_needs in stage3.py. They count only states, of Adam in mixed
 * precision. Bytes that exceed 64 bits are UINT64_MAX.
 */

struct bb_deepspeed_input {
	uint64_t parameters;    /* of the model */
	uint64_t largest_layer; /* parameters of its largest module, for stage 3 */
	uint64_t nodes, gpus_per_node;
};

struct bb_deepspeed_estimate {
	uint64_t gpu;  /* bytes of each GPU */
	uint64_t host; /* bytes of each node's memory, with DeepSpeed's factor of 1.5 for buffers */
};

struct bb_deepspeed_estimate bb_deepspeed_zero2(const struct bb_deepspeed_input *in,
						bool cpu_offload);
/* ZERO_INIT: the model is created under zero.Init, so no process ever holds all of it. */
struct bb_deepspeed_estimate bb_deepspeed_zero3(const struct bb_deepspeed_input *in,
						bool cpu_offload, bool cpu_offload_params,
						bool zero_init);

/*
 * Stage 2 without offload as documented by DeepSpeed (docs/code-docs, "Memory Requirements"): 4 P +
 * 16 P / GPUs, where its code computes 2 P + 18 P / GPUs.
 */
uint64_t bb_deepspeed_zero2_documented(const struct bb_deepspeed_input *in);

/* ---- quantise.c ----------------------------------------------------------------------------- */

/*
 * A tensor in integers of 8 or 4 bits with one scale, and back.
 *
 * Codes go from -M to M, M = 127 or 7:
 *   min/max   linear: the smallest number becomes -M, the largest M
 *   scale     code = round(x / scale), scale = largest magnitude / M; 0 stays 0
 * Halves round to even, as in torch.round.
 */

enum bb_quantise_method { BB_BY_MINMAX, BB_BY_SCALE };

struct bb_quantised {
	unsigned bits; /* 8 or 4 */
	size_t n;
	float scale; /* between neighbouring codes; 0: all numbers are equal (scale: all are 0) */
	float zero;  /* number that code 0 stands for */
	unsigned char *codes; /* of 4 bits: two in a byte, the first one low; owned */
	uint64_t bytes;       /* of codes, scale and, by min/max, zero */
};

/*
 * Quantise N (at least 1) numbers of X. BB_EUSAGE if a number or the range of all is not finite;
 * BB_EINTERNAL without memory. The caller frees Q whatever is returned.
 */
BB_MUST bb_status bb_quantise(struct bb_quantised *q, const float *x, size_t n, unsigned bits,
			      enum bb_quantise_method method, struct bb_error *error);
void bb_quantised_free(struct bb_quantised *q);

int bb_quantised_code(const struct bb_quantised *q, size_t i);
float bb_quantised_number(const struct bb_quantised *q, size_t i); /* decoded */

/* Maximum and root mean square of the differences between decoded numbers and X. */
struct bb_quantise_loss {
	double most, rms;
};
struct bb_quantise_loss bb_quantise_loss(const struct bb_quantised *q, const float *x);

#endif
