/*
 * schedule.h - collectives and algorithms as data.
 *
 * A collective says what every rank sends and receives. An algorithm says how, as a pure
 * function from (shape, rank, round) to a few steps. Neither communicates, allocates or
 * knows a buffer's address: the executor runs the steps over a backend's point-to-point,
 * the checker proves them, the explainer prints them.
 *
 * All offsets and counts are in elements.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One call of a collective, as seen by a whole group. */
struct bb_shape {
	int nranks;
	int root;             /* rooted collectives; else 0 */
	bool in_place;        /* IN and OUT lie in one buffer, see bb_collective_at */
	size_t count;         /* the call's count parameter, as in NCCL: per rank for all_gather,
				 reduce_scatter, gather, scatter, alltoall; whole for the others */
	size_t chunk;         /* largest message of a pipelined algorithm; 0: no pipelining */
	const size_t *matrix; /* alltoallv: matrix[src * nranks + dst] elements; else NULL */
};

enum bb_buffer { BB_IN, BB_OUT, BB_TMP };

/* ---- collectives ------------------------------------------------------------------- */

#define BB_REDUCED (-1) /* source of a segment: the reduction over all ranks */

/* A piece of a rank's expected OUT: OUT[out, out+count) = IN of `source` at [in, in+count). */
struct bb_segment {
	size_t out;
	size_t in;
	size_t count;
	int source; /* a rank, or BB_REDUCED */
};

enum bb_collective_flag {
	BB_ROOTED = 1,           /* has a root, which alone sends, unless */
	BB_TO_ROOT = 2,          /* it alone receives */
	BB_REDUCES = 4,          /* has a reduction op */
	BB_SENDS_BLOCKS = 8,     /* IN has a block for each rank, else what is for all */
	BB_RECEIVES_BLOCKS = 16, /* OUT has a block from each rank */
	BB_SAME_OUTPUT = 32,     /* every rank's OUT is the same */
	BB_ROUNDED = 64,         /* per-rank count is floored to 16 bytes, as in nccl-tests */
	BB_VARIABLE = 128        /* counts come from shape.matrix */
};

/* The rank that moves a piece of data when all memory is shared (the `direct` algorithm). */
enum bb_share {
	BB_SHARE_EVEN,          /* every rank an equal slice of each segment */
	BB_SHARE_BY_SOURCE,     /* the rank that owns its IN */
	BB_SHARE_BY_DESTINATION /* the rank that owns its OUT */
};

struct bb_collective {
	const char *name; /* "all_reduce"; its binary is all_reduce_perf */
	const char *brief;
	unsigned flags;
	enum bb_share share;
	/* busbw / algbw for n ranks, as nccl-tests defines it. */
	double (*bus_factor)(int nranks);
	/* NULL, or why it does not exist for so many ranks. The pointer may be NULL: any number. */
	const char *(*refuses)(int nranks);
};

/* Elements that RANK reads from IN and writes to OUT; 0 where it has no such buffer. */
size_t bb_collective_in(const struct bb_collective *collective, const struct bb_shape *shape,
			int rank);
size_t bb_collective_out(const struct bb_collective *collective, const struct bb_shape *shape,
			 int rank);
/* In place, where BUFFER of RANK, IN or OUT, begins in the one buffer. */
size_t bb_collective_at(const struct bb_collective *collective, const struct bb_shape *shape,
			int rank, enum bb_buffer buffer);
/* The expected OUT of RANK: segments 0 to n-1, together exactly all of its elements. */
int bb_collective_segments(const struct bb_collective *collective, const struct bb_shape *shape,
			   int rank);
struct bb_segment bb_collective_segment(const struct bb_collective *collective,
					const struct bb_shape *shape, int rank, int k);

/* Every collective, in the order of --list; ends with NULL. */
extern const struct bb_collective *const bb_collectives[];
extern const struct bb_collective bb_all_reduce, bb_all_gather, bb_reduce_scatter, bb_broadcast,
	bb_reduce, bb_gather, bb_scatter, bb_alltoall, bb_alltoallv, bb_sendrecv, bb_hypercube;

