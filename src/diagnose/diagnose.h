/*
 * diagnose.h - finds the node, rail, link or rank that is slow.
 *
 *   main.c              the program
 *   diagnose.c          the benchmark: its options, how it begins and ends; nodes and rails
 *   drive.c             the experiment: survey, steps, confirmation
 *   program.c           the messages of pairs of nodes; pure
 *   report.c            the results: records and sentences
 *
 * Who is to blame follows from the times in src/suspects.
 */
#pragma once

#include "diagnose/program.h"
#include "harness/measure/engine.h"
#include "suspects/blocks.h"
#include "suspects/judge.h"

enum { BB_LATENCY, BB_BANDWIDTH }; /* the quantities */

#define BB_CONFIRM_PAUSE_S 0.02 /* before each round that confirms, so that transient load ends */
#define BB_STEP_WORK_S 1e-3     /* in virtual time; less on real backends */

#define BB_DIAGNOSE_OPTIONS(OPTION, COMMON)                                                        \
	OPTION(FLAG, quick, "quick", 0, NULL,                                                      \
	       "a sample of the pairs, at a cost linear in the nodes (default above 32 nodes)",    \
	       .section = "Diagnosis", .usual = true, .excludes = {{.names = "full"}})             \
	OPTION(FLAG, full, "full", 0, NULL, "all pairs (default up to 32 nodes)", .usual = true)   \
	OPTION(INT, partners, "partners", 0, "12",                                                 \
	       "partners of each node in the survey; with fewer nodes as many rounds, "            \
	       "and enough that one that is slow stands out",                                      \
	       .min = 2, .max = 1024)                                                              \
	OPTION(PERCENT, tolerance, "tolerance", 0, "20%",                                          \
	       "loss of speed from which something counts as slow", .argument = "P%",              \
	       .usual = true)                                                                      \
	OPTION(INT, node_ranks, "node-ranks", 0, "0",                                              \
	       "consecutive ranks of a node, a divisor of all; 0: the ranks of a host, or one",    \
	       .min = 0, .max = BB_MOST_RAILS)                                                     \
	OPTION(INT, steps, "steps", 0, "20",                                                       \
	       "steps of work and a collective, which show the rank that comes last; 0: none",     \
	       .min = 0, .max = 100000)                                                            \
	OPTION(SIZE, bytes, "minbytes", 'b', "1M", "size of a large message", .min = 1,            \
	       .max = BB_MOST_BYTES, .usual = true)                                                \
	OPTION(INT, large, "iters", 'n', "5",                                                      \
	       "large messages of each direction in a round; the median counts", .min = 1,         \
	       .max = 10000)

struct bb_diagnose_options {
	BB_OPTION_MEMBERS(BB_DIAGNOSE_OPTIONS)
};

#define BB_NODE_FIELDS(FIELD)                                                                      \
	FIELD(STRING, host, "", "host of the node", BB_COLUMN("host", -12, 0), .place = 1)         \
	FIELD(INT, node, "", "number of the node", BB_COLUMN("node", 5, 0), BB_KEY, .place = 2)    \
	FIELD(INT, first_rank, "", "its first rank")                                               \
	FIELD(STRING, verdict, "", "OK or BAD")                                                    \
	FIELD(STRING, code, "",                                                                    \
	      "BB-OK, BB-SLOW-NODE, BB-SLOW-RAIL, BB-SHARED-RAIL or BB-STRAGGLER; FLAPPING "       \
	      "instead of SLOW, or before STRAGGLER, if it is slow now and then; the first of "    \
	      "several",                                                                           \
	      BB_COLUMN("code", -16, 0), .place = 8)                                               \
	FIELD(STRING, reason, "", "the code as a sentence, with the codes of further culprits")    \
	FIELD(DOUBLE, sends_GBps, "GB/s", "typical rate of its large messages, over one rail",     \
	      BB_COLUMN("sends", 8, 3), .place = 3)                                                \
	FIELD(DOUBLE, receives_GBps, "GB/s", "typical rate of those that it receives",             \
	      BB_COLUMN("receives", 8, 3), .place = 5)                                             \
	FIELD(DOUBLE, latency_us, "us", "typical round trip of its small messages",                \
	      BB_COLUMN("latency", 8, 2), .place = 7)                                              \
	FIELD(DOUBLE, sends_share, "fraction", "sends_GBps over what is typical of all nodes",     \
	      BB_COLUMN("share", 6, 0), .place = 4, BB_SHARE)                                      \
	FIELD(DOUBLE, receives_share, "fraction", "receives_GBps over what is typical",            \
	      BB_COLUMN("share", 6, 0), .place = 6, BB_SHARE)                                      \
	FIELD(INT, partners, "", "rounds of the survey in which it met a node")

/* A node and its verdict. */
struct bb_node_record {
	BB_NODE_FIELDS(BB_MEMBER)
};

