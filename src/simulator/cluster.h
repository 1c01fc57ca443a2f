/*
 * cluster.h - a modelled cluster: identical machines, the network between them, and the figures of
 * the model.
 *
 * The machine is a topology (topology.h); latencies, efficiencies and the shape of the network come
 * from clusters.txt, which gives the source of each figure, or from the user's file. Ranks are
 * numbered node by node, within a node by GPU. A machine without GPUs has as many ranks as its
 * figures say, which fill one package after the other.
 */
#ifndef BB_SIMULATOR_CLUSTER_H
#define BB_SIMULATOR_CLUSTER_H

#include "topology/build.h"
#include "topology/topology.h"

#define BB_CLUSTER_MOST_RANKS 1048576
#define BB_CLUSTER_NODE_RANKS 1024 /* at most, of one node */

/* Rates are in bytes per second, times in seconds, efficiencies fractions. */
enum bb_figure {
	BB_FIGURE_GPU_RATE,         /* of a GPU within the node, each way at once */
	BB_FIGURE_NIC_RATE,         /* of one rail of a node, each way */
	BB_FIGURE_GPU_EFFICIENCY,   /* share of GPU_RATE that a collective reaches */
	BB_FIGURE_NIC_EFFICIENCY,   /* of NIC_RATE */
	BB_FIGURE_GPU_LATENCY,      /* a message over NVLink */
	BB_FIGURE_PCIE_LATENCY,     /* a message over PCIe within the node */
	BB_FIGURE_NET_LATENCY,      /* a message to another node, one switch included */
	BB_FIGURE_SWITCH_LATENCY,   /* of each further switch */
	BB_FIGURE_MESSAGE_OVERHEAD, /* time of each message on the output and the input port,
				       beside its bytes */
	BB_FIGURE_LEAF_NODES,       /* nodes whose NICs of a rail share one leaf switch */
	BB_FIGURE_LEAF_TAPER,       /* a leaf's rate down, over its rate up */
	BB_FIGURE_POD_NODES,        /* nodes below one set of spine switches */
	BB_FIGURE_POD_TAPER,        /* a pod's rate down, over its rate up */
	/* Of nodes without GPUs. */
	BB_FIGURE_NODE_RANKS,
	BB_FIGURE_LOOPBACK,            /* not 0: messages within a node take its NICs, too */
	BB_FIGURE_CORE_RATE,           /* of a rank's copies within the node */
	BB_FIGURE_CORE_LATENCY,        /* of a message within a package */
	BB_FIGURE_PACKAGE_LATENCY,     /* of one to another package of the node */
	BB_FIGURE_MEMORY_RATE,         /* of a package; 0: its ranks do not share it */
	BB_FIGURE_MEMORY_EFFICIENCY,   /* bytes of messages over bytes of memory */
	BB_FIGURE_INLINE_SIZE,         /* the most bytes that MPI sends with the header */
	BB_FIGURE_EAGER_SIZE,          /* that it sends before the receiver is ready */
	BB_FIGURE_INLINE_OVERHEAD,     /* in place of MESSAGE_OVERHEAD */
	BB_FIGURE_EAGER_OVERHEAD,      /* more, beyond INLINE_SIZE */
	BB_FIGURE_RENDEZVOUS_OVERHEAD, /* and more, beyond EAGER_SIZE */
	/* Of the model of NCCL (nccl_model.h). */
	BB_FIGURE_NCCL_NIC_LATENCY,  /* added to each hop by the network plug-in */
	BB_FIGURE_NCCL_TREE_FILL,    /* to fill the pipeline of NVLSTree, for each level of nodes */
	BB_FIGURE_NCCL_ISSUE,        /* least time between two operations */
	BB_FIGURE_NCCL_PROCESS_GPUS, /* ranks that one process issues operations for */
	BB_FIGURES
};

enum bb_inside {
	BB_INSIDE_NOTHING, /* one rank */
	BB_INSIDE_SWITCH,  /* NVSwitches: each GPU has a port of gpu_rate */
	BB_INSIDE_LINKS,   /* NVLinks or xGMI between pairs, PCIe where a pair has none */
	BB_INSIDE_PCIE,
	BB_INSIDE_MEMORY /* ranks on CPUs, whose messages are copies, or take the NIC */
};

