/*
 * meeting.h - the exchange that a backend of GPUs is given, between the threads of a test.
 */
#ifndef BB_TESTS_MEETING_H
#define BB_TESTS_MEETING_H

#include "backends/backend.h"

#include <pthread.h>

#define MEETING_BYTES 8192 /* that all ranks together may give */

struct meeting {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int n;
	int waiting;
	unsigned passed;
	bool stopped; /* the run is being abandoned */
	char gathered[MEETING_BYTES];
};

void meeting_open(struct meeting *meeting, int n);
void meeting_close(struct meeting *meeting);
void meeting_stop(struct meeting *meeting);
struct bb_exchange meeting_exchange(struct meeting *meeting);

extern const struct bb_backend bb_plugin_backend; /* what is tested */

#endif
