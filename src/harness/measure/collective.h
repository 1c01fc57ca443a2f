/*
 * collective.h - the benchmark of one collective: what can be asked of it beside what all
 * programs take.
 */
#ifndef BB_HARNESS_MEASURE_COLLECTIVE_H
#define BB_HARNESS_MEASURE_COLLECTIVE_H

#include "harness/run/benchmark.h"
#include "harness/run/split.h"
#include "schedules/schedule.h"

#define BB_ROOT_ALL (-1)
#define BB_ALGORITHMS_TEXT 512
#define BB_EXPLAIN_BYTES 4096 /* the largest -b with --explain */

enum bb_cache { BB_CACHE_ROTATE, BB_CACHE_REUSE, BB_CACHE_REWRITE };
extern const char *const bb_cache_names[]; /* ends with NULL */

enum bb_average { BB_AVERAGE_RANK0, BB_AVERAGE_MEAN, BB_AVERAGE_MIN, BB_AVERAGE_MAX };

struct bb_collective_options {
	/* As given: one target for each row of bb_collective_rows. */
	int64_t agg_iters;
	int64_t run_cycles; /* 0: for ever */
	const char *op_text, *dtype_text, *root_text, *algo_text, *proto_text;
	int64_t blocking; /* 0 … 3 */
	int64_t stream_null;
	int64_t cudagraph;
	int64_t report_cputime;
	int64_t average; /* enum bb_average */
	int64_t local_register, cta_policy, device_implementation, device_cta_count;
	int64_t report_timestamps;
	int64_t unalign; /* elements */
	int64_t per_iter_timing, per_iter_skip;
	const char *output_file; /* -J; NULL: none */
	int cache;               /* enum bb_cache */
	bool explain;
	bool cta_policy_given, algo_given;

	/* Worked out from them. */
	int explained_ranks; /* with --explain: of all processes that a launcher has started */
	/* Comma list of names, "auto" or "all": --algo or NCCL_ALGO, each under every --proto. */
	const char *algorithms;
	char algorithms_text[BB_ALGORITHMS_TEXT]; /* where it had to be made */
	unsigned dtypes, ops;                     /* bit per enum value */
	bool dtypes_all, ops_all;
	int root; /* a rank or BB_ROOT_ALL */
	struct bb_split_rule split;
	double min_bw; /* gate in GB/s; the average busbw must reach 0.9 of it; 0: none */
	double spread; /* alltoallv: 1 as uneven as nccl-tests' default, 0 even */
};

/* The options of collectives beside bb_option_rows; ends with name NULL. */
extern const struct bb_option bb_collective_rows[];

/* LIST, the words of --algo, has names of schedules or of the backend's own algorithms, auto, or all
   alone. BB_EUSAGE names the first that is none of them. */
BB_MUST bb_status bb_check_algorithms(const char *list, const struct bb_options *options,
				      const struct bb_collective *collective,
				      struct bb_error *error);

/* The benchmark of COLLECTIVE. */
struct bb_benchmark bb_collective_benchmark(const struct bb_collective *collective);

/* Its check (see benchmark.h): names of algorithms, types and operations, conflicts, environment.
 */
BB_MUST bb_status bb_collective_check(const struct bb_benchmark *benchmark, void *own,
				      struct bb_options *options,
				      const struct bb_environment *environment,
				      struct bb_error *error);

/* What needs the world: the root. Split groups are judged by their smallest size, GROUP_MIN. */
BB_MUST bb_status bb_collective_check_world(const struct bb_collective_options *asked,
					    const struct bb_collective *collective,
					    const struct bb_world *world, int group_min,
					    struct bb_error *error);

#endif
