/*
 * drive.c - the experiment: one pair after the other, round after round. The other ranks sleep.
 */
#include "core/units.h"
#include "p2p/pairs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Distance between a rank's buffers, so that they do not alias in a cache. */
#define APART ((size_t)4096)
#define REVIEW_S 10.0 /* longest time for suspects, on the clock of the backend */

enum buffer { SOURCE, TARGET, VERIFIED, BUFFERS };

/* A driver's state. */
struct pairs_session {
	struct bb_engine engine;
	struct bb_pairs *pairs;
	struct bb_group **with; /* [peer]: the group of the two; NULL: not opened yet */
	int me, n;
	char *memory;  /* of all buffers */
	size_t stride; /* of a buffer */
	void **theirs; /* [peer * BUFFERS + buffer]: as this rank reaches it */
	const struct bb_patterns *patterns;
	size_t most_samples;
	struct bb_series *series;   /* [peer]: of the cell at hand */
	struct bb_pair_part *parts; /* [peer] */
	struct bb_reach *reach;     /* of each route */
	double *scratch;            /* most_samples */
};

/* One pair's turn. */
struct turn {
	struct pairs_session *s;
	const struct bb_cell *cell;
	int from, to;
	int round;
	bool final; /* its only sample goes to poisoned memory, and is verified */
};

static void *buffer(const struct pairs_session *s, enum buffer which)
{
	return s->memory + (size_t)which * s->stride;
}

static const struct bb_payload_field token_fields[] = {
	{"the token", BB_PAYLOAD_ANY, 0, sizeof(struct bb_token), 1, 0, 0, 0}, {.name = NULL}};
static const struct bb_payload token_table = {"a token", sizeof(struct bb_token), token_fields,
					      NULL};

/* ---- before the first pair ----------------------------------------------------------------- */

static bb_status open_memory(struct pairs_session *s)
{
	struct bb_token mine[BUFFERS];
	const struct bb_token *all;
	const void *gathered;
	bb_status status;

	s->stride = ((size_t)s->pairs->most_bytes + 2 * APART - 1) / APART * APART;
	BB_TRY(status, bb_engine_alloc(&s->engine, BUFFERS * s->stride, (void **)&s->memory), out);
	for (int b = 0; b < BUFFERS; b++)
		BB_TRY(status,
		       s->engine.backend->routes->share(s->engine.rank, buffer(s, (enum buffer)b),
							s->stride, &mine[b]),
		       out);
	BB_TRY(status, bb_crew_gather(s->engine.driver, &token_table, mine, BUFFERS, &gathered),
	       out);
	all = gathered;
	for (int i = 0; i < s->n * BUFFERS; i++)
		BB_TRY(status,
		       s->engine.backend->routes->reach(s->engine.world, i / BUFFERS, &all[i],
							&s->theirs[i], &s->engine.run->error),
		       out);
out:
	return status;
}

static bb_status fill(struct pairs_session *s, enum buffer which, const struct bb_pattern *pattern,
		      size_t bytes)
{
	const bool has = s->engine.backend->has_data;
	bb_status status =
		has ? s->engine.backend->fill(s->engine.rank, buffer(s, which), pattern, 0, bytes)
		    : BB_OK;

	/* Others reach it. */
	return status == BB_OK ? s->engine.backend->finish(s->engine.rank, NULL) : status;
}

static bb_status open_data(struct pairs_session *s)
{
	struct bb_pattern mine;
	bb_status status = bb_engine_patterns(&s->engine, BB_INT8, -1, s->n, &s->patterns);

	if (status != BB_OK)
		return status;
	mine = bb_patterns_get(s->patterns, s->me);
	status = fill(s, SOURCE, &mine, s->stride);
	/* So that the first write does not include the page faults. */
	for (int b = TARGET; b < BUFFERS && status == BB_OK; b++)
		status = fill(s, (enum buffer)b, &mine, s->stride);
	return status;
}

