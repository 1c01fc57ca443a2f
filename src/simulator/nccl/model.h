/*
 * model.h - the times of NCCL's collectives on modelled GPUs. Pure: closed forms over
 * constants that constants.c reads from nccl.txt.
 *
 * Two views share one set of formulas, those by which NCCL chooses (src/graph/tuning.cc): a time is
 * a latency of each hop of an algorithm plus bytes over the rate that it reaches. AS_TUNED uses
 * NCCL's own constants and predicts its choice; AS_MEASURED uses constants from measurements and
 * predicts how long that choice takes:
 *
 * - Rings: each channel goes through all GPUs of a node and leaves by a NIC of its own. all_reduce
 *   has 2(n - 1) hops, all_gather and reduce_scatter n - 1; broadcast and reduce pass all ranks
 * once.
 * - Tree: a chain through the GPUs of a node, a double binary tree over nodes. Each of three or
 *   more nodes receives and sends 2S; each of two nodes receives S.
 * - NVLS: a GPU moves S + S / n each way, so busbw <= rate * 2(n - 1) / (n + 1).
 * - NVLSTree: NVLS in the node, the double tree over nodes; the slower of the two. The time to
 *   fill its pipeline grows with the bytes, up to fill_most.
 * - PAT: log2(nodes) rounds, one GPU on each node.
 * - Messages (alltoall, gather, scatter, sendrecv): messages.c.
 */
#pragma once

#include "core/datatype.h"
#include "simulator/cluster/cluster.h"
#include "schedules/schedule.h"

#include <stdbool.h>

enum bb_nccl_algorithm {
	BB_NCCL_RING,
	BB_NCCL_TREE,
	BB_NCCL_NVLS,
	BB_NCCL_NVLSTREE,
	BB_NCCL_PAT,
	BB_NCCL_ALGORITHMS,
	BB_NCCL_ANY = BB_NCCL_ALGORITHMS /* requested: the fastest */
};

enum bb_nccl_protocol {
	BB_NCCL_LL,
	BB_NCCL_LL128,
	BB_NCCL_SIMPLE,
	BB_NCCL_PROTOCOLS,
	BB_NCCL_ANY_PROTOCOL = BB_NCCL_PROTOCOLS
};

/* The link that a hop goes over. */
enum bb_nccl_hop { BB_NCCL_OVER_NVLINK, BB_NCCL_OVER_PCIE, BB_NCCL_OVER_NET, BB_NCCL_HOPS };

enum { BB_NCCL_SPANS = 3 };       /* one node, two nodes, more */
enum { BB_NCCL_TREE_SIZES = 24 }; /* powers of two from 64 bytes on */
enum { BB_NCCL_CHANNEL_RATES = 21 };

/* The path from the NIC of one node to that of another, or between two GPUs if they are the same
   node. Nodes count from 0 in the group. FACTOR below 1: none is slow. */
struct bb_nccl_slow_path {
	double factor; /* times as long for each byte, and for the latency */
	int from, to;
};

enum { BB_NCCL_EFA = 3 }; /* generations of AWS's adapters: of p4d, of p5, later ones */

/* Predictions that have an interval in common. */
enum bb_nccl_interval_class {
	BB_NCCL_SMALL,  /* below 1 MiB */
	BB_NCCL_MEDIUM, /* below 256 MiB */
	BB_NCCL_LARGE,
	BB_NCCL_LARGE_MESSAGES, /* as large, of collectives made of messages, over nodes */
	BB_NCCL_INTERVAL_CLASSES
};

enum { BB_NCCL_KINDS = 60 }; /* of machines: likeness.c */

/* Published rows that were predicted without their machine, and these machines. */
struct bb_nccl_basis {
	int machines, rows;
};
struct bb_nccl_likeness {
	int nodes; /* the most of any of these rows, as NCCL counts them */
	struct bb_nccl_basis basis[BB_NCCL_INTERVAL_CLASSES];
};

/* The constants of nccl.txt that are ONE number or SOME: their names there, how many, and their
   units. Rates are in bytes per second, times in seconds. */
