/*
 * judge_shape.c - gates on the shape of curves over sizes: dips and crossovers.
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
	/* Its subject without the size; of a crossover, without the algorithm too. */
	char series[BB_SUBJECT_TEXT];
	const char *algorithm;
	struct bb_curve_point at;
	double time;
};

struct points {
	struct point *list;
	size_t n, room;
};

static bool points_collect(const struct bb_evidence *e, const struct bb_gate *gate,
			   struct points *p)
{
	struct bb_evidence_cursor cursor = {0};
	const struct bb_read_record *r;

	while ((r = bb_evidence_next(e, &cursor))) {
		struct point point = {.algorithm = bb_record_string(r->json, "algorithm_asked"),
				      .at = {bb_record_number(r->json, "size_bytes"),
					     bb_record_number(r->json, "busbw_GBps"), cursor.run},
				      .time = bb_record_number(r->json, "time_us")};
		struct point *new;

		if (!bb_where_selects(gate->where, r) || !(point.at.size > 0) ||
		    !(point.at.busbw > 0) || !(point.time > 0) || !point.algorithm)
			continue;
		bb_record_subject(point.series, r,
				  gate->kind == BB_GATE_NO_DIP ? BB_SUBJECT_SIZES
							       : BB_SUBJECT_ALGORITHMS);
		new = BB_ARRAY_ADD(p->list, p->n, p->room);
		if (!new)
			return false;
		*new = point;
	}
	return true;
}

/* By series, size, run. */
static int compare_points(const void *a, const void *b)
{
	const struct point *const p = a, *const q = b;
	const int series = strcmp(p->series, q->series);

	if (series != 0)
		return series;
	if (p->at.size != q->at.size)
		return p->at.size < q->at.size ? -1 : 1;
	return (p->at.run > q->at.run) - (p->at.run < q->at.run);
}

/* ---- no dip --------------------------------------------------------------------------------- */

static void dip_decide(const struct bb_dip *dip, double limit, struct bb_judgement *j)
{
	const struct bb_confidence *const worst = &dip->ratio;
	const double low = fmax(worst->low, 0);
	char size[BB_UNIT_TEXT], bound[32] = "";

	j->value = worst->mean;
	j->expected = 1;
	j->limit = limit;
	if (worst->n > 1) {
		j->low = low;
		snprintf(bound, sizeof(bound), ", bound %.3g%%", 100 * low);
	}
	bb_judgement_decide(
		j,
		worst->low >= limit    ? BB_PASSED
		: worst->mean >= limit ? BB_UNJUDGED
				       : BB_FAILED,
		"%sat %s busbw is %.3g%% of the best at a smaller size%s; limit %.3g%%%s",
		worst->low < limit && worst->mean >= limit ? "not shown, the runs spread too much: "
							   : "",
		bb_format_size(size, (uint64_t)dip->size), 100 * worst->mean, bound, 100 * limit,
		worst->n == 1 ? "; 1 run: no interval" : "");
}

/* The N points of a series. */
static void dip_judge(const struct bb_evidence *e, const struct bb_gate *gate, struct point *p,
		      size_t n, struct bb_judgements *judgements)
{
	struct bb_judgement j = bb_judgement_of(e, gate, p->series);
	struct bb_curve_point *const curve = calloc(n, sizeof(*curve));
	struct bb_dip dip;

	for (size_t i = 0; curve && i < n; i++)
		curve[i] = p[i].at;
	if (!curve || !bb_dip_find(curve, n, e->nruns, &dip)) {
		judgements->failed = true;
	} else {
		if (dip.ratio.n > 0)
			dip_decide(&dip, 1 - gate->lower, &j);
		else
			bb_judgement_decide(&j, BB_UNJUDGED, "one size alone has no shape");
		bb_judgements_add(judgements, &j);
	}
	free(curve);
}

/* ---- crossover ------------------------------------------------------------------------------ */

/* The time of ALGORITHM at SIZE in RUN; NAN: not measured. */
static double time_of(const struct points *p, const char *algorithm, size_t run, double size)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->list[i].at.run == run && p->list[i].at.size == size &&
		    strcmp(p->list[i].algorithm, algorithm) == 0)
			return p->list[i].time;
	return NAN;
}

/* By how much SECOND is faster than FIRST. */
static double advantage_of(const struct points *p, const struct bb_gate *gate, size_t run,
			   double size)
{
	return time_of(p, gate->first, run, size) - time_of(p, gate->second, run, size);
}

/*
 * log2 of the size from which on SECOND is faster than FIRST in RUN: between the last size at which
 * it is not and the next one, where straight lines cross (bb_compare_crossings). NAN: they do not
 * cross; *BEHIND: FIRST is faster at the largest size.
 */
