/*
 * option_rows.h - how a table of options is written. BB_TARGET, the struct that its rows are read
 * into, is defined before this file is included.
 */
#ifndef BB_HARNESS_RUN_OPTION_ROWS_H
#define BB_HARNESS_RUN_OPTION_ROWS_H

#include "core/option.h"

#include <stddef.h>

#ifndef BB_TARGET
#define BB_TARGET struct bb_option /* alone it compiles too */
#endif

#define MAX_SIZE (INT64_C(1) << 60)
#define MAX_COUNT INT64_C(1000000000)
#define HOUR_NS INT64_C(3600000000000)

#define ROW(kind, word, letter, field, init, arg, text)                                            \
	.name = word, .key = letter, .type = kind, .offset = offsetof(BB_TARGET, field),           \
	.initial = init, .argument = arg, .help = text
#define GIVEN(field) .given = offsetof(BB_TARGET, field)

#define INT(word, letter, field, init, arg, low, high, text)                                       \
	ROW(BB_OPT_INT, word, letter, field, init, arg, text), .min = low, .max = high
#define SIZE(word, letter, field, init, text)                                                      \
	ROW(BB_OPT_SIZE, word, letter, field, init, "SIZE", text), .min = 1, .max = MAX_SIZE
#define DURATION(word, letter, field, init, low, text)                                             \
	ROW(BB_OPT_DURATION, word, letter, field, init, "TIME", text), .min = low,                 \
								       .max = 24 * 365 * HOUR_NS
#define STRING(word, letter, field, init, arg, text)                                               \
	ROW(BB_OPT_STRING, word, letter, field, init, arg, text)
#define FLAG(word, letter, field, text) ROW(BB_OPT_FLAG, word, letter, field, NULL, NULL, text)
#define CHOICE(word, field, init, arg, names, text)                                                \
	ROW(BB_OPT_CHOICE, word, 0, field, init, arg, text), .choices = names

#endif
