/*
 * judge_value.c - compares a number with its expectation.
 *
 * An expectation of the same run, such as its copy speed, differs from run to run. So the
 * confidence bound is that of the ratios of value and expectation.
 */
#include "acceptance/judge.h"

#include "core/array.h"
#include "core/bound.h"
#include "core/units.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One measurement of a subject. */
struct sample {
	double value, expected, ratio;
};

/* The measurements of one subject in all runs. */
struct group {
	char subject[BB_SUBJECT_TEXT];
	struct sample *list;
	size_t n, room;
	size_t runs;       /* that have it */
	size_t last;       /* 1 + the last of these runs */
	const char *why;   /* why it has no value or expectation; NULL: it has both */
	size_t beaten;     /* measurements beyond their bound */
	const char *doubt; /* why the bound does not hold in one of them */
};

struct groups {
	struct group *list;
	size_t n, room;
};

static void groups_free(struct groups *g)
{
	for (size_t i = 0; i < g->n; i++)
		free(g->list[i].list);
	free(g->list);
}

/* The group of SUBJECT; NULL without memory. */
static struct group *group_find(struct groups *g, const char *subject)
{
	struct group *new;

	for (size_t i = 0; i < g->n; i++)
		if (strcmp(g->list[i].subject, subject) == 0)
			return &g->list[i];
	new = BB_ARRAY_ADD(g->list, g->n, g->room);
	if (!new)
		return NULL;
	*new = (struct group){.runs = 0};
	snprintf(new->subject, sizeof(new->subject), "%s", subject);
	return new;
}

/* ---- what is expected ----------------------------------------------------------------------- */

/* The value that METRIC would have at the bound of RECORD. */
static double bound_expected(const struct bb_read_record *record, const struct bb_gate *gate,
			     const char **why)
{
	const double percent = bb_record_number(record->json, "percent_of_bound");
	const double value = bb_record_number(record->json, gate->measure->field);
	const char *const source = bb_record_string(record->json, "bound_source");

	if (!(percent > 0) || !(value > 0) || !source) {
		*why = "the record carries no bound";
		return NAN;
	}
	if (gate->from->kind == BB_FROM_COPY && !strstr(source, "copy speed")) {
		*why = "its bound is not that of the copy speed; say bound instead of copy";
		return NAN;
	}
	return value * 100 / percent;
}

/* The value of the same result in virtual time. */
static double simulator_expected(const struct bb_evidence *e, const struct bb_gate *gate,
				 const struct bb_read_record *record, const char **why)
{
	const struct bb_step_run *const p = &e->predicted[gate - e->step->gates];
	char wanted[BB_SUBJECT_TEXT], subject[BB_SUBJECT_TEXT];

	bb_record_subject(wanted, record, BB_SUBJECT_ALL);
	*why = p->trouble[0] ? p->trouble : "the simulator has no such result";
	for (size_t i = 0; i < p->records.n; i++)
		if (strcmp(p->records.list[i].kind, record->kind) == 0 &&
		    strcmp(bb_record_subject(subject, &p->records.list[i], BB_SUBJECT_ALL),
			   wanted) == 0)
			return bb_record_metric(p->records.list[i].json, gate->measure);
	return NAN;
}

static double baseline_expected(const struct bb_evidence *e, const struct bb_gate *gate,
				const struct bb_read_record *record, const char **why)
{
	const json_t *const entries =
		json_object_get(e->baselines[gate - e->step->gates], "entries");
	char subject[BB_SUBJECT_TEXT];
	size_t i;
	json_t *entry;

	bb_record_subject(subject, record, BB_SUBJECT_ALL);
	*why = "the baseline has no such result";
	json_array_foreach(entries, i, entry)
	{
		const char *const s = bb_record_string(entry, "subject");
		const char *const step = bb_record_string(entry, "step");
		const char *const metric = bb_record_string(entry, "metric");

		if (s && step && metric && strcmp(s, subject) == 0 &&
		    strcmp(step, bb_step_declared(e->step)->name) == 0 &&
		    strcmp(metric, gate->metric) == 0)
			return bb_record_number(entry, "mean");
	}
	return NAN;
}

