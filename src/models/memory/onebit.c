#include "models/memory/onebit.h"

#include <math.h>
#include <string.h>

#define AT(name) offsetof(struct bb_onebit, name)
#define FROZEN (1u << BB_ONEBIT_ADAM | 1u << BB_ONEBIT_LAMB)
#define LAMB (1u << BB_ONEBIT_LAMB)
#define ZERO_ONE (1u << BB_ONEBIT_ZERO_ONE)
#define ALL (FROZEN | ZERO_ONE)
#define MOST 0x1p32

const struct bb_onebit_parameter bb_onebit_parameters[] = {
	{"lr", ALL, AT(lr), 1e-3, 0, HUGE_VAL, false},
	{"betas[0]", 0, AT(beta1), 0.9, 0, 1, false},
	{"betas[1]", 0, AT(beta2), 0.999, 0, 1, false},
	{"eps", ALL, AT(eps), 1e-8, 0, HUGE_VAL, false},
	{"weight_decay", ALL, AT(weight_decay), 0, 0, HUGE_VAL, false},
	{"freeze_step", FROZEN, AT(freeze_step), 100000, 0, MOST, true},
	{"var_freeze_step", ZERO_ONE, AT(freeze_step), 100000, 0, MOST, true},
	{"var_update_scaler", ZERO_ONE, AT(var_update_scaler), 16, 1, MOST, true},
	/* As DeepSpeed has it; 32768 may have been meant. */
	{"local_step_scaler", ZERO_ONE, AT(local_step_scaler), 32678, 1, MOST, true},
	{"local_step_clipper", ZERO_ONE, AT(local_step_clipper), 16, 1, MOST, true},
	{"coeff_beta", LAMB, AT(coeff_beta), 0.9, 0, 1, false},
	{"factor_max", LAMB, AT(factor_max), 4, 0, HUGE_VAL, false},
	{"factor_min", LAMB, AT(factor_min), 0.5, 0, HUGE_VAL, false},
	{"factor_threshold", LAMB, AT(factor_threshold), 0.1, 0, 1, false},
	{"max_coeff", LAMB, AT(max_coeff), 10, 0, HUGE_VAL, false},
	{"min_coeff", LAMB, AT(min_coeff), 0.01, 0, HUGE_VAL, false},
	{.name = NULL},
};

struct bb_onebit bb_onebit_of(enum bb_onebit_kind kind)
{
	struct bb_onebit o = {.kind = kind};

	for (const struct bb_onebit_parameter *p = bb_onebit_parameters; p->name; p++)
		memcpy((char *)&o + p->at, &p->otherwise, sizeof(p->otherwise));
	return o;
}

/* ---- the schedule ---------------------------------------------------------------------------- */

enum bb_onebit_exchange bb_onebit_next(const struct bb_onebit *o, struct bb_onebit_schedule *s)
{
	const bool frozen = (double)++s->step > o->freeze_step;
	enum bb_onebit_exchange exchange;

	if (o->kind != BB_ONEBIT_ZERO_ONE)
		return frozen ? BB_ONEBIT_CODED : BB_ONEBIT_FULL;
	if (!frozen) {
		exchange = s->step % (s->interval + 1) ? BB_ONEBIT_CODED : BB_ONEBIT_FULL;
		if (exchange == BB_ONEBIT_FULL && (double)++s->updates >= o->var_update_scaler) {
			s->updates = 0;
			s->interval = 2 * s->interval + 1;
		}
		return exchange;
	}
	exchange = s->step % (s->local_interval + 1) ? BB_ONEBIT_LOCAL : BB_ONEBIT_SYNC;
	if ((double)++s->locals >= o->local_step_scaler) {
		s->locals = 0;
		s->local_interval =
			(int64_t)fmin(2 * (double)(s->local_interval + 1), o->local_step_clipper) -
			1;
	}
	return exchange;
}

double bb_onebit_saving(const struct bb_onebit *o, int bits, int64_t steps)
{
	struct bb_onebit_schedule s = {.step = 0};
	double sent = 0;

	while (s.step < steps) {
		const enum bb_onebit_exchange exchange = bb_onebit_next(o, &s);

		sent += exchange == BB_ONEBIT_FULL    ? 1
			: exchange == BB_ONEBIT_LOCAL ? 0
						      : 1.0 / bits;
	}
	return (double)steps / sent;
}

/* ---- arithmetic ------------------------------------------------------------------------------ */

