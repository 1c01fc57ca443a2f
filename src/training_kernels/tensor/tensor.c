/*
 * tensor.c - tensor and sequence parallelism: options, comparison with unsplit parts, records and
 * experiment of the benchmark.
 */
#include "training_kernels/tensor/tensor.h"

#include "core/units.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- options --------------------------------------------------------------------------------- */

#define DEFAULT_RANKS 4

static const char *const dtypes[] = {"bfloat16", "half", "float", NULL};
static const char *const scheme_names[] = {"tensor", "sequence", "ulysses", "ring", "gather", NULL};

#define BB_OPTIONS struct bb_tensor_options
static const struct bb_option tensor_rows[] = BB_OPTION_ROWS(BB_TENSOR_OPTIONS);

/* ---- the check ------------------------------------------------------------------------------- */

static bb_status tensor_check(const struct bb_benchmark *benchmark, void *own, struct bb_options *o,
			      const struct bb_environment *environment, struct bb_error *error)
{
	struct bb_tensor_run *t = own;
	struct bb_tensor_options *a = &t->options;
	const struct bb_hyper *h = &t->model.hyper;
	struct bb_tensor_size *s = &t->size;
	double matrices = 0;
	bb_status status;

	for (size_t i = 0; i < (a->scheme_choices_given ? a->scheme_choices.n : 1); i++)
		for (const struct bb_tensor_scheme *k = bb_tensor_schemes; k->part; k++)
			if (k->mode != BB_TENSOR_ROWS &&
			    (!a->scheme_choices_given ||
			     strcmp(scheme_names[a->scheme_choices.list[i]], k->name) == 0))
				a->schemes[a->nschemes++] = k;
	BB_TRY(status, bb_model_open(&t->model, a->model_text, a->seq, error), out);
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
	if (h->experts || h->kv_lora || h->decoders)
		return bb_fail(error, BB_EUSAGE,
			       "--model %s: %s cannot be split; give a decoder with separate heads "
			       "and without experts",
			       a->model_text,
			       h->experts ? "experts"
					  : "latent attention and encoders with decoders");
	/*
	 * The FLOPs of the first layer are divided into those of the core, which has no weights, of
	 * the matrices of attention, by their sizes, and of the MLP, the rest. Each takes as long
	 * as --flops or --layer-time say, where the backward pass of matrices has twice as many as
	 * the forward pass.
	 */
	bb_attention_apply(&t->model, (enum bb_attention)a->attention);
	for (size_t i = 0; i < t->model.nworks; i++) {
		const struct bb_work *w = &t->model.works[i];

		if (w->layer != 0)
			continue;
		if (w->core != BB_CORE_NONE) {
			s->core += w->forward * (double)a->batch;
			s->core_back += w->input * (double)a->batch;
		} else {
			matrices += w->forward * (double)a->batch;
		}
	}
	s->project = 2.0 * (double)s->tokens * (double)(s->hidden * (s->queries + 2 * s->keys));
	s->output = 2.0 * (double)s->tokens * (double)(s->queries * s->hidden);
	s->mlp = matrices - s->project - s->output;
	s->seconds = a->flops > 0
			     ? 1 / a->flops
			     : 1e-9 * (double)a->layer_ns / (3 * matrices + s->core + s->core_back);
	bb_estimate_set_ranks(o, environment, DEFAULT_RANKS);
out:
	return status;
}

/* ---- equality: split parts compared with unsplit ones, number by number ---------------------- */

#define MOST_RANKS 32 /* the time grows with the cube of the ranks */
/*
 * Attention in blocks rescales its sums by exponentials as larger scores arrive, so it rounds
 * differently from attention at once. Sums of at most 8 MOST_RANKS numbers follow, each off by at
 * most a unit in its last place: this is the tolerance, relative to the largest number of a matrix.
 */
#define RING_ULPS 256

/* The findings of one rank, then of all ranks, in one module. */
struct found {
	uint64_t compared[2], wrong[2]; /* of outputs, of gradients */
	double off;                     /* INFINITY: no number */
};

