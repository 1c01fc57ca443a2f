/*
 * drive.c - the experiment: one pair after the other, round after round. The other ranks sleep.
 */
#include "p2p/pairs.h"

#include "core/payload.h"
#include "core/units.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Distance between a rank's buffers, so that they do not alias in a cache. */
#define APART ((size_t)4096)
#define REVIEW_S 10.0 /* longest time for suspects, on the clock of the backend */

static const struct bb_payload_field token_fields[] = {
	{"the token", BB_PAYLOAD_ANY, 0, sizeof(struct bb_token), 1, 0, 0, 0}, {.name = NULL}};
static const struct bb_payload token_table = {"a token", sizeof(struct bb_token), token_fields,
					      NULL};

/* ---- before the first pair ----------------------------------------------------------------- */

#define REASON sizeof(((struct bb_reach *)NULL)->reason)

/* Find the ranks that ROUTE connects: those of which neither refuses the other. Each rank's answer
   is its first reason, then for each peer whether it refuses. MINE: room for one. */
static bb_status find_reach(struct bb_pairs_session *s, const struct bb_route *route,
			    struct bb_reach *one, char *mine)
{
	const int n = s->n;
	const size_t bytes = REASON + (size_t)n;
	const struct bb_payload_field fields[] = {
		{"the reason", BB_PAYLOAD_TEXT, 0, REASON, 1, 0, 0, 0},
		{"a refusal", BB_PAYLOAD_UNSIGNED, REASON, 1, (size_t)n, 1, 0, 1},
		{.name = NULL}};
	const struct bb_payload table = {"what it refuses", bytes, fields, NULL};
	const void *all;
	bb_status status;

	memset(mine, 0, bytes);
	for (int peer = n - 1; peer >= 0; peer--) {
		const char *why = s->engine.backend->routes->refuses(s->engine.world, route, peer);

		mine[REASON + (size_t)peer] = why != NULL;
		if (why && peer != s->me)
			snprintf(mine, REASON, "%s", why);
	}
	status = bb_crew_gather(s->engine.driver, &table, mine, 1, &all);
	for (int i = 0; i < n * n && status == BB_OK; i++) {
		const int from = i / n, to = i % n;
		const char *a = (const char *)all + (size_t)from * bytes;
		const char *b = (const char *)all + (size_t)to * bytes;
		const bool by_a = a[REASON + (size_t)to], by_b = b[REASON + (size_t)from];

		one->connects[i] = !by_a && !by_b;
		if (from >= to || (!by_a && !by_b) || one->refused++ > 0)
			continue;
		one->from = from;
		one->to = to;
		memcpy(one->reason, by_a ? a : b, REASON);
	}
	return status;
}

static bb_status open_reach(struct bb_pairs_session *s)
{
	const struct bb_route *list = s->engine.backend->routes->list;
	char *mine = malloc(REASON + (size_t)s->n);
	bb_status status = BB_OK;
	int nroutes = 0;

	while (list[nroutes].name)
		nroutes++;
	s->reach = calloc((size_t)nroutes, sizeof(*s->reach));
	for (int r = 0; r < nroutes && status == BB_OK; r++) {
		if (s->reach)
			s->reach[r].connects = calloc((size_t)s->n * (size_t)s->n, sizeof(bool));
		status = mine && s->reach && s->reach[r].connects
				 ? find_reach(s, &list[r], &s->reach[r], mine)
				 : bb_no_memory(&s->engine.run->error, "the ranks");
	}
	free(mine);
	return status;
}

