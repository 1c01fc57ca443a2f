#include "training_kernels/hybrid/memory_time.h"

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

struct bb_memory_bytes bb_memory_bytes_of(const struct bb_training *t,
					  const struct bb_hybrid_part *part, uint64_t cp,
					  double sorted)
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
	const double layers =
		(double)(part->layers - part->sparse) * kinds[0] + (double)part->sparse * kinds[1];
	const double logits =
		part->last && t->model->logits ? LOGIT_BYTES * (double)h->vocab / (double)t->tp : 0;
	const uint64_t replicas = t->zero > 0 ? t->dp : 1;
	const uint64_t updated =
		bb_partition(part->elements - part->experts, replicas) +
		bb_partition(part->experts, replicas > t->ep ? replicas / t->ep : 1);

	return (struct bb_memory_bytes){
		.pass = tokens * (layers + logits) +
			2 * (double)each.gradients * (double)part->elements,
		.step = (double)updated *
			(double)(2 * each.optimizer + each.gradients + each.parameters),
	};
}
