/*
 * learner.c - training by what ranks exchange in codes: gradients, or what DeepSpeed's 1-bit
 * optimizers exchange.
 */
#include "training_kernels/data_parallel/learner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COUNT BB_TRAIN_PARAMETERS
#define DESCENT 0.5  /* learning rate of gradient descent, as without codes */
#define RATE 0x1p-6  /* of the others */
#define EXACT 0x1p30 /* gradients that are all-reduced are multiples of 1 / EXACT */

/* Tensors of the model, in the order of its parameters. */
static const size_t lengths[BB_LEARNER_TENSORS] = {BB_TRAIN_HIDDEN * BB_TRAIN_INPUTS,
						   BB_TRAIN_HIDDEN, BB_TRAIN_HIDDEN, 1};

/* Warm-up, and intervals that double, within STEPS steps instead of DeepSpeed's 100,000. Gradient
   descent has neither momentum nor a variance, which stays 1. */
static struct bb_onebit settings_of(const struct bb_strategy_setting *s)
{
	const struct bb_strategy *strategy = s->strategy;
	const bool descends = strategy->optimizer == BB_ONEBIT_NONE;
	const double steps = (double)s->steps;
	struct bb_onebit o = bb_onebit_of(strategy->optimizer);

	o.lr = RATE;
	if (descends)
		o = (struct bb_onebit){.lr = DESCENT, .beta2 = 1};
	o.freeze_step = !strategy->coding ? steps
			: descends        ? 0
					  : ceil(steps / (o.kind == BB_ONEBIT_ZERO_ONE ? 2 : 5));
	o.var_update_scaler = ceil(steps / 16);
	o.local_step_scaler = ceil(steps / 8);
	o.local_step_clipper = 4;
	return o;
}

/* Without a coding, nothing is written of it. */
static struct bb_coded_form form_of(const struct bb_strategy_setting *s)
{
	const struct bb_coding *coding = bb_coding_named(s->strategy->coding ?: "sign");

	return (struct bb_coded_form){.scheme = &bb_coded_schemes[BB_CODED_ALLTOALL],
				      .coding = coding,
				      .block = coding->block,
				      .count = COUNT,
				      .nranks = s->active,
				      .local = s->active,
				      .feedback = s->strategy->feedback};
}

void bb_learner_write(struct bb_tape *tapes, const struct bb_strategy_setting *s)
{
	const struct bb_onebit o = settings_of(s);
	const struct bb_coded_form form = form_of(s);

	for (struct bb_tape *tape = tapes; tape < tapes + s->active; tape++) {
		struct bb_onebit_schedule schedule = {.step = 0};

		for (size_t step = 0; step < s->steps; step++) {
			const enum bb_onebit_exchange exchange = bb_onebit_next(&o, &schedule);

			for (size_t k = 0; k < s->batches; k++)
				bb_tape_compute(tape, 0, BB_STRATEGY_COMPUTE, k, s->compute_s,
						s->flops);
			bb_tape_compute(tape, 0, BB_STRATEGY_PREPARE, step, 0, 0);
			if (exchange == BB_ONEBIT_FULL && s->active > 1)
				bb_tape_collective(tape, 0, BB_STRATEGY_REDUCE, 0, &bb_all_reduce,
						   COUNT, BB_DOUBLE, BB_SUM);
			else if (exchange == BB_ONEBIT_CODED || exchange == BB_ONEBIT_SYNC)
				bb_coded_write(&form, tape, 0, BB_STRATEGY_CODE,
					       BB_STRATEGY_EXCHANGE, 0, HUGE_VAL);
			bb_tape_compute(tape, 0, BB_STRATEGY_APPLY, step, 0, 0);
		}
	}
}

