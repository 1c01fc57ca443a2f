/*
 * parts.h - the algorithms and their parts: writing steps, balanced blocks, and phases that
 * several algorithms share; for src/schedules alone.
 */
#ifndef BB_SCHEDULES_PARTS_H
#define BB_SCHEDULES_PARTS_H

#include "schedules/schedule.h"

/* ---- writing steps ------------------------------------------------------------------- */

static inline struct bb_place bb_at(enum bb_buffer buffer, size_t offset)
{
	return (struct bb_place){buffer, offset};
}

static inline struct bb_place bb_plus(struct bb_place place, size_t offset)
{
	return (struct bb_place){place.buffer, place.offset + offset};
}

static inline void bb_write(struct bb_writer *w, const struct bb_step *step)
{
	if (step->count)
		w->steps[w->n++] = *step;
}

static inline void bb_send_on(struct bb_writer *w, int channel, int peer, struct bb_place src,
			      size_t count)
{
	bb_write(w, &(struct bb_step){.kind = BB_SEND,
				      .peer = peer,
				      .peer2 = BB_NO_PEER,
				      .channel = channel,
				      .src = src,
				      .count = count});
}

static inline void bb_recv_on(struct bb_writer *w, int channel, int peer, struct bb_place dst,
			      size_t count, bool final)
{
	bb_write(w, &(struct bb_step){.kind = BB_RECV,
				      .peer = peer,
				      .peer2 = BB_NO_PEER,
				      .channel = channel,
				      .final = final,
				      .dst = dst,
				      .count = count});
}

static inline void bb_send(struct bb_writer *w, int peer, struct bb_place src, size_t count)
{
	bb_send_on(w, 0, peer, src, count);
}

static inline void bb_recv(struct bb_writer *w, int peer, struct bb_place dst, size_t count,
			   bool final)
{
	bb_recv_on(w, 0, peer, dst, count, final);
}

/* dst = src + the message from PEER. */
static inline void bb_add(struct bb_writer *w, int peer, struct bb_place src, struct bb_place dst,
			  size_t count, bool final)
{
	bb_write(w, &(struct bb_step){.kind = BB_RECV_REDUCE,
				      .peer = peer,
				      .peer2 = BB_NO_PEER,
				      .final = final,
				      .src = src,
				      .dst = dst,
				      .count = count});
}

static inline void bb_copy(struct bb_writer *w, struct bb_place src, struct bb_place dst,
			   size_t count, bool final)
{
	bb_write(w, &(struct bb_step){.kind = BB_COPY,
				      .peer = BB_NO_PEER,
				      .peer2 = BB_NO_PEER,
				      .final = final,
				      .src = src,
				      .dst = dst,
				      .count = count});
}

/* Copy a rank's own [start, start + count) of IN to the same place in OUT; nothing in place. */
static inline void bb_copy_over(struct bb_writer *w, const struct bb_shape *shape, size_t start,
				size_t count)
{
	if (!shape->in_place)
		bb_copy(w, bb_at(BB_IN, start), bb_at(BB_OUT, start), count, true);
}

/* ---- arithmetic ---------------------------------------------------------------------- */

static inline size_t bb_least(size_t a, size_t b)
{
	return a < b ? a : b;
}

static inline size_t bb_most(size_t a, size_t b)
{
	return a > b ? a : b;
}

/* Rank X of a ring of N, for -N <= X < 2N. */
static inline int bb_wrap(int x, int n)
{
	return x < 0 ? x + n : x >= n ? x - n : x;
}

/* Least d with 2^d >= n, and greatest d with 2^d <= n. */
static inline int bb_log2_up(int n)
{
	return n <= 1 ? 0 : 32 - __builtin_clz((unsigned)n - 1);
}

static inline int bb_log2_down(int n)
{
	return 31 - __builtin_clz((unsigned)n);
}

/* N ranks as the greatest power of two below or at it, and REST ranks beyond. */
struct bb_power {
	int levels; /* log2 of POWER */
	int power;
	int rest;
};

static inline struct bb_power bb_power_of(int n)
{
	const int levels = bb_log2_down(n);

	return (struct bb_power){levels, 1 << levels, n - (1 << levels)};
}

/* doubling.c: RANK beyond the power of two sends COUNT elements of IN to rank - POWER, its proxy,
   which adds its own and writes the sum to SUM. */
void bb_power_before(struct bb_writer *w, const struct bb_power *plan, int rank,
		     struct bb_place sum, size_t count);
/* The proxy sends COUNT elements of FROM, the result, back to OUT. */
void bb_power_after(struct bb_writer *w, const struct bb_power *plan, int rank,
		    struct bb_place from, size_t count);

