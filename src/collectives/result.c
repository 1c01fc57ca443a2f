/*
 * result.c - the kinds of records of a collective, and the results that are kept.
 */
#include "collectives/result.h"

#include "core/array.h"

#include <stdlib.h>
#include <string.h>

#define BB_RECORD bb_result_record
BB_RECORD_KIND(bb_record_result, BB_RESULT_FIELDS, "result",
	       "One size in one placement under one algorithm.");

#undef BB_RECORD
#define BB_RECORD bb_arrival_record
BB_RECORD_KIND(bb_record_arrival, BB_ARRIVAL_FIELDS, "arrival",
	       "With -I: when one rank of rank 0's group entered the iterations of a result.");

bool bb_result_is_like(const struct bb_result_record *a, const struct bb_result_record *b)
{
	return a->root == b->root && a->matrix == b->matrix && strcmp(a->dtype, b->dtype) == 0 &&
	       strcmp(a->op, b->op) == 0;
}

static bool is_same_row(const struct bb_result_record *a, const struct bb_result_record *b)
{
	return a->size_bytes == b->size_bytes && bb_result_is_like(a, b) &&
	       strcmp(a->algorithm_asked, b->algorithm_asked) == 0;
}

bool bb_result_is_row_of(const struct bb_result_record *a, const struct bb_result_record *b)
{
	return a->cycle == b->cycle && is_same_row(a, b);
}

/* Frees what a copy owns. */
static void drop_copy(const struct bb_result_record *copy)
{
	free((char *)copy->library_algorithm);
	free((char *)copy->predicted_from);
	free((char *)copy->other_versions);
	free((double *)copy->group_busbw_GBps.values);
}

/* Copies what *TEXT points to, unless that is NULL. False without memory. */
static bool own_text(const char **text)
{
	return !*text || (*text = strdup(*text));
}

bb_status bb_results_keep(struct bb_results *results, const struct bb_result_record *result)
{
	struct bb_result_record copy = *result, *place = NULL;
	const struct bb_numbers none = {NULL, 0}, *groups = &result->group_busbw_GBps;
	double *busbw = groups->n ? malloc(groups->n * sizeof(*busbw)) : NULL;

	copy.samples_us = copy.rank_mean_us = copy.groups = copy.group_time_us = none;
	bool owned = own_text(&copy.library_algorithm);
	owned = own_text(&copy.predicted_from) && owned;
	owned = own_text(&copy.other_versions) && owned;
	owned = (busbw || groups->n == 0) && owned;
	if (busbw)
		memcpy(busbw, groups->values, groups->n * sizeof(*busbw));
	copy.group_busbw_GBps.values = busbw;
	for (size_t i = 0; result->cycle > 1 && i < results->n && !place; i++)
		if (results->list[i].in_place == result->in_place &&
		    is_same_row(&results->list[i], result))
			place = &results->list[i];
	if (place && owned)
		drop_copy(place);
	else if (!place && owned)
		place = BB_ARRAY_ADD(results->list, results->n, results->room);
	if (!place || !owned) {
		drop_copy(&copy);
		return BB_EINTERNAL;
	}
	*place = copy;
	results->cycles = result->cycle > results->cycles ? result->cycle : results->cycles;
	return BB_OK;
}

void bb_results_free(struct bb_results *results)
{
	for (size_t i = 0; i < results->n; i++)
		drop_copy(&results->list[i]);
	free(results->list);
	*results = (struct bb_results){.n = 0};
}
