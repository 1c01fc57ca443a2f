/*
 * turn.c - one pair's turn, and the samples that a rank timed with one peer in one cell, in rounds.
 */
#include "p2p/pairs.h"

#include "core/payload.h"
#include "core/stats.h"

#include <stdlib.h>
#include <string.h>

/* ---- samples -------------------------------------------------------------------------------- */

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

/* ---- a turn --------------------------------------------------------------------------------- */

bb_status bb_pairs_fill(struct bb_pairs_session *s, enum bb_pairs_buffer which,
			const struct bb_pattern *pattern, size_t bytes)
{
	const bool has = s->engine.backend->has_data;
	bb_status status = has ? s->engine.backend->fill(s->engine.rank, bb_pairs_buffer(s, which),
							 pattern, 0, bytes)
			       : BB_OK;

	/* Others reach it. */
	return status == BB_OK ? s->engine.backend->finish(s->engine.rank, NULL) : status;
}

bool bb_turn_takes_part(const struct bb_turn *t)
{
	return t->cell->fan || t->s->me == t->from || t->s->me == t->to;
}

int bb_turn_peer(const struct bb_turn *t)
{
	return t->s->me == t->from ? t->to : t->from;
}

/* True if this rank, one of the pair, moves bytes or messages. */
static bool acts(const struct bb_pairs_session *s, const struct bb_turn *t)
{
	if (t->cell->bidirectional || t->cell->route->actor == BB_BY_BOTH)
		return true;
	return s->me == (t->cell->route->actor == BB_BY_TARGET ? t->to : t->from);
}

/* True if both ends act, so that neither may begin a sample alone. */
static bool is_joint(const struct bb_turn *t)
{
	return t->from != t->to && (t->cell->bidirectional || t->cell->route->actor == BB_BY_BOTH);
}

/* True for the end that knows when the data has arrived: the one that acts, the target if both do.
 */
static bool is_timed(const struct bb_pairs_session *s, const struct bb_turn *t)
{
	if (t->cell->ping)
		return s->me == t->from;
	if (!t->cell->bidirectional && t->cell->route->actor == BB_BY_BOTH)
		return s->me == t->to;
	return acts(s, t);
}

/* Returns where this rank accesses a buffer of PEER, from AT on; NULL: it cannot. */
static void *reached(const struct bb_pairs_session *s, int peer, enum bb_pairs_buffer which,
		     size_t at)
{
	char *const memory = s->theirs[peer * BB_PAIRS_BUFFERS + (int)which];

	return memory ? memory + at : NULL;
}

bb_status bb_turn_transfer(const struct bb_turn *t, int peer, struct bb_pair_range range,
			   bool gives, bool takes, enum bb_pairs_buffer target)
{
	const struct bb_pairs_session *s = t->s;
	const struct bb_half out = {.mine = (char *)bb_pairs_buffer(s, BB_SOURCE) + range.at,
				    .theirs = reached(s, peer, target, range.at),
				    .bytes = gives ? range.bytes : 0};
	const struct bb_half in = {.mine = (char *)bb_pairs_buffer(s, target) + range.at,
				   .theirs = reached(s, peer, BB_SOURCE, range.at),
				   .bytes = takes ? range.bytes : 0};

	return s->engine.backend->routes->transfer(s->engine.world, t->cell->route, peer, &out,
						   &in);
}

static bb_status transfer(const struct bb_turn *t, enum bb_pairs_buffer target)
{
	const bool both = t->cell->bidirectional;
	const int me = t->s->me;

	return bb_turn_transfer(t, bb_turn_peer(t),
				(struct bb_pair_range){0, (size_t)t->cell->bytes},
				me == t->from || both, me == t->to || both, target);
}

static bb_status pairs_ready(void *own)
{
	const struct bb_turn *t = own;
	struct bb_pairs_session *s = t->s;

	return is_joint(t) ? s->engine.backend->barrier(s->with[bb_turn_peer(t)]) : BB_OK;
}

