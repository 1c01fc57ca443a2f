/*
 * crew_watch.h - a crew from inside, for the watch over it.
 */
#ifndef BB_HARNESS_RUN_CREW_WATCH_H
#define BB_HARNESS_RUN_CREW_WATCH_H

#include "harness/run/crew.h"

#include <signal.h>

/* How far a rank has come. */
struct bb_rank_progress {
	bool known; /* else its process did not answer */
	bool inside;
	unsigned long long entered;
};

struct bb_crew {
	const struct bb_crew_config *config;
	pthread_mutex_t
		lock; /* of all up to WHAT; never held while other processes are waited for */
	pthread_cond_t changed;
	int waiting;             /* drivers at the barrier */
	unsigned passed;         /* barriers passed */
	double deadline;         /* on the monotonic clock; 0: none */
	char what[BB_WHAT_TEXT]; /* the deadline is for */
	atomic_int stop;         /* the run is being abandoned */
	/* Of the drivers' exchange under way: what all give, and what this process gives. */
	char *gathered, *given; /* GIVEN lies behind GATHERED */
	size_t capacity;
	bb_status exchanged; /* what it came to between the processes */
	pthread_t watch;
	struct bb_crew_outcome outcome; /* the watch's, until it has ended */
	atomic_int quitter;             /* 1 + the driver that abandoned the run first; 0: none */
	struct bb_driver *drivers;
	struct bb_progress *progress;
	struct bb_rank_progress *ranks; /* process 0: as far as is known, of the world */
};

/* Have all drivers come to their end? */
bool bb_crew_ended(const struct bb_crew *crew);

/* Watch until all drivers ended, or had their time to. SIGINT and SIGTERM are blocked in all
   threads. */
struct bb_crew_outcome bb_watch_run(struct bb_crew *crew);

/* Tell the other processes what config->error says, where there is no crew yet. */
void bb_watch_tell(const struct bb_crew_config *config);

/* ---- the report of a deadline (crew_report.c) ----------------------------------------------- */

/* What a user calls process PROC. */
void bb_report_name(const struct bb_crew_config *config, int proc, struct bb_strbuf *out);

/*
 * Put into config->error that WHAT exceeded its time, and which ranks of the world had arrived at
 * the last collective, which had not, and which processes say nothing. RANKS: of the world.
 */
void bb_report_deadline(const struct bb_crew_config *config, const char *what,
			const struct bb_rank_progress *ranks);

#endif
