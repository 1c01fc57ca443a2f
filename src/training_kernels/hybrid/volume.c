#include "training_kernels/hybrid/volume.h"

const char *const bb_traffic_names[BB_TRAFFICS] = {
	[BB_TRAFFIC_TENSOR] = "tensor",       [BB_TRAFFIC_EXPERT] = "expert",
	[BB_TRAFFIC_PIPELINE] = "pipeline",   [BB_TRAFFIC_DATA] = "data",
	[BB_TRAFFIC_EMBEDDING] = "embedding", [BB_TRAFFIC_CONTEXT] = "context",
};

const enum bb_axis bb_traffic_axes[BB_TRAFFICS] = {
	[BB_TRAFFIC_TENSOR] = BB_AXIS_TP,    [BB_TRAFFIC_EXPERT] = BB_AXIS_EP,
	[BB_TRAFFIC_PIPELINE] = BB_AXIS_PP,  [BB_TRAFFIC_DATA] = BB_AXIS_DP,
	[BB_TRAFFIC_EMBEDDING] = BB_AXIS_PP, [BB_TRAFFIC_CONTEXT] = BB_AXIS_CP,
};

#define LOSS_BYTES 4 /* of a token, in each of its three all-reduces */

/* CALLS collectives of BYTES each among N ranks, each TURNS times around the ring. */
static void add_rings(struct bb_volume *v, uint64_t calls, uint64_t turns, int n, double bytes)
{
	if (n == 1)
		return;
	v->calls += calls;
	v->rounds += calls * turns * (uint64_t)(n - 1);
	v->sent += (double)(calls * turns) * bytes * (n - 1) / n;
}

/* CALLS all-to-alls among N ranks, each of which has BYTES for all of them together. */
static void add_exchanges(struct bb_volume *v, uint64_t calls, int n, double bytes)
{
	if (n == 1)
		return;
	v->calls += calls;
	v->rounds += calls;
	v->sent += (double)calls * bytes * (n - 1) / n;
}

static void add_tensor(const struct bb_hybrid_step *s, const struct bb_hybrid_part *part,
		       double activation, struct bb_volume *v)
{
	const uint64_t m = s->micro_batches;
	const uint64_t passes = s->recomputes ? 3 : 2;
	/* Halves of layers that keep their tokens, and those with rows of experts. */
	const uint64_t own = m * (2 * part->layers - part->sparse), routed = m * part->sparse;
	const uint64_t ends = m * ((uint64_t)part->first + (uint64_t)part->last);
	const double loss = (double)(LOSS_BYTES * s->seq * s->micro_batch);
	const int etp = bb_grid_expert_tensor(&s->grid);
	const double rows = activation * (double)s->routes * etp / s->grid.tp;

	if (s->sequence_parallel) {
		add_rings(v, (2 * passes + 1) * own + 2 * ends, 1, s->grid.tp, activation);
		add_rings(v, (2 * passes + 1) * routed, 1, etp, rows);
	} else {
		add_rings(v, passes * (own + routed) + ends, 2, s->grid.tp, activation);
	}
	if (part->last)
		add_rings(v, 3 * m, 2, s->grid.tp, loss);
}

static void add_pipeline(const struct bb_hybrid_step *s, const struct bb_hybrid_part *part,
			 struct bb_hybrid_volumes *v)
{
	/* All virtual stages but the first of the model and the last have both neighbours. */
	const uint64_t chunks = s->chunks > 1 ? s->chunks : 1;
	const uint64_t ends = (uint64_t)part->first + (uint64_t)part->last;
	const uint64_t neighbours = s->grid.pp == 1 ? 0 : 2 * chunks - ends;
	const uint64_t messages = s->micro_batches * neighbours;
	struct bb_volume *pipeline = &v->of[BB_TRAFFIC_PIPELINE];

	pipeline->calls = pipeline->rounds = messages;
	pipeline->sent = (double)messages * (double)v->boundary;
	if (s->scatter && !s->sequence_parallel)
		add_rings(&v->of[BB_TRAFFIC_TENSOR], messages, 1, s->grid.tp,
			  (double)v->activation);
}

static void add_context(const struct bb_hybrid_step *s, const struct bb_hybrid_part *part,
			struct bb_volume *v)
{
	const int cp = bb_grid_size(&s->grid, BB_AXIS_CP);
	const uint64_t passes = s->micro_batches * part->layers;
	const uint64_t turns = (s->recomputes ? 4 : 3) * passes;
	const uint64_t tokens = s->recipe.precision->parameter * s->seq * s->micro_batch;
	const uint64_t again = (s->recomputes ? 6 : 4) * passes;

	if (cp < 2)
		return;
	if (s->exchanges) {
		add_exchanges(v, again, cp, (double)(tokens * s->queries));
		add_exchanges(v, again, cp, (double)(tokens * s->keys));
		return;
	}
	v->calls = v->rounds = turns * (uint64_t)(cp - 1);
	v->sent = (double)v->calls * (double)(2 * tokens * s->keys);
}

/* The reduction, and ZeRO's all-gathers, of ELEMENTS that RANKS share. */
static void add_data(const struct bb_hybrid_step *s, uint64_t elements, int ranks,
		     struct bb_volume *v)
{
	const uint64_t reductions = s->zero < 2 ? 1 : s->micro_batches;
	const uint64_t turns = s->zero == 3 ? 3 * reductions : reductions + 1;

	if (ranks == 1 || elements == 0)
		return;
	v->calls += s->zero == 0 ? 1 : turns;
	v->rounds += turns * (uint64_t)(ranks - 1);
	v->sent += (double)bb_zero_bytes(&s->recipe, elements, s->zero, (uint64_t)ranks,
					 s->micro_batches);
}

struct bb_hybrid_volumes bb_hybrid_volumes_of(const struct bb_hybrid_step *s,
					      const struct bb_hybrid_part *part)
{
	const struct bb_grid *g = &s->grid;
	const uint64_t t = (uint64_t)g->tp, again = s->recomputes ? 6 : 4;
	const bool parts = s->sequence_parallel || s->scatter;
	struct bb_hybrid_volumes v = {.activation = (uint64_t)s->recipe.precision->parameter *
						    s->seq * s->micro_batch * s->hidden};
	const double routed = (double)v.activation * (double)s->routes;

	v.boundary = parts ? (v.activation + t - 1) / t : v.activation;
	add_tensor(s, part, (double)v.activation, &v.of[BB_TRAFFIC_TENSOR]);
	add_pipeline(s, part, &v);
	add_exchanges(&v.of[BB_TRAFFIC_EXPERT], again * s->micro_batches * part->sparse,
		      bb_grid_expert_ranks(g), s->sequence_parallel ? routed / g->tp : routed);
	add_context(s, part, &v.of[BB_TRAFFIC_CONTEXT]);
	add_data(s, part->elements - part->experts, g->dp, &v.of[BB_TRAFFIC_DATA]);
	add_data(s, part->experts, g->dp / g->ep, &v.of[BB_TRAFFIC_DATA]);
	if (part->first != part->last)
		add_rings(&v.of[BB_TRAFFIC_EMBEDDING], s->embedding > 0, 2, 2,
			  (double)(s->embedding / t * s->recipe.precision->gradient));
	return v;
}
