/*
 * tool.h - the binary acceptance: run a profile, make a baseline, judge numbers, compare runs.
 */
#pragma once

#include "acceptance/session.h"
#include "core/about.h"

/* Of run and baseline. */
#define BB_ACCEPTANCE_STEPS(OPTION, COMMON)                                                        \
	OPTION(STRING, output, "output", 'o', NULL,                                                \
	       "folder of the results (default: acceptance-NAME-TIME)", .argument = "DIR",         \
	       .excludes = {{"resume", "that goes on in its own folder"}}, .section = "Running",   \
	       .usual = true)                                                                      \
	OPTION(STRING, resume, "resume", 0, NULL,                                                  \
	       "folder of an interrupted run to continue, whose profile may be left out",          \
	       .argument = "DIR", .usual = true)                                                   \
	OPTION(INT, all_nodes, "nodes", 0, NULL,                                                   \
	       "nodes to test: each step on all of them at once, in groups of as many nodes as "   \
	       "it has (default: the nodes of each step)",                                         \
	       .min = 1, .max = 1 << 20, .usual = true)                                            \
	OPTION(INT, ranks_per_node, "ranks-per-node", 0, NULL,                                     \
	       "ranks of a node (default: those of the profile)", .min = 1, .max = 1 << 10)        \
	OPTION(FLAG, quick, "quick", 0, NULL, "the steps of the quick mode alone", .usual = true,  \
	       .excludes = {{"full"}})                                                             \
	OPTION(FLAG, full, "full", 0, NULL, "the steps of the full mode (the default)")            \
	OPTION(FLAG, quiet, "quiet", 0, NULL, "no progress on standard error")

#define BB_ACCEPTANCE_RUN(OPTION, COMMON)                                                          \
	OPTION(FLAG, strict, "strict", 0, NULL, "warnings fail too", .section = "Judging",         \
	       .usual = true)                                                                      \
	OPTION(STRING, cluster, "cluster", 0, NULL,                                                \
	       "cluster on which every step is simulated instead: the gates' verdict on a system " \
	       "that does not exist yet",                                                          \
	       .argument = "NAME[:NODES]", .usual = true)                                          \
	OPTION(STRING, fault, "fault", 0, NULL,                                                    \
	       "fault of that cluster, as in lost_rail:0:2, which the gates should notice",        \
	       .argument = "FAULT")                                                                \
	OPTION(FLAG, dry_run, "dry-run", 0, NULL,                                                  \
	       "print the commands, the gates and the time; run nothing", .usual = true)           \
	OPTION(STRING, times, "times", 0, NULL,                                                    \
	       "folder of an earlier run, whose times of steps --dry-run takes (default: those "   \
	       "that the profile states)",                                                         \
	       .argument = "DIR", .needs = {{"dry-run"}})                                          \
	OPTION(FLAG, no_report, "no-report", 0, NULL, "no page by scripts/report.py")              \
	OPTION(FLAG, verbose, "verbose", 'v', NULL,                                                \
	       "also the nodes that are OK, and each check that passed without a number or was "   \
	       "skipped",                                                                          \
	       .usual = true)

#define BB_ACCEPTANCE_BASELINE(OPTION, COMMON)                                                     \
	OPTION(INT, repeats, "repeats", 'n', "10", "runs of each step", .min = 2, .max = 1000,     \
	       .section = "Baseline", .usual = true)                                               \
	OPTION(STRING, into, "into", 0, NULL,                                                      \
	       "file of the baseline; a baseline in it becomes its history (default: "             \
	       "DIR/baseline.json)",                                                               \
	       .argument = "FILE", .usual = true)

#define BB_ACCEPTANCE_CHECK(OPTION, COMMON)                                                        \
	OPTION(STRING, gpu, "gpu", 0, NULL, "GPU of the numbers: A100, H100, H200, B200 …",        \
	       .argument = "NAME", .section = "Is my number normal?", .usual = true)               \
	OPTION(STRING, collective, "collective", 0, NULL,                                          \
	       "collective of the numbers (default: that of the file)", .argument = "NAME",        \
	       .usual = true)                                                                      \
	OPTION(INT, nodes, "nodes", 0, NULL, "number of nodes (default: that of the file)",        \
	       .min = 1, .max = 1 << 20, .usual = true)                                            \
	OPTION(INT, ranks, "ranks", 0, NULL, "number of ranks (default: that of the file)",        \
	       .min = 1, .max = 1 << 20, .usual = true)                                            \
	OPTION(INT, nics, "nics", 0, NULL,                                                         \
	       "number of NICs of a node (default: that of the log, else of the machine)",         \
	       .min = 1, .max = 64, .usual = true)                                                 \
	OPTION(STRING, nic_rate, "nic-rate", 0, NULL,                                              \
	       "rate of each NIC in Gb/s (default: that of the machine)", .argument = "RATE")      \
	OPTION(STRING, of_cluster, "cluster", 0, NULL,                                             \
	       "cluster that the numbers come from, a known system or a file (default: the first " \
	       "known system with the GPU that fits the log)",                                     \
	       .argument = "NAME|FILE", .usual = true)                                             \
	OPTION(STRING, topology, "topology", 0, NULL, "file of the topology of its nodes",         \
	       .argument = "FILE", .excludes = {{"cluster", "both name the machine"}})             \
	OPTION(NUMBER, value, "value", 0, NULL,                                                    \
	       "bus bandwidth in GB/s to judge in place of a file", .argument = "GBPS",            \
	       .usual = true)                                                                      \
	OPTION(SIZE, size, "size", 0, "8G", "size at which --value was measured",                  \
	       .argument = "SIZE")                                                                 \
	OPTION(FLAG, records, "records", 0, NULL,                                                  \
	       "print the results of logs as records instead of judging them")

#define BB_ACCEPTANCE_COMPARE(OPTION, COMMON)                                                      \
	OPTION(PERCENT, tolerance, "tolerance", 0, "5%",                                           \
	       "loss of speed above which the exit status is 7; it is 3 if less than 80% of the "  \
	       "results can be judged",                                                            \
	       .argument = "P%", .section = "Comparing two runs", .usual = true)                   \
	OPTION(FLAG, all, "all", 0, NULL, "every result, not only those that differ", .usual = true)

struct bb_acceptance_options {
	BB_OPTION_MEMBERS(BB_ACCEPTANCE_STEPS)
	BB_OPTION_MEMBERS(BB_ACCEPTANCE_RUN)
	BB_OPTION_MEMBERS(BB_ACCEPTANCE_BASELINE)
	BB_OPTION_MEMBERS(BB_ACCEPTANCE_CHECK)
	BB_OPTION_MEMBERS(BB_ACCEPTANCE_COMPARE)
	struct bb_about about;
};

/* The work of a subject. A status other than BB_OK without a sentence in ERROR is a verdict. */
struct bb_acceptance_job {
	const struct bb_acceptance_options *o;
	char **operands; /* the words without a dash */
	int noperands;
	int signal; /* that interrupted it; 0: none */
};
BB_MUST bb_status bb_acceptance_run(struct bb_acceptance_job *job, struct bb_error *error);
BB_MUST bb_status bb_acceptance_baseline(struct bb_acceptance_job *job, struct bb_error *error);
BB_MUST bb_status bb_acceptance_check(struct bb_acceptance_job *job, struct bb_error *error);
BB_MUST bb_status bb_acceptance_compare(struct bb_acceptance_job *job, struct bb_error *error);
