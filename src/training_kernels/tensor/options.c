/*
 * options.c - what can be asked of tensor and sequence parallelism.
 */
#include "core/units.h"
#include "harness/run/options_check.h"
#include "harness/measure/play.h"
#include "training_kernels/tensor/tensor.h"

#include <string.h>

#define BB_TARGET struct bb_tensor_options
#include "harness/measure/step_rows.h"

#define DEFAULT_RANKS 4

const struct bb_option bb_tensor_rows[] = {
	{STRING("model", 0, model_text, "gpt2", "NAME|FILE",
		"whose layer: a preset, a family with its hyperparameters (see --list), or a "
		"config.json"),
	 .section = "Model"},
	{SEQ_ROW},
	{INT("micro-batch", 0, batch, "1", "N", 1, INT64_C(1) << 20,
	     "sequences that go through the layer at once")},
	{INT("layers", 0, layers, "1", "N", 1, 1024, "of a step, all alike")},
	{STRING("datatype", 'd', dtype_text, "bfloat16", "TYPE",
		"of activations: bfloat16, half or float")},
	{STRING("way", 0, way_text, "all", "LIST",
		"how parts are split, where they can be: tensor, sequence, ulysses, ring, gather; "
		"or "
		"all"),
	 .section = "Parallelism"},
	{FLAG("equality", 0, equality,
	      "hold split parts against unsplit ones on small matrices; time nothing")},
	{FLOPS_ROW(": how long its part takes"), .section = "Time"},
	{DURATION("layer-time", 0, layer_ns, "40ms", 1,
		  "instead: forward and backward pass of the unsplit layer"),
	 GIVEN(layer_given)},
	{COMPUTE_ROW},
	{ITERS_ROW("10", "steps of each kind, over all rounds"), GIVEN(iters_given)},
	{.name = NULL},
};

/* ---- each by itself ---------------------------------------------------------------------- */

static bb_status read_dtype(struct bb_tensor_options *a, struct bb_error *error)
{
	static const char *const names[] = {"bfloat16", "half", "float", NULL};
	char hint[64];

	for (int i = 0; names[i]; i++)
		if (strcmp(names[i], a->dtype_text) == 0) {
			a->dtype = bb_dtype_named(names[i]);
			return BB_OK;
		}
	return bb_fail(error, BB_EUSAGE,
		       "-d: \"%s\" is not a datatype of activations%s (bfloat16, half, float)",
		       a->dtype_text, bb_suggest(hint, a->dtype_text, names));
}

/* Ways of that name; there are none where only the wrong one is called so. */
static bool add_ways(struct bb_tensor_options *a, const char *name)
{
	const size_t before = a->nways;

	for (const struct bb_tensor_way *w = bb_tensor_ways; w->part; w++)
		if (w->mode != BB_TENSOR_ROWS && (!name || strcmp(name, w->name) == 0))
			a->ways[a->nways++] = w;
	return a->nways > before;
}

static bool has_way(const struct bb_tensor_options *a, const char *name)
{
	for (size_t i = 0; i < a->nways; i++)
		if (strcmp(a->ways[i]->name, name) == 0)
			return true;
	return false;
}

static bb_status read_ways(struct bb_tensor_options *a, struct bb_error *error)
{
	static const char *const names[] = {"tensor", "sequence", "ulysses", "ring",
					    "gather", "all",      NULL};
	const char *rest = a->way_text;
	char word[BB_WORD], hint[64];

	if (strcmp(rest, "all") == 0) {
		add_ways(a, NULL);
		return BB_OK;
	}
	do {
		const bool whole = bb_next_word(&rest, word);

		if (whole && has_way(a, word))
			return bb_fail(error, BB_EUSAGE, "--way: %s is there twice", word);
		if (!whole || !add_ways(a, word))
			return bb_fail(error, BB_EUSAGE,
				       "--way: \"%s\" is not a way to split%s (tensor, sequence, "
				       "ulysses, ring, gather)",
				       word, bb_suggest(hint, word, names));
	} while (*rest++ == ',');
	return BB_OK;
}

static bb_status read_time(struct bb_tensor_options *a, struct bb_error *error)
{
	if (a->flops_text && a->layer_given)
		return bb_fail(
			error, BB_EUSAGE,
			"--flops and --layer-time both say how long a layer takes; give one");
	return bb_read_flops(a->flops_text, &a->flops, error);
}

