/*
 * collective.h - the benchmark of one collective: its options beside those of all programs.
 */
#pragma once

#include "harness/measure/algorithms.h"
#include "harness/run/benchmark.h"
#include "schedules/matrices.h"
#include "schedules/schedule.h"

#define BB_ROOT_ALL (-1)
#define BB_ALGORITHMS_TEXT 512
#define BB_EXPLAIN_BYTES 4096 /* the largest -b with --explain */

/* ---- a world split into groups that run at the same time, by NCCL_TESTS_SPLIT ---------------- */

struct bb_split_rule {
	char sign;         /* & | % or /; 0: the world is not split */
	int operand;       /* > 0 for % and /, >= 0 for the others */
	int shift, nranks; /* added to ranks before, round the world of NRANKS; 0: no shift */
};

/*
 * SPLIT is the value of NCCL_TESTS_SPLIT: AND, OR, MOD or DIV (any case) or & | % /, then a
 * decimal, 0x or 0b number ("AND 0x7", "%2"). "+S%N" may go before it, which nccl-tests does not
 * know: rank r counts as (r + S) % N, so that "+8%32/16" makes groups of 16 that begin with the
 * last 8 of 32 ranks. MASK is that of NCCL_TESTS_SPLIT_MASK: a hexadecimal number to AND with; it
 * goes before SPLIT, as in nccl-tests. NULL or empty: not set. BB_EUSAGE naming the variable.
 */
BB_MUST bb_status bb_split_parse(struct bb_split_rule *rule, const char *split, const char *mask,
				 struct bb_error *error);

/* The group RANK belongs to: ranks of one color form one group, ordered by rank. */
int bb_split_color(const struct bb_split_rule *rule, int rank);

/* ---- options ------------------------------------------------------------------------------- */

enum bb_cache { BB_CACHE_ROTATE, BB_CACHE_REUSE, BB_CACHE_REWRITE };
extern const char *const bb_cache_names[]; /* ends with NULL */

enum bb_average { BB_AVERAGE_RANK0, BB_AVERAGE_MEAN, BB_AVERAGE_MIN, BB_AVERAGE_MAX };

