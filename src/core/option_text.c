#include "core/option_text.h"
#include "core/units.h"

#include <inttypes.h>
#include <string.h>

#define HELP_WIDTH 100
#define LABEL_MAX 32 /* a longer label has its help on the next line */

#define MANY_CHOICES 16 /* so many are not listed */

#define KIND(kind, type, argument, is, expected, examples)                                         \
	[BB_OPT_##kind] = {sizeof(type), argument, is, expected, examples},
const struct bb_option_kind bb_option_kinds[BB_NOPTION_TYPES] = {BB_OPTION_KINDS(KIND)};

const char *bb_option_choice(const struct bb_option *row, int index)
{
	return row->choice ? row->choice(index) : row->choices[index];
}

bool bb_option_hidden(const struct bb_option_table *tables, const struct bb_option_table *at,
		      const struct bb_option *row)
{
	for (; tables != at; tables++)
		for (const struct bb_option *r = tables->rows; r->name; r++)
			if (strcmp(r->name, row->name) == 0)
				return true;
	return false;
}

const char *bb_option_refused(const struct bb_option_table *table, const struct bb_option *row)
{
	const size_t length = strlen(row->name);

	for (const struct bb_option_refusal *r = table->refused; r && r->names; r++)
		for (const char *at = strstr(r->names, row->name); at;
		     at = strstr(at + 1, row->name))
			if ((at == r->names || at[-1] == ' ') &&
			    (at[length] == ' ' || at[length] == '\0'))
				return r->why;
	return NULL;
}

/* Are its values, or the items of its list, numbers with limits? */
static bool has_limits(const struct bb_option *row)
{
	return !bb_option_has_choices(row) && (row->min || row->max);
}

bool bb_option_has_min(const struct bb_option *row)
{
	const bool is_signed = row->type == BB_OPT_INT || row->type == BB_OPT_NUMBER ||
			       row->type == BB_OPT_INTS || row->type == BB_OPT_NUMBERS;

	return has_limits(row) && (is_signed || row->min > 0 || row->max > 0);
}

bool bb_option_has_max(const struct bb_option *row)
{
	return has_limits(row) && row->max >= row->min && row->max < INT64_MAX;
}

/* In the largest unit that divides VALUE, so that the option accepts the text. */
static void add_duration(struct bb_strbuf *out, int64_t value)
{
	static const struct {
		const char *name;
		int64_t ns;
	} units[] = {
		{"h", 3600000000000}, {"m", 60000000000}, {"s", 1000000000},
		{"ms", 1000000},      {"us", 1000},       {"ns", 1},
	};
	size_t i = 0;

	if (!value) {
		bb_strbuf_add(out, "0");
		return;
	}
	while (value % units[i].ns)
		i++;
	bb_strbuf_addf(out, "%" PRId64 "%s", value / units[i].ns, units[i].name);
}

static void add_limit(const struct bb_option *row, int64_t value, struct bb_strbuf *out)
{
	char text[BB_UNIT_TEXT];

	if (row->type == BB_OPT_SIZE || row->type == BB_OPT_SIZES)
		bb_strbuf_add(out, bb_format_size(text, (uint64_t)value));
	else if (row->type == BB_OPT_COUNT)
		bb_strbuf_add(out, bb_format_count(text, (uint64_t)value));
	else if (row->type == BB_OPT_DURATION)
		add_duration(out, value);
	else
		bb_strbuf_addf(out, "%" PRId64, value);
}

static void add_choices(const struct bb_option *row, struct bb_strbuf *out)
{
	int n = 0;

	while (bb_option_choice(row, n))
		n++;
	for (int i = 0; n < MANY_CHOICES && i < n; i++)
		bb_strbuf_addf(out, "%s%s", i ? ", " : "", bb_option_choice(row, i));
	if (n >= MANY_CHOICES)
		bb_strbuf_add(out, "see --list");
}

void bb_option_add_range(const struct bb_option *row, struct bb_strbuf *out)
{
	bool above = bb_option_has_min(row), below = bb_option_has_max(row);

	if (bb_option_has_choices(row)) {
		add_choices(row, out);
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
	bb_option_add_range(row, out);
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

static void add_label(const struct bb_option *row, struct bb_strbuf *out)
{
	const char *name = bb_option_argument(row);

	if (row->key)
		bb_strbuf_addf(out, "  -%c, --%s", row->key, row->name);
	else
		bb_strbuf_addf(out, "      --%s", row->name);
	bb_strbuf_addf(out, "%s%s", *name ? " " : "", name);
}

/* "help (one of 1 to 1000; default 20)" */
static void add_meaning(const struct bb_option *row, struct bb_strbuf *out)
{
	const char *separator = " (";
	size_t start;

	bb_strbuf_add(out, row->help ? row->help : "");
	start = out->length;
	bb_strbuf_add(out, separator);
	bb_option_add_range(row, out);
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

/* Is ROW of TABLE, one of TABLES, in the help? */
static bool is_shown(const struct bb_option_table *tables, const struct bb_option_table *table,
		     const struct bb_option *row)
{
	return !bb_option_hidden(tables, table, row) && !bb_option_refused(table, row);
}

static size_t label_width(const struct bb_option_table *tables)
{
	size_t width = 0;

	for (const struct bb_option_table *t = tables; t->rows; t++)
		for (const struct bb_option *row = t->rows; row->name; row++) {
			const char *name = bb_option_argument(row);
			size_t length = 8 + strlen(row->name) + (*name ? 1 + strlen(name) : 0);

			if (length > width && length <= LABEL_MAX && is_shown(tables, t, row))
				width = length;
		}
	return width;
}

static void add_rows(const struct bb_option_table *tables, const struct bb_option_table *table,
		     size_t indent, struct bb_strbuf *out)
{
	const char *section = NULL; /* whose heading is still to come */
	struct bb_strbuf text = {0};

	for (const struct bb_option *rows = table->rows; rows->name; rows++) {
		size_t column;

		section = rows->section ? rows->section : section;
		if (!is_shown(tables, table, rows))
			continue;
		if (section)
			bb_strbuf_addf(out, "\n%s:\n", section);
		section = NULL;
		bb_strbuf_clear(&text);
		add_label(rows, &text);
		column = text.length;
		bb_strbuf_add(out, bb_strbuf_text(&text));
		bb_strbuf_clear(&text);
		add_meaning(rows, &text);
		if (column + 2 > indent && text.length) {
			bb_strbuf_add(out, "\n");
			column = 0;
		}
		bb_strbuf_wrap(out, bb_strbuf_text(&text), (int)column, (int)indent, HELP_WIDTH);
	}
	out->failed |= text.failed;
	bb_strbuf_free(&text);
}

void bb_options_help(const struct bb_option_table *tables, const char *program, const char *brief,
		     struct bb_strbuf *out)
{
	size_t indent = label_width(tables) + 2;

	bb_strbuf_addf(out, "Usage: %s [OPTION]...\n", program);
	if (brief)
		bb_strbuf_wrap(out, brief, 0, 0, HELP_WIDTH);
	if (tables->rows && tables->rows->name && !tables->rows->section)
		bb_strbuf_add(out, "\n");
	for (const struct bb_option_table *t = tables; t->rows; t++)
		add_rows(tables, t, indent, out);
}

/* A bar would end the cell. */
static void add_cell(struct bb_strbuf *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '|')
			bb_strbuf_add(out, "\\");
		bb_strbuf_add_bytes(out, text, 1);
	}
}

static void add_markdown_row(const struct bb_option *row, struct bb_strbuf *out)
{
	const char *name = bb_option_argument(row);
	struct bb_strbuf range = {0};

	bb_strbuf_add(out, "| ");
	if (row->key)
		bb_strbuf_addf(out, "`-%c`, ", row->key);
	bb_strbuf_addf(out, "`--%s%s", row->name, *name ? " " : "");
	add_cell(out, name);
	bb_strbuf_add(out, "` | ");
	if (row->initial && *row->initial && row->type != BB_OPT_FLAG) {
		bb_strbuf_add(out, "`");
		add_cell(out, row->initial);
		bb_strbuf_add(out, "`");
	}
	bb_strbuf_add(out, " | ");
	bb_option_add_range(row, &range);
	add_cell(out, bb_strbuf_text(&range));
	bb_strbuf_add(out, " | ");
	add_cell(out, row->help ? row->help : "");
	bb_strbuf_add(out, " |\n");
	out->failed |= range.failed;
	bb_strbuf_free(&range);
}

void bb_options_markdown(const struct bb_option_table *table, struct bb_strbuf *out)
{
	static const char header[] = "| Option | Default | Values | Meaning |\n"
				     "| --- | --- | --- | --- |\n";
	const char *section = NULL; /* whose heading is still to come */
	bool begun = false;

	for (const struct bb_option *row = table->rows; row->name; row++) {
		section = row->section ? row->section : section;
		if (bb_option_refused(table, row))
			continue;
		if (section)
			bb_strbuf_addf(out, "%s### %s\n\n", begun ? "\n" : "", section);
		if (section || !begun)
			bb_strbuf_add(out, header);
		add_markdown_row(row, out);
		section = NULL;
		begun = true;
	}
}