static bb_status open_memory(struct bb_pairs_session *s)
{
	const struct bb_routes *routes = s->engine.backend->routes;
	struct bb_token mine[BB_PAIRS_BUFFERS];
	const struct bb_token *all;
	struct bb_pattern pattern;
	const void *gathered;
	bb_status status;

	s->stride = ((size_t)s->pairs->most_bytes + 2 * APART - 1) / APART * APART;
	BB_TRY(status,
	       bb_engine_alloc(&s->engine, BB_PAIRS_BUFFERS * s->stride, (void **)&s->memory), out);
	for (int b = 0; b < BB_PAIRS_BUFFERS && routes->share; b++)
		BB_TRY(status,
		       routes->share(s->engine.rank, bb_pairs_buffer(s, (enum bb_pairs_buffer)b),
				     s->stride, &mine[b]),
		       out);
	if (routes->share)
		BB_TRY(status,
		       bb_crew_gather(s->engine.driver, &token_table, mine, BB_PAIRS_BUFFERS,
				      &gathered),
		       out);
	for (int i = 0; i < s->n * BB_PAIRS_BUFFERS && routes->share; i++) {
		all = gathered;
		BB_TRY(status,
		       routes->reach(s->engine.world, i / BB_PAIRS_BUFFERS, &all[i], &s->theirs[i],
				     &s->engine.run->error),
		       out);
	}
	BB_TRY(status, open_reach(s), out);
	BB_TRY(status, bb_engine_patterns(&s->engine, BB_INT8, -1, s->n, &s->patterns), out);
	pattern = bb_patterns_get(s->patterns, s->me);
	/* Also the targets, so that the first write does not include the page faults. */
	for (int b = BB_SOURCE; b < BB_PAIRS_BUFFERS && status == BB_OK; b++)
		status = bb_pairs_fill(s, (enum bb_pairs_buffer)b, &pattern, s->stride);
out:
	return status;
}

static bb_status pairs_open(struct bb_engine *engine)
{
	struct bb_pairs_session *s = (struct bb_pairs_session *)engine;
	const size_t n = (size_t)engine->run->world.nranks, iters = (size_t)engine->options->iters;
	const size_t rounds =
		engine->options->precision != 0 ? BB_PAIR_MOST_ROUNDS : BB_PAIR_ROUNDS;

	s->me = engine->driver->rank;
	s->n = (int)n;
	if (bb_pairs_are_virtual(s->pairs))
		return BB_OK;
	s->most_samples = (iters / BB_PAIR_ROUNDS + 1) * rounds + 1;
	s->with = calloc(n, sizeof(struct bb_group *));
	s->theirs = calloc(n * BB_PAIRS_BUFFERS, sizeof(*s->theirs));
	s->series = calloc(n, sizeof(*s->series));
	s->parts = calloc(n, sizeof(*s->parts));
	s->scratch = calloc(2 * s->most_samples, sizeof(*s->scratch));
	if (!s->with || !s->theirs || !s->series || !s->parts || !s->scratch)
		return bb_no_memory(&engine->run->error, "the ranks");
	for (size_t i = 0; i < n; i++)
		if (bb_series_open(&s->series[i], s->most_samples) != BB_OK)
			return bb_no_memory(&engine->run->error, "samples");
	return open_memory(s);
}

/* After a failure the others may still be reading this rank's memory. */
static void pairs_close(struct bb_engine *engine)
{
	struct bb_pairs_session *s = (struct bb_pairs_session *)engine;

	for (int i = 0; s->theirs && i < s->n * BB_PAIRS_BUFFERS && engine->all_done; i++)
		if (s->theirs[i])
			engine->backend->routes->unreach(engine->world, i / BB_PAIRS_BUFFERS,
							 s->theirs[i]);
	for (int i = 0; s->with && i < s->n; i++)
		engine->backend->group_close(s->with[i]);
	for (int i = 0; s->series && i < s->n; i++)
		bb_series_close(&s->series[i]);
	free(s->with);
	free(s->theirs);
	free(s->series);
	free(s->parts);
	free(s->scratch);
	for (int r = 0; s->reach && engine->backend->routes->list[r].name; r++)
		free(s->reach[r].connects);
	free(s->reach);
}

/* ---- all pairs ------------------------------------------------------------------------------ */

