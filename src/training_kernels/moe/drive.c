/*
 * drive.c - what every driver does: layers of experts and their parts timed against each other,
 * and rows verified, at the experts and where they came from.
 */
#include "core/clock.h"
#include "training_kernels/moe/moe.h"
#include "training_kernels/trials.h"

#include <stdio.h>
#include <stdlib.h>

/* The layer first. */
static const struct {
	const char *name;
	unsigned parts;
} kinds[] = {
	{"layer", BB_MOE_LAYER},
	{"exchange of counts", BB_MOE_COUNTS},
	{"dispatch", BB_MOE_DISPATCH},
	{"combine", BB_MOE_COMBINE},
};

enum { LAYER, COUNTS, DISPATCH, COMBINE, KINDS };

struct session;

/* One program under one load. */
struct trial {
	struct session *s;
	size_t skew;
	struct bb_moe_step step;
	struct bb_program program;
	int64_t wrong; /* of all ranks; BB_ABSENT: not looked at */
};

struct session {
	struct bb_moe *moe;
	struct bb_run *run;
	struct bb_driver *driver;
	const struct bb_backend *backend;
	struct bb_group *world;
	struct trial *list; /* KINDS of each skew; and TRIALS' list beside it */
	struct bb_trials trials;
	/* Of this rank, for the largest load: rows as in struct bb_moe_rows; and counts that it
	   gives and gets, one for each expert. NULL: there is no data. */
	char *memory, *mine, *theirs, *back, *gives, *gets;
	int64_t *counts; /* room for as many where the CPU reaches them */
	size_t bytes;
	const struct bb_patterns *patterns;
};

static bb_status no_memory(const struct session *s)
{
	return bb_fail(&s->run->error, BB_EINTERNAL, "out of memory for the experts' layer");
}

static size_t row_bytes(const struct session *s)
{
	return (size_t)s->moe->asked.hidden * bb_dtype_size(s->moe->asked.dtype);
}

/* ---- data -------------------------------------------------------------------------------------
 */

static struct bb_moe_rows rows_of(const struct session *s, size_t skew)
{
	return (struct bb_moe_rows){
		.load = &s->moe->loads[skew],
		.hidden = (size_t)s->moe->asked.hidden,
		.dtype = s->moe->asked.dtype,
		.place = s->driver->rank,
		.mine = s->mine,
		.theirs = s->theirs,
		.back = s->back,
	};
}

static void buffers(void *own, int rank, const struct bb_operation *o, void **in, void **out)
{
	const struct trial *t = own;
	const struct bb_moe_rows rows = rows_of(t->s, t->skew);

	if (o->act == BB_ACT_COLLECTIVE) {
		*in = t->s->gives;
		*out = t->s->gets;
		return;
	}
	*(o->act == BB_ACT_SEND ? in : out) = bb_moe_rows_of(&rows, o->work == BB_MOE_COMBINE, o);
}

static size_t round_up(size_t bytes)
{
	return (bytes + 63) / 64 * 64;
}

static bb_status open_data(struct session *s)
{
	const struct bb_moe_options *a = &s->moe->asked;
	const int n = s->run->world.nranks;
	const size_t counts = round_up((size_t)a->experts * sizeof(int64_t));
	size_t mine = 0, theirs = 0;
	bb_status status;

	if (s->backend->capabilities & BB_CAP_VIRTUAL)
		return BB_OK;
	for (size_t i = 0; i < a->skews.n; i++) {
		const struct bb_moe_rows rows = rows_of(s, i);
		const size_t leave = round_up(bb_moe_bytes_mine(&rows));
		const size_t come = round_up(bb_moe_bytes_theirs(&rows));

		mine = leave > mine ? leave : mine;
		theirs = come > theirs ? come : theirs;
	}
	s->bytes = 2 * mine + theirs + 2 * counts;
	s->counts = calloc((size_t)a->experts, sizeof(*s->counts));
	if (!s->counts)
		return no_memory(s);
	status = s->backend->alloc(s->driver->handle, s->bytes, (void **)&s->memory);
	if (status != BB_OK)
		return bb_fail(&s->run->error, status, "rank %d cannot allocate %zu bytes",
			       s->driver->rank, s->bytes);
	s->mine = s->memory;
	s->back = s->mine + mine;
	s->gives = s->back + mine;
	s->gets = s->gives + counts;
	s->theirs = s->gets + counts;
	if (bb_driver_leads(s->driver))
		s->run->end.memory_user_bytes = (int64_t)s->bytes * s->run->world.nlocal;
	status = bb_pattern_store_take(&s->run->patterns, a->dtype, -1, n,
				       (uint64_t)s->run->options.seed, &s->patterns);
	return status == BB_OK ? BB_OK : no_memory(s);
}

