/*
 * compare.c - stores one cell for each case, arranges them in tables (a row for each size, a column
 * for each algorithm), prints these and delivers them as records.
 */
#include "collectives/compare.h"

#include "backends/library.h"
#include "collectives/result.h"
#include "core/array.h"
#include "core/table.h"
#include "core/units.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BB_COMPARE_CROSSINGS 4 /* reported for one pair */

/* The result of a case in one placement. */
struct bb_compare_run {
	const char *used;            /* algorithm that ran, for auto the choice; NULL: not run */
	char chosen[BB_CHOSEN_TEXT]; /* choice reported by the library; empty: none */
	const char *source;          /* source of the bound; NULL: there is no bound */
	double time;                 /* us */
	double busbw;                /* GB/s */
	double percent;              /* of the bound; NAN: there is no bound */
	const char *doubt;           /* why the bound does not hold; NULL: it may */
};

struct bb_compare_cell {
	const char *collective, *dtype, *op;
	const char *matrix; /* NULL: none */
	int64_t root, size;
	int algorithm;                 /* index into names */
	struct bb_compare_run runs[2]; /* out of place, in place: auto may choose differently */
};

/* The cells of one datatype, op, root and matrix of an alltoallv as a table. */
struct bb_compare_table {
	const struct bb_compare *all;
	const struct bb_compare_cell *first;
	int64_t *sizes; /* in the order of the results */
	size_t nsizes;
	int placement;                    /* whose runs are shown: 0 out of place, 1 in place */
	const struct bb_compare_run **at; /* [size * nnames + algorithm], NULL: not run */
	int order[BB_COMPARE_MOST];       /* algorithms that have any cell */
	int norder;
	bool won[BB_COMPARE_MOST]; /* by algorithm: is the fastest at some size */
};

#define ALL_PAIRS 4 /* with at most so many algorithms every pair is compared */

void bb_compare_free(struct bb_compare *compare)
{
	free(compare->cells);
}

/* ---- keeping ----------------------------------------------------------------------- */

static int name_index(struct bb_compare *compare, const char *name)
{
	int i;

	for (i = 0; i < compare->nnames; i++) {
		if (strcmp(compare->names[i], name) == 0)
			return i;
	}
	if (compare->nnames == BB_COMPARE_MOST)
		return -1;
	compare->names[compare->nnames] = name;
	return compare->nnames++;
}

static bool same_group(const struct bb_compare_cell *a, const struct bb_compare_cell *b)
{
	return a->root == b->root && a->matrix == b->matrix && strcmp(a->dtype, b->dtype) == 0 &&
	       strcmp(a->op, b->op) == 0;
}

static bool same_case(const struct bb_compare_cell *a, const struct bb_compare_cell *b)
{
	return a->size == b->size && a->algorithm == b->algorithm && same_group(a, b);
}

/* Returns the cell of a case; NULL: none. The placements of a case come one after the other, so
   only a new cycle needs a search. */
static struct bb_compare_cell *find(struct bb_compare *compare, const struct bb_compare_cell *cell,
				    bool search)
{
	size_t i, n = compare->ncells;

	if (n > 0 && same_case(&compare->cells[n - 1], cell))
		return &compare->cells[n - 1];
	for (i = 0; search && i < n; i++) {
		if (same_case(&compare->cells[i], cell))
			return &compare->cells[i];
	}
	return NULL;
}

bb_status bb_compare_add(struct bb_compare *compare, const struct bb_result_record *r)
{
	struct bb_compare_cell model = {
		.collective = r->collective,
		.dtype = r->dtype,
		.op = r->op,
		.matrix = r->matrix,
		.root = r->root,
		.size = r->size_bytes,
		.algorithm = name_index(compare, r->algorithm_asked),
	};
	struct bb_compare_cell *cell;
	struct bb_compare_run *run;

	if (model.algorithm < 0)
		return BB_OK;
	cell = find(compare, &model, r->cycle > 1);
	if (!cell) {
		cell = BB_ARRAY_ADD(compare->cells, compare->ncells, compare->room);
		if (!cell)
			return BB_EINTERNAL;
		*cell = model;
	}
	compare->cycles = r->cycle > compare->cycles ? r->cycle : compare->cycles;
	run = &cell->runs[r->in_place];
	run->used = r->algorithm ? r->algorithm : r->algorithm_asked;
	snprintf(run->chosen, sizeof(run->chosen), "%s",
		 r->library_algorithm ? r->library_algorithm : "");
	run->source = isnan(r->percent_of_bound) ? NULL : r->bound_source;
	run->time = r->time_us;
	run->busbw = r->busbw_GBps;
	run->percent = r->percent_of_bound;
	run->doubt = r->bound_doubt;
	return BB_OK;
}

