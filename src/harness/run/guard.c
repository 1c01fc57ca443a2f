/*
 * guard.c - waiting for signals, and the guard's thread.
 */
#include "harness/run/guard.h"

#include "core/clock.h"
#include "core/signals.h"

#include <time.h>

#define PAUSE_S 5.  /* more than a busy machine takes to give a thread a processor */
#define WAKE SIGURG /* ignored by a thread that is not waiting for it */

void bb_guard_signals(void)
{
	sigset_t signals;

	bb_signals_fill(&signals);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
}

int bb_guard_wait(bool signals)
{
	const struct timespec moment = {.tv_nsec = BB_MOMENT_NS};
	sigset_t set;

	sigemptyset(&set);
	if (signals)
		bb_signals_fill(&set);
	sigaddset(&set, WAKE);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	const int signal = sigtimedwait(&set, NULL, &moment);
	return signal > 0 && signal != WAKE ? signal : 0;
}

double bb_guard_pause(double *now)
{
	const double before = *now;

	*now = bb_clock_now();
	return *now - before > PAUSE_S ? *now - before : 0;
}

void bb_guard_wake(pthread_t thread)
{
	pthread_kill(thread, WAKE);
}

static void *watch(void *argument)
{
	struct bb_guard *guard = argument;
	double now = bb_clock_now(), paused = 0;

	while (!atomic_load(&guard->done)) {
		const int signal = bb_guard_wait(guard->signals);

		paused += bb_guard_pause(&now);
		if (signal == 0 && (guard->deadline == 0 || now <= guard->deadline + paused))
			continue;
		guard->call(guard->argument, signal);
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
		.signals = signals,
		.call = call,
		.argument = argument,
	};
	if (pthread_create(&guard->thread, NULL, watch, guard) != 0)
		return bb_fail(error, BB_EINTERNAL,
			       "the system gives no thread to watch over the process");
	return BB_OK;
}

void bb_guard_stop(struct bb_guard *guard)
{
	atomic_store(&guard->done, true);
	bb_guard_wake(guard->thread);
	pthread_join(guard->thread, NULL);
}
