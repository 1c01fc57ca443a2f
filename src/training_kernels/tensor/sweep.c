/*
 * sweep.c - what every driver does: split parts checked, then timed.
 */
#include "core/clock.h"
#include "models/memory/activations.h"
#include "training_kernels/tensor/tensor.h"
#include "training_kernels/tensor/state.h"
#include "training_kernels/trials.h"

#include <math.h>
#include <stdio.h>

#define HALVES 3 /* of each way: all, and its computations and communication alone */
#define MOST_TRIALS (HALVES * BB_TENSOR_MOST_WAYS)

struct sweep {
	struct bb_tensor_run *tensor;
	struct bb_run *run;
	struct bb_driver *driver;
	struct bb_group *world;
	const struct bb_tensor_way *ways[BB_TENSOR_MOST_WAYS]; /* that are possible */
	size_t nways;
	struct bb_tensor_program programs[MOST_TRIALS]; /* HALVES of each way */
	struct bb_trial list[MOST_TRIALS];
	struct bb_trials trials;
};

static const struct bb_tensor_options *asked(const struct sweep *s)
{
	return &s->tensor->asked;
}

/* ---- what is timed ----------------------------------------------------------------------- */

static bb_status skip(struct sweep *s, const struct bb_tensor_way *way, const char *reason)
{
	struct bb_skip_record record;

	if (!bb_driver_leads(s->driver))
		return BB_OK;
	bb_record_init(&bb_record_skip, &record);
	record.collective = way->part;
	record.algorithm = way->name;
	record.dtype = bb_dtype_name(asked(s)->dtype);
	record.reason = reason;
	s->run->end.skipped++;
	return bb_sinks_record(&s->run->sinks, &bb_record_skip, &record);
}

static bb_status add_trial(struct sweep *s, const struct bb_tensor_way *way,
			   enum bb_tensor_half half)
{
	static const char *const names[HALVES] = {"", " alone: computations",
						  " alone: communication"};
	const struct bb_tensor_form form = {
		.way = way,
		.size = &s->tensor->size,
		.layers = way->of == BB_TENSOR_LAYER ? (size_t)asked(s)->layers : 1,
		.half = half};
	struct bb_tensor_program *program = &s->programs[s->trials.n];
	struct bb_trial *trial = &s->list[s->trials.n++];

	snprintf(trial->what, sizeof(trial->what), "%s by %s%s", way->part, way->name, names[half]);
	trial->play = (struct bb_play){.program = &program->program,
				       .stand_in = (enum bb_stand_in)asked(s)->stand_in,
				       .own = program};
	return bb_tensor_program_make(program, &form, s->run->world.nranks, &s->run->error);
}

static bb_status make_trials(struct sweep *s)
{
	bb_status status = BB_OK;

	s->trials.run = s->run;
	s->trials.driver = s->driver;
	s->trials.list = s->list;
	for (size_t i = 0; i < asked(s)->nways && status == BB_OK; i++) {
		const struct bb_tensor_way *way = asked(s)->ways[i];

		if (bb_tensor_refuses(way, &s->tensor->size, s->run->world.nranks))
			continue;
		s->ways[s->nways++] = way;
		for (int half = 0; half < HALVES && status == BB_OK; half++)
			status = add_trial(s, way, (enum bb_tensor_half)half);
	}
	return status;
}

static bb_status tell_skips(struct sweep *s)
{
	bb_status status = BB_OK;

	for (size_t i = 0; i < asked(s)->nways && status == BB_OK; i++) {
		const struct bb_tensor_way *way = asked(s)->ways[i];
		const char *reason = bb_tensor_refuses(way, &s->tensor->size, s->run->world.nranks);

		if (reason)
			status = skip(s, way, reason);
	}
	return status;
}

/* ---- what comes of it -------------------------------------------------------------------- */

/* Ring attention keeps no scores: its blocks are computed again, as selective recomputation does.
   What a gated MLP keeps is not counted: the matrices are those of one without gates. */
static void describe_memory(const struct sweep *s, const struct bb_tensor_way *way,
			    struct bb_tensor_record *r)
{
	const bool gated = s->tensor->model.gated;
	struct bb_layer layer = bb_layer_of_model(&s->tensor->model, (uint64_t)asked(s)->batch,
						  (unsigned)bb_dtype_size(asked(s)->dtype));

	if (way->of != BB_TENSOR_LAYER)
		return;
	r->kept_unsplit_bytes = (int64_t)bb_layer_kept(&layer, BB_RECOMPUTE_NONE);
	layer.tp = (uint64_t)r->nranks;
	layer.sequence_parallel = way->mode != BB_TENSOR_SPLIT;
	r->kept_formula_bytes = (int64_t)bb_layer_kept(
		&layer, way->mode == BB_TENSOR_RING ? BB_RECOMPUTE_SELECTIVE : BB_RECOMPUTE_NONE);
	if (!gated)
		r->kept_bytes = (int64_t)bb_tensor_kept(way, &s->tensor->size, layer.tp, true);
}

