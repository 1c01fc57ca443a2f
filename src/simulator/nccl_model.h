/*
 * nccl_model.h - how long NCCL's collectives take on GPUs that are not here. Pure: closed forms
 * over a struct of constants, which nccl_constants.h reads from nccl.txt.
 *
 * Two views share one set of formulas, those by which NCCL chooses (src/graph/tuning.cc): a time is
 * a latency for each hop of an algorithm and bytes over the rate that it reaches. AS_TUNED takes
 * NCCL's own constants, for what it would choose; AS_MEASURED those that measurements gave in their
 * place, for how long that takes:
 *
 * - Rings: each channel goes through all GPUs of a node and leaves by a NIC of its own. 2(n - 1)
 *   hops for all_reduce, n - 1 for all_gather and reduce_scatter; broadcast and reduce go once
 *   through all.
 * - Tree: a chain through the GPUs of a node, a double binary tree over nodes. From three nodes on
 *   a node takes in and gives 2S; of two nodes each takes in S.
 * - NVLS: a GPU moves S + S / n each way, so busbw <= rate * 2(n - 1) / (n + 1).
 * - NVLSTree: NVLS in the node, the double tree over nodes; the slower of the two. Its pipeline
 *   fills for longer the more bytes there are, up to fill_most.
 * - PAT: log2(nodes) rounds, one GPU on each node.
 * - Messages (alltoall, gather, scatter, sendrecv): the busiest of a rank's ways out. GPUs that
 *   share a rail divide it in an alltoall; of a node only one sends to another one in a sendrecv,
 *   and to or from the root's.
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
	BB_NCCL_ANY = BB_NCCL_ALGORITHMS /* asked for: whichever is the fastest */
};

enum bb_nccl_protocol {
	BB_NCCL_LL,
	BB_NCCL_LL128,
	BB_NCCL_SIMPLE,
	BB_NCCL_PROTOCOLS,
	BB_NCCL_ANY_PROTOCOL = BB_NCCL_PROTOCOLS
};

/* What a hop is over. */
enum bb_nccl_hop { BB_NCCL_OVER_NVLINK, BB_NCCL_OVER_PCIE, BB_NCCL_OVER_NET, BB_NCCL_HOPS };

/* Limits that depend on whether there are one, two or more nodes. */
enum { BB_NCCL_SPANS = 3 };
enum { BB_NCCL_TREE_SIZES = 24 }; /* powers of two from 64 bytes on */

/* Rates are in bytes per second, times in seconds. */
struct bb_nccl_constants {
	/* NCCL's own. */
	double base[BB_NCCL_ALGORITHMS][BB_NCCL_PROTOCOLS];
	double hop[BB_NCCL_HOPS][BB_NCCL_ALGORITHMS][BB_NCCL_PROTOCOLS];
	double tree_share[BB_NCCL_PROTOCOLS][BB_NCCL_TREE_SIZES]; /* of a tree's rate, by size */
	double nvlstree_by_size; /* not 0: NVLSTree's too, where CPUs are x86 */
	double ring_plateau;     /* by which long rings over nodes, Simple, take longer */
	double ring_net_least[2]
			     [BB_NCCL_PROTOCOLS]; /* of each hop of a ring over nodes; [1]: AMD */
	/* Parts of the links' rate; tree_ll* of what tree_part leaves. */
	double ring_ll_part, ring_ll128_part, tree_part, tree_ll_part;
	double tree_ll128_part[BB_NCCL_SPANS];
	double pat_part, pat_hop_part;
	double pat_rank; /* seconds */
	double channels; /* of rings and trees */
	double nvls_channels;
	double ll_most_node;                      /* of all channels; the others of one */
	double ll_most_net[2][BB_NCCL_SPANS - 1]; /* [1]: CPUs of AMD */
	double ring_ll128_channel[BB_NCCL_SPANS];
	double tree_ll128_channel[BB_NCCL_SPANS];
	double tree_channel[BB_NCCL_SPANS];
	double nvlstree_channel[BB_NCCL_SPANS - 1]; /* two nodes, more */
	double nvls_share;                          /* of NVLink's rate; 0: no NVLS */
	double nvls_least;                          /* GPUs of a node for which there is NVLS */
	/* What was measured in their place. */
	double ring_ll_rate;     /* busbw of a ring in one node, LL */
	double ring_ll128_share; /* of NVLink's rate, LL128 */
	double ring_simple_hop;  /* over NVLink */
	double nvls_base, nvls_rate, nvls_fill;
	double nvls_link; /* a GPU's links where these were measured: fewer take longer */
	/* Of more than FEW GPUs that share switches: the rate, and what each more GPU takes. */
	double nvls_few, nvls_wide_rate, nvls_gpu;
	double nvlstree_hop, nvlstree_rate;
	double fill_most;     /* bytes from which a pipeline fills no longer */
	double messages_base; /* of what is made of messages */
	double messages_fill;
	double messages_share; /* of the links' rate */
	/* How many lines of these are published, fitted to measurements, or neither. */
	int published, fitted, assumed;
	const char *generation; /* "hopper" */
};