/* The number of pieces of at most CHUNK in COUNT, at least 1; CHUNK 0: one. */
static inline size_t bb_pieces(size_t count, size_t chunk)
{
	return !chunk || count <= chunk ? 1 : (count - 1) / chunk + 1;
}

/* ---- roles of algorithms that keep nothing else ---------------------------------------- */

static inline void bb_role_fill(struct bb_role *role, int rank, size_t rounds)
{
	role->rank = rank;
	role->rounds = rounds;
}

/* algorithms.c: bb_algorithm's prepare for a round with each of the n - 1 others, for two with
   each, and for log2(n) rounds, rounded up. */
void bb_prepare_others(const struct bb_shape *shape, int rank, struct bb_role *role);
void bb_prepare_twice_others(const struct bb_shape *shape, int rank, struct bb_role *role);
void bb_prepare_log(const struct bb_shape *shape, int rank, struct bb_role *role);

/* ---- blocks: n pieces of a buffer, one per rank -------------------------------------- */

struct bb_blocks {
	size_t origin; /* of block 0 */
	size_t stride;
	size_t length;
	size_t extra; /* number of blocks at the front with one element more */
};

/* n blocks that are the balanced parts of [origin, origin + count). */
static inline struct bb_blocks bb_blocks_of(size_t origin, size_t count, size_t n)
{
	return (struct bb_blocks){origin, count / n, count / n, count % n};
}

/* Elements [origin, origin + count) of every block of STRIDE elements. */
static inline struct bb_blocks bb_blocks_within(size_t origin, size_t count, size_t stride)
{
	return (struct bb_blocks){origin, stride, count, 0};
}

static inline size_t bb_block_start(const struct bb_blocks *blocks, size_t k)
{
	return blocks->origin + k * blocks->stride + bb_least(k, blocks->extra);
}

static inline size_t bb_block_count(const struct bb_blocks *blocks, size_t k)
{
	return blocks->length + (k < blocks->extra ? 1 : 0);
}

/* ---- alltoall, alltoallv: in place they work from a copy of IN in TMP ------------------ */

/* Elements of that copy at the front of TMP; 0 out of place. */
size_t bb_alltoall_saved(const struct bb_shape *shape, int rank);
/* Where RANK finds what it sends to DESTINATION. */
struct bb_place bb_alltoall_from(const struct bb_shape *shape, int rank, int destination);
/* In place, round 0 saves IN, and the algorithm proper begins in round 1. True: this was round 0;
   else *ROUND becomes that of the algorithm proper. */
bool bb_alltoall_saves(struct bb_writer *w, const struct bb_shape *shape, int rank, size_t *round);
/* Bring the rank's own block to its place. */
void bb_alltoall_keep(struct bb_writer *w, const struct bb_shape *shape, int rank);
/* The longest block of all. */
size_t bb_alltoall_longest(const struct bb_shape *shape);

/* ---- ring ---------------------------------------------------------------------------- */

/* Round I of n - 1 in which blocks travel around the ring until every rank has all. The rank's own
   block leaves from OWN; the others arrive in OUT and leave from there. */
void bb_ring_all_gather_part(struct bb_writer *w, int n, int rank, size_t i,
			     const struct bb_blocks *blocks, struct bb_place own);

/* ---- double binary tree -------------------------------------------------------------- */

/*
 * The root stands above two binary trees of all other ranks; each carries one half of the data
 * in the same number of chunks. An inner rank of one tree is a leaf of the other.
 */
struct bb_lane {    /* a rank's place in one of the trees */
	int parent; /* BB_NO_PEER: the root */
	int depth;
	int children;
	int child[2]; /* [1] is BB_NO_PEER unless there are two */
	struct bb_blocks chunks;
};

struct bb_tree { /* lies at the front of role.at */
	size_t depth;
	size_t chunks;
	size_t window; /* elements of one of the two slots in TMP */
	struct bb_lane lanes[2];
};

_Static_assert(sizeof(struct bb_tree) <= sizeof(((struct bb_role *)0)->at), "fits a role");

static inline struct bb_tree *bb_tree_of(struct bb_role *role)
{
	return (struct bb_tree *)role->at;
}

static inline const struct bb_tree *bb_tree_in(const struct bb_role *role)
{
	return (const struct bb_tree *)role->at;
}

/* Instead of a root: ranks 0 and 1 are each the top of one of the trees, so that no rank is the top
   of both. */
#define BB_TREES_APART (-1)

