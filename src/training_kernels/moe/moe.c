/*
 * moe.c - expert parallelism: layers of experts and their parts are timed against each other; rows
 * are verified at the experts and after their return.
 */
#include "training_kernels/moe/moe.h"

#include "core/units.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- options --------------------------------------------------------------------------------- */

/* Layers of published models. */
static const struct preset {
	const char *name, *source;
	int64_t experts, top_k, hidden;
} presets[] = {
	{"mixtral-8x7b", "Jiang et al. 2024, table 1; config.json of Mixtral-8x7B", 8, 2, 4096},
	{"deepseek-v3", "DeepSeek-AI 2024, section 4.2; config.json of DeepSeek-V3", 256, 8, 7168},
	{.name = NULL},
};

static const char *moe_preset_name(int index)
{
	return presets[index].name;
}

static const char *const dtypes[] = {"bfloat16", "half", "float", "f8e4m3", "f8e5m2", NULL};
/* No gemm: the FLOPs of experts are unknown. */
static const char *const stand_ins[] = {[BB_SLEEP] = "sleep", [BB_SPIN] = "spin", [BB_GEMM] = NULL};

#define BB_OPTIONS struct bb_moe_options
static const struct bb_option moe_rows[] = BB_OPTION_ROWS(BB_MOE_OPTIONS);

static bb_status moe_check(const struct bb_benchmark *benchmark, void *own, struct bb_options *o,
			   const struct bb_environment *environment, struct bb_error *error)
{
	struct bb_moe_options *a = &((struct bb_moe *)own)->options;
	const struct preset *p = presets + (a->preset_given ? a->preset : 0);

	if (!a->preset_given)
		return BB_OK;
	a->experts = a->experts_given ? a->experts : p->experts;
	a->top_k = a->top_k_given ? a->top_k : p->top_k;
	a->hidden = a->hidden_given ? a->hidden : p->hidden;
	return BB_OK;
}

/* ---- the record ------------------------------------------------------------------------------ */

static void moe_about(const void *record, struct bb_strbuf *out)
{
	const struct bb_moe_record *r = record;

	bb_strbuf_addf(out,
		       "# %jd expert%s on %jd rank%s; %jd tokens of each rank through %jd "
		       "expert%s each, %jd elements of %s: %.3f MB per rank\n",
		       r->experts, bb_plural(r->experts), r->nranks, bb_plural(r->nranks),
		       r->tokens, r->top_k, bb_plural(r->top_k), r->hidden, r->dtype,
		       1e-6 * (double)r->sent_bytes);
	if (r->capacity > 0)
		bb_strbuf_addf(out, "# an expert takes at most %g times its even share\n",
			       r->capacity);
}

#define BB_RECORD bb_moe_record
BB_RECORD_KIND(bb_record_moe, BB_MOE_FIELDS, "moe",
	       "Expert parallelism: a layer of experts under one load.", .about = moe_about);

/* ---- the plan -------------------------------------------------------------------------------- */

static bb_status moe_plan(struct bb_run *run)
{
	struct bb_moe *moe = run->own;
	struct bb_moe_options *a = &moe->options;
	const int n = run->world.nranks;
	uint64_t most = 0;
	bb_status status = BB_OK;
	char tokens[BB_UNIT_TEXT];

	if (a->experts == 0)
		a->experts = 2 * (int64_t)n;
	if (a->experts % n)
		return bb_fail(&run->error, BB_EUSAGE,
			       "--experts %jd: cannot be divided among %d ranks; give a multiple",
			       a->experts, n);
	if (a->top_k > a->experts)
		return bb_fail(&run->error, BB_EUSAGE,
			       "--top-k %jd: there are %jd experts; give fewer", a->top_k,
			       a->experts);
	moe->loads = calloc(a->skews.n, sizeof(*moe->loads));
	if (!moe->loads)
		return bb_no_memory(&run->error, "the loads of experts");
	for (size_t i = 0; i < a->skews.n; i++) {
		const struct bb_moe_form form = {n,         (int)a->experts,  (int)a->top_k,
						 a->tokens, a->skews.list[i], a->capacity};
		struct bb_moe_load *l = &moe->loads[i];

		BB_TRY(status, bb_moe_load_make(l, &form, &run->error), out);
		/* Of the busiest rank: its own, those that come, and those that come back. */
		uint64_t rows = (uint64_t)(2 * l->rows_before[n] + bb_moe_rows_at(l, l->busiest));
		most = rows > most ? rows : most;
	}
	snprintf(tokens, sizeof(tokens), "%jd", a->tokens);
	status = bb_estimate_room(run, most * (uint64_t)a->hidden * bb_dtype_size(a->dtype),
				  "--tokens", tokens, "rows", "fewer");
out:
	return status;
}

