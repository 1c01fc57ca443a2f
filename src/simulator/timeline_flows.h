/*
 * timeline_flows.h - messages of a program on their way through what ranks share (fabric.h): a
 * rail, the links up from a leaf or a pod. While several are on their way through the same thing it
 * is divided evenly among them; one that joins slows the others, one that leaves lets them go on
 * faster. Known to timeline_program.c only.
 */
#ifndef BB_SIMULATOR_TIMELINE_FLOWS_H
#define BB_SIMULATOR_TIMELINE_FLOWS_H

#include "simulator/timeline_parts.h"

struct bb_flows;

/* Who hears that FLOW, if nobody joins or leaves, ends at END. */
struct bb_flows_watch {
	void (*ends)(void *own, int flow, double end);
	void *own;
};

/* For COUNT flows, none on its way. NULL: out of memory. */
struct bb_flows *bb_flows_open(const struct bb_link_model *links, size_t count,
			       const struct bb_flows_watch *watch);
void bb_flows_close(struct bb_flows *flows); /* NULL: nothing */

/* BYTES, more than none, of rank FROM go to rank TO from NOW on; each takes WAY's time at least.
   All of that takes FACTOR times as long. */
struct bb_flow {
	int from, to;
	struct bb_fabric_way way;
	double bytes, factor;
};
void bb_flows_join(struct bb_flows *flows, int flow, const struct bb_flow *what, double now);
/* It has ended. */
void bb_flows_leave(struct bb_flows *flows, int flow, double now);

#endif