#define BB_NCCL_NUMBERS(ONE, SOME)                                                                 \
	/* ---- NCCL's own. */                                                                     \
	ONE(nvlstree_by_size, NUMBER) /* not 0: NVLSTree has tree_share on CPUs of x86 */          \
	ONE(ring_plateau, NUMBER)     /* latency factor of long rings over nodes, Simple */        \
	ONE(ring_ll_part, SHARE)      /* of the links' rate, as other parts */                     \
	ONE(ring_ll128_part, SHARE)                                                                \
	ONE(tree_part, SHARE)                                                                      \
	ONE(tree_ll_part, SHARE)    /* of tree_part's rate */                                      \
	ONE(tree_plain_part, SHARE) /* of the rate of a tree that is not balanced */               \
	ONE(pat_part, SHARE)                                                                       \
	ONE(pat_hop_part, SHARE)                                                                   \
	ONE(pat_rank, TIME)                                                                        \
	ONE(tree_plain, NUMBER) /* not 0: trees are not balanced if GPUs have NICs of their own */ \
	ONE(tree_two_between, NUMBER)  /* not 0: over two nodes the rate between them counts */    \
	ONE(pat_two_between, NUMBER)   /* likewise, of PAT */                                      \
	ONE(ring_plateau_node, NUMBER) /* as ring_plateau, in one node; 0: none */                 \
	ONE(channels_most, NUMBER)     /* of rings and trees that NCCL searches for */             \
	ONE(nvls_heads, NUMBER)        /* the most channels of NVLS */                             \
	ONE(ll_most_node, RATE)        /* of all channels together; other rates are of one */      \
	ONE(fp8, NUMBER)               /* not 0: collectives reduce fp8 */                         \
	ONE(nvls_share, SHARE)         /* of NVLink's rate; 0: no NVLS */                          \
	ONE(nvls_least, NUMBER)        /* the fewest GPUs of a node that NVLS runs on */           \
	ONE(nvls_part, SHARE)          /* algbw of its channels' rate; 0: by nvls_share */         \
	ONE(messages_channels, NUMBER)                                                             \
	ONE(messages_net_rate, RATE)                                                               \
	ONE(messages_net_most, NUMBER) /* channels to a peer over the network */                   \
	ONE(messages_batch, NUMBER)                                                                \
	ONE(messages_ll, SIZE) /* LL's most bytes on a channel */                                  \
	/* ---- Measured replacements. */                                                          \
	ONE(ring_ll_rate, RATE)      /* busbw of a ring in one node, LL */                         \
	ONE(ring_ll128_share, SHARE) /* of NVLink's rate, LL128, also over nodes */                \
	ONE(host_part, SHARE)        /* of PCIe's rate, each way at once, to the host's memory */  \
	ONE(peers_most, RATE)        /* of a GPU over PCIe with peer access */                     \
	ONE(staged_part, SHARE)      /* of the network's, without GPUDirect RDMA */                \
	ONE(ring_operations, NUMBER) /* loads and stores of SMs for each byte of NVLinks */        \
	ONE(ring_simple_hop, TIME)   /* over NVLink */                                             \
	ONE(ring_ll_hop, TIME)       /* over NVLink */                                             \
	ONE(ring_pcie_ll_hop, TIME)  /* over PCIe */                                               \
	ONE(ll128_hop_more, TIME)    /* over NVLink, above NCCL's */                               \
	ONE(tree_channels, NUMBER)   /* that run at least */                                       \
	ONE(ring_gather_channel, RATE) /* over nodes, of all_gather and reduce_scatter */          \
	ONE(ring_wide_part, SHARE)     /* of NVLinks' rate, among nodes that share switches */     \
	ONE(ring_wide_ll_hop, TIME)    /* likewise; 0: as within a node */                         \
	ONE(ring_wide_ll_rate, RATE)   /* their busbw, LL; 0: as within a node */                  \
	ONE(nvls_base, TIME)                                                                       \
	ONE(nvls_rate, RATE)                                                                       \
	ONE(nvls_fill, TIME)                                                                       \
	ONE(nvls_link, RATE)  /* rate of the measured GPUs' links; fewer links are slower */       \
	ONE(nvls_few, NUMBER) /* GPUs on the switches; of more these two hold */                   \
	ONE(nvls_wide_rate, RATE)                                                                  \
	ONE(nvls_gpu_least, TIME) /* each further GPU, of any size */                              \
	ONE(nvls_gpu, TIME)       /* and with the pipeline filled */                               \
	ONE(nvlstree_rate, RATE)                                                                   \
	ONE(fill_most, SIZE)      /* bytes from which the fill time no longer grows */             \
	ONE(tree_net_more, TIME)  /* of each hop over the network */                               \
	ONE(tree_net_whole, SIZE) /* bytes from which all of that counts */                        \
	/* ---- Of collectives made of messages. */                                                \
	ONE(sm_clock, NUMBER)       /* of an SM, in GHz */                                         \
	ONE(messages_base, TIME)    /* of LL within a node */                                      \
	ONE(messages_share, SHARE)  /* of the links' rate */                                       \
	ONE(messages_clock, NUMBER) /* bytes that a channel moves in a clock */                    \
	ONE(messages_stage, SHARE)  /* of the first chunks' time until they are received */        \
	ONE(messages_issue, SHARE)  /* share of the issue time, for each message */                \
	ONE(launch, TIME)           /* time to issue an operation of one rank */                   \
	ONE(messages_net_channel, RATE)                                                            \
	/* ---- Of network plug-ins. */                                                            \
	ONE(interval_plugin, TIME)  /* added to a hop at most, by an unknown network plug-in */    \
	ONE(like_least, NUMBER)     /* machines for an interval of their own */                    \
	ONE(like_nodes, NUMBER)     /* multiple of the most nodes of rows that it holds for */     \
	ONE(racks_measured, NUMBER) /* of NVSwitches; the most that were measured */               \
	/* ---- Several numbers. */                                                                \
	SOME(tree_ll128_part, BB_NCCL_SPANS, SHARE) /* of tree_part's rate */                      \
	SOME(channel_rates, BB_NCCL_CHANNEL_RATES,                                                 \
	     RATE) /* of a channel, which NCCL tries over nodes */                                 \
	SOME(channel_rates_node, BB_NCCL_CHANNEL_RATES, RATE) /* in one node */                    \
	SOME(channels_double, 2, RATE) /* from which it doubles up to four channels, and more */   \
	SOME(ring_ll128_channel, BB_NCCL_SPANS, RATE)                                              \
	SOME(tree_ll128_channel, BB_NCCL_SPANS, RATE)                                              \
	SOME(tree_channel, BB_NCCL_SPANS, RATE)                                                    \
	SOME(nvlstree_channel, BB_NCCL_SPANS - 1, RATE) /* two nodes, more */                      \
	SOME(messages_chunk, BB_NCCL_HOPS, SIZE)                                                   \
	SOME(messages_least, BB_NCCL_HOPS, SHARE) /* chunks */                                     \
	SOME(messages_most, BB_NCCL_HOPS, NUMBER) /* likewise */                                   \
	SOME(efa, BB_NCCL_EFA, TIME)              /* that AWS's plug-in adds to a hop */           \
	SOME(interval_low, BB_NCCL_INTERVAL_CLASSES,                                               \
	     NUMBER) /* of measured over predicted times: */                                       \
	SOME(interval_high, BB_NCCL_INTERVAL_CLASSES,                                              \
	     NUMBER) /* nine in ten unseen machines lay between */                                 \
	SOME(interval_unlike_low, BB_NCCL_INTERVAL_CLASSES,                                        \
	     NUMBER) /* the same of machines of which no */                                        \
	SOME(interval_unlike_high, BB_NCCL_INTERVAL_CLASSES, NUMBER) /* other was alike */

