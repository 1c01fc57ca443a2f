/*
 * compare.c - arranges results in tables (a row for each size, a column for each algorithm), prints
 * these and delivers them as records; and how results in virtual time were obtained.
 */
#include "collectives/summary.h"

#include "backends/library.h"
#include "core/table.h"
#include "core/units.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_ALGORITHMS 64
#define CROSSINGS 4 /* reported for one pair */
#define ALL_PAIRS 4 /* with at most so many algorithms every pair is compared */

/* The results of one datatype, op, root and matrix of an alltoallv as a table. */
struct bb_compare_table {
	int64_t cycles;
	const struct bb_result_record *first;
	int64_t *sizes; /* in the order of the results */
	size_t nsizes;
	const char *names[MOST_ALGORITHMS]; /* as in --algo */
	int n, automatic;                   /* the column of auto; -1: none */
	bool in_place;                      /* which results are shown */
	/* [size * n + algorithm]; &ABSENT: not run in that placement */
	const struct bb_result_record **at;
	struct bb_result_record absent;
	bool won[MOST_ALGORITHMS]; /* is the fastest at some size */
	/* The source of its bounds; NULL: it has none. And of any; NULL: no bounds are known. */
	const char *sources[MOST_ALGORITHMS], *source;
	bool sources_differ;
};

/* ---- one table --------------------------------------------------------------------- */

/* Returns the result of ALGORITHM at size number SIZE, an absent one if it was not run in the
   table's placement. */
static const struct bb_result_record *compare_at(const struct bb_compare_table *t, size_t size,
						 int algorithm)
{
	return t->at[size * (size_t)t->n + (size_t)algorithm];
}

/* Returns what ran, for auto the choice. */
static const char *compare_ran(const struct bb_result_record *run)
{
	return run->library_algorithm && strcmp(run->algorithm_asked, "auto") == 0
		       ? run->library_algorithm
		       : run->algorithm;
}

/* Returns the algorithm whose result auto only repeats at this size; -1: none. */
static int repeated(const struct bb_compare_table *t, size_t size, int algorithm)
{
	const struct bb_result_record *run = compare_at(t, size, algorithm);
	const char *chosen = run->library_algorithm;

	for (int i = 0; algorithm == t->automatic && run->algorithm && i < t->n; i++) {
		const struct bb_result_record *other = compare_at(t, size, i);

		if (other->algorithm && other != run &&
		    (strcmp(t->names[i], compare_ran(run)) == 0 ||
		     (chosen && other->library_algorithm &&
		      strcmp(other->library_algorithm, chosen) == 0)))
			return i;
	}
	return -1;
}

/* Returns the time of ALGORITHM; if auto chose it too, the shorter of the two. */
static double compare_best_time(const struct bb_compare_table *t, size_t size, int algorithm)
{
	double best = compare_at(t, size, algorithm)->time_us;

	for (int i = 0; i < t->n; i++)
		if (repeated(t, size, i) == algorithm)
			best = fmin(best, compare_at(t, size, i)->time_us);
	return best;
}

/* Returns the fastest algorithm at a size, -1 if none was run. *LEAD = the second's time over its
   own; NAN: there is no second. */
static int compare_winner(const struct bb_compare_table *t, size_t size, double *lead)
{
	double best = INFINITY, second = INFINITY;
	int who = -1;

	for (int i = 0; i < t->n; i++) {
		const double time = repeated(t, size, i) < 0 ? compare_best_time(t, size, i) : NAN;

		if (time < best) {
			second = best;
			best = time;
			who = i;
		} else if (time < second) {
			second = time;
		}
	}
	*lead = best > 0 && second < INFINITY ? second / best : NAN;
	return who;
}

/* Returns the column of NAME, which becomes the next one if it is new; -1: there is no room. */
static int column_of(struct bb_compare_table *t, const char *name)
{
	int i = 0;

	while (i < t->n && strcmp(t->names[i], name) != 0)
		i++;
	if (i == MOST_ALGORITHMS)
		return -1;
	t->names[i] = name;
	t->n += i == t->n;
	return i;
}

