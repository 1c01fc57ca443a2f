/*
 * compare_inside.h - what the parts of the comparison share.
 *
 *   compare.c         stores the results and arranges them in tables
 *   compare_text.c    prints these
 *   compare_tuner.c   compares the library's choice with what was forced on it
 *   compare_record.c  delivers them as records
 */
#ifndef BB_HARNESS_RESULTS_COMPARE_INSIDE_H
#define BB_HARNESS_RESULTS_COMPARE_INSIDE_H

#include "backends/library.h"
#include "harness/results/compare.h"

#define BB_COMPARE_CROSSINGS 4 /* reported for one pair */

/* The result of a case in one placement. */
struct bb_compare_run {
	const char *used;            /* algorithm that ran, for auto the choice; NULL: not run */
	char chosen[BB_CHOSEN_TEXT]; /* choice reported by the library; empty: none */
	const char *source;          /* source of the bound; NULL: there is no bound */
	double time;                 /* us */
	double busbw;                /* GB/s */
	double percent;              /* of the bound; NAN: there is no bound */
	const char *doubt;           /* why the bound does not hold; NULL: it may */
};

struct bb_compare_cell {
	const char *collective, *dtype, *op;
	const char *matrix; /* NULL: none */
	int64_t root, size;
	int algorithm;                 /* index into names */
	struct bb_compare_run runs[2]; /* out of place, in place: auto may choose differently */
};

/* The cells of one datatype, op, root and matrix of an alltoallv as a table. */
struct bb_compare_table {
	const struct bb_compare *all;
	const struct bb_compare_cell *first;
	int64_t *sizes; /* in the order of the results */
	size_t nsizes;
	int placement;                    /* whose runs are shown: 0 out of place, 1 in place */
	const struct bb_compare_run **at; /* [size * nnames + algorithm], NULL: not run */
	int order[BB_COMPARE_MOST];       /* algorithms that have any cell */
	int norder;
	bool won[BB_COMPARE_MOST]; /* by algorithm: is the fastest at some size */
};

/* Make the table of each datatype, op, root and matrix, and call VISIT with it until one fails.
   Returns that status; BB_EINTERNAL without memory. */
BB_MUST bb_status bb_compare_each(const struct bb_compare *compare,
				  bb_status (*visit)(const struct bb_compare_table *table,
						     void *own),
				  void *own);
/* Make the table of FIRST. Free it whatever comes back. BB_EINTERNAL without memory. */
BB_MUST bb_status bb_compare_table(struct bb_compare_table *table, const struct bb_compare *all,
				   const struct bb_compare_cell *first);
void bb_compare_table_free(struct bb_compare_table *table);

/* Returns the result of ALGORITHM at size number SIZE; NULL: not run in the table's placement. */
const struct bb_compare_run *bb_compare_at(const struct bb_compare_table *t, size_t size,
					   int algorithm);
/* Returns the time of ALGORITHM at size number SIZE in us; NAN: not run. */
double bb_compare_time(const struct bb_compare_table *t, size_t size, int algorithm);
bool bb_compare_is_auto(const struct bb_compare_table *t, int algorithm);
/* Returns what ran as ALGORITHM, for auto the choice; NULL: not run. */
const char *bb_compare_ran(const struct bb_compare_table *t, size_t size, int algorithm);
/* Returns the time of ALGORITHM; if auto chose it too, the shorter of the two. */
double bb_compare_best_time(const struct bb_compare_table *t, size_t size, int algorithm);
/* Returns the fastest algorithm at a size, -1 if none was run. *LEAD = the second's time over its
   own; NAN: there is no second. */
int bb_compare_winner(const struct bb_compare_table *t, size_t size, double *lead);
/* True if algorithms I and K of the order are compared as a pair: of many, only those that win
   somewhere are. */
bool bb_compare_pair(const struct bb_compare_table *t, int i, int k);
/* Writes to PLACES, in bytes, where the lead changes between A and B; returns how many. *FASTER =
   the one ahead at the first size; -1: both never ran at the same size. */
int bb_compare_crossings(const struct bb_compare_table *t, int a, int b,
			 double places[BB_COMPARE_CROSSINGS], int *faster);

/* Percent by which auto takes longer at size number SIZE than the fastest algorithm that was forced
   on the library; NAN: none is known. *ALGORITHM, *PROTOCOL = that one's, in the tuner's words. */
double bb_compare_auto_behind(const struct bb_compare_table *t, size_t size, const char **algorithm,
			      const char **protocol);

#endif