#define BB_NCCL_MEMBER(name, unit) double name;
#define BB_NCCL_MEMBERS(name, n, unit) double name[n];
struct bb_nccl_constants {
	BB_NCCL_NUMBERS(BB_NCCL_MEMBER, BB_NCCL_MEMBERS)
	/* NCCL's own. */
	double base[BB_NCCL_ALGORITHMS][BB_NCCL_PROTOCOLS];
	double hop[BB_NCCL_HOPS][BB_NCCL_ALGORITHMS][BB_NCCL_PROTOCOLS];
	double tree_share[BB_NCCL_PROTOCOLS][BB_NCCL_TREE_SIZES]; /* of a tree's rate, by size */
	double ring_net_least[2]
			     [BB_NCCL_PROTOCOLS]; /* of each hop of a ring over nodes; [1]: AMD */
	double ll_most_net[2][BB_NCCL_SPANS - 1]; /* [1]: CPUs of AMD */
	struct bb_nccl_likeness likeness[BB_NCCL_KINDS];
	/* Lines of the file that are published, fitted to measurements, or assumed. */
	int published, fitted, assumed;
	const char *generation; /* "hopper"; NULL: there is no model */
	const char *versions;   /* "2.30.7" */
};
#undef BB_NCCL_MEMBER
#undef BB_NCCL_MEMBERS

