/*
 * greet.h - how two processes get to know each other over a new connection.
 *
 *   without a secret            with BUSBENCH_SECRET
 *   1 -> 0  hello               1 -> 0  hello, challenge
 *   0 -> 1  hello               0 -> 1  hello, challenge
 *                               1 -> 0  proof
 *                               0 -> 1  proof
 *
 * A proof covers who proves, both hellos and both challenges, so that none can be used again or for
 * another connection. Process 0 proves last: a stranger at its port gets nothing to guess from.
 */
#ifndef BB_LAUNCH_GREET_H
#define BB_LAUNCH_GREET_H

#include "core/payload.h"
#include "launch/secret.h"

#include <stdint.h>

#define BB_HELLO_PLAIN 0x62624831u
#define BB_HELLO_SECURED 0x62624832u /* a challenge follows */

/*
 * The first words on a connection, in both directions, in the words of the machine. Other versions
 * of busbench read them too: their layout stays.
 */
struct bb_hello {
	uint32_t magic;
	int32_t proc; /* who speaks */
	unsigned char password[16];
	int32_t nprocs; /* that it takes for the number of all processes */
	int32_t pid;
	uint64_t nonce; /* of the process: two may have the same host and pid */
	char version[32];
	char host[64];
};

extern const struct bb_payload bb_hello_table;

enum bb_side { BB_SIDE_COMER, BB_SIDE_HOST }; /* who comes, and process 0 */

/* What a process says of itself on each connection. */
struct bb_identity {
	struct bb_hello hello; /* all but magic and password */
	/* Of who comes and of who answers. Not secret from those who can listen on the network. */
	unsigned char password[2][16];
	const struct bb_secret *secret; /* NULL: none */
};

struct bb_greeting {
	struct bb_hello hello;
	unsigned char challenge[BB_SECRET_PROOF];
};

/* One connection on its way; zero-initialise. */
struct bb_greet {
	enum { BB_GREET_HELLO, BB_GREET_PROOF, BB_GREET_DONE } stage; /* what is heard next */
	size_t got;                                                   /* bytes of it */
	struct bb_greeting mine, theirs;
	unsigned char proof[BB_SECRET_PROOF]; /* theirs */
	/*
	 * Why it failed, an errno: ENOKEY: the other side has a secret, this one has none;
	 * EKEYREJECTED: the other side did not prove that it knows the secret; EPROTO: what it said
	 * is no hello; another: the connection is broken.
	 */
	int error;
};

/* In words for the user, what such an errno says of process 0. */
const char *bb_greet_explain(int error);

/* Send the hello of side ME, at once or not at all. False: it cannot be sent. */
BB_MUST bool bb_greet_send(struct bb_greet *greet, const struct bb_identity *identity, int fd,
			   enum bb_side me);
/* Send the proof of side ME; a hello must have been sent and heard. */
BB_MUST bool bb_greet_prove(struct bb_greet *greet, const struct bb_identity *identity, int fd,
			    enum bb_side me);
/* What the other side than ME says in this stage, which it brings forward: 1: all of it; 0: not all
   of it is there; -1: this leads nowhere (error). */
BB_MUST int bb_greet_hear(struct bb_greet *greet, const struct bb_identity *identity, int fd,
			  enum bb_side me);

#endif
