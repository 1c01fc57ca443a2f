/*
 * tcp_opening.h - the processes of a tcp launch while they come together.
 */
#ifndef BB_LAUNCH_TCP_OPENING_H
#define BB_LAUNCH_TCP_OPENING_H

#include "launch/tcp.h"

struct bb_opening {
	struct bb_tcp *tcp;
	const struct bb_tcp_environment *environment;
	const struct bb_launch_request *request;
	struct bb_star star;
	struct bb_error *error;
	/* Process 0's: */
	bb_status failed; /* there will be no run */
	int missing;      /* processes that did not come yet */
	double look;      /* when to look next at who is gone */
	/* The first that was sent away because it does not fit, and what that is to the run. */
	struct bb_error misfit;
};

BB_MUST bb_status bb_opening_gather(struct bb_opening *o); /* process 0 */
BB_MUST bb_status bb_opening_join(struct bb_opening *o, struct bb_launch *launch);

/* What both sides of a connection judge alike: who differs in what goes into ERROR. */
BB_MUST bb_status bb_opening_compare(const struct bb_opening *o, const struct bb_hello *hello,
				     struct bb_error *error);
/* The addresses of MASTER_ADDR: how many there are, or 0 and why in *WHY once time is over. */
int bb_opening_resolve(const struct bb_opening *o, struct bb_address *addresses, const char **why);

#endif
