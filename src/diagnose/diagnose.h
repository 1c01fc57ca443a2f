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
#include "harness/run/run.h"

enum { BB_LATENCY, BB_BANDWIDTH }; /* the quantities */

/* Before each round that confirms: what passes by is to be over. */
#define BB_CONFIRM_PAUSE_S 0.02
#define BB_STEP_WORK_S 1e-3 /* in virtual time; in earnest less */

struct bb_diagnose_options {
	bool quick, full;
	int64_t partners, large, node_ranks, steps;
	uint64_t bytes;
	double tolerance;
};

/* A node, and what is said of it. */
struct bb_node_record {
	const char *host;
	int64_t node, first_rank;
	const char *verdict; /* "OK", "BAD" */
	const char *code;    /* "BB-OK", "BB-SLOW-NODE", … */
	const char *reason;
	double sends_GBps, receives_GBps, latency_us; /* usual of its pairs in the survey */
	double sends_share, receives_share;           /* of the usual speed of all */
	int64_t partners;
};

struct bb_culprit_record {
	const char *code;
	const char *host, *peer_host;
	int64_t node, peer, rail, rank;
	const char *direction; /* "sends", "receives", "both" */
	const char *quantity;  /* "latency", "bandwidth", "both", "arrival" */
	double factor, share;
	int64_t measured;
	double confidence;
	bool flapping;
	const char *text;
};

/* One ordered pair over one rail in one round of the survey. */
struct bb_meeting_record {
	const char *stage;
	int64_t round, from, to, rail;
	double latency_us, GBps;
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

struct bb_examiner {
	struct bb_diagnose *diagnose;
	struct bb_run *run;
	struct bb_driver *driver;
	const struct bb_backend *backend;
	struct bb_group *world;
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

/* Is time virtual, and this driver that of all ranks? */
static inline bool bb_examiner_is_virtual(const struct bb_examiner *s)
{
	return s->backend->virtual;
}

/* Rank 0: are nodes ranks of one host, which has more of them than processors? */
static inline bool bb_examiner_is_crowded(const struct bb_examiner *s)
{
	return s->places && bb_is_crowded(s->run->world.nranks, s->run->record.cores);
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

/* What every driver does. */
bb_status bb_diagnose_drive(struct bb_driver *driver, void *run);

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