static bb_status open_lists(struct pairs_session *s)
{
	const size_t n = (size_t)s->n, iters = (size_t)s->engine.options->iters;
	const size_t rounds =
		s->engine.options->precision != 0 ? BB_PAIR_MOST_ROUNDS : BB_PAIR_ROUNDS;

	s->most_samples = (iters / BB_PAIR_ROUNDS + 1) * rounds + 1;
	s->with = calloc(n, sizeof(struct bb_group *));
	s->theirs = calloc(n * BUFFERS, sizeof(*s->theirs));
	s->series = calloc(n, sizeof(*s->series));
	s->parts = calloc(n, sizeof(*s->parts));
	s->scratch = calloc(s->most_samples, sizeof(*s->scratch));
	if (!s->with || !s->theirs || !s->series || !s->parts || !s->scratch)
		return bb_no_memory(&s->engine.run->error, "the ranks");
	for (size_t i = 0; i < n; i++)
		if (bb_series_open(&s->series[i], s->most_samples) != BB_OK)
			return bb_no_memory(&s->engine.run->error, "samples");
	return BB_OK;
}

static bb_status pairs_open(struct bb_engine *engine)
{
	struct pairs_session *s = (struct pairs_session *)engine;
	bb_status status;

	s->me = engine->driver->rank;
	s->n = engine->run->world.nranks;
	if (bb_pairs_are_virtual(s->pairs))
		return BB_OK;
	BB_TRY(status, open_lists(s), done);
	BB_TRY(status, open_memory(s), done);
	BB_TRY(status, bb_reach_find(engine->driver, engine->run, engine->world, &s->reach), done);
	status = open_data(s);
done:
	return status;
}

/* After a failure the others may still be reading this rank's memory. */
static void pairs_close(struct bb_engine *engine)
{
	struct pairs_session *s = (struct pairs_session *)engine;

	for (int i = 0; s->theirs && i < s->n * BUFFERS && engine->all_done; i++)
		engine->backend->routes->unreach(engine->world, i / BUFFERS, s->theirs[i]);
	for (int i = 0; s->with && i < s->n; i++)
		engine->backend->group_close(s->with[i]);
	for (int i = 0; s->series && i < s->n; i++)
		bb_series_close(&s->series[i]);
	free(s->with);
	free(s->theirs);
	free(s->series);
	free(s->parts);
	free(s->scratch);
	bb_reach_free(engine->backend, s->reach);
}

/* ---- one pair's turn ------------------------------------------------------------------------ */

static bool takes_part(const struct pairs_session *s, const struct turn *t)
{
	return s->me == t->from || s->me == t->to;
}

static int peer_of(const struct pairs_session *s, const struct turn *t)
{
	return s->me == t->from ? t->to : t->from;
}

/* True if this rank, one of the pair, moves bytes or messages. */
static bool acts(const struct pairs_session *s, const struct turn *t)
{
	if (t->cell->bidirectional || t->cell->route->actor == BB_BY_BOTH)
		return true;
	return s->me == (t->cell->route->actor == BB_BY_TARGET ? t->to : t->from);
}

/* True if both ends act, so that neither may begin a sample alone. */
static bool is_joint(const struct turn *t)
{
	return t->from != t->to && (t->cell->bidirectional || t->cell->route->actor == BB_BY_BOTH);
}

/* True for the end that knows when the data has arrived: the one that acts, the target if both do.
 */
static bool is_timed(const struct pairs_session *s, const struct turn *t)
{
	if (t->cell->ping)
		return s->me == t->from;
	if (!t->cell->bidirectional && t->cell->route->actor == BB_BY_BOTH)
		return s->me == t->to;
	return acts(s, t);
}

static bb_status meet(struct pairs_session *s, const struct turn *t)
{
	const int peer = peer_of(s, t);
	const int members[2] = {t->from < t->to ? t->from : t->to,
				t->from < t->to ? t->to : t->from};

	if (!is_joint(t) || s->with[peer])
		return BB_OK;
	return s->engine.backend->group_open(s->engine.rank, members, 2, &s->with[peer],
					     &s->engine.run->error);
}

static bb_status transfer(struct pairs_session *s, const struct turn *t, enum buffer target)
{
	const int peer = peer_of(s, t);
	const bool gives = s->me == t->from || t->cell->bidirectional;
	const bool takes = s->me == t->to || t->cell->bidirectional;
	const struct bb_half out = {.mine = buffer(s, SOURCE),
				    .theirs = s->theirs[peer * BUFFERS + target],
				    .bytes = gives ? (size_t)t->cell->bytes : 0};
	const struct bb_half in = {.mine = buffer(s, target),
				   .theirs = s->theirs[peer * BUFFERS + SOURCE],
				   .bytes = takes ? (size_t)t->cell->bytes : 0};

	return s->engine.backend->routes->transfer(s->engine.world, t->cell->route, peer, &out,
						   &in);
}

