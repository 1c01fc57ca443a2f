/*
 * pairs.h - the benchmarks of pairs of ranks: bandwidth and latency between any two.
 *
 *   pairs.c        the benchmark: options, plan, verdict; the ranks whose pairs are measured; one
 *                  GPU alone: the pair of it and its host
 *   measure.c      the experiment: one turn after the other, round after round; suspects once more
 *   virtual.c      turns of virtual ranks, as programs
 *   child.c        the half of a run that a child process measures
 *   results.c      records and findings from what the ranks measured
 *   paths.c        the path between two ranks, its bound, and why a pair may be slow
 *   matrix.c       the text: matrices
 *
 * What looks wrong in a matrix follows in src/suspects.
 */
#pragma once

#include "backends/routes.h"
#include "harness/measure/engine.h"
#include "memory/bandwidth/bandwidth.h"
#include "suspects/findings.h"
#include "suspects/retest.h"

#include <sched.h>

#define BB_PAIR_MAX_RANKS 256
#define BB_PAIR_ALL_ENDS 64 /* virtual ranks; among more, only some nodes are measured */
#define BB_CPU_SETS 4       /* 4096 CPUs */
#define BB_PAIR_ROUNDS 7    /* over all pairs, so that a disturbance does not hit one alone */

enum bb_p2p_choice { BB_P2P_ON, BB_P2P_OFF, BB_P2P_BOTH };
enum bb_direction {
	BB_UNIDIRECTIONAL,
	BB_BIDIRECTIONAL,
	BB_ALL_TO_ONE, /* all other ranks send to one, at once */
	BB_ONE_TO_ALL, /* one sends to all others, at once */
	BB_DIRECTIONS
};
enum bb_direction_choice { BB_BOTH_DIRECTIONS = BB_DIRECTIONS, BB_ALL_DIRECTIONS };
enum bb_findings_choice { BB_FINDINGS_REPORT, BB_FINDINGS_FAIL };

#define BB_P2P_OPTION(OPTION)                                                                      \
	OPTION(CHOICE, p2p, "p2p", 0, "both",                                                      \
	       "on: one end accesses the peer's memory; off: data is staged between them",         \
	       .choices = p2p_names, .section = "Pairs", .usual = true)
#define BB_HANDLES_OPTION(OPTION)                                                                  \
	OPTION(CHOICE, handles, "handles", 0, "auto",                                              \
	       "between processes: CUDA's IPC handles, within a host, or fabric handles, which "   \
	       "also reach other hosts; auto: fabric with several hosts, if the GPU has them",     \
	       .choices = handles_names, .gpu_only = true)
#define BB_FINDINGS_OPTION(OPTION)                                                                 \
	OPTION(CHOICE, findings, "findings", 0, "report",                                          \
	       "fail: exit with status 7 if anything looks wrong", .choices = findings_names,      \
	       .usual = true)
#define BB_BANDWIDTH_OPTIONS(OPTION, COMMON)                                                       \
	BB_P2P_OPTION(OPTION)                                                                      \
	OPTION(CHOICE, directions, "direction", 0, "both",                                         \
	       "one direction, both at once, or both: one measurement of each; all other ranks "   \
	       "to one, one to all others; all: all four",                                         \
	       .choices = direction_names, .usual = true)                                          \
	BB_HANDLES_OPTION(OPTION)                                                                  \
	BB_FINDINGS_OPTION(OPTION)
#define BB_LATENCY_OPTIONS(OPTION, COMMON)                                                         \
	BB_P2P_OPTION(OPTION)                                                                      \
	BB_HANDLES_OPTION(OPTION)                                                                  \
	BB_FINDINGS_OPTION(OPTION)                                                                 \
	COMMON("iters", 'n', "1000", "samples per pair, of 50 round trips each", .min = 1,         \
	       .max = MAX_ITERS, .usual = true)

/* P2P is an enum bb_p2p_choice, HANDLES an enum bb_handles, DIRECTIONS an enum bb_direction or
   bb_direction_choice, FINDINGS an enum bb_findings_choice. */
struct bb_pair_options {
	BB_OPTION_MEMBERS(BB_BANDWIDTH_OPTIONS) /* those of latency are among them */

	bool child; /* this process is a child that measures for its parent (child.c) */
};

/* ---- findings ------------------------------------------------------------------------------ */

