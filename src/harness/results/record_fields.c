/*
 * record_fields.c - what every record carries: one row a field.
 */
#include "harness/results/record_rows.h"

#define BB_RECORD bb_run_record
static const struct bb_field run_fields[] = {
	ROW(TEXT, start_time, "", "when it began: UTC, ISO 8601"),
	ROW(STRING, program, "", "name of the binary"),
	ROW(STRING, version, "", "of busbench"),
	ROW(WORDS, args, "", "the command line, word by word"),
	ROW(STRING, collective, "", "what is measured"),
	ROW(STRING, backend, "", "how bytes move"),
	ROW(STRING, backend_reason, "", "why --backend auto is that one; null: it was named"),
	ROW(STRING, library, "", "that moves the bytes, with its version; null: none is used"),
	ROW(STRING, library_p2p, "",
	    "of pairs: whether it lets one end work on the other's memory, and how that is known"),
	ROW(STRING, launch, "", "that connects the processes, likewise; null: there is but one"),
	ROW(STRING, host, "", "name of the machine of rank 0"),
	ROW(STRING, cpu, "", "its processor"),
	ROW(STRING, os, "", "its operating system"),
	ROW(STRING, topology, "",
	    "its digest (build/topology): the same on machines that are alike"),
	ROW(INT, cores, "", "processors that the process of rank 0 may use"),
	ROW(INT, nranks, "", "participants in all processes"),
	ROW(INT, nprocs, "", "processes"),
	ROW(INT, threads, "", "-t"),
	ROW(INT, gpus, "", "-g"),
	ROW(RANKS, ranks, "", "per rank: group, pid, host, device, numa, bus, name"),
	ROW(INT, min_bytes, "bytes", "-b"),
	ROW(INT, max_bytes, "bytes", "-e"),
	ROW(INT, step_factor, "", "-f; 1: step_bytes is added instead"),
	ROW(INT, step_bytes, "bytes", "-i"),
	ROW(INT, warmup_iters, "", "-w"),
	ROW(INT, iters, "", "-n"),
	ROW(INT, agg_iters, "", "-m"),
	ROW(INT, run_cycles, "", "-N"),
	ROW(DOUBLE, precision, "fraction", "--precision; null without"),
	ROW(INT, check, "", "-c"),
	ROW(INT, blocking, "", "-z"),
	ROW(INT, graph, "", "-G"),
	ROW(INT, average, "",
	    "-a: time_us is that of 0 rank 0, 1 the mean, 2 the least, 3 the most"),
	ROW(INT, unalign, "elements", "-u"),
	ROW(BOOL, per_iter_timing, "", "-I"),
	ROW(INT, per_iter_skip, "", "-K"),
	ROW(BOOL, parallel_init, "", "-p"),
	ROW(BOOL, report_cputime, "", "-C"),
	ROW(BOOL, report_timestamps, "", "-S"),
	ROW(STRING, cache, "", "--cache: what caches hold before an iteration"),
	ROW(INT, seed, "", "--seed"),
	ROW(STRING, algorithms, "", "--algo as given, or NCCL_ALGO's"),
	ROW(STRING, fault, "", "--fault as given"),
	ROW(STRING, link, "", "--link as given"),
	ROW(STRING, cluster, "", "--cluster as given"),
	ROW(STRING, calibrate, "", "--calibrate as given"),
	ROW(TEXT, network, "", "what that is: ranks, nodes, rates, switches"),
	ROW(BOOL, virtual_time, "",
	    "times are computed from --link, --cluster or --calibrate, not measured"),
	ROW(DOUBLE, link_noise, "fraction", "--noise; null without"),
	ROW(STRING, split, "", "NCCL_TESTS_SPLIT or its mask as given"),
	ROW(DOUBLE, copy_GBps, "GB/s",
	    "private memory copy of all ranks at once, measured in this run"),
	ROW(DOUBLE, clock_uncertainty_us, "us", "when clocks of two ranks are compared"),
	ROW(DOUBLE, init_ms, "ms", "from the start until every rank was ready"),
	ROW(STRING, pair_ranks, "",
	    "of pairs: the ranks that these are among, as 0-7,24-31; null: all"),
	ROW(STRING, topology_digest, "",
	    "of the machine of rank 0, as `topology` prints it; null: not looked at"),
	{.name = NULL},
};

