/*
 * memory_text.c - memory as text: a row for each case and place; then, where there are several
 * places or spaces, the same as matrices: who works is the row, where the memory is the column.
 */
#include "p2p/memory.h"

#include "core/units.h"

#include <stdlib.h>
#include <string.h>

#define CELL 10 /* characters of a matrix's column */

/* One row, kept for the matrices. */
struct kept {
	struct bb_pair_record r;
	char place[BB_TEXT], space[2 * BB_SPACE_TEXT];
};

struct text {
	struct bb_sink sink;
	struct bb_strbuf out; /* what is not written yet */
	bool headed;
	struct kept *rows;
	size_t n;
};

static struct text *of(struct bb_sink *sink)
{
	return (struct text *)sink;
}

static bb_status begin(struct bb_sink *sink, const struct bb_run_record *run)
{
	struct bb_strbuf *out = &of(sink)->out;

	bb_sink_add_head(out, run);
	bb_strbuf_add(
		out,
		"# Bytes that count, of arrays of n bytes: read n, write n, copy 2 n (from one "
		"space to another n), triad 3 n\n"
		"# Stores go past the caches. Latency: loads that each wait for the one "
		"before.\n");
	return bb_sink_write(sink, out);
}

/* ---- rows ----------------------------------------------------------------------------------- */

/* "node 0", "host -> device" */
static void name_space(char text[2 * BB_SPACE_TEXT], const struct bb_pair_record *r)
{
	const bool differ =
		r->memory_from && r->memory_to && strcmp(r->memory_from, r->memory_to) != 0;

	if (differ)
		snprintf(text, 2 * BB_SPACE_TEXT, "%s %s %s", r->memory_from,
			 strcmp(r->direction, "bidirectional") == 0 ? "<->" : "->", r->memory_to);
	else
		snprintf(text, 2 * BB_SPACE_TEXT, "%s",
			 r->memory_from ? r->memory_from : r->memory_to);
}

static void add_head(struct text *t)
{
	if (!t->headed)
		bb_strbuf_addf(&t->out,
			       "#\n# %9s  %7s  %7s  %10s  %14s  %8s  %8s  %8s  %8s  %6s\n"
			       "# %9s  %7s  %7s  %10s  %14s  %8s  %8s  %8s  %8s  %6s\n",
			       "size", "work", "workers", "on", "memory", "p50", "low", "high",
			       "time", "#wrong", "(B)", "", "", "", "", "(GB/s)", "(GB/s)",
			       "(GB/s)", "(us)", "(B)");
	t->headed = true;
}

static void add_row(struct text *t, const struct bb_pair_record *r, const char *space)
{
	const bool chases = strcmp(r->quantity, "latency") == 0;
	char size[BB_UNIT_TEXT], p50[BB_NUMBER_TEXT], low[BB_NUMBER_TEXT], high[BB_NUMBER_TEXT];
	char time[BB_NUMBER_TEXT], wrong[32];

	snprintf(wrong, sizeof(wrong), "%lld", (long long)r->wrong);
	bb_strbuf_addf(&t->out, "  %9s  %7s  %7lld  %10s  %14s  %8s  %8s  %8s  %8s  %6s\n",
		       bb_format_size(size, (uint64_t)r->size_bytes), r->route,
		       (long long)r->workers, r->place, space,
		       chases ? "-" : bb_format_fit(p50, r->GBps, 8),
		       chases ? "-" : bb_format_fit(low, r->low_GBps, 8),
		       chases ? "-" : bb_format_fit(high, r->high_GBps, 8),
		       chases ? "" : bb_format_fit(time, r->p50_us, 8),
		       r->wrong == BB_ABSENT ? "N/A" : wrong);
}

/* A load takes less than a microsecond: three decimals. */
static void add_latency(struct text *t, const struct bb_pair_record *r, const char *space)
{
	char size[BB_UNIT_TEXT];

	bb_strbuf_addf(&t->out, "  %9s  %7s  %7lld  %10s  %14s  %8s  %8s  %8s  %8.4f  %6s\n",
		       bb_format_size(size, (uint64_t)r->size_bytes), r->route,
		       (long long)r->workers, r->place, space, "-", "-", "-", r->p50_us, "N/A");
}

static bb_status keep(struct text *t, const struct bb_pair_record *r, const char *space)
{
	struct kept *rows = realloc(t->rows, (t->n + 1) * sizeof(*rows));

	if (!rows)
		return BB_EINTERNAL;
	t->rows = rows;
	rows[t->n].r = *r; /* names of place and spaces do not last: they are never looked at */
	snprintf(rows[t->n].place, sizeof(rows[t->n].place), "%s", r->place);
	snprintf(rows[t->n].space, sizeof(rows[t->n].space), "%s", space);
	t->n++;
	return BB_OK;
}

