/*
 * port.h - messages for the executor over a library that sends and receives without blocking.
 *
 * A port cuts messages into pieces, posts receives ahead of their data, and lends what is reduced
 * from room in TMP.
 */
#ifndef BB_BACKENDS_CPU_PORT_H
#define BB_BACKENDS_CPU_PORT_H

#include "backends/cpu/context.h"
#include "backends/cpu/executor.h"

/* An operation of the library that was started: a handle, or the number of one. */
union bb_request {
	void *handle;
	int number;
};

/* The library. Requests match by (peer, channel) in order; OWN is the port's. */
struct bb_port_calls {
	bb_status (*send)(void *own, int peer, int channel, const void *data, size_t bytes,
			  union bb_request *request);
	bb_status (*receive)(void *own, int peer, int channel, void *data, size_t bytes,
			     union bb_request *request);
	/* Is a sent piece taken? True ends the request. The function may be NULL: not known. */
	bool (*taken)(void *own, union bb_request *request);
	/* Each ends the request; BB_ETIMEOUT once the run is being abandoned. */
	bb_status (*wait_sent)(void *own, union bb_request *request);
	bb_status (*wait_received)(void *own, union bb_request *request, size_t bytes);
};

/* A sent message, in pieces. */
struct bb_port_sent {
	int pieces; /* the first TAKEN of them are taken */
	int taken;
	union bb_request requests[BB_PIECES_MOST];
};

/* An expected piece. */
struct bb_port_expected {
	int peer;
	int channel;
	void *data;
	union bb_request request;
};

/* One rank's end of the messages of a group. */
struct bb_port {
	const struct bb_port_calls *calls;
	void *own;
	size_t piece; /* length of this call's pieces, except for very long messages */
	char *lent;   /* in TMP: room for BB_LENT_MOST pieces of lent_bytes */
	size_t lent_bytes;
	unsigned nlent; /* pieces lent so far */
	unsigned expected, received;
	struct bb_port_expected queue[BB_EXPECTED_MOST];
	int nfree;
	uint32_t free[BB_SENT_MOST]; /* unused tickets */
	struct bb_port_sent sent[BB_SENT_MOST];
};

void bb_port_init(struct bb_port *port, const struct bb_port_calls *calls, void *own);

/* Bytes of TMP for CALL's schedule on RANK, whose messages are cut into pieces of about PIECE
   bytes, a multiple of 64. */
size_t bb_port_tmp_bytes(const struct bb_call *call, int rank, size_t piece);

/* cost_bytes of struct bb_backend for a group on ONE_HOST: only there is what crosses a link a copy
   in memory. */
double bb_port_cost_bytes(const struct bb_call *call, bool one_host);

/* Run CALL's schedule on RANK of the group, with the same PIECE. CONTEXT is the process's. */
BB_MUST bb_status bb_port_execute(struct bb_port *port, const struct bb_cpu_context *context,
				  const struct bb_call *call, int rank, size_t piece);

#endif
