#include "launch/greet.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#define MOST_PROCESSES (1 << 20)

static const struct bb_payload_field hello_fields[] = {
	BB_PAYLOAD_FIELD("the magic", BB_PAYLOAD_UNSIGNED, struct bb_hello, magic,
			 .low = BB_HELLO_PLAIN, .high = BB_HELLO_SECURED),
	BB_PAYLOAD_FIELD("the process", BB_PAYLOAD_SIGNED, struct bb_hello, proc,
			 .high = MOST_PROCESSES - 1),
	BB_PAYLOAD_FIELD("the password", BB_PAYLOAD_ANY, struct bb_hello, password),
	BB_PAYLOAD_FIELD("the number of processes", BB_PAYLOAD_SIGNED, struct bb_hello, nprocs,
			 .low = 1, .high = MOST_PROCESSES),
	BB_PAYLOAD_FIELD("the pid", BB_PAYLOAD_SIGNED, struct bb_hello, pid, .high = INT32_MAX),
	BB_PAYLOAD_FIELD("the nonce", BB_PAYLOAD_ANY, struct bb_hello, nonce),
	BB_PAYLOAD_FIELD("the version", BB_PAYLOAD_TEXT, struct bb_hello, version),
	BB_PAYLOAD_FIELD("the host", BB_PAYLOAD_TEXT, struct bb_hello, host),
	{.name = NULL}};

static const struct bb_payload hello_table = {"a hello", sizeof(struct bb_hello), hello_fields,
					      NULL};

static bool send_at_once(int fd, const void *data, size_t bytes)
{
	return send(fd, data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)bytes;
}

bool bb_greet_send(struct bb_greet *greet, const struct bb_identity *identity, int fd,
		   enum bb_side me)
{
	struct bb_greeting *mine = &greet->mine;

	mine->hello = identity->hello;
	mine->hello.magic = identity->secret ? BB_HELLO_SECURED : BB_HELLO_PLAIN;
	memcpy(mine->hello.password, identity->password[me], sizeof(mine->hello.password));
	if (!identity->secret)
		return send_at_once(fd, &mine->hello, sizeof(mine->hello));
	return getrandom(mine->challenge, sizeof(mine->challenge), 0) == sizeof(mine->challenge) &&
	       send_at_once(fd, mine, sizeof(*mine));
}

/* ---- proofs ---------------------------------------------------------------------------- */

/* What side WHO proves on this connection, as known to side ME. */
struct transcript {
	char label[16];
	struct bb_greeting comer, host;
};

static struct transcript transcribe(const struct bb_greet *greet, enum bb_side me, enum bb_side who)
{
	struct transcript t;

	memset(&t, 0, sizeof(t));
	memcpy(t.label, who == BB_SIDE_SERVER ? "busbench host" : "busbench comer", 14);
	t.comer = me == BB_SIDE_CLIENT ? greet->mine : greet->theirs;
	t.host = me == BB_SIDE_SERVER ? greet->mine : greet->theirs;
	return t;
}

bool bb_greet_prove(struct bb_greet *greet, const struct bb_identity *identity, int fd,
		    enum bb_side me)
{
	const struct transcript t = transcribe(greet, me, me);
	unsigned char proof[BB_SECRET_PROOF];

	return bb_secret_prove(identity->secret, &t, sizeof(t), proof) &&
	       send_at_once(fd, proof, sizeof(proof));
}

/* ---- receiving --------------------------------------------------------------------- */

static enum bb_transit fail(struct bb_greet *greet, int error)
{
	greet->error = error;
	return BB_BROKEN;
}

static enum bb_transit receive_bytes(struct bb_greet *greet, int fd, void *data, size_t bytes)
{
	const enum bb_transit transit = bb_wire_fill(fd, data, bytes, &greet->got);

	return transit == BB_BROKEN ? fail(greet, errno) : transit;
}

/* The time does not depend on their content. */
static bool is_password(const unsigned char *a, const unsigned char *b)
{
	unsigned char differ = 0;

	for (size_t i = 0; i < sizeof(((struct bb_hello *)NULL)->password); i++)
		differ |= a[i] ^ b[i];
	return differ == 0;
}

enum bb_transit bb_greet_receive(struct bb_greet *greet, const struct bb_identity *identity, int fd,
				 enum bb_side me)
{
	const enum bb_side other = me == BB_SIDE_SERVER ? BB_SIDE_CLIENT : BB_SIDE_SERVER;
	const struct transcript t = transcribe(greet, me, other);
	struct bb_greeting *const theirs = &greet->theirs;
	char why[BB_PAYLOAD_WHY];
	enum bb_transit transit;

	if (greet->stage == BB_GREET_HELLO) {
		transit = receive_bytes(greet, fd, &theirs->hello, sizeof(theirs->hello));
		bool secured = transit == BB_COMPLETE && theirs->hello.magic == BB_HELLO_SECURED;
		if (secured)
			transit = receive_bytes(greet, fd, theirs, sizeof(*theirs));
		if (transit != BB_COMPLETE)
			return transit;
		if (!bb_payload_decode(&hello_table, &theirs->hello, why) ||
		    !is_password(theirs->hello.password, identity->password[other]))
			return fail(greet, EPROTO);
		if (secured != (identity->secret != NULL))
			return fail(greet, secured ? ENOKEY : EKEYREJECTED);
		greet->stage = secured ? BB_GREET_PROOF : BB_GREET_DONE;
		greet->got = 0;
		return BB_COMPLETE;
	}
	transit = receive_bytes(greet, fd, greet->proof, sizeof(greet->proof));
	/* A peer that closes now does not know the secret, or rejects this side's. */
	if (transit == BB_BROKEN ||
	    (transit == BB_COMPLETE &&
	     !bb_secret_verify(identity->secret, &t, sizeof(t), greet->proof)))
		return fail(greet, EKEYREJECTED);
	if (transit == BB_COMPLETE)
		greet->stage = BB_GREET_DONE;
	return transit;
}

const char *bb_greet_explain(int error)
{
	switch (error) {
	case ENOKEY:
		return "it requires " BB_SECRET_VARIABLE ", which is not set here";
	case EKEYREJECTED:
		return "the process that answers there does not know this " BB_SECRET_VARIABLE
		       ": a stranger, or process 0 has a different one";
	case EPROTO:
		return "the process that answers there is not busbench";
	case ECONNRESET:
		return "the process that answers there closes the connection";
	default:
		return strerror(error);
	}
}
