/*
 * oracle.h - what collectives mean, in plain loops and with one element's arithmetic at a time; it
 * knows nothing of the descriptors' segments.
 */
#ifndef BB_TESTS_ORACLE_H
#define BB_TESTS_ORACLE_H

#include "core/datatype.h"
#include "schedules/schedule.h"

#define MOST_RANKS 8
#define MOST_COUNT 1000
#define MOST_ELEMENTS (MOST_RANKS * MOST_COUNT)

struct type {
	enum bb_dtype dtype;
	enum bb_op op;
};

/* The inputs of all ranks of one type, and their reduction over all ranks. */
struct truth {
	char in[MOST_RANKS][MOST_ELEMENTS * 8];
	char reduced[MOST_ELEMENTS * 8];
};

/* Fill TRUTH for N ranks. Partial results are exact in whatever order. */
void make_truth(struct truth *truth, struct type type, int n);

/* How long IN and OUT of one rank are and, in place, where in the buffer they begin; in
   elements. */
struct meaning {
	size_t in, out, in_at, out_at;
};

struct meaning meaning_of(const struct bb_collective *c, const struct bb_shape *s, int me);

/* The expected OUT of rank ME, elements of SIZE bytes. */
void expect(char *out, const struct bb_collective *c, const struct bb_shape *s, int me,
	    const struct truth *t, size_t size);

#endif
