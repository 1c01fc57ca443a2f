#include "core/option.h"
#include "core/table.h"
#include "core/units.h"

#include <inttypes.h>
#include <string.h>

#define HELP_WIDTH 100
#define LABEL_MAX 32 /* a longer label has its help on the next line */

#define MANY_CHOICES 16 /* so many are not listed */

static void add_limit(const struct bb_option *row, int64_t value, struct bb_strbuf *out)
{
	static const struct {
		const char *name;
		int64_t ns;
	} units[] = {
		{"h", 3600000000000}, {"m", 60000000000}, {"s", 1000000000},
		{"ms", 1000000},      {"us", 1000},       {"ns", 1},
	};
	char text[BB_UNIT_TEXT];
	size_t i = 0;

	/* The largest unit that divides VALUE, so that the option accepts the text. */
	while (row->type == BB_OPT_DURATION && value && value % units[i].ns)
		i++;
	if (row->type == BB_OPT_SIZE || row->type == BB_OPT_SIZES)
		bb_strbuf_add(out, bb_format_size(text, (uint64_t)value));
	else if (row->type == BB_OPT_COUNT)
		bb_strbuf_add(out, bb_format_count(text, (uint64_t)value));
	else if (row->type == BB_OPT_DURATION && value)
		bb_strbuf_addf(out, "%" PRId64 "%s", value / units[i].ns, units[i].name);
	else
		bb_strbuf_addf(out, "%" PRId64, value);
}

/* Append the valid values: "1 to 1000", "at least 4", "ring, tree"; nothing if any will do. */
static void option_add_range(const struct bb_option *row, struct bb_strbuf *out)
{
	bool above = bb_option_has_min(row), below = bb_option_has_max(row);
	int n = 0;

	if (row->type == BB_OPT_STRING) {
		return;
	} else if (bb_option_has_choices(row)) {
		while (bb_option_choice(row, n))
			n++;
		for (int i = 0; n < MANY_CHOICES && i < n; i++)
			bb_strbuf_addf(out, "%s%s", i ? ", " : "", bb_option_choice(row, i));
		if (n >= MANY_CHOICES)
			bb_strbuf_add(out, "see --list");
	} else if (row->type == BB_OPT_PERCENT) {
		bb_strbuf_add(out, "above 0% to 100%");
	} else if (above && below) {
		add_limit(row, row->min, out);
		bb_strbuf_add(out, " to ");
		add_limit(row, row->max, out);
	} else if (above || below) {
		bb_strbuf_add(out, above ? "at least " : "at most ");
		add_limit(row, above ? row->min : row->max, out);
	}
}

void bb_option_add_expected(const struct bb_option *row, struct bb_strbuf *out)
{
	const struct bb_option_kind *kind = &bb_option_kinds[row->type];
	const bool both = bb_option_has_min(row) && bb_option_has_max(row);
	size_t start;

	bb_strbuf_add(out, kind->expected);
	bb_strbuf_add(out, both ? " from " : " ");
	start = out->length;
	option_add_range(row, out);
	if (out->length == start && !out->failed)
		out->text[--out->length] = '\0'; /* no range: remove the blank */
	if (row->zero)
		bb_strbuf_addf(out, " or %s", row->zero);
	bb_strbuf_add(out, kind->examples);
	if (row->port)
		bb_strbuf_add(out, " or 100Gb/s,2us,port");
	if (bb_option_is_list(row) && !bb_option_has_choices(row) && row->initial)
		bb_strbuf_addf(out, ", such as %s", row->initial);
}

const char *bb_option_argument(const struct bb_option *row)
{
	return row->argument && row->type != BB_OPT_FLAG ? row->argument
							 : bb_option_kinds[row->type].argument;
}

