/*
 * planted.c - a planted fault and the steps that see it.
 */
#include "acceptance/planted.h"

#include "core/strbuf.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>

/* Whether two times are not the same but for rounding; one that is not known is no evidence. */
static bool differ(double faulty, double faultless)
{
	return fabs(faulty - faultless) > 1e-9 * fabs(faultless);
}

/* Whether the fault changed a time of R, or data. */
static bool shows_in(const struct bb_read_record *r)
{
	return differ(bb_record_number(r->json, "time_us"),
		      bb_record_number(r->json, "faultless_us")) ||
	       differ(bb_record_number(r->json, "faulty_s"),
		      bb_record_number(r->json, "faultless_s")) ||
	       bb_record_int(r->json, "wrong") > 0;
}

static bool shows(const struct bb_evidence *e)
{
	for (size_t i = 0; i < e->nruns; i++) {
		if (e->runs[i].outcome.status != BB_OK)
			return true;
		for (size_t k = 0; k < e->runs[i].records.n; k++)
			if (shows_in(&e->runs[i].records.list[k]))
				return true;
	}
	return false;
}

/* "pair_of_nodes, rails": the steps of MODES that have the fault. Returns how many. */
static int list_steps(const struct bb_acceptance_session *s, unsigned modes, struct bb_strbuf *out)
{
	int n = 0;

	for (uint32_t i = 0; i < s->profile->nsteps; i++) {
		const struct bb_profile_step *const step = &s->profile->steps[i];

		if ((step->mode & modes) && bb_played_faulty(&s->played, step))
			bb_strbuf_addf(out, "%s%s", n++ > 0 ? ", " : "", step->name);
	}
	return n;
}

static const struct bb_profile_step *largest(const struct bb_acceptance_session *s)
{
	const struct bb_profile_step *found = s->evidence[0].step;

	for (size_t i = 1; i < s->n; i++)
		if (s->evidence[i].step->ranks > found->ranks)
			found = s->evidence[i].step;
	return found;
}

static void explain(const struct bb_acceptance_session *s, const struct bb_profile_step *most,
		    char *text, size_t room)
{
	const struct bb_plan_cluster *const p = &s->played;
	const unsigned other = s->mode == BB_QUICK ? BB_FULL : BB_QUICK;
	const int nodes = (p->faulty + p->per_node - 1) / p->per_node;
	struct bb_strbuf here = {0}, there = {0};

	if (list_steps(s, s->mode, &here) > 0)
		snprintf(text, room,
			 "--fault %s changes no time: nothing of %.200s goes over it; plant it "
			 "where they communicate",
			 p->fault, bb_strbuf_text(&here));
	else if (list_steps(s, other, &there) > 0)
		snprintf(text, room,
			 "--fault %s is in no step of --%s; steps of --%s that see it: %.200s",
			 p->fault, s->mode == BB_QUICK ? "quick" : "full",
			 other == BB_QUICK ? "quick" : "full", bb_strbuf_text(&there));
	else
		snprintf(text, room,
			 "--fault %s is in no step: a step of %d ranks on %d nodes or more sees "
			 "it, and "
			 "the largest, %s, has %lld on %lld",
			 p->fault, nodes * p->per_node, nodes, most->name, (long long)most->ranks,
			 (long long)most->nodes);
	bb_strbuf_free(&here);
	bb_strbuf_free(&there);
}

bb_status bb_planted_judge(const struct bb_acceptance_session *s, struct bb_judgements *judgements,
			   struct bb_error *error)
{
	const struct bb_evidence most = {.step = largest(s)};
	struct bb_judgement *j;

	if (!s->played.fault)
		return BB_OK;
	for (size_t i = 0; i < s->n; i++)
		if (bb_played_faulty(&s->played, s->evidence[i].step) && shows(&s->evidence[i]))
			return BB_OK;
	j = bb_judgement_add(judgements, &most, NULL);
	if (!j)
		return bb_no_memory(error, "verdicts");
	j->own = "fault";
	j->verdict = BB_UNJUDGED;
	snprintf(j->subject, sizeof(j->subject), "fault");
	explain(s, most.step, j->reason, sizeof(j->reason));
	return BB_OK;
}
