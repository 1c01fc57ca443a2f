/*
 * compare.c - keeps one cell for each case, and prints them as tables: a row a size, a column an
 * algorithm.
 */
#include "harness/compare.h"
#include "core/units.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ALGORITHMS 64
#define BLOCK 4         /* algorithms side by side, so that a row fits; one less with bounds */
#define ALL_PAIRS 4     /* up to so many algorithms every pair is compared */
#define MAX_CROSSINGS 4 /* told for one pair */

struct cell {
	const char *collective, *dtype, *op;
	int64_t root, size;
	int algorithm;             /* index into names */
	const char *used;          /* what ran: differs from the name for auto */
	char told[BB_CHOSEN_TEXT]; /* what the library chose in it; empty: not told */
	const char *source;        /* of the bound */
	double time[2];            /* out of place, in place; NAN: not run */
	double percent[2];         /* of the bound */
};

struct bb_compare {
	struct cell *cells;
	size_t ncells, room;
	int64_t cycles; /* seen so far */
	const char *names[MAX_ALGORITHMS];
	int nnames;
};

/* The cells of one datatype, op and root as a matrix. */
struct table {
	const struct bb_compare *all;
	const struct cell *first;
	int64_t *sizes; /* ascending as they came */
	size_t nsizes;
	const struct cell **at;    /* [size * nnames + algorithm], NULL where there is none */
	int placement;             /* whose times are shown: 0 out of place, 1 in place */
	int order[MAX_ALGORITHMS]; /* algorithms that have any cell */
	int norder;
	bool won[MAX_ALGORITHMS]; /* by algorithm: is the fastest at some size */
};

bb_status bb_compare_open(struct bb_compare **compare)
{
	*compare = calloc(1, sizeof(**compare));
	return *compare ? BB_OK : BB_EINTERNAL;
}

void bb_compare_close(struct bb_compare *compare)
{
	if (!compare)
		return;
	free(compare->cells);
	free(compare);
}

/* ---- keeping ----------------------------------------------------------------------- */

static int name_index(struct bb_compare *compare, const char *name)
{
	int i;

	for (i = 0; i < compare->nnames; i++) {
		if (strcmp(compare->names[i], name) == 0)
			return i;
	}
	if (compare->nnames == MAX_ALGORITHMS)
		return -1;
	compare->names[compare->nnames] = name;
	return compare->nnames++;
}

static bool same_group(const struct cell *a, const struct cell *b)
{
	return a->root == b->root && strcmp(a->dtype, b->dtype) == 0 && strcmp(a->op, b->op) == 0;
}

static bool same_case(const struct cell *a, const struct cell *b)
{
	return a->size == b->size && a->algorithm == b->algorithm && same_group(a, b);
}

/* Placements of one case come one after the other; only another cycle needs a search. */
static struct cell *find(struct bb_compare *compare, const struct cell *cell, bool search)
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

static struct cell *append(struct bb_compare *compare, const struct cell *cell)
{
	if (compare->ncells == compare->room) {
		size_t room = compare->room ? 2 * compare->room : 64;
		struct cell *cells = realloc(compare->cells, room * sizeof(*cells));

		if (!cells)
			return NULL;
		compare->cells = cells;
		compare->room = room;
	}
	compare->cells[compare->ncells] = *cell;
	return &compare->cells[compare->ncells++];
}

bb_status bb_compare_add(struct bb_compare *compare, const struct bb_result_record *r)
{
	struct cell model = {
		.collective = r->collective,
		.dtype = r->dtype,
		.op = r->op,
		.root = r->root,
		.size = r->size_bytes,
		.algorithm = name_index(compare, r->algorithm_asked),
		.time = {NAN, NAN},
		.percent = {NAN, NAN},
	};
	struct cell *cell;

	if (model.algorithm < 0)
		return BB_OK;
	cell = find(compare, &model, r->cycle > 1);
	if (!cell)
		cell = append(compare, &model);
	if (!cell)
		return BB_EINTERNAL;
	compare->cycles = r->cycle > compare->cycles ? r->cycle : compare->cycles;
	cell->used = r->algorithm ? r->algorithm : r->algorithm_asked;
	snprintf(cell->told, sizeof(cell->told), "%s",
		 r->library_algorithm ? r->library_algorithm : "");
	if (!isnan(r->percent_of_bound))
		cell->source = r->bound_source;
	cell->time[r->in_place] = r->time_us;
	cell->percent[r->in_place] = r->percent_of_bound;
	return BB_OK;
}

