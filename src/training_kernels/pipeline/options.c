/*
 * options.c - what can be asked of pipelines.
 */
#include "harness/run/options_check.h"
#include "harness/measure/play.h"
#include "core/units.h"
#include "models/memory/activations.h"
#include "models/model.h"
#include "training_kernels/pipeline/pipeline.h"

#include <string.h>

#define BB_TARGET struct bb_pipeline_options
#include "harness/measure/step_rows.h"

#define MOST_MICROBATCHES 65535
#define MOST_CHUNKS 64
#define MOST_BYTES (INT64_C(1) << 40)
/* Of a microbatch of a model, so that sums of all passes are whole numbers. */
#define MOST_SECONDS 1000
#define MOST_KEPT (4 * MOST_BYTES)
#define DEFAULT_STAGES 4

#define BYTES(word, field, init, text)                                                             \
	{                                                                                          \
		ROW(BB_OPT_SIZE, word, 0, field, init, "SIZE", text), .min = 4, .max = MOST_BYTES, \
								      GIVEN(bytes_given)           \
	}
#define PASS_TIME(word, field, text)                                                               \
	{                                                                                          \
		DURATION(word, 0, field, "10ms", 1, text), GIVEN(pass_given)                       \
	}

static const char *const costs[] = {[BB_COST_STAGE] = "stage", [BB_COST_STEP] = "step", NULL};

const struct bb_option bb_pipeline_rows[] = {
	{STRING("schedule", 0, schedule_text, "all", "LIST",
		"schedules (see --list), in that order, or all"),
	 .section = "Pipeline"},
	{INT("stages", 0, stages, NULL, "N", 1, BB_PIPELINE_STAGES,
	     "of the pipeline, a rank each; without it as many as there are ranks, or 4"),
	 GIVEN(stages_given)},
	{INT("microbatches", 0, microbatches, "8", "N", 1, MOST_MICROBATCHES, "of a step")},
	{INT("chunks", 0, chunks, "2", "N", 1, MOST_CHUNKS,
	     "parts of the model on each stage, for interleaved")},
	{INT("memory", 0, memory, NULL, "N", 1, MOST_MICROBATCHES,
	     "for zb-auto: activations of that many microbatches fit; without it twice the "
	     "stages")},
	{CHOICE("cost", cost, "stage", "WORD", costs,
		"for zb-auto: what a step costs and is to be little. stage: the longest time of a "
		"stage "
		"from its first pass to its last; step: the time until the last pass of all is "
		"done, "
		"as where all stages wait for each other before the optimizer")},
	{FLAG("predict", 0, predict, "only predict: nothing is run, for any number of stages")},
	{FLAG("gantt", 0, gantt,
	      "draw what each stage does when, and write a record of each pass")},
	{ITERS_ROW("5", "timed steps of each schedule"), GIVEN(iters_given)},
	{COMPUTE_ROW},
	PASS_TIME("tf", tf_ns, "forward pass of a microbatch on a stage, all its chunks"),
	PASS_TIME("tb", tb_ns, "backward pass, the half that makes the gradient of the input"),
	PASS_TIME("tw", tw_ns, "the half that makes the gradients of the weights"),
	{DURATION("tc", 0, tc_ns, NULL, 0,
		  "for the prediction: from the end of a pass until another stage has its result; "
		  "without it measured, with --predict 0"),
	 GIVEN(tc_given)},
	BYTES("mb", mb_bytes, "2M", "activations that F of a microbatch leaves on a stage"),
	BYTES("mw", mw_bytes, NULL,
	      "what of them W still needs when B is done; without it half of --mb"),
	BYTES("message", message_bytes, "4K", "what a microbatch takes from one part to the next"),
	{STRING("model", 0, model_text, NULL, "NAME|FILE",
		"times and bytes from a transformer instead: a preset, a family with its "
		"hyperparameters (see --list), or a config.json; needs --flops"),
	 .section = "Model"},
	{FLOPS_ROW("")},
	{SEQ_ROW, GIVEN(seq_given)},
	{INT("batch", 0, batch, "1", "N", 1, INT64_C(1) << 30, "sequences of a microbatch"),
	 GIVEN(batch_given)},
	{.name = NULL},
};

/* ---- the list ------------------------------------------------------------------------------- */

static bb_status add_schedule(struct bb_pipeline_options *a,
			      const struct bb_pipeline_schedule *schedule, struct bb_error *error)
{
	for (int i = 0; i < a->nschedules; i++)
		if (a->schedules[i] == schedule)
			return bb_fail(error, BB_EUSAGE, "--schedule: %s is there twice",
				       schedule->name);
	a->schedules[a->nschedules++] = schedule;
	return BB_OK;
}

static bb_status refuse_schedule(const char *word, struct bb_error *error)
{
	const char *names[BB_PIPELINE_SCHEDULES + 2] = {"all"};
	char hint[64];
	int n = 1;

	for (const struct bb_pipeline_schedule *s = bb_pipeline_schedules; s->name; s++)
		names[n++] = s->name;
	return bb_fail(error, BB_EUSAGE, "--schedule: \"%s\" is not a schedule%s (see --list)",
		       word, bb_suggest(hint, word, names));
}

