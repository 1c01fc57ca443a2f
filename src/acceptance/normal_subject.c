/*
 * normal_subject.c - the collective, ranks and nodes of a table, by its file and its ratios.
 */
#include "acceptance/normal_inside.h"

#include "core/units.h"

#include <math.h>
#include <stdio.h>

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

/* The last ratio of bandwidths that rounding leaves exact enough; NAN: none. */
static double ratio_of(const struct bb_claims *c)
{
	for (size_t i = c->n; i > 0; i--)
		if (c->list[i - 1].algbw_GBps > 100 * c->rounding)
			return c->list[i - 1].busbw_GBps / c->list[i - 1].algbw_GBps;
	return NAN;
}

static void describe_ranks(struct bb_question *q, int64_t said, int64_t least, int64_t most)
{
	const double ratio = ratio_of(q->claims);

	if (said > 0 && said >= least && said <= most) {
		q->ranks = said;
		bb_strbuf_addf(q->out, "  busbw / algbw = %.4g fits %lld rank%s.\n", ratio,
			       (long long)said, bb_plural(said));
		return;
	}
	q->ranks = least;
	if (said > 0)
		bb_strbuf_addf(q->out, "  The file says %lld rank%s, but ", (long long)said,
			       bb_plural(said));
	else
		bb_strbuf_add(q->out, "  The file gives no number of ranks; ");
	bb_strbuf_addf(q->out, "busbw / algbw = %.6g means %lld", ratio, (long long)least);
	if (most > least)
		bb_strbuf_addf(q->out, " to %lld", (long long)most);
	bb_strbuf_addf(q->out, " rank%s.\n", bb_plural(most));
}

/* The log does not name its collective, and several have its ratio. */
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
	bb_strbuf_add(q->out, "; --collective says which.\n");
}

bool bb_normal_find_collective(struct bb_question *q)
{
	const double ratio = ratio_of(q->claims);

	q->collective = q->said->collective ? q->said->collective : q->claims->collective;
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
	describe_collectives(q);
	return false;
}

bool bb_normal_find_ranks(struct bb_question *q)
{
	const int64_t said = q->said->ranks > 0 ? q->said->ranks : q->claims->nranks;
	int64_t least, most;

	q->ranks = said;
	if (bb_claims_ranks(q->claims, q->collective, &least, &most)) {
		/* The largest numbers of ranks cannot be told apart by a rounded ratio. */
		if (said > 0 || most < 2 * least)
			describe_ranks(q, said, least, most);
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
	const bool told = q->claims->hosts > 0 && q->ranks == q->claims->nranks;

	q->nodes = q->said->nodes > 0 ? q->said->nodes : q->claims->hosts;
	if (q->card && q->said->nodes == 0 && !told &&
	    q->nodes < bb_normal_nodes(q->card, q->ranks))
		q->nodes = bb_normal_nodes(q->card, q->ranks);
}
