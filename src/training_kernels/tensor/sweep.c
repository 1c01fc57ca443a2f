/*
 * sweep.c - the experiment: split parts are verified, then timed.
 */
#include "core/clock.h"
#include "core/recommend.h"
#include "models/memory/activations.h"
#include "training_kernels/estimate.h"
#include "training_kernels/tensor/tensor.h"
#include "training_kernels/tensor/state.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define HALVES 3 /* of each scheme: the step, its computations alone, its communication alone */

/* A driver's state. */
struct sweep {
	struct bb_engine engine; /* its trials are HALVES of each scheme */
	struct bb_tensor_run *tensor;
	struct bb_tensor_program programs[HALVES * BB_TENSOR_MOST_SCHEMES]; /* beside the trials */
};

static const struct bb_tensor_options *tensor_options(const struct sweep *s)
{
	return &s->tensor->options;
}

/* ---- trials ---------------------------------------------------------------------------------- */

static bb_status tensor_add_trial(struct sweep *s, const struct bb_tensor_scheme *scheme,
				  enum bb_tensor_half half)
{
	static const char *const names[HALVES] = {"", " alone: computations",
						  " alone: communication"};
	const struct bb_tensor_form form = {
		.scheme = scheme,
		.size = &s->tensor->size,
		.layers = scheme->of == BB_TENSOR_LAYER ? (size_t)tensor_options(s)->layers : 1,
		.half = half};
	struct bb_tensor_program *program = &s->programs[s->engine.ntrials];
	struct bb_trial trial = {
		.workload = {.program = &program->program,
			     .stand_in = (enum bb_stand_in)tensor_options(s)->stand_in,
			     .own = program}};
	const int nranks = s->engine.run->world.nranks;
	const char *reason = bb_tensor_refuses(scheme, &s->tensor->size, nranks);
	bb_status status = BB_OK;

	if (!reason)
		status = bb_tensor_program_make(program, &form, nranks, &s->engine.run->error);
	snprintf(trial.what, sizeof(trial.what), "%s by %s%s", scheme->part, scheme->name,
		 names[half]);
	return status == BB_OK ? bb_engine_add(&s->engine, &trial, reason) : status;
}

static bb_status tensor_make_trials(struct sweep *s)
{
	bb_status status = BB_OK;

	for (size_t i = 0; i < tensor_options(s)->nschemes; i++)
		for (int half = 0; half < HALVES && status == BB_OK; half++)
			status = tensor_add_trial(s, tensor_options(s)->schemes[i],
						  (enum bb_tensor_half)half);
	return status;
}

/* ---- records --------------------------------------------------------------------------------- */

/* Ring attention keeps no scores: without FlashAttention its blocks are recomputed, as by selective
   recomputation. Gated MLPs are not counted, as the small matrices have no gates. */
static void describe_memory(const struct sweep *s, const struct bb_tensor_scheme *scheme,
			    struct bb_tensor_record *r)
{
	const bool gated = s->tensor->model.gated;
	struct bb_layer layer =
		bb_layer_of_model(&s->tensor->model, s->tensor->model.hyper.experts > 0,
				  (uint64_t)tensor_options(s)->batch,
				  (unsigned)bb_dtype_size(tensor_options(s)->dtype));

	if (scheme->of != BB_TENSOR_LAYER)
		return;
	layer.eager = !s->tensor->size.flash;
	r->kept_unsplit_bytes = (int64_t)bb_layer_kept(&layer, BB_RECOMPUTE_NONE);
	layer.tp = (uint64_t)r->nranks;
	layer.sequence_parallel = scheme->mode != BB_TENSOR_SPLIT;
	r->kept_formula_bytes = (int64_t)bb_layer_kept(
		&layer, scheme->mode == BB_TENSOR_RING && layer.eager ? BB_RECOMPUTE_SELECTIVE
								      : BB_RECOMPUTE_NONE);
	if (!gated)
		r->kept_bytes = (int64_t)bb_tensor_kept(scheme, &s->tensor->size, layer.tp, true);
}

static void tensor_describe(const struct sweep *s, size_t i, struct bb_tensor_record *r)
{
	const struct bb_tensor_program *program = &s->programs[HALVES * i];
	const struct bb_tensor_scheme *scheme = tensor_options(s)->schemes[i];
	size_t calls;

	bb_record_init(&bb_record_tensor, r);
	r->model = s->tensor->model.name;
	r->part = scheme->part;
	r->way = scheme->name;
	r->dtype = bb_dtype_name(tensor_options(s)->dtype);
	r->nranks = s->engine.run->world.nranks;
	r->layers = (int64_t)program->form.layers;
	r->seq = s->tensor->model.hyper.seq;
	r->batch = tensor_options(s)->batch;
	r->attention = bb_attention_words[tensor_options(s)->attention];
	r->compute = bb_stand_in_names[tensor_options(s)->stand_in];
	r->wire_bytes = bb_tensor_wire_counted(program, &calls);
	r->calls = (int64_t)calls;
	r->formula_bytes = (double)r->layers * bb_tensor_wire_formula(scheme, &s->tensor->size,
								      s->engine.run->world.nranks);
	describe_memory(s, scheme, r);
}

/* Are there computations that can hide communication? */
static bool has_computations(const struct bb_tensor_program *program)
{
	for (size_t i = 0; i < program->tape.n; i++)
		if (program->tape.list[i].act == BB_ACT_COMPUTE &&
		    program->tape.list[i].seconds > 0)
			return true;
	return false;
}