static bb_status refuse_sizes(const struct bb_options *o, struct bb_error *error)
{
	const char *given = bb_options_size_given(o);

	if (!given)
		return BB_OK;
	return bb_fail(error, BB_EUSAGE,
		       "%s: what is sent follows from the model; leave it out, --seq and "
		       "--micro-batch say how much it is",
		       given);
}

/* ---- the layer --------------------------------------------------------------------------- */

/* FLOPs of matrices; all tokens of a micro-batch go through them. */
static double product(const struct bb_tensor_size *s, size_t elements)
{
	return 2.0 * (double)s->tokens * (double)elements;
}

/*
 * The FLOPs of the model's first layer: of its core, which has no weights, of the matrices of
 * attention, by their sizes, and of the MLP, which is all the rest.
 */
static void share_out(const struct bb_tensor_run *t, struct bb_tensor_size *s, double batch)
{
	double matrices = 0;

	for (size_t i = 0; i < t->model.nworks; i++) {
		const struct bb_work *w = &t->model.works[i];

		if (w->layer != 0)
			continue;
		if (w->weights == 0)
			s->core.flops += w->forward * batch;
		else
			matrices += w->forward * batch;
	}
	s->project.flops = product(s, s->hidden * (s->queries + 2 * s->keys));
	s->output.flops = product(s, s->queries * s->hidden);
	s->mlp.flops = matrices - s->project.flops - s->output.flops;
}

/* How long each takes: FLOPs per second, or forward and backward of all, which is three times as
   much as forward. */
static void take_time(const struct bb_tensor_options *a, struct bb_tensor_size *s)
{
	struct bb_tensor_cost *const costs[] = {&s->project, &s->core, &s->output, &s->mlp};
	double all = 0;

	for (int i = 0; i < 4; i++)
		all += 3 * costs[i]->flops;
	for (int i = 0; i < 4; i++)
		costs[i]->seconds = a->flops > 0
					    ? costs[i]->flops / a->flops
					    : 1e-9 * (double)a->layer_ns * costs[i]->flops / all;
}

static bb_status take_model(struct bb_tensor_run *t, struct bb_error *error)
{
	const struct bb_tensor_options *a = &t->asked;
	const struct bb_hyper *h = &t->model.hyper;
	struct bb_tensor_size *s = &t->size;

	if (h->heads == 0 || h->seq == 0)
		return bb_fail(error, BB_EUSAGE,
			       "--model %s: is no transformer; give one, as gpt2 or llama2-7b",
			       a->model_text);
	*s = (struct bb_tensor_size){
		.tokens = (size_t)(h->seq * a->batch),
		.seq = (size_t)h->seq,
		.hidden = (size_t)h->hidden,
		.queries = (size_t)(h->heads * h->head_dim),
		.keys = (size_t)(h->kv_heads * h->head_dim),
		.heads = (size_t)h->heads,
		.kv_heads = (size_t)h->kv_heads,
		.ffn = (size_t)h->ffn,
		.vocab = (size_t)h->vocab,
		.dtype = a->dtype,
		.loss_dtype = BB_FLOAT,
	};
	if (h->experts)
		return bb_fail(error, BB_EUSAGE,
			       "--model %s: experts are not split here; give a model without them",
			       a->model_text);
	share_out(t, s, (double)a->batch);
	take_time(a, s);
	return BB_OK;
}

/* ---- together ---------------------------------------------------------------------------- */

bb_status bb_tensor_check(const struct bb_benchmark *benchmark, void *own, struct bb_options *o,
			  const struct bb_environment *environment, struct bb_error *error)
{
	struct bb_tensor_run *t = own;
	struct bb_tensor_options *a = &t->asked;
	bb_status status;

	bb_options_set_iters(o, a->iters, a->iters_given);
	BB_TRY(status, refuse_sizes(o, error), out);
	BB_TRY(status, read_dtype(a, error), out);
	BB_TRY(status, read_ways(a, error), out);
	BB_TRY(status, read_time(a, error), out);
	if (a->equality && o->check == 0)
		return bb_fail(error, BB_EUSAGE, "--equality: -c 0 checks nothing; leave one out");
	BB_TRY(status, bb_model_open(&t->model, a->model_text, a->seq, error), out);
	BB_TRY(status, take_model(t, error), out);
	/* More than one rank, where nobody says how many. */
	if (!o->threads_given && !o->gpus_given && environment->launch.nprocs <= 1 &&
	    o->backend->max_local > 1)
		o->gpus = DEFAULT_RANKS;
out:
	return status;
}
