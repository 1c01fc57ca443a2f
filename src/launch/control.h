/*
 * control.h - messages between the processes of a run, independent of the measured library: a
 * process failed and why, a process is gone, the progress of each. They work even if that library
 * is stuck.
 *
 * The control channel is a star of TCP connections around process 0. Only process 0 reports to the
 * user: a process that fails sends it the cause, and process 0 tells all others that the run is
 * over. Nothing is sent while nothing fails.
 *
 *   control.c  messages received and sent, and the opening of the connections
 *   star.c     connecting and admitting processes, also for the tcp launch
 *   wire.c     frames over one connection
 *
 * Once open, a control channel belongs to one thread at a time. A channel that is NULL, as with one
 * process, receives and sends nothing.
 */
#ifndef BB_LAUNCH_CONTROL_H
#define BB_LAUNCH_CONTROL_H

#include "launch/launch.h"
#include "launch/secret.h"

#include <stdint.h>

struct bb_control;

/*
 * Connect all processes of LAUNCH within TIMEOUT_S (more than 0) seconds; collective over them. The
 * launch carries the addresses of process 0 and a password, so that no stranger can join; with
 * SECRET (NULL: none) both sides of each connection also prove that they know it. Fails in all
 * processes alike, naming the process that could not connect, unless the launch breaks
 * (launch.broken). *CONTROL is NULL for a launch of one process.
 */
BB_MUST bb_status bb_control_open(struct bb_control **control, struct bb_launch *launch,
				  const struct bb_secret *secret, double timeout_s,
				  struct bb_error *error);
/*
 * Say goodbye, so that other processes do not report a failure. Also for a process whose drivers
 * are stuck and that will just _exit.
 */
void bb_control_close(struct bb_control *control);

enum bb_news_kind {
	BB_NEWS_NONE,
	BB_NEWS_FAILED,   /* at process 0: process PROC failed with STATUS, TEXT says why */
	BB_NEWS_LEFT,     /* at process 0: process PROC leaves because of SIGNAL */
	BB_NEWS_PROGRESS, /* at process 0: RANK of process PROC has ENTERED that many collectives
			   and is still INSIDE the last one, or not */
	BB_NEWS_STOP,     /* elsewhere: the run is over, with STATUS or because of SIGNAL (not 0) */
	BB_NEWS_REQUEST,  /* elsewhere: request for the progress of this process's ranks */
	BB_NEWS_GONE      /* process PROC (elsewhere: process 0) ended without goodbye, or was
			     disconnected because of what TEXT says; the last news of it */
};

#define BB_NEWS_TEXT BB_ERROR_TEXT
/* After the name of a process, if nothing says more. */
#define BB_NEWS_GONE_WHY "is gone: its process ended without reporting a cause"

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

/* *NEWS = the next message; BB_NEWS_NONE, at once, if there is none. */
void bb_control_poll(struct bb_control *control, struct bb_news *news);

/* Is there a connection to process PROC, as far as the received messages say? */
bool bb_control_reaches(const struct bb_control *control, int proc);

/*
 * None of these waits. A process that has not read for so long that its connection is full is given
 * up; it will report this process as gone.
 */
/* Elsewhere than at process 0. TEXT is cut at BB_NEWS_TEXT - 1 bytes. */
void bb_control_send_failed(struct bb_control *control, bb_status status, const char *text);
void bb_control_send_left(struct bb_control *control, int signal);
void bb_control_send_progress(struct bb_control *control, int rank, uint64_t entered, bool inside);
/* At process 0, to all others. */
void bb_control_send_stop(struct bb_control *control, bb_status status, int signal);
void bb_control_request_progress(struct bb_control *control);

#endif