/* Everything that is to be overwritten holds something else. */
static bb_status before_last(void *own)
{
	const struct trial *t = own;
	struct session *s = t->s;
	const struct bb_moe_load *l = t->step.load;
	const struct bb_moe_rows rows = rows_of(s, t->skew);
	const size_t experts = (size_t)l->form.experts;
	void *handle = s->driver->handle;
	bb_status status;

	BB_TRY(status, bb_moe_rows_fill(&rows, s->backend, handle, s->patterns), out);
	for (size_t e = 0; e < experts; e++)
		s->counts[e] = -1;
	BB_TRY(status, s->backend->copy(handle, s->gets, s->counts, experts * sizeof(*s->counts)),
	       out);
	for (size_t e = 0; e < experts; e++)
		s->counts[e] = l->rows[e];
	BB_TRY(status, s->backend->copy(handle, s->gives, s->counts, experts * sizeof(*s->counts)),
	       out);
	status = s->backend->finish(handle, NULL);
out:
	return status;
}

/* Each rank says how many rows its tokens have for each expert here. */
static bb_status verify_counts(const struct trial *t, uint64_t *wrong)
{
	const struct session *s = t->s;
	const struct bb_moe_form *f = &t->step.load->form;
	const size_t each = (size_t)(f->experts / f->nranks), experts = (size_t)f->experts;
	const int64_t *rows = &t->step.load->rows[(size_t)s->driver->rank * each];
	bb_status status = s->backend->copy(s->driver->handle, s->counts, s->gets,
					    experts * sizeof(*s->counts));

	for (size_t i = 0; i < experts && status == BB_OK; i++)
		*wrong += s->counts[i] != rows[i % each];
	return status;
}

/* Make one byte wrong of each thing that is verified, where there is one: proof that the check can
   fail. */
static bb_status corrupt(const struct trial *t)
{
	const struct session *s = t->s;
	const struct bb_moe_load *l = t->step.load;
	const int rank = s->driver->rank, peer = (rank + 1) % l->form.nranks;
	const size_t row = row_bytes(s);
	char *const victims[] = {
		s->gets,
		peer != rank && l->rows_to[rank] > 0
			? s->theirs + (size_t)peer * (size_t)l->rows_to[rank] * row
			: NULL,
		peer != rank && l->rows_to[peer] > 0 ? s->back + (size_t)l->rows_before[peer] * row
						     : NULL,
	};
	bb_status status = BB_OK;

	for (int i = 0; i < 3 && status == BB_OK; i++) {
		unsigned char byte;

		if (!victims[i])
			continue;
		status = s->backend->copy(s->driver->handle, &byte, victims[i], 1);
		byte ^= 0x55;
		if (status == BB_OK)
			status = s->backend->copy(s->driver->handle, victims[i], &byte, 1);
	}
	return status;
}

