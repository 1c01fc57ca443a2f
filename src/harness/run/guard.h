/*
 * guard.h - a thread that enforces deadlines and handles signals at start-up and at the end, while
 * the main thread waits for other processes. In between the watch over the drivers does.
 */
#pragma once

#include "core/status.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct bb_guard {
	pthread_t thread;
	bool signals; /* it handles SIGHUP, SIGINT and SIGTERM */
	atomic_bool done;
	double deadline; /* on the monotonic clock; 0: none */
	/* Called at most once, on the guard's thread, when the deadline has passed (SIGNAL 0) or
	   SIGHUP, SIGINT or SIGTERM came. */
	void (*call)(void *argument, int signal);
	void *argument;
};

/*
 * Block SIGHUP, SIGINT and SIGTERM for good, in this thread and all that it starts from now on, so
 * that only a thread that waits for them gets them. Here and below, one that the parent had this
 * process ignore stays ignored.
 */
void bb_guard_signals(void);

/* Wait for at most BB_MOMENT_NS: returns SIGHUP, SIGINT or SIGTERM if SIGNALS and one came, else 0.
 */
int bb_guard_wait(bool signals);
/*
 * *NOW = the clock. Returns the seconds since its former value if they are far more than a turn of
 * a loop around bb_guard_wait takes, else 0: then the machine or this process was suspended,
 * nothing hung meanwhile, and deadlines move by as much.
 */
double bb_guard_pause(double *now);
/* End the current bb_guard_wait of THREAD, or its next one. */
void bb_guard_wake(pthread_t thread);

/* Call CALL once TIMEOUT_NS from now have passed (0: never) or, with SIGNALS, which are blocked,
   when a signal comes. */
BB_MUST bb_status bb_guard_start(struct bb_guard *guard, uint64_t timeout_ns, bool signals,
				 void (*call)(void *argument, int signal), void *argument,
				 struct bb_error *error);
/* Stop the guard; CALL is not called any more. */
void bb_guard_stop(struct bb_guard *guard);
