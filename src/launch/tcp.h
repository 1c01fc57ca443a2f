/*
 * tcp.h - the launch over TCP from inside: a star around process 0.
 *
 *   tcp_open.c  the variables, and the opening
 *   tcp.c       exchanges of an open launch
 */
#ifndef BB_LAUNCH_TCP_H
#define BB_LAUNCH_TCP_H

#include "launch/launch.h"
#include "launch/star.h"
#include "launch/wire.h"

#include <poll.h>
#include <stdatomic.h>

#define BB_TCP_MOST_PROCESSES (1 << 20)

struct bb_tcp_environment {
	int proc, nprocs;
	int local; /* LOCAL_RANK; -1: not set */
	/* Not set with one process: */
	const char *master; /* MASTER_ADDR */
	uint16_t port;      /* that process 0 listens on */
	const char *source; /* of the port, in words */
};

/* BB_EUSAGE names the missing or wrong variable and a correct value. */
BB_MUST bb_status bb_tcp_environment_read(struct bb_tcp_environment *environment,
					  struct bb_error *error);

/* A transfer between this process and another, after a frame that holds its length. */
struct bb_tcp_transfer {
	char *data;
	size_t bytes, done; /* of the data; a sender counts the head in DONE */
	bool headed;        /* the head has arrived */
	struct bb_frame head;
};

/* One process of an open launch. */
struct bb_tcp {
	int proc, nprocs;
	int nwires;             /* NPROCS at process 0, else 1 */
	struct bb_wire *wires;  /* to process i; process 0 has none to itself */
	struct bb_hello *hello; /* the hello of each, likewise */
	struct bb_tcp_transfer *transfers;
	struct pollfd *fds;
	/* A transfer with this process is not complete. Another thread may read it. */
	atomic_bool *awaited;
	bool secured; /* at process 0: every process proved that it knows the secret */
	bool reports; /* elsewhere than at process 0: reports for its host if process 0 cannot */
	char note[400];
	char cause[112 + BB_PAYLOAD_WHY];
};

struct bb_tcp *bb_tcp_new(int proc, int nprocs); /* without connections; NULL: out of memory */
void bb_tcp_release(struct bb_tcp *tcp);         /* NULL: nothing */

/* The launch of an opened TCP, which it owns from now on. */
struct bb_launch bb_tcp_launch(struct bb_tcp *tcp);

/* TEXT = "process 2 (h2, pid 4711)", from its HELLO. Returns TEXT. */
const char *bb_tcp_name(char text[112], const struct bb_hello *hello);

/* At process 0: tell all connected processes that the run is over, with STATUS. Never waits. */
void bb_tcp_send_stop(struct bb_tcp *tcp, bb_status status);

#endif