static void describe(const struct sweep *s, size_t i, struct bb_tensor_record *r)
{
	const struct bb_tensor_program *program = &s->programs[HALVES * i];
	const struct bb_tensor_way *way = s->ways[i];
	size_t calls;

	bb_record_init(&bb_record_tensor, r);
	r->model = s->tensor->model.name;
	r->part = way->part;
	r->way = way->name;
	r->dtype = bb_dtype_name(asked(s)->dtype);
	r->nranks = s->run->world.nranks;
	r->layers = (int64_t)program->form.layers;
	r->seq = s->tensor->model.hyper.seq;
	r->batch = asked(s)->batch;
	r->compute = bb_stand_in_names[asked(s)->stand_in];
	r->wire_bytes = bb_tensor_wire_counted(program, &calls);
	r->calls = (int64_t)calls;
	r->formula_bytes = (double)r->layers *
			   bb_tensor_wire_formula(way, &s->tensor->size, s->run->world.nranks);
	describe_memory(s, way, r);
}

/* Is there any computation for communication to hide behind? */
static bool computes(const struct bb_tensor_program *program)
{
	for (size_t i = 0; i < program->n; i++)
		if (program->list[i].act == BB_ACT_COMPUTE && program->list[i].seconds > 0)
			return true;
	return false;
}

static void measure(const struct sweep *s, size_t i, struct bb_tensor_record *r)
{
	const struct bb_stats *step = &s->list[HALVES * i].stats;
	const double compute_s = s->list[HALVES * i + BB_TENSOR_COMPUTE].stats.p50;
	const double communicate_s = s->list[HALVES * i + BB_TENSOR_COMMUNICATE].stats.p50;

	r->step_us = 1e6 * step->p50;
	r->low_us = 1e6 * step->ci_low;
	r->high_us = 1e6 * step->ci_high;
	r->p95_us = 1e6 * step->p95;
	r->samples = (int64_t)step->n;
	r->compute_us = 1e6 * compute_s;
	r->communicate_us = 1e6 * communicate_s;
	r->exposed_us = r->step_us - r->compute_us;
	if (computes(&s->programs[HALVES * i])) {
		r->hidden_us = r->communicate_us - r->exposed_us;
		if (r->calls > 0 && communicate_s > 0)
			r->hidden = r->hidden_us / r->communicate_us;
	}
	r->end_unix_s = bb_clock_unix();
}

static const char *refusal_of(const struct sweep *s, size_t i)
{
	for (int half = 0; half < HALVES; half++)
		if (s->list[HALVES * i + (size_t)half].refusal[0])
			return s->list[HALVES * i + (size_t)half].refusal;
	return NULL;
}

static bb_status deliver(struct sweep *s)
{
	struct bb_tensor_record record;
	bb_status status = BB_OK;

	bb_ticker_hide(&s->run->ticker);
	for (size_t i = 0; i < s->nways && status == BB_OK; i++)
		if (refusal_of(s, i))
			status = skip(s, s->ways[i], refusal_of(s, i));
	for (size_t i = 0; i < s->nways && status == BB_OK; i++) {
		if (refusal_of(s, i))
			continue;
		describe(s, i, &record);
		measure(s, i, &record);
		s->run->end.results++;
		status = bb_sinks_record(&s->run->sinks, &bb_record_tensor, &record);
	}
	return status;
}

/* ---- all of it --------------------------------------------------------------------------- */

static bb_status tell_unchecked(struct sweep *s, const char *reason)
{
	char text[256];

	if (!bb_driver_leads(s->driver))
		return BB_OK;
	snprintf(text, sizeof(text), "# Not held against unsplit modules: %s\n", reason);
	return bb_sinks_comment(&s->run->sinks, text);
}

static bb_status check(struct sweep *s)
{
	const char *reason = bb_tensor_equality_refuses(s->run);

	if (s->run->options.check == 0)
		return tell_unchecked(s, "-c 0");
	return reason ? tell_unchecked(s, reason) : bb_tensor_equality(s->run, s->driver);
}

static bb_status time_all(struct sweep *s)
{
	bb_status status = make_trials(s);

	if (status == BB_OK)
		status = tell_skips(s);
	if (status == BB_OK)
		status = bb_trials_measure(&s->trials);
	if (status == BB_OK && bb_driver_leads(s->driver))
		status = deliver(s);
	return status;
}

bb_status bb_tensor_drive(struct bb_driver *driver, void *argument)
{
	struct bb_run *run = argument;
	struct sweep s = {.tensor = run->own, .run = run, .driver = driver};
	bb_status status = bb_run_attend(run, driver, 0, &s.world);

	if (status == BB_OK)
		status = bb_run_begin(run, driver, NAN);
	if (status == BB_OK)
		status = check(&s);
	if (status == BB_OK && !asked(&s)->equality)
		status = time_all(&s);
	status = bb_crew_part(driver, status);
	bb_trials_free(&s.trials);
	for (size_t i = 0; i < s.trials.n; i++)
		bb_tensor_program_free(&s.programs[i]);
	run->options.backend->group_close(s.world);
	atomic_store(&driver->progress->finished, status == BB_OK);
	return status;
}
