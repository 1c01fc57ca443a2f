/*
 * table.h - a table of text: columns with a head and a unit, and rows of cells.
 *
 *   struct bb_text_table t = {.limit = bb_table_limit(stdout)};
 *   bb_table_column(&t, "size", "(B)", 8);
 *   bb_table_key(&t);
 *   bb_table_column(&t, "time", "(us)", 0);
 *   bb_table_cell(&t, "64K");
 *   bb_table_cellf(&t, "%.2f", us);
 *   bb_table_print(&t, out);
 *   bb_table_free(&t);
 *
 * A table that is wider than its limit gets columns as narrow as their texts, and loses the columns
 * that are empty in all rows, then those with the same cell in all rows until it fits; lines above
 * it name them.
 * If it still is too wide, it is printed as several, one below the other: the columns that name a
 * row stand in each of them. The cells of a last column that is aligned to the left are prose,
 * which wraps at words unless the mark is "#".
 */
#pragma once

#include "core/strbuf.h"

#include <stdio.h>

#define BB_TABLE_LIMIT 80

struct bb_table_column {
	size_t head, unit; /* in the text */
	int width;         /* at least */
	bool left;         /* cells are aligned to the left, else to the right */
	bool dropped;      /* from the rows that are being printed */
};

/* A column as it is declared: see bb_table_column. */
struct bb_table_head {
	const char *head, *unit;
	int width;
};

struct bb_text_table {    /* zero-initialise, but for the first three members */
	int limit;        /* characters of a line; 0: BB_TABLE_LIMIT */
	const char *mark; /* what the lines of rows begin with; NULL: a space. Heads: "#" */
	size_t merges;    /* column, from 1, that alone may differ between consecutive rows that
			     share one: "1-3"; 0: none do */
	struct bb_table_column *columns;
	size_t ncolumns, column_room;
	size_t nkeys;  /* leading columns that name a row */
	size_t *cells; /* in the text, row by row */
	size_t ncells, cell_room;
	size_t rows_at;        /* in the text, where the cells begin */
	struct bb_strbuf text; /* of heads, units and cells, each with its NUL */
	bool headed;           /* in one line, above the rows that are still to come */
};

/* MOST, or the width of the terminal that FILE is if that is narrower. */
int bb_terminal_limit(FILE *file, int most);
/* The same of BB_TABLE_LIMIT. */
int bb_table_limit(FILE *file);
/* The same for '#' lines, which fold on terminals alone: programs read whole lines. INT_MAX: FILE
   is no terminal. */
int bb_fold_limit(FILE *file);

/*
 * Add a column, before the first cell. It is as wide as its widest text, and WIDTH at least where
 * there is room; a negative WIDTH aligns to the left. UNIT may be "". Texts are copied. Missing
 * memory is remembered until bb_table_print, whose OUT then has failed.
 */
void bb_table_column(struct bb_text_table *table, const char *head, const char *unit, int width);
/* Add a column for each of HEADS, which end with a head NULL; the first NKEYS name a row. */
void bb_table_columns(struct bb_text_table *table, const struct bb_table_head *heads, size_t nkeys);
/* The columns so far name a row. */
void bb_table_key(struct bb_text_table *table);

/* Add a cell, from left to right and row by row. TEXT NULL: "-", for what is not known. */
void bb_table_cell(struct bb_text_table *table, const char *text);
/* Add the cells that tabs separate in the formatted text. */
void bb_table_cellf(struct bb_text_table *table, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Is a line of all columns longer than the limit? Rows of such a table, and of one that merges,
   are to be printed together. */
bool bb_table_is_wide(const struct bb_text_table *table);

/* Append the rows, which are then forgotten, below the heads; rows that follow others of a table
   that was printed in one part, with all columns, need no further heads. */
void bb_table_print(struct bb_text_table *table, struct bb_strbuf *out);

/* Columns and rows go; limit, mark and merges stay. */
void bb_table_clear(struct bb_text_table *table);
void bb_table_free(struct bb_text_table *table); /* of a zeroed table: nothing */
