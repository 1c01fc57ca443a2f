/*
 * options_table.c - one row for each option; the help, docs/options.md and the parser are made
 * from it.
 */
#include "harness/options.h"

#include <stddef.h>

const char *const bb_cache_names[] = {"rotate", "reuse", "rewrite", NULL};

#define MAX_SIZE (INT64_C(1) << 60)
#define MAX_COUNT INT64_C(1000000000)
#define MAX_SAMPLES 1000000 /* each timed iteration is kept */
#define HOUR_NS INT64_C(3600000000000)

#define ROW(kind, word, letter, field, init, arg, text)                                            \
	.name = word, .key = letter, .type = kind, .offset = offsetof(struct bb_options, field),   \
	.initial = init, .argument = arg, .help = text
#define GIVEN(field) .given = offsetof(struct bb_options, field)

#define INT(word, letter, field, init, arg, low, high, text)                                       \
	ROW(BB_OPT_INT, word, letter, field, init, arg, text), .min = low, .max = high
#define SIZE(word, letter, field, init, text)                                                      \
	ROW(BB_OPT_SIZE, word, letter, field, init, "SIZE", text), .min = 1, .max = MAX_SIZE
#define DURATION(word, letter, field, init, low, text)                                             \
	ROW(BB_OPT_DURATION, word, letter, field, init, "TIME", text), .min = low,                 \
								       .max = 24 * 365 * HOUR_NS
#define STRING(word, letter, field, init, arg, text)                                               \
	ROW(BB_OPT_STRING, word, letter, field, init, arg, text)
#define FLAG(word, letter, field, text) ROW(BB_OPT_FLAG, word, letter, field, NULL, NULL, text)

const struct bb_option bb_option_rows[] = {
	{INT("nthreads", 't', threads, "1", "N", 1, BB_MAX_RANKS, "threads of this process"),
	 .section = "Ranks"},
	{INT("ngpus", 'g', gpus, "1", "N", 1, BB_MAX_RANKS,
	     "ranks per thread: GPUs on nccl, CPU ranks on host; on mpi a rank is a process")},
	{STRING("backend", 0, backend_text, "auto", "NAME",
		"how bytes move and where memory is, see --list; auto: mpi under a launcher, else "
		"host")},
	{INT("parallel_init", 'p', parallel_init, "0", "0|1", 0, 1,
	     "1: ranks start up side by side; what the host backend always does")},
	{DURATION(
		"timeout", 'T', timeout_ns, "120", 0,
		"longest start-up and longest case, in seconds unless a unit follows; 0: no end")},

	{SIZE("minbytes", 'b', min_bytes, "32M", "smallest size; K, M, G are binary"),
	 GIVEN(min_bytes_given), .section = "Sizes"},
	{SIZE("maxbytes", 'e', max_bytes, "32M", "largest size"), GIVEN(max_bytes_given)},
	{SIZE("stepbytes", 'i', step_bytes, NULL, "added from size to size"),
	 GIVEN(step_bytes_given)},
	{INT("stepfactor", 'f', step_factor, "2", "N", 1, 1 << 30,
	     "sizes are multiplied by it; above 1 it goes before -i"),
	 GIVEN(step_factor_given)},

	{STRING("algo", 0, algo_text, "auto", "LIST|all",
		"algorithms to run one after the other and compare; auto: the backend's choice"),
	 GIVEN(algo_given), .section = "What is run"},
	{STRING("datatype", 'd', dtype_text, "float", "LIST|all",
		"element types, run in the order of --list")},
	{STRING("op", 'o', op_text, "sum", "LIST|all",
		"reduction operations, of collectives that reduce; in the order of --list")},
	{STRING("root", 'r', root_text, "0", "RANK|all",
		"root, of collectives that have one; -1 is all")},
	{INT("unalign", 'u', unalign, "0", "N", 0, 65535,
	     "elements by which buffers are moved off their alignment")},
	{INT("seed", 0, seed, "1", "N", 0, INT64_MAX, "of the input data")},

	{INT("iters", 'n', iters, "20", "N", 1, MAX_SAMPLES, "timed iterations"),
	 GIVEN(iters_given), .section = "How it is measured"},
	{INT("agg_iters", 'm', agg_iters, "1", "N", 1, MAX_COUNT, "operations in each iteration")},
	{INT("warmup_iters", 'w', warmup_iters, "1", "N", 0, MAX_COUNT,
	     "untimed iterations before each row")},
	{INT("run_cycles", 'N', run_cycles, "1", "N", 0, MAX_COUNT,
	     "times the whole sweep is run; 0: for ever")},
	{INT("check", 'c', check, "1", "N", 0, MAX_COUNT,
	     "rounds of verification; 0: none, #wrong says N/A")},
	{INT("blocking", 'z', blocking, "0", "0-3", 0, 3,
	     "1: wait and barrier after each operation, 2: wait; 3: both after each iteration, "
	     "untimed")},
	{INT("average", 'a', average, "1", "0-3", 0, 3,
	     "the time printed is that of 0: rank 0, 1: mean, 2: least, 3: most over the ranks")},
	{INT("per_iter_timing", 'I', per_iter_timing, "0", "0|1", 0, 1,
	     "print i_min i_max i_p99 i_cv% of single iterations")},
	{INT("per_iter_skip", 'K', per_iter_skip, "0", "N", 0, MAX_COUNT,
	     "leading iterations left out of these statistics")},
	{ROW(BB_OPT_PERCENT, "precision", 0, precision, NULL, "P%",
	     "repeat until the 95% confidence interval of the median is that tight")},
	{DURATION("max-time", 0, max_time_ns, "60", 1000000,
		  "longest time that --precision spends on one row")},
	{ROW(BB_OPT_CHOICE, "cache", 0, cache, "rotate", "MODE",
	     "rotate through buffer sets, reuse one, or rewrite inputs before each iteration"),
	 .choices = bb_cache_names},

	{INT("report_cputime", 'C', report_cputime, "0", "0|1", 0, 1,
	     "1: print the time spent in the calls instead"),
	 .section = "Results"},
	{INT("report_timestamps", 'S', report_timestamps, "0", "0|1", 0, 1,
	     "1: end each row with the date and time")},
	{INT("memory", 'M', memory_report, "0", "0|1", 0, 1, "1: end with the memory used")},
	{STRING("output_file", 'J', output_file, NULL, "FILE",
		"nccl-tests' JSON (env left empty); must end in .json, an existing file is kept")},
	{STRING("csv", 0, csv_file, NULL, "FILE",
		"one CSV row per size and placement; - is stdout instead of the text")},
	{STRING("json", 0, json_file, NULL, "FILE", "every record as a line of JSON; - is stdout")},

	{STRING("fault", 0, fault_text, NULL, "SPEC",
		"corrupt:RANK, slow:RANK:TIME or die:RANK, to see that it is found"),
	 GIVEN(fault_given), .once = "only one fault at a time", .section = "Faults and links"},
	{STRING("link", 0, link_text, NULL, "RATE[,LATENCY]",
		"pace every transfer between two ranks, as in 10GB/s,2us or 100Gb/s")},

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
	 .section = "Information"},
	{FLAG("list", 0, list, "what this build can do, per backend")},
	{FLAG("version", 0, version, "the version")},
	{FLAG("help", 'h', help, "this text")},
	{FLAG("help-markdown", 0, help_markdown, "the same as docs/options.md")},
	{.name = NULL},
};