static size_t row_of(struct bb_compare_table *t, int64_t size)
{
	size_t i = t->nsizes;

	while (i > 0 && t->sizes[i - 1] != size)
		i--;
	if (i > 0)
		return i - 1;
	t->sizes[t->nsizes] = size;
	return t->nsizes++;
}

/* Makes the table of FIRST, which is to be freed whatever comes back. */
static bb_status compare_table(struct bb_compare_table *t, const struct bb_results *all,
			       const struct bb_result_record *first)
{
	const struct bb_result_record *const end = all->list + all->n;
	double lead;

	*t = (struct bb_compare_table){
		.cycles = all->cycles, .first = first, .automatic = -1, .in_place = true};
	t->sizes = calloc(all->n, sizeof(*t->sizes));
	for (const struct bb_result_record *r = first; r < end && t->sizes; r++)
		if (bb_result_is_like(r, first) && column_of(t, r->algorithm_asked) >= 0) {
			row_of(t, r->size_bytes);
			t->in_place = t->in_place && (r->in_place || isnan(r->time_us));
		}
	t->at = calloc(t->nsizes * (size_t)t->n, sizeof(*t->at));
	if (!t->sizes || !t->at)
		return BB_EINTERNAL;
	bb_record_init(&bb_record_result, &t->absent);
	for (size_t i = 0; i < t->nsizes * (size_t)t->n; i++)
		t->at[i] = &t->absent;
	for (const struct bb_result_record *r = first; r < end; r++)
		if (bb_result_is_like(r, first) && r->in_place == t->in_place) {
			const int column = column_of(t, r->algorithm_asked);

			if (column >= 0)
				t->at[row_of(t, r->size_bytes) * (size_t)t->n + (size_t)column] = r;
		}
	for (int i = 0; i < t->n; i++) {
		t->automatic = strcmp(t->names[i], "auto") == 0 ? i : t->automatic;
		for (size_t size = 0; size < t->nsizes && !t->sources[i]; size++) {
			const struct bb_result_record *run = compare_at(t, size, i);

			if (!isnan(run->percent_of_bound))
				t->sources[i] = run->bound_source;
		}
		t->sources_differ |=
			t->source && t->sources[i] && strcmp(t->sources[i], t->source) != 0;
		t->source = t->source ? t->source : t->sources[i];
	}
	for (size_t i = 0; i < t->nsizes; i++) {
		const int who = compare_winner(t, i, &lead);

		if (who >= 0)
			t->won[who] = true;
	}
	return BB_OK;
}

static void table_free(struct bb_compare_table *t)
{
	free(t->sizes);
	free(t->at);
}

/* *T = the table of the first result from *NEXT on whose data no earlier one has; *NEXT goes behind
   that result. False: there is none, or no memory for *STATUS = BB_EINTERNAL. */
static bool next_table(const struct bb_results *all, size_t *next, struct bb_compare_table *t,
		       bb_status *status)
{
	for (; *next < all->n; ++*next) {
		size_t first = 0;

		while (!bb_result_is_like(&all->list[first], &all->list[*next]))
			first++;
		if (first < *next)
			continue;
		*status = compare_table(t, all, &all->list[(*next)++]);
		if (*status != BB_OK)
			table_free(t);
		return *status == BB_OK;
	}
	return false;
}

/* Two algorithms, and where the lead changes. */
struct pair {
	int a, b, ahead, behind; /* columns; AHEAD is faster at the smallest size */
	double places[CROSSINGS];
	size_t n;
};

/* Crossings are interpolated as if times were lines in the size: a latency plus bytes over a rate.
   False: at no size is one of A and B known to be ahead. */
