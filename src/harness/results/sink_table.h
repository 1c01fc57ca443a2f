/*
 * sink_table.h - records of a kind as a table of text: a head that says what ran, a row for each
 * record, comments, and how it ended. For benchmarks whose results are rows.
 */
#ifndef BB_HARNESS_RESULTS_SINK_TABLE_H
#define BB_HARNESS_RESULTS_SINK_TABLE_H

#include "harness/results/sink.h"

#define BB_CELL_TEXT 48

struct bb_column {
	const char *head, *unit; /* the two lines above it */
	int width;               /* negative: aligned to the left */
	/* Its field in the record, of which a number is printed times SCALE (0: 1) with DECIMALS as
	   far as they fit; absent ones as N/A. */
	const char *field;
	double scale;
	int decimals;
	/* Instead of a field: TEXT = what stands there. */
	void (*cell)(const void *record, char text[BB_CELL_TEXT]);
};

struct bb_table {
	const struct bb_record_kind *kind;
	const struct bb_column *columns; /* ends with head NULL */
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
