/*
 * transformer.c - transformers, built from the tables of their family (decoders.c). Tensors have
 * the names, shapes and order with which Hugging Face's transformers registers them.
 *
 * FLOPs of a sequence of s tokens: a product with a matrix of in x out costs 2 s in out. Attention
 * costs 2 s² heads x (width of a key + width of a value), scores and weighted sum together; neither
 * a causal mask nor a window saves anything. For heads x width = h and a feed-forward network of 4
 * h a block costs s h (24 h + 4 s), as in Qi et al. 2023 (arXiv 2401.10241), table 1.
 */
#include "models/parts.h"

#include <stdio.h>

#define PREFIX 48
#define MOST_PARTS 40

/* The parts of one table that a block has, in the order of registration. */
struct selection {
	const struct bb_model_part *parts[MOST_PARTS];
	size_t works[MOST_PARTS];   /* the work that completes each; of experts the first one's */
	size_t tensors[MOST_PARTS]; /* the first one of each */
	int n;
	unsigned traits;
	char prefix[PREFIX]; /* "model.layers.3." */
};

static int64_t size_of(const struct bb_hyper *h, enum bb_size size)
{
	const int64_t rotated = h->kv_lora > 0 ? h->rope : 0;
	const int64_t sizes[BB_SIZES] = {
		[BB_SIZE_ONE] = 1,
		[BB_SIZE_TWO] = 2,
		[BB_SIZE_HIDDEN] = h->hidden,
		[BB_SIZE_EMBEDDING] = h->embedding > 0 ? h->embedding : h->hidden,
		[BB_SIZE_VOCAB] = h->vocab,
		[BB_SIZE_POSITIONS] = h->positions,
		[BB_SIZE_SLOTS] = h->positions + 2,
		[BB_SIZE_TYPES] = h->types,
		[BB_SIZE_LABELS] = h->labels,
		[BB_SIZE_PATCH] = 3 * h->patch * h->patch,
		[BB_SIZE_ADAPTER] = h->adapter,
		[BB_SIZE_ADAPTER_OUT] = h->adapter_out,
		[BB_SIZE_VISION_OUT] = h->vision_out,
		[BB_SIZE_BUCKETS] = h->buckets,
		[BB_SIZE_HEADS] = h->heads,
		[BB_SIZE_HEAD] = h->head_dim,
		[BB_SIZE_QUERIES] = h->heads * h->head_dim,
		[BB_SIZE_KEYS] = h->kv_heads * h->head_dim,
		[BB_SIZE_QKV] = (h->heads + 2 * h->kv_heads) * h->head_dim,
		[BB_SIZE_OUTPUTS] = h->heads * h->value_dim,
		[BB_SIZE_FFN] = h->ffn,
		[BB_SIZE_FFN_2] = 2 * h->ffn,
		[BB_SIZE_EXPERTS] = h->experts,
		[BB_SIZE_EXPERT] = h->expert_ffn,
		[BB_SIZE_EXPERT_2] = 2 * h->expert_ffn,
		[BB_SIZE_SHARED] = h->shared_ffn,
		[BB_SIZE_Q_LORA] = h->q_lora,
		[BB_SIZE_KV_LORA] = h->kv_lora,
		[BB_SIZE_KV_DOWN] = h->kv_lora + rotated,
		[BB_SIZE_KV_UP] = h->heads * (h->head_dim - rotated + h->value_dim),
	};

	return sizes[size];
}

/* The number of parts from number FIRST on that belong to the same expert. */
static int expert_parts(const struct selection *s, int first)
{
	int n = 0;

	while (first + n < s->n && s->parts[first + n]->kind == BB_PART_EXPERT)
		n++;
	return n;
}

/* ---- works, in the order of the forward pass ------------------------------------------------ */

/* FLOPs of PART for a sample; of the experts those of one of them, which gets an equal share of the
   tokens, each of which goes to top_k experts. */
static double part_flops(const struct bb_builder *b, const struct bb_model_part *part)
{
	const struct bb_hyper *h = &b->model->hyper;
	const double matrix = 2.0 * (double)size_of(h, (enum bb_size)part->rows) *
			      (double)size_of(h, (enum bb_size)part->columns);
	const double tokens = part->once ? 1 : (double)(part->pooled ? h->pooled : h->seq);

	switch ((enum bb_part_kind)part->kind) {
	case BB_PART_MATRIX:
	case BB_PART_TRANSPOSED:
	case BB_PART_RAW:
	case BB_PART_PRODUCT:
		return matrix * tokens;
	case BB_PART_CONVOLUTION:
		return matrix * (double)((h->image / h->patch) * (h->image / h->patch));
	case BB_PART_EXPERT:
		return matrix * (tokens * (double)h->top_k / (double)h->experts);
	case BB_PART_STACK:
		return matrix * (tokens * (double)h->top_k);
	default:
		return 0;
	}
}

