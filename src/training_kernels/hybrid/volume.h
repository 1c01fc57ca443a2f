/*
 * volume.h - what a rank communicates in a step of hybrid-parallel training. Pure
 * arithmetic: nothing is measured.
 *
 * A = bytes s b h of what goes from layer to layer, for a micro-batch of b sequences of s tokens.
 * Of a layer, for each micro-batch:
 *
 *   tensor     2 all-reduces of A forward, 2 backward, 2 more where the forward pass is made again
 *              in full (Shoeybi et al., arXiv 1909.08053, section 3). With sequence parallelism
 *              each is an all-gather and a reduce-scatter, of the same bytes together, and what the
 *              two matrices divided by columns read is gathered again in the backward pass
 *              (Korthikanti et al., arXiv 2205.05198, section 4.2.2). Of experts it is then the
 *              rows that came to them that are gathered: A times the experts of a token.
 *   expert     4 all-to-alls of A times the experts that a token goes through: dispatch and
 *              combine, forward and backward; 2 more where the forward pass is made again
 *
 * and of a stage:
 *
 *   tensor     of the first, an all-reduce of A for the embedding; of the last, one for the head
 *              and three of s b numbers of fp32 for the loss, of each micro-batch
 *   pipeline   A to the next stage and to the one before, of each micro-batch; A / t where the
 *              tensor ranks send a part each (Narayanan et al., SC21, section 4.1), which the
 *              receiver gathers unless it is sequence parallel
 *   data       gradients, and parameters under ZeRO, of the whole step: bb_zero_bytes
 *   embedding  where head and embedding share weights, an all-reduce of their gradient between the
 *              first stage and the last
 *
 * Collectives are done by rings: of n ranks and S bytes an all-reduce sends 2 (n-1) / n S in
 * 2 (n-1) rounds, all others half of it (Patarasuk and Yuan 2009). So over one kind of link a
 * volume takes rounds x latency + sent / rate.
 */
#ifndef BB_TRAINING_KERNELS_HYBRID_VOLUME_H
#define BB_TRAINING_KERNELS_HYBRID_VOLUME_H

#include "models/memory/states.h"
#include "training_kernels/hybrid/layout.h"

enum bb_traffic {
	BB_TRAFFIC_TENSOR,
	BB_TRAFFIC_EXPERT,
	BB_TRAFFIC_PIPELINE,
	BB_TRAFFIC_DATA,
	BB_TRAFFIC_EMBEDDING,
	BB_TRAFFICS
};
extern const char *const bb_traffic_words[BB_TRAFFICS];

/* What all stages have in common. */
struct bb_hybrid_step {
	struct bb_grid grid;
	uint64_t seq, hidden;
	uint64_t routes; /* experts that a token goes through; 0: there are none */
	uint64_t micro_batch, micro_batches;
	uint64_t embedding; /* elements that head and embedding share; 0: they do not */
	struct bb_recipe recipe;
	int zero;
	bool sequence_parallel;
	bool scatter;    /* tensor ranks send a part each to the next stage */
	bool made_again; /* the whole forward pass, in the backward pass */
};

/* What a rank of one stage has. */
struct bb_hybrid_part {
	uint64_t layers;
	bool first, last;
	uint64_t elements, experts; /* parameters of a rank; those of them that are of experts */
};

struct bb_volume {
	uint64_t calls;  /* collectives, or messages sent */
	uint64_t rounds; /* of all calls */
	double sent;     /* bytes, of all calls */
};

struct bb_hybrid_volumes {
	struct bb_volume of[BB_TRAFFICS]; /* of a rank in a step */
	uint64_t boundary;                /* bytes of a message between stages */
	uint64_t activation;              /* A */
};

struct bb_hybrid_volumes bb_hybrid_volumes_of(const struct bb_hybrid_step *step,
					      const struct bb_hybrid_part *part);

#endif
