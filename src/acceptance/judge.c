/*
 * judge.c - judges a step: whether it ran, its data, and its gates.
 */
#include "acceptance/judge.h"
#include "core/array.h"
#include "core/units.h"

#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *bb_verdict_name(enum bb_verdict verdict)
{
	static const char *const names[] = {"passed", "warning", "skipped", "could not judge",
					    "failed"};

	return names[verdict];
}

const struct bb_read_record *bb_evidence_next(const struct bb_evidence *e,
					      struct bb_evidence_cursor *at)
{
	while (at->run < e->nruns && at->next == e->runs[at->run].records.n) {
		at->run++;
		at->next = 0;
	}
	return at->run < e->nruns ? &e->runs[at->run].records.list[at->next++] : NULL;
}

/* The gate that every profile has for STEP. */
static const char *own_gate(const struct bb_profile_step *step)
{
	return bb_step_diagnoses(step) ? "diagnosis" : "correctness";
}

struct bb_judgement bb_judgement_of(const struct bb_evidence *e, const struct bb_gate *gate,
				    const char *subject)
{
	struct bb_judgement j = {.step = e->step,
				 .gate = gate,
				 .own = gate ? NULL : own_gate(e->step),
				 .runs = e->nruns,
				 .value = NAN,
				 .low = NAN,
				 .expected = NAN,
				 .limit = NAN};

	snprintf(j.subject, sizeof(j.subject), "%s", subject);
	return j;
}

void bb_judgement_decide(struct bb_judgement *j, enum bb_verdict verdict, const char *reason, ...)
{
	char *text;
	va_list args;

	j->verdict = verdict;
	va_start(args, reason);
	if (vasprintf(&text, reason, args) < 0)
		text = NULL;
	va_end(args);
	free(j->reason); /* only now: it may be an argument */
	j->reason = text;
}

void bb_judgements_add(struct bb_judgements *all, const struct bb_judgement *j)
{
	struct bb_judgement *const new =
		j->reason ? BB_ARRAY_ADD(all->list, all->n, all->room) : NULL;

	all->failed |= !new;
	if (new)
		*new = *j;
	else
		free(j->reason);
}

void bb_judgements_free(struct bb_judgements *judgements)
{
	for (size_t i = 0; i < judgements->n; i++)
		free(judgements->list[i].reason);
	free(judgements->list);
	*judgements = (struct bb_judgements){.n = 0};
}

struct bb_totals bb_judgements_total(const struct bb_judgements *judgements, bool strict)
{
	struct bb_totals t = {.status = BB_OK};

	for (size_t i = 0; i < judgements->n; i++)
		t.of[judgements->list[i].verdict]++;
	if (t.of[BB_FAILED] > 0 || (strict && t.of[BB_WARNED] > 0))
		t.status = BB_EDATA;
	else if (t.of[BB_UNJUDGED] > 0 || t.of[BB_PASSED] + t.of[BB_WARNED] == 0)
		t.status = BB_EBACKEND;
	return t;
}

/* Decides J of R, none of which could be run. With a fault, that is no step to leave out: it might
   have shown the fault. */
static void unsupported_decide(const struct bb_evidence *e, const struct bb_step_run *r,
			       struct bb_judgement *j)
{
	const struct bb_read_record *const skip = bb_records_first(&r->records, "skip");
	const char *const reason = skip ? bb_record_string(skip->json, "reason") : NULL;
	const char *const why = reason ? reason : r->trouble;

	bb_judgement_decide(j, bb_plan_has_fault(e->simulated, e->step) ? BB_UNJUDGED : BB_SKIPPED,
			    "exit status %d%s%s", BB_EUNSUPPORTED, *why ? ": " : "", why);
}

/* True if R of E cannot be judged; then J has the verdict and the reason. */
static bool is_obstacle(const struct bb_evidence *e, const struct bb_step_run *r,
			struct bb_judgement *j)
{
	const struct bb_outcome *const o = &r->outcome;
	const char *const colon = r->trouble[0] ? ": " : "";

	if (o->timed_out)
		bb_judgement_decide(j, BB_UNJUDGED, "ran past its time limit of %.6g s",
				    (double)j->step->limit_ns / 1e9);
	else if (o->stopped_by)
		bb_judgement_decide(j, BB_UNJUDGED, "interrupted");
	else if (o->status < 0)
		bb_judgement_decide(j, BB_UNJUDGED, "was not run");
	else if (o->status > 128)
		bb_judgement_decide(j, BB_UNJUDGED, "ended by signal %d%s%s", o->status - 128,
				    colon, r->trouble);
	else if (o->status == BB_EUNSUPPORTED)
		unsupported_decide(e, r, j);
	else if (o->status != BB_OK && o->status != BB_EDATA)
		bb_judgement_decide(j, BB_UNJUDGED, "exit status %d%s%s", o->status, colon,
				    r->trouble);
	else if (r->trouble[0] || r->records.n == 0)
		bb_judgement_decide(j, BB_UNJUDGED, "%s",
				    r->trouble[0] ? r->trouble
						  : "it wrote no records; does it know --json?");
	else
		return false;
	return true;
}

/* The data of all runs. */
struct checked {
	int64_t wrong, results, looked_at;
	int64_t ranks; /* of a run with another number of ranks than the profile's; 0: none */
	bool virtual_time;
	const char *verdict; /* of the last run that did not pass */
	char first[BB_SUBJECT_TEXT];
	struct bb_strbuf culprits; /* of the first run of diagnose that found some */
	const json_t *culprit_run;
};

static void culprit_check(const struct bb_read_record *r, struct checked *c)
{
	const char *const text = bb_record_string(r->json, "text");

	if (!text || (c->culprit_run && r->run != c->culprit_run))
		return;
	c->culprit_run = r->run;
	bb_strbuf_addf(&c->culprits, "%s%s", c->culprits.length > 0 ? ". " : ": ", text);
}

