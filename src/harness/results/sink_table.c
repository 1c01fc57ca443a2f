#include "harness/results/sink_table.h"

#include <stdlib.h>
#include <string.h>

#define COLUMNS 32 /* of a table at most */

struct table {
	struct bb_sink sink;
	const struct bb_table *const *tables;
	const struct bb_table *one[2]; /* what TABLES is where there is only one */
	const struct bb_table *table;  /* whose heads stand above the rows; NULL: none's yet */
	struct bb_strbuf out;          /* what is not written yet */
};

static struct table *of(struct bb_sink *sink)
{
	return (struct table *)sink;
}

static bb_status begin(struct bb_sink *sink, const struct bb_run_record *run)
{
	struct bb_strbuf *out = &of(sink)->out;

	bb_sink_add_head(out, run);
	return bb_sink_write(sink, out);
}

/* ---- rows --------------------------------------------------------------------------------------
 */

/* VALUE with as many of DECIMALS as WIDTH has room for. */
static void number(char text[BB_CELL_TEXT], double value, int decimals, int width)
{
	if (isnan(value)) {
		snprintf(text, BB_CELL_TEXT, "N/A");
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
	default: /* lists have no place in a table */
		break;
	}
}

/* The fields of KIND that are columns, from left to right, into COLUMNS, which ends with NULL. */
static void list_columns(const struct bb_record_kind *kind,
			 const struct bb_field *columns[COLUMNS + 1])
{
	int n = 0, k;

	for (const struct bb_field *f = kind->fields; f->name && n < COLUMNS; f++) {
		if (!f->head)
			continue;
		for (k = n++; k > 0 && columns[k - 1]->place > f->place; k--)
			columns[k] = columns[k - 1];
		columns[k] = f;
	}
	columns[n] = NULL;
}

static void add_heads(struct bb_strbuf *out, const struct bb_field *const *columns)
{
	bb_strbuf_add(out, "#\n#");
	for (const struct bb_field *const *c = columns; *c; c++)
		bb_strbuf_addf(out, " %*s", (*c)->width, (*c)->head);
	bb_strbuf_add(out, "\n#");
	for (const struct bb_field *const *c = columns; *c; c++) {
		char unit[BB_CELL_TEXT] = "";

		if ((*c)->head_unit || *(*c)->unit)
			snprintf(unit, sizeof(unit), (*c)->head_unit ? "%s" : "(%s)",
				 (*c)->head_unit ? (*c)->head_unit : (*c)->unit);
		bb_strbuf_addf(out, " %*s", (*c)->width, unit);
	}
	bb_strbuf_add(out, "\n");
}

static void add_row(struct table *t, const struct bb_table *table, const void *record)
{
	const struct bb_field *columns[COLUMNS + 1];
	char text[BB_CELL_TEXT];

	list_columns(table->kind, columns);
	if (t->table != table) {
		if (table->about)
			table->about(record, &t->out);
		add_heads(&t->out, columns);
	}
	t->table = table;
	bb_strbuf_add(&t->out, " ");
	for (const struct bb_field *const *c = columns; *c; c++) {
		cell(*c, record, text);
		bb_strbuf_addf(&t->out, " %*s", (*c)->width, text);
	}
	bb_strbuf_add(&t->out, "\n");
}

static void add_skip(struct table *t, const struct bb_skip_record *s)
{
	bb_strbuf_addf(&t->out, "# skipped: %s", s->collective);
	if (s->algorithm)
		bb_strbuf_addf(&t->out, " by %s", s->algorithm);
	if (s->size_bytes != BB_ABSENT)
		bb_strbuf_addf(&t->out, " %lld B", (long long)s->size_bytes);
	bb_strbuf_addf(&t->out, ": %s\n", s->reason);
}

static bb_status record(struct bb_sink *sink, const struct bb_record_kind *kind, const void *r)
{
	struct table *t = of(sink);

	for (const struct bb_table *const *table = t->tables; *table; table++)
		if (kind == (*table)->kind)
			add_row(t, *table, r);
	if (kind == &bb_record_skip)
		add_skip(t, r);
	return bb_sink_write(sink, &t->out);
}

/* ---- the end
 * ------------------------------------------------------------------------------------- */

static bb_status comment(struct bb_sink *sink, const char *lines)
{
	bb_strbuf_add(&of(sink)->out, lines);
	return bb_sink_write(sink, &of(sink)->out);
}

static bb_status end(struct bb_sink *sink, const struct bb_end_record *r)
{
	struct bb_strbuf *out = &of(sink)->out;

	bb_sink_add_end(out, r);
	return bb_sink_write(sink, out);
}

static void release(struct bb_sink *sink)
{
	bb_strbuf_free(&of(sink)->out);
}

static const struct bb_sink_ops table_ops = {
	.begin = begin,
	.record = record,
	.comment = comment,
	.end = end,
	.release = release,
};

bb_status bb_sink_tables_open(struct bb_sink **sink, FILE *file, const char *path,
			      const struct bb_table *const *tables)
{
	struct table *t = bb_sink_new(sizeof(*t), &table_ops, file, path);

	if (!t)
		return BB_EINTERNAL;
	t->tables = tables;
	*sink = &t->sink;
	return BB_OK;
}

bb_status bb_sink_table_open(struct bb_sink **sink, FILE *file, const char *path,
			     const struct bb_table *table)
{
	const bb_status status = bb_sink_tables_open(sink, file, path, NULL);

	if (status == BB_OK) {
		of(*sink)->one[0] = table;
		of(*sink)->tables = of(*sink)->one;
	}
	return status;
}
