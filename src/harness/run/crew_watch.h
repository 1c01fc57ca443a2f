/*
 * crew_watch.h - the members of a crew, for the watch over it.
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
	/* Guards the members up to WHAT; never held while waiting for other processes. */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int waiting;     /* drivers at the barrier */
	unsigned passed; /* barriers passed */
	double deadline; /* on the monotonic clock; 0: none */
	double deadline_began;
	char what[BB_WHAT_TEXT]; /* subject of the deadline */
	atomic_int stop;         /* the run is being abandoned */
	/* The current exchange: payloads of all ranks, and behind them those of this process. */
	char *gathered, *given;
	size_t capacity;
	bb_status exchanged; /* status of the exchange between processes */
	pthread_t watch;
	struct bb_crew_outcome outcome; /* the watch's, until it has ended */
	atomic_int quitter;             /* 1 + the driver that abandoned the run first; 0: none */
	struct bb_driver *drivers;
	struct bb_progress *progress;
	struct bb_rank_progress *ranks; /* process 0: of the world, as far as known */
};

/* True if all drivers have ended. */
bool bb_crew_ended(const struct bb_crew *crew);

/* Watch until all drivers have ended or their time for it is over. SIGHUP, SIGINT and SIGTERM are
   blocked in all threads. */
struct bb_crew_outcome bb_watch_run(struct bb_crew *crew);

/* Send config->error to the other processes; without a crew, too. */
void bb_watch_tell(const struct bb_crew_config *config);

#endif
