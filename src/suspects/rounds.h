/*
 * rounds.h - who is measured with whom, round by round. Pure: the same inputs give the same rounds,
 * so every process computes them by itself.
 *
 * A round uses every node at most once. All pairs of n nodes take the rounds of the circle method:
 * n - 1 if n is even; n if it is odd, when one node rests in each round. A sample of the pairs is
 * some of these rounds, of the nodes in an order that the seed draws: every node has as many
 * partners, all different, and the cost is linear in the nodes.
 */
#pragma once

#include "core/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BB_NOBODY (-1) /* no partner */

struct bb_rounds { /* zero-initialise */
	int nodes, n;
	int room;
	int *partner; /* [round * nodes + node]; BB_NOBODY: it rests. Owned */
	int *rail;    /* [round]: the only one that is used; -1: all are. Owned */
};

void bb_rounds_free(struct bb_rounds *rounds);

static inline int bb_rounds_partner(const struct bb_rounds *rounds, int round, int node)
{
	return rounds->partner[(size_t)round * (size_t)rounds->nodes + (size_t)node];
}

/* Does NODE meet its partner over RAIL in ROUND? */
static inline bool bb_rounds_has(const struct bb_rounds *rounds, int round, int node, int rail)
{
	return bb_rounds_partner(rounds, round, node) != BB_NOBODY &&
	       (rounds->rail[round] < 0 || rounds->rail[round] == rail);
}

/* One ordered pair of nodes that meet in a round. */
struct bb_pairing {
	int round, from, to;
};
#define BB_BEFORE_FIRST ((struct bb_pairing){0, BB_NOBODY, -1})

/* The next of ROUNDS, by round and TO. Returns false behind the last. */
static inline bool bb_rounds_next(const struct bb_rounds *rounds, struct bb_pairing *m)
{
	do {
		if (++m->to == rounds->nodes) {
			m->to = 0;
			m->round++;
		}
		if (m->round >= rounds->n)
			return false;
		m->from = bb_rounds_partner(rounds, m->round, m->to);
	} while (m->from == BB_NOBODY);
	return true;
}

/* Rounds in which each of NODES meets each other once. */
int bb_circle_rounds(int nodes);
/* Whom NODE meets in ROUND of them; BB_NOBODY: nobody. */
int bb_circle_partner(int nodes, int round, int node);

/*
 * ROUNDS = LEAST rounds of pairs that differ while there are any; if there are fewer pairs, all of
 * them equally often. With ALL every pair meets at least twice, and each node BB_CONFIRMING times.
 * BB_EINTERNAL without memory.
 */
BB_MUST bb_status bb_rounds_survey(struct bb_rounds *rounds, int nodes, int least, bool all,
				   uint64_t seed);

/* Split each of ROUNDS with more than PAIRS pairs into several, which together have the same pairs.
   BB_EINTERNAL without memory. */
BB_MUST bb_status bb_rounds_split(struct bb_rounds *rounds, int pairs);

/* Whether a node may be a partner of suspects: the better half may. */
enum bb_standing {
	BB_PROVEN,
	BB_UNPROVEN,
	BB_QUESTIONED, /* an end of a suspected pair: the pair or the end may be bad */
	BB_SUSPECT
};

#define BB_MOST_PAIRS 64 /* that are suspected at once */
#define BB_CONFIRMING 32 /* rounds of each suspect */

/* What is to be measured again. */
struct bb_suspects {
	int nodes;
	unsigned char *standing; /* [node], enum bb_standing; owned */
	bool rails;              /* one of them is slower than the others */
	int npairs;
	struct bb_suspect_pair {
		int32_t a, b;
	} pairs[BB_MOST_PAIRS];
};

/* Is there anything to be measured again? */
bool bb_suspects_any(const struct bb_suspects *suspects);
/* Is the link between A and B suspected? */
bool bb_suspects_have(const struct bb_suspects *suspects, int a, int b);

/*
 * ROUNDS in which each suspected or questioned node meets proven ones BB_CONFIRMING times, another
 * one each time while there are any, and each suspected pair meets as often. Proven nodes that are
 * left over meet each other, as the reference. BB_EINTERNAL without memory or without a proven
 * node.
 */
BB_MUST bb_status bb_rounds_confirm(struct bb_rounds *rounds, const struct bb_suspects *suspects,
				    uint64_t seed);

#define BB_MOST_LONE 64 /* that are measured alone */

/* What is measured with all others silent: a node, a rail of it, or a link. */
struct bb_lone {
	int32_t node, peer, rail; /* PEER -1: whoever is proven; RAIL -1: all at once */
};

struct bb_lone_plan {
	int32_t n, times; /* of each */
	struct bb_lone list[BB_MOST_LONE];
};

/*
 * ROUNDS in which all of PLAN are measured in turn, and after each of them, as the reference, two
 * nodes that are not suspected of anything, over as many rails: round 2 * (t * n + i) is of number
 * i, the next one is its reference. Rounds in which nobody is left to meet stay
 * empty. BB_EINTERNAL without memory.
 */
BB_MUST bb_status bb_rounds_alone(struct bb_rounds *rounds, const struct bb_suspects *suspects,
				  const struct bb_lone_plan *plan);