static bb_status record(struct bb_sink *sink, const struct bb_record_kind *kind, const void *data)
{
	struct text *t = of(sink);
	const struct bb_pair_record *r = data;
	const struct bb_skip_record *s = data;
	char space[2 * BB_SPACE_TEXT];
	bb_status status;

	if (kind == &bb_record_skip) {
		bb_strbuf_addf(&t->out, "# skipped: %s %lld B: %s\n", s->algorithm,
			       (long long)s->size_bytes, s->reason);
		return bb_sink_write(sink, &t->out);
	}
	if (kind != &bb_record_pair)
		return BB_OK;
	name_space(space, r);
	add_head(t);
	if (strcmp(r->quantity, "latency") == 0)
		add_latency(t, r, space);
	else
		add_row(t, r, space);
	status = keep(t, r, space);
	return status == BB_OK ? bb_sink_write(sink, &t->out) : status;
}

/* ---- matrices ------------------------------------------------------------------------------- */

static bool same_matrix(const struct kept *a, const struct kept *b)
{
	return strcmp(a->r.route, b->r.route) == 0 && a->r.size_bytes == b->r.size_bytes &&
	       (a->r.workers == 1) == (b->r.workers == 1);
}

/* The first row of those of a matrix whose place (or space) is that of row I. */
static size_t first_like(const struct text *t, size_t i, bool place)
{
	for (size_t k = 0; k < i; k++) {
		const struct kept *a = &t->rows[k], *b = &t->rows[i];

		if (same_matrix(a, b) &&
		    strcmp(place ? a->place : a->space, place ? b->place : b->space) == 0)
			return k;
	}
	return i;
}

static void add_cell(struct text *t, size_t first, size_t place, size_t space)
{
	char text[BB_NUMBER_TEXT];

	for (size_t i = first; i < t->n; i++) {
		const struct kept *k = &t->rows[i];
		const bool chases = strcmp(k->r.quantity, "latency") == 0;

		if (!same_matrix(k, &t->rows[first]) ||
		    strcmp(k->place, t->rows[place].place) != 0 ||
		    strcmp(k->space, t->rows[space].space) != 0)
			continue;
		bb_strbuf_addf(&t->out, "  %*s", CELL,
			       bb_format_fit(text, chases ? 1e3 * k->r.p50_us : k->r.GBps, 8));
		return;
	}
	bb_strbuf_addf(&t->out, "  %*s", CELL, "-");
}

static void add_matrix(struct text *t, size_t first)
{
	const struct bb_pair_record *r = &t->rows[first].r;
	const bool chases = strcmp(r->quantity, "latency") == 0;
	char size[BB_UNIT_TEXT];

	bb_strbuf_addf(&t->out, "#\n# %s, %s, %s at once, %s: ranks on row, memory of column\n",
		       r->route, chases ? "ns" : "GB/s", r->workers == 1 ? "one rank" : "all ranks",
		       bb_format_size(size, (uint64_t)r->size_bytes));
	bb_strbuf_addf(&t->out, "# %10s", "");
	for (size_t i = first; i < t->n; i++)
		if (same_matrix(&t->rows[i], &t->rows[first]) && first_like(t, i, false) == i)
			bb_strbuf_addf(&t->out, "  %*s", CELL, t->rows[i].space);
	bb_strbuf_add(&t->out, "\n");
	for (size_t i = first; i < t->n; i++) {
		if (!same_matrix(&t->rows[i], &t->rows[first]) || first_like(t, i, true) != i)
			continue;
		bb_strbuf_addf(&t->out, "# %10s", t->rows[i].place);
		for (size_t k = first; k < t->n; k++)
			if (same_matrix(&t->rows[k], &t->rows[first]) &&
			    first_like(t, k, false) == k)
				add_cell(t, first, i, k);
		bb_strbuf_add(&t->out, "\n");
	}
}

/* Several cells: else the row says it all. */
static bool is_worth_it(const struct text *t, size_t first)
{
	for (size_t i = first + 1; i < t->n; i++)
		if (same_matrix(&t->rows[i], &t->rows[first]))
			return true;
	return false;
}

static bb_status end(struct bb_sink *sink, const struct bb_end_record *r)
{
	struct text *t = of(sink);

	for (size_t i = 0; i < t->n; i++) {
		size_t first = 0;

		while (!same_matrix(&t->rows[first], &t->rows[i]))
			first++;
		if (first == i && is_worth_it(t, i))
			add_matrix(t, i);
	}
	bb_strbuf_add(&t->out, "#\n");
	bb_sink_add_end(&t->out, r);
	return bb_sink_write(sink, &t->out);
}

static bb_status comment(struct bb_sink *sink, const char *lines)
{
	bb_strbuf_add(&of(sink)->out, lines);
	return bb_sink_write(sink, &of(sink)->out);
}

static void release(struct bb_sink *sink)
{
	bb_strbuf_free(&of(sink)->out);
	free(of(sink)->rows);
}

bb_status bb_sink_memory_open(struct bb_sink **sink, FILE *file, const char *path)
{
	static const struct bb_sink_ops ops = {.begin = begin,
					       .record = record,
					       .comment = comment,
					       .end = end,
					       .release = release};

	*sink = bb_sink_new(sizeof(struct text), &ops, file, path);
	return *sink ? BB_OK : BB_EINTERNAL;
}
