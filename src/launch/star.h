/*
 * star.h - how the connections of a star come about: process 0 listens, every other process tries
 * all addresses of it at once and keeps the first where it is answered by who belongs to the run.
 * Who says nothing, or nonsense, holds nobody up: it is sent away and counted.
 */
#ifndef BB_LAUNCH_STAR_H
#define BB_LAUNCH_STAR_H

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

struct bb_stranger; /* a connection that is not one yet */

/* Connections that process 0 sent away. */
enum bb_dropped {
	BB_DROPPED_SILENT,   /* nothing came, or the place was needed */
	BB_DROPPED_NOISE,    /* what came is no hello of this run */
	BB_DROPPED_UNPROVEN, /* it did not prove that it knows the secret */
	BB_DROPPED_MISFIT,   /* counted by the owner: it does not fit the run */
	BB_DROPPED_KINDS
};

/* Zero-initialise; bb_star_open fills in what is below the line. */
struct bb_star {
	struct bb_identity identity;
	double end; /* on the monotonic clock: nobody waits any longer */
	/*
	 * Process 0: FD leads to who says HELLO and has proved what it must. Returns 0 if it is
	 * taken, after an answer by bb_star_answer; an errno if it cannot be, -1 to send it away.
	 */
	int (*take)(struct bb_star *star, const struct bb_hello *hello, int fd);
	void *own;

	int epoll; /* process 0's, as all below */
	int listeners[BB_STAR_ADDRESSES], nlisteners;
	struct bb_stranger *strangers; /* who came; elsewhere: one per address of process 0 */
	int nstrangers;
	struct bb_stranger *taken; /* while TAKE looks at it */
	int dropped[BB_DROPPED_KINDS];
};

/* What can fail in this process alone. Returns an errno; close whatever comes back. */
int bb_star_open(struct bb_star *star);
void bb_star_close(struct bb_star *star);

/*
 * Process 0: listen on those of N addresses that are this host's; N 0: on all that it has, of both
 * kinds where there are both. *PORT 0, with N 0 only: on any port, which is then told. Returns an
 * errno, EADDRNOTAVAIL if none of them is this host's.
 */
int bb_star_listen(struct bb_star *star, const struct bb_address *addresses, int n, uint16_t *port);
/* Process 0: let in who comes, for a second or until the end. Returns an errno if somebody of the
   run could not be taken: the others may yet make room. */
int bb_star_receive(struct bb_star *star);
BB_MUST bool bb_star_answer(struct bb_star *star);
/* Process 0: who is here and has not come to a hello counts as silent from now on. */
void bb_star_count_silent(struct bb_star *star);

/* Elsewhere: the way to process 0, one of N addresses, and what it says. Returns an errno, those of
   greet.h among them: what tells most about why the first address did not lead there. */
int bb_star_reach(struct bb_star *star, const struct bb_address *addresses, int n, int *fd,
		  struct bb_hello *hello);

#endif
