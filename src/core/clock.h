/*
 * clock.h - this machine's clocks, and waits that notice an abandoned run.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

/* Seconds on the monotonic clock. */
double bb_clock_now(void);
/* Seconds that the calling thread had a core. */
double bb_clock_thread(void);
/* Seconds since 1970 UTC. */
double bb_clock_unix(void);

/* Initialize CHANGED for bb_clock_wait_moment: it waits on the monotonic clock, so that a clock of
   the system that is set back delays nobody. */
void bb_clock_open_moment(pthread_cond_t *changed);
/*
 * Wait for CHANGED, with LOCK held, for BB_MOMENT_NS at most. The caller then checks its condition
 * again, and whether the run is being abandoned, which nobody signals.
 */
#define BB_MOMENT_NS 20000000L
void bb_clock_wait_moment(pthread_cond_t *changed, pthread_mutex_t *lock);

/* Let SECONDS pass, precisely; returns early once *ABANDONED is set. */
void bb_clock_pause(double seconds, const atomic_int *abandoned);
/* The same, but spins at the end instead of yielding: on a busy machine a thread that yields gets
   its core back a time slice later. For a thread whose peers do not need its core meanwhile. */
void bb_clock_hold(double seconds, const atomic_int *abandoned);