/* ---- one table --------------------------------------------------------------------- */

/* Returns the result of ALGORITHM at size number SIZE; NULL: not run in the table's placement. */
static const struct bb_compare_run *compare_at(const struct bb_compare_table *t, size_t size,
					       int algorithm)
{
	return t->at[size * (size_t)t->all->nnames + (size_t)algorithm];
}

/* Returns the time of ALGORITHM at size number SIZE in us; NAN: not run. */
static double compare_time(const struct bb_compare_table *t, size_t size, int algorithm)
{
	const struct bb_compare_run *run = compare_at(t, size, algorithm);

	return run ? run->time : NAN;
}

static bool compare_is_auto(const struct bb_compare_table *t, int algorithm)
{
	return strcmp(t->all->names[algorithm], "auto") == 0;
}

/* Returns what ran as ALGORITHM, for auto the choice; NULL: not run. */
static const char *compare_ran(const struct bb_compare_table *t, size_t size, int algorithm)
{
	const struct bb_compare_run *run = compare_at(t, size, algorithm);

	if (!run)
		return NULL;
	return run->chosen[0] && compare_is_auto(t, algorithm) ? run->chosen : run->used;
}

/* Returns the algorithm whose result auto only repeats at this size; -1: none. */
static int repeated(const struct bb_compare_table *t, size_t size, int algorithm)
{
	const struct bb_compare_run *run = compare_at(t, size, algorithm);

	for (int i = 0; run && compare_is_auto(t, algorithm) && i < t->norder; i++) {
		const struct bb_compare_run *other = compare_at(t, size, t->order[i]);

		if (!other || other == run)
			continue;
		if (strcmp(t->all->names[t->order[i]], compare_ran(t, size, algorithm)) == 0)
			return t->order[i];
		if (run->chosen[0] && strcmp(other->chosen, run->chosen) == 0)
			return t->order[i];
	}
	return -1;
}

/* Returns the time of ALGORITHM; if auto chose it too, the shorter of the two. */
static double compare_best_time(const struct bb_compare_table *t, size_t size, int algorithm)
{
	double best = compare_time(t, size, algorithm);

	for (int i = 0; i < t->norder; i++)
		if (repeated(t, size, t->order[i]) == algorithm)
			best = fmin(best, compare_time(t, size, t->order[i]));
	return best;
}

/* Returns the fastest algorithm at a size, -1 if none was run. *LEAD = the second's time over its
   own; NAN: there is no second. */
static int compare_winner(const struct bb_compare_table *t, size_t size, double *lead)
{
	double best = NAN, second = NAN;
	int i, who = -1;

	for (i = 0; i < t->norder; i++) {
		double time = compare_best_time(t, size, t->order[i]);

		if (isnan(time) || repeated(t, size, t->order[i]) >= 0)
			continue;
		if (who < 0 || time < best) {
			second = best;
			best = time;
			who = t->order[i];
		} else if (isnan(second) || time < second) {
			second = time;
		}
	}
	*lead = best > 0 ? second / best : NAN;
	return who;
}

