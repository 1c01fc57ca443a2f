/*
 * judge.c - whether a step ran, whether its data is right, and then its gates.
 */
#include "acceptance/judge.h"
#include "core/array.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *bb_verdict_name(enum bb_verdict verdict)
{
	static const char *const names[] = {"passed", "warning", "skipped", "could not judge",
					    "failed"};

	return names[verdict];
}

struct bb_judgement *bb_judgement_add(struct bb_judgements *j, const struct bb_evidence *evidence,
				      const struct bb_gate *gate)
{
	struct bb_judgement *new = BB_ARRAY_ADD(j->list, j->n, j->room);

	if (new)
		*new = (struct bb_judgement){.step = evidence->step,
					     .gate = gate,
					     .own = gate ? NULL : bb_own_gate(evidence->step),
					     .runs = evidence->nruns,
					     .value = NAN,
					     .low = NAN,
					     .expected = NAN,
					     .limit = NAN};
	return new;
}

void bb_judgements_free(struct bb_judgements *judgements)
{
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

const char *bb_own_gate(const struct bb_profile_step *step)
{
	return bb_step_diagnoses(step) ? "diagnosis" : "correctness";
}

/* The run that keeps the step from being judged, or NULL; WHY, and whether that is unsupported. */
static const struct bb_step_run *obstacle(const struct bb_evidence *e, bool *unsupported)
{
	for (size_t i = 0; i < e->nruns; i++) {
		const struct bb_step_run *const r = &e->runs[i];
		const int status = r->outcome.status;

		*unsupported = status == BB_EUNSUPPORTED && !r->outcome.timed_out;
		if (r->outcome.timed_out || r->outcome.stopped_by || r->records.n == 0 ||
		    (status != BB_OK && status != BB_EDATA) || r->trouble[0])
			return r;
	}
	return NULL;
}

static void tell_obstacle(const struct bb_evidence *e, const struct bb_step_run *r, char *text,
			  size_t room)
{
	if (r->outcome.timed_out)
		snprintf(text, room, "ran past its time limit of %.6g s",
			 (double)e->step->limit_ns / 1e9);
	else if (r->outcome.stopped_by)
		snprintf(text, room, "interrupted");
	else if (r->outcome.status < 0)
		snprintf(text, room, "was not run");
	else if (r->outcome.status > 128)
		snprintf(text, room, "signal %d ended it%s%s", r->outcome.status - 128,
			 r->trouble[0] ? ": " : "", r->trouble);
	else if (r->outcome.status != BB_OK && r->outcome.status != BB_EDATA)
		snprintf(text, room, "exit status %d%s%s", r->outcome.status,
			 r->trouble[0] ? ": " : "", r->trouble);
	else
		snprintf(text, room, "%s",
			 r->trouble[0] ? r->trouble : "it wrote no records; does it know --json?");
}

/* What was wrong and checked in all runs, and the verdict of the last that did not pass. */
struct checked {
	int64_t wrong, results, looked_at;
	int64_t ranks; /* of a run that had others than the profile says; 0: none had */
	bool virtual_time;
	const char *verdict;
	char first[BB_SUBJECT_TEXT];
	/* Of diagnose: the first culprit, and how many that run found. */
	const char *culprit;
	const json_t *culprit_run;
	size_t culprits;
};

static void look_at_culprit(const struct bb_read_record *r, struct checked *c)
{
	if (c->culprits > 0 && r->run != c->culprit_run)
		return;
	if (c->culprits++ == 0) {
		c->culprit = bb_record_string(r->json, "text");
		c->culprit_run = r->run;
	}
}

static void look_at(const struct bb_profile_step *step, const struct bb_read_record *r,
		    struct checked *c)
{
	const json_t *const wrong = json_object_get(r->json, "wrong");
	const int64_t ranks = bb_record_int(r->json, "nranks");
	const char *const quantity = bb_record_string(r->json, "quantity");
	/* A word that goes there and back carries no data that could be checked. */
	const bool latency = quantity && strcmp(quantity, "latency") == 0;

	if (strcmp(r->kind, "run") == 0) {
		if (step->counted && ranks > 0 && ranks != step->ranks)
			c->ranks = ranks;
		c->virtual_time |= json_is_true(json_object_get(r->json, "virtual_time"));
	} else if (strcmp(r->kind, "end") == 0) {
		if (bb_record_int(r->json, "exit_status") > 0)
			c->verdict = bb_record_string(r->json, "verdict");
	} else if (strcmp(r->kind, "culprit") == 0) {
		look_at_culprit(r, c);
	} else if (wrong && !latency) {
		c->results++;
		c->looked_at += json_is_integer(wrong);
		if (json_integer_value(wrong) > 0 && c->wrong++ == 0)
			bb_record_subject(c->first, r, true);
	}
}

/* "exit status 7: culprit found: rank 3 …, and 1 more" */
static void tell_status(int status, const struct checked *c, char *text, size_t room)
{
	int n = snprintf(text, room, "exit status %d: %.60s", status,
			 c->verdict ? c->verdict : "not passed");

	if (c->culprit && n > 0)
		n += snprintf(text + n, room - (size_t)n, ": %.270s", c->culprit);
	if (c->culprits > 1)
		snprintf(text + n, room - (size_t)n, ", and %zu more", c->culprits - 1);
}

static bb_status judge_correctness(const struct bb_evidence *e, struct bb_judgements *judgements,
				   struct bb_error *error)
{
	struct bb_judgement *const j = bb_judgement_add(judgements, e, NULL);
	struct checked c = {.wrong = 0};
	int status = 0;

	if (!j)
		return bb_no_memory(error, "verdicts");
	for (size_t i = 0; i < e->nruns; i++) {
		for (size_t k = 0; k < e->runs[i].records.n; k++)
			look_at(e->step, &e->runs[i].records.list[k], &c);
		status = e->runs[i].outcome.status ? e->runs[i].outcome.status : status;
	}
	snprintf(j->subject, sizeof(j->subject), "%s", bb_own_gate(e->step));
	j->verdict = BB_FAILED;
	if (c.wrong > 0)
		snprintf(j->reason, sizeof(j->reason),
			 "wrong data in %lld of %lld results, first %.160s", (long long)c.wrong,
			 (long long)c.results, c.first);
	else if (status != 0)
		tell_status(status, &c, j->reason, sizeof(j->reason));
	else if (c.ranks > 0)
		/* Under a launcher that it does not understand each process would be alone. */
		j->verdict = BB_UNJUDGED,
		snprintf(j->reason, sizeof(j->reason), "ran on %lld ranks, the profile says %lld",
			 (long long)c.ranks, (long long)e->step->ranks);
	else if (c.results > 0 && c.looked_at == 0 && !c.virtual_time)
		j->verdict = BB_UNJUDGED,
		snprintf(j->reason, sizeof(j->reason), "no result was checked (-c 0?)");
	else if (c.looked_at == 0 && c.virtual_time)
		j->verdict = BB_SKIPPED,
		snprintf(j->reason, sizeof(j->reason), "virtual time moves no data");
	else
		j->verdict = BB_PASSED,
		snprintf(j->reason, sizeof(j->reason),
			 c.looked_at > 0 ? "#wrong is 0 in all %lld results" : "exit status 0",
			 (long long)c.looked_at);
	return BB_OK;
}

/* The step could not be judged: it and each of its gates say so, once. */
static bb_status give_up(const struct bb_evidence *e, enum bb_verdict verdict, const char *why,
			 struct bb_judgements *judgements, struct bb_error *error)
{
	for (int i = -1; i < (int)e->step->ngates; i++) {
		const struct bb_gate *const gate = i < 0 ? NULL : &e->step->gates[i];
		struct bb_judgement *const j = bb_judgement_add(judgements, e, gate);

		if (!j)
			return bb_no_memory(error, "verdicts");
		j->verdict = verdict;
		snprintf(j->subject, sizeof(j->subject), "%s",
			 !gate          ? bb_own_gate(e->step)
			 : gate->metric ? gate->metric
					: gate->shape);
		snprintf(j->reason, sizeof(j->reason), "%s", why);
	}
	return BB_OK;
}

bb_status bb_judge_step(const struct bb_evidence *e, struct bb_judgements *judgements,
			struct bb_error *error)
{
	const struct bb_step_run *broken;
	bool unsupported;
	char why[360];
	bb_status st;

	broken = obstacle(e, &unsupported);
	if (broken) {
		tell_obstacle(e, broken, why, sizeof(why));
		return give_up(e, unsupported ? BB_SKIPPED : BB_UNJUDGED, why, judgements, error);
	}
	BB_TRY(st, judge_correctness(e, judgements, error), out);
	for (uint32_t i = 0; i < e->step->ngates; i++) {
		const struct bb_gate *const g = &e->step->gates[i];

		BB_TRY(st,
		       g->kind == BB_GATE_VALUE ? bb_judge_value(e, g, judgements, error)
						: bb_judge_shape(e, g, judgements, error),
		       out);
	}
	st = bb_judge_counters(e, judgements, error);
out:
	return st;
}