static bb_status after_last(void *own)
{
	struct trial *t = own;
	struct session *s = t->s;
	const struct bb_fault *fault = &s->run->options.fault;
	const struct bb_moe_rows rows = rows_of(s, t->skew);
	uint64_t wrong = 0;
	const void *all;
	bb_status status = BB_OK;

	if (fault->kind == BB_FAULT_CORRUPT && fault->rank == s->driver->rank)
		BB_TRY(status, corrupt(t), out);
	BB_TRY(status,
	       bb_moe_rows_verify(&rows, s->backend, s->driver->handle, s->patterns, &wrong), out);
	BB_TRY(status, verify_counts(t, &wrong), out);
	BB_TRY(status, bb_crew_gather(s->driver, &bb_payload_number, &wrong, 1, &all), out);
	t->wrong = 0;
	for (int r = 0; r < s->run->world.nranks; r++)
		t->wrong += (int64_t)((const uint64_t *)all)[r];
out:
	return status;
}

/* ---- programs ---------------------------------------------------------------------------------
 */

static void add_trial(struct session *s, size_t skew, int kind)
{
	const struct bb_moe_options *a = &s->moe->asked;
	struct bb_trial *timed = &s->trials.list[s->trials.n];
	struct trial *t = &s->list[s->trials.n++];

	*t = (struct trial){.s = s,
			    .skew = skew,
			    .step = {.load = &s->moe->loads[skew],
				     .hidden = (size_t)a->hidden,
				     .dtype = a->dtype,
				     .expert_s = 1e-9 * (double)a->expert_ns,
				     .parts = kinds[kind].parts},
			    .wrong = BB_ABSENT};
	bb_moe_program(&t->program, &t->step);
	timed->play = (struct bb_play){.program = &t->program,
				       .stand_in = (enum bb_stand_in)a->stand_in,
				       .buffers = s->memory ? buffers : NULL,
				       .own = t};
	snprintf(timed->what, sizeof(timed->what), "%s, skew %g", kinds[kind].name,
		 a->skews.list[skew]);
	if (kind == LAYER && s->backend->capabilities & BB_CAP_DATA && s->run->options.check > 0) {
		timed->before_last = before_last;
		timed->after_last = after_last;
	}
}

static bb_status open_session(struct session *s)
{
	const size_t n = KINDS * s->moe->asked.skews.n;
	bb_status status;

	BB_TRY(status, bb_run_attend(s->run, s->driver, NULL, &s->world), out);
	BB_TRY(status, open_data(s), out);
	s->list = calloc(n, sizeof(*s->list));
	s->trials.list = calloc(n, sizeof(*s->trials.list));
	if (!s->list || !s->trials.list) {
		status = no_memory(s);
		goto out;
	}
	for (size_t skew = 0; skew < s->moe->asked.skews.n; skew++)
		for (int kind = 0; kind < KINDS; kind++)
			add_trial(s, skew, kind);
	status = bb_run_begin(s->run, s->driver, NAN);
out:
	return status;
}

static void close_session(struct session *s)
{
	bb_trials_free(&s->trials);
	free(s->trials.list);
	free(s->list);
	free(s->counts);
	bb_pattern_store_give(&s->run->patterns, s->patterns);
	s->backend->group_close(s->world);
}

/* ---- what comes of it -------------------------------------------------------------------------
 */

static const struct bb_stats *stats_of(const struct session *s, size_t skew, int kind)
{
	return &s->trials.list[KINDS * skew + (size_t)kind].stats;
}

static double busiest_bytes(const struct session *s, size_t skew)
{
	const struct bb_moe_load *l = &s->moe->loads[skew];

	return bb_moe_bytes_of(&s->list[KINDS * skew].step, l->busiest).received;
}

/* Held against a skew of 0, if there is one. */
static void compare(const struct session *s, size_t skew, struct bb_moe_record *r)
{
	const struct bb_moe_options *a = &s->moe->asked;

	for (size_t i = 0; i < a->skews.n; i++)
		if (a->skews.list[i] == 0 && busiest_bytes(s, i) > 0) {
			r->times_even =
				stats_of(s, skew, DISPATCH)->p50 / stats_of(s, i, DISPATCH)->p50;
			r->expected_times_even = busiest_bytes(s, skew) / busiest_bytes(s, i);
			return;
		}
}

