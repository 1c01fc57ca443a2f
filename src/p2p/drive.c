/*
 * drive.c - one pair after the other, round after round, as every rank goes through it. Ranks that
 * are not of the pair sleep meanwhile.
 */
#include "core/units.h"
#include "p2p/pairs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POISON_PERIOD 1021
/* Between a rank's buffers, so that they are not aliases in a cache. */
#define APART ((size_t)4096)
#define REVIEW_S 10.0 /* for suspects, on the clock of the backend */

enum buffer { SOURCE, TARGET, VERIFIED, BUFFERS };

/* One driver's state. */
struct session {
	struct bb_driver *driver;
	struct bb_run *run;
	struct bb_pairs *pairs;
	const struct bb_backend *backend;
	struct bb_group *world;
	struct bb_group **with; /* [peer]: the two of us; NULL: not met yet */
	int me, n;
	char *memory;
	size_t stride, bytes; /* of a buffer, and of all */
	void **theirs;        /* [peer * BUFFERS + buffer]: as this rank reaches it */
	const struct bb_patterns *patterns;
	size_t most_samples;
	struct bb_series *series;   /* [peer]: of the cell at hand */
	struct bb_pair_part *parts; /* [peer] */
	struct bb_way *ways;        /* of each route */
	double *scratch;            /* most_samples */
};

/* One pair's turn. */
struct turn {
	const struct bb_cell *cell;
	int from, to;
	int round;
	bool final; /* its only sample goes to poisoned memory, and is verified */
};

static void *buffer(const struct session *s, enum buffer which)
{
	return s->memory + (size_t)which * s->stride;
}

static const struct bb_payload_field token_fields[] = {
	{"the token", BB_PAYLOAD_ANY, 0, sizeof(struct bb_token), 1, 0, 0, 0}, {.name = NULL}};
static const struct bb_payload token_table = {"a token", sizeof(struct bb_token), token_fields,
					      NULL};

/* ---- before the first pair ----------------------------------------------------------------- */

static bb_status open_memory(struct session *s)
{
	struct bb_token mine[BUFFERS];
	const struct bb_token *all;
	const void *gathered;
	bb_status status;

	s->stride = ((size_t)s->pairs->most_bytes + 2 * APART - 1) / APART * APART;
	s->bytes = BUFFERS * s->stride;
	status = s->backend->alloc(s->driver->handle, s->bytes, (void **)&s->memory);
	if (status != BB_OK)
		return bb_fail(&s->run->error, status, "rank %d cannot allocate %zu bytes", s->me,
			       s->bytes);
	for (int b = 0; b < BUFFERS; b++)
		BB_TRY(status,
		       s->backend->routes->share(s->driver->handle, buffer(s, (enum buffer)b),
						 s->stride, &mine[b]),
		       out);
	BB_TRY(status, bb_crew_gather(s->driver, &token_table, mine, BUFFERS, &gathered), out);
	all = gathered;
	for (int i = 0; i < s->n * BUFFERS; i++)
		BB_TRY(status,
		       s->backend->routes->reach(s->world, i / BUFFERS, &all[i], &s->theirs[i],
						 &s->run->error),
		       out);
	if (bb_driver_leads(s->driver))
		s->run->end.memory_user_bytes = (int64_t)s->bytes * s->run->world.nlocal;
out:
	return status;
}

static bb_status fill(struct session *s, enum buffer which, const struct bb_pattern *pattern,
		      size_t bytes)
{
	bb_status status = s->backend->fill(s->driver->handle, buffer(s, which), pattern, 0, bytes);

	/* Others reach it. */
	return status == BB_OK ? s->backend->finish(s->driver->handle, NULL) : status;
}

static bb_status open_data(struct session *s)
{
	struct bb_pattern mine;
	bb_status status = bb_pattern_store_take(&s->run->patterns, BB_INT8, -1, s->n,
						 (uint64_t)s->run->options.seed, &s->patterns);

	if (status != BB_OK)
		return bb_fail(&s->run->error, status, "out of memory for the data");
	mine = bb_patterns_get(s->patterns, s->me);
	status = fill(s, SOURCE, &mine, s->stride);
	/* What is written first is not what it costs to get the pages. */
	for (int b = TARGET; b < BUFFERS && status == BB_OK; b++)
		status = fill(s, (enum buffer)b, &mine, s->stride);
	return status;
}

