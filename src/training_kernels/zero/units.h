/*
 * units.h - what ZeRO reduces, gathers and frees as one: units of a model, the runs of the passes
 * through them, their places in the arrays of a rank, their codes, and the duration of a pass.
 *
 * Elements of a model are numbered unit by unit.
 */
#pragma once

#include "models/units.h"
#include "training_kernels/kernel/coded.h"

#define BB_ZERO_SIZE_UNITS 32 /* of a bare number of parameters */

/* What is padded so that ranks have equal parts: a unit, one flat vector, as in ZeRO and FSDP1; or
   each parameter, by its rows, as in FSDP2 (torch/distributed/fsdp/_fully_shard/_fsdp_param.py). */
enum bb_zero_padding { BB_ZERO_FLAT, BB_ZERO_PARAMETER };

/* ROWS of WIDTH elements from FIRST on, divided among ranks by rows: a tensor, or a flat unit. */
struct bb_zero_rows {
	uint64_t first, rows, width;
};

struct bb_zero_unit {
	uint64_t first, elements; /* of the model */
	size_t rows, nrows;       /* in the list of them */
	size_t enter, leave;      /* first and last run of its module's forward pass */
	bool kept;                /* from the forward to the backward pass: FSDP's root */
};

/* A part of the passes that works on one unit, while units around it are gathered, too. */
struct bb_zero_run {
	size_t unit;
	double share[2]; /* of the model's FLOPs of the forward and the backward pass */
};

struct bb_zero_units {
	struct bb_zero_unit *list; /* owned */
	size_t n;
	uint64_t elements;
	uint64_t multiple; /* elements that parts of several ranks are padded to, too; 0: 1 */
	struct bb_zero_rows *rows; /* owned */
	struct bb_zero_run *runs;  /* in the order of the forward pass; owned */
	size_t nruns;
	size_t *order[2]; /* units as the forward and the backward pass enter them; [0] owned */
};

/* The units of MODEL by DIVISION; LEAST as in bb_units_divide. BB_EINTERNAL without memory. The
   caller frees UNITS whatever comes back. */
BB_MUST bb_status bb_zero_units_of_model(struct bb_zero_units *units, const struct bb_model *model,
					 enum bb_unit_division division, uint64_t least,
					 enum bb_zero_padding padding, struct bb_error *error);
/* ELEMENTS (at least 1), divided evenly among MOST layers, or fewer if there are fewer elements. */
BB_MUST bb_status bb_zero_units_of_size(struct bb_zero_units *units, size_t most, uint64_t elements,
					struct bb_error *error);
void bb_zero_units_free(struct bb_zero_units *units);

/*
 * Place of a unit in the arrays of a rank: whole arrays hold all units, divided ones this rank's
 * part of each. Under stages 1 to 3 a unit is padded with zeros so that all ranks have equal parts,
 * which stand one after another in whole arrays; under stage 0 its part is the whole unit.
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

/* The elements of ROWS that RANK of RANKS has: COUNT from FIRST on, padded to PADDED. */
struct bb_zero_piece {
	uint64_t first, count, padded;
};
struct bb_zero_piece bb_zero_piece(const struct bb_zero_rows *rows, uint64_t ranks, uint64_t rank);

/* Elements of unit U that each of RANKS has, with padding. */
uint64_t bb_zero_part(const struct bb_zero_units *units, size_t u, uint64_t ranks);
/* Places of UNITS on RANK of NRANKS under STAGE. BB_EINTERNAL without memory. */
BB_MUST bb_status bb_zero_places_make(struct bb_zero_places *places,
				      const struct bb_zero_units *units, int stage, int nranks,
				      int rank, struct bb_error *error);
void bb_zero_places_free(struct bb_zero_places *places);

/* ---- codes --------------------------------------------------------------------------------- */

/*
 * The exchange of unit U of UNITS among NRANKS by stage 3 of ZeRO++ (arXiv 2306.10209;
 * deepspeed/runtime/zero, DeepSpeed 0.19), in blocks of qwZ for the part of a rank
 * (bb_coding_qwz_blocks). LOCAL 0: parameters in int8, gathered (qwZ); else the ranks of a node, of
 * gradients in int4, reduced in nodes and across (qgZ).
 */
struct bb_coded_form bb_zero_coded_form(const struct bb_zero_units *units, size_t u, int nranks,
					int local);
/* That of signs by DeepSpeed's 1-bit optimizers after their warm-up, with error memory. */
struct bb_coded_form bb_zero_sign_form(const struct bb_zero_units *units, size_t u, int nranks);

/* ---- time of a pass ------------------------------------------------------------------------ */

/*
 * When the gather of the next unit is issued in a backward pass: before the computation of this
 * one, behind it but before its reduction, or behind both, as torch.distributed.fsdp's
 * BackwardPrefetch.BACKWARD_PRE, BACKWARD_POST and None.
 */
#define BB_ZERO_MOST_DEPTH 2 /* units gathered ahead */
enum bb_zero_prefetch { BB_ZERO_PRE, BB_ZERO_POST, BB_ZERO_NONE };

/* A pass through UNITS of equal cost, one after another. */
struct bb_zero_pace {
	size_t units;
	double compute, gather, reduce; /* seconds of a unit; a forward pass reduces nothing */
	enum bb_zero_prefetch prefetch;
	size_t depth;  /* units gathered ahead; 0: as BB_ZERO_NONE */
	bool separate; /* gathers and reductions do not wait for each other */
	bool kept;     /* the first unit is still gathered */
};

/*
 * Seconds of a pass: a unit is computed when the one before it is and its parameters are there;
 * gathers and reductions take place in the order in which they are issued, one at a time unless
 * they are separate. With depth 1 a forward pass takes gather + (units - 1) max(compute, gather) +
 * compute, without prefetch units (compute + gather). The recurrence is derived from the order in
 * which PyTorch 2.15 issues them (torch/distributed/fsdp/_runtime_utils.py).
 */
double bb_zero_pass_seconds(const struct bb_zero_pace *pace);
