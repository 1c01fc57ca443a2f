/*
 * units.h - the layers of a model, which are reduced, gathered and freed as units; and their
 * places in the arrays of a rank that ZeRO divides.
 */
#pragma once

#include "core/status.h"
#include "models/model.h"

#define BB_ZERO_SIZE_UNITS 32 /* of a bare number of parameters */

struct bb_zero_unit {
	uint64_t first, elements; /* elements of the model, in the order of the forward pass */
	double forward, backward; /* shares of the model's FLOPs of each pass */
};

struct bb_zero_units {
	struct bb_zero_unit *list; /* owned */
	size_t n;
	uint64_t elements;
};

/* The layers of MODEL, including those outside all blocks. BB_EINTERNAL without memory. */
BB_MUST bb_status bb_zero_units_of_model(struct bb_zero_units *units, const struct bb_model *model,
					 struct bb_error *error);
/* ELEMENTS (at least 1), divided evenly among BB_ZERO_SIZE_UNITS layers, or fewer if there are
   fewer elements. */
BB_MUST bb_status bb_zero_units_of_size(struct bb_zero_units *units, uint64_t elements,
					struct bb_error *error);
void bb_zero_units_free(struct bb_zero_units *units);

/*
 * Place of a unit in the arrays of a rank: whole arrays hold all units, divided ones this rank's
 * part of each. Under stages 1 to 3 a unit is padded with zeros so that all ranks have equal parts;
 * under stage 0 its part is the whole unit.
 */
struct bb_zero_place {
	uint64_t at;      /* offset in a whole array */
	uint64_t padded;  /* elements there */
	uint64_t mine;    /* offset of this rank's part in the unit */
	uint64_t part_at; /* offset in a divided array */
	uint64_t part;    /* elements there */
};

struct bb_zero_places {
	struct bb_zero_place *list; /* [unit]; owned */
	uint64_t whole, divided;    /* elements of the arrays */
};

/* Places of UNITS on RANK of NRANKS under STAGE. BB_EINTERNAL without memory. */
BB_MUST bb_status bb_zero_places_make(struct bb_zero_places *places,
				      const struct bb_zero_units *units, int stage, int nranks,
				      int rank, struct bb_error *error);
void bb_zero_places_free(struct bb_zero_places *places);