static bool find_crossings(const struct bb_compare_table *t, struct pair *p)
{
	double before = 0, before_size = 0;

	p->ahead = -1;
	p->n = 0;
	for (size_t size = 0; size < t->nsizes; size++) {
		const bool same =
			repeated(t, size, p->a) == p->b || repeated(t, size, p->b) == p->a;
		const double now = same ? NAN
					: compare_at(t, size, p->a)->time_us -
						   compare_at(t, size, p->b)->time_us;
		const double here = (double)t->sizes[size];

		if (!isfinite(now) || now == 0 || t->sizes[size] == 0)
			continue;
		if (p->ahead < 0) {
			p->ahead = now < 0 ? p->a : p->b;
			p->behind = now < 0 ? p->b : p->a;
		} else if ((now < 0) != (before < 0) && p->n < CROSSINGS) {
			p->places[p->n++] =
				before_size + (here - before_size) * before / (before - now);
		}
		before = now;
		before_size = here;
	}
	return p->ahead >= 0;
}

/* *P, which begins as {0}, = the next pair of algorithms of which one is ahead: of many, only those
   that win somewhere are compared. False: there is none. */
static bool next_pair(const struct bb_compare_table *t, struct pair *p)
{
	while (t->nsizes > 1 && p->a + 1 < t->n) {
		if (++p->b == t->n)
			p->b = ++p->a + 1;
		if (p->b < t->n && (t->n <= ALL_PAIRS || (t->won[p->a] && t->won[p->b])) &&
		    find_crossings(t, p))
			return true;
	}
	return false;
}

/* Names in the library's reports and in the tuner's file: collectives, algorithms, protocols. */
static const struct tuner_name {
	const char *reported, *tuner;
} tuner_names[] = {{"all_reduce", "allreduce"},
		   {"all_gather", "allgather"},
		   {"reduce_scatter", "reducescatter"},
		   {"broadcast", "broadcast"},
		   {"reduce", "reduce"},
		   {"ring", "ring"},
		   {"tree", "tree"},
		   {"collnetdirect", "collnet_direct"},
		   {"collnetchain", "collnet_chain"},
		   {"nvls", "nvls"},
		   {"nvlstree", "nvls_tree"},
		   {"pat", "pat"},
		   {"LL", "ll"},
		   {"LL128", "ll128"},
		   {"Simple", "simple"},
		   {NULL, NULL}};

/* The tuner's name of the first LENGTH characters of TEXT; NULL: it has none. */
static const char *tuner_name(const char *text, size_t length)
{
	const struct tuner_name *name = tuner_names;

	while (name->reported &&
	       (strlen(name->reported) != length || strncmp(name->reported, text, length) != 0))
		name++;
	return name->tuner;
}

bool bb_compare_is_tunable(const char *collective)
{
	return tuner_name(collective, strlen(collective));
}

/* What the library ran. */
struct setting {
	const char *algorithm, *protocol; /* the tuner's names */
	double time;
};

/* *BEST = the fastest at size number SIZE of which it is known what the library ran; of auto too if
   WITH_AUTO. False: none is known. */
static bool find_best(const struct bb_compare_table *t, size_t size, bool with_auto,
		      struct setting *best)
{
	*best = (struct setting){NULL, NULL, INFINITY};
	for (int i = 0; i < t->n; i++) {
		const struct bb_result_record *run = compare_at(t, size, i);
		const char *ran = run->library_algorithm ? run->library_algorithm : t->names[i];
		const char *colon = strchr(ran, ':');

		if (!colon || (!with_auto && i == t->automatic))
			continue;
		const struct setting s = {tuner_name(ran, (size_t)(colon - ran)),
					  tuner_name(colon + 1, strlen(colon + 1)), run->time_us};
		if (s.algorithm && s.protocol && s.time < best->time)
			*best = s;
	}
	return best->algorithm;
}

/* Percent by which auto takes longer at size number SIZE than *BEST, the fastest algorithm that was
   forced on the library; NAN: none is known. */
static double compare_auto_behind(const struct bb_compare_table *t, size_t size,
				  struct setting *best)
{
	if (t->automatic < 0 || !find_best(t, size, false, best))
		return NAN;
	return 100 * (compare_at(t, size, t->automatic)->time_us / best->time - 1);
}

