/*
 * training.c - memory of a rank of a training run.
 */
#include "models/memory/training.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FP32 4

typedef unsigned __int128 wide; /* holds any product of the limits of models */

const char *const bb_offload_words[] = {"none", "optimizer", "parameters", NULL};

const char *const bb_category_words[BB_CATEGORIES] = {"parameters",  "gradients",  "optimizer",
						      "errors",      "gathered",   "buckets",
						      "activations", "recomputed", "ends"};

/* ---- states of parameters -------------------------------------------------------------------- */

/*
 * mixed: ZeRO (arXiv 1910.02054), section 3.1; DeepSpeed. The megatron formats and fp32:
 * Megatron-LM, distributed optimizer, whose d ranks hold 6 + 12/d, 4 + 16/d and 8 + 8/d bytes.
 * bf16: torch.optim, whose states have the format of their parameter.
 */
const struct bb_precision bb_precisions[] = {
	[BB_MIXED] = {"mixed", 2, 2, FP32, FP32},
	[BB_MEGATRON_BF16] = {"megatron-bf16", 2, FP32, FP32, FP32},
	[BB_MEGATRON_FP16] = {"megatron-fp16", 2, 2, 2 * FP32, FP32},
	[BB_ALL_FP32] = {"fp32", FP32, FP32, 0, FP32},
	[BB_ALL_BF16] = {"bf16", 2, 2, 0, 2},
	{.name = NULL},
};

const char *const bb_precision_words[] = {"mixed", "megatron-bf16", "megatron-fp16",
					  "fp32",  "bf16",          NULL};

/*
 * Loshchilov and Hutter (arXiv 1711.05101); Dettmers et al. (arXiv 2110.02861), without the fp32
 * scale of each block; torch.optim.SGD with momentum; Shazeer and Stern (arXiv 1804.04235), without
 * the first moment; deepspeed/runtime/fp16/onebit, where 0/1 Adam also keeps a sum of updates, and
 * 1-bit LAMB a second variance that goes on.
 */
const struct bb_optimizer bb_optimizers[] = {
	[BB_ADAMW] = {"adamw", 2, 0, false},
	[BB_ADAMW_8BIT] = {"adamw-8bit", 2, 1, false},
	[BB_SGD] = {"sgd", 1, 0, false},
	[BB_ADAFACTOR] = {"adafactor", 0, 0, true},
	[BB_ADAM_1BIT] = {"onebit-adam", 2, 0, .onebit = BB_ONEBIT_ADAM},
	[BB_ADAM_0_1] = {"zero-one-adam", 3, 0, .onebit = BB_ONEBIT_ZERO_ONE},
	[BB_LAMB_1BIT] = {"onebit-lamb", 3, 0, .onebit = BB_ONEBIT_LAMB},
	{.name = NULL},
};

const char *const bb_optimizer_words[] = {"adamw",       "adamw-8bit",  "sgd",
					  "adafactor",   "onebit-adam", "zero-one-adam",
					  "onebit-lamb", NULL};

uint64_t bb_states_sum(const struct bb_states *states)
{
	return states->parameters + states->gradients + states->optimizer;
}

struct bb_states bb_states_each(const struct bb_recipe *recipe)
{
	const struct bb_precision *p = recipe->precision;
	const struct bb_optimizer *o = recipe->optimizer;

	return (struct bb_states){
		.parameters = p->parameter,
		.gradients = p->gradient,
		.optimizer = p->master + o->moments * (o->moment ? o->moment : p->moment),
	};
}

uint64_t bb_partition(uint64_t elements, uint64_t ranks)
{
	return elements / ranks + (elements % ranks > 0);
}

struct bb_states bb_states_of_rank(const struct bb_recipe *recipe, uint64_t elements,
				   uint64_t factored, int stage, uint64_t ranks)
{
	const struct bb_states each = bb_states_each(recipe);
	const uint64_t part = bb_partition(elements, ranks);

	return (struct bb_states){
		.parameters = each.parameters * (stage >= 3 ? part : elements),
		.gradients = each.gradients * (stage >= 2 ? part : elements),
		.optimizer = each.optimizer * (stage >= 1 ? part : elements) + FP32 * factored,
	};
}

