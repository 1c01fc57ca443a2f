/*
 * control.h - what the processes of a run tell each other beside the library that they measure:
 * that one failed and why, that one is gone, how far each has come. It works on when that library
 * is stuck.
 *
 * A star of TCP connections around process 0. Process 0 alone speaks to the user: whoever fails
 * tells it why, and it tells all others that the run is over. Nothing is sent while all goes well.
 *
 *   control.c          what is heard and told
 *   control_connect.c  how the connections come about
 *   star.c             for them, and for the tcp launch: who comes, and who is let in
 *   wire.c             frames over one connection
 *
 * Once it is open, a control channel belongs to one thread at a time. A channel that is NULL, as
 * with one process, hears nothing and tells nobody.
 */
#ifndef BB_LAUNCH_CONTROL_H
#define BB_LAUNCH_CONTROL_H

#include "launch/launch.h"
#include "launch/secret.h"

#include <stdint.h>

struct bb_control;

/*
 * Connect all processes of LAUNCH within TIMEOUT_S (more than 0) seconds; collective over them. The
 * addresses of process 0 and a password travel through the launch, so that nobody else can join;
 * with SECRET (NULL: none) both sides of each connection prove that they know it as well.
 * Fails in all processes alike, naming the one that could not connect, unless the launch breaks
 * (launch.broken). *CONTROL is NULL for a launch of one process.
 */
BB_MUST bb_status bb_control_open(struct bb_control **control, struct bb_launch *launch,
				  const struct bb_secret *secret, double timeout_s,
				  struct bb_error *error);
/*
 * Says goodbye, so that nobody takes this for a failure. Also for a process whose drivers are stuck
 * and that will just _exit.
 */
void bb_control_close(struct bb_control *control);

enum bb_news_kind {
	BB_NEWS_NONE,
	BB_NEWS_FAILED, /* at process 0: process PROC failed with STATUS, TEXT says why */
	BB_NEWS_LEFT,   /* at process 0: process PROC leaves because of SIGNAL */
	BB_NEWS_ANSWER, /* at process 0: RANK of process PROC has ENTERED so many collectives and is
			   INSIDE the last one or not */
	BB_NEWS_STOP,   /* elsewhere: the run is over, with STATUS or because of SIGNAL (not 0) */
	BB_NEWS_ASKED,  /* elsewhere: answer how far the ranks of this process have come */
	BB_NEWS_GONE    /* process PROC went without goodbye (elsewhere than at 0: process 0), or
			   was sent away because it sent what TEXT says; the last that is heard of
			   it */
};

#define BB_NEWS_TEXT 512

struct bb_news {
	enum bb_news_kind kind;
	int proc;
	bb_status status;
	int signal;
	int rank;
	uint64_t entered;
	bool inside;
	char text[BB_NEWS_TEXT];
};

/* The next thing that was heard; BB_NEWS_NONE at once when there is nothing. */
void bb_control_poll(struct bb_control *control, struct bb_news *news);

/* Of the other end of a connection: has it neither said goodbye nor gone, as far as was heard? */
bool bb_control_reaches(const struct bb_control *control, int proc);

/*
 * None of these waits. Whoever has not read for so long that no more can be told is given up: it
 * will take this process for gone.
 */
/* Elsewhere than at process 0. TEXT is cut at BB_NEWS_TEXT - 1 bytes. */
void bb_control_tell_failed(struct bb_control *control, bb_status status, const char *text);
void bb_control_tell_left(struct bb_control *control, int signal);
void bb_control_answer(struct bb_control *control, int rank, uint64_t entered, bool inside);
/* At process 0, to all others. */
void bb_control_tell_stop(struct bb_control *control, bb_status status, int signal);
void bb_control_ask(struct bb_control *control);

#endif