/* The value that a gate expects of RECORD; NAN, and *WHY: there is none. */
static double expected_value(const struct bb_evidence *e, const struct bb_gate *gate,
			     const struct bb_read_record *record, const char **why)
{
	const struct bb_source *const from = gate->from;

	*why = "it has no expectation";
	switch (from->kind) {
	case BB_FROM_COPY:
	case BB_FROM_BOUND:
		return from->percent * bound_expected(record, gate, why);
	case BB_FROM_TOPOLOGY:
		return from->percent * from->GBps;
	case BB_FROM_REFERENCE:
		return from->GBps;
	case BB_FROM_SIMULATOR:
		return simulator_expected(e, gate, record, why);
	case BB_FROM_BASELINE:
		return baseline_expected(e, gate, record, why);
	default:
		return NAN;
	}
}

/* Why the bound by which GATE judges RECORD, with VALUE, does not hold; NULL: it may, or it is
 * none. */
static const char *bound_doubt(const struct bb_gate *gate, const struct bb_read_record *record,
			       double value)
{
	const enum bb_source_kind from = gate->from->kind;

	if (from == BB_FROM_TOPOLOGY)
		return bb_bound_doubt(100 * value / gate->from->GBps, NAN, BB_BOUND_BY_LINKS);
	if (from != BB_FROM_COPY && from != BB_FROM_BOUND)
		return NULL;
	return bb_record_string(record->json, "bound_doubt");
}

/* ---- the verdict ---------------------------------------------------------------------------- */

/* Adds R, of run number RUN, to its group. Returns false without memory. */
static bool record_collect(const struct bb_evidence *e, const struct bb_gate *gate,
			   const struct bb_read_record *r, size_t run, struct groups *groups)
{
	char subject[BB_SUBJECT_TEXT];
	struct group *const g = group_find(groups, bb_record_subject(subject, r, BB_SUBJECT_ALL));
	const char *why = NULL;
	const double value =
		bb_step_is_split(e->step)
			? bb_record_slowest_group(r->json, gate->measure, bb_step_groups(e->step))
			: bb_record_metric(r->json, gate->measure);
	const double expected = expected_value(e, gate, r, &why);
	const char *doubt;
	struct sample *new;

	if (!g)
		return false;
	g->runs += g->last != run + 1;
	g->last = run + 1;
	if (!isfinite(value) || !isfinite(expected) || expected <= 0) {
		g->why = isfinite(value) ? why : "it has no such number";
		return true;
	}
	doubt = bound_doubt(gate, r, value);
	g->beaten += doubt != NULL;
	g->doubt = doubt ? doubt : g->doubt;
	new = BB_ARRAY_ADD(g->list, g->n, g->room);
	if (new)
		*new = (struct sample){value, expected, value / expected};
	return new;
}

double bb_judgement_margin(const struct bb_judgement *j, double value)
{
	return j->gate->measure->more_is_better ? value / j->limit : j->limit / value;
}

/* "97.6%", "12000%": three digits, and no exponent. */
static const char *percent_format(char text[BB_UNIT_TEXT], double ratio)
{
	snprintf(text, BB_UNIT_TEXT, fabs(ratio) < 9.995 ? "%.3g%%" : "%.0f%%", 100 * ratio);
	return text;
}

/* "412 GB/s is 98% of 420"; of several runs the mean of their ratios, which is not the ratio of the
   means, and its bound. */
static void ratio_decide(const struct bb_gate *gate, const struct bb_confidence *ratio,
			 struct bb_judgement *j, enum bb_verdict verdict, const char *words)
{
	const double worst = gate->measure->more_is_better ? fmax(ratio->low, 0) : ratio->high;
	char mean[BB_UNIT_TEXT], bound[BB_UNIT_TEXT];

	percent_format(mean, ratio->mean);
	percent_format(bound, worst);
	if (ratio->n == 1)
		bb_judgement_decide(
			j, verdict, "%s: %.4g %s is %s of %.4g; limit %.4g; 1 run: no interval",
			words, j->value, gate->measure->unit, mean, j->expected, j->limit);
	else
		bb_judgement_decide(j, verdict,
				    "%s: %.4g %s, expected %.4g; the ratios of %zu runs have the "
				    "mean %s, bound %s; limit %.4g",
				    words, j->value, gate->measure->unit, j->expected, ratio->n,
				    mean, bound, j->limit);
}

