/*
 * matrix.c - pairs as text: a matrix for each route, direction and size, then what looks wrong.
 * Rows are sources, columns are targets.
 */
#include "core/stats.h"
#include "core/table.h"
#include "core/units.h"
#include "p2p/pairs.h"

#include <stdlib.h>
#include <string.h>

#define CELL 7 /* characters of a column */
#define END_TEXT 16
#define PAIR_TEXT (2 * END_TEXT + 4)

#define MOST_PATHS 16
#define ALIKE 0.999 /* ratio of values that are reported as one */

/* One pair. NAN: not measured. */
struct shown {
	double value, tail; /* latency: p50 and p99 in ns */
	double share;       /* percent of the bound */
	const char *doubt;  /* why it does not hold; NULL: it may */
	int path;           /* index into paths; -1: none */
};

struct matrix {
	struct bb_sink sink;
	int n;                                     /* ends: ranks, or a GPU alone */
	int *ranks;                                /* [end], ascending */
	bool hosted;                               /* and the host behind it */
	struct shown *cells;                       /* [from * n + to] */
	double *sorted;                            /* room for a number of each */
	char paths[MOST_PATHS][BB_PAIR_PATH_TEXT]; /* in the order in which they come */
	int npaths;
	int filled;               /* off the diagonal */
	struct bb_pair_record of; /* one of its records, whose quantity, route and size it shows */
	struct bb_text_table
		fans; /* instead, of ranks with all others, whose first record is FAN */
	struct bb_pair_record fan, beaten; /* BEATEN: of these, the one most beyond its bound */
};

/* ---- the head -------------------------------------------------------------------------------- */

static bb_status begin(struct bb_sink *sink, const struct bb_run_record *run)
{
	struct matrix *m = (struct matrix *)sink;
	struct bb_strbuf *out = &sink->out;
	const char *handles = NULL; /* by which processes map memory of each other */

	m->hosted = run->nranks == 1;
	m->n = run->pair_ranks ? bb_selection_read(run->pair_ranks, NULL)
			       : (int)run->nranks + m->hosted;
	const size_t all = (size_t)m->n * (size_t)m->n;
	m->ranks = calloc((size_t)m->n, sizeof(int));
	m->cells = calloc(all, sizeof(*m->cells));
	m->sorted = calloc(all, sizeof(*m->sorted));
	if (!m->ranks || !m->cells || !m->sorted)
		return BB_EINTERNAL;
	for (int i = 0; i < m->n; i++)
		m->ranks[i] = i;
	if (run->pair_ranks)
		bb_selection_read(run->pair_ranks, m->ranks);
	for (size_t i = 0; i < run->ranks.n; i++) {
		const char *handle = run->ranks.ranks[i].location.handle;

		if (handles && handle[0] && strcmp(handles, handle) != 0) {
			handles = "ipc or fabric";
			break;
		}
		handles = handle[0] ? handle : handles;
	}
	bb_sink_add_head(out, run);
	if (m->hosted)
		bb_strbuf_add(out, "# The pair of a GPU and its host\n");
	if (run->library_p2p)
		bb_strbuf_addf(out, "# P2P of the library: %s\n", run->library_p2p);
	if (handles)
		bb_strbuf_addf(out, "# Handles of GPU memory between processes: %s\n", handles);
	if (run->topology)
		bb_strbuf_addf(out, "# topology: %s\n", run->topology);
	if (run->pair_ranks)
		bb_strbuf_addf(out, "# Pairs of %d of the ranks: %s\n", m->n, run->pair_ranks);
	return bb_sink_write(sink, out);
}

/* ---- matrices -------------------------------------------------------------------------------- */

/* Returns "host" or TEXT = the rank of END. */
static const char *end_name(const struct matrix *m, int end, char text[END_TEXT])
{
	if (m->hosted && end == m->n - 1)
		return "host";
	snprintf(text, END_TEXT, "%d", m->ranks[end]);
	return text;
}

