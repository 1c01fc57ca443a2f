/*
 * nccl_model.h - the times of NCCL's collectives on modelled GPUs. Pure: closed forms over
 * constants that nccl_constants.h reads from nccl.txt.
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
 * - Messages (alltoall, gather, scatter, sendrecv): nccl_messages.c.
 */
#ifndef BB_SIMULATOR_NCCL_MODEL_H
#define BB_SIMULATOR_NCCL_MODEL_H

#include "simulator/nccl_tapers.h"
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
enum { BB_NCCL_CHANNEL_RATES = 20 };

enum { BB_NCCL_INTERVAL_SIZES = 3 }; /* below 1 MiB, below 256 MiB, and larger */

/* Rates are in bytes per second, times in seconds. */
struct bb_nccl_constants {
	/* NCCL's own. */
	double base[BB_NCCL_ALGORITHMS][BB_NCCL_PROTOCOLS];
	double hop[BB_NCCL_HOPS][BB_NCCL_ALGORITHMS][BB_NCCL_PROTOCOLS];
	double tree_share[BB_NCCL_PROTOCOLS][BB_NCCL_TREE_SIZES]; /* of a tree's rate, by size */
	double nvlstree_by_size; /* not 0: applies to NVLSTree where CPUs are x86 */
	double ring_plateau;     /* latency factor of long rings over nodes, Simple */
	double ring_net_least[2]
			     [BB_NCCL_PROTOCOLS]; /* of each hop of a ring over nodes; [1]: AMD */
	/* Fractions of the links' rate; tree_ll* are fractions of tree_part's rate. */
	double ring_ll_part, ring_ll128_part, tree_part, tree_ll_part;
	double tree_ll128_part[BB_NCCL_SPANS];
	double tree_plain_part; /* of the rate of a tree that is not balanced */
	double pat_part, pat_hop_part;
	double pat_rank; /* seconds */
	double channels; /* of rings and trees in one node */
	/* Over nodes: the rates of a channel that NCCL tries, the most channels, and the rates from
	   which it doubles up to four of them, and more. */
	double channel_rates[BB_NCCL_CHANNEL_RATES];
	double channels_most, channels_double[2];
	double nvls_channels;
	double ll_most_node; /* of all channels together; other rates are of one */
	double ll_most_net[2][BB_NCCL_SPANS - 1]; /* [1]: CPUs of AMD */
	double ring_ll128_channel[BB_NCCL_SPANS];
	double tree_ll128_channel[BB_NCCL_SPANS];
	double tree_channel[BB_NCCL_SPANS];
	double nvlstree_channel[BB_NCCL_SPANS - 1]; /* two nodes, more */
	double nvls_share;                          /* of NVLink's rate; 0: no NVLS */
	double nvls_least; /* the fewest GPUs of a node that NVLS runs on */
	/* Of BB_NCCL_BEFORE: NVLSTree's hop over the network, and what algbw reaches of the NICs'
	   rate, beyond two nodes of half of it. 0: not modelled. */
	double nvlstree_hop_before, nvlstree_part_before;
	bool before; /* the tuner is that of BB_NCCL_BEFORE */
	/* Measured replacements. */
	double ring_ll_rate;     /* busbw of a ring in one node, LL */
	double ring_ll128_share; /* of NVLink's rate, LL128, also over nodes */
	double ring_simple_hop;  /* over NVLink */
	double nvls_base, nvls_rate, nvls_fill;
	double nvls_link; /* rate of the measured GPUs' links; fewer links are slower */
	/* With more than nvls_few GPUs on the switches: the rate, and the time of each further GPU.
	 */
	double nvls_few, nvls_wide_rate, nvls_gpu;
	double nvlstree_rate;
	double fill_most;        /* bytes from which the fill time no longer grows */
	double ring_ll_hop;      /* over NVLink */
	double ring_gather_part; /* of the NICs' rate, of all_gather and reduce_scatter */
	/* Of rings among nodes that share switches: the part of NVLinks' rate, and of LL a hop and
	   the busbw. 0: as within a node. */
	double ring_wide_part, ring_wide_ll_hop, ring_wide_ll_rate;
	double tree_net_more; /* of each hop over the network, in full from tree_net_whole bytes on
			       */
	double tree_net_whole;
	/* Collectives made of messages. */
	double sm_clock;       /* of an SM, in GHz */
	double messages_base;  /* of LL within a node */
	double messages_share; /* of the links' rate */
	double messages_clock; /* bytes that a channel moves in a clock */
	double messages_stage; /* share of the first chunks' time until a receiver has them */
	double messages_issue; /* share of the issue time, for each message */
	double launch;         /* time to issue an operation of one rank */
	double messages_net_channel;
	/* NCCL's own. */
	double messages_channels, messages_net_rate, messages_batch;
	double messages_ll; /* LL's most bytes on a channel */
	double messages_chunk[BB_NCCL_HOPS];
	double messages_least[BB_NCCL_HOPS], messages_most[BB_NCCL_HOPS]; /* chunks */
	/* Lines of the file that are published, fitted to measurements, or assumed. */
	int published, fitted, assumed;
	/* Multiples of a predicted time between which nine in ten measurements lay, of machines
	   that nothing was fitted to, by size; the most that an unknown plug-in of the network adds
	   to a hop. */
	double interval_low[BB_NCCL_INTERVAL_SIZES], interval_high[BB_NCCL_INTERVAL_SIZES];
	double interval_plugin;
	const char *generation; /* "hopper" */
};

