/*
 * series.h - what a rank timed with one peer in one cell: samples, in rounds.
 */
#ifndef BB_P2P_SERIES_H
#define BB_P2P_SERIES_H

#include "core/payload.h"
#include "core/retest.h"
#include "core/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BB_PAIR_MOST_ROUNDS 100 /* with --precision */

struct bb_series {
	double *samples; /* seconds of one operation */
	size_t n, most;
	size_t kept; /* of these are in a round that has ended */
	double medians[BB_PAIR_MOST_ROUNDS];
	int rounds;
	struct bb_floor floor; /* of the shortest sample of each round */
	uint64_t wrong;
	bool checked;
};

/* What came of it, which may be sent anywhere. */
struct bb_pair_part {
	double low, mid, high;     /* seconds of one operation: quartiles of the rounds */
	double p50, p99, min, max; /* over all samples */
	uint64_t wrong;
	int rounds; /* 0: it did not time this pair */
	int samples;
	struct bb_floor floor;
	bool checked;
};

/* Of one rank and one of its peers. */
extern const struct bb_payload bb_pair_part_table;

/* With room for MOST samples. BB_EINTERNAL without memory. */
BB_MUST bb_status bb_series_open(struct bb_series *series, size_t most);
void bb_series_close(struct bb_series *series); /* of a zeroed series: nothing */

/* Forget everything but the room. */
void bb_series_clear(struct bb_series *series);
/* What has no room is dropped. */
void bb_series_add(struct bb_series *series, double seconds);
/* The samples since the last round are one; none: no round. SCRATCH: as much room as SERIES. */
void bb_series_end_round(struct bb_series *series, double *scratch);
/* How precise the median of the rounds is, as bb_stats_precision says it. */
double bb_series_precision(const struct bb_series *series);
/* Sorts the rounds: no more may follow. */
void bb_series_sum_up(struct bb_series *series, struct bb_pair_part *part);

#endif
