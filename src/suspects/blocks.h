/*
 * blocks.h - a network whose blocks are farther from each other than their nodes within. Pure.
 *
 * Nodes below one switch are fast with each other and slower with nodes below another: that is how
 * the network is built, and nobody is to blame. A slow node is slow with everybody. So nodes that
 * are fast with each other, directly or through others, form a block, and a path from one block to
 * another is compared with the median of such paths.
 */
#pragma once

#include "suspects/fit.h"

#define BB_MOST_BLOCKS 32

struct bb_block_map {             /* zero-initialise */
	int n;                    /* 0: the network has one block, or it is unknown */
	int size[BB_MOST_BLOCKS]; /* nodes; the first block is the largest */
	int *of;                  /* [node]: its block; -1: none, it is fast with nobody. Owned */
	/* Logarithm of the time from one to another above what is typical. */
	double level[BB_MOST_BLOCKS][BB_MOST_BLOCKS];
};

/* BLOCKS = those that VIEW shows. BB_EINTERNAL without memory. */
BB_MUST bb_status bb_block_map_find(struct bb_block_map *blocks, const struct bb_view *view);

/* Take the levels off the times of M. */
void bb_block_map_apply(const struct bb_block_map *blocks, const struct bb_quantity *m);
