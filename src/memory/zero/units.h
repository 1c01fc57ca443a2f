/*
 * units.h - a model in units, which are reduced, gathered and freed as one: its layers; and where
 * they lie in the rows of a rank that ZeRO divides.
 */
#ifndef BB_MEMORY_ZERO_UNITS_H
#define BB_MEMORY_ZERO_UNITS_H

#include "core/status.h"
#include "models/model.h"

#define BB_ZERO_SIZE_UNITS 32 /* of a size of which no more is known */

struct bb_zero_unit {
	uint64_t first, elements; /* of the model's, in the order of the forward pass */
	double forward, backward; /* shares of the model's FLOPs of each pass */
};

struct bb_zero_units {
	struct bb_zero_unit *list; /* owned */
	size_t n;
	uint64_t elements;
};

/* The layers of MODEL; those outside of all blocks are layers too. BB_EINTERNAL without memory. */
BB_MUST bb_status bb_zero_units_of_model(struct bb_zero_units *units, const struct bb_model *model,
					 struct bb_error *error);
/* ELEMENTS (at least 1), shared out evenly among BB_ZERO_SIZE_UNITS layers, or as many as there
   are. */
BB_MUST bb_status bb_zero_units_of_size(struct bb_zero_units *units, uint64_t elements,
					struct bb_error *error);
void bb_zero_units_free(struct bb_zero_units *units);

/*
 * A unit in the rows of a rank. Under stages 1 to 3 it is padded with zeros to a multiple of the
 * ranks, each of which has an equal part; under stage 0 it is whole.
 */
struct bb_zero_place {
	uint64_t at;      /* in a whole row */
	uint64_t padded;  /* elements there */
	uint64_t mine;    /* within it, where this rank's part begins */
	uint64_t part_at; /* in a divided row: under stage 0 the same as a whole one */
	uint64_t part;    /* elements there */
};

struct bb_zero_places {
	struct bb_zero_place *list; /* [unit]; owned */
	uint64_t whole, divided;    /* elements of the rows */
	uint64_t largest;           /* padded elements of the largest unit */
};

BB_MUST bb_status bb_zero_places_make(struct bb_zero_places *places,
				      const struct bb_zero_units *units, int stage, int nranks,
				      int rank, struct bb_error *error);
void bb_zero_places_free(struct bb_zero_places *places);

#endif
