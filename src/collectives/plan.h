/*
 * plan.h - the ordered list of cases that a request makes.
 */
#pragma once

#include "core/strbuf.h"
#include "harness/measure/algorithms.h"
#include "collectives/collective.h"

#define BB_NO_OP (-1)
#define BB_NO_ROOT (-1)
#define BB_NO_MATRIX (-1)
#define BB_PLAN_MAX_CASES 100000

/* One row: both placements of one size, or of one matrix. */
struct bb_case {
	const struct bb_choice *choice;
	enum bb_dtype dtype;
	int op;              /* enum bb_op, or BB_NO_OP */
	int root;            /* or BB_NO_ROOT */
	int matrix;          /* of those of --matrix, or BB_NO_MATRIX */
	size_t count;        /* the call's count parameter; 0 with a matrix */
	uint64_t size_bytes; /* the size of the row, which algbw refers to */
	uint64_t memory;     /* bytes of IN + OUT + the schedule's TMP of all local ranks */
	char *skip;          /* why it is not run; NULL: run it */
	bool barrier;        /* the backend's own barrier, in place of a call */
};

/* A part of the request that has no cases. */
struct bb_plan_skip {
	const char *algorithm; /* its name, or the whole list */
	const char *reason;
	char text[64]; /* holds the reason, if it is not constant */
};

struct bb_plan {
	/* The request. */
	const struct bb_options *options;
	const struct bb_collective_options *settings;
	const struct bb_collective *collective;
	const struct bb_backend *backend;
	/* The backend's algorithms and those it discovered; ends with name NULL. NULL: none. */
	const struct bb_native *natives;
	int nranks;      /* of the group that runs a case */
	int nroots;      /* roots of -r all: the size of the smallest group */
	int nlocal;      /* ranks of this process */
	uint64_t memory; /* bytes that buffers of this process may take; UINT64_MAX: no limit */

	/* What bb_plan_make makes of it. */
	struct bb_choice *choices;
	int nchoices;
	/* Algorithm outermost, then datatype, op, root; size or matrix innermost. */
	struct bb_case *cases;
	size_t ncases;
	struct bb_plan_skip *skips;
	int nskips;
	size_t runnable; /* cases without a skip */
};

/*
 * Expand the request of PLAN, whose other members are zero. A datatype and an op that exclude each
 * other become a skip if both were named, and are dropped if `all` paired them. Algorithms that do
 * not exist here become skips, and sizes beyond the memory become cases with a reason. BB_EUSAGE
 * for too many rows; BB_EUNSUPPORTED if nothing can run (the plan is complete even then, so that
 * the reasons can be reported); BB_EINTERNAL without memory. Free PLAN whatever comes back.
 */
BB_MUST bb_status bb_plan_make(struct bb_plan *plan, struct bb_error *error);
void bb_plan_free(struct bb_plan *plan); /* of a zeroed plan: nothing */

/*
 * Returns the shape of a case's call, with chunk 0, and root 0 if there is none. The counts of an
 * alltoallv are written to MATRIX, of nranks² elements, to which the shape then points; NULL: the
 * shape has none.
 */
struct bb_shape bb_plan_shape(const struct bb_plan *plan, const struct bb_case *c, int nranks,
			      bool in_place, size_t *matrix);
