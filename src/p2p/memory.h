/*
 * memory.h - the benchmark of memory itself: how fast the cores of each NUMA node work on the
 * memory of each, how fast a GPU works on its own and what it exchanges with the host; and how long
 * one load takes that waits for the one before.
 *
 *   memory.c        the benchmark: options, what is run
 *   memory_drive.c  what every rank does
 *   memory_text.c   the text: a row a case, then matrices
 */
#ifndef BB_P2P_MEMORY_H
#define BB_P2P_MEMORY_H

#include "backends/spaces.h"
#include "p2p/pairs.h"

enum bb_memory_kind {
	BB_MEMORY_READ,
	BB_MEMORY_WRITE,
	BB_MEMORY_COPY,
	BB_MEMORY_TRIAD,
	BB_MEMORY_BOTH, /* copies from one space to another and back at once */
	BB_MEMORY_CHASE,
	BB_MEMORY_KINDS
};

/* Ranks that work at once. */
enum bb_workers { BB_WORKERS_ALL, BB_WORKERS_ONE, BB_WORKERS_BOTH };

#define BB_MEMORY_OPTIONS(OPTION, COMMON)                                                          \
	OPTION(SET, work, "work", 0, "all", "kinds of work on memory", .choices = work_names,      \
	       .section = "Memory")                                                                \
	OPTION(CHOICE, workers, "workers", 0, "both",                                              \
	       "ranks that work at once: all of a NUMA node, one of them, or first all and then "  \
	       "one",                                                                              \
	       .choices = worker_names)                                                            \
	OPTION(INT, iters, "iters", 'n', "10", "timed iterations", .min = 1, .max = MOST_ITERS)

struct bb_memory_options {
	BB_OPTION_MEMBERS(BB_MEMORY_OPTIONS)

	unsigned works; /* bit per enum bb_memory_kind; worked out */
};

/* What is measured of all places, each by itself. */
struct bb_memory_case {
	enum bb_memory_kind kind;
	const char *route; /* what records call it */
	int to, from;      /* spaces: of what is written, or read alone; of what it is made from */
	bool alone;        /* by one rank of a place */
	uint64_t bytes;    /* of an array, for all workers together; of the way of a chase */
	const char *skip;  /* why it is not run; NULL: run it */
};

struct bb_memory_plan {
	struct bb_memory_case *cases;
	size_t ncases, room;
	/* On rank 0: add to R, the record of C, what else is known of it. NULL: nothing is. */
	void (*complete)(struct bb_run *run, const struct bb_memory_case *c,
			 struct bb_pair_record *r);
};

/* Append C, skipped if its arrays do not fit into the memory. The caller frees the cases. */
BB_MUST bb_status bb_memory_plan_add(struct bb_memory_plan *plan, struct bb_run *run,
				     struct bb_memory_case c);

/* The state of the benchmark. */
struct bb_memory {
	struct bb_memory_options asked; /* first: the rows are read into it */
	struct bb_run *run;
	struct bb_memory_plan plan;
	int nspaces;
};

/* The bytes that count of each byte of an array (backend.h): what is copied from one space to
   another counts once, as links between them carry it. */
double bb_memory_counts(const struct bb_memory_case *c);

extern const struct bb_option bb_memory_rows[];
extern const struct bb_benchmark bb_memory_benchmark;

/* The plan of RUN: of the benchmark of memory, or of the pair of a GPU and its host. */
const struct bb_memory_plan *bb_memory_plan_of(const struct bb_run *run);

/* All cases of that plan. */
extern const struct bb_experiment bb_memory_experiment;

/* bb_sink_open */
bb_sink_open bb_sink_memory_open;

#endif
