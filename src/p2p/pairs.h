/*
 * pairs.h - the benchmarks of pairs of ranks: bandwidth and latency between any two.
 *
 *   pairs.c        the benchmark: options, plan, verdict
 *   drive.c        the experiment: one pair after the other, round after round
 *   turn.c         the turn of one pair (turn.h)
 *   fan.c          the turn of one rank with all others: all-to-one, one-to-all (fan.h)
 *   series.c       the samples that a rank timed with a peer
 *   child.c        the half of a run that a child process measures
 *   reach.c        the ranks that each route connects
 *   selection.c    the ranks whose pairs are measured
 *   virtual.c      pairs of virtual ranks, measured as a program
 *   host_pair.c    one GPU alone: the pair of it and its host
 *   results.c      records and findings from what the ranks measured
 *   review.c       the rounds that findings are judged by, and measuring suspects again
 *   paths.c        the path between two ranks, its bound, and why a pair may be slow
 *   pair_record.c  the fields of these records
 *   matrix.c       the text: matrices
 *   findings.c     what looks wrong in a matrix
 */
#ifndef BB_P2P_PAIRS_H
#define BB_P2P_PAIRS_H

#include "backends/routes.h"
#include "harness/measure/engine.h"
#include "memory/bandwidth/bandwidth.h"
#include "p2p/child.h"
#include "suspects/findings.h"
#include "p2p/series.h"

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

	bool child; /* this process is a child that measures for its parent (child.h) */
};

/* ---- records (pair_record.c) ----------------------------------------------------------- */

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

extern const struct bb_record_kind bb_record_finding;

/* ---- paths (paths.c); on rank 0 ---------------------------------------------------------- */

#define BB_PAIR_PATH_TEXT 24
#define BB_CAUSE_TEXT 96

struct bb_cell;
struct bb_pairs;

/* Returns the kind of the path between two ends, the same number for paths that are alike. NAME =
   its name: "NV18", "same NUMA node". */
int bb_pair_path(const struct bb_pairs *pairs, int from, int to, char name[BB_PAIR_PATH_TEXT]);

/* Returns the multiple of the typical time from which on the pair is slow. */
double bb_pair_factor(const struct bb_pairs *pairs, const struct bb_cell *cell, int from, int to);

/* Returns the bandwidth in bytes per second that the links between two ends allow, 0 if that is not
   known. *WHY is the sentence that explains it and lasts as long as PAIRS. */
double bb_pair_link_bound(struct bb_pairs *pairs, int from, int to, const char **why);
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
	/* What a child process measures in place of this one; NULL: it is measured here. Such cells
	   are the last of the plan. */
	struct bb_child_cell *child;
};

/* The state of a benchmark of pairs. */
struct bb_pairs {
	struct bb_pair_options settings; /* first: the rows are read into it */
	struct bb_run *run;
	int n;                            /* ends: the ranks whose pairs are measured */
	int *ranks;                       /* [end], ascending; NULL: all */
	struct bb_strbuf selection_text;  /* "0-7,24-31"; empty: all ranks */
	struct bb_virtual_pairs *virtual; /* of virtual ranks; NULL: not measured yet */
	struct bb_cell *cells;
	size_t ncells, room;
	uint64_t most_bytes; /* of the cells that are run */
	bool library_p2p;    /* P2P of the library is on, so switched routes are direct */
	char library_text[BB_SWITCH_TEXT + BB_CHILD_TEXT + 32];
	cpu_set_t cpus[BB_CPU_SETS]; /* CPUs that this process may use */

	struct bb_memory_plan host;  /* one GPU alone: its plan, instead of cells */
	struct bb_strbuf host_bound; /* the sentence that explains the bound of that pair */

	/* On rank 0 only. */
	struct bb_pair_matrix *matrices; /* that are judged: the largest size of each kind */
	struct bb_pair_value **values;   /* [matrix][from * n + to] */
	struct bb_floor **floors;        /* [matrix][end that timed it * n + end of its peer] */
	size_t *matrix_cells;
	size_t nmatrices;
	size_t nfindings;
	size_t nunjudged;          /* suspects with too few undisturbed rounds to judge */
	struct bb_strbuf unjudged; /* these */
	struct bb_pair_link_bound *link_bounds; /* [from * nranks + to]; NULL: none known yet */
};

extern const struct bb_option bb_bandwidth_rows[], bb_latency_rows[];
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

/* *STOP = whether the pairs need no round after ROUND, by the N series of this driver; BEGAN as in
   bb_engine_agree_on_next (drive.c). --max-time leaves the rounds that findings need. Collective.
 */
