/*
 * attention.h - the kernels of attention: eager ones store the scores of all pairs of tokens,
 * FlashAttention (Dao et al., arXiv 2205.14135) none. Memory follows in memory/activations.h, FLOPs
 * here: FlashAttention skips what a causal mask hides, half of the products of queries with keys
 * and of scores with values, and computes the scores once more in the backward pass, five products
 * instead of four.
 */
#ifndef BB_MODELS_ATTENTION_H
#define BB_MODELS_ATTENTION_H

#include "models/model.h"

enum bb_attention { BB_ATTENTION_FLASH, BB_ATTENTION_EAGER };
extern const char *const bb_attention_words[];

/* A line of a program's table of options; MORE is added to its help. */
#define BB_ATTENTION_OPTION(OPTION, more, ...)                                                     \
	OPTION(CHOICE, attention, "attention", 0, "flash",                                         \
	       "kernels of attention; flash: FlashAttention, which stores no scores and skips "    \
	       "masked ones; eager: all scores" more,                                              \
	       .choices = bb_attention_words, ##__VA_ARGS__)

/* "FlashAttention", "attention eager". */
const char *bb_attention_name(enum bb_attention attention);

/* WORK of a model as bb_model_open makes it, which is eager, by the kernels of ATTENTION. */
struct bb_work bb_attention_work(const struct bb_work *work, enum bb_attention attention);

/* Replace the FLOPs of MODEL, as bb_model_open made it, by those with ATTENTION. */
void bb_attention_apply(struct bb_model *model, enum bb_attention attention);

/* Forward FLOPs of the core of attention in LAYER for a sequence, which selective recomputation
   repeats. */
double bb_attention_core(const struct bb_model *model, int layer, enum bb_attention attention);

#endif
