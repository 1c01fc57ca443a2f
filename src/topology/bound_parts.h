/*
 * bound_parts.h - shared by the parts of the speed of light.
 */
#ifndef BB_TOPOLOGY_BOUND_PARTS_H
#define BB_TOPOLOGY_BOUND_PARTS_H

#include "topology/bound.h"

#include <math.h>

/* The least of several bounds, with its reason. */
struct bb_limit {
	double GBps; /* INFINITY: none yet */
	char why[256];
};

/* Lower LIMIT to GBPS x FACTOR if that is less. FORMAT explains GBPS; the factor for the bound of
   WHAT is appended unless it is 1. */
void bb_limit_to(struct bb_limit *limit, double GBps, double factor, enum bb_bound what,
		 const char *format, ...) __attribute__((format(printf, 5, 6)));

/* No bound, for the reason that FORMAT gives: BB_EUNSUPPORTED. */
bb_status bb_limit_unknown(struct bb_limit *limit, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* "371", "20.6", "1404": three digits, or all before the point. */
const char *bb_gbps_text(char text[16], double GBps);
#define GBPS(x) bb_gbps_text((char[16]){""}, x)

/* A set of GPUs of one node: bit i is GPU number i. */
typedef uint64_t bb_gpus;

/* ---- within a node ---- */

enum bb_fabric_kind {
	BB_FABRIC_SWITCH, /* all on NVSwitches */
	BB_FABRIC_MESH,   /* a ring of NVLinks joins all */
	BB_FABRIC_PCIE
};
enum bb_fabric_kind bb_fabric_of(const struct bb_topology *t, bb_gpus set);

/* The rate of one GPU's NVLinks to the switches, the least of SET. BB_EUNSUPPORTED: unknown. */
BB_MUST bb_status bb_bound_switch(const struct bb_topology *t, bb_gpus set, struct bb_limit *limit);
/* The bound of WHAT (ring, tree, all-to-all) among the GPUs of SET, on the other two fabrics. */
BB_MUST bb_status bb_bound_mesh(const struct bb_topology *t, bb_gpus set, enum bb_bound what,
				struct bb_limit *limit);
BB_MUST bb_status bb_bound_pcie(const struct bb_topology *t, bb_gpus set, enum bb_bound what,
				struct bb_limit *limit);
/* One GPU to another of the same node, or (B is BB_ON_HOST) to the host's memory. Indices of
   devices. */
BB_MUST bb_status bb_bound_pair(const struct bb_topology *t, int a, int b, struct bb_limit *limit);

/* ---- between nodes ---- */

struct bb_egress {
	double GBps; /* of all NICs, each way */
	int nics;
	int64_t rate_Mbps; /* of each, 0: not all alike */
	enum bb_nic_layer layer;
	bool assumed;     /* a rate is the most of its model, not read */
	double gpus_GBps; /* of the GPUs' links towards the NICs; INFINITY unknown */
};
/* Of the GPUs in SET or, if that is 0, of the host: the NICs nearest to each, the fastest of
   these. Nothing (nics 0) if no NIC's rate is known. */
struct bb_egress bb_egress_of(const struct bb_topology *t, bb_gpus set);

/* Is NIC among the nearest of GPU, the fastest of these? GPU < 0: the fastest of all. */
bool bb_nic_serves(const struct bb_topology *t, int gpu, int nic);
/* The payload of NIC; 0 unknown. */
double bb_nic_GBps(const struct bb_topology *t, int nic);

#endif