BB_MUST bb_status bb_pairs_agree_to_stop(struct bb_engine *engine, const struct bb_series *series,
					 int n, int round, double began, bool *stop);

/* ---- the ranks whose pairs are measured (selection.c) ------------------------------------ */

/* Set pairs->n, ranks and selection_text: all ranks, or of many virtual ones those of some nodes.
 */
BB_MUST bb_status bb_selection_choose(struct bb_pairs *pairs);
void bb_selection_close(struct bb_pairs *pairs);
/* Returns the number of ranks in TEXT, a run record's pair_ranks, and writes them to RANKS unless
   that is NULL. */
int bb_selection_read(const char *text, int *ranks);

/* ---- virtual ranks (virtual.c) ---------------------------------------------------------- */

/* Measure CELL as a program. *ALL = its parts [end * n + end of the peer], valid until the next
   call. */
BB_MUST bb_status bb_virtual_measure(struct bb_engine *engine, struct bb_pairs *pairs,
				     const struct bb_cell *cell, const void **all);
void bb_virtual_close(struct bb_pairs *pairs);

extern const struct bb_experiment bb_pairs_experiment;

/* A bb_sink_open: matrices as text. */
bb_sink_open bb_sink_matrix_open;

/* ---- a GPU and its host (host_pair.c) -------------------------------------------------- */

/* True if the world is one rank on a GPU: its only pair is the GPU and the host. */
bool bb_pairs_are_host(const struct bb_run *run);
/* Fill pairs->host. BB_EUSAGE for options that such a pair does not have. */
BB_MUST bb_status bb_host_pair_plan(struct bb_pairs *pairs);
void bb_host_pair_list(struct bb_strbuf *out); /* appends its routes */

/* ---- the ranks that a route connects (reach.c) ------------------------------------------- */

struct bb_reach {
	bool *connects; /* [from * nranks + to] */
	int refused;    /* number of pairs that it does not connect */
	int from, to;   /* the first of them */
	char reason[160];
};

/* *REACH = one for each of the backend's routes, in their order, between the members of GROUP, the
   world. Collective. To be freed by bb_reach_free whatever comes back. */
BB_MUST bb_status bb_reach_find(struct bb_driver *driver, struct bb_run *run,
				struct bb_group *group, struct bb_reach **reach);
void bb_reach_free(const struct bb_backend *backend, struct bb_reach *reach);

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

/* ---- what findings are judged by (review.c); on rank 0 ----------------------------------- */

/* Returns operations per second from SECONDS of one; 0 if none was measured. */
double bb_pair_rate(double seconds);
/* Returns the end that times a transfer FROM one TO the other. */
int bb_pair_timer(const struct bb_cell *cell, int from, int to);
/* Sources of bounds that are copies. */
extern const char bb_pair_private_copy[], bb_fan_private_copies[];
/* Set the bound of R, with its bandwidth and the source known, to GBPS. */
void bb_pair_fill_bound(struct bb_pair_record *r, double GBps);
/* Returns the bound of a pair in bytes per second, 0 if none is known: what its links allow; if
   that is not known, a private copy of the end that acts, which takes PRIVATE_S seconds; or --link
   or
   --cluster, if lower. *SOURCE names it. */
double bb_pair_bound(struct bb_pairs *pairs, const struct bb_cell *cell, int from, int to,
		     double private_s, const char **source);

/* Keep PARTS of CELL for the findings, in place of those of a smaller size. */
BB_MUST bb_status bb_review_keep(struct bb_pairs *pairs, size_t cell,
				 const struct bb_pair_part *parts);
/* Add the rounds of PARTS to those of CELL, which was kept and has been measured again. */
void bb_review_merge(struct bb_pairs *pairs, size_t cell, const struct bb_pair_part *parts);

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
/* Give all ranks the TURNS of rank 0. Collective. */
BB_MUST bb_status bb_review_share(struct bb_pairs *pairs, struct bb_driver *driver,
				  struct bb_pair_turns *turns);
/* Add the results of TURNS: SECONDS[end * BB_PAIR_TURNS + turn] of the shortest sample; 0: the end
   timed none. */
void bb_review_add(struct bb_pairs *pairs, const struct bb_pair_turns *turns,
		   const double *seconds);

/* In a child process: send its parent all rounds of what is judged, including those measured again.
   In the parent: take them over. */
BB_MUST bb_status bb_review_send(struct bb_pairs *pairs);
BB_MUST bb_status bb_review_receive(struct bb_pairs *pairs);
void bb_review_close(struct bb_pairs *pairs);

#endif