static bb_status open_lists(struct session *s)
{
	const size_t n = (size_t)s->n, iters = (size_t)s->run->options.iters;
	const size_t rounds = s->run->options.precision != 0 ? BB_PAIR_MOST_ROUNDS : BB_PAIR_ROUNDS;

	s->most_samples = (iters / BB_PAIR_ROUNDS + 1) * rounds + 1;
	s->with = calloc(n, sizeof(struct bb_group *));
	s->theirs = calloc(n * BUFFERS, sizeof(*s->theirs));
	s->series = calloc(n, sizeof(*s->series));
	s->parts = calloc(n, sizeof(*s->parts));
	s->scratch = calloc(s->most_samples, sizeof(*s->scratch));
	if (!s->with || !s->theirs || !s->series || !s->parts || !s->scratch)
		return bb_fail(&s->run->error, BB_EINTERNAL, "out of memory for %d ranks", s->n);
	for (size_t i = 0; i < n; i++)
		if (bb_series_open(&s->series[i], s->most_samples) != BB_OK)
			return bb_fail(&s->run->error, BB_EINTERNAL, "out of memory for samples");
	return BB_OK;
}

static bb_status open_session(struct session *s)
{
	bb_status status;

	BB_TRY(status, bb_run_attend(s->run, s->driver, NULL, &s->world), done);
	if (bb_pairs_are_virtual(s->pairs))
		return bb_run_begin(s->run, s->driver, NAN);
	BB_TRY(status, open_lists(s), done);
	BB_TRY(status, open_memory(s), done);
	BB_TRY(status, bb_ways_find(s->driver, s->run, s->world, &s->ways), done);
	BB_TRY(status, open_data(s), done);
	status = bb_run_begin(s->run, s->driver, NAN);
done:
	return status;
}

/* After a failure the others may still be reading this rank's memory: then it stays. */
static void close_session(struct session *s, bool all_done)
{
	for (int i = 0; s->theirs && i < s->n * BUFFERS && all_done; i++)
		s->backend->routes->unreach(s->world, i / BUFFERS, s->theirs[i]);
	for (int i = 0; s->with && i < s->n; i++)
		s->backend->group_close(s->with[i]);
	s->backend->group_close(s->world);
	if (all_done)
		s->backend->release(s->driver->handle, s->memory, s->bytes);
	bb_pattern_store_give(&s->run->patterns, s->patterns);
	for (int i = 0; s->series && i < s->n; i++)
		bb_series_close(&s->series[i]);
	free(s->with);
	free(s->theirs);
	free(s->series);
	free(s->parts);
	free(s->scratch);
	bb_ways_free(s->backend, s->ways);
}

/* ---- one pair's turn ------------------------------------------------------------------------ */

static bool takes_part(const struct session *s, const struct turn *t)
{
	return s->me == t->from || s->me == t->to;
}

static int peer_of(const struct session *s, const struct turn *t)
{
	return s->me == t->from ? t->to : t->from;
}

/* Does this rank, one of the pair, move bytes or words? */
static bool acts(const struct session *s, const struct turn *t)
{
	if (t->cell->both_ways || t->cell->route->actor == BB_BY_BOTH)
		return true;
	return s->me == (t->cell->route->actor == BB_BY_TARGET ? t->to : t->from);
}

/* Both ends act: neither may begin a sample alone. */
static bool is_joint(const struct turn *t)
{
	return t->from != t->to && (t->cell->both_ways || t->cell->route->actor == BB_BY_BOTH);
}

/* Where it is known when the data is there: at an end that acts, the target's if both do. */
static bool is_timed(const struct session *s, const struct turn *t)
{
	if (t->cell->ping)
		return s->me == t->from;
	if (!t->cell->both_ways && t->cell->route->actor == BB_BY_BOTH)
		return s->me == t->to;
	return acts(s, t);
}

