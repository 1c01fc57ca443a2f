/*
 * ranks.h - a backend's ranks for tests: one thread each, attached, in a group of all. They stay
 * for many jobs, so that what one job leaves behind the next one meets.
 */
#ifndef BB_TESTS_RANKS_H
#define BB_TESTS_RANKS_H

#include "backends/backend.h"

#include <pthread.h>
#include <stdatomic.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define RANKS_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define RANKS_SANITIZED 1
#endif
#ifndef RANKS_SANITIZED
#define RANKS_SANITIZED 0
#endif

/* How often to repeat what would be repeated TIMES times at full speed. */
#define ROUNDS(times) (RANKS_SANITIZED ? (times) / 5 : (times))

struct ranks;

/* What a job sees: one rank. */
struct one {
	struct ranks *all;
	const struct bb_backend *backend;
	struct bb_context *context;
	struct bb_rank *handle;
	struct bb_location location;
	struct bb_group *world;
	int rank;
	int n;
	pthread_t thread;
};

typedef void ranks_job(struct one *me, void *argument);

struct ranks {
	const struct bb_backend *backend;
	struct bb_context *context;
	struct one *ones;
	int n;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	ranks_job *job; /* NULL: end */
	void *argument;
	unsigned started; /* jobs so far */
	int running;      /* ranks still in the latest */
	int attached;     /* how many are; all or the test fails */
	atomic_int failures;
};

/* Open a world of N ranks; fails the test if it cannot. CONFIG NULL: zeros. */
void ranks_open(struct ranks *ranks, const struct bb_backend *backend, int n,
		const struct bb_backend_config *config);
/* Start JOB on every rank; ranks_join waits for it and returns how many checks failed. A job that
   takes longer than a test should is aborted and counts as failed. */
void ranks_start(struct ranks *ranks, ranks_job *job, void *argument);
int ranks_join(struct ranks *ranks);
int ranks_run(struct ranks *ranks, ranks_job *job, void *argument);
void ranks_close(struct ranks *ranks);

/* JOB on N ranks of the host backend, waiting as with too few cores or as with enough whatever this
   machine has; fails the test if a check does. */
void ranks_host(int n, bool crowded, ranks_job *job, void *argument);

/* Count, and print the first few: an assertion that a thread other than the test's may make. */
void ranks_failed(struct one *me, const char *file, int line, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

#define CHECK(me, condition)                                                                       \
	do {                                                                                       \
		if (!(condition))                                                                  \
			ranks_failed(me, __FILE__, __LINE__, "%s", #condition);                    \
	} while (0)

#endif
