/*
 * bound_parts.h - internals of the speed of light.
 */
#ifndef BB_TOPOLOGY_BOUND_PARTS_H
#define BB_TOPOLOGY_BOUND_PARTS_H

#include "topology/bound.h"

#include <math.h>

/* The lowest of several bounds, with its explanation. */
struct bb_limit {
	double GBps; /* INFINITY: none yet */
	char why[256];
};

/* Lower LIMIT to GBPS x FACTOR if that is less. FORMAT explains GBPS; FACTOR, which belongs to the
   bound of WHAT, is appended unless it is 1. */
void bb_limit_to(struct bb_limit *limit, double GBps, double factor, enum bb_bound what,
		 const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Set LIMIT to 0 with the reason that FORMAT gives. Returns STATUS. */
bb_status bb_limit_refuse(struct bb_limit *limit, bb_status status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Why there is no bound of GPUs whose links are unknown (links_unknown). */
#define BB_NO_LINKS                                                                                \
	"the source does not show NVLinks, which the GPUs may have; NCCL's dump "                  \
	"(NCCL_TOPO_DUMP_FILE) does"

/* Write GBPS with three digits, or all before the point, into TEXT: "371", "20.6", "1404". */
const char *bb_gbps_text(char text[16], double GBps);
#define GBPS(x) bb_gbps_text((char[16]){""}, x)

/* A set of GPUs of one node: bit i is GPU number i. */
typedef uint64_t bb_gpus;

/* ---- within a node ---- */

enum bb_fabric_kind {
	BB_FABRIC_SWITCH, /* NVSwitches join all */
	BB_FABRIC_MESH,   /* a ring of NVLinks joins all */
	BB_FABRIC_PCIE
};
enum bb_fabric_kind bb_fabric_of(const struct bb_topology *t, bb_gpus set);

/* The lowest rate of a GPU's NVLinks to the switches in SET. BB_EUNSUPPORTED: unknown. */
BB_MUST bb_status bb_bound_switch(const struct bb_topology *t, bb_gpus set, struct bb_limit *limit);
/* The bound of WHAT (ring, tree, all-to-all) among the GPUs of SET on the other two fabrics. */
BB_MUST bb_status bb_bound_mesh(const struct bb_topology *t, bb_gpus set, enum bb_bound what,
				struct bb_limit *limit);
BB_MUST bb_status bb_bound_pcie(const struct bb_topology *t, bb_gpus set, enum bb_bound what,
				struct bb_limit *limit);
/* The bound from GPU A to GPU B of the same node or, if B is BB_ON_HOST, to host memory. */
BB_MUST bb_status bb_bound_pair(const struct bb_topology *t, int a, int b, struct bb_limit *limit);

/* ---- between nodes ---- */

struct bb_egress {
	double GBps; /* of all NICs, in one direction */
	int nics;
	int64_t rate_Mbps; /* of each; 0: they differ */
	enum bb_nic_layer layer;
	bool assumed;     /* a rate is the maximum of its model */
	double gpus_GBps; /* of the links from the GPUs; INFINITY unknown */
};
/* The NICs that serve the GPUs in SET or, if that is 0, the host; none (nics 0) without a known
   rate. */
struct bb_egress bb_egress_of(const struct bb_topology *t, bb_gpus set);

/* Whether NIC serves GPU: it is one of the fastest among those nearest to it. GPU < 0: one of the
   fastest of all. */
bool bb_nic_serves(const struct bb_topology *t, int gpu, int nic);
/* The payload of NIC alone; 0 unknown. */
double bb_nic_GBps(const struct bb_topology *t, int nic);
/* Its rate, or the maximum of its model; 0: it is down, or its rate is unknown. */
int64_t bb_nic_Mbps(const struct bb_topology *t, int nic);

#endif
