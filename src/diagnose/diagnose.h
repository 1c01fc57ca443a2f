/*
 * diagnose.h - when something is slow: who?
 *
 *   main.c              the program
 *   diagnose.c          the benchmark: its options, how it begins and ends
 *   drive.c             what every driver does: survey, steps, confirmation
 *   stage.c             the rounds of one stage, played and put together
 *   ports.c             which rank is which rail of which node
 *   report.c            what it came to: records and sentences
 *   record.c            the fields of the records, and the tables
 *
 * What is pure: rounds.h (who meets whom), program.h (what they do),
 * fit.h, parts.h (what is usual), judge.h (who is to blame).
 */
#ifndef BB_DIAGNOSE_DIAGNOSE_H
#define BB_DIAGNOSE_DIAGNOSE_H

#include "diagnose/parts.h"
#include "diagnose/program.h"
#include "harness/measure/engine.h"

enum { BB_LATENCY, BB_BANDWIDTH }; /* the quantities */

/* Before each round that confirms: what passes by is to be over. */
#define BB_CONFIRM_PAUSE_S 0.02
#define BB_STEP_WORK_S 1e-3 /* in virtual time; in earnest less */

#define BB_DIAGNOSE_OPTIONS(OPTION, COMMON)                                                        \
	OPTION(FLAG, quick, "quick", 0, NULL,                                                      \
	       "a sample of the pairs, at a cost linear in the nodes (default above 32 nodes)",    \
	       .section = "Diagnosis")                                                             \
	OPTION(FLAG, full, "full", 0, NULL, "all pairs (default up to 32 nodes)")                  \
	OPTION(INT, partners, "partners", 0, "12",                                                 \
	       "partners that each node meets in the survey; with fewer nodes as many meetings",   \
	       .min = 2, .max = 1024)                                                              \
	OPTION(PERCENT, tolerance, "tolerance", 0, "20%",                                          \
	       "loss of speed from which something counts as slow", .argument = "P%")              \
	OPTION(INT, node_ranks, "node-ranks", 0, "0",                                              \
	       "number of consecutive ranks that form a node, a divisor of all; 0: those of a "    \
	       "host, or each rank alone",                                                         \
	       .min = 0, .max = BB_MOST_RAILS)                                                     \
	OPTION(INT, steps, "steps", 0, "20",                                                       \
	       "steps of work and a collective, to see which rank comes last; 0: none", .min = 0,  \
	       .max = 100000)                                                                      \
	OPTION(SIZE, bytes, "minbytes", 'b', "1M", "size of a large message", .min = 1,            \
	       .max = BB_MOST_BYTES)                                                               \
	OPTION(INT, large, "iters", 'n', "5",                                                      \
	       "large messages of each direction in a round; the median counts", .min = 1,         \
	       .max = 10000)

struct bb_diagnose_options {
	BB_OPTION_MEMBERS(BB_DIAGNOSE_OPTIONS)
};

#define BB_NODE_FIELDS(FIELD)                                                                      \
	FIELD(STRING, host, "", "where it is", BB_COLUMN("host", -20, 0), .place = 1)              \
	FIELD(INT, node, "", "its number", BB_COLUMN("node", 5, 0), BB_KEY, .place = 2)            \
	FIELD(INT, first_rank, "", "its first rank")                                               \
	FIELD(STRING, verdict, "", "OK or BAD", BB_COLUMN("verdict", -7, 0), .place = 8)           \
	FIELD(STRING, code, "",                                                                    \
	      "BB-OK, BB-SLOW-NODE, BB-SLOW-RAIL, BB-SHARED-RAIL or BB-STRAGGLER; FLAPPING "       \
	      "instead of SLOW, or before STRAGGLER, if it is so now and then; of several the "    \
	      "first found",                                                                       \
	      BB_COLUMN("code", -24, 0), .place = 9)                                               \
	FIELD(STRING, reason, "", "the same in words; of several the others' codes too")           \
	FIELD(DOUBLE, sends_GBps, "GB/s", "usual of its large messages, over one rail",            \
	      BB_COLUMN("sends", 8, 3), .place = 3)                                                \
	FIELD(DOUBLE, receives_GBps, "GB/s", "likewise of those that it receives",                 \
	      BB_COLUMN("receives", 8, 3), .place = 5)                                             \
	FIELD(DOUBLE, latency_us, "us",                                                            \
	      "usual of small messages that it asks for, there and back",                          \
	      BB_COLUMN("latency", 9, 2), .place = 7)                                              \
	FIELD(DOUBLE, sends_share, "fraction", "its speed of sending as a share of what is usual", \
	      BB_COLUMN("of usual", 8, 0), .place = 4, BB_SHARE)                                   \
	FIELD(DOUBLE, receives_share, "fraction", "likewise of receiving",                         \
	      BB_COLUMN("of usual", 8, 0), .place = 6, BB_SHARE)                                   \
	FIELD(INT, partners, "", "rounds of the survey that it took part in")

/* A node, and what is said of it. */
struct bb_node_record {
	BB_NODE_FIELDS(BB_MEMBER)
};