/* ---- the tuner's rows ---------------------------------------------------------------------- */

/* Between two sizes each row covers its half, by logarithms; the first and the last row cover all
   sizes beyond, since the tuner runs a size without a row as a ring on one channel. */
static int add_rows(struct bb_strbuf *out, const struct bb_compare_table *t, int nnodes, int nranks)
{
	const char *const collective = t->first->collective;
	struct setting now = {NULL, NULL, 0}, before = now;
	uint64_t least = 0, last = 0;
	int rows = 0;

	for (size_t size = 0; size <= t->nsizes; size++) {
		const bool end = size == t->nsizes;
		uint64_t most = UINT64_MAX;

		if (!end && !find_best(t, size, true, &now))
			continue;
		if (before.algorithm && (end || strcmp(before.algorithm, now.algorithm) != 0 ||
					 strcmp(before.protocol, now.protocol) != 0)) {
			if (!end)
				most = (uint64_t)sqrt((double)last * (double)t->sizes[size]);
			bb_strbuf_addf(out, "%s,%llu,%llu,%s,%s,0,%d,%d,-1,-1\n",
				       tuner_name(collective, strlen(collective)),
				       (unsigned long long)least, (unsigned long long)most,
				       before.algorithm, before.protocol, nnodes, nranks);
			least = most + 1;
			rows++;
		}
		before = now;
		last = end ? 0 : (uint64_t)t->sizes[size];
	}
	return rows;
}

bb_status bb_compare_tuner(const struct bb_results *results, int nnodes, int nranks,
			   struct bb_strbuf *out, int *rows)
{
	struct bb_compare_table t;

	*rows = 0;
	bb_strbuf_add(
		out,
		"# For NCCL's example tuner, by NCCL_TUNER_CONFIG_FILE. 0 channels leave their "
		"number to NCCL.\n"
		"# The tuner runs a collective without a row as a ring on one channel: put the "
		"rows of all collectives into one file.\n"
		"# collective,least bytes,most bytes,algorithm,protocol,channels,nodes,ranks,"
		"operations in a pipeline,registered\n");
	if (results->n == 0)
		return BB_OK;
	const bb_status status = compare_table(&t, results, &results->list[0]);
	if (status == BB_OK) {
		bb_strbuf_addf(out, "# measured: %s %s %s\n", t.first->collective, t.first->dtype,
			       t.first->op);
		*rows = add_rows(out, &t, nnodes, nranks);
	}
	table_free(&t);
	return status;
}

/* ---- text ------------------------------------------------------------------------------ */

#define SIZES_WIDTH 10
#define TIME_WIDTH 10
#define BOUND_WIDTH 5

/* TEXT = BYTES in three digits, "48K" or "1.5M", for a place between two sizes. Returns TEXT. */
static const char *about(char text[BB_UNIT_TEXT], double bytes)
{
	static const char units[] = " KMGT";
	int unit = 0;

	for (; unit < 4 && bytes >= 1023.5; unit++)
		bytes /= 1024;
	snprintf(text, BB_UNIT_TEXT, unit ? "%.3g%c" : "%.0f", bytes, units[unit]);
	return text;
}