static void describe_load(const struct session *s, size_t skew, struct bb_moe_record *r)
{
	const struct bb_moe_load *l = &s->moe->loads[skew];
	const double rows = (double)(l->form.tokens * l->form.top_k);
	const int n = l->form.nranks;
	double sum = 0;

	for (int rank = 0; rank < n; rank++)
		sum += bb_moe_bytes_of(&s->list[KINDS * skew].step, rank).received;
	r->dropped_rows = l->dropped;
	r->dropped_share = (double)l->dropped / rows;
	r->imbalance = bb_moe_imbalance(l);
	r->busiest = l->busiest;
	r->busiest_bytes = (int64_t)busiest_bytes(s, skew);
	r->mean_bytes = (int64_t)(sum / n);
	r->sent_bytes = (int64_t)(rows * (double)row_bytes(s));
}

static void describe(const struct session *s, size_t skew, struct bb_moe_record *r)
{
	const struct bb_moe_options *a = &s->moe->asked;
	const struct bb_stats *layer = stats_of(s, skew, LAYER);
	const double dispatch = stats_of(s, skew, DISPATCH)->p50;
	const double combine = stats_of(s, skew, COMBINE)->p50;

	bb_record_init(&bb_record_moe, r);
	r->nranks = s->run->world.nranks;
	r->experts = a->experts;
	r->top_k = a->top_k;
	r->hidden = a->hidden;
	r->tokens = a->tokens;
	r->dtype = bb_dtype_name(a->dtype);
	r->skew = a->skews.list[skew];
	r->capacity = a->capacity;
	r->compute = a->expert_ns > 0 ? bb_stand_in_names[a->stand_in] : NULL;
	describe_load(s, skew, r);
	r->counts_us = 1e6 * stats_of(s, skew, COUNTS)->p50;
	r->dispatch_us = 1e6 * dispatch;
	r->combine_us = 1e6 * combine;
	r->layer_us = 1e6 * layer->p50;
	r->low_us = 1e6 * layer->ci_low;
	r->high_us = 1e6 * layer->ci_high;
	r->samples = (int64_t)layer->n;
	if (r->nranks > 1 && dispatch > 0 && combine > 0) {
		r->dispatch_GBps = 1e-9 * (double)r->busiest_bytes / dispatch;
		r->dispatch_mean_GBps = 1e-9 * (double)r->mean_bytes / dispatch;
		r->combine_GBps = 1e-9 * (double)r->busiest_bytes / combine;
		compare(s, skew, r);
	}
	r->wrong = s->list[KINDS * skew].wrong;
	r->end_unix_s = bb_clock_unix();
}

static bb_status deliver(const struct session *s)
{
	struct bb_run *run = s->run;
	struct bb_moe_record r;
	bb_status status = BB_OK;

	bb_ticker_hide(&run->ticker);
	for (size_t i = 0; i < s->trials.n; i++)
		if (s->trials.list[i].refusal[0])
			return bb_fail(&run->error, BB_EUNSUPPORTED, "%s",
				       s->trials.list[i].refusal);
	for (size_t skew = 0; skew < s->moe->asked.skews.n && status == BB_OK; skew++) {
		describe(s, skew, &r);
		run->end.results++;
		run->end.wrong += r.wrong != BB_ABSENT && r.wrong > 0;
		status = bb_sinks_record(&run->sinks, &bb_record_moe, &r);
	}
	return status;
}

bb_status bb_moe_drive(struct bb_driver *driver, void *argument)
{
	struct bb_run *run = argument;
	struct session s = {.moe = run->own,
			    .run = run,
			    .driver = driver,
			    .backend = run->options.backend,
			    .trials = {.run = run, .driver = driver}};
	bb_status status = open_session(&s);

	if (status == BB_OK)
		status = bb_trials_measure(&s.trials);
	if (status == BB_OK && bb_driver_leads(driver))
		status = deliver(&s);
	status = bb_crew_part(driver, status);
	if (status == BB_OK && s.memory)
		s.backend->release(driver->handle, s.memory, s.bytes);
	close_session(&s);
	atomic_store(&driver->progress->finished, status == BB_OK);
	return status;
}
