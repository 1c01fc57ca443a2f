/*
 * measure.c - the experiment: one pair after the other, round after round, while the other ranks
 * sleep; suspects once more.
 *
 * A turn is that of a pair, of a rank with itself, or, with a cell's fan, of a rank (the hub) with
 * all others at once: each of them moves a part of the bytes, so that all of them go through the
 * hub's port. Where one end acts, the others move one part each; where both act, the route batches
 * the transfers of the hub (backends/routes.h).
 */
#include "p2p/pairs.h"

#include "core/clock.h"
#include "core/payload.h"
#include "core/stats.h"
#include "core/units.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define APART ((size_t)4096) /* between a rank's buffers, so that they do not alias in a cache */
#define REVIEW_S 10.0        /* longest time for suspects, on the clock of the backend */
#define MOST_ROUNDS 100      /* with --precision */

enum buffer { SOURCE, TARGET, VERIFIED, BUFFERS };

/* What one end timed with one peer in the cell at hand. */
struct series {
	double *samples; /* seconds of one operation */
	size_t kept;     /* samples in rounds that have ended */
	double medians[MOST_ROUNDS];
	struct bb_pair_part part; /* floor, counts and wrong data; the rest once it is summed up */
};

/* A driver's state. */
struct session {
	struct bb_engine engine;
	struct bb_pairs *pairs;
	int me, n;                  /* n: ends */
	struct series *series;      /* [peer]; of virtual ranks [end * n + peer] */
	size_t nseries, most;       /* samples of one */
	struct bb_pair_part *parts; /* [series] */
	double *samples;            /* of all series; behind them: */
	double *times;              /* room for a series */
	double *again;              /* [turn], of virtual ranks [end * BB_PAIR_TURNS + turn] */
	/* Of real ranks. */
	struct bb_group **with; /* [peer]: the group of the two; NULL: not opened yet */
	char *memory;           /* of all buffers */
	size_t stride;          /* of a buffer */
	void **theirs;          /* [peer * BUFFERS + buffer]: as this rank reaches it */
	const struct bb_patterns *patterns;
	struct bb_reach *reach;           /* of each route */
	bool *connects;                   /* of all routes */
	struct bb_virtual_turns *virtual; /* NULL: the ranks are real */
};

/* A turn as a rank performs it, FROM one end TO the other; one that is both is alone or the hub. */
struct turn {
	struct session *s;
	const struct bb_cell *cell;
	int from, to;
	int round;
	bool final; /* its only sample goes to poisoned memory, and is verified */
	bool alone; /* private copies of the same bytes by the ranks that act */
	int peer;   /* the other end, or the hub */
	bool is_hub;
	bool gives, takes; /* bytes */
	bool acts;         /* moves bytes or messages */
	bool is_joint;     /* both ends act, so neither may begin a sample alone */
	bool is_timed; /* knows when the data has arrived: it acts, or is the target if both do */
};

/* ---- samples -------------------------------------------------------------------------------- */

/* Without room the sample is dropped. */
static void series_add(const struct session *s, struct series *series, double seconds)
{
	if ((size_t)series->part.samples < s->most)
		series->samples[series->part.samples++] = seconds;
}

/* End a round: the samples since the last one, if there are any. */
static void series_end_round(const struct session *s, struct series *series)
{
	const size_t n = (size_t)series->part.samples - series->kept;
	struct bb_stats stats;

	if (n == 0)
		return;
	memcpy(s->times, series->samples + series->kept, n * sizeof(*s->times));
	bb_stats_compute(s->times, n, &stats);
	series->medians[series->part.rounds++] = stats.p50;
	bb_floor_add(&series->part.floor, stats.min);
	series->kept += n;
}