static bb_status run_turn(struct bb_pairs_session *s, const struct bb_turn *t)
{
	const bool takes_part = bb_turn_takes_part(t);
	char size[BB_UNIT_TEXT], what[BB_WHAT_TEXT];
	bb_status status;

	snprintf(what, sizeof(what), "%s %d -> %d: %s", t->cell->route->name, t->from, t->to,
		 t->cell->ping ? "latency" : bb_format_size(size, t->cell->bytes));
	BB_TRY(status, bb_engine_begin(&s->engine, what), out);
	if (s->pairs->settings.child && bb_engine_leads(&s->engine))
		BB_TRY(status, bb_child_write_alive(s->pairs), out);
	if (takes_part && t->final)
		BB_TRY(status, bb_turn_poison(t), out);
	BB_TRY(status, bb_crew_barrier(s->engine.driver), out);
	if (takes_part)
		BB_TRY(status, bb_turn_act(t), out);
	if (!t->final)
		return BB_OK;
	/* No rank may still be writing when another verifies. */
	BB_TRY(status, bb_crew_barrier(s->engine.driver), out);
	if (takes_part)
		status = bb_turn_verify(t);
out:
	return status;
}

static const struct bb_reach *reach_of(const struct bb_pairs_session *s, const struct bb_cell *cell)
{
	return &s->reach[cell->route - s->engine.backend->routes->list];
}

static bool has_turn(const struct bb_pairs_session *s, const struct bb_cell *cell, int from, int to)
{
	const bool *const connects = &reach_of(s, cell)->connects[from * s->n];

	if (!cell->fan)
		return connects[to] && (!cell->bidirectional || from < to);
	for (int peer = 0; peer < s->n; peer++)
		if (peer != from && !connects[peer])
			return false;
	return from == to;
}

static bb_status run_round(struct bb_pairs_session *s, const struct bb_cell *cell, int round,
			   bool final)
{
	bb_status status = BB_OK;

	for (int from = 0; from < s->n; from++)
		for (int to = 0; to < s->n && status == BB_OK; to++)
			if (has_turn(s, cell, from, to))
				status = run_turn(
					s, &(struct bb_turn){s, cell, from, to, round, final});
	return status;
}

bb_status bb_pairs_agree_to_stop(struct bb_engine *engine, const struct bb_series *series, int n,
				 int round, double began, bool *stop)
{
	const struct bb_options *o = engine->options;
	const bool all = round + 1 >= bb_pair_rounds(o);
	size_t next = 1;
	bb_status status;

	*stop = all;
	if (o->precision == 0 || o->exact || round + 1 == BB_PAIR_MOST_ROUNDS ||
	    (!all && round + 1 < BB_FINDING_ROUNDS))
		return BB_OK;
	status = bb_engine_agree_on_next(engine,
					 all && bb_series_are_precise(series, n, o->precision),
					 began, (size_t)round + 1, &next);
	*stop = next == 0;
	return status;
}

/* *ALL = what all ranks measured in CELL, on rank 0. */
static bb_status measure_cell(struct bb_pairs_session *s, const struct bb_cell *cell,
			      const void **all)
{
	const double began = s->engine.backend->now(s->engine.rank);
	bool stop = false;
	bb_status status = BB_OK;

	if (bb_pairs_are_virtual(s->pairs))
		return bb_virtual_measure(&s->engine, s->pairs, cell, all);
	for (int peer = 0; peer < s->n; peer++)
		bb_series_clear(&s->series[peer]);
	for (int round = 0; status == BB_OK && !stop; round++) {
		status = run_round(s, cell, round, false);
		if (status == BB_OK)
			status = bb_pairs_agree_to_stop(&s->engine, s->series, s->n, round, began,
							&stop);
	}
	if (status == BB_OK && !cell->ping && s->engine.options->check > 0)
		status = run_round(s, cell, 1, true);
	for (int peer = 0; peer < s->n && status == BB_OK; peer++)
		bb_series_sum_up(&s->series[peer], &s->parts[peer]);
	if (status != BB_OK)
		return status;
	return bb_crew_collect(s->engine.driver, &bb_pair_part_table, s->parts, (size_t)s->n, all);
}

