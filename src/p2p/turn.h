/*
 * turn.h - one pair's turn, and the state of a driver that takes part in it.
 */
#ifndef BB_P2P_TURN_H
#define BB_P2P_TURN_H

#include "p2p/pairs.h"

enum bb_pairs_buffer { BB_SOURCE, BB_TARGET, BB_VERIFIED, BB_PAIRS_BUFFERS };

/* A driver's state. */
struct bb_pairs_session {
	struct bb_engine engine;
	struct bb_pairs *pairs;
	struct bb_group **with; /* [peer]: the group of the two; NULL: not opened yet */
	int me, n;
	char *memory;  /* of all buffers */
	size_t stride; /* of a buffer */
	void **theirs; /* [peer * BB_PAIRS_BUFFERS + buffer]: as this rank reaches it */
	const struct bb_patterns *patterns;
	size_t most_samples;
	struct bb_series *series;   /* [peer]: of the cell at hand */
	struct bb_pair_part *parts; /* [peer] */
	struct bb_reach *reach;     /* of each route */
	double *scratch;            /* 2 * most_samples */
};

/* One pair's turn; with the cell's fan FROM and TO are the rank whose turn it is. */
struct bb_turn {
	struct bb_pairs_session *s;
	const struct bb_cell *cell;
	int from, to;
	int round;
	bool final; /* its only sample goes to poisoned memory, and is verified */
};

static inline void *bb_pairs_buffer(const struct bb_pairs_session *s, enum bb_pairs_buffer which)
{
	return s->memory + (size_t)which * s->stride;
}

/* Fill BYTES of a buffer of this rank, which others reach. */
BB_MUST bb_status bb_pairs_fill(struct bb_pairs_session *s, enum bb_pairs_buffer which,
				const struct bb_pattern *pattern, size_t bytes);

/* A part of the buffers of both ends. */
struct bb_pair_range {
	size_t at, bytes;
};

/* Moves RANGE to PEER if this rank GIVES it, and from PEER to its buffer TARGET if it TAKES it. */
BB_MUST bb_status bb_turn_transfer(const struct bb_turn *t, int peer, struct bb_pair_range range,
				   bool gives, bool takes, enum bb_pairs_buffer target);

/* True if this rank is one of the pair. */
bool bb_turn_takes_part(const struct bb_turn *t);
/* Returns the other end, of a rank that takes part. */
int bb_turn_peer(const struct bb_turn *t);

/* The three steps of a turn, on the ranks that take part: poison what is verified in the end; move
   the bytes and time it; verify them. No rank may be in one step while another is in the next. */
BB_MUST bb_status bb_turn_poison(const struct bb_turn *t);
BB_MUST bb_status bb_turn_act(const struct bb_turn *t);
BB_MUST bb_status bb_turn_verify(const struct bb_turn *t);

#endif