/* The experts' works; each does all products of its expert. */
static void add_expert_works(struct bb_builder *b, struct selection *s, int first)
{
	const int n = expert_parts(s, first);
	double flops = 0;

	for (int i = first; i < first + n; i++) {
		s->works[i] = b->model->nworks;
		flops += part_flops(b, s->parts[i]);
	}
	for (int64_t e = 0; e < b->model->hyper.experts && b->status == BB_OK; e++)
		bb_build_product(b, flops, true);
}

static void add_part_work(struct bb_builder *b, struct selection *s, int i)
{
	const struct bb_model_part *part = s->parts[i];
	const double flops = part_flops(b, part);
	const bool learns = b->model->nworks > (b->tower ? 1 : 0); /* before it */

	if (part->kind == BB_PART_EXPERT) {
		if (i == 0 || s->parts[i - 1]->kind != BB_PART_EXPERT)
			add_expert_works(b, s, i);
		return;
	}
	s->works[i] = b->model->nworks;
	if (part->kind == BB_PART_CONVOLUTION)
		bb_build_convolution(b, flops, learns);
	else if (flops > 0)
		bb_build_product(b, flops, learns);
	else
		bb_build_light(b);
}

static void add_attention(struct bb_builder *b, bool causal)
{
	const struct bb_hyper *h = &b->model->hyper;
	const double s = (double)h->seq;

	bb_build_attention(b, 2 * s * s * (double)h->heads * (double)(h->head_dim + h->value_dim),
			   causal ? BB_CORE_CAUSAL : BB_CORE_FULL);
}

/* ---- tensors, in the order of registration -------------------------------------------------- */

static void add_tensor(struct bb_builder *b, size_t work, uint64_t rows, uint64_t columns,
		       const char *prefix, const char *name, const char *what)
{
	bb_build_tensor(b, rows, columns, "%s%s%s", prefix, name, what);
	bb_build_set_work(b, work);
}

static void add_expert_tensors(struct bb_builder *b, const struct selection *s, int first)
{
	const struct bb_hyper *h = &b->model->hyper;
	const int n = expert_parts(s, first);

	b->expert = true;
	for (int64_t e = 0; e < h->experts && b->status == BB_OK; e++)
		for (int i = first; i < first + n; i++) {
			const struct bb_model_part *p = s->parts[i];

			bb_build_tensor(b, (uint64_t)size_of(h, (enum bb_size)p->rows),
					(uint64_t)size_of(h, (enum bb_size)p->columns),
					"%s%s.%lld.%s.weight", s->prefix, p->name, (long long)e,
					p->of);
			bb_build_set_work(b, s->works[i] + (size_t)e);
		}
	b->expert = false;
}

static void add_part_tensors(struct bb_builder *b, const struct selection *s, int i)
{
	const struct bb_hyper *h = &b->model->hyper;
	const struct bb_model_part *part = s->parts[i];
	const bool turned = part->kind == BB_PART_TRANSPOSED;
	const uint64_t rows = (uint64_t)size_of(h, (enum bb_size)part->rows);
	const uint64_t columns = (uint64_t)size_of(h, (enum bb_size)part->columns);

	switch ((enum bb_part_kind)part->kind) {
	case BB_PART_PRODUCT:
		return;
	case BB_PART_EXPERT:
		if (i == 0 || s->parts[i - 1]->kind != BB_PART_EXPERT)
			add_expert_tensors(b, s, i);
		return;
	case BB_PART_TENSOR:
	case BB_PART_RAW:
		add_tensor(b, s->works[i], rows, columns, s->prefix, part->name, "");
		return;
	case BB_PART_STACK:
	case BB_PART_STACKED_BIAS:
		b->expert = true;
		b->matrices = part->kind == BB_PART_STACK ? (uint64_t)h->experts : 0;
		add_tensor(b, s->works[i], rows, columns, s->prefix, part->name, "");
		b->matrices = 0;
		b->expert = false;
		return;
	default:
		add_tensor(b, s->works[i], turned ? columns : rows, turned ? rows : columns,
			   s->prefix, part->name, ".weight");
		if (s->traits & part->bias)
			add_tensor(b, s->works[i], rows, 1, s->prefix, part->name, ".bias");
	}
}

static void add_parts(struct bb_builder *b, struct selection *s, const struct bb_model_part *table,
		      bool is_block)
{
	s->n = 0;
	for (const struct bb_model_part *part = table; part && part->name; part++)
		if ((s->traits & part->needs) == part->needs && !(s->traits & part->lacks))
			s->parts[s->n++] = part;
	for (int at = 0; at < BB_AT_PLACES; at++) {
		for (int i = 0; i < s->n; i++)
			if (s->parts[i]->at == at)
				add_part_work(b, s, i);
		if (is_block && at == BB_AT_CORE)
			add_attention(b, !b->tower && bb_model_block(b->model, b->layer).decodes);
		else if (is_block && at == BB_AT_CROSS && s->traits & BB_HAS_CROSS)
			add_attention(b, false);
	}
	for (int i = 0; i < s->n && b->status == BB_OK; i++) {
		s->tensors[i] = b->model->ntensors;
		add_part_tensors(b, s, i);
	}
}

