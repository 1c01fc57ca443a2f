/*
 * parts.h - a network whose parts are farther from each other than nodes within them.
 * Pure.
 *
 * Nodes below one switch are fast with each other, and slower with those below another: that is how
 * the network is built, and none of them is to blame. A node that is slow is so with everybody. So
 * nodes that are fast with each other, directly or by others between them, are a part; the ways
 * from one part to another are as long as their median says, and are held against that.
 */
#ifndef BB_DIAGNOSE_PARTS_H
#define BB_DIAGNOSE_PARTS_H

#include "diagnose/judge.h"

#define BB_MOST_PARTS 32

struct bb_parts {                /* zero-initialise */
	int n;                   /* 0: there is one alone, or nobody knows */
	int size[BB_MOST_PARTS]; /* nodes; the first part is the largest */
	int *of;                 /* [node]: its part; -1: none, it is fast with nobody. Owned */
	/* From one to another, the logarithm of the time above what is usual. */
	double level[BB_MOST_PARTS][BB_MOST_PARTS];
};

void bb_parts_free(struct bb_parts *parts);

/* The parts that VIEW shows. BB_EINTERNAL without memory. */
BB_MUST bb_status bb_parts_find(struct bb_parts *parts, const struct bb_view *view);

/* Take the levels off LOG_S, that of M. */
void bb_parts_apply(const struct bb_parts *parts, const struct bb_quantity *m, float *log_s);

#endif
