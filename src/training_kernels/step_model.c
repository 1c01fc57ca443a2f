/*
 * step_model.c - the time of a step.
 */
#include "training_kernels/step_model.h"

#include <math.h>

struct bb_train_step bb_step_model(const struct bb_step_request *r, struct bb_bucket_times *each)
{
	const struct bb_step_compute *c = &r->compute;
	const double compute = r->accumulate * (c->forward_s + c->backward_s);
	struct bb_train_step step = {.compute_s = compute};
	double end = 0;

	for (size_t k = 0; k < r->buckets->n; k++) {
		const struct bb_bucket *b = &r->buckets->list[k];
		const double ready = c->ready_s[b->first + b->count - 1];
		const double may = r->overlap ? ready : c->backward_s;
		const double start = may > end ? may : end;
		const double seconds = r->reduce(r->own, k, b->bytes);

		end = start + seconds;
		step.reduce_s += seconds;
		if (each)
			each[k] = (struct bb_bucket_times){ready, start, end};
	}
	step.exposed_s = end - c->backward_s;
	step.step_s = compute + step.exposed_s;
	/* Below 0 only by rounding. */
	step.hidden = step.reduce_s > 0 ? fmax(0, 1 - step.exposed_s / step.reduce_s) : NAN;
	return step;
}