#define BB_COLLECTIVE_OPTIONS(OPTION, COMMON)                                                      \
	OPTION(STRING, algo_text, "algo", 0, "auto",                                               \
	       "algorithms to run one after the other and compare; auto: the backend's choice",    \
	       .argument = "LIST|all", .choice = algorithm_name, .section = "What is run",         \
	       .usual = true)                                                                      \
	OPTION(STRING, proto_text, "proto", 0, NULL,                                               \
	       "protocols of NCCL (LL, LL128, Simple), each with every algorithm of --algo",       \
	       .argument = "LIST",                                                                 \
	       .on = {{BB_ON_GPUS, "has no protocols; only the nccl backend has"}})                \
	OPTION(SET, dtypes, "datatype", 'd', "float", "datatypes, in the order of --list",         \
	       .choice = dtype_name)                                                               \
	OPTION(SET, ops, "op", 'o', "sum", "reduction operations, in the order of --list",         \
	       .choice = op_name)                                                                  \
	OPTION(RANK, root, "root", 'r', "0", "root of rooted collectives; -1 is all")              \
	OPTION(STRING, matrix_file, "matrix", 0, NULL,                                             \
	       "alltoallv: bytes from each rank to each, one matrix or several",                   \
	       .argument = "FILE")                                                                 \
	OPTION(NUMBER, matrix_scale, "matrix-scale", 0, "1",                                       \
	       "factor of its numbers, such as the bytes of a token", .min = 0,                    \
	       .max = BB_MOST_COUNT)                                                               \
	OPTION(INT, unalign, "unalign", 'u', "0",                                                  \
	       "offset of the buffers from their alignment in elements", .min = 0, .max = 65535)   \
	OPTION(INT, agg_iters, "agg_iters", 'm', "1", "operations in each iteration", .min = 1,    \
	       .max = BB_MOST_COUNT, .section = "Iterations and statistics")                       \
	OPTION(INT, run_cycles, "run_cycles", 'N', "1",                                            \
	       "repetitions of the whole sweep; 0: endless", .min = 0, .max = BB_MOST_COUNT)       \
	OPTION(INT, blocking, "blocking", 'z', "0",                                                \
	       "1: wait and barrier after each operation, 2: wait; 3: both after each iteration, " \
	       "untimed",                                                                          \
	       .min = 0, .max = 3, .argument = "0-3")                                              \
	OPTION(INT, average, "average", 'a', "1",                                                  \
	       "printed time: 0: of rank 0, 1: mean, 2: minimum, 3: maximum over the ranks",       \
	       .min = 0, .max = 3, .argument = "0-3")                                              \
	OPTION(INT, per_iter_timing, "per_iter_timing", 'I', "0",                                  \
	       "1: columns i_min i_max i_p99 i_cv% of single iterations", .min = 0, .max = 1,      \
	       .argument = "0|1")                                                                  \
	OPTION(INT, per_iter_skip, "per_iter_skip", 'K', "0",                                      \
	       "leading iterations without these statistics", .min = 0, .max = BB_MOST_COUNT)      \
	OPTION(CHOICE, cache, "cache", 0, "rotate",                                                \
	       "rotate through buffer sets, reuse one, or rewrite inputs before each iteration",   \
	       .argument = "MODE", .choices = bb_cache_names)                                      \
	OPTION(INT, report_cputime, "report_cputime", 'C', "0",                                    \
	       "1: CPU time of the calls in place of the time", .min = 0, .max = 1,                \
	       .argument = "0|1", .section = "Output",                                             \
	       .on = {{BB_ON_CLOCK, "computes times; virtual ranks take no CPU time"}})            \
	OPTION(INT, report_timestamps, "report_timestamps", 'S', "0",                              \
	       "1: date and time at the end of each row", .min = 0, .max = 1, .argument = "0|1")   \
	OPTION(STRING, output_file, "output_file", 'J', NULL,                                      \
	       "nccl-tests' JSON (env is empty); ends in .json, an existing file is kept",         \
	       .argument = "FILE")                                                                 \
	OPTION(INT, cudagraph, "cudagraph", 'G', "0", "launches of a captured graph", .min = 0,    \
	       .max = BB_MOST_COUNT, .gpu_only = true,                                             \
	       .excludes = {{"per_iter_timing", "a graph is timed as a whole"},                    \
			    {"blocking", "no rank waits within a graph"},                          \
			    {"stream_null", "the default stream cannot be captured"},              \
			    {"precision", "-G sets how often a graph is launched"},                \
			    {"cache=rewrite", "nothing is rewritten within a graph"},              \
			    {"fault=slow", "no rank is slowed down within a graph"}},              \
	       .on = {{BB_ON_GPUS, "has no captured graphs; only the nccl backend has"}})          \
	OPTION(INT, stream_null, "stream_null", 'y', "0", "1: the default stream", .min = 0,       \
	       .max = 1, .argument = "0|1", .gpu_only = true,                                      \
	       .on = {{BB_ON_GPUS, "has no default stream; only the nccl backend has"}})           \
	OPTION(INT, local_register, "local_register", 'R', "0",                                    \
	       "register buffers; 1: locally, 2: as symmetric windows", .min = 0, .max = 2,        \
	       .argument = "0-2", .gpu_only = true,                                                \
	       .on = {{BB_ON_GPUS, "has no buffer registration; only the nccl backend has"}})      \
	OPTION(INT, cta_policy, "cta_policy", 'x', NULL,                                           \
	       "thread blocks; 0: default, 1: few, 2: none where possible", .min = 0, .max = 2,    \
	       .argument = "0-2", .gpu_only = true,                                                \
	       .on = {{BB_ON_GPUS, "has no thread block policies; only the nccl backend has"}})    \
	OPTION(INT, device_implementation, "device_implementation", 'D', "0",                      \
	       "kernel on NCCL's device API in place of NCCL's own; needs -R 2", .min = 0,         \
	       .max = 4, .argument = "0-4", .gpu_only = true,                                      \
	       .needs = {{"local_register=2", "the device API needs symmetric windows"}},          \
	       .excludes = {{"algo proto", "-D 2 stands for --algo device:2"}},                    \
	       .on = {{BB_ON_GPUS, "has no kernels on a device API; only the nccl backend has"}})  \
	OPTION(INT, device_cta_count, "device_cta_count", 'V', "16",                               \
	       "number of thread blocks of that kernel", .min = 1, .max = 128, .gpu_only = true)   \
	OPTION(STRING, tuner_conf, "tuner-conf", 0, NULL,                                          \
	       "for NCCL's example tuner: the fastest algorithm of each size", .argument = "FILE", \
	       .on = {{BB_ON_LIBRARY, "runs nothing that NCCL chose; use --backend nccl, or "      \
				      "--cluster with GPUs"}})                                     \
	OPTION(FLAG, accuracy, "accuracy", 0, NULL,                                                \
	       "rounding errors of sums of drawn numbers; no times are measured",                  \
	       .section = "Accuracy",                                                              \
	       .excludes = {{"explain precision cudagraph output_file tuner-conf",                 \
			     "nothing is timed or explained"}})                                    \
	OPTION(INTS, accuracy_ranks, "accuracy-ranks", 0, "8,64,1024",                             \
	       "with --accuracy: numbers of ranks for which the steps of schedules are added up",  \
	       .min = 2, .max = 16384, .needs = {{"accuracy"}})                                    \
	OPTION(FLAG, explain, "explain", 0, NULL,                                                  \
	       "each algorithm of --algo round by round, nothing is run; --json records it",       \
	       .section = "Explanation", .usual = true)                                            \
	OPTION(INT, round, "round", 0, NULL, "with --explain: this round alone, from 1", .min = 1, \
	       .max = BB_MOST_COUNT, .needs = {{"explain"}})                                       \
	OPTION(FLAG, all, "all", 0, NULL, "with --explain: every line, not 40 of each algorithm",  \
	       .needs = {{"explain"}})

