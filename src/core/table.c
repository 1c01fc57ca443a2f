#include "core/table.h"

#include "core/array.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define PROSE 24 /* columns that a last column of prose needs at least */
#define RANGE_TEXT 64

enum { HEADS, UNITS, ROWS }; /* lines; as many follow ROWS as there are rows */

int bb_terminal_limit(FILE *file, int most)
{
	struct winsize size;

	if (isatty(fileno(file)) && ioctl(fileno(file), TIOCGWINSZ, &size) == 0 &&
	    size.ws_col > 0 && size.ws_col < most)
		return size.ws_col;
	return most;
}

int bb_table_limit(FILE *file)
{
	return bb_terminal_limit(file, BB_TABLE_LIMIT);
}

int bb_fold_limit(FILE *file)
{
	return isatty(fileno(file)) ? bb_table_limit(file) : INT_MAX;
}

/* ---- columns and cells --------------------------------------------------------------- */

/* Where the copy of TEXT is. */
static size_t table_keep(struct bb_text_table *t, const char *text)
{
	const size_t at = t->text.length;

	bb_strbuf_add_bytes(&t->text, text, strlen(text) + 1);
	return at;
}

static const char *table_text(const struct bb_text_table *t, size_t at)
{
	return t->text.text + at;
}

static void table_widen(struct bb_table_column *column, const char *text)
{
	const int width = bb_strbuf_columns(text, strlen(text));

	column->width = width > column->width ? width : column->width;
}

void bb_table_column(struct bb_text_table *t, const char *head, const char *unit, int width)
{
	struct bb_table_column *column = BB_ARRAY_ADD(t->columns, t->ncolumns, t->column_room);

	if (!column) {
		t->text.failed = true;
		return;
	}
	*column = (struct bb_table_column){
		.head = table_keep(t, head), .width = abs(width), .left = width < 0};
	column->unit = table_keep(t, unit);
	table_widen(column, head);
	table_widen(column, unit);
}

void bb_table_columns(struct bb_text_table *t, const struct bb_table_head *heads, size_t nkeys)
{
	for (; heads->head; heads++)
		bb_table_column(t, heads->head, heads->unit, heads->width);
	t->nkeys = nkeys;
}

void bb_table_key(struct bb_text_table *t)
{
	t->nkeys = t->ncolumns;
}

void bb_table_cell(struct bb_text_table *t, const char *text)
{
	const char *const shown = text ? text : "-";

	if (t->ncells == 0)
		t->rows_at = t->text.length;
	size_t *cell = t->ncolumns ? BB_ARRAY_ADD(t->cells, t->ncells, t->cell_room) : NULL;
	if (!cell) {
		t->text.failed = true;
		return;
	}
	*cell = table_keep(t, shown);
	table_widen(&t->columns[(t->ncells - 1) % t->ncolumns], shown);
}

void bb_table_cellf(struct bb_text_table *t, const char *format, ...)
{
	struct bb_strbuf text = {0};
	va_list args;

	va_start(args, format);
	bb_strbuf_vaddf(&text, format, args);
	va_end(args);
	for (char *cell = text.text, *next; cell; cell = next) {
		next = strchr(cell, '\t');
		if (next)
			*next++ = '\0';
		bb_table_cell(t, cell);
	}
	t->text.failed |= bb_strbuf_failed(&text);
	bb_strbuf_free(&text);
}

/* ---- rows ---------------------------------------------------------------------------- */

static size_t table_nrows(const struct bb_text_table *t)
{
	return t->ncells / t->ncolumns;
}

static const char *table_cell_text(const struct bb_text_table *t, size_t row, size_t c)
{
	return table_text(t, t->cells[row * t->ncolumns + c]);
}

