/*
 * compare.h - several algorithms of one run, side by side.
 */
#ifndef BB_HARNESS_RESULTS_COMPARE_H
#define BB_HARNESS_RESULTS_COMPARE_H

#include "core/status.h"
#include "core/strbuf.h"
#include "harness/results/record.h"
#include "harness/results/sink.h"

struct bb_compare; /* the results so far */

/* Of several algorithms, the fastest at one size. */
struct bb_winner_record {
	const char *collective, *dtype, *op;
	int64_t root, size_bytes;
	bool in_place;
	const char *algorithm_asked; /* as in --algo */
	const char *algorithm;       /* what ran */
	double time_us, times_second;
};

/* Two of several algorithms. */
struct bb_crossing_record {
	const char *collective, *dtype, *op;
	int64_t root;
	bool in_place;
	const char *ahead, *behind; /* at the smallest size */
	struct bb_numbers crossing_bytes;
};

extern const struct bb_record_kind bb_record_winner, bb_record_crossing;

BB_MUST bb_status bb_compare_open(struct bb_compare **compare);
void bb_compare_close(struct bb_compare *compare); /* NULL: nothing */

/* Keep what is needed of RESULT. The same case again replaces it. BB_EINTERNAL without memory. */
BB_MUST bb_status bb_compare_add(struct bb_compare *compare, const struct bb_result_record *result);

/*
 * Append '#' lines. Several algorithms: per datatype, op and root a table of sizes with the time
 * of each algorithm out of place (in place where there is no other), as a percentage of its
 * bound, the winner and how far it is ahead; then where one algorithm overtakes another. One
 * algorithm: what ran and its percentages, if bounds are known or it was chosen; else nothing.
 */
void bb_compare_text(const struct bb_compare *compare, struct bb_strbuf *out);

/*
 * The same as records: of several algorithms a winner at each size, and a crossing for each pair.
 * BB_EINTERNAL without memory; what the sinks say.
 */
BB_MUST bb_status bb_compare_records(const struct bb_compare *compare, struct bb_sinks *sinks);

#endif
