/*
 * control.h - what the processes of a run tell each other beside the library that they measure:
 * that one failed and why, that one is gone, how far each has come. It works on when that library
 * is stuck.
 *
 * A star of TCP connections around process 0. Process 0 alone speaks to the user: whoever fails
 * tells it why, and it tells all others that the run is over. Nothing is sent while all goes well.
 */
#ifndef BB_LAUNCH_CONTROL_H
#define BB_LAUNCH_CONTROL_H

#include "launch/launch.h"

#include <stdint.h>

struct bb_control;

/*
 * Connect all processes of LAUNCH; collective over them. The address of process 0 and a secret
 * travel through the launch, so that nobody else can join. Fails in all processes alike, naming the
 * one that could not connect. *CONTROL is NULL for a launch of one process.
 */
BB_MUST bb_status bb_control_open(struct bb_control **control, struct bb_launch *launch,
				  double timeout_s, struct bb_error *error);
/* Says goodbye, so that nobody takes this for a failure. NULL: nothing. */
void bb_control_close(struct bb_control *control);

enum bb_news_kind {
	BB_NEWS_NONE,
	BB_NEWS_FAILED, /* at process 0: process PROC failed with STATUS, TEXT says why */
	BB_NEWS_GONE,   /* process PROC went without goodbye (elsewhere than at 0: process 0) */
	BB_NEWS_STOP,   /* elsewhere than at 0: the run is over with STATUS */
	BB_NEWS_ASKED,  /* elsewhere than at 0: answer how far this process has come */
	BB_NEWS_ANSWER  /* at process 0: process PROC has ENTERED so many collectives, INSIDE or not
			 */
};

struct bb_news {
	enum bb_news_kind kind;
	int proc;
	bb_status status;
	uint64_t entered;
	bool inside;
	char text[512];
};

/* The next thing that was heard; BB_NEWS_NONE at once when there is nothing. One thread. */
void bb_control_poll(struct bb_control *control, struct bb_news *news);

/* Never wait long for a slow receiver; what cannot be delivered is dropped. */
void bb_control_tell_failed(struct bb_control *control, bb_status status, const char *text);
void bb_control_tell_stop(struct bb_control *control, bb_status status); /* process 0 */
void bb_control_ask(struct bb_control *control);                         /* process 0 */
void bb_control_answer(struct bb_control *control, uint64_t entered, bool inside);

#endif
