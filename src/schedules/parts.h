/*
 * parts.h - the algorithms and their parts: writing steps, balanced blocks, and phases that
 * several algorithms share; for src/schedules and the schedules of modelled libraries.
 */
#pragma once

#include "schedules/schedule.h"

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

/* The number of pieces of at most CHUNK in COUNT, at least 1; CHUNK 0: one. */
static inline size_t bb_pieces(size_t count, size_t chunk)
{
	return !chunk || count <= chunk ? 1 : (count - 1) / chunk + 1;
}

/* ---- ranks --------------------------------------------------------------------------- */

/* How many ranks RANK is behind the root, around the ring. */
static inline int bb_behind(const struct bb_shape *shape, int rank)
{
	return bb_wrap(rank - shape->root, shape->nranks);
}

/* The rank that is D, from -N to N, beyond the writer's. */
static inline int bb_ahead(const struct bb_writer *w, int d)
{
	return bb_wrap(w->rank + d, w->n);
}

static inline bool bb_is_root(const struct bb_writer *w)
{
	return w->rank == w->shape->root;
}

/* Ranks that a rank sends to in one round of ALGORITHM. */
static inline size_t bb_at_once(const struct bb_algorithm *algorithm)
{
	return algorithm->at_once ? (size_t)algorithm->at_once : 1;
}

/* ---- places -------------------------------------------------------------------------- */

static inline struct bb_place bb_at(enum bb_buffer buffer, size_t offset)
{
	return (struct bb_place){buffer, offset};
}

static inline struct bb_place bb_plus(struct bb_place place, size_t offset)
{
	return (struct bb_place){place.buffer, place.offset + offset};
}

/* Pieces of a buffer, one for each rank. */
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

/* A block of shape->count elements for each rank. */
static inline struct bb_blocks bb_blocks_equal(const struct bb_shape *shape)
{
	return bb_blocks_within(0, shape->count, shape->count);
}

static inline size_t bb_block_start(const struct bb_blocks *blocks, size_t k)
{
	return blocks->origin + k * blocks->stride + bb_least(k, blocks->extra);
}

static inline size_t bb_block_count(const struct bb_blocks *blocks, size_t k)
{
	return blocks->length + (k < blocks->extra ? 1 : 0);
}

/* Block K of BUFFER. */
static inline struct bb_place bb_block_at(enum bb_buffer buffer, const struct bb_blocks *blocks,
					  int k)
{
	return bb_at(buffer, bb_block_start(blocks, (size_t)k));
}

/* ---- writing steps ------------------------------------------------------------------- */

/* Inlined always, as a step that is built and then copied waits for its own stores: a round takes 7
   to 10 ns instead of 35. */
static inline __attribute__((always_inline)) void bb_write(struct bb_writer *w, struct bb_step step)
{
	if (step.count)
		w->steps[w->nsteps++] = step;
}

static inline void bb_send_on(struct bb_writer *w, int channel, int peer, struct bb_place src,
			      size_t count)
{
	bb_write(w, (struct bb_step){BB_SEND, peer, BB_NO_PEER, channel, false, src, {0}, count});
}

static inline void bb_recv_on(struct bb_writer *w, int channel, int peer, struct bb_place dst,
			      size_t count, bool final)
{
	bb_write(w, (struct bb_step){BB_RECV, peer, BB_NO_PEER, channel, final, {0}, dst, count});
}

/* dst = src + the message from PEER (+ that from PEER2). */
static inline void bb_add_on(struct bb_writer *w, int channel, int peer, int peer2,
			     struct bb_place src, struct bb_place dst, size_t count, bool final)
{
	bb_write(w, (struct bb_step){BB_RECV_REDUCE, peer, peer2, channel, final, src, dst, count});
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

static inline void bb_add(struct bb_writer *w, int peer, struct bb_place src, struct bb_place dst,
			  size_t count, bool final)
{
	bb_add_on(w, 0, peer, BB_NO_PEER, src, dst, count, final);
}

static inline void bb_copy(struct bb_writer *w, struct bb_place src, struct bb_place dst,
			   size_t count, bool final)
{
	bb_write(w, (struct bb_step){BB_COPY, BB_NO_PEER, BB_NO_PEER, 0, final, src, dst, count});
}

/* Copy a rank's own SRC in IN to its place DST in OUT; nothing in place. */
static inline void bb_copy_own(struct bb_writer *w, struct bb_place src, struct bb_place dst,
			       size_t count, bool final)
{
	if (!w->shape->in_place)
		bb_copy(w, src, dst, count, final);
}

/* ---- alltoall, alltoallv: in place they work from a copy of IN in TMP ------------------ */

/* Elements of that copy at the front of TMP; 0 out of place. */
size_t bb_alltoall_saved(const struct bb_shape *shape, int rank);
/* Where RANK finds what it sends to DESTINATION. */
struct bb_place bb_alltoall_from(const struct bb_shape *shape, int rank, int destination);
/* Bring the rank's own block to its place. */
void bb_alltoall_keep(struct bb_writer *w);

/* ---- phases and roles that several algorithms share ------------------------------------ */

/* bb_algorithm's prepare for two rounds with each of the others, and for log2(n) rounds, rounded
   up. */
size_t bb_prepare_twice_others(const struct bb_shape *shape, struct bb_role *role);
size_t bb_prepare_log(const struct bb_shape *shape, struct bb_role *role);

/* ring.c: round I of n - 1 of an all-gather; a rank's own block is at OWN before. */
void bb_ring_gather_all(struct bb_writer *w, size_t i, const struct bb_blocks *blocks,
			struct bb_place own);
/* pairwise.c: a round of the linear algorithm of the writer's collective. In n - 1 rounds the
   root, or rank 0, collects what the others have or (broadcast, scatter) hands out. */
void bb_linear_round(struct bb_writer *w, size_t round);

/* ---- the algorithms, by file ---------------------------------------------------------- */

/* ring.c */
extern const struct bb_algorithm bb_ring_all_reduce, bb_ring_all_gather, bb_ring_reduce_scatter,
	bb_ring_broadcast, bb_ring_reduce, bb_ring_gather, bb_ring_scatter, bb_ring_alltoall,
	bb_ring_alltoallv, bb_ring_sendrecv;

/* tree.c */
extern const struct bb_algorithm bb_tree_all_reduce, bb_tree_broadcast, bb_tree_reduce,
	bb_tree_all_gather, bb_tree_reduce_scatter, bb_tree_gather, bb_tree_scatter,
	bb_tree_alltoall, bb_tree_alltoallv, bb_tree_sendrecv, bb_reduce_broadcast_all_reduce,
	bb_gather_broadcast_all_gather, bb_scatter_all_gather_broadcast;

/* doubling.c */
extern const struct bb_algorithm bb_doubling_all_reduce, bb_doubling_all_gather,
	bb_hypercube_hypercube, bb_doubling_broadcast, bb_doubling_reduce, bb_halving_all_reduce,
	bb_halving_reduce_scatter, bb_bruck_all_gather, bb_bruck_alltoall;

/* pairwise.c */
extern const struct bb_algorithm bb_pairwise_alltoall, bb_pairwise_alltoallv,
	bb_pairwise_reduce_scatter, bb_pairwise_all_gather, bb_reduce_scatter_all_gather_all_reduce,
	bb_naive_alltoall, bb_naive_alltoallv, bb_naive_all_gather, bb_naive_all_reduce,
	bb_naive_reduce_scatter, bb_linear_broadcast, bb_linear_reduce, bb_linear_gather,
	bb_linear_scatter, bb_linear_all_reduce, bb_linear_all_gather, bb_linear_reduce_scatter;