uint64_t bb_error_bytes(const struct bb_recipe *recipe, uint64_t elements, uint64_t ranks)
{
	uint64_t eights = ranks; /* lcm(ranks, 8) */

	while (eights % 8)
		eights *= 2;
	const uint64_t part = eights * bb_partition(elements, ranks * eights);
	return recipe->optimizer->onebit ? FP32 * (ranks + 1) * part : 0;
}

uint64_t bb_factored_elements(uint64_t rows, uint64_t columns)
{
	return columns == 1 ? rows : rows + columns;
}

uint64_t bb_zero_bytes(const struct bb_recipe *recipe, uint64_t elements, int stage, uint64_t ranks,
		       uint64_t steps)
{
	const struct bb_states each = bb_states_each(recipe);
	const uint64_t reductions = stage >= 2 ? steps : 1, gathers = stage == 3 ? 2 * steps : 1;

	/* A reduce-scatter or an all-gather sends all parts but one. */
	return (ranks - 1) * bb_partition(elements, ranks) *
	       (reductions * each.gradients +
		gathers * (stage == 0 ? each.gradients : each.parameters));
}

/* ---- activations of a layer ------------------------------------------------------------------ */

const char *const bb_recompute_words[] = {"none", "selective", "full", NULL};
const char *const bb_pipeline_words[] = {"1f1b", "interleaved", "gpipe", NULL};

uint64_t bb_bytes_add(uint64_t a, uint64_t b)
{
	return a + b < a ? UINT64_MAX : a + b;
}

