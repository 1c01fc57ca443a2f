/*
 * cluster.h - a cluster that is not here: machines that are alike, what joins them, and the figures
 * that a model of it goes by, each with its source.
 *
 * What a machine is made of comes from topology.h; what that does not know (latencies,
 * efficiencies, the network's shape) from clusters.txt or the user's file. Ranks are numbered node
 * by node, in a node by GPU; a machine without GPUs is one rank.
 */
#ifndef BB_SIMULATOR_CLUSTER_H
#define BB_SIMULATOR_CLUSTER_H

#include "topology/build.h"
#include "topology/topology.h"

#define BB_CLUSTER_MOST_RANKS 1048576

/* Rates are in bytes per second, times in seconds, efficiencies fractions. */
enum bb_figure {
	BB_FIGURE_GPU_RATE,         /* what a GPU sends, and receives, within the node at once */
	BB_FIGURE_NIC_RATE,         /* one rail of one node, each way */
	BB_FIGURE_GPU_EFFICIENCY,   /* what of GPU_RATE a collective reaches */
	BB_FIGURE_NIC_EFFICIENCY,   /* of NIC_RATE */
	BB_FIGURE_GPU_LATENCY,      /* a message over NVLink */
	BB_FIGURE_PCIE_LATENCY,     /* a message over PCIe within the node */
	BB_FIGURE_NET_LATENCY,      /* a message to another node, one switch included */
	BB_FIGURE_SWITCH_LATENCY,   /* each further switch */
	BB_FIGURE_MESSAGE_OVERHEAD, /* what each message takes of the way out and in, beside its
				       bytes */
	BB_FIGURE_LEAF_NODES,       /* nodes whose NICs of a rail meet in one leaf switch */
	BB_FIGURE_LEAF_TAPER,       /* a leaf's rate down, over its rate up */
	BB_FIGURE_POD_NODES,        /* nodes below one set of spine switches */
	BB_FIGURE_POD_TAPER,        /* a pod's rate down, over its rate up */
	/* Of the model of NCCL (backends/sim/nccl_model.h). */
	BB_FIGURE_NCCL_NIC_LATENCY, /* what the network's plug-in adds to each hop */
	BB_FIGURE_NCCL_TREE_FILL,   /* of the pipeline of NVLSTree, for each level of nodes */
	BB_FIGURE_NCCL_ISSUE,       /* no operation follows another sooner */
	BB_FIGURES
};

enum bb_inside {
	BB_INSIDE_NOTHING, /* one rank */
	BB_INSIDE_SWITCH,  /* NVSwitches: each GPU has a port of gpu_rate */
	BB_INSIDE_LINKS,   /* NVLinks between pairs, PCIe where a pair has none */
	BB_INSIDE_PCIE
};

enum bb_cluster_path {
	BB_WAY_SELF,
	BB_WAY_NVLINK, /* through NVSwitches, or over NVLinks of their own */
	BB_WAY_PCIE,
	BB_WAY_LEAF, /* the same rail below the same leaf switch */
	BB_WAY_POD,  /* up to the spine and down */
	BB_WAY_CORE, /* up to the core */
	BB_WAYS
};
struct bb_cluster_way {
	enum bb_cluster_path path;
	int switches;   /* of the network */
	double rate;    /* of this pair alone, bytes per second; INFINITY to itself */
	double latency; /* seconds */
};

struct bb_cluster {
	char name[BB_TEXT];       /* "hgx-h100:128" */
	struct bb_topology *node; /* one machine; owned */
	int nodes;
	int gpus;   /* ranks of a node */
	int ranks;  /* of all nodes */
	int domain; /* nodes that share NVSwitches, >= 1; the last domain may be smaller */
	enum bb_inside inside;
	int rails;                   /* ways out of a node; 0: a node alone */
	int rail_of[BB_MOST_GPUS];   /* of each GPU */
	int rail_gpus[BB_MOST_GPUS]; /* GPUs that share a rail */
	double gpu_rate, nic_rate;   /* with their efficiencies */
	double figures[BB_FIGURES];
	struct bb_cluster_way *pairs; /* [from * gpus + to] of one node */
};

/* Makes a topology of the LENGTH bytes of a file called NAME. *T is to be freed. */
typedef bb_status bb_topology_parser(const char *text, size_t length, const char *name,
				     struct bb_topology **t, struct bb_error *error);

/* What the shared object exports that can, as `bb_plugin_topology`: it needs a library for XML that
   nothing else does. */
#define BB_READER_SYMBOL "bb_plugin_topology"
#define BB_READER_ABI 2u
struct bb_topology_reader {
	unsigned abi;
	bb_topology_parser *parse;
};
extern const struct bb_topology_reader bb_plugin_topology;

/*
 * The cluster that TEXT asks for: NAME[:NODES], NAME a known system or a file of figures or of a
 * topology, which PARSE reads (NULL: this program cannot). Without NODES as many as the file says,
 * or share NVSwitches. BB_EUSAGE naming what is wrong. *CLUSTER is to be freed.
 */
BB_MUST bb_status bb_cluster_open(const char *text, bb_topology_parser *parse,
				  struct bb_cluster **cluster, struct bb_error *error);
void bb_cluster_free(struct bb_cluster *cluster); /* NULL: nothing */

/*
 * One of which no more is known (node is empty) than the two links of each rank: INSIDE, to every
 * other one of its node, of RANKS, at most BB_MOST_GPUS; and BETWEEN, a rail of its own. *CLUSTER
 * is to be freed; NULL with BB_EINTERNAL without memory.
 */
struct bb_cluster_link {
	double rate, latency;
};
BB_MUST bb_status bb_cluster_of_links(struct bb_cluster **cluster, int nodes, int ranks,
				      const struct bb_cluster_link *inside,
				      const struct bb_cluster_link *between,
				      struct bb_error *error);

/* ---- ways between two ranks ------------------------------------------------------------- */

const char *bb_cluster_path_name(enum bb_cluster_path path); /* "leaf" */

/* From rank FROM to rank TO. */
struct bb_cluster_way bb_cluster_way(const struct bb_cluster *c, int from, int to);

static inline int bb_cluster_node(const struct bb_cluster *c, int rank)
{
	return rank / c->gpus;
}

/* The rail that RANK leaves its node by. */
static inline int bb_cluster_rail(const struct bb_cluster *c, int rank)
{
	return c->rail_of[rank % c->gpus];
}

/* Append one line that describes it: ranks, links, rails, leaves and pods. */
void bb_cluster_describe(const struct bb_cluster *c, struct bb_strbuf *out);

#endif
