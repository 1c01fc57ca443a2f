/*
 * drivers.h - the drivers of this process: one thread per local rank, the first of them the
 * caller's. They exchange data outside the measured collectives, and a watch on a thread of its own
 * sees to it that nothing hangs.
 */
#pragma once

#include "backends/backend.h"
#include "core/strbuf.h"
#include "launch/control.h"
#include "launch/launch.h"

#include <pthread.h>

enum bb_phase {
	BB_PHASE_BETWEEN, /* attaching to the backend, preparing, filling, verifying */
	BB_PHASE_INSIDE,  /* in a collective */
	BB_PHASE_ENDED    /* its thread has ended, finished or not */
};

/* The state of a driver, for the watch. */
struct bb_progress {
	_Alignas(64) atomic_int phase;
	atomic_ullong entered; /* collectives entered so far */
	atomic_bool finished;
};

struct bb_drivers; /* shared by the drivers */

/* One driver's view. */
struct bb_driver {
	struct bb_drivers *drivers;
	int local; /* index in this process */
	int rank;  /* in the world */
	struct bb_rank *handle;
	struct bb_location location;
	struct bb_group *world; /* of all ranks, while it is open; see bb_run_open_world */
	struct bb_progress *progress;
	pthread_t thread; /* unless it is the first, whose thread is the caller's */
};

struct bb_drivers_outcome {
	/* The signal (SIGHUP, SIGINT, SIGTERM) that ended the run, here or at process 0; 0: another
	   cause. A launcher that loses a process ends the others by a signal: that is no cause. */
	int caught;
	bool stuck; /* a driver did not return */
	/* Another process reports the cause to the user. */
	bool silent;
};

struct bb_drivers_config {
	struct bb_launch *launch;
	struct bb_control *control; /* used by the watch while the drivers run; NULL: one process */
	/* Every process drives as many ranks as this one, together all of them; of virtual ranks
	   only rank 0 is driven. */
	const struct bb_world *world;
	const struct bb_backend *backend;
	struct bb_context *context;
	uint64_t timeout_ns; /* for start-up and for each deadline; 0: none */
	struct bb_error *error;
	bool speaks_for_host;        /* the lowest process but 0 of its host */
	struct bb_drivers **drivers; /* set, for bb_drivers_exchange; NULL: not needed */
	/* The work of a driver, on its own thread, attached to the backend. */
	bb_status (*drive)(struct bb_driver *driver, void *argument);
	/* Appends the name of process PROC of several: "rank 3 (h4, pid 4711)". Called on the
	   watch's thread at any time. */
	void (*name)(void *argument, int proc, struct bb_strbuf *out);
	/* A driver, perhaps the caller of bb_drivers_run, does not return: close the control
	   channel and end the process with _exit. What drivers use must not be freed. Called on the
	   watch's thread. */
	void (*leave)(void *argument, const struct bb_drivers_outcome *outcome);
	void *argument;
};

#define BB_WHAT_TEXT 64 /* of the subject of a deadline */

/* How far a rank has come. */
struct bb_rank_progress {
	bool known; /* else its process did not answer */
	bool inside;
	unsigned long long entered;
};

struct bb_drivers { /* the members are drivers.c's own */
	const struct bb_drivers_config *config;
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
	bb_status exchanged;               /* status of the exchange between processes */
	struct bb_drivers_outcome outcome; /* the watch's, until it has ended */
	atomic_int quitter; /* 1 + the driver that abandoned the run first; 0: none */
	struct bb_driver *list;
	struct bb_progress *progress;
	struct bb_rank_progress *ranks; /* process 0: of the world, as far as known */
};

/*
 * Run the drivers to their end, or leave the process by config->leave. config->error has the first
 * cause of a failure: of a driver, a driver that ended without finishing, of another process, a
 * lost process, or a deadline that passed, with the ranks that had arrived and those that had not.
 * With several processes, process 0 reports the first cause. All processes end soon after one
 * failed or is lost, and within the deadline plus 4 seconds if one hangs.
 */
struct bb_drivers_outcome bb_drivers_run(const struct bb_drivers_config *config);

/* Begin a new deadline for WHAT ("ring at 512M"; cut at BB_WHAT_TEXT - 1 bytes). Only the call of
   the first local driver counts. */
void bb_driver_deadline(struct bb_driver *driver, const char *what);

/* Wait for all drivers of the world. BB_ETIMEOUT once the run is being abandoned. */
BB_MUST bb_status bb_driver_barrier(struct bb_driver *driver);

/*
 * *ALL = the COUNT payloads of every rank of the world, in rank order, each checked by TABLE; valid
 * until this driver's next exchange. COUNT, more than 0, is the same on all. Virtual ranks that
 * nobody drives contribute the payloads of rank 0.
 */
BB_MUST bb_status bb_driver_gather(struct bb_driver *driver, const struct bb_payload *table,
				   const void *mine, size_t count, const void **all);

/* VALUES[0, n), this rank's own, become the largest of any rank, each checked by TABLE, a payload
   of a double. Collective over the world. */
BB_MUST bb_status bb_driver_most(struct bb_driver *driver, const struct bb_payload *table,
				 double *values, size_t n);

/*
 * The same as bb_driver_gather for the drivers of process 0 alone; *all is NULL on the others,
 * which do not wait for it.
 */
BB_MUST bb_status bb_driver_collect(struct bb_driver *driver, const struct bb_payload *table,
				    const void *mine, size_t count, const void **all);

/*
 * OBJECTION = the first one by rank, the same on all; empty: no rank has one. Collective over the
 * world.
 */
#define BB_OBJECTION_TEXT 160
BB_MUST bb_status bb_driver_share_objection(struct bb_driver *driver,
					    char objection[BB_OBJECTION_TEXT]);

/*
 * The gather of struct bb_exchange, for a backend that was opened before the drivers. OWN is
 * config->drivers, which must be set by then.
 */
bb_status bb_drivers_exchange(void *own, int local, const struct bb_payload *table,
			      const void *mine, void *all);

/*
 * Abandon the run, so that no driver waits in the backend any more. A driver that fails calls this
 * before it closes what others may wait for.
 */
void bb_driver_abandon(struct bb_driver *driver);

/*
 * The last call of a driver whose work returned STATUS. With BB_OK it is a barrier, so that no
 * driver frees what others may still read; else the run is abandoned. Returns STATUS, or that of
 * the barrier.
 */
BB_MUST bb_status bb_driver_finish(struct bb_driver *driver, bb_status status);

/* Let SECONDS pass on the driver's clock; less once the run is being abandoned. */
void bb_driver_delay(struct bb_driver *driver, double seconds);

/* True once the run is being abandoned. From any thread. */
bool bb_driver_is_stopping(const struct bb_driver *driver);

static inline bool bb_driver_leads(const struct bb_driver *driver)
{
	return driver->rank == 0;
}