static bb_status operate(struct pairs_session *s, const struct turn *t, bool verified)
{
	const struct bb_cell *cell = t->cell;
	bb_status status = BB_OK;

	if (cell->ping)
		return s->engine.backend->routes->ping(s->engine.world, cell->route, peer_of(s, t),
						       s->me == t->from, cell->repeats);
	for (size_t i = 1; i < cell->repeats && status == BB_OK; i++)
		status = transfer(s, t, TARGET);
	return status == BB_OK ? transfer(s, t, verified ? VERIFIED : TARGET) : status;
}

static bb_status pairs_ready(void *own)
{
	const struct turn *t = own;
	struct pairs_session *s = t->s;

	return is_joint(t) ? s->engine.backend->barrier(s->with[peer_of(s, t)]) : BB_OK;
}

static bb_status pairs_operate(void *own, int64_t sample)
{
	const struct turn *t = own;

	return operate(t->s, t, t->final && sample >= 0);
}

static void pairs_record_sample(void *own, int64_t sample, double seconds)
{
	const struct turn *t = own;

	if (is_timed(t->s, t))
		bb_series_add(&t->s->series[peer_of(t->s, t)], seconds);
}

static bb_status act(struct pairs_session *s, const struct turn *t)
{
	const struct bb_cell *cell = t->cell;
	const struct bb_options *o = s->engine.options;
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
	bb_status status = meet(s, t);

	if (status == BB_OK)
		status = bb_engine_sample(&s->engine, &sampling);
	if (status == BB_OK && !t->final)
		bb_series_end_round(&s->series[peer_of(s, t)], s->scratch);
	return status;
}

/* ---- data ----------------------------------------------------------------------------------- */

static bool receives(const struct pairs_session *s, const struct turn *t)
{
	return s->me == t->to || (t->cell->bidirectional && s->me == t->from);
}

static bb_status poison_target(struct pairs_session *s, const struct turn *t)
{
	const struct bb_pattern poison = bb_pattern_poison();

	return receives(s, t) ? fill(s, VERIFIED, &poison, (size_t)t->cell->bytes) : BB_OK;
}

static bb_status verify(struct pairs_session *s, const struct turn *t)
{
	struct bb_series *series = &s->series[peer_of(s, t)];
	const struct bb_pattern sent = bb_patterns_get(s->patterns, peer_of(s, t));
	bb_status status;

	if (!receives(s, t) || !bb_engine_checks(&s->engine))
		return BB_OK;
	status = bb_engine_corrupt(&s->engine, (char *)buffer(s, VERIFIED) + t->cell->bytes / 2);
	series->checked = true;
	if (status == BB_OK)
		status = s->engine.backend->verify(s->engine.rank, buffer(s, VERIFIED), &sent, 0,
						   (size_t)t->cell->bytes, BB_INT8, 0,
						   &series->wrong);
	return status;
}

/* ---- all pairs ------------------------------------------------------------------------------ */

static bb_status begin_turn(struct pairs_session *s, const struct turn *t)
{
	char size[BB_UNIT_TEXT], what[BB_WHAT_TEXT];
	bb_status status;

	snprintf(what, sizeof(what), "%s %d -> %d: %s", t->cell->route->name, t->from, t->to,
		 t->cell->ping ? "latency" : bb_format_size(size, t->cell->bytes));
	status = bb_engine_begin(&s->engine, what);
	if (status == BB_OK && bb_engine_leads(&s->engine))
		status = bb_child_send_alive(s->pairs);
	return status;
}

static bb_status run_turn(struct pairs_session *s, const struct turn *t)
{
	bb_status status;

	BB_TRY(status, begin_turn(s, t), out);
	if (takes_part(s, t) && t->final)
		BB_TRY(status, poison_target(s, t), out);
	BB_TRY(status, bb_crew_barrier(s->engine.driver), out);
	if (takes_part(s, t) && acts(s, t))
		BB_TRY(status, act(s, t), out);
	if (!t->final)
		return BB_OK;
	/* No rank may still be writing when another verifies. */
	BB_TRY(status, bb_crew_barrier(s->engine.driver), out);
	if (takes_part(s, t))
		status = verify(s, t);
out:
	return status;
}

