#include "core/clock.h"

#include <time.h>

double bb_clock_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void bb_clock_wait_moment(pthread_cond_t *changed, pthread_mutex_t *lock)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	t.tv_nsec += BB_MOMENT_NS;
	if (t.tv_nsec >= 1000000000L) {
		t.tv_nsec -= 1000000000L;
		t.tv_sec++;
	}
	pthread_cond_timedwait(changed, lock, &t);
}
