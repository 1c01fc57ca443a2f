/*
 * findings.h - what looks wrong in matrices of pairs. Pure: values in, findings out. docs/p2p.md
 * states the rules.
 */
#pragma once

#include "core/status.h"

#include <stdbool.h>
#include <stddef.h>

/* With fewer rounds nothing is found: they do not show which of them were disturbed. */
#define BB_FINDING_ROUNDS 3

/* The least multiple of the typical time that makes a pair slow. */
#define BB_SLOW_PAIR 1.25
/* Cores have caches and clocks of their own: in 150 runs on a virtual machine with 2 cores, the
   undisturbed rounds of two healthy pairs differed by up to 1.41 times. */
#define BB_SLOW_CORES 1.6

/* The result of one pair: speeds, where more is better, in any unit. */
struct bb_pair_value {
	int from, to;
	int like;           /* equal numbers: paths of the same kind */
	double best, usual; /* of its undisturbed rounds, as struct bb_floor has them */
	int rounds, near;   /* all rounds, and the undisturbed ones */
	double bound;       /* highest possible speed; 0: not known */
	double factor;      /* the multiple of its typical time that makes it slow, */
	double planned_s;   /* without these seconds, which the link alone takes; */
	double unit;        /* the time is UNIT / speed */
};

/* All pairs of ranks over one route at one size. */
struct bb_pair_matrix {
	bool direct;        /* P2P on; else off */
	bool bidirectional; /* each pair once, from < to, in both directions at once */
	bool by_source;     /* the source alone moves the bytes */
	bool by_target;     /* the target alone does */
	bool exact;         /* time is exact: nothing disturbs it */
	const struct bb_pair_value *values; /* [from * nranks + to]; rounds 0: not measured */
	int nranks;
};

enum bb_finding_kind {
	BB_FIND_SLOWER_DIRECT, /* P2P on is slower than P2P off */
	BB_FIND_SLOW_RANK,     /* all pairs of a rank are slow, or all on one kind of path */
	BB_FIND_ASYMMETRY,     /* from -> to is slower than to -> from */
	BB_FIND_SLOW_PAIR,     /* slower than other pairs of the same kind, in both directions */
	BB_FIND_BELOW_BOUND    /* pairs far below what is possible */
};

struct bb_finding {
	enum bb_finding_kind kind;
	size_t matrix;    /* in which it is clearest */
	int rank;         /* the slow rank; else -1 */
	int from, to;     /* the pair, or the worst one; with a slow rank one of its pairs, or -1 */
	int like;         /* the kind of path that it is limited to; else -1 */
	int pairs;        /* number of pairs concerned */
	double value;     /* the speed of the suspects */
	double reference; /* the speed that it is compared with */
	/* The evidence: the rounds of each suspect, all of them slow, and how many (NEAR) of all
	   rounds like them (OF) were undisturbed. */
	int rounds, near, of;
	bool confirmed; /* else it is to be measured again */
};

struct bb_findings { /* zero-initialise; free the list */
	struct bb_finding *list;
	size_t n, room;
};

/*
 * Judge N matrices together. A cause that shows in several of them is reported once, from those
 * that are disturbed least. A value is slow if even its best round took its factor, and at
 * least 1.25, times as long as its reference: disturbed rounds make no finding. BB_EINTERNAL
 * without memory. Free the list whatever comes back.
 */
BB_MUST bb_status bb_findings_make(struct bb_findings *found, const struct bb_pair_matrix *matrices,
				   size_t n);
