/*
 * options.h - everything that can be asked of a perf binary, and whether it makes sense.
 */
#ifndef BB_HARNESS_OPTIONS_H
#define BB_HARNESS_OPTIONS_H

#include "backends/backend.h"
#include "core/option.h"
#include "harness/plugin.h"
#include "harness/split.h"
#include "launch/launch.h"

#define BB_MAX_RANKS 1024 /* -t times -g in one process */
#define BB_ROOT_ALL (-1)

enum bb_cache { BB_CACHE_ROTATE, BB_CACHE_REUSE, BB_CACHE_REWRITE };
extern const char *const bb_cache_names[]; /* ends with NULL */

enum bb_average { BB_AVERAGE_RANK0, BB_AVERAGE_MEAN, BB_AVERAGE_MIN, BB_AVERAGE_MAX };

enum bb_fault_kind { BB_FAULT_NONE, BB_FAULT_CORRUPT, BB_FAULT_SLOW, BB_FAULT_DIE };

struct bb_fault {
	enum bb_fault_kind kind;
	int rank;
	double seconds; /* BB_FAULT_SLOW: added before every operation of the rank */
};

/* The environment that matters; NULL where a variable is not set. */
struct bb_environment {
	const char *nccl_algo;  /* NCCL_ALGO */
	const char *split;      /* NCCL_TESTS_SPLIT */
	const char *split_mask; /* NCCL_TESTS_SPLIT_MASK */
	const char *min_bw;     /* NCCL_TESTS_MIN_BW */
	const char *spread;     /* NCCL_TESTS_ALLTOALLV_SPREAD */
	/* Known to nccl-tests alone, of alltoallv: NCCL_TESTS_ALLTOALLV_MATRIX_FILE, …_SCALE and
	   NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY. */
	const char *matrix_file, *matrix_scale, *print_summary;
	const char *isa;              /* BUSBENCH_ISA, which the backends on CPUs read */
	struct bb_launch_hint launch; /* differs from process to process */
};

/* The variables, which are the same in all processes of a run. */
#define BB_NENVIRONMENT 9
extern const struct bb_environment_row {
	const char *name;
	size_t offset;
} bb_environment_rows[BB_NENVIRONMENT];
const char *bb_environment_value(const struct bb_environment *environment, int row);

struct bb_options {
	/* As given: one target for each row of bb_option_rows. Strings are borrowed from argv. */
	int64_t threads, gpus;
	uint64_t min_bytes, max_bytes, step_bytes;
	int64_t step_factor; /* above 1: sizes are multiplied; else step_bytes is added, unless it
				is 0 */
	int64_t iters, agg_iters, warmup_iters;
	int64_t run_cycles; /* 0: for ever */
	int64_t parallel_init;
	int64_t check;
	const char *op_text, *dtype_text, *root_text;
	int64_t blocking; /* 0 … 3 */
	int64_t stream_null;
	uint64_t timeout_ns; /* 0: none */
	int64_t cudagraph;
	int64_t report_cputime;
	int64_t average; /* enum bb_average */
	int64_t local_register, cta_policy, device_implementation, device_cta_count;
	int64_t report_timestamps;
	int64_t memory_report;
	int64_t unalign; /* elements */
	int64_t per_iter_timing, per_iter_skip;
	const char *output_file; /* -J; NULL: none, as below */
	const char *csv_file, *json_file;
	const char *backend_text, *algo_text, *fault_text, *link_text;
	double precision;     /* fraction; 0: fixed number of iterations */
	uint64_t max_time_ns; /* of one row under --precision */
	int cache;            /* enum bb_cache */
	int64_t seed;
	bool explain, list, version, help, help_markdown;
	bool min_bytes_given, max_bytes_given, step_bytes_given, step_factor_given;
	bool cta_policy_given, iters_given, algo_given, fault_given;

	/* Worked out from them. */
	const char *program; /* the last part of argv[0] */
	const struct bb_backend *backend;
	const struct bb_launch_kind *launch; /* NULL: a single process */
	const char *algorithms; /* comma list of names, "auto" or "all"; --algo or NCCL_ALGO */
	unsigned dtypes, ops;   /* bit per enum value */
	bool dtypes_all, ops_all;
	int root; /* a rank or BB_ROOT_ALL */
	struct bb_fault fault;
	struct bb_backend_config link;
	struct bb_split_rule split;
	double min_bw; /* gate in GB/s; the average busbw must reach 0.9 of it; 0: none */
	double spread; /* alltoallv: 1 as uneven as nccl-tests' default, 0 even */
};

/* Every option of the perf binaries; ends with name NULL. */
extern const struct bb_option bb_option_rows[];

/* The text of docs/options.md. */
void bb_options_document(struct bb_strbuf *out);

struct bb_environment bb_environment_read(void);

/*
 * Parse ARGV and ENVIRONMENT, work out the rest and judge everything that can be judged without
 * a world: ranges, conflicts, names, files that cannot be written (by process 0, whose they are).
 * Loads the backend, but starts nothing. BB_EUSAGE for what makes no sense, BB_EUNSUPPORTED for
 * what only another backend has, BB_EBACKEND if what is needed cannot be loaded. With one of
 * explain, list, version, help and help_markdown set only what these need is judged.
 */
BB_MUST bb_status bb_options_read(struct bb_options *options,
				  const struct bb_collective *collective, int argc, char **argv,
				  const struct bb_environment *environment, struct bb_error *error);

/* What needs the world: the root, the rank of a fault. Split groups are judged by
   their smallest size, GROUP_MIN. */
BB_MUST bb_status bb_options_validate_world(const struct bb_options *options,
					    const struct bb_collective *collective,
					    const struct bb_world *world, int group_min,
					    struct bb_error *error);

/* The size after BYTES in a sweep; 0 when there is none. */
uint64_t bb_options_next_size(const struct bb_options *options, uint64_t bytes);

/* stdout carries CSV or JSON lines (--csv - or --json -) instead of the text. */
bool bb_options_stdout_taken(const struct bb_options *options);

#endif