/* The collective of that name, or NULL. */
const struct bb_collective *bb_collective_find(const char *name);

/* The count parameter for a requested size of BYTES, rounded as nccl-tests rounds. */
size_t bb_count_for_size(const struct bb_collective *collective, size_t bytes, size_t element_size,
			 int nranks);
/* The elements that "size" counts: the larger of a rank's IN and OUT. */
size_t bb_size_count(const struct bb_collective *collective, const struct bb_shape *shape);
/* The elements over which algbw is taken; in hypercube not "size", as in nccl-tests. */
size_t bb_algbw_count(const struct bb_collective *collective, const struct bb_shape *shape);

/* alltoall and alltoallv: elements from SOURCE to DESTINATION, and where they lie in SOURCE's IN
   and in DESTINATION's OUT. A rank of nranks on the varying side gives the length of IN or OUT. */
size_t bb_alltoall_count(const struct bb_shape *shape, int source, int destination);
size_t bb_alltoall_in(const struct bb_shape *shape, int source, int destination);
size_t bb_alltoall_out(const struct bb_shape *shape, int source, int destination);

/* Fill MATRIX (n * n) as nccl-tests does by default: elements to a peer in proportion to its
   distance along the ring at SPREAD 1, equal at SPREAD 0, blended between. Every rank sends
   n * count in all. */
void bb_alltoallv_matrix(size_t *matrix, int n, size_t count, double spread);

/* Start and length of part K of N balanced parts of COUNT elements (any count, any n >= 1). */
static inline size_t bb_part_start(size_t count, size_t n, size_t k)
{
	const size_t extra = count % n;

	return k * (count / n) + (k < extra ? k : extra);
}

static inline size_t bb_part_count(size_t count, size_t n, size_t k)
{
	return count / n + (k < count % n ? 1 : 0);
}

/* ---- algorithms -------------------------------------------------------------------- */

struct bb_place {
	enum bb_buffer buffer;
	size_t offset;
};

enum bb_step_kind {
	BB_SEND,        /* src goes to peer */
	BB_RECV,        /* dst = incoming from peer */
	BB_RECV_REDUCE, /* dst = src + incoming from peer (+ incoming from peer2) */
	BB_COPY         /* dst = src, local */
};

#define BB_NO_PEER (-1)
#define BB_CHANNELS 2   /* messages match by (peer, channel) in order */
#define BB_MAX_STEPS 16 /* of one rank in one round */

struct bb_step {
	enum bb_step_kind kind;
	int peer;
	int peer2; /* second source of a receive-and-reduce, else BB_NO_PEER */
	int channel;
	bool final; /* dst is not read again in this call, by anyone */
	struct bb_place src;
	struct bb_place dst;
	size_t count;
};

/*
 * A rank's place in an algorithm for one shape, computed once per call so that a round costs
 * nanoseconds. Plain data; the algorithm alone knows what `at` holds.
 */
struct bb_role {
	int rank;
	size_t rounds; /* rounds of the call; the same for all ranks of the group */
	size_t at[24];
};

/* The steps of a rank's round as they are written. */
struct bb_writer {
	const struct bb_algorithm *algorithm;
	const struct bb_shape *shape;
	const struct bb_role *role;
	int n, rank;           /* of SHAPE and ROLE */
	struct bb_step *steps; /* room for BB_MAX_STEPS */
	int nsteps;
};

enum bb_algorithm_flag {
	BB_SHIFT_INVARIANT = 1 /* every round of rank r is that of rank 0 with peers and chunk
				  indices shifted by r, so one rank's sizes stand for all */
};

/*
 * The prefix of busbench's schedules where a backend's library has an algorithm of the same name:
 * "busbench:ring". It is accepted everywhere.
 */
#define BB_OWN "busbench:"
#define BB_NAMED(word) .name = (word), .own = BB_OWN word

