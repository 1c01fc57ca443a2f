/*
 * retest.h - who is slow on a machine that does other work too. Pure; diagnose and the benchmarks
 * of pairs judge by it.
 *
 * Interference only ever makes a measurement longer. A suspect is therefore measured again, alone,
 * in turn with a reference, until that decides:
 *
 *   - The shortest times compare. A suspect that reaches its reference once is innocent.
 *   - It is guilty once chance no longer explains that none of its rounds did. How often an
 *     undisturbed round comes is counted, so no distribution of the noise is assumed.
 *   - Where neither comes about, nobody can judge it.
 */
#ifndef BB_CORE_RETEST_H
#define BB_CORE_RETEST_H

#include <stdbool.h>
#include <stdint.h>

#define BB_FALSE_BLAME 5e-4     /* chance of one in a run, for all that is judged together */
#define BB_RETEST_ROUNDS 16     /* of a suspect before it is judged */
#define BB_RETEST_PAUSE_S 0.005 /* before each round: interference is to be over */

/* Times the usual work below which nobody is blamed, where ranks share processors. */
#define BB_CROWDED 8

/* Do RANKS that work at the same time share PROCESSORS? Then how long one of them takes depends on
   who shares its processor. */
static inline bool bb_is_crowded(int64_t ranks, int64_t processors)
{
	return ranks > processors;
}

/* Times USUAL_S from which on a crowded rank is slow. PLANNED_S of the usual time are no work: a
   link that is paced. */
double bb_crowded_factor(double usual_s, double planned_s);

/*
 * The chance that k or more of n measurements are slow where x of m others that are like them were:
 * the beta-binomial distribution, which knows that the rate is known from m measurements alone.
 */
double bb_chance(int k, int n, int x, int m);

#endif
