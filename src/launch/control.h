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
#pragma once

#include "launch/launch.h"
#include "launch/secret.h"
#include "launch/wire.h"

#include <sys/epoll.h>

struct bb_control { /* the members are control.c's own */
	int proc;
	int epoll;
	int nwires;                    /* NPROCS at process 0, else 1 */
	struct bb_wire *wires;         /* to process i; process 0 has none to itself */
	struct epoll_event events[64]; /* data: the wire */
	int nevents, next;             /* number of events, and the next to handle */
};

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

/* The next message, and the process *PROC that it is from (elsewhere than at process 0: process 0);
   NULL, at once, if there is none. It is valid until the next call. */
const struct bb_frame *bb_control_poll(struct bb_control *control, int *proc);

/* Is there a connection to process PROC, as far as the received messages say? */
bool bb_control_reaches(const struct bb_control *control, int proc);

/* Send MESSAGE with TEXT as bb_wire_send does: to process 0, from there to all others. */
void bb_control_send(struct bb_control *control, struct bb_frame *message, const char *text);
