/*
 * options_table.c - one row for each option that all programs take; the help, docs/options.md and
 * the parser are made from it.
 */
#include "harness/run/options.h"

#define BB_TARGET struct bb_options
#include "harness/run/option_rows.h"

#define MAX_SAMPLES 1000000 /* each timed iteration is kept */

const struct bb_option bb_size_rows[] = {
	{SIZE("minbytes", 'b', min_bytes, "32M", "smallest size; K, M, G are binary"),
	 GIVEN(min_bytes_given), .section = "Sizes"},
	{SIZE("maxbytes", 'e', max_bytes, "32M", "largest size"), GIVEN(max_bytes_given)},
	{SIZE("stepbytes", 'i', step_bytes, NULL, "added from size to size"),
	 GIVEN(step_bytes_given)},
	{INT("stepfactor", 'f', step_factor, "2", "N", 1, 1 << 30,
	     "sizes are multiplied by it; above 1 it goes before -i"),
	 GIVEN(step_factor_given)},
	{.name = NULL},
};

const struct bb_option bb_option_rows[] = {
	{INT("nthreads", 't', threads, "1", "N", 1, BB_MAX_RANKS, "threads of this process"),
	 GIVEN(threads_given), .section = "Ranks"},
	{INT("ngpus", 'g', gpus, "1", "N", 1, BB_CLUSTER_MOST_RANKS,
	     "ranks per thread: GPUs, CPU ranks on host, virtual ones on sim; on mpi a rank is a "
	     "process"),
	 GIVEN(gpus_given)},
	{STRING("backend", 0, backend_text, "auto", "NAME",
		"how bytes move, see --list; auto: nccl where GPUs are, mpi under an MPI launcher, "
		"else host")},
	{INT("parallel_init", 'p', parallel_init, "0", "0|1", 0, 1,
	     "1: ranks start up side by side; what the host backend always does")},
	{DURATION(
		"timeout", 'T', timeout_ns, "120", 0,
		"longest start-up and longest case, in seconds unless a unit follows; 0: no end")},
	{INT("iters", 'n', iters, "20", "N", 1, MAX_SAMPLES,
	     "timed iterations; on sim, where all are alike without --noise, then 1"),
	 GIVEN(iters_given), .section = "How it is measured"},
	{INT("warmup_iters", 'w', warmup_iters, "1", "N", 0, MAX_COUNT,
	     "untimed iterations before each row; on sim without --noise 0"),
	 GIVEN(warmup_iters_given)},
	{INT("check", 'c', check, "1", "N", 0, MAX_COUNT,
	     "rounds of verification; 0: none, #wrong says N/A")},
	{INT("seed", 0, seed, "1", "N", 0, INT64_MAX, "of the input data, and of --noise")},
	{ROW(BB_OPT_PERCENT, "precision", 0, precision, NULL, "P%",
	     "repeat until the 95% confidence interval of the median is that tight")},
	{DURATION("max-time", 0, max_time_ns, "60", 1000000,
		  "longest time that --precision spends on one row")},
	{INT("memory", 'M', memory_report, "0", "0|1", 0, 1, "1: end with the memory used"),
	 .section = "Results"},
	{STRING("csv", 0, csv_file, NULL, "FILE",
		"one CSV row per result; - is stdout instead of the text")},
	{STRING("json", 0, json_file, NULL, "FILE", "every record as a line of JSON; - is stdout")},
	{STRING("output-folder", 0, output_folder, NULL, "DIR",
		"where paths of output files begin, and which they may not leave"),
	 GIVEN(output_folder_given), .once = "one folder has all output files"},
	{STRING("fault", 0, fault_text, NULL, "SPEC",
		"plant one fault, as in slow:2:5ms; the end of --help says which kinds there are"),
	 GIVEN(fault_given), .once = "only one fault at a time", .section = "Faults and links"},
	{STRING("link", 0, link_text, NULL, "RATE[,LATENCY][,port]",
		"pace each pair of ranks, as in 10GB/s,2us, or with port all that one sends; sim "
		"computes with it")},
	{STRING("cluster", 0, cluster_text, NULL, "NAME[:NODES]",
		"of sim, instead of --link: nodes of a known system (--list), or what a FILE "
		"says")},
	{STRING("calibrate", 0, calibrate_text, NULL, "FILE",
		"of sim, instead of --link: fit times to FILE, what --json wrote of real runs")},
	{ROW(BB_OPT_PERCENT, "noise", 0, noise, NULL, "P%",
	     "of sim: by how much each message and each computation varies; --seed draws")},
	{FLAG("list", 0, list, "what this build can do, per backend"), .section = "Information"},
	{FLAG("version", 0, version, "the version")},
	{FLAG("help", 'h', help, "this text")},
	{FLAG("help-markdown", 0, help_markdown, "the same as Markdown, as in docs/options.md")},
	{.name = NULL},
};

static const char introduction[] =
	"# Options\n\n"
	"Where nccl-tests has an option of the same meaning, it has the same name and form here. "
	"`--help` prints what a program takes as text, `--help-markdown` as it is here. An option "
	"given twice counts as given last. One difference is deliberate: without `-i` or `-f` the "
	"size doubles from row to row.\n";

static const char environment[] =
	"\n## Environment\n\n"
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
	"| `RANK`, `WORLD_SIZE`, `MASTER_ADDR`, `MASTER_PORT`, `LOCAL_RANK` | as torchrun sets "
	"them: "
	"several processes find each other by them without MPI, see [launch.md](launch.md) |\n"
	"| `BUSBENCH_PORT` | the port that process 0 then listens on, instead of `MASTER_PORT` + 1 "
	"|\n"
	"| `BUSBENCH_SECRET` | at least 16 bytes, the same for all processes: each proves that it "
	"knows them before it may join, see [launch.md](launch.md) |\n"
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
	"\n## Exit status\n\n"
	"| Status | Meaning |\n"
	"| --- | --- |\n"
	"| 0 | passed |\n"
	"| 1 | internal error, or writing an output failed (a full disk) |\n"
	"| 2 | the request makes no sense, or names a file that cannot be written |\n"
	"| 3 | the backend, the hardware or a rank is not usable |\n"
	"| 4 | timed out |\n"
	"| 5 | nothing of what was asked is supported |\n"
	"| 7 | wrong data, or below a gate |\n";

void bb_options_document(const struct bb_option_section *sections, struct bb_strbuf *out)
{
	bb_strbuf_add(out, introduction);
	for (; sections->title; sections++) {
		bb_strbuf_addf(out, "\n## %s\n\n", sections->title);
		bb_options_markdown(&(struct bb_option_table){.rows = sections->rows}, out);
	}
	bb_strbuf_add(out, environment);
}
