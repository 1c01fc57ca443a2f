/*
 * main.c - the binary acceptance: which subject, which words are files and which are options.
 */
#include "acceptance/tool/tool.h"
#include "core/output.h"
#include "core/standard.h"
#include "harness/run/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BB_OPTIONS struct bb_acceptance_options
static const struct bb_option steps_rows[] = BB_OPTION_ROWS(BB_ACCEPTANCE_STEPS);
static const struct bb_option run_rows[] = BB_OPTION_ROWS(BB_ACCEPTANCE_RUN);
static const struct bb_option baseline_rows[] = BB_OPTION_ROWS(BB_ACCEPTANCE_BASELINE);
static const struct bb_option check_rows[] = BB_OPTION_ROWS(BB_ACCEPTANCE_CHECK);
static const struct bb_option compare_rows[] = BB_OPTION_ROWS(BB_ACCEPTANCE_COMPARE);

static const struct bb_subject subjects[] = {
	{"run",
	 "PROFILE",
	 "Run the steps of a profile and judge them by its gates",
	 {steps_rows, run_rows},
	 {"this-machine -o out", "hgx-h100 --nodes 232 --dry-run"}},
	{"baseline",
	 "PROFILE",
	 "Measure a profile N times, for later runs to be compared with",
	 {steps_rows, baseline_rows},
	 {"this-machine -n 5 -o out", "hgx-h100 --into baseline.json -o out"}},
	{"check",
	 "FILE...",
	 "Is my number normal? records, or a log of nccl-tests, beside published numbers",
	 {check_rows},
	 {"node*.log --gpu H100", "--value 231 --collective all_reduce --gpu H100 --nodes 2"}},
	{"compare",
	 "BEFORE AFTER",
	 "What became slower or faster: records, logs or folders of two runs",
	 {compare_rows},
	 {"before.jsonl after.jsonl", "out-monday out-tuesday --tolerance 3%"}},
	{.name = NULL},
};
static bb_status (*const works[])(struct bb_acceptance_job *job, struct bb_error *error) = {
	bb_acceptance_run, bb_acceptance_baseline, bb_acceptance_check, bb_acceptance_compare};

/* What ABOUT requests of SUBJECT or, if that is NULL, of all. */
static bb_status show_about(const struct bb_subject *subject, const struct bb_about *about,
			    struct bb_error *error)
{
	struct bb_strbuf out = {0};

	if (subject)
		bb_subject_about("acceptance", subject, about, &out);
	else if (about->help || about->help_all) {
		bb_strbuf_add(&out,
			      "Usage: acceptance SUBJECT FILE... [OPTION]...\n"
			      "Acceptance tests with gates that say where they come from.\n\n");
		for (const struct bb_subject *s = subjects; s->name; s++)
			bb_strbuf_addf(&out, "  %-9s %-13s %s\n", s->name, s->operands, s->brief);
		bb_strbuf_add(&out, "\nacceptance SUBJECT --help shows the options of one.\n");
	} else if (about->help_markdown || about->help_schema)
		for (const struct bb_subject *s = subjects; s->name; s++)
			bb_subject_about("acceptance", s, about, &out);
	else
		bb_about_add(about, &(struct bb_about_program){.name = "acceptance"}, &out);
	const bb_status st = bb_write_text("-", &out, error);
	bb_strbuf_free(&out);
	return st;
}

int main(int argc, char **argv)
{
	struct bb_acceptance_options o = {.output = NULL};
	struct bb_acceptance_job job = {.o = &o};
	struct bb_option_table tables[BB_SUBJECT_LISTS + 1] = {{bb_about_rows, &o.about, NULL}};
	const bool named = argc > 1 && argv[1][0] != '-';
	const struct bb_subject *subject = NULL;
	struct bb_error error = {0};
	bb_status st;

	if (!bb_standard_open())
		return BB_EINTERNAL;
	if (named) {
		BB_TRY(st, bb_subject_find(subjects, argv[1], &subject, &error), out);
		bb_subject_tables(subject, &o, &o.about, tables);
	}
	job.operands = calloc((size_t)argc, sizeof(*job.operands));
	if (!job.operands)
		BB_TRY(st, bb_no_memory(&error, "options"), out);
	BB_TRY(st,
	       bb_options_parse_operands(tables, argc - named, argv + named,
					 named ? job.operands : NULL, &job.noperands, &error),
	       out);
	if (bb_about_requested(&o.about)) {
		st = show_about(o.about.version ? NULL : subject, &o.about, &error);
		goto out;
	}
	BB_TRY(st, bb_options_check_rules(tables, &error), out);
	if (!subject)
		st = bb_fail(&error, BB_EUSAGE,
			     "needs a subject: run, baseline, check or compare; see --help");
	else if (job.noperands == 0 && !o.resume && !(o.value > 0))
		st = bb_fail(&error, BB_EUSAGE, "%s: needs %s", subject->name, subject->operands);
	else
		st = works[subject - subjects](&job, &error);
out:
	free(job.operands);
	if (bb_error_status(&error) != BB_OK)
		bb_say("acceptance", "%s", error.text);
	return job.signal ? 128 + job.signal : (int)st;
}
