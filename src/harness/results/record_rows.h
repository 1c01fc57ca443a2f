/*
 * record_rows.h - how a table of a record's fields is written. BB_RECORD names the struct that the
 * rows to come are of.
 */
#ifndef BB_HARNESS_RESULTS_RECORD_ROWS_H
#define BB_HARNESS_RESULTS_RECORD_ROWS_H

#include "harness/results/record.h"

#include <stddef.h>

/* KIND is the rest of an enum bb_field_type; UNIT "" where there is none. */
#define ROW(kind, field, unit_, help_)                                                             \
	{                                                                                          \
		.name = #field, .type = BB_FIELD_##kind,                                           \
		.offset = offsetof(struct BB_RECORD, field), .unit = unit_, .help = help_          \
	}

#endif
