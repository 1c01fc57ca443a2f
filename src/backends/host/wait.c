/*
 * Waiting. With a core for every rank a waiter spins, because what it waits for is a cache miss
 * away. With more ranks than cores it must not: it gives the core away a few times, then sleeps
 * on its bell. The order of the stores and loads around `sleeping` is what keeps a wake-up from
 * being lost: the waker publishes, then looks for a sleeper; the sleeper announces itself, then
 * looks at the word again.
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
#define CROWDED_YIELDS 40
#define YIELDS 2000
#define NAP_NS 50000L

static void relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#endif
}

static void futex_wait(atomic_uint *word, uint32_t seen, long ns)
{
	const struct timespec timeout = {.tv_nsec = ns};

	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, &timeout, NULL, 0);
}

static void ring(struct bb_bell *bell)
{
	atomic_fetch_add(&bell->rung, 1);
	syscall(SYS_futex, &bell->rung, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static bool aborted(struct bb_context *context)
{
	return atomic_load_explicit(&context->aborted, memory_order_relaxed) != 0;
}

static bool has_come(atomic_uint *word, uint32_t target)
{
	return bb_reached(atomic_load_explicit(word, memory_order_acquire), target);
}

static bb_status wait_crowded(struct bb_context *context, struct bb_bell *bell, atomic_uint *word,
			      uint32_t target)
{
	for (int i = 0; i < CROWDED_YIELDS; i++) {
		sched_yield();
		if (has_come(word, target))
			return BB_OK;
	}
	while (!aborted(context)) {
		uint32_t rung = atomic_load(&bell->rung);

		atomic_fetch_add(&bell->sleeping, 1);
		if (!bb_reached(atomic_load(word), target))
			futex_wait(&bell->rung, rung, BB_MOMENT_NS);
		atomic_fetch_sub_explicit(&bell->sleeping, 1, memory_order_relaxed);
		if (has_come(word, target))
			return BB_OK;
	}
	return BB_ETIMEOUT;
}

static bb_status wait_alone(struct bb_context *context, atomic_uint *word, uint32_t target)
{
	const struct timespec nap = {.tv_nsec = NAP_NS};

	for (int i = 0; i < SPINS; i++) {
		if (has_come(word, target))
			return BB_OK;
		relax();
	}
	for (int i = 0; !aborted(context); i++) {
		if (i < YIELDS)
			sched_yield();
		else
			nanosleep(&nap, NULL);
		if (has_come(word, target))
			return BB_OK;
	}
	return BB_ETIMEOUT;
}

bb_status bb_host_wait(struct bb_context *context, struct bb_bell *bell, atomic_uint *word,
		       uint32_t target)
{
	if (has_come(word, target))
		return BB_OK;
	return context->crowded ? wait_crowded(context, bell, word, target)
				: wait_alone(context, word, target);
}

void bb_host_store(const struct bb_context *context, atomic_uint *word, uint32_t value)
{
	if (context->crowded)
		atomic_store(word, value);
	else
		atomic_store_explicit(word, value, memory_order_release);
}

void bb_host_wake(const struct bb_context *context, struct bb_bell *bells, int n)
{
	if (!context->crowded)
		return;
	for (int i = 0; i < n; i++)
		if (atomic_load(&bells[i].sleeping))
			ring(&bells[i]);
}

void bb_host_signal(const struct bb_context *context, struct bb_bell *bell, atomic_uint *word,
		    uint32_t value)
{
	bb_host_store(context, word, value);
	bb_host_wake(context, bell, 1);
}
