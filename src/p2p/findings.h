/*
 * findings.h - what looks wrong in matrices of pairs. Pure: values in, findings out; docs/p2p.md
 * has the rules in words.
 */
#ifndef BB_P2P_FINDINGS_H
#define BB_P2P_FINDINGS_H

#include "core/status.h"

#include <stdbool.h>
#include <stddef.h>

/* Fewer rounds tell nothing about which of them were disturbed: then nothing is found. */
#define BB_FINDING_ROUNDS 3

/* Times the usual work from which on a pair is slow, at least. */
#define BB_SLOW_PAIR 1.25
/* Cores have caches and clocks of their own: of 150 runs on a virtual machine with 2 cores the
   undisturbed rounds of two healthy pairs were up to 1.41 times apart. */
#define BB_SLOW_CORES 1.6

/* What one pair came to: speeds, the more the better, in any unit. */
struct bb_pair_value {
	int from, to;
	int like;           /* the same number: paths of the same kind */
	double best, usual; /* of its undisturbed rounds, as struct bb_floor has them */
	int rounds, near;   /* all of them, and those that were undisturbed */
	double bound;       /* what it could be; 0: not known */
	double factor;      /* times its usual work from which on it is slow, */
	double planned_s;   /* which is what it takes usually but for so many seconds, */
	double unit;        /* that is UNIT / speed */
};

/* All pairs of ranks over one route, at one size. */
struct bb_pair_matrix {
	bool direct;    /* P2P on; else off */
	bool both_ways; /* each pair once, from < to, in both directions at once */
	bool by_source; /* the source alone moves the bytes */
	bool by_target; /* the target alone does */
	bool exact;     /* time is: nothing disturbs */
	const struct bb_pair_value *values; /* [from * nranks + to]; rounds 0: not measured */
	int nranks;
};

enum bb_finding_kind {
	BB_FIND_SLOWER_DIRECT, /* P2P on is slower than off */
	BB_FIND_SLOW_RANK,     /* in all pairs of a rank, or all of one kind of path */
	BB_FIND_ASYMMETRY,     /* from -> to is slower than the way back */
	BB_FIND_SLOW_PAIR,     /* slower than other pairs of the same kind, in both directions */
	BB_FIND_BELOW_BOUND    /* pairs far below what is possible */
};

struct bb_finding {
	enum bb_finding_kind kind;
	size_t matrix; /* where it shows most */
	int rank;      /* of a slow rank; else -1 */
	int from, to;  /* the pair, or the worst of them; of a slow rank one of its kind, or -1 */
	int like;      /* the kind of path, if it is about all pairs of one; else -1 */
	int pairs;     /* how many it is about */
	double value;  /* the speed found */
	double reference; /* what it is held against */
	/* What the verdict rests on: rounds of each suspect, all of them slow; and how many of how
	   many rounds like them were undisturbed. */
	int rounds, near, of;
	bool convicted; /* else it is to be measured again */
};

struct bb_findings { /* zero-initialise */
	struct bb_finding *list;
	size_t n, room;
};

/*
 * Judge N matrices together: what one cause makes of several of them is found once, in those that
 * are disturbed least. A value is slow if its best round took its factor times what it is held
 * against, and 1.25 times at least: rounds that something disturbed make no finding. BB_EINTERNAL
 * without memory. Free FOUND whatever comes back.
 */
BB_MUST bb_status bb_findings_make(struct bb_findings *found, const struct bb_pair_matrix *matrices,
				   size_t n);
void bb_findings_free(struct bb_findings *found);

#endif