static double crossing_find(const struct points *p, const struct bb_gate *gate, size_t run,
			    bool *behind)
{
	double size = 0, before = 0, found = NAN;

	*behind = false;
	for (;;) {
		double next = INFINITY, now;

		for (size_t i = 0; i < p->n; i++)
			if (p->list[i].at.run == run && p->list[i].at.size > size &&
			    p->list[i].at.size < next &&
			    !isnan(advantage_of(p, gate, run, p->list[i].at.size)))
				next = p->list[i].at.size;
		if (isinf(next))
			return found;
		now = advantage_of(p, gate, run, next);
		if (size > 0 && before <= 0 && now > 0)
			found = log2(size + (next - size) * before / (before - now));
		else if (now <= 0)
			found = NAN;
		*behind = now <= 0;
		size = next;
		before = now;
	}
}

static void crossing_decide(const struct bb_gate *gate, const struct bb_confidence *c,
			    struct bb_judgement *j)
{
	char at[BB_UNIT_TEXT], low[BB_UNIT_TEXT], high[BB_UNIT_TEXT];
	const bool inside = c->low >= log2((double)gate->least_bytes) &&
			    c->high <= log2((double)gate->most_bytes);

	j->value = exp2(c->mean);
	bb_judgement_decide(j, inside ? BB_PASSED : BB_FAILED,
			    "%s is faster than %s from %s on (%zu run%s: %s to %s); window %s",
			    gate->second, gate->first, bb_format_size(at, (uint64_t)exp2(c->mean)),
			    c->n, bb_plural((long long)c->n),
			    bb_format_size(low, (uint64_t)exp2(c->low)),
			    bb_format_size(high, (uint64_t)exp2(fmin(c->high, 60))), gate->window);
}

static bool has_algorithm(const struct points *p, const char *algorithm)
{
	for (size_t i = 0; i < p->n; i++)
		if (strcmp(p->list[i].algorithm, algorithm) == 0)
			return true;
	return false;
}

/* The points of a series; AT has room for a number per run. */
static void crossing_judge(const struct bb_evidence *e, const struct bb_gate *gate,
			   const struct points *p, double *at, struct bb_judgement *j)
{
	size_t n = 0;
	bool behind = false;

	if (!has_algorithm(p, gate->first) || !has_algorithm(p, gate->second)) {
		bb_judgement_decide(j, BB_UNJUDGED, "one of the two algorithms was not measured");
		return;
	}
	for (size_t run = 0; run < e->nruns; run++) {
		at[n] = crossing_find(p, gate, run, &behind);
		n += !isnan(at[n]);
	}
	if (n == e->nruns) {
		const struct bb_confidence c = bb_confidence_of(at, n);

		crossing_decide(gate, &c, j);
	} else {
		bb_judgement_decide(
			j, BB_FAILED,
			"they do not cross in %zu of %zu run%s: %s is faster %s; window %s",
			e->nruns - n, e->nruns, bb_plural((long long)e->nruns),
			behind ? gate->first : gate->second,
			behind ? "at the largest size" : "at every size", gate->window);
	}
}

/* The N points of a series. */
static void crossover_judge(const struct bb_evidence *e, const struct bb_gate *gate,
			    struct point *list, size_t n, struct bb_judgements *judgements)
{
	const struct points points = {.list = list, .n = n};
	struct bb_judgement j = bb_judgement_of(e, gate, "");
	double *const at = calloc(e->nruns + 1, sizeof(*at));

	snprintf(j.subject, sizeof(j.subject), "crossover of %s and %s: %.70s", gate->first,
		 gate->second, list->series);
	if (at) {
		crossing_judge(e, gate, &points, at, &j);
		bb_judgements_add(judgements, &j);
	} else {
		judgements->failed = true;
	}
	free(at);
}

/* ---- both ----------------------------------------------------------------------------------- */

void bb_judge_shape(const struct bb_evidence *e, const struct bb_gate *gate,
		    struct bb_judgements *judgements)
{
	struct bb_judgement none = bb_judgement_of(e, gate, gate->shape);
	struct points p = {.n = 0};

	judgements->failed |= !points_collect(e, gate, &p);
	if (p.n == 0) {
		bb_judgement_decide(&none, BB_UNJUDGED, "no record is selected by where:");
		bb_judgements_add(judgements, &none);
	} else {
		qsort(p.list, p.n, sizeof(*p.list), compare_points);
	}
	for (size_t i = 0, next; i < p.n; i = next) {
		for (next = i + 1;
		     next < p.n && strcmp(p.list[next].series, p.list[i].series) == 0;)
			next++;
		(gate->kind == BB_GATE_NO_DIP ? dip_judge : crossover_judge)(e, gate, &p.list[i],
									     next - i, judgements);
	}
	free(p.list);
}
