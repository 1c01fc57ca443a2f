/*
 * matrices.h - files of traffic: the bytes that each rank sends to each in an alltoallv.
 */
#pragma once

#include "core/status.h"
#include "core/strbuf.h"

#include <stddef.h>
#include <stdint.h>

#define BB_MATRIX_NAME 64
#define BB_MATRIX_GRAIN                                                                            \
	16 /* bytes; what a rank sends to another is a multiple, as in nccl-tests                  \
	    */

/* The matrices of one file; zero-initialise. */
struct bb_matrices {
	size_t nranks; /* rows and columns of each matrix */
	size_t n, room;
	char (*names)[BB_MATRIX_NAME];
	uint64_t *bytes; /* [(matrix * nranks + source) * nranks + destination] */
	size_t ncells, cells_room;
};

/*
 * Read MATRICES from TEXT, the LENGTH bytes of FILE and a NUL, in the format of nccl-tests'
 * alltoallv: numbers of bytes, separated by white space, a line for each source. Each is multiplied
 * by SCALE and rounded down to BB_MATRIX_GRAIN. A file may have several matrices of the same size
 * one after the other. A line that begins with '#' is the name of a matrix that follows; without
 * one, the name is that of the file, and the number of the matrix if there are several. ORIGIN, the
 * option and the path, stands in front of errors. BB_EUSAGE with the line: not a number, below 0,
 * more than BB_MOST_BYTES in a matrix, rows of different lengths, an incomplete matrix, a name that
 * is too long or used twice; BB_EINTERNAL: out of memory. Free MATRICES whatever comes back.
 */
BB_MUST bb_status bb_matrices_parse(struct bb_matrices *matrices, const char *origin,
				    const char *file, const char *text, size_t length, double scale,
				    struct bb_error *error);
void bb_matrices_free(struct bb_matrices *matrices);

/* Returns a number that differs between files whose bytes differ. */
uint64_t bb_matrices_digest(const struct bb_matrices *matrices);

/* The first N ranks of matrix K, N at most nranks, as elements of ELEMENT bytes:
   COUNTS[source * n + destination]. */
void bb_matrices_counts(const struct bb_matrices *matrices, size_t k, int n, size_t element,
			size_t *counts);

/* Returns the bytes that the busiest of the first N ranks of matrix K sends or receives, whichever
   is more, with those for itself: the size of such an alltoallv. */
uint64_t bb_matrices_busiest(const struct bb_matrices *matrices, size_t k, int n);

/* Append "layer 3: 12.6 MB between 4 ranks, 3.1 MB within them; rank 2 receives most, 5.2 MB, 1.7
   times the mean". */
void bb_matrices_describe(const struct bb_matrices *matrices, size_t k, int n,
			  struct bb_strbuf *out);