/* Makes the table of FIRST, which is to be freed whatever comes back. */
static bb_status compare_table(struct bb_compare_table *t, const struct bb_compare *all,
			       const struct bb_compare_cell *first)
{
	size_t n = (size_t)all->nnames, i, members = 0;
	bool have[BB_COMPARE_MOST] = {false};
	double lead;
	int a;

	*t = (struct bb_compare_table){.all = all, .first = first, .placement = 1};
	for (i = 0; i < all->ncells; i++) {
		if (!same_group(&all->cells[i], first))
			continue;
		members++;
		if (all->cells[i].runs[0].used && !isnan(all->cells[i].runs[0].time))
			t->placement = 0;
	}
	t->sizes = calloc(members, sizeof(*t->sizes));
	t->at = calloc(members * n, sizeof(*t->at));
	if (!t->sizes || !t->at)
		return BB_EINTERNAL;
	for (i = 0; i < all->ncells; i++) {
		const struct bb_compare_cell *cell = &all->cells[i];
		size_t size;

		if (!same_group(cell, first))
			continue;
		for (size = t->nsizes; size > 0 && t->sizes[size - 1] != cell->size; size--)
			;
		size = size > 0 ? size - 1 : t->nsizes++;
		t->sizes[size] = cell->size;
		if (cell->runs[t->placement].used)
			t->at[size * n + (size_t)cell->algorithm] = &cell->runs[t->placement];
		have[cell->algorithm] = true;
	}
	for (a = 0; a < all->nnames; a++) {
		if (have[a])
			t->order[t->norder++] = a;
	}
	for (i = 0; i < t->nsizes; i++) {
		a = compare_winner(t, i, &lead);
		if (a >= 0)
			t->won[a] = true;
	}
	return BB_OK;
}

/* Calls VISIT with the table of each datatype, op, root and matrix until one fails. Returns that
   status; BB_EINTERNAL without memory. */
static bb_status compare_each(const struct bb_compare *compare,
			      bb_status (*visit)(const struct bb_compare_table *table, void *own),
			      void *own)
{
	bb_status status = BB_OK;

	for (size_t i = 0; i < compare->ncells && status == BB_OK; i++) {
		struct bb_compare_table t;
		size_t k = 0;

		while (k < i && !same_group(&compare->cells[k], &compare->cells[i]))
			k++;
		if (k < i)
			continue;
		status = compare_table(&t, compare, &compare->cells[i]);
		if (status == BB_OK)
			status = visit(&t, own);
		free(t.sizes);
		free(t.at);
	}
	return status;
}

/* Crossings are interpolated as if times were lines in the size: a latency plus bytes over a rate.
 */
static int compare_crossings(const struct bb_compare_table *t, int a, int b,
			     double places[BB_COMPARE_CROSSINGS], int *faster)
{
	double before = 0, before_size = 0;
	size_t size;
	int n = 0;

	*faster = -1;
	for (size = 0; size < t->nsizes; size++) {
		bool same = repeated(t, size, a) == b || repeated(t, size, b) == a;
		double now = same ? NAN : compare_time(t, size, a) - compare_time(t, size, b);
		double here = (double)t->sizes[size];

		if (!isfinite(now) || now == 0 || t->sizes[size] == 0)
			continue;
		if (*faster < 0)
			*faster = now < 0 ? a : b;
		else if ((now < 0) != (before < 0) && n < BB_COMPARE_CROSSINGS)
			places[n++] = before_size + (here - before_size) * before / (before - now);
		before = now;
		before_size = here;
	}
	return n;
}

/* True if algorithms I and K of the order are compared as a pair: of many, only those that win
   somewhere are. */
static bool compare_pair(const struct bb_compare_table *t, int i, int k)
{
	return t->nsizes > 1 &&
	       (t->norder <= ALL_PAIRS || (t->won[t->order[i]] && t->won[t->order[k]]));
}

/* A name in the library's reports and in the tuner's file. */
struct tuner_name {
	const char *reported, *tuner;
};

static const struct tuner_name collectives[] = {{"all_reduce", "allreduce"},
						{"all_gather", "allgather"},
						{"reduce_scatter", "reducescatter"},
						{"broadcast", "broadcast"},
						{"reduce", "reduce"},
						{NULL, NULL}};