static void table_merge_rows(struct bb_text_table *t)
{
	const size_t one = t->merges - 1, n = table_nrows(t);
	char range[RANGE_TEXT];
	size_t kept = 0;

	for (size_t first = 0, end; first < n; first = end, kept++) {
		size_t *row = t->cells + first * t->ncolumns;

		for (end = first + 1; end < n; end++) {
			size_t c = 0;

			/* Rows that are equal in all columns but ONE. */
			while (c < t->ncolumns &&
			       (c == one || strcmp(table_cell_text(t, first, c),
						   table_cell_text(t, end, c)) == 0))
				c++;
			if (c < t->ncolumns)
				break;
		}
		snprintf(range, sizeof(range), "%s-%s", table_text(t, row[one]),
			 table_cell_text(t, end - 1, one));
		if (end - first > 1) {
			row[one] = table_keep(t, range);
			table_widen(&t->columns[one], range);
		}
		memmove(t->cells + kept * t->ncolumns, row, t->ncolumns * sizeof(*row));
	}
	t->ncells = kept * t->ncolumns;
}

/* ---- lines --------------------------------------------------------------------------- */

/* Does column C hold prose? */
static bool table_is_prose(const struct bb_text_table *t, size_t c)
{
	return c + 1 == t->ncolumns && t->columns[c].left && !(t->mark && *t->mark == '#');
}

/* Characters of the columns from FIRST to END, each behind a space. */
static int table_width(const struct bb_text_table *t, size_t first, size_t end)
{
	int width = 0;

	for (size_t c = first; c < end; c++) {
		const struct bb_table_column *column = &t->columns[c];

		if (!column->dropped)
			width +=
				1 + (table_is_prose(t, c) && column->width > PROSE ? PROSE
										   : column->width);
	}
	return width;
}

static int table_limit(const struct bb_text_table *t)
{
	return t->limit > 0 ? t->limit : BB_TABLE_LIMIT;
}

bool bb_table_is_wide(const struct bb_text_table *t)
{
	return 1 + table_width(t, 0, t->ncolumns) > table_limit(t);
}

/* Number LINE of the heads, the units and the rows: of the keys and the columns from FIRST to END.
 */
static void table_add_line(const struct bb_text_table *t, size_t line, size_t first, size_t end,
			   struct bb_strbuf *out)
{
	const char *mark = line < ROWS ? "#" : t->mark ? t->mark : " ";
	int at = bb_strbuf_columns(mark, strlen(mark));

	bb_strbuf_add(out, mark);
	for (size_t c = 0; c < end; c++) {
		const struct bb_table_column *column = &t->columns[c];
		const char *text =
			table_text(t, line == HEADS   ? column->head
				      : line == UNITS ? column->unit
						      : t->cells[(line - ROWS) * t->ncolumns + c]);
		const int blanks = column->width - bb_strbuf_columns(text, strlen(text));

		if (column->dropped || (c >= t->nkeys && c < first))
			continue;
		bb_strbuf_addf(out, "%*s", column->left ? 1 : 1 + blanks, "");
		if (table_is_prose(t, c)) {
			bb_strbuf_wrap(out, text, at + 1, at + 1, table_limit(t));
			out->length -= !out->failed; /* its line break */
		} else {
			bb_strbuf_addf(out, "%s%*s", text, column->left ? blanks : 0, "");
		}
		at += 1 + column->width;
	}
	while (out->length > 0 && out->text[out->length - 1] == ' ')
		out->length--;
	bb_strbuf_add(out, "\n");
}

/* ---- columns that go ----------------------------------------------------------------- */

static bool table_is_unknown(const char *cell)
{
	return !*cell || strcmp(cell, "-") == 0 || strcmp(cell, "N/A") == 0;
}

/* Drop the columns that are EMPTY, or those with the same cell in all rows until the table fits,
   and name them in a line: "step 2.5 ms", or "step (ms)" if they are empty. */
