/*
 * sink_table.c - records as tables of text: a row for each record of a kind that has columns.
 */
#include "harness/results/sink.h"

#include "core/table.h"

#include <stdlib.h>
#include <string.h>

#define COLUMNS 32 /* of a table, at most */

struct table {
	struct bb_sink sink;
	const struct bb_record_kind *kind; /* of the rows; NULL: there was none yet */
	struct bb_text_table rows;
	uint32_t lacks; /* columns, by their number among the fields, that the first row lacks */
	bool waits;     /* rows that merge or are too wide for one line are printed at the end */
};

/* ---- rows -------------------------------------------------------------------------------- */

/* TEXT = VALUE with at most DECIMALS, as many as WIDTH has room for, or see struct bb_field. */
static void number(char text[BB_CELL_TEXT], double value, int decimals, int width)
{
	if (isnan(value)) {
		snprintf(text, BB_CELL_TEXT, "N/A");
		return;
	}
	if (decimals < 0) {
		snprintf(text, BB_CELL_TEXT, "%.*g", -decimals, value);
		return;
	}
	if (fabs(value) < 0.5 * pow(10, -decimals))
		value = 0; /* not -0 */
	do
		snprintf(text, BB_CELL_TEXT, "%.*f", decimals, value);
	while ((int)strlen(text) > width && decimals-- > 0);
	if ((int)strlen(text) > width)
		snprintf(text, BB_CELL_TEXT, "%.*g", width > 7 && width < 20 ? width - 6 : 1,
			 value);
}

static bool is_absent(const struct bb_field *field, const void *record)
{
	const void *at = (const char *)record + field->offset;

	return field->type == BB_FIELD_STRING   ? !*(const char *const *)at
	       : field->type == BB_FIELD_DOUBLE ? isnan(*(const double *)at)
						: *(const int64_t *)at == BB_ABSENT;
}

static void cell(const struct bb_field *field, const void *record, char text[BB_CELL_TEXT])
{
	const void *at = (const char *)record + field->offset;
	const double scale = field->scale != 0 ? field->scale : 1;
	const int width = abs(field->width);

	if (field->cell) {
		field->cell(record, text);
		return;
	}
	snprintf(text, BB_CELL_TEXT, "?");
	switch (field->type) {
	case BB_FIELD_STRING:
		snprintf(text, BB_CELL_TEXT, "%s",
			 *(const char *const *)at ? *(const char *const *)at : "-");
		break;
	case BB_FIELD_INT:
		if (*(const int64_t *)at == BB_ABSENT)
			snprintf(text, BB_CELL_TEXT, "N/A");
		else
			number(text, scale * (double)*(const int64_t *)at, field->decimals, width);
		break;
	case BB_FIELD_DOUBLE:
		number(text, scale * *(const double *)at, field->decimals, width);
		break;
	case BB_FIELD_BOOL:
		snprintf(text, BB_CELL_TEXT, "%s", *(const bool *)at ? "yes" : "no");
		break;
	default: /* lists have no column */
		break;
	}
}

/* Prints the rows that wait for the end of their table. */
static void flush(struct bb_sink *sink)
{
	struct table *t = (struct table *)sink;

	if (t->rows.ncells > 0)
		bb_table_print(&t->rows, &t->sink.out);
}

static bb_status record(struct bb_sink *sink, const struct bb_record_kind *kind, const void *r)
{
	struct table *t = (struct table *)sink;
	const struct bb_field *columns[COLUMNS + 1], *f; /* from left to right; ends with NULL */
	char text[BB_CELL_TEXT];
	uint32_t lacks = t->kind == kind ? t->lacks : 0;
	int n = 0, k, heads = 0;

	for (f = kind->fields; f->name && heads < COLUMNS; f++) {
		if (!f->head)
			continue;
		const uint32_t bit = UINT32_C(1) << heads++;
		if (t->kind != kind && f->optional && is_absent(f, r))
			lacks |= bit;
		if (lacks & bit)
			continue;
		for (k = n++; k > 0 && columns[k - 1]->place > f->place; k--)
			columns[k] = columns[k - 1];
		columns[k] = f;
	}
	columns[n] = NULL;
	if (columns[0] && t->kind != kind) {
		flush(sink);
		if (kind->about)
			kind->about(r, &sink->out);
		bb_strbuf_add(&sink->out, "#\n");
		bb_table_clear(&t->rows);
		t->rows.limit = bb_table_limit(sink->file);
		t->rows.mark = " ";
		t->rows.merges = 0;
		for (size_t i = 0; (f = columns[i]); i++) {
			*text = '\0';
			if (f->head_unit || *f->unit)
				snprintf(text, sizeof(text), f->head_unit ? "%s" : "(%s)",
					 f->head_unit ? f->head_unit : f->unit);
			bb_table_column(&t->rows, f->head, text, f->width);
			/* The columns up to the last key name a row; without a key the first. */
			t->rows.nkeys = f->key || i == 0 ? i + 1 : t->rows.nkeys;
			t->rows.merges = f->merges ? i + 1 : t->rows.merges;
		}
		t->waits = bb_table_is_wide(&t->rows) || t->rows.merges > 0;
		t->kind = kind;
		t->lacks = lacks;
	}
	for (const struct bb_field **c = columns; *c; c++) {
		cell(*c, r, text);
		bb_table_cell(&t->rows, text);
	}
	if (columns[0] && !t->waits)
		bb_table_print(&t->rows, &sink->out);
	if (kind == &bb_record_skip)
		bb_sink_add_skip(&sink->out, ((const struct bb_skip_record *)r)->collective, r);
	return bb_sink_write(sink, &sink->out);
}

static void release(struct bb_sink *sink)
{
	bb_table_free(&((struct table *)sink)->rows);
}

const struct bb_sink_ops bb_sink_table = {
	.bytes = sizeof(struct table),
	.folds = true,
	.begin = bb_text_begin,
	.record = record,
	.comment = bb_text_comment,
	.end = bb_text_end,
	.flush = flush,
	.release = release,
};