/* The network's time with the taper over that without; below 1: no slowdown. */
struct bb_nccl_slowdown {
	double ring, tree, pat, alltoall, root, sendrecv;
};

/* Rates are in bytes per second, times in seconds. */
struct bb_nccl_machine {
	int ranks;
	int nodes;      /* as NCCL counts them: no NVLinks between two */
	int fewest;     /* ranks of any node */
	bool nvlink;    /* within a node; else PCIe */
	bool some_gpus; /* not all of each node */
	bool wide;      /* a node of NCCL is several nodes of the cluster */
	bool nvswitch;
	bool nvls_off;      /* though it could reduce */
	bool through_host;  /* over PCIe without peer access */
	bool near_nics;     /* of each GPU, behind PCIe switches at most */
	bool staged;        /* the network is reached through the host's memory */
	bool amd, x86;      /* CPUs */
	double gpu_rate;    /* of a GPU's links as NCCL assumes it, each way */
	double gpu_share;   /* share of it that rings reach */
	double alone_rate;  /* of a GPU that shares no PCIe switch with others, as gpu_rate */
	int rails;          /* NICs of a node; the fewest of any */
	double nic_rate;    /* of one of them as NCCL assumes it, each way */
	double net_rate;    /* of a node, all NICs, each way, as reached */
	double rank_rate;   /* a rank's share of it; the least of all nodes, as net_rate */
	double rail_rate;   /* the group's share of one rail, the least of all */
	double nic_latency; /* added to a hop by the network plug-in, twice with Simple, which
			       flushes; 0: what is usual for NICS */
	enum bb_nic_kind nics;
	struct bb_nccl_slowdown taper; /* of the network, by collective; NCCL's tuner ignores it */
	/* How many times as long a byte takes over the network, or over the links of a node,
	   because of a fault; below 1: there is none. NCCL's tuner does not know of it. */
	double net_fault, node_fault;
	struct bb_nccl_slow_path slow_path; /* which the tuner does not know of, either */
	double net_fill;                    /* of a tree's pipeline */
	double issue;                       /* least time between two operations */
	double process_gpus;                /* ranks that one process issues operations for */
	/* Why no algorithm is modelled on this machine; NULL: some are. */
	const char *unknown;
};

enum bb_nccl_view { BB_NCCL_AS_TUNED, BB_NCCL_AS_MEASURED };

/* "ring", "LL128" */
const char *bb_nccl_algorithm_name(enum bb_nccl_algorithm algorithm);
const char *bb_nccl_protocol_name(enum bb_nccl_protocol protocol);

/* Set *ALGORITHM and *PROTOCOL to those of NAME: "ring", "ring:LL", "auto:Simple"; empty is auto.
   Returns false if NCCL has none of that name. */
bool bb_nccl_named(const char *name, enum bb_nccl_algorithm *algorithm,
		   enum bb_nccl_protocol *protocol);

/* NULL, or why ALGORITHM does not support COLLECTIVE on any machine. */
const char *bb_nccl_lacks(const struct bb_collective *collective, enum bb_nccl_algorithm algorithm);
/* NULL, or why ALGORITHM does not run on MACHINE or is not modelled there. ANY: why none is. */
const char *bb_nccl_unfit(const struct bb_nccl_constants *c, const struct bb_nccl_machine *machine,
			  enum bb_nccl_algorithm algorithm);

