/*
 * learner.c - training by what ranks exchange in codes: gradients, or what DeepSpeed's 1-bit
 * optimizers exchange.
 */
#include "training_kernels/data_parallel/learner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COUNT BB_TRAIN_PARAMETERS
#define DESCENT 0.5f /* learning rate of gradient descent, as without codes */
#define RATE 0x1p-6  /* of the others */
#define EXACT 0x1p30 /* gradients that are all-reduced are multiples of 1 / EXACT */

/* Tensors of the model, in the order of its parameters. */
static const size_t lengths[BB_LEARNER_TENSORS] = {BB_TRAIN_HIDDEN * BB_TRAIN_INPUTS,
						   BB_TRAIN_HIDDEN, BB_TRAIN_HIDDEN, 1};

/* Warm-up, and intervals that double, within STEPS steps instead of DeepSpeed's 100,000. */
static struct bb_onebit settings_of(const struct bb_strategy_setting *s)
{
	const struct bb_recurrence *r = s->strategy->recurrence;
	const double steps = (double)s->steps;
	struct bb_onebit o = bb_onebit_of(r->optimizer);

	o.lr = RATE;
	o.freeze_step = !r->coding                           ? steps
			: r->optimizer == BB_ONEBIT_NONE     ? 0
			: r->optimizer == BB_ONEBIT_ZERO_ONE ? ceil(steps / 2)
							     : ceil(steps / 5);
	o.var_update_scaler = ceil(steps / 16);
	o.local_step_scaler = ceil(steps / 8);
	o.local_step_clipper = 4;
	return o;
}

static struct bb_coded_form form_of(const struct bb_strategy_setting *s)
{
	const struct bb_recurrence *r = s->strategy->recurrence;
	const struct bb_coding *coding = bb_coding_named(r->coding ? r->coding : "sign");

	return (struct bb_coded_form){.scheme = &bb_coded_schemes[BB_CODED_ALLTOALL],
				      .coding = coding,
				      .block = coding->block,
				      .count = COUNT,
				      .nranks = s->active,
				      .local = s->active,
				      .feedback = r->feedback};
}

const char *bb_learner_refuses(const struct bb_strategy_setting *s)
{
	const struct bb_coded_form form = form_of(s);

	return s->strategy->recurrence->coding ? bb_coded_refuses(&form) : NULL;
}

void bb_learner_write(struct bb_tape *tape, const struct bb_strategy_setting *s, int queue,
		      size_t step, struct bb_onebit_schedule *schedule)
{
	const struct bb_onebit o = settings_of(s);
	const struct bb_coded_form form = form_of(s);
	const enum bb_onebit_exchange exchange = bb_onebit_next(&o, schedule);

	bb_tape_compute(tape, queue, BB_STRATEGY_PREPARE, step, 0, 0);
	if (exchange == BB_ONEBIT_FULL && s->active > 1)
		bb_tape_collective(tape, queue, BB_STRATEGY_REDUCE, 0, &bb_all_reduce, COUNT,
				   BB_DOUBLE, BB_SUM);
	else if (exchange != BB_ONEBIT_FULL && exchange != BB_ONEBIT_LOCAL)
		bb_coded_write(&form, tape, queue, BB_STRATEGY_CODE, BB_STRATEGY_EXCHANGE, 0,
			       HUGE_VAL);
	bb_tape_compute(tape, queue, BB_STRATEGY_APPLY, step, 0, 0);
}

size_t bb_learner_open(struct bb_learner *l, const struct bb_strategy_setting *s, int rank,
		       const double *values, char *memory)
{
	*l = (struct bb_learner){.setting = s, .settings = settings_of(s), .form = form_of(s)};
	for (int i = 0; i < COUNT && values; i++)
		l->p[i] = (float)values[i];
	for (int t = 0; t < BB_LEARNER_TENSORS; t++)
		l->factors[t] = 1;
	return bb_coded_lay_out(&l->coded, &l->form, rank, memory);
}

