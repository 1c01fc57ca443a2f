/*
 * main.c - the binary acceptance: which subject, which words are files and which are options.
 */
#include "acceptance/tool/tool.h"
#include "core/output.h"
#include "core/standard.h"
#include "harness/run/options_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BB_OPTIONS struct bb_acceptance_options
static const struct bb_option steps_rows[] = BB_OPTION_ROWS(BB_ACCEPTANCE_STEPS);
static const struct bb_option run_rows[] = BB_OPTION_ROWS(BB_ACCEPTANCE_RUN);
static const struct bb_option baseline_rows[] = BB_OPTION_ROWS(BB_ACCEPTANCE_BASELINE);
static const struct bb_option check_rows[] = BB_OPTION_ROWS(BB_ACCEPTANCE_CHECK);
static const struct bb_option compare_rows[] = BB_OPTION_ROWS(BB_ACCEPTANCE_COMPARE);

#define TABLES 3 /* of options, with the one that ends them */

static const struct subject {
	const char *word, *operands, *brief;
	bb_status (*run)(struct bb_acceptance_job *job, struct bb_error *error);
	const struct bb_option *rows[TABLES]; /* ends with NULL */
	const char *examples[BB_EXAMPLES];
} subjects[] = {
	{"run",
	 "PROFILE",
	 "Run the steps of a profile and judge them by its gates",
	 bb_acceptance_run,
	 {steps_rows, run_rows},
	 {"this-machine -o out", "hgx-h100 --nodes 232 --dry-run"}},
	{"baseline",
	 "PROFILE",
	 "Measure a profile N times, for later runs to be compared with",
	 bb_acceptance_baseline,
	 {steps_rows, baseline_rows},
	 {"this-machine -n 5 -o out", "hgx-h100 --into baseline.json -o out"}},
	{"check",
	 "FILE...",
	 "Is my number normal? records, or a log of nccl-tests, beside published numbers",
	 bb_acceptance_check,
	 {check_rows},
	 {"node*.log --gpu H100", "--value 231 --collective all_reduce --gpu H100 --nodes 2"}},
	{"compare",
	 "BEFORE AFTER",
	 "What became slower or faster: records, logs or folders of two runs",
	 bb_acceptance_compare,
	 {compare_rows},
	 {"before.jsonl after.jsonl", "out-monday out-tuesday --tolerance 3%"}},
	{.word = NULL},
};

/* Divide WORDS: options and their values, behind the first word, to SORTED, operands to OPERANDS.
   Returns how many are in SORTED. */
static int words_divide(const struct subject *subject, int argc, char **words, char **sorted,
			char **operands)
{
	int n = 0;

	sorted[n++] = words[0];
	for (int i = 1; i < argc; i++) {
		const char *const word = words[i];
		bool takes_next = false; /* an option, perhaps abbreviated, with a value */

		if (word[0] != '-' || !word[1]) {
			*operands++ = words[i];
			continue;
		}
		for (const struct bb_option *const *rows = subject->rows; *rows; rows++)
			for (const struct bb_option *row = *rows; row->name; row++)
				takes_next |=
					row->type != BB_OPT_FLAG &&
					((row->key && word[1] == row->key && !word[2]) ||
					 (strncmp(word, "--", 2) == 0 && word[2] &&
					  strncmp(word + 2, row->name, strlen(word + 2)) == 0));
		sorted[n++] = words[i];
		if (i + 1 < argc && takes_next)
			sorted[n++] = words[++i];
	}
	return n;
}

/* The options of S, read into O. */
static void tables_fill(const struct subject *s, struct bb_acceptance_options *o,
			struct bb_option_table tables[TABLES + 1])
{
	int n = 0;

	for (; s->rows[n]; n++)
		tables[n] = (struct bb_option_table){.rows = s->rows[n], .target = o};
	tables[n++] = (struct bb_option_table){.rows = bb_about_rows, .target = &o->about};
	tables[n] = (struct bb_option_table){.rows = NULL};
}