static bb_status meet(struct session *s, const struct turn *t)
{
	const int peer = peer_of(s, t);
	const int members[2] = {t->from < t->to ? t->from : t->to,
				t->from < t->to ? t->to : t->from};

	if (!is_joint(t) || s->with[peer])
		return BB_OK;
	return s->backend->group_open(s->driver->handle, members, 2, &s->with[peer],
				      &s->run->error);
}

static bb_status transfer(struct session *s, const struct turn *t, enum buffer target)
{
	const int peer = peer_of(s, t);
	const bool gives = s->me == t->from || t->cell->both_ways;
	const bool takes = s->me == t->to || t->cell->both_ways;
	const struct bb_half out = {.mine = buffer(s, SOURCE),
				    .theirs = s->theirs[peer * BUFFERS + target],
				    .bytes = gives ? (size_t)t->cell->bytes : 0};
	const struct bb_half in = {.mine = buffer(s, target),
				   .theirs = s->theirs[peer * BUFFERS + SOURCE],
				   .bytes = takes ? (size_t)t->cell->bytes : 0};

	return s->backend->routes->transfer(s->world, t->cell->route, peer, &out, &in);
}

static bb_status operate(struct session *s, const struct turn *t, bool verified)
{
	const struct bb_cell *cell = t->cell;
	bb_status status = BB_OK;

	if (cell->ping)
		return s->backend->routes->ping(s->world, cell->route, peer_of(s, t),
						s->me == t->from, cell->repeats);
	for (size_t i = 1; i < cell->repeats && status == BB_OK; i++)
		status = transfer(s, t, TARGET);
	return status == BB_OK ? transfer(s, t, verified ? VERIFIED : TARGET) : status;
}

/* Seconds of one operation: of a word, one way. */
static bb_status take_sample(struct session *s, const struct turn *t, double *seconds)
{
	const struct bb_fault *fault = &s->run->options.fault;
	const double repeats = (double)t->cell->repeats * (t->cell->ping ? 2 : 1);
	double begin;
	bb_status status = BB_OK;

	if (is_joint(t))
		status = s->backend->barrier(s->with[peer_of(s, t)]);
	begin = s->backend->now(s->driver->handle);
	/* Once for all operations of the sample, as if before each of them. */
	if (fault->kind == BB_FAULT_SLOW && fault->rank == s->me)
		bb_crew_delay(s->driver, fault->seconds * repeats);
	if (status == BB_OK)
		status = operate(s, t, t->final);
	if (status == BB_OK)
		status = s->backend->finish(s->driver->handle, NULL);
	*seconds = (s->backend->now(s->driver->handle) - begin) / repeats;
	return status;
}

static bb_status act(struct session *s, const struct turn *t)
{
	const size_t n = t->final ? 1 : bb_pair_samples(&s->run->options, t->round);
	const int64_t warm = t->round == 0 ? s->run->options.warmup_iters : t->cell->ping ? 1 : 0;
	struct bb_series *series = &s->series[peer_of(s, t)];
	bb_status status = meet(s, t);

	atomic_store_explicit(&s->driver->progress->phase, BB_PHASE_INSIDE, memory_order_relaxed);
	for (int64_t i = 0; i < warm && status == BB_OK; i++)
		status = operate(s, t, false);
	if (status == BB_OK)
		status = s->backend->finish(s->driver->handle, NULL);
	for (size_t i = 0; i < n && status == BB_OK; i++) {
		double seconds;

		status = take_sample(s, t, &seconds);
		if (is_timed(s, t))
			bb_series_add(series, seconds);
	}
	atomic_store_explicit(&s->driver->progress->phase, BB_PHASE_BETWEEN, memory_order_relaxed);
	if (status == BB_OK && !t->final)
		bb_series_end_round(series, s->scratch);
	return status;
}

/* ---- data ----------------------------------------------------------------------------------- */

