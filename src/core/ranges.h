/*
 * ranges.h - ascending numbers as text, none left out: "0 to 3, 7, 9, 10".
 */
#pragma once

#include "core/strbuf.h"

struct bb_ranges { /* zero-initialise, but for OUT */
	struct bb_strbuf *out;
	int n; /* numbers so far */
	int first, last;
	bool printed; /* a range before this one */
};

/* NUMBER is above the ones before. */
void bb_ranges_add(struct bb_ranges *ranges, int number);
void bb_ranges_end(struct bb_ranges *ranges);
