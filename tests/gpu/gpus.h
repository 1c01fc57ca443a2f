/*
 * gpus.h - worlds of GPUs for tests: opened, closed, and nothing left behind. The GPUs are stood in
 * for (gpus_fake.c) or real (gpus_device.c).
 */
#ifndef BB_TESTS_GPUS_H
#define BB_TESTS_GPUS_H

#include "meeting.h"
#include "ranks.h"

struct gpus {
	struct meeting meeting;
	struct ranks ranks;
};

/* How many there are. */
int gpus_count(void);
/* Most ranks that have a GPU each, a power of 2 and at most MOST. */
int gpus_here(int most);

/* N ranks, one on each GPU; CONFIG's exchange is the meeting. Fails the test if it cannot. */
void gpus_open(struct gpus *g, int n, const struct bb_backend_config *config);
/* Fails the test if something was not let go, or used as it may not be. */
void gpus_close(struct gpus *g);
void gpus_left_nothing(void);
/* Let go of what stays as long as the process after a failure. */
void gpus_forget_memory(void);
/* After an abort: then memory stays. */
void gpus_close_abandoned(struct gpus *g);
/* JOB on N ranks; fails the test if a check does. */
void on_gpus(int n, const struct bb_backend_config *config, ranks_job *job, void *argument);

/* The backend's way of that name; fails the test if there is none. */
const struct bb_native *way_named(const char *name);

#endif