enum bb_cluster_path {
	BB_CLUSTER_SELF,
	BB_CLUSTER_NVLINK, /* through NVSwitches, or over NVLinks of their own */
	BB_CLUSTER_PCIE,
	BB_CLUSTER_MEMORY,
	BB_CLUSTER_LEAF, /* the same rail below the same leaf switch */
	BB_CLUSTER_POD,  /* up to the spine and down */
	BB_CLUSTER_CORE, /* up to the core */
	BB_CLUSTER_PATHS
};
struct bb_cluster_route {
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
	int rails;                            /* of a node; 0: it has none */
	bool infiniband;                      /* they are; false where nic_rate is of others */
	int rail_of[BB_CLUSTER_NODE_RANKS];   /* of each rank of a node */
	int rail_gpus[BB_CLUSTER_NODE_RANKS]; /* ranks of a node that share a rail */
	double gpu_rate, nic_rate;            /* with their efficiencies; of a core without GPUs */
	double figures[BB_FIGURES];
	struct bb_cluster_route *pairs; /* [from * gpus + to] of one node */
};

/* Parses LENGTH bytes of a file called NAME. The caller frees *T. */
typedef bb_status bb_topology_parser(const char *text, size_t length, const char *name,
				     struct bb_topology **t, struct bb_error *error);

/* The shared object with the XML reader, which alone needs an XML library, exports this as
   `bb_plugin_topology`. */
#define BB_READER_SYMBOL "bb_plugin_topology"
#define BB_READER_ABI 2u
struct bb_topology_reader {
	unsigned abi;
	bb_topology_parser *parse;
};
extern const struct bb_topology_reader bb_plugin_topology;

/*
 * Open the cluster TEXT of --cluster: NAME[:NODES], where NAME is a known system, a file of
 * figures, or a file of a topology, which PARSE reads (NULL: BB_EUNSUPPORTED). A file may be named
 * as bb_shelf_clusters has it. The default of NODES
 * is the number in the file, else the number of nodes that share NVSwitches. BB_EUSAGE names what
 * is wrong. The caller frees *CLUSTER.
 */
BB_MUST bb_status bb_cluster_open(const char *text, bb_topology_parser *parse,
				  struct bb_cluster **cluster, struct bb_error *error);
void bb_cluster_free(struct bb_cluster *cluster); /* NULL: nothing */

/*
 * Make a cluster of NODES nodes of RANKS ranks (at most BB_MOST_GPUS) from two links of each rank:
 * INSIDE to every other rank of its node, and BETWEEN, its own rail. Its topology is empty.
 * The caller frees *CLUSTER. BB_EINTERNAL with *CLUSTER NULL: out of memory.
 */
struct bb_cluster_link {
	double rate, latency;
};
BB_MUST bb_status bb_cluster_of_links(struct bb_cluster **cluster, int nodes, int ranks,
				      const struct bb_cluster_link *inside,
				      const struct bb_cluster_link *between,
				      struct bb_error *error);

/* ---- routes between two ranks ----------------------------------------------------------- */

const char *bb_cluster_path_name(const struct bb_cluster *c,
				 enum bb_cluster_path path); /* "leaf" */

/* The route from rank FROM to rank TO. */
struct bb_cluster_route bb_cluster_route(const struct bb_cluster *c, int from, int to);

static inline int bb_cluster_node(const struct bb_cluster *c, int rank)
{
	return rank / c->gpus;
}

/* Do messages within a node of C take its NICs? */
static inline bool bb_cluster_loops_back(const struct bb_cluster *c)
{
	return c->inside == BB_INSIDE_MEMORY && c->figures[BB_FIGURE_LOOPBACK] > 0;
}

/* Bytes that the caches of a package of a node hold. */
double bb_cluster_cache(const struct bb_cluster *c);

/* The rail that RANK leaves its node by. */
static inline int bb_cluster_rail(const struct bb_cluster *c, int rank)
{
	return c->rail_of[rank % c->gpus];
}

/* Append one line that describes it: ranks, links, rails, leaves and pods. */
void bb_cluster_describe(const struct bb_cluster *c, struct bb_strbuf *out);

#endif