static const struct tuner_name algorithms[] = {{"ring", "ring"},
					       {"tree", "tree"},
					       {"collnetdirect", "collnet_direct"},
					       {"collnetchain", "collnet_chain"},
					       {"nvls", "nvls"},
					       {"nvlstree", "nvls_tree"},
					       {"pat", "pat"},
					       {NULL, NULL}};
static const struct tuner_name protocols[] = {
	{"LL", "ll"}, {"LL128", "ll128"}, {"Simple", "simple"}, {NULL, NULL}};

/* The tuner's name of the first LENGTH characters of TEXT; NULL: it has none. */
static const char *tuner_name(const struct tuner_name *names, const char *text, size_t length)
{
	for (; names->reported; names++)
		if (strlen(names->reported) == length &&
		    strncmp(names->reported, text, length) == 0)
			return names->tuner;
	return NULL;
}

bool bb_compare_is_tunable(const char *collective)
{
	return tuner_name(collectives, collective, strlen(collective));
}

/* What the library ran. */
struct setting {
	const char *algorithm, *protocol; /* the tuner's names; NULL: not known */
	double time;
};

/* Is it known what the library ran as ALGORITHM at size number SIZE? */
static bool find_setting(const struct bb_compare_table *t, size_t size, int algorithm,
			 struct setting *s)
{
	const struct bb_compare_run *const run = compare_at(t, size, algorithm);
	const char *ran, *colon;

	if (!run || isnan(run->time))
		return false;
	ran = run->chosen[0] ? run->chosen : t->all->names[algorithm];
	colon = strchr(ran, ':');
	if (!colon)
		return false;
	s->algorithm = tuner_name(algorithms, ran, (size_t)(colon - ran));
	s->protocol = tuner_name(protocols, colon + 1, strlen(colon + 1));
	s->time = run->time;
	return s->algorithm && s->protocol;
}

/* *BEST = the fastest known at size number SIZE, of auto too if WITH_AUTO. False: none is. */
static bool find_best(const struct bb_compare_table *t, size_t size, bool with_auto,
		      struct setting *best)
{
	struct setting s;
	bool found = false;

	for (int i = 0; i < t->norder; i++) {
		if ((!with_auto && compare_is_auto(t, t->order[i])) ||
		    !find_setting(t, size, t->order[i], &s) || (found && s.time >= best->time))
			continue;
		*best = s;
		found = true;
	}
	return found;
}

/* Percent by which auto takes longer at size number SIZE than the fastest algorithm that was forced
   on the library; NAN: none is known. *ALGORITHM, *PROTOCOL = that one's, in the tuner's words. */
static double compare_auto_behind(const struct bb_compare_table *t, size_t size,
				  const char **algorithm, const char **protocol)
{
	struct setting best;
	int chosen = 0;

	while (chosen < t->norder && !compare_is_auto(t, t->order[chosen]))
		chosen++;
	if (chosen == t->norder || !find_best(t, size, false, &best))
		return NAN;
	*algorithm = best.algorithm;
	*protocol = best.protocol;
	return 100 * (compare_time(t, size, t->order[chosen]) / best.time - 1);
}

/* ---- the tuner's rows ---------------------------------------------------------------------- */

/* A row for the sizes from LEAST to MOST. */
static void add_row(struct bb_strbuf *out, const struct bb_compare_table *t,
		    const struct bb_tuner_place *place, const struct setting *s, uint64_t least,
		    uint64_t most)
{
	const char *const collective = t->first->collective;

	bb_strbuf_addf(out, "%s,%llu,%llu,%s,%s,0,%d,%d,-1,-1\n",
		       tuner_name(collectives, collective, strlen(collective)),
		       (unsigned long long)least, (unsigned long long)most, s->algorithm,
		       s->protocol, place->nodes, place->ranks);
}

/* Between two sizes each row covers its half, by logarithms; the first and the last row cover all
   sizes beyond, since the tuner runs a size without a row as a ring on one channel. */