static const struct bb_reach *reach_of(const struct pairs_session *s, const struct bb_cell *cell)
{
	return &s->reach[cell->route - s->engine.backend->routes->list];
}

static bool has_turn(const struct pairs_session *s, const struct bb_cell *cell, int from, int to)
{
	return reach_of(s, cell)->connects[from * s->n + to] && (!cell->bidirectional || from < to);
}

static bb_status run_round(struct pairs_session *s, const struct bb_cell *cell, int round,
			   bool final)
{
	bb_status status = BB_OK;

	for (int from = 0; from < s->n; from++)
		for (int to = 0; to < s->n && status == BB_OK; to++)
			if (has_turn(s, cell, from, to))
				status = run_turn(s,
						  &(struct turn){s, cell, from, to, round, final});
	return status;
}

bb_status bb_pairs_agree_to_stop(struct bb_engine *engine, const struct bb_series *series, int n,
				 int round, double began, bool *stop)
{
	const struct bb_options *o = engine->options;

	*stop = round + 1 >= bb_pair_rounds(o);
	if (!*stop || o->precision == 0 || o->exact || round + 1 == BB_PAIR_MOST_ROUNDS)
		return BB_OK;
	return bb_engine_agree_to_stop(engine, bb_series_are_precise(series, n, o->precision),
				       began, stop);
}

static bb_status run_rounds(struct pairs_session *s, const struct bb_cell *cell)
{
	const double began = s->engine.backend->now(s->engine.rank);
	bool stop = false;
	bb_status status = BB_OK;

	for (int round = 0; status == BB_OK && !stop; round++) {
		status = run_round(s, cell, round, false);
		if (status == BB_OK)
			status = bb_pairs_agree_to_stop(&s->engine, s->series, s->n, round, began,
							&stop);
	}
	return status;
}

/* *ALL = what all ranks measured in CELL, on rank 0. VERIFIED: the data is checked too. */
static bb_status measure_cell(struct pairs_session *s, const struct bb_cell *cell, bool verified,
			      const void **all)
{
	bb_status status;

	if (bb_pairs_are_virtual(s->pairs))
		return bb_virtual_measure(&s->engine, s->pairs, cell, all);
	for (int peer = 0; peer < s->n; peer++)
		bb_series_clear(&s->series[peer]);
	status = run_rounds(s, cell);
	if (status == BB_OK && verified && !cell->ping && s->engine.options->check > 0)
		status = run_round(s, cell, 1, true);
	for (int peer = 0; peer < s->n && status == BB_OK; peer++)
		bb_series_sum_up(&s->series[peer], &s->parts[peer]);
	if (status != BB_OK)
		return status;
	return bb_crew_collect(s->engine.driver, &bb_pair_part_table, s->parts, (size_t)s->n, all);
}

static bb_status run_cell(struct pairs_session *s, size_t i)
{
	const struct bb_cell *cell = &s->pairs->cells[i];
	const bool leads = bb_driver_leads(s->engine.driver);
	const void *all = NULL;
	bb_status status =
		leads && s->reach ? bb_pairs_refuse(s->pairs, i, reach_of(s, cell)) : BB_OK;

	if (leads)
		bb_ticker_show(&s->engine.run->ticker, cell->route->name, cell->bytes);
	if (cell->child)
		all = cell->child->first;
	else if (!cell->skip && status == BB_OK)
		status = measure_cell(s, cell, true, &all);
	if (status == BB_OK && leads)
		status = bb_child_send_cell(s->pairs, i, all, false);
	if (status == BB_OK && leads)
		status = bb_pairs_deliver(s->pairs, i, all);
	if (leads)
		bb_ticker_step(&s->engine.run->ticker, cell->bytes);
	return status;
}

/* ---- suspects, once more -------------------------------------------------------------------- */

