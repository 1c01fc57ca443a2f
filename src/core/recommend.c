#include "core/recommend.h"

#include "core/stats.h"

#include <math.h>

#define ROUNDING 0.0005
#define MOST_NAMES 4 /* of tied candidates */

static bool is_tied(const struct bb_recommendation *c, size_t best, size_t i)
{
	const struct bb_candidate *a = &c->list[best], *b = &c->list[i];

	if (i == best || isnan(a->seconds))
		return i == best;
	return c->noise ? b->low <= a->high : b->seconds <= a->seconds * (1 + ROUNDING);
}

/* The first candidate with the fewest seconds, of all or, behind BEST, of those that are not tied
   with it; n: there is none. */
static size_t fastest(const struct bb_recommendation *c, size_t best)
{
	size_t found = c->n;

	for (size_t i = 0; i < c->n; i++) {
		if (best < c->n && is_tied(c, best, i))
			continue;
		if (found == c->n || bb_is_below(c->list[i].seconds, c->list[found].seconds))
			found = i;
	}
	return found;
}

void bb_recommend(const struct bb_recommendation *c, struct bb_strbuf *out)
{
	const size_t best = fastest(c, c->n), next = best < c->n ? fastest(c, best) : c->n;
	size_t first = best, ties = 0, before;

	if (c->n < 2)
		return;
	for (size_t i = c->n; i-- > 0;) {
		ties += i != best && is_tied(c, best, i);
		/* The preferred one of those tied with the best is named first. */
		first = c->preference && i < best && is_tied(c, best, i) ? i : first;
	}
	if (ties == 0)
		bb_strbuf_addf(out, "# Best %s: ", c->subject);
	else
		bb_strbuf_addf(out, "# Tied %s (%s): ", c->subject,
			       c->noise ? c->noise : "equal but for rounding");
	bb_strbuf_add(out, c->list[first].name);
	for (size_t i = 0, n = 1; i < c->n; i++)
		if (i != first && (i == best || is_tied(c, best, i)) && n++ < MOST_NAMES)
			bb_strbuf_addf(out, " or %s", c->list[i].name);
	if (ties >= MOST_NAMES)
		bb_strbuf_addf(out, " or %zu more", ties + 1 - MOST_NAMES);
	const double ms = 1e3 * c->list[best].seconds;
	if (!isnan(ms))
		bb_strbuf_addf(out, ", %.4g %s%s", ms < 10000 ? ms : ms / 1000,
			       ms < 10000 ? "ms" : "s", c->unit);
	if (ties > 0 && c->preference)
		bb_strbuf_addf(out, "; the first needs %s than the others", c->preference);
	if (next < c->n) {
		bb_strbuf_addf(out, "; next: %s", c->list[next].name);
		if (!isnan(c->list[next].seconds))
			bb_strbuf_addf(out, ", %.1f%% longer",
				       100 * (c->list[next].seconds / c->list[best].seconds - 1));
		before = out->length;
		bb_strbuf_add(out, ": ");
		if (c->cause)
			c->cause(&c->list[best], &c->list[next], out);
		if (out->length == before + 2)
			out->text[out->length = before] = '\0';
	}
	bb_strbuf_add(out, "\n");
}
