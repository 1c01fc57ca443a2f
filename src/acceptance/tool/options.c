/*
 * options.c - rows of options of acceptance.
 */
#include "acceptance/tool/tool.h"

#include <stddef.h>

#define AT(member) offsetof(struct bb_acceptance_options, member)
#define FLAG(word, member, text)                                                                   \
	{                                                                                          \
		.name = word, .type = BB_OPT_FLAG, .offset = AT(member), .help = text              \
	}
#define STRING(word, member, what, text)                                                           \
	.name = word, .type = BB_OPT_STRING, .offset = AT(member), .argument = what, .help = text

const struct bb_option bb_acceptance_run_rows[] = {
	{STRING("output", output, "DIR", "where results go; default: acceptance-NAME-TIME"),
	 .key = 'o', .section = "Running"},
	{STRING("resume", resume, "DIR",
		"go on with an interrupted run: what has ended is kept. Its profile may be left "
		"out")},
	FLAG("quick", quick, "the steps of the quick mode alone"),
	FLAG("full", full, "the steps of the full mode (the default)"),
	FLAG("strict", strict, "a warning fails, too"),
	{STRING("cluster", cluster, "NAME[:NODES]",
		"play every step in virtual time on this cluster instead: what the gates say of a "
		"system that is not there yet")},
	{STRING("fault", fault, "FAULT",
		"what is wrong with that cluster, as in lost_rail:0:2: would the gates notice?")},
	FLAG("dry-run", dry_run, "print the commands and the gates; run nothing"),
	FLAG("no-report", no_report, "without the page that scripts/report.py makes"),
	FLAG("quiet", quiet, "nothing on standard error while it runs"),
	{0},
};

const struct bb_option bb_acceptance_baseline_rows[] = {
	{.name = "repeats",
	 .key = 'n',
	 .type = BB_OPT_INT,
	 .offset = AT(repeats),
	 .initial = "10",
	 .argument = "N",
	 .min = 2,
	 .max = 1000,
	 .help = "runs of each step",
	 .section = "Baseline"},
	{STRING("output", output, "DIR", "where results go: baseline.json, and all records"),
	 .key = 'o'},
	{STRING("into", into, "FILE",
		"file of the baseline; one that it holds already is kept as its history (default: "
		"DIR/baseline.json)")},
	{STRING("resume", resume, "DIR",
		"go on with an interrupted run: what has ended is kept. Its profile may be left "
		"out")},
	FLAG("quick", quick, "the steps of the quick mode alone"),
	FLAG("full", full, "the steps of the full mode (the default)"),
	FLAG("quiet", quiet, "nothing on standard error while it runs"),
	{0},
};

const struct bb_option bb_acceptance_check_rows[] = {
	{STRING("gpu", gpu, "NAME", "of which GPUs the numbers are: A100, H100, H200, B200 …"),
	 .section = "Is my number normal?"},
	{STRING("collective", collective, "NAME",
		"of which collective; default: as the file says")},
	{.name = "nodes",
	 .type = BB_OPT_INT,
	 .offset = AT(nodes),
	 .argument = "N",
	 .min = 1,
	 .max = 1 << 20,
	 .help = "on how many nodes; default: as the file says"},
	{.name = "ranks",
	 .type = BB_OPT_INT,
	 .offset = AT(ranks),
	 .argument = "N",
	 .min = 1,
	 .max = 1 << 20,
	 .help = "how many ranks it is said to be; default: as the file says"},
	{0},
};

const struct bb_option bb_acceptance_compare_rows[] = {
	{.name = "tolerance",
	 .type = BB_OPT_PERCENT,
	 .offset = AT(tolerance),
	 .initial = "5%",
	 .argument = "P%",
	 .help = "loss of speed above which the exit status is 7",
	 .section = "Comparing two runs"},
	FLAG("all", all, "every result, not only those that differ"),
	{0},
};

const struct bb_option bb_acceptance_about_rows[] = {
	{.name = "help",
	 .key = 'h',
	 .type = BB_OPT_FLAG,
	 .offset = AT(help),
	 .help = "this text",
	 .section = "About"},
	FLAG("help-markdown", help_markdown, "the same as Markdown tables"),
	FLAG("version", version, "the version"),
	{0},
};