/* Returns the end of RANK; BB_ABSENT: the host. */
static int end_of(const struct matrix *m, int64_t rank)
{
	int low = 0, high = m->n;

	if (rank == BB_ABSENT)
		return m->n - 1;
	while (high - low > 1) {
		const int middle = (low + high) / 2;

		*(m->ranks[middle] <= rank ? &low : &high) = middle;
	}
	return low;
}

/* "0 -> 1" */
static const char *pair_name(const struct matrix *m, int at, char text[PAIR_TEXT])
{
	char from[END_TEXT], to[END_TEXT];

	snprintf(text, PAIR_TEXT, "%s -> %s", end_name(m, at / m->n, from),
		 end_name(m, at % m->n, to));
	return text;
}

/* "# of the bound: least 91% (0 -> 1), median 95%: SOURCE" */
static void add_bound(struct bb_strbuf *out, const struct matrix *m)
{
	int n = 0, least = -1, most = -1, beaten = 0;
	char pair[PAIR_TEXT];

	for (int i = 0; i < m->n * m->n; i++) {
		const struct shown *c = &m->cells[i];

		if (isnan(c->share))
			continue;
		m->sorted[n++] = c->share;
		beaten += c->doubt != NULL;
		if (c->doubt && (most < 0 || bb_is_below(m->cells[most].share, c->share)))
			most = i;
		if (least < 0 || bb_is_below(c->share, m->cells[least].share))
			least = i;
	}
	bb_stats_sort(m->sorted, (size_t)n);
	if (n > 0)
		bb_strbuf_addf(out, "# of the bound: least %.0f%% (%s), median %.0f%%; bound: %s\n",
			       m->cells[least].share, pair_name(m, least, pair), m->sorted[n / 2],
			       m->of.bound_source);
	if (most >= 0)
		bb_strbuf_addf(out, "# %d of %d pairs beat%s the bound, %s with %.0f%%: %s\n",
			       beaten, n, beaten == 1 ? "s" : "", pair_name(m, most, pair),
			       m->cells[most].share, m->cells[most].doubt);
}

/* "# NVLink: 56 pairs, median 357.2, least 178.9 (3 -> 4), most 357.2 (0 -> 1)", where there are
   several paths. */
static void add_paths(struct bb_strbuf *out, const struct matrix *m)
{
	char pair[PAIR_TEXT];

	for (int path = 0; path < m->npaths && m->npaths > 1; path++) {
		int n = 0, least = 0, most = 0;

		for (int i = 0; i < m->n * m->n; i++) {
			const struct shown *c = &m->cells[i];

			if (c->path != path)
				continue;
			least = n == 0 || bb_is_below(c->value, m->cells[least].value) ? i : least;
			most = n == 0 || bb_is_below(m->cells[most].value, c->value) ? i : most;
			m->sorted[n++] = c->value;
		}
		bb_stats_sort(m->sorted, (size_t)n);
		bb_strbuf_addf(out, "# %s: %d pair%s, median %.4g", m->paths[path], n,
			       n == 1 ? "" : "s", m->sorted[n / 2]);
		for (int k = 0; k < 2 && m->cells[least].value < ALIKE * m->cells[most].value;
		     k++) {
			const int at = k ? most : least;

			bb_strbuf_addf(out, ", %s %.4g (%s)", k ? "most" : "least",
				       m->cells[at].value, pair_name(m, at, pair));
		}
		bb_strbuf_add(out, "\n");
	}
}

static void add_title(struct bb_strbuf *out, const struct bb_pair_record *r, const char *what)
{
	char size[BB_UNIT_TEXT];

	bb_strbuf_addf(out, "#\n# %s, %s (P2P %s)", what, r->route, r->p2p);
	if (r->size_bytes != BB_ABSENT)
		bb_strbuf_addf(out, ", %s", bb_format_size(size, (uint64_t)r->size_bytes));
}

static void end_fan(struct matrix *m);