#undef BB_RECORD
#define BB_RECORD bb_result_record
static const struct bb_field result_fields[] = {
	ROW(STRING, collective, "", "what was done"),
	ROW(STRING, algorithm_asked, "", "as in --algo"),
	ROW(STRING, algorithm, "", "the one that ran: for auto the backend's choice"),
	ROW(STRING, library_algorithm, "",
	    "ring:LL128: what the library says it chose; null: it does not tell"),
	ROW(STRING, dtype, "", "element type"),
	ROW(STRING, op, "", "reduction; none where data is only moved"),
	ROW(INT, root, "", "rank; -1 where there is none"),
	ROW(INT, nranks, "", "ranks that take part in the call"),
	ROW(INT, size_bytes, "bytes", "the size that bandwidths are taken over"),
	ROW(INT, count, "elements", "the call's count parameter"),
	ROW(BOOL, in_place, "", "input and output lie in one buffer"),
	ROW(DOUBLE, time_us, "us", "time of one operation, over the ranks as -a says"),
	ROW(DOUBLE, algbw_GBps, "GB/s", "size_bytes / time_us / 1000"),
	ROW(DOUBLE, busbw_GBps, "GB/s", "algbw_GBps times the factor of the collective"),
	ROW(INT, wrong, "elements", "that differ from the expected result; null: not checked"),
	ROW(INT, iterations, "", "timed iterations"),
	ROW(INT, samples, "",
	    "that they are told in: short iterations share one, or reading the clock would "
	    "count"),
	ROW(STRING, verified, "", "how the verified iteration was made; null: not checked"),
	ROW(DOUBLE, min_us, "us", "least time of a sample (its maximum over the ranks)"),
	ROW(DOUBLE, p50_us, "us", "its median"),
	ROW(DOUBLE, p95_us, "us", "its 95th percentile"),
	ROW(DOUBLE, p99_us, "us", "its 99th percentile"),
	ROW(DOUBLE, max_us, "us", "its maximum"),
	ROW(DOUBLE, mean_us, "us", "its mean"),
	ROW(DOUBLE, stdev_us, "us", "its standard deviation"),
	ROW(DOUBLE, cv_percent, "%", "stdev_us / mean_us"),
	ROW(DOUBLE, ci_low_us, "us",
	    "95% confidence interval of the median, of 6 samples or more, from"),
	ROW(DOUBLE, ci_high_us, "us", "and to"),
	ROW(DOUBLE, busbw_low_GBps, "GB/s", "busbw in ci_high_us"),
	ROW(DOUBLE, busbw_high_GBps, "GB/s", "busbw in ci_low_us"),
	ROW(NUMBERS, samples_us, "us", "time of each sample; with -I: each iteration"),
	ROW(NUMBERS, rank_mean_us, "us", "mean time of each rank"),
	ROW(NUMBERS, groups, "", "numbers of the groups of a split world"),
	ROW(NUMBERS, group_time_us, "us", "time of each group, over its ranks as -a says"),
	ROW(NUMBERS, group_busbw_GBps, "GB/s",
	    "busbw of each group, by its own size, factor and time"),
	ROW(INT, worst_group, "", "group furthest behind the median of those of its size"),
	ROW(DOUBLE, skew_p50_us, "us", "median time between the first and the last rank to enter"),
	ROW(DOUBLE, skew_max_us, "us", "its maximum"),
	ROW(INT, last_rank, "", "rank that entered last most often"),
	ROW(DOUBLE, last_share, "fraction", "of the iterations that it was last in"),
	ROW(DOUBLE, last_late_us, "us", "how late it was after the median rank, on average"),
	ROW(DOUBLE, clock_uncertainty_us, "us", "of the three times above"),
	ROW(DOUBLE, bound_us, "us", "least time that this algorithm's bytes can take"),
	ROW(DOUBLE, bound_busbw_GBps, "GB/s", "busbw in bound_us"),
	ROW(DOUBLE, percent_of_bound, "%", "bound_us / time_us"),
	ROW(STRING, bound_source, "", "where the bound comes from"),
	ROW(STRING, cache, "", "--cache"),
	ROW(INT, chunk_bytes, "bytes", "largest message of a pipelined algorithm"),
	ROW(DOUBLE, cpu_time_us, "us", "spent in the call itself; with -C"),
	ROW(INT, cycle, "", "of -N, from 1"),
	ROW(STRING, evaluator, "",
	    "how virtual time was played: sweep, loads, alike, classes (docs/simulator.md)"),
	ROW(DOUBLE, faultless_us, "us", "of virtual time: time_us had there been no --fault"),
	ROW(DOUBLE, end_unix_s, "s", "when it was done, since 1970 UTC"),
	{.name = NULL},
};