static bool receives(const struct session *s, const struct turn *t)
{
	return s->me == t->to || (t->cell->both_ways && s->me == t->from);
}

static bb_status poison(struct session *s, const struct turn *t)
{
	static const unsigned char bytes[2 * POISON_PERIOD] = {[0 ... 2 * POISON_PERIOD - 1] =
								       0xa5};
	const struct bb_pattern ruin = {bytes, POISON_PERIOD, 1, 0};

	return receives(s, t) ? fill(s, VERIFIED, &ruin, (size_t)t->cell->bytes) : BB_OK;
}

/* Make one byte of what this rank was given wrong: proof that the check can fail. */
static bb_status corrupt(struct session *s, const struct turn *t)
{
	char *victim = (char *)buffer(s, VERIFIED) + t->cell->bytes / 2;
	unsigned char byte;
	bb_status status = s->backend->copy(s->driver->handle, &byte, victim, 1);

	byte ^= 0x55;
	return status == BB_OK ? s->backend->copy(s->driver->handle, victim, &byte, 1) : status;
}

static bb_status verify(struct session *s, const struct turn *t)
{
	const struct bb_fault *fault = &s->run->options.fault;
	struct bb_series *series = &s->series[peer_of(s, t)];
	const struct bb_pattern sent = bb_patterns_get(s->patterns, peer_of(s, t));
	bb_status status = BB_OK;

	if (!receives(s, t))
		return BB_OK;
	if (fault->kind == BB_FAULT_CORRUPT && fault->rank == s->me)
		status = corrupt(s, t);
	series->checked = true;
	if (status == BB_OK)
		status = s->backend->verify(s->driver->handle, buffer(s, VERIFIED), &sent, 0,
					    (size_t)t->cell->bytes, BB_INT8, 0, &series->wrong);
	return status;
}

/* ---- all pairs ------------------------------------------------------------------------------ */

static void begin_deadline(struct session *s, const struct turn *t)
{
	char size[BB_UNIT_TEXT], what[BB_WHAT_TEXT];

	snprintf(what, sizeof(what), "%s %d -> %d at %s", t->cell->route->name, t->from, t->to,
		 t->cell->ping ? "a word" : bb_format_size(size, t->cell->bytes));
	bb_crew_deadline(s->driver, what);
}

static bb_status take_turn(struct session *s, const struct turn *t)
{
	const struct bb_fault *fault = &s->run->options.fault;
	bb_status status;

	if (s->driver->local == 0)
		begin_deadline(s, t);
	if (bb_driver_leads(s->driver))
		BB_TRY(status, bb_child_tell_alive(s->pairs), out);
	atomic_fetch_add_explicit(&s->driver->progress->entered, 1, memory_order_relaxed);
	if (takes_part(s, t) && fault->kind == BB_FAULT_DIE && fault->rank == s->me)
		return BB_ETIMEOUT; /* leaves without a word, as a killed process would */
	if (takes_part(s, t) && t->final)
		BB_TRY(status, poison(s, t), out);
	BB_TRY(status, bb_crew_barrier(s->driver), out);
	if (takes_part(s, t) && acts(s, t))
		BB_TRY(status, act(s, t), out);
	if (!t->final)
		return BB_OK;
	/* Nobody may still be writing when a rank begins to look. */
	BB_TRY(status, bb_crew_barrier(s->driver), out);
	if (takes_part(s, t))
		status = verify(s, t);
out:
	return status;
}

static const struct bb_way *way_of(const struct session *s, const struct bb_cell *cell)
{
	return &s->ways[cell->route - s->backend->routes->list];
}

static bool has_turn(const struct session *s, const struct bb_cell *cell, int from, int to)
{
	return way_of(s, cell)->leads[from * s->n + to] && (!cell->both_ways || from < to);
}

static bb_status run_round(struct session *s, const struct bb_cell *cell, int round, bool final)
{
	bb_status status = BB_OK;

	for (int from = 0; from < s->n; from++)
		for (int to = 0; to < s->n && status == BB_OK; to++)
			if (has_turn(s, cell, from, to))
				status = take_turn(s, &(struct turn){cell, from, to, round, final});
	return status;
}

