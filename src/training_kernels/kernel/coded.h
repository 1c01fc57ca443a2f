/*
 * coded.h - the mean of all ranks' fp32 arrays by an exchange of codes (codes/codes.h): code,
 * exchange codes, decode and sum, code, gather. Operations of a program, and what they compute.
 *
 * An array has N chunks, one for each rank. A phase is three steps: code, a collective of bytes,
 * and decode, which adds to the sum if the phase reduces. Chunks are coded separately, but without
 * blocks all chunks that a step codes have one scale, as in 1-bit Adam.
 *
 *   alltoall   rank r gets chunk r of all ranks and sums it (1-bit Adam: DeepSpeed,
 *              runtime/comm/nccl.py, where scales have a collective of their own)
 *   ring       N - 1 hops; each adds a rank's own chunk and codes the partial sum again
 *   allgather  each rank gets all arrays whole and sums them (PyTorch,
 *              ddp_comm_hooks/quantization_hooks.py)
 *   two-hops   alltoall in the node, coded again, alltoall across nodes between ranks of equal
 *              place (qgZ of ZeRO++: DeepSpeed, runtime/comm/coalesced_collectives.py)
 *
 * All but allgather then gather the codes of the mean. With error memory (error feedback) each code
 * step adds the error that it made in the round before, and keeps the new one: 1-bit Adam's worker
 * and server errors. Then for every element, over any rounds: results + mean of the errors of the
 * sums' codes + error of the mean's code = means of the inputs.
 */
#pragma once

#include "codes/codes.h"
#include "programs/tape.h"

enum bb_coded_kind { BB_CODED_ALLTOALL, BB_CODED_RING, BB_CODED_ALLGATHER, BB_CODED_TWO_HOPS };

struct bb_coded_scheme {
	enum bb_coded_kind kind;
	const char *name, *brief;
};

extern const struct bb_coded_scheme bb_coded_schemes[]; /* ends with a name of NULL */

struct bb_coded_form {
	const struct bb_coded_scheme *scheme;
	const struct bb_coding *coding;
	size_t block;      /* as in codes.h */
	size_t count;      /* numbers of each rank */
	int nranks, local; /* ranks, and those of a node, which divide them: two-hops alone */
	bool feedback;
	/* Each rank has chunk number rank instead of an array: they are gathered, not reduced (qwZ
	   of ZeRO++); and ends with the mean of its chunk (qgZ). */
	bool only_gathers, only_reduces;
};

/*
 * Numbers of an array with the zeros behind it: a multiple of 8 N, of N 8N/gcd(N, 8) for signs, as
 * DeepSpeed has it. allgather: COUNT; unsigned codes in blocks have 1 to BLOCK more, as PyTorch has
 * it.
 */
size_t bb_coded_padded(const struct bb_coded_form *form);
/* Numbers and coded bytes of a chunk. */
size_t bb_coded_chunk(const struct bb_coded_form *form);
size_t bb_coded_chunk_bytes(const struct bb_coded_form *form);

/* The reason why FORM is impossible, or NULL. */
const char *bb_coded_refuses(const struct bb_coded_form *form);

enum bb_coded_step { BB_CODED_CODE, BB_CODED_EXCHANGE, BB_CODED_DECODE, BB_CODED_STEPS };

/* The groups of a phase; the group of all ranks is the first of a program. */
enum bb_coded_family { BB_CODED_WORLD, BB_CODED_NODE, BB_CODED_ACROSS };

struct bb_coded_phase {
	const struct bb_collective *collective;
	enum bb_coded_family family;
	int members;         /* of its group */
	size_t chunks;       /* of a message */
	size_t coded, comes; /* chunks that a rank codes, and gets */
	bool reduces;
};

int bb_coded_phases(const struct bb_coded_form *form);
struct bb_coded_phase bb_coded_phase(const struct bb_coded_form *form, int phase);

/* Bytes that a rank sends in PHASE: codes and scales. */
size_t bb_coded_sent(const struct bb_coded_form *form, int phase);

/*
 * Append the steps of all phases to QUEUE of TAPE, with items from ITEM on: ITEM + 3 phase + step.
 * Computations are of work CODING. Their time, which they take where time is virtual, is that of
 * reading and writing each number and code once at MEMORY_RATE bytes per second. Collectives are of
 * work EXCHANGE, and their group is the family, until bb_coded_complete.
 */
void bb_coded_write(const struct bb_coded_form *form, struct bb_tape *tape, int queue, int coding,
		    int exchange, size_t item, double memory_rate);
/* The group of O, of RANK, instead of its family; FORM is a struct bb_coded_form. Groups are
   numbered from 0: all ranks, nodes, places in the node. */
void bb_coded_complete(const void *form, int rank, struct bb_operation *o);
int bb_coded_groups(const struct bb_coded_form *form);
int bb_coded_group_size(const struct bb_coded_form *form, int group);
int bb_coded_member(const struct bb_coded_form *form, int group, int i);

/* Memory of a rank. */
struct bb_coded {
	const struct bb_coded_form *form;
	int rank;
	float *x;           /* [padded], or a chunk: its array; what is behind COUNT is zero */
	float *sum;         /* partial sums; the mean of its chunk, in the end */
	float *result;      /* [padded]: the mean; not set if it only reduces */
	float *error;       /* errors, of one phase after another; NULL: without feedback */
	size_t errors;      /* numbers */
	char *sent, *comes; /* messages */
};

/* Set the places of *CODED in MEMORY; NULL: only their bytes are counted. Returns the bytes. */
size_t bb_coded_lay_out(struct bb_coded *coded, const struct bb_coded_form *form, int rank,
			char *memory);
/* Compute the operation with ITEM, counted from the exchange's first. */
void bb_coded_compute(const struct bb_coded *coded, size_t item);
/* Compute an exchange by alltoall of ALL ranks, in the memory of one. */
void bb_coded_alone(const struct bb_coded *all);

/*
 * That error memory loses nothing: over any rounds of an exchange by alltoall, results + mean of
 * ranks' errors + errors of the mean's codes = means of the inputs, but for rounding. Both sides
 * are weighed by numbers that are drawn for each element, so that one that is wrong moves the sum.
 */
struct bb_coded_balance {
	double open;    /* results less inputs; over all ranks 0 with the errors */
	double squares; /* of what was coded */
};

/* Add a round that has ended to BALANCE, of elements that are numbered from FIRST on. */
void bb_coded_round(const struct bb_coded *coded, uint64_t first, struct bb_coded_balance *balance);
/* What the errors in memory add to what is open. */
double bb_coded_errors(const struct bb_coded *coded, uint64_t first);