#undef BB_RECORD
#define BB_RECORD bb_arrival_record
static const struct bb_field arrival_fields[] = {
	ROW(STRING, collective, "", "as in the result before it, and so on"),
	ROW(STRING, algorithm_asked, "", "as in --algo"),
	ROW(STRING, algorithm, "", "the one that ran"),
	ROW(STRING, dtype, "", "element type"),
	ROW(STRING, op, "", "reduction; none where data is only moved"),
	ROW(INT, root, "", "rank; -1 where there is none"),
	ROW(INT, size_bytes, "bytes", "as in the result"),
	ROW(BOOL, in_place, "", "input and output lie in one buffer"),
	ROW(INT, cycle, "", "of -N, from 1"),
	ROW(INT, rank, "", "whose arrivals they are"),
	ROW(NUMBERS, late_us, "us",
	    "of each iteration: how long after the first rank of its group it entered"),
	ROW(DOUBLE, clock_uncertainty_us, "us", "of these times"),
	{.name = NULL},
};

#undef BB_RECORD
#define BB_RECORD bb_cost_record
static const struct bb_field cost_fields[] = {
	ROW(STRING, collective, "", "as in the result, and so on"),
	ROW(STRING, algorithm_asked, "", "as in --algo"),
	ROW(STRING, algorithm, "", "the one that ran"),
	ROW(STRING, evaluator, "", "how it was played"),
	ROW(INT, nranks, "", "ranks that took part"),
	ROW(INT, size_bytes, "bytes", "as in the result"),
	ROW(BOOL, in_place, "", "input and output lie in one buffer"),
	ROW(DOUBLE, processor_s, "s",
	    "real seconds of a processor for one play, on average; schedules and the lengths of "
	    "their messages were chosen before"),
	ROW(INT, peak_memory_bytes, "bytes", "most that the process had taken until it was done"),
	{.name = NULL},
};

#undef BB_RECORD
#define BB_RECORD bb_skip_record
static const struct bb_field skip_fields[] = {
	ROW(STRING, collective, "", "what was asked for"),
	ROW(STRING, algorithm, "", "as in --algo"),
	ROW(STRING, dtype, "", "element type; null: all"),
	ROW(STRING, op, "", "reduction; null: all"),
	ROW(INT, root, "", "rank; null: all"),
	ROW(INT, size_bytes, "bytes", "null: all"),
	ROW(STRING, placement, "", "out-of-place or in-place; null: both"),
	ROW(STRING, reason, "", "why it was not run"),
	{.name = NULL},
};

#undef BB_RECORD
#define BB_RECORD bb_end_record
static const struct bb_field end_fields[] = {
	ROW(TEXT, end_time, "", "UTC, ISO 8601"),
	ROW(STRING, verdict, "", "passed, or what is wrong"),
	ROW(STRING, error, "", "first cause of a failure"),
	ROW(INT, exit_status, "", "of the process"),
	ROW(INT, results, "", "result records"),
	ROW(INT, skipped, "", "skip records"),
	ROW(INT, wrong, "", "results with wrong elements"),
	ROW(DOUBLE, avg_busbw_GBps, "GB/s", "mean busbw of all results"),
	ROW(DOUBLE, min_busbw_GBps, "GB/s", "NCCL_TESTS_MIN_BW: the mean must reach 0.9 of it"),
	ROW(DOUBLE, faulty_s, "s", "virtual time of all programs played under --fault"),
	ROW(DOUBLE, faultless_s, "s", "the same had there been no fault"),
	ROW(STRING, played_by, "",
	    "all_reduce among 16: nvlstree:Simple model: what did the collectives of programs in "
	    "virtual time; null: time is real, or there are none"),
	ROW(DOUBLE, wall_s, "s", "from start to end"),
	ROW(DOUBLE, processor_s, "s", "that the process of rank 0 had processors, all threads"),
	ROW(INT, peak_memory_bytes, "bytes", "most memory that it had"),
	ROW(INT, memory_init_bytes, "bytes", "taken by starting up; with -M"),
	ROW(INT, memory_user_bytes, "bytes", "taken by buffers; with -M"),
	ROW(INT, memory_call_bytes, "bytes", "taken by the calls; with -M"),
	{.name = NULL},
};

#define KIND(word, text)                                                                           \
	const struct bb_record_kind bb_record_##word = {#word, text, word##_fields,                \
							sizeof(struct bb_##word##_record)}

KIND(run, "Once, first: what is needed to repeat the run.");
KIND(result, "One size in one placement under one algorithm.");
KIND(arrival, "With -I: when one rank of rank 0's group entered the iterations of a result.");
KIND(cost, "In virtual time: what computing a result took. All of them before the end.");
KIND(skip, "Something that was asked for and not run, with the reason.");
KIND(end, "Once, last: the verdict.");
