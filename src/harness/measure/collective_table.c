/*
 * collective_table.c - one row for each option that only collectives take.
 */
#include "harness/measure/collective.h"

#define BB_TARGET struct bb_collective_options
#include "harness/run/option_rows.h"

const char *const bb_cache_names[] = {"rotate", "reuse", "rewrite", NULL};

const struct bb_option bb_collective_rows[] = {
	{STRING("algo", 0, algo_text, "auto", "LIST|all",
		"algorithms to run one after the other and compare; auto: the backend's choice"),
	 GIVEN(algo_given), .section = "What is run"},
	{STRING("proto", 0, proto_text, NULL, "LIST",
		"of NCCL: LL, LL128, Simple; each algorithm of --algo is run under each")},
	{STRING("datatype", 'd', dtype_text, "float", "LIST|all",
		"element types, run in the order of --list")},
	{STRING("op", 'o', op_text, "sum", "LIST|all",
		"reduction operations, of collectives that reduce; in the order of --list")},
	{STRING("root", 'r', root_text, "0", "RANK|all",
		"root, of collectives that have one; -1 is all")},
	{INT("unalign", 'u', unalign, "0", "N", 0, 65535,
	     "elements by which buffers are moved off their alignment")},
	{INT("agg_iters", 'm', agg_iters, "1", "N", 1, MAX_COUNT, "operations in each iteration"),
	 .section = "Iterations and statistics"},
	{INT("run_cycles", 'N', run_cycles, "1", "N", 0, MAX_COUNT,
	     "times the whole sweep is run; 0: for ever")},
	{INT("blocking", 'z', blocking, "0", "0-3", 0, 3,
	     "1: wait and barrier after each operation, 2: wait; 3: both after each iteration, "
	     "untimed")},
	{INT("average", 'a', average, "1", "0-3", 0, 3,
	     "the time printed is that of 0: rank 0, 1: mean, 2: least, 3: most over the ranks")},
	{INT("per_iter_timing", 'I', per_iter_timing, "0", "0|1", 0, 1,
	     "print i_min i_max i_p99 i_cv% of single iterations")},
	{INT("per_iter_skip", 'K', per_iter_skip, "0", "N", 0, MAX_COUNT,
	     "leading iterations left out of these statistics")},
	{ROW(BB_OPT_CHOICE, "cache", 0, cache, "rotate", "MODE",
	     "rotate through buffer sets, reuse one, or rewrite inputs before each iteration"),
	 .choices = bb_cache_names},
	{INT("report_cputime", 'C', report_cputime, "0", "0|1", 0, 1,
	     "1: print the time spent in the calls instead"),
	 .section = "Output"},
	{INT("report_timestamps", 'S', report_timestamps, "0", "0|1", 0, 1,
	     "1: end each row with the date and time")},
	{STRING("output_file", 'J', output_file, NULL, "FILE",
		"nccl-tests' JSON (env left empty); must end in .json, an existing file is kept")},
	{INT("cudagraph", 'G', cudagraph, "0", "N", 0, MAX_COUNT, "launches of a captured graph"),
	 .section = "GPU only"},
	{INT("stream_null", 'y', stream_null, "0", "0|1", 0, 1, "1: the default stream")},
	{INT("local_register", 'R', local_register, "0", "0-2", 0, 2,
	     "register buffers; 1: locally, 2: as symmetric windows")},
	{INT("cta_policy", 'x', cta_policy, NULL, "0-2", 0, 2,
	     "thread blocks; 0: default, 1: few, 2: none where possible"),
	 GIVEN(cta_policy_given)},
	{INT("device_implementation", 'D', device_implementation, "0", "0-4", 0, 4,
	     "a kernel of the device API instead of the library's")},
	{INT("device_cta_count", 'V', device_cta_count, "16", "N", 1, 128, "its thread blocks")},
	{FLAG("explain", 0, explain,
	      "show each algorithm of --algo round by round instead of running it"),
	 .section = "Explanation"},
	{.name = NULL},
};
