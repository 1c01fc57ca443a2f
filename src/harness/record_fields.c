/*
 * record_fields.c - what every record carries: one row a field.
 */
#include "harness/record.h"

#include <stddef.h>

#define ROW(record, kind, field, unit_, help_)                                                     \
	{                                                                                          \
		.name = #field, .type = kind, .offset = offsetof(struct record, field),            \
		.unit = unit_, .help = help_                                                       \
	}
#define RUN(kind, field, unit_, help_) ROW(bb_run_record, kind, field, unit_, help_)
#define RESULT(kind, field, unit_, help_) ROW(bb_result_record, kind, field, unit_, help_)
#define SKIP(kind, field, unit_, help_) ROW(bb_skip_record, kind, field, unit_, help_)
#define END(kind, field, unit_, help_) ROW(bb_end_record, kind, field, unit_, help_)

#define STRING BB_FIELD_STRING
#define TEXT BB_FIELD_TEXT
#define INT BB_FIELD_INT
#define DOUBLE BB_FIELD_DOUBLE
#define BOOL BB_FIELD_BOOL

static const struct bb_field run_fields[] = {
	RUN(TEXT, start_time, "", "when it began: UTC, ISO 8601"),
	RUN(STRING, program, "", "name of the binary"),
	RUN(STRING, version, "", "of busbench"),
	RUN(BB_FIELD_WORDS, args, "", "the command line, word by word"),
	RUN(STRING, collective, "", "what is measured"),
	RUN(STRING, backend, "", "how bytes move"),
	RUN(STRING, backend_reason, "", "why --backend auto is that one; null: it was named"),
	RUN(STRING, library, "", "that moves the bytes, with its version; null: none is used"),
	RUN(STRING, library_p2p, "",
	    "of pairs: whether it lets one end work on the other's memory, and how that is known"),
	RUN(STRING, launch, "", "that connects the processes, likewise; null: there is but one"),
	RUN(STRING, host, "", "name of the machine of rank 0"),
	RUN(STRING, cpu, "", "its processor"),
	RUN(STRING, os, "", "its operating system"),
	RUN(STRING, topology, "",
	    "its digest (build/topology): the same on machines that are alike"),
	RUN(INT, cores, "", "processors that the process of rank 0 may use"),
	RUN(INT, nranks, "", "participants in all processes"),
	RUN(INT, nprocs, "", "processes"),
	RUN(INT, threads, "", "-t"),
	RUN(INT, gpus, "", "-g"),
	RUN(BB_FIELD_RANKS, ranks, "", "per rank: group, pid, host, device, numa, bus, name"),
	RUN(INT, min_bytes, "bytes", "-b"),
	RUN(INT, max_bytes, "bytes", "-e"),
	RUN(INT, step_factor, "", "-f; 1: step_bytes is added instead"),
	RUN(INT, step_bytes, "bytes", "-i"),
	RUN(INT, warmup_iters, "", "-w"),
	RUN(INT, iters, "", "-n"),
	RUN(INT, agg_iters, "", "-m"),
	RUN(INT, run_cycles, "", "-N"),
	RUN(DOUBLE, precision, "fraction", "--precision; null without"),
	RUN(INT, check, "", "-c"),
	RUN(INT, blocking, "", "-z"),
	RUN(INT, graph, "", "-G"),
	RUN(INT, average, "",
	    "-a: time_us is that of 0 rank 0, 1 the mean, 2 the least, 3 the most"),
	RUN(INT, unalign, "elements", "-u"),
	RUN(BOOL, per_iter_timing, "", "-I"),
	RUN(INT, per_iter_skip, "", "-K"),
	RUN(BOOL, parallel_init, "", "-p"),
	RUN(BOOL, report_cputime, "", "-C"),
	RUN(BOOL, report_timestamps, "", "-S"),
	RUN(STRING, cache, "", "--cache: what caches hold before an iteration"),
	RUN(INT, seed, "", "--seed"),
	RUN(STRING, algorithms, "", "--algo as given, or NCCL_ALGO's"),
	RUN(STRING, fault, "", "--fault as given"),
	RUN(STRING, link, "", "--link as given"),
	RUN(BOOL, virtual_time, "", "times are computed from --link, not measured"),
	RUN(DOUBLE, link_noise, "fraction", "--noise; null without"),
	RUN(STRING, split, "", "NCCL_TESTS_SPLIT or its mask as given"),
	RUN(DOUBLE, copy_GBps, "GB/s",
	    "private memory copy of all ranks at once, measured in this run"),
	RUN(DOUBLE, clock_uncertainty_us, "us", "when clocks of two ranks are compared"),
	RUN(DOUBLE, init_ms, "ms", "from the start until every rank was ready"),
	RUN(STRING, topology_digest, "",
	    "of the machine of rank 0, as `topology` prints it; null: not looked at"),
	{.name = NULL},
};