/* ---- one table --------------------------------------------------------------------- */

static double time_at(const struct table *t, size_t size, int algorithm)
{
	const struct cell *cell = t->at[size * (size_t)t->all->nnames + (size_t)algorithm];

	return cell ? cell->time[t->placement] : NAN;
}

static bool is_auto(const struct table *t, int algorithm)
{
	return strcmp(t->all->names[algorithm], "auto") == 0;
}

/* What ran: under auto, what was chosen. */
static const char *ran(const struct table *t, const struct cell *cell)
{
	return cell->told[0] && is_auto(t, cell->algorithm) ? cell->told : cell->used;
}

/* The column that auto's at this size only repeats; -1: none. */
static int repeated(const struct table *t, size_t size, int algorithm)
{
	const struct cell *const *row = &t->at[size * (size_t)t->all->nnames];
	const struct cell *cell = row[algorithm];

	for (int i = 0; cell && cell->used && is_auto(t, algorithm) && i < t->norder; i++) {
		const struct cell *other = row[t->order[i]];

		if (!other || other == cell)
			continue;
		if (strcmp(t->all->names[t->order[i]], ran(t, cell)) == 0)
			return t->order[i];
		if (cell->told[0] && strcmp(other->told, cell->told) == 0)
			return t->order[i];
	}
	return -1;
}

static bool repeats(const struct table *t, size_t size, int algorithm)
{
	return repeated(t, size, algorithm) >= 0;
}

/* What was run twice, under its own name and by auto, was as fast as the faster of the two. */
static double best_time(const struct table *t, size_t size, int algorithm)
{
	double best = time_at(t, size, algorithm);

	for (int i = 0; i < t->norder; i++)
		if (repeated(t, size, t->order[i]) == algorithm)
			best = fmin(best, time_at(t, size, t->order[i]));
	return best;
}

