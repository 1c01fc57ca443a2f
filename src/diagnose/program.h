/*
 * program.h - what the ranks do to be measured, as programs. Pure.
 *
 * A round: the two ranks of a pair ask each other in turn for data, and the one that asks takes the
 * time from its asking to when the data is there: first the small messages, then the large ones.
 * The first of each kind is not counted: in it they wait for each other, and for memory. Several
 * pairs are at it at the same time; in turn, a round begins when all have done with the one before.
 *
 * Steps: each rank works for a while, always the same, then all gather a word. Who comes last waits
 * least.
 */
#ifndef BB_DIAGNOSE_PROGRAM_H
#define BB_DIAGNOSE_PROGRAM_H

#include "diagnose/rounds.h"
#include "programs/program.h"

#define BB_SMALL_BYTES 8
#define BB_SMALL_ASKED 4 /* times in each direction, the first not counted */

/* Which rank is which port: rail k of a node is one rank. */
struct bb_ports { /* zero-initialise */
	int nodes, rails;
	int *rank; /* [node * rails + rail]; owned, as the rest */
	int *node; /* [rank]; -1: it has no part in it */
	int *rail; /* [rank] */
};

/* What a computation is for: an operation's work. */
enum bb_probe_work {
	BB_PROBE_ROUND, /* begins; item says which */
	BB_PROBE_DELAY, /* of a rank that is to be slow */
	BB_PROBE_SMALL, /* messages; item: which one of the round */
	BB_PROBE_LARGE,
	BB_PROBE_TURN,  /* the collective before a round that begins in turn; item: which round */
	BB_PROBE_STEP,  /* work before a collective */
	BB_PROBE_GATHER /* the collective; item: which step */
};

struct bb_probe { /* what the functions of a program need; constant while it is used */
	const struct bb_ports *ports;
	int nranks;
	/* What is planted. */
	struct bb_planted {
		int rank; /* takes send_s more before it sends, late_s before it gathers; -1 */
		double send_s, late_s;
		int from, to;         /* ranks; -1: any */
		bool back;            /* likewise the other way */
		double factor;        /* of the time of what goes this way; 0: none */
		double share;         /* of the rounds in which that is so */
		double rate, latency; /* of the link, which the factor multiplies */
		uint64_t seed;
	} planted;
	/* Of rounds. */
	const struct bb_rounds *rounds;
	const int *active; /* of bb_probe_active */
	bool in_turn;      /* a round begins when all ranks have done with the one before */
	size_t bytes;      /* of a large message */
	double pause_s;    /* before each round: what passes by is not to hit all of them */
	int large;         /* asked for in each direction, the first not counted */
	/* Of steps. */
	int steps;
	double work_s; /* in virtual time */
};

/* The rounds of PROBE. */
void bb_probe_rounds(struct bb_program *program, const struct bb_probe *probe);
/* Its steps. */
void bb_probe_steps(struct bb_program *program, const struct bb_probe *probe);

/*
 * In which rounds each port meets its partner: those of port p, node * rails + rail, are [p] up to
 * but not [p + 1], as indices of the same array. The caller frees it; NULL without memory.
 */
int *bb_probe_active(const struct bb_rounds *rounds, int rails);

/* The round that operation INDEX of RANK in the rounds of PROBE belongs to. */
int bb_probe_round_at(const struct bb_probe *probe, int rank, size_t index);

#endif
