/*
 * option_text.h - describes the values of an option row, for its errors, help and Markdown.
 */
#ifndef BB_CORE_OPTION_TEXT_H
#define BB_CORE_OPTION_TEXT_H

#include "core/option.h"

#define BB_OPTION_WORD 64 /* longest word of a list, with its end */

/* By enum bb_option_type: bytes of the target, and words. */
struct bb_option_kind {
	size_t bytes;
	const char *argument, *is, *expected, *examples;
};
extern const struct bb_option_kind bb_option_kinds[BB_NOPTION_TYPES];

static inline bool bb_option_is_list(const struct bb_option *row)
{
	return row->type >= BB_OPT_SIZES;
}

static inline bool bb_option_has_choices(const struct bb_option *row)
{
	return row->choices || row->choice;
}

/* The argument in the help, such as "SIZE"; of a FLAG "". */
const char *bb_option_argument(const struct bb_option *row);

/* Choice INDEX, which may be the number of choices: NULL. */
const char *bb_option_choice(const struct bb_option *row, int index);

/* Is ROW of table AT hidden by a row of the same name in an earlier one of TABLES? That is how a
   program changes the default of a common option. */
bool bb_option_hidden(const struct bb_option_table *tables, const struct bb_option_table *at,
		      const struct bb_option *row);
/* Why TABLE refuses its ROW; NULL: it does not. */
const char *bb_option_refused(const struct bb_option_table *table, const struct bb_option *row);

/* Whether the row has a limit below or above; see min and max in option.h. */
bool bb_option_has_min(const struct bb_option *row);
bool bb_option_has_max(const struct bb_option *row);

/* Append what a value of ROW must be, for the end of an error: "a size from 4 to 1T, such as 8,
   64K or 1.5G". */
void bb_option_add_expected(const struct bb_option *row, struct bb_strbuf *out);

#endif