struct bb_algorithm {
	const char *name; /* "ring" */
	const char *own;  /* "busbench:ring", see BB_OWN; NULL: it is a library's */
	const struct bb_collective *collective;
	const char *meaning; /* one sentence, for docs/ and --explain */
	unsigned flags;
	/* Rounds in a row in which a rank sends to one child after the other, at most all; 0: 1. */
	int fan;
	/* Ranks that a rank sends to in one round, as it receives from as many; 0: 1. */
	int at_once;
	/* Of a library: NULL, or why this shape is not supported. The pointer may be NULL: all are,
	   as by each of bb_algorithms. */
	const char *(*refuses)(const struct bb_shape *shape);
	/* The next three are for two or more ranks; call them through bb_algorithm_tmp_count,
	   bb_algorithm_prepare and bb_algorithm_steps. */
	/* Elements of TMP that RANK needs. NULL: none. */
	size_t (*tmp_count)(const struct bb_shape *shape, int rank);
	/* Fill role->at, if the algorithm keeps anything there. Returns the rounds of the call.
	   NULL: role->rounds, which are those to meet each of the others, AT_ONCE in a round. */
	size_t (*prepare)(const struct bb_shape *shape, struct bb_role *role);
	/*
	 * Write the steps of one round, at most BB_MAX_STEPS. Steps of count
	 * 0 are not written, on both sides alike. Within a round no write overlaps another step's
	 * read or write (a reduction onto its own source is fine); all sends are posted first, then
	 * the others run in order. No step has the rank itself as peer. A message is received in
	 * the round in which it was sent.
	 */
	void (*round)(struct bb_writer *writer, size_t round);
};

/*
 * The functions of ALGORITHM, for any call: a rank alone copies IN to OUT in a single round, and an
 * exchange of blocks in place first copies IN to the front of TMP, whatever the algorithm.
 * bb_algorithm_steps returns the number of steps.
 */
void bb_algorithm_prepare(const struct bb_algorithm *algorithm, const struct bb_shape *shape,
			  int rank, struct bb_role *role);
size_t bb_algorithm_tmp_count(const struct bb_algorithm *algorithm, const struct bb_shape *shape,
			      int rank);
/* START and COUNT = where RANK's buffers (enum bb_buffer) begin in one array of elements, and their
   lengths; in place IN and OUT share elements. Returns the length of the array. */
size_t bb_algorithm_lay_out(const struct bb_algorithm *algorithm, const struct bb_shape *shape,
			    int rank, size_t start[3], size_t count[3]);
int bb_algorithm_steps(const struct bb_algorithm *algorithm, const struct bb_shape *shape,
		       const struct bb_role *role, size_t round,
		       struct bb_step steps[BB_MAX_STEPS]);

/* Every (collective, algorithm) pair; ends with NULL. */
extern const struct bb_algorithm *const bb_algorithms[];

/* The name of a schedule in WORD: what follows BB_OWN, or WORD itself. */
const char *bb_algorithm_own(const char *word);

/* The algorithm NAME of COLLECTIVE, or NULL. */
const struct bb_algorithm *bb_algorithm_find(const struct bb_collective *collective,
					     const char *name);

/*
 * Bytes moved are counted in copies: an element copied (one read, one write) is 1, received and
 * reduced 1.5 (two reads, one write), with two peers 2. Returns the sum over all ranks, in
 * elements, and in *rounds and *wire (may be NULL) the rounds and the most elements that any
 * one rank sends (as if it were not cut into chunks, which may round parts differently).
 * Exact for groups of some thousand ranks; beyond, a sample of ranks stands for all.
 */
double bb_algorithm_cost(const struct bb_algorithm *algorithm, const struct bb_shape *shape,
			 size_t *rounds, size_t *wire);

/*
 * The algorithm of COLLECTIVE that costs the least for SHAPE where a round takes ROUND seconds and
 * each element that a rank sends ELEMENT more.
 */
const struct bb_algorithm *bb_algorithm_cheapest(const struct bb_collective *collective,
						 const struct bb_shape *shape, double round,
						 double element);