static void group_judge(const struct bb_gate *gate, const struct group *g, struct bb_judgement *j)
{
	const struct bb_confidence value = bb_confidence_every(&g->list->value, g->n, 3);
	const struct bb_confidence expected = bb_confidence_every(&g->list->expected, g->n, 3);
	const struct bb_confidence ratio = bb_confidence_every(&g->list->ratio, g->n, 3);
	const bool more = gate->measure->more_is_better;
	/* No bandwidth is negative, however wide the runs spread. */
	const double worst = more ? fmax(ratio.low, 0) : ratio.high;
	const double limit = more ? 1 - gate->lower : 1 + gate->upper;
	/* Distances from the expectation: of the bound on the bad side, of the mean on the good
	 * one. */
	const double behind = more ? 1 - worst : worst - 1;
	const double ahead = more ? ratio.mean - 1 : 1 - ratio.mean;
	const double surprise = more ? gate->upper : gate->lower;

	j->value = value.mean;
	j->expected = expected.mean;
	j->limit = limit * expected.mean;
	if (ratio.n > 1)
		j->low = worst * expected.mean;
	if (more ? ratio.mean < limit : ratio.mean > limit)
		ratio_decide(gate, &ratio, j, BB_FAILED, "beyond the limit");
	else if (more ? worst < limit : worst > limit)
		/* A mean that passes is no evidence of a fault. */
		ratio_decide(gate, &ratio, j, BB_UNJUDGED, "not shown, the runs spread too much");
	else if (g->beaten == g->n)
		bb_judgement_decide(j, BB_WARNED,
				    "%.4g %s is beyond its bound of %.4g: %s; the gate shows "
				    "little",
				    j->value, gate->measure->unit,
				    j->expected / gate->from->percent, g->doubt);
	else if (behind > gate->warning)
		ratio_decide(gate, &ratio, j, BB_WARNED, "near the limit");
	else if (ahead > surprise)
		ratio_decide(gate, &ratio, j, BB_WARNED,
			     "better than expected: does the source fit?");
	else
		ratio_decide(gate, &ratio, j, BB_PASSED, "within");
}

/* Warns of a baseline of another kind of machine. */
static void baseline_doubt(const struct bb_evidence *e, const struct bb_gate *gate,
			   struct bb_judgement *j)
{
	const struct bb_read_record *const run = bb_records_first(&e->runs[0].records, "run");
	const char *here, *there;

	if (gate->from->kind != BB_FROM_BASELINE || !run || j->verdict != BB_PASSED)
		return;
	here = bb_record_string(run->json, "topology");
	there = bb_record_string(e->baselines[gate - e->step->gates], "topology");
	if (here && there && strcmp(here, there) != 0)
		bb_judgement_decide(j, BB_WARNED,
				    "the baseline is of another kind of machine: topology %s, "
				    "here %s",
				    there, here);
}

/* Returns why GATE cannot judge E: virtual time without a fault is not compared with itself, and
   results of smaller groups are not in a baseline. NULL: it can. */
static const char *gate_idle(const struct bb_evidence *e, const struct bb_gate *gate)
{
	if (gate->from->kind == BB_FROM_SIMULATOR && e->simulated && e->simulated->cluster &&
	    !bb_plan_has_fault(e->simulated, e->step))
		return "the simulator would be compared with itself; give --fault";
	if (gate->from->kind == BB_FROM_BASELINE &&
	    e->step->nodes != bb_step_declared(e->step)->nodes)
		return "the baseline is of larger groups";
	return NULL;
}

void bb_judge_value(const struct bb_evidence *e, const struct bb_gate *gate,
		    struct bb_judgements *judgements)
{
	struct bb_judgement j = bb_judgement_of(e, gate, gate->metric);
	const char *const idle = gate_idle(e, gate);
	struct bb_evidence_cursor at = {0};
	struct groups groups = {.n = 0};
	const struct bb_read_record *r;

	while ((r = bb_evidence_next(e, &at)) && !judgements->failed)
		if (bb_where_selects(gate->where, r))
			judgements->failed |= !record_collect(e, gate, r, at.run, &groups);
	if (groups.n == 0) {
		bb_judgement_decide(&j, BB_UNJUDGED, "no record is selected by where:");
		bb_judgements_add(judgements, &j);
	}
	for (size_t i = 0; i < groups.n; i++) {
		const struct group *const g = &groups.list[i];

		j = bb_judgement_of(e, gate, g->subject);
		if (idle) {
			bb_judgement_decide(&j, BB_SKIPPED, "%s", idle);
		} else if (g->why) {
			bb_judgement_decide(&j, BB_UNJUDGED, "%s", g->why);
		} else if (g->runs < e->nruns) {
			bb_judgement_decide(&j, BB_UNJUDGED, "measured in %zu of %zu runs", g->runs,
					    e->nruns);
		} else {
			group_judge(gate, g, &j);
			baseline_doubt(e, gate, &j);
		}
		bb_judgements_add(judgements, &j);
	}
	groups_free(&groups);
}