/* A row for each size, with the time of each algorithm and, if bounds are known, its percentage. */
static void print_times(const struct bb_compare_table *t, struct bb_strbuf *out)
{
	const bool percents = t->source;
	struct bb_text_table table = {.mark = "#"};
	char text[BB_UNIT_TEXT];
	double lead;
	int who;

	bb_table_column(&table, "size", "(B)", SIZES_WIDTH);
	bb_table_key(&table);
	for (int i = 0; i < t->n; i++) {
		bb_table_column(&table, t->names[i], "(us)", TIME_WIDTH);
		if (percents)
			bb_table_column(&table, "", "bound", BOUND_WIDTH);
	}
	if (t->n > 1)
		bb_table_column(&table, "winner, ahead", "", -1);
	for (size_t size = 0; size < t->nsizes; size++) {
		bb_table_cell(&table, bb_format_size(text, (uint64_t)t->sizes[size]));
		for (int i = 0; i < t->n; i++) {
			const struct bb_result_record *run = compare_at(t, size, i);

			if (isnan(run->time_us))
				bb_table_cell(&table, NULL);
			else
				bb_table_cellf(&table, "%.*f",
					       run->time_us < 100     ? 2
					       : run->time_us < 10000 ? 1
								      : 0,
					       run->time_us);
			if (percents && isnan(run->percent_of_bound))
				bb_table_cell(&table, NULL);
			else if (percents)
				bb_table_cellf(&table, "%.*f%%", run->percent_of_bound < 10 ? 1 : 0,
					       run->percent_of_bound);
		}
		who = compare_winner(t, size, &lead);
		if (t->n > 1 && who >= 0 && !isnan(lead))
			bb_table_cellf(&table, "%s %.2fx", compare_ran(compare_at(t, size, who)),
				       lead);
		else if (t->n > 1)
			bb_table_cell(&table, "");
	}
	bb_table_print(&table, out);
	bb_table_free(&table);
}

/* "# ring beats its bound at 2 of 5 sizes, at 64K with 131%: WHY" */
static void print_doubts(const struct bb_compare_table *t, struct bb_strbuf *out)
{
	char text[BB_UNIT_TEXT];

	for (int i = 0; i < t->n; i++) {
		const struct bb_result_record *most = NULL;
		size_t beaten = 0, of = 0, at = 0;

		for (size_t size = 0; size < t->nsizes; size++) {
			const struct bb_result_record *run = compare_at(t, size, i);

			of += !isnan(run->percent_of_bound);
			if (!run->bound_doubt)
				continue;
			beaten++;
			if (!most || run->percent_of_bound > most->percent_of_bound) {
				most = run;
				at = size;
			}
		}
		if (most)
			bb_strbuf_addf(out,
				       "# %s beats its bound at %zu of %zu size%s, at %s with "
				       "%.0f%%: %s\n",
				       t->names[i], beaten, of, bb_plural((long long)of),
				       bb_format_size(text, (uint64_t)t->sizes[at]),
				       most->percent_of_bound, most->bound_doubt);
	}
}

static void print_heading(const struct bb_compare_table *t, struct bb_strbuf *out)
{
	const struct bb_result_record *c = t->first;

	bb_strbuf_addf(out, "#\n# %s of %s %s",
		       t->n > 1    ? "Comparison"
		       : t->source ? "Bounds"
				   : "Algorithm",
		       c->collective, c->dtype);
	if (strcmp(c->op, "none") != 0)
		bb_strbuf_addf(out, " %s", c->op);
	if (c->root >= 0)
		bb_strbuf_addf(out, " root %lld", (long long)c->root);
	if (c->matrix)
		bb_strbuf_addf(out, ", matrix %s", c->matrix);
	bb_strbuf_addf(out, ", %s", t->in_place ? "in place" : "out of place");
	if (t->cycles > 1)
		bb_strbuf_addf(out, ", the last of %lld cycles", (long long)t->cycles);
	bb_strbuf_add(out, "\n");
	if (!t->source)
		return;
	/* The source of the bounds, once for all algorithms or a line for each. */
	bb_strbuf_add(out, "# bound: percent of the bound reached");
	if (!t->sources_differ)
		bb_strbuf_addf(out, "; source: %s", t->source);
	bb_strbuf_add(out, "\n");
	for (int i = 0; t->sources_differ && i < t->n; i++)
		if (t->sources[i])
			bb_strbuf_addf(out, "#   of %s: %s\n", t->names[i], t->sources[i]);
}

/* The choices of auto, and the sizes at which they change; then its loss against the best forced
   algorithm, at each size where it is known. */
