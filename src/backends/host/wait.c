/*
 * Waiting. With a core for every thread a waiter spins, because what it waits for is a cache miss
 * away. With more ranks than cores, or queues, which share their rank's core, it must not: it
 * yields a few times, then sleeps on its bell. The order of the stores and loads around `sleeping`
 * is what keeps a wake-up from being lost: the waker publishes, then looks for a sleeper; the
 * sleeper announces itself, then looks at the word again.
 */
#include "backends/host/host.h"

#include "core/clock.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SPINS 2000
#define SLEEPER_YIELDS 40
#define YIELDS 2000
#define NAP_NS 50000L

/* The condition of a wait; its loads are ordered after the announcement that the waiter sleeps. */
typedef bool condition_fn(const void *argument);

struct goal {
	atomic_uint *word;
	uint32_t target;
};

static bool is_reached(const void *argument)
{
	const struct goal *goal = argument;

	return bb_reached(atomic_load(goal->word), goal->target);
}

/* Both are part of the time of every message, so MET is compiled in. */
#define INLINED static inline __attribute__((always_inline))

INLINED bb_status wait_asleep(struct bb_context *context, struct bb_bell *bell, condition_fn *met,
			      const void *argument)
{
	for (int i = 0; i < SLEEPER_YIELDS; i++) {
		sched_yield();
		if (met(argument))
			return BB_OK;
	}
	while (!bb_cpu_aborted(&context->cpu)) {
		const uint32_t rung = atomic_load(&bell->rung);
		const struct timespec moment = {.tv_nsec = BB_MOMENT_NS};

		atomic_fetch_add(&bell->sleeping, 1);
		if (!met(argument))
			syscall(SYS_futex, &bell->rung, FUTEX_WAIT_PRIVATE, rung, &moment, NULL, 0);
		atomic_fetch_sub_explicit(&bell->sleeping, 1, memory_order_relaxed);
		if (met(argument))
			return BB_OK;
	}
	return BB_ETIMEOUT;
}

INLINED bb_status wait_awake(struct bb_context *context, condition_fn *met, const void *argument)
{
	const struct timespec nap = {.tv_nsec = NAP_NS};

	for (int i = 0; i < SPINS; i++) {
		if (met(argument))
			return BB_OK;
#if defined(__x86_64__)
		__builtin_ia32_pause();
#endif
	}
	for (int i = 0; !bb_cpu_aborted(&context->cpu); i++) {
		if (i < YIELDS)
			sched_yield();
		else
			nanosleep(&nap, NULL);
		if (met(argument))
			return BB_OK;
	}
	return BB_ETIMEOUT;
}

bb_status bb_host_wait(struct bb_context *context, struct bb_bell *bell, atomic_uint *word,
		       uint32_t target)
{
	const struct goal goal = {word, target};

	if (is_reached(&goal))
		return BB_OK;
	return bb_host_sleeps(context) ? wait_asleep(context, bell, is_reached, &goal)
				       : wait_awake(context, is_reached, &goal);
}

bb_status bb_host_wait_for(struct bb_context *context, struct bb_bell *bell,
			   bool (*met)(const void *argument), const void *argument)
{
	if (met(argument))
		return BB_OK;
	return bb_host_sleeps(context) ? wait_asleep(context, bell, met, argument)
				       : wait_awake(context, met, argument);
}

void bb_host_store(const struct bb_context *context, atomic_uint *word, uint32_t value)
{
	if (bb_host_sleeps(context))
		atomic_store(word, value);
	else
		atomic_store_explicit(word, value, memory_order_release);
}

void bb_host_wake(const struct bb_context *context, struct bb_bell *bells, int n)
{
	if (!bb_host_sleeps(context))
		return;
	for (int i = 0; i < n; i++) {
		if (!atomic_load(&bells[i].sleeping))
			continue;
		atomic_fetch_add(&bells[i].rung, 1);
		syscall(SYS_futex, &bells[i].rung, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
	}
}

void bb_host_signal(const struct bb_context *context, struct bb_bell *bell, atomic_uint *word,
		    uint32_t value)
{
	bb_host_store(context, word, value);
	bb_host_wake(context, bell, 1);
}
