/*
 * star.h - connecting a star: process 0 listens; every other process tries all its addresses at
 * once and keeps the first at which a process of the run answers. A peer that sends nothing, or
 * nonsense, delays nobody: it is disconnected and counted.
 */
#pragma once

#include "core/status.h"
#include "launch/greet.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* Where process 0 may be reached. */
struct bb_address {
	struct sockaddr_storage to;
	socklen_t length;
};

#define BB_STAR_ADDRESSES 16

/* Append the addresses of HOST and PORT, a name or only a number (NUMERIC), that are not yet among
   the N ADDRESSES. Returns how many there are then; if none were found, *WHY. */
int bb_star_resolve(const char *host, uint16_t port, bool numeric,
		    struct bb_address addresses[BB_STAR_ADDRESSES], int n, const char **why);

struct bb_stranger; /* a connection whose peer is not yet identified */

/* Why process 0 closed a connection. */
enum bb_dropped {
	BB_DROPPED_SILENT,   /* no hello came, or its slot was needed */
	BB_DROPPED_NOISE,    /* the data is no hello of this run */
	BB_DROPPED_UNPROVEN, /* the peer did not prove that it knows the secret */
	BB_DROPPED_MISFIT,   /* counted by the owner: the peer does not fit the run */
	BB_DROPPED_KINDS
};

/* Zero-initialise and set the first four members; bb_star_open sets the others. */
struct bb_star {
	struct bb_identity identity;
	double end; /* on the monotonic clock: all waiting ends */
	/*
	 * Process 0: the peer at FD has sent HELLO and any required proof. Returns 0 to keep the
	 * connection, after bb_star_answer; an errno if it cannot be kept; -1 to close it.
	 */
	int (*admit)(struct bb_star *star, const struct bb_hello *hello, int fd);
	void *own;

	int epoll; /* process 0's, as all below */
	int listeners[BB_STAR_ADDRESSES], nlisteners;
	struct bb_stranger *strangers; /* peers; elsewhere: one per address of process 0 */
	int nstrangers;
	struct bb_stranger *admitted; /* argument of ADMIT, while it runs */
	int dropped[BB_DROPPED_KINDS];
};

/* Allocate STAR. Returns an errno; bb_star_close in any case. */
int bb_star_open(struct bb_star *star);
void bb_star_close(struct bb_star *star);

/*
 * Process 0: listen on those of the N addresses that belong to this host; N 0: on all its
 * addresses, IPv4 and IPv6. *PORT 0, only with N 0: on any port; *PORT becomes that port. Returns
 * an errno, EADDRNOTAVAIL if no address belongs to this host.
 */
int bb_star_listen(struct bb_star *star, const struct bb_address *addresses, int n, uint16_t *port);
/* Process 0: accept peers, for a second or until the end. Returns an errno if a process of the run
   could not be kept: later attempts may succeed. */
int bb_star_receive(struct bb_star *star);
BB_MUST bool bb_star_answer(struct bb_star *star);
/* Process 0: count every open connection without a complete hello as silent. */
void bb_star_count_silent(struct bb_star *star);

/* Elsewhere: connect to process 0 at one of N addresses. *FD = the connection, *HELLO = its hello.
   Returns an errno, also those of greet.h: the most telling failure of the addresses. */
int bb_star_reach(struct bb_star *star, const struct bb_address *addresses, int n, int *fd,
		  struct bb_hello *hello);
