/*
 * drive.c - the experiment: layers of experts and their parts, timed against each other; rows are
 * verified at the experts and after their return.
 */
#include "core/clock.h"
#include "core/units.h"
#include "training_kernels/moe/moe.h"

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

struct moe_session;

/* One program under one load. */
struct moe_trial {
	struct moe_session *s;
	size_t skew;
	struct bb_moe_step step;
	struct bb_program program;
};

/* A driver's state. */
struct moe_session {
	struct bb_engine engine; /* its trials are KINDS of each skew */
	struct bb_moe *moe;
	struct moe_trial *list; /* beside the engine's */
	/* Of this rank, for the largest load: rows as in struct bb_moe_rows; counts that it sends
	   and receives, one for each expert. NULL: no data. */
	char *memory, *mine, *theirs, *back, *counts_out, *counts_in;
	const struct bb_patterns *patterns;
	int64_t *counts; /* room for as many in CPU memory */
};

static bb_status moe_no_memory(const struct moe_session *s)
{
	return bb_no_memory(&s->engine.run->error, "the experts' layer");
}

static int moe_rank_of(const struct moe_session *s)
{
	return s->engine.driver->rank;
}

static size_t row_bytes(const struct moe_session *s)
{
	return (size_t)s->moe->options.hidden * bb_dtype_size(s->moe->options.dtype);
}

/* ---- data ------------------------------------------------------------------------------------ */

static struct bb_moe_rows moe_rows_of(const struct moe_session *s, size_t skew)
{
	return (struct bb_moe_rows){
		.load = &s->moe->loads[skew],
		.hidden = (size_t)s->moe->options.hidden,
		.dtype = s->moe->options.dtype,
		.place = moe_rank_of(s),
		.mine = s->mine,
		.theirs = s->theirs,
		.back = s->back,
	};
}

static void moe_buffers(void *own, int rank, const struct bb_operation *o, void **in, void **out)
{
	const struct moe_trial *t = own;
	const struct bb_moe_rows rows = moe_rows_of(t->s, t->skew);

	if (o->act == BB_ACT_COLLECTIVE) {
		*in = t->s->counts_out;
		*out = t->s->counts_in;
		return;
	}
	*(o->act == BB_ACT_SEND ? in : out) = bb_moe_rows_of(&rows, o->work == BB_MOE_COMBINE, o);
}

static size_t round_up(size_t bytes)
{
	return (bytes + 63) / 64 * 64;
}

static bb_status moe_open_data(struct moe_session *s)
{
	const struct bb_moe_options *a = &s->moe->options;
	const size_t counts = round_up((size_t)a->experts * sizeof(int64_t));
	size_t mine = 0, theirs = 0;
	bb_status status;

	if (bb_engine_is_virtual(&s->engine))
		return BB_OK;
	for (size_t i = 0; i < a->skews.n; i++) {
		const struct bb_moe_rows rows = moe_rows_of(s, i);
		const size_t leave = round_up(bb_moe_bytes_mine(&rows));
		const size_t come = round_up(bb_moe_bytes_theirs(&rows));

		mine = leave > mine ? leave : mine;
		theirs = come > theirs ? come : theirs;
	}
	s->counts = calloc((size_t)a->experts, sizeof(*s->counts));
	if (!s->counts)
		return moe_no_memory(s);
	status = bb_engine_alloc(&s->engine, 2 * mine + theirs + 2 * counts, (void **)&s->memory);
	if (status != BB_OK)
		return status;
	s->mine = s->memory;
	s->back = s->mine + mine;
	s->counts_out = s->back + mine;
	s->counts_in = s->counts_out + counts;
	s->theirs = s->counts_in + counts;
	return bb_engine_patterns(&s->engine, a->dtype, -1, s->engine.run->world.nranks,
				  &s->patterns);
}