struct bb_nccl_machine {
	int ranks;
	int nodes;   /* as NCCL counts them: no NVLinks between two */
	int fewest;  /* ranks of any node */
	bool nvlink; /* within a node; else PCIe */
	bool wide;   /* a node of NCCL is several nodes of the cluster */
	bool nvswitch;
	bool amd, x86;      /* CPUs */
	double gpu_rate;    /* of a GPU's links as NCCL assumes it, each way */
	double gpu_share;   /* share of it that rings reach */
	int rails;          /* NICs of a node; the fewest of any */
	double nic_rate;    /* of one of them as NCCL assumes it, each way */
	double net_rate;    /* of a node, all NICs, each way, as reached */
	double rank_rate;   /* a rank's share of it; the least of all nodes, as net_rate */
	double rail_rate;   /* the group's share of one rail, the least of all */
	double nic_latency; /* added to a hop by the network plug-in; twice with Simple, which
			       flushes */
	bool infiniband;    /* the network needs no plug-in */
	struct bb_nccl_slowdown taper; /* of the network, by collective; NCCL's tuner ignores it */
	/* How many times as long a byte takes over the network, or over the links of a node,
	   because of a fault; below 1: there is none. NCCL's tuner does not know of it. */
	double net_fault, node_fault;
	double net_fill;     /* of a tree's pipeline, for each level of nodes */
	double issue;        /* least time between two operations */
	double process_gpus; /* ranks that one process issues operations for */
	/* Why no algorithm is modelled on this machine; NULL: some are. */
	const char *unknown;
};

enum bb_nccl_view { BB_NCCL_AS_TUNED, BB_NCCL_AS_MEASURED };

/* "ring", "LL128" */
const char *bb_nccl_algorithm_name(enum bb_nccl_algorithm algorithm);
const char *bb_nccl_protocol_name(enum bb_nccl_protocol protocol);

/* NULL, or why ALGORITHM does not support COLLECTIVE on any machine. */
const char *bb_nccl_lacks(const struct bb_collective *collective, enum bb_nccl_algorithm algorithm);
/* NULL, or why ALGORITHM does not run on MACHINE or is not modelled there. ANY: why none is. */
const char *bb_nccl_unfit(const struct bb_nccl_constants *c, const struct bb_nccl_machine *machine,
			  enum bb_nccl_algorithm algorithm);

/*
 * Seconds of one COLLECTIVE of BYTES, as "size" counts them, by ALGORITHM and PROTOCOL, neither
 * ANY; INFINITY where they do not run.
 */
double bb_nccl_time(const struct bb_nccl_constants *c, const struct bb_nccl_machine *machine,
		    enum bb_nccl_view view, const struct bb_collective *collective,
		    enum bb_nccl_algorithm algorithm, enum bb_nccl_protocol protocol, double bytes);

/* Seconds of a collective made of messages; INFINITY for others. BYTES are as "size" counts them;
   an alltoallv counts as an alltoall whose ranks all move as much as its busiest. */
double bb_nccl_messages_time(const struct bb_nccl_constants *c,
			     const struct bb_nccl_machine *machine,
			     const struct bb_collective *collective, double bytes);

/* The least seconds between two operations of MACHINE: a process issues the operations of its
   ranks one after the other. */
double bb_nccl_issue(const struct bb_nccl_constants *c, const struct bb_nccl_machine *machine);

/*
 * Set *ALGORITHM and *PROTOCOL, either of which may be ANY, to NCCL's choice for BYTES, the least
 * time AS_TUNED. Returns false if none runs.
 */
bool bb_nccl_choose(const struct bb_nccl_constants *c, const struct bb_nccl_machine *machine,
		    const struct bb_collective *collective, double bytes,
		    enum bb_nccl_algorithm *algorithm, enum bb_nccl_protocol *protocol);

/* The same as BB_NCCL_BEFORE choose. Returns false where these are not modelled. */
#define BB_NCCL_BEFORE "NCCL 2.20 to 2.27"
bool bb_nccl_choose_before(const struct bb_nccl_constants *c, const struct bb_nccl_machine *machine,
			   const struct bb_collective *collective, double bytes,
			   enum bb_nccl_algorithm *algorithm, enum bb_nccl_protocol *protocol);

/* A collective as it is requested. */
struct bb_nccl_call {
	const struct bb_collective *collective;
	enum bb_nccl_algorithm algorithm;
	enum bb_nccl_protocol protocol;
	const struct bb_nccl_machine *machine;
	bool in_place;
	double bytes; /* as "size" counts them */
};

/* Seconds AS_MEASURED of what NCCL chooses for CALL; INFINITY if nothing runs. */
double bb_nccl_call_time(const struct bb_nccl_constants *c, const struct bb_nccl_call *call);

/* How many times as long CALL takes if the network has a slow plug-in. 1 where that is excluded: in
   one node, over InfiniBand, or with a nic_latency. */
double bb_nccl_slow_plugin(const struct bb_nccl_constants *c, const struct bb_nccl_call *call);

/*
 * Set *LOW and *HIGH to the interval around the predicted time of CALL that held nine in ten
 * measurements of unseen machines, as multiples of that time. The high end includes a slow plug-in
 * of the network, unless that is excluded.
 */
void bb_nccl_interval(const struct bb_nccl_constants *c, const struct bb_nccl_call *call,
		      double *low, double *high);

#endif
