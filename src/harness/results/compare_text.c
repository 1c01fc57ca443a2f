/*
 * compare_text.c - prints the tables of a comparison, and in words where the lead changes.
 */
#include "harness/results/compare_inside.h"

#include "core/units.h"

#include <stdio.h>
#include <string.h>

#define BLOCK 4 /* algorithms side by side, so that a row fits; one less with bounds */

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
static int column_width(const struct bb_compare_table *t, int place, bool percents)
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

static void print_row(const struct bb_compare_table *t, struct bb_strbuf *out, size_t size,
		      int from, int to, bool percents)
{
	char text[BB_UNIT_TEXT];
	double lead;
	int i, who;

	bb_strbuf_addf(out, "# %10s", bb_format_size(text, (uint64_t)t->sizes[size]));
	for (i = from; i < to; i++) {
		const struct bb_compare_run *run = bb_compare_at(t, size, t->order[i]);
		double percent = run ? run->percent : NAN;

		print_time(out, bb_compare_time(t, size, t->order[i]),
			   column_width(t, i, percents) - (percents ? 7 : 0));
		if (percents && isnan(percent))
			bb_strbuf_addf(out, " %6s", "-");
		else if (percents)
			bb_strbuf_addf(out, " %5.*f%%", percent < 10 ? 1 : 0, percent);
	}
	who = t->norder > 1 && to == t->norder ? bb_compare_winner(t, size, &lead) : -1;
	if (who >= 0 && !isnan(lead))
		bb_strbuf_addf(out, "  %s %.2fx", bb_compare_ran(t, size, who), lead);
	bb_strbuf_add(out, "\n");
}

static void print_block(const struct bb_compare_table *t, struct bb_strbuf *out, int from, int to,
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
static const char *source_of(const struct bb_compare_table *t, int algorithm)
{
	for (size_t size = 0; size < t->nsizes; size++) {
		const struct bb_compare_run *run = bb_compare_at(t, size, algorithm);

		if (run && run->source)
			return run->source;
	}
	return NULL;
}

/* Once for all algorithms, or a line each. */
static void print_sources(const struct bb_compare_table *t, struct bb_strbuf *out)
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
	bb_strbuf_addf(out, ", %s", t->placement ? "in place" : "out of place");
	if (t->all->cycles > 1)
		bb_strbuf_addf(out, ", the last of %lld cycles", (long long)t->all->cycles);
	bb_strbuf_add(out, "\n");
	if (bounds_known(t))
		print_sources(t, out);
}

/* Where auto changed its mind. */
static void print_auto(const struct bb_compare_table *t, int algorithm, struct bb_strbuf *out)
{
	const char *last = NULL;
	char text[BB_UNIT_TEXT];
	size_t size;

	for (size = 0; size < t->nsizes; size++) {
		const char *ran = bb_compare_ran(t, size, algorithm);

		if (!ran || (last && strcmp(ran, last) == 0))
			continue;
		/* The library chose, and does not tell what. */
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

static void print_table(const struct bb_compare_table *t, struct bb_strbuf *out)
{
	bool percents = bounds_known(t);
	int i, block = percents ? BLOCK - 1 : BLOCK;

	print_heading(t, out);
	for (i = 0; (t->norder > 1 || percents) && i < t->norder; i += block)
		print_block(t, out, i, i + block < t->norder ? i + block : t->norder, percents);
	for (i = 0; i < t->norder; i++) {
		if (bb_compare_is_auto(t, t->order[i]))
			print_auto(t, t->order[i], out);
	}
	print_pairs(t, out);
}

static bool worth_telling(const struct bb_compare_table *t)
{
	return t->norder > 1 || bounds_known(t) || bb_compare_is_auto(t, t->order[0]);
}

void bb_compare_text(const struct bb_compare *compare, struct bb_strbuf *out)
{
	for (size_t i = 0; i < compare->ncells; i++) {
		struct bb_compare_table t;

		if (!bb_compare_is_first(compare, i))
			continue;
		if (bb_compare_table(&t, compare, &compare->cells[i]) != BB_OK)
			out->failed = true;
		else if (worth_telling(&t))
			print_table(&t, out);
		bb_compare_table_free(&t);
	}
}