#define BB_CULPRIT_FIELDS(FIELD)                                                                   \
	FIELD(STRING, code, "",                                                                    \
	      "BB-SLOW-NODE, BB-SLOW-RAIL, BB-SHARED-RAIL, BB-SLOW-RAIL-EVERYWHERE, BB-SLOW-LINK " \
	      "or BB-STRAGGLER; FLAPPING likewise")                                                \
	FIELD(STRING, host, "", "of the node; null: all")                                          \
	FIELD(STRING, peer_host, "", "of a link, where it leads")                                  \
	FIELD(INT, node, "", "null: all")                                                          \
	FIELD(INT, peer, "", "of a link, the other node")                                          \
	FIELD(INT, rail, "", "null: all, or most")                                                 \
	FIELD(INT, rank, "", "the rank, or the node's first")                                      \
	FIELD(STRING, direction, "", "sends, receives or both; of a link: there, back or both")    \
	FIELD(STRING, quantity, "", "in which it is slow: latency, bandwidth, both, or arrival")   \
	FIELD(DOUBLE, factor, "", "of the usual time, when it is slow")                            \
	FIELD(DOUBLE, share, "fraction", "of its measurements that were slow")                     \
	FIELD(INT, measured, "", "how many there were, after it was suspected")                    \
	FIELD(DOUBLE, confidence, "fraction",                                                      \
	      "1 - the chance that anything healthy in this run looks so")                         \
	FIELD(BOOL, flapping, "", "slow now and then, not steadily")                               \
	FIELD(STRING, text, "", "the same as a sentence")

struct bb_culprit_record {
	BB_CULPRIT_FIELDS(BB_MEMBER)
};

#define BB_MEETING_FIELDS(FIELD)                                                                   \
	FIELD(STRING, stage, "", "survey, confirm or alone")                                       \
	FIELD(INT, round, "", "of the stage")                                                      \
	FIELD(INT, from, "", "node that the data comes from")                                      \
	FIELD(INT, to, "", "node that asked for it")                                               \
	FIELD(INT, rail, "", "of both")                                                            \
	FIELD(DOUBLE, latency_us, "us", "from asking to a small message, median of the round")     \
	FIELD(DOUBLE, GBps, "GB/s", "of large messages, likewise")

/* One ordered pair over one rail in one round of the survey. */
struct bb_meeting_record {
	BB_MEETING_FIELDS(BB_MEMBER)
};

/* What may be said of a node, a rail or a link: steady and flapping, for each enum bb_charge; and
   of rails that share something. */
#define BB_CODES 11
extern const struct bb_diagnose_code {
	const char *code, *brief;
} bb_diagnose_codes[BB_CODES];

extern const struct bb_record_kind bb_record_node, bb_record_culprit, bb_record_meeting;
extern const struct bb_option bb_diagnose_rows[];
extern const struct bb_benchmark bb_diagnose_benchmark;
bb_sink_open bb_diagnose_text_open;

/* The state of the benchmark. */
struct bb_diagnose {
	struct bb_diagnose_options asked; /* first: the rows are read into it */
	int culprits;                     /* found; process 0's */
};

/* ---- one driver's ----------------------------------------------------------------------- */

/* What was measured in the rounds of one stage, on rank 0. */
struct bb_measuring { /* zero-initialise */
	struct bb_rounds rounds;
	double pause_s;              /* before each round */
	bool in_turn;                /* the rounds of all, not of each pair by itself */
	float *log_s[BB_QUANTITIES]; /* see struct bb_quantity; NULL on other ranks */
	float *even[BB_QUANTITIES];  /* the same, as if all ways were alike: what is judged */
	double seconds;              /* that it took */
};

/* A driver's state. */
struct bb_examiner {
	struct bb_engine engine;
	struct bb_diagnose *diagnose;
	struct bb_ports ports;
	struct bb_measuring survey, confirm, alone, links_alone;
	/* Rank 0's. */
	struct bb_spot *places; /* [node]; NULL: between hosts their places do not tell */
	double level[BB_QUANTITIES][BB_NEARNESSES];
	struct bb_parts parts[BB_QUANTITIES]; /* of the network */
	struct bb_view views[BB_QUANTITIES];
	struct bb_verdicts verdicts;
	double step_s; /* a step's time */
};

/* Rank 0: are nodes ranks of one host, which has more of them than processors? */
static inline bool bb_examiner_is_crowded(const struct bb_examiner *s)
{
	return s->places && bb_is_crowded(s->engine.run->world.nranks, s->engine.run->record.cores);
}

/*
 * Nodes are hosts where there are several and one of them has several ranks, those of a cluster, or
 * ASKED ranks in a row; else each rank is one. Ranks beyond the fewest of a node have no part in
 * it. BB_EBACKEND where there are too few nodes to tell which of them is to blame.
 */
BB_MUST bb_status bb_ports_find(struct bb_ports *ports, const struct bb_run *run, int64_t asked,
				struct bb_error *error);
void bb_ports_free(struct bb_ports *ports);

/* Play STAGE's rounds, called WHAT where a deadline passes. Collective. */
BB_MUST bb_status bb_measuring_play(struct bb_examiner *s, struct bb_measuring *stage,
				    const char *what);
void bb_measuring_free(struct bb_measuring *stage);
/* One of its quantities, as it is judged. */
struct bb_quantity bb_measuring_of(const struct bb_examiner *s, const struct bb_measuring *stage,
				   int quantity);

/* Play the steps: *WAITS, on rank 0, = seconds in the collective [step * nranks + rank]; free it.
 */
BB_MUST bb_status bb_steps_play(struct bb_examiner *s, float **waits);

extern const struct bb_experiment bb_diagnose_experiment;

/* What one round told of what all will cost. */
struct bb_pilot {
	double round_s;
	double word_s; /* of a small message in it */
};

/* Rank 0: what is going to be done, before it is done. */
BB_MUST bb_status bb_diagnose_announce(struct bb_examiner *s, const struct bb_pilot *pilot);
/* Rank 0: all that was found, to the sinks. */
BB_MUST bb_status bb_diagnose_report(struct bb_examiner *s);

#endif