/* "help (one of 1 to 1000; default 20)" */
static void add_meaning(const struct bb_option *row, struct bb_strbuf *out)
{
	const char *separator = " (";
	size_t start;

	bb_strbuf_add(out, row->help ? row->help : "");
	start = out->length;
	bb_strbuf_add(out, separator);
	option_add_range(row, out);
	if (out->length > start + 2)
		separator = "; ";
	else if (!out->failed) /* no range: remove the bracket */
		out->text[out->length = start] = '\0';
	if (row->initial && row->type != BB_OPT_FLAG)
		bb_strbuf_addf(out, "%sdefault %s", separator,
			       *row->initial ? row->initial : "none");
	if (out->length > start)
		bb_strbuf_add(out, ")");
}

/* Which rows are listed together. */
enum listed { USUAL, ALL_BUT_GPU, GPU_ONLY };

static bool is_listed(const struct bb_option *row, enum listed listed)
{
	return listed == USUAL ? row->usual : row->gpu_only == (listed == GPU_ONLY);
}

/* Does the program with TABLES, of which TABLE is one, have ROW as that table declares it? */
static bool is_offered(const struct bb_option_table *tables, const struct bb_option_table *table,
		       const struct bb_option *row)
{
	return !bb_option_hidden(tables, table, row) && !bb_option_refused(table, row);
}

static size_t label_width(const struct bb_option_table *tables, bool all)
{
	size_t width = 0;

	for (const struct bb_option_table *t = tables; t->rows; t++)
		for (const struct bb_option *row = t->rows; row->name; row++) {
			const char *name = bb_option_argument(row);
			size_t length = 8 + strlen(row->name) + (*name ? 1 + strlen(name) : 0);

			if (length > width && length <= LABEL_MAX && (all || row->usual) &&
			    is_offered(tables, t, row))
				width = length;
		}
	return width;
}

static void add_row(const struct bb_option *row, size_t indent, struct bb_strbuf *out)
{
	const char *name = bb_option_argument(row);
	struct bb_strbuf text = {0};
	size_t column;

	if (row->key)
		bb_strbuf_addf(&text, "  -%c, --%s", row->key, row->name);
	else
		bb_strbuf_addf(&text, "      --%s", row->name);
	bb_strbuf_addf(&text, "%s%s", *name ? " " : "", name);
	column = text.length;
	bb_strbuf_add(out, bb_strbuf_text(&text));
	bb_strbuf_clear(&text);
	add_meaning(row, &text);
	if (column + 2 > indent && text.length) {
		bb_strbuf_add(out, "\n");
		column = 0;
	}
	bb_strbuf_wrap(out, bb_strbuf_text(&text), (int)column, (int)indent,
		       bb_terminal_limit(stdout, HELP_WIDTH));
	out->failed |= text.failed;
	bb_strbuf_free(&text);
}

/* The heading of ROW, whose table had *SECTION before it. GPU-only rows have one of their own. */
static const char *heading(const struct bb_option *row, const char **section)
{
	*section = row->section ? row->section : *section;
	return row->gpu_only ? "GPU only" : *section;
}

static void add_rows(const struct bb_option_table *tables, enum listed listed, size_t indent,
		     struct bb_strbuf *out)
{
	const char *last = ""; /* heading */

	for (const struct bb_option_table *t = tables; t->rows; t++) {
		const char *section = NULL;

		for (const struct bb_option *row = t->rows; row->name; row++) {
			const char *head = heading(row, &section);

			if (!is_listed(row, listed) || !is_offered(tables, t, row))
				continue;
			if (listed != USUAL && head && strcmp(head, last) != 0)
				bb_strbuf_addf(out, "\n%s:\n", last = head);
			add_row(row, indent, out);
		}
	}
}

void bb_options_help(const struct bb_option_table *tables, bool all, struct bb_strbuf *out)
{
	const size_t indent = label_width(tables, all) + 2;

	if (!all) {
		add_rows(tables, USUAL, indent, out);
		return;
	}
	add_rows(tables, ALL_BUT_GPU, indent, out);
	add_rows(tables, GPU_ONLY, indent, out);
}

