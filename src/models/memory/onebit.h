/*
 * onebit.h - DeepSpeed's optimizers that exchange signs: 1-bit Adam (Tang et al., arXiv
 * 2102.02888), 0/1 Adam (Lu et al., arXiv 2202.06009) and 1-bit LAMB (Li et al., arXiv 2104.06069),
 * as in deepspeed/runtime/fp16/onebit: their settings, what ranks exchange in each step, and the
 * arithmetic of a step. A vector that is exchanged comes back as the mean of all ranks, of which
 * only signs and scales are sent, with what was lost added to the next one.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum bb_onebit_kind { BB_ONEBIT_NONE, BB_ONEBIT_ADAM, BB_ONEBIT_ZERO_ONE, BB_ONEBIT_LAMB };

/* Settings by their names in a ds_config; bb_onebit_of has DeepSpeed's defaults. */
struct bb_onebit {
	enum bb_onebit_kind kind;
	double lr, beta1, beta2, eps, weight_decay;
	double freeze_step; /* warm-up steps; 0/1 Adam: var_freeze_step */
	/* 0/1 Adam: updates of the variance until their interval doubles; steps until the interval
	   of exchanges doubles, and its maximum. */
	double var_update_scaler, local_step_scaler, local_step_clipper;
	/* 1-bit LAMB. */
	double coeff_beta, factor_max, factor_min, factor_threshold, max_coeff, min_coeff;
};

struct bb_onebit bb_onebit_of(enum bb_onebit_kind kind);

/* A number among the parameters: the signatures of OnebitAdam, ZeroOneAdam and OnebitLamb. */
struct bb_onebit_parameter {
	const char *name;
	unsigned kinds; /* bit KIND: the optimizer has it; 0: it is part of another parameter */
	size_t at;      /* of a double in struct bb_onebit */
	double otherwise, min, max;
	bool whole;
};

extern const struct bb_onebit_parameter bb_onebit_parameters[]; /* ends with a name of NULL */

/* ---- the schedule ---------------------------------------------------------------------------- */

enum bb_onebit_exchange {
	BB_ONEBIT_FULL,  /* gradients are all-reduced, the variance is updated */
	BB_ONEBIT_CODED, /* codes of what bb_onebit_give makes */
	BB_ONEBIT_LOCAL, /* nothing: each rank applies its own update */
	BB_ONEBIT_SYNC   /* likewise, and then codes of the sum of updates since the last one */
};

/* Zero-initialise: before the first step. */
struct bb_onebit_schedule {
	int64_t step; /* from 1 */
	/* 0/1 Adam: intervals less 1, and steps until they double. */
	int64_t interval, updates, local_interval, locals;
};

/*
 * The exchange of the next step. 1-bit Adam and LAMB: full up to freeze_step. 0/1 Adam: full if the
 * interval divides the step; local from freeze_step on. DeepSpeed's first step, which only tries
 * the exchange, is a full one here; its 0/1 Adam begins with local steps one step later.
 */
enum bb_onebit_exchange bb_onebit_next(const struct bb_onebit *settings,
				       struct bb_onebit_schedule *schedule);

/* Factor by which STEPS steps (at least 1) send fewer bytes than as many all-reduces of gradients
   of BITS bits, of which a coded exchange sends one: 1 / (w + (1 - w) / BITS) with w the share of
   full ones. */
double bb_onebit_saving(const struct bb_onebit *settings, int bits, int64_t steps);

/* ---- arithmetic ------------------------------------------------------------------------------ */

/* m = β1 m + (1 - β1) g and, unless V is NULL, v = β2 v + (1 - β2) g², where g is GRADIENT times
   UNSCALE. */
void bb_onebit_moments(const struct bb_onebit *settings, float unscale, const float *gradient,
		       float *m, float *v, size_t n);

/* Replace X[0, N), a rank's gradient times UNSCALE, by what it gives to a coded exchange: 1-bit
   Adam and LAMB the momentum with it, others itself. And set the momentum by the MEAN of all that
   is given. */
void bb_onebit_give(const struct bb_onebit *settings, float unscale, const float *m, float *x,
		    size_t n);
void bb_onebit_take(const struct bb_onebit *settings, const float *mean, float *m, size_t n);

/* p -= lr COEFFICIENT (m / (√v + ε) + weight_decay p), without bias correction; unless SUM is NULL,
   the same to it. */
void bb_onebit_apply(const struct bb_onebit *settings, float coefficient, const float *m,
		     const float *v, float *p, float *sum, size_t n);

/* 0/1 Adam, which exchanges X = SUM (√v + ε), where p -= SUM and SUM = 0; and after it, with the
   sum of learning rates since the last exchange: m = -MEAN / RATES, p += MEAN / (√v + ε). */
void bb_onebit_undo(const struct bb_onebit *settings, const float *v, float *p, float *sum,
		    float *x, size_t n);
void bb_onebit_redo(const struct bb_onebit *settings, float rates, const float *mean,
		    const float *v, float *m, float *p, size_t n);

/* ---- 1-bit LAMB ------------------------------------------------------------------------------ */

/* SCALES of all elements of the N momenta of a fused buffer, of LENGTHS[tensor] elements one after
   another in M: the mean of all root mean squares over its own. A momentum is multiplied by its
   scale before the exchange, and divided after it. The scale of zeros is 1. */
void bb_onebit_scales(const float *m, const size_t *lengths, size_t n, float *scales);

/* *FROZEN = its running mean over β = coeff_beta with the trust ratio |p| / |update| of a warm-up
   step, from min_coeff to max_coeff, which is returned; 1, which does not count, if either norm
   is 0. */
double bb_onebit_trust(const struct bb_onebit *settings, const float *m, const float *v,
		       const float *p, size_t n, double *frozen);

/*
 * The factor of the frozen coefficient in a compressed step after a step with LAST (1 at first):
 * the largest (√v + ε) / (√FRESH + ε), of which 1 replaces the share that weight decay has in the
 * update of P; from factor_min to factor_max and at most factor_threshold apart from LAST. FRESH, a
 * variance that goes on, is updated first by the gradient that follows from the momentum M and
 * BEFORE, that of the step before: (m - β1 before) / (1 - β1).
 */
double bb_onebit_factor(const struct bb_onebit *settings, const float *m, const float *before,
			const float *v, const float *p, float *fresh, size_t n, double last);
