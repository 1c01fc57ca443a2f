/*
 * bandwidth.h - the benchmark of memory: bandwidth of the cores of each NUMA node to the memory of
 * each, of a GPU, and of all GPUs of a host at once, to their own memory and to the host's; and the
 * latency of dependent loads.
 *
 *   bandwidth.c   the benchmark: options, plan, experiment
 *   text.c        the text: a row per case, then matrices
 */
#pragma once

#include "backends/spaces.h"
#include "harness/measure/engine.h"

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

/* ---- the record, which pairs of ranks have too ------------------------------------------- */

/* How fast bytes move from one end to the other. */
#define BB_PAIR_FIELDS(FIELD)                                                                      \
	FIELD(STRING, quantity, "", "bandwidth or latency")                                        \
	FIELD(STRING, ends, "", "kind of the two ends: core, gpu, memory, or rank (virtual)")      \
	FIELD(INT, from, "", "source rank; null: the host, memory, or all ranks but to")           \
	FIELD(INT, to, "",                                                                         \
	      "target rank; equal to from: a private copy; null: the host, memory, or all ranks "  \
	      "but from")                                                                          \
	FIELD(STRING, place, "",                                                                   \
	      "memory: NUMA node or GPU that works; GPUs: all of a host at once")                  \
	FIELD(INT, workers, "", "memory: number of ranks that work at once")                       \
	FIELD(STRING, memory_from, "", "memory: location of what is read")                         \
	FIELD(STRING, memory_to, "", "memory: location of what is written")                        \
	FIELD(STRING, from_host, "", "host of the source")                                         \
	FIELD(STRING, to_host, "", "host of the target")                                           \
	FIELD(INT, from_node, "", "with --cluster: node of the source")                            \
	FIELD(INT, to_node, "", "with --cluster: node of the target")                              \
	FIELD(INT, from_device, "",                                                                \
	      "core or GPU of the source; with --cluster: its number in the node")                 \
	FIELD(INT, to_device, "", "core or GPU of the target, likewise")                           \
	FIELD(INT, from_numa, "", "NUMA node of the source")                                       \
	FIELD(INT, to_numa, "", "NUMA node of the target")                                         \
	FIELD(STRING, path, "", "path between the two ends")                                       \
	FIELD(STRING, route, "", "route of the bytes, or kind of work on memory: see --list")      \
	FIELD(STRING, p2p, "", "on: one end accesses the other's memory; off: data is staged")     \
	FIELD(STRING, handle, "",                                                                  \
	      "kind of CUDA's handle by which the end that moves the bytes has mapped memory of "  \
	      "another process: ipc or fabric; null: none")                                        \
	FIELD(STRING, actor, "", "end that moves the bytes: target, source or both")               \
	FIELD(STRING, direction, "",                                                               \
	      "unidirectional; bidirectional: sum of both directions at once; all-to-one, "        \
	      "one-to-all: sum of a rank's transfers from or to all others at once")               \
	FIELD(INT, size_bytes, "bytes",                                                            \
	      "size of one transfer, or of all at once together; null for latency")                \
	FIELD(DOUBLE, GBps, "GB/s", "median of the rounds")                                        \
	FIELD(DOUBLE, low_GBps, "GB/s", "lower quartile of the rounds")                            \
	FIELD(DOUBLE, high_GBps, "GB/s", "upper quartile of the rounds")                           \
	FIELD(DOUBLE, p50_us, "us", "one transfer, or half a round trip: median of all samples")   \
	FIELD(DOUBLE, p99_us, "us", "99th percentile of all samples")                              \
	FIELD(DOUBLE, min_us, "us", "shortest sample")                                             \
	FIELD(DOUBLE, max_us, "us", "longest sample")                                              \
	FIELD(INT, rounds, "", "rounds over all pairs")                                            \
	FIELD(INT, samples, "", "samples in all rounds")                                           \
	FIELD(INT, repeats, "", "transfers or round trips per sample")                             \
	FIELD(INT, wrong, "bytes", "bytes that differ from what was sent; null: not checked")      \
	FIELD(BOOL, child_process, "",                                                             \
	      "measured by a child process in which the library's P2P is off")                     \
	FIELD(DOUBLE, bound_GBps, "GB/s", "bandwidth by bound_source")                             \
	FIELD(DOUBLE, percent_of_bound, "%", "GBps / bound_GBps")                                  \
	FIELD(STRING, bound_source, "", "source of the bound")                                     \
	FIELD(STRING, bound_doubt, "",                                                             \
	      "why the bound does not hold, where the lower quartile beats it by more than 5%; "   \
	      "null: it may hold")                                                                 \
	FIELD(DOUBLE, end_unix_s, "s", "end of the measurement, since 1970 UTC")

/* One ordered pair over one route at one size. Bidirectional bandwidth and latency: one unordered
   pair. */
struct bb_pair_record {
	BB_PAIR_FIELDS(BB_MEMBER)
};

extern const struct bb_record_kind bb_record_pair;

/* ---- the plan ------------------------------------------------------------------------------- */

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

extern const struct bb_benchmark bb_memory_benchmark;

/*
 * Measures all cases of a plan. The subject of a benchmark that has this experiment is a size_t:
 * the offset of its struct bb_memory_plan in its state.
 */
extern const struct bb_experiment bb_memory_experiment;
/* Starts the progress of that plan. */
BB_MUST bb_status bb_memory_open_results(struct bb_run *run);

/* Its text. */
extern const struct bb_sink_ops bb_sink_memory;
