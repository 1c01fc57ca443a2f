/*
 * port.h - groups over a library that sends and receives without blocking: their schedules, and the
 * routes between two members.
 *
 * The struct bb_group of such a backend begins with a struct bb_port, one rank's end of the
 * messages. A port cuts messages into pieces, posts receives ahead of their data, and lends what is
 * reduced from room in TMP. Functions with the signature of an entry of struct bb_backend or struct
 * bb_routes are that entry.
 */
#pragma once

#include "backends/cpu/context.h"
#include "backends/cpu/executor.h"
#include "backends/messages.h"
#include "backends/routes.h"

/* An operation of the library that was started: a handle, or the number of one. */
union bb_request {
	void *handle;
	int number;
};

/* The channel of queues' messages, behind those of schedules and routes. */
#define BB_PORT_QUEUES BB_CHANNELS
#define BB_PORT_ANY (-1) /* a peer: any member */

/* The library. */
struct bb_port_calls {
	/* Start a message to member PEER (SENDS: DATA is only read) or from it. Messages match by
	   (peer, channel) in order; one that is sent on BB_PORT_QUEUES is done when the peer has
	   begun to receive it. */
	bb_status (*start)(struct bb_group *group, bool sends, int peer, int channel, void *data,
			   size_t bytes, union bb_request *request);
	/* Ends the request, which received BYTES; BB_ETIMEOUT once the run is being abandoned.
	 *PEER = the other end; NULL: not requested. */
	bb_status (*wait)(struct bb_group *group, bool sends, union bb_request *request,
			  size_t bytes, int *peer);
	/* About how long the pieces of CALL's messages are: a multiple of 64. */
	size_t (*piece)(const struct bb_group *group, const struct bb_call *call);
	/* Run CALL by an algorithm of the library; the bytes of TMP that it needs. */
	bb_status (*native)(struct bb_group *group, const struct bb_call *call);
	size_t (*native_tmp_bytes)(const struct bb_group *group, const struct bb_call *call);
};

/* A sent message, in pieces. */
struct bb_port_sent {
	int pieces;
	union bb_request requests[BB_PIECES_MOST];
};

/* An expected piece. */
struct bb_port_expected {
	void *data;
	union bb_request request;
};

/* A message of a route that was started. */
struct bb_port_message {
	bool sent; /* or expected */
	size_t bytes;
	union bb_request request;
};

struct bb_port {
	struct bb_rank *rank;
	struct bb_turns turns;
	const struct bb_port_calls *calls;
	int me, n;
	int *members; /* [member]: its rank in the world */
	bool one_host;
	/* Schedules. */
	size_t piece; /* length of this call's pieces, except for very long messages */
	char *lent;   /* in TMP: room for BB_LENT_MOST pieces of lent_bytes */
	size_t lent_bytes;
	unsigned nlent; /* pieces lent so far */
	unsigned expected, received;
	struct bb_port_expected queue[BB_EXPECTED_MOST];
	int nfree;
	uint32_t free[BB_SENT_MOST]; /* unused tickets */
	struct bb_port_sent sent[BB_SENT_MOST];
	/* Routes: messages under way, which wait for the end of a batch, or are waited for at
	   once. */
	bool batches;
	struct bb_port_message *messages;
	size_t nmessages, room;
};

/* Structs of a backend that begin as described above. */
#define BB_PORT_STRUCTS_FIT                                                                        \
	BB_CPU_RANKS_FIT;                                                                          \
	_Static_assert(offsetof(struct bb_group, port) == 0, "begins with bb_port")

/* Open PORT, which is zeroed, for RANK among N MEMBERS of the world. HOSTS[rank] is the lowest rank
   of that rank's host. bb_port_close ends it, also after a failure. */
BB_MUST bb_status bb_port_open(struct bb_port *port, const struct bb_port_calls *calls,
			       struct bb_rank *rank, const int *hosts, const int *members, int n,
			       struct bb_error *error);
void bb_port_close(struct bb_port *port);

/* ---- calls ------------------------------------------------------------------------------- */

size_t bb_port_tmp_bytes(struct bb_group *group, const struct bb_call *call);
/* Only on one host is what crosses a link a copy in memory. */
double bb_port_cost_bytes(struct bb_group *group, const struct bb_call *call);
/* The run and the pass of struct bb_cpu_context. */
BB_MUST bb_status bb_port_run(struct bb_group *group, const struct bb_call *call);
BB_MUST bb_status bb_port_pass(const struct bb_message *message);

/* ---- routes whose both ends act ------------------------------------------------------------ */

bb_status bb_port_transfer(struct bb_group *group, const struct bb_route *route, int peer,
			   const struct bb_half *out, const struct bb_half *in);
bb_status bb_port_batch(struct bb_group *group, const struct bb_route *route, bool end);
bb_status bb_port_ping(struct bb_group *group, const struct bb_route *route, int peer, bool first,
		       size_t rounds);

/* ---- differences of the clocks of processes ---------------------------------------------- */

/* Processes in one time namespace of one booted kernel read the same clock. */
#define BB_CLOCK_NAME 128

/* NAME = identity of this process's clock, padded with zeros; false if unknown. A kernel without
   time namespaces has only its boot ID. */
bool bb_clock_identify(char name[BB_CLOCK_NAME]);

/* Send a message to rank PEER of the world, or receive one from it; return when it is done. */
typedef bb_status bb_clock_pass(struct bb_rank *rank, bool sends, int peer, void *data,
				size_t bytes);

/* The offset of struct bb_clocks, by messages that PASS passes; 0 if all ranks have ONE_CLOCK. */
BB_MUST bb_status bb_clock_compare(struct bb_rank *rank, bool one_clock, bb_clock_pass *pass,
				   double *offset, double *uncertainty);