static void flush(struct bb_sink *sink)
{
	struct matrix *m = (struct matrix *)sink;
	struct bb_strbuf *out = &sink->out;
	bool latency, both;

	end_fan(m);
	if (!m->of.quantity)
		return;
	latency = strcmp(m->of.quantity, "latency") == 0;
	both = strcmp(m->of.direction, "bidirectional") == 0;
	for (int tails = 0; tails <= latency; tails++) {
		struct bb_text_table t = {.limit = bb_table_limit(m->sink.file)};
		char text[BB_NUMBER_TEXT], name[END_TEXT];

		add_title(out, &m->of,
			  latency ? "One-way latency"
			  : both  ? "Bidirectional bandwidth"
				  : "Unidirectional bandwidth");
		if (latency)
			bb_strbuf_addf(out, ", ns, %s: row <-> column\n",
				       tails ? "99th percentile" : "median");
		else if (both)
			bb_strbuf_add(out, ", GB/s, both directions added up: row <-> column\n");
		else
			bb_strbuf_addf(out, ", GB/s: data goes row -> column%s\n",
				       isnan(m->cells[0].value) ? "" : "; diagonal: private copy");
		bb_table_column(&t, "D\\D", "", CELL);
		bb_table_key(&t);
		for (int to = 0; to < m->n; to++)
			bb_table_column(&t, end_name(m, to, name), "", CELL);
		for (int i = 0; i < m->n * m->n; i++) {
			const struct shown *c = &m->cells[i];

			if (i % m->n == 0)
				bb_table_cell(&t, end_name(m, i / m->n, name));
			bb_table_cell(&t, bb_format_fit(text, tails ? c->tail : c->value, CELL));
		}
		bb_table_print(&t, out);
		bb_table_free(&t);
	}
	if (!latency && !both)
		add_bound(out, m);
	add_paths(out, m);
	memset(&m->of, 0, sizeof(m->of));
}

/* Does R belong to the matrix or table that begins with FIRST (zeroed: to none)? */
static bool belongs(const struct bb_pair_record *first, const struct bb_pair_record *r)
{
	return first->route && strcmp(first->route, r->route) == 0 &&
	       strcmp(first->p2p, r->p2p) == 0 && strcmp(first->direction, r->direction) == 0 &&
	       first->size_bytes == r->size_bytes;
}

static void pair(struct matrix *m, const struct bb_pair_record *r)
{
	const bool latency = strcmp(r->quantity, "latency") == 0;
	const bool both = latency || strcmp(r->direction, "bidirectional") == 0;
	const int from = end_of(m, r->from), to = end_of(m, r->to);
	const int at = from * m->n + to;
	struct shown *c = &m->cells[at];
	char text[PAIR_TEXT];

	if (!belongs(&m->of, r)) {
		flush(&m->sink);
		for (int i = 0; i < m->n * m->n; i++)
			m->cells[i] = (struct shown){NAN, NAN, NAN, NULL, -1};
		m->filled = m->npaths = 0;
	}
	if (!belongs(&m->of, r) || r->bound_source)
		m->of = *r;
	c->value = latency ? 1e3 * r->p50_us : r->GBps;
	c->tail = 1e3 * r->p99_us;
	if (both) {
		m->cells[to * m->n + from].value = c->value;
		m->cells[to * m->n + from].tail = c->tail;
	}
	c->share = r->percent_of_bound;
	c->doubt = r->bound_doubt;
	if (from != to) { /* without room for it, the last path */
		c->path = 0;
		while (c->path < m->npaths && strcmp(m->paths[c->path], r->path) != 0)
			c->path++;
		if (c->path == m->npaths && m->npaths < MOST_PATHS)
			snprintf(m->paths[m->npaths++], BB_PAIR_PATH_TEXT, "%s", r->path);
		c->path = c->path < MOST_PATHS ? c->path : MOST_PATHS - 1;
	}
	if (r->wrong != BB_ABSENT && r->wrong > 0)
		bb_strbuf_addf(&m->sink.out, "# wrong data: %s over %s: %lld bytes\n",
			       pair_name(m, at, text), r->route, (long long)r->wrong);
	m->filled += from != to;
	if (m->filled == m->n * (m->n - 1) / (both ? 2 : 1))
		flush(&m->sink);
}