/* The ranks of the whole world of E. */
static int64_t all_ranks(const struct bb_evidence *e)
{
	return bb_plan_nodes(e->simulated, e->step) * (e->step->ranks / e->step->nodes);
}

static void record_check(const struct bb_evidence *e, const struct bb_read_record *r,
			 struct checked *c)
{
	const json_t *const wrong = json_object_get(r->json, "wrong");
	const int64_t ranks = bb_record_int(r->json, "nranks");
	const char *const quantity = bb_record_string(r->json, "quantity");
	/* A ping carries no data that could be checked. */
	const bool latency = quantity && strcmp(quantity, "latency") == 0;

	if (strcmp(r->kind, "run") == 0) {
		if (e->step->counted && ranks > 0 && ranks != all_ranks(e))
			c->ranks = ranks;
		c->virtual_time |= bb_record_bool(r->json, "virtual_time");
	} else if (strcmp(r->kind, "end") == 0) {
		if (bb_record_int(r->json, "exit_status") > 0)
			c->verdict = bb_record_string(r->json, "verdict");
	} else if (strcmp(r->kind, "culprit") == 0) {
		culprit_check(r, c);
	} else if (wrong && !latency) {
		c->results++;
		c->looked_at += json_is_integer(wrong);
		if (json_integer_value(wrong) > 0 && c->wrong++ == 0)
			bb_record_subject(c->first, r, BB_SUBJECT_ALL);
	}
}

/* "exit status 7: culprits found: rank 3 …. rank 5 …" */
static void status_decide(struct bb_judgement *j, int status, const struct checked *c)
{
	bb_judgement_decide(j, BB_FAILED, "exit status %d: %s%s", status,
			    c->verdict ? c->verdict : "not passed", bb_strbuf_text(&c->culprits));
}

static struct bb_judgement correctness_judge(const struct bb_evidence *e)
{
	struct bb_judgement j = bb_judgement_of(e, NULL, own_gate(e->step));
	struct bb_evidence_cursor at = {0};
	const struct bb_read_record *r;
	struct checked c = {.wrong = 0};
	int status = 0;

	while ((r = bb_evidence_next(e, &at)))
		record_check(e, r, &c);
	for (size_t i = 0; i < e->nruns; i++)
		status = e->runs[i].outcome.status ? e->runs[i].outcome.status : status;
	if (c.wrong > 0)
		bb_judgement_decide(&j, BB_FAILED, "wrong data in %lld of %lld result%s, first %s",
				    (long long)c.wrong, (long long)c.results, bb_plural(c.results),
				    c.first);
	else if (status != 0)
		status_decide(&j, status, &c);
	else if (c.ranks > 0)
		/* Under an unknown launcher, each process would run alone. */
		bb_judgement_decide(
			&j, BB_UNJUDGED, "ran on %lld rank%s instead of the %lld of the profile",
			(long long)c.ranks, bb_plural(c.ranks), (long long)all_ranks(e));
	else if (c.looked_at == 0 && c.virtual_time)
		bb_judgement_decide(&j, BB_SKIPPED, "virtual time moves no data");
	else if (c.results > 0 && c.looked_at == 0)
		bb_judgement_decide(&j, BB_UNJUDGED, "no result was checked (-c 0?)");
	else if (c.looked_at > 0)
		bb_judgement_decide(&j, BB_PASSED, "#wrong is 0 in %s%lld result%s",
				    c.looked_at == 1 ? "" : "all ", (long long)c.looked_at,
				    bb_plural(c.looked_at));
	else
		bb_judgement_decide(&j, BB_PASSED, "exit status 0");
	bb_strbuf_free(&c.culprits);
	return j;
}

/* Gives a step that could not be judged, and each of its gates, the verdict of WHY. */
static void step_abandon(const struct bb_evidence *e, const struct bb_judgement *why,
			 struct bb_judgements *judgements)
{
	bb_judgements_add(judgements, why);
	if (judgements->failed) /* WHY has no reason any more */
		return;
	for (size_t i = 0; i < e->step->ngates; i++) {
		const struct bb_gate *const gate = &e->step->gates[i];
		struct bb_judgement j =
			bb_judgement_of(e, gate, gate->metric ? gate->metric : gate->shape);

		bb_judgement_decide(&j, why->verdict, "%s", why->reason);
		bb_judgements_add(judgements, &j);
	}
}

bb_status bb_judge_step(const struct bb_evidence *e, struct bb_judgements *judgements,
			struct bb_error *error)
{
	struct bb_judgement own = bb_judgement_of(e, NULL, own_gate(e->step));
	bool obstacle = false;

	if (e->unneeded) {
		bb_judgement_decide(&own, BB_SKIPPED, "%s",
				    e->step->narrows ? "no group needs to be narrowed down"
						     : "no earlier step failed");
		step_abandon(e, &own, judgements);
		return judgements->failed ? bb_no_memory(error, "verdicts") : BB_OK;
	}
	for (size_t i = 0; i < e->nruns && !obstacle; i++)
		obstacle = is_obstacle(e, &e->runs[i], &own);
	if (obstacle) {
		step_abandon(e, &own, judgements);
	} else {
		own = correctness_judge(e);
		bb_judgements_add(judgements, &own);
		for (size_t i = 0; i < e->step->ngates; i++)
			(e->step->gates[i].kind == BB_GATE_VALUE ? bb_judge_value : bb_judge_shape)(
				e, &e->step->gates[i], judgements);
		bb_judge_counters(e, judgements);
	}
	return judgements->failed ? bb_no_memory(error, "verdicts") : BB_OK;
}
