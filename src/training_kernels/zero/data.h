/*
 * data.h - the parameters and gradients of the trained model.
 *
 * Initial parameters follow from their index. A gradient follows from the bits of its parameter,
 * and from a sum over all parameters that the forward pass read. A parameter that was wrong
 * anywhere, at any time, therefore changes all later results.
 *
 * Scaled gradients are small multiples of a power of two, such that all their sums are exact in the
 * datatype. The order in which ranks and microbatches are summed thus does not change the result.
 */
#pragma once

#include "core/datatype.h"
#include "core/status.h"
#include "models/memory/onebit.h"
#include "training_kernels/kernel/adam.h"
#include "training_kernels/zero/units.h"

/* ---- data ------------------------------------------------------------------------------------ */

#define BB_ZERO_MOST_SCALE 65536.0f
#define BB_ZERO_MOST_DRAW 8

struct bb_zero_data {
	enum bb_dtype dtype;
	int nranks;
	int64_t microbatches; /* of a step */
	int most;             /* gradients are drawn from -most to most (bb_zero_most_draw) */
	uint64_t elements;    /* of the model */
	int64_t overflow;     /* step, from 1, in which a gradient overflows; 0: none */
	float rate;           /* of Adam */
	int finer;            /* gradients are drawn as multiples of 2^-(16 + finer) */
	bool bare;            /* 16-bit parameters have no fp32 copy */
	bool stochastic;      /* then their rounding is */
};

/* The largest draw whose sums stay exact, at most BB_ZERO_MOST_DRAW; 0: none. */
int bb_zero_most_draw(enum bb_dtype dtype, int nranks, int64_t microbatches);

/* The origin of a gradient. */
struct bb_zero_batch {
	int64_t step, microbatch; /* from 1, from 0 */
	int rank;
	uint64_t forward; /* sum of the forward pass */
	float scale;
};

/* Set PARAMETERS to the initial values of N elements of the model, from FIRST on. */
void bb_zero_initial(enum bb_dtype dtype, uint64_t first, size_t n, void *parameters);

/* A sum over N elements from FIRST on, which depends on their indices and bits. The sums of parts
   add up to the sum of the whole. */
uint64_t bb_zero_sum(enum bb_dtype dtype, uint64_t first, size_t n, const void *parameters);

/* Set GRADIENTS to the scaled gradients of N elements from FIRST on, whose values are PARAMETERS.
   ADD: add to GRADIENTS instead. Returns how many the datatype flushes to 0. */
uint64_t bb_zero_gradients(const struct bb_zero_data *data, const struct bb_zero_batch *batch,
			   uint64_t first, size_t n, const void *parameters, void *gradients,
			   bool add);

/*
 * Round VALUES, N elements from FIRST on after optimizer step T (from 1), to PARAMETERS, which they
 * follow; the draws of stochastic rounding depend on T and the element alone. Returns how many
 * updates change nothing, though VALUES did.
 */
uint64_t bb_zero_round(const struct bb_zero_data *data, uint64_t t, uint64_t first, size_t n,
		       const float *values, void *parameters);

/* ---- dynamic loss scaling ------------------------------------------------------------------ */

struct bb_zero_scale {
	float scale;     /* a power of two */
	int64_t good;    /* good steps since the scale last changed */
	int64_t growth;  /* good steps until the scale doubles */
	int64_t skipped; /* skipped steps */
	bool fixed;      /* fp32: always 1 */
};

/* Update the scale after a step. An overflow skips the step and halves the scale, down to 1. After
   GROWTH good steps the scale doubles, up to BB_ZERO_MOST_SCALE, above which sums may be
   inexact. */
void bb_zero_scale_update(struct bb_zero_scale *scale, bool overflowed);

/* ---- the reference -------------------------------------------------------------------------- */

/* What codes do to it (coding.h). */
struct bb_zero_coder {
	/* What the passes see of PARAMETERS. */
	const char *(*see)(struct bb_zero_coder *coder, const char *parameters);
	/* The gradients of a step that sees SEEN, and whose BATCH lacks rank and microbatch; NULL:
	   they are not coded. */
	const float *(*reduce)(struct bb_zero_coder *coder, const struct bb_zero_batch *batch,
			       const char *seen);
};

/* A model trained without communication: it is whole, and gets the gradients of all ranks. */
struct bb_zero_reference {
	const struct bb_zero_data *data;
	struct bb_zero_coder *coder; /* NULL: nothing is coded */
	struct bb_zero_scale scale;
	uint64_t steps;                    /* of the optimizer */
	char *parameters;                  /* in the datatype; owned */
	float *master, *moment1, *moment2; /* in one piece; owned */
	uint64_t *seeds;                   /* [rank and microbatch] of a step; owned */
	size_t nseeds;
	/* Of a 1-bit optimizer, else NULL; and its compressed steps, of all ranks; owned. */
	const struct bb_onebit *onebit;
	const struct bb_zero_units *units;
	struct bb_coded_form *forms; /* [unit] */
	struct bb_coded *coded;      /* [unit][rank] */
	char *memory;                /* of them */
	uint64_t unchanged, flushed; /* updates and gradients, as counted by bb_zero_round and
					bb_zero_gradients */
	float drawn[2 * BB_ZERO_MOST_DRAW + 1]; /* [draw + most]: gradients of a step */
};

/* Make the initial model. BB_EINTERNAL without memory. */
BB_MUST bb_status bb_zero_reference_open(struct bb_zero_reference *reference,
					 const struct bb_zero_data *data,
					 const struct bb_zero_scale *scale, struct bb_error *error);
void bb_zero_reference_step(struct bb_zero_reference *reference, int64_t step);
/* From now on steps of UNITS are compressed. BB_EINTERNAL without memory. */
BB_MUST bb_status bb_zero_reference_compress(struct bb_zero_reference *reference,
					     const struct bb_zero_units *units,
					     struct bb_error *error);
/* Without a master copy the reference keeps one beside, with the same gradients. Returns the RMS
   difference of the parameters from it, over the RMS of its movement from the initial model. */
double bb_zero_reference_drift(const struct bb_zero_reference *reference);
void bb_zero_reference_close(struct bb_zero_reference *reference);
