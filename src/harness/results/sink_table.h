/*
 * sink_table.h - records of a kind as a table of text: a head that says what ran, a row for each
 * record, comments, and how it ended. For benchmarks whose results are rows.
 */
#ifndef BB_HARNESS_RESULTS_SINK_TABLE_H
#define BB_HARNESS_RESULTS_SINK_TABLE_H

#include "harness/results/sink.h"

/* Its columns are those of the kind's fields that have a head. */
struct bb_table {
	const struct bb_record_kind *kind;
	/* Append '#' lines that stand once above the table, before its first row, which RECORD is.
	   NULL: none. */
	void (*about)(const void *record, struct bb_strbuf *out);
};

/* What a bb_sink_open of the benchmark calls; TABLE is constant. */
BB_MUST bb_status bb_sink_table_open(struct bb_sink **sink, FILE *file, const char *path,
				     const struct bb_table *table);
/* The same with a table for each of several kinds; TABLES, constant too, ends with NULL. */
BB_MUST bb_status bb_sink_tables_open(struct bb_sink **sink, FILE *file, const char *path,
				      const struct bb_table *const *tables);

#endif
