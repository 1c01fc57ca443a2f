/*
 * pairs.h - the benchmarks of pairs of ranks: how fast bytes go from each to each, and words to and
 * fro.
 *
 *   pairs.c        the benchmark: options, what is run, what it comes to
 *   drive.c        what every rank does: one pair after the other, round after round
 *   series.c       what a rank timed with a peer
 *   child.c        the half that a child process measures
 *   ways.c         where each route leads
 *   ends.c         whose pairs are measured
 *   virtual.c      pairs of virtual ranks, instead of drive.c's turns
 *   host_pair.c    instead of these two, of one GPU alone: it and its host
 *   results.c      what the ranks measured, put together into records and findings
 *   review.c       what findings are judged by, and what is measured again for them
 *   paths.c        what lies between two ranks, what that allows, and why a pair may be slow
 *   pair_record.c  the fields of these records
 *   matrix.c       the text: matrices
 *   findings.c     what looks wrong
 */
#ifndef BB_P2P_PAIRS_H
#define BB_P2P_PAIRS_H

#include "backends/routes.h"
#include "harness/measure/engine.h"
#include "p2p/child.h"
#include "p2p/findings.h"
#include "p2p/series.h"

#include <sched.h>

#define BB_PAIR_MAX_RANKS 256
#define BB_PAIR_ALL_ENDS 64 /* virtual ranks; of more only pairs of some nodes */
#define BB_CPU_SETS 4       /* 4096 CPUs */
#define BB_PAIR_ROUNDS 7    /* over all pairs, so that what passes by does not hit one alone */

enum bb_p2p_choice { BB_P2P_ON, BB_P2P_OFF, BB_P2P_BOTH };
enum bb_way_choice { BB_ONE_WAY, BB_BOTH_WAYS, BB_ANY_WAY };
enum bb_findings_choice { BB_FINDINGS_REPORT, BB_FINDINGS_FAIL };

#define BB_P2P_OPTION(OPTION)                                                                      \
	OPTION(CHOICE, p2p, "p2p", 0, "both",                                                      \
	       "on: one end works on the peer's memory; off: data is staged between them",         \
	       .choices = p2p_names, .section = "Pairs")
#define BB_FINDINGS_OPTION(OPTION)                                                                 \
	OPTION(CHOICE, findings, "findings", 0, "report",                                          \
	       "fail: exit with status 7 if anything looks wrong", .choices = findings_names)
#define BB_BANDWIDTH_OPTIONS(OPTION, COMMON)                                                       \
	BB_P2P_OPTION(OPTION)                                                                      \
	OPTION(CHOICE, ways, "direction", 0, "both",                                               \
	       "one direction, both at once, or first one and then the other",                     \
	       .choices = way_names)                                                               \
	BB_FINDINGS_OPTION(OPTION)
#define BB_LATENCY_OPTIONS(OPTION, COMMON)                                                         \
	BB_P2P_OPTION(OPTION)                                                                      \
	BB_FINDINGS_OPTION(OPTION)                                                                 \
	COMMON("iters", 'n', "1000", "samples of each pair, of 50 round trips each", .min = 1,     \
	       .max = MAX_ITERS)

/* P2P is an enum bb_p2p_choice, WAYS an enum bb_way_choice, FINDINGS an enum bb_findings_choice. */
struct bb_pair_options {
	BB_OPTION_MEMBERS(BB_BANDWIDTH_OPTIONS) /* those of latency are among them */

	bool child; /* this process measures for its parent (child.h) */
};

/* ---- records (pair_record.c) ----------------------------------------------------------- */

