/*
 * judge_value.c - a number held against what is expected of it.
 *
 * Where the expectation is of the same run, such as its copy speed, it differs from run to run. So
 * the ratios of value and expectation are what the confidence bound is taken of.
 */
#include "acceptance/judge.h"

#include "core/array.h"
#include "core/strbuf.h"
#include "core/units.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct series {
	double *list;
	size_t n, room;
};

/* What one subject came to in all runs. */
struct group {
	char subject[BB_SUBJECT_TEXT];
	struct series values, expected, ratios;
	size_t runs;     /* in which it was seen */
	size_t last;     /* of them, plus one */
	const char *why; /* it has no value or no expectation; NULL: it has */
};

struct groups {
	struct group *list;
	size_t n, room;
};

static void free_groups(struct groups *g)
{
	for (size_t i = 0; i < g->n; i++) {
		free(g->list[i].values.list);
		free(g->list[i].expected.list);
		free(g->list[i].ratios.list);
	}
	free(g->list);
}

static struct group *find_group(struct groups *g, const char *subject)
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

static bool add(struct series *s, double value)
{
	double *new = BB_ARRAY_ADD(s->list, s->n, s->room);

	if (new)
		*new = value;
	return new;
}

/* ---- what is expected ----------------------------------------------------------------------- */

