/*
 * flows.h - messages of a program on shared links (fabric.h): a rail, the uplinks of a
 * leaf or a pod. Concurrent messages divide a link evenly; one that joins slows the others, one
 * that leaves speeds them up. For program.c only.
 */
#ifndef BB_SIMULATOR_TIMELINE_FLOWS_H
#define BB_SIMULATOR_TIMELINE_FLOWS_H

#include "simulator/timeline/links.h"

struct bb_flows;

/* A callback for a changed end: FLOW ends at END unless another joins or leaves. */
struct bb_flows_watch {
	void (*ends)(void *own, int flow, double end);
	void *own;
};

/* Open COUNT flows, none active, in SLABS, which may be lacking then. */
struct bb_flows *bb_flows_open(const struct bb_link_model *model, struct bb_slabs *slabs,
			       size_t count, const struct bb_flows_watch *watch);

/* BYTES, above 0, of rank FROM go to rank TO from NOW on. Each takes ROUTE's time at least;
   everything takes FACTOR times as long. */
struct bb_flow {
	int from, to;
	struct bb_fabric_route route;
	double bytes, factor;
};
void bb_flows_join(struct bb_flows *flows, int flow, const struct bb_flow *what, double now);
/* FLOW has ended. */
void bb_flows_leave(struct bb_flows *flows, int flow, double now);

#endif