#define BB_CULPRIT_FIELDS(FIELD)                                                                   \
	FIELD(STRING, code, "",                                                                    \
	      "BB-SLOW-NODE, BB-SLOW-RAIL, BB-SHARED-RAIL, BB-SLOW-RAIL-EVERYWHERE, BB-SLOW-LINK " \
	      "or BB-STRAGGLER; or with FLAPPING")                                                 \
	FIELD(STRING, host, "", "host of the node; null: all")                                     \
	FIELD(STRING, peer_host, "", "host of the link's other node")                              \
	FIELD(INT, node, "", "number of the node; null: all")                                      \
	FIELD(INT, peer, "", "number of the link's other node")                                    \
	FIELD(INT, rail, "", "number of the rail; null: all, or most")                             \
	FIELD(INT, rank, "", "the rank, or the node's first")                                      \
	FIELD(STRING, direction, "", "sends, receives or both; of a link: there, back or both")    \
	FIELD(STRING, quantity, "", "what is slow: latency, bandwidth, both, or arrival")          \
	FIELD(DOUBLE, factor, "", "its time over the typical time, when it is slow")               \
	FIELD(DOUBLE, share, "fraction", "share of its measurements that were slow")               \
	FIELD(INT, measured, "", "measurements after it was suspected")                            \
	FIELD(DOUBLE, confidence, "fraction",                                                      \
	      "1 - the chance that anything healthy in this run looks so")                         \
	FIELD(BOOL, flapping, "", "slow now and then, not steadily")                               \
	FIELD(STRING, text, "", "the culprit as a sentence")

struct bb_culprit_record {
	BB_CULPRIT_FIELDS(BB_MEMBER)
};

#define BB_PAIR_ROUND_FIELDS(FIELD)                                                                \
	FIELD(STRING, stage, "", "survey, confirm or alone")                                       \
	FIELD(INT, round, "", "number of the round in its stage")                                  \
	FIELD(INT, from, "", "node that sends the data")                                           \
	FIELD(INT, to, "", "node that requested it")                                               \
	FIELD(INT, rail, "", "rail of both")                                                       \
	FIELD(DOUBLE, latency_us, "us",                                                            \
	      "from the request to the arrival of a small message, median of the round")           \
	FIELD(DOUBLE, GBps, "GB/s", "rate of large messages, median of the round")

/* One ordered pair over one rail in one round of the survey. */
struct bb_pair_round_record {
	BB_PAIR_ROUND_FIELDS(BB_MEMBER)
};

/* The codes of culprits: steady and flapping for each enum bb_charge, and that of rails that share
   a NIC or link. */
#define BB_CODES 11
extern const struct bb_diagnose_code {
	const char *code, *brief;
} bb_diagnose_codes[BB_CODES];

extern const struct bb_record_kind bb_record_node, bb_record_culprit, bb_record_pair_round;
extern const struct bb_benchmark bb_diagnose_benchmark;

/* The state of the benchmark. */
struct bb_diagnose {
	struct bb_diagnose_options options; /* first: the rows are read into it */
	/* In process 0. */
	int culprits;         /* how many were found */
	const char *unjudged; /* why somebody could be neither blamed nor cleared; NULL: all were */
};

/* ---- one driver's ----------------------------------------------------------------------- */

/* The measurements in the rounds of one stage, on rank 0. */
struct bb_diagnose_stage { /* zero-initialise */
	struct bb_rounds rounds;
	double pause_s;                        /* before each round */
	bool in_turn;                          /* all pairs begin a round together */
	struct bb_quantity raw[BB_QUANTITIES]; /* own their times, which other ranks lack */
	/* The same without differences of distance: these are judged. */
	struct bb_quantity measured[BB_QUANTITIES];
	double seconds; /* of the whole stage */
};

/* A driver's state. */
struct bb_examiner {
	struct bb_engine engine;
	struct bb_diagnose *diagnose;
	struct bb_ports ports;
	struct bb_diagnose_stage survey, confirm;
	struct bb_diagnose_stage alone[2]; /* of nodes and rails; of links */
	int pairs_at_once; /* of nodes, where more would share processors; 0: no limit */
	/* Rank 0's. */
	struct bb_spot *places; /* [node]; NULL: the nodes are not ranks of one host */
	bool crowded;           /* which has fewer processors than ranks */
	double level[BB_QUANTITIES][BB_NEARNESSES];
	struct bb_block_map blocks[BB_QUANTITIES]; /* of the network */
	struct bb_view views[BB_QUANTITIES];
	struct bb_verdicts verdicts;
};

/*
 * Divide the ranks into nodes: NODE_RANKS consecutive ranks each; if that is 0, the nodes of the
 * cluster, or the hosts if there are several and one has several ranks, or each rank. Ranks beyond
 * those of the smallest node are not measured. BB_EBACKEND: there are too few nodes to blame one.
 * Free the ranks of PORTS.
 */
BB_MUST bb_status bb_ports_find(struct bb_ports *ports, const struct bb_run *run,
				int64_t node_ranks, struct bb_error *error);

extern const struct bb_experiment bb_diagnose_experiment;

/* Rank 0: announce what will be measured, and its cost: that of one round, and the seconds of a
   small message in it. */
BB_MUST bb_status bb_diagnose_announce(struct bb_examiner *s, double round_s, double small_s);
/* Rank 0: all results, to the sinks. */
BB_MUST bb_status bb_diagnose_report(struct bb_examiner *s);