struct bb_nccl_machine {
	int ranks;
	int nodes;   /* that share no NVLink with each other */
	int fewest;  /* ranks of any node */
	bool nvlink; /* within a node; else PCIe */
	bool nvswitch;
	bool amd, x86;      /* CPUs */
	double gpu_rate;    /* what NCCL takes a GPU's links for, each way */
	double gpu_share;   /* what of it rings reach */
	double net_rate;    /* of a node, all NICs, each way, as reached */
	double rank_rate;   /* a rank's part of it; where nodes differ each is what one has least */
	double rail_rate;   /* of one rail: what one rank has for itself */
	double nic_latency; /* that the network's plug-in adds to a hop; Simple flushes: twice */
	struct bb_nccl_slowdown
		taper;   /* of the network, by what is sent; NCCL does not know of it */
	double net_fill; /* of a tree's pipeline, for each level of nodes */
	double issue;    /* no operation follows another sooner */
	/* Why there is no model of it, whatever the algorithm; NULL: there is. */
	const char *unknown;
};

enum bb_nccl_view { BB_NCCL_AS_TUNED, BB_NCCL_AS_MEASURED };

/* "ring", "LL128" */
const char *bb_nccl_algorithm_name(enum bb_nccl_algorithm algorithm);
const char *bb_nccl_protocol_name(enum bb_nccl_protocol protocol);

/* NULL, or why ALGORITHM does not do COLLECTIVE, on whatever machine. */
const char *bb_nccl_lacks(const struct bb_collective *collective, enum bb_nccl_algorithm algorithm);
/* NULL, or why ALGORITHM (ANY: none of them) does not run on MACHINE, as far as is modelled. */
const char *bb_nccl_unfit(const struct bb_nccl_constants *c, const struct bb_nccl_machine *machine,
			  enum bb_nccl_algorithm algorithm);

/*
 * Seconds of one COLLECTIVE of BYTES, as "size" counts them, by ALGORITHM and PROTOCOL, neither
 * ANY; INFINITY where there is no such thing.
 */
double bb_nccl_time(const struct bb_nccl_constants *c, const struct bb_nccl_machine *machine,
		    enum bb_nccl_view view, const struct bb_collective *collective,
		    enum bb_nccl_algorithm algorithm, enum bb_nccl_protocol protocol, double bytes);

/* Of what is made of messages; INFINITY for others. BYTES as "size" counts them, those of alltoallv
   as of an alltoall whose ranks all move as much as its busiest. */
double bb_nccl_messages_time(const struct bb_nccl_constants *c,
			     const struct bb_nccl_machine *machine,
			     const struct bb_collective *collective, double bytes);

/*
 * Change *ALGORITHM and *PROTOCOL, either of which may be ANY, to what NCCL chooses for BYTES: the
 * least time AS_TUNED. false: there is nothing to choose from.
 */
bool bb_nccl_choose(const struct bb_nccl_constants *c, const struct bb_nccl_machine *machine,
		    const struct bb_collective *collective, double bytes,
		    enum bb_nccl_algorithm *algorithm, enum bb_nccl_protocol *protocol);

#endif
