#include "harness/results/sink_table.h"

#include <stdlib.h>
#include <string.h>

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

static const struct bb_field *field_of(const struct bb_table *table, const char *name)
{
	const struct bb_field *field = table->kind->fields;

	while (field->name && strcmp(field->name, name) != 0)
		field++;
	return field->name ? field : NULL;
}

static void cell(const struct table *t, const struct bb_column *column, const void *record,
		 char text[BB_CELL_TEXT])
{
	const struct bb_field *field = field_of(t->table, column->field);
	const void *at = (const char *)record + (field ? field->offset : 0);
	const double scale = column->scale != 0 ? column->scale : 1;
	const int width = abs(column->width);

	snprintf(text, BB_CELL_TEXT, "?");
	if (!field)
		return;
	switch (field->type) {
	case BB_FIELD_STRING:
		snprintf(text, BB_CELL_TEXT, "%s",
			 *(const char *const *)at ? *(const char *const *)at : "-");
		break;
	case BB_FIELD_INT:
		if (*(const int64_t *)at == BB_ABSENT)
			snprintf(text, BB_CELL_TEXT, "N/A");
		else
			number(text, scale * (double)*(const int64_t *)at, column->decimals, width);
		break;
	case BB_FIELD_DOUBLE:
		number(text, scale * *(const double *)at, column->decimals, width);
		break;
	case BB_FIELD_BOOL:
		snprintf(text, BB_CELL_TEXT, "%s", *(const bool *)at ? "yes" : "no");
		break;
	default: /* lists have no place in a table */
		break;
	}
}

static void add_heads(struct table *t, bool units)
{
	bb_strbuf_add(&t->out, "#");
	for (const struct bb_column *c = t->table->columns; c->head; c++)
		bb_strbuf_addf(&t->out, " %*s", c->width,
			       units ? (c->unit ? c->unit : "") : c->head);
	bb_strbuf_add(&t->out, "\n");
}

static void add_row(struct table *t, const struct bb_table *table, const void *record)
{
	const bool headed = t->table == table;
	char text[BB_CELL_TEXT];

	t->table = table;
	if (!headed) {
		if (t->table->about)
			t->table->about(record, &t->out);
		bb_strbuf_add(&t->out, "#\n");
		add_heads(t, false);
		add_heads(t, true);
	}
	bb_strbuf_add(&t->out, " ");
	for (const struct bb_column *c = t->table->columns; c->head; c++) {
		if (c->cell)
			c->cell(record, text);
		else
			cell(t, c, record, text);
		bb_strbuf_addf(&t->out, " %*s", c->width, text);
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