/* A split part of this rank, and the unsplit one. */
struct check {
	struct bb_variant variant;
	struct bb_tensor_size size;
	struct bb_tensor_state mine, whole;
};

/* The reason why results cannot be verified on this backend or with so many ranks, or NULL. */
static const char *equality_refuses(const struct bb_run *run)
{
	const struct bb_backend *backend = run->options.backend;

	if (!backend->has_data)
		return "the backend moves no data";
	if (backend->gpu)
		return "the CPU multiplies its matrices, and cannot access the memory of "
		       "GPUs";
	if (run->world.nranks > MOST_RANKS)
		return "its matrices are too large for more than 32 ranks";
	return NULL;
}

static void check_compute(void *own, int rank, const struct bb_operation *operation)
{
	bb_tensor_compute(&((struct check *)own)->mine, operation);
}

static void check_buffers(void *own, int rank, const struct bb_operation *operation, void **in,
			  void **out)
{
	bb_tensor_buffers(&((struct check *)own)->mine, operation, in, out);
}

/* The parts of SCHEME, the whole one as it is computed by a single rank, which sends nothing. */
static bb_status check_open(struct check *c, const struct bb_tensor_scheme *scheme)
{
	struct bb_kernel *k = c->variant.kernel;
	const size_t t = (size_t)k->engine.run->world.nranks;
	const struct bb_trial trial = {
		.workload = {.compute = check_compute, .buffers = check_buffers},
		.timing = BB_TIMING_STEPS,
		.steps = 1};
	struct bb_tensor_form form = {
		.scheme = scheme, .size = &c->size, .layers = 1, .real = true};
	struct bb_error *error = &k->engine.run->error;
	struct bb_taped alone = {.tapes = NULL}; /* the program of the whole */
	void *memory;
	bb_status status;

	/* Every scheme can divide two tokens and two heads for each rank. */
	c->size = (struct bb_tensor_size){.tokens = 2 * t,
					  .seq = 2 * t,
					  .hidden = 4 * t,
					  .queries = 4 * t,
					  .keys = 4 * t,
					  .heads = 2 * t,
					  .kv_heads = 2 * t,
					  .ffn = 8 * t,
					  .vocab = 4 * t,
					  .dtype = BB_DOUBLE,
					  .loss_dtype = BB_DOUBLE};
	c->mine = (struct bb_tensor_state){.scheme = scheme,
					   .size = &c->size,
					   .rank = (size_t)k->engine.driver->rank,
					   .t = t,
					   .grid = scheme->mode != BB_TENSOR_RING};
	BB_TRY(status, bb_tensor_write(&c->variant.taped, &form, (int)t, error), out);
	BB_TRY(status,
	       bb_engine_alloc(&k->engine, bb_tensor_state_numbers(&c->mine) * sizeof(double),
			       &memory),
	       out);
	bb_tensor_state_fill(&c->mine, memory);
	form.scheme = bb_tensor_schemes;
	while (form.scheme->of != scheme->of)
		form.scheme++;
	c->whole = (struct bb_tensor_state){
		.scheme = form.scheme, .size = &c->size, .t = 1, .grid = c->mine.grid};
	memory = bb_kernel_keep(k, bb_tensor_state_numbers(&c->whole), sizeof(double));
	if (!memory)
		return BB_EINTERNAL;
	bb_tensor_state_fill(&c->whole, memory);
	BB_TRY(status, bb_tensor_write(&alone, &form, 1, error), out);
	for (size_t i = 0; i < alone.tapes->n; i++)
		if (alone.tapes->list[i].act == BB_ACT_COMPUTE)
			bb_tensor_compute(&c->whole, &alone.tapes->list[i]);
	status = bb_variant_add(&c->variant, &trial, NULL, "check of %s by %s", scheme->part,
				scheme->name);
out:
	bb_taped_free(&alone);
	return status;
}

