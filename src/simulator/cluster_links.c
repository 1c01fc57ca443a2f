/*
 * cluster_links.c - a cluster of which its links alone are known.
 */
#include "simulator/cluster.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void set(struct bb_cluster *c, enum bb_figure figure, double value)
{
	c->figures[figure] = value;
}

static void join(struct bb_cluster *c, const struct bb_cluster_link *inside)
{
	for (int i = 0; i < c->gpus * c->gpus; i++) {
		const bool self = i / c->gpus == i % c->gpus;

		c->pairs[i] = (struct bb_cluster_way){
			.path = self ? BB_WAY_SELF : BB_WAY_NVLINK,
			.rate = self ? INFINITY : inside->rate,
			.latency = self ? 0 : inside->latency,
		};
	}
}

bb_status bb_cluster_of_links(struct bb_cluster **cluster, int nodes, int ranks,
			      const struct bb_cluster_link *inside,
			      const struct bb_cluster_link *between, struct bb_error *error)
{
	struct bb_cluster *c = calloc(1, sizeof(*c));

	*cluster = c;
	if (!c)
		goto no_memory;
	*c = (struct bb_cluster){
		.node = calloc(1, sizeof(*c->node)),
		.nodes = nodes,
		.gpus = ranks,
		.ranks = nodes * ranks,
		.domain = 1,
		.inside = ranks > 1 ? BB_INSIDE_LINKS : BB_INSIDE_NOTHING,
		.rails = ranks,
		.gpu_rate = inside->rate,
		.nic_rate = between->rate,
		.pairs = calloc((size_t)ranks * (size_t)ranks, sizeof(*c->pairs)),
	};
	snprintf(c->name, sizeof(c->name), "%d nodes of %d ranks", nodes, ranks);
	for (int i = 0; i < ranks; i++) {
		c->rail_of[i] = i;
		c->rail_gpus[i] = 1;
	}
	set(c, BB_FIGURE_GPU_EFFICIENCY, 1);
	set(c, BB_FIGURE_NIC_EFFICIENCY, 1);
	set(c, BB_FIGURE_GPU_LATENCY, inside->latency);
	set(c, BB_FIGURE_NET_LATENCY, between->latency);
	set(c, BB_FIGURE_LEAF_NODES, nodes);
	set(c, BB_FIGURE_POD_NODES, nodes);
	set(c, BB_FIGURE_LEAF_TAPER, 1);
	set(c, BB_FIGURE_POD_TAPER, 1);
	if (c->node && c->pairs) {
		join(c, inside);
		return BB_OK;
	}
no_memory:
	bb_cluster_free(c);
	*cluster = NULL;
	return bb_no_memory(error, "a cluster");
}
