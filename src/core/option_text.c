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

	bb_strbuf_add(out, kind->expected);
	bb_strbuf_add(out, both ? " from " : " ");
	const size_t start = out->length;
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

/* Which rows are listed together. */
enum listed { USUAL, ALL_BUT_GPU, GPU_ONLY, ALL };

/* The rows of a program with certain tables, one after the other. */
struct listing {
	const struct bb_option_table *tables, *table; /* the first, and that of the row */
	enum listed listed;
	const struct bb_option *row; /* NULL: before the first of TABLE */
	const char *section;
	const char *head; /* its heading; NULL: none. GPU-only rows have one of their own */
};

static struct listing list_rows(const struct bb_option_table *tables, enum listed listed)
{
	return (struct listing){.tables = tables, .table = tables, .listed = listed};
}

/* Goes to the next row that is listed, and offered as its table declares it. False: there is none.
 */
static bool next_row(struct listing *l)
{
	while (l->table->rows) {
		bool listed;

		l->row = l->row ? l->row + 1 : l->table->rows;
		if (!l->row->name) {
			*l = (struct listing){
				.tables = l->tables, .table = l->table + 1, .listed = l->listed};
			continue;
		}
		l->section = l->row->section ? l->row->section : l->section;
		l->head = l->row->gpu_only ? "GPU only" : l->section;
		listed = l->listed == ALL     ? true
			 : l->listed == USUAL ? l->row->usual
					      : l->row->gpu_only == (l->listed == GPU_ONLY);
		if (listed && !bb_option_hidden(l->tables, l->table, l->row) &&
		    !bb_option_refused(l->table, l->row))
			return true;
	}
	return false;
}

/* "  -n, --iters N   help (one of 1 to 1000; default 20)" */
static void add_row(const struct bb_option *row, size_t indent, struct bb_strbuf *out)
{
	const char *name = bb_option_argument(row), *separator = " (";
	struct bb_strbuf text = {0};
	size_t column, start;

	if (row->key)
		bb_strbuf_addf(&text, "  -%c, --%s", row->key, row->name);
	else
		bb_strbuf_addf(&text, "      --%s", row->name);
	bb_strbuf_addf(&text, "%s%s", *name ? " " : "", name);
	column = text.length;
	bb_strbuf_add(out, bb_strbuf_text(&text));
	bb_strbuf_clear(&text);
	bb_strbuf_add(&text, row->help ? row->help : "");
	start = text.length;
	bb_strbuf_add(&text, separator);
	option_add_range(row, &text);
	if (text.length > start + 2)
		separator = "; ";
	else if (!text.failed) /* no range: remove the bracket */
		text.text[text.length = start] = '\0';
	if (row->initial && row->type != BB_OPT_FLAG)
		bb_strbuf_addf(&text, "%sdefault %s", separator,
			       *row->initial ? row->initial : "none");
	if (text.length > start)
		bb_strbuf_add(&text, ")");
	if (column + 2 > indent && text.length) {
		bb_strbuf_add(out, "\n");
		column = 0;
	}
	bb_strbuf_wrap(out, bb_strbuf_text(&text), (int)column, (int)indent,
		       bb_terminal_limit(stdout, HELP_WIDTH));
	out->failed |= text.failed;
	bb_strbuf_free(&text);
}

void bb_options_help(const struct bb_option_table *tables, bool all, struct bb_strbuf *out)
{
	const enum listed first = all ? ALL_BUT_GPU : USUAL, last = all ? GPU_ONLY : USUAL;
	const char *head = "";
	size_t width = 0; /* of the labels */

	for (struct listing l = list_rows(tables, all ? ALL : USUAL); next_row(&l);) {
		const char *name = bb_option_argument(l.row);
		const size_t length = 8 + strlen(l.row->name) + (*name ? 1 + strlen(name) : 0);

		width = length > width && length <= LABEL_MAX ? length : width;
	}
	for (enum listed listed = first; listed <= last; listed++)
		for (struct listing l = list_rows(tables, listed); next_row(&l);) {
			if (all && l.head && strcmp(l.head, head) != 0)
				bb_strbuf_addf(out, "\n%s:\n", head = l.head);
			add_row(l.row, width + 2, out);
		}
}

void bb_options_markdown(const struct bb_option_table *table, struct bb_strbuf *out)
{
	const struct bb_option_table tables[] = {*table, {NULL, NULL, NULL}};
	const char *head = "";
	bool begun = false;

	for (enum listed listed = ALL_BUT_GPU; listed <= GPU_ONLY; listed++)
		for (struct listing l = list_rows(tables, listed); next_row(&l);) {
			const struct bb_option *row = l.row;
			const char *name = bb_option_argument(row);
			const bool fresh = l.head && strcmp(l.head, head) != 0;
			struct bb_strbuf range = {0};

			if (fresh)
				bb_strbuf_addf(out, "%s### %s\n\n", begun ? "\n" : "",
					       head = l.head);
			if (fresh || !begun)
				bb_strbuf_add(out, "| Option | Default | Values | Meaning |\n"
						   "| --- | --- | --- | --- |\n");
			begun = true;
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
}

#define KIND_NAME(kind, ...) #kind,
static const char *const kind_names[] = {BB_OPTION_KINDS(KIND_NAME)};

void bb_options_json(const struct bb_option_table *tables, struct bb_json *j)
{
	for (struct listing l = list_rows(tables, ALL); next_row(&l);) {
		const struct bb_option *row = l.row;
		const char key[] = {row->key, '\0'};
		struct bb_strbuf range = {0};

		bb_json_add_object(j, NULL);
		bb_json_add_string(j, "section", l.head);
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
			bb_json_add_string(j, NULL, bb_option_choice(row, i));
		bb_json_end(j);
		bb_json_end(j);
	}
}
