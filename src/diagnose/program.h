/*
 * program.h - the programs by which ranks are measured. Pure.
 *
 * A round: the two ranks of a pair request data from each other in turn, and the one that requests
 * takes the time from its request to the arrival: first small messages, then large ones. The first
 * of each kind is not counted, since the ranks wait for each other in it, and for memory. Several
 * pairs run at the same time; in turn, a round begins when all ranks have ended the one before.
 *
 * Steps: each rank works equally long, then all gather 4 bytes. The last to come waits least.
 */
#pragma once

#include "suspects/rounds.h"
#include "programs/program.h"

#define BB_SMALL_BYTES 8
#define BB_SMALL_REQUESTS 4 /* requests in each direction, the first not counted */

/* The ranks of all ports: rail k of a node is one rank. */
struct bb_ports { /* zero-initialise */
	int nodes, rails;
	int *rank; /* [node * rails + rail]; owned, with room for the rest */
	int *node; /* [rank]; -1: it is not measured */
	int *rail; /* [rank] */
};

/* The purpose of an operation: its work. */
enum bb_probe_work {
	BB_PROBE_ROUND, /* begins; item: its number */
	BB_PROBE_DELAY, /* of a rank that is to be slow */
	BB_PROBE_SMALL, /* messages; item: the number of the request in the round */
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
		bool back;            /* the other direction too */
		double factor;        /* of the time in this direction; 0: none */
		double rate, latency; /* of the link, which the factor multiplies */
	} planted;
	/* Of rounds; NULL: it has steps. */
	const struct bb_rounds *rounds;
	int *met;       /* of bb_probe_met */
	bool in_turn;   /* a round begins when all ranks have done with the one before */
	size_t bytes;   /* of a large message */
	double pause_s; /* before each round, so that transient load does not hit all of them */
	int large;      /* large requests in each direction, the first not counted */
	/* Of steps. */
	int steps;
	double work_s; /* in virtual time */
};

/* The rounds or steps of PROBE. */
void bb_probe_program(struct bb_program *program, const struct bb_probe *probe);

/*
 * [(node * rails + rail) * (n + 1) + round], for N rounds: in how many before ROUND this port meets
 * its partner. There is one node more, which meets nobody. The caller frees it; NULL without
 * memory.
 */
int *bb_probe_met(const struct bb_rounds *rounds, int rails);

/* The round that operation INDEX of RANK in the rounds of PROBE belongs to. */
int bb_probe_round_at(const struct bb_probe *probe, int rank, size_t index);
