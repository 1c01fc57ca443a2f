/*
 * normal.h - is my number normal? Claims beside published measurements and the speed of light.
 */
#ifndef BB_ACCEPTANCE_NORMAL_H
#define BB_ACCEPTANCE_NORMAL_H

#include "acceptance/claims.h"
#include "acceptance/reference.h"
#include "core/strbuf.h"

enum bb_normality { BB_NORMAL, BB_HIGH, BB_UNKNOWN, BB_IMPOSSIBLE, BB_LOW, BB_WRONG };

/* What the user says where the file does not, or says otherwise. */
struct bb_circumstances {
	const char *gpu, *collective; /* NULL: as the file says */
	int64_t nodes, ranks;         /* 0: as the file says */
};

/* Low is below so much of the least of the published runs, high above so much of the most. */
#define BB_NORMAL_LOW 0.9
#define BB_NORMAL_HIGH 1.1
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
