/*
 * compare.c - stores one cell for each case, and arranges them in tables: a row for each size, a
 * column for each algorithm.
 */
#include "harness/results/compare_inside.h"

#include "core/array.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

const struct bb_compare_run *bb_compare_at(const struct bb_compare_table *t, size_t size,
					   int algorithm)
{
	return t->at[size * (size_t)t->all->nnames + (size_t)algorithm];
}

double bb_compare_time(const struct bb_compare_table *t, size_t size, int algorithm)
{
	const struct bb_compare_run *run = bb_compare_at(t, size, algorithm);

	return run ? run->time : NAN;
}

bool bb_compare_is_auto(const struct bb_compare_table *t, int algorithm)
{
	return strcmp(t->all->names[algorithm], "auto") == 0;
}

const char *bb_compare_ran(const struct bb_compare_table *t, size_t size, int algorithm)
{
	const struct bb_compare_run *run = bb_compare_at(t, size, algorithm);

	if (!run)
		return NULL;
	return run->chosen[0] && bb_compare_is_auto(t, algorithm) ? run->chosen : run->used;
}

/* Returns the algorithm whose result auto only repeats at this size; -1: none. */
static int repeated(const struct bb_compare_table *t, size_t size, int algorithm)
{
	const struct bb_compare_run *run = bb_compare_at(t, size, algorithm);

	for (int i = 0; run && bb_compare_is_auto(t, algorithm) && i < t->norder; i++) {
		const struct bb_compare_run *other = bb_compare_at(t, size, t->order[i]);

		if (!other || other == run)
			continue;
		if (strcmp(t->all->names[t->order[i]], bb_compare_ran(t, size, algorithm)) == 0)
			return t->order[i];
		if (run->chosen[0] && strcmp(other->chosen, run->chosen) == 0)
			return t->order[i];
	}
	return -1;
}

static bool repeats(const struct bb_compare_table *t, size_t size, int algorithm)
{
	return repeated(t, size, algorithm) >= 0;
}

double bb_compare_best_time(const struct bb_compare_table *t, size_t size, int algorithm)
{
	double best = bb_compare_time(t, size, algorithm);

	for (int i = 0; i < t->norder; i++)
		if (repeated(t, size, t->order[i]) == algorithm)
			best = fmin(best, bb_compare_time(t, size, t->order[i]));
	return best;
}

int bb_compare_winner(const struct bb_compare_table *t, size_t size, double *lead)
{
	double best = NAN, second = NAN;
	int i, who = -1;

	for (i = 0; i < t->norder; i++) {
		double time = bb_compare_best_time(t, size, t->order[i]);

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

static size_t size_index(struct bb_compare_table *t, int64_t size)
{
	size_t i;

	for (i = t->nsizes; i > 0; i--) {
		if (t->sizes[i - 1] == size)
			return i - 1;
	}
	t->sizes[t->nsizes] = size;
	return t->nsizes++;
}

/* True if cell I is the first of its datatype, op, root and matrix: each of these has a table. */
static bool is_first(const struct bb_compare *compare, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (same_group(&compare->cells[k], &compare->cells[i]))
			return false;
	return true;
}

bb_status bb_compare_table(struct bb_compare_table *t, const struct bb_compare *all,
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
		size = size_index(t, cell->size);
		if (cell->runs[t->placement].used)
			t->at[size * n + (size_t)cell->algorithm] = &cell->runs[t->placement];
		have[cell->algorithm] = true;
	}
	for (a = 0; a < all->nnames; a++) {
		if (have[a])
			t->order[t->norder++] = a;
	}
	for (i = 0; i < t->nsizes; i++) {
		a = bb_compare_winner(t, i, &lead);
		if (a >= 0)
			t->won[a] = true;
	}
	return BB_OK;
}

void bb_compare_table_free(struct bb_compare_table *t)
{
	free(t->sizes);
	free(t->at);
}

bb_status bb_compare_each(const struct bb_compare *compare,
			  bb_status (*visit)(const struct bb_compare_table *table, void *own),
			  void *own)
{
	bb_status status = BB_OK;

	for (size_t i = 0; i < compare->ncells && status == BB_OK; i++) {
		struct bb_compare_table t;

		if (!is_first(compare, i))
			continue;
		status = bb_compare_table(&t, compare, &compare->cells[i]);
		if (status == BB_OK)
			status = visit(&t, own);
		bb_compare_table_free(&t);
	}
	return status;
}

/* Crossings are interpolated as if times were lines in the size: a latency plus bytes over a rate.
 */
int bb_compare_crossings(const struct bb_compare_table *t, int a, int b,
			 double places[BB_COMPARE_CROSSINGS], int *faster)
{
	double before = 0, before_size = 0;
	size_t size;
	int n = 0;

	*faster = -1;
	for (size = 0; size < t->nsizes; size++) {
		bool same = repeated(t, size, a) == b || repeated(t, size, b) == a;
		double now = same ? NAN : bb_compare_time(t, size, a) - bb_compare_time(t, size, b);
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

bool bb_compare_pair(const struct bb_compare_table *t, int i, int k)
{
	return t->nsizes > 1 &&
	       (t->norder <= ALL_PAIRS || (t->won[t->order[i]] && t->won[t->order[k]]));
}
