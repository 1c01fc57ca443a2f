/*
 * groups.c - results of the groups of a split world, and their table.
 */
#include "collectives/groups.h"

#include "collectives/result.h"
#include "core/array.h"
#include "core/stats.h"
#include "core/table.h"
#include "core/units.h"

#include <stdlib.h>
#include <string.h>

#define COLUMNS 6      /* groups side by side; for more, only least, median and most are shown */
#define NAMED_RANKS 8  /* of the worst group */
#define NO_BEHIND 0.95 /* of the median: a group above it is not called slow */

/* One result. */
struct row {
	const char *algorithm, *dtype, *op;
	int64_t size_bytes;
	bool in_place;
	int worst; /* group furthest behind others of its size; -1: all sizes differ */
	double *busbw;
};

struct bb_groups {
	const struct bb_rank_infos *infos;
	int n;
	int *of;         /* [rank]: index of its group */
	int *size;       /* [group]: its ranks */
	double *colors;  /* [group] */
	double *seconds; /* [group], then scratch for one value per rank */
	struct row *rows;
	size_t nrows, room;
};

/* Returns the index of the group of COLOR, which is added if it is new. */
static int index_of(struct bb_groups *groups, int color)
{
	for (int g = 0; g < groups->n; g++)
		if ((int)groups->colors[g] == color)
			return g;
	groups->colors[groups->n] = color;
	return groups->n++;
}

bb_status bb_groups_open(struct bb_groups **groups, const struct bb_rank_infos *infos)
{
	struct bb_groups *g = calloc(1, sizeof(*g));

	*groups = NULL;
	if (!g)
		return BB_EINTERNAL;
	g->infos = infos;
	g->of = calloc(infos->n, sizeof(*g->of));
	g->size = calloc(infos->n, sizeof(*g->size));
	g->colors = calloc(infos->n, sizeof(*g->colors));
	g->seconds = calloc(2 * infos->n, sizeof(*g->seconds));
	if (!g->of || !g->size || !g->colors || !g->seconds) {
		bb_groups_close(g);
		return BB_EINTERNAL;
	}
	for (size_t r = 0; r < infos->n; r++)
		g->size[g->of[r] = index_of(g, infos->ranks[r].group)]++;
	if (g->n > 1)
		*groups = g;
	else
		bb_groups_close(g);
	return BB_OK;
}

void bb_groups_close(struct bb_groups *groups)
{
	if (!groups)
		return;
	for (size_t i = 0; i < groups->nrows; i++)
		free(groups->rows[i].busbw);
	free(groups->rows);
	free(groups->of);
	free(groups->size);
	free(groups->colors);
	free(groups->seconds);
	free(groups);
}

static struct row *new_row(struct bb_groups *groups)
{
	struct row *row = BB_ARRAY_ADD(groups->rows, groups->nrows, groups->room);

	if (!row)
		return NULL;
	row->busbw = calloc((size_t)groups->n, sizeof(*row->busbw));
	groups->nrows -= !row->busbw;
	return row->busbw ? row : NULL;
}

static double median(const double *values, int n, double *scratch)
{
	memmove(scratch, values, (size_t)n * sizeof(*scratch));
	return bb_stats_median(scratch, (size_t)n);
}

/* Returns BUSBW of GROUP over the median of the groups of its size; NAN: there is no other. */
static double relative(const struct bb_groups *groups, const double *busbw, int group)
{
	double *like = groups->seconds + groups->infos->n, middle;
	int n = 0;

	for (int g = 0; g < groups->n; g++)
		if (groups->size[g] == groups->size[group])
			like[n++] = busbw[g];
	middle = median(like, n, like);
	return n > 1 && middle > 0 ? busbw[group] / middle : NAN;
}

static int worst_of(const struct bb_groups *groups, const double *busbw)
{
	double least = INFINITY;
	int worst = -1;

	for (int g = 0; g < groups->n; g++) {
		const double mine = relative(groups, busbw, g);

		if (mine < least) {
			least = mine;
			worst = g;
		}
	}
	return worst;
}

bb_status bb_groups_add(struct bb_groups *groups, const struct bb_group_part *parts,
			double (*reduce)(const double *seconds, int n, int64_t how), int64_t how,
			struct bb_result_record *result)
{
	struct row *row;
	double *scratch;

	if (!groups)
		return BB_OK;
	row = new_row(groups);
	if (!row)
		return BB_EINTERNAL;
	scratch = groups->seconds + groups->infos->n;
	for (int g = 0; g < groups->n; g++) {
		double bytes = 0, seconds;
		int n = 0;

		for (size_t r = 0; r < groups->infos->n; r++) {
			if (groups->of[r] != g)
				continue;
			scratch[n++] = parts[r].seconds;
			bytes = parts[r].busbw_bytes;
		}
		seconds = reduce(scratch, n, how);
		groups->seconds[g] = seconds * 1e6;
		row->busbw[g] = seconds > 0 ? bytes / seconds / 1e9 : 0;
	}
	row->worst = worst_of(groups, row->busbw);
	row->algorithm = result->algorithm;
	row->dtype = result->dtype;
	row->op = result->op;
	row->size_bytes = result->size_bytes;
	row->in_place = result->in_place;
	result->groups = (struct bb_numbers){groups->colors, (size_t)groups->n};
	result->group_time_us = (struct bb_numbers){groups->seconds, (size_t)groups->n};
	result->group_busbw_GBps = (struct bb_numbers){row->busbw, (size_t)groups->n};
	if (row->worst >= 0)
		result->worst_group = (int64_t)groups->colors[row->worst];
	return BB_OK;
}