static bb_status run_cell(struct bb_pairs_session *s, size_t i)
{
	const struct bb_cell *cell = &s->pairs->cells[i];
	const bool leads = bb_driver_leads(s->engine.driver);
	const void *all = NULL;
	bb_status status =
		leads && s->reach ? bb_pairs_refuse(&s->engine, cell, reach_of(s, cell)) : BB_OK;

	if (leads)
		bb_ticker_show(&s->engine.run->ticker, cell->route->name, cell->bytes);
	if (!cell->skip && status == BB_OK)
		status = measure_cell(s, cell, &all);
	if (status == BB_OK && leads)
		status = bb_pairs_deliver(&s->engine, i, all);
	if (leads)
		bb_ticker_step(&s->engine.run->ticker, cell->bytes);
	return status;
}

/* ---- suspects, once more -------------------------------------------------------------------- */

/* Measure a round of TURNS: each rank's shortest samples go to rank 0. Virtual ranks have no turns:
   all pairs of a suspect's cell are measured again. */
static bb_status measure_again(struct bb_pairs_session *s, const struct bb_pair_turns *turns)
{
	const bool virtual = bb_pairs_are_virtual(s->pairs);
	double mine[BB_PAIR_TURNS] = {0};
	const void *all;
	bb_status status = BB_OK;

	for (size_t cell = 0; virtual && cell < s->pairs->ncells && status == BB_OK; cell++) {
		bool among = false;

		for (int i = 0; i < turns->n; i++)
			among = among || (size_t)turns->list[i].cell == cell;
		if (!among)
			continue;
		status = bb_virtual_measure(&s->engine, s->pairs, &s->pairs->cells[cell], &all);
		if (status == BB_OK)
			bb_review_merge(s->pairs, cell, all);
	}
	for (int i = 0; !virtual && i < turns->n && status == BB_OK; i++) {
		const struct bb_pair_turn *p = &turns->list[i];
		const struct bb_turn t = {s, &s->pairs->cells[p->cell], p->from, p->to, 1, false};
		struct bb_series *series = &s->series[bb_turn_peer(&t)];

		bb_series_clear(series);
		status = run_turn(s, &t);
		if (bb_turn_takes_part(&t))
			mine[i] = bb_floor_best(&series->floor);
	}
	if (virtual || status != BB_OK)
		return status;
	status = bb_crew_collect(s->engine.driver, &bb_payload_seconds, mine, BB_PAIR_TURNS, &all);
	if (status == BB_OK && bb_driver_leads(s->engine.driver))
		bb_review_add(s->pairs, turns, all);
	return status;
}

/* Measure suspects again, in turn with their references, until each is cleared or confirmed or the
   time is up. Collective. */
static bb_status review(struct bb_pairs_session *s)
{
	const double began = s->engine.backend->now(s->engine.rank);
	const bool leads = bb_driver_leads(s->engine.driver);
	struct bb_pair_turns turns = {.n = 0};
	bb_status status = leads ? bb_child_deliver(&s->engine) : BB_OK;

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
	return status;
}

/* The child runs first, before this process allocates memory of the GPUs. */
static bb_status pairs_before(struct bb_engine *engine)
{
	struct bb_pairs_session *s = (struct bb_pairs_session *)engine;
	bb_status status = BB_OK;

	s->pairs = engine->run->own;
	if (!s->pairs->has_child)
		return BB_OK;
	if (bb_engine_leads(engine))
		BB_TRY(status, bb_child_run(engine->driver, s->pairs), out);
	status = bb_crew_barrier(engine->driver);
out:
	return status;
}

static bb_status pairs_run(struct bb_engine *engine)
{
	struct bb_pairs_session *s = (struct bb_pairs_session *)engine;
	bb_status status = BB_OK;

	for (size_t i = 0; i < s->pairs->ncells && status == BB_OK; i++)
		status = run_cell(s, i);
	return status == BB_OK ? review(s) : status;
}

static bb_status pairs_deliver(struct bb_engine *engine)
{
	struct bb_pairs *pairs = engine->run->own;

	return pairs->settings.child ? bb_child_write_floors(pairs) : bb_pairs_judge(pairs);
}

const struct bb_experiment bb_pairs_experiment = {
	.bytes = sizeof(struct bb_pairs_session),
	.before = pairs_before,
	.open = pairs_open,
	.run = pairs_run,
	.deliver = pairs_deliver,
	.close = pairs_close,
};
