/*
 * openmpi.h - the schedules by which Open MPI performs collectives. Pure.
 *
 * Open MPI's algorithms are busbench's schedules, and six that only Open MPI has. The choice
 * among them is that of coll/tuned (openmpi.txt), without HAN, which 5.0 prefers over several
 * nodes. coll/libnbc performs nonblocking and persistent calls.
 */
#pragma once

#include "schedules/schedule.h"

#define BB_OPENMPI_VERSIONS "Open MPI 4.1.0 to 5.0.9, coll/tuned"

/* A broadcast down a binary tree, and one down a 4-nomial tree, neither in segments. */
extern const struct bb_algorithm bb_openmpi_binary_broadcast, bb_openmpi_knomial_broadcast;
/* A reduce up a binomial tree whose near ranks add first. */
extern const struct bb_algorithm bb_openmpi_binomial_reduce;
/* All_gather by neighbours that pass on pairs of blocks. */
extern const struct bb_algorithm bb_openmpi_neighbor;
/* All_reduce and reduce_scatter by recursive halving, where near partners swap the longest parts.
 */
extern const struct bb_algorithm bb_openmpi_rabenseifner, bb_openmpi_butterfly;

enum bb_openmpi_call { BB_OPENMPI_BLOCKING, BB_OPENMPI_NONBLOCKING };

#define BB_OPENMPI_PHASES 2
struct bb_openmpi_plan {
	char name[32]; /* of the algorithm in Open MPI */
	bool copies;   /* the input is copied to the output before */
	int phases;    /* schedules that follow each other */
	struct {
		const struct bb_algorithm *schedule;
		struct bb_shape shape;
	} phase[BB_OPENMPI_PHASES];
};

/*
 * Set PLAN to Open MPI's choice for COLLECTIVE of SHAPE with elements of ELEMENT bytes. Returns
 * NULL, or why there is no model of it; the name in PLAN is set if Open MPI has such a collective.
 */
const char *bb_openmpi_choose(const struct bb_collective *collective, const struct bb_shape *shape,
			      size_t element, enum bb_openmpi_call call,
			      struct bb_openmpi_plan *plan);

/* Set *LOW and *HIGH to the factors of a predicted time of BYTES between which nine in ten
   measurements lay, of machines that nothing was fitted to. */
void bb_openmpi_interval(double bytes, double *low, double *high);