/* ---- text ------------------------------------------------------------------------------ */

static void add_columns(const struct bb_groups *groups, struct bb_text_table *t)
{
	bb_table_column(t, "size", "", 10);
	bb_table_column(t, "algorithm", "", -9);
	bb_table_column(t, "type", "", -4);
	bb_table_column(t, "redop", "", -5);
	bb_table_column(t, "placement", "", -12);
	bb_table_key(t);
	if (groups->n > COLUMNS) {
		bb_table_column(t, "least", "", 8);
		bb_table_column(t, "median", "", 8);
		bb_table_column(t, "most", "", 8);
	}
	for (int g = 0; g < groups->n && groups->n <= COLUMNS; g++) {
		char color[16];

		snprintf(color, sizeof(color), "%d", (int)groups->colors[g]);
		bb_table_column(t, color, "", 8);
	}
	bb_table_column(t, "worst group", "", 0);
}

static void add_row(const struct bb_groups *groups, const struct row *row, struct bb_text_table *t)
{
	char size[BB_UNIT_TEXT];

	bb_table_cell(t, bb_format_size(size, (uint64_t)row->size_bytes));
	bb_table_cell(t, row->algorithm);
	bb_table_cell(t, row->dtype);
	bb_table_cell(t, row->op);
	bb_table_cell(t, row->in_place ? "in-place" : "out-of-place");
	if (groups->n > COLUMNS) {
		double least = INFINITY, most = 0;

		for (int g = 0; g < groups->n; g++) {
			least = row->busbw[g] < least ? row->busbw[g] : least;
			most = row->busbw[g] > most ? row->busbw[g] : most;
		}
		bb_table_cellf(t, "%.2f", least);
		bb_table_cellf(t, "%.2f", median(row->busbw, groups->n, groups->seconds));
		bb_table_cellf(t, "%.2f", most);
	}
	for (int g = 0; g < groups->n && groups->n <= COLUMNS; g++)
		bb_table_cellf(t, "%.2f", row->busbw[g]);
	if (row->worst >= 0)
		bb_table_cellf(t, "%d", (int)groups->colors[row->worst]);
	else
		bb_table_cell(t, "");
}

/* Returns the mean of `relative` over all results. */
static double standing(const struct bb_groups *groups, int group)
{
	double sum = 0;

	for (size_t i = 0; i < groups->nrows; i++)
		sum += relative(groups, groups->rows[i].busbw, group);
	return sum / (double)groups->nrows;
}

static void add_members(const struct bb_groups *groups, int group, struct bb_strbuf *out)
{
	int named = 0;

	for (size_t r = 0; r < groups->infos->n; r++) {
		if (groups->of[r] != group)
			continue;
		if (named == NAMED_RANKS)
			bb_strbuf_add(out, ", …");
		if (named++ < NAMED_RANKS)
			bb_strbuf_addf(out, "%s%zu on %s", named == 1 ? "" : ", ", r,
				       groups->infos->ranks[r].location.host);
	}
}

void bb_groups_text(const struct bb_groups *groups, struct bb_strbuf *out)
{
	struct bb_text_table t = {.mark = "#"};
	double least = INFINITY;
	size_t times = 0;
	int worst = -1;

	if (!groups || groups->nrows == 0)
		return;
	bb_strbuf_addf(out, "#\n# Groups, %d of them, busbw in GB/s\n", groups->n);
	add_columns(groups, &t);
	for (size_t i = 0; i < groups->nrows; i++)
		add_row(groups, &groups->rows[i], &t);
	bb_table_print(&t, out);
	bb_table_free(&t);
	for (int g = 0; g < groups->n; g++) {
		const double mine = standing(groups, g);

		if (mine < least) {
			least = mine;
			worst = g;
		}
	}
	if (worst < 0) {
		bb_strbuf_add(out, "# no two groups have the same size, so none can be compared\n");
		return;
	}
	for (size_t i = 0; i < groups->nrows; i++)
		times += groups->rows[i].worst == worst;
	bb_strbuf_addf(out, "# worst group: %d (ranks ", (int)groups->colors[worst]);
	add_members(groups, worst, out);
	bb_strbuf_addf(out,
		       "), at %.0f%% of the median group of its size; the slowest in %zu of %zu "
		       "results%s\n",
		       100 * least, times, groups->nrows,
		       least > NO_BEHIND ? ": no group is behind" : "");
}
