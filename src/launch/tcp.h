/*
 * tcp.h - the launch over TCP from inside: a star around process 0.
 *
 *   tcp_environment.c  what the variables say
 *   tcp_open.c         how the processes come together
 *   tcp_gather.c       process 0's side of that, and why they may not
 *   tcp_join.c         the others'
 *   tcp.c              what they tell each other then
 */
#ifndef BB_LAUNCH_TCP_H
#define BB_LAUNCH_TCP_H

#include "launch/launch.h"
#include "launch/star.h"
#include "launch/wire.h"

#include <poll.h>

#define BB_TCP_MOST_PROCESSES (1 << 20)

struct bb_tcp_environment {
	int proc, nprocs;
	int local; /* LOCAL_RANK; -1: not set */
	/* Of one process nothing more is read. */
	const char *master; /* MASTER_ADDR */
	uint16_t port;      /* that process 0 listens on */
	const char *source; /* of the port, in words */
};

/* BB_EUSAGE names the variable that is missing or wrong, and what would be right. */
BB_MUST bb_status bb_tcp_environment_read(struct bb_tcp_environment *environment,
					  struct bb_error *error);

/* Bytes on their way between this process and another, behind a frame that says how many. */
struct bb_tcp_transfer {
	char *data;
	size_t bytes, done; /* of the data; of what is sent, with the head */
	bool headed;        /* the head is here */
	struct bb_frame head;
};

/* One process of an open launch. */
struct bb_tcp {
	int proc, nprocs;
	int nwires;             /* NPROCS at process 0, else 1 */
	struct bb_wire *wires;  /* to process i; process 0 has none to itself */
	struct bb_hello *hello; /* what each said of itself, likewise */
	struct bb_tcp_transfer *transfers;
	struct pollfd *fds;
	bool speaks; /* elsewhere than at process 0: for its host, where process 0 cannot */
	char note[400];
	char cause[112 + BB_PAYLOAD_WHY];
};

struct bb_tcp *bb_tcp_new(int proc, int nprocs); /* without connections; NULL: out of memory */
void bb_tcp_release(struct bb_tcp *tcp);         /* NULL: nothing */

/* The functions of a launch whose connections are there; TCP is the launch's from now on. */
struct bb_launch bb_tcp_launch(struct bb_tcp *tcp);

/* "process 2 (h2, pid 4711)", of one that has said hello. */
const char *bb_tcp_name(char text[112], const struct bb_hello *hello);

/* At process 0: to all others that are there, the run is over, with STATUS. Waits for nobody. */
void bb_tcp_tell_stop(struct bb_tcp *tcp, bb_status status);

#endif