static void equality_compare(const struct check *c, int slot, int kind, struct found *found)
{
	const struct bb_tensor_place all = bb_tensor_place_of(&c->whole, slot);
	const struct bb_tensor_place p = bb_tensor_place_of(&c->mine, slot);
	const double *mine = c->mine.slots[slot], *whole = c->whole.slots[slot];
	const double tolerance = c->mine.grid ? 0 : RING_ULPS;
	double most = 0;

	for (size_t i = 0; i < all.rows * all.columns; i++)
		most = fmax(most, fabs(whole[i]));
	for (size_t r = 0; r < p.rows; r++)
		for (size_t i = 0; i < p.columns; i++) {
			const double a = mine[r * p.columns + i];
			const double b = whole[(p.row + r) * p.whole_columns + p.column + i];
			const double off = a == b ? 0 : fabs(a - b) / (DBL_EPSILON * most);

			found->wrong[kind] += !(off <= tolerance);
			if (!(off <= found->off))
				found->off = isnan(off) ? INFINITY : off;
		}
	found->compared[kind] += p.rows * p.columns;
}

static bb_status equality_deliver(struct check *c, const struct bb_tensor_results *results)
{
	const bool must_differ = c->mine.scheme->mode == BB_TENSOR_ROWS;
	const struct bb_tensor_place p = bb_tensor_place_of(&c->mine, results->output);
	double *const middle = &c->mine.slots[results->output][p.rows * p.columns / 2];
	struct bb_engine *e = &c->variant.kernel->engine;
	struct bb_tensor_equality_record r;
	struct found found = {.off = 0};
	bb_status status;

	/* The highest byte of a number: its change exceeds any tolerance. */
	BB_TRY(status, bb_engine_corrupt(e, (char *)middle + sizeof(double) - 1), out);
	equality_compare(c, results->output, 0, &found);
	for (int i = 0; i < results->ngradients; i++)
		equality_compare(c, bb_tensor_gradient(results, i), 1, &found);
	BB_TRY(status, bb_engine_sum(e, found.compared, 2), out);
	BB_TRY(status, bb_engine_sum(e, found.wrong, 2), out);
	BB_TRY(status, bb_driver_most(e->driver, &bb_payload_number, &found.off, 1), out);
	if (!bb_engine_leads(e))
		return BB_OK;
	bb_record_init(&bb_record_tensor_equality, &r);
	r.module = results->part;
	r.scheme = c->mine.scheme->name;
	r.nranks = (int64_t)c->mine.t;
	r.tolerance_ulps = c->mine.grid ? 0 : RING_ULPS;
	r.outputs = (int64_t)found.compared[0];
	r.gradients = (int64_t)found.compared[1];
	r.wrong_outputs = (int64_t)found.wrong[0];
	r.wrong_gradients = (int64_t)found.wrong[1];
	r.off_ulps = found.off;
	const bool equal = r.wrong_outputs + r.wrong_gradients == 0;
	r.passed = equal != must_differ;
	r.verdict = must_differ ? equal ? "equal, and must not be" : "wrong, as it must be"
		    : equal     ? "equal"
				: "wrong";
	status = bb_engine_deliver(e, &bb_record_tensor_equality, &r, !r.passed);
out:
	return status;
}

/*
 * Runs every scheme on small matrices and compares the results with the unsplit part; rank 0 writes
 * the records. Collective. A row that does not pass counts as wrong in run->end.
 */