static const struct bb_field result_fields[] = {
	RESULT(STRING, collective, "", "what was done"),
	RESULT(STRING, algorithm_asked, "", "as in --algo"),
	RESULT(STRING, algorithm, "", "the one that ran: for auto the backend's choice"),
	RESULT(STRING, library_algorithm, "",
	       "ring:LL128: what the library says it chose; null: it does not tell"),
	RESULT(STRING, dtype, "", "element type"),
	RESULT(STRING, op, "", "reduction; none where data is only moved"),
	RESULT(INT, root, "", "rank; -1 where there is none"),
	RESULT(INT, nranks, "", "ranks that take part in the call"),
	RESULT(INT, size_bytes, "bytes", "the size that bandwidths are taken over"),
	RESULT(INT, count, "elements", "the call's count parameter"),
	RESULT(BOOL, in_place, "", "input and output lie in one buffer"),
	RESULT(DOUBLE, time_us, "us", "time of one operation, over the ranks as -a says"),
	RESULT(DOUBLE, algbw_GBps, "GB/s", "size_bytes / time_us / 1000"),
	RESULT(DOUBLE, busbw_GBps, "GB/s", "algbw_GBps times the factor of the collective"),
	RESULT(INT, wrong, "elements", "that differ from the expected result; null: not checked"),
	RESULT(INT, iterations, "", "timed iterations"),
	RESULT(INT, samples, "",
	       "that they are told in: short iterations share one, or reading the clock would "
	       "count"),
	RESULT(STRING, verified, "", "how the verified iteration was made; null: not checked"),
	RESULT(DOUBLE, min_us, "us", "least time of a sample (its maximum over the ranks)"),
	RESULT(DOUBLE, p50_us, "us", "its median"),
	RESULT(DOUBLE, p95_us, "us", "its 95th percentile"),
	RESULT(DOUBLE, p99_us, "us", "its 99th percentile"),
	RESULT(DOUBLE, max_us, "us", "its maximum"),
	RESULT(DOUBLE, mean_us, "us", "its mean"),
	RESULT(DOUBLE, stdev_us, "us", "its standard deviation"),
	RESULT(DOUBLE, cv_percent, "%", "stdev_us / mean_us"),
	RESULT(DOUBLE, ci_low_us, "us",
	       "95% confidence interval of the median, of 6 samples or more, from"),
	RESULT(DOUBLE, ci_high_us, "us", "and to"),
	RESULT(BB_FIELD_NUMBERS, samples_us, "us", "time of each sample; with -I: each iteration"),
	RESULT(BB_FIELD_NUMBERS, rank_mean_us, "us", "mean time of each rank"),
	RESULT(BB_FIELD_NUMBERS, groups, "", "numbers of the groups of a split world"),
	RESULT(BB_FIELD_NUMBERS, group_time_us, "us",
	       "time of each group, over its ranks as -a says"),
	RESULT(BB_FIELD_NUMBERS, group_busbw_GBps, "GB/s",
	       "busbw of each group, by its own size, factor and time"),
	RESULT(INT, worst_group, "", "group furthest behind the median of those of its size"),
	RESULT(DOUBLE, skew_p50_us, "us",
	       "median time between the first and the last rank to enter"),
	RESULT(DOUBLE, skew_max_us, "us", "its maximum"),
	RESULT(INT, last_rank, "", "rank that entered last most often"),
	RESULT(DOUBLE, last_share, "fraction", "of the iterations that it was last in"),
	RESULT(DOUBLE, last_late_us, "us", "how late it was after the median rank, on average"),
	RESULT(DOUBLE, clock_uncertainty_us, "us", "of the three times above"),
	RESULT(DOUBLE, bound_us, "us", "least time that this algorithm's bytes can take"),
	RESULT(DOUBLE, percent_of_bound, "%", "bound_us / time_us"),
	RESULT(STRING, bound_source, "", "where the bound comes from"),
	RESULT(STRING, cache, "", "--cache"),
	RESULT(INT, chunk_bytes, "bytes", "largest message of a pipelined algorithm"),
	RESULT(DOUBLE, cpu_time_us, "us", "spent in the call itself; with -C"),
	RESULT(INT, cycle, "", "of -N, from 1"),
	RESULT(DOUBLE, end_unix_s, "s", "when it was done, since 1970 UTC"),
	{.name = NULL},
};

static const struct bb_field skip_fields[] = {
	SKIP(STRING, collective, "", "what was asked for"),
	SKIP(STRING, algorithm, "", "as in --algo"),
	SKIP(STRING, dtype, "", "element type; null: all"),
	SKIP(STRING, op, "", "reduction; null: all"),
	SKIP(INT, root, "", "rank; null: all"),
	SKIP(INT, size_bytes, "bytes", "null: all"),
	SKIP(STRING, placement, "", "out-of-place or in-place; null: both"),
	SKIP(STRING, reason, "", "why it was not run"),
	{.name = NULL},
};

static const struct bb_field end_fields[] = {
	END(TEXT, end_time, "", "UTC, ISO 8601"),
	END(STRING, verdict, "", "passed, or what is wrong"),
	END(STRING, error, "", "first cause of a failure"),
	END(INT, exit_status, "", "of the process"),
	END(INT, results, "", "result records"),
	END(INT, skipped, "", "skip records"),
	END(INT, wrong, "", "results with wrong elements"),
	END(DOUBLE, avg_busbw_GBps, "GB/s", "mean busbw of all results"),
	END(DOUBLE, min_busbw_GBps, "GB/s", "NCCL_TESTS_MIN_BW: the mean must reach 0.9 of it"),
	END(DOUBLE, wall_s, "s", "from start to end"),
	END(INT, memory_init_bytes, "bytes", "taken by starting up; with -M"),
	END(INT, memory_user_bytes, "bytes", "taken by buffers; with -M"),
	END(INT, memory_call_bytes, "bytes", "taken by the calls; with -M"),
	{.name = NULL},
};

#define KIND(word, text)                                                                           \
	const struct bb_record_kind bb_record_##word = {#word, text, word##_fields,                \
							sizeof(struct bb_##word##_record)}

KIND(run, "Once, first: what is needed to repeat the run.");
KIND(result, "One size in one placement under one algorithm.");
KIND(skip, "Something that was asked for and not run, with the reason.");
KIND(end, "Once, last: the verdict.");
