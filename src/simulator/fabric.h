/*
 * fabric.h - the model of a network: nodes of ranks, the links within a node, and the rails that
 * join the nodes over leaf, spine and core switches. Pure.
 *
 * A rank has two output and two input ports: one for its node (and the nodes that share its
 * NVSwitches), one for its rail. A message occupies its output port for OVERHEAD plus its bytes,
 * travels for LATENCY, and occupies the input port as long, after the messages that reached it
 * before. On CPUs a port is a core: the receiver copies a long message, from when it has come to
 * the receive, and what it receives in a reduction it then adds.
 *
 * Links that several ranks share (a rail of a node, the uplinks of a leaf or a pod) are divided
 * evenly among their users in one round of a schedule: a rank that sends o of the l bytes of k
 * ranks is through after min(l, k o) / rate, as if all began at once. Messages of a program, which
 * has no rounds, divide a link evenly at every moment. Switches spread load over uplinks ideally,
 * so that a network with as many links up as down shares no uplinks.
 *
 * Ranks on CPUs also share the memory of their package: the bytes that its caches do not hold.
 * Messages of a program do not share it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a message passes. */
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

/* Between two ranks of a node. */
struct bb_fabric_pair {
	double second_per_byte, latency;
	enum bb_cluster_path path;
};

/* A fault of a node or of one of its rails: it takes FACTOR times as long; 0: the rail is lost. */
struct bb_fabric_flaw {
	int node;
	int rail; /* -1: the whole node */
	double factor;
};

enum { BB_FABRIC_LIMITS = 2 };

struct bb_fabric {
	int nodes, per_node; /* ranks are numbered node by node */
	int domain;          /* nodes that share NVSwitches, at least 1 */
	int leaf, pod;       /* nodes below a leaf of each rail, below a set of spines */
	int rails;
	const int *rail_of;                 /* [rank of the node] */
	const struct bb_fabric_pair *pairs; /* [from * per_node + to] */
	double domain_second_per_byte, domain_latency;
	double rail_second_per_byte;
	double latency[3]; /* through 1, 3, 5 switches */
	double overhead;   /* seconds of each message on each port, beside its bytes */
	/* More latency, of messages longer than MOST bytes: beyond the inline, the eager limit. */
	struct {
		double most, latency;
	} limits[BB_FABRIC_LIMITS];
	/* Messages within a node that exceed the last limit are copied by their receiver alone. */
	bool pulls;
	double sum_second_per_byte; /* of adding what was received to what the receiver has */
	double leaf_taper, pod_taper;
	bool loopback; /* messages within a node take its rails, too */
	int packages;  /* of a node, with equal parts of its ranks */
	/* Of each package: the rate of its memory (0: not shared), and what its caches hold. */
	double memory_second_per_byte, cache_bytes;
	bool flawed; /* by FLAW */
	struct bb_fabric_flaw flaw;
};

/* Links that several ranks share. */
enum bb_fabric_level {
	BB_LEVEL_RAIL,
	BB_LEVEL_LEAF,
	BB_LEVEL_POD,
	BB_LEVEL_MEMORY, /* of a package; also of messages that pass a NIC */
	BB_LEVELS
};

struct bb_fabric_route {
	double second_per_byte, latency;
	enum bb_cluster_path path;
	bool outside;          /* over rails: PATH is BB_CLUSTER_LEAF or beyond */
	int out_rail, in_rail; /* outside */
};

/* Does a message on ROUTE use shared links of LEVEL? */
static inline bool bb_fabric_passes(const struct bb_fabric_route *route, enum bb_fabric_level level)
{
	return level == BB_LEVEL_MEMORY ||
	       (route->outside && (int)level <= (int)route->path - BB_CLUSTER_LEAF);
}

/* F with its memory's seconds per byte reduced to the share of BYTES, of each of N ranks, that the
   caches do not hold. */
struct bb_fabric bb_fabric_of_working_set(const struct bb_fabric *f, int n, double bytes);

/* Do messages use rails? */
static inline bool bb_fabric_has_outside(const struct bb_fabric *f)
{
	return f->loopback || f->nodes > f->domain;
}

/* Seconds per byte that a rank copies while all of the N ranks of a group do. */
double bb_fabric_copy(const struct bb_fabric *f, int n);

/* The route from rank FROM to TO. Each leaves its node by its own rail or, if that is lost, by the
   node's next one. */
struct bb_fabric_route bb_fabric_route(const struct bb_fabric *f, int from, int to);

/* Do several ranks share links of LEVEL? */
bool bb_fabric_shares(const struct bb_fabric *f, enum bb_fabric_level level);

/* The number of the shared link of LEVEL that RANK uses over RAIL, and how many there are. */
size_t bb_fabric_shared(const struct bb_fabric *f, enum bb_fabric_level level, int rank, int rail);
size_t bb_fabric_shared_count(const struct bb_fabric *f, enum bb_fabric_level level);
/* Its seconds per byte, for all ranks together. */
double bb_fabric_shared_second_per_byte(const struct bb_fabric *f, enum bb_fabric_level level,
					int rank, int rail);

/*
 * The least P that divides N such that the routes among ranks 0 to N - 1 repeat every P ranks: the
 * route from r + P to r + P + d (both mod N) equals that from r to r + d. N where there is none.
 */
int bb_fabric_period(const struct bb_fabric *f, int n);

/* ---- groups that share links ---------------------------------------------------------- */

/* How many ranks use each shared link. */
struct bb_crowds { /* zero-initialise */
	const struct bb_fabric *fabric;
	int ranks;               /* of the world */
	int *users[BB_LEVELS];   /* [shared link]: ranks of the world; NULL: not counted */
	int *members[BB_LEVELS]; /* likewise of one group; all 0 between calls */
};

/* Count the users of the links of FABRIC, which must outlive CROWDS, by the first RANKS ranks.
   False: out of memory; free CROWDS all the same. */
bool bb_crowds_open(struct bb_crowds *crowds, const struct bb_fabric *fabric, int ranks);
void bb_crowds_free(struct bb_crowds *crowds);

/*
 * Set *CROWD, which the caller frees, to the crowd of struct bb_link_model for the N MEMBERS. The
 * rest of the world counts as groups that do the same at the same time: the crowd of a shared link
 * is the ranks of the world that use it over the members that do. NULL where no others share links
 * with them. False: out of memory.
 */
bool bb_crowds_find(struct bb_crowds *crowds, const int *members, int n, double **crowd);