static bool are_precise(const struct session *s, double precision)
{
	double sorted[MOST_ROUNDS];
	struct bb_stats stats;

	for (size_t i = 0; i < s->nseries; i++) {
		const size_t rounds = (size_t)s->series[i].part.rounds;

		memcpy(sorted, s->series[i].medians, rounds * sizeof(*sorted));
		bb_stats_compute(sorted, rounds, &stats);
		if (bb_stats_precision(&stats) > precision)
			return false;
	}
	return true;
}

/* What this driver times at END with PEER; NULL: another driver times it. */
static struct series *series_of(const struct session *s, int end, int peer)
{
	if (s->virtual)
		return &s->series[end * s->n + peer];
	return end == s->me ? &s->series[peer] : NULL;
}

/* What a turn of virtual ranks took. */
static void record_virtual(void *own, int end, int peer, double seconds)
{
	series_add(own, series_of(own, end, peer), seconds);
}

/* ---- what may be sent anywhere -------------------------------------------------------------- */

#define COUNT(label, member, most)                                                                 \
	BB_PAYLOAD_FIELD(label, BB_PAYLOAD_SIGNED, struct bb_pair_part, member, .high = (most))

static const struct bb_payload_field part_fields[] = {
	/* LOW to MAX, with which the part begins. */
	{"a time", BB_PAYLOAD_REAL, 0, sizeof(double),
	 offsetof(struct bb_pair_part, wrong) / sizeof(double), sizeof(double), 0,
	 BB_PAYLOAD_MOST_SECONDS},
	BB_PAYLOAD_FIELD("the number of wrong elements", BB_PAYLOAD_UNSIGNED, struct bb_pair_part,
			 wrong, .high = INT64_MAX),
	COUNT("the number of rounds", rounds, MOST_ROUNDS),
	COUNT("the number of samples", samples, INT32_MAX),
	BB_PAYLOAD_EACH("a shortest time", BB_PAYLOAD_REAL, struct bb_pair_part, floor.kept, ,
			BB_FLOOR_TIMES, .high = BB_PAYLOAD_MOST_SECONDS),
	COUNT("the number of shortest times", floor.rounds, INT32_MAX),
	COUNT("the number of undisturbed rounds", floor.near, INT32_MAX),
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

static const struct bb_payload_field token_fields[] = {
	{"the token", BB_PAYLOAD_ANY, 0, sizeof(struct bb_token), 1, 0, 0, 0}, {.name = NULL}};
static const struct bb_payload token_table = {"a token", sizeof(struct bb_token), token_fields,
					      NULL};

/* ---- before the first pair ------------------------------------------------------------------ */

#define REASON sizeof(((struct bb_reach *)NULL)->reason)

/* Find the ranks that each route connects: those of which neither refuses the other. Each rank's
   answer is its first reason, then for each peer whether it refuses. */
static bb_status open_reach(struct session *s)
{
	const struct bb_routes *routes = s->engine.backend->routes;
	const int n = s->n;
	const size_t bytes = REASON + (size_t)n;
	const struct bb_payload_field fields[] = {
		{"the reason", BB_PAYLOAD_TEXT, 0, REASON, 1, 0, 0, 0},
		{"a refusal", BB_PAYLOAD_UNSIGNED, REASON, 1, (size_t)n, 1, 0, 1},
		{.name = NULL}};
	const struct bb_payload table = {"what it refuses", bytes, fields, NULL};
	char *mine = malloc(bytes);
	bb_status status = BB_OK;
	int nroutes = 0;

	while (routes->list[nroutes].name)
		nroutes++;
	s->reach = calloc((size_t)nroutes, sizeof(*s->reach));
	s->connects = calloc((size_t)(nroutes * n * n), sizeof(*s->connects));
	if (!mine || !s->reach || !s->connects)
		status = bb_no_memory(&s->engine.run->error, "the ranks");
	for (int r = 0; r < nroutes && status == BB_OK; r++) {
		struct bb_reach *one = &s->reach[r];
		const void *all;

		one->connects = &s->connects[r * n * n];
		memset(mine, 0, bytes);
		for (int peer = n - 1; peer >= 0; peer--) {
			const char *why = routes->refuses(s->engine.world, &routes->list[r], peer);

			mine[REASON + (size_t)peer] = why != NULL;
			if (why && peer != s->me)
				snprintf(mine, REASON, "%s", why);
		}
		status = bb_driver_gather(s->engine.driver, &table, mine, 1, &all);
		for (int i = 0; i < n * n && status == BB_OK; i++) {
			const int from = i / n, to = i % n;
			const char *a = (const char *)all + (size_t)from * bytes;
			const char *b = (const char *)all + (size_t)to * bytes;
			const bool by_a = a[REASON + (size_t)to], by_b = b[REASON + (size_t)from];

			one->connects[i] = !by_a && !by_b;
			if (from >= to || one->connects[i] || one->refused++ > 0)
				continue;
			one->from = from;
			one->to = to;
			memcpy(one->reason, by_a ? a : b, REASON);
		}
	}
	free(mine);
	return status;
}

static char *buffer_of(const struct session *s, enum buffer which)
{
	return s->memory + (size_t)which * s->stride;
}

static bb_status pairs_open(struct bb_engine *engine)
{
	struct session *s = (struct session *)engine;
	const struct bb_options *o = engine->options;
	const struct bb_routes *routes = engine->backend->routes;
	const size_t n = (size_t)s->pairs->n;
	const size_t rounds = o->precision != 0 ? MOST_ROUNDS : BB_PAIR_ROUNDS;
	struct bb_token mine[BUFFERS];
	const void *all;
	bb_status status;

	s->me = engine->driver->rank;
	s->n = s->pairs->n;
	s->nseries = engine->backend->virtual ? n * n : n;
	s->most = o->exact ? 1 : ((size_t)o->iters / BB_PAIR_ROUNDS + 1) * rounds + 1;
	s->with = calloc(n, sizeof(struct bb_group *));
	s->theirs = calloc(n * BUFFERS, sizeof(*s->theirs));
	s->series = calloc(s->nseries, sizeof(*s->series));
	s->parts = calloc(s->nseries, sizeof(*s->parts));
	s->samples = calloc((s->nseries + 1) * s->most + n * BB_PAIR_TURNS, sizeof(*s->samples));
	if (!s->with || !s->theirs || !s->series || !s->samples || !s->parts)
		return bb_no_memory(&engine->run->error, "pairs");
	s->times = s->samples + s->nseries * s->most;
	s->again = s->times + s->most;
	for (size_t i = 0; i < s->nseries; i++)
		s->series[i].samples = &s->samples[i * s->most];
	if (engine->backend->virtual)
		return bb_virtual_open(s->pairs, record_virtual, s, &s->virtual);
	s->stride = ((size_t)s->pairs->most_bytes + 2 * APART - 1) / APART * APART;
	BB_TRY(status, bb_engine_alloc(engine, BUFFERS * s->stride, (void **)&s->memory), out);
	for (int b = 0; b < BUFFERS && routes->share; b++)
		BB_TRY(status,
		       routes->share(engine->rank, buffer_of(s, (enum buffer)b), s->stride,
				     &mine[b]),
		       out);
	if (routes->share)
		BB_TRY(status, bb_driver_gather(engine->driver, &token_table, mine, BUFFERS, &all),
		       out);
	for (int i = 0; i < s->n * BUFFERS && routes->share; i++)
		BB_TRY(status,
		       routes->reach(engine->world, i / BUFFERS, &((const struct bb_token *)all)[i],
				     &s->theirs[i], &engine->run->error),
		       out);
	BB_TRY(status, open_reach(s), out);
	BB_TRY(status, bb_engine_patterns(engine, BB_INT8, -1, s->n, &s->patterns), out);
	/* Also the targets, so that the first write does not include the page faults. */
	for (int b = SOURCE; b < BUFFERS; b++)
		BB_TRY(status,
		       bb_engine_fill(engine, buffer_of(s, (enum buffer)b), s->patterns, s->me, 0,
				      s->stride),
		       out);
	status = engine->backend->finish(engine->rank, NULL);
out:
	return status;
}

/* After a failure the others may still be reading this rank's memory. */
static void pairs_close(struct bb_engine *engine)
{
	struct session *s = (struct session *)engine;

	for (int i = 0; s->theirs && i < s->n * BUFFERS && engine->all_done; i++)
		if (s->theirs[i])
			engine->backend->routes->unreach(engine->world, i / BUFFERS, s->theirs[i]);
	for (int i = 0; s->with && i < s->n; i++)
		engine->backend->group_close(s->with[i]);
	free(s->with);
	free(s->theirs);
	free(s->series);
	free(s->samples);
	free(s->parts);
	bb_virtual_close(s->virtual);
	free(s->reach);
	free(s->connects);
}

/* ---- a turn of real ranks ------------------------------------------------------------------- */

static struct turn turn_of(struct session *s, const struct bb_cell *cell, int from, int to)
{
	const enum bb_route_actor actor = cell->route->actor;
	const bool source = s->me == from, target = s->me == to;
	const bool both = cell->bidirectional || actor == BB_BY_BOTH;
	struct turn t = {.s = s, .cell = cell, .from = from, .to = to, .peer = source ? to : from};

	if (cell->fan) {
		t.is_hub = source;
		t.gives = source == (cell->fan == BB_ONE_TO_ALL);
		t.takes = !t.gives;
		t.acts = !source || both;
		t.is_timed = source;
		return t;
	}
	t.gives = source || (target && cell->bidirectional);
	t.takes = target || (source && cell->bidirectional);
	t.acts = both ? source || target : actor == BB_BY_TARGET ? target : source;
	t.is_joint = both && from != to;
	t.is_timed = cell->ping                                    ? source
		     : actor == BB_BY_BOTH && !cell->bidirectional ? target
								   : t.acts;
	return t;
}

/* When what a slow link delays begins; others cost no look at the clock. */
static double slow_start(const struct turn *t)
{
	return t->s->engine.options->fault.kind == BB_FAULT_SLOW_LINK ? bb_clock_now() : 0;
}

/* The end that receives, or alone acts, delays what began at START by --fault slow_link; of a ping
   each way is half. */
static bb_status slow_down(const struct turn *t, bool out, bool in, double start)
{
	const struct bb_engine *e = &t->s->engine;
	const struct bb_fault *fault = &e->options->fault;
	const bool slow = fault->kind == BB_FAULT_SLOW_LINK &&
			  ((out && t->s->me == fault->rank && t->peer == fault->to) ||
			   (in && t->s->me == fault->to && t->peer == fault->rank));

	if (!slow)
		return BB_OK;
	const bb_status status = e->backend->finish(e->rank, NULL);
	bb_driver_delay(e->driver,
			(fault->factor - 1) * (out && in ? 0.5 : 1) * (bb_clock_now() - start));
	return status;
}

/* Moves what goes between this rank and PEER; of private copies PEER is this rank. */
static bb_status transfer(const struct turn *t, int peer, enum buffer target)
{
	const struct session *s = t->s;
	const struct bb_pair_range range =
		bb_cell_range(t->cell, s->n, t->from, t->is_hub ? peer : s->me);
	void *const *theirs = &s->theirs[peer * BUFFERS];
	const struct bb_half out = {.mine = buffer_of(s, SOURCE) + range.at,
				    .theirs = theirs[target] ? (char *)theirs[target] + range.at
							     : NULL,
				    .bytes = t->gives || t->alone ? range.bytes : 0};
	const struct bb_half in = {.mine = buffer_of(s, target) + range.at,
				   .theirs = theirs[SOURCE] ? (char *)theirs[SOURCE] + range.at
							    : NULL,
				   .bytes = t->takes || t->alone ? range.bytes : 0};
	const bool outward = t->cell->route->actor == BB_BY_SOURCE;
	const double start = slow_start(t);
	const bb_status status = s->engine.backend->routes->transfer(
		s->engine.world, t->cell->route, peer, &out, &in);

	return status == BB_OK ? slow_down(t, outward && out.bytes, !outward && in.bytes, start)
			       : status;
}

static bb_status turn_ready(void *own)
{
	const struct turn *t = own;
	const struct session *s = t->s;

	if (!t->cell->fan && !t->is_joint)
		return BB_OK;
	return s->engine.backend->barrier(t->is_joint ? s->with[t->peer] : s->engine.world);
}

/* Moves all that this rank moves: a hub's parts at once. */
static bb_status turn_operate(void *own, int64_t sample)
{
	const struct turn *t = own;
	const struct session *s = t->s;
	const struct bb_cell *cell = t->cell;
	const struct bb_routes *routes = s->engine.backend->routes;
	struct bb_group *world = s->engine.world;
	const double start = slow_start(t);
	bb_status status = BB_OK;

	if (cell->ping) {
		status = routes->ping(world, cell->route, t->peer, s->me == t->from, cell->repeats);
		return status == BB_OK ? slow_down(t, true, true, start) : status;
	}
	for (size_t i = 1; i <= cell->repeats && t->acts && status == BB_OK; i++) {
		const bool last = sample >= 0 && i == cell->repeats;
		const enum buffer target = t->final && last ? VERIFIED : TARGET;

		if (!t->is_hub) {
			status = transfer(t, t->alone ? s->me : t->peer, target);
			continue;
		}
		BB_TRY(status, routes->batch(world, cell->route, false), out);
		for (int peer = 0; peer < s->n; peer++)
			if (peer != s->me)
				BB_TRY(status, transfer(t, peer, target), out);
		status = routes->batch(world, cell->route, true);
	}
out:
	return status;
}

static bb_status turn_record_sample(void *own, int64_t sample, double begin, double seconds)
{
	const struct turn *t = own;

	t->s->times[sample] = t->acts ? seconds : 0;
	return BB_OK;
}

/* Times this rank's part. A fan lasts until the slowest rank is done; on CPUs, where one end acts,
   private copies of the same bytes by the same ranks are timed, too. */
static bb_status turn_measure(struct turn *t)
{
	struct session *s = t->s;
	const struct bb_cell *cell = t->cell;
	const struct bb_options *o = s->engine.options;
	const size_t samples = t->final ? 1 : bb_pair_samples(o, t->round);
	/* A round trip is two messages. */
	const struct bb_sampling sampling = {.ready = turn_ready,
					     .operate = turn_operate,
					     .on_sample = turn_record_sample,
					     .own = t,
					     .warm = t->round == 0 ? o->warmup_iters
						     : cell->ping  ? 1
								   : 0,
					     .samples = (int64_t)samples,
					     .operations =
						     (double)cell->repeats * (cell->ping ? 2 : 1)};
	const int peer = t->alone ? (t->from + 1) % s->n : t->peer;
	bb_status status;

	if (!t->acts && !cell->fan)
		return BB_OK;
	if (t->is_joint && !s->with[peer])
		BB_TRY(status,
		       s->engine.backend->group_open(s->engine.rank,
						     s->me < peer ? (const int[]){s->me, peer}
								  : (const int[]){peer, s->me},
						     2, &s->with[peer], &s->engine.run->error),
		       out);
	BB_TRY(status, bb_engine_sample(&s->engine, &sampling), out);
	if (t->final)
		return BB_OK;
	if (cell->fan)
		BB_TRY(status, bb_engine_slowest(&s->engine, s->times, samples), out);
	for (size_t i = 0; i < samples && t->is_timed; i++)
		series_add(s, &s->series[peer], s->times[i]);
	if (cell->fan && !t->alone && !s->engine.backend->gpu && cell->route->actor != BB_BY_BOTH) {
		t->alone = true;
		status = turn_measure(t);
	}
out:
	return status;
}

/* Collective: no rank may be in one step while another is in the next. */
static bb_status run_turn(struct session *s, const struct bb_cell *cell, int from, int to,
			  int round, bool final)
{
	const struct bb_backend *backend = s->engine.backend;
	const struct bb_pattern poison = bb_pattern_poison();
	struct turn t = turn_of(s, cell, from, to);
	char size[BB_UNIT_TEXT], what[BB_WHAT_TEXT];
	bb_status status;

	t.round = round;
	t.final = final;
	snprintf(what, sizeof(what), "%s %d -> %d: %s", cell->route->name, from, to,
		 cell->ping ? "latency" : bb_format_size(size, cell->bytes));
	BB_TRY(status, bb_engine_begin(&s->engine, what), out);
	if (s->pairs->settings.child && bb_engine_leads(&s->engine))
		BB_TRY(status, bb_child_write_alive(s->pairs), out);
	if (t.takes && final) {
		BB_TRY(status,
		       backend->fill(s->engine.rank, buffer_of(s, VERIFIED), &poison, 0,
				     (size_t)cell->bytes),
		       out);
		BB_TRY(status, backend->finish(s->engine.rank, NULL), out);
	}
	BB_TRY(status, bb_driver_barrier(s->engine.driver), out);
	BB_TRY(status, turn_measure(&t), out);
	if (final)
		BB_TRY(status, bb_driver_barrier(s->engine.driver), out);
	if (!final || !t.takes || !bb_engine_checks(&s->engine))
		return BB_OK;
	struct bb_pair_part *result = &s->series[t.peer].part;
	result->checked = true;
	for (int peer = 0; peer < s->n; peer++) { /* of each its range */
		const struct bb_pair_range range =
			bb_cell_range(cell, s->n, from, t.is_hub ? peer : s->me);
		char *const got = buffer_of(s, VERIFIED) + range.at;

		if (t.is_hub ? peer == s->me : peer != t.peer)
			continue;
		BB_TRY(status, bb_engine_corrupt(&s->engine, got + range.bytes / 2), out);
		BB_TRY(status,
		       bb_engine_verify(&s->engine, got, s->patterns, peer, range.at, range.bytes,
					&result->wrong),
		       out);
	}
out:
	return status;
}

/* ---- all pairs ------------------------------------------------------------------------------ */

static const struct bb_reach *reach_of(const struct session *s, const struct bb_cell *cell)
{
	return &s->reach[cell->route - s->engine.backend->routes->list];
}

static bb_status run_round(struct session *s, const struct bb_cell *cell, int round, bool final)
{
	const size_t samples = s->virtual ? bb_pair_samples(s->engine.options, round) : 0;
	bb_status status = BB_OK;

	/* A round of pairs of virtual ranks is a program, and so is each sample of a hub. */
	if (s->virtual && !cell->fan)
		status = bb_virtual_run(s->virtual, &s->engine, cell, -1, -1, samples);
	for (size_t i = 0; i < (size_t)s->n * samples && cell->fan && status == BB_OK; i++)
		status = bb_virtual_run(s->virtual, &s->engine, cell, (int)(i / samples), -1, 1);
	for (int from = 0; from < s->n && !s->virtual; from++) {
		const bool *const connects = &reach_of(s, cell)->connects[from * s->n];
		bool all = true;

		for (int peer = 0; peer < s->n; peer++)
			all &= peer == from || connects[peer];
		for (int to = 0; to < s->n && status == BB_OK; to++)
			if (cell->fan ? from == to && all
				      : connects[to] && (!cell->bidirectional || from < to))
				status = run_turn(s, cell, from, to, round, final);
	}
	for (size_t i = 0; i < s->nseries && status == BB_OK; i++)
		series_end_round(s, &s->series[i]);
	return status;
}

/* *ALL = what all ranks measured in CELL, on rank 0. With --precision until all pairs are precise
   or --max-time is over, which leaves the rounds that findings need. */
static bb_status measure_cell(struct session *s, const struct bb_cell *cell, const void **all)
{
	const struct bb_options *o = s->engine.options;
	const double began = s->engine.backend->now(s->engine.rank);
	size_t next = 1;
	bb_status status;

	for (size_t i = 0; i < s->nseries; i++)
		s->series[i] = (struct series){.samples = s->series[i].samples};
	for (int round = 0; next > 0; round++) {
		const bool enough = round + 1 >= bb_pair_rounds(o);

		BB_TRY(status, run_round(s, cell, round, false), out);
		next = 1;
		if (o->precision != 0 && !o->exact && round + 1 < MOST_ROUNDS &&
		    (enough || round + 1 >= BB_FINDING_ROUNDS))
			BB_TRY(status,
			       bb_engine_agree_on_next(&s->engine,
						       enough && are_precise(s, o->precision),
						       began, (size_t)round + 1, &next),
			       out);
		else if (enough)
			next = 0;
	}
	if (!cell->ping && !s->virtual && o->check > 0)
		BB_TRY(status, run_round(s, cell, 1, true), out);
	for (size_t i = 0; i < s->nseries; i++) {
		struct series *series = &s->series[i];
		struct bb_pair_part *part = &s->parts[i];
		const size_t rounds = (size_t)series->part.rounds;
		struct bb_stats stats;

		*part = series->part;
		if (rounds == 0)
			continue;
		bb_stats_compute(series->samples, (size_t)part->samples, &stats);
		part->p50 = stats.p50;
		part->p99 = stats.p99;
		part->min = stats.min;
		part->max = stats.max;
		bb_stats_compute(series->medians, rounds, &stats); /* sorts them */
		part->mid = stats.p50;
		part->low = series->medians[rounds / 4];
		part->high = series->medians[rounds - 1 - rounds / 4];
	}
	*all = s->parts;
	if (!s->virtual)
		status = bb_driver_collect(s->engine.driver, &bb_pair_part_table, s->parts,
					   s->nseries, all);
out:
	return status;
}

/* ---- suspects, once more -------------------------------------------------------------------- */

/* Measure a round of TURNS: the shortest sample of each end goes to rank 0. */
static bb_status measure_again(struct session *s, const struct bb_pair_turns *turns)
{
	const void *all = s->again;
	bb_status status = BB_OK;

	memset(s->again, 0, (size_t)s->n * BB_PAIR_TURNS * sizeof(*s->again));
	for (int i = 0; i < turns->n && status == BB_OK; i++) {
		const struct bb_pair_turn *p = &turns->list[i];
		const struct bb_cell *cell = &s->pairs->cells[p->cell];
		const int ends[] = {p->from, p->to};

		for (int e = 0; e < 2; e++) {
			struct series *series = series_of(s, ends[e], ends[1 - e]);

			if (series)
				*series = (struct series){.samples = series->samples};
		}
		status = s->virtual ? bb_virtual_run(s->virtual, &s->engine, cell, p->from, p->to,
						     bb_pair_samples(s->engine.options, 1))
				    : run_turn(s, cell, p->from, p->to, 1, false);
		for (int e = 0; e < 2 && status == BB_OK; e++) {
			struct series *series = series_of(s, ends[e], ends[1 - e]);

			if (!series)
				continue;
			series_end_round(s, series);
			s->again[(s->virtual ? ends[e] * BB_PAIR_TURNS : 0) + i] =
				series->part.floor.kept[0];
		}
	}
	if (status == BB_OK && !s->virtual)
		status = bb_driver_collect(s->engine.driver, &bb_payload_seconds, s->again,
					   BB_PAIR_TURNS, &all);
	if (status == BB_OK && bb_driver_leads(s->engine.driver))
		bb_review_add(s->pairs, turns, all);
	return status;
}

#define TURN(label, member, most)                                                                  \
	BB_PAYLOAD_EACH(label, BB_PAYLOAD_SIGNED, struct bb_pair_turns, list, .member,             \
			BB_PAIR_TURNS, .high = (most))

/* Measure suspects again, in turn with their references, until each is cleared or confirmed or the
   time is up; rank 0 decides. Collective. */
static bb_status review(struct session *s)
{
	const struct bb_payload_field fields[] = {
		BB_PAYLOAD_FIELD("the number of turns", BB_PAYLOAD_SIGNED, struct bb_pair_turns, n,
				 .high = BB_PAIR_TURNS),
		TURN("a cell", cell, (int64_t)s->pairs->ncells - 1),
		TURN("a source", from, s->n - 1),
		TURN("a target", to, s->n - 1),
		{.name = NULL}};
	const struct bb_payload table = {"turns of pairs", sizeof(struct bb_pair_turns), fields,
					 NULL};
	const double began = s->engine.backend->now(s->engine.rank);
	const bool leads = bb_driver_leads(s->engine.driver);
	struct bb_pair_turns turns = {.n = 0};
	bb_status status = leads ? bb_child_deliver(&s->engine) : BB_OK;

	for (int round = 0; status == BB_OK; round++) {
		const void *all;

		if (leads)
			BB_TRY(status, bb_review_list(s->pairs, round, &turns), out);
		if (leads && s->engine.backend->now(s->engine.rank) - began > REVIEW_S)
			turns.n = 0;
		BB_TRY(status, bb_driver_gather(s->engine.driver, &table, &turns, 1, &all), out);
		turns = *(const struct bb_pair_turns *)all;
		if (turns.n == 0)
			break;
		if (leads)
			bb_driver_delay(s->engine.driver, BB_RETEST_PAUSE_S);
		status = measure_again(s, &turns);
	}
out:
	return status;
}

/* ---- the experiment ------------------------------------------------------------------------- */

/* The child runs first, before this process allocates memory of the GPUs. */
static bb_status pairs_before(struct bb_engine *engine)
{
	struct session *s = (struct session *)engine;
	bb_status status = BB_OK;

	s->pairs = engine->run->own;
	if (!s->pairs->has_child)
		return BB_OK;
	if (bb_engine_leads(engine))
		BB_TRY(status, bb_child_run(engine->driver, s->pairs), out);
	status = bb_driver_barrier(engine->driver);
out:
	return status;
}

static bb_status pairs_run(struct bb_engine *engine)
{
	struct session *s = (struct session *)engine;
	struct bb_ticker *ticker = &engine->run->ticker;
	const bool leads = bb_driver_leads(engine->driver);
	bb_status status;

	for (size_t i = 0; i < s->pairs->ncells; i++) {
		const struct bb_cell *cell = &s->pairs->cells[i];
		const void *all = NULL;

		if (leads && s->reach)
			BB_TRY(status, bb_pairs_refuse(engine, cell, reach_of(s, cell)), out);
		if (leads)
			bb_ticker_show(ticker, cell->route->name, cell->bytes);
		if (!cell->skip)
			BB_TRY(status, measure_cell(s, cell, &all), out);
		if (leads)
			BB_TRY(status, bb_pairs_deliver(engine, i, all), out);
		if (leads)
			bb_ticker_step(ticker, cell->bytes);
	}
	status = review(s);
out:
	return status;
}

static bb_status pairs_deliver(struct bb_engine *engine)
{
	struct bb_pairs *pairs = engine->run->own;

	return pairs->settings.child ? bb_child_write_floors(pairs) : bb_pairs_judge(pairs);
}

const struct bb_experiment bb_pairs_experiment = {
	.bytes = sizeof(struct session),
	.before = pairs_before,
	.open = pairs_open,
	.run = pairs_run,
	.deliver = pairs_deliver,
	.close = pairs_close,
};