static const char introduction[] =
	"# Options\n\n"
	"Every `*_perf` binary takes the same options: those of nccl-tests, under their names and "
	"in "
	"their form, and a few more. `--help` prints this page as text, `--help-markdown` as it is "
	"here. An option given twice counts as given last. One difference is deliberate: without "
	"`-i` or `-f` the size doubles from row to row.\n\n";

static const char environment[] =
	"\n### Environment\n\n"
	"| Variable | Meaning |\n"
	"| --- | --- |\n"
	"| `NCCL_ALGO` | `Ring` or `Tree`: the algorithm, where `--algo` is not given |\n"
	"| `NCCL_TESTS_SPLIT` | `AND`, `OR`, `MOD`, `DIV` (or `&`, `\\|`, `%`, `/`) and a number: "
	"ranks for which it gives the same value form a group; all groups run at the same time |\n"
	"| `NCCL_TESTS_SPLIT_MASK` | a hexadecimal number: the same with `AND`; goes first |\n"
	"| `NCCL_TESTS_MIN_BW` | GB/s: the run fails (exit 7) when the average busbw is below 0.9 "
	"of "
	"it |\n"
	"| `NCCL_TESTS_ALLTOALLV_SPREAD` | 0 to 1: how uneven alltoallv is; 0 is even |\n"
	"| `BUSBENCH_ISA` | `plain`, `avx2` or `avx512`: the vector instructions that ranks on "
	"CPUs "
	"add with; without it the widest that the processor has |\n"
	"| `BUSBENCH_BACKEND_DIR` | an absolute path: where backends that are loaded at run time "
	"are "
	"looked for after `backends` beside the binary and `../lib/busbench` from there |\n"
	"\nnccl-tests' `NCCL_TESTS_ALLTOALLV_MATRIX_FILE`, `NCCL_TESTS_ALLTOALLV_MATRIX_SCALE` and "
	"`NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY` are not supported: alltoallv refuses to run with "
	"them "
	"(exit 5).\n"
	"\n### Exit status\n\n"
	"| Status | Meaning |\n"
	"| --- | --- |\n"
	"| 0 | passed |\n"
	"| 1 | internal error, or writing an output failed (a full disk) |\n"
	"| 2 | the request makes no sense, or names a file that cannot be written |\n"
	"| 3 | the backend, the hardware or a rank is not usable |\n"
	"| 4 | timed out |\n"
	"| 5 | nothing of what was asked is supported |\n"
	"| 7 | wrong data, or below a gate |\n";

void bb_options_document(struct bb_strbuf *out)
{
	bb_strbuf_add(out, introduction);
	bb_options_markdown(bb_option_rows, out);
	bb_strbuf_add(out, environment);
}
