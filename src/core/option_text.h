/*
 * option_text.h - how the values of an option row are put in words; shared by its errors, help
 * and Markdown.
 */
#ifndef BB_CORE_OPTION_TEXT_H
#define BB_CORE_OPTION_TEXT_H

#include "core/option.h"

/* Whether the row has a limit below or above; see min and max in option.h. */
bool bb_option_has_min(const struct bb_option *row);
bool bb_option_has_max(const struct bb_option *row);

/* Append the valid values: "1 to 1000", "at least 4", "ring, tree"; nothing if any will do. */
void bb_option_add_range(const struct bb_option *row, struct bb_strbuf *out);

#endif