static bb_status read_schedules(struct bb_pipeline_options *a, struct bb_error *error)
{
	const char *rest = a->schedule_text;
	bb_status status = BB_OK;
	char word[BB_WORD];

	if (strcmp(rest, "all") == 0) {
		for (const struct bb_pipeline_schedule *s = bb_pipeline_schedules; s->name; s++)
			a->schedules[a->nschedules++] = s;
		return BB_OK;
	}
	do {
		const bool whole = bb_next_word(&rest, word);
		const struct bb_pipeline_schedule *schedule = bb_pipeline_find(word);

		if (!whole || !schedule)
			return refuse_schedule(word, error);
		status = add_schedule(a, schedule, error);
	} while (status == BB_OK && *rest++ == ',');
	return status;
}

/* ---- the model ------------------------------------------------------------------------------ */

/* Nanoseconds of FLOPS; a pass that takes none is none. */
static int64_t ns_of(const struct bb_pipeline_options *a, double flops)
{
	return flops > 0 ? 1 + (int64_t)(1e9 * flops * (double)a->batch / a->rate) : 0;
}

static void add_work(const struct bb_pipeline_options *a, const struct bb_work *work,
		     struct bb_pipeline_end *to)
{
	to->f += ns_of(a, work->forward);
	to->b += ns_of(a, work->input);
	to->w += ns_of(a, work->weights);
}

/* What W of a layer needs: inputs of its products with weights and gradients of their outputs, of
   all routes. 32 s b h of an inner width 4 h (arXiv 2401.10241, 2.3). */
