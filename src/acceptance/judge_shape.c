/*
 * judge_shape.c - the shape of a curve over sizes: it must not dip, and two must cross where they
 * should.
 */
#include "acceptance/judge.h"

#include "acceptance/dip.h"
#include "core/array.h"
#include "core/units.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One measurement of one run. */
struct point {
	char series[BB_SUBJECT_TEXT]; /* its subject without the size */
	const char *algorithm;
	size_t run;
	double size, busbw, time;
};

struct points {
	struct point *list;
	size_t n, room;
};

static bool collect(const struct bb_evidence *e, const struct bb_gate *gate, struct points *p)
{
	for (size_t run = 0; run < e->nruns; run++) {
		for (size_t i = 0; i < e->runs[run].records.n; i++) {
			const struct bb_read_record *const r = &e->runs[run].records.list[i];
			struct point at = {.run = run}, *new;

			at.size = bb_record_number(r->json, "size_bytes");
			at.busbw = bb_record_number(r->json, "busbw_GBps");
			at.time = bb_record_number(r->json, "time_us");
			at.algorithm = bb_record_string(r->json, "algorithm_asked");
			if (!bb_where_selects(gate->where, r) || !(at.size > 0) ||
			    !(at.busbw > 0) || !(at.time > 0) || !at.algorithm)
				continue;
			bb_record_subject(at.series, r, false);
			new = BB_ARRAY_ADD(p->list, p->n, p->room);
			if (!new)
				return false;
			*new = at;
		}
	}
	return true;
}

/* By series, size, run. */
static int compare(const void *a, const void *b)
{
	const struct point *const p = a, *const q = b;
	const int series = strcmp(p->series, q->series);

	if (series != 0)
		return series;
	if (p->size != q->size)
		return p->size < q->size ? -1 : 1;
	return (p->run > q->run) - (p->run < q->run);
}

static bb_status unjudged(const struct bb_evidence *e, const struct bb_gate *gate,
			  struct bb_judgements *judgements, const char *why, struct bb_error *error)
{
	struct bb_judgement *const j = bb_judgement_add(judgements, e, gate);

	if (!j)
		return bb_no_memory(error, "verdicts");
	j->verdict = BB_UNJUDGED;
	snprintf(j->subject, sizeof(j->subject), "%s", gate->shape);
	snprintf(j->reason, sizeof(j->reason), "%s", why);
	return BB_OK;
}

/* ---- no dip --------------------------------------------------------------------------------- */

/* The deepest dip of a series. */
static bool deepest(const struct point *p, size_t n, size_t nruns, struct bb_dip *dip)
{
	struct bb_curve_point *const curve = calloc(n, sizeof(*curve));
	bool good = curve != NULL;

	for (size_t i = 0; good && i < n; i++)
		curve[i] = (struct bb_curve_point){p[i].size, p[i].busbw, p[i].run};
	good = good && bb_dip_find(curve, n, nruns, dip);
	free(curve);
	return good;
}

static bb_status judge_dip(const struct bb_evidence *e, const struct bb_gate *gate,
			   const struct point *p, size_t n, struct bb_judgements *judgements,
			   struct bb_error *error)
{
	struct bb_judgement *const j = bb_judgement_add(judgements, e, gate);
	struct bb_confidence worst;
	char text[BB_UNIT_TEXT], bound[32] = "";
	struct bb_dip dip;

	if (!j || !deepest(p, n, e->nruns, &dip))
		return bb_no_memory(error, "verdicts");
	snprintf(j->subject, sizeof(j->subject), "%s", p->series);
	worst = dip.ratio;
	if (worst.n == 0) {
		j->verdict = BB_UNJUDGED;
		snprintf(j->reason, sizeof(j->reason), "one size alone has no shape");
		return BB_OK;
	}
	j->value = worst.mean;
	if (worst.n > 1)
		j->low = fmax(worst.low, 0);
	j->expected = 1;
	j->limit = 1 - gate->lower;
	if (worst.n > 1)
		snprintf(bound, sizeof(bound), ", bound %.3g%%", 100 * fmax(worst.low, 0));
	j->verdict = worst.low >= j->limit    ? BB_PASSED
		     : worst.mean >= j->limit ? BB_UNJUDGED
					      : BB_FAILED;
	snprintf(j->reason, sizeof(j->reason),
		 "%sat %s busbw is %.3g%% of the best at a smaller size%s; limit %.3g%%%s",
		 j->verdict == BB_UNJUDGED ? "not shown, the runs spread too much: " : "",
		 bb_format_size(text, (uint64_t)dip.size), 100 * worst.mean, bound, 100 * j->limit,
		 worst.n == 1 ? "; 1 run: no interval" : "");
	return BB_OK;
}

/* ---- crossover ------------------------------------------------------------------------------ */

/* The time of ALGORITHM at SIZE in RUN, NAN: not measured. */
static double time_of(const struct points *p, const char *algorithm, size_t run, double size)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->list[i].run == run && p->list[i].size == size &&
		    strcmp(p->list[i].algorithm, algorithm) == 0)
			return p->list[i].time;
	return NAN;
}

