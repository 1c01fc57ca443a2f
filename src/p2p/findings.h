/*
 * findings.h - what looks wrong in matrices of pairs. Pure: values in, findings out; docs/p2p.md
 * has the rules in words.
 */
#ifndef BB_P2P_FINDINGS_H
#define BB_P2P_FINDINGS_H

#include "core/status.h"

#include <stdbool.h>
#include <stddef.h>

/* Fewer rounds tell nothing about how values spread: then nothing is found. */
#define BB_FINDING_ROUNDS 3

/* What one pair came to: speeds, the more the better, in any unit. */
struct bb_pair_value {
	int from, to;
	int like;              /* the same number: paths of the same kind */
	double low, mid, high; /* lower quartile, median and upper quartile of the rounds */
	int rounds;
	double bound; /* what it could be; 0: not known */
};

/* All pairs of ranks over one route, at one size. */
struct bb_pair_matrix {
	bool direct;    /* P2P on; else off */
	bool both_ways; /* each pair once, from < to, in both directions at once */
	bool by_source; /* the source alone moves the bytes */
	bool by_target; /* the target alone does */
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
};

struct bb_findings { /* zero-initialise */
	struct bb_finding *list;
	size_t n;
};

/*
 * Judge N matrices together: what one cause makes of several of them is found once. A value is slow
 * only if its median is below 0.8 of what it is held against, by more than 4 times what rounds
 * usually spread in this run, and its upper quartile is near that too: rounds that something
 * disturbed make no finding. BB_EINTERNAL without memory. Free FOUND whatever comes back.
 */
BB_MUST bb_status bb_findings_make(struct bb_findings *found, const struct bb_pair_matrix *matrices,
				   size_t n);
void bb_findings_free(struct bb_findings *found);

#endif
