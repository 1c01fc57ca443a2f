/*
 * normal_curve.c - compares the rows of a table with each other: bound by latency, dips as sizes
 * grow, one placement slower than the other.
 */
#include "acceptance/confidence.h"
#include "acceptance/normal.h"

#include "core/units.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *placement(bool in_place)
{
	return in_place ? "in place" : "out of place";
}

/* ---- latency ----------------------------------------------------------------------------------
 */

struct bb_claim bb_normal_largest(const struct bb_claims *claims)
{
	struct bb_claim found = {.busbw_GBps = claims->average_GBps};

	for (size_t i = 0; i < claims->n; i++) {
		const struct bb_claim *const at = &claims->list[i];

		if (at->size_bytes > found.size_bytes ||
		    (at->size_bytes == found.size_bytes && at->busbw_GBps < found.busbw_GBps))
			found = *at;
	}
	return found;
}

bool bb_normal_is_latency(const struct bb_claims *claims)
{
	const struct bb_claim last = bb_normal_largest(claims);
	/* The smallest size within a factor of BB_LATENCY_SPAN, and the next smaller one. */
	const struct bb_claim *within = NULL, *less = NULL;

	for (size_t i = 0; i < claims->n; i++) {
		const struct bb_claim *const at = &claims->list[i];

		if (at->in_place != last.in_place || at->size_bytes >= last.size_bytes)
			continue;
		if (at->size_bytes >= last.size_bytes / BB_LATENCY_SPAN &&
		    (!within || at->size_bytes < within->size_bytes))
			within = at;
		if (!less || at->size_bytes > less->size_bytes)
			less = at;
	}
	less = within ? within : less;
	if (last.size_bytes == 0 || last.size_bytes >= BB_NORMAL_WIDE)
		return false;
	if (!less)
		return last.size_bytes <= BB_LATENCY_BYTES;
	return log(last.time_us / less->time_us) <
	       BB_LATENCY_GROWTH * log((double)last.size_bytes / (double)less->size_bytes);
}

/* Write SIZE into TEXT: "8G", or "16G" for 17179869120, which nobody reads. Returns TEXT. */
static const char *size_text(char text[BB_UNIT_TEXT], uint64_t size)
{
	static const char units[] = "KMGT";
	int unit = -1;
	double value = (double)size;

	if (strlen(bb_format_size(text, size)) <= 6)
		return text;
	for (; unit < 3 && value >= 1000; unit++)
		value /= 1024;
	snprintf(text, BB_UNIT_TEXT, "%.4g%.1s", value, unit >= 0 ? units + unit : "");
	return text;
}

void bb_normal_describe_row(const struct bb_question *q, const struct bb_claim *row)
{
	char size[BB_UNIT_TEXT];

	if (row->size_bytes == 0)
		SAY(q, "  Average of all sizes: %.4g GB/s. ", row->busbw_GBps);
	else if (bb_normal_is_latency(q->claims))
		SAY(q, "  At %s, bound by latency: %.4g us. ", size_text(size, row->size_bytes),
		    row->time_us);
	else
		SAY(q, "  At %s: %.4g GB/s. ", size_text(size, row->size_bytes), row->busbw_GBps);
}

/* ---- dips -------------------------------------------------------------------------------------
 */

/* Rows by size, and of a size by placement. */
static int compare_rows(const void *a, const void *b)
{
	const struct bb_claim *const p = a, *const q = b;

	if (p->size_bytes != q->size_bytes)
		return p->size_bytes < q->size_bytes ? -1 : 1;
	return p->in_place - q->in_place;
}

/* Reports the dip of one placement. ROWS are sorted; those before the first that reaches LEAST do
   not count, because latency and changes of algorithm shape them. */
static enum bb_normality describe_dip(const struct bb_question *q, const struct bb_claim *rows,
				      size_t nrows, bool in_place, double least)
{
	struct bb_curve_point *const curve = calloc(nrows + 1, sizeof(*curve));
	struct bb_dip dip = {.ratio = {.n = 0}};
	char size[BB_UNIT_TEXT];
	uint64_t collapse;
	double left = 0;
	size_t n = 0, best = 0, from;

	for (size_t i = 0; curve && i < nrows; i++)
		if (rows[i].in_place == in_place && (n > 0 || rows[i].busbw_GBps >= least))
			curve[n++] = (struct bb_curve_point){(double)rows[i].size_bytes,
							     rows[i].busbw_GBps, 0};
	if (n < 2 || !bb_dip_find(curve, n, 1, &dip))
		dip.ratio.n = 0;
	/* From a size on, for several sizes up to the largest, less than half of the best at a
	   smaller size is left. */
	for (size_t i = 1; i < n; i++)
		best = curve[i].busbw > curve[best].busbw ? i : best;
	for (from = n; from > best + 1 && 2 * curve[from - 1].busbw < curve[best].busbw; from--)
		left = fmax(left, curve[from - 1].busbw / curve[best].busbw);
	collapse = from + 1 < n ? (uint64_t)curve[from].size : 0;
	free(curve);
	if (dip.ratio.n == 0 || dip.ratio.mean >= BB_NORMAL_DIP)
		return BB_NORMAL;
	if (collapse) {
		SAY(q, "  Collapse: from %s on at most %.0f%% of the best at a smaller size, %s.\n",
		    size_text(size, collapse), 100 * left, placement(in_place));
		return BB_UNEVEN;
	}
	SAY(q, "  Dip: %s %s reaches %.0f%% of the best at a smaller size.\n",
	    size_text(size, (uint64_t)dip.size), placement(in_place), 100 * dip.ratio.mean);
	return BB_UNEVEN;
}

