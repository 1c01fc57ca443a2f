/*
 * options.h - the options of every perf binary, and whether they make sense.
 */
#pragma once

#include "backends/backend.h"
#include "backends/virtual.h"
#include "core/about.h"
#include "core/output.h"
#include "harness/run/plugin.h"
#include "launch/launch.h"
#include "simulator/cluster/cluster.h"

#define BB_MAX_RANKS 1024                    /* -t times -g in one process, but for virtual ranks */
#define BB_REASON_TEXT (BB_ERROR_TEXT + 256) /* an error and its circumstances */

enum bb_fault_kind {
	BB_FAULT_NONE,
	BB_FAULT_CORRUPT,
	BB_FAULT_SLOW,
	BB_FAULT_DIE,
	BB_FAULT_SLOW_LINK,
	BB_FAULT_SWAP,
	BB_FAULT_SLOW_NODE, /* of a cluster, like the next two */
	BB_FAULT_SLOW_RAIL,
	BB_FAULT_LOST_RAIL,
	BB_FAULT_LATE,
	BB_NFAULTS
};

struct bb_fault {
	enum bb_fault_kind kind;
	int rank;       /* of a link: its source; of a cluster: the node */
	int to;         /* of a link: its target; of a cluster: the rail; -1: none, or all */
	double factor;  /* multiple of the time it takes; 0: the rail is lost, or no such fault */
	double seconds; /* BB_FAULT_SLOW: delay before every operation of the rank;
			   BB_FAULT_LATE: before every collective */
};

/* The variables of the environment that have an effect, and must be the same in all processes of a
   run. PRINT_SUMMARY is refused; CPU backends read BUSBENCH_ISA; of BUSBENCH_SECRET only "set" is
   known. */
#define BB_ENVIRONMENT(VARIABLE)                                                                   \
	VARIABLE("NCCL_ALGO", nccl_algo)                                                           \
	VARIABLE("NCCL_TESTS_SPLIT", split)                                                        \
	VARIABLE("NCCL_TESTS_SPLIT_MASK", split_mask)                                              \
	VARIABLE("NCCL_TESTS_MIN_BW", min_bw)                                                      \
	VARIABLE("NCCL_TESTS_ALLTOALLV_SPREAD", spread)                                            \
	VARIABLE("NCCL_TESTS_ALLTOALLV_MATRIX_FILE", matrix_file)                                  \
	VARIABLE("NCCL_TESTS_ALLTOALLV_MATRIX_SCALE", matrix_scale)                                \
	VARIABLE("NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY", print_summary)                              \
	VARIABLE("BUSBENCH_ISA", isa)                                                              \
	VARIABLE("BUSBENCH_SECRET", secret)
#define BB_ENVIRONMENT_MEMBER(name, field) const char *field;

#define BB_NENVIRONMENT 10
extern const char *const bb_environment_names[BB_NENVIRONMENT];
struct bb_environment {
	union {
		struct {
			BB_ENVIRONMENT(BB_ENVIRONMENT_MEMBER)
		};
		const char *values[BB_NENVIRONMENT]; /* NULL: not set */
	};
	struct bb_launch_hint launch; /* differs from process to process */
};

/* What a run may have, for the places of option rows (core/option.h). */
enum bb_feature {
	BB_ON_GPUS = 1 << 0,
	BB_ON_CPUS = 1 << 1,    /* memory that the CPU computes in */
	BB_ON_DATA = 1 << 2,    /* data is moved */
	BB_ON_SIM = 1 << 3,     /* virtual time */
	BB_ON_CLOCK = 1 << 4,   /* time that passes */
	BB_ON_LIBRARY = 1 << 5, /* a library that reports which algorithm it chose */
	BB_ON_LINKS = 1 << 6,   /* links that are simulated or paced, or no data */
};
#define BB_ON_SIM_ALONE                                                                            \
	{                                                                                          \
		{                                                                                  \
			BB_ON_SIM, "measures this machine; give --backend sim"                     \
		}                                                                                  \
	}

/* Options of programs whose data has a size. With -f above 1 sizes are multiplied, else -i is
 * added. */
#define BB_SIZE_OPTIONS(OPTION, COMMON)                                                            \
	OPTION(SIZE, min_bytes, "minbytes", 'b', "32M", "smallest size; K, M, G are binary",       \
	       .min = 1, .max = BB_MOST_BYTES, .section = "Sizes", .usual = true)                  \
	OPTION(SIZE, max_bytes, "maxbytes", 'e', "32M", "largest size", .min = 1,                  \
	       .max = BB_MOST_BYTES, .usual = true)                                                \
	OPTION(SIZE, step_bytes, "stepbytes", 'i', NULL, "step added from size to size", .min = 1, \
	       .max = BB_MOST_BYTES)                                                               \
	OPTION(INT, step_factor, "stepfactor", 'f', "2",                                           \
	       "factor from size to size; above 1 it overrides -i", .min = 1, .max = 1 << 30,      \
	       .usual = true)

