/*
 * settings.h - text of lines KEY = VALUE  # SOURCE, some below [SECTION].
 */
#pragma once

#include "core/status.h"

#include <stdbool.h>

#define BB_SETTING_LINE 512

/* A reader and its position. Set NAME (for errors), REST (NUL-terminated) and SECTION; the rest
   zero. */
struct bb_settings {
	const char *name;
	const char *rest;
	const char *section; /* only its lines; NULL: there are no sections */
	bool here;           /* in that section */
	/* The line that was read last, until the next is. */
	int line;
	char *key, *value, *source; /* source NULL: there is none */
	char text[BB_SETTING_LINE];
};

/* Read the next setting. *MORE = false at the end. BB_EUSAGE names a malformed line. */
BB_MUST bb_status bb_settings_next(struct bb_settings *s, bool *more, struct bb_error *error);

enum bb_setting_unit {
	BB_SETTING_RATE,   /* "20GB/s", in bytes per second */
	BB_SETTING_SHARE,  /* "92%" or "7/9", a fraction above 0, up to 1 */
	BB_SETTING_TIME,   /* "6.6us", in seconds */
	BB_SETTING_SIZE,   /* "64K", in bytes */
	BB_SETTING_COUNT,  /* "32", a whole number */
	BB_SETTING_NUMBER, /* "1.4" */
	BB_SETTING_YES     /* "yes" is 1, "no" is -1 */
};
/* False, with *VALUE undefined, if TEXT is not of UNIT. */
bool bb_setting_read(enum bb_setting_unit unit, const char *text, double *value);