/* The fastest at a size and how many times faster than the second; -1: none was run. */
static int winner(const struct table *t, size_t size, double *lead)
{
	double best = NAN, second = NAN;
	int i, who = -1;

	for (i = 0; i < t->norder; i++) {
		double time = best_time(t, size, t->order[i]);

		if (isnan(time) || repeats(t, size, t->order[i]))
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

static size_t size_index(struct table *t, int64_t size)
{
	size_t i;

	for (i = t->nsizes; i > 0; i--) {
		if (t->sizes[i - 1] == size)
			return i - 1;
	}
	t->sizes[t->nsizes] = size;
	return t->nsizes++;
}

/* Put the cells of FIRST's group into rows and columns. */
static bb_status table_make(struct table *t, const struct bb_compare *all, const struct cell *first)
{
	size_t n = (size_t)all->nnames, i, members = 0;
	bool have[MAX_ALGORITHMS] = {false}, out_of_place = false;
	double lead;
	int a;

	*t = (struct table){.all = all, .first = first};
	for (i = 0; i < all->ncells; i++)
		members += same_group(&all->cells[i], first);
	t->sizes = calloc(members, sizeof(*t->sizes));
	t->at = calloc(members * n, sizeof(*t->at));
	if (!t->sizes || !t->at)
		return BB_EINTERNAL;
	for (i = 0; i < all->ncells; i++) {
		const struct cell *cell = &all->cells[i];

		if (!same_group(cell, first))
			continue;
		t->at[size_index(t, cell->size) * n + (size_t)cell->algorithm] = cell;
		have[cell->algorithm] = true;
		out_of_place |= !isnan(cell->time[0]);
	}
	t->placement = out_of_place ? 0 : 1;
	for (a = 0; a < all->nnames; a++) {
		if (have[a])
			t->order[t->norder++] = a;
	}
	for (i = 0; i < t->nsizes; i++) {
		a = winner(t, i, &lead);
		if (a >= 0)
			t->won[a] = true;
	}
	return BB_OK;
}

static void table_free(struct table *t)
{
	free(t->sizes);
	free(t->at);
}

static bool bounds_known(const struct table *t)
{
	size_t i, n = t->nsizes * (size_t)t->all->nnames;

	for (i = 0; i < n; i++) {
		if (t->at[i] && !isnan(t->at[i]->percent[t->placement]))
			return true;
	}
	return false;
}

/* ---- printing ---------------------------------------------------------------------- */

/* "48K", "1.5M": three digits, for a place between two sizes. */
static const char *about(char text[BB_UNIT_TEXT], double bytes)
{
	static const char units[] = " KMGT";
	int unit = 0;

	for (; unit < 4 && bytes >= 1023.5; unit++)
		bytes /= 1024;
	snprintf(text, BB_UNIT_TEXT, unit ? "%.3g%c" : "%.0f", bytes, units[unit]);
	return text;
}

/* Of the algorithm at PLACE: its name, or a time and perhaps a percentage. */
static int column_width(const struct table *t, int place, bool percents)
{
	int name = (int)strlen(t->all->names[t->order[place]]), cell = percents ? 17 : 10;

	return name > cell ? name : cell;
}

static void print_time(struct bb_strbuf *out, double us, int width)
{
	if (isnan(us))
		bb_strbuf_addf(out, "  %*s", width, "-");
	else
		bb_strbuf_addf(out, "  %*.*f", width, us < 100 ? 2 : us < 10000 ? 1 : 0, us);
}

static void print_row(const struct table *t, struct bb_strbuf *out, size_t size, int from, int to,
		      bool percents)
{
	char text[BB_UNIT_TEXT];
	double lead;
	int i, who;

	bb_strbuf_addf(out, "# %10s", bb_format_size(text, (uint64_t)t->sizes[size]));
	for (i = from; i < to; i++) {
		const struct cell *cell =
			t->at[size * (size_t)t->all->nnames + (size_t)t->order[i]];
		double percent = cell ? cell->percent[t->placement] : NAN;

		print_time(out, time_at(t, size, t->order[i]),
			   column_width(t, i, percents) - (percents ? 7 : 0));
		if (percents && isnan(percent))
			bb_strbuf_addf(out, " %6s", "-");
		else if (percents)
			bb_strbuf_addf(out, " %5.*f%%", percent < 10 ? 1 : 0, percent);
	}
	who = t->norder > 1 && to == t->norder ? winner(t, size, &lead) : -1;
	if (who >= 0 && !isnan(lead))
		bb_strbuf_addf(out, "  %s %.2fx",
			       ran(t, t->at[size * (size_t)t->all->nnames + (size_t)who]), lead);
	bb_strbuf_add(out, "\n");
}

static void print_block(const struct table *t, struct bb_strbuf *out, int from, int to,
			bool percents)
{
	size_t size;
	int i;

	bb_strbuf_addf(out, "# %10s", "size");
	for (i = from; i < to; i++)
		bb_strbuf_addf(out, "  %*s", column_width(t, i, percents),
			       t->all->names[t->order[i]]);
	bb_strbuf_addf(out, "%s\n", t->norder > 1 && to == t->norder ? "  winner, ahead" : "");
	bb_strbuf_addf(out, "# %10s", "(B)");
	for (i = from; i < to; i++)
		bb_strbuf_addf(out, "  %*s%s", column_width(t, i, percents) - (percents ? 7 : 0),
			       "(us)", percents ? "  bound" : "");
	bb_strbuf_add(out, "\n");
	for (size = 0; size < t->nsizes; size++)
		print_row(t, out, size, from, to, percents);
}

/* Where the bound of an algorithm comes from; NULL: it has none. */
static const char *source_of(const struct table *t, int algorithm)
{
	for (size_t size = 0; size < t->nsizes; size++) {
		const struct cell *c = t->at[size * (size_t)t->all->nnames + (size_t)algorithm];

		if (c && c->source)
			return c->source;
	}
	return NULL;
}

/* Once for all algorithms, or a line each. */
static void print_sources(const struct table *t, struct bb_strbuf *out)
{
	const char *first = NULL;
	bool differ = false;

	for (int i = 0; i < t->norder; i++) {
		const char *source = source_of(t, t->order[i]);

		differ |= first && source && strcmp(source, first) != 0;
		first = first ? first : source;
	}
	bb_strbuf_add(out, "# bound: percent of what it could be");
	if (!differ && first)
		bb_strbuf_addf(out, "; source: %s", first);
	bb_strbuf_add(out, "\n");
	for (int i = 0; differ && i < t->norder; i++) {
		const char *source = source_of(t, t->order[i]);

		if (source)
			bb_strbuf_addf(out, "#   of %s: %s\n", t->all->names[t->order[i]], source);
	}
}

static void print_heading(const struct table *t, struct bb_strbuf *out)
{
	const struct cell *c = t->first;

	bb_strbuf_addf(out, "#\n# %s of %s %s",
		       t->norder > 1     ? "Comparison"
		       : bounds_known(t) ? "Bounds"
					 : "Algorithm",
		       c->collective, c->dtype);
	if (strcmp(c->op, "none") != 0)
		bb_strbuf_addf(out, " %s", c->op);
	if (c->root >= 0)
		bb_strbuf_addf(out, " root %lld", (long long)c->root);
	bb_strbuf_addf(out, ", %s", t->placement ? "in place" : "out of place");
	if (t->all->cycles > 1)
		bb_strbuf_addf(out, ", the last of %lld cycles", (long long)t->all->cycles);
	bb_strbuf_add(out, "\n");
	if (bounds_known(t))
		print_sources(t, out);
}

/* Where auto changed its mind. */
static void print_auto(const struct table *t, int algorithm, struct bb_strbuf *out)
{
	const char *last = NULL;
	char text[BB_UNIT_TEXT];
	size_t size;

	for (size = 0; size < t->nsizes; size++) {
		const struct cell *c = t->at[size * (size_t)t->all->nnames + (size_t)algorithm];

		if (!c || !c->used || (last && strcmp(ran(t, c), last) == 0))
			continue;
		/* The library chose, and does not tell what. */
		if (strcmp(ran(t, c), t->all->names[algorithm]) == 0)
			continue;
		if (last)
			bb_strbuf_addf(out, ", %s from %s", ran(t, c),
				       bb_format_size(text, (uint64_t)c->size));
		else
			bb_strbuf_addf(out, "# auto chose %s", ran(t, c));
		last = ran(t, c);
	}
	if (last)
		bb_strbuf_add(out, "\n");
}

/* Where the lead changes between A and B, by linear interpolation of the logarithms. FASTER is
   set to the one ahead at the first size, -1 where both never ran together. */
static int crossings(const struct table *t, int a, int b, double places[MAX_CROSSINGS], int *faster)
{
	double before = 0, before_size = 0;
	size_t size;
	int n = 0;

	*faster = -1;
	for (size = 0; size < t->nsizes; size++) {
		bool same = repeats(t, size, a) || repeats(t, size, b);
		double now = same ? NAN : log(time_at(t, size, a) / time_at(t, size, b));
		double here = log((double)t->sizes[size]);

		if (!isfinite(now) || now == 0 || t->sizes[size] == 0)
			continue;
		if (*faster < 0)
			*faster = now < 0 ? a : b;
		else if ((now < 0) != (before < 0) && n < MAX_CROSSINGS)
			places[n++] =
				exp(before_size + (here - before_size) * before / (before - now));
		before = now;
		before_size = here;
	}
	return n;
}

static void print_pair(const struct table *t, int a, int b, struct bb_strbuf *out)
{
	double places[MAX_CROSSINGS];
	char text[BB_UNIT_TEXT];
	const char *x, *y;
	int faster, i, n = crossings(t, a, b, places, &faster);

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

/* Of many algorithms only those that win somewhere are worth a line each. */
static void print_pairs(const struct table *t, struct bb_strbuf *out)
{
	int i, k;

	for (i = 0; t->nsizes > 1 && i < t->norder; i++) {
		for (k = i + 1; k < t->norder; k++) {
			int a = t->order[i], b = t->order[k];

			if (t->norder <= ALL_PAIRS || (t->won[a] && t->won[b]))
				print_pair(t, a, b, out);
		}
	}
}

static void print_table(const struct table *t, struct bb_strbuf *out)
{
	bool percents = bounds_known(t);
	int i, block = percents ? BLOCK - 1 : BLOCK;

	print_heading(t, out);
	for (i = 0; (t->norder > 1 || percents) && i < t->norder; i += block)
		print_block(t, out, i, i + block < t->norder ? i + block : t->norder, percents);
	for (i = 0; i < t->norder; i++) {
		if (is_auto(t, t->order[i]))
			print_auto(t, t->order[i], out);
	}
	print_pairs(t, out);
}

static bool worth_telling(const struct table *t)
{
	return t->norder > 1 || bounds_known(t) || is_auto(t, t->order[0]);
}

void bb_compare_text(const struct bb_compare *compare, struct bb_strbuf *out)
{
	struct table t;
	size_t i, k;

	for (i = 0; i < compare->ncells; i++) {
		for (k = 0; k < i && !same_group(&compare->cells[k], &compare->cells[i]); k++)
			;
		if (k < i)
			continue;
		if (table_make(&t, compare, &compare->cells[i]) != BB_OK)
			out->failed = true;
		else if (worth_telling(&t))
			print_table(&t, out);
		table_free(&t);
	}
}
