/*
 * control_inside.h - the control channel from inside.
 */
#ifndef BB_LAUNCH_CONTROL_INSIDE_H
#define BB_LAUNCH_CONTROL_INSIDE_H

#include "launch/wire.h"

#include <sys/epoll.h>

struct bb_control {
	int proc;
	int epoll;
	int nwires;                    /* NPROCS at process 0, else 1 */
	struct bb_wire *wires;         /* to process i; process 0 has none to itself */
	struct epoll_event events[64]; /* data: the wire */
	int nevents, next;             /* number of events, and the next to handle */
};

#endif
