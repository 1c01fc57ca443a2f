/*
 * groups.c - results of the groups of a split world, and their table.
 */
#include "collectives/summary.h"

#include "core/stats.h"
#include "core/table.h"
#include "core/units.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS 6      /* groups side by side; for more, only least, median and most are shown */
#define NAMED_RANKS 8  /* of the worst group */
#define NO_BEHIND 0.95 /* of the median: a group above it is not called slow */

struct bb_groups { /* in one piece with its arrays */
	const struct bb_rank_infos *infos;
	int n;
	int *of, *size; /* [rank]: index of its group; [group]: its ranks */
	/* [group]: color, time in us and busbw in GB/s of the last result; then scratch for one
	   value per rank. */
	double *colors, *us, *busbw, *scratch;
};

bb_status bb_groups_open(struct bb_groups **groups, const struct bb_rank_infos *infos)
{
	const size_t each = 4 * sizeof(double) + 2 * sizeof(int);
	struct bb_groups *g = calloc(1, sizeof(*g) + infos->n * each);

	*groups = NULL;
	if (!g)
		return BB_EINTERNAL;
	g->infos = infos;
	g->colors = (double *)(void *)(g + 1);
	g->us = g->colors + infos->n;
	g->busbw = g->us + infos->n;
	g->scratch = g->busbw + infos->n;
	g->of = (int *)(void *)(g->scratch + infos->n);
	g->size = g->of + infos->n;
	for (size_t r = 0; r < infos->n; r++) {
		int group = 0;

		while (group < g->n && (int)g->colors[group] != infos->ranks[r].group)
			group++;
		if (group == g->n)
			g->colors[g->n++] = infos->ranks[r].group;
		g->of[r] = group;
		g->size[group]++;
	}
	if (g->n > 1)
		*groups = g;
	else
		free(g);
	return BB_OK;
}

/* Returns BUSBW of GROUP over the median of the groups of its size; NAN: there is no other. */
static double relative(const struct bb_groups *groups, const double *busbw, int group)
{
	double *like = groups->scratch, middle;
	int n = 0;

	for (int g = 0; g < groups->n; g++)
		if (groups->size[g] == groups->size[group])
			like[n++] = busbw[g];
	middle = bb_stats_median(like, (size_t)n);
	return n > 1 && middle > 0 ? busbw[group] / middle : NAN;
}

void bb_groups_add(struct bb_groups *groups, const double *seconds, const double *bytes,
		   double (*reduce)(const double *seconds, int n, int64_t how), int64_t how,
		   struct bb_result_record *result)
{
	double least = INFINITY;

	if (!groups)
		return;
	for (int g = 0; g < groups->n; g++) {
		double moved = 0, time;
		int n = 0;

		for (size_t r = 0; r < groups->infos->n; r++) {
			if (groups->of[r] != g)
				continue;
			groups->scratch[n++] = seconds[r];
			moved = bytes[r];
		}
		time = reduce(groups->scratch, n, how);
		groups->us[g] = time * 1e6;
		groups->busbw[g] = time > 0 ? moved / time / 1e9 : 0;
	}
	for (int g = 0; g < groups->n; g++) {
		const double standing = relative(groups, groups->busbw, g);

		if (standing < least) {
			least = standing;
			result->worst_group = (int64_t)groups->colors[g];
		}
	}
	result->groups = (struct bb_numbers){groups->colors, (size_t)groups->n};
	result->group_time_us = (struct bb_numbers){groups->us, (size_t)groups->n};
	result->group_busbw_GBps = (struct bb_numbers){groups->busbw, (size_t)groups->n};
}

/* ---- text ------------------------------------------------------------------------------ */

static void add_table(const struct bb_groups *groups, const struct bb_results *results,
		      struct bb_strbuf *out)
{
	static const struct bb_table_head heads[] = {{"size", "", 10},       {"algorithm", "", -9},
						     {"type", "", -4},       {"redop", "", -5},
						     {"placement", "", -12}, {NULL, NULL, 0}};
	static const char *const few[] = {"least", "median", "most"};
	const int n = groups->n;
	struct bb_text_table t = {.mark = "#"};
	char text[BB_UNIT_TEXT];

	bb_table_columns(&t, heads, 5);
	for (int g = 0; g < (n > COLUMNS ? 3 : n); g++) {
		snprintf(text, sizeof(text), "%d", (int)groups->colors[g]);
		bb_table_column(&t, n > COLUMNS ? few[g] : text, "", 8);
	}
	bb_table_column(&t, "worst group", "", 0);
	for (size_t i = 0; i < results->n; i++) {
		const struct bb_result_record *r = &results->list[i];
		double *busbw = groups->scratch, median;

		bb_table_cellf(&t, "%s\t%s\t%s\t%s\t%s",
			       bb_format_size(text, (uint64_t)r->size_bytes), r->algorithm,
			       r->dtype, r->op, r->in_place ? "in-place" : "out-of-place");
		memcpy(busbw, r->group_busbw_GBps.values, (size_t)n * sizeof(*busbw));
		for (int g = 0; g < n && n <= COLUMNS; g++)
			bb_table_cellf(&t, "%.2f", busbw[g]);
		median = bb_stats_median(busbw, (size_t)n);
		if (n > COLUMNS)
			bb_table_cellf(&t, "%.2f\t%.2f\t%.2f", busbw[0], median, busbw[n - 1]);
		if (r->worst_group != BB_ABSENT)
			bb_table_cellf(&t, "%d", (int)r->worst_group);
		else
			bb_table_cell(&t, "");
	}
	bb_table_print(&t, out);
	bb_table_free(&t);
}

void bb_groups_text(const struct bb_groups *groups, const struct bb_results *results,
		    struct bb_strbuf *out)
{
	double least = INFINITY;
	size_t times = 0;
	int worst = -1, named = 0;

	if (!groups || results->n == 0)
		return;
	bb_strbuf_addf(out, "#\n# Groups, %d of them, busbw in GB/s\n", groups->n);
	add_table(groups, results, out);
	for (int g = 0; g < groups->n; g++) {
		double sum = 0; /* its mean over all results decides */

		for (size_t i = 0; i < results->n; i++)
			sum += relative(groups, results->list[i].group_busbw_GBps.values, g);
		if (sum / (double)results->n < least) {
			least = sum / (double)results->n;
			worst = g;
		}
	}
	if (worst < 0) {
		bb_strbuf_add(out, "# no two groups have the same size, so none can be compared\n");
		return;
	}
	for (size_t i = 0; i < results->n; i++)
		times += results->list[i].worst_group == (int64_t)groups->colors[worst];
	bb_strbuf_addf(out, "# worst group: %d (ranks ", (int)groups->colors[worst]);
	for (size_t r = 0; r < groups->infos->n; r++) {
		if (groups->of[r] != worst)
			continue;
		if (named == NAMED_RANKS)
			bb_strbuf_add(out, ", …");
		if (named++ < NAMED_RANKS)
			bb_strbuf_addf(out, "%s%zu on %s", named == 1 ? "" : ", ", r,
				       groups->infos->ranks[r].location.host);
	}
	bb_strbuf_addf(out,
		       "), at %.0f%% of the median group of its size; the slowest in %zu of %zu "
		       "results%s\n",
		       100 * least, times, results->n,
		       least > NO_BEHIND ? ": no group is behind" : "");
}
