#include "harness/run/guard.h"

#include "core/clock.h"

#include <time.h>

static void fill_set(sigset_t *signals)
{
	sigemptyset(signals);
	sigaddset(signals, SIGINT);
	sigaddset(signals, SIGTERM);
}

void bb_guard_signals(void)
{
	sigset_t signals;

	fill_set(&signals);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
}

int bb_guard_sleep(double seconds)
{
	const double until = bb_clock_now() + seconds;
	const struct timespec look = {.tv_nsec = BB_MOMENT_NS};
	sigset_t signals;
	int signal = 0;

	fill_set(&signals);
	while (signal <= 0 && bb_clock_now() < until)
		signal = sigtimedwait(&signals, NULL, &look);
	return signal > 0 ? signal : 0;
}

static void *watch(void *argument)
{
	const struct timespec look = {.tv_nsec = BB_MOMENT_NS};
	struct bb_guard *guard = argument;

	while (!atomic_load(&guard->done)) {
		int signal = sigtimedwait(&guard->signals, NULL, &look);
		bool late = guard->deadline != 0 && bb_clock_now() > guard->deadline;

		if (signal <= 0 && !late)
			continue;
		guard->call(guard->argument, signal > 0 ? signal : 0);
		break;
	}
	return NULL;
}

bb_status bb_guard_start(struct bb_guard *guard, uint64_t timeout_ns, bool signals,
			 void (*call)(void *argument, int signal), void *argument,
			 struct bb_error *error)
{
	*guard = (struct bb_guard){
		.deadline = timeout_ns ? bb_clock_now() + 1e-9 * (double)timeout_ns : 0,
		.call = call,
		.argument = argument,
	};
	sigemptyset(&guard->signals);
	if (signals)
		fill_set(&guard->signals);
	if (pthread_create(&guard->thread, NULL, watch, guard) != 0)
		return bb_fail(error, BB_EINTERNAL,
			       "the system gives no thread to watch over the process");
	return BB_OK;
}

void bb_guard_stop(struct bb_guard *guard)
{
	atomic_store(&guard->done, true);
	pthread_join(guard->thread, NULL);
}