/* Fills buffers that the layer overwrites with other data than it leaves there. */
static bb_status moe_fill(void *own)
{
	const struct moe_trial *t = own;
	struct moe_session *s = t->s;
	const struct bb_backend *backend = s->engine.backend;
	const struct bb_moe_load *l = t->step.load;
	const struct bb_moe_rows rows = moe_rows_of(s, t->skew);
	const size_t experts = (size_t)l->form.experts, bytes = experts * sizeof(*s->counts);
	bb_status status;

	BB_TRY(status, bb_moe_rows_fill(&rows, &s->engine, s->patterns), out);
	for (size_t e = 0; e < experts; e++)
		s->counts[e] = -1;
	BB_TRY(status, backend->copy(s->engine.rank, s->counts_in, s->counts, bytes), out);
	for (size_t e = 0; e < experts; e++)
		s->counts[e] = l->rows[e];
	BB_TRY(status, backend->copy(s->engine.rank, s->counts_out, s->counts, bytes), out);
	status = backend->finish(s->engine.rank, NULL);
out:
	return status;
}

/* Each rank has sent the number of its rows for each expert here. */
static bb_status moe_verify_counts(const struct moe_trial *t, uint64_t *wrong)
{
	const struct moe_session *s = t->s;
	const struct bb_moe_form *f = &t->step.load->form;
	const size_t each = (size_t)(f->experts / f->nranks), experts = (size_t)f->experts;
	const int64_t *rows = &t->step.load->rows[(size_t)moe_rank_of(s) * each];
	bb_status status = s->engine.backend->copy(s->engine.rank, s->counts, s->counts_in,
						   experts * sizeof(*s->counts));

	for (size_t i = 0; i < experts && status == BB_OK; i++)
		*wrong += s->counts[i] != rows[i % each];
	return status;
}

/* A byte of each buffer that is verified and not empty. */
static int moe_victims(void *own, void *list[BB_MOST_VICTIMS])
{
	const struct moe_trial *t = own;
	const struct moe_session *s = t->s;
	const struct bb_moe_load *l = t->step.load;
	const int rank = moe_rank_of(s), peer = (rank + 1) % l->form.nranks;
	const size_t row = row_bytes(s);
	int n = 0;

	list[n++] = s->counts_in;
	if (peer != rank && l->rows_to[rank] > 0)
		list[n++] = s->theirs + (size_t)peer * (size_t)l->rows_to[rank] * row;
	if (peer != rank && l->rows_to[peer] > 0)
		list[n++] = s->back + (size_t)l->rows_before[peer] * row;
	return n;
}

static bb_status moe_verify(void *own, uint64_t *wrong)
{
	const struct moe_trial *t = own;
	struct moe_session *s = t->s;
	const struct bb_moe_rows rows = moe_rows_of(s, t->skew);
	const bb_status status = bb_moe_rows_verify(&rows, &s->engine, s->patterns, wrong);

	return status == BB_OK ? moe_verify_counts(t, wrong) : status;
}

static const struct bb_expectation expectation = {moe_fill, moe_victims, moe_verify};

/* ---- programs -------------------------------------------------------------------------------- */

static bb_status moe_add_trial(struct moe_session *s, size_t skew, int kind)
{
	const struct bb_moe_options *a = &s->moe->options;
	struct moe_trial *t = &s->list[s->engine.ntrials];
	struct bb_trial trial = {.expects = kind == LAYER ? &expectation : NULL};

	*t = (struct moe_trial){.s = s,
				.skew = skew,
				.step = {.load = &s->moe->loads[skew],
					 .hidden = (size_t)a->hidden,
					 .dtype = a->dtype,
					 .expert_s = 1e-9 * (double)a->expert_ns,
					 .parts = kinds[kind].parts}};
	bb_moe_program(&t->program, &t->step);
	trial.workload = (struct bb_workload){.program = &t->program,
					      .stand_in = (enum bb_stand_in)a->stand_in,
					      .buffers = s->memory ? moe_buffers : NULL,
					      .own = t};
	snprintf(trial.what, sizeof(trial.what), "%s, skew %g", kinds[kind].name,
		 a->skews.list[skew]);
	return bb_engine_add(&s->engine, &trial, NULL);
}

static bb_status moe_open(struct bb_engine *engine)
{
	struct moe_session *s = (struct moe_session *)engine;
	bb_status status;

	s->moe = engine->run->own;
	BB_TRY(status, moe_open_data(s), out);
	s->list = calloc(KINDS * s->moe->options.skews.n, sizeof(*s->list));
	if (!s->list)
		return moe_no_memory(s);
	for (size_t skew = 0; skew < s->moe->options.skews.n; skew++)
		for (int kind = 0; kind < KINDS; kind++)
			BB_TRY(status, moe_add_trial(s, skew, kind), out);
out:
	return status;
}

