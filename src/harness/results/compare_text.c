/*
 * compare_text.c - prints the tables of a comparison, and where the lead changes.
 */
#include "harness/results/compare_inside.h"

#include "core/table.h"
#include "core/units.h"

#include <stdio.h>
#include <string.h>

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

/* ---- printing ---------------------------------------------------------------------- */

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

static void add_time(struct bb_text_table *table, double us)
{
	if (isnan(us))
		bb_table_cell(table, NULL);
	else
		bb_table_cellf(table, "%.*f", us < 100 ? 2 : us < 10000 ? 1 : 0, us);
}

static void add_percent(struct bb_text_table *table, double percent)
{
	if (isnan(percent))
		bb_table_cell(table, NULL);
	else
		bb_table_cellf(table, "%.*f%%", percent < 10 ? 1 : 0, percent);
}

static void add_winner(struct bb_text_table *table, const struct bb_compare_table *t, size_t size)
{
	double lead;
	const int who = bb_compare_winner(t, size, &lead);

	if (who >= 0 && !isnan(lead))
		bb_table_cellf(table, "%s %.2fx", bb_compare_ran(t, size, who), lead);
	else
		bb_table_cell(table, "");
}

/* A row for each size, with the time of each algorithm and, if PERCENTS, its percentage of the
 * bound. */
static void print_times(const struct bb_compare_table *t, struct bb_strbuf *out, bool percents)
{
	struct bb_text_table table = {.mark = "#"};
	char text[BB_UNIT_TEXT];

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
			const struct bb_compare_run *run = bb_compare_at(t, size, t->order[i]);

			add_time(&table, run ? run->time : NAN);
			if (percents)
				add_percent(&table, run ? run->percent : NAN);
		}
		if (t->norder > 1)
			add_winner(&table, t, size);
	}
	bb_table_print(&table, out);
	bb_table_free(&table);
}

/* Returns the source of the bound of an algorithm; NULL: it has none. */
static const char *source_of(const struct bb_compare_table *t, int algorithm)
{
	for (size_t size = 0; size < t->nsizes; size++) {
		const struct bb_compare_run *run = bb_compare_at(t, size, algorithm);

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
			const struct bb_compare_run *run = bb_compare_at(t, size, t->order[i]);

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
		const char *ran = bb_compare_ran(t, size, algorithm);

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

static bool is_behind_known(const struct bb_compare_table *t)
{
	const char *algorithm, *protocol;

	for (size_t size = 0; size < t->nsizes; size++)
		if (!isnan(bb_compare_auto_behind(t, size, &algorithm, &protocol)))
			return true;
	return false;
}

/* The loss of auto against the best forced algorithm, at each size. */
static void print_behind(const struct bb_compare_table *t, struct bb_strbuf *out)
{
	struct bb_text_table table = {.mark = "#"};
	const char *algorithm, *protocol;
	char text[BB_UNIT_TEXT];

	bb_table_column(&table, "size", "(B)", SIZES_WIDTH);
	bb_table_key(&table);
	bb_table_column(&table, "auto behind", "(%)", 0);
	bb_table_column(&table, "the best forced", "", -1);
	for (size_t size = 0; size < t->nsizes; size++) {
		const double behind = bb_compare_auto_behind(t, size, &algorithm, &protocol);

		if (isnan(behind))
			continue;
		bb_table_cell(&table, bb_format_size(text, (uint64_t)t->sizes[size]));
		bb_table_cellf(&table, "%.1f", behind);
		bb_table_cellf(&table, "%s, %s", algorithm, protocol);
	}
	bb_table_print(&table, out);
	bb_table_free(&table);
}

static void print_pair(const struct bb_compare_table *t, int a, int b, struct bb_strbuf *out)
{
	double places[BB_COMPARE_CROSSINGS];
	char text[BB_UNIT_TEXT];
	const char *x, *y;
	int faster, i, n = bb_compare_crossings(t, a, b, places, &faster);

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

static void print_pairs(const struct bb_compare_table *t, struct bb_strbuf *out)
{
	for (int i = 0; i < t->norder; i++)
		for (int k = i + 1; k < t->norder; k++)
			if (bb_compare_pair(t, i, k))
				print_pair(t, t->order[i], t->order[k], out);
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
	who = t->nsizes > 0 ? bb_compare_winner(t, size, &lead) : -1;
	if (who < 0)
		return;
	run = bb_compare_at(t, size, who);
	bb_strbuf_addf(out, "# At %s, %s", bb_format_size(text, (uint64_t)t->sizes[size]),
		       t->all->names[who]);
	if (strcmp(t->all->names[who], bb_compare_ran(t, size, who)) != 0)
		bb_strbuf_addf(out, " (%s)", bb_compare_ran(t, size, who));
	if (lead < 1.005)
		bb_strbuf_add(out, " and the second are equally fast: ");
	else if (!isnan(lead))
		bb_strbuf_addf(out, " is the fastest, %.2f times as fast as the second: ", lead);
	else
		bb_strbuf_add(out, " takes ");
	best = bb_compare_best_time(t, size, who);
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

	if (t->norder == 1 && !percents && !bb_compare_is_auto(t, t->order[0]))
		return BB_OK;
	print_heading(t, out);
	if (t->norder > 1 || percents)
		print_times(t, out, percents);
	for (int i = 0; i < t->norder; i++) {
		if (bb_compare_is_auto(t, t->order[i]))
			print_auto(t, t->order[i], out);
	}
	if (is_behind_known(t))
		print_behind(t, out);
	answer = out->length;
	print_best(t, out);
	print_doubts(t, out);
	print_pairs(t, out);
	if (texts->answers)
		bb_strbuf_add(texts->answers, bb_strbuf_text(out) + answer);
	return BB_OK;
}

void bb_compare_text(const struct bb_compare *compare, struct bb_strbuf *out,
		     struct bb_strbuf *answers)
{
	struct texts texts = {out, answers};

	out->failed |= bb_compare_each(compare, print_table, &texts) != BB_OK;
}