static int add_rows(struct bb_strbuf *out, const struct bb_compare_table *t,
		    const struct bb_tuner_place *place)
{
	struct setting now, before = {NULL, NULL, 0};
	uint64_t least = 0, last = 0;
	int rows = 0;

	for (size_t size = 0; size < t->nsizes; size++) {
		if (!find_best(t, size, true, &now))
			continue;
		if (before.algorithm && (strcmp(before.algorithm, now.algorithm) != 0 ||
					 strcmp(before.protocol, now.protocol) != 0)) {
			const uint64_t most = (uint64_t)sqrt((double)last * (double)t->sizes[size]);

			add_row(out, t, place, &before, least, most);
			least = most + 1;
			rows++;
		}
		before = now;
		last = (uint64_t)t->sizes[size];
	}
	if (!before.algorithm)
		return 0;
	add_row(out, t, place, &before, least, UINT64_MAX);
	return rows + 1;
}

bb_status bb_compare_tuner(const struct bb_compare *compare, const struct bb_tuner_place *place,
			   struct bb_strbuf *out, int *rows)
{
	struct bb_compare_table t;
	bb_status status;

	*rows = 0;
	bb_strbuf_add(
		out,
		"# For NCCL's example tuner, by NCCL_TUNER_CONFIG_FILE. 0 channels leave their "
		"number to NCCL.\n"
		"# The tuner runs a collective without a row as a ring on one channel: put the "
		"rows of all collectives into one file.\n"
		"# collective,least bytes,most bytes,algorithm,protocol,channels,nodes,ranks,"
		"operations in a pipeline,registered\n");
	if (compare->ncells == 0)
		return BB_OK;
	status = compare_table(&t, compare, &compare->cells[0]);
	if (status == BB_OK) {
		bb_strbuf_addf(out, "# measured: %s %s %s\n", t.first->collective, t.first->dtype,
			       t.first->op);
		*rows = add_rows(out, &t, place);
	}
	free(t.sizes);
	free(t.at);
	return status;
}

/* ---- text ------------------------------------------------------------------------------ */

#define SIZES_WIDTH 10
#define TIME_WIDTH 10
#define BOUND_WIDTH 5

static bool bounds_known(const struct bb_compare_table *t)
{
	size_t i, n = t->nsizes * (size_t)t->all->nnames;

	for (i = 0; i < n; i++) {
		if (t->at[i] && !isnan(t->at[i]->percent))
			return true;
	}
	return false;
}

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

/* A row for each size, with the time of each algorithm and, if PERCENTS, its percentage of the
 * bound. */
static void print_times(const struct bb_compare_table *t, struct bb_strbuf *out, bool percents)
{
	struct bb_text_table table = {.mark = "#"};
	char text[BB_UNIT_TEXT];
	double lead;
	int who;

	bb_table_column(&table, "size", "(B)", SIZES_WIDTH);
	bb_table_key(&table);
	for (int i = 0; i < t->norder; i++) {
		bb_table_column(&table, t->all->names[t->order[i]], "(us)", TIME_WIDTH);
		if (percents)
			bb_table_column(&table, "", "bound", BOUND_WIDTH);
	}
	if (t->norder > 1)
		bb_table_column(&table, "winner, ahead", "", -1);
	for (size_t size = 0; size < t->nsizes; size++) {
		bb_table_cell(&table, bb_format_size(text, (uint64_t)t->sizes[size]));
		for (int i = 0; i < t->norder; i++) {
			const struct bb_compare_run *run = compare_at(t, size, t->order[i]);

			if (!run || isnan(run->time))
				bb_table_cell(&table, NULL);
			else
				bb_table_cellf(&table, "%.*f",
					       run->time < 100     ? 2
					       : run->time < 10000 ? 1
								   : 0,
					       run->time);
			if (percents && (!run || isnan(run->percent)))
				bb_table_cell(&table, NULL);
			else if (percents)
				bb_table_cellf(&table, "%.*f%%", run->percent < 10 ? 1 : 0,
					       run->percent);
		}
		who = compare_winner(t, size, &lead);
		if (t->norder > 1 && who >= 0 && !isnan(lead))
			bb_table_cellf(&table, "%s %.2fx", compare_ran(t, size, who), lead);
		else if (t->norder > 1)
			bb_table_cell(&table, "");
	}
	bb_table_print(&table, out);
	bb_table_free(&table);
}

