/*
 * learner.h - one rank of the small model of --train that learns by a coded exchange: its state,
 * and a step before and after the exchange. Gradient descent takes the mean gradient; 1-bit
 * optimizers (models/memory/onebit.h) exchange what their schedule says.
 */
#pragma once

#include "training_kernels/data_parallel/data_parallel.h"

#define BB_LEARNER_TENSORS 4

struct bb_learner {
	const struct bb_strategy_setting *setting;
	struct bb_onebit settings;
	struct bb_onebit_schedule schedule;
	enum bb_onebit_exchange exchange; /* of the current step */
	struct bb_coded_form form;
	struct bb_coded coded;
	float p[BB_TRAIN_PARAMETERS], m[BB_TRAIN_PARAMETERS], v[BB_TRAIN_PARAMETERS];
	float before[BB_TRAIN_PARAMETERS], fresh[BB_TRAIN_PARAMETERS]; /* of LAMB */
	float sum[BB_TRAIN_PARAMETERS], rates;                         /* of 0/1 Adam */
	float scales[BB_TRAIN_PARAMETERS]; /* of LAMB, as are the next ones; else 1 */
	double frozen[BB_LEARNER_TENSORS], factors[BB_LEARNER_TENSORS];
	double whole[BB_TRAIN_PARAMETERS]; /* what is all-reduced */
	struct bb_coded_balance balance;
};

/* Append all steps of all ranks to TAPES[rank]; those of a 1-bit optimizer differ. */
void bb_learner_write(struct bb_tape *tapes, const struct bb_strategy_setting *setting);

/* L = RANK before the first step, with parameters VALUES and zeroed MEMORY for its exchange; NULL
   and NULL: only the bytes of that count. Returns them. L must not move. */
size_t bb_learner_open(struct bb_learner *l, const struct bb_strategy_setting *setting, int rank,
		       const double *values, char *memory);

/* Make what is exchanged in the next step, from the sum of GRADIENT over this rank's samples, of
   SAMPLES in all; and end the step with its result. Sums of what is all-reduced are exact. */
void bb_learner_prepare(struct bb_learner *l, const double *gradient, double samples);
void bb_learner_apply(struct bb_learner *l);

/* RESULT = RANK after all steps, whose exchanges are computed by this rank alone. False without
   memory. Its coded exchange has no memory any more. */
bool bb_learner_alone(struct bb_learner *result, const struct bb_strategy_setting *setting,
		      int rank, uint64_t seed, size_t samples);