/* The least seconds between two operations of MACHINE: a process issues the operations of its
   ranks one after the other. */
static inline double bb_nccl_issue(const struct bb_nccl_constants *c,
				   const struct bb_nccl_machine *machine)
{
	const double one = machine->process_gpus > 1 ? machine->process_gpus * c->launch : 0;

	return machine->issue > one ? machine->issue : one;
}

/* The slowest link of MACHINE. */
static inline enum bb_nccl_hop bb_nccl_slowest_hop(const struct bb_nccl_machine *machine)
{
	return machine->nodes > 1 ? BB_NCCL_OVER_NET
	       : machine->nvlink  ? BB_NCCL_OVER_NVLINK
				  : BB_NCCL_OVER_PCIE;
}

/* A collective as it is requested. */
struct bb_nccl_call {
	const struct bb_collective *collective;
	enum bb_nccl_algorithm algorithm;
	enum bb_nccl_protocol protocol;
	const struct bb_nccl_machine *machine;
	enum bb_dtype dtype; /* DTYPE and OP count where COLLECTIVE reduces */
	enum bb_op op;
	bool in_place;
	double bytes; /* as "size" counts them */
};

/* NULL, or why ALGORITHM does not reduce the datatype of CALL by its operation. ANY: why none does.
 */
const char *bb_nccl_cannot_reduce(const struct bb_nccl_constants *c,
				  const struct bb_nccl_call *call,
				  enum bb_nccl_algorithm algorithm);

/* Seconds of CALL, whose algorithm and protocol are not ANY; INFINITY where they do not run. */
double bb_nccl_time(const struct bb_nccl_constants *c, const struct bb_nccl_call *call,
		    enum bb_nccl_view view);

/* Seconds of a collective made of messages; INFINITY for others. An alltoallv counts as an alltoall
   whose ranks all move as much as its busiest. */
double bb_nccl_messages_time(const struct bb_nccl_constants *c, const struct bb_nccl_call *call);

/* Set *CHOSEN to CALL by the algorithm and protocol that NCCL chooses, the least time AS_TUNED.
   Returns false if none runs. */
bool bb_nccl_choose(const struct bb_nccl_constants *c, const struct bb_nccl_call *call,
		    struct bb_nccl_call *chosen);

/* ---- channels ------------------------------------------------------------------------- */

/* The channels that NCCL's search finds (ncclTopoCompute, src/graph/search.cc), and the rate of
   each by which NCCL's tuner counts. NCCL searches over paths; this has closed forms for nodes in
   which all GPUs have equal links. */

/* Rates in bytes per second, of one channel, for messages within a node and between nodes. */
struct bb_nccl_channels {
	double count;
	double inside, between;
};

/* Each channel leaves a node by the NIC of one GPU and passes the NVLinks of the others. In one
   node it returns to its first GPU. */
struct bb_nccl_channels bb_nccl_search_rings(const struct bb_nccl_constants *c,
					     const struct bb_nccl_machine *m);

/* As many channels as RINGS. Each is a chain through the GPUs of a node, which does not return. */
struct bb_nccl_channels bb_nccl_search_trees(const struct bb_nccl_constants *c,
					     const struct bb_nccl_machine *m,
					     const struct bb_nccl_channels *rings);

/* A channel for each GPU, the head of its part: it receives the part once to reduce it and once as
   the result. */
struct bb_nccl_channels bb_nccl_search_heads(const struct bb_nccl_constants *c,
					     const struct bb_nccl_machine *m);

/* ---- a slow path ---------------------------------------------------------------------- */

/* The part of the bytes that leave a NIC which takes the slow path of MACHINE, by ALGORITHM or,
   of collectives made of messages, ANY. NAN: unknown. */
double bb_nccl_path_share(const struct bb_nccl_machine *machine,
			  const struct bb_collective *collective, enum bb_nccl_algorithm algorithm);
/* NULL, or why the cost of the slow path is unknown for what NCCL chooses for CALL. */
const char *bb_nccl_path_unknown(const struct bb_nccl_constants *c,
				 const struct bb_nccl_call *call);
