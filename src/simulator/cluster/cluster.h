/*
 * cluster.h - a modelled cluster: identical machines, the network between them, and the figures of
 * the model.
 *
 * The machine is a topology (topology.h); latencies, efficiencies and the shape of the network come
 * from clusters.txt, which gives the source of each figure, or from the user's file. Ranks are
 * numbered node by node, within a node by GPU. A machine without GPUs has as many ranks as its
 * figures say, which fill one package after the other.
 */
#pragma once

#include "core/settings.h"
#include "simulator/fabric.h"
#include "topology/build.h"
#include "topology/topology.h"

#define BB_CLUSTER_MOST_RANKS 1048576
#define BB_CLUSTER_NODE_RANKS 1024 /* at most, of one node */

/* The figures: their names in clusters.txt and their units. Rates are in bytes per second, times in
   seconds, efficiencies fractions. Figures of nodes without GPUs begin with NODE_RANKS, those of
   the model of NCCL (nccl/model.h) with NCCL_NIC_LATENCY. */
#define BB_FIGURE_LIST(FIGURE)                                                                     \
	/* of a GPU within the node, each way at once */                                           \
	FIGURE(GPU_RATE, "gpu_rate", RATE)                                                         \
	/* of one rail of a node, each way */                                                      \
	FIGURE(NIC_RATE, "nic_rate", RATE)                                                         \
	/* share of GPU_RATE that a collective reaches */                                          \
	FIGURE(GPU_EFFICIENCY, "gpu_efficiency", SHARE)                                            \
	/* of NIC_RATE */                                                                          \
	FIGURE(NIC_EFFICIENCY, "nic_efficiency", SHARE)                                            \
	/* a message over NVLink */                                                                \
	FIGURE(GPU_LATENCY, "gpu_latency", TIME)                                                   \
	/* a message over PCIe within the node */                                                  \
	FIGURE(PCIE_LATENCY, "pcie_latency", TIME)                                                 \
	/* a message to another node, one switch included */                                       \
	FIGURE(NET_LATENCY, "net_latency", TIME)                                                   \
	/* of each further switch */                                                               \
	FIGURE(SWITCH_LATENCY, "switch_latency", TIME)                                             \
	/* time of each message on the output and the input port, beside its bytes */              \
	FIGURE(MESSAGE_OVERHEAD, "message_overhead", TIME)                                         \
	/* nodes whose NICs of a rail share one leaf switch */                                     \
	FIGURE(LEAF_NODES, "leaf_nodes", COUNT)                                                    \
	/* a leaf's rate down, over its rate up */                                                 \
	FIGURE(LEAF_TAPER, "leaf_taper", NUMBER)                                                   \
	/* nodes below one set of spine switches */                                                \
	FIGURE(POD_NODES, "pod_nodes", COUNT)                                                      \
	/* a pod's rate down, over its rate up */                                                  \
	FIGURE(POD_TAPER, "pod_taper", NUMBER)                                                     \
	FIGURE(NODE_RANKS, "node_ranks", COUNT)                                                    \
	/* not 0: messages within a node take its NICs, too */                                     \
	FIGURE(LOOPBACK, "loopback", COUNT)                                                        \
	/* of a rank's copies within the node */                                                   \
	FIGURE(CORE_RATE, "core_rate", RATE)                                                       \
	/* of a rank's additions */                                                                \
	FIGURE(ADD_RATE, "add_rate", RATE)                                                         \
	/* of a message within a package */                                                        \
	FIGURE(CORE_LATENCY, "core_latency", TIME)                                                 \
	/* of one to another package of the node */                                                \
	FIGURE(PACKAGE_LATENCY, "package_latency", TIME)                                           \
	/* of a package; 0: its ranks do not share it */                                           \
	FIGURE(MEMORY_RATE, "memory_rate", RATE)                                                   \
	/* bytes of messages over bytes of memory */                                               \
	FIGURE(MEMORY_EFFICIENCY, "memory_efficiency", SHARE)                                      \
	/* the most bytes that MPI sends with the header */                                        \
	FIGURE(INLINE_SIZE, "inline_size", SIZE)                                                   \
	/* that it sends before the receiver is ready */                                           \
	FIGURE(EAGER_SIZE, "eager_size", SIZE)                                                     \
	/* in place of MESSAGE_OVERHEAD */                                                         \
	FIGURE(INLINE_OVERHEAD, "inline_overhead", TIME)                                           \
	/* of a message beyond INLINE_SIZE, more */                                                \
	FIGURE(EAGER_LATENCY, "eager_latency", TIME)                                               \
	/* and more, beyond EAGER_SIZE */                                                          \
	FIGURE(RENDEZVOUS_LATENCY, "rendezvous_latency", TIME)                                     \
	/* do GPUs access each other's memory over PCIe? 0: as the topology has it */              \
	FIGURE(PEER_ACCESS, "peer_access", YES)                                                    \
	/* of PCIe's rate, where messages pass the host's memory */                                \
	FIGURE(HOST_EFFICIENCY, "host_efficiency", SHARE)                                          \
	/* do NICs access the memory of GPUs? 0: as is usual for these GPUs */                     \
	FIGURE(GPUDIRECT, "gpudirect", YES)                                                        \
	/* added to each hop by the network plug-in */                                             \
	FIGURE(NCCL_NIC_LATENCY, "nccl_nic_latency", TIME)                                         \
	/* to fill the pipeline of NVLSTree */                                                     \
	FIGURE(NCCL_TREE_FILL, "nccl_tree_fill", TIME)                                             \
	/* least time between two operations */                                                    \
	FIGURE(NCCL_ISSUE, "nccl_issue", TIME)                                                     \
	/* ranks that one process issues operations for */                                         \
	FIGURE(NCCL_PROCESS_GPUS, "nccl_process_gpus", NUMBER)                                     \
	/* does NCCL use switches that reduce? 0: wherever it can */                               \
	FIGURE(NCCL_NVLS, "nccl_nvls", YES)