/* Virtual ranks have no turns: all pairs of a suspect's cell are measured again. */
static bb_status measure_virtual_again(struct pairs_session *s, const struct bb_pair_turns *turns)
{
	const void *all;
	bb_status status = BB_OK;

	for (size_t cell = 0; cell < s->pairs->ncells && status == BB_OK; cell++) {
		bool among = false;

		for (int i = 0; i < turns->n; i++)
			among = among || (size_t)turns->list[i].cell == cell;
		if (!among)
			continue;
		status = bb_virtual_measure(&s->engine, s->pairs, &s->pairs->cells[cell], &all);
		if (status == BB_OK)
			bb_review_merge(s->pairs, cell, all);
	}
	return status;
}

/* Measure a round of TURNS: each rank's shortest samples go to rank 0. */
static bb_status measure_again(struct pairs_session *s, const struct bb_pair_turns *turns)
{
	double mine[BB_PAIR_TURNS] = {0};
	const void *all;
	bb_status status = BB_OK;

	if (bb_pairs_are_virtual(s->pairs))
		return measure_virtual_again(s, turns);
	for (int i = 0; i < turns->n && status == BB_OK; i++) {
		const struct bb_pair_turn *p = &turns->list[i];
		const struct turn t = {s, &s->pairs->cells[p->cell], p->from, p->to, 1, false};
		struct bb_series *series = &s->series[peer_of(s, &t)];

		bb_series_clear(series);
		status = run_turn(s, &t);
		if (takes_part(s, &t))
			mine[i] = bb_floor_best(&series->floor);
	}
	if (status == BB_OK)
		status = bb_crew_collect(s->engine.driver, &bb_payload_seconds, mine, BB_PAIR_TURNS,
					 &all);
	if (status == BB_OK && bb_driver_leads(s->engine.driver))
		bb_review_add(s->pairs, turns, all);
	return status;
}

/* Measure suspects again, in turn with their references, until each is cleared or confirmed or the
   time is up. Collective. */
static bb_status review(struct pairs_session *s)
{
	const double began = s->engine.backend->now(s->engine.rank);
	const bool leads = bb_driver_leads(s->engine.driver);
	struct bb_pair_turns turns = {.n = 0};
	bb_status status = leads ? bb_review_receive(s->pairs) : BB_OK;

	for (int round = 0; status == BB_OK; round++) {
		if (leads)
			status = bb_review_list(s->pairs, round, &turns);
		if (status == BB_OK && leads &&
		    s->engine.backend->now(s->engine.rank) - began > REVIEW_S)
			turns.n = 0;
		if (status == BB_OK)
			status = bb_review_share(s->pairs, s->engine.driver, &turns);
		if (status != BB_OK || turns.n == 0)
			break;
		if (leads)
			bb_crew_delay(s->engine.driver, BB_RETEST_PAUSE_S);
		status = measure_again(s, &turns);
	}
	if (status == BB_OK && leads && s->pairs->settings.child)
		status = bb_review_send(s->pairs);
	return status;
}

/* The child runs first, before this process allocates memory of the GPUs. */
static bb_status pairs_before(struct bb_engine *engine)
{
	struct pairs_session *s = (struct pairs_session *)engine;
	const bool leads = bb_engine_leads(engine);
	bb_status status = BB_OK;

	s->pairs = engine->run->own;
	if (leads)
		BB_TRY(status, bb_child_send_begin(s->pairs), out);
	if (!s->pairs->cells[s->pairs->ncells - 1].child)
		goto out;
	if (leads)
		BB_TRY(status, bb_child_run(engine->driver, s->pairs), out);
	status = bb_crew_barrier(engine->driver);
out:
	return status;
}

static bb_status pairs_run(struct bb_engine *engine)
{
	struct pairs_session *s = (struct pairs_session *)engine;
	bb_status status = BB_OK;

	for (size_t i = 0; i < s->pairs->ncells && status == BB_OK; i++)
		status = run_cell(s, i);
	return status == BB_OK ? review(s) : status;
}

static bb_status pairs_deliver(struct bb_engine *engine)
{
	struct bb_pairs *pairs = engine->run->own;
	const bb_status status = bb_pairs_judge(pairs);

	return status == BB_OK ? bb_child_send_end(pairs) : status;
}

const struct bb_experiment bb_pairs_experiment = {
	.bytes = sizeof(struct pairs_session),
	.before = pairs_before,
	.open = pairs_open,
	.run = pairs_run,
	.deliver = pairs_deliver,
	.close = pairs_close,
};
