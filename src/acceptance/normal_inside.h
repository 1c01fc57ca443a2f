/*
 * normal_inside.h - shared by the files of a verdict on claims.
 */
#ifndef BB_ACCEPTANCE_NORMAL_INSIDE_H
#define BB_ACCEPTANCE_NORMAL_INSIDE_H

#include "acceptance/normal.h"
#include "topology/cards.h"

/* A table of claims to be judged. */
struct bb_question {
	const struct bb_claims *claims;
	const struct bb_references *references;
	const struct bb_circumstances *given;
	const char *gpu;            /* its name by the user or the file; "": unknown */
	const struct bb_card *card; /* NULL: not in src/topology/cards.c */
	const char *collective;     /* "": unknown */
	int64_t ranks, nodes;       /* 0: unknown */
	struct bb_strbuf *out;
};

/* The least number of nodes for RANKS. */
int64_t bb_normal_nodes(const struct bb_card *card, int64_t ranks);
/* True if NVLink connects all RANKS on NODES nodes (0: unknown). */
bool bb_normal_is_near(const struct bb_card *card, int64_t ranks, int64_t nodes);

/* ---- each appends a sentence about its result ------------------------------------------- */

/* Find the collective; if the file does not name it, by the ratio of its bandwidths. Returns false
   if several have that ratio. */
bool bb_normal_find_collective(struct bb_question *q);
/* Find the number of ranks. Returns false if no number of ranks has the ratio of bandwidths. */
bool bb_normal_find_ranks(struct bb_question *q);
void bb_normal_find_nodes(struct bb_question *q);
/* Whether even the largest size is bound by latency, so that no row shows a bandwidth. */
bool bb_normal_is_latency(const struct bb_question *q);
/* Compare the rows with each other: BB_UNEVEN, BB_NORMAL or, without memory, BB_UNKNOWN. */
enum bb_normality bb_normal_evenness(const struct bb_question *q);
/* Compare with published runs; BB_UNKNOWN: there are none. */
enum bb_normality bb_normal_published(const struct bb_question *q);
/* A collective of so many ranks, as many on each node. */
struct bb_normal_shape {
	const char *collective, *algorithm; /* "" or "auto": any */
	int64_t ranks, nodes;
	bool by_sharp; /* the network's switches may reduce, which few systems are set up for */
};
static inline struct bb_normal_shape bb_normal_shape_of(const struct bb_question *q, int64_t ranks,
							int64_t nodes)
{
	return (struct bb_normal_shape){q->collective, q->claims->algorithm, ranks, nodes, false};
}

/* The highest bound of SHAPE over the known systems with CARD that have room for its ranks, and
   over the algorithms of its collective. GBPS 0: there is none. */
struct bb_normal_bound {
	double GBps;
	const char *system, *algorithm; /* "hgx-h100", "NVLS" */
	char why[256];
};
struct bb_normal_bound bb_normal_bound_of(const struct bb_card *card,
					  const struct bb_normal_shape *shape);
/* Compare with the bounds of links. BB_IMPOSSIBLE: more than those of any known system with such
   cards can carry. */
enum bb_normality bb_normal_judge_bound(const struct bb_question *q);

#endif
