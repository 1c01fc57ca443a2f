/*
 * normal.h - is my number normal? Claims beside published measurements and the speed of light.
 */
#ifndef BB_ACCEPTANCE_NORMAL_H
#define BB_ACCEPTANCE_NORMAL_H

#include "acceptance/claims.h"
#include "acceptance/reference.h"
#include "core/strbuf.h"

/* From the best to the worst. */
enum bb_normality {
	BB_NORMAL,
	BB_HIGH,
	BB_LATENCY, /* bound by it: too small to show a bandwidth */
	BB_UNKNOWN,
	BB_IMPOSSIBLE,
	BB_UNEVEN, /* a dip, or one placement slower than the other */
	BB_LOW,
	BB_WRONG
};

/* What the user says where the file does not, or says otherwise. */
struct bb_circumstances {
	const char *gpu, *collective; /* NULL: as the file says */
	int64_t nodes, ranks;         /* 0: as the file says */
};

/* Low is below so much of the least of the published runs, high above so much of the most. */
#define BB_NORMAL_LOW 0.9
#define BB_NORMAL_HIGH 1.1
/* A curve falls to less than so much of its best, or one placement is less than so much of the
   other; both where a size reaches so much of the best row. */
#define BB_NORMAL_DIP 0.9
#define BB_NORMAL_UNEVEN 0.8
#define BB_NORMAL_PLATEAU 0.25
/* Latency bounds a table whose time grows, over the last factor of 8 in size, by less than the
   square root of the size; or whose only size is no larger. */
#define BB_LATENCY_SPAN 8
#define BB_LATENCY_GROWTH 0.5
#define BB_LATENCY_BYTES 32768
/* Without published runs, of the bound. */
#define BB_NORMAL_BOUND 0.2
/* The speed of light may be passed by what rounding and clocks leave open. */
#define BB_NORMAL_PAST_LIGHT 1.02
/* A bound that was measured may be passed by so much. */
#define BB_NORMAL_BEYOND 1.1

/* What CLAIMS come to, in words into OUT: what was compared with what, and what to look at next. */
enum bb_normality bb_normal(const struct bb_claims *claims, const struct bb_references *references,
			    const struct bb_circumstances *circumstances, struct bb_strbuf *out);

#endif