static bb_status pairs_operate(void *own, int64_t sample)
{
	const struct bb_turn *t = own;
	const struct bb_engine *e = &t->s->engine;
	const struct bb_cell *cell = t->cell;
	bb_status status = BB_OK;

	if (cell->ping)
		return e->backend->routes->ping(e->world, cell->route, bb_turn_peer(t),
						t->s->me == t->from, cell->repeats);
	for (size_t i = 1; i < cell->repeats && status == BB_OK; i++)
		status = transfer(t, BB_TARGET);
	return status == BB_OK ? transfer(t, t->final && sample >= 0 ? BB_VERIFIED : BB_TARGET)
			       : status;
}

static bb_status pairs_record_sample(void *own, int64_t sample, double begin, double seconds)
{
	const struct bb_turn *t = own;

	if (is_timed(t->s, t))
		bb_series_add(&t->s->series[bb_turn_peer(t)], seconds);
	return BB_OK;
}

bb_status bb_turn_act(const struct bb_turn *t)
{
	struct bb_pairs_session *s = t->s;
	const struct bb_cell *cell = t->cell;
	const struct bb_options *o = s->engine.options;
	const int peer = bb_turn_peer(t);
	/* A round trip is two messages. */
	const struct bb_sampling sampling = {
		.ready = pairs_ready,
		.operate = pairs_operate,
		.heard = pairs_record_sample,
		.own = (void *)t,
		.warm = t->round == 0 ? o->warmup_iters
			: cell->ping  ? 1
				      : 0,
		.samples = t->final ? 1 : (int64_t)bb_pair_samples(o, t->round),
		.operations = (double)cell->repeats * (cell->ping ? 2 : 1)};
	bb_status status;

	if (cell->fan)
		return bb_fan_act(t);
	if (!acts(s, t))
		return BB_OK;
	if (is_joint(t) && !s->with[peer])
		BB_TRY(status,
		       s->engine.backend->group_open(s->engine.rank,
						     (const int[]){s->me < peer ? s->me : peer,
								   s->me < peer ? peer : s->me},
						     2, &s->with[peer], &s->engine.run->error),
		       out);
	status = bb_engine_sample(&s->engine, &sampling);
	if (status == BB_OK && !t->final)
		bb_series_end_round(&s->series[peer], s->scratch);
out:
	return status;
}

/* ---- data ----------------------------------------------------------------------------------- */

static bool receives(const struct bb_turn *t)
{
	if (t->cell->fan == BB_ONE_TO_ALL)
		return t->s->me != t->from;
	return t->s->me == t->to || (t->cell->bidirectional && t->s->me == t->from);
}

bb_status bb_turn_poison(const struct bb_turn *t)
{
	const struct bb_pattern poison = bb_pattern_poison();

	return receives(t) ? bb_pairs_fill(t->s, BB_VERIFIED, &poison, (size_t)t->cell->bytes)
			   : BB_OK;
}

bb_status bb_turn_verify(const struct bb_turn *t)
{
	struct bb_pairs_session *s = t->s;
	struct bb_series *series = &s->series[bb_turn_peer(t)];
	const struct bb_pattern sent = bb_patterns_get(s->patterns, bb_turn_peer(t));
	bb_status status;

	if (!receives(t) || !bb_engine_checks(&s->engine))
		return BB_OK;
	if (t->cell->fan)
		return bb_fan_verify(t);
	status = bb_engine_corrupt(&s->engine,
				   (char *)bb_pairs_buffer(s, BB_VERIFIED) + t->cell->bytes / 2);
	series->checked = true;
	if (status == BB_OK)
		status = s->engine.backend->verify(s->engine.rank, bb_pairs_buffer(s, BB_VERIFIED),
						   &sent, 0, (size_t)t->cell->bytes, BB_INT8, 0,
						   &series->wrong);
	return status;
}