#define BB_PAIR_FIELDS(FIELD)                                                                      \
	FIELD(STRING, quantity, "", "bandwidth or latency")                                        \
	FIELD(STRING, ends, "", "what the ends are: core, gpu, memory, or a virtual rank")         \
	FIELD(INT, from, "", "rank that the data comes from; null: the host, or memory")           \
	FIELD(INT, to, "", "rank that it goes to; itself: a private copy; null: likewise")         \
	FIELD(STRING, place, "",                                                                   \
	      "for memory: where the ranks that work are, a NUMA node or a GPU")                   \
	FIELD(INT, workers, "", "for memory: how many of them work at once")                       \
	FIELD(STRING, memory_from, "", "for memory: where what is read is")                        \
	FIELD(STRING, memory_to, "", "for memory: where what is written is")                       \
	FIELD(STRING, from_host, "", "where that rank lives")                                      \
	FIELD(STRING, to_host, "", "where the other lives")                                        \
	FIELD(INT, from_node, "", "of --cluster: the node of that rank")                           \
	FIELD(INT, to_node, "", "that of the other")                                               \
	FIELD(INT, from_device, "", "its core or GPU; of --cluster: which GPU of its node")        \
	FIELD(INT, to_device, "", "that of the other")                                             \
	FIELD(INT, from_numa, "", "its NUMA node")                                                 \
	FIELD(INT, to_numa, "", "that of the other")                                               \
	FIELD(STRING, path, "", "what lies between them")                                          \
	FIELD(STRING, route, "", "how the bytes go, or what is done with memory: see --list")      \
	FIELD(STRING, p2p, "",                                                                     \
	      "on: one end works on the other's memory; off: there is a place between")            \
	FIELD(STRING, actor, "", "who moves the bytes: target, source or both")                    \
	FIELD(STRING, direction, "",                                                               \
	      "unidirectional; bidirectional: both directions at once, added up")                  \
	FIELD(INT, size_bytes, "bytes", "of one transfer; null for latency")                       \
	FIELD(DOUBLE, GBps, "GB/s", "median of the rounds")                                        \
	FIELD(DOUBLE, low_GBps, "GB/s", "their lower quartile")                                    \
	FIELD(DOUBLE, high_GBps, "GB/s", "their upper quartile")                                   \
	FIELD(DOUBLE, p50_us, "us", "one transfer, or half a round trip: median of the samples")   \
	FIELD(DOUBLE, p99_us, "us", "their 99th percentile")                                       \
	FIELD(DOUBLE, min_us, "us", "the least")                                                   \
	FIELD(DOUBLE, max_us, "us", "the most")                                                    \
	FIELD(INT, rounds, "", "times that the pair had its turn among the others")                \
	FIELD(INT, samples, "", "readings of the clock in all of them")                            \
	FIELD(INT, repeats, "", "transfers or round trips of one sample")                          \
	FIELD(INT, wrong, "bytes", "that are not what was sent; null: not checked")                \
	FIELD(BOOL, child_process, "",                                                             \
	      "measured by a child process, in which P2P of the library is off")                   \
	FIELD(DOUBLE, bound_GBps, "GB/s", "what the pair could do")                                \
	FIELD(DOUBLE, percent_of_bound, "%", "GBps / bound_GBps")                                  \
	FIELD(STRING, bound_source, "", "where the bound comes from")                              \
	FIELD(DOUBLE, end_unix_s, "s", "when it was done, since 1970 UTC")

/* One ordered pair over one route at one size; in both directions at once, or words to and fro: one
   unordered pair. */
struct bb_pair_record {
	BB_PAIR_FIELDS(BB_MEMBER)
};

#define BB_FINDING_FIELDS(FIELD)                                                                   \
	FIELD(STRING, finding, "",                                                                 \
	      "P2P slower than staged, slow rank, asymmetry, slow pair, or below bound")           \
	FIELD(INT, rank, "", "that is slow; null: it is about pairs")                              \
	FIELD(INT, from, "", "the pair, or the worst of them")                                     \
	FIELD(INT, to, "", "where its data goes")                                                  \
	FIELD(INT, pairs, "", "how many pairs it is about")                                        \
	FIELD(STRING, path, "", "what lies between the pair")                                      \
	FIELD(STRING, route, "", "where it shows most")                                            \
	FIELD(STRING, p2p, "", "of that route: on or off")                                         \
	FIELD(STRING, direction, "", "where it shows most")                                        \
	FIELD(INT, size_bytes, "bytes", "null for latency")                                        \
	FIELD(DOUBLE, value_GBps, "GB/s", "what was measured; null for latency")                   \
	FIELD(DOUBLE, reference_GBps, "GB/s", "what it is held against; null for latency")         \
	FIELD(DOUBLE, value_us, "us", "what was measured; null for bandwidth")                     \
	FIELD(DOUBLE, reference_us, "us", "what it is held against; null for bandwidth")           \
	FIELD(DOUBLE, share, "fraction", "speed as a share of what it is held against")            \
	FIELD(STRING, cause, "", "why, where it is known")                                         \
	FIELD(STRING, text, "", "the finding as a sentence")

struct bb_finding_record {
	BB_FINDING_FIELDS(BB_MEMBER)
};

extern const struct bb_record_kind bb_record_pair, bb_record_finding;

/* ---- paths (paths.c); on rank 0 ---------------------------------------------------------- */

#define BB_PAIR_PATH_TEXT 24
#define BB_CAUSE_TEXT 96

struct bb_cell;
struct bb_pairs;

/* The kind of path between two ends: the same number where paths are alike; and what it is called:
   "NV18", "same NUMA node". */