static uint64_t weights_need(const struct bb_layer *l)
{
	const uint64_t attention = 2 * l->hidden + 2 * l->queries + 2 * l->keys;
	const uint64_t inner = 2 * l->hidden + (l->gated ? 3 : 2) * l->ffn;

	return l->seq * l->batch * l->bytes * (attention + l->routes * inner);
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/*
 * Layers take the FLOPs of the model's halves and keep what memory/activations.h says, in 16 bits.
 * The embedding is on the first stage, norm, head or pooler and the loss on the last. From part to
 * part go 2 s b h bytes. False: more than can be added up.
 */
static bool take_model(const struct bb_model *m, struct bb_pipeline_options *a)
{
	const struct bb_layer layer = bb_layer_of_model(m, (uint64_t)a->batch, 2);
	const uint64_t kept = bb_layer_kept(&layer, BB_RECOMPUTE_NONE);
	const uint64_t head = m->logits ? bb_head_kept(&layer, (uint64_t)m->hyper.vocab) : 0;
	const double seconds = (m->forward + m->backward) * (double)a->batch / a->rate;
	struct bb_pipeline_end one = {0, 0, 0, 0, 0};

	if (bb_bytes_add(bb_bytes_times(kept, (uint64_t)m->blocks), head) > MOST_KEPT ||
	    seconds > MOST_SECONDS)
		return false;
	a->layers = m->blocks;
	for (size_t i = 0; i < m->nworks; i++)
		add_work(a, &m->works[i],
			 m->works[i].layer == 0           ? &one
			 : m->works[i].layer < 0          ? &a->first
			 : m->works[i].layer >= m->blocks ? &a->last
							  : &(struct bb_pipeline_end){0});
	a->tf_ns = (uint64_t)one.f;
	a->tb_ns = (uint64_t)one.b;
	a->tw_ns = (uint64_t)one.w;
	a->message_bytes = 2 * layer.seq * layer.batch * layer.hidden;
	a->mb_bytes = kept;
	a->mw_bytes = least(weights_need(&layer), kept);
	a->first.kept = (int64_t)bb_embedding_kept(&layer);
	a->last.kept = (int64_t)head;
	/* Half of the inputs is the head's; of the logits come their gradients. */
	a->last.kept_w = (int64_t)(head - (head ? layer.seq * layer.batch * layer.hidden * 2 : 0));
	return true;
}

static bb_status read_model(struct bb_pipeline_options *a, struct bb_error *error)
{
	struct bb_model model = {.ntensors = 0};
	bb_status status = BB_OK;

	BB_TRY(status, bb_read_flops(a->flops_text, &a->rate, error), out);
	BB_TRY(status, bb_model_open(&model, a->model_text, a->seq, error), out);
	if (model.hyper.heads == 0 || model.hyper.seq == 0)
		status = bb_fail(error, BB_EUSAGE,
				 "--model %s: is no transformer; give --tf, --tb and --tw",
				 a->model_text);
	else if (model.blocks < a->stages)
		status = bb_fail(error, BB_EUSAGE,
				 "--stages %lld: more than the %d layers of %s, which are not cut; "
				 "give at most as many",
				 (long long)a->stages, model.blocks, a->model_text);
	else if (!take_model(&model, a))
		status = bb_fail(
			error, BB_EUSAGE,
			"--model: a microbatch takes more than %d s, or more than 4 TiB of it "
			"are kept; give a smaller --batch or --seq, or more --flops",
			MOST_SECONDS);
out:
	bb_model_free(&model);
	return status;
}

static bb_status check_model(struct bb_pipeline_options *a, struct bb_error *error)
{
	const char *alone = a->flops_text    ? "--flops"
			    : a->seq_given   ? "--seq"
			    : a->batch_given ? "--batch"
					     : NULL;

	if (!a->model_text && alone)
		return bb_fail(error, BB_EUSAGE, "%s is of a --model; give one, or leave it out",
			       alone);
	if (a->stand_in == BB_GEMM && !a->model_text)
		return bb_fail(error, BB_EUSAGE,
			       "--compute gemm multiplies as a --model does; give one");
	if (!a->model_text) {
		if (!a->mw_bytes)
			a->mw_bytes = a->mb_bytes / 2;
		return BB_OK;
	}
	if (!a->flops_text)
		return bb_fail(error, BB_EUSAGE,
			       "--model: how long its passes take depends on --flops; give it");
	if (a->pass_given || a->bytes_given)
		return bb_fail(error, BB_EUSAGE,
			       "--model says how long passes take and how large activations and "
			       "messages are; leave out %s",
			       a->pass_given ? "--tf, --tb and --tw" : "--mb, --mw and --message");
	return read_model(a, error);
}

/* ---- together ------------------------------------------------------------------------------- */

static bb_status refuse_sizes(const struct bb_options *o, struct bb_error *error)
{
	const char *given = bb_options_size_given(o);

	if (!given && o->precision > 0)
		given = "--precision";
	if (!given)
		return BB_OK;
	return bb_fail(error, BB_EUSAGE,
		       "%s: a pipeline is not swept; leave it out, --message says how large its "
		       "messages are, -n how many steps are timed",
		       given);
}

/* Nothing is run: one rank that does nothing is enough. The link is the prediction's. */
static bb_status check_predict(struct bb_pipeline_options *a, struct bb_options *o,
			       struct bb_error *error)
{
	const char *given = o->fault_given                         ? "--fault"
			    : o->threads_given                     ? "-t"
			    : o->gpus_given                        ? "-g"
			    : strcmp(o->backend_text, "auto") != 0 ? "--backend"
								   : NULL;

	if (given)
		return bb_fail(error, BB_EUSAGE, "%s: --predict runs nothing; leave one out",
			       given);
	a->by_link = o->link_text;
	a->link_rate = o->config.link_rate;
	a->link_latency = o->config.link_latency;
	o->link_text = NULL;
	o->config.link_rate = o->config.link_latency = 0;
	return BB_OK;
}

/* A rank for each stage, where nobody says how many there are. */
static void choose_ranks(const struct bb_pipeline_options *a, struct bb_options *o,
			 const struct bb_environment *environment)
{
	if (!o->threads_given && !o->gpus_given && environment->launch.nprocs <= 1 &&
	    o->backend->max_local() > 1)
		o->gpus = a->stages_given ? a->stages : DEFAULT_STAGES;
}

static bb_status check_size(const struct bb_pipeline_options *a, struct bb_error *error)
{
	const int64_t chunks = a->chunks > 2 ? a->chunks : 2;

	if (a->mw_bytes > a->mb_bytes)
		return bb_fail(error, BB_EUSAGE,
			       "--mw: what W needs is a part of what F leaves; give at most --mb");
	if (3 * a->stages * a->microbatches * chunks > BB_PIPELINE_PASSES)
		return bb_fail(error, BB_EUSAGE,
			       "--stages, --microbatches and --chunks make more than %lld passes; "
			       "give less",
			       (long long)BB_PIPELINE_PASSES);
	return BB_OK;
}

bb_status bb_pipeline_check(const struct bb_benchmark *benchmark, void *own, struct bb_options *o,
			    const struct bb_environment *environment, struct bb_error *error)
{
	struct bb_pipeline_state *state = own;
	struct bb_pipeline_options *a = &state->asked;
	bb_status status;

	BB_TRY(status, refuse_sizes(o, error), out);
	BB_TRY(status, read_schedules(a, error), out);
	if (a->tc_given && o->link_text)
		return bb_fail(error, BB_EUSAGE,
			       "--tc and --link both say how long messages take; give one");
	if (a->predict)
		BB_TRY(status, check_predict(a, o, error), out);
	else
		choose_ranks(a, o, environment);
	if (!a->stages_given && a->predict)
		a->stages = DEFAULT_STAGES;
	else if (!a->stages_given)
		a->stages = o->threads * o->gpus *
			    (environment->launch.nprocs > 1 ? environment->launch.nprocs : 1);
	bb_options_set_iters(o, a->iters, a->iters_given);
	BB_TRY(status, check_model(a, error), out);
	status = check_size(a, error);
out:
	return status;
}