/* Works of the parts that are registered before the blocks, but run behind them; the last one
   registered runs first. */
static void add_works_behind(struct bb_builder *b, struct selection *s)
{
	for (int i = s->n - 1; i >= 0 && b->status == BB_OK; i--) {
		struct bb_tensor *tensor = &b->model->tensors[s->tensors[i]];
		const unsigned tensors = s->traits & s->parts[i]->bias ? 2 : 1;

		if (s->parts[i]->at != BB_AT_BEHIND)
			continue;
		add_part_work(b, s, i);
		for (unsigned t = 0; t < tensors; t++) {
			tensor[t].work = s->works[i];
			tensor[t].layer = b->layer;
		}
	}
}

/* ---- a model -------------------------------------------------------------------------------- */

struct bb_block_kind bb_model_block(const struct bb_model *model, int block)
{
	const struct bb_hyper *h = &model->hyper;
	const bool decoder = h->decoders > 0 && block >= h->layers;
	const bool has_global = h->global_every > 0 && (block + 1) % h->global_every == 0;

	return (struct bb_block_kind){
		.sparse = h->experts > 0 && block >= h->dense && (block + 1) % h->moe_every == 0,
		.decodes = decoder || (h->decoders == 0 && !model->encoder),
		.cross = decoder,
		.local = h->window > 0 && !has_global,
	};
}

/* Traits that all blocks have. */
static unsigned model_traits(const struct bb_model *model, const struct bb_family *family)
{
	struct bb_hyper h = model->hyper;
	unsigned traits = BB_HAS_ALWAYS | family->traits | family->known[h.head].traits;

	for (int i = 0; i < BB_NHYPERS; i++)
		if (*bb_hyper_at(&h, &bb_hyper_rows[i]) > 0)
			traits |= bb_hyper_rows[i].trait;
	if (h.embedding != h.hidden && h.embedding > 0)
		traits |= BB_HAS_PROJECTION;
	return traits;
}

static void add_stack(struct bb_builder *b, struct selection *s, const struct bb_stack *stack,
		      const char *base, int64_t blocks)
{
	const unsigned all = s->traits;

	for (int64_t i = 0; i < blocks && b->status == BB_OK; i++) {
		const struct bb_block_kind block =
			bb_model_block(b->model, b->tower ? b->layer : ++b->layer);

		s->traits = all | (block.sparse ? BB_HAS_MOE : 0) | (i == 0 ? BB_HAS_FIRST : 0) |
			    (block.cross ? BB_HAS_CROSS : 0);
		snprintf(s->prefix, sizeof(s->prefix), "%s%s.%lld.", base, stack->prefix,
			 (long long)i);
		add_parts(b, s, stack->block, true);
	}
	s->traits = all;
}

/* Embedding, blocks and heads. FIRST: the embedding runs in work 0, before a vision tower. */
static void add_family(struct bb_builder *b, const struct bb_family *family, bool first)
{
	struct bb_model *model = b->model;
	struct selection s = {.traits = model_traits(model, family)}, before;
	const char *base = family->known[model->hyper.head].is_base ? "" : family->base;
	const size_t ntensors = model->ntensors;

	snprintf(s.prefix, sizeof(s.prefix), "%s", base);
	add_parts(b, &s, family->before, false);
	for (size_t i = ntensors; first && i < model->ntensors; i++)
		model->tensors[i].work = 0;
	before = s;
	add_stack(b, &s, &family->stacks[0], base, model->hyper.layers);
	if (model->hyper.decoders > 0) {
		snprintf(s.prefix, sizeof(s.prefix), "%s", base);
		add_parts(b, &s, family->stacks[0].behind, false);
		add_stack(b, &s, &family->stacks[1], base, model->hyper.decoders);
	}
	if (!b->tower)
		b->layer = model->blocks;
	add_works_behind(b, &before);
	snprintf(s.prefix, sizeof(s.prefix), "%s", base);
	add_parts(b, &s, family->stacks[model->hyper.decoders > 0].behind, false);
	snprintf(s.prefix, sizeof(s.prefix), "%s", family->head_base ? family->head_base : "");
	add_parts(b, &s, family->heads, false);
}

void bb_build_transformer(struct bb_builder *b, const struct bb_family *family)
{
	struct bb_model *model = b->model;
	const unsigned traits = model_traits(model, family);

	model->encoder = family->encoder && !(traits & BB_HAS_CAUSAL);
	model->gated = traits & BB_HAS_GATE;
	model->logits = traits & BB_HAS_LM;
	model->blocks = (int)(model->hyper.layers + model->hyper.decoders);
	/* The vision tower and its projector, behind the work of the text's embedding. */
	if (family->tower) {
		const struct bb_hyper text = model->hyper;

		bb_build_light(b);
		model->hyper = model->vision;
		b->tower = true;
		add_family(b, family->tower, false);
		b->tower = false;
		model->hyper = text;
	}
	add_family(b, family, family->tower);
}
