/*
 * routes.h - the part of a backend that moves bytes between two ranks, beside collectives.
 */
#ifndef BB_BACKENDS_ROUTES_H
#define BB_BACKENDS_ROUTES_H

#include "core/status.h"

#include <stdbool.h>
#include <stddef.h>

struct bb_context;
struct bb_rank;
struct bb_group;

#define BB_SWITCH_TEXT 160

enum bb_route_use {
	BB_ROUTE_TRANSFER = 1, /* takes bytes: transfer */
	BB_ROUTE_PING = 2      /* takes words to and fro: ping */
};

/* Which end of a transfer moves the bytes. */
enum bb_route_actor { BB_BY_TARGET, BB_BY_SOURCE, BB_BY_BOTH };

/* One way from a rank's memory to another's. */
struct bb_route {
	const char *name; /* "read", "staged" */
	const char *brief;
	unsigned uses; /* enum bb_route_use */
	enum bb_route_actor actor;
	/* The one end works on the other's memory (P2P on); else there is a place between them (P2P
	   off). */
	bool direct;
	/* It is the library's: direct only as long as its switch says so. */
	bool switched;
};

/* One way in which a library moves bytes between ranks of a host. It settles it when it starts. */
struct bb_library_state {
	const char *name;    /* "shared memory, two copies" */
	const char *setting; /* NAME=VALUE in the environment of its process brings it about */
	bool p2p;            /* one end works on the other's memory */
};

/* The switch of a library between P2P and none. */
struct bb_route_switch {
	/* The states that are known, one without P2P among them; ends with name NULL. */
	const struct bb_library_state *states;
	/*
	 * *P2P = does the library let one end work on the other's memory? TEXT = the state that it
	 * is in, and how that is known: "no shared memory: pml=ob1 btl=self,tcp". The same in all
	 * processes, which call it together, before routes are asked for.
	 */
	bb_status (*p2p)(struct bb_context *context, bool *p2p, char text[BB_SWITCH_TEXT]);
};

/* What a rank tells about its memory so that others reach it. A value: it may be sent anywhere. */
struct bb_token {
	_Alignas(8) unsigned char bytes[256];
};

/* One direction of a transfer, seen from one of its two ends. */
struct bb_half {
	void *mine;   /* what goes out, or the place for what comes in */
	void *theirs; /* the other end's, as reach gave it */
	size_t bytes; /* 0: nothing goes this way */
};

/* Where time is virtual LIST names messages of a program, and all else is NULL. */
struct bb_routes {
	const struct bb_route *list; /* ends with name NULL */
	/* NULL: no route is switched. */
	const struct bb_route_switch *library;
	/* NULL, or why ROUTE does not lead from this rank to PEER of GROUP (no peer access, …),
	   known when both reach each other's memory. It leads there if neither end refuses. Itself
	   is a peer too: a private copy by the same means. Lasts as long as the group. */
	const char *(*refuses)(struct bb_group *group, const struct bb_route *route, int peer);
	/* TOKEN for BYTES of this rank's memory, which came from alloc. */
	bb_status (*share)(struct bb_rank *rank, void *memory, size_t bytes,
			   struct bb_token *token);
	/* *THEIRS = where this rank reaches what PEER shared as TOKEN, until unreach. NULL where it
	   does not: refuses then says why of the routes that need it. All members call it, in the
	   same order, once all have shared what is to be reached. */
	bb_status (*reach)(struct bb_group *group, int peer, const struct bb_token *token,
			   void **theirs, struct bb_error *error);
	/* Likewise all members. THEIRS NULL: nothing. */
	void (*unreach)(struct bb_group *group, int peer, void *theirs);
	/*
	 * OUT goes to PEER and IN comes from it over ROUTE, both at once. The ends that act call
	 * it; both with halves that match, in the same order. This end has done its part when it
	 * returns, with GPUs when finish has: the bytes that it moves are where they belong. To
	 * know that the other end is done too, and may act, is the caller's affair.
	 */
	bb_status (*transfer)(struct bb_group *group, const struct bb_route *route, int peer,
			      const struct bb_half *out, const struct bb_half *in);
	/* A word goes to PEER and comes back, ROUNDS times: this end starts if FIRST, else it
	   answers. Returns when its last word has come, or gone. */
	bb_status (*ping)(struct bb_group *group, const struct bb_route *route, int peer,
			  bool first, size_t rounds);
};

#endif