/* Returns the source of the bound of an algorithm; NULL: it has none. */
static const char *source_of(const struct bb_compare_table *t, int algorithm)
{
	for (size_t size = 0; size < t->nsizes; size++) {
		const struct bb_compare_run *run = compare_at(t, size, algorithm);

		if (run && run->source)
			return run->source;
	}
	return NULL;
}

/* Prints the source of the bounds, once for all algorithms or a line for each. */
static void print_sources(const struct bb_compare_table *t, struct bb_strbuf *out)
{
	const char *first = NULL;
	bool differ = false;

	for (int i = 0; i < t->norder; i++) {
		const char *source = source_of(t, t->order[i]);

		differ |= first && source && strcmp(source, first) != 0;
		first = first ? first : source;
	}
	bb_strbuf_add(out, "# bound: percent of the bound reached");
	if (!differ && first)
		bb_strbuf_addf(out, "; source: %s", first);
	bb_strbuf_add(out, "\n");
	for (int i = 0; differ && i < t->norder; i++) {
		const char *source = source_of(t, t->order[i]);

		if (source)
			bb_strbuf_addf(out, "#   of %s: %s\n", t->all->names[t->order[i]], source);
	}
}

/* "# ring beats its bound at 2 of 5 sizes, at 64K with 131%: WHY" */
static void print_doubts(const struct bb_compare_table *t, struct bb_strbuf *out)
{
	char text[BB_UNIT_TEXT];

	for (int i = 0; i < t->norder; i++) {
		const struct bb_compare_run *most = NULL;
		size_t beaten = 0, of = 0, at = 0;

		for (size_t size = 0; size < t->nsizes; size++) {
			const struct bb_compare_run *run = compare_at(t, size, t->order[i]);

			of += run && !isnan(run->percent);
			if (!run || !run->doubt)
				continue;
			beaten++;
			if (!most || run->percent > most->percent) {
				most = run;
				at = size;
			}
		}
		if (most)
			bb_strbuf_addf(out,
				       "# %s beats its bound at %zu of %zu size%s, at %s with "
				       "%.0f%%: %s\n",
				       t->all->names[t->order[i]], beaten, of,
				       bb_plural((long long)of),
				       bb_format_size(text, (uint64_t)t->sizes[at]), most->percent,
				       most->doubt);
	}
}

static void print_heading(const struct bb_compare_table *t, struct bb_strbuf *out)
{
	const struct bb_compare_cell *c = t->first;

	bb_strbuf_addf(out, "#\n# %s of %s %s",
		       t->norder > 1     ? "Comparison"
		       : bounds_known(t) ? "Bounds"
					 : "Algorithm",
		       c->collective, c->dtype);
	if (strcmp(c->op, "none") != 0)
		bb_strbuf_addf(out, " %s", c->op);
	if (c->root >= 0)
		bb_strbuf_addf(out, " root %lld", (long long)c->root);
	if (c->matrix)
		bb_strbuf_addf(out, ", matrix %s", c->matrix);
	bb_strbuf_addf(out, ", %s", t->placement ? "in place" : "out of place");
	if (t->all->cycles > 1)
		bb_strbuf_addf(out, ", the last of %lld cycles", (long long)t->all->cycles);
	bb_strbuf_add(out, "\n");
	if (bounds_known(t))
		print_sources(t, out);
}