static void print_auto(const struct bb_compare_table *t, struct bb_strbuf *out)
{
	const char *last = NULL;
	struct bb_text_table table = {.mark = "#"};
	struct setting best;
	char text[BB_UNIT_TEXT];

	for (size_t size = 0; size < t->nsizes && t->automatic >= 0; size++) {
		const char *ran = compare_ran(compare_at(t, size, t->automatic));

		/* Or the library chose and does not report what. */
		if (!ran || (last && strcmp(ran, last) == 0) || strcmp(ran, "auto") == 0)
			continue;
		if (last)
			bb_strbuf_addf(out, ", %s from %s", ran,
				       bb_format_size(text, (uint64_t)t->sizes[size]));
		else
			bb_strbuf_addf(out, "# auto chose %s", ran);
		last = ran;
	}
	if (last)
		bb_strbuf_add(out, "\n");
	bb_table_column(&table, "size", "(B)", SIZES_WIDTH);
	bb_table_key(&table);
	bb_table_column(&table, "auto behind", "(%)", 0);
	bb_table_column(&table, "the best forced", "", -1);
	for (size_t size = 0; size < t->nsizes; size++) {
		const double behind = compare_auto_behind(t, size, &best);

		if (!isnan(behind))
			bb_table_cellf(&table, "%s\t%.1f\t%s, %s",
				       bb_format_size(text, (uint64_t)t->sizes[size]), behind,
				       best.algorithm, best.protocol);
	}
	if (table.ncells > 0 || bb_strbuf_failed(&table.text))
		bb_table_print(&table, out);
	bb_table_free(&table);
}

/* Where one algorithm overtakes another. */
static void print_pairs(const struct bb_compare_table *t, struct bb_strbuf *out)
{
	char text[BB_UNIT_TEXT];

	for (struct pair p = {0}; next_pair(t, &p);) {
		const char *x = t->names[p.ahead], *y = t->names[p.behind];

		if (p.n == 0) {
			bb_strbuf_addf(out, "# %s is faster than %s at every size\n", x, y);
		} else if (p.n == 1) {
			bb_strbuf_addf(out, "# %s is faster than %s below about %s, slower above\n",
				       x, y, about(text, p.places[0]));
		} else {
			bb_strbuf_addf(out, "# %s begins faster than %s; they cross at about", x,
				       y);
			for (size_t i = 0; i < p.n; i++)
				bb_strbuf_addf(out, "%s %s", i > 0 ? "," : "",
					       about(text, p.places[i]));
			bb_strbuf_add(out, "\n");
		}
	}
}

/* The fastest result of the largest size. */
static void print_best(const struct bb_compare_table *t, struct bb_strbuf *out)
{
	size_t size = 0;
	double lead, best;
	char text[BB_UNIT_TEXT], time[BB_UNIT_TEXT];

	for (size_t i = 1; i < t->nsizes; i++)
		size = t->sizes[i] > t->sizes[size] ? i : size;
	const int who = t->nsizes > 0 ? compare_winner(t, size, &lead) : -1;
	if (who < 0)
		return;
	const struct bb_result_record *const run = compare_at(t, size, who);
	bb_strbuf_addf(out, "# At %s, %s", bb_format_size(text, (uint64_t)t->sizes[size]),
		       t->names[who]);
	if (strcmp(t->names[who], compare_ran(run)) != 0)
		bb_strbuf_addf(out, " (%s)", compare_ran(run));
	if (lead < 1.005)
		bb_strbuf_add(out, " and the second are equally fast: ");
	else if (!isnan(lead))
		bb_strbuf_addf(out, " is the fastest, %.2f times as fast as the second: ", lead);
	else
		bb_strbuf_add(out, " takes ");
	best = compare_best_time(t, size, who);
	bb_strbuf_add(out, bb_format_duration(time, 1e-6 * best));
	if (!isnan(run->busbw_GBps))
		bb_strbuf_addf(out, ", %.3g GB/s bus bandwidth",
			       run->busbw_GBps * run->time_us / best);
	if (!isnan(run->percent_of_bound))
		bb_strbuf_addf(out, ", %.*f%% of its bound%s", run->percent_of_bound < 10 ? 1 : 0,
			       run->percent_of_bound,
			       run->bound_doubt ? ", which does not hold" : "");
	bb_strbuf_add(out, "\n");
}

