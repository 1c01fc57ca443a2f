/*
 * main.c - the program model_memory: options, choice of the subject, output of its result.
 */
#include "core/output.h"
#include "core/standard.h"
#include "memory/tool/tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_RANKS (1 << 20)
#define MOST_PARAMETERS INT64_C(1000000000000000) /* their bytes fit into 64 bits */

static const char *const format_words[] = {"all", "int8", "int4", NULL};

#define BB_OPTIONS struct options
#define ROWS(LIST)                                                                                 \
	{                                                                                          \
		LIST(BB_OPTION_ROW, BB_OPTION_ROW)                                                 \
		{                                                                                  \
			.name = NULL                                                               \
		}                                                                                  \
	}

static const struct bb_option model_rows[] = ROWS(BB_CALCULATE_MODEL);
static const struct bb_option states_rows[] = ROWS(BB_CALCULATE_STATES);
static const struct bb_option train_rows[] = ROWS(BB_CALCULATE_TRAIN);
static const struct bb_option zero_rows[] = ROWS(BB_CALCULATE_ZERO);
static const struct bb_option deepspeed_rows[] = ROWS(BB_CALCULATE_DEEPSPEED);
static const struct bb_option infer_rows[] = ROWS(BB_CALCULATE_INFER);
static const struct bb_option checkpoint_rows[] = ROWS(BB_CALCULATE_CHECKPOINT);
static const struct bb_option quantise_rows[] = ROWS(BB_CALCULATE_QUANTISE);
static const struct bb_option output_rows[] = ROWS(BB_CALCULATE_OUTPUT);

static const struct bb_subject subjects[] = {
	{"train",
	 NULL,
	 "memory of a rank of a training run; with --fits: the runs that fit",
	 {model_rows, states_rows, train_rows, output_rows},
	 {"--model llama2-70b --gpus 64 --fits 80G", "--params 7.5B --dp 8 --zero 2"}},
	{"infer",
	 NULL,
	 "memory of inference: weights, KV cache, and the rule of thumb",
	 {model_rows, infer_rows, output_rows},
	 {"--model llama2-7b --bits 4", "--model llama2-70b --batch 16 --context 4096 --tp 4"}},
	{"zero",
	 NULL,
	 "stages of ZeRO and FSDP side by side: bytes that a rank keeps and sends",
	 {model_rows, states_rows, zero_rows, output_rows},
	 {"--params 7.5B", "--model gpt2 --dp 16"}},
	{"deepspeed",
	 NULL,
	 "DeepSpeed's own estimates for stages 2 and 3",
	 {model_rows, deepspeed_rows, output_rows},
	 {"--model gpt2 --nodes 2", "--params 7.5B --largest-layer 100M"}},
	{"checkpoint",
	 NULL,
	 "activation checkpointing, measured: memory against time",
	 {checkpoint_rows, output_rows},
	 {"--layers 16", "--layers 32 --checkpoint-every 4"}},
	{"quantise",
	 NULL,
	 "a tensor in 8 or 4 bits and back: bytes and error",
	 {quantise_rows, output_rows},
	 {"--values 1,2,3", "--count 4K --format int8"}},
	{.name = NULL},
};

static bb_status (*const works[])(struct job *job) = {
	bb_calculate_train,     bb_calculate_infer,      bb_calculate_zero,
	bb_calculate_deepspeed, bb_calculate_checkpoint, bb_calculate_quantise};

/* The first option in ARGV ("--bits", "--bits=8") that SUBJECT lacks, or NULL. */
static char *foreign_option(const struct bb_subject *subject, char *const *argv)
{
	struct bb_option_table tables[BB_SUBJECT_LISTS + 1];

	bb_subject_tables(subject, NULL, NULL, tables);
	for (; *argv; argv++) {
		const size_t length = strcspn(*argv, "=");
		bool found = strncmp(*argv, "--", 2) != 0 || !(*argv)[2];

		for (const struct bb_option_table *t = tables; t->rows && !found; t++)
			for (const struct bb_option *row = t->rows; row->name && !found; row++)
				found = strlen(row->name) == length - 2 &&
					strncmp(row->name, *argv + 2, length - 2) == 0;
		if (!found)
			return *argv;
	}
	return NULL;
}