#define BB_BARRIER_OPTIONS(OPTION, COMMON)                                                         \
	OPTION(CHOICES, barriers, "algo", 0, "all",                                                \
	       "barriers to measure: barrier is the backend's own, the others are all-reduces of " \
	       "8 bytes, auto by the backend's choice",                                            \
	       .choice = barrier_algorithm, .usual = true)                                         \
	COMMON("iters", 'n', "1000", "timed barriers; the least number with --precision",          \
	       .min = 1, .max = 100000, .usual = true)

/* Of collectives, or of barriers. */
struct bb_collective_options {
	BB_OPTION_MEMBERS(BB_COLLECTIVE_OPTIONS)
	BB_OPTION_MEMBERS(BB_BARRIER_OPTIONS)

	/* Derived from them. */
	int explained_ranks; /* with --explain: ranks of all processes that a launcher has started
			      */
	/* A list of names, "auto" or "all": --algo or NCCL_ALGO, each with every --proto. */
	const char *algorithms;
	char algorithms_text[BB_ALGORITHMS_TEXT]; /* holds the list, if --proto made it */
	struct bb_split_rule split;
	double min_bw; /* gate in GB/s; the average busbw must reach 0.9 of it; 0: none */
	double spread; /* alltoallv: 1 as uneven as nccl-tests' default, 0 even */
	struct bb_matrices matrices; /* alltoallv: those of --matrix; n 0: none. bb_benchmark's
					free_options frees them */
};

/* The options of collectives beside bb_option_rows; end with name NULL. */
extern const struct bb_option bb_collective_rows[];

/* Barriers of all ranks: the backend's own, and all-reduces of 8 bytes, which no rank can finish
   before all have entered them. */
extern const struct bb_benchmark bb_barrier_benchmark;

/* main() of the program of COLLECTIVE. Returns the exit status. */
int bb_collective_main(int argc, char **argv, const struct bb_collective *collective);

/* The benchmark of COLLECTIVE. */
struct bb_benchmark bb_collective_benchmark(const struct bb_collective *collective);

/* The `check` of that benchmark (benchmark.h). */
BB_MUST bb_status bb_collective_check(const struct bb_benchmark *benchmark, void *own,
				      struct bb_options *options,
				      const struct bb_environment *environment,
				      struct bb_error *error);

/* Check that the matrices suit groups of up to GROUP_MAX ranks, and that each is at most MOST bytes
   large among FIRST ranks, which LIMIT names. */
BB_MUST bb_status bb_collective_check_matrices(const struct bb_collective_options *settings,
					       int first, int group_max, uint64_t most,
					       const char *limit, struct bb_error *error);

/* With --explain: an algorithm for the requested ranks, and a message of one of its rounds. */
extern const struct bb_record_kind bb_record_schedule, bb_record_message;