void bb_compare_text(const struct bb_results *results, struct bb_strbuf *out,
		     struct bb_strbuf *answers)
{
	struct bb_compare_table t;
	bb_status status = BB_OK;

	for (size_t i = 0; next_table(results, &i, &t, &status); table_free(&t)) {
		if (t.n == 1 && !t.source && t.automatic < 0)
			continue;
		print_heading(&t, out);
		if (t.n > 1 || t.source)
			print_times(&t, out);
		print_auto(&t, out);
		const size_t answer = out->length;
		print_best(&t, out);
		print_doubts(&t, out);
		print_pairs(&t, out);
		if (answers)
			bb_strbuf_add(answers, bb_strbuf_text(out) + answer);
	}
	out->failed |= status != BB_OK;
}

/* ---- records --------------------------------------------------------------------------- */

#define BB_RECORD bb_winner_record
BB_RECORD_KIND(bb_record_winner, BB_WINNER_FIELDS, "winner",
	       "Several algorithms: the fastest at one size.");

#undef BB_RECORD
#define BB_RECORD bb_crossing_record
BB_RECORD_KIND(bb_record_crossing, BB_CROSSING_FIELDS, "crossing",
	       "Several algorithms: two of them, and where one overtakes the other.");

bb_status bb_compare_records(const struct bb_results *results, struct bb_sinks *sinks)
{
	struct bb_compare_table t;
	bb_status status = BB_OK;

	for (size_t i = 0; status == BB_OK && next_table(results, &i, &t, &status);
	     table_free(&t)) {
		for (size_t size = 0; size < t.nsizes && t.n > 1 && status == BB_OK; size++) {
			struct bb_winner_record r;
			struct setting best;
			double lead;
			const int who = compare_winner(&t, size, &lead);

			if (who < 0)
				continue;
			bb_record_init_from(&bb_record_winner, &r, &bb_record_result,
					    compare_at(&t, size, who));
			r.algorithm = compare_ran(compare_at(&t, size, who));
			r.time_us = compare_best_time(&t, size, who);
			r.times_second = lead;
			r.auto_behind_percent = compare_auto_behind(&t, size, &best);
			status = bb_sinks_record(sinks, &bb_record_winner, &r);
		}
		for (struct pair p = {0}; status == BB_OK && next_pair(&t, &p);) {
			struct bb_crossing_record r;

			bb_record_init_from(&bb_record_crossing, &r, &bb_record_result, t.first);
			r.in_place = t.in_place;
			r.ahead = t.names[p.ahead];
			r.behind = t.names[p.behind];
			r.crossing_bytes = (struct bb_numbers){p.places, p.n};
			status = bb_sinks_record(sinks, &bb_record_crossing, &r);
		}
	}
	return status;
}

/* ---- how results in virtual time were obtained ------------------------------------------- */

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

/* The result before, if it is of the same algorithm; else NULL. */
static const struct bb_result_record *result_before(const struct bb_results *p, size_t i)
{
	const struct bb_result_record *r = &p->list[i];

	return i > 0 && strcmp(r[-1].algorithm_asked, r->algorithm_asked) == 0 ? r - 1 : NULL;
}

/* An end of an interval as a multiple of the predicted time. */
static bool same_multiple(const struct bb_result_record *a, double a_us,
			  const struct bb_result_record *b, double b_us)
{
	const double multiple = a_us / a->time_us, other = b_us / b->time_us;

	return isnan(multiple) ? isnan(other) : fabs(multiple - other) < 1e-6;
}

