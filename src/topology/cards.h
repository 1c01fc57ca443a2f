/*
 * cards.h - GPUs by the full names that drivers, logs and published tables give them.
 */
#ifndef BB_TOPOLOGY_CARDS_H
#define BB_TOPOLOGY_CARDS_H

/* Cards with the same communication. */
struct bb_card {
	const char *name; /* "H100", which is not the "H100 PCIe" */
	int of_node;      /* maximum GPUs of a node; 0: any number, in slots */
	int of_domain;    /* maximum GPUs that NVLink or its like joins; 0: bridges or none */
	const char *const *also; /* full product names, NULL behind the last; NULL: none */
};

/* The I-th card; NULL beyond the last. */
const struct bb_card *bb_card_at(int i);

/*
 * The card called NAME: by its own name, a full product name ("NVIDIA A100-SXM4-80GB", with or
 * without the maker), the model of a known system ("A100 SXM4 80GB"), or the known system itself.
 * Parts of names do not match. NULL: unknown.
 */
const struct bb_card *bb_card_find(const char *name);

/* The I-th known system with CARD; NULL beyond the last. */
const char *bb_card_system(const struct bb_card *card, int i);

#endif
