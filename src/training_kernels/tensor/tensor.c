/*
 * tensor.c - tensor and sequence parallelism: options, records and descriptor of the benchmark.
 */
#include "training_kernels/tensor/tensor.h"

#include "core/units.h"
#include "training_kernels/estimate.h"

#include <stdio.h>
#include <string.h>

/* ---- options --------------------------------------------------------------------------------- */

#define DEFAULT_RANKS 4

static const char *const dtypes[] = {"bfloat16", "half", "float", NULL};
static const char *const scheme_names[] = {"tensor", "sequence", "ulysses", "ring", "gather", NULL};

#define BB_OPTIONS struct bb_tensor_options
const struct bb_option bb_tensor_rows[] = BB_OPTION_ROWS(BB_TENSOR_OPTIONS);

/* Adds the schemes of NAME; NULL: all schemes. */
static void add_schemes(struct bb_tensor_options *a, const char *name)
{
	for (const struct bb_tensor_scheme *s = bb_tensor_schemes; s->part; s++)
		if (s->mode != BB_TENSOR_ROWS && (!name || strcmp(name, s->name) == 0))
			a->schemes[a->nschemes++] = s;
}

/* ---- the layer ------------------------------------------------------------------------------- */

/* FLOPs of matrices of so many ELEMENTS, for all tokens of a micro-batch. */
static double product(const struct bb_tensor_size *s, size_t elements)
{
	return 2.0 * (double)s->tokens * (double)elements;
}

/*
 * Divides the FLOPs of the model's first layer into those of the core, which has no weights, of the
 * matrices of attention, by their sizes, and of the MLP, the rest.
 */
static void divide_flops(const struct bb_tensor_run *t, struct bb_tensor_size *s, double batch)
{
	double matrices = 0;

	for (size_t i = 0; i < t->model.nworks; i++) {
		const struct bb_work *w = &t->model.works[i];

		if (w->layer != 0)
			continue;
		if (w->core != BB_CORE_NONE) {
			s->core.flops += w->forward * batch;
			s->core_back.flops += w->input * batch;
		} else {
			matrices += w->forward * batch;
		}
	}
	s->project.flops = product(s, s->hidden * (s->queries + 2 * s->keys));
	s->output.flops = product(s, s->queries * s->hidden);
	s->mlp.flops = matrices - s->project.flops - s->output.flops;
}

/* Times by FLOPs per second, or by the time of forward and backward pass, which of matrices are
   three times the forward pass. */
static void set_times(const struct bb_tensor_options *a, struct bb_tensor_size *s)
{
	struct bb_tensor_cost *const costs[] = {&s->project, &s->output, &s->mlp, &s->core,
						&s->core_back};
	double all = 0;

	for (int i = 0; i < 5; i++)
		all += (i < 3 ? 3 : 1) * costs[i]->flops;
	for (int i = 0; i < 5; i++)
		costs[i]->seconds = a->flops > 0
					    ? costs[i]->flops / a->flops
					    : 1e-9 * (double)a->layer_ns * costs[i]->flops / all;
}

static bb_status tensor_apply_model(struct bb_tensor_run *t, struct bb_error *error)
{
	const struct bb_tensor_options *a = &t->options;
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
		.flash = a->attention == BB_ATTENTION_FLASH,
	};
	if (h->experts)
		return bb_fail(error, BB_EUSAGE,
			       "--model %s: experts cannot be split; give a model without them",
			       a->model_text);
	if (h->kv_lora || h->decoders)
		return bb_fail(error, BB_EUSAGE,
			       "--model %s: latent attention and encoders with decoders cannot be "
			       "split; give a decoder with separate heads",
			       a->model_text);
	bb_attention_apply(&t->model, (enum bb_attention)a->attention);
	divide_flops(t, s, (double)a->batch);
	set_times(a, s);
	return BB_OK;
}

/* ---- the check ------------------------------------------------------------------------------- */

static bb_status tensor_check(const struct bb_benchmark *benchmark, void *own, struct bb_options *o,
			      const struct bb_environment *environment, struct bb_error *error)
{
	struct bb_tensor_run *t = own;
	struct bb_tensor_options *a = &t->options;
	bb_status status;

	if (a->flops_given && a->layer_ns_given)
		return bb_fail(error, BB_EUSAGE,
			       "--flops and --layer-time both set the time of a layer; give one");
	if (!a->scheme_choices_given)
		add_schemes(a, NULL);
	for (size_t i = 0; a->scheme_choices_given && i < a->scheme_choices.n; i++)
		add_schemes(a, scheme_names[a->scheme_choices.list[i]]);
	if (a->equality && o->check == 0)
		return bb_fail(error, BB_EUSAGE,
			       "--equality: -c 0 verifies nothing; leave one of them out");
	BB_TRY(status, bb_model_open(&t->model, a->model_text, a->seq, error), out);
	BB_TRY(status, tensor_apply_model(t, error), out);
	bb_estimate_set_ranks(o, environment, DEFAULT_RANKS);
out:
	return status;
}

