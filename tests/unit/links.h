/* The links that virtual time is checked over, and what a ring takes over them. */
#ifndef BB_TESTS_LINKS_H
#define BB_TESTS_LINKS_H

#include "simulator/timeline/timeline.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define ALPHA 5e-6
#define RATE 25e9
#define FLOATS(count) ((double)(count)*4 / RATE)

static const struct bb_link_model links = {.rate = RATE, .latency = ALPHA};

static inline void near(double got, double want)
{
	if (!(fabs(got - want) <= 1e-12 * fmax(1e-3, fabs(want))))
		fail_msg("%.17g instead of %.17g", got, want);
}

/* N ranks; S: time that a call's count takes over a link; L: log2 n, rounded up. */
static inline double ring_of_all(double n, double s, double l)
{
	return 2 * (n - 1) * (ALPHA + s / n);
}

#endif
