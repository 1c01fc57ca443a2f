/*
 * fabric.h - a network in numbers: nodes of ranks, what joins the ranks of a node, and the rails
 * that join the nodes over leaf, spine and core switches. Pure.
 *
 * A rank has two ways out and two ways in: one for what stays within its node (or with the nodes
 * that share its switches), one over its rail. A message takes its way out for OVERHEAD and its
 * bytes, is LATENCY on its way, and takes the way in as long, after what got there before it.
 *
 * What several ranks share (a rail of a node, the way up from a leaf or a pod) is divided evenly
 * among those that use it in one round of a schedule: who has o of the l bytes that k ranks send
 * over it has them through after min(l, k o) / rate, as if all began at once. Messages of a
 * program, which has no rounds, divide it evenly from moment to moment. Switches spread what goes
 * up ideally, so that a network with as many links up as down shares nothing.
 */
#ifndef BB_SIMULATOR_FABRIC_H
#define BB_SIMULATOR_FABRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Between two ranks of a node. */
struct bb_fabric_pair {
	double second_per_byte, latency;
};

/* What is wrong with a node, or a rail of it: FACTOR times as long; 0: lost. */
struct bb_fabric_flaw {
	int node;
	int rail; /* -1: all of the node */
	double factor;
};

struct bb_fabric {
	int nodes, per_node; /* ranks are numbered node by node */
	int domain;          /* nodes joined as the ranks of a node are, by pair {0, 1} */
	int leaf, pod;       /* nodes below a leaf of each rail, below a set of spines */
	int rails;
	const int *rail_of;                 /* [rank of the node] */
	const struct bb_fabric_pair *pairs; /* [from * per_node + to] */
	double domain_second_per_byte, domain_latency;
	double rail_second_per_byte;
	double latency[3]; /* through 1, 3, 5 switches */
	double overhead;   /* seconds of each message on each way out and in */
	double leaf_taper, pod_taper;
	const struct bb_fabric_flaw *flaws;
	int nflaws;
};

/* What messages of several ranks share. */
enum bb_fabric_level { BB_LEVEL_RAIL, BB_LEVEL_LEAF, BB_LEVEL_POD, BB_LEVELS };

struct bb_fabric_way {
	double second_per_byte, latency;
	bool outside;                /* over rails */
	int out_rail, in_rail;       /* outside */
	enum bb_fabric_level levels; /* that it passes and that are shared: below this one */
};

/* The rail that RANK uses: its own or, if that is lost, the next of its node that is not. */
int bb_fabric_rail(const struct bb_fabric *f, int rank);

/* From rank FROM to another, TO. */
struct bb_fabric_way bb_fabric_way(const struct bb_fabric *f, int from, int to);

/* Is anything shared? */
bool bb_fabric_shares(const struct bb_fabric *f, enum bb_fabric_level level);
bool bb_fabric_shares_any(const struct bb_fabric *f);

/* Which of the shared things of LEVEL NODE uses over RAIL, and how many there are. */
size_t bb_fabric_shared(const struct bb_fabric *f, enum bb_fabric_level level, int node, int rail);
size_t bb_fabric_shared_count(const struct bb_fabric *f, enum bb_fabric_level level);
/* Seconds that each byte takes through it, all ranks together. */
double bb_fabric_shared_second_per_byte(const struct bb_fabric *f, enum bb_fabric_level level,
					int node, int rail);

/*
 * The least P that divides N so that the ways of ranks 0 … N - 1 among each other repeat every P
 * ranks: from r + P to r + P + d (both mod N) is as from r to r + d. N where there is none.
 */
int bb_fabric_period(const struct bb_fabric *f, int n);

#endif