static void add_markdown_row(const struct bb_option *row, struct bb_strbuf *out)
{
	const char *name = bb_option_argument(row);
	struct bb_strbuf range = {0};

	bb_strbuf_add(out, "| ");
	if (row->key)
		bb_strbuf_addf(out, "`-%c`, ", row->key);
	bb_strbuf_addf(out, "`--%s%s", row->name, *name ? " " : "");
	bb_strbuf_markdown(out, name);
	bb_strbuf_add(out, "` | ");
	if (row->initial && *row->initial && row->type != BB_OPT_FLAG) {
		bb_strbuf_add(out, "`");
		bb_strbuf_markdown(out, row->initial);
		bb_strbuf_add(out, "`");
	}
	bb_strbuf_add(out, " | ");
	option_add_range(row, &range);
	bb_strbuf_markdown(out, bb_strbuf_text(&range));
	bb_strbuf_add(out, " | ");
	bb_strbuf_markdown(out, row->help ? row->help : "");
	bb_strbuf_add(out, " |\n");
	out->failed |= range.failed;
	bb_strbuf_free(&range);
}

static void add_markdown_rows(const struct bb_option_table *table, enum listed listed, bool *begun,
			      struct bb_strbuf *out)
{
	static const char header[] = "| Option | Default | Values | Meaning |\n"
				     "| --- | --- | --- | --- |\n";
	const char *section = NULL, *last = "";

	for (const struct bb_option *row = table->rows; row->name; row++) {
		const char *head = heading(row, &section);
		const bool fresh = head && strcmp(head, last) != 0;

		if (!is_listed(row, listed) || bb_option_refused(table, row))
			continue;
		if (fresh)
			bb_strbuf_addf(out, "%s### %s\n\n", *begun ? "\n" : "", last = head);
		if (fresh || !*begun)
			bb_strbuf_add(out, header);
		add_markdown_row(row, out);
		*begun = true;
	}
}

void bb_options_markdown(const struct bb_option_table *table, struct bb_strbuf *out)
{
	bool begun = false;

	add_markdown_rows(table, ALL_BUT_GPU, &begun, out);
	add_markdown_rows(table, GPU_ONLY, &begun, out);
}

#define KIND_NAME(kind, ...) #kind,
static const char *const kind_names[] = {BB_OPTION_KINDS(KIND_NAME)};

static void add_json_row(const struct bb_option *row, const char *head, struct bb_json *j)
{
	const char key[] = {row->key, '\0'};
	struct bb_strbuf range = {0};

	bb_json_object(j);
	bb_json_add_string(j, "section", head);
	bb_json_add_string(j, "name", row->name);
	bb_json_add_string(j, "key", row->key ? key : NULL);
	bb_json_add_string(j, "type", kind_names[row->type]);
	bb_json_add_string(j, "argument", bb_option_argument(row));
	bb_json_add_string(j, "default", row->type == BB_OPT_FLAG ? NULL : row->initial);
	bb_json_add_string(j, "help", row->help);
	option_add_range(row, &range);
	bb_json_add_string(j, "values", bb_strbuf_text(&range));
	j->out->failed |= range.failed;
	bb_strbuf_free(&range);
	if (bb_option_has_min(row))
		bb_json_add_int(j, "min", row->min);
	if (bb_option_has_max(row))
		bb_json_add_int(j, "max", row->max);
	bb_json_add_string(j, "zero", row->zero);
	bb_json_add_bool(j, "usual", row->usual);
	bb_json_add_bool(j, "gpu_only", row->gpu_only);
	bb_json_add_array(j, "choices");
	for (int i = 0; bb_option_has_choices(row) && bb_option_choice(row, i); i++)
		bb_json_string(j, bb_option_choice(row, i));
	bb_json_end(j);
	bb_json_end(j);
}

void bb_options_json(const struct bb_option_table *tables, struct bb_json *json)
{
	for (const struct bb_option_table *t = tables; t->rows; t++) {
		const char *section = NULL;

		for (const struct bb_option *row = t->rows; row->name; row++) {
			const char *head = heading(row, &section);

			if (is_offered(tables, t, row))
				add_json_row(row, head, json);
		}
	}
}
