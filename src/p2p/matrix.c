/*
 * matrix.c - pairs as text: a matrix for each route, direction and size, then what looks wrong.
 * Rows are where the data comes from, columns where it goes.
 */
#include "core/units.h"
#include "p2p/pairs.h"

#include <stdlib.h>
#include <string.h>

#define CELL 8 /* characters of a column */
#define END_TEXT 16

struct matrix {
	struct bb_sink sink;
	struct bb_strbuf out;   /* what is not written yet */
	int n;                  /* ends: ranks, or a GPU alone */
	bool hosted;            /* and the host behind it */
	double *values, *tails; /* [from * n + to]; NAN: not measured. Latency: p50 and p99 in ns */
	double *shares;         /* percent of the bound */
	int filled;             /* off the diagonal */
	struct bb_pair_record of; /* one of its records: what the matrix is about */
};

static struct matrix *of(struct bb_sink *sink)
{
	return (struct matrix *)sink;
}

/* ---- the head -------------------------------------------------------------------------------- */

static bool begin_matrices(struct matrix *m, const struct bb_run_record *run)
{
	size_t all;

	m->hosted = run->nranks == 1;
	m->n = (int)run->nranks + m->hosted;
	all = (size_t)m->n * (size_t)m->n;
	m->values = calloc(all, sizeof(double));
	m->tails = calloc(all, sizeof(double));
	m->shares = calloc(all, sizeof(double));
	return m->values && m->tails && m->shares;
}

static bb_status begin(struct bb_sink *sink, const struct bb_run_record *run)
{
	struct bb_strbuf *out = &of(sink)->out;

	if (!begin_matrices(of(sink), run))
		return BB_EINTERNAL;
	bb_sink_add_head(out, run);
	if (of(sink)->hosted)
		bb_strbuf_add(out, "# The pair of a GPU and its host\n");
	if (run->library_p2p)
		bb_strbuf_addf(out, "# P2P of the library: %s\n", run->library_p2p);
	bb_strbuf_addf(out, "# topology: %s\n", run->topology_digest);
	return bb_sink_write(sink, out);
}

/* ---- matrices -------------------------------------------------------------------------------- */

/* "0" */
static const char *end_name(const struct matrix *m, int end, char text[END_TEXT])
{
	if (m->hosted && end == m->n - 1)
		return "host";
	snprintf(text, END_TEXT, "%d", end);
	return text;
}

/* Where the data of R comes from, or goes: a rank, or the host. */
static int end_of(const struct matrix *m, int64_t rank)
{
	return rank == BB_ABSENT ? m->n - 1 : (int)rank;
}

static void add_values(struct bb_strbuf *out, const struct matrix *m, const double *values)
{
	char text[BB_NUMBER_TEXT], name[END_TEXT];

	bb_strbuf_addf(out, "%*s", CELL, "D\\D");
	for (int to = 0; to < m->n; to++)
		bb_strbuf_addf(out, " %*s", CELL - 1, end_name(m, to, name));
	bb_strbuf_add(out, "\n");
	for (int from = 0; from < m->n; from++) {
		bb_strbuf_addf(out, "%*s", CELL, end_name(m, from, name));
		for (int to = 0; to < m->n; to++)
			bb_strbuf_addf(out, " %s",
				       bb_format_fit(text, values[from * m->n + to], CELL - 1));
		bb_strbuf_add(out, "\n");
	}
}

