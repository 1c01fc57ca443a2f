/*
 * option.h - one row describes an option: from it come parsing, --help, the option reference in
 * docs/ and the configuration that records carry. Defaults go through the same parser as the
 * user's words, so the help cannot lie.
 */
#ifndef BB_CORE_OPTION_H
#define BB_CORE_OPTION_H

#include "core/status.h"
#include "core/strbuf.h"

#include <stdint.h>

enum bb_option_type {
	BB_OPT_FLAG,     /* bool, no argument; default false whatever initial says */
	BB_OPT_INT,      /* int64_t within min … max */
	BB_OPT_SIZE,     /* uint64_t bytes within min … max */
	BB_OPT_COUNT,    /* uint64_t of something, decimal, within min … max */
	BB_OPT_DURATION, /* uint64_t nanoseconds within min … max */
	BB_OPT_PERCENT,  /* double fraction, 0 < f <= 1 */
	BB_OPT_CHOICE,   /* int, index into choices */
	BB_OPT_STRING    /* const char *, borrowed from argv or the row's default */
};

struct bb_option {
	const char *name; /* long name without dashes */
	char key;         /* short name, 0 if none */
	enum bb_option_type type;
	size_t offset;        /* of the target in the caller's struct */
	size_t given;         /* offset of a bool that is set when the user gave it; 0: none */
	const char *initial;  /* default, as the user would write it; NULL: zero */
	const char *argument; /* "SIZE" */
	const char *help;     /* one line */
	/* INT, SIZE, COUNT, DURATION. Both 0: no limits; max below min: no upper limit. */
	int64_t min, max;
	const char *const *choices; /* CHOICE: ends with NULL */
	const char *once;    /* needs given: why a second one is refused; NULL: the last counts */
	const char *section; /* heading in the help, set on the first row of a section */
};

/* Rows (ending with name NULL) and what they are read into. */
struct bb_option_table {
	const struct bb_option *rows;
	void *target; /* NULL: only to be shown */
};

/*
 * Is ROW of table AT, whose name an earlier table of TABLES has too, hidden by it? So a program
 * gives an option that all have another default.
 */
bool bb_option_hidden(const struct bb_option_table *tables, const struct bb_option_table *at,
		      const struct bb_option *row);

/*
 * Parse argv over TABLES (ends with rows NULL) through getopt_long. Every target is set to its
 * default first, but for those of hidden rows, which are left alone. BB_EUSAGE with ERROR naming
 * the offending word, what would be right, and for an unknown option or choice the nearest valid
 * one. Operands (words without a dash) are refused. An option given twice: the last one counts, as
 * in nccl-tests. Two rows may share a target (an alias); the one without a default keeps that of
 * the other. Not reentrant: getopt is not.
 */
BB_MUST bb_status bb_options_parse(const struct bb_option_table *tables, int argc, char **argv,
				   struct bb_error *error);

/* The text of --help for PROGRAM, and of one table the same as Markdown, section by section. */
void bb_options_help(const struct bb_option_table *tables, const char *program, const char *brief,
		     struct bb_strbuf *out);
void bb_options_markdown(const struct bb_option *rows, struct bb_strbuf *out);

/* The word of WORDS (ends with NULL) nearest to WORD by edit distance, or NULL if none is near. */
const char *bb_nearest(const char *word, const char *const *words);

#endif