static bb_status equality_run(struct bb_kernel *k)
{
	bb_status status = BB_OK;

	for (const struct bb_tensor_scheme *s = bb_tensor_schemes; s->part && status == BB_OK;
	     s++) {
		/* On one rank the rows are not split. */
		if (s->mode == BB_TENSOR_ROWS && k->engine.run->world.nranks == 1)
			continue;
		struct check *const c = bb_variant_new(k, sizeof(*c));
		BB_TRY(status, c ? check_open(c, s) : BB_EINTERNAL, out);
		BB_TRY(status, bb_engine_measure(&k->engine), out);
		for (const struct bb_tensor_results *r = bb_tensor_results; r->part; r++)
			if (r->of == s->of)
				BB_TRY(status, equality_deliver(c, r), out);
		/* Memory is released once no rank reads it any more. */
		BB_TRY(status, bb_driver_barrier(k->engine.driver), out);
		bb_engine_release(&k->engine, c->mine.memory);
		bb_kernel_close(&k->engine);
	}
out:
	bb_kernel_close(&k->engine);
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
		"# others are in units of the last place of the largest number of a matrix. rows "
		"must differ.\n",
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

static bb_status tensor_write(struct bb_variant *variant, struct bb_trial *trial,
			      const char **refusal)
{
	static const char *const names[BB_HALVES] = {"", " alone: computations",
						     " alone: communication"};
	struct bb_run *run = variant->kernel->engine.run;
	const struct bb_tensor_run *t = run->own;
	const struct bb_tensor_scheme *scheme = t->options.schemes[variant->setting];
	const struct bb_tensor_form form = {
		.scheme = scheme,
		.size = &t->size,
		.layers = scheme->of == BB_TENSOR_LAYER ? (size_t)t->options.layers : 1,
		.half = (enum bb_step_half)variant->part};

	variant->subject = scheme->part;
	variant->algorithm = scheme->name;
	variant->dtype = bb_dtype_name(t->options.dtype);
	trial->workload.stand_in = (enum bb_stand_in)t->options.stand_in;
	snprintf(trial->what, sizeof(trial->what), "%s by %s%s", scheme->part, scheme->name,
		 names[variant->part]);
	*refusal = bb_tensor_refuses(scheme, &t->size, run->world.nranks);
	return *refusal ? BB_OK
			: bb_tensor_write(&variant->taped, &form, run->world.nranks, &run->error);
}

/* ---- records --------------------------------------------------------------------------------- */

static void tensor_describe(const struct bb_kernel *k, size_t i, void *record)
{
	struct bb_tensor_record *r = record;
	const struct bb_tensor_run *t = k->engine.run->own;
	const struct bb_taped *taped = &k->variants[i * BB_HALVES]->taped;
	const struct bb_tensor_scheme *scheme = t->options.schemes[i];
	struct bb_layer layer = bb_layer_of_model(&t->model, false, (uint64_t)t->options.batch,
						  (unsigned)bb_dtype_size(t->options.dtype));
	const struct bb_tape_traffic traffic = bb_taped_traffic(taped, 0, NULL);
	bool computes = false; /* and may so hide communication */

	r->model = t->model.name;
	r->part = scheme->part;
	r->scheme = scheme->name;
	r->dtype = bb_dtype_name(t->options.dtype);
	r->nranks = k->engine.run->world.nranks;
	r->layers = scheme->of == BB_TENSOR_LAYER ? t->options.layers : 1;
	r->seq = t->model.hyper.seq;
	r->batch = t->options.batch;
	r->attention = bb_attention_words[t->options.attention];
	r->compute = bb_stand_in_names[t->options.stand_in];
	r->wire_bytes = traffic.sent;
	r->calls = (int64_t)traffic.calls;
	r->formula_bytes =
		(double)r->layers * bb_tensor_wire_formula(scheme, &t->size, (int)r->nranks);
	if (scheme->of == BB_TENSOR_LAYER) {
		layer.eager = !t->size.flash;
		r->kept_unsplit_bytes = (int64_t)bb_layer_kept(&layer, BB_RECOMPUTE_NONE);
		layer.tp = (uint64_t)r->nranks;
		layer.sequence_parallel = scheme->mode != BB_TENSOR_SPLIT;
		/* Ring attention keeps no scores: without FlashAttention its blocks are recomputed,
		   as by selective recomputation. */
		r->kept_formula_bytes =
			(int64_t)bb_layer_kept(&layer, scheme->mode == BB_TENSOR_RING && layer.eager
							       ? BB_RECOMPUTE_SELECTIVE
							       : BB_RECOMPUTE_NONE);
		/* The small matrices have no gates, so that gated MLPs are not counted. */
		if (!t->model.gated)
			r->kept_bytes = (int64_t)bb_tensor_kept(scheme, &t->size, layer.tp);
	}
	for (size_t j = 0; j < taped->tapes->n; j++)
		computes |= taped->tapes->list[j].act == BB_ACT_COMPUTE &&
			    taped->tapes->list[j].seconds > 0;
	BB_HALVES_SET(r, k, i, computes);
	if (traffic.calls == 0)
		r->hidden = NAN;
}

/* ---- the experiment -------------------------------------------------------------------------- */

static bb_status tensor_run(struct bb_engine *engine)
{
	struct bb_kernel *k = (struct bb_kernel *)engine;
	const struct bb_tensor_options *a = engine->run->own;
	const char *reason =
		engine->run->options.check == 0 ? "-c 0" : equality_refuses(engine->run);
	struct bb_strbuf line = {0}, answer = {0};
	bb_status status = BB_OK;

	if (!reason)
		BB_TRY(status, equality_run(k), out);
	if (a->equality)
		return BB_OK;
	if (reason && bb_engine_leads(engine)) {
		bb_strbuf_addf(&line, "# Not compared with unsplit modules: %s\n", reason);
		BB_TRY(status, bb_engine_answer(engine, &line), out);
	}
	BB_TRY(status,
	       bb_kernel_sweep(k, a->nschemes, BB_HALVES, sizeof(struct bb_variant), tensor_write),
	       out);
	BB_TRY(status, bb_engine_measure(engine), out);
	if (!bb_engine_leads(engine))
		return BB_OK;
	BB_TRY(status, bb_kernel_deliver(k, &bb_record_tensor, tensor_describe), out);
	/* The best scheme of each part, by the time of a step. */
	for (int of = BB_TENSOR_LAYER; of <= BB_TENSOR_LOSS; of++) {
		char subject[BB_CANDIDATE_TEXT];
		struct bb_best best = {.choice = {.subject = subject,
						  .noise = bb_estimate_noise(engine->run),
						  .unit = " per step"}};

		for (size_t n = 0; n < a->nschemes; n++) {
			if (bb_kernel_refusal(k, n) || (int)a->schemes[n]->of != of)
				continue;
			snprintf(subject, sizeof(subject), "scheme to split the %s",
				 a->schemes[n]->part);
			bb_best_add(&best,
				    bb_best_steps(bb_kernel_trial(k, n, BB_HALF_STEP), 1, NULL),
				    "%s", a->schemes[n]->name);
		}
		bb_best_recommend(&best, &answer);
	}
	status = bb_engine_answer(engine, &answer);
out:
	return status;
}

static const struct bb_experiment experiment = {
	.bytes = sizeof(struct bb_kernel),
	.run = tensor_run,
	.close = bb_kernel_close,
};

/* ---- the benchmark --------------------------------------------------------------------------- */

static void tensor_list(struct bb_strbuf *out)
{
	bb_strbuf_add(out, "schemes (--scheme):\n");
	for (const struct bb_tensor_scheme *s = bb_tensor_schemes; s->part; s++)
		bb_strbuf_addf(out, "    %-10s %-9s %s\n", s->name, s->part, s->brief);
	bb_model_list(out);
}

static bb_status tensor_plan(struct bb_run *run)
{
	const struct bb_tensor_run *tensor = run->own;
	const struct bb_tensor_options *a = &tensor->options;
	const char *reason = equality_refuses(run);

	if (a->equality)
		return reason ? bb_fail(&run->error, BB_EUNSUPPORTED, "--equality: %s", reason)
			      : BB_OK;
	for (size_t i = 0; i < a->nschemes; i++) {
		reason = bb_tensor_refuses(a->schemes[i], &tensor->size, run->world.nranks);
		if (!reason)
			return BB_OK;
	}
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
	.options = tensor_rows,
	.faults = 1u << BB_FAULT_CORRUPT | 1u << BB_FAULT_DIE,
	.refuses = {{BB_ALL_SIZES, "sizes follow from the model; leave it out, --seq and "
				   "--micro-batch set them"}},
	.queues = true,
	.check = tensor_check,
	.list = tensor_list,
	.text = &bb_sink_table,
	.rows = &bb_record_tensor,
	.plan = tensor_plan,
	.experiment = &experiment,
	.close = close_tensor,
};
