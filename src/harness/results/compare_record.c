/*
 * compare_record.c - records of a comparison: the fastest algorithm at each size, and where the
 * lead changes.
 */
#include "harness/results/compare_inside.h"

#define BB_RECORD bb_winner_record
BB_RECORD_KIND(bb_record_winner, BB_WINNER_FIELDS, "winner",
	       "Several algorithms: the fastest at one size.");

#undef BB_RECORD
#define BB_RECORD bb_crossing_record
BB_RECORD_KIND(bb_record_crossing, BB_CROSSING_FIELDS, "crossing",
	       "Several algorithms: two of them, and where one overtakes the other.");

static bb_status deliver_winner(const struct bb_compare_table *t, size_t size,
				struct bb_sinks *sinks)
{
	const struct bb_compare_cell *first = t->first;
	const char *algorithm, *protocol;
	struct bb_winner_record r;
	double lead;
	const int who = bb_compare_winner(t, size, &lead);

	if (who < 0)
		return BB_OK;
	bb_record_init(&bb_record_winner, &r);
	r.collective = first->collective;
	r.dtype = first->dtype;
	r.op = first->op;
	r.root = first->root;
	r.size_bytes = t->sizes[size];
	r.in_place = t->placement == 1;
	r.algorithm_asked = t->all->names[who];
	r.algorithm = bb_compare_ran(t, size, who);
	r.time_us = bb_compare_best_time(t, size, who);
	r.times_second = lead;
	r.matrix = first->matrix;
	r.auto_behind_percent = bb_compare_auto_behind(t, size, &algorithm, &protocol);
	return bb_sinks_record(sinks, &bb_record_winner, &r);
}

static bb_status deliver_pair(const struct bb_compare_table *t, int a, int b,
			      struct bb_sinks *sinks)
{
	const struct bb_compare_cell *first = t->first;
	double places[BB_COMPARE_CROSSINGS];
	struct bb_crossing_record r;
	int ahead, n = bb_compare_crossings(t, a, b, places, &ahead);

	if (ahead < 0)
		return BB_OK;
	bb_record_init(&bb_record_crossing, &r);
	r.collective = first->collective;
	r.dtype = first->dtype;
	r.op = first->op;
	r.root = first->root;
	r.in_place = t->placement == 1;
	r.ahead = t->all->names[ahead];
	r.behind = t->all->names[ahead == a ? b : a];
	r.crossing_bytes = (struct bb_numbers){places, (size_t)n};
	return bb_sinks_record(sinks, &bb_record_crossing, &r);
}

static bb_status deliver_table(const struct bb_compare_table *t, void *sinks)
{
	bb_status status = BB_OK;

	if (t->norder < 2)
		return BB_OK;
	for (size_t size = 0; size < t->nsizes && status == BB_OK; size++)
		status = deliver_winner(t, size, sinks);
	for (int i = 0; i < t->norder; i++)
		for (int k = i + 1; k < t->norder && status == BB_OK; k++)
			if (bb_compare_pair(t, i, k))
				status = deliver_pair(t, t->order[i], t->order[k], sinks);
	return status;
}

bb_status bb_compare_records(const struct bb_compare *compare, struct bb_sinks *sinks)
{
	return bb_compare_each(compare, deliver_table, sinks);
}
