/*
 * network.h - a cluster as a fabric.
 */
#ifndef BB_SIMULATOR_CLUSTER_NETWORK_H
#define BB_SIMULATOR_CLUSTER_NETWORK_H

#include "simulator/cluster/cluster.h"
#include "simulator/fabric.h"

struct bb_network {
	struct bb_fabric fabric;
	struct bb_fabric_pair *pairs;
	struct bb_fabric_flaw flaw; /* of FAULTY, a copy of FABRIC with this flaw */
	struct bb_fabric faulty;
	int ranks;                /* of the world */
	int *users[2][BB_LEVELS]; /* [faulty][level][shared link]: ranks of the world that use it */
	int *members[BB_LEVELS];  /* likewise ranks of one group; all 0 between calls */
};

/* Make the network of CLUSTER, which must outlive it, for a world of its first RANKS; the network
 * must not move in memory. FLAW may be NULL. False: out of memory; free the network all the same.
 */
bool bb_network_make(struct bb_network *network, const struct bb_cluster *cluster, int ranks,
		     const struct bb_fabric_flaw *flaw);
void bb_network_free(struct bb_network *network); /* of a zeroed one: nothing */

/*
 * Set *CROWD, which the caller frees, to the crowd of struct bb_link_model for the N MEMBERS on
 * FABRIC, one of NETWORK's. The rest of the world counts as groups that do the same at the same
 * time: the crowd of a shared link is the ranks of the world that use it over the members that do.
 * NULL where no others share links with them. False: out of memory.
 */
bool bb_network_crowd(struct bb_network *network, const struct bb_fabric *fabric,
		      const int *members, int n, double **crowd);

#endif