/* Of net_fault and the slow path of MACHINE together: how many times as long the busiest NIC needs,
   at least 1, and by how many times its latency a hop over the path takes longer; 0: nothing passes
   it. */
struct bb_nccl_faults {
	double net, delay;
};
struct bb_nccl_faults bb_nccl_faults_of(const struct bb_nccl_machine *machine,
					const struct bb_collective *collective,
					enum bb_nccl_algorithm algorithm);

/* Seconds AS_MEASURED of what NCCL chooses for CALL; INFINITY if nothing runs. */
double bb_nccl_call_time(const struct bb_nccl_constants *c, const struct bb_nccl_call *call);

/* Seconds that a network plug-in adds to a hop of MACHINE. */
static inline double bb_nccl_plugin(const struct bb_nccl_constants *c,
				    const struct bb_nccl_machine *machine)
{
	if (machine->nic_latency > 0)
		return machine->nic_latency;
	return machine->nics >= BB_NICS_EFA ? c->efa[machine->nics - BB_NICS_EFA] : 0;
}

/* How many times as long CALL takes if the network has a slow plug-in. 1 where that is excluded: in
   one node, over InfiniBand, or with a nic_latency. */
double bb_nccl_slow_plugin(const struct bb_nccl_constants *c, const struct bb_nccl_call *call);

/* How many times as long CALL takes if the memory of its hosts costs nothing; 1 where messages do
   not pass it. */
double bb_nccl_fast_host(const struct bb_nccl_constants *c, const struct bb_nccl_call *call);

enum bb_nccl_interval_class bb_nccl_interval_class(const struct bb_nccl_call *call);

/*
 * Set *LOW and *HIGH to the interval around the predicted time of CALL that held nine in ten
 * measurements of unseen machines, as multiples of that time. The high end includes a slow plug-in
 * of the network, unless that is excluded. With too few published machines like that of CALL
 * (bb_nccl_basis) it is that of machines without their like, whose low end includes the fastest
 * host; beyond racks_measured the widest.
 */
void bb_nccl_interval(const struct bb_nccl_constants *c, const struct bb_nccl_call *call,
		      double *low, double *high);

/* ---- tapers --------------------------------------------------------------------------- */

/*
 * How much slower NCCL's collectives are where a block of nodes (a leaf, a pod) has
 * fewer links up than down.
 *
 * Nodes are in the order of the ranks, block by block. Traffic that leaves a block spreads evenly
 * over the rails of all its nodes. Messages of alltoall, gather, scatter and sendrecv are moved to
 * their receiver's rail within the node (NCCL's PXN) where there is NVLink; elsewhere they change
 * rails above the leaf, also on their way to another node below it:
 *
 * - Rings go from node i to node i + 1 (connectRings, src/graph/connect.cc of NCCL 2.30.7): a block
 *   sends as much as one node.
 * - Double binary trees over nodes (ncclGetDtree, src/graph/trees.cc): each edge carries half of
 * the bytes each way; the edges that leave a block are counted.
 * - PAT: each node has a tree of its own, in which the node at offset o receives from offset o
 * minus its lowest set bit; edges are counted likewise.
 * - alltoall: each node sends to the nodes of all other blocks; gather and scatter: only the root's
 *   node does; sendrecv: one message leaves each block.
 */

/* Raise SLOWDOWN to that of NODES nodes, where each BLOCK of them shares uplinks whose rate is that
   of its rails divided by TAPER. RAILS is the number of rails among which messages change on
   uplinks; 1: messages do not change rails. */
void bb_nccl_taper(struct bb_nccl_slowdown *slowdown, int nodes, int block, int rails,
		   double taper);

/* The most edges of both trees over NODES that leave one of the blocks of BLOCK. */
int bb_nccl_tree_edges(int nodes, int block);

/* ---- the constants, from nccl.txt (constants.c) ----------------------------------------- */

/* Set *C to the constants for GPUs of compute capability SM (90); generation is NULL where there
   are none. BB_EINTERNAL: the file is malformed. */
BB_MUST bb_status bb_nccl_constants_find(struct bb_nccl_constants *c, int sm,
					 struct bb_error *error);

