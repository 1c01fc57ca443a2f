/*
 * clock.h - this machine's clock, and waits that look around from time to time.
 */
#ifndef BB_CORE_CLOCK_H
#define BB_CORE_CLOCK_H

#include <pthread.h>
#include <stdatomic.h>

/* Seconds on the monotonic clock. */
double bb_clock_now(void);
/* Seconds that the calling thread had a core. */
double bb_clock_thread(void);
/* Seconds since 1970 UTC. */
double bb_clock_unix(void);

/*
 * Sleep on CHANGED, LOCK held, for a moment at most (20 ms): the caller looks at its condition
 * again, and at whether the run is being abandoned, which nobody signals.
 */
#define BB_MOMENT_NS 20000000L
void bb_clock_wait_moment(pthread_cond_t *changed, pthread_mutex_t *lock);

/* Let SECONDS pass, precisely; returns early once *ABANDONED is set. */
void bb_clock_pause(double seconds, const atomic_int *abandoned);
/* The same, but keeps the core at the end: who gives it away on a busy machine comes back late by
   a time slice. For a thread whose peers do not need its core meanwhile. */
void bb_clock_hold(double seconds, const atomic_int *abandoned);

#endif