/* Are the medians of all pairs as precise as asked, or is the time up? Collective. */
static bb_status agree_to_stop(struct session *s, double began, bool *stop)
{
	const struct bb_options *o = &s->run->options;
	const double spent = s->backend->now(s->driver->handle) - began;
	unsigned char mine = 1, all_precise = 1;
	const void *all;
	bb_status status;

	for (int peer = 0; peer < s->n; peer++)
		mine &= bb_series_precision(&s->series[peer]) <= o->precision;
	if (bb_driver_leads(s->driver) && spent > 1e-9 * (double)o->max_time_ns)
		mine |= 2;
	status = bb_crew_gather(s->driver, &bb_payload_flags, &mine, 1, &all);
	if (status != BB_OK)
		return status;
	for (int r = 0; r < s->n; r++)
		all_precise &= ((const unsigned char *)all)[r];
	*stop = (all_precise & 1) || (((const unsigned char *)all)[0] & 2);
	return BB_OK;
}

static bb_status run_rounds(struct session *s, const struct bb_cell *cell)
{
	const double began = s->backend->now(s->driver->handle);
	const int base = bb_pair_rounds(&s->run->options);
	bool stop = false;
	bb_status status = BB_OK;

	for (int round = 0; status == BB_OK && !stop; round++) {
		status = run_round(s, cell, round, false);
		stop = round + 1 >= base;
		if (stop && s->run->options.precision != 0 && round + 1 < BB_PAIR_MOST_ROUNDS &&
		    status == BB_OK)
			status = agree_to_stop(s, began, &stop);
	}
	return status;
}

/* *ALL = what all ranks measured in CELL, on rank 0; VERIFIED: the data is looked at too. */
static bb_status measure_cell(struct session *s, const struct bb_cell *cell, bool verified,
			      const void **all)
{
	bb_status status;

	if (bb_pairs_are_virtual(s->pairs))
		return bb_virtual_measure(s->driver, s->pairs, cell, all);
	for (int peer = 0; peer < s->n; peer++)
		bb_series_clear(&s->series[peer]);
	status = run_rounds(s, cell);
	if (status == BB_OK && verified && !cell->ping && s->run->options.check > 0)
		status = run_round(s, cell, 1, true);
	for (int peer = 0; peer < s->n && status == BB_OK; peer++)
		bb_series_sum_up(&s->series[peer], &s->parts[peer]);
	if (status != BB_OK)
		return status;
	return bb_crew_collect(s->driver, &bb_pair_part_table, s->parts, (size_t)s->n, all);
}

static bb_status run_cell(struct session *s, size_t i)
{
	const struct bb_cell *cell = &s->pairs->cells[i];
	const bool leads = bb_driver_leads(s->driver);
	const void *all = NULL;
	bb_status status = leads && s->ways ? bb_pairs_refuse(s->pairs, i, way_of(s, cell)) : BB_OK;

	if (leads)
		bb_ticker_show(&s->run->ticker, cell->route->name, cell->bytes);
	if (cell->child)
		all = cell->child->first;
	else if (!cell->skip && status == BB_OK)
		status = measure_cell(s, cell, true, &all);
	if (status == BB_OK && leads)
		status = bb_child_tell_cell(s->pairs, i, all, false);
	if (status == BB_OK && leads)
		status = bb_pairs_deliver(s->pairs, i, all);
	if (leads)
		bb_ticker_step(&s->run->ticker, cell->bytes);
	return status;
}

/* ---- suspects, once more -------------------------------------------------------------------- */

/* Virtual ranks have no turns: all pairs of a suspect's cell are played. */
static bb_status play_again(struct session *s, const struct bb_pair_turns *turns)
{
	const void *all;
	bb_status status = BB_OK;

	for (size_t cell = 0; cell < s->pairs->ncells && status == BB_OK; cell++) {
		bool among = false;

		for (int i = 0; i < turns->n; i++)
			among = among || (size_t)turns->list[i].cell == cell;
		if (!among)
			continue;
		status = bb_virtual_measure(s->driver, s->pairs, &s->pairs->cells[cell], &all);
		if (status == BB_OK)
			bb_review_merge(s->pairs, cell, all);
	}
	return status;
}