/* ---- placements -------------------------------------------------------------------------------
 */

/* Reports the size at which one placement is slowest compared with the other. ROWS are sorted. */
static enum bb_normality describe_placements(const struct bb_question *q,
					     const struct bb_claim *rows, size_t n, double least)
{
	const struct bb_claim *slow = NULL, *fast = NULL;
	double worst = BB_NORMAL_UNEVEN;
	char size[BB_UNIT_TEXT];

	for (size_t i = 1; i < n; i++) {
		const bool out_is_slow = rows[i - 1].busbw_GBps < rows[i].busbw_GBps;
		const struct bb_claim *const low = &rows[out_is_slow ? i - 1 : i];
		const struct bb_claim *const high = &rows[out_is_slow ? i : i - 1];

		if (low->size_bytes != high->size_bytes || low->in_place == high->in_place ||
		    high->busbw_GBps < least || low->busbw_GBps >= worst * high->busbw_GBps)
			continue;
		worst = low->busbw_GBps / high->busbw_GBps;
		slow = low;
		fast = high;
	}
	if (!slow)
		return BB_NORMAL;
	SAY(q, "  Uneven: %s reaches %.4g GB/s %s, %.4g GB/s %s.\n",
	    size_text(size, slow->size_bytes), slow->busbw_GBps, placement(slow->in_place),
	    fast->busbw_GBps, placement(fast->in_place));
	return BB_UNEVEN;
}

/* Judges the N ROWS, which are sorted. */
static enum bb_normality judge_rows(const struct bb_question *q, const struct bb_claim *rows,
				    size_t n)
{
	enum bb_normality verdict = BB_NORMAL;
	double least = 0;

	for (size_t i = 0; i < n; i++)
		least = fmax(least, BB_NORMAL_PLATEAU * rows[i].busbw_GBps);
	for (int in_place = 0; in_place < 2; in_place++)
		if (describe_dip(q, rows, n, in_place == 1, least) != BB_NORMAL)
			verdict = BB_UNEVEN;
	if (describe_placements(q, rows, n, least) != BB_NORMAL)
		verdict = BB_UNEVEN;
	return verdict;
}

/* The row that is slowest compared with the best of both placements up to its size. */
static size_t find_slowest(const struct bb_claim *rows, size_t n)
{
	double best = 0, worst = 1, least = 0;
	size_t found = 0;

	for (size_t i = 0; i < n; i++)
		least = fmax(least, BB_NORMAL_PLATEAU * rows[i].busbw_GBps);
	for (size_t i = 0; i < n; i++) {
		const size_t pair = i + 1 < n && rows[i + 1].size_bytes == rows[i].size_bytes;

		best = fmax(best, fmax(rows[i].busbw_GBps, rows[i + pair].busbw_GBps));
		if (rows[i].busbw_GBps < worst * best && best >= least) {
			worst = rows[i].busbw_GBps / best;
			found = i;
		}
	}
	return found;
}

enum bb_normality bb_normal_evenness(const struct bb_question *q)
{
	const size_t n = q->claims->n;
	struct bb_claim *const rows = calloc(n + 1, sizeof(*rows));
	struct bb_question silent = *q;
	struct bb_strbuf unread = {0};
	enum bb_normality verdict;
	char size[BB_UNIT_TEXT];
	size_t slow;

	if (!rows)
		return BB_UNKNOWN;
	if (n == 0) {
		free(rows);
		return BB_NORMAL;
	}
	memcpy(rows, q->claims->list, n * sizeof(*rows));
	qsort(rows, n, sizeof(*rows), compare_rows);
	silent.out = &unread;
	verdict = judge_rows(&silent, rows, n);
	slow = find_slowest(rows, n);
	if (verdict == BB_UNEVEN && n >= BB_NORMAL_ROWS) {
		const struct bb_claim row = rows[slow];

		memmove(&rows[slow], &rows[slow + 1], (n - slow - 1) * sizeof(*rows));
		verdict = judge_rows(&silent, rows, n - 1);
		memmove(&rows[slow + 1], &rows[slow], (n - slow - 1) * sizeof(*rows));
		rows[slow] = row;
		if (verdict == BB_NORMAL)
			SAY(q,
			    "  One row alone is slow: %s %s reaches %.4g GB/s. Repeat it; one "
			    "measurement is no verdict.\n",
			    size_text(size, row.size_bytes), placement(row.in_place),
			    row.busbw_GBps);
	}
	if (verdict == BB_UNEVEN)
		verdict = judge_rows(q, rows, n);
	bb_strbuf_free(&unread);
	free(rows);
	return verdict;
}
