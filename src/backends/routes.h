/*
 * routes.h - the part of a backend that moves bytes between two ranks, beside collectives.
 */
#pragma once

#include "core/status.h"

#include <stdbool.h>
#include <stddef.h>

struct bb_context;
struct bb_rank;
struct bb_group;

#define BB_SWITCH_TEXT 160

enum bb_route_use {
	BB_ROUTE_TRANSFER = 1, /* moves bytes: transfer */
	BB_ROUTE_PING = 2      /* moves 8 bytes back and forth: ping */
};

/* Which end of a transfer moves the bytes. */
enum bb_route_actor { BB_BY_TARGET, BB_BY_SOURCE, BB_BY_BOTH };

/* One mechanism that moves bytes from a rank's memory to another's. */
struct bb_route {
	const char *name; /* "read", "staged" */
	const char *brief;
	unsigned uses; /* enum bb_route_use */
	enum bb_route_actor actor;
	/* One end accesses the other's memory (P2P on); otherwise bytes go through a buffer between
	   them (P2P off). */
	bool direct;
	/* The library provides it: it is direct only if the library's switch says so. */
	bool switched;
	/* Both ends act, and the transfers of a batch go on at once. */
	bool batches;
};

/* One mechanism by which a library moves bytes between ranks of a host, chosen when it starts. */
struct bb_library_state {
	const char *name;    /* "shared memory, two copies" */
	const char *setting; /* NAME=VALUE in the environment selects it */
	bool p2p;            /* one end accesses the other's memory */
};

/* The switch of a library between P2P on and off. */
struct bb_route_switch {
	/* The known states, at least one without P2P; ends with name NULL. */
	const struct bb_library_state *states;
	/*
	 * *P2P = does the library let one end access the other's memory? TEXT = its state and the
	 * evidence: "no shared memory: pml=ob1 btl=self,tcp". All processes call it together,
	 * before any route is used, and get the same result.
	 */
	bb_status (*p2p)(struct bb_context *context, bool *p2p, char text[BB_SWITCH_TEXT]);
};

/* Describes memory of a rank so that other ranks can access it. A value that may be sent. */
struct bb_token {
	_Alignas(8) unsigned char bytes[256];
};

/* One direction of a transfer, seen from one of its two ends. */
struct bb_half {
	void *mine;   /* source of outgoing bytes, or target of incoming ones */
	void *theirs; /* the other end's memory, from reach */
	size_t bytes; /* 0: nothing moves in this direction */
};

/* In virtual time LIST names messages of a program, and everything else is NULL. */
struct bb_routes {
	const struct bb_route *list; /* ends with name NULL */
	/* NULL: no route is switched. */
	const struct bb_route_switch *library;
	/* NULL, or why ROUTE does not lead from this rank to PEER of GROUP (no peer access, …);
	   known once both have reached each other's memory. The route is usable if neither end
	   refuses. The rank itself is a peer too: a private copy by the same mechanism. The text
	   lasts as long as the group. */
	const char *(*refuses)(struct bb_group *group, const struct bb_route *route, int peer);
	/* *TOKEN = description of BYTES of this rank's memory, which alloc returned. NULL, with
	   reach and unreach: no route accesses a peer's memory. */
	bb_status (*share)(struct bb_rank *rank, void *memory, size_t bytes,
			   struct bb_token *token);
	/* *THEIRS = address at which this rank accesses what PEER shared as TOKEN, until unreach.
	   NULL if it cannot: then refuses gives the reason for the routes that need it. All members
	   call it in the same order, after all have shared their memory. */
	bb_status (*reach)(struct bb_group *group, int peer, const struct bb_token *token,
			   void **theirs, struct bb_error *error);
	/* All members call it. THEIRS NULL: nothing happens. */
	void (*unreach)(struct bb_group *group, int peer, void *theirs);
	/*
	 * Move OUT to PEER and IN from PEER over ROUTE, both at once. The ends that act call it, in
	 * the same order and with matching halves. On return (with GPUs: after finish) the bytes
	 * that this end moves have arrived. The caller synchronises with the other end.
	 */
	bb_status (*transfer)(struct bb_group *group, const struct bb_route *route, int peer,
			      const struct bb_half *out, const struct bb_half *in);
	/* Begin a batch of transfers over ROUTE, which batches, or END it. Within it transfer
	   returns at once; when END returns (with GPUs: after finish) all bytes have arrived, as
	   after transfer. NULL: no route batches. */
	bb_status (*batch)(struct bb_group *group, const struct bb_route *route, bool end);
	/* Send 8 bytes to PEER and receive them back, ROUNDS times: this end starts if FIRST, else
	   it answers. Returns when its last message has arrived, or has been sent. */
	bb_status (*ping)(struct bb_group *group, const struct bb_route *route, int peer,
			  bool first, size_t rounds);
};