void bb_tree_prepare(struct bb_tree *tree, int n, int rank, int root, size_t count, size_t chunk);
/* Rounds of going up or down. */
size_t bb_tree_rounds(const struct bb_tree *tree);
/* Reduce towards the root: the rank adds IN, and sums go to SUM or, with WINDOWED, to a window of
   two slots at SUM. FINAL: what the root writes is not read again. */
void bb_tree_up(struct bb_writer *w, const struct bb_tree *tree, size_t round, struct bb_place in,
		struct bb_place sum, bool windowed, bool final);
/* Spread from the root's TOP to every other rank's OUT. */
void bb_tree_down(struct bb_writer *w, const struct bb_tree *tree, size_t round,
		  struct bb_place top, struct bb_place out);

/* ---- binomial tree: scatter and gather of blocks ------------------------------------- */

struct bb_binomial {
	int n;
	int rank;
	int root;
	const size_t *row;       /* counts of the ranks' blocks, one behind the other, or NULL: */
	struct bb_blocks blocks; /* equal blocks, or balanced parts */
	struct bb_place top;     /* the root's blocks, by rank */
	struct bb_place own;     /* another rank's own block */
	struct bb_place held;    /* blocks that another rank holds for the ranks below it: */
	bool natural;            /* at their places among all blocks, else packed */
	bool final;              /* scatter: the rank's own block is not read again */
};

/* Rounds of a scatter or gather: bb_log2_up(n). The root's own block is left to the caller. */
void bb_binomial_scatter(struct bb_writer *w, const struct bb_binomial *b, size_t round);
void bb_binomial_gather(struct bb_writer *w, const struct bb_binomial *b, size_t round);
/* Elements that b->rank holds for others when packed. */
size_t bb_binomial_held(const struct bb_binomial *b);

/* ---- pairwise ------------------------------------------------------------------------ */

/* Round I of n - 1: with the rank I + 1 away. Blocks are reduced from IN into SUM, which takes
   one block; or the own block is sent from OWN and the others arrive in OUT. */
void bb_pairwise_reduce_scatter_part(struct bb_writer *w, int n, int rank, size_t i,
				     const struct bb_blocks *blocks, struct bb_place sum,
				     bool final);
void bb_pairwise_all_gather_part(struct bb_writer *w, int n, int rank, size_t i,
				 const struct bb_blocks *blocks, struct bb_place own);

/* ---- linear: the root communicates with one rank after the other ---------------------- */

/* Round I of n - 1. */
void bb_linear_gather_part(struct bb_writer *w, int n, int rank, int root, size_t i,
			   const struct bb_blocks *blocks, struct bb_place out, bool final);

/* ---- the algorithms, by file ---------------------------------------------------------- */

/* ring.c */
extern const struct bb_algorithm bb_ring_all_reduce, bb_ring_all_gather, bb_ring_reduce_scatter,
	bb_ring_broadcast, bb_ring_reduce, bb_ring_gather, bb_ring_scatter, bb_ring_alltoall,
	bb_ring_alltoallv, bb_ring_sendrecv;

/* tree.c */
extern const struct bb_algorithm bb_tree_all_reduce, bb_tree_broadcast, bb_tree_reduce,
	bb_tree_all_gather, bb_tree_reduce_scatter;

/* binomial.c */
extern const struct bb_algorithm bb_tree_gather, bb_tree_scatter, bb_tree_alltoall,
	bb_tree_alltoallv, bb_tree_sendrecv;

/* doubling.c */
extern const struct bb_algorithm bb_doubling_all_reduce, bb_doubling_all_gather,
	bb_hypercube_hypercube, bb_doubling_broadcast, bb_doubling_reduce;

/* halving.c */
extern const struct bb_algorithm bb_halving_all_reduce, bb_halving_reduce_scatter;

/* bruck.c */
extern const struct bb_algorithm bb_bruck_all_gather, bb_bruck_alltoall;

/* pairwise.c */
extern const struct bb_algorithm bb_pairwise_alltoall, bb_pairwise_alltoallv, bb_naive_alltoall,
	bb_naive_alltoallv, bb_pairwise_reduce_scatter, bb_pairwise_all_gather, bb_naive_all_gather,
	bb_naive_all_reduce, bb_naive_reduce_scatter;

/* linear.c */
extern const struct bb_algorithm bb_linear_broadcast, bb_linear_reduce, bb_linear_gather,
	bb_linear_scatter, bb_linear_all_reduce, bb_linear_all_gather, bb_linear_reduce_scatter;

/* compose.c */
extern const struct bb_algorithm bb_reduce_broadcast_all_reduce, bb_gather_broadcast_all_gather,
	bb_reduce_scatter_all_gather_all_reduce, bb_scatter_all_gather_broadcast;

#endif