int bb_pair_path(const struct bb_pairs *pairs, int from, int to, char name[BB_PAIR_PATH_TEXT]);

/* Times the usual work from which on a pair is slow. */
double bb_pair_factor(const struct bb_pairs *pairs, const struct bb_cell *cell, int from, int to);

/* What links allow from one end to another in bytes per second, and in *WHY, which lasts as long as
   PAIRS, the sentence that explains it; 0: that is not known. */
double bb_pair_light(struct bb_pairs *pairs, int from, int to, const char **why);
void bb_pair_lights_close(struct bb_pairs *pairs);

/* Why what F is about may be so, constant or in CAUSE; NULL: it is not known. */
const char *bb_pair_cause(const struct bb_pairs *pairs, const struct bb_finding *f,
			  char cause[BB_CAUSE_TEXT]);

/* ---- the benchmark --------------------------------------------------------------------- */

/* One matrix. */
struct bb_cell {
	const struct bb_route *route;
	bool direct; /* P2P on */
	bool ping;
	bool both_ways;   /* each pair once, from < to */
	uint64_t bytes;   /* 0 with ping */
	size_t repeats;   /* transfers, or rounds, of one sample */
	const char *skip; /* why it is not run; NULL: run it */
	/* What a child process measures in place of this one; NULL: it is measured here. Such cells
	   are the last of the plan. */
	struct bb_child_cell *child;
};

/* The state of a benchmark of pairs. */
struct bb_pairs {
	struct bb_pair_options asked; /* first: the rows are read into it */
	struct bb_run *run;
	int n;                            /* ends: ranks whose pairs are measured */
	int *ranks;                       /* [end], ascending; NULL: all */
	struct bb_strbuf ends_text;       /* these, where they are not all: "0-7,24-31" */
	struct bb_virtual_pairs *virtual; /* of virtual ranks, once measured */
	struct bb_cell *cells;
	size_t ncells, room;
	uint64_t most_bytes; /* of cells that are run */
	bool library_p2p;    /* routes that are switched are direct */
	char library_text[BB_SWITCH_TEXT + BB_CHILD_TEXT + 32];
	cpu_set_t cpus[BB_CPU_SETS]; /* that this process may use */

	struct bb_memory_plan *host; /* of one GPU alone, instead of cells; NULL: there are pairs
					of ranks */
	struct bb_strbuf host_light; /* the sentence that explains its bound */

	/* Rank 0's. */
	struct bb_pair_matrix *matrices; /* those that are judged: the largest size of each kind */
	struct bb_pair_value **values;   /* theirs: [matrix][from * n + to] */
	struct bb_floor **floors;        /* [matrix][end * n + end of its peer], who timed it */
	size_t *matrix_cells;
	size_t nmatrices;
	size_t nfindings;
	size_t nunjudged; /* suspects that nobody could judge; the first of them: */
	struct bb_strbuf unjudged;
	struct bb_pair_light *lights; /* [from * nranks + to]; NULL: not asked for yet */
};

extern const struct bb_option bb_bandwidth_rows[], bb_latency_rows[];
extern const struct bb_benchmark bb_bandwidth_benchmark, bb_latency_benchmark;

/* Is one driver that of all ranks? */
static inline bool bb_pairs_are_virtual(const struct bb_pairs *pairs)
{
	return pairs->run->options.backend->virtual;
}

/* The rank that END is. */
static inline int bb_pair_rank(const struct bb_pairs *pairs, int end)
{
	return pairs->ranks ? pairs->ranks[end] : end;
}

/* Rounds that -n makes, and the samples of ROUND: all rounds together have what -n asks for. */
static inline int bb_pair_rounds(const struct bb_options *o)
{
	return o->iters < BB_PAIR_ROUNDS ? (int)o->iters : BB_PAIR_ROUNDS;
}

static inline size_t bb_pair_samples(const struct bb_options *o, int round)
{
	const size_t iters = (size_t)o->iters, rounds = (size_t)bb_pair_rounds(o);
	const size_t r = (size_t)round % rounds;

	return iters * (r + 1) / rounds - iters * r / rounds;
}

/* ---- whose pairs (ends.c) --------------------------------------------------------------- */

/* pairs->n and ranks. */
BB_MUST bb_status bb_ends_choose(struct bb_pairs *pairs);
void bb_ends_close(struct bb_pairs *pairs);
/* How many ranks TEXT, as in the run's record, names; RANKS = which (NULL: not wanted). */
int bb_ends_read(const char *text, int *ranks);

/* ---- virtual ranks (virtual.c) ---------------------------------------------------------- */