/* The choices of auto, and the sizes at which they change. */
static void print_auto(const struct bb_compare_table *t, int algorithm, struct bb_strbuf *out)
{
	const char *last = NULL;
	char text[BB_UNIT_TEXT];
	size_t size;

	for (size = 0; size < t->nsizes; size++) {
		const char *ran = compare_ran(t, size, algorithm);

		if (!ran || (last && strcmp(ran, last) == 0))
			continue;
		/* The library chose and does not report what. */
		if (strcmp(ran, t->all->names[algorithm]) == 0)
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
}

/* The loss of auto against the best forced algorithm, at each size where it is known. */
static void print_behind(const struct bb_compare_table *t, struct bb_strbuf *out)
{
	struct bb_text_table table = {.mark = "#"};
	const char *algorithm, *protocol;
	char text[BB_UNIT_TEXT];
	bool any = false;

	for (size_t size = 0; size < t->nsizes; size++) {
		const double behind = compare_auto_behind(t, size, &algorithm, &protocol);

		if (isnan(behind))
			continue;
		if (!any) {
			bb_table_column(&table, "size", "(B)", SIZES_WIDTH);
			bb_table_key(&table);
			bb_table_column(&table, "auto behind", "(%)", 0);
			bb_table_column(&table, "the best forced", "", -1);
		}
		any = true;
		bb_table_cell(&table, bb_format_size(text, (uint64_t)t->sizes[size]));
		bb_table_cellf(&table, "%.1f", behind);
		bb_table_cellf(&table, "%s, %s", algorithm, protocol);
	}
	if (any)
		bb_table_print(&table, out);
	bb_table_free(&table);
}

static void print_pair(const struct bb_compare_table *t, int a, int b, struct bb_strbuf *out)
{
	double places[BB_COMPARE_CROSSINGS];
	char text[BB_UNIT_TEXT];
	const char *x, *y;
	int faster, i, n = compare_crossings(t, a, b, places, &faster);

	if (faster < 0)
		return;
	x = t->all->names[faster];
	y = t->all->names[faster == a ? b : a];
	if (n == 0) {
		bb_strbuf_addf(out, "# %s is faster than %s at every size\n", x, y);
	} else if (n == 1) {
		bb_strbuf_addf(out, "# %s is faster than %s below about %s, slower above\n", x, y,
			       about(text, places[0]));
	} else {
		bb_strbuf_addf(out, "# %s begins faster than %s; they cross at about", x, y);
		for (i = 0; i < n; i++)
			bb_strbuf_addf(out, "%s %s", i > 0 ? "," : "", about(text, places[i]));
		bb_strbuf_add(out, "\n");
	}
}

/* The fastest result of the largest size. */
static void print_best(const struct bb_compare_table *t, struct bb_strbuf *out)
{
	const struct bb_compare_run *run;
	size_t size = 0;
	double lead, best;
	int who;
	char text[BB_UNIT_TEXT], time[BB_UNIT_TEXT];

	for (size_t i = 1; i < t->nsizes; i++)
		size = t->sizes[i] > t->sizes[size] ? i : size;
	who = t->nsizes > 0 ? compare_winner(t, size, &lead) : -1;
	if (who < 0)
		return;
	run = compare_at(t, size, who);
	bb_strbuf_addf(out, "# At %s, %s", bb_format_size(text, (uint64_t)t->sizes[size]),
		       t->all->names[who]);
	if (strcmp(t->all->names[who], compare_ran(t, size, who)) != 0)
		bb_strbuf_addf(out, " (%s)", compare_ran(t, size, who));
	if (lead < 1.005)
		bb_strbuf_add(out, " and the second are equally fast: ");
	else if (!isnan(lead))
		bb_strbuf_addf(out, " is the fastest, %.2f times as fast as the second: ", lead);
	else
		bb_strbuf_add(out, " takes ");
	best = compare_best_time(t, size, who);
	bb_strbuf_add(out, bb_format_duration(time, 1e-6 * best));
	if (!isnan(run->busbw))
		bb_strbuf_addf(out, ", %.3g GB/s bus bandwidth", run->busbw * run->time / best);
	if (!isnan(run->percent))
		bb_strbuf_addf(out, ", %.*f%% of its bound%s", run->percent < 10 ? 1 : 0,
			       run->percent, run->doubt ? ", which does not hold" : "");
	bb_strbuf_add(out, "\n");
}

struct texts {
	struct bb_strbuf *out, *answers;
};

static bb_status print_table(const struct bb_compare_table *t, void *own)
{
	const bool percents = bounds_known(t);
	const struct texts *texts = own;
	struct bb_strbuf *out = texts->out;
	size_t answer;

	if (t->norder == 1 && !percents && !compare_is_auto(t, t->order[0]))
		return BB_OK;
	print_heading(t, out);
	if (t->norder > 1 || percents)
		print_times(t, out, percents);
	for (int i = 0; i < t->norder; i++) {
		if (compare_is_auto(t, t->order[i]))
			print_auto(t, t->order[i], out);
	}
	print_behind(t, out);
	answer = out->length;
	print_best(t, out);
	print_doubts(t, out);
	for (int i = 0; i < t->norder; i++)
		for (int k = i + 1; k < t->norder; k++)
			if (compare_pair(t, i, k))
				print_pair(t, t->order[i], t->order[k], out);
	if (texts->answers)
		bb_strbuf_add(texts->answers, bb_strbuf_text(out) + answer);
	return BB_OK;
}

void bb_compare_text(const struct bb_compare *compare, struct bb_strbuf *out,
		     struct bb_strbuf *answers)
{
	struct texts texts = {out, answers};

	out->failed |= compare_each(compare, print_table, &texts) != BB_OK;
}

/* ---- records --------------------------------------------------------------------------- */

#define BB_RECORD bb_winner_record
BB_RECORD_KIND(bb_record_winner, BB_WINNER_FIELDS, "winner",
	       "Several algorithms: the fastest at one size.");

#undef BB_RECORD
#define BB_RECORD bb_crossing_record
BB_RECORD_KIND(bb_record_crossing, BB_CROSSING_FIELDS, "crossing",
	       "Several algorithms: two of them, and where one overtakes the other.");

static bb_status deliver_winner(const struct bb_compare_table *t, size_t size,
				struct bb_sinks *sinks)
{
	const struct bb_compare_cell *first = t->first;
	const char *algorithm, *protocol;
	struct bb_winner_record r;
	double lead;
	const int who = compare_winner(t, size, &lead);

	if (who < 0)
		return BB_OK;
	bb_record_init(&bb_record_winner, &r);
	r.collective = first->collective;
	r.dtype = first->dtype;
	r.op = first->op;
	r.root = first->root;
	r.size_bytes = t->sizes[size];
	r.in_place = t->placement == 1;
	r.algorithm_asked = t->all->names[who];
	r.algorithm = compare_ran(t, size, who);
	r.time_us = compare_best_time(t, size, who);
	r.times_second = lead;
	r.matrix = first->matrix;
	r.auto_behind_percent = compare_auto_behind(t, size, &algorithm, &protocol);
	return bb_sinks_record(sinks, &bb_record_winner, &r);
}

static bb_status deliver_pair(const struct bb_compare_table *t, int a, int b,
			      struct bb_sinks *sinks)
{
	const struct bb_compare_cell *first = t->first;
	double places[BB_COMPARE_CROSSINGS];
	struct bb_crossing_record r;
	int ahead, n = compare_crossings(t, a, b, places, &ahead);

	if (ahead < 0)
		return BB_OK;
	bb_record_init(&bb_record_crossing, &r);
	r.collective = first->collective;
	r.dtype = first->dtype;
	r.op = first->op;
	r.root = first->root;
	r.in_place = t->placement == 1;
	r.ahead = t->all->names[ahead];
	r.behind = t->all->names[ahead == a ? b : a];
	r.crossing_bytes = (struct bb_numbers){places, (size_t)n};
	return bb_sinks_record(sinks, &bb_record_crossing, &r);
}

static bb_status deliver_table(const struct bb_compare_table *t, void *sinks)
{
	bb_status status = BB_OK;

	if (t->norder < 2)
		return BB_OK;
	for (size_t size = 0; size < t->nsizes && status == BB_OK; size++)
		status = deliver_winner(t, size, sinks);
	for (int i = 0; i < t->norder; i++)
		for (int k = i + 1; k < t->norder && status == BB_OK; k++)
			if (compare_pair(t, i, k))
				status = deliver_pair(t, t->order[i], t->order[k], sinks);
	return status;
}

bb_status bb_compare_records(const struct bb_compare *compare, struct bb_sinks *sinks)
{
	return compare_each(compare, deliver_table, sinks);
}