#define BB_FINDING_FIELDS(FIELD)                                                                   \
	FIELD(STRING, finding, "",                                                                 \
	      "P2P slower than staged, slow rank, asymmetry, slow pair, or below bound")           \
	FIELD(INT, rank, "", "slow rank; null: the finding is about pairs")                        \
	FIELD(INT, from, "", "source of the pair, or of the worst one")                            \
	FIELD(INT, to, "", "target of that pair")                                                  \
	FIELD(INT, pairs, "", "number of pairs concerned")                                         \
	FIELD(STRING, path, "", "path between that pair")                                          \
	FIELD(STRING, route, "", "route on which it is clearest")                                  \
	FIELD(STRING, p2p, "", "P2P of that route: on or off")                                     \
	FIELD(STRING, direction, "", "direction in which it is clearest")                          \
	FIELD(INT, size_bytes, "bytes", "size of a transfer; null for latency")                    \
	FIELD(DOUBLE, value_GBps, "GB/s", "measured bandwidth; null for latency")                  \
	FIELD(DOUBLE, reference_GBps, "GB/s",                                                      \
	      "bandwidth that it is compared with; null for latency")                              \
	FIELD(DOUBLE, value_us, "us", "measured latency; null for bandwidth")                      \
	FIELD(DOUBLE, reference_us, "us", "latency that it is compared with; null for bandwidth")  \
	FIELD(DOUBLE, share, "fraction", "measured speed as a fraction of the reference")          \
	FIELD(STRING, cause, "", "cause, if known")                                                \
	FIELD(STRING, text, "", "the finding as a sentence")

struct bb_finding_record {
	BB_FINDING_FIELDS(BB_MEMBER)
};

extern const struct bb_record_kind bb_record_finding, bb_record_floor;

/* ---- paths (paths.c); on rank 0 ---------------------------------------------------------- */

#define BB_PAIR_PATH_TEXT 24
#define BB_CAUSE_TEXT 96

struct bb_cell;
struct bb_pairs;
struct bb_virtual_turns;

/* Returns the kind of the path between two ends, the same number for paths that are alike. NAME =
   its name: "NV18", "same NUMA node". */
int bb_pair_path(const struct bb_pairs *pairs, int from, int to, char name[BB_PAIR_PATH_TEXT]);

/* Returns the multiple of the typical time from which on the pair is slow. */
double bb_pair_factor(const struct bb_pairs *pairs, const struct bb_cell *cell, int from, int to);

/* Returns operations per second from SECONDS of one; 0 if none was measured. */
static inline double bb_pair_rate(double seconds)
{
	return seconds > 0 ? 1 / seconds : 0;
}

/* Returns the seconds that BYTES take over --link or --cluster without faults; 0: there is neither.
 *SOURCE names it. */
double bb_pair_planned_s(const struct bb_pairs *pairs, double bytes, int from, int to,
			 const char **source);

/* Sources of bounds that are copies. */
extern const char bb_pair_private_copy[], bb_fan_private_copies[];
/* Returns the bound of a turn in bytes per second, 0 if none is known: what the pair's links or the
   hub's port (FROM and TO) allow; if that is not known, private copies of the ends that act, which
   take PRIVATE_S seconds; or --link or --cluster, if lower. *SOURCE names it and lasts as long as
   PAIRS. */
double bb_pair_bound(struct bb_pairs *pairs, const struct bb_cell *cell, int from, int to,
		     double private_s, const char **source);
void bb_pair_link_bounds_close(struct bb_pairs *pairs);

/* Returns the likely cause of F, constant or written to CAUSE; NULL if none is known. */
const char *bb_pair_cause(const struct bb_pairs *pairs, const struct bb_finding *f,
			  char cause[BB_CAUSE_TEXT]);

/* ---- the benchmark --------------------------------------------------------------------- */

/* One matrix. */
struct bb_cell {
	const struct bb_route *route;
	bool direct; /* P2P on */
	bool ping;
	bool bidirectional; /* each pair once, from < to */
	/* BB_ALL_TO_ONE or BB_ONE_TO_ALL: each rank's turn is with all others; else 0. */
	enum bb_direction fan;
	uint64_t bytes;   /* of a transfer, with FAN of all at once; 0 with ping */
	size_t repeats;   /* transfers, or rounds, of one sample */
	const char *skip; /* why it is not run; NULL: run it */
};