/* ---- a rank with all others ------------------------------------------------------------------ */

static void end_fan(struct matrix *m)
{
	if (!m->fan.route)
		return;
	bb_table_print(&m->fans, &m->sink.out);
	if (m->fan.bound_source)
		bb_strbuf_addf(&m->sink.out, "# bound: %s\n", m->fan.bound_source);
	if (m->beaten.bound_doubt)
		bb_strbuf_addf(
			&m->sink.out, "# rank %lld beats the bound with %.0f%%: %s\n",
			(long long)(m->beaten.from == BB_ABSENT ? m->beaten.to : m->beaten.from),
			m->beaten.percent_of_bound, m->beaten.bound_doubt);
	memset(&m->fan, 0, sizeof(m->fan));
	memset(&m->beaten, 0, sizeof(m->beaten));
}

static void fan(struct matrix *m, const struct bb_pair_record *r)
{
	static const struct bb_table_head heads[] = {
		{"rank", "", CELL},  {"p50", "", CELL},   {"low", "", CELL},    {"high", "", CELL},
		{"bound", "", CELL}, {"of it", "", CELL}, {"#wrong", "", CELL}, {NULL, NULL, 0}};
	const double speeds[] = {r->GBps, r->low_GBps, r->high_GBps, r->bound_GBps};
	const bool in = r->from == BB_ABSENT;
	char text[BB_NUMBER_TEXT];

	if (!belongs(&m->fan, r)) {
		flush(&m->sink);
		m->fan = *r;
		add_title(&m->sink.out, r, in ? "All to one" : "One to all");
		bb_strbuf_addf(&m->sink.out, ", GB/s: %s at once\n",
			       in ? "all other ranks send to this one"
				  : "this rank sends to all others");
		bb_table_free(&m->fans);
		m->fans = (struct bb_text_table){.limit = bb_table_limit(m->sink.file)};
		bb_table_columns(&m->fans, heads, 1);
	}
	bb_table_cellf(&m->fans, "%lld", (long long)(in ? r->to : r->from));
	for (int i = 0; i < 4; i++)
		bb_table_cell(&m->fans, bb_format_fit(text, speeds[i], CELL));
	if (r->bound_doubt &&
	    (!m->beaten.bound_doubt || r->percent_of_bound > m->beaten.percent_of_bound))
		m->beaten = *r;
	if (isnan(r->percent_of_bound))
		bb_table_cell(&m->fans, "N/A");
	else
		bb_table_cellf(&m->fans, "%.0f%%", r->percent_of_bound);
	if (r->wrong == BB_ABSENT)
		bb_table_cell(&m->fans, "N/A");
	else
		bb_table_cellf(&m->fans, "%lld", (long long)r->wrong);
}

static bb_status record(struct bb_sink *sink, const struct bb_record_kind *kind, const void *r)
{
	const struct bb_finding_record *f = r;
	const struct bb_pair_record *p = r;

	if (kind == &bb_record_pair)
		(strstr(p->direction, "-to-") ? fan : pair)((struct matrix *)sink, r);
	else
		flush(sink);
	if (kind == &bb_record_finding)
		bb_strbuf_addf(&sink->out, "# finding: %s\n", f->text);
	if (kind == &bb_record_skip)
		bb_sink_add_skip(&sink->out, NULL, r);
	return bb_sink_write(sink, &sink->out);
}

static void release(struct bb_sink *sink)
{
	struct matrix *m = (struct matrix *)sink;

	bb_table_free(&m->fans);
	free(m->cells);
	free(m->sorted);
	free(m->ranks);
}

const struct bb_sink_ops bb_sink_matrix = {
	.bytes = sizeof(struct matrix),
	.begin = begin,
	.record = record,
	.comment = bb_text_comment,
	.end = bb_text_end,
	.flush = flush,
	.release = release,
};
