#include "p2p/series.h"

#include "core/stats.h"

#include <stdlib.h>
#include <string.h>

bb_status bb_series_open(struct bb_series *series, size_t most)
{
	*series = (struct bb_series){.samples = calloc(most, sizeof(double)), .most = most};
	return series->samples ? BB_OK : BB_EINTERNAL;
}

void bb_series_close(struct bb_series *series)
{
	free(series->samples);
}

void bb_series_clear(struct bb_series *series)
{
	*series = (struct bb_series){.samples = series->samples, .most = series->most};
}

void bb_series_add(struct bb_series *series, double seconds)
{
	if (series->n < series->most)
		series->samples[series->n++] = seconds;
}

void bb_series_end_round(struct bb_series *series, double *scratch)
{
	const size_t n = series->n - series->kept;
	struct bb_stats stats;

	if (n == 0)
		return;
	memcpy(scratch, series->samples + series->kept, n * sizeof(*scratch));
	bb_stats_compute(scratch, n, &stats);
	series->medians[series->rounds++] = stats.p50;
	bb_floor_add(&series->floor, stats.min);
	series->kept = series->n;
}

bool bb_series_are_precise(const struct bb_series *series, int n, double precision)
{
	double sorted[BB_PAIR_MOST_ROUNDS];
	struct bb_stats stats;

	for (int i = 0; i < n; i++) {
		const size_t rounds = (size_t)series[i].rounds;

		memcpy(sorted, series[i].medians, rounds * sizeof(*sorted));
		bb_stats_compute(sorted, rounds, &stats);
		if (bb_stats_precision(&stats) > precision)
			return false;
	}
	return true;
}

void bb_series_sum_up(struct bb_series *series, struct bb_pair_part *part)
{
	struct bb_stats stats;

	memset(part, 0, sizeof(*part));
	part->wrong = series->wrong;
	part->floor = series->floor;
	part->checked = series->checked;
	if (series->rounds == 0)
		return;
	bb_stats_compute(series->samples, series->n, &stats);
	part->p50 = stats.p50;
	part->p99 = stats.p99;
	part->min = stats.min;
	part->max = stats.max;
	part->samples = (int)series->n;
	part->rounds = series->rounds;
	bb_stats_compute(series->medians, (size_t)series->rounds, &stats); /* sorts them */
	part->mid = stats.p50;
	part->low = series->medians[series->rounds / 4];
	part->high = series->medians[series->rounds - 1 - series->rounds / 4];
}

/* ---- what may be sent anywhere --------------------------------------------------------------- */

#define TIME(label, member)                                                                        \
	BB_PAYLOAD_FIELD(label, BB_PAYLOAD_REAL, struct bb_pair_part, member,                      \
			 .high = BB_PAYLOAD_MOST_SECONDS)

static const struct bb_payload_field part_fields[] = {
	TIME("the lower quartile", low),
	TIME("the median", mid),
	TIME("the upper quartile", high),
	TIME("p50", p50),
	TIME("p99", p99),
	TIME("the shortest time", min),
	TIME("the longest time", max),
	BB_PAYLOAD_FIELD("the number of wrong elements", BB_PAYLOAD_UNSIGNED, struct bb_pair_part,
			 wrong, .high = INT64_MAX),
	BB_PAYLOAD_FIELD("the number of rounds", BB_PAYLOAD_SIGNED, struct bb_pair_part, rounds,
			 .high = BB_PAIR_MOST_ROUNDS),
	BB_PAYLOAD_FIELD("the number of samples", BB_PAYLOAD_SIGNED, struct bb_pair_part, samples,
			 .high = INT32_MAX),
	BB_PAYLOAD_EACH("a shortest time", BB_PAYLOAD_REAL, struct bb_pair_part, floor.kept, ,
			BB_FLOOR_TIMES, .high = BB_PAYLOAD_MOST_SECONDS),
	BB_PAYLOAD_FIELD("the number of shortest times", BB_PAYLOAD_SIGNED, struct bb_pair_part,
			 floor.rounds, .high = INT32_MAX),
	BB_PAYLOAD_FIELD("the number of undisturbed rounds", BB_PAYLOAD_SIGNED, struct bb_pair_part,
			 floor.near, .high = INT32_MAX),
	BB_PAYLOAD_FIELD("the mark of a check", BB_PAYLOAD_UNSIGNED, struct bb_pair_part, checked,
			 .high = 1),
	{.name = NULL}};

static bool part_fits(const void *payload)
{
	const struct bb_pair_part *p = payload;

	return p->samples >= p->rounds && p->floor.near <= p->floor.rounds;
}

const struct bb_payload bb_pair_part_table = {"what it measured of a pair",
					      sizeof(struct bb_pair_part), part_fields, part_fits};
