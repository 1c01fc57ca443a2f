/*
 * hybrid_steps.h - steps of hybrid-parallel training by their sizes, without a model.
 */
#ifndef BB_TESTS_HYBRID_STEPS_H
#define BB_TESTS_HYBRID_STEPS_H

#include "training_kernels/hybrid/cost.h"

struct step {
	struct bb_grid grid;
	int64_t seq, hidden; /* tokens of a rank's part of a sequence */
	bool exchanges, scatter, sequence_parallel, recomputes;
	int64_t queries, keys; /* elements of a token on a rank */
	int64_t routes;        /* experts per token; 0: no experts */
	uint64_t micro_batch, micro_batches;
	uint64_t embedding; /* elements that head and embedding share; 0: none */
	struct bb_recipe recipe;
	int zero;
};

static inline struct bb_hybrid_volumes step_volumes(const struct step *s,
						    const struct bb_need *stage)
{
	const int cp = bb_grid_size(&s->grid, BB_AXIS_CP);
	const struct bb_model model = {.hyper = {.seq = s->seq * cp,
						 .hidden = s->hidden,
						 .head_dim = 1,
						 .heads = s->queries * s->grid.tp,
						 .kv_heads = s->keys * s->grid.tp,
						 .top_k = s->routes}};
	const struct bb_model_layout layout = {.embedding = s->embedding};
	const struct bb_hybrid_division division = {
		.grid = s->grid,
		.exchanges = s->exchanges,
		.scatter = s->scatter,
		.training = {.model = &model,
			     .layout = &layout,
			     .recipe = s->recipe,
			     .zero = s->zero,
			     .tp = (uint64_t)s->grid.tp,
			     .pp = (uint64_t)s->grid.pp,
			     .sequence_parallel = s->sequence_parallel,
			     .micro_batch = s->micro_batch,
			     .micro_batches = s->micro_batches,
			     .recompute = s->recomputes ? BB_RECOMPUTE_FULL : BB_RECOMPUTE_NONE}};

	return bb_hybrid_volumes_of(&division, stage);
}

#endif
