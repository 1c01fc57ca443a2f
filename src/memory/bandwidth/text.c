/*
 * text.c - memory as text: a row for each case and place; then, if there are several places or
 * spaces, matrices: the ranks that work are the row, the memory is the column.
 */
#include "memory/bandwidth/bandwidth.h"

#include "core/array.h"
#include "core/table.h"
#include "core/units.h"

#include <stdlib.h>
#include <string.h>

#define NUMBER 7 /* characters of a speed */

/* One row, kept for the matrices. */
struct kept {
	struct bb_pair_record r;
	char place[BB_TEXT], space[2 * BB_SPACE_TEXT];
	size_t first; /* row of its matrix */
};

struct text {
	struct bb_sink sink;
	struct bb_text_table table; /* of the rows that are not printed yet */
	struct kept *rows;
	size_t n, room;
};

static bb_status begin(struct bb_sink *sink, const struct bb_run_record *run)
{
	bb_sink_add_head(&sink->out, run);
	bb_strbuf_add(&sink->out, "# Counted bytes of arrays of n bytes: read n, write n, copy 2 n "
				  "(between two spaces n), triad 3 n\n"
				  "# Stores bypass the caches. Latency: dependent loads.\n");
	return bb_sink_write(sink, &sink->out);
}

static bool chases(const struct bb_pair_record *r)
{
	return strcmp(r->quantity, "latency") == 0;
}

/* ---- rows ----------------------------------------------------------------------------------- */

static const struct bb_table_head heads[] = {
	{"size", "(B)", 6},
	{"work", "", 7},
	{"workers", "", 7},
	{"on", "", 6},
	{"p50", "(GB/s)", NUMBER},
	{"low", "(GB/s)", NUMBER},
	{"high", "(GB/s)", NUMBER},
	{"time", "(us)", NUMBER + 1},
	{"#wrong", "(B)", 6},
	{"memory", "", -8},
	{NULL, NULL, 0},
};

static bb_status record(struct bb_sink *sink, const struct bb_record_kind *kind, const void *data)
{
	struct text *t = (struct text *)sink;
	const struct bb_pair_record *r = data;
	struct bb_text_table *table = &t->table;

	if (kind == &bb_record_skip)
		bb_sink_add_skip(&sink->out, NULL, data);
	if (kind == &bb_record_pair) {
		const double speeds[] = {r->GBps, r->low_GBps, r->high_GBps};
		const char *const from = r->memory_from ? r->memory_from : r->memory_to;
		const char *const to = r->memory_to ? r->memory_to : from;
		char text[BB_NUMBER_TEXT], size[BB_UNIT_TEXT];

		if (t->n == 0) {
			bb_strbuf_add(&sink->out, "#\n");
			table->limit = bb_table_limit(sink->file);
			bb_table_columns(table, heads, 4);
		}
		struct kept *const row = BB_ARRAY_ADD(t->rows, t->n, t->room);
		if (!row)
			return BB_EINTERNAL;
		row->r = *r; /* its place and spaces do not last: PLACE and SPACE hold copies */
		snprintf(row->place, sizeof(row->place), "%s", r->place);
		row->first = 0;
		while (strcmp(t->rows[row->first].r.route, r->route) != 0 ||
		       t->rows[row->first].r.size_bytes != r->size_bytes ||
		       (t->rows[row->first].r.workers == 1) != (r->workers == 1))
			row->first++;
		/* "node 0", "host -> device" */
		snprintf(row->space, sizeof(row->space), "%s%s%s", from,
			 strcmp(from, to) == 0                        ? ""
			 : strcmp(r->direction, "bidirectional") == 0 ? " <-> "
								      : " -> ",
			 strcmp(from, to) == 0 ? "" : to);
		bb_table_cell(table, bb_format_size(size, (uint64_t)r->size_bytes));
		bb_table_cellf(table, "%s\t%jd", r->route, r->workers);
		bb_table_cell(table, row->place);
		for (int i = 0; i < 3; i++)
			bb_table_cell(table,
				      chases(r) ? NULL : bb_format_fit(text, speeds[i], NUMBER));
		if (chases(r)) /* a load takes less than a microsecond */
			bb_table_cellf(table, "%.4f", r->p50_us);
		else
			bb_table_cell(table, bb_format_fit(text, r->p50_us, NUMBER + 1));
		if (r->wrong == BB_ABSENT)
			bb_table_cell(table, "N/A");
		else
			bb_table_cellf(table, "%jd", r->wrong);
		bb_table_cell(table, row->space);
		bb_table_print(table, &sink->out);
	}
	return bb_sink_write(sink, &sink->out);
}

/* ---- matrices ------------------------------------------------------------------------------- */

/* True if row I is in the matrix of row FIRST, and the first there of its place (or space). */
static bool begins(const struct text *t, size_t first, size_t i, bool place)
{
	const struct kept *b = &t->rows[i];

	for (size_t k = first; k < i; k++) {
		const struct kept *a = &t->rows[k];

		if (a->first == first &&
		    strcmp(place ? a->place : a->space, place ? b->place : b->space) == 0)
			return false;
	}
	return b->first == first;
}

static void add_matrix(struct text *t, size_t first)
{
	struct bb_text_table table = {.limit = t->table.limit, .mark = "#"};
	const struct bb_pair_record *r = &t->rows[first].r;
	const struct kept *end = &t->rows[t->n];
	char size[BB_UNIT_TEXT], text[BB_NUMBER_TEXT];

	bb_strbuf_addf(&t->sink.out,
		       "#\n# %s, %s, %s at once, %s: ranks on row, memory of column\n", r->route,
		       chases(r) ? "ns" : "GB/s", r->workers == 1 ? "one rank" : "all ranks",
		       bb_format_size(size, (uint64_t)r->size_bytes));
	bb_table_column(&table, "", "", 0);
	bb_table_key(&table);
	for (size_t i = first; i < t->n; i++)
		if (begins(t, first, i, false))
			bb_table_column(&table, t->rows[i].space, "", NUMBER);
	for (size_t i = first; i < t->n; i++) {
		if (!begins(t, first, i, true))
			continue;
		bb_table_cell(&table, t->rows[i].place);
		for (size_t k = first; k < t->n; k++) {
			const struct kept *at = &t->rows[first];

			if (!begins(t, first, k, false))
				continue;
			while (at < end &&
			       (at->first != first || strcmp(at->place, t->rows[i].place) != 0 ||
				strcmp(at->space, t->rows[k].space) != 0))
				at++;
			bb_table_cell(&table, at == end
						      ? NULL
						      : bb_format_fit(text,
								      chases(r) ? 1e3 * at->r.p50_us
										: at->r.GBps,
								      NUMBER));
		}
	}
	bb_table_print(&table, &t->sink.out);
	bb_table_free(&table);
}

static bb_status end(struct bb_sink *sink, const struct bb_end_record *r)
{
	struct text *t = (struct text *)sink;

	for (size_t i = 0; i < t->n; i++) {
		size_t n = 0;

		for (size_t k = i; k < t->n; k++)
			n += t->rows[k].first == i;
		/* A single cell is a row already. */
		if (n > 1)
			add_matrix(t, i);
	}
	bb_strbuf_add(&sink->out, "#\n");
	return bb_text_end(sink, r);
}

static void release(struct bb_sink *sink)
{
	bb_table_free(&((struct text *)sink)->table);
	free(((struct text *)sink)->rows);
}

const struct bb_sink_ops bb_sink_memory = {
	.bytes = sizeof(struct text),
	.begin = begin,
	.record = record,
	.comment = bb_text_comment,
	.end = end,
	.release = release,
};
