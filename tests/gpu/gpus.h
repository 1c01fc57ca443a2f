/*
 * gpus.h - worlds of fake GPUs for tests: opened, closed, and nothing left behind.
 */
#ifndef BB_TESTS_GPUS_H
#define BB_TESTS_GPUS_H

#include "meeting.h"
#include "ranks.h"

struct gpus {
	struct meeting meeting;
	struct ranks ranks;
};

/* N ranks, one on each GPU; CONFIG's exchange is the meeting. Fails the test if it cannot. */
void gpus_open(struct gpus *g, int n, const struct bb_backend_config *config);
/* Fails the test if something was not let go, or used as it may not be. */
void gpus_close(struct gpus *g);
void gpus_left_nothing(void);
/* After an abort: then memory stays. */
void gpus_close_abandoned(struct gpus *g);
/* JOB on N ranks; fails the test if a check does. */
void on_gpus(int n, const struct bb_backend_config *config, ranks_job *job, void *argument);

/* The backend's way of that name; fails the test if there is none. */
const struct bb_native *way_named(const char *name);

#endif