static void close_moe(struct bb_run *run)
{
	struct bb_moe *moe = run->own;

	for (size_t i = 0; moe->loads && i < moe->options.skews.n; i++)
		bb_moe_load_free(&moe->loads[i]);
	free(moe->loads);
}

/* ---- a layer as a program -------------------------------------------------------------------- */

enum queue { COMPUTES, SENDS, RECEIVES, QUEUES };

static void moe_complete(const void *own, int rank, struct bb_operation *o)
{
	const struct bb_moe_step *step = own;
	const struct bb_moe_form *f = &step->exchange.load->form;

	if (o->act == BB_ACT_SEND)
		bb_moe_message(step->exchange.load, rank, o);
	else if (o->act == BB_ACT_COMPUTE)
		o->seconds = o->seconds * (double)bb_moe_rows_at(step->exchange.load, rank) /
			     ((double)f->tokens * f->top_k);
}

bb_status bb_moe_program(struct bb_taped *taped, const struct bb_moe_step *step,
			 struct bb_error *error)
{
	const unsigned parts = step->parts;
	const bool layer = parts == BB_MOE_LAYER,
		   messages = parts & (BB_MOE_DISPATCH | BB_MOE_COMBINE);
	const struct bb_moe_form *f = &step->exchange.load->form;
	struct bb_moe_exchange exchange = step->exchange;
	const bb_status status = bb_taped_begin(taped, f->nranks, 1, 1, error);
	struct bb_tape *tape = taped->tapes;

	if (status != BB_OK)
		return status;
	exchange.computes = COMPUTES;
	exchange.sends = SENDS;
	taped->complete = moe_complete;
	taped->own = step;
	taped->program.queues = messages ? QUEUES : 1;
	taped->program.lanes = messages ? BB_MOE_LANES : 0;
	taped->program.groups = parts & BB_MOE_COUNTS ? 1 : 0;
	if (parts & BB_MOE_COUNTS)
		bb_tape_collective(tape, COMPUTES, BB_MOE_COUNTS, 0, &bb_alltoall,
				   (size_t)(f->experts / f->nranks), BB_INT64, 0)
			->in_place = false;
	if (parts & BB_MOE_DISPATCH)
		bb_moe_write(&exchange, tape, BB_MOE_DISPATCH, false, layer, layer);
	if (parts & BB_MOE_EXPERTS)
		bb_tape_compute(tape, COMPUTES, BB_MOE_EXPERTS, 0, step->expert_s, 0);
	if (parts & BB_MOE_COMBINE)
		bb_moe_write(&exchange, tape, BB_MOE_COMBINE, true, layer, false);
	return bb_taped_end(taped, "a layer of experts", error);
}

/* ---- data ------------------------------------------------------------------------------------ */

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

/* One program under one load. */
struct moe_variant {
	struct bb_variant variant;
	struct bb_moe_step step;
	struct bb_moe_rows rows;      /* of this rank */
	char *counts_out, *counts_in; /* that it sends and receives, one for each expert */
};

/* A driver's state. */
struct moe_state {
	struct bb_kernel kernel; /* its variants are KINDS of each skew */
	struct bb_moe *moe;
	char *memory; /* for the data of any load; NULL: no data */
	const struct bb_patterns *rows, *counts;
};

static struct moe_state *moe_state_of(const struct moe_variant *v)
{
	return (struct moe_state *)v->variant.kernel;
}

static void moe_buffers(void *own, int rank, const struct bb_operation *o, void **in, void **out)
{
	const struct moe_variant *v = own;

	if (o->act == BB_ACT_COLLECTIVE) {
		*in = v->counts_out;
		*out = v->counts_in;
		return;
	}
	*(o->act == BB_ACT_SEND ? in : out) = bb_moe_rows_of(&v->rows, o);
}

