/*
 * fleet.h - which of many like runs is slow among its equals.
 */
#pragma once

#include "acceptance/claims.h"
#include "core/strbuf.h"

/* Fewer runs do not show what is usual among them. */
#define BB_FLEET_LEAST 4
/* A run is slow if it is slower than the median of its equals by this share and by four sigma of
   their noise, as diagnose has it, and the chance of that among healthy ones is at most
   BB_FLEET_CHANCE for all of them together. */
#define BB_FLEET_TOLERANCE 0.05
#define BB_FLEET_CHANCE 0.01

struct bb_fleet_run {
	const char *name; /* of its file; borrowed */
	const struct bb_claims *claims;
};

/*
 * Compare the N RUNS with their equals: the same collective, datatype, GPU, and numbers of ranks
 * and hosts. Appends to OUT a sentence for each group of BB_FLEET_LEAST or more, and names those
 * that are slow. Returns how many are; -1: out of memory.
 */
int bb_fleet_judge(const struct bb_fleet_run *runs, size_t n, struct bb_strbuf *out);
