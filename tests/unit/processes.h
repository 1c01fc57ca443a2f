/*
 * processes.h - the processes of a run for tests: threads of one process or processes made by
 * fork, with a launch over memory that they share.
 */
#ifndef BB_TESTS_PROCESSES_H
#define BB_TESTS_PROCESSES_H

#include "core/clock.h"
#include "launch/launch.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST_PROCESSES 16
#define MOST_GIVEN 16384 /* bytes that one process can give */

/* Where they meet; in shared memory. */
struct meeting {
	int n;
	atomic_int came;
	atomic_uint round;
	atomic_int failures; /* checks that failed, in all processes */
	char given[MOST_PROCESSES][MOST_GIVEN];
};

/* Count, and print the first few: an assertion that any process or thread may make. */
#define CHECK(meeting, condition)                                                                  \
	do {                                                                                       \
		if (!(condition) && atomic_fetch_add(&(meeting)->failures, 1) < 10)                \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
	} while (0)

static inline void nap_ms(int ms)
{
	const struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

	nanosleep(&t, NULL);
}

static inline struct meeting *meeting_open(int n)
{
	struct meeting *m =
		mmap(NULL, sizeof(*m), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (m == MAP_FAILED || n > MOST_PROCESSES)
		abort();
	m->n = n;
	return m;
}

/* Returns how many checks failed. */
static inline int meeting_close(struct meeting *m)
{
	const int failures = atomic_load(&m->failures);

	munmap(m, sizeof(*m));
	return failures;
}

/* Waits for all for ever, as an MPI library does. */
static inline bb_status meet_all(struct bb_launch *launch)
{
	struct meeting *m = launch->own;
	const unsigned round = atomic_load(&m->round);

	if (atomic_fetch_add(&m->came, 1) + 1 == m->n) {
		atomic_store(&m->came, 0);
		atomic_fetch_add(&m->round, 1);
	}
	while (atomic_load(&m->round) == round)
		usleep(100);
	return BB_OK;
}

static inline bb_status meet_gather(struct bb_launch *launch, const void *mine, size_t bytes,
				    void *all, bool everywhere)
{
	struct meeting *m = launch->own;

	if (bytes > MOST_GIVEN)
		abort();
	memcpy(m->given[launch->proc], mine, bytes);
	meet_all(launch);
	for (int p = 0; p < m->n && (everywhere || launch->proc == 0); p++)
		memcpy((char *)all + (size_t)p * bytes, m->given[p], bytes);
	return meet_all(launch);
}

static inline struct bb_launch meeting_launch(struct meeting *m, int proc)
{
	return (struct bb_launch){.proc = proc,
				  .nprocs = m->n,
				  .gather = meet_gather,
				  .library = "shared memory",
				  .own = m};
}

/* One process of a test. */
struct process {
	struct meeting *meeting;
	struct bb_launch launch;
	void (*run)(struct process *me);
	void *argument;
	pthread_t thread;
	pid_t pid;
};

static inline void *process_thread(void *argument)
{
	struct process *p = argument;

	p->run(p);
	return NULL;
}

/* N processes that are threads; returns how many checks failed. */
static inline int run_threads(int n, void (*run)(struct process *me), void *argument)
{
	struct meeting *m = meeting_open(n);
	struct process all[MOST_PROCESSES];

	for (int p = 0; p < n; p++) {
		all[p] = (struct process){.meeting = m,
					  .launch = meeting_launch(m, p),
					  .run = run,
					  .argument = argument};
		if (pthread_create(&all[p].thread, NULL, process_thread, &all[p]) != 0)
			abort();
	}
	for (int p = 0; p < n; p++)
		pthread_join(all[p].thread, NULL);
	return meeting_close(m);
}

/* N processes; all[] knows their ids. They end with 0 unless they are killed. */
static inline struct meeting *start_forks(struct process *all, int n, void (*run)(struct process *),
					  void *argument)
{
	struct meeting *m = meeting_open(n);

	fflush(NULL);
	for (int p = 0; p < n; p++) {
		all[p] = (struct process){.meeting = m,
					  .launch = meeting_launch(m, p),
					  .run = run,
					  .argument = argument};
		all[p].pid = fork();
		if (all[p].pid < 0)
			abort();
		if (all[p].pid > 0)
			continue;
		alarm(500); /* whatever happens, nothing stays */
		run(&all[p]);
		fflush(NULL);
		_exit(0);
	}
	return m;
}

/* What became of the process: its exit status, or 256 and the signal that killed it. */
static inline int await_fork(const struct process *p)
{
	int status = 0;

	if (waitpid(p->pid, &status, 0) != p->pid)
		abort();
	return WIFSIGNALED(status) ? 256 + WTERMSIG(status) : WEXITSTATUS(status);
}

#endif
