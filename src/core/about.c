#include "core/about.h"

#include "core/table.h"
#include "core/version.h"

#include <stdio.h>
#include <string.h>

#define WIDTH 100

#define BB_OPTIONS struct bb_about
const struct bb_option bb_about_rows[] = BB_OPTION_ROWS(BB_ABOUT_OPTIONS);

bool bb_about_requested(const struct bb_about *a)
{
	return a->version || a->help || a->help_all || a->help_markdown || a->help_schema;
}

void bb_about_add(const struct bb_about *about, const struct bb_about_program *p,
		  struct bb_strbuf *out)
{
	const bool all = about->help_all;
	struct bb_json j;

	if (about->help || all) {
		bb_strbuf_addf(out, "Usage: %s%s%s [OPTION]...\n", p->name, p->operands ? " " : "",
			       p->operands ? p->operands : "");
		bb_strbuf_wrap(out, p->brief, 0, 0, bb_terminal_limit(stdout, WIDTH));
		bb_strbuf_add(out, all ? "" : "\n");
		bb_options_help(p->tables, all, out);
		bb_strbuf_add(out, all && p->notes ? p->notes : "");
		bb_strbuf_add(out, "\nExamples:\n");
		for (int i = 0; i < BB_EXAMPLES; i++)
			bb_strbuf_addf(out, "  %s %s\n", p->name, p->examples[i]);
	} else if (about->help_markdown) {
		/* Without the rows of this file, which all programs share, and empty tables. */
		for (const struct bb_option_table *t = p->tables; t->rows; t++) {
			struct bb_strbuf text = {0};

			if (t->rows != bb_about_rows)
				bb_options_markdown(t, &text);
			if (text.length > 0)
				bb_strbuf_addf(out, "%s%s", out->length > 0 ? "\n" : "",
					       bb_strbuf_text(&text));
			out->failed |= text.failed;
			bb_strbuf_free(&text);
		}
	} else if (about->help_schema) {
		bb_json_init(&j, out, false);
		bb_json_add_object(&j, NULL);
		bb_json_add_string(&j, "program", p->name);
		bb_json_add_string(&j, "operands", p->operands);
		bb_json_add_string(&j, "brief", p->brief);
		bb_json_add_array(&j, "examples");
		for (int i = 0; i < BB_EXAMPLES; i++)
			bb_json_add_string(&j, NULL, p->examples[i]);
		bb_json_end(&j);
		bb_json_add_array(&j, "options");
		bb_options_json(p->tables, &j);
		bb_json_end(&j);
		bb_json_end(&j);
		bb_strbuf_add(out, "\n");
	} else {
		bb_strbuf_addf(out, "%s (busbench) " BB_VERSION "\n%s", p->name, bb_build_facts);
	}
}

/* ---- subjects -------------------------------------------------------------------------------- */

void bb_subject_tables(const struct bb_subject *subject, void *options, struct bb_about *about,
		       struct bb_option_table tables[BB_SUBJECT_LISTS + 1])
{
	int n = 0;

	for (; subject->rows[n]; n++)
		tables[n] = (struct bb_option_table){.rows = subject->rows[n], .target = options};
	tables[n++] = (struct bb_option_table){.rows = bb_about_rows, .target = about};
	tables[n] = (struct bb_option_table){.rows = NULL};
}

bb_status bb_subject_find(const struct bb_subject *all, const char *word,
			  const struct bb_subject **subject, struct bb_error *error)
{
	const char *names[16] = {NULL};
	char hint[BB_SUGGESTION];

	for (int i = 0; all[i].name; i++) {
		names[i] = all[i].name;
		*subject = &all[i];
		if (strcmp(word, all[i].name) == 0)
			return BB_OK;
	}
	return bb_fail(error, BB_EUSAGE, "%s: not a subject%s", word,
		       bb_suggest(hint, word, names));
}

void bb_subject_about(const char *program, const struct bb_subject *subject,
		      const struct bb_about *about, struct bb_strbuf *out)
{
	struct bb_option_table tables[BB_SUBJECT_LISTS + 1];
	struct bb_about_program p = {
		.operands = subject->operands, .brief = subject->brief, .tables = tables};
	char name[64];

	bb_subject_tables(subject, NULL, NULL, tables);
	snprintf(name, sizeof(name), "%s %s", program, subject->name);
	p.name = name;
	memcpy(p.examples, subject->examples, sizeof(p.examples));
	bb_about_add(about, &p, out);
}
