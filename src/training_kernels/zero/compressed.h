/*
 * compressed.h - steps of DeepSpeed's 1-bit optimizers (models/memory/onebit.h) after their
 * warm-up: each rank keeps its own gradients, and signs are exchanged unit by unit, with error
 * memory.
 */
#pragma once

#include "models/memory/onebit.h"
#include "training_kernels/kernel/coded.h"
#include "training_kernels/zero/units.h"

/* The exchange of each unit. They follow one another, so that all but errors share their memory. */
struct bb_zero_exchange {
	struct bb_coded_form *forms; /* [unit]; owned; NULL: none */
	size_t *errors;              /* [unit]: where they begin; owned; [units]: how many */
	size_t bytes;                /* of the memory */
};

/* BB_EINTERNAL without memory. The caller frees EXCHANGE whatever comes back. */
BB_MUST bb_status bb_zero_exchange_make(struct bb_zero_exchange *exchange,
					const struct bb_zero_units *units, int nranks,
					struct bb_error *error);
void bb_zero_exchange_free(struct bb_zero_exchange *exchange); /* zeroed: no-op */

/* The exchange of unit U on RANK, with its MEMORY and all ERRORS of the rank. */
struct bb_coded bb_zero_exchange_at(const struct bb_zero_exchange *exchange, size_t u, int rank,
				    char *memory, float *errors);

/* Update parameters P by the momenta, which GRADIENT changes first; NULL: they have changed. */
static inline void bb_zero_onebit(const struct bb_onebit *settings, float unscale,
				  const float *gradient, float *p, float *m, float *v, size_t n)
{
	if (gradient)
		bb_onebit_moments(settings, unscale, gradient, m, v, n);
	bb_onebit_apply(settings, 1, m, v, p, NULL, n);
}
