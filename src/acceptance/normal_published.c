/*
 * normal_published.c - claims beside what others have measured.
 */
#include "acceptance/normal_parts.h"

#include "core/units.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static double at_size(const struct bb_claims *c, uint64_t size)
{
	double best = NAN;

	for (size_t i = 0; i < c->n; i++)
		if (c->list[i].size_bytes == size && !(c->list[i].busbw_GBps <= best))
			best = c->list[i].busbw_GBps;
	return best;
}

/* Whether R runs over as far a way, and beyond NVLink's reach with as many ranks, and so NICs, of a
   node. */
static bool as_far(const struct bb_question *q, const struct bb_reference *r)
{
	const int64_t nodes = r->nodes > 0 ? r->nodes : bb_normal_nodes(q->card, r->nranks);
	const bool near = bb_normal_is_near(q->card, q->ranks, q->nodes);

	if (q->ranks == 0 && q->nodes == 0)
		return true;
	return bb_normal_is_near(q->card, r->nranks, nodes) == near &&
	       (near || q->ranks == 0 || r->nranks * q->nodes == q->ranks * nodes);
}

/* Whether a published row is of such a system: GPU, collective, measured, over as far a way. */
static bool comparable(const struct bb_question *q, const struct bb_reference *r, uint64_t size)
{
	const char *const algorithm = q->claims->algorithm;
	const bool named = algorithm[0] && strcmp(algorithm, "auto") != 0;

	return r->card == q->card && strcmp(r->collective, q->collective) == 0 &&
	       r->size_bytes == size && strcmp(r->kind, "measured") == 0 && r->nranks > 0 &&
	       (!named || !r->algo[0] || strncasecmp(r->algo, algorithm, strlen(algorithm)) == 0) &&
	       as_far(q, r);
}

/* What published runs of one size and number of ranks show. */
struct published {
	uint64_t size;
	int64_t ranks;
	int runs;
	double least, most;
	const struct bb_reference *an_example;
};

static bool is_first_of_id(const struct bb_question *q, size_t i, const struct published *p)
{
	for (size_t k = 0; k < i; k++) {
		const struct bb_reference *const r = &q->references->rows[k];

		if (comparable(q, r, p->size) && r->nranks == p->ranks &&
		    strcmp(r->id, q->references->rows[i].id) == 0)
			return false;
	}
	return true;
}

/* Those nearest to A's number of ranks at SIZE. */
static bool look_up(const struct bb_question *q, uint64_t size, struct published *p)
{
	const struct bb_references *const t = q->references;
	double nearest = INFINITY;

	*p = (struct published){.size = size, .least = INFINITY};
	for (size_t i = 0; i < t->n; i++) {
		const double far =
			q->ranks > 0 ? fabs(log((double)t->rows[i].nranks / (double)q->ranks)) : 0;

		if (comparable(q, &t->rows[i], size) && far < nearest) {
			nearest = far;
			p->ranks = t->rows[i].nranks;
		}
	}
	for (size_t i = 0; i < t->n; i++) {
		const struct bb_reference *const r = &t->rows[i];

		if (!comparable(q, r, size) || r->nranks != p->ranks)
			continue;
		p->runs += is_first_of_id(q, i, p);
		p->least = fmin(p->least, r->busbw_GBps);
		if (r->busbw_GBps > p->most) {
			p->most = r->busbw_GBps;
			p->an_example = r;
		}
	}
	return p->runs > 0;
}

static enum bb_normality tell_published(const struct bb_question *q, const struct published *p,
					double value)
{
	const double share = value / p->least;
	char size[BB_UNIT_TEXT], range[64];
	enum bb_normality n = BB_NORMAL;

	if (p->most > 1.005 * p->least)
		snprintf(range, sizeof(range), "%.4g to %.4g GB/s", p->least, p->most);
	else
		snprintf(range, sizeof(range), "%.4g GB/s", p->most);
	bb_strbuf_addf(q->out, "  At %s: %.4g GB/s. ", bb_format_size(size, p->size), value);
	if (share < BB_NORMAL_LOW) {
		n = BB_LOW;
		bb_strbuf_addf(q->out, "Low: %.0f%% of what", 100 * share);
	} else if (value > BB_NORMAL_HIGH * p->most) {
		n = BB_HIGH;
		bb_strbuf_add(q->out, "Higher than any of");
	} else {
		bb_strbuf_add(q->out, "Normal, beside");
	}
	bb_strbuf_addf(q->out, " %d published run%s of %s on %lld rank%s%s%s: %s (%s, %s).\n",
		       p->runs, bb_plural(p->runs), q->card->name, (long long)p->ranks,
		       bb_plural(p->ranks),
		       p->ranks != q->ranks && q->ranks > 0 ? ", the nearest there are" : "",
		       n == BB_LOW ? (p->runs == 1 ? " shows" : " show") : "", range,
		       p->an_example->system, p->an_example->source);
	return n;
}

/* At the largest size for which there is a published run. */
enum bb_normality bb_normal_published(const struct bb_question *q)
{
	struct published p, best = {.size = 0};

	for (size_t i = 0; i < q->claims->n; i++)
		if (q->claims->list[i].size_bytes > best.size &&
		    look_up(q, q->claims->list[i].size_bytes, &p))
			best = p;
	if (best.size > 0)
		return tell_published(q, &best, at_size(q->claims, best.size));
	bb_strbuf_addf(q->out, "  No published run of %s on %s, ", q->collective, q->card->name);
	if (q->ranks == 0 && q->nodes == 0)
		bb_strbuf_add(q->out, "on whatever ranks");
	else if (bb_normal_is_near(q->card, q->ranks, q->nodes))
		bb_strbuf_add(q->out, "within NVLink's reach");
	else if (q->ranks == 0)
		bb_strbuf_add(q->out, "beyond NVLink's reach");
	else
		bb_strbuf_addf(q->out, "beyond NVLink's reach with %.3g ranks a node",
			       (double)q->ranks / (double)q->nodes);
	bb_strbuf_add(q->out, ", at any of these sizes is known.\n");
	return BB_UNKNOWN;
}
