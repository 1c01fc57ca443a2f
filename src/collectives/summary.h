/*
 * summary.h - what follows from all results of a run: algorithms side by side, groups side by side,
 * and how results in virtual time were obtained.
 */
#pragma once

#include "collectives/result.h"
#include "core/status.h"
#include "core/strbuf.h"
#include "harness/results/sink.h"

/* ---- algorithms (compare.c) ---------------------------------------------------------------- */

#define BB_WINNER_FIELDS(FIELD)                                                                    \
	FIELD(STRING, collective, "", "what was done")                                             \
	BB_DATA_FIELDS(FIELD)                                                                      \
	FIELD(INT, size_bytes, "bytes", "as in the results")                                       \
	FIELD(BOOL, in_place, "", "whose times are compared")                                      \
	FIELD(STRING, algorithm_asked, "", "the fastest, as in --algo")                            \
	FIELD(STRING, algorithm, "", "what it was: for auto what was chosen")                      \
	FIELD(DOUBLE, time_us, "us", "its time; of what was run twice, the shorter")               \
	FIELD(DOUBLE, times_second, "", "the second's time over it")                               \
	FIELD(DOUBLE, auto_behind_percent, "%",                                                    \
	      "how much longer NCCL's own choice takes than the fastest that was forced on it; "   \
	      "null: no such are known")                                                           \
	FIELD(STRING, matrix, "", "as in the results")

/* The fastest of several algorithms at one size. */
struct bb_winner_record {
	BB_WINNER_FIELDS(BB_MEMBER)
};

#define BB_CROSSING_FIELDS(FIELD)                                                                  \
	FIELD(STRING, collective, "", "what was done")                                             \
	BB_DATA_FIELDS(FIELD)                                                                      \
	FIELD(BOOL, in_place, "", "whose times are compared")                                      \
	FIELD(STRING, ahead, "", "the faster of two algorithms at the smallest size")              \
	FIELD(STRING, behind, "", "the other")                                                     \
	FIELD(NUMBERS, crossing_bytes, "bytes",                                                    \
	      "where the lead changes, between two sizes by straight lines, the first four; "      \
	      "empty: nowhere")

/* Two of several algorithms, and where one overtakes the other. */
struct bb_crossing_record {
	BB_CROSSING_FIELDS(BB_MEMBER)
};

extern const struct bb_record_kind bb_record_winner, bb_record_crossing;

/*
 * Append '#' lines. Several algorithms: for each datatype, op and root a table with the time of
 * each algorithm at each size, out of place if it was run, and its percentage of the bound, the
 * winner and its lead; then the fastest at the largest size, and the sizes at which one algorithm
 * overtakes another: these sentences go into ANSWERS too (NULL: nowhere). A single algorithm: the
 * same without winner if bounds are known or it is auto; else nothing.
 */
void bb_compare_text(const struct bb_results *results, struct bb_strbuf *out,
		     struct bb_strbuf *answers);

/*
 * Deliver the same as records, if there are several algorithms: a winner at each size, and a
 * crossing for each pair. BB_EINTERNAL without memory, or the status of the sinks.
 */
BB_MUST bb_status bb_compare_records(const struct bb_results *results, struct bb_sinks *sinks);

/* Does the library's tuner govern this collective? */
bool bb_compare_is_tunable(const char *collective);

/*
 * Append the file for NCCL's example tuner, for NRANKS ranks on NNODES nodes: for each range of
 * sizes the algorithm and protocol of the library that was the fastest, of the first datatype, op
 * and root that was measured. *ROWS = how many; 0: of no result it is known what the library ran.
 * BB_EINTERNAL without memory.
 */
BB_MUST bb_status bb_compare_tuner(const struct bb_results *results, int nnodes, int nranks,
				   struct bb_strbuf *out, int *rows);

/* ---- virtual time (compare.c) -------------------------------------------------------------- */

/* Append '#' lines: the evaluator of each algorithm, the intervals if machines are PREDICTED, and,
   with FAULT (NULL: none), the times out of place (in place if there is no other) without it and
   with it. Nothing of real time. */
void bb_costs_text(const struct bb_results *results, const char *fault, bool predicted,
		   struct bb_strbuf *out);

/* ---- groups of a split world, on process 0 (groups.c) --------------------------------------- */

struct bb_groups; /* the members of each group */

/* *GROUPS = those of INFOS, which must last as long; NULL: there is only one. The caller frees it.
   BB_EINTERNAL without memory. */
BB_MUST bb_status bb_groups_open(struct bb_groups **groups, const struct bb_rank_infos *infos);

/*
 * Compute each group's time, by REDUCE over the SECONDS of its ranks, and its busbw, from the BYTES
 * that a rank gives for its group: busbw times its time. RESULT borrows them until the next call.
 * The worst group is the one furthest behind the median of the groups of its own size. GROUPS NULL:
 * nothing.
 */
void bb_groups_add(struct bb_groups *groups, const double *seconds, const double *bytes,
		   double (*reduce)(const double *seconds, int n, int64_t how), int64_t how,
		   struct bb_result_record *result);

/* Append '#' lines: each result's groups side by side, and the worst group. GROUPS NULL: nothing.
 */
void bb_groups_text(const struct bb_groups *groups, const struct bb_results *results,
		    struct bb_strbuf *out);
