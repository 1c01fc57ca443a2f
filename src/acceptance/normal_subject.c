/*
 * normal_subject.c - the collective, ranks and nodes of a table, by its file and its ratios.
 */
#include "acceptance/normal_inside.h"

#include "core/units.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int64_t bb_normal_nodes(const struct bb_card *card, int64_t ranks)
{
	return card->of_node > 0 ? (ranks + card->of_node - 1) / card->of_node : 1;
}

bool bb_normal_is_near(const struct bb_card *card, int64_t ranks, int64_t nodes)
{
	if (card->of_domain == 0)
		return nodes <= 1;
	return ranks <= card->of_domain && nodes * card->of_node <= card->of_domain;
}

/* Returns the ratio of bandwidths of the last row where rounding does not matter; NAN: none. */
static double ratio_of(const struct bb_claims *c)
{
	for (size_t i = c->n; i > 0; i--)
		if (c->list[i - 1].algbw_GBps > 100 * c->rounding)
			return c->list[i - 1].busbw_GBps / c->list[i - 1].algbw_GBps;
	return NAN;
}

static void describe_ranks(struct bb_question *q, int64_t given, int64_t least, int64_t most)
{
	const double ratio = ratio_of(q->claims);

	if (given > 0 && given >= least && given <= most) {
		q->ranks = given;
		bb_strbuf_addf(q->out, "  busbw / algbw = %.4g fits %lld rank%s.\n", ratio,
			       (long long)given, bb_plural(given));
		return;
	}
	q->ranks = least;
	if (given > 0)
		bb_strbuf_addf(q->out, "  %s %lld rank%s, but ",
			       q->given->ranks > 0 ? "--ranks gives" : "The file gives",
			       (long long)given, bb_plural(given));
	else
		bb_strbuf_add(q->out, "  The file gives no number of ranks; ");
	bb_strbuf_addf(q->out, "busbw / algbw = %.6g means %lld", ratio, (long long)least);
	if (most > least)
		bb_strbuf_addf(q->out, " to %lld", (long long)most);
	bb_strbuf_addf(q->out, " rank%s.\n", bb_plural(most));
}

/* Names the collectives that have the ratio of a log without a name. */
static void describe_collectives(struct bb_question *q)
{
	const double ratio = ratio_of(q->claims);

	if (!isfinite(ratio)) {
		bb_strbuf_add(q->out,
			      "  The file does not name its collective; --collective does.\n");
		return;
	}
	bb_strbuf_addf(q->out, "  The file does not name its collective; busbw / algbw = %.4g ",
		       ratio);
	if (ratio > 0.999) {
		bb_strbuf_add(q->out, "fits broadcast, reduce or sendrecv, or all_reduce on 2 "
				      "ranks");
	} else {
		int64_t least, most;

		if (!bb_claims_ranks(q->claims, "all_gather", &least, &most))
			bb_strbuf_add(q->out, "fits no number of ranks");
		else
			bb_strbuf_addf(q->out,
				       "fits all_gather, reduce_scatter, alltoall, gather or "
				       "scatter on %lld rank%s",
				       (long long)least, bb_plural(least));
	}
	bb_strbuf_add(q->out, "; name it with --collective.\n");
}

/* Was the data checked in place, or nowhere? nccl-tests never checks alltoall and sendrecv there.
 */
static bool in_place_checked(const struct bb_claims *c)
{
	return c->unchecked_in_place == 0 || c->unchecked > c->unchecked_in_place;
}

/* The collective whose rows have such a redop and root (nccl-tests, the *RunTest functions); "" if
   the columns lack or several have them. */
static const char *collective_of_columns(const struct bb_claims *c, double ratio)
{
	const bool is_once = ratio < 0.999, reduces = c->op[0] && strcmp(c->op, "none") != 0;
	const bool rooted = strcmp(c->root, "-1") != 0;
	bool in_place = false;

	for (size_t i = 0; i < c->n; i++)
		in_place |= c->list[i].in_place;
	if (!c->op[0] || !c->root[0] || !isfinite(ratio) || (!in_place && !rooted && !reduces))
		return "";
	if (is_once && !rooted)
		return reduces ? "reduce_scatter" : in_place_checked(c) ? "all_gather" : "alltoall";
	if (is_once)
		return "";
	if (rooted)
		return reduces ? "reduce" : "broadcast";
	return !reduces || !in_place ? "" : in_place_checked(c) ? "all_reduce" : "sendrecv";
}

bool bb_normal_find_collective(struct bb_question *q)
{
	const double ratio = ratio_of(q->claims);

	q->collective = q->given->collective ? q->given->collective : q->claims->collective;
	if (q->collective[0])
		return true;
	if (ratio > 1.001) {
		q->collective = "all_reduce";
		bb_strbuf_addf(q->out,
			       "  The file does not name its collective; busbw / algbw = %.4g is "
			       "all_reduce's alone.\n",
			       ratio);
		return true;
	}
	q->collective = collective_of_columns(q->claims, ratio);
	if (q->collective[0]) {
		bb_strbuf_addf(
			q->out,
			"  The file does not name its collective; redop %s, root %s%s and busbw / "
			"algbw = %.4g are those of %s.\n",
			q->claims->op, q->claims->root,
			in_place_checked(q->claims) ? "" : ", no check in place", ratio,
			q->collective);
		return true;
	}
	describe_collectives(q);
	return false;
}

bool bb_normal_find_ranks(struct bb_question *q)
{
	const int64_t given = q->given->ranks > 0 ? q->given->ranks : q->claims->nranks;
	int64_t least, most;

	q->ranks = given;
	if (bb_claims_ranks(q->claims, q->collective, &least, &most)) {
		/* A rounded ratio cannot distinguish large numbers of ranks. */
		if (given > 0 || most < 2 * least)
			describe_ranks(q, given, least, most);
	} else if (least != 1 || most != 0) {
		bb_strbuf_addf(
			q->out,
			"  Impossible: busbw / algbw = %.4g fits no number of ranks of %s in all "
			"rows. Likely: another collective, or mixed-up columns.\n",
			ratio_of(q->claims), q->collective);
		return false;
	}
	return true;
}

void bb_normal_find_nodes(struct bb_question *q)
{
	const char *const colon = q->given->machine ? strrchr(q->given->machine, ':') : NULL;
	const int64_t named = colon ? strtol(colon + 1, NULL, 10) : 0;
	const int64_t given = q->given->nodes > 0 ? q->given->nodes : named;

	/* A list of ranks of which only some were pasted names too few hosts. */
	q->nodes = given > 0 ? given : q->claims->hosts;
	if (q->card && given == 0 && q->nodes < bb_normal_nodes(q->card, q->ranks))
		q->nodes = bb_normal_nodes(q->card, q->ranks);
}
