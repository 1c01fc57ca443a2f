/*
 * tool.h - the binary acceptance: run a profile, make a baseline, judge numbers, compare runs.
 */
#ifndef BB_ACCEPTANCE_TOOL_TOOL_H
#define BB_ACCEPTANCE_TOOL_TOOL_H

#include "acceptance/session.h"
#include "core/option.h"

/* Lists of options that subjects are put together from. AGAIN: the member is that of another list.
 */
#define BB_ACCEPTANCE_RUN(OPTION, AGAIN)                                                           \
	OPTION(STRING, output, "output", 'o', NULL,                                                \
	       "where results go; default: acceptance-NAME-TIME", .argument = "DIR",               \
	       .section = "Running")                                                               \
	OPTION(STRING, resume, "resume", 0, NULL,                                                  \
	       "go on with an interrupted run: what has ended is kept. Its profile may be left "   \
	       "out",                                                                              \
	       .argument = "DIR")                                                                  \
	OPTION(FLAG, quick, "quick", 0, NULL, "the steps of the quick mode alone")                 \
	OPTION(FLAG, full, "full", 0, NULL, "the steps of the full mode (the default)")            \
	OPTION(FLAG, strict, "strict", 0, NULL, "a warning fails, too")                            \
	OPTION(STRING, cluster, "cluster", 0, NULL,                                                \
	       "play every step in virtual time on this cluster instead: what the gates say of a " \
	       "system that is not there yet",                                                     \
	       .argument = "NAME[:NODES]")                                                         \
	OPTION(STRING, fault, "fault", 0, NULL,                                                    \
	       "what is wrong with that cluster, as in lost_rail:0:2: would the gates notice?",    \
	       .argument = "FAULT")                                                                \
	OPTION(FLAG, dry_run, "dry-run", 0, NULL, "print the commands and the gates; run nothing") \
	OPTION(FLAG, no_report, "no-report", 0, NULL,                                              \
	       "without the page that scripts/report.py makes")                                    \
	OPTION(FLAG, quiet, "quiet", 0, NULL, "nothing on standard error while it runs")

#define BB_ACCEPTANCE_BASELINE(OPTION, AGAIN)                                                      \
	OPTION(INT, repeats, "repeats", 'n', "10", "runs of each step", .min = 2, .max = 1000,     \
	       .section = "Baseline")                                                              \
	AGAIN(STRING, output, "output", 'o', NULL,                                                 \
	      "where results go: baseline.json, and all records", .argument = "DIR")               \
	OPTION(STRING, into, "into", 0, NULL,                                                      \
	       "file of the baseline; one that it holds already is kept as its history (default: " \
	       "DIR/baseline.json)",                                                               \
	       .argument = "FILE")                                                                 \
	AGAIN(STRING, resume, "resume", 0, NULL,                                                   \
	      "go on with an interrupted run: what has ended is kept. Its profile may be left "    \
	      "out",                                                                               \
	      .argument = "DIR")                                                                   \
	AGAIN(FLAG, quick, "quick", 0, NULL, "the steps of the quick mode alone")                  \
	AGAIN(FLAG, full, "full", 0, NULL, "the steps of the full mode (the default)")             \
	AGAIN(FLAG, quiet, "quiet", 0, NULL, "nothing on standard error while it runs")

#define BB_ACCEPTANCE_CHECK(OPTION, AGAIN)                                                         \
	OPTION(STRING, gpu, "gpu", 0, NULL,                                                        \
	       "of which GPUs the numbers are: A100, H100, H200, B200 …", .argument = "NAME",      \
	       .section = "Is my number normal?")                                                  \
	OPTION(STRING, collective, "collective", 0, NULL,                                          \
	       "of which collective; default: as the file says", .argument = "NAME")               \
	OPTION(INT, nodes, "nodes", 0, NULL, "on how many nodes; default: as the file says",       \
	       .min = 1, .max = 1 << 20)                                                           \
	OPTION(INT, ranks, "ranks", 0, NULL,                                                       \
	       "how many ranks it is said to be; default: as the file says", .min = 1,             \
	       .max = 1 << 20)

#define BB_ACCEPTANCE_COMPARE(OPTION, AGAIN)                                                       \
	OPTION(PERCENT, tolerance, "tolerance", 0, "5%",                                           \
	       "loss of speed above which the exit status is 7", .argument = "P%",                 \
	       .section = "Comparing two runs")                                                    \
	OPTION(FLAG, all, "all", 0, NULL, "every result, not only those that differ")

#define BB_ACCEPTANCE_ABOUT(OPTION, AGAIN)                                                         \
	OPTION(FLAG, help, "help", 'h', NULL, "this text", .section = "About")                     \
	OPTION(FLAG, help_markdown, "help-markdown", 0, NULL, "the same as Markdown tables")       \
	OPTION(FLAG, version, "version", 0, NULL, "the version")

struct bb_acceptance_options {
	BB_OPTION_MEMBERS(BB_ACCEPTANCE_RUN)
	BB_OPTION_MEMBERS(BB_ACCEPTANCE_BASELINE)
	BB_OPTION_MEMBERS(BB_ACCEPTANCE_CHECK)
	BB_OPTION_MEMBERS(BB_ACCEPTANCE_COMPARE)
	BB_OPTION_MEMBERS(BB_ACCEPTANCE_ABOUT)
};

extern const struct bb_option bb_acceptance_run_rows[], bb_acceptance_baseline_rows[];
extern const struct bb_option bb_acceptance_check_rows[], bb_acceptance_compare_rows[];
extern const struct bb_option bb_acceptance_about_rows[];

/* Subjects: operands are the words without a dash. What is wrong is in ERROR; a status other than
   BB_OK without one is a verdict. *SIGNAL: what interrupted it, 0: nothing. */
struct bb_acceptance_job {
	const struct bb_acceptance_options *o;
	char *const *operands;
	int noperands;
	int signal;
};
BB_MUST bb_status bb_acceptance_run(struct bb_acceptance_job *job, struct bb_error *error);
BB_MUST bb_status bb_acceptance_baseline(struct bb_acceptance_job *job, struct bb_error *error);
BB_MUST bb_status bb_acceptance_check(struct bb_acceptance_job *job, struct bb_error *error);
BB_MUST bb_status bb_acceptance_compare(struct bb_acceptance_job *job, struct bb_error *error);

/* The page of a run whose verdict is written, by scripts/report.py of the source tree that the
   binary was built in. SAID gets its path, or why there is none. */
BB_MUST bb_status bb_acceptance_report(const struct bb_acceptance_session *session,
				       struct bb_strbuf *said, struct bb_error *error);

#endif