/* Errors start anew, as DeepSpeed's do before local steps; what they held counts as exchanged. */
static void forget_errors(struct bb_learner *l)
{
	l->balance.open += bb_coded_errors(&l->coded, 0);
	memset(l->coded.error, 0, l->coded.errors * sizeof(*l->coded.error));
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* Parameters minus the update by m and v, with the coefficients of LAMB. */
static void apply(struct bb_learner *l, float *sum)
{
	const bool lamb = l->settings.kind == BB_ONEBIT_LAMB;
	size_t at = 0;

	for (int t = 0; t < BB_LEARNER_TENSORS; at += lengths[t++]) {
		double coefficient = 1, weights = 0, updates = 0;

		for (size_t i = at; i < at + lengths[t] && lamb; i++) {
			const double update = l->m[i] / (sqrt(l->v[i]) + l->settings.eps) +
					      l->settings.weight_decay * l->p[i];

			weights += (double)l->p[i] * l->p[i];
			updates += update * update;
		}
		if (lamb && l->exchange == BB_ONEBIT_FULL)
			coefficient = bb_onebit_trust(&l->settings, sqrt(weights), sqrt(updates),
						      &l->frozen[t]);
		else if (lamb)
			coefficient = l->frozen[t] *
				      (l->factors[t] = bb_onebit_factor(&l->settings, l->m + at,
									l->before + at, l->v + at,
									l->p + at, l->fresh + at,
									lengths[t], l->factors[t]));
		bb_onebit_apply(&l->settings, (float)coefficient, l->m + at, l->v + at, l->p + at,
				sum ? sum + at : NULL, lengths[t]);
	}
}

/* Multiply the momenta in M by their scales, or divide them. */
static void scale(const struct bb_learner *l, float *m, bool divides)
{
	for (int t = 0; t < BB_LEARNER_TENSORS && l->settings.kind == BB_ONEBIT_LAMB; t++)
		for (size_t i = 0; i < lengths[t]; i++, m++)
			*m = divides ? *m / l->scales[t] : *m * l->scales[t];
}

void bb_learner_prepare(struct bb_learner *l, const double *gradient, double samples)
{
	const struct bb_onebit *o = &l->settings;
	const enum bb_onebit_exchange last = l->exchange;
	float *const x = l->coded.x;

	l->exchange = bb_onebit_next(o, &l->schedule);
	for (int i = 0; i < COUNT; i++) {
		x[i] = (float)(gradient[i] * l->setting->active / samples);
		l->whole[i] = nearbyint(x[i] * EXACT) / EXACT;
	}
	if (l->exchange == BB_ONEBIT_CODED) {
		if (last == BB_ONEBIT_FULL) {
			memcpy(l->fresh, l->v, sizeof(l->v));
			bb_onebit_scales(l->m, lengths, BB_LEARNER_TENSORS, l->scales);
		}
		memcpy(l->before, l->m, sizeof(l->m));
		bb_onebit_give(o, 1, l->m, x, COUNT);
		scale(l, x, false);
	} else if (l->exchange != BB_ONEBIT_FULL) {
		if (last < BB_ONEBIT_LOCAL)
			forget_errors(l);
		bb_onebit_moments(o, 1, x, l->m, NULL, COUNT);
		l->rates += (float)o->lr;
		apply(l, l->sum);
	}
	if (l->exchange == BB_ONEBIT_SYNC) {
		bb_onebit_undo(o, l->v, l->p, l->sum, COUNT);
		memcpy(x, l->sum, sizeof(l->sum));
	}
}

void bb_learner_apply(struct bb_learner *l)
{
	const struct bb_onebit *o = &l->settings;
	const bool full = l->exchange == BB_ONEBIT_FULL;
	float mean[COUNT];

	if (l->exchange == BB_ONEBIT_LOCAL)
		return;
	for (int i = 0; i < COUNT; i++)
		mean[i] = full ? (float)(l->whole[i] / l->setting->active) : l->coded.result[i];
	if (!full && l->form.feedback)
		bb_coded_round(&l->coded, 0, &l->balance);
	/* No sign is zero: what never had a gradient is masked, as by DeepSpeed's exp_avg_mask. */
	for (int i = 0; i < COUNT && !full && o->kind != BB_ONEBIT_NONE; i++)
		mean[i] = l->v[i] > 0 ? mean[i] : 0;
	if (o->kind == BB_ONEBIT_NONE) {
		for (int i = 0; i < COUNT; i++)
			l->p[i] -= DESCENT * mean[i];
	} else if (l->exchange == BB_ONEBIT_SYNC) {
		memcpy(l->sum, mean, sizeof(mean));
		bb_onebit_redo(o, l->rates, l->v, l->m, l->p, l->sum, COUNT);
		l->rates = 0;
	} else {
		if (full) {
			bb_onebit_moments(o, 1, mean, l->m, l->v, COUNT);
		} else {
			scale(l, mean, true);
			bb_onebit_take(o, mean, l->m, COUNT);
		}
		apply(l, NULL);
	}
}

/* ---- one rank for all of them ---------------------------------------------------------------- */

bool bb_learner_alone(struct bb_learner *result, const struct bb_strategy_setting *s, int rank,
		      uint64_t seed, size_t samples)
{
	const int n = s->active;
	struct bb_learner *const all = calloc((size_t)n, sizeof(*all));
	const size_t bytes = all ? bb_learner_open(all, s, 0, NULL, NULL) : 0;
	char *const memory = calloc((size_t)n, bytes + sizeof(struct bb_coded));
	struct bb_coded *const codes = (void *)(memory + (size_t)n * bytes);
	double values[BB_TRAIN_ELEMENTS], gradient[BB_TRAIN_ELEMENTS];

	bb_train_begin(values, seed);
	for (int r = 0; r < n && memory; r++) {
		bb_learner_open(&all[r], s, r, values, memory + (size_t)r * bytes);
		codes[r] = all[r].coded;
	}
	for (size_t step = 0; step < s->steps && memory; step++) {
		double whole[COUNT] = {0};

		for (int r = 0; r < n; r++) {
			const size_t first = bb_part_start(samples, n, r);

			memset(gradient, 0, sizeof(gradient));
			for (int i = 0; i < COUNT; i++)
				values[i] = all[r].p[i];
			bb_train_add(values, seed, first, bb_part_count(samples, n, r), gradient);
			bb_learner_prepare(&all[r], gradient, (double)samples);
			for (int i = 0; i < COUNT; i++)
				whole[i] += all[r].whole[i];
		}
		if (all->exchange == BB_ONEBIT_FULL)
			for (int r = 0; r < n; r++)
				memcpy(all[r].whole, whole, sizeof(whole));
		else if (all->exchange != BB_ONEBIT_LOCAL)
			bb_coded_alone(codes);
		for (int r = 0; r < n; r++)
			bb_learner_apply(&all[r]);
	}
	if (memory)
		*result = all[rank];
	free(memory);
	free(all);
	return memory != NULL;
}