static void add_about(const struct subject *s, const struct bb_about *about, struct bb_strbuf *out)
{
	struct bb_acceptance_options unused;
	struct bb_option_table tables[TABLES + 1];
	struct bb_about_program program = {
		.operands = s->operands, .brief = s->brief, .tables = tables};
	char name[64];

	tables_fill(s, &unused, tables);
	snprintf(name, sizeof(name), "acceptance %s", s->word);
	program.name = name;
	memcpy(program.examples, s->examples, sizeof(program.examples));
	bb_about_add(about, &program, out);
}

/* What ABOUT requests of SUBJECT or, if that is NULL, of all. */
static bb_status show_about(const struct subject *subject, const struct bb_about *about,
			    struct bb_error *error)
{
	struct bb_strbuf out = {0};
	bb_status st;

	if (subject)
		add_about(subject, about, &out);
	else if (about->help || about->help_all) {
		bb_strbuf_add(&out,
			      "Usage: acceptance SUBJECT FILE... [OPTION]...\n"
			      "Acceptance tests with gates that say where they come from.\n\n");
		for (const struct subject *s = subjects; s->word; s++)
			bb_strbuf_addf(&out, "  %-9s %-13s %s\n", s->word, s->operands, s->brief);
		bb_strbuf_add(&out, "\nacceptance SUBJECT --help shows the options of one.\n");
	} else if (about->help_markdown || about->help_schema)
		for (const struct subject *s = subjects; s->word; s++)
			add_about(s, about, &out);
	else
		bb_about_add(about, &(struct bb_about_program){.name = "acceptance"}, &out);
	st = bb_write_text("-", &out, error);
	bb_strbuf_free(&out);
	return st;
}

static bb_status subject_run(const struct subject *subject, int argc, char **words,
			     struct bb_acceptance_job *job, struct bb_error *error)
{
	struct bb_acceptance_options o = {.output = NULL};
	struct bb_option_table tables[TABLES + 1];
	char **const sorted = calloc(2 * (size_t)argc + 2, sizeof(*sorted));
	bb_status st;
	int n;

	if (!sorted)
		return bb_no_memory(error, "options");
	tables_fill(subject, &o, tables);
	n = words_divide(subject, argc, words, sorted, sorted + argc + 1);
	job->o = &o;
	job->operands = sorted + argc + 1;
	job->noperands = argc - n;
	BB_TRY(st, bb_options_parse(tables, n, sorted, error), out);
	if (!bb_about_requested(&o.about))
		BB_TRY(st, bb_options_check_rules(tables, error), out);
	if (bb_about_requested(&o.about))
		st = show_about(o.about.version ? NULL : subject, &o.about, error);
	else if (job->noperands == 0 && !o.resume && !(o.value > 0))
		st = bb_fail(error, BB_EUSAGE, "%s: needs %s", subject->word, subject->operands);
	else
		st = subject->run(job, error);
out:
	free(sorted);
	return st;
}

int main(int argc, char **argv)
{
	const char *const word = argc > 1 ? argv[1] : "";
	struct bb_acceptance_job job = {.signal = 0};
	struct bb_about about;
	const struct bb_option_table tables[] = {{bb_about_rows, &about, NULL}, {NULL, NULL, NULL}};
	const struct subject *subject = NULL;
	const char *words[sizeof(subjects) / sizeof(subjects[0])] = {NULL};
	char hint[BB_SUGGESTION];
	struct bb_error error = {0};
	bb_status st;

	if (!bb_standard_open())
		return BB_EINTERNAL;
	if (argc < 2) {
		st = bb_fail(&error, BB_EUSAGE,
			     "needs a subject: run, baseline, check or compare; see --help");
	} else if (word[0] == '-') {
		st = bb_options_parse(tables, argc, argv, &error);
		if (st == BB_OK)
			st = show_about(NULL, &about, &error);
	} else {
		for (int i = 0; subjects[i].word; i++) {
			words[i] = subjects[i].word;
			if (strcmp(word, subjects[i].word) == 0)
				subject = &subjects[i];
		}
		st = subject ? subject_run(subject, argc - 1, argv + 1, &job, &error)
			     : bb_fail(&error, BB_EUSAGE, "%s: not a subject%s", word,
				       bb_suggest(hint, word, words));
	}
	if (bb_error_status(&error) != BB_OK)
		bb_say("acceptance", "%s", error.text);
	return job.signal ? 128 + job.signal : (int)st;
}
