/*
 * retest.h - decides what is slow on a machine that does other work too. Pure; for diagnose and
 * the benchmarks of pairs.
 *
 * Interference only makes a measurement longer. A suspect is therefore measured again, alone, in
 * turn with a reference, until its shortest time decides:
 *
 *   - It is innocent if it reaches the reference once.
 *   - It is guilty if chance does not explain that no round reached the reference. Undisturbed
 *     rounds are counted, so no distribution of the noise is assumed.
 *   - Otherwise there is no verdict.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define BB_FALSE_BLAME 5e-4     /* chance of one wrong verdict in a run */
#define BB_RETEST_ROUNDS 16     /* of a suspect before its verdict */
#define BB_RETEST_PAUSE_S 0.005 /* before each round, so that interference ends */

/* Where ranks share processors, work below this multiple of the usual is not blamed. */
#define BB_CROWDED 8

/* Do RANKS that work at the same time share PROCESSORS? Then the time of each depends on which
   ranks share its processor. */
static inline bool bb_is_crowded(int64_t ranks, int64_t processors)
{
	return ranks > processors;
}

/* The multiple of USUAL_S that FACTOR times the usual work takes. PLANNED_S of the usual time are
   no work, but the pacing of a link. */
double bb_slow_factor(double factor, double usual_s, double planned_s);

/*
 * The chance that k or more of n measurements are slow if x of m similar ones were: the
 * beta-binomial distribution, because the rate is known from m measurements only.
 */
double bb_chance(int k, int n, int x, int m);

#define BB_FLOOR_TIMES 3   /* times that a floor is reached: a single one may be an outlier */
#define BB_FLOOR_NEAR 1.25 /* times the floor: an undisturbed round takes no longer */

/* The shortest times of many rounds. */
struct bb_floor { /* zero-initialise */
	/* The shortest, ascending; a suspect is judged by the first. 0: there is none. */
	double kept[BB_FLOOR_TIMES];
	int rounds;
	int near; /* rounds near the floor; restarts when it falls by more */
};

void bb_floor_add(struct bb_floor *floor, double seconds);

/* How many times are kept. */
int bb_floor_kept(const struct bb_floor *floor);

/* The time reached in BB_FLOOR_TIMES rounds, or in all of fewer: the undisturbed time, with which
   suspects are compared. */
double bb_floor_usual(const struct bb_floor *floor);

/*
 * Is a suspect guilty that was slow in all of its SLOW rounds, if NEAR of OF similar rounds were
 * undisturbed? JUDGED: the number of verdicts in this run. If not, it must be measured again.
 */
bool bb_retest_convicts(int slow, int near, int of, int judged);