/* The value that METRIC would have at the bound of RECORD. */
static double at_bound(const struct bb_read_record *record, const struct bb_gate *gate,
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

/* In what the simulator says of this gate. */
static double simulated(const struct bb_evidence *e, const struct bb_gate *gate,
			const struct bb_read_record *record, const char **why)
{
	const struct bb_step_run *const p = &e->predicted[gate - e->step->gates];
	char wanted[BB_SUBJECT_TEXT], subject[BB_SUBJECT_TEXT];

	bb_record_subject(wanted, record, true);
	*why = p->trouble[0] ? p->trouble : "the simulator has no such result";
	for (size_t i = 0; i < p->records.n; i++)
		if (strcmp(p->records.list[i].kind, record->kind) == 0 &&
		    strcmp(bb_record_subject(subject, &p->records.list[i], true), wanted) == 0)
			return bb_record_metric(p->records.list[i].json, gate->measure);
	return NAN;
}

static double before(const struct bb_evidence *e, const struct bb_gate *gate,
		     const struct bb_read_record *record, const char **why)
{
	const json_t *const entries =
		json_object_get(e->baselines[gate - e->step->gates], "entries");
	char subject[BB_SUBJECT_TEXT];
	size_t i;
	json_t *entry;

	bb_record_subject(subject, record, true);
	*why = "the baseline has no such result";
	json_array_foreach(entries, i, entry)
	{
		const char *const s = bb_record_string(entry, "subject");
		const char *const step = bb_record_string(entry, "step");
		const char *const metric = bb_record_string(entry, "metric");

		if (s && step && metric && strcmp(s, subject) == 0 &&
		    strcmp(step, e->step->name) == 0 && strcmp(metric, gate->metric) == 0)
			return bb_record_number(entry, "mean");
	}
	return NAN;
}

double bb_expected(const struct bb_evidence *e, const struct bb_gate *gate,
		   const struct bb_read_record *record, const char **why)
{
	const struct bb_source *const from = gate->from;

	*why = "it has no expectation";
	switch (from->kind) {
	case BB_FROM_COPY:
	case BB_FROM_BOUND:
		return from->percent * at_bound(record, gate, why);
	case BB_FROM_TOPOLOGY:
		return from->percent * from->GBps;
	case BB_FROM_REFERENCE:
		return from->GBps;
	case BB_FROM_SIMULATOR:
		return simulated(e, gate, record, why);
	case BB_FROM_BASELINE:
		return before(e, gate, record, why);
	default:
		return NAN;
	}
}

/* ---- the verdict ---------------------------------------------------------------------------- */

/* Into GROUPS what GATE is about in run number RUN. */
static bool collect(const struct bb_evidence *e, const struct bb_gate *gate, size_t run,
		    struct groups *groups)
{
	const struct bb_records *const records = &e->runs[run].records;

	for (size_t i = 0; i < records->n; i++) {
		const struct bb_read_record *const r = &records->list[i];
		char subject[BB_SUBJECT_TEXT];
		const char *why = NULL;
		struct group *g;
		double value, expected;

		if (!bb_where_selects(gate->where, r))
			continue;
		g = find_group(groups, bb_record_subject(subject, r, true));
		if (!g)
			return false;
		g->runs += g->last != run + 1;
		g->last = run + 1;
		value = bb_record_metric(r->json, gate->measure);
		expected = bb_expected(e, gate, r, &why);
		if (!isfinite(value))
			g->why = "it has no such number";
		else if (!isfinite(expected) || expected <= 0)
			g->why = why;
		else if (!add(&g->values, value) || !add(&g->expected, expected) ||
			 !add(&g->ratios, value / expected))
			return false;
	}
	return true;
}

/* "97.6%", "12000%": three digits, and no exponent. */
static const char *format_percent(char text[BB_UNIT_TEXT], double ratio)
{
	snprintf(text, BB_UNIT_TEXT, fabs(ratio) < 9.995 ? "%.3g%%" : "%.0f%%", 100 * ratio);
	return text;
}

/* "412 GB/s is 98% of 420"; of several runs the mean of their ratios, which is not the ratio of the
   means, and what bounds it. */
static void tell(const struct bb_gate *gate, const struct bb_confidence *ratio,
		 struct bb_judgement *j, const char *words)
{
	char mean[BB_UNIT_TEXT], bound[BB_UNIT_TEXT];
	struct bb_strbuf s = {0};

	bb_strbuf_addf(&s, "%s: %.4g %s", words, j->value, gate->measure->unit);
	format_percent(mean, ratio->mean);
	if (ratio->n == 1)
		bb_strbuf_addf(&s, " is %s of %.4g", mean, j->expected);
	else
		bb_strbuf_addf(
			&s, ", expected %.4g; the ratios of %zu runs have the mean %s, bound %s",
			j->expected, ratio->n, mean,
			format_percent(bound, gate->measure->more_is_better ? fmax(ratio->low, 0)
									    : ratio->high));
	bb_strbuf_addf(&s, "; limit %.4g%s", j->limit, ratio->n == 1 ? "; 1 run: no interval" : "");
	snprintf(j->reason, sizeof(j->reason), "%s", bb_strbuf_text(&s));
	bb_strbuf_free(&s);
}

static void judge_group(const struct bb_gate *gate, const struct group *g, struct bb_judgement *j)
{
	const struct bb_confidence value = bb_confidence_of(g->values.list, g->values.n);
	const struct bb_confidence expected = bb_confidence_of(g->expected.list, g->expected.n);
	const struct bb_confidence ratio = bb_confidence_of(g->ratios.list, g->ratios.n);
	const bool more = gate->measure->more_is_better;
	/* No bandwidth is negative, however wide the runs spread. */
	const double worst = more ? fmax(ratio.low, 0) : ratio.high;
	const double limit = more ? 1 - gate->lower : 1 + gate->upper;
	/* How far on the bad side of what is expected, and how far on the good one. */
	const double behind = more ? 1 - worst : worst - 1;
	const double ahead = more ? ratio.mean - 1 : 1 - ratio.mean;
	const double surprise = more ? gate->upper : gate->lower;

	j->value = value.mean;
	j->expected = expected.mean;
	j->limit = limit * expected.mean;
	if (ratio.n > 1)
		j->low = worst * expected.mean;
	j->verdict = BB_PASSED;
	if (more ? worst < limit : worst > limit) {
		const bool mean_passes = more ? ratio.mean >= limit : ratio.mean <= limit;

		/* A mean that passes is no evidence of a fault. */
		j->verdict = mean_passes ? BB_UNJUDGED : BB_FAILED;
		tell(gate, &ratio, j,
		     mean_passes ? "not shown, the runs spread too much" : "beyond the limit");
	} else if (behind > gate->warning) {
		j->verdict = BB_WARNED;
		tell(gate, &ratio, j, "near the limit");
	} else if (ahead > surprise) {
		j->verdict = BB_WARNED;
		tell(gate, &ratio, j, "better than expected: does the source fit?");
	} else {
		tell(gate, &ratio, j, "within");
	}
}

/* A baseline of a machine that is not like this one is worth a warning. */
static void doubt(const struct bb_evidence *e, const struct bb_gate *gate, struct bb_judgement *j)
{
	const struct bb_read_record *const run = bb_records_first(&e->runs[0].records, "run");
	const char *here, *there;

	if (gate->from->kind != BB_FROM_BASELINE || !run || j->verdict != BB_PASSED)
		return;
	here = bb_record_string(run->json, "topology");
	there = bb_record_string(e->baselines[gate - e->step->gates], "topology");
	if (!here || !there || strcmp(here, there) == 0)
		return;
	j->verdict = BB_WARNED;
	snprintf(j->reason, sizeof(j->reason),
		 "the baseline is of another kind of machine: topology %.32s, here %.32s", there,
		 here);
}

/* A step in virtual time without a fault cannot fail where virtual time is what is expected. */
static bool is_idle(const struct bb_evidence *e, const struct bb_gate *gate)
{
	return gate->from->kind == BB_FROM_SIMULATOR && e->played && e->played->cluster &&
	       !bb_played_faulty(e->played, e->step);
}

bb_status bb_judge_value(const struct bb_evidence *e, const struct bb_gate *gate,
			 struct bb_judgements *judgements, struct bb_error *error)
{
	struct groups groups = {.n = 0};
	bool good = true;

	for (size_t run = 0; good && run < e->nruns; run++)
		good = collect(e, gate, run, &groups);
	for (size_t i = 0; good && (i < groups.n || (i == 0 && groups.n == 0)); i++) {
		const struct group *const g = groups.n > 0 ? &groups.list[i] : NULL;
		struct bb_judgement *const j = bb_judgement_add(judgements, e, gate);

		good = j != NULL;
		if (!good)
			break;
		j->verdict = BB_UNJUDGED;
		snprintf(j->subject, sizeof(j->subject), "%s", g ? g->subject : gate->metric);
		if (!g)
			snprintf(j->reason, sizeof(j->reason), "no record is selected by where:");
		else if (is_idle(e, gate))
			j->verdict = BB_SKIPPED,
			snprintf(j->reason, sizeof(j->reason),
				 "the simulator would be held against itself; with --fault it says "
				 "something");
		else if (g->why)
			snprintf(j->reason, sizeof(j->reason), "%s", g->why);
		else if (g->runs < e->nruns)
			snprintf(j->reason, sizeof(j->reason), "measured in %zu of %zu runs",
				 g->runs, e->nruns);
		else
			judge_group(gate, g, j), doubt(e, gate, j);
	}
	free_groups(&groups);
	return good ? BB_OK : bb_no_memory(error, "verdicts");
}
