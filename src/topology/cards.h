/*
 * cards.h - GPUs by their product names in drivers, logs and published tables.
 */
#pragma once

#include <stdint.h>

/* Products whose links are the same. */
struct bb_card {
	const char *name;        /* "H100", as opposed to "H100 PCIe" */
	int of_node;             /* maximum GPUs per node; 0: any number, in slots */
	int of_domain;           /* maximum GPUs joined by NVLink or its like; 0: bridges or none */
	int peak_TFLOPS;         /* of 16 bits, without sparsity; 0 unknown */
	const char *const *also; /* product names, ends with NULL; NULL: none */
};

/* The least number of nodes for RANKS. */
static inline int64_t bb_card_nodes(const struct bb_card *card, int64_t ranks)
{
	return card->of_node > 0 ? (ranks + card->of_node - 1) / card->of_node : 1;
}

/* The I-th card; NULL beyond the last. */
const struct bb_card *bb_card_at(int i);

/*
 * The card with NAME: its own name, a product name ("NVIDIA A100-SXM4-80GB", with or without the
 * vendor), the GPU model of a known system ("A100 SXM4 80GB"), or the name of that system. Parts of
 * names do not match. NULL: unknown.
 */
const struct bb_card *bb_card_find(const char *name);

/*
 * The name that was meant by NAME, which bb_card_find does not know: the same but for a typing
 * error outside of the words with a digit ("H100 PCLe", "RTX4090"). These words name the card, so
 * another one is another card: nothing is suggested for B100 or MI300A. NULL: none.
 */
const char *bb_card_suggest(const char *name);

/* The I-th known system with CARD; NULL beyond the last. The first one is the usual machine, and
   every card has one. */
const char *bb_card_system(const struct bb_card *card, int i);
