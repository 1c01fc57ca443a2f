/*
 * network.h - a cluster (topology/cluster.h) as the network that virtual time is played on
 * (schedules/fabric.h).
 */
#ifndef BB_BACKENDS_SIM_NETWORK_H
#define BB_BACKENDS_SIM_NETWORK_H

#include "backends/backend.h"
#include "backends/routes.h"
#include "simulator/cluster.h"

struct bb_network {
	struct bb_fabric fabric;
	struct bb_fabric_pair *pairs;
	struct bb_fabric_flaw flaw; /* of FAULTY, which is the same but for it */
	struct bb_fabric faulty;
	int ranks;                /* of the world */
	int *users[2][BB_LEVELS]; /* of each shared thing: ranks of the world; of FAULTY, [1] */
	int *members[BB_LEVELS];  /* likewise of one group; 0 between calls */
};

/* CLUSTER lasts as long as the network, which stays where it is; the world is its first RANKS. FLAW
 * may be NULL. False: out of memory. */
bool bb_network_make(struct bb_network *network, const struct bb_cluster *cluster, int ranks,
		     const struct bb_fabric_flaw *flaw);
void bb_network_free(struct bb_network *network); /* of a zeroed one: nothing */

/*
 * *CROWD = what struct bb_link_model has of the N MEMBERS on FABRIC, one of NETWORK's, as if the
 * rest of the world were groups that do the same at the same time: ranks of the world that use a
 * thing, over members that do. NULL where nobody shares with them. To be freed. False: out of
 * memory.
 */
bool bb_network_crowd(struct bb_network *network, const struct bb_fabric *fabric,
		      const int *members, int n, double **crowd);

/* The messages that pairs of ranks send each other. */
extern const struct bb_routes bb_sim_routes;

#endif
