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

/* Whether STAGE is the first, and whether it is the last. */
static uint64_t count_ends(const struct bb_training *t, const struct bb_need *stage)
{
	return (stage->stage == 0) + (stage->stage == t->pp - 1);
}

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

/* A step of T on GRID, of which a rank has SEQ tokens of each sequence. */
struct step {
	const struct bb_grid *grid;
	const struct bb_training *t;
	uint64_t seq;
	bool recomputes;
};

static void add_tensor(const struct step *s, const struct bb_need *stage, double activation,
		       struct bb_volume *v)
{
	const struct bb_training *t = s->t;
	const uint64_t m = t->micro_batches;
	const uint64_t passes = s->recomputes ? 3 : 2;
	/* Halves of layers that keep their tokens, and those with rows of experts. */
	const uint64_t own = m * (2 * stage->layers - stage->sparse), routed = m * stage->sparse;
	const uint64_t ends = m * count_ends(t, stage);
	const double loss = (double)(LOSS_BYTES * s->seq * t->micro_batch);
	const int tp = s->grid->tp, etp = bb_grid_expert_tensor(s->grid);
	const double rows = activation * (double)t->model->hyper.top_k * etp / tp;

	if (t->sequence_parallel) {
		add_rings(v, (2 * passes + 1) * own + 2 * ends, 1, tp, activation);
		add_rings(v, (2 * passes + 1) * routed, 1, etp, rows);
	} else {
		add_rings(v, passes * (own + routed) + ends, 2, tp, activation);
	}
	if (stage->stage == t->pp - 1)
		add_rings(v, 3 * m, 2, tp, loss);
}

static void add_context(const struct step *s, const struct bb_need *stage, bool exchanges,
			struct bb_volume *v)
{
	const struct bb_training *t = s->t;
	const struct bb_hyper *h = &t->model->hyper;
	const int cp = bb_grid_size(s->grid, BB_AXIS_CP);
	const uint64_t passes = t->micro_batches * stage->layers;
	const uint64_t turns = (s->recomputes ? 4 : 3) * passes;
	const uint64_t again = (s->recomputes ? 6 : 4) * passes;
	/* Bytes of an element of all tokens, and elements of the queries, and of the output, of a
	   token on a rank; of the keys, and of the values. */
	const uint64_t tokens = t->recipe.precision->parameter * s->seq * t->micro_batch;
	const uint64_t queries = (uint64_t)h->head_dim * bb_partition((uint64_t)h->heads, t->tp);
	const uint64_t keys = (uint64_t)h->head_dim * bb_partition((uint64_t)h->kv_heads, t->tp);

	if (cp < 2)
		return;
	if (exchanges) {
		add_exchanges(v, again, cp, (double)(tokens * queries));
		add_exchanges(v, again, cp, (double)(tokens * keys));
		return;
	}
	v->calls = v->rounds = turns * (uint64_t)(cp - 1);
	v->sent = (double)v->calls * (double)(2 * tokens * keys);
}

/* The reduction, and ZeRO's all-gathers, of ELEMENTS that RANKS share. */
static void add_data(const struct bb_training *t, uint64_t elements, int ranks, struct bb_volume *v)
{
	const uint64_t reductions = t->zero < 2 ? 1 : t->micro_batches;
	const uint64_t turns = t->zero == 3 ? 3 * reductions : reductions + 1;

	if (ranks == 1 || elements == 0)
		return;
	v->calls += t->zero == 0 ? 1 : turns;
	v->rounds += turns * (uint64_t)(ranks - 1);
	v->sent += (double)bb_zero_bytes(&t->recipe, elements, t->zero, (uint64_t)ranks,
					 t->micro_batches);
}

struct bb_hybrid_volumes bb_hybrid_volumes_of(const struct bb_grid *g, const struct bb_training *t,
					      bool exchanges, bool scatter,
					      const struct bb_need *stage)
{
	const struct bb_hyper *h = &t->model->hyper;
	const struct step s = {.grid = g,
			       .t = t,
			       .seq = (uint64_t)(h->seq / bb_grid_size(g, BB_AXIS_CP)),
			       .recomputes = t->recompute == BB_RECOMPUTE_FULL};
	const uint64_t again = s.recomputes ? 6 : 4;
	const bool parts = t->sequence_parallel || scatter;
	/* All virtual stages but the first of the model and the last have both neighbours. */
	const uint64_t chunks = t->chunks > 1 ? t->chunks : 1;
	const uint64_t ends = count_ends(t, stage);
	const uint64_t messages = g->pp == 1 ? 0 : t->micro_batches * (2 * chunks - ends);
	struct bb_hybrid_volumes v = {.activation = (uint64_t)t->recipe.precision->parameter *
						    s.seq * t->micro_batch * (uint64_t)h->hidden};
	const double activation = (double)v.activation, routed = activation * (double)h->top_k;

	v.boundary = parts ? (v.activation + t->tp - 1) / t->tp : v.activation;
	add_tensor(&s, stage, activation, &v.of[BB_TRAFFIC_TENSOR]);
	v.of[BB_TRAFFIC_PIPELINE] =
		(struct bb_volume){messages, messages, (double)messages * (double)v.boundary};
	if (scatter && !t->sequence_parallel)
		add_rings(&v.of[BB_TRAFFIC_TENSOR], messages, 1, g->tp, activation);
	add_exchanges(&v.of[BB_TRAFFIC_EXPERT], again * t->micro_batches * stage->sparse,
		      bb_grid_expert_ranks(g), t->sequence_parallel ? routed / g->tp : routed);
	add_context(&s, stage, exchanges, &v.of[BB_TRAFFIC_CONTEXT]);
	add_data(t, stage->elements - stage->experts, g->dp, &v.of[BB_TRAFFIC_DATA]);
	add_data(t, stage->experts, g->dp / g->ep, &v.of[BB_TRAFFIC_DATA]);
	if (ends == 1)
		add_rings(&v.of[BB_TRAFFIC_EMBEDDING], t->layout->embedding > 0, 2, 2,
			  (double)(t->layout->embedding / t->tp * t->recipe.precision->gradient));
	return v;
}

