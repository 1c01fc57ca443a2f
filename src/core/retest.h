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

/* Times USUAL_S from which on something is slow that takes FACTOR times its usual work. PLANNED_S
   of the usual time are no work: a link that is paced. */
double bb_slow_factor(double factor, double usual_s, double planned_s);

/*
 * The chance that k or more of n measurements are slow where x of m others that are like them were:
 * the beta-binomial distribution, which knows that the rate is known from m measurements alone.
 */
double bb_chance(int k, int n, int x, int m);

#define BB_FLOOR_TIMES 3   /* that a floor was reached: one time alone may be a freak */
#define BB_FLOOR_NEAR 1.25 /* times the floor: an undisturbed round takes no longer */

/* The shortest times of many rounds. */
struct bb_floor {                    /* zero-initialise */
	double kept[BB_FLOOR_TIMES]; /* the shortest, ascending */
	int rounds;
	int near; /* rounds that were near the floor; counted anew when it falls farther than that
		   */
};

void bb_floor_add(struct bb_floor *floor, double seconds);
/* FROM's rounds too. */
void bb_floor_merge(struct bb_floor *floor, const struct bb_floor *from);

/* How many times are kept. */
int bb_floor_kept(const struct bb_floor *floor);

/* The shortest time, which a suspect is judged by; 0: there is none. */
double bb_floor_best(const struct bb_floor *floor);
/* The time that it reached BB_FLOOR_TIMES times, or in all of fewer rounds: what it takes
   undisturbed. What suspects are held against. */
double bb_floor_usual(const struct bb_floor *floor);

/*
 * Is a suspect guilty that was slow in all of SLOW rounds, where NEAR of OF rounds like its own
 * were undisturbed? JUDGED: how many are judged in this run. If not, it is to be measured again.
 */
bool bb_retest_convicts(int slow, int near, int of, int judged);

#endif