static int compare(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* "# of the bound: least 91% (0 -> 1), median 95%: SOURCE" */
static void add_bound(struct bb_strbuf *out, const struct matrix *m)
{
	double *sorted = calloc((size_t)m->n * (size_t)m->n, sizeof(*sorted));
	char from[END_TEXT], to[END_TEXT];
	int n = 0, least = -1;

	for (int i = 0; sorted && i < m->n * m->n; i++) {
		if (isnan(m->shares[i]))
			continue;
		sorted[n++] = m->shares[i];
		if (least < 0 || m->shares[i] < m->shares[least])
			least = i;
	}
	if (n > 0) {
		qsort(sorted, (size_t)n, sizeof(*sorted), compare);
		bb_strbuf_addf(
			out, "# of the bound: least %.0f%% (%s -> %s), median %.0f%%; bound: %s\n",
			m->shares[least], end_name(m, least / m->n, from),
			end_name(m, least % m->n, to), sorted[n / 2], m->of.bound_source);
	}
	out->failed |= !sorted;
	free(sorted);
}

static void add_title(struct bb_strbuf *out, const struct bb_pair_record *r, const char *what)
{
	char size[BB_UNIT_TEXT];

	bb_strbuf_addf(out, "#\n# %s, %s (P2P %s)", what, r->route, r->p2p);
	if (r->size_bytes != BB_ABSENT)
		bb_strbuf_addf(out, ", %s", bb_format_size(size, (uint64_t)r->size_bytes));
}

static bb_status flush(struct matrix *m)
{
	struct bb_strbuf *out = &m->out;

	if (!m->of.quantity)
		return BB_OK;
	if (strcmp(m->of.quantity, "latency") == 0) {
		add_title(out, &m->of, "One-way latency");
		bb_strbuf_add(out, ", ns, median: row <-> column\n");
		add_values(out, m, m->values);
		add_title(out, &m->of, "One-way latency");
		bb_strbuf_add(out, ", ns, 99th percentile: row <-> column\n");
		add_values(out, m, m->tails);
	} else if (strcmp(m->of.direction, "bidirectional") == 0) {
		add_title(out, &m->of, "Bidirectional bandwidth");
		bb_strbuf_add(out, ", GB/s, both directions added up: row <-> column\n");
		add_values(out, m, m->values);
	} else {
		add_title(out, &m->of, "Unidirectional bandwidth");
		bb_strbuf_addf(out, ", GB/s: data goes row -> column%s\n",
			       isnan(m->values[0]) ? "" : "; diagonal: private copy");
		add_values(out, m, m->values);
		add_bound(out, m);
	}
	memset(&m->of, 0, sizeof(m->of));
	return bb_sink_write(&m->sink, out);
}

static bool belongs(const struct matrix *m, const struct bb_pair_record *r)
{
	return m->of.quantity && strcmp(m->of.route, r->route) == 0 &&
	       strcmp(m->of.p2p, r->p2p) == 0 && strcmp(m->of.direction, r->direction) == 0 &&
	       m->of.size_bytes == r->size_bytes;
}

static bb_status pair(struct matrix *m, const struct bb_pair_record *r)
{
	const bool latency = strcmp(r->quantity, "latency") == 0;
	const bool both = latency || strcmp(r->direction, "bidirectional") == 0;
	const int from = end_of(m, r->from), to = end_of(m, r->to);
	const int at = from * m->n + to, back = to * m->n + from;
	char a[END_TEXT], b[END_TEXT];
	bb_status status = BB_OK;

	if (!belongs(m, r)) {
		BB_TRY(status, flush(m), out);
		for (int i = 0; i < m->n * m->n; i++)
			m->values[i] = m->tails[i] = m->shares[i] = NAN;
		m->filled = 0;
	}
	if (!belongs(m, r) || r->bound_source)
		m->of = *r;
	m->values[at] = latency ? 1e3 * r->p50_us : r->GBps;
	m->tails[at] = 1e3 * r->p99_us;
	m->shares[at] = r->percent_of_bound;
	if (both) {
		m->values[back] = m->values[at];
		m->tails[back] = m->tails[at];
	}
	if (r->wrong != BB_ABSENT && r->wrong > 0)
		bb_strbuf_addf(&m->out, "# wrong data: %s -> %s over %s: %lld bytes\n",
			       end_name(m, from, a), end_name(m, to, b), r->route,
			       (long long)r->wrong);
	m->filled += from != to;
	if (m->filled == m->n * (m->n - 1) / (both ? 2 : 1))
		status = flush(m);
out:
	return status;
}

static bb_status record(struct bb_sink *sink, const struct bb_record_kind *kind, const void *r)
{
	struct matrix *m = of(sink);
	const struct bb_finding_record *f = r;
	const struct bb_skip_record *s = r;
	char size[32];
	bb_status status;

	if (kind == &bb_record_pair)
		return pair(m, r);
	BB_TRY(status, flush(m), out);
	if (kind == &bb_record_finding)
		bb_strbuf_addf(&m->out, "# finding: %s\n", f->text);
	if (kind == &bb_record_skip)
		snprintf(size, sizeof(size), " %lld B", (long long)s->size_bytes);
	if (kind == &bb_record_skip)
		bb_strbuf_addf(&m->out, "# skipped: %s%s: %s\n", s->algorithm,
			       s->size_bytes == BB_ABSENT ? "" : size, s->reason);
	status = bb_sink_write(sink, &m->out);
out:
	return status;
}

/* ---- the end --------------------------------------------------------------------------------- */

static bb_status comment(struct bb_sink *sink, const char *lines)
{
	struct matrix *m = of(sink);
	bb_status status = flush(m);

	if (status != BB_OK)
		return status;
	bb_strbuf_add(&m->out, lines);
	return bb_sink_write(sink, &m->out);
}

static bb_status end(struct bb_sink *sink, const struct bb_end_record *r)
{
	struct matrix *m = of(sink);
	struct bb_strbuf *out = &m->out;
	bb_status status = flush(m);

	if (status != BB_OK)
		return status;
	bb_sink_add_end(out, r);
	return bb_sink_write(sink, out);
}

static void release(struct bb_sink *sink)
{
	struct matrix *m = of(sink);

	bb_strbuf_free(&m->out);
	free(m->values);
	free(m->tails);
	free(m->shares);
}

static const struct bb_sink_ops matrix_ops = {
	.begin = begin,
	.record = record,
	.comment = comment,
	.end = end,
	.release = release,
};

bb_status bb_sink_matrix_open(struct bb_sink **sink, FILE *file, const char *path)
{
	*sink = bb_sink_new(sizeof(struct matrix), &matrix_ops, file, path);
	return *sink ? BB_OK : BB_EINTERNAL;
}
