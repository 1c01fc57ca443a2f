#include "core/clock.h"

#include <sched.h>
#include <stdbool.h>
#include <time.h>

#define LONGEST_NAP 0.02 /* seconds between two checks of ABANDONED */
#define OVERSLEEP 100e-6 /* seconds by which a nap may be too long */

static double clock_read(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double bb_clock_now(void)
{
	return clock_read(CLOCK_MONOTONIC);
}

double bb_clock_thread(void)
{
	return clock_read(CLOCK_THREAD_CPUTIME_ID);
}

double bb_clock_unix(void)
{
	return clock_read(CLOCK_REALTIME);
}

void bb_clock_open_moment(pthread_cond_t *changed)
{
	pthread_condattr_t monotonic;

	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
}

void bb_clock_wait_moment(pthread_cond_t *changed, pthread_mutex_t *lock)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_nsec += BB_MOMENT_NS;
	if (t.tv_nsec >= 1000000000L) {
		t.tv_nsec -= 1000000000L;
		t.tv_sec++;
	}
	pthread_cond_timedwait(changed, lock, &t);
}

/* Sleep until shortly before the end, then spin. */
static void clock_wait(double seconds, const atomic_int *abandoned, bool yields)
{
	const double end = bb_clock_now() + seconds;
	double left;

	while ((left = end - bb_clock_now()) > 0 &&
	       !atomic_load_explicit(abandoned, memory_order_relaxed)) {
		const double ns = 1e9 * (left > LONGEST_NAP ? LONGEST_NAP : left - OVERSLEEP);
		const struct timespec nap = {.tv_nsec = ns > 0 ? (long)ns : 0};

		if (ns > 0)
			nanosleep(&nap, NULL);
		else if (yields)
			sched_yield();
	}
}

void bb_clock_pause(double seconds, const atomic_int *abandoned)
{
	clock_wait(seconds, abandoned, true);
}

void bb_clock_hold(double seconds, const atomic_int *abandoned)
{
	clock_wait(seconds, abandoned, false);
}
