/*
 * bandwidth.h - the benchmark of memory: bandwidth of the cores of each NUMA node to the memory of
 * each, of a GPU, and of all GPUs of a host at once, to their own memory and to the host's; and the
 * latency of dependent loads.
 *
 *   bandwidth.c    the benchmark: options, plan, experiment
 *   text.c         the text: a row per case, then matrices
 *   pair_record.c  the fields of its record, which pairs of ranks have too
 */
#ifndef BB_MEMORY_BANDWIDTH_BANDWIDTH_H
#define BB_MEMORY_BANDWIDTH_BANDWIDTH_H

#include "backends/spaces.h"
#include "harness/measure/engine.h"
#include "memory/bandwidth/pair_record.h"

enum bb_memory_kind {
	BB_MEMORY_READ,
	BB_MEMORY_WRITE,
	BB_MEMORY_COPY,
	BB_MEMORY_KERNEL_COPY, /* by a GPU's kernel, of its own memory and the host's pinned */
	BB_MEMORY_TRIAD,
	BB_MEMORY_BOTH,        /* copies between two spaces in both directions at once */
	BB_MEMORY_KERNEL_BOTH, /* likewise, by two kernels */
	BB_MEMORY_CHASE,
	BB_MEMORY_KINDS
};

/* The ranks of a place that work at once. */
enum bb_workers { BB_WORKERS_ALL, BB_WORKERS_ONE, BB_WORKERS_BOTH };

#define BB_MEMORY_OPTIONS(OPTION, COMMON)                                                          \
	OPTION(SET, work, "work", 0, "all", "kinds of work on memory", .choices = work_names,      \
	       .section = "Memory", .usual = true)                                                 \
	OPTION(CHOICE, workers, "workers", 0, "both",                                              \
	       "ranks of a NUMA node, or GPUs of a host, that work at once: all, one, or first "   \
	       "all and then one",                                                                 \
	       .choices = worker_names, .usual = true)                                             \
	OPTION(INT, iters, "iters", 'n', "10", "timed iterations", .min = 1, .max = MOST_ITERS,    \
	       .usual = true)

struct bb_memory_options {
	BB_OPTION_MEMBERS(BB_MEMORY_OPTIONS)

	unsigned works; /* bit per enum bb_memory_kind, from WORK */
};

/* One case, measured at one place after the other. */
struct bb_memory_case {
	enum bb_memory_kind kind;
	const char *route; /* its name in records */
	int to, from;      /* spaces: what is written, or only read; what it is made from */
	bool alone;        /* one rank of a NUMA node works, or one GPU of a host; else all */
	uint64_t bytes;    /* of an array, for all workers together; of a chase */
	const char *skip;  /* why it is not run; NULL: run it */
};

struct bb_memory_plan {
	struct bb_memory_case *cases;
	size_t ncases, room;
	/* On rank 0: complete R, the record of C. NULL: it is complete. */
	void (*complete)(struct bb_run *run, const struct bb_memory_case *c,
			 struct bb_pair_record *r);
};

/* Append C, which is skipped if its arrays do not fit into memory. The caller frees the cases. */
BB_MUST bb_status bb_memory_plan_add(struct bb_memory_plan *plan, struct bb_run *run,
				     struct bb_memory_case c);

/* The state of the benchmark. */
struct bb_memory {
	struct bb_memory_options settings; /* first: the rows are read into it */
	struct bb_memory_plan plan;
};

static inline bool bb_memory_is_both(const struct bb_memory_case *c)
{
	return c->kind == BB_MEMORY_BOTH || c->kind == BB_MEMORY_KERNEL_BOTH;
}

extern const struct bb_option bb_memory_rows[];
extern const struct bb_benchmark bb_memory_benchmark;

/*
 * Measures all cases of a plan. The subject of a benchmark that has this experiment is a size_t:
 * the offset of its struct bb_memory_plan in its state.
 */
extern const struct bb_experiment bb_memory_experiment;
/* Starts the progress of that plan. */
BB_MUST bb_status bb_memory_open_results(struct bb_run *run);

/* A bb_sink_open. */
bb_sink_open bb_sink_memory_open;

#endif
