#include "core/table.h"

#include "core/array.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

int bb_table_limit(FILE *file)
{
	struct winsize size;

	if (isatty(fileno(file)) && ioctl(fileno(file), TIOCGWINSZ, &size) == 0 &&
	    size.ws_col > 0 && size.ws_col < BB_TABLE_LIMIT)
		return size.ws_col;
	return BB_TABLE_LIMIT;
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
	const int width = (int)strlen(text);

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
	t->has_units |= *unit != '\0';
}

void bb_table_key(struct bb_text_table *t)
{
	t->nkeys = t->ncolumns;
}

void bb_table_cell(struct bb_text_table *t, const char *text)
{
	const char *const shown = text ? text : "-";
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
	bb_table_cell(t, bb_strbuf_text(&text));
	t->text.failed |= bb_strbuf_failed(&text);
	bb_strbuf_free(&text);
}

/* ---- lines --------------------------------------------------------------------------- */

/* Characters of the columns from FIRST to END, each behind a space. */
static int table_width(const struct bb_text_table *t, size_t first, size_t end)
{
	int width = 0;

	for (size_t c = first; c < end; c++)
		width += 1 + t->columns[c].width;
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

static void table_add_cell(const struct bb_text_table *t, size_t c, size_t text,
			   struct bb_strbuf *out)
{
	const struct bb_table_column *column = &t->columns[c];

	bb_strbuf_addf(out, " %*s", column->left ? -column->width : column->width,
		       table_text(t, text));
}

/* One line of the keys and of the columns from FIRST to END, from the texts that AT finds. */
static void table_add_line(const struct bb_text_table *t, const char *mark, size_t first,
			   size_t end,
			   size_t (*at)(const struct bb_text_table *t, size_t row, size_t c),
			   size_t row, struct bb_strbuf *out)
{
	bb_strbuf_add(out, mark);
	for (size_t c = 0; c < t->nkeys; c++)
		table_add_cell(t, c, at(t, row, c), out);
	for (size_t c = first; c < end; c++)
		table_add_cell(t, c, at(t, row, c), out);
	while (out->length > 0 && out->text[out->length - 1] == ' ')
		out->text[--out->length] = '\0';
	bb_strbuf_add(out, "\n");
}

static size_t table_head_at(const struct bb_text_table *t, size_t row, size_t c)
{
	return row == 0 ? t->columns[c].head : t->columns[c].unit;
}

static size_t table_cell_at(const struct bb_text_table *t, size_t row, size_t c)
{
	return t->cells[row * t->ncolumns + c];
}

static void table_add_block(const struct bb_text_table *t, size_t first, size_t end,
			    struct bb_strbuf *out)
{
	for (size_t row = 0; row < 1 + (size_t)t->has_units && !t->headed; row++)
		table_add_line(t, "#", first, end, table_head_at, row, out);
	for (size_t row = 0; row < t->ncells / t->ncolumns; row++)
		table_add_line(t, t->mark ? t->mark : " ", first, end, table_cell_at, row, out);
}

static void table_forget_rows(struct bb_text_table *t)
{
	if (t->ncells > 0)
		t->text.length = t->cells[0];
	t->ncells = 0;
}

void bb_table_print(struct bb_text_table *t, struct bb_strbuf *out)
{
	const bool wide = !t->headed && bb_table_is_wide(t);
	const int left = table_limit(t) - 1 - table_width(t, 0, t->nkeys);
	size_t first = t->nkeys;

	out->failed |= t->text.failed;
	if (t->text.failed || t->ncolumns == 0)
		return;
	do {
		size_t end = first < t->ncolumns ? first + 1 : first;

		while (end < t->ncolumns && (!wide || table_width(t, first, end + 1) <= left))
			end++;
		if (first > t->nkeys)
			bb_strbuf_add(out, "#\n");
		table_add_block(t, first, end, out);
		first = end;
	} while (first < t->ncolumns);
	t->headed = !wide;
	table_forget_rows(t);
}

void bb_table_clear(struct bb_text_table *t)
{
	t->ncolumns = t->nkeys = t->ncells = 0;
	t->has_units = t->headed = false;
	bb_strbuf_clear(&t->text);
}

void bb_table_free(struct bb_text_table *t)
{
	free(t->columns);
	free(t->cells);
	bb_strbuf_free(&t->text);
}
