/*
 * compare_inside.h - what the parts of the comparison share.
 *
 *   compare.c         keeps the results and puts them into tables
 *   compare_text.c    prints these
 *   compare_record.c  makes records of what follows from them
 */
#ifndef BB_HARNESS_RESULTS_COMPARE_INSIDE_H
#define BB_HARNESS_RESULTS_COMPARE_INSIDE_H

#include "backends/library.h"
#include "harness/results/compare.h"

#define BB_COMPARE_MOST 64     /* algorithms */
#define BB_COMPARE_CROSSINGS 4 /* told for one pair */

/* What came of a case in one placement. */
struct bb_compare_run {
	const char *used;          /* what ran: differs from the name for auto; NULL: not run */
	char told[BB_CHOSEN_TEXT]; /* what the library chose in it; empty: not told */
	const char *source;        /* of the bound; NULL: there is none */
	double time;               /* us */
	double percent;            /* of the bound; NAN: there is none */
};

struct bb_compare_cell {
	const char *collective, *dtype, *op;
	int64_t root, size;
	int algorithm;                 /* index into names */
	struct bb_compare_run runs[2]; /* out of place, in place: auto may choose differently */
};

struct bb_compare {
	struct bb_compare_cell *cells;
	size_t ncells, room;
	int64_t cycles; /* seen so far */
	const char *names[BB_COMPARE_MOST];
	int nnames;
};

/* The cells of one datatype, op and root as a matrix. */
struct bb_compare_table {
	const struct bb_compare *all;
	const struct bb_compare_cell *first;
	int64_t *sizes; /* ascending as they came */
	size_t nsizes;
	int placement;                    /* whose runs are shown: 0 out of place, 1 in place */
	const struct bb_compare_run **at; /* [size * nnames + algorithm], NULL: not run */
	int order[BB_COMPARE_MOST];       /* algorithms that have any cell */
	int norder;
	bool won[BB_COMPARE_MOST]; /* by algorithm: is the fastest at some size */
};

/* Is cell I the first of its datatype, op and root? Each such has a table. */
bool bb_compare_is_first(const struct bb_compare *compare, size_t i);
/* The table of FIRST; to be freed whatever comes back. BB_EINTERNAL without memory. */
BB_MUST bb_status bb_compare_table(struct bb_compare_table *table, const struct bb_compare *all,
				   const struct bb_compare_cell *first);
void bb_compare_table_free(struct bb_compare_table *table);

/* Of ALGORITHM at the number SIZE of the sizes; NULL: not run in the placement of the table. */
const struct bb_compare_run *bb_compare_at(const struct bb_compare_table *t, size_t size,
					   int algorithm);
/* In us, of ALGORITHM at the number SIZE of the sizes; NAN: not run. */
double bb_compare_time(const struct bb_compare_table *t, size_t size, int algorithm);
bool bb_compare_is_auto(const struct bb_compare_table *t, int algorithm);
/* What ran as ALGORITHM: under auto, what was chosen; NULL: not run. */
const char *bb_compare_ran(const struct bb_compare_table *t, size_t size, int algorithm);
/* What was run twice, under its own name and by auto, was as fast as the faster of the two. */
double bb_compare_best_time(const struct bb_compare_table *t, size_t size, int algorithm);
/* The fastest at a size, and in LEAD how many times faster than the second (NAN: there is none);
   -1: none was run. */
int bb_compare_winner(const struct bb_compare_table *t, size_t size, double *lead);
/* Is the pair of the algorithms I and K of the order worth telling about? Of many only those that
   win somewhere are. */
bool bb_compare_pair(const struct bb_compare_table *t, int i, int k);
/* Where the lead changes between A and B, in bytes: returns how many PLACES. FASTER is set to the
   one ahead at the first size, -1 where both never ran together. */
int bb_compare_crossings(const struct bb_compare_table *t, int a, int b,
			 double places[BB_COMPARE_CROSSINGS], int *faster);

#endif
