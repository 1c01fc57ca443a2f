/*
 * compare.h - several algorithms of one run, side by side.
 */
#ifndef BB_COLLECTIVES_COMPARE_H
#define BB_COLLECTIVES_COMPARE_H

#include "core/status.h"
#include "core/strbuf.h"
#include "collectives/result.h"
#include "harness/results/record.h"
#include "harness/results/sink.h"

#define BB_COMPARE_MOST 64 /* algorithms */

struct bb_compare_cell;

struct bb_compare { /* the results so far; zero-initialise */
	struct bb_compare_cell *cells;
	size_t ncells, room;
	int64_t cycles; /* seen so far */
	const char *names[BB_COMPARE_MOST];
	int nnames;
};

#define BB_WINNER_FIELDS(FIELD)                                                                    \
	FIELD(STRING, collective, "", "what was done")                                             \
	FIELD(STRING, dtype, "", "element type")                                                   \
	FIELD(STRING, op, "", "reduction; none where data is only moved")                          \
	FIELD(INT, root, "", "rank; -1 where there is none")                                       \
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
	FIELD(STRING, dtype, "", "element type")                                                   \
	FIELD(STRING, op, "", "reduction; none where data is only moved")                          \
	FIELD(INT, root, "", "rank; -1 where there is none")                                       \
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

/* Keep what is needed of RESULT, whose strings must last. The same case again replaces it.
   BB_EINTERNAL without memory. */
BB_MUST bb_status bb_compare_add(struct bb_compare *compare, const struct bb_result_record *result);

/*
 * Append '#' lines. Several algorithms: for each datatype, op and root a table with the time of
 * each algorithm at each size, out of place if it was run, and its percentage of the bound, the
 * winner and its lead; then the fastest at the largest size, and the sizes at which one algorithm
 * overtakes another: these sentences go into ANSWERS too (NULL: nowhere). A single algorithm: the
 * same without winner if bounds are known or it is auto; else nothing.
 */
void bb_compare_text(const struct bb_compare *compare, struct bb_strbuf *out,
		     struct bb_strbuf *answers);

/*
 * Deliver the same as records, if there are several algorithms: a winner at each size, and a
 * crossing for each pair. BB_EINTERNAL without memory, or the status of the sinks.
 */
BB_MUST bb_status bb_compare_records(const struct bb_compare *compare, struct bb_sinks *sinks);

void bb_compare_free(struct bb_compare *compare);
/* ---- for the library's tuner --------------------------------------------- */

/* Where the results are from. */
struct bb_tuner_place {
	int nodes, ranks;
};

/* Does the tuner govern this collective? */
bool bb_compare_is_tunable(const char *collective);

/*
 * Append the file for NCCL's example tuner: for each range of sizes the algorithm and protocol of
 * the library that was the fastest, of the first datatype, op and root that was measured. *ROWS =
 * how many; 0: of no result it is known what the library ran. BB_EINTERNAL without memory.
 */
BB_MUST bb_status bb_compare_tuner(const struct bb_compare *compare,
				   const struct bb_tuner_place *place, struct bb_strbuf *out,
				   int *rows);

#endif
