/*
 * sections.c - findings and the speed of light as text.
 */
#include "topology_tool/print.h"

#include "core/units.h"

#include <stdio.h>

struct list {
	struct bb_strbuf *out;
	int width;
};

static void add_text_finding(void *context, const char *text)
{
	struct list *list = context;

	bb_strbuf_add(list->out, "  ! ");
	bb_strbuf_wrap(list->out, text, 4, 4, list->width);
}

void bb_print_findings(const struct bb_topology *t, int width, struct bb_strbuf *out)
{
	struct list list = {out, width};

	bb_strbuf_add(out, "Findings\n");
	if (bb_topology_findings(t, add_text_finding, &list) == 0)
		bb_strbuf_add(out, "  none\n");
	bb_strbuf_add(out, "\n");
}

#define SENTENCE_AT 20

static void print_bound(const char *name, bb_status st, double GBps, const struct bb_strbuf *why,
			int width, struct bb_strbuf *out)
{
	if (st == BB_OK)
		bb_strbuf_addf(out, "  %-10s %6.4g ", name, GBps);
	else
		bb_strbuf_addf(out, "  %-10s %6s ", name, "-");
	bb_strbuf_wrap(out, bb_strbuf_text(why), SENTENCE_AT, SENTENCE_AT, width);
}

/* Print the slowest pair of RANKS and, if it differs, the fastest. */
static void print_pairs(const struct bb_topology *t, const struct bb_rank_place *ranks, int n,
			int width, struct bb_strbuf *out)
{
	double least = 0, most = 0;
	struct bb_strbuf low = {0}, high = {0}, why = {0};

	for (int i = 1; i < n; i++) {
		for (int j = 0; j < i; j++) {
			const struct bb_rank_place pair[] = {ranks[j], ranks[i]};
			double GBps;

			bb_strbuf_clear(&why);
			if (bb_speed_of_light(t, pair, 2, BB_BOUND_PAIR, &GBps, &why) != BB_OK)
				continue;
			if (least == 0 || GBps < least) {
				bb_strbuf_clear(&low);
				bb_strbuf_add(&low, bb_strbuf_text(&why));
				least = GBps;
			}
			if (GBps > most) {
				bb_strbuf_clear(&high);
				bb_strbuf_add(&high, bb_strbuf_text(&why));
				most = GBps;
			}
		}
	}
	if (most > least)
		print_bound("best pair", BB_OK, most, &high, width, out);
	print_bound(most > least ? "worst pair" : "pair", least > 0 ? BB_OK : BB_EUNSUPPORTED,
		    least, least > 0 ? &low : &why, width, out);
	bb_strbuf_free(&low);
	bb_strbuf_free(&high);
	bb_strbuf_free(&why);
}

#define PAIR_RANKS 128 /* further pairs are like these, on equal nodes */

void bb_print_bounds(const struct bb_topology *t, const struct bb_rank_place *ranks, int n,
		     int width, struct bb_strbuf *out)
{
	int nodes = 0;

	if (n < 2)
		return;
	for (int i = 0; i < n; i++)
		nodes = ranks[i].node >= nodes ? ranks[i].node + 1 : nodes;
	bb_strbuf_addf(out, "Speed of light of %d %s on %d node%s, GB/s\n", n,
		       ranks[0].device == BB_ON_HOST ? "ranks" : "GPUs", nodes, bb_plural(nodes));
	print_pairs(t, ranks, n < PAIR_RANKS ? n : PAIR_RANKS, width, out);
	for (int what = BB_BOUND_RING; what < BB_BOUNDS; what++) {
		struct bb_strbuf why = {0};
		double GBps;
		bb_status st = bb_speed_of_light(t, ranks, n, (enum bb_bound)what, &GBps, &why);

		print_bound(bb_bound_name((enum bb_bound)what), st, GBps, &why, width, out);
		bb_strbuf_free(&why);
	}
	bb_strbuf_add(out, "\n");
}