static void tensor_measure(const struct sweep *s, size_t i, struct bb_tensor_record *r)
{
	const struct bb_stats *step = &s->engine.trials[HALVES * i].stats;
	const double compute_s = s->engine.trials[HALVES * i + BB_TENSOR_COMPUTE].stats.p50;
	const double communicate_s = s->engine.trials[HALVES * i + BB_TENSOR_COMMUNICATE].stats.p50;

	r->step_us = 1e6 * step->p50;
	r->low_us = 1e6 * step->ci_low;
	r->high_us = 1e6 * step->ci_high;
	r->p95_us = 1e6 * step->p95;
	r->samples = (int64_t)step->n;
	r->compute_us = 1e6 * compute_s;
	r->communicate_us = 1e6 * communicate_s;
	r->exposed_us = r->step_us - r->compute_us;
	if (has_computations(&s->programs[HALVES * i])) {
		r->hidden_us = r->communicate_us - r->exposed_us;
		if (r->calls > 0 && communicate_s > 0)
			r->hidden = r->hidden_us / r->communicate_us;
	}
	r->end_unix_s = bb_clock_unix();
}

static const char *refusal_of(const struct sweep *s, size_t i)
{
	for (int half = 0; half < HALVES; half++)
		if (s->engine.trials[HALVES * i + (size_t)half].refusal)
			return s->engine.trials[HALVES * i + (size_t)half].refusal;
	return NULL;
}

static void no_cause(const struct bb_candidate *ahead, const struct bb_candidate *behind,
		     struct bb_strbuf *out)
{
}

/* The best way to split PART, by the time of a step. */
static void add_best(const struct sweep *s, const char *part, struct bb_strbuf *out)
{
	const struct bb_tensor_options *a = tensor_options(s);
	struct bb_candidate list[BB_TENSOR_MOST_SCHEMES];
	char subject[BB_CANDIDATE_TEXT];
	struct bb_recommendation choice = {.subject = subject,
					   .noise = bb_estimate_noise(s->engine.run),
					   .unit = " per step",
					   .list = list,
					   .cause = no_cause};

	snprintf(subject, sizeof(subject), "way to split the %s", part);
	for (size_t i = 0; i < a->nschemes; i++) {
		const struct bb_stats *step = &s->engine.trials[HALVES * i].stats;
		struct bb_candidate *c = &list[choice.n];

		if (refusal_of(s, i) || strcmp(a->schemes[i]->part, part) != 0)
			continue;
		*c = (struct bb_candidate){
			.seconds = step->p50, .low = step->ci_low, .high = step->ci_high};
		snprintf(c->name, sizeof(c->name), "%s", a->schemes[i]->name);
		choice.n++;
	}
	bb_recommend(&choice, out);
}

static bb_status tensor_recommend(struct sweep *s)
{
	const struct bb_tensor_options *a = tensor_options(s);
	struct bb_strbuf out = {0};

	for (size_t i = 0; i < a->nschemes; i++)
		if (i == 0 || strcmp(a->schemes[i]->part, a->schemes[i - 1]->part) != 0)
			add_best(s, a->schemes[i]->part, &out);
	return bb_engine_answer(&s->engine, &out);
}

static bb_status tensor_deliver(struct sweep *s)
{
	const struct bb_tensor_options *a = tensor_options(s);
	struct bb_tensor_record record;
	bb_status status = BB_OK;

	for (size_t i = 0; i < a->nschemes && status == BB_OK; i++)
		if (refusal_of(s, i))
			status = bb_engine_skip_subject(&s->engine, a->schemes[i]->part,
							a->schemes[i]->name,
							bb_dtype_name(a->dtype), refusal_of(s, i));
	for (size_t i = 0; i < a->nschemes && status == BB_OK; i++) {
		if (refusal_of(s, i))
			continue;
		tensor_describe(s, i, &record);
		tensor_measure(s, i, &record);
		status = bb_engine_deliver(&s->engine, &bb_record_tensor, &record, BB_ABSENT);
	}
	if (status == BB_OK)
		status = tensor_recommend(s);
	return status;
}

/* ---- the experiment -------------------------------------------------------------------------- */

static bb_status deliver_unchecked(struct sweep *s, const char *reason)
{
	struct bb_strbuf line = {0};

	if (!bb_engine_leads(&s->engine))
		return BB_OK;
	bb_strbuf_addf(&line, "# Not compared with unsplit modules: %s\n", reason);
	return bb_engine_answer(&s->engine, &line);
}

static bb_status tensor_check_parts(struct sweep *s)
{
	const char *reason = bb_tensor_equality_refuses(s->engine.run);

	if (s->engine.run->options.check == 0)
		return deliver_unchecked(s, "-c 0");
	return reason ? deliver_unchecked(s, reason) : bb_tensor_equality(&s->engine);
}

static bb_status tensor_run(struct bb_engine *engine)
{
	struct sweep *s = (struct sweep *)engine;
	bb_status status;

	s->tensor = engine->run->own;
	BB_TRY(status, tensor_check_parts(s), out);
	if (tensor_options(s)->equality)
		return BB_OK;
	BB_TRY(status, tensor_make_trials(s), out);
	BB_TRY(status, bb_engine_measure(engine), out);
	if (bb_engine_leads(engine))
		status = tensor_deliver(s);
out:
	return status;
}

static void tensor_close(struct bb_engine *engine)
{
	struct sweep *s = (struct sweep *)engine;

	for (size_t i = 0; i < HALVES * BB_TENSOR_MOST_SCHEMES; i++)
		bb_tensor_program_free(&s->programs[i]);
}

const struct bb_experiment bb_tensor_experiment = {
	.bytes = sizeof(struct sweep),
	.run = tensor_run,
	.close = tensor_close,
};