#define BB_NO_FAULTY_DATA "has no data; leave it out, or give --backend host"

/* Options of all programs. */
#define BB_RUN_OPTIONS(OPTION, COMMON)                                                             \
	OPTION(INT, threads, "nthreads", 't', "1", "threads of this process", .min = 1,            \
	       .max = BB_MAX_RANKS, .section = "Ranks")                                            \
	OPTION(INT, gpus, "ngpus", 'g', "1",                                                       \
	       "ranks per thread: GPUs, CPU ranks on host, virtual ones on sim; on mpi a rank is " \
	       "a process",                                                                        \
	       .min = 1, .max = BB_CLUSTER_MOST_RANKS, .usual = true)                              \
	OPTION(STRING, backend_text, "backend", 0, "auto",                                         \
	       "how bytes move, see --list; auto: nccl with GPUs, mpi under MPI, gloo under "      \
	       "torchrun, else host",                                                              \
	       .argument = "NAME", .choice = backend_name, .usual = true)                          \
	OPTION(INT, parallel_init, "parallel_init", 'p', "0",                                      \
	       "1: ranks start up concurrently, as the host backend always does", .min = 0,        \
	       .max = 1, .argument = "0|1")                                                        \
	OPTION(DURATION, timeout_ns, "timeout", 'T', "120",                                        \
	       "limit for start-up and for each case, in seconds unless a unit follows; 0: none",  \
	       .min = 0, .max = BB_YEAR_NS)                                                        \
	OPTION(INT, iters, "iters", 'n', "20",                                                     \
	       "timed iterations; on sim without --noise, where all are equal, 1", .min = 1,       \
	       .max = MAX_SAMPLES, .section = "How it is measured", .usual = true)                 \
	OPTION(INT, warmup_iters, "warmup_iters", 'w', "1",                                        \
	       "warm-up iterations before each row; on sim without --noise 0", .min = 0,           \
	       .max = BB_MOST_COUNT)                                                               \
	OPTION(INT, check, "check", 'c', "1", "rounds of verification; 0: none, #wrong is N/A",    \
	       .min = 0, .max = BB_MOST_COUNT)                                                     \
	OPTION(INT, seed, "seed", 0, "1", "seed of the input data and of --noise", .min = 0,       \
	       .max = INT64_MAX)                                                                   \
	OPTION(PERCENT, precision, "precision", 0, NULL,                                           \
	       "target for half the 95% confidence interval of the median", .argument = "P%")      \
	OPTION(DURATION, max_time_ns, "max-time", 0, "60",                                         \
	       "time limit of --precision for each row", .min = 1000000, .max = BB_YEAR_NS)        \
	OPTION(FLAG, verbose, "verbose", 'v', NULL,                                                \
	       "every rank and healthy node in the text, however many", .section = "Results")      \
	OPTION(INT, memory_report, "memory", 'M', "0", "1: a last line with the memory used",      \
	       .min = 0, .max = 1, .argument = "0|1")                                              \
	OPTION(STRING, csv_file, "csv", 0, NULL,                                                   \
	       "one CSV row per result; - is stdout instead of the text", .argument = "FILE")      \
	OPTION(STRING, json_file, "json", 0, NULL,                                                 \
	       "every record as a line of JSON; - is stdout instead of the text",                  \
	       .argument = "FILE", .usual = true)                                                  \
	OPTION(STRING, output_folder, "output-folder", 0, NULL,                                    \
	       "folder that output files are in and cannot leave", .argument = "DIR",              \
	       .once = "one folder has all output files")                                          \
	OPTION(STRING, fault_text, "fault", 0, NULL,                                               \
	       "one planted fault, as slow:2:5ms; the end of --help-all lists the kinds",          \
	       .argument = "SPEC", .once = "only one fault at a time",                             \
	       .excludes = {{"check=0", "the wrong data is never checked", .value = "corrupt"}},   \
	       .on = {{BB_ON_DATA, BB_NO_FAULTY_DATA, .value = "corrupt"},                         \
		      {BB_ON_DATA, BB_NO_FAULTY_DATA, .value = "swap"},                            \
		      {BB_ON_CLOCK, "has no ranks that die; leave it out, or give --backend host", \
		       .value = "die"}},                                                           \
	       .section = "Faults and links")                                                      \
	OPTION(LINK, link, "link", 0, NULL,                                                        \
	       "rate and latency of each pair of ranks, as 10GB/s,2us; with port, of all that a "  \
	       "rank sends",                                                                       \
	       .argument = "RATE[,LATENCY][,port]", .port = true,                                  \
	       .excludes = {{"cluster calibrate", "both describe the links"}},                     \
	       .on = {{BB_ON_LINKS, "has links that are real; only host paces its own"}})          \
	OPTION(STRING, cluster_text, "cluster", 0, NULL,                                           \
	       "simulated nodes of a known system (--list) or of a FILE, instead of --link",       \
	       .argument = "NAME[:NODES]", .usual = true, .on = BB_ON_SIM_ALONE)                   \
	OPTION(STRING, calibrate_text, "calibrate", 0, NULL,                                       \
	       "sim: times fitted to FILE, the --json of real runs or, with --cluster, also a "    \
	       "log "                                                                              \
	       "of nccl-tests",                                                                    \
	       .argument = "FILE", .on = BB_ON_SIM_ALONE)                                          \
	OPTION(PERCENT, noise, "noise", 0, NULL,                                                   \
	       "sim: random variation of each message and computation, drawn by --seed",           \
	       .argument = "P%", .on = BB_ON_SIM_ALONE)                                            \
	OPTION(FLAG, list, "list", 0, NULL, "features of this build, per backend",                 \
	       .section = "Information")