/* log2 of the size from which on SECOND is faster than FIRST in RUN: between the last size at which
   it is not and the next one, where the logarithm of the ratio of times is 0. NAN: they do not. */
static double crossing(const struct points *p, const struct bb_gate *gate, size_t run, bool *behind)
{
	double size = 0, ratio = 0, found = NAN;

	*behind = false; /* whether FIRST is faster at the largest size */
	for (;;) {
		double next = INFINITY, a, b, r;

		for (size_t i = 0; i < p->n; i++)
			if (p->list[i].run == run && p->list[i].size > size &&
			    p->list[i].size < next &&
			    !isnan(time_of(p, gate->first, run, p->list[i].size)) &&
			    !isnan(time_of(p, gate->second, run, p->list[i].size)))
				next = p->list[i].size;
		if (isinf(next))
			return found;
		a = time_of(p, gate->first, run, next);
		b = time_of(p, gate->second, run, next);
		r = log(a / b); /* above 0: second is faster */
		if (size > 0 && ratio <= 0 && r > 0)
			found = log2(size) + (log2(next) - log2(size)) * ratio / (ratio - r);
		else if (r <= 0)
			found = NAN;
		*behind = r <= 0;
		size = next;
		ratio = r;
	}
}

static void tell_crossing(const struct bb_gate *gate, const struct bb_confidence *c,
			  struct bb_judgement *j)
{
	char at[BB_UNIT_TEXT], low[BB_UNIT_TEXT], high[BB_UNIT_TEXT];
	const bool inside = c->low >= log2((double)gate->least_bytes) &&
			    c->high <= log2((double)gate->most_bytes);

	j->verdict = inside ? BB_PASSED : BB_FAILED;
	j->value = exp2(c->mean);
	snprintf(j->reason, sizeof(j->reason),
		 "%s is faster than %s from %s on (%zu runs: %s to %s); window %s", gate->second,
		 gate->first, bb_format_size(at, (uint64_t)exp2(c->mean)), c->n,
		 bb_format_size(low, (uint64_t)exp2(c->low)),
		 bb_format_size(high, (uint64_t)exp2(fmin(c->high, 60))), gate->window);
}

static bb_status judge_crossover(const struct bb_evidence *e, const struct bb_gate *gate,
				 const struct points *p, struct bb_judgements *judgements,
				 struct bb_error *error)
{
	double *const at = calloc(e->nruns, sizeof(*at));
	struct bb_judgement *const j = bb_judgement_add(judgements, e, gate);
	size_t n = 0;
	bool behind = false;

	if (!at || !j) {
		free(at);
		return bb_no_memory(error, "verdicts");
	}
	snprintf(j->subject, sizeof(j->subject), "crossover of %s and %s", gate->first,
		 gate->second);
	for (size_t run = 0; run < e->nruns; run++) {
		at[n] = crossing(p, gate, run, &behind);
		n += !isnan(at[n]);
	}
	if (n == e->nruns) {
		const struct bb_confidence c = bb_confidence_of(at, n);

		tell_crossing(gate, &c, j);
	} else {
		j->verdict = BB_FAILED;
		snprintf(j->reason, sizeof(j->reason),
			 "they do not cross in %zu of %zu runs: %s is faster %s; window %s",
			 e->nruns - n, e->nruns, behind ? gate->first : gate->second,
			 behind ? "at the largest size" : "at every size", gate->window);
	}
	free(at);
	return BB_OK;
}

/* Both algorithms of a crossover must have been measured in one place. */
static bool has(const struct points *p, const char *algorithm)
{
	for (size_t i = 0; i < p->n; i++)
		if (strcmp(p->list[i].algorithm, algorithm) == 0)
			return true;
	return false;
}

bb_status bb_judge_shape(const struct bb_evidence *e, const struct bb_gate *gate,
			 struct bb_judgements *judgements, struct bb_error *error)
{
	struct points p = {.n = 0};
	bb_status st = BB_OK;

	if (!collect(e, gate, &p)) {
		st = bb_no_memory(error, "verdicts");
	} else if (p.n == 0) {
		st = unjudged(e, gate, judgements, "no record is selected by where:", error);
	} else if (gate->kind == BB_GATE_CROSSOVER) {
		st = has(&p, gate->first) && has(&p, gate->second)
			     ? judge_crossover(e, gate, &p, judgements, error)
			     : unjudged(e, gate, judgements,
					"one of the two algorithms was not measured", error);
	} else {
		qsort(p.list, p.n, sizeof(*p.list), compare);
		for (size_t i = 0, next; st == BB_OK && i < p.n; i = next) {
			for (next = i + 1;
			     next < p.n && strcmp(p.list[next].series, p.list[i].series) == 0;)
				next++;
			st = judge_dip(e, gate, &p.list[i], next - i, judgements, error);
		}
	}
	free(p.list);
	return st;
}
