#include "core/about.h"

#include "core/table.h"
#include "core/version.h"

#define WIDTH 100

#define BB_OPTIONS struct bb_about
const struct bb_option bb_about_rows[] = BB_OPTION_ROWS(BB_ABOUT_OPTIONS);

bool bb_about_requested(const struct bb_about *a)
{
	return a->version || a->help || a->help_all || a->help_markdown || a->help_schema;
}

static void add_help(const struct bb_about_program *p, bool all, struct bb_strbuf *out)
{
	bb_strbuf_addf(out, "Usage: %s%s%s [OPTION]...\n", p->name, p->operands ? " " : "",
		       p->operands ? p->operands : "");
	bb_strbuf_wrap(out, p->brief, 0, 0, bb_terminal_limit(stdout, WIDTH));
	if (!all)
		bb_strbuf_add(out, "\n");
	bb_options_help(p->tables, all, out);
	if (all && p->notes)
		bb_strbuf_add(out, p->notes);
	bb_strbuf_add(out, "\nExamples:\n");
	for (int i = 0; i < BB_EXAMPLES; i++)
		bb_strbuf_addf(out, "  %s %s\n", p->name, p->examples[i]);
}

/* Without the rows of this file, which all programs share, and without empty tables. */
static void add_markdown(const struct bb_about_program *p, struct bb_strbuf *out)
{
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
}

static void add_schema(const struct bb_about_program *p, struct bb_strbuf *out)
{
	struct bb_json j;

	bb_json_init(&j, out, false);
	bb_json_object(&j);
	bb_json_add_string(&j, "program", p->name);
	bb_json_add_string(&j, "operands", p->operands);
	bb_json_add_string(&j, "brief", p->brief);
	bb_json_add_array(&j, "examples");
	for (int i = 0; i < BB_EXAMPLES; i++)
		bb_json_string(&j, p->examples[i]);
	bb_json_end(&j);
	bb_json_add_array(&j, "options");
	bb_options_json(p->tables, &j);
	bb_json_end(&j);
	bb_json_end(&j);
	bb_strbuf_add(out, "\n");
}

void bb_about_add(const struct bb_about *about, const struct bb_about_program *program,
		  struct bb_strbuf *out)
{
	if (about->help || about->help_all)
		add_help(program, about->help_all, out);
	else if (about->help_markdown)
		add_markdown(program, out);
	else if (about->help_schema)
		add_schema(program, out);
	else
		bb_strbuf_addf(out, "%s (busbench) " BB_VERSION "\n%s", program->name,
			       bb_build_facts);
}