#define BB_FIGURE_NUMBER(figure, name, unit) BB_FIGURE_##figure,
enum bb_figure { BB_FIGURE_LIST(BB_FIGURE_NUMBER) BB_FIGURES };
#undef BB_FIGURE_NUMBER

extern const struct bb_figure_row {
	const char *name; /* "gpu_rate" */
	enum bb_setting_unit unit;
} bb_figure_rows[BB_FIGURES];

enum bb_inside {
	BB_INSIDE_NOTHING, /* one rank */
	BB_INSIDE_SWITCH,  /* NVSwitches: each GPU has a port of gpu_rate */
	BB_INSIDE_LINKS,   /* NVLinks or xGMI between pairs, PCIe where a pair has none */
	BB_INSIDE_PCIE,
	BB_INSIDE_MEMORY /* ranks on CPUs, whose messages are copies, or take the NIC */
};

/* Kinds of NICs, which NCCL reaches by different network plug-ins. */
enum bb_nic_kind {
	BB_NICS_OTHER, /* also where nic_rate replaces the rate of any but EFA */
	BB_NICS_INFINIBAND,
	BB_NICS_EFA, /* of AWS, by generation: that of p4d, of p5, and later ones */
	BB_NICS_EFA_P5,
	BB_NICS_EFA_LATER
};
struct bb_cluster_route {
	enum bb_cluster_path path;
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
	int rails;                          /* of a node; 0: it has none */
	enum bb_nic_kind nics;              /* of the rails */
	bool near_nics;                     /* no GPU is farther from its NIC than PCIe switches */
	bool staged;                        /* NICs cannot access the memory of GPUs */
	int rail_of[BB_CLUSTER_NODE_RANKS]; /* of each rank of a node */
	int rail_gpus[BB_CLUSTER_NODE_RANKS]; /* ranks of a node that share a rail */
	double gpu_rate, nic_rate;            /* with their efficiencies; of a core without GPUs */
	double figures[BB_FIGURES];
	struct bb_fabric fabric;      /* of all this, without a fault */
	struct bb_fabric_pair *pairs; /* of the fabric; owned */
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

/* How a machine differs from its description. */
struct bb_cluster_change {
	int nodes; /* of the cluster, spread evenly over NVLink domains; 0: as TEXT says */
	int nics;  /* of a node that serve GPUs; 0: as described */
	enum bb_nic_layer layer; /* of these NICs; BB_LAYER_UNKNOWN: as described */
	int64_t nic_Mbps;        /* of each of them; 0: as described */
};

/* The same with CHANGE. More NICs than described have the rates of several. BB_EUSAGE: the machine
   has no NIC to change. */
BB_MUST bb_status bb_cluster_open_changed(const char *text, const struct bb_cluster_change *change,
					  bb_topology_parser *parse, struct bb_cluster **cluster,
					  struct bb_error *error);

/* The NICs of a node of T that serve GPUs (or, without, the host), the sum of their rates, and
   their kind. */
struct bb_cluster_nics {
	int n;
	int64_t Mbps; /* of all */
	double GBps;  /* likewise, of bytes */
	enum bb_nic_kind kind;
};
struct bb_cluster_nics bb_cluster_nics_of(const struct bb_topology *t);
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

/* ---- routes between two ranks --------------------------------------------------------- */

const char *bb_cluster_path_name(const struct bb_cluster *c,
				 enum bb_cluster_path path); /* "leaf" */

/* The route from rank FROM to rank TO. */
struct bb_cluster_route bb_cluster_route(const struct bb_cluster *c, int from, int to);

static inline int bb_cluster_node(const struct bb_cluster *c, int rank)
{
	return rank / c->gpus;
}

static inline bool bb_cluster_has_gpus(const struct bb_cluster *c)
{
	return bb_topology_count(c->node, BB_GPU) > 0;
}

/* Do messages within a node of C take its NICs? */
static inline bool bb_cluster_loops_back(const struct bb_cluster *c)
{
	return c->inside == BB_INSIDE_MEMORY && c->figures[BB_FIGURE_LOOPBACK] > 0;
}

/* Bytes that the caches of a package of a node hold. */
double bb_cluster_cache(const struct bb_cluster *c);

/* PCIe among a set of GPUs of a node. */
struct bb_cluster_slots {
	bool through_host; /* some pairs can only exchange messages through the host's memory */
	double alone;      /* rate of the slowest GPU, bytes per second; INFINITY: unknown */
	/* The same where each GPU sends to one other and receives from one, and those below a
	   switch share its link up. */
	double together;
};
struct bb_cluster_slots bb_cluster_slots(const struct bb_cluster *c, uint64_t set);

/* The rail that RANK leaves its node by. */
static inline int bb_cluster_rail(const struct bb_cluster *c, int rank)
{
	return c->rail_of[rank % c->gpus];
}

/* Append one line that describes it: ranks, links, rails, leaves and pods. */
void bb_cluster_describe(const struct bb_cluster *c, struct bb_strbuf *out);
