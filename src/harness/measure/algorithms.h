/*
 * algorithms.h - the algorithms that --algo may name: busbench's schedules and those of a backend.
 */
#pragma once

#include "core/strbuf.h"
#include "harness/run/options.h"
#include "schedules/schedule.h"

/* Returns the row of NATIVES that is called NAME; NULL: none. NATIVES may be NULL. */
const struct bb_native *bb_native_find(const struct bb_native *natives, const char *name);

/* Returns the name of SCHEDULE, with BB_OWN if NATIVES, which may be NULL, have the plain one. */
const char *bb_schedule_name(const struct bb_algorithm *schedule, const struct bb_native *natives);

/* A requested algorithm. Schedule and native NULL: auto, the backend chooses. */
struct bb_choice {
	const char *name; /* of its algorithm or native, or constant */
	const struct bb_algorithm *schedule;
	const struct bb_native *native;
	/* busbench's schedule of that name, which runs if the library cannot do a call by NATIVE.
	   NULL: none. */
	const struct bb_algorithm *stand_in;
	/* The requested algorithm of the library in whose place SCHEDULE always runs, and why.
	   NULL: none. */
	const struct bb_native *instead_of;
	const char *reason;
};

/*
 * *CHOICE = the algorithm of COLLECTIVE on NRANKS that --algo calls GIVEN. NATIVES are the
 * backend's. A native algorithm has priority over the schedule of the same name, which stands in
 * for it. Returns why it cannot run, or NULL; choice->name is NULL if there is no such algorithm at
 * all.
 */
const char *bb_choice_find(struct bb_choice *choice, const struct bb_native *natives,
			   const struct bb_collective *collective, int nranks, const char *given);

/* Check that LIST, the value of --algo, has names of schedules or of the backend's own algorithms,
   or auto, or all alone. BB_EUSAGE names the first word that is none of them. */
BB_MUST bb_status bb_algorithms_check(const char *list, const struct bb_options *options,
				      const struct bb_collective *collective,
				      struct bb_error *error);

/* BB_EUSAGE: WORD is no algorithm of BACKEND, whose own are NATIVES. Suggests the nearest one of
   COLLECTIVE. */
BB_MUST bb_status bb_algorithms_unknown(const struct bb_backend *backend,
					const struct bb_native *natives,
					const struct bb_collective *collective, const char *word,
					struct bb_error *error);

/* As bb_algorithms_check, for programs that use a single algorithm, NAME. */
BB_MUST bb_status bb_algorithms_check_one(const char *name, const struct bb_options *options,
					  struct bb_error *error);

/*
 * *NATIVES = BACKEND's own algorithms; with those that its library discovers, which takes time,
 * only if ALGORITHMS, a list of names or "all", may mean them. The caller frees *OWNED, which may
 * be NULL.
 */
BB_MUST bb_status bb_algorithms_natives(const struct bb_native **natives, struct bb_native **owned,
					const struct bb_backend *backend, const char *algorithms,
					struct bb_error *error);

/*
 * Append --list: collectives and algorithms of every backend, why loadable backends are missing,
 * and the datatypes of each op.
 */
void bb_algorithms_list(struct bb_strbuf *out);
