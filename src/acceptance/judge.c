/*
 * judge.c - judges a step: whether it ran, its data, and its gates.
 *
 * An expectation of the same run, such as its copy speed, differs from run to run. So the
 * confidence bound is that of the ratios of value and expectation.
 */
#include "acceptance/judge.h"

#include "acceptance/records.h"
#include "core/array.h"
#include "core/stats.h"
#include "core/units.h"

#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const bb_verdict_names[] = {"passed", "warning", "skipped", "could not judge",
					"failed"};

const struct bb_read_record *bb_evidence_next(const struct bb_evidence *e,
					      struct bb_evidence_cursor *at)
{
	while (at->run < e->nruns && at->next == e->runs[at->run].records.n) {
		at->run++;
		at->next = 0;
	}
	return at->run < e->nruns ? &e->runs[at->run].records.list[at->next++] : NULL;
}

struct bb_judgement bb_judgement_of(const struct bb_evidence *e, const struct bb_gate *gate,
				    const char *name)
{
	struct bb_judgement j = {.step = e->step,
				 .gate = gate,
				 .metric = !gate ? name : gate->metric ?: gate->shape,
				 .runs = e->nruns,
				 .value = NAN,
				 .low = NAN,
				 .expected = NAN,
				 .limit = NAN};

	snprintf(j.subject, sizeof(j.subject), "%s", name ?: j.metric);
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
	const bool added = j->reason && BB_ARRAY_PUT(all->list, all->n, all->room, *j);

	all->failed |= !added;
	if (!added)
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

/* ---- measurements ---------------------------------------------------------------------------- */

/* One measurement of one run, for one gate. */
struct point {
	char series[BB_SUBJECT_TEXT]; /* its subject; on a curve without what differs there */
	size_t first, nth;            /* in the order of records: of its series, and itself */
	int which; /* of a crossover: the first algorithm 0, the second 1, any other 2 */
	struct bb_curve_point at; /* of a value without its size */
	double time;
	double value, expected, ratio;
	const char *why;   /* why it has no value or expectation; NULL: it has both */
	const char *doubt; /* why the bound, which it beats, does not hold; NULL: it may */
};

struct points {
	struct point *list;
	size_t n, room;
};

/* By series, size, run, and the order of records. */
static int compare_points(const void *a, const void *b)
{
	const struct point *const p = a, *const q = b;
	const int series = strcmp(p->series, q->series);

	if (p->first != q->first)
		return p->first < q->first ? -1 : 1;
	if (series != 0)
		return series;
	if (p->at.size != q->at.size)
		return p->at.size < q->at.size ? -1 : 1;
	if (p->at.run != q->at.run)
		return p->at.run < q->at.run ? -1 : 1;
	return p->nth < q->nth ? -1 : 1;
}

/* The value that a gate expects of RECORD; NAN, and *WHY: there is none. */
static double expected_value(const struct bb_evidence *e, const struct bb_gate *gate,
			     const struct bb_read_record *record, const char **why)
{
	const struct bb_source *const from = &gate->from;
	const size_t nth = (size_t)(gate - e->step->gates);
	const double percent = bb_record_number(record->json, "percent_of_bound");
	const double value = bb_record_number(record->json, gate->measure->field);
	const char *const source = bb_record_string(record->json, "bound_source");
	char wanted[BB_SUBJECT_TEXT];
	size_t i;
	json_t *entry;

	*why = "it has no expectation";
	bb_record_subject(wanted, record, BB_SUBJECT_ALL);
	switch (from->kind) {
	case BB_FROM_COPY:
	case BB_FROM_BOUND: /* the value that the metric would have at the record's bound */
		*why = "its bound is not that of the copy speed; say bound instead of copy";
		if (!(percent > 0) || !(value > 0) || !source)
			*why = "the record carries no bound";
		else if (from->kind == BB_FROM_BOUND || strstr(source, "copy speed"))
			return from->percent * value * 100 / percent;
		return NAN;
	case BB_FROM_TOPOLOGY:
		return from->percent * from->GBps;
	case BB_FROM_REFERENCE:
		return from->GBps;
	case BB_FROM_SIMULATOR: {
		const struct bb_step_run *const p = &e->expected[nth].predicted;

		*why = p->trouble[0] ? p->trouble : "the simulator has no such result";
		for (i = 0; i < p->records.n; i++)
			if (strcmp(p->records.list[i].kind, record->kind) == 0 &&
			    bb_record_is(&p->records.list[i], wanted))
				return bb_record_metric(p->records.list[i].json, gate->measure);
		return NAN;
	}
	case BB_FROM_BASELINE:
		*why = "the baseline has no such result";
		json_array_foreach(json_object_get(e->expected[nth].baseline, "entries"), i, entry)
		{
			if (bb_record_says(entry, "subject", wanted) &&
			    bb_record_says(entry, "step", bb_step_declared(e->step)->name) &&
			    bb_record_says(entry, "metric", gate->metric))
				return bb_record_number(entry, "mean");
		}
		return NAN;
	default:
		return NAN;
	}
}

/* Adds what GATE judges of R, of run number RUN. Returns false without memory. */
static bool point_add(const struct bb_evidence *e, const struct bb_gate *gate,
		      const struct bb_read_record *r, size_t run, struct points *points)
{
	static const enum bb_subject_scope scopes[] = {[BB_GATE_VALUE] = BB_SUBJECT_ALL,
						       [BB_GATE_NO_DIP] = BB_SUBJECT_SIZES,
						       [BB_GATE_CROSSOVER] = BB_SUBJECT_ALGORITHMS};
	struct point p = {.nth = points->n, .at.run = run};

	bb_record_subject(p.series, r, scopes[gate->kind]);
	if (gate->kind != BB_GATE_VALUE) {
		const char *const algorithm = bb_record_string(r->json, "algorithm_asked");

		p.at.size = bb_record_number(r->json, "size_bytes");
		p.at.busbw = bb_record_number(r->json, "busbw_GBps");
		p.time = bb_record_number(r->json, "time_us");
		if (!(p.at.size > 0) || !(p.at.busbw > 0) || !(p.time > 0) || !algorithm)
			return true;
		p.which = strcmp(algorithm, gate->first) == 0    ? 0
			  : strcmp(algorithm, gate->second) == 0 ? 1
								 : 2;
	} else {
		while (p.first < points->n && strcmp(points->list[p.first].series, p.series) != 0)
			p.first++;
		p.value = bb_step_is_split(e->step)
				  ? bb_record_slowest_group(r->json, gate->measure,
							    bb_step_groups(e->step))
				  : bb_record_metric(r->json, gate->measure);
		p.expected = expected_value(e, gate, r, &p.why);
		p.ratio = p.value / p.expected;
		if (!isfinite(p.value))
			p.why = "it has no such number";
		else if (isfinite(p.expected) && p.expected > 0)
			p.why = NULL;
		if (gate->from.kind == BB_FROM_TOPOLOGY)
			p.doubt = bb_bound_doubt(100 * p.value / gate->from.GBps, NAN,
						 BB_BOUND_BY_LINKS);
		else if (gate->from.kind <= BB_FROM_BOUND)
			p.doubt = bb_record_string(r->json, "bound_doubt");
	}
	return BB_ARRAY_PUT(points->list, points->n, points->room, p);
}

/* ---- values --------------------------------------------------------------------------------- */

/* "97.6%", "12000%": three digits, and no exponent. */
static const char *percent_format(char text[BB_UNIT_TEXT], double ratio)
{
	snprintf(text, BB_UNIT_TEXT, fabs(ratio) < 9.995 ? "%.3g%%" : "%.0f%%", 100 * ratio);
	return text;
}

/* Judges N measurements of which all have a value and an expectation. */
static void ratios_judge(const struct bb_gate *gate, const struct point *p, size_t n,
			 struct bb_judgement *j)
{
	const size_t step = sizeof(*p) / sizeof(double);
	const struct bb_confidence value = bb_confidence_every(&p->value, n, step);
	const struct bb_confidence expected = bb_confidence_every(&p->expected, n, step);
	const struct bb_confidence ratio = bb_confidence_every(&p->ratio, n, step);
	const bool more = gate->measure->more_is_better;
	/* No bandwidth is negative, however wide the runs spread. */
	const double worst = more ? fmax(ratio.low, 0) : ratio.high;
	const double limit = more ? 1 - gate->lower : 1 + gate->upper;
	/* Distances from the expectation: of the bound on the bad side, of the mean on the good
	 * one. */
	const double behind = more ? 1 - worst : worst - 1;
	const double ahead = more ? ratio.mean - 1 : 1 - ratio.mean;
	const double surprise = more ? gate->upper : gate->lower;
	const char *const unit = gate->measure->unit, *doubt = NULL, *words = "within";
	enum bb_verdict verdict = BB_PASSED;
	char mean[BB_UNIT_TEXT], bound[BB_UNIT_TEXT];
	size_t beaten = 0;

	for (size_t i = 0; i < n; i++) {
		beaten += p[i].doubt != NULL;
		doubt = p[i].doubt ? p[i].doubt : doubt;
	}
	j->value = value.mean;
	j->expected = expected.mean;
	j->limit = limit * expected.mean;
	if (n > 1)
		j->low = worst * expected.mean;
	if (more ? ratio.mean < limit : ratio.mean > limit) {
		verdict = BB_FAILED;
		words = "beyond the limit";
	} else if (more ? worst < limit : worst > limit) {
		/* A mean that passes is no evidence of a fault. */
		verdict = BB_UNJUDGED;
		words = "not shown, the runs spread too much";
	} else if (beaten == n) {
		bb_judgement_decide(
			j, BB_WARNED,
			"%.4g %s is beyond its bound of %.4g: %s; the gate shows little", j->value,
			unit, j->expected / gate->from.percent, doubt);
		return;
	} else if (behind > gate->warning || ahead > surprise) {
		verdict = BB_WARNED;
		words = behind > gate->warning ? "near the limit"
					       : "better than expected: does the source fit?";
	}
	/* Of several runs the mean of their ratios, which is not the ratio of the means. */
	percent_format(mean, ratio.mean);
	if (n == 1)
		bb_judgement_decide(j, verdict,
				    "%s: %.4g %s is %s of %.4g; limit %.4g; 1 run: no interval",
				    words, j->value, unit, mean, j->expected, j->limit);
	else
		bb_judgement_decide(j, verdict,
				    "%s: %.4g %s, expected %.4g; the ratios of %zu runs have the "
				    "mean %s, bound %s; limit %.4g",
				    words, j->value, unit, j->expected, n, mean,
				    percent_format(bound, worst), j->limit);
}

static void value_judge(const struct bb_evidence *e, const struct point *p, size_t n,
			struct bb_judgement *j)
{
	const struct bb_gate *const gate = j->gate;
	const json_t *const run = bb_records_first(&e->runs[0].records, "run");
	const bool baseline = gate->from.kind == BB_FROM_BASELINE;
	const char *const here = baseline ? bb_record_string(run, "topology") : NULL;
	const char *const there =
		baseline ? bb_record_string(e->expected[gate - e->step->gates].baseline, "topology")
			 : NULL;
	const char *why = NULL;
	size_t runs = 0;

	for (size_t i = 0; i < n; i++) {
		runs += i == 0 || p[i].at.run != p[i - 1].at.run;
		why = p[i].why ? p[i].why : why;
	}
	if (baseline && e->step->nodes != bb_step_declared(e->step)->nodes)
		bb_judgement_decide(j, BB_SKIPPED, "the baseline is of larger groups");
	else if (gate->from.kind == BB_FROM_SIMULATOR && e->simulated && e->simulated->cluster &&
		 !bb_plan_has_fault(e->simulated, e->step))
		bb_judgement_decide(j, BB_SKIPPED,
				    "the simulator would be compared with itself; give --fault");
	else if (why)
		bb_judgement_decide(j, BB_UNJUDGED, "%s", why);
	else if (runs < e->nruns)
		bb_judgement_decide(j, BB_UNJUDGED, "measured in %zu of %zu runs", runs, e->nruns);
	else
		ratios_judge(gate, p, n, j);
	if (j->verdict == BB_PASSED && here && there && strcmp(here, there) != 0)
		bb_judgement_decide(
			j, BB_WARNED,
			"the baseline is of another kind of machine: topology %s, here %s", there,
			here);
}

/* ---- no dip --------------------------------------------------------------------------------- */

static void dip_judge(const struct bb_evidence *e, const struct point *p, size_t n,
		      struct bb_judgement *j)
{
	struct bb_curve_point *const curve = calloc(n, sizeof(*curve));
	const double limit = 1 - j->gate->lower;
	char size[BB_UNIT_TEXT], bound[32] = "";
	struct bb_dip dip;

	for (size_t i = 0; curve && i < n; i++)
		curve[i] = p[i].at;
	const bool good = curve && bb_dip_find(curve, n, e->nruns, &dip);
	free(curve);
	if (!good)
		return;
	const struct bb_confidence worst = dip.ratio;
	if (worst.n == 0) {
		bb_judgement_decide(j, BB_UNJUDGED, "one size alone has no shape");
		return;
	}
	const bool shown = worst.low >= limit || worst.mean < limit;
	j->value = worst.mean;
	j->expected = 1;
	j->limit = limit;
	if (worst.n > 1) {
		j->low = fmax(worst.low, 0);
		snprintf(bound, sizeof(bound), ", bound %.3g%%", 100 * j->low);
	}
	bb_judgement_decide(
		j,
		worst.low >= limit ? BB_PASSED
		: shown            ? BB_FAILED
				   : BB_UNJUDGED,
		"%sat %s busbw is %.3g%% of the best at a smaller size%s; limit %.3g%%%s",
		shown ? "" : "not shown, the runs spread too much: ",
		bb_format_size(size, (uint64_t)dip.size), 100 * worst.mean, bound, 100 * limit,
		worst.n == 1 ? "; 1 run: no interval" : "");
}

/* ---- crossover ------------------------------------------------------------------------------ */

/*
 * Judges log2 of the size from which on the second algorithm is faster than the first in each run:
 * between the last size at which it is not and the next one, where straight lines cross.
 */
static void crossover_judge(const struct bb_evidence *e, const struct point *p, size_t n,
			    struct bb_judgement *j)
{
	const struct bb_gate *const gate = j->gate;
	double *const at = calloc(e->nruns + 1, sizeof(*at));
	char from[BB_UNIT_TEXT], low[BB_UNIT_TEXT], high[BB_UNIT_TEXT];
	bool behind = false, measured[3] = {false};
	size_t found = 0;

	if (!at)
		return;
	snprintf(j->subject, sizeof(j->subject), "crossover of %s and %s: %.70s", gate->first,
		 gate->second, p->series);
	for (size_t run = 0; run < e->nruns; run++) {
		double size = 0, before = 0;

		behind = false; /* the first is faster at the largest size */
		at[found] = NAN;
		for (size_t i = 0, next; i < n; i = next) {
			double times[3] = {NAN, NAN, 0};

			for (next = i; next < n && p[next].at.size == p[i].at.size; next++)
				if (p[next].at.run == run && isnan(times[p[next].which]))
					times[p[next].which] = p[next].time;
			const double now = times[0] - times[1];
			if (isnan(now))
				continue;
			if (size > 0 && before <= 0 && now > 0)
				at[found] = log2(size +
						 (p[i].at.size - size) * before / (before - now));
			else if (now <= 0)
				at[found] = NAN;
			behind = now <= 0;
			size = p[i].at.size;
			before = now;
		}
		found += !isnan(at[found]);
	}
	for (size_t i = 0; i < n; i++)
		measured[p[i].which] = true;
	if (!measured[0] || !measured[1]) {
		bb_judgement_decide(j, BB_UNJUDGED, "one of the two algorithms was not measured");
	} else if (found == e->nruns) {
		const struct bb_confidence c = bb_confidence_of(at, found);
		const bool inside = c.low >= log2((double)gate->least_bytes) &&
				    c.high <= log2((double)gate->most_bytes);

		j->value = exp2(c.mean);
		bb_judgement_decide(
			j, inside ? BB_PASSED : BB_FAILED,
			"%s is faster than %s from %s on (%zu run%s: %s to %s); window %s",
			gate->second, gate->first, bb_format_size(from, (uint64_t)j->value), c.n,
			bb_plural(c.n), bb_format_size(low, (uint64_t)exp2(c.low)),
			bb_format_size(high, (uint64_t)exp2(fmin(c.high, 60))), gate->window);
	} else {
		bb_judgement_decide(
			j, BB_FAILED,
			"they do not cross in %zu of %zu run%s: %s is faster %s; window %s",
			e->nruns - found, e->nruns, bb_plural(e->nruns),
			behind ? gate->first : gate->second,
			behind ? "at the largest size" : "at every size", gate->window);
	}
	free(at);
}

/* ---- gates ---------------------------------------------------------------------------------- */

/* Appends a judgement of each series that GATE selects. */
static void gate_judge(const struct bb_evidence *e, const struct bb_gate *gate,
		       struct bb_judgements *judgements)
{
	static void (*const judges[])(const struct bb_evidence *e, const struct point *p, size_t n,
				      struct bb_judgement *j) = {[BB_GATE_VALUE] = value_judge,
								 [BB_GATE_NO_DIP] = dip_judge,
								 [BB_GATE_CROSSOVER] =
									 crossover_judge};
	struct bb_judgement j = bb_judgement_of(e, gate, NULL);
	const struct bb_read_record *r;
	struct points p = {.n = 0};

	for (struct bb_evidence_cursor at = {0}; (r = bb_evidence_next(e, &at));)
		if (bb_where_selects(&gate->where, r))
			judgements->failed |= !point_add(e, gate, r, at.run, &p);
	if (p.n == 0) {
		bb_judgement_decide(&j, BB_UNJUDGED, "no record is selected by where:");
		bb_judgements_add(judgements, &j);
	} else {
		qsort(p.list, p.n, sizeof(*p.list), compare_points);
	}
	for (size_t i = 0, next; i < p.n; i = next) {
		for (next = i + 1;
		     next < p.n && strcmp(p.list[next].series, p.list[i].series) == 0;)
			next++;
		j = bb_judgement_of(e, gate, p.list[i].series);
		judges[gate->kind](e, &p.list[i], next - i, &j);
		bb_judgements_add(judgements, &j);
	}
	free(p.list);
}

/* ---- steps ---------------------------------------------------------------------------------- */

/* Decides J if R of E cannot be judged. */
static void obstacle_judge(const struct bb_evidence *e, const struct bb_step_run *r,
			   struct bb_judgement *j)
{
	const struct bb_outcome *const o = &r->outcome;
	const json_t *const skip =
		o->status == BB_EUNSUPPORTED ? bb_records_first(&r->records, "skip") : NULL;
	const char *const why = bb_record_string(skip, "reason") ?: r->trouble;
	const char *const colon = *why ? ": " : "";

	if (o->timed_out)
		bb_judgement_decide(j, BB_UNJUDGED, "ran past its time limit of %.6g s",
				    (double)j->step->limit_ns / 1e9);
	else if (o->stopped_by)
		bb_judgement_decide(j, BB_UNJUDGED, "interrupted");
	else if (o->status < 0)
		bb_judgement_decide(j, BB_UNJUDGED, "was not run");
	else if (o->status > 128)
		bb_judgement_decide(j, BB_UNJUDGED, "ended by signal %d%s%s", o->status - 128,
				    colon, why);
	else if (o->status != BB_OK && o->status != BB_EDATA)
		/* With a fault, a step that cannot be done is none to leave out: it might have
		   shown the fault. */
		bb_judgement_decide(j,
				    o->status == BB_EUNSUPPORTED &&
						    !bb_plan_has_fault(e->simulated, e->step)
					    ? BB_SKIPPED
					    : BB_UNJUDGED,
				    "exit status %d%s%s", o->status, colon, why);
	else if (r->trouble[0] || r->records.n == 0)
		bb_judgement_decide(j, BB_UNJUDGED, "%s",
				    r->trouble[0] ? r->trouble
						  : "it wrote no records; does it know --json?");
}

/* Judges the data of all runs. */
static void correctness_judge(const struct bb_evidence *e, struct bb_judgement *j)
{
	const int64_t planned =
		bb_plan_nodes(e->simulated, e->step) * (e->step->ranks / e->step->nodes);
	const struct bb_read_record *r;
	int64_t wrong = 0, results = 0, looked_at = 0;
	int64_t ranks = 0;          /* of a run with another number of ranks than the profile's */
	const char *verdict = NULL; /* of the last run that did not pass */
	char first[BB_SUBJECT_TEXT];
	struct bb_strbuf culprits = {0}; /* of the first run of diagnose that found some */
	const json_t *culprit_run = NULL;
	bool virtual_time = false;
	int status = 0;

	for (struct bb_evidence_cursor at = {0}; (r = bb_evidence_next(e, &at));) {
		const json_t *const of = json_object_get(r->json, "wrong");
		const int64_t nranks = bb_record_int(r->json, "nranks");
		const char *const text = bb_record_string(r->json, "text");

		if (strcmp(r->kind, "run") == 0) {
			if (e->step->counted && nranks > 0 && nranks != planned)
				ranks = nranks;
			virtual_time |= bb_record_bool(r->json, "virtual_time");
		} else if (strcmp(r->kind, "end") == 0) {
			if (bb_record_int(r->json, "exit_status") > 0)
				verdict = bb_record_string(r->json, "verdict");
		} else if (strcmp(r->kind, "culprit") == 0) {
			if (!text || (culprit_run && r->run != culprit_run))
				continue;
			culprit_run = r->run;
			bb_strbuf_addf(&culprits, "%s%s", culprits.length > 0 ? ". " : ": ", text);
		} else if (of && !bb_record_says(r->json, "quantity", "latency")) {
			/* A ping carries no data that could be checked. */
			results++;
			looked_at += json_is_integer(of);
			if (json_integer_value(of) > 0 && wrong++ == 0)
				bb_record_subject(first, r, BB_SUBJECT_ALL);
		}
	}
	for (size_t i = 0; i < e->nruns; i++)
		status = e->runs[i].outcome.status ?: status;
	if (wrong > 0)
		bb_judgement_decide(j, BB_FAILED, "wrong data in %lld of %lld result%s, first %s",
				    (long long)wrong, (long long)results, bb_plural(results),
				    first);
	else if (status != 0)
		bb_judgement_decide(j, BB_FAILED, "exit status %d: %s%s", status,
				    verdict ?: "not passed", bb_strbuf_text(&culprits));
	else if (ranks > 0)
		/* Under an unknown launcher, each process would run alone. */
		bb_judgement_decide(j, BB_UNJUDGED,
				    "ran on %lld rank%s instead of the %lld of the profile",
				    (long long)ranks, bb_plural(ranks), (long long)planned);
	else if (looked_at == 0 && virtual_time)
		bb_judgement_decide(j, BB_SKIPPED, "virtual time moves no data");
	else if (results > 0 && looked_at == 0)
		bb_judgement_decide(j, BB_UNJUDGED, "no result was checked (-c 0?)");
	else if (looked_at > 0)
		bb_judgement_decide(j, BB_PASSED, "#wrong is 0 in %s%lld result%s",
				    looked_at == 1 ? "" : "all ", (long long)looked_at,
				    bb_plural(looked_at));
	else
		bb_judgement_decide(j, BB_PASSED, "exit status 0");
	bb_strbuf_free(&culprits);
}

bb_status bb_judge_step(const struct bb_evidence *e, struct bb_judgements *judgements,
			struct bb_error *error)
{
	/* The gate that every profile has for a step. */
	struct bb_judgement own =
		bb_judgement_of(e, NULL, bb_step_diagnoses(e->step) ? "diagnosis" : "correctness");
	struct bb_judgement risen = bb_judgement_of(e, NULL, "counters");
	struct bb_rises rises = {.n = 0};
	char others[48] = "";
	size_t broken = 0;

	if (e->unneeded)
		bb_judgement_decide(&own, BB_SKIPPED, "%s",
				    e->step->narrows ? "no group needs to be narrowed down"
						     : "no earlier step failed");
	for (size_t i = 0; i < e->nruns && own.verdict == BB_PASSED; i++)
		obstacle_judge(e, &e->runs[i], &own);
	const bool obstacle = own.verdict != BB_PASSED;
	if (!obstacle)
		correctness_judge(e, &own);
	bb_judgements_add(judgements, &own); /* a failure to do so frees the reason */
	for (size_t i = 0; i < e->step->ngates && !judgements->failed; i++) {
		struct bb_judgement j = bb_judgement_of(e, &e->step->gates[i], NULL);

		if (!obstacle) {
			gate_judge(e, &e->step->gates[i], judgements);
			continue;
		}
		bb_judgement_decide(&j, own.verdict, "%s", own.reason);
		bb_judgements_add(judgements, &j);
	}
	/* Healthy links never go down or make symbol errors, under any load. */
	for (size_t i = 0; i < e->nruns && !obstacle; i++)
		judgements->failed |= !bb_rises_add(&rises, &e->runs[i].records);
	while (broken < rises.n && rises.list[broken].class <= BB_COUNTER_SYMBOL_ERROR)
		broken++;
	if (broken > 0) {
		const struct bb_rise *const worst = &rises.list[0];

		/* "node17 mlx5_0:1 symbol_error" */
		snprintf(risen.subject, sizeof(risen.subject), "%s %s %s", worst->host,
			 worst->device, worst->counter);
		if (broken > 1)
			snprintf(others, sizeof(others), ", and %zu other counter%s", broken - 1,
				 bb_plural(broken - 1));
		bb_judgement_decide(&risen, BB_WARNED, "%s rose by %lld during the step (%s)%s",
				    risen.subject, (long long)worst->by,
				    bb_counter_class_name(worst->class), others);
		bb_judgements_add(judgements, &risen);
	}
	free(rises.list);
	return judgements->failed ? bb_no_memory(error, "verdicts") : BB_OK;
}
