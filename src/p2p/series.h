/*
 * series.h - the samples that a rank timed with one peer in one cell, in rounds.
 */
#ifndef BB_P2P_SERIES_H
#define BB_P2P_SERIES_H

#include "core/payload.h"
#include "suspects/retest.h"
#include "core/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BB_PAIR_MOST_ROUNDS 100 /* with --precision */

struct bb_series {
	double *samples; /* seconds of one operation */
	size_t n, most;
	size_t kept; /* samples in rounds that have ended */
	double medians[BB_PAIR_MOST_ROUNDS];
	int rounds;
	struct bb_floor floor; /* of the shortest sample of each round */
	uint64_t wrong;
	bool checked;
};

/* The summary of a series, which may be sent to any process. */
struct bb_pair_part {
	double low, mid, high;     /* seconds of one operation: quartiles of the rounds */
	double p50, p99, min, max; /* over all samples */
	uint64_t wrong;
	int rounds; /* 0: the rank did not time this pair */
	int samples;
	struct bb_floor floor;
	bool checked;
};

/* Its payload: one rank and one of its peers. */
extern const struct bb_payload bb_pair_part_table;

/* Open SERIES with room for MOST samples. BB_EINTERNAL without memory. */
BB_MUST bb_status bb_series_open(struct bb_series *series, size_t most);
void bb_series_close(struct bb_series *series); /* a zeroed series: nothing */

/* Forget all samples, keep the room. */
void bb_series_clear(struct bb_series *series);
/* Add a sample; without room it is dropped. */
void bb_series_add(struct bb_series *series, double seconds);
/* End a round: the samples since the last one, if there are any. SCRATCH has as much room as
   SERIES. */
void bb_series_end_round(struct bb_series *series, double *scratch);
/* True if the median of the rounds of each of N series is as precise as PRECISION
   (bb_stats_precision). */
bool bb_series_are_precise(const struct bb_series *series, int n, double precision);
/* Write the summary to PART. Sorts the rounds, so none may follow. */
void bb_series_sum_up(struct bb_series *series, struct bb_pair_part *part);

#endif