static void moe_close(struct bb_engine *engine)
{
	struct moe_session *s = (struct moe_session *)engine;

	free(s->list);
	free(s->counts);
}

/* ---- records --------------------------------------------------------------------------------- */

static const struct bb_stats *stats_of(const struct moe_session *s, size_t skew, int kind)
{
	return &s->engine.trials[KINDS * skew + (size_t)kind].stats;
}

static double busiest_bytes(const struct moe_session *s, size_t skew)
{
	const struct bb_moe_load *l = &s->moe->loads[skew];

	return bb_moe_bytes_of(&s->list[KINDS * skew].step, l->busiest).received;
}

/* Compared with a skew of 0, if it was measured. */
static void moe_compare_with_even(const struct moe_session *s, size_t skew, struct bb_moe_record *r)
{
	const struct bb_moe_options *a = &s->moe->options;

	for (size_t i = 0; i < a->skews.n; i++)
		if (a->skews.list[i] == 0 && busiest_bytes(s, i) > 0) {
			r->times_even =
				stats_of(s, skew, DISPATCH)->p50 / stats_of(s, i, DISPATCH)->p50;
			r->expected_times_even = busiest_bytes(s, skew) / busiest_bytes(s, i);
			return;
		}
}

static void moe_describe_load(const struct moe_session *s, size_t skew, struct bb_moe_record *r)
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

static void moe_describe(const struct moe_session *s, size_t skew, struct bb_moe_record *r)
{
	const struct bb_moe_options *a = &s->moe->options;
	const struct bb_stats *layer = stats_of(s, skew, LAYER);
	const double dispatch = stats_of(s, skew, DISPATCH)->p50;
	const double combine = stats_of(s, skew, COMBINE)->p50;

	bb_record_init(&bb_record_moe, r);
	r->nranks = s->engine.run->world.nranks;
	r->experts = a->experts;
	r->top_k = a->top_k;
	r->hidden = a->hidden;
	r->tokens = a->tokens;
	r->dtype = bb_dtype_name(a->dtype);
	r->skew = a->skews.list[skew];
	r->capacity = a->capacity;
	r->compute = a->expert_ns > 0 ? bb_stand_in_names[a->stand_in] : NULL;
	moe_describe_load(s, skew, r);
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
		moe_compare_with_even(s, skew, r);
	}
	r->wrong = s->engine.trials[KINDS * skew].wrong;
	r->end_unix_s = bb_clock_unix();
}

/* The time of the layer under the first and the last load. */
static void moe_add_answer(const struct moe_session *s, struct bb_strbuf *out)
{
	const struct bb_moe_options *a = &s->moe->options;
	char text[BB_UNIT_TEXT];

	for (size_t i = 0; i<a->skews.n; i += a->skews.n> 1 ? a->skews.n - 1 : 1)
		bb_strbuf_addf(
			out, "%s%s at skew %g", i == 0 ? "# The layer of experts takes " : ", ",
			bb_format_duration(text, stats_of(s, i, LAYER)->p50), a->skews.list[i]);
	bb_strbuf_add(out, "\n");
}

static bb_status moe_deliver(struct bb_engine *engine)
{
	const struct moe_session *s = (const struct moe_session *)engine;
	struct bb_strbuf answer = {0};
	struct bb_moe_record r;
	bb_status status = BB_OK;

	for (size_t i = 0; i < engine->ntrials; i++)
		BB_TRY(status, bb_engine_require(engine, i), out);
	for (size_t skew = 0; skew < s->moe->options.skews.n; skew++) {
		moe_describe(s, skew, &r);
		BB_TRY(status, bb_engine_deliver(engine, &bb_record_moe, &r, r.wrong), out);
	}
	moe_add_answer(s, &answer);
	status = bb_engine_answer(engine, &answer);
out:
	return status;
}

const struct bb_experiment bb_moe_experiment = {
	.bytes = sizeof(struct moe_session),
	.open = moe_open,
	.deliver = moe_deliver,
	.close = moe_close,
};
