/*
 * options.h - what can be asked of every perf binary, and whether it makes sense.
 */
#ifndef BB_HARNESS_RUN_OPTIONS_H
#define BB_HARNESS_RUN_OPTIONS_H

#include "backends/backend.h"
#include "core/option.h"
#include "harness/run/plugin.h"
#include "launch/launch.h"
#include "simulator/cluster.h"

#define BB_MAX_RANKS 1024 /* -t times -g in one process, but for virtual ranks */
#define BB_REASON_TEXT 640

enum bb_fault_kind {
	BB_FAULT_NONE,
	BB_FAULT_CORRUPT,
	BB_FAULT_SLOW,
	BB_FAULT_DIE,
	BB_FAULT_SLOW_LINK,
	BB_FAULT_SWAP,
	BB_FAULT_SLOW_NODE, /* these three of a cluster */
	BB_FAULT_SLOW_RAIL,
	BB_FAULT_LOST_RAIL,
	BB_FAULT_FLAPPING_NODE,
	BB_FAULT_FLAPPING_LINK,
	BB_FAULT_LATE,
	BB_NFAULTS
};

struct bb_fault {
	enum bb_fault_kind kind;
	int rank;       /* of a link: where it comes from; of a cluster: the node */
	int to;         /* of a link; of a cluster: the rail, -1: all of the node */
	double factor;  /* how many times as long it takes; 0: lost, or no such fault */
	double share;   /* BB_FAULT_FLAPPING_…: of the rounds in which it is slow */
	double seconds; /* BB_FAULT_SLOW: added before every operation of the rank;
			   BB_FAULT_LATE: before every collective */
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

/* What all programs take. */
struct bb_options {
	/* As given: one target for each row of bb_size_rows and bb_option_rows. Strings are
	 * borrowed from argv. */
	int64_t threads, gpus;
	uint64_t min_bytes, max_bytes, step_bytes;
	int64_t step_factor; /* above 1: sizes are multiplied; else step_bytes is added, unless it
				is 0 */
	int64_t iters, warmup_iters;
	int64_t parallel_init;
	int64_t check;
	uint64_t timeout_ns; /* 0: none */
	int64_t memory_report;
	const char *csv_file, *json_file; /* NULL: none, as below */
	const char *output_folder;        /* that output files are in; NULL: anywhere */
	bool output_folder_given;
	const char *backend_text, *fault_text, *link_text, *cluster_text, *calibrate_text;
	double precision;     /* fraction; 0: fixed number of iterations */
	double noise;         /* fraction */
	uint64_t max_time_ns; /* of one row under --precision */
	int64_t seed;
	bool list, version, help, help_markdown;
	bool min_bytes_given, max_bytes_given, step_bytes_given, step_factor_given;
	bool iters_given, warmup_iters_given, fault_given, threads_given, gpus_given;

	/* Worked out from them. */
	bool exact; /* time is virtual and without noise: one iteration is like the other */
	const char *program; /* the last part of argv[0] */
	const struct bb_backend *backend;
	/* Why --backend auto is that one; empty: it was named. */
	char backend_reason[BB_REASON_TEXT];
	const struct bb_launch_kind *launch; /* NULL: a single process */
	struct bb_fault fault;
	struct bb_cluster
		*cluster; /* --cluster; NULL: none. The caller of bb_options_read frees it */
	/* But for what only the run knows: exchange, ranks_before. */
	struct bb_backend_config config;
	bool shows;    /* the benchmark prints something instead of running: nothing is started */
	bool predicts; /* it measures nothing */
};

/* Every option that all programs take, those of sizes apart, which some take only to say why they
   have no use for them; both end with name NULL. */
extern const struct bb_option bb_option_rows[], bb_size_rows[];

/* The text of docs/options.md: SECTIONS, the last without a title, and what else counts. */
struct bb_option_section {
	const char *title;
	const struct bb_option *rows;
};
void bb_options_document(const struct bb_option_section *sections, struct bb_strbuf *out);

struct bb_environment bb_environment_read(void);

struct bb_benchmark;

/*
 * Parse ARGV into OPTIONS and OWN, the start of BENCHMARK's state, work out the rest with
 * ENVIRONMENT and judge everything that can be judged without a world: ranges, conflicts, names,
 * files that cannot be written (by process 0, whose they are). Loads the backend, but starts
 * nothing. BB_EUSAGE for what makes no sense, BB_EUNSUPPORTED for what only another backend has,
 * BB_EBACKEND if what is needed cannot be loaded. With one of list, version, help and
 * help_markdown set nothing is judged.
 */
BB_MUST bb_status bb_options_read(struct bb_options *options, const struct bb_benchmark *benchmark,
				  void *own, int argc, char **argv,
				  const struct bb_environment *environment, struct bb_error *error);

/* What needs the world: the rank of a fault. */
BB_MUST bb_status bb_options_check_world(const struct bb_options *options,
					 const struct bb_world *world, struct bb_error *error);

/* The size after BYTES in a sweep; 0 when there is none. */
uint64_t bb_options_next_size(const struct bb_options *options, uint64_t bytes);

/* stdout carries CSV or JSON lines (--csv - or --json -) instead of the text. */
bool bb_options_stdout_taken(const struct bb_options *options);

/* Which of -b, -e, -i and -f was given, the first of them; NULL: none. Where nothing has a size,
   the benchmark says why. */
static inline const char *bb_options_size_given(const struct bb_options *options)
{
	return options->min_bytes_given     ? "-b"
	       : options->max_bytes_given   ? "-e"
	       : options->step_bytes_given  ? "-i"
	       : options->step_factor_given ? "-f"
					    : NULL;
}

/* -n where it is a benchmark's own row: ITERS, but one is enough where time is exact. */
static inline void bb_options_set_iters(struct bb_options *options, int64_t iters, bool given)
{
	if (given || !options->exact)
		options->iters = iters;
}

#endif
