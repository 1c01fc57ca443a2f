/*
 * network.h - a cluster (topology/cluster.h) as the network that virtual time is played on
 * (schedules/fabric.h).
 */
#ifndef BB_BACKENDS_SIM_NETWORK_H
#define BB_BACKENDS_SIM_NETWORK_H

#include "backends/backend.h"
#include "topology/cluster.h"

struct bb_network {
	struct bb_fabric fabric;
	struct bb_fabric_pair *pairs;
	struct bb_fabric_flaw flaw; /* of FAULTY, which is the same but for it */
	struct bb_fabric faulty;
};

/* CLUSTER lasts as long as the network, which stays where it is. FLAW may be NULL. False: out of
 * memory. */
bool bb_network_make(struct bb_network *network, const struct bb_cluster *cluster,
		     const struct bb_fabric_flaw *flaw);
void bb_network_free(struct bb_network *network); /* of a zeroed one: nothing */

/* The messages that pairs of ranks send each other; ends with name NULL. */
extern const struct bb_route bb_sim_routes[];

#endif