/* Each rank sends its rows, and before them a number for each expert, known as all data is. */
static void moe_lay_out(struct moe_variant *v)
{
	const struct moe_state *s = moe_state_of(v);
	const struct bb_moe_load *load = &s->moe->loads[v->variant.setting];
	const int place = s->kernel.engine.driver->rank, n = load->form.nranks;
	const size_t experts = (size_t)load->form.experts, each = experts / (size_t)n;
	struct bb_known *known = &v->variant.known;

	v->rows = (struct bb_moe_rows){load, (size_t)s->moe->options.hidden, s->moe->options.dtype,
				       .place = place};
	known->memory = s->memory;
	bb_moe_rows_lay_out(&v->rows, known, s->rows);
	v->counts_out = bb_known_lay_out(known, experts, BB_INT64, s->counts, place, 0);
	v->counts_in = bb_known_lay_out(known, experts, BB_INT64, s->counts, place, 1);
	for (int peer = 0; peer < n && known->memory; peer++)
		bb_known_add(known, peer == 0 ? BB_KNOWN_VICTIM : BB_KNOWN_CHECK,
			     v->counts_in + (size_t)peer * each * sizeof(int64_t), s->counts, peer,
			     (size_t)place * each, each);
}

/* ---- the experiment -------------------------------------------------------------------------- */

static bb_status moe_write(struct bb_variant *variant, struct bb_trial *trial, const char **refusal)
{
	struct moe_variant *v = (struct moe_variant *)variant;
	const struct moe_state *s = moe_state_of(v);
	const struct bb_moe_options *a = &s->moe->options;

	moe_lay_out(v);
	v->step = (struct bb_moe_step){.exchange = {v->rows.load, v->rows.hidden, a->dtype},
				       .expert_s = 1e-9 * (double)a->expert_ns,
				       .parts = kinds[variant->part].parts};
	trial->workload.stand_in = (enum bb_stand_in)a->stand_in;
	trial->workload.buffers = s->memory ? moe_buffers : NULL;
	trial->expects = variant->part == LAYER ? &bb_known_expectation : NULL;
	snprintf(trial->what, sizeof(trial->what), "%s, skew %g", kinds[variant->part].name,
		 a->skews.list[variant->setting]);
	return bb_moe_program(&variant->taped, &v->step, &s->kernel.engine.run->error);
}

static bb_status moe_open(struct bb_engine *e)
{
	struct moe_state *s = (struct moe_state *)e;
	const struct bb_moe_options *a = &(s->moe = e->run->own)->options;
	const int nranks = e->run->world.nranks;
	size_t most = 0;
	bb_status status;

	for (size_t i = 0; i < a->skews.n; i++) {
		struct moe_variant v = {.variant = {.kernel = &s->kernel, .setting = i}};

		moe_lay_out(&v);
		most = v.variant.known.bytes > most ? v.variant.known.bytes : most;
	}
	BB_TRY(status, bb_engine_alloc(e, most, (void **)&s->memory), out);
	BB_TRY(status, bb_engine_patterns(e, a->dtype, -1, nranks, &s->rows), out);
	BB_TRY(status, bb_engine_patterns(e, BB_INT64, -1, nranks, &s->counts), out);
	status = bb_kernel_sweep(&s->kernel, a->skews.n, KINDS, sizeof(struct moe_variant),
				 moe_write);
out:
	return status;
}

/* Bytes that ROWS take. */
static double moe_bytes(const struct moe_state *s, int64_t rows)
{
	const struct bb_moe_options *a = &s->moe->options;

	return (double)rows * (double)a->hidden * (double)bb_dtype_size(a->dtype);
}

static double busiest_bytes(const struct moe_state *s, size_t skew)
{
	const struct bb_moe_load *l = &s->moe->loads[skew];

	return moe_bytes(s, bb_moe_rows_received(l, l->busiest));
}

