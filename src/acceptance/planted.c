/*
 * planted.c - finds out whether any step noticed a planted fault.
 */
#include "acceptance/planted.h"

#include "core/strbuf.h"

#include <jansson.h>
#include <math.h>

/* True if two times differ by more than rounding; an unknown time is no evidence. */
static bool times_differ(const struct bb_read_record *r, const char *faulty, const char *faultless)
{
	const double usual = bb_record_number(r->json, faultless);

	return fabs(bb_record_number(r->json, faulty) - usual) > 1e-9 * fabs(usual);
}

/* True if the fault was in the step of E. */
static bool has_fault(const struct bb_acceptance_session *s, const struct bb_evidence *e)
{
	return !e->unneeded && bb_plan_has_fault(&s->simulated, e->step);
}

/* True if a run of E failed, or the fault changed a time of it or data. */
static bool fault_shows(const struct bb_evidence *e)
{
	struct bb_evidence_cursor at = {0};
	const struct bb_read_record *r;
	bool shows = false;

	for (size_t i = 0; i < e->nruns; i++)
		shows |= e->runs[i].outcome.status != BB_OK;
	while (!shows && (r = bb_evidence_next(e, &at)))
		shows = times_differ(r, "time_us", "faultless_us") ||
			times_differ(r, "faulty_s", "faultless_s") ||
			bb_record_int(r->json, "wrong") > 0;
	return shows;
}

/* Explains which steps would notice the fault. */
static void fault_explain(const struct bb_acceptance_session *s, struct bb_judgement *j)
{
	const struct bb_plan_cluster *const p = &s->simulated;
	const bool quick = s->mode == BB_QUICK;
	const int nodes = (p->faulty + p->per_node - 1) / p->per_node;
	struct bb_strbuf here = {0}, there = {0};

	for (size_t i = 0; i < s->n; i++)
		if (has_fault(s, &s->evidence[i]))
			bb_strbuf_addf(&here, "%s%s", here.length > 0 ? ", " : "",
				       s->evidence[i].step->name);
	/* Those that the other mode would run in any case. */
	for (uint32_t i = 0; i < s->profile->nsteps; i++) {
		const struct bb_profile_step *const step = &s->profile->steps[i];

		if ((step->mode & (quick ? BB_FULL : BB_QUICK)) && !step->after_failure &&
		    bb_plan_has_fault(p, step))
			bb_strbuf_addf(&there, "%s%s", there.length > 0 ? ", " : "", step->name);
	}
	if (here.length > 0)
		bb_judgement_decide(j, BB_UNJUDGED,
				    "--fault %s changes no time: nothing of %s goes over it; "
				    "plant it where they communicate",
				    p->fault, bb_strbuf_text(&here));
	else if (there.length > 0)
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
	struct bb_evidence largest = {.step = s->evidence[0].step};
	struct bb_judgement j;

	if (!s->simulated.fault)
		return;
	for (size_t i = 0; i < s->n; i++) {
		const struct bb_evidence *const e = &s->evidence[i];

		if (has_fault(s, e) && fault_shows(e))
			return;
		if (bb_step_all_ranks(e->step) > bb_step_all_ranks(largest.step))
			largest.step = e->step;
	}
	j = bb_judgement_of(&largest, NULL, "fault");
	j.own = "fault";
	fault_explain(s, &j);
	bb_judgements_add(judgements, &j);
}