size_t bb_learner_open(struct bb_learner *l, const struct bb_strategy_setting *s, int rank,
		       const double *values, char *memory)
{
	*l = (struct bb_learner){.setting = s, .settings = settings_of(s), .form = form_of(s)};
	for (int i = 0; i < COUNT && values; i++) {
		l->p[i] = (float)values[i];
		l->v[i] = l->settings.kind == BB_ONEBIT_NONE;
		l->scales[i] = 1;
	}
	for (int t = 0; t < BB_LEARNER_TENSORS; t++)
		l->factors[t] = 1;
	return bb_coded_lay_out(&l->coded, &l->form, rank, memory);
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* Parameters minus the update by m and v, with the coefficients of LAMB. */
static void learner_update(struct bb_learner *l, float *sum)
{
	const struct bb_onebit *o = &l->settings;
	size_t at = 0;

	for (int t = 0; t < BB_LEARNER_TENSORS; at += lengths[t++]) {
		float *const m = l->m + at, *const v = l->v + at, *const p = l->p + at;
		double coefficient = 1;

		if (o->kind == BB_ONEBIT_LAMB && l->exchange == BB_ONEBIT_FULL) {
			coefficient = bb_onebit_trust(o, m, v, p, lengths[t], &l->frozen[t]);
		} else if (o->kind == BB_ONEBIT_LAMB) {
			l->factors[t] = bb_onebit_factor(o, m, l->before + at, v, p, l->fresh + at,
							 lengths[t], l->factors[t]);
			coefficient = l->frozen[t] * l->factors[t];
		}
		bb_onebit_apply(o, (float)coefficient, m, v, p, sum ? sum + at : NULL, lengths[t]);
	}
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
		if (last == BB_ONEBIT_FULL && o->kind == BB_ONEBIT_LAMB) {
			memcpy(l->fresh, l->v, sizeof(l->v));
			bb_onebit_scales(l->m, lengths, BB_LEARNER_TENSORS, l->scales);
		}
		memcpy(l->before, l->m, sizeof(l->m));
		bb_onebit_give(o, 1, l->m, x, COUNT);
		for (int i = 0; i < COUNT; i++)
			x[i] *= l->scales[i];
	} else if (l->exchange != BB_ONEBIT_FULL) {
		/* Errors start anew, as DeepSpeed's do before local steps; what they held counts as
		   exchanged. */
		if (last < BB_ONEBIT_LOCAL) {
			l->balance.open += bb_coded_errors(&l->coded, 0);
			memset(l->coded.error, 0, l->coded.errors * sizeof(*l->coded.error));
		}
		bb_onebit_moments(o, 1, x, l->m, NULL, COUNT);
		l->rates += (float)o->lr;
		learner_update(l, l->sum);
		if (l->exchange == BB_ONEBIT_SYNC)
			bb_onebit_undo(o, l->v, l->p, l->sum, x, COUNT);
	}
}

void bb_learner_apply(struct bb_learner *l)
{
	const struct bb_onebit *o = &l->settings;
	const bool full = l->exchange == BB_ONEBIT_FULL;
	float mean[COUNT];

	if (l->exchange == BB_ONEBIT_LOCAL)
		return;
	if (!full && l->form.feedback)
		bb_coded_round(&l->coded, 0, &l->balance);
	/* No sign is zero: what never had a gradient is masked, as by DeepSpeed's exp_avg_mask. */
	for (int i = 0; i < COUNT; i++)
		mean[i] = full          ? (float)(l->whole[i] / l->setting->active)
			  : l->v[i] > 0 ? l->coded.result[i] / l->scales[i]
					: 0;
	if (l->exchange == BB_ONEBIT_SYNC) {
		bb_onebit_redo(o, l->rates, mean, l->v, l->m, l->p, COUNT);
		l->rates = 0;
		return;
	}
	if (full)
		bb_onebit_moments(o, 1, mean, l->m, l->v, COUNT);
	else
		bb_onebit_take(o, mean, l->m, COUNT);
	learner_update(l, NULL);
}

/* ---- one rank for all of them ---------------------------------------------------------------- */

bool bb_learner_alone(struct bb_learner *result, const struct bb_strategy_setting *s, int rank,
		      uint64_t seed, size_t samples)
{
	const int n = s->active;
	const size_t bytes = bb_learner_open(result, s, 0, NULL, NULL);
	char *const memory = calloc((size_t)n, bytes + sizeof(*result) + sizeof(struct bb_coded));
	struct bb_learner *const all = (void *)(memory + (size_t)n * bytes);
	struct bb_coded *const codes = (void *)(all + n);
	double values[BB_TRAIN_ELEMENTS];

	if (!memory)
		return false;
	bb_train_begin(values, seed);
	for (int r = 0; r < n; r++) {
		bb_learner_open(&all[r], s, r, values, memory + (size_t)r * bytes);
		codes[r] = all[r].coded;
	}
	for (size_t step = 0; step < s->steps; step++) {
		double whole[COUNT] = {0};

		for (int r = 0; r < n; r++) {
			double gradient[BB_TRAIN_ELEMENTS] = {0};

			for (int i = 0; i < COUNT; i++)
				values[i] = all[r].p[i];
			bb_train_add(values, seed, bb_part_start(samples, n, r),
				     bb_part_count(samples, n, r), gradient);
			bb_learner_prepare(&all[r], gradient, (double)samples);
			for (int i = 0; i < COUNT; i++)
				whole[i] += all[r].whole[i];
		}
		if (all->exchange == BB_ONEBIT_CODED || all->exchange == BB_ONEBIT_SYNC)
			bb_coded_alone(codes);
		for (int r = 0; r < n; r++) {
			memcpy(all[r].whole, whole, sizeof(whole));
			bb_learner_apply(&all[r]);
		}
	}
	*result = all[rank];
	free(memory);
	return true;
}