struct bb_options {
	BB_OPTION_MEMBERS(BB_SIZE_OPTIONS)
	BB_OPTION_MEMBERS(BB_RUN_OPTIONS)
	struct bb_about about;

	/* Derived from them. */
	bool exact;          /* time is virtual and without noise, so all iterations are equal */
	const char *program; /* the last part of argv[0] */
	const struct bb_backend *backend;
	/* Why --backend auto chose it; empty: it was named. */
	char backend_reason[BB_REASON_TEXT];
	/* They request what the named backend does not have: each process refuses that. */
	bool refused;
	const struct bb_launch_kind *launch; /* NULL: a single process */
	struct bb_fault fault;
	struct bb_cluster
		*cluster; /* --cluster; NULL: none. The caller of bb_options_read frees it */
	/* Complete but for what bb_run_open adds. */
	struct bb_backend_config config;
	struct bb_virtual_config virtual;
	bool shows;     /* the benchmark prints something instead of running: nothing is started */
	bool simulates; /* its benchmark's options request a simulation */
	bool predicts;  /* it measures nothing */
};

/* Both end with name NULL. */
extern const struct bb_option bb_option_rows[], bb_size_rows[];

struct bb_environment bb_environment_read(void);

struct bb_benchmark;

/*
 * Parse ARGV into OPTIONS and OWN, the start of BENCHMARK's state, derive the rest with ENVIRONMENT
 * and check everything that needs no world: ranges, conflicts, names and, in process 0, that its
 * files can be written. Loads the backend, but starts nothing. BB_EUSAGE for nonsense,
 * BB_EUNSUPPORTED for what only another backend can do, BB_EBACKEND if a backend cannot be loaded.
 * With list, or where bb_about_requested, nothing is checked.
 */
BB_MUST bb_status bb_options_read(struct bb_options *options, const struct bb_benchmark *benchmark,
				  void *own, int argc, char **argv,
				  const struct bb_environment *environment, struct bb_error *error);

/* Check that the ranks, nodes and rails of --fault exist. */
BB_MUST bb_status bb_options_check_world(const struct bb_options *options,
					 const struct bb_world *world, struct bb_error *error);

/* Returns the size after BYTES in a sweep; 0: none. */
uint64_t bb_options_next_size(const struct bb_options *options, uint64_t bytes);

/* True if stdout carries CSV or JSON lines (--csv - or --json -) instead of the text. */
bool bb_options_stdout_taken(const struct bb_options *options);

/* ---- tools for checks ---------------------------------------------------------------------- */

/* Copy the word at *LIST and move *LIST to the comma or end behind it. False: empty or too long. */
#define BB_WORD 64 /* longest name in a list, with its end */
bool bb_next_word(const char **list, char word[BB_WORD]);

/* Check that RANK, named by FLAG TEXT (NULL: the number), is one of NRANKS. WHERE, "among" for all
   ranks, precedes their number in the message. */
BB_MUST bb_status bb_check_rank(const char *flag, const char *text, int rank, int nranks,
				const char *where, struct bb_error *error);

/* Check that the output files of OPTIONS and those of MORE (NULL: none; their path may be NULL)
   differ and, if this process WRITES them, that they can be written. Only process 0 does; the hosts
   of others may not have the folder. */
#define BB_MORE_OUTPUTS 2
BB_MUST bb_status bb_check_outputs(const struct bb_options *options,
				   const struct bb_output more[BB_MORE_OUTPUTS], bool writes,
				   struct bb_error *error);

/* Read --fault. KNOWN has a bit for each kind that the benchmark supports; virtual time supports
   some more. BB_EUSAGE lists the forms of all kinds that are supported. */
BB_MUST bb_status bb_options_fault(struct bb_options *options, unsigned known,
				   struct bb_error *error);
/* Append the list of these kinds, for the end of --help. */
void bb_options_fault_help(unsigned known, struct bb_strbuf *out);