/* A round of TURNS: each rank's shortest samples go to rank 0. */
static bb_status measure_again(struct session *s, const struct bb_pair_turns *turns)
{
	double mine[BB_PAIR_TURNS] = {0};
	const void *all;
	bb_status status = BB_OK;

	if (bb_pairs_are_virtual(s->pairs))
		return play_again(s, turns);
	for (int i = 0; i < turns->n && status == BB_OK; i++) {
		const struct bb_pair_turn *p = &turns->list[i];
		const struct turn t = {&s->pairs->cells[p->cell], p->from, p->to, 1, false};
		struct bb_series *series = &s->series[peer_of(s, &t)];

		bb_series_clear(series);
		status = take_turn(s, &t);
		if (takes_part(s, &t))
			mine[i] = bb_floor_best(&series->floor);
	}
	if (status == BB_OK)
		status = bb_crew_collect(s->driver, &bb_payload_seconds, mine, BB_PAIR_TURNS, &all);
	if (status == BB_OK && bb_driver_leads(s->driver))
		bb_review_take(s->pairs, turns, all);
	return status;
}

/* Suspects are measured again, alone and in turn with what they are held against, until they are
   acquitted or convicted, or the time for that is up. Collective. */
static bb_status review(struct session *s)
{
	const double began = s->backend->now(s->driver->handle);
	const bool leads = bb_driver_leads(s->driver);
	struct bb_pair_turns turns = {.n = 0};
	bb_status status = leads ? bb_review_hear(s->pairs) : BB_OK;

	for (int round = 0; status == BB_OK; round++) {
		if (leads)
			status = bb_review_list(s->pairs, round, &turns);
		if (status == BB_OK && leads &&
		    s->backend->now(s->driver->handle) - began > REVIEW_S)
			turns.n = 0;
		if (status == BB_OK)
			status = bb_review_follow(s->pairs, s->driver, &turns);
		if (status != BB_OK || turns.n == 0)
			break;
		if (leads)
			bb_crew_delay(s->driver, BB_RETEST_PAUSE_S);
		status = measure_again(s, &turns);
	}
	if (status == BB_OK && leads && s->pairs->asked.child)
		status = bb_review_tell(s->pairs);
	return status;
}

/* The child comes first: this process has not taken memory of the GPUs yet. Collective. */
static bb_status begin(struct session *s)
{
	const struct bb_cell *last = &s->pairs->cells[s->pairs->ncells - 1];
	bb_status status = BB_OK;

	if (bb_driver_leads(s->driver))
		BB_TRY(status, bb_child_tell_begin(s->pairs), out);
	if (!last->child)
		goto out;
	if (bb_driver_leads(s->driver))
		BB_TRY(status, bb_child_run(s->driver, s->pairs), out);
	status = bb_crew_barrier(s->driver);
out:
	return status == BB_OK ? open_session(s) : status;
}

bb_status bb_pairs_drive(struct bb_driver *driver, void *argument)
{
	struct bb_run *run = argument;
	struct session s = {.driver = driver,
			    .run = run,
			    .pairs = run->own,
			    .backend = run->options.backend,
			    .me = driver->rank,
			    .n = run->world.nranks};
	bb_status status = begin(&s);

	for (size_t i = 0; i < s.pairs->ncells && status == BB_OK; i++)
		status = run_cell(&s, i);
	if (status == BB_OK)
		status = review(&s);
	if (status == BB_OK && bb_driver_leads(driver))
		status = bb_pairs_judge(s.pairs);
	if (status == BB_OK && bb_driver_leads(driver))
		status = bb_child_tell_end(s.pairs);
	status = bb_crew_part(driver, status);
	close_session(&s, status == BB_OK);
	atomic_store(&driver->progress->finished, status == BB_OK);
	return status;
}