/* ---- the records: costs of splitting; equality with unsplit modules -------------------------- */

static void about_equality(const void *record, struct bb_strbuf *out)
{
	const struct bb_tensor_equality_record *r = record;

	bb_strbuf_addf(
		out,
		"#\n# Split over %lld rank%s, compared with unsplit parts: small matrices, forward "
		"and "
		"backward. A tolerance of 0 is bit for bit;\n"
		"# others are in units of the last place of the largest number of a matrix.\n",
		(long long)r->nranks, bb_plural(r->nranks));
}

static void tensor_about(const void *record, struct bb_strbuf *out)
{
	const struct bb_tensor_record *r = record;

	bb_strbuf_addf(out,
		       "#\n# %s over %lld rank%s: %lld layer%s, %lld tokens (%lld x %lld), %s; "
		       "computations: %s\n"
		       "# wire: bytes that a rank sends in a step; kept: activations of a layer on "
		       "a rank with %s attention; each counted and by formula.",
		       r->model, (long long)r->nranks, bb_plural(r->nranks), (long long)r->layers,
		       bb_plural(r->layers), (long long)(r->seq * r->batch), (long long)r->batch,
		       (long long)r->seq, r->dtype, r->compute, r->attention);
	if (r->kept_unsplit_bytes != BB_ABSENT)
		bb_strbuf_addf(out, " An unsplit layer keeps %.3f MiB.",
			       (double)r->kept_unsplit_bytes / (1 << 20));
	bb_strbuf_add(out, "\n# Times are medians.\n");
}

#define BB_RECORD bb_tensor_record
BB_RECORD_KIND(bb_record_tensor, BB_TENSOR_FIELDS, "tensor_parallel",
	       "Tensor parallelism: a part of a model, split by one scheme.",
	       .about = tensor_about);

#undef BB_RECORD
#define BB_RECORD bb_tensor_equality_record
BB_RECORD_KIND(bb_record_tensor_equality, BB_TENSOR_EQUALITY_FIELDS, "tensor_equality",
	       "Tensor parallelism: a module on small matrices, compared with the unsplit one.",
	       .about = about_equality);

/* ---- the benchmark --------------------------------------------------------------------------- */

static void tensor_list(struct bb_strbuf *out)
{
	bb_strbuf_add(out, "schemes (--way):\n");
	for (const struct bb_tensor_scheme *s = bb_tensor_schemes; s->part; s++)
		bb_strbuf_addf(out, "    %-10s %-9s %s\n", s->name, s->part, s->brief);
	bb_model_list(out);
}

static bb_status tensor_plan(struct bb_run *run)
{
	const struct bb_tensor_run *tensor = run->own;
	const struct bb_tensor_options *a = &tensor->options;
	const char *reason = bb_tensor_equality_refuses(run);

	if (a->equality && reason)
		return bb_fail(&run->error, BB_EUNSUPPORTED, "--equality: %s", reason);
	for (size_t i = 0; i < a->nschemes && !a->equality; i++) {
		reason = bb_tensor_refuses(a->schemes[i], &tensor->size, run->world.nranks);
		if (!reason)
			return BB_OK;
	}
	if (a->equality)
		return BB_OK;
	return bb_fail(&run->error, BB_EUNSUPPORTED, "--model %s on %d ranks: %s", a->model_text,
		       run->world.nranks, reason);
}

static void close_tensor(struct bb_run *run)
{
	struct bb_tensor_run *tensor = run->own;

	bb_model_free(&tensor->model);
}

const struct bb_benchmark bb_tensor_benchmark = {
	.brief = "Tensor and sequence parallelism: a transformer layer split over ranks.",
	.examples = {"-g 4 --equality",
		     "--backend sim -g 8 --link 400GB/s,2us --flops 400T --model llama2-7b"},
	.own_bytes = sizeof(struct bb_tensor_run),
	.options = bb_tensor_rows,
	.faults = 1u << BB_FAULT_CORRUPT | 1u << BB_FAULT_DIE,
	.refuses = {{BB_ALL_SIZES, "sizes follow from the model; leave it out, --seq and "
				   "--micro-batch set them"}},
	.queues = true,
	.check = tensor_check,
	.list = tensor_list,
	.open_text = bb_sink_table_open,
	.rows = &bb_record_tensor,
	.plan = tensor_plan,
	.experiment = &bb_tensor_experiment,
	.close = close_tensor,
};
