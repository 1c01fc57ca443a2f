/*
 * greet.h - how two processes identify each other over a new connection.
 *
 *   without a secret            with BUSBENCH_SECRET
 *   1 -> 0  hello               1 -> 0  hello, challenge
 *   0 -> 1  hello               0 -> 1  hello, challenge
 *                               1 -> 0  proof
 *                               0 -> 1  proof
 *
 * A proof covers the prover's side, both hellos and both challenges, so it cannot be reused, not
 * even for another connection. Process 0 proves last: a stranger at its port learns nothing from
 * which it could guess the secret.
 */
#pragma once

#include "core/payload.h"
#include "launch/secret.h"
#include "launch/wire.h"

#include <stdint.h>

#define BB_HELLO_PLAIN 0x62624831u
#define BB_HELLO_SECURED 0x62624832u /* a challenge follows */

/*
 * The first data on a connection, in both directions, in native byte order. Other versions of
 * busbench read it too, so its layout never changes.
 */
struct bb_hello {
	uint32_t magic;
	int32_t proc; /* the sender */
	unsigned char password[16];
	int32_t nprocs; /* that the sender expects in all */
	int32_t pid;
	uint64_t nonce; /* of the process: two may have the same host and pid */
	char version[32];
	char host[64];
};

enum bb_side { BB_SIDE_CLIENT, BB_SIDE_SERVER }; /* the connecting process, and process 0 */

/* What a process sends on each connection. */
struct bb_identity {
	struct bb_hello hello; /* all but magic and password */
	/* Of the connecting and the answering side; anyone on the network can read them. */
	unsigned char password[2][16];
	const struct bb_secret *secret; /* NULL: none */
};

struct bb_greeting {
	struct bb_hello hello;
	unsigned char challenge[BB_SECRET_PROOF];
};

/* One connection during identification; zero-initialise. */
struct bb_greet {
	enum { BB_GREET_HELLO, BB_GREET_PROOF, BB_GREET_DONE } stage; /* expected next */
	size_t got;                                                   /* bytes of it */
	struct bb_greeting mine, theirs;
	unsigned char proof[BB_SECRET_PROOF]; /* theirs */
	/*
	 * Why it failed, an errno: ENOKEY: the other side has a secret, this one has none;
	 * EKEYREJECTED: the other side did not prove that it knows the secret; EPROTO: its data is
	 * no hello; any other: the connection broke.
	 */
	int error;
};

/* Such an errno, about process 0, in words for the user. */
const char *bb_greet_explain(int error);

/* Send the hello of side ME, all of it or nothing. False: it cannot be sent. */
BB_MUST bool bb_greet_send(struct bb_greet *greet, const struct bb_identity *identity, int fd,
			   enum bb_side me);
/* Send the proof of side ME; hellos must have been exchanged before. */
BB_MUST bool bb_greet_prove(struct bb_greet *greet, const struct bb_identity *identity, int fd,
			    enum bb_side me);
/* Receive the data of this stage from the other side than ME. BB_COMPLETE: the stage advances;
   BB_BROKEN: see error. */
BB_MUST enum bb_transit bb_greet_receive(struct bb_greet *greet, const struct bb_identity *identity,
					 int fd, enum bb_side me);