static bb_status print_information(const struct bb_subject *subject, const struct options *o,
				   bool named, struct bb_error *error)
{
	const struct bb_about *about = &o->about;
	struct bb_strbuf out = {0};

	if (o->list && !bb_about_requested(about))
		bb_model_list(&out);
	else if (about->version)
		bb_about_add(about, &(struct bb_about_program){.name = "model_memory"}, &out);
	else if (!named && about->help_schema)
		for (const struct bb_subject *s = subjects; s->name; s++)
			bb_subject_about("model_memory", s, about, &out);
	else {
		if (!named && !about->help_markdown) {
			bb_strbuf_add(&out, "Usage: model_memory [SUBJECT] [OPTION]...\n"
					    "Calculates the memory of models, in GB (10^9 bytes) "
					    "and GiB (2^30 bytes).\n\n"
					    "Subjects (default: the first that has all given "
					    "options):\n");
			for (const struct bb_subject *s = subjects; s->name; s++)
				bb_strbuf_item(&out, 2, s->name, 14, s->brief);
			bb_strbuf_add(&out, "model_memory SUBJECT --help shows the options of a "
					    "subject.\n\n");
		}
		bb_subject_about("model_memory", subject, about, &out);
	}
	const bb_status st = bb_write_text("-", &out, error);
	bb_strbuf_free(&out);
	return st;
}

int main(int argc, char **argv)
{
	struct bb_option_table tables[BB_SUBJECT_LISTS + 1];
	struct bb_error error = {0};
	const bool named = argc >= 2 && argv[1][0] != '-';
	const struct bb_subject *subject = subjects;
	struct options o = {.model = NULL};
	struct bb_strbuf json = {0};
	struct job job = {.o = &o, .error = &error};
	bb_status st, written = BB_OK;

	if (!bb_standard_open())
		return BB_EINTERNAL;
	if (named) {
		BB_TRY(st, bb_subject_find(subjects, argv[1], &subject, &error), out);
		argc--;
		argv++;
	}
	/* Without a name, the first subject that has the options. */
	while (!named && subject->name && foreign_option(subject, argv + 1))
		subject++;
	subject = subject->name ? subject : subjects;
	/* Options of another subject are refused here, unknown ones by the parser. */
	char *const foreign = foreign_option(subject, argv + 1);
	for (const struct bb_subject *s = subjects; s->name && foreign; s++)
		if (!foreign_option(s, (char *[]){foreign, NULL}))
			BB_TRY(st,
			       bb_fail(&error, BB_EUSAGE,
				       "%.*s: an option of model_memory %s, not of %s; leave it "
				       "out",
				       (int)strcspn(foreign, "="), foreign, s->name, subject->name),
			       out);
	bb_subject_tables(subject, &o, &o.about, tables);
	BB_TRY(st, bb_options_parse(tables, argc, argv, &error), out);
	if (bb_about_requested(&o.about) || o.list) {
		st = print_information(subject, &o, named, &error);
		goto out;
	}
	BB_TRY(st, bb_options_check_rules(tables, &error), out);
	job.table.limit = bb_table_limit(stdout);
	bb_json_init(&job.json, &json, true);
	bb_json_add_object(&job.json, NULL);
	bb_json_add_int(&job.json, "schema", 1);
	bb_json_add_string(&job.json, "kind", "model_memory");
	bb_json_add_string(&job.json, "subject", subject->name);
	st = works[subject - subjects](&job);
	/* "Nothing fits" is a result, not an error. */
	if (st == BB_OK || (st == BB_EDATA && bb_error_status(&error) == BB_OK)) {
		if (o.json) {
			bb_json_end(&job.json);
			bb_strbuf_add(&json, "\n");
			written = bb_write_text(o.json, &json, &error);
		}
		bb_strbuf_fold(&job.text, 0, bb_fold_limit(stdout));
		if (written == BB_OK && (!o.json || strcmp(o.json, "-") != 0))
			written = bb_write_text("-", &job.text, &error);
		st = written == BB_OK ? st : written;
	}
out:
	bb_model_layout_free(&job.layout);
	bb_model_free(&job.model);
	bb_table_free(&job.table);
	bb_strbuf_free(&job.text);
	bb_strbuf_free(&json);
	if (bb_error_status(&error) != BB_OK)
		bb_say("model_memory", "%s", error.text);
	return (int)st;
}