/* Set *OTHER to C with the constants of other versions, whose tuner differs; INDEX counts from 0.
 *MORE = false: there is none of this INDEX. */
BB_MUST bb_status bb_nccl_constants_other(struct bb_nccl_constants *other,
					  const struct bb_nccl_constants *c, int index, bool *more,
					  struct bb_error *error);

/* Set the constant KEY to VALUE, which is written as in nccl.txt and cut in place. Returns false if
   there is no such constant, or VALUE does not suit it. */
bool bb_nccl_constants_set(struct bb_nccl_constants *c, const char *key, char *value);

/* ---- a group of a cluster's ranks, in any order, as NCCL would detect it (shape.c) -------- */

/*
 * Fill MACHINE with what NCCL would detect of the N MEMBERS, ranks of CLUSTER: their nodes (nodes
 * that share NVSwitches count as one), their rails, and the NVLinks between them. Nodes that differ
 * are combined as in NCCL (src/init.cc, src/graph/tuning.cc): rates are those of the slowest node,
 * ranks of a node are their mean. Members of a node that NVLinks do not connect exchange messages
 * over PCIe. machine->unknown names what is not modelled: a single rank. WORLD is the number of
 * ranks of the run, the first of the cluster; those outside the group count as groups that do the
 * same at the same time, so a group's share of a rail is in proportion to its ranks on it. WORLD 0:
 * there are no others. False: out of memory.
 */
bool bb_nccl_shape_make(struct bb_nccl_machine *machine, const struct bb_cluster *cluster,
			int world, const int *members, int n);

/* Apply FLAW (NULL: none) to MACHINE. NCCL uses all rails of its members evenly and waits for the
   slowest node, so a fault of one of these rails slows all members. As in fabric.h, the ranks
   of a lost rail share the next one with its own ranks, members or not: if equally many groups use
   both, each has half of it. */
void bb_nccl_shape_apply_flaw(struct bb_nccl_machine *machine, const struct bb_cluster *cluster,
			      const struct bb_fabric_flaw *flaw, int world, const int *members,
			      int n);

/* Apply a path that takes FACTOR times as long from rank FROM to rank TO to MACHINE, of the N
   MEMBERS. With NVLinks NCCL keeps to a rail between nodes, so a path between two rails is not
   used. False: out of memory. */
bool bb_nccl_shape_apply_slow_path(struct bb_nccl_machine *machine,
				   const struct bb_cluster *cluster, double factor, int from,
				   int to, const int *members, int n);

/* ---- machines that are alike (likeness.c) ---------------------------------------------- */

/* The interval of a prediction follows from published rows of such machines; where these are few it
   is that of machines that were predicted without their like. */

enum { BB_NCCL_KIND_TEXT = 72, BB_NCCL_BASIS_TEXT = 176 };

/* The kind of MACHINE, below BB_NCCL_KINDS: links within a node (NVSwitches, racks of them,
   NVLinks, PCIe with or without peer access, one GPU), whether all GPUs take part, and the network.
 */
int bb_nccl_kind(const struct bb_nccl_machine *machine);
/* Write the name of KIND that nccl.txt has: "switch/all/efa". */
void bb_nccl_kind_name(int kind, char name[BB_NCCL_KIND_TEXT]);

/* Why published rows do not suffice for an interval of their own. */
enum bb_nccl_basis_lack { BB_NCCL_ENOUGH, BB_NCCL_FEW_MACHINES, BB_NCCL_FEW_NODES };

/* *BASIS = the published rows of machines like that of CALL, of the class of its size. */
enum bb_nccl_basis_lack bb_nccl_basis(const struct bb_nccl_constants *c,
				      const struct bb_nccl_call *call, struct bb_nccl_basis *basis);
/* Write "320 rows of 20 machines: NVSwitches, all GPUs, one node", or where they do not suffice "6
   rows of 1 machine, so the widest: PCIe with P2P, all GPUs, one node". */
void bb_nccl_basis_describe(const struct bb_nccl_constants *c, const struct bb_nccl_call *call,
			    char text[BB_NCCL_BASIS_TEXT]);
