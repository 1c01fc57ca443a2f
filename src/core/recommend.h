/*
 * recommend.h - the best of several candidates, in a sentence.
 *
 *   # Best buckets, overlap on: 25M (ring), 77.82 ms; next: 1M (ring), 1.1% longer: its
 *   #   reductions take 1.87 ms longer
 *
 * None is called the best where noise or rounding may have put it first: then all such are tied,
 * and a second quantity may choose among them.
 */
#pragma once

#include "core/strbuf.h"

#define BB_CANDIDATE_TEXT 96

struct bb_candidate {
	char name[BB_CANDIDATE_TEXT];
	double seconds;   /* the best has the fewest; NAN: the list is in order of preference */
	double low, high; /* of a measured value: its interval */
	const void *own;  /* for the cause */
};

struct bb_recommendation {
	const char *subject; /* "buckets, overlap on" */
	const char *noise;   /* what the intervals are, as "95% confidence"; NULL: values are
				calculated, and equal if they differ by less than 0.05% */
	const char *unit;    /* after a time: "" or " per batch" */
	const struct bb_candidate *list;
	size_t n;
	/* Append why BEHIND is behind AHEAD, as "its bubble is 15.0 ms longer", or nothing.
	   NULL: nothing. */
	void (*cause)(const struct bb_candidate *ahead, const struct bb_candidate *behind,
		      struct bb_strbuf *out);
	/* "no more memory": LIST is in order of what they need, which decides among tied ones;
	   NULL: nothing does. */
	const char *preference;
};

/* Append the sentence as a line with '#', which may be long. Fewer than two candidates are no
   choice: nothing. */
void bb_recommend(const struct bb_recommendation *choice, struct bb_strbuf *out);