static void table_drop_columns(struct bb_text_table *t, bool empty, struct bb_strbuf *out)
{
	const char *before = empty ? "# Empty: " : "# In every row: ";
	const size_t from = out->length;

	for (size_t c = 0; c < t->ncolumns && (empty || bb_table_is_wide(t)); c++) {
		const char *head = table_text(t, t->columns[c].head);
		const char *unit = table_text(t, t->columns[c].unit);
		const char *value = table_cell_text(t, 0, c);
		/* A single row has nothing to compare. */
		bool goes = empty ? table_is_unknown(value) : table_nrows(t) > 1;
		const bool bracketed = !empty && *unit == '(';

		for (size_t row = 1; row < table_nrows(t) && goes; row++) {
			const char *cell = table_cell_text(t, row, c);

			goes = empty ? table_is_unknown(cell) : strcmp(value, cell) == 0;
		}
		if (t->columns[c].dropped || !goes)
			continue;
		t->columns[c].dropped = true;
		if (!*head && !*unit)
			continue;
		/* A column without a head is named by its unit. */
		bb_strbuf_addf(out, "%s%s", before, *head ? head : unit);
		if (!empty)
			bb_strbuf_addf(out, " %s", value);
		if (*head && *unit)
			bb_strbuf_addf(out, " %.*s", (int)strlen(unit) - 2 * bracketed,
				       unit + bracketed);
		before = ", ";
	}
	bb_strbuf_add(out, *before == ',' ? "\n" : "");
	bb_strbuf_fold(out, from, table_limit(t));
}

void bb_table_print(struct bb_text_table *t, struct bb_strbuf *out)
{
	size_t first = t->nkeys;
	bool wide, shrinks;

	out->failed |= t->text.failed;
	if (t->text.failed || t->ncolumns == 0)
		return;
	if (t->merges)
		table_merge_rows(t);
	shrinks = !t->headed && bb_table_is_wide(t);
	/* All rows are here: no column needs more than its texts. */
	for (size_t c = 0; c < t->ncolumns && shrinks; c++) {
		t->columns[c].width = 0;
		table_widen(&t->columns[c], table_text(t, t->columns[c].head));
		table_widen(&t->columns[c], table_text(t, t->columns[c].unit));
		for (size_t row = 0; row < table_nrows(t); row++)
			table_widen(&t->columns[c], table_cell_text(t, row, c));
	}
	for (int empty = 1; empty >= 0 && t->ncells > 0; empty--)
		if (!t->headed && bb_table_is_wide(t))
			table_drop_columns(t, empty == 1, out);
	wide = !t->headed && bb_table_is_wide(t);
	const int left = table_limit(t) - 1 - table_width(t, 0, t->nkeys);
	do {
		size_t end = first < t->ncolumns ? first + 1 : first;
		bool units = false;

		while (end < t->ncolumns &&
		       (!wide || t->columns[end].dropped || table_width(t, first, end + 1) <= left))
			end++;
		if (first > t->nkeys)
			bb_strbuf_add(out, "#\n");
		for (size_t c = 0; c < end; c++)
			units |= (c < t->nkeys || c >= first) && !t->columns[c].dropped &&
				 *table_text(t, t->columns[c].unit);
		for (size_t line = t->headed ? ROWS : HEADS; line < ROWS + table_nrows(t); line++)
			if (line != UNITS || units)
				table_add_line(t, line, first, end, out);
		first = end;
	} while (first < t->ncolumns);
	/* Further rows may differ in what these had in common. */
	t->headed = !wide;
	for (size_t c = 0; c < t->ncolumns; c++) {
		t->headed &= !t->columns[c].dropped;
		t->columns[c].dropped = false;
	}
	if (t->ncells > 0)
		t->text.length = t->rows_at;
	t->ncells = 0;
}

void bb_table_clear(struct bb_text_table *t)
{
	t->ncolumns = t->nkeys = t->ncells = 0;
	t->headed = false;
	bb_strbuf_clear(&t->text);
}

void bb_table_free(struct bb_text_table *t)
{
	free(t->columns);
	free(t->cells);
	bb_strbuf_free(&t->text);
}
