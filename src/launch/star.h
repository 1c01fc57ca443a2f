/*
 * star.h - how the connections of a star come about: process 0 listens, every other process tries
 * all addresses of it at once and keeps the first where it is answered by who knows the secret.
 * Who says nothing, or nonsense, holds nobody up.
 */
#ifndef BB_LAUNCH_STAR_H
#define BB_LAUNCH_STAR_H

#include "core/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/*
 * The first words on a connection, in both directions, in the words of the machine. Other versions
 * of busbench read them too: their layout stays.
 */
#define BB_HELLO_MAGIC 0x62624831u

struct bb_hello {
	uint32_t magic;
	int32_t proc; /* who speaks */
	unsigned char secret[16];
	int32_t nprocs; /* that it takes for the number of all processes */
	int32_t pid;
	uint64_t nonce; /* of the process: two may have the same host and pid */
	char version[32];
	char host[64];
};

/* Where process 0 may be reached. */
struct bb_address {
	struct sockaddr_storage to;
	socklen_t length;
};

#define BB_STAR_ADDRESSES 16

struct bb_stranger; /* a connection that is not one yet */

/* Zero-initialise; bb_star_open fills in what is below the line. */
struct bb_star {
	struct bb_hello hello;       /* what this process says: all but magic and secret */
	unsigned char secret[2][16]; /* of who comes, and of who answers */
	double end;                  /* on the monotonic clock: nobody waits any longer */
	/*
	 * Process 0: FD leads to who says HELLO and knows the secret. Returns 0 if it is taken,
	 * after an answer by bb_star_answer; an errno if it cannot be, -1 to send it away.
	 */
	int (*take)(struct bb_star *star, const struct bb_hello *hello, int fd);
	void *own;

	int listener, epoll;           /* process 0's */
	struct bb_stranger *strangers; /* who came; elsewhere: one per address of process 0 */
	int nstrangers;
};

/* What can fail in this process alone. Returns an errno; close whatever comes back. */
int bb_star_open(struct bb_star *star);
void bb_star_close(struct bb_star *star);

/*
 * Process 0: listen on all addresses, of both kinds where there are both. *PORT 0: on any port,
 * which is then told. Returns an errno.
 */
int bb_star_listen(struct bb_star *star, uint16_t *port);
/* Process 0: let in who comes, for a second or until the end. Returns an errno if somebody of the
   run could not be taken: the others may yet make room. */
int bb_star_receive(struct bb_star *star);
bool bb_star_answer(struct bb_star *star, int fd);

/* Elsewhere: the way to process 0, one of N addresses, and what it says. Returns an errno: why the
   first address did not lead there. */
int bb_star_reach(struct bb_star *star, const struct bb_address *addresses, int n, int *fd,
		  struct bb_hello *hello);

#endif
