/*
 * result.c - the kinds of records of a collective.
 */
#include "collectives/result.h"

#include <string.h>

#define BB_RECORD bb_result_record
BB_RECORD_KIND(bb_record_result, BB_RESULT_FIELDS, "result",
	       "One size in one placement under one algorithm.");

#undef BB_RECORD
#define BB_RECORD bb_arrival_record
BB_RECORD_KIND(bb_record_arrival, BB_ARRIVAL_FIELDS, "arrival",
	       "With -I: when one rank of rank 0's group entered the iterations of a result.");

bool bb_result_is_row_of(const struct bb_result_record *a, const struct bb_result_record *b)
{
	return a->size_bytes == b->size_bytes && a->root == b->root && a->cycle == b->cycle &&
	       a->matrix == b->matrix && strcmp(a->dtype, b->dtype) == 0 &&
	       strcmp(a->op, b->op) == 0 && strcmp(a->algorithm_asked, b->algorithm_asked) == 0;
}
