/*
 * planted.c - finds out whether any step noticed a planted fault.
 */
#include "acceptance/planted.h"

#include "core/strbuf.h"

#include <jansson.h>
#include <math.h>

/* True if two times differ by more than rounding; an unknown time is no evidence. */
static bool times_differ(double faulty, double faultless)
{
	return fabs(faulty - faultless) > 1e-9 * fabs(faultless);
}

/* True if the fault changed a time of R, or data. */
static bool fault_shows_in(const struct bb_read_record *r)
{
	return times_differ(bb_record_number(r->json, "time_us"),
			    bb_record_number(r->json, "faultless_us")) ||
	       times_differ(bb_record_number(r->json, "faulty_s"),
			    bb_record_number(r->json, "faultless_s")) ||
	       bb_record_int(r->json, "wrong") > 0;
}

static bool fault_shows(const struct bb_evidence *e)
{
	struct bb_evidence_cursor at = {0};
	const struct bb_read_record *r;

	for (size_t i = 0; i < e->nruns; i++)
		if (e->runs[i].outcome.status != BB_OK)
			return true;
	while ((r = bb_evidence_next(e, &at)))
		if (fault_shows_in(r))
			return true;
	return false;
}

/* Was the fault in the step of E? */
static bool has_fault(const struct bb_acceptance_session *s, const struct bb_evidence *e)
{
	return !e->unneeded && bb_plan_has_fault(&s->simulated, e->step);
}

/* Appends the steps of S that had the fault: "pair_of_nodes, rails". Returns how many. */
static int faulty_steps_list(const struct bb_acceptance_session *s, struct bb_strbuf *out)
{
	int n = 0;

	for (size_t i = 0; i < s->n; i++)
		if (has_fault(s, &s->evidence[i]))
			bb_strbuf_addf(out, "%s%s", n++ > 0 ? ", " : "", s->evidence[i].step->name);
	return n;
}

/* Likewise, of the steps that MODE would run in any case. */
static int other_steps_list(const struct bb_acceptance_session *s, enum bb_mode mode,
			    struct bb_strbuf *out)
{
	int n = 0;

	for (uint32_t i = 0; i < s->profile->nsteps; i++) {
		const struct bb_profile_step *const step = &s->profile->steps[i];

		if ((step->mode & mode) && !step->after_failure &&
		    bb_plan_has_fault(&s->simulated, step))
			bb_strbuf_addf(out, "%s%s", n++ > 0 ? ", " : "", step->name);
	}
	return n;
}

static const struct bb_profile_step *largest_step(const struct bb_acceptance_session *s)
{
	const struct bb_profile_step *found = s->evidence[0].step;

	for (size_t i = 1; i < s->n; i++)
		if (bb_step_all_ranks(s->evidence[i].step) > bb_step_all_ranks(found))
			found = s->evidence[i].step;
	return found;
}

/* Explains which steps would notice the fault. */
static void fault_explain(const struct bb_acceptance_session *s, struct bb_judgement *j)
{
	const struct bb_plan_cluster *const p = &s->simulated;
	const bool quick = s->mode == BB_QUICK;
	const int nodes = (p->faulty + p->per_node - 1) / p->per_node;
	struct bb_strbuf here = {0}, there = {0};

	if (faulty_steps_list(s, &here) > 0)
		bb_judgement_decide(j, BB_UNJUDGED,
				    "--fault %s changes no time: nothing of %s goes over it; "
				    "plant it where they communicate",
				    p->fault, bb_strbuf_text(&here));
	else if (other_steps_list(s, quick ? BB_FULL : BB_QUICK, &there) > 0)
		bb_judgement_decide(
			j, BB_UNJUDGED,
			"--fault %s is in no step of --%s; steps of --%s that see it: %s", p->fault,
			quick ? "quick" : "full", quick ? "full" : "quick", bb_strbuf_text(&there));
	else
		bb_judgement_decide(j, BB_UNJUDGED,
				    "--fault %s is in no step: a step of %d ranks on %d nodes or "
				    "more sees it, and the largest, %s, has %lld on %lld",
				    p->fault, nodes * p->per_node, nodes, j->step->name,
				    (long long)j->step->ranks, (long long)j->step->nodes);
	bb_strbuf_free(&here);
	bb_strbuf_free(&there);
}

void bb_planted_judge(const struct bb_acceptance_session *s, struct bb_judgements *judgements)
{
	const struct bb_evidence most = {.step = largest_step(s)};
	struct bb_judgement j = bb_judgement_of(&most, NULL, "fault");

	if (!s->simulated.fault)
		return;
	for (size_t i = 0; i < s->n; i++)
		if (has_fault(s, &s->evidence[i]) && fault_shows(&s->evidence[i]))
			return;
	j.own = "fault";
	fault_explain(s, &j);
	bb_judgements_add(judgements, &j);
}