static void moe_describe(const struct bb_kernel *k, size_t skew, void *record)
{
	const struct moe_state *s = (const struct moe_state *)k;
	struct bb_moe_record *r = record;
	const struct bb_moe_options *a = &s->moe->options;
	const struct bb_moe_load *l = &s->moe->loads[skew];
	const struct bb_trial *layer = bb_kernel_trial(&s->kernel, skew, LAYER);
	const double dispatch = bb_kernel_median(k, skew, DISPATCH);
	const double combine = bb_kernel_median(k, skew, COMBINE);
	const int64_t rows = a->tokens * a->top_k;
	const int n = l->form.nranks;

	r->nranks = n;
	r->experts = a->experts;
	r->top_k = a->top_k;
	r->hidden = a->hidden;
	r->tokens = a->tokens;
	r->dtype = bb_dtype_name(a->dtype);
	r->skew = a->skews.list[skew];
	r->capacity = a->capacity;
	r->compute = a->expert_ns > 0 ? bb_stand_in_names[a->stand_in] : NULL;
	r->dropped_rows = l->dropped;
	r->dropped_share = (double)l->dropped / (double)rows;
	r->imbalance = bb_moe_imbalance(l);
	r->busiest = l->busiest;
	r->busiest_bytes = (int64_t)busiest_bytes(s, skew);
	r->mean_bytes = (int64_t)(moe_bytes(s, (n - 1) * l->rows_before[n]) / n);
	r->sent_bytes = (int64_t)moe_bytes(s, rows);
	r->counts_us = 1e6 * bb_kernel_median(k, skew, COUNTS);
	r->dispatch_us = 1e6 * dispatch;
	r->combine_us = 1e6 * combine;
	BB_TIMES_SET(r, layer_us, layer, 1);
	if (r->nranks > 1 && dispatch > 0 && combine > 0) {
		r->dispatch_GBps = 1e-9 * (double)r->busiest_bytes / dispatch;
		r->dispatch_mean_GBps = 1e-9 * (double)r->mean_bytes / dispatch;
		r->combine_GBps = 1e-9 * (double)r->busiest_bytes / combine;
		/* Compared with a skew of 0, if it was measured. */
		for (size_t i = a->skews.n; i-- > 0;)
			if (a->skews.list[i] == 0 && busiest_bytes(s, i) > 0) {
				r->times_even = dispatch / bb_kernel_median(k, i, DISPATCH);
				r->expected_times_even =
					busiest_bytes(s, skew) / busiest_bytes(s, i);
			}
	}
	r->wrong = layer->wrong;
}

/* The answer is the time of the layer under the first and the last load. */
static bb_status moe_deliver(struct bb_engine *engine)
{
	struct bb_kernel *k = (struct bb_kernel *)engine;
	const struct bb_option_numbers *skews = &((struct moe_state *)k)->moe->options.skews;
	struct bb_strbuf answer = {0};
	const bb_status status = bb_kernel_deliver(k, &bb_record_moe, moe_describe);

	if (status != BB_OK)
		return status;
	bb_strbuf_add(&answer, "# The layer of experts takes ");
	for (size_t skew = 0; skew < skews->n; skew++) {
		char text[BB_UNIT_TEXT];

		if (skew == 0 || skew + 1 == skews->n)
			bb_strbuf_addf(&answer, "%s%s at skew %g", skew == 0 ? "" : ", ",
				       bb_format_duration(text, bb_kernel_median(k, skew, LAYER)),
				       skews->list[skew]);
	}
	bb_strbuf_add(&answer, "\n");
	return bb_engine_answer(engine, &answer);
}

static const struct bb_experiment moe_experiment = {
	.bytes = sizeof(struct moe_state),
	.open = moe_open,
	.deliver = moe_deliver,
	.close = bb_kernel_close,
};

/* ---- the benchmark --------------------------------------------------------------------------- */

static void moe_list(struct bb_strbuf *out)
{
	bb_strbuf_add(out, "published models (--preset):\n");
	for (const struct preset *p = presets; p->name; p++)
		bb_strbuf_addf(out, "    %-14s experts %jd, top-k %jd, hidden %jd; %s\n", p->name,
			       p->experts, p->top_k, p->hidden, p->source);
}

static void moe_add_notes(struct bb_run *run, struct bb_strbuf *out)
{
	bb_strbuf_add(
		out,
		"# busiest: rows of the busiest rank / mean. GB/s: bytes that the busiest rank "
		"receives (combine: sends) / time; mean: of the mean rank\n"
		"# even: dispatch time relative to no skew; bytes: the same ratio of the busiest "
		"rank's bytes\n");
}

const struct bb_benchmark bb_moe_benchmark = {
	.brief = "Expert parallelism: tokens to their experts and back, under even and uneven "
		 "loads.",
	.examples = {"-g 4 --skew 0,0.5,1 --capacity 1.25",
		     "--backend sim --cluster hgx-h100:16 --preset deepseek-v3"},
	.own_bytes = sizeof(struct bb_moe),
	.options = moe_rows,
	.faults = 1u << BB_FAULT_CORRUPT | 1u << BB_FAULT_DIE,
	.refuses = {{BB_ALL_SIZES, "tokens are sent; leave it out, --tokens and --hidden set their "
				   "size"}},
	.queues = true,
	.check = moe_check,
	.list = moe_list,
	.text = &bb_sink_table,
	.rows = &bb_record_moe,
	.plan = moe_plan,
	.experiment = &moe_experiment,
	.tell = moe_add_notes,
	.close = close_moe,
};