/* A line for each interval, from its first size on, and for predictions without. */
static void add_intervals(const struct bb_results *p, struct bb_strbuf *out)
{
	bb_strbuf_add(out, "# Interval in which nine in ten measurements should lie\n");
	for (size_t i = 0; i < p->n; i++) {
		const struct bb_result_record *r = &p->list[i], *last = result_before(p, i);
		char size[BB_UNIT_TEXT];

		if (last && same_text(r->predicted_from, last->predicted_from) &&
		    same_multiple(r, r->predicted_low_us, last, last->predicted_low_us) &&
		    same_multiple(r, r->predicted_high_us, last, last->predicted_high_us))
			continue;
		bb_strbuf_addf(out, "# %s from %s on: ", r->algorithm_asked,
			       bb_format_size(size, (uint64_t)r->size_bytes));
		if (!isnan(r->predicted_low_us / r->time_us))
			bb_strbuf_addf(out, "%.2f to %.2f times the predicted time\n",
				       r->predicted_low_us / r->time_us,
				       r->predicted_high_us / r->time_us);
		else
			bb_strbuf_add(out, "unknown, no comparable measurements\n");
		if (r->predicted_from)
			bb_strbuf_addf(out, "#   %s\n", r->predicted_from);
	}
}

/* A line for each choice of other versions, with its sizes. */
static void add_versions(const struct bb_results *p, struct bb_strbuf *out)
{
	for (size_t i = 0, end; i < p->n; i = end) {
		const struct bb_result_record *r = &p->list[i];
		char from[BB_UNIT_TEXT], to[BB_UNIT_TEXT];

		for (end = i + 1; end < p->n && result_before(p, end) &&
				  same_text(r->other_versions, p->list[end].other_versions);)
			end++;
		if (!r->other_versions)
			continue;
		bb_format_size(from, (uint64_t)r->size_bytes);
		bb_format_size(to, (uint64_t)p->list[end - 1].size_bytes);
		bb_strbuf_addf(out, "# %s at %s%s%s: %s\n", r->algorithm_asked, from,
			       strcmp(from, to) == 0 ? "" : " to ", strcmp(from, to) == 0 ? "" : to,
			       r->other_versions);
	}
}

static void add_costs(const struct bb_results *p, const char *fault, struct bb_strbuf *out)
{
	static const struct bb_table_head heads[] = {
		{"size", "(B)", 10},  {"algorithm", "", 10},      {"without", "(us)", 10},
		{"with", "(us)", 10}, {"as long", "(times)", 10}, {NULL, NULL, 0}};
	struct bb_text_table t = {.mark = "#"};

	bb_strbuf_addf(out, "# Cost of --fault %s\n", fault);
	bb_table_columns(&t, heads, 2);
	for (size_t i = 0; i < p->n; i++) {
		const struct bb_result_record *r = &p->list[i], *last = result_before(p, i);
		const bool repeats =
			last && r->in_place && !last->in_place && r->size_bytes == last->size_bytes;
		char size[BB_UNIT_TEXT];

		if (!isnan(r->faultless_us) && !repeats)
			bb_table_cellf(&t, "%s\t%s\t%.2f\t%.2f\t%.3f",
				       bb_format_size(size, (uint64_t)r->size_bytes), r->algorithm,
				       r->faultless_us, r->time_us, r->time_us / r->faultless_us);
	}
	bb_table_print(&t, out);
	bb_table_free(&t);
}

void bb_costs_text(const struct bb_results *p, const char *fault, bool predicted,
		   struct bb_strbuf *out)
{
	const char *lead = "# Evaluated by: ";

	if (p->n == 0 || !p->list[0].evaluator)
		return;
	for (size_t i = 0; i < p->n; i++) {
		const struct bb_result_record *r = &p->list[i];
		size_t first = 0;

		while (strcmp(p->list[first].algorithm, r->algorithm) != 0 ||
		       strcmp(p->list[first].evaluator, r->evaluator) != 0)
			first++;
		if (first < i)
			continue;
		bb_strbuf_addf(out, "%s%s %s", lead, r->algorithm, r->evaluator);
		lead = ", ";
	}
	bb_strbuf_add(out, "\n");
	if (predicted)
		add_intervals(p, out);
	add_versions(p, out);
	if (fault && !isnan(p->list[0].faultless_us))
		add_costs(p, fault, out);
}
