/*
 * record_fields.c - the kinds of records that every benchmark has.
 */
#include "harness/results/record.h"

#define BB_RECORD bb_run_record
BB_RECORD_KIND(bb_record_run, BB_RUN_FIELDS, "run",
	       "Once, first: what is needed to repeat the run.");

#undef BB_RECORD
#define BB_RECORD bb_result_record
BB_RECORD_KIND(bb_record_result, BB_RESULT_FIELDS, "result",
	       "One size in one placement under one algorithm.");

#undef BB_RECORD
#define BB_RECORD bb_arrival_record
BB_RECORD_KIND(bb_record_arrival, BB_ARRIVAL_FIELDS, "arrival",
	       "With -I: when one rank of rank 0's group entered the iterations of a result.");

#undef BB_RECORD
#define BB_RECORD bb_skip_record
BB_RECORD_KIND(bb_record_skip, BB_SKIP_FIELDS, "skip",
	       "A requested case that was not run, with the reason.");

#undef BB_RECORD
#define BB_RECORD bb_end_record
BB_RECORD_KIND(bb_record_end, BB_END_FIELDS, "end", "Once, last: the verdict.");
