/*
 * guard.h - a thread that looks after the process while its main thread waits for others: at
 * start-up and at the end, when no crew is there that does.
 */
#ifndef BB_HARNESS_RUN_GUARD_H
#define BB_HARNESS_RUN_GUARD_H

#include "core/status.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct bb_guard {
	pthread_t thread;
	bool signals; /* SIGINT and SIGTERM are its business */
	atomic_bool done;
	double deadline; /* on the monotonic clock; 0: none */
	/* Called once, on the guard's thread: the deadline has passed (SIGNAL 0), or SIGINT or
	   SIGTERM came. */
	void (*call)(void *argument, int signal);
	void *argument;
};

/*
 * Block SIGINT and SIGTERM in this thread and all that it starts from now on, for good: only one
 * that waits for them shall get them.
 */
void bb_guard_signals(void);

/* Wait for at most BB_MOMENT_NS: returns SIGINT or SIGTERM if SIGNALS and one came, else 0. */
int bb_guard_wait(bool signals);
/* End the bb_guard_wait that THREAD is in, or its next one. */
void bb_guard_wake(pthread_t thread);

/* Sleep, but not through SIGINT or SIGTERM: returns the signal, or 0. */
int bb_guard_sleep(double seconds);

/* Watch for TIMEOUT_NS from now on, 0: without an end, and, if SIGNALS, for signals, which are
   blocked. */
BB_MUST bb_status bb_guard_start(struct bb_guard *guard, uint64_t timeout_ns, bool signals,
				 void (*call)(void *argument, int signal), void *argument,
				 struct bb_error *error);
/* After it CALL is not called any more. */
void bb_guard_stop(struct bb_guard *guard);

#endif