/* ---- the memory of a rank ------------------------------------------------------------------- */

#define LOGIT_BYTES 24
#define ROW_BYTES 2 /* of an element of a row */

/* Bytes of a layer for a token, but for scores: FORWARD pass or backward; SPARSE: it has experts.
 */
static double token_bytes(const struct bb_training *t, bool sparse, bool forward)
{
	const struct bb_hyper *h = &t->model->hyper;
	const bool gated = t->model->gated;
	const double each = t->sequence_parallel ? (double)t->tp : 1;
	const double width = (double)h->hidden;
	const double ffn = (double)(sparse ? h->expert_ffn * h->top_k + h->shared_ffn : h->ffn);
	const double sums = forward ? (gated ? 20 : 22) : (gated ? 24 : 34);
	const double inner = forward ? (gated ? 6 : 4) : (gated ? 10 : 6);
	const double rotated = gated ? (double)((h->heads + h->kv_heads) * h->head_dim) : 0;

	return sums * width / each + (inner * ffn + 4 * rotated) / (double)t->tp;
}

/* Bytes of the scores of a token. */
static double score_bytes(const struct bb_training *t, bool forward)
{
	const struct bb_hyper *h = &t->model->hyper;
	const bool gated = t->model->gated;

	if (!t->eager)
		return 0;
	return (forward ? (gated ? 8 : 13) : (gated ? 14 : 19)) * (double)(h->heads * h->seq) /
	       (double)t->tp;
}

double bb_sorted_bytes(const struct bb_training *t, const struct bb_grid *grid, bool by_node)
{
	const struct bb_hyper *h = &t->model->hyper;
	const double width = ROW_BYTES * (double)h->hidden, k = (double)h->top_k;
	const double own = t->sequence_parallel ? 1 / (double)t->tp : 1;
	const double gathered = own * bb_grid_expert_tensor(grid);
	const bool divided = bb_grid_expert_ranks(grid) > 1;

	if (h->experts == 0)
		return 0;
	return (divided ? 4 * k * width * (t->sequence_parallel ? gathered : 1) : 0) +
	       (divided && by_node ? 0 : 2 * (k + 1) * width * own);
}

struct bb_memory_bytes bb_memory_bytes_of(const struct bb_training *t, const struct bb_need *stage,
					  uint64_t cp, double sorted)
{
	const struct bb_hyper *h = &t->model->hyper;
	const struct bb_states each = bb_states_each(&t->recipe);
	const double tokens = (double)h->seq / (double)cp * (double)t->micro_batch;
	const double passes = t->recompute == BB_RECOMPUTE_FULL ? 2 : 1;
	const double scores = score_bytes(t, true) * (t->recompute == BB_RECOMPUTE_NONE ? 1 : 2) +
			      score_bytes(t, false);
	const double kinds[] = {
		passes * token_bytes(t, false, true) + token_bytes(t, false, false) + scores,
		passes * token_bytes(t, true, true) + token_bytes(t, true, false) + scores +
			(passes + 1) * sorted,
	};
	const double layers = (double)(stage->layers - stage->sparse) * kinds[0] +
			      (double)stage->sparse * kinds[1];
	const double logits = stage->stage == t->pp - 1 && t->model->logits
				      ? LOGIT_BYTES * (double)h->vocab / (double)t->tp
				      : 0;
	const uint64_t replicas = t->zero > 0 ? t->dp : 1;
	const uint64_t updated =
		bb_partition(stage->elements - stage->experts, replicas) +
		bb_partition(stage->experts, replicas > t->ep ? replicas / t->ep : 1);

	return (struct bb_memory_bytes){
		.pass = tokens * (layers + logits) +
			2 * (double)each.gradients * (double)stage->elements,
		.step = (double)updated *
			(double)(2 * each.optimizer + each.gradients + each.parameters),
	};
}