uint64_t bb_bytes_times(uint64_t a, uint64_t b)
{
	uint64_t product;

	return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

/* BYTES divided among RANKS, rounded up. */
static uint64_t share_of(wide bytes, uint64_t ranks)
{
	const wide part = bytes / ranks + (bytes % ranks > 0);

	return part > UINT64_MAX ? UINT64_MAX : (uint64_t)part;
}

struct bb_layer bb_layer_of_model(const struct bb_model *model, bool sparse, uint64_t batch,
				  unsigned bytes)
{
	const struct bb_hyper *h = &model->hyper;
	const int64_t shared = sparse && h->shared_ffn > 0, inputs = model->gated ? 3 : 2;
	const int64_t latent = h->kv_lora > 0 ? h->q_lora + h->kv_lora + h->rope : 0;
	const int64_t ffn = sparse ? h->expert_ffn : h->ffn;

	return (struct bb_layer){
		.seq = (uint64_t)h->seq,
		.batch = batch,
		.hidden = (uint64_t)h->hidden,
		.heads = (uint64_t)h->heads,
		.queries = (uint64_t)(h->heads * h->head_dim),
		.keys = (uint64_t)(h->kv_heads * h->head_dim),
		.ffn = (uint64_t)ffn,
		.routes = sparse ? (uint64_t)(h->top_k + shared) : 1,
		.extra = (h->heads + h->kv_heads) * (h->value_dim - h->head_dim) + latent +
			 shared * inputs * (h->shared_ffn - ffn),
		.gated = model->gated,
		.bytes = bytes,
		.tp = 1,
	};
}

static wide tokens(const struct bb_layer *l)
{
	return (wide)l->seq * l->batch;
}

uint64_t bb_layer_kept(const struct bb_layer *l, enum bb_recompute recompute)
{
	const unsigned masks = l->gated ? 0 : 2, dropout = l->gated ? 0 : 1 + l->bytes;
	const wide attention = 2 * (wide)l->queries + 2 * (wide)l->keys;
	const wide feed_forward = (wide)l->ffn * l->routes * (l->gated ? 3 : 2);
	/* As wide as the residual stream; only sequence parallelism divides them. */
	const wide residual = tokens(l) * l->hidden * ((3 + l->routes) * l->bytes + masks);
	/* Those that tensor parallelism divides, first without the core of attention: scores of all
	   heads and pairs of tokens, or the sums that FlashAttention keeps. */
	wide divided = tokens(l) * l->bytes * (attention + feed_forward + (wide)l->extra);

	if (recompute == BB_RECOMPUTE_FULL)
		return share_of(tokens(l) * l->hidden * l->bytes, l->sequence_parallel ? l->tp : 1);
	if (recompute == BB_RECOMPUTE_NONE)
		divided += tokens(l) * l->heads * (l->eager ? l->seq * (l->bytes + dropout) : FP32);
	if (l->sequence_parallel)
		return share_of(residual + divided, l->tp);
	return bb_bytes_add(share_of(residual, 1), share_of(divided, l->tp));
}

uint64_t bb_layer_recomputed(const struct bb_layer *l, enum bb_recompute recompute)
{
	const uint64_t all = bb_layer_kept(l, BB_RECOMPUTE_NONE);

	return all == UINT64_MAX ? all : all - bb_layer_kept(l, recompute);
}

uint64_t bb_embedding_kept(const struct bb_layer *l)
{
	return l->gated ? 0 : share_of(tokens(l) * l->hidden, l->sequence_parallel ? l->tp : 1);
}

uint64_t bb_head_kept(const struct bb_layer *l, uint64_t vocab)
{
	const wide inputs = tokens(l) * l->hidden * 2 * l->bytes;

	return bb_bytes_add(share_of(inputs, l->sequence_parallel ? l->tp : 1),
			    share_of(tokens(l) * vocab * FP32, l->tp));
}

static uint64_t fewer(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

uint64_t bb_in_flight(enum bb_pipelining schedule, uint64_t stage, uint64_t stages, uint64_t chunks,
		      uint64_t micro_batches)
{
	const uint64_t later = stages - 1 - stage;

	if (schedule == BB_GPIPE)
		return micro_batches;
	if (schedule == BB_INTERLEAVED)
		return fewer(2 * later + (chunks - 1) * stages + 1, micro_batches * chunks);
	return fewer(later + 1, micro_batches);
}

/* ---- elements of layers ------------------------------------------------------------------ */

void bb_piece_add(struct bb_piece *to, const struct bb_piece *piece)
{
	to->matrices += piece->matrices;
	to->vectors += piece->vectors;
	to->experts += piece->experts;
	to->factored += piece->factored;
	to->blocks += piece->blocks;
	to->sparse += piece->sparse;
}

struct bb_piece bb_layout_pieces(const struct bb_model_layout *layout, size_t first, size_t last)
{
	const struct bb_piece *begin = &layout->before[first], *end = &layout->before[last];

	return (struct bb_piece){end->matrices - begin->matrices, end->vectors - begin->vectors,
				 end->experts - begin->experts,   end->factored - begin->factored,
				 end->blocks - begin->blocks,     end->sparse - begin->sparse};
}

static void add_work(struct bb_layers_work *to, const struct bb_layers_work *work)
{
	to->forward += work->forward;
	to->input += work->input;
	to->weights += work->weights;
	to->core += work->core;
	to->flash += work->flash;
}

static uint64_t all_of(const struct bb_piece *piece)
{
	return piece->matrices + piece->vectors + piece->experts;
}

bb_status bb_model_layout_make(struct bb_model_layout *layout, const struct bb_model *model,
			       uint64_t parameters, struct bb_error *error)
{
	const size_t n = model ? (size_t)model->blocks + 2 : 3;
	struct bb_piece *const pieces = calloc(n + 1, sizeof(*pieces)), sum = {0};
	struct bb_layers_work *const works = model ? calloc(n + 1, sizeof(*works)) : NULL;

	*layout = (struct bb_model_layout){.before = pieces, .pieces = n, .works = works};
	if (!pieces || (model && !works))
		return bb_no_memory(error, "the layers of a model");
	if (!model)
		pieces[1].matrices = parameters;
	for (size_t i = 0; model && i < model->ntensors; i++) {
		const struct bb_tensor *const t = &model->tensors[i];
		struct bb_piece *const piece = &pieces[t->layer - BB_LAYER_BEFORE];

		*(t->expert         ? &piece->experts
		  : t->columns == 1 ? &piece->vectors
				    : &piece->matrices) += t->elements;
		piece->factored += t->matrices * bb_factored_elements(t->rows, t->columns);
	}
	for (int i = 0; model && i < model->blocks; i++) {
		pieces[i - BB_LAYER_BEFORE].blocks = 1;
		pieces[i - BB_LAYER_BEFORE].sparse = bb_model_block(model, i).sparse;
	}
	for (size_t i = 0; model && i < model->nworks; i++) {
		const struct bb_work *const w = &model->works[i];
		const bool core = w->core != BB_CORE_NONE;
		const struct bb_layers_work one = {
			w->forward, w->input, w->weights, core ? w->forward : 0,
			core ? bb_attention_work(w, BB_ATTENTION_FLASH).forward : 0};

		add_work(&works[w->layer - BB_LAYER_BEFORE + 1], &one);
	}
	/* Both become sums of what is before. */
	for (size_t i = 0; i <= n; i++) {
		const struct bb_piece piece = pieces[i];

		pieces[i] = sum;
		bb_piece_add(&sum, &piece);
		if (model && all_of(&piece) > all_of(&layout->largest))
			layout->largest = piece;
		if (model && i > 0)
			add_work(&works[i], &works[i - 1]);
	}
	if (model && model->logits && model->hyper.tied)
		layout->embedding = model->tensors[0].elements;
	return BB_OK;
}

void bb_model_layout_free(struct bb_model_layout *layout)
{
	free(layout->before);
	free(layout->works);
	*layout = (struct bb_model_layout){.before = NULL};
}

struct bb_training bb_training_alone(const struct bb_model *model)
{
	return (struct bb_training){
		.model = model,
		.recipe = {&bb_precisions[BB_MIXED], &bb_optimizers[BB_ADAMW]},
		.trainable = 1,
		.dp = 1,
		.tp = 1,
		.pp = 1,
		.ep = 1,
		.chunks = 1,
		.micro_batch = 1,
		.micro_batches = 1,
	};
}

/* ---- valid combinations ------------------------------------------------------------------ */

bool bb_training_has_activations(const struct bb_training *t)
{
	return t->model && t->model->hyper.heads > 0;
}

static uint64_t blocks(const struct bb_training *t)
{
	return t->layout->pieces - 2;
}

bb_status bb_training_check(const struct bb_training *t, struct bb_error *error)
{
	const struct bb_optimizer *optimizer = t->recipe.optimizer;
	const uint64_t experts = t->model ? (uint64_t)t->model->hyper.experts : 0;
	const uint64_t heads = t->model ? (uint64_t)t->model->hyper.heads : 0;
	const uint64_t layers = blocks(t);

	if (t->ep > 1 && experts == 0)
		return bb_fail(error, BB_EUSAGE, "--ep %ju: the model has no experts; give --ep 1",
			       t->ep);
	if (t->ep > 1 && (experts % t->ep || t->dp % t->ep))
		return bb_fail(error, BB_EUSAGE,
			       "--ep %ju: does not divide %s; give a divisor of %ju experts and "
			       "of --dp %ju",
			       t->ep, experts % t->ep ? "the experts" : "the data-parallel ranks",
			       experts, t->dp);
	if (t->model && t->pp > layers)
		return bb_fail(error, BB_EUSAGE, "--pp %ju: exceeds the %ju layers of the model",
			       t->pp, layers);
	if (t->schedule == BB_INTERLEAVED && t->chunks == 1)
		return bb_fail(error, BB_EUSAGE,
			       "--schedule interleaved: needs --chunks 2 or more");
	if (t->schedule != BB_INTERLEAVED && t->chunks > 1)
		return bb_fail(error, BB_EUSAGE,
			       "--chunks %ju: valid only with --schedule interleaved", t->chunks);
	if (t->chunks > 1 && layers % (t->pp * t->chunks))
		return bb_fail(error, BB_EUSAGE,
			       "--chunks %ju: %ju layers cannot be divided into %ju stages of "
			       "%ju chunks",
			       t->chunks, layers, t->pp, t->chunks);
	if (t->tp > 1 && heads % t->tp)
		return bb_fail(error, BB_EUSAGE, "--tp %ju: does not divide the %ju heads", t->tp,
			       heads);
	if (t->sequence_parallel && t->tp == 1)
		return bb_fail(error, BB_EUSAGE, "--sequence-parallel: needs --tp 2 or more");
	if (t->sequence_parallel && t->model && (uint64_t)t->model->hyper.seq % t->tp)
		return bb_fail(error, BB_EUSAGE,
			       "--sequence-parallel: the %jd tokens of a sequence cannot be "
			       "divided among --tp %ju ranks; give another --seq",
			       t->model->hyper.seq, t->tp);
	if (optimizer->factored && !t->model)
		return bb_fail(error, BB_EUSAGE,
			       "--optimizer %s: needs rows and columns of tensors; give --model "
			       "instead of --params",
			       optimizer->name);
	if (optimizer->factored && t->trainable < 1)
		return bb_fail(error, BB_EUSAGE,
			       "--trainable %g%%: --optimizer %s needs the shapes of the trained "
			       "tensors, which are not known; give another optimizer",
			       100 * t->trainable, optimizer->name);
	if (optimizer->factored && t->zero > 0)
		return bb_fail(error, BB_EUSAGE,
			       "--optimizer %s: needs rows and columns of tensors, but --zero %d "
			       "divides flat arrays; give --zero 0",
			       optimizer->name, t->zero);
	if (optimizer->onebit && t->zero > 0)
		return bb_fail(error, BB_EUSAGE,
			       "--optimizer %s: ranks exchange all of the momentum, which --zero "
			       "%d divides; DeepSpeed refuses it with ZeRO, too: give --zero 0",
			       optimizer->name, t->zero);
	/* Each microbatch adds to the gradients, which stay whole until the last one: stage 2 would
	   save nothing and reduce them each time. */
	if (t->zero > 1 && t->pp > 1)
		return bb_fail(error, BB_EUSAGE,
			       "--zero %d: gradients of a pipeline stay whole while microbatches "
			       "add to them; give --zero 1 or --pp 1",
			       t->zero);
	if (t->offload == BB_OFFLOAD_OPTIMIZER && t->zero == 0)
		return bb_fail(error, BB_EUSAGE, "--offload optimizer: needs --zero 1, 2 or 3");
	if (t->offload == BB_OFFLOAD_PARAMETERS && t->zero != 3)
		return bb_fail(error, BB_EUSAGE, "--offload parameters: needs --zero 3");
	if (t->zero == 3 && t->buffers.hpz > 1 && t->dp % t->buffers.hpz)
		return bb_fail(error, BB_EUSAGE,
			       "--dp %ju: zero_hpz_partition_size, %ju, does not divide it", t->dp,
			       t->buffers.hpz);
	if (bb_training_most(t).total == UINT64_MAX)
		return bb_fail(error, BB_EUSAGE,
			       "--micro-batch %ju: the bytes exceed 64 bits; give fewer or "
			       "shorter sequences",
			       t->micro_batch);
	return BB_OK;
}

/* ---- states ------------------------------------------------------------------------------ */

uint64_t bb_layers_before(uint64_t layers, uint64_t pp, uint64_t stage)
{
	const uint64_t each = (layers + 2) / pp;

	if (layers % pp == 0 || (layers + 2) % pp)
		return stage * layers / pp;
	return stage == 0 ? 0 : stage == pp ? layers : stage * each - 1;
}

/* Elements of PIECE on a tensor-parallel rank: those that all data-parallel ranks share, and those
   of experts. */
static uint64_t dense(const struct bb_training *t, const struct bb_piece *piece)
{
	return bb_partition(piece->matrices, t->tp) + piece->vectors;
}

static uint64_t sparse(const struct bb_training *t, const struct bb_piece *piece)
{
	return bb_partition(piece->experts, t->tp * t->ep);
}

/* The trainable share of ELEMENTS, which alone has gradients and optimizer states. */
static uint64_t trained(const struct bb_training *t, uint64_t elements)
{
	return t->trainable < 1 ? (uint64_t)ceil((double)elements * t->trainable) : elements;
}

static struct bb_states states(const struct bb_training *t, uint64_t elements, uint64_t factored,
			       uint64_t ranks)
{
	struct bb_states s =
		bb_states_of_rank(&t->recipe, trained(t, elements), factored, t->zero, ranks);

	s.parameters = bb_states_of_rank(&t->recipe, elements, 0, t->zero, ranks).parameters;
	return s;
}

void bb_training_states(const struct bb_training *t, const struct bb_piece *piece,
			struct bb_need *need)
{
	const struct bb_training_buffers *const b = &t->buffers;
	const struct bb_precision *const p = t->recipe.precision;
	const uint64_t sums = t->recipe.optimizer->factored ? piece->factored : 0;
	const struct bb_states shared = states(t, dense(t, piece), sums, t->dp);
	const struct bb_states experts = states(t, sparse(t, piece), 0, t->dp / t->ep);
	const int offloaded = t->offload == BB_OFFLOAD_PARAMETERS  ? BB_NEED_PARAMETERS
			      : t->offload == BB_OFFLOAD_OPTIMIZER ? BB_NEED_GRADIENTS
								   : BB_NEED_OPTIMIZER + 1;

	need->layers = piece->blocks;
	need->sparse = piece->sparse;
	need->experts = sparse(t, piece);
	need->elements = dense(t, piece) + need->experts;
	need->bytes[BB_NEED_PARAMETERS] = shared.parameters + experts.parameters;
	if (t->zero == 3 && b->hpz > 1) /* where the first partition is, too */
		need->bytes[BB_NEED_PARAMETERS] +=
			p->parameter * bb_partition(need->elements, b->hpz);
	need->bytes[BB_NEED_GRADIENTS] = shared.gradients + experts.gradients;
	need->bytes[BB_NEED_OPTIMIZER] = shared.optimizer + experts.optimizer;
	need->bytes[BB_NEED_ERRORS] =
		bb_error_bytes(&t->recipe, trained(t, dense(t, piece)), t->dp) +
		bb_error_bytes(&t->recipe, trained(t, sparse(t, piece)), t->dp / t->ep);
	for (int i = offloaded; i <= BB_NEED_OPTIMIZER; i++) {
		need->host += need->bytes[i];
		need->bytes[i] = 0;
	}
	if (t->zero == 3) {
		const struct bb_states whole = states(
			t, dense(t, &t->layout->largest) + sparse(t, &t->layout->largest), 0, 1);
		const uint64_t largest = whole.parameters + whole.gradients;
		const uint64_t live =
			p->parameter * (b->live < need->elements ? b->live : need->elements);

		need->bytes[BB_NEED_GATHERED] = live > largest ? live : largest;
	}
	if (t->zero > 0) {
		const uint64_t fetched = t->zero == 3 ? b->prefetch : b->gather;
		const uint64_t gradients = b->reduce * (t->zero < 3 && b->overlap ? 2 : 1);

		need->bytes[BB_NEED_BUCKETS] =
			gradients * p->gradient +
			(fetched < need->elements ? fetched : need->elements) * p->parameter;
	}
}

/* ---- activations ------------------------------------------------------------------------- */

static struct bb_layer layer_of(const struct bb_training *t, bool has_experts)
{
	struct bb_layer layer = bb_layer_of_model(t->model, has_experts, t->micro_batch,
						  t->recipe.precision->parameter);

	layer.tp = t->tp;
	layer.sequence_parallel = t->sequence_parallel;
	layer.eager = t->eager;
	return layer;
}

/* ---- all --------------------------------------------------------------------------------- */

struct bb_need bb_training_keeping(const struct bb_training *t, uint64_t stage, uint64_t chunks)
{
	const uint64_t layers = t->model ? blocks(t) : 0;
	const bool last = stage == t->pp - 1;
	const size_t begin = stage == 0 ? 0 : 1 + bb_layers_before(layers, t->pp, stage);
	const size_t end =
		last ? t->layout->pieces : 1 + bb_layers_before(layers, t->pp, stage + 1);
	/* Elements of the stage, of all its tensor-parallel ranks together. */
	struct bb_piece piece = bb_layout_pieces(t->layout, begin, end);
	struct bb_need need = {.stage = stage, .chunks = chunks};
	uint64_t *const kept = &need.bytes[BB_NEED_ACTIVATIONS];
	uint64_t *const again = &need.bytes[BB_NEED_RECOMPUTED];
	uint64_t *const ends = &need.bytes[BB_NEED_ENDS];
	const bool known = bb_training_has_activations(t);
	uint64_t counts[2];

	if (!t->model) /* a number of parameters divides evenly */
		piece = (struct bb_piece){
			.matrices = bb_partition(t->layout->before[end].matrices, t->pp)};
	else if (last && t->pp > 1)
		piece.matrices += t->layout->embedding;
	bb_training_states(t, &piece, &need);
	/* Layers without experts, and those with them, each counted once for each microbatch whose
	   activations the stage keeps. */
	counts[1] = bb_bytes_times(chunks, bb_partition(need.sparse, t->chunks));
	counts[0] = bb_bytes_times(chunks, bb_partition(need.layers, t->chunks)) - counts[1];
	for (int i = 0; i < 2 && known; i++) {
		const struct bb_layer layer = layer_of(t, i == 1);
		const uint64_t recomputed = bb_layer_recomputed(&layer, t->recompute);

		*kept = bb_bytes_add(
			*kept, bb_bytes_times(bb_layer_kept(&layer, t->recompute), counts[i]));
		if (counts[i] > 0 && recomputed > *again)
			*again = recomputed;
	}
	if (known) {
		const struct bb_layer layer = layer_of(t, false);
		const uint64_t micro_batches = bb_partition(chunks, t->chunks);

		if (stage == 0)
			*ends = bb_bytes_times(bb_embedding_kept(&layer), micro_batches);
		if (last && t->model->logits)
			*ends = bb_bytes_add(
				*ends, bb_bytes_times(bb_head_kept(&layer,
								   (uint64_t)t->model->hyper.vocab),
						      t->schedule == BB_GPIPE ? micro_batches : 1));
	}
	for (int i = 0; i < BB_CATEGORIES; i++)
		need.total = bb_bytes_add(need.total, need.bytes[i]);
	return need;
}

struct bb_need bb_training_stage(const struct bb_training *t, uint64_t stage)
{
	return bb_training_keeping(
		t, stage, bb_in_flight(t->schedule, stage, t->pp, t->chunks, t->micro_batches));
}

struct bb_need bb_training_most(const struct bb_training *t)
{
	struct bb_need most = bb_training_stage(t, 0);

	for (uint64_t stage = 1; stage < t->pp; stage++) {
		const struct bb_need need = bb_training_stage(t, stage);

		if (need.total > most.total)
			most = need;
	}
	return most;
}

enum bb_category bb_need_tightest(const struct bb_need *need)
{
	enum bb_category most = BB_NEED_PARAMETERS;

	for (int i = 0; i < BB_CATEGORIES; i++)
		if (need->bytes[i] > need->bytes[most])
			most = (enum bb_category)i;
	return most;
}
