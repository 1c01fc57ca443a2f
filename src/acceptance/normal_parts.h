/*
 * normal_parts.h - shared by the parts of a verdict on claims.
 */
#ifndef BB_ACCEPTANCE_NORMAL_PARTS_H
#define BB_ACCEPTANCE_NORMAL_PARTS_H

#include "acceptance/normal.h"
#include "topology/cards.h"

/* One table of claims in question. */
struct bb_question {
	const struct bb_claims *claims;
	const struct bb_references *references;
	const struct bb_circumstances *said;
	const char *gpu;            /* as the user or the file calls it; "": nobody says */
	const struct bb_card *card; /* NULL: in no table */
	const char *collective;     /* "": unknown */
	int64_t ranks, nodes;       /* 0: unknown */
	struct bb_strbuf *out;
};

/* How many nodes RANKS need at least. */
int64_t bb_normal_nodes(const struct bb_card *card, int64_t ranks);
/* Whether NVLink joins that many nodes, of which RANKS are on as many as they must; 0: not said. */
bool bb_normal_is_near(const struct bb_card *card, int64_t ranks, int64_t nodes);

/* ---- each says in words what it finds ---- */

/* The collective, of a file that does not name it by its ratio of bandwidths; false: several have
   that ratio. */
bool bb_normal_find_collective(struct bb_question *q);
/* How many ranks; false: the ratio of bandwidths is that of no number of ranks. */
bool bb_normal_find_ranks(struct bb_question *q);
void bb_normal_find_nodes(struct bb_question *q);
/* Whether even the largest size is bound by latency, so that bandwidths say nothing. */
bool bb_normal_is_latency(const struct bb_question *q);
/* The rows of GPUs beside each other: BB_UNEVEN, BB_NORMAL or, without memory,
   BB_UNKNOWN. */
enum bb_normality bb_normal_evenness(const struct bb_question *q);
/* Beside published runs; BB_UNKNOWN: there are none. */
enum bb_normality bb_normal_published(const struct bb_question *q);
/* A collective of so many ranks, as many on each node. */
struct bb_normal_shape {
	const char *collective, *algorithm; /* "" or "auto": any */
	int64_t ranks, nodes;
	bool by_sharp; /* in the network's switches too, which few are set up for */
};
static inline struct bb_normal_shape bb_normal_shape_of(const struct bb_question *q, int64_t ranks,
							int64_t nodes)
{
	return (struct bb_normal_shape){q->collective, q->claims->algorithm, ranks, nodes, false};
}

/* The highest bound of the known systems with CARD on which the ranks of SHAPE have room, and of
   the ways in which its collective can be done. GBPS 0: there is none. */
struct bb_normal_bound {
	double GBps;
	const char *system, *way; /* "hgx-h100", "NVLS" */
	char why[256];
};
struct bb_normal_bound bb_normal_bound_of(const struct bb_card *card,
					  const struct bb_normal_shape *shape);
/* Beside the speed of light. BB_IMPOSSIBLE: more than the links of any known system with such
   cards carry. */
enum bb_normality bb_normal_light(const struct bb_question *q);

#endif
