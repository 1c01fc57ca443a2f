/*
 * crew.h - the drivers of this process: one thread per local rank, what they exchange outside
 * the measured collectives, and the watch over them so that nothing hangs for ever.
 */
#ifndef BB_HARNESS_CREW_H
#define BB_HARNESS_CREW_H

#include "backends/backend.h"
#include "launch/launch.h"

#include <pthread.h>

enum bb_phase {
	BB_PHASE_STARTING, /* attaching to the backend */
	BB_PHASE_BETWEEN,  /* preparing, filling, verifying */
	BB_PHASE_INSIDE,   /* in a collective */
	BB_PHASE_FINISHED, /* done with everything */
	BB_PHASE_ENDED     /* its thread is gone, finished or not */
};

/* What a driver is doing, for the watch. */
struct bb_progress {
	_Alignas(64) atomic_int phase;
	atomic_ullong entered; /* collectives entered so far */
	atomic_bool finished;
};

struct bb_crew; /* shared by the drivers */

/* One driver's view. */
struct bb_driver {
	struct bb_crew *crew;
	int local; /* index in this process */
	int rank;  /* in the world */
	struct bb_rank *handle;
	struct bb_progress *progress;
};

struct bb_crew_config {
	struct bb_launch *launch;
	const struct bb_world *world;
	const struct bb_backend *backend;
	struct bb_context *context;
	uint64_t timeout_ns; /* for start-up and for each deadline; 0: none */
	struct bb_error *error;
	/* What a driver does; ARGUMENT as given. Runs on the driver's own thread, attached. */
	bb_status (*drive)(struct bb_driver *driver, void *argument);
	void *argument;
};

/*
 * Run the drivers to their end. Returns 0, or the number of the signal (SIGINT, SIGTERM) that
 * ended the run. The first cause of a failure is in config->error: a driver's own, a driver that
 * ended without finishing, or a deadline that passed, with the ranks that had arrived and those
 * that had not. *stuck is set if a driver did not let go: its memory must then not be freed, and
 * the process can only _exit.
 */
int bb_crew_run(const struct bb_crew_config *config, bool *stuck);

/* A new deadline from now on, for WHAT (borrowed; "512M ring"). By the first local driver. */
void bb_crew_deadline(struct bb_driver *driver, const char *what);

/* Wait for all drivers of the world. BB_ETIMEOUT once the run is being abandoned. */
BB_MUST bb_status bb_crew_barrier(struct bb_driver *driver);

/*
 * *all = what every rank of the world gave, in rank order, nranks * bytes; valid until this
 * driver's next call here. BYTES is the same on all.
 */
BB_MUST bb_status bb_crew_gather(struct bb_driver *driver, const void *mine, size_t bytes,
				 const void **all);

static inline bool bb_driver_leads(const struct bb_driver *driver)
{
	return driver->rank == 0;
}

#endif
