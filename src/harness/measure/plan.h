/*
 * plan.h - the ordered list of cases that a request makes.
 */
#ifndef BB_HARNESS_MEASURE_PLAN_H
#define BB_HARNESS_MEASURE_PLAN_H

#include "core/strbuf.h"
#include "harness/measure/collective.h"

#define BB_NO_OP (-1)
#define BB_NO_ROOT (-1)
#define BB_PLAN_MAX_CASES 100000

#define BB_ALGORITHM_TEXT 48

/* Returns the row of NATIVES that is called NAME; NULL: none. NATIVES may be NULL. */
const struct bb_native *bb_native_find(const struct bb_native *natives, const char *name);

/* One algorithm that was asked for. Schedule and native NULL: auto, the backend chooses. */
struct bb_choice {
	const char *name; /* owned by its algorithm, native, the plan, or constant */
	const struct bb_algorithm *schedule;
	const struct bb_native *native;
	/* What is run where the library cannot do a call by NATIVE: busbench's schedule of that
	   name. NULL: nothing. */
	const struct bb_algorithm *stand_in;
	/* The library's algorithm that was asked for, and why SCHEDULE runs in its place at any
	   call; NULL: it does not. */
	const struct bb_native *instead_of;
	const char *reason;
};

/*
 * What ASKED, a name as it is given to --algo, is of COLLECTIVE among NRANKS, NATIVES being the
 * backend's. Its own algorithm goes before a schedule of the same name, which stands in for it
 * where the library does not have it. Returns NULL, or why it cannot be had; choice->name is NULL
 * where there is no such algorithm at all.
 */
const char *bb_choice_find(struct bb_choice *choice, const struct bb_native *natives,
			   const struct bb_collective *collective, int nranks, const char *asked);

/* One row: both placements of one size. */
struct bb_case {
	const struct bb_choice *choice;
	enum bb_dtype dtype;
	int op;              /* enum bb_op, or BB_NO_OP */
	int root;            /* or BB_NO_ROOT */
	size_t count;        /* the call's count parameter */
	uint64_t size_bytes; /* what "size" says and algbw is taken over */
	uint64_t memory;     /* bytes of IN + OUT + the schedule's TMP of all local ranks */
	char *skip;          /* why it is not run, NULL: run it */
};

/* Something asked for that has no cases at all. */
struct bb_plan_skip {
	const char *algorithm; /* where not one: the list as it was asked for */
	const char *reason;
	char text[64]; /* where the reason had to be made */
};

struct bb_plan {
	const struct bb_collective *collective;
	const struct bb_backend *backend;
	const struct bb_native *natives;
	int nranks;
	double spread;
	/* Of each of bb_algorithms, how it is called here; "" where by its own name. */
	char (*own_names)[BB_ALGORITHM_TEXT];
	struct bb_choice *choices;
	int nchoices;
	struct bb_case *cases; /* algorithm outermost, then datatype, op, root, size innermost */
	size_t ncases;
	struct bb_plan_skip *skips;
	int nskips;
	size_t runnable; /* cases without a skip */
};

struct bb_plan_request {
	const struct bb_options *options;
	const struct bb_collective_options *asked;
	const struct bb_collective *collective;
	const struct bb_backend *backend;
	/* The backend's, with those it discovered; ends with name NULL. They outlive the plan. */
	const struct bb_native *natives;
	int nranks;      /* of the group that runs a case */
	int nroots;      /* roots of -r all: the size of the smallest group */
	int nlocal;      /* ranks of this process */
	uint64_t memory; /* bytes that buffers of this process may take; UINT64_MAX: no limit */
};

/*
 * Expand REQUEST. Pairs of datatype and op that do not go together become skips where both were
 * named, and are dropped where `all` made them; algorithms that do not exist here become skips,
 * sizes beyond the memory become cases with a reason. BB_EUSAGE for too many rows; BB_EUNSUPPORTED
 * when nothing is left to run (the plan is complete even then, so that the reasons can be told);
 * BB_EINTERNAL without memory. Free PLAN whatever comes back.
 */
BB_MUST bb_status bb_plan_make(struct bb_plan *plan, const struct bb_plan_request *request,
			       struct bb_error *error);
void bb_plan_free(struct bb_plan *plan); /* of a zeroed plan: nothing */

/* What SCHEDULE is called in this plan; lasts as long as the plan. */
const char *bb_plan_schedule_name(const struct bb_plan *plan, const struct bb_algorithm *schedule);

/*
 * The shape of a case's call, its chunk left 0. Root is 0 where there is none. MATRIX: nranks²
 * elements that an alltoallv's counts are written to and that the shape then points to; NULL
 * leaves the shape without.
 */
struct bb_shape bb_plan_shape(const struct bb_plan *plan, const struct bb_case *c, int nranks,
			      bool in_place, size_t *matrix);

/*
 * *natives = what BACKEND has of its own. Discovering takes a library its time: with what it
 * discovers only where ALGORITHMS, a list of names or all, may speak of it. *OWNED: to be freed in
 * the end, or NULL.
 */
BB_MUST bb_status bb_plan_natives(const struct bb_native **natives, struct bb_native **owned,
				  const struct bb_backend *backend, const char *algorithms,
				  struct bb_error *error);

/*
 * --list: collectives and algorithms of every backend, of those that can be loaded why they are not
 * here, and which ops take which datatypes.
 */
void bb_plan_list(struct bb_strbuf *out);

#endif