/* A matrix that is judged. */
struct bb_judged {
	struct bb_cell cell;          /* the largest size of its kind */
	int number;                   /* of that cell; -1: a child process has measured it */
	struct bb_floor *floors;      /* [end that timed it * n + end of its peer] */
	struct bb_pair_value *values; /* [from * n + to] */
};

/* The state of a benchmark of pairs. */
struct bb_pairs {
	struct bb_pair_options settings; /* first: the rows are read into it */
	struct bb_run *run;
	int n;                           /* ends: the ranks whose pairs are measured */
	int *ranks;                      /* [end], ascending; NULL: all */
	struct bb_strbuf selection_text; /* "0-7,24-31"; empty: all ranks */
	struct bb_cell *cells;
	size_t ncells, room;
	uint64_t most_bytes; /* of the cells that are run */
	bool library_p2p;    /* P2P of the library is on, so switched routes are direct */
	bool has_child;      /* a child process measures the routes of the library with P2P off */
	char library_text[2 * BB_SWITCH_TEXT + 64];
	cpu_set_t cpus[BB_CPU_SETS]; /* CPUs that this process may use */

	struct bb_memory_plan host;  /* one GPU alone: its plan, instead of cells */
	struct bb_strbuf host_bound; /* the sentence that explains the bound of that pair */

	/* On rank 0 only. */
	struct bb_child_record *child; /* what a child process has measured */
	size_t nchild, child_room;
	struct bb_pair_matrix *matrices; /* that are judged */
	struct bb_judged *judged;        /* [matrix] */
	size_t nmatrices;
	size_t nfindings;
	size_t nunjudged;          /* suspects with too few undisturbed rounds to judge */
	struct bb_strbuf unjudged; /* these */
	struct bb_pair_link_bound *link_bounds; /* [from * nranks + to]; NULL: none known yet */
};

extern const struct bb_benchmark bb_bandwidth_benchmark, bb_latency_benchmark;

/* True if one driver stands for all ranks. */
static inline bool bb_pairs_are_virtual(const struct bb_pairs *pairs)
{
	return pairs->run->options.backend->virtual;
}

static inline enum bb_direction bb_cell_direction(const struct bb_cell *cell)
{
	if (cell->fan)
		return cell->fan;
	return cell->bidirectional && !cell->ping ? BB_BIDIRECTIONAL : BB_UNIDIRECTIONAL;
}

/* Returns the rank of END. */
static inline int bb_pair_rank(const struct bb_pairs *pairs, int end)
{
	return pairs->ranks ? pairs->ranks[end] : end;
}

/* Returns the number of rounds without --precision, and the samples in ROUND; all rounds together
   have -n of them. */
static inline int bb_pair_rounds(const struct bb_options *o)
{
	return o->iters < BB_PAIR_ROUNDS ? (int)o->iters : BB_PAIR_ROUNDS;
}

static inline size_t bb_pair_samples(const struct bb_options *o, int round)
{
	return bb_engine_samples_of(o->iters, bb_pair_rounds(o), round);
}

/* A part of the buffers of both ends. */
struct bb_pair_range {
	size_t at, bytes;
};

/* Returns what goes between an end and its peer in CELL among N ends: all, or, with its fan, what
   OTHER moves from or to HUB. */
struct bb_pair_range bb_cell_range(const struct bb_cell *cell, int n, int hub, int other);

/* What one end timed with one peer: of a fan, the hub with itself until the last transfer has
   ended, and with the next rank, where one end acts on CPUs, private copies of the same bytes. */
struct bb_pair_part {
	double low, mid, high;     /* seconds of one operation: quartiles of the rounds, */
	double p50, p99, min, max; /* over all samples */
	uint64_t wrong;
	int rounds; /* 0: the rank did not time this pair */
	int samples;
	struct bb_floor floor; /* of the shortest sample of each round */
	bool checked;
};

/* Its payload. */
extern const struct bb_payload bb_pair_part_table;

/* Returns the number of ranks in TEXT, a run record's pair_ranks, and writes them to RANKS unless
   that is NULL. */
int bb_selection_read(const char *text, int *ranks);

extern const struct bb_experiment bb_pairs_experiment;

/* ---- turns of virtual ranks (virtual.c) -------------------------------------------------- */

/* What a sample of virtual ranks took: the SECONDS that END timed with PEER. */
typedef void bb_pair_arrival(void *own, int end, int peer, double seconds);

