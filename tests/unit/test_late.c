/*
 * Ranks that are late while a case is measured: nobody begins its clock while one still warms up,
 * and nobody verifies while one may still write. Real runs on the host backend, whose calls are
 * watched; the late rank holds each other one back that would go ahead, or would see it go.
 */
#include "collectives/collective.h"
#include "harness/run/benchmark.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#define NRANKS 3
#define LATE 1
#define HOLD_NS 300000000 /* what a rank that went ahead would need, and much more */

/* Where a rank is in a case, as its calls tell. */
enum phase { FILLING, WARMING, WARM, LINED_UP, TIMING };

struct watch {
	atomic_int phase[NRANKS], inside[NRANKS];
	atomic_int early_clocks, unaligned_clocks, early_looks, clocks, looks;
	atomic_size_t copied; /* bytes of the largest private copy */
	atomic_bool holds;    /* is the late rank late, too, in what is timed? */
};

static struct watch watch;
static _Thread_local int me = -1; /* the rank of this driver */
static const struct bb_backend *host;

static void hold(void)
{
	nanosleep(&(struct timespec){.tv_nsec = HOLD_NS}, NULL);
}

static bb_status attach(struct bb_context *context, int local, struct bb_rank **rank,
			struct bb_location *location, struct bb_error *error)
{
	me = local;
	return host->attach(context, local, rank, location, error);
}

static bb_status fill(struct bb_rank *rank, void *dst, const struct bb_pattern *pattern,
		      size_t first, size_t count)
{
	atomic_store(&watch.phase[me], FILLING);
	return host->fill(rank, dst, pattern, first, count);
}

static bb_status collective(struct bb_group *group, struct bb_queue *queue,
			    const struct bb_call *call)
{
	const bool warming = atomic_load(&watch.phase[me]) == FILLING;
	bb_status status;

	atomic_store(&watch.inside[me], 1);
	if (warming)
		atomic_store(&watch.phase[me], WARMING);
	status = host->collective(group, queue, call);
	if (me == LATE && (warming || atomic_load(&watch.holds)))
		hold();
	if (warming)
		atomic_store(&watch.phase[me], WARM);
	atomic_store(&watch.inside[me], 0);
	return status;
}

static bb_status barrier(struct bb_group *group)
{
	if (atomic_load(&watch.phase[me]) == WARM)
		atomic_store(&watch.phase[me], LINED_UP);
	return host->barrier(group);
}

/* The first reading after the warm-up begins the clock. */
static double now(struct bb_rank *rank)
{
	const int phase = me < 0 ? FILLING : atomic_load(&watch.phase[me]);

	if (phase != WARM && phase != LINED_UP)
		return host->now(rank);
	atomic_fetch_add(&watch.clocks, 1);
	for (int r = 0; r < NRANKS; r++) {
		const int other = atomic_load(&watch.phase[r]);

		atomic_fetch_add(&watch.early_clocks, other < WARM);
		atomic_fetch_add(&watch.unaligned_clocks, other < LINED_UP);
	}
	atomic_store(&watch.phase[me], TIMING);
	return host->now(rank);
}

static bb_status verify(struct bb_rank *rank, const void *got, const struct bb_pattern *pattern,
			size_t first, size_t count, enum bb_dtype dtype, int ulps, uint64_t *wrong)
{
	atomic_store(&watch.phase[me], TIMING); /* further rounds were filled anew */
	atomic_fetch_add(&watch.looks, 1);
	for (int r = 0; r < NRANKS; r++)
		atomic_fetch_add(&watch.early_looks, atomic_load(&watch.inside[r]));
	return host->verify(rank, got, pattern, first, count, dtype, ulps, wrong);
}

static bb_status copy(struct bb_rank *rank, void *dst, const void *src, size_t bytes)
{
	if (bytes > atomic_load(&watch.copied))
		atomic_store(&watch.copied, bytes);
	return host->copy(rank, dst, src, bytes);
}

static bb_status check_watched(const struct bb_benchmark *benchmark, void *own,
			       struct bb_options *options, const struct bb_environment *environment,
			       struct bb_error *error)
{
	static struct bb_backend watched;

	host = options->backend;
	watched = *host;
	watched.attach = attach;
	watched.fill = fill;
	watched.collective = collective;
	watched.barrier = barrier;
	watched.now = now;
	watched.verify = verify;
	watched.copy = copy;
	options->backend = &watched;
	return bb_collective_check(benchmark, own, options, environment, error);
}

/* all_reduce of 3 ranks with MORE (ends with NULL), in a process of its own, whose end says what
   was seen: bit 0 a clock that began in another's warm-up, bit 1 without the backend's barrier, bit
   2 an early look, bit 3 that there was nothing to be seen, bit 4 a run that failed, bit 5
   that the memory's speed is that of copies which caches hold. */
static int seen(const char *const *more, bool holds)
{
	char *words[24] = {(char *)"late", (char *)"--backend", (char *)"host", (char *)"-g",
			   (char *)"3",    (char *)"--algo",    (char *)"ring", (char *)"-w",
			   (char *)"1",    (char *)"-n",        (char *)"1"};
	struct bb_benchmark benchmark = bb_collective_benchmark(&bb_all_reduce);
	int n = 11, status;
	pid_t child;

	while (*more)
		words[n++] = (char *)*more++;
	benchmark.check = check_watched;
	child = fork();
	if (child == 0) {
		const int out = open("/dev/null", O_WRONLY);

		dup2(out, STDOUT_FILENO);
		atomic_store(&watch.holds, holds);
		status = bb_main(n, words, &benchmark);
		_exit((watch.early_clocks > 0) | (watch.unaligned_clocks > 0) << 1 |
		      (watch.early_looks > 0) << 2 |
		      (watch.clocks < NRANKS || watch.looks < NRANKS) << 3 | (status != 0) << 4 |
		      (watch.copied * NRANKS < (size_t)24 << 20) << 5);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* Of small sizes the clock is read first to see how long an iteration takes. */
static void test_late_in_warm_up(void **state)
{
	static const char *const small[] = {"-b", "64", "-e", "64", NULL};
	static const char *const large[] = {"-b", "1M", "-e", "1M", NULL};
	static const char *const each[] = {"-b", "64", "-e", "64", "-I", "1", NULL};

	assert_int_equal(seen(small, false), 0);
	assert_int_equal(seen(large, false), 0);
	assert_int_equal(seen(each, false), 0);
}

static void test_late_in_verification(void **state)
{
	static const char *const each[] = {"-b", "64", "-e", "64", "-I", "1", NULL};
	static const char *const rounds[] = {"-b", "64", "-e", "64", "-I", "1", "-c", "2", NULL};

	assert_int_equal(seen(each, true), 0);
	assert_int_equal(seen(rounds, true), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_late_in_warm_up),
		cmocka_unit_test(test_late_in_verification),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
