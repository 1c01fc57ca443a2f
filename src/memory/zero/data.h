/*
 * data.h - what is trained with: parameters that follow from their place, and gradients that
 * follow from the parameters. A gradient depends on its element's present bits, and on a sum over
 * all parameters as the forward pass saw them, so that a parameter which was wrong anywhere, at
 * any time, changes all that comes after.
 *
 * Scaled gradients are small multiples of the loss scale's power of two, so few that every sum of
 * them is exact in the datatype: whatever the order in which ranks and micro-batches are summed,
 * the result is the same.
 */
#ifndef BB_MEMORY_ZERO_DATA_H
#define BB_MEMORY_ZERO_DATA_H

#include "core/datatype.h"
#include "memory/zero/units.h"

#define BB_ZERO_MOST_SCALE 65536.0f
#define BB_ZERO_MOST_DRAW 8

struct bb_zero_data {
	enum bb_dtype dtype;
	int nranks;
	int64_t microbatches; /* of a step */
	int most;             /* gradients are drawn from -most … most; see bb_zero_most_draw */
	uint64_t elements;    /* of the model */
	int64_t overflow;     /* step, from 1, in which a gradient overflows; 0: none */
};

/* The largest draw of which sums stay exact, at most BB_ZERO_MOST_DRAW; 0: there is none. */
int bb_zero_most_draw(enum bb_dtype dtype, int nranks, int64_t microbatches);

/* Where and when a gradient is made. */
struct bb_zero_batch {
	int64_t step, microbatch; /* from 1, from 0 */
	int rank;
	uint64_t forward; /* the sum that the forward pass came to */
	float scale;
};

/* PARAMETERS = elements FIRST … of the model, before training. */
void bb_zero_initial(enum bb_dtype dtype, uint64_t first, size_t n, void *parameters);

/* A sum over elements FIRST …, in which each counts by its place: of all parts, in any order, the
   same. */
uint64_t bb_zero_sum(enum bb_dtype dtype, uint64_t first, size_t n, const void *parameters);

/* The gradients of elements FIRST … that have PARAMETERS, scaled; ADD: onto those there are. */
void bb_zero_gradients(const struct bb_zero_data *data, const struct bb_zero_batch *batch,
		       uint64_t first, size_t n, const void *parameters, void *gradients, bool add);

/* ---- dynamic loss scaling ------------------------------------------------------------------ */

struct bb_zero_scale {
	float scale;
	int64_t good;    /* steps since it last changed */
	int64_t growth;  /* good steps after which it doubles */
	int64_t skipped; /* steps */
	bool fixed;      /* fp32: always 1 */
};

/* After a step that overflowed, and is skipped: halves, not below 1. After a good one: doubles when
   it is time, to BB_ZERO_MOST_SCALE at most, above which sums need not be exact. */
void bb_zero_scale_update(struct bb_zero_scale *scale, bool overflowed);

/* ---- without any communication ------------------------------------------------------------- */

/* A model trained by one who has all of it, and makes all ranks' gradients. */
struct bb_zero_reference {
	const struct bb_zero_data *data;
	struct bb_zero_scale scale;
	uint64_t steps;   /* taken */
	char *parameters; /* in the datatype; owned */
	float *master, *moment1, *moment2;
	uint64_t *seeds; /* of all gradients of a step */
	size_t nseeds;
};

BB_MUST bb_status bb_zero_reference_open(struct bb_zero_reference *reference,
					 const struct bb_zero_data *data,
					 const struct bb_zero_scale *scale, struct bb_error *error);
void bb_zero_reference_step(struct bb_zero_reference *reference, int64_t step);
void bb_zero_reference_close(struct bb_zero_reference *reference);

#endif