/* ON_ARRIVAL gets each sample. *OPENED must be closed whatever comes back. */
BB_MUST bb_status bb_virtual_open(const struct bb_pairs *pairs, bb_pair_arrival *on_arrival,
				  void *own, struct bb_virtual_turns **opened);
void bb_virtual_close(struct bb_virtual_turns *v); /* NULL: nothing */

/* Run turns in CELL: of the pair FROM and TO with SAMPLES, of all pairs, if FROM is -1, or with a
   fan one sample of the hub FROM. */
BB_MUST bb_status bb_virtual_run(struct bb_virtual_turns *v, struct bb_engine *engine,
				 const struct bb_cell *cell, int from, int to, size_t samples);

/* Matrices as text. */
extern const struct bb_sink_ops bb_sink_matrix;

/* The ranks that a route connects. */
struct bb_reach {
	bool *connects; /* [from * nranks + to] */
	int refused;    /* number of pairs that it does not connect */
	int from, to;   /* the first of them */
	char reason[160];
};

/* ---- a child process (child.c) ---------------------------------------------------------- */

/*
 * Rank 0: start the child, and wait until it has ended and all its records are in PAIRS->child. The
 * state of the library in the child is added to PAIRS->library_text. All drivers wait for it before
 * they allocate memory, so that the child has the memory. A child that fails is a failure with its
 * exit status; one that sends nothing for longer than -T is BB_ETIMEOUT. BB_ETIMEOUT without a
 * report once the run is being abandoned. The child ends with the run and with this process.
 */
BB_MUST bb_status bb_child_run(struct bb_driver *driver, struct bb_pairs *pairs);
/* Rank 0: give its records to the sinks, and keep its times for the findings. */
BB_MUST bb_status bb_child_deliver(struct bb_engine *engine);
void bb_child_free(struct bb_pairs *pairs);

/* *IS = whether this process is such a child. If so, it dies with its parent from now on. */
BB_MUST bb_status bb_child_find(bool *is, struct bb_error *error);
/* Rank 0 of the child writes a sign of life; and, after the review, the times of all that is
   judged. */
BB_MUST bb_status bb_child_write_alive(struct bb_pairs *pairs);
BB_MUST bb_status bb_child_write_floors(struct bb_pairs *pairs);

/* ---- results (results.c); on rank 0 ------------------------------------------------------ */

/* Rank 0: record the pairs of CELL that REACH, that of its route, does not connect, unless all of
   the cell is skipped. */
BB_MUST bb_status bb_pairs_refuse(struct bb_engine *engine, const struct bb_cell *cell,
				  const struct bb_reach *reach);
/* Rank 0: deliver PARTS[end * n + end of the peer] of cell CELL to the sinks, and keep them for the
   findings. */
BB_MUST bb_status bb_pairs_deliver(struct bb_engine *engine, size_t cell,
				   const struct bb_pair_part *parts);
/* Rank 0, after all cells: judge what was kept and deliver the findings to the sinks. */
BB_MUST bb_status bb_pairs_judge(struct bb_pairs *pairs);

/* Set the bound of R, with its bandwidth and the source known, to GBPS. */
void bb_pair_fill_bound(struct bb_pair_record *r, double GBps);

/* Keep FLOOR of RANK with PEER, which a child process measured in CELL. */
BB_MUST bb_status bb_review_take(struct bb_pairs *pairs, const struct bb_cell *cell, int rank,
				 int peer, const struct bb_floor *floor);

/* A pair to be measured again. */
struct bb_pair_turn {
	int32_t cell, from, to;
};

#define BB_PAIR_TURNS 64 /* at most in a round */

struct bb_pair_turns {
	int32_t n;
	struct bb_pair_turn list[BB_PAIR_TURNS];
};

/* TURNS = the pairs to measure in ROUND: suspects, and some of those that they are compared with,
   others in each round. None: every finding is decided. */
BB_MUST bb_status bb_review_list(struct bb_pairs *pairs, int round, struct bb_pair_turns *turns);
/* Add the results of TURNS: SECONDS[end * BB_PAIR_TURNS + turn] of the shortest sample; 0: the end
   timed none. */
void bb_review_add(struct bb_pairs *pairs, const struct bb_pair_turns *turns,
		   const double *seconds);

void bb_review_close(struct bb_pairs *pairs);