/* *ALL = the parts of CELL, [end * n + end], until the next; played as a program. */
BB_MUST bb_status bb_virtual_measure(struct bb_engine *engine, struct bb_pairs *pairs,
				     const struct bb_cell *cell, const void **all);
void bb_virtual_close(struct bb_pairs *pairs);

extern const struct bb_experiment bb_pairs_experiment;

/* bb_sink_open: matrices as text. */
bb_sink_open bb_sink_matrix_open;

/* ---- a GPU and its host (host_pair.c) -------------------------------------------------- */

/* The world is one rank, on a GPU: its only pair is the GPU and the host. */
bool bb_pairs_are_host(const struct bb_run *run);
/* pairs->host = what is run. BB_EUSAGE for what such a pair does not have. */
BB_MUST bb_status bb_host_pair_plan(struct bb_pairs *pairs);
void bb_host_pair_list(struct bb_strbuf *out); /* its routes */
void bb_host_pair_close(struct bb_pairs *pairs);

/* Where a route leads (ways.c). */
struct bb_way {
	bool *leads; /* [from * nranks + to] */
	int refused; /* pairs that it does not connect; the first of them: */
	int from, to;
	char reason[160];
};

/* Of each of the backend's routes from member to member of GROUP, the world, in their order.
   Collective; free WAYS whatever comes back. */
BB_MUST bb_status bb_ways_find(struct bb_driver *driver, struct bb_run *run, struct bb_group *group,
			       struct bb_way **ways);
void bb_ways_free(const struct bb_backend *backend, struct bb_way *ways);

/* Rank 0: tell of CELL, unless all of it is skipped, where WAY, its route's, does not lead. */
BB_MUST bb_status bb_pairs_refuse(struct bb_pairs *pairs, size_t cell, const struct bb_way *way);
/* Rank 0: PARTS[end * n + end of the peer] of cell CELL to the sinks, and kept for the findings. */
BB_MUST bb_status bb_pairs_deliver(struct bb_pairs *pairs, size_t cell,
				   const struct bb_pair_part *parts);
/* Rank 0, in the end: judge what was kept, and the findings to the sinks. */
BB_MUST bb_status bb_pairs_judge(struct bb_pairs *pairs);

/* ---- what findings are judged by (review.c); on rank 0 ----------------------------------- */

/* Operations per second that SECONDS allow; 0: none were measured. */
double bb_pair_rate(double seconds);
/* The end that times what goes FROM one TO the other. */
int bb_pair_timer(const struct bb_cell *cell, int from, int to);
/* Bytes per second that the pair could do: what its links allow, or where that is not known what
   the end that acts copies within its own memory, in PRIVATE_S; or its link. 0: not known. *SOURCE
   says which. */
double bb_pair_bound(struct bb_pairs *pairs, const struct bb_cell *cell, int from, int to,
		     double private_s, const char **source);

/* PARTS of CELL are kept for the findings, in place of those of a smaller size. */
BB_MUST bb_status bb_review_keep(struct bb_pairs *pairs, size_t cell,
				 const struct bb_pair_part *parts);
/* CELL, which was kept, has been measured again: its rounds are PARTS' too. */
void bb_review_merge(struct bb_pairs *pairs, size_t cell, const struct bb_pair_part *parts);

/* A pair that has a turn. */
struct bb_pair_turn {
	int32_t cell, from, to;
};

#define BB_PAIR_TURNS 64 /* of a round at most */

struct bb_pair_turns {
	int32_t n;
	struct bb_pair_turn list[BB_PAIR_TURNS];
};

/* Whom to measure in ROUND, another one each time: suspects, in turn with what they are held
   against. None: all is judged. */
BB_MUST bb_status bb_review_list(struct bb_pairs *pairs, int round, struct bb_pair_turns *turns);
/* TURNS become rank 0's on all ranks. Collective. */
BB_MUST bb_status bb_review_follow(struct bb_pairs *pairs, struct bb_driver *driver,
				   struct bb_pair_turns *turns);
/* They were: SECONDS[end * BB_PAIR_TURNS + turn] of the shortest sample; 0: it timed none. */
void bb_review_take(struct bb_pairs *pairs, const struct bb_pair_turns *turns,
		    const double *seconds);

/* In a child process: tell all rounds of what is judged, with those that were measured again. In
   its parent: take them over. */
BB_MUST bb_status bb_review_tell(struct bb_pairs *pairs);
BB_MUST bb_status bb_review_hear(struct bb_pairs *pairs);
void bb_review_close(struct bb_pairs *pairs);

#endif