void bb_onebit_moments(const struct bb_onebit *o, float unscale, const float *gradient, float *m,
		       float *v, size_t n)
{
	const float beta1 = (float)o->beta1, beta2 = (float)o->beta2;

	for (size_t i = 0; i < n; i++) {
		const float g = gradient[i] * unscale;

		m[i] = beta1 * m[i] + (1 - beta1) * g;
		if (v)
			v[i] = beta2 * v[i] + (1 - beta2) * (g * g);
	}
}

void bb_onebit_give(const struct bb_onebit *o, float unscale, const float *m, float *x, size_t n)
{
	const bool momentum = o->kind == BB_ONEBIT_ADAM || o->kind == BB_ONEBIT_LAMB;
	const float beta1 = (float)o->beta1;

	for (size_t i = 0; i < n; i++) {
		const float g = x[i] * unscale;

		x[i] = momentum ? beta1 * m[i] + (1 - beta1) * g : g;
	}
}

void bb_onebit_take(const struct bb_onebit *o, const float *mean, float *m, size_t n)
{
	if (o->kind == BB_ONEBIT_ZERO_ONE)
		bb_onebit_moments(o, 1, mean, m, NULL, n);
	else
		memcpy(m, mean, n * sizeof(*m));
}

void bb_onebit_apply(const struct bb_onebit *o, float coefficient, const float *m, const float *v,
		     float *p, float *sum, size_t n)
{
	const float rate = (float)o->lr * coefficient, decay = (float)o->weight_decay;

	for (size_t i = 0; i < n; i++) {
		const float change = -rate * (m[i] / (sqrtf(v[i]) + (float)o->eps) + decay * p[i]);

		p[i] += change;
		if (sum)
			sum[i] += change;
	}
}

void bb_onebit_undo(const struct bb_onebit *o, const float *v, float *p, float *sum, float *x,
		    size_t n)
{
	for (size_t i = 0; i < n; i++) {
		p[i] -= sum[i];
		x[i] = sum[i] * (sqrtf(v[i]) + (float)o->eps);
		sum[i] = 0;
	}
}

void bb_onebit_redo(const struct bb_onebit *o, float rates, const float *mean, const float *v,
		    float *m, float *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		m[i] = -mean[i] / rates;
		p[i] += mean[i] / (sqrtf(v[i]) + (float)o->eps);
	}
}

/* ---- 1-bit LAMB ------------------------------------------------------------------------------ */

void bb_onebit_scales(const float *m, const size_t *lengths, size_t n, float *scales)
{
	double mean = 0;
	float *scale = scales;

	for (size_t t = 0; t < n; t++) {
		double sum = 0;

		for (size_t i = 0; i < lengths[t]; i++, m++)
			sum += (double)*m * *m;
		const float own = (float)sqrt(sum / (double)lengths[t]);
		mean += own / (double)n;
		for (size_t i = 0; i < lengths[t]; i++)
			*scale++ = own;
	}
	for (float *s = scales; s < scale; s++)
		*s = *s > 0 ? (float)mean / *s : 1;
}

double bb_onebit_trust(const struct bb_onebit *o, const float *m, const float *v, const float *p,
		       size_t n, double *frozen)
{
	double weights = 0, updates = 0;

	for (size_t i = 0; i < n; i++) {
		const double update = m[i] / (sqrt(v[i]) + o->eps) + o->weight_decay * p[i];

		weights += (double)p[i] * p[i];
		updates += update * update;
	}
	if (weights == 0 || updates == 0)
		return 1;
	const double trust = fmax(o->min_coeff, fmin(o->max_coeff, sqrt(weights) / sqrt(updates)));

	if (trust != 1)
		*frozen = o->coeff_beta * *frozen + (1 - o->coeff_beta) * trust;
	return trust;
}

double bb_onebit_factor(const struct bb_onebit *o, const float *m, const float *before,
			const float *v, const float *p, float *fresh, size_t n, double last)
{
	const float beta1 = (float)o->beta1, beta2 = (float)o->beta2, eps = (float)o->eps;
	double factor = 0, without = 0, with = 0;

	for (size_t i = 0; i < n; i++) {
		const float g = (m[i] - beta1 * before[i]) / (1 - beta1);
		const float root = sqrtf(v[i]) + eps;
		const double update = m[i] / root;
		const double decayed = update + o->weight_decay * p[i];

		fresh[i] = beta2 * fresh[i] + (1 - beta2) * (g * g);
		factor = fmax(factor, root / (sqrtf(fresh[i]) + eps));
		without += update * update;
		with += decayed * decayed;
	}
	if (without < with) {
		const double share = sqrt(without / with);

		factor = factor * share + 1 - share;
	}
	factor = fmax(o->factor_min, fmin(o->factor_max, factor));
	return fmax(last * (1 - o->factor_threshold),
		    fmin(last * (1 + o->factor_threshold), factor));
}
