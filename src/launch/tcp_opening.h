/*
 * tcp_opening.h - a tcp launch while it is being opened.
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
	bb_status failed;  /* the run will not start */
	int missing;       /* processes that have not arrived */
	double next_check; /* time of the next check for lost processes */
	/* The first process that was rejected because it does not fit the run. */
	struct bb_error misfit;
};

BB_MUST bb_status bb_opening_gather(struct bb_opening *o); /* process 0 */
BB_MUST bb_status bb_opening_join(struct bb_opening *o, struct bb_launch *launch);

/* Checks of both sides of a connection: a difference to HELLO goes into ERROR. */
BB_MUST bb_status bb_opening_compare(const struct bb_opening *o, const struct bb_hello *hello,
				     struct bb_error *error);
/* Resolve MASTER_ADDR; returns the number of ADDRESSES, or, after the timeout, 0 and *WHY. */
int bb_opening_resolve(const struct bb_opening *o, struct bb_address *addresses, const char **why);

#endif
