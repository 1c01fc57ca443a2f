/*
 * options.c - the options of tensor and sequence parallelism.
 */
#include "training_kernels/tensor/tensor.h"

#include <string.h>

#define DEFAULT_RANKS 4

static const char *const dtypes[] = {"bfloat16", "half", "float", NULL};
static const char *const way_names[] = {"tensor", "sequence", "ulysses", "ring", "gather", NULL};

#define BB_OPTIONS struct bb_tensor_options
const struct bb_option bb_tensor_rows[] = BB_OPTION_ROWS(BB_TENSOR_OPTIONS);

/* Adds the schemes of NAME; NULL: all schemes. */
static void add_ways(struct bb_tensor_options *a, const char *name)
{
	for (const struct bb_tensor_scheme *w = bb_tensor_schemes; w->part; w++)
		if (w->mode != BB_TENSOR_ROWS && (!name || strcmp(name, w->name) == 0))
			a->schemes[a->nschemes++] = w;
}

/* ---- the layer --------------------------------------------------------------------------- */

/* FLOPs of matrices of so many ELEMENTS, for all tokens of a micro-batch. */
static double product(const struct bb_tensor_size *s, size_t elements)
{
	return 2.0 * (double)s->tokens * (double)elements;
}

/*
 * Divides the FLOPs of the model's first layer into those of the core, which has no weights, of the
 * matrices of attention, by their sizes, and of the MLP, the rest.
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

/* Times by FLOPs per second, or by the time of forward and backward pass, three times the forward
   pass. */
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
			       "--model %s: not a transformer; give one, such as gpt2 or llama2-7b",
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
			       "--model %s: experts cannot be split; give a model without them",
			       a->model_text);
	share_out(t, s, (double)a->batch);
	take_time(a, s);
	return BB_OK;
}

/* ---- the check ---------------------------------------------------------------------------- */

bb_status bb_tensor_check(const struct bb_benchmark *benchmark, void *own, struct bb_options *o,
			  const struct bb_environment *environment, struct bb_error *error)
{
	struct bb_tensor_run *t = own;
	struct bb_tensor_options *a = &t->asked;
	bb_status status;

	if (a->flops_given && a->layer_ns_given)
		return bb_fail(error, BB_EUSAGE,
			       "--flops and --layer-time both set the time of a layer; give one");
	if (!a->way_choices_given)
		add_ways(a, NULL);
	for (size_t i = 0; a->way_choices_given && i < a->way_choices.n; i++)
		add_ways(a, way_names[a->way_choices.list[i]]);
	if (a->equality && o->check == 0)
		return bb_fail(error, BB_EUSAGE,
			       "--equality: -c 0 verifies nothing; leave one of them out");
	BB_TRY(status, bb_model_open(&t->model, a->model_text, a->seq, error), out);
	BB_TRY(status, take_model(t, error), out);
	/* Several ranks, unless their number is given. */
	if (!o->threads_given && !o->gpus_given && environment->launch.nprocs <= 1 &&
	    o->backend->max_local > 1)
		o->gpus = DEFAULT_RANKS;
out:
	return status;
}
