/*
 * model.c - the tensors and works of a model: of transformers by the tables of their family
 * (decoders.c), of VGG and residual networks, and of stacks of linear layers; and what follows from
 * them.
 */
#include "core/array.h"
#include "models/parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_TENSORS ((size_t)1 << 20)
#define MOST_PARAMETERS (UINT64_C(1) << 56) /* so that bytes fit into 64 bits */
#define PREFIX 48

void bb_model_free(struct bb_model *model)
{
	free(model->tensors);
	free(model->works);
	free(model->order);
	bb_strbuf_free(&model->origin);
	*model = (struct bb_model){.family = NULL};
}

/* Compute the sums of all works' FLOPs. */
static void model_sum(struct bb_model *m)
{
	m->forward = m->backward = 0;
	/* From last to first, as bb_model_ready does, so that its last time is exact. */
	for (size_t i = m->nworks; i-- > 0;) {
		m->forward += m->works[i].forward;
		m->backward += m->works[i].input + m->works[i].weights;
	}
}

void bb_model_add_origin(struct bb_strbuf *out, const struct bb_model *model)
{
	if (model->origin.length > 0)
		bb_strbuf_addf(out, "# config.json: %s\n", bb_strbuf_text(&model->origin));
}

/* Length of the module's name in a tensor's. */
static size_t module_length(const struct bb_tensor *tensor)
{
	const char *const point = strrchr(tensor->name, '.');

	return point ? (size_t)(point - tensor->name) : 0;
}

struct bb_module bb_model_largest_module(const struct bb_model *model)
{
	struct bb_module largest = {.parameters = 0};

	/* The tensors of a module are registered one after the other. */
	for (size_t i = 0, next; i < model->ntensors; i = next) {
		const char *const name = model->tensors[i].name;
		const size_t length = module_length(&model->tensors[i]);
		uint64_t parameters = 0;

		for (next = i;
		     next < model->ntensors && module_length(&model->tensors[next]) == length &&
		     strncmp(model->tensors[next].name, name, length) == 0;
		     next++)
			parameters += model->tensors[next].elements;
		if (parameters <= largest.parameters)
			continue;
		largest.parameters = parameters;
		snprintf(largest.name, sizeof(largest.name), "%.*s", (int)length, name);
	}
	return largest;
}

void bb_model_ready(const struct bb_model *m, double backward_s, double *ready)
{
	size_t work = m->nworks;
	double done = 0;

	for (size_t i = 0; i < m->ntensors; i++) {
		const size_t until = m->tensors[m->order[i]].work;

		for (; work > until; work--)
			done += m->works[work - 1].input + m->works[work - 1].weights;
		ready[i] = backward_s * (done / m->backward);
	}
}

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

/* ---- attention ------------------------------------------------------------------------------ */

/* Products of the backward pass over those of the forward pass. */
#define FLASH_BACKWARD 2.5

const char *const bb_attention_words[] = {"flash", "eager", NULL};

const char *bb_attention_name(enum bb_attention attention)
{
	return attention == BB_ATTENTION_FLASH ? "FlashAttention" : "attention eager";
}

struct bb_work bb_attention_work(const struct bb_work *work, enum bb_attention attention)
{
	struct bb_work w = *work;

	if (w.core == BB_CORE_NONE || attention == BB_ATTENTION_EAGER)
		return w;
	if (w.core == BB_CORE_CAUSAL)
		w.forward /= 2;
	w.input = FLASH_BACKWARD * w.forward;
	return w;
}

void bb_attention_apply(struct bb_model *model, enum bb_attention attention)
{
	for (size_t i = 0; i < model->nworks; i++)
		model->works[i] = bb_attention_work(&model->works[i], attention);
	model_sum(model);
}

/* ---- building ------------------------------------------------------------------------------- */

/* A model under construction. */
struct bb_builder {
	struct bb_model *model;
	struct bb_error *error;
	bb_status status; /* the first failure, so that only bb_model_build needs a check */
	size_t tensor_room, work_room;
	int layer;  /* of the tensors and works that follow */
	bool tower; /* all blocks have layer BB_LAYER_BEFORE, and see all tokens */
};

/* Add tensor T, whose rows, columns, work and perhaps matrices and expert are set, as
   "PREFIXNAMEWHAT". */
static void add_tensor(struct bb_builder *b, struct bb_tensor t, const char *prefix,
		       const char *name, const char *what)
{
	struct bb_model *const m = b->model;

	t.layer = b->layer;
	t.matrices = t.matrices > 0 ? t.matrices : 1;
	t.elements = t.matrices * t.rows * t.columns; /* at most 2^57: BB_HYPERS */
	snprintf(t.name, sizeof(t.name), "%s%s%s", prefix, name, what);
	if (b->status == BB_OK && m->ntensors == MOST_TENSORS)
		b->status = bb_fail(b->error, BB_EUSAGE,
				    "--model %s: more than %zu tensors; give fewer layers or "
				    "experts",
				    m->name, MOST_TENSORS);
	if (b->status == BB_OK && (m->parameters += t.elements) > MOST_PARAMETERS)
		b->status = bb_fail(b->error, BB_EUSAGE,
				    "--model %s: more than 2^56 parameters; give smaller "
				    "hyperparameters",
				    m->name);
	if (b->status != BB_OK)
		return;
	if (!BB_ARRAY_PUT(m->tensors, m->ntensors, b->tensor_room, t))
		b->status = bb_no_memory(b->error, "the model");
}

static void add_work(struct bb_builder *b, struct bb_work work)
{
	struct bb_model *const m = b->model;

	if (b->status != BB_OK)
		return;
	work.layer = b->layer;
	if (!BB_ARRAY_PUT(m->works, m->nworks, b->work_room, work))
		b->status = bb_no_memory(b->error, "the model");
}

/* Add matrix products with weights, of FORWARD FLOPs. The backward pass spends as many on the
   gradient of the weights and, if anything before it learns, as many on that of the input; what a
   vision tower follows, the embedding of the text, is not before it. */
static void add_product(struct bb_builder *b, double forward, bool reversed)
{
	const bool learns = b->model->nworks > (b->tower ? 1 : 0);

	add_work(b, (struct bb_work){.forward = forward,
				     .input = learns ? forward : 0,
				     .weights = forward,
				     .reversed = reversed});
}

/* ---- transformers ------------------------------------------------------------------------------
 *
 * Tensors have the names, shapes and order with which Hugging Face's transformers registers them.
 *
 * FLOPs of a sequence of s tokens: a product with a matrix of in x out costs 2 s in out. Attention
 * costs 2 s² heads x (width of a key + width of a value), scores and weighted sum together; neither
 * a causal mask nor a window saves anything. For heads x width = h and a feed-forward network of 4
 * h a block costs s h (24 h + 4 s), as in Qi et al. 2023 (arXiv 2401.10241), table 1.
 */

/* The parts of one table that a block has, in the order of registration. */
struct selection {
	const struct bb_model_part *parts[BB_MODEL_PARTS];
	size_t works[BB_MODEL_PARTS]; /* the work that completes each; of experts the first one's */
	size_t tensors[BB_MODEL_PARTS]; /* the first one of each */
	int n;
	unsigned traits;
};

static uint64_t size_of(const struct bb_hyper *h, unsigned char size)
{
	const int64_t rotated = h->kv_lora > 0 ? h->rope : 0;
#define VALUE(name, value) [BB_SIZE_##name] = (value),
	const int64_t sizes[BB_NSIZES] = {BB_SIZES(VALUE)};
#undef VALUE

	return (uint64_t)sizes[size];
}

static bool is_expert(const struct selection *s, int i)
{
	return i >= 0 && i < s->n && s->parts[i]->kind == BB_PART_EXPERT;
}

/* FLOPs of PART for a sample; of the experts those of one of them, which gets an equal share of the
   tokens, each of which goes to top_k experts. */
static double part_flops(const struct bb_builder *b, const struct bb_model_part *part)
{
	const struct bb_hyper *h = &b->model->hyper;
	const double matrix =
		2.0 * (double)size_of(h, part->rows) * (double)size_of(h, part->columns);
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

/* Works come in the order of the forward pass. Each expert has one, with all products of it: of the
   parts from its first one on. */
static void add_part_work(struct bb_builder *b, struct selection *s, int i)
{
	const bool expert = is_expert(s, i);
	double flops = part_flops(b, s->parts[i]);

	if (expert && is_expert(s, i - 1)) {
		s->works[i] = s->works[i - 1];
		return;
	}
	s->works[i] = b->model->nworks;
	for (int k = i + 1; expert && is_expert(s, k); k++)
		flops += part_flops(b, s->parts[k]);
	for (int64_t e = 0; e < (expert ? b->model->hyper.experts : 1) && b->status == BB_OK; e++)
		if (flops > 0)
			add_product(b, flops, s->parts[i]->kind != BB_PART_CONVOLUTION);
		else
			add_work(b, (struct bb_work){.forward = 0});
}

/* The products of attention: those of two inputs, so that the backward pass spends as many FLOPs on
   the gradient of each. */
static void add_attention(struct bb_builder *b, bool causal)
{
	const struct bb_hyper *h = &b->model->hyper;
	const double s = (double)h->seq;
	const double forward = 2 * s * s * (double)h->heads * (double)(h->head_dim + h->value_dim);

	add_work(b, (struct bb_work){.core = causal ? BB_CORE_CAUSAL : BB_CORE_FULL,
				     .forward = forward,
				     .input = 2 * forward});
}

/* Tensors come in the order of registration: those of an expert one after the other. */
static void add_part_tensors(struct bb_builder *b, const struct selection *s, int i,
			     const char *prefix)
{
	const struct bb_hyper *h = &b->model->hyper;
	const struct bb_model_part *part = s->parts[i];
	const bool stacked = part->kind == BB_PART_STACK || part->kind == BB_PART_STACKED_BIAS;
	const uint64_t rows = size_of(h, part->rows), columns = size_of(h, part->columns);
	struct bb_tensor t = {.rows = rows,
			      .columns = columns,
			      .matrices = part->kind == BB_PART_STACK ? (uint64_t)h->experts : 1,
			      .expert = stacked || is_expert(s, i),
			      .work = s->works[i]};
	char name[BB_TENSOR_NAME];

	if (part->kind == BB_PART_PRODUCT)
		return;
	if (is_expert(s, i)) {
		for (int64_t e = 0; !is_expert(s, i - 1) && e < h->experts && b->status == BB_OK;
		     e++)
			for (int k = i; is_expert(s, k); k++) {
				t.rows = size_of(h, s->parts[k]->rows);
				t.columns = size_of(h, s->parts[k]->columns);
				t.work = s->works[k] + (size_t)e;
				snprintf(name, sizeof(name), "%s.%jd.%s", s->parts[k]->name, e,
					 s->parts[k]->of);
				add_tensor(b, t, prefix, name, ".weight");
			}
		return;
	}
	if (stacked || part->kind == BB_PART_TENSOR || part->kind == BB_PART_RAW) {
		add_tensor(b, t, prefix, part->name, "");
		return;
	}
	if (part->kind == BB_PART_TRANSPOSED) {
		t.rows = columns;
		t.columns = rows;
	}
	add_tensor(b, t, prefix, part->name, ".weight");
	t.rows = rows;
	t.columns = 1;
	if (s->traits & part->bias)
		add_tensor(b, t, prefix, part->name, ".bias");
}

static void add_parts(struct bb_builder *b, struct selection *s, const char *prefix,
		      const struct bb_model_part *table, bool is_block)
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
		add_part_tensors(b, s, i, prefix);
	}
}

/* Traits that all blocks have. */
static unsigned model_traits(const struct bb_model *model, const struct bb_family *family)
{
	struct bb_hyper h = model->hyper;
	unsigned traits = BB_HAS_ALWAYS | family->traits | family->known[h.head].traits;

	for (int i = 0; i < BB_NHYPERS; i++)
		if (*bb_hyper_at(&h, i) > 0)
			traits |= bb_hyper_rows[i].trait;
	if (h.embedding != h.hidden && h.embedding > 0)
		traits |= BB_HAS_PROJECTION;
	return traits;
}

static void add_stack(struct bb_builder *b, struct selection *s, const struct bb_stack *stack,
		      const char *base, int64_t blocks)
{
	const unsigned all = s->traits;
	char prefix[PREFIX]; /* "model.layers.3." */

	for (int64_t i = 0; i < blocks && b->status == BB_OK; i++) {
		const struct bb_block_kind block =
			bb_model_block(b->model, b->tower ? b->layer : ++b->layer);

		s->traits = all | (block.sparse ? BB_HAS_MOE : 0) | (i == 0 ? BB_HAS_FIRST : 0) |
			    (block.cross ? BB_HAS_CROSS : 0);
		snprintf(prefix, sizeof(prefix), "%s%s.%jd.", base, stack->prefix, i);
		add_parts(b, s, prefix, stack->block, true);
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

	add_parts(b, &s, base, family->before, false);
	for (size_t i = ntensors; first && i < model->ntensors; i++)
		model->tensors[i].work = 0;
	before = s;
	add_stack(b, &s, &family->stacks[0], base, model->hyper.layers);
	if (model->hyper.decoders > 0) {
		add_parts(b, &s, base, family->stacks[0].behind, false);
		add_stack(b, &s, &family->stacks[1], base, model->hyper.decoders);
	}
	if (!b->tower)
		b->layer = model->blocks;
	/* Parts that are registered before the blocks, but run behind them; the last one registered
	   runs first. */
	for (int i = before.n - 1; i >= 0 && b->status == BB_OK; i--) {
		struct bb_tensor *tensor = &model->tensors[before.tensors[i]];

		if (before.parts[i]->at != BB_AT_BEHIND)
			continue;
		add_part_work(b, &before, i);
		for (int t = 0; t < (before.traits & before.parts[i]->bias ? 2 : 1); t++) {
			tensor[t].work = before.works[i];
			tensor[t].layer = b->layer;
		}
	}
	add_parts(b, &s, base, family->stacks[model->hyper.decoders > 0].behind, false);
	add_parts(b, &s, family->head_base ? family->head_base : "", family->heads, false);
}

/* ---- vision ------------------------------------------------------------------------------------
 *
 * VGG (Simonyan and Zisserman 2014) and residual networks (He et al. 2015) for images of 224 x 224
 * and 1000 classes, tensors named and ordered as torchvision registers them.
 *
 * FLOPs of an image: a k x k convolution from in to out channels costs 2 k² in out for each output
 * pixel. As in torchvision, the stride is that of a block's 3 x 3 convolution.
 */

#define STAGES 5
#define CLASSES 1000

/* The activations between two layers. */
struct feature_map {
	int channels;
	int pixels; /* per side */
};

struct depth {
	int64_t layers;
	int blocks[STAGES]; /* of each stage; of VGG convolutions */
	int expansion;      /* 4: bottleneck blocks, 1: two 3 x 3 convolutions */
};

/* The one of DEPTHS, which end with 0 layers, that the model of KIND has. Those KNOWN are for the
   failure that there is none. */
static const struct depth *find_depth(struct bb_builder *b, const struct depth *depths,
				      const char *kind, const char *known)
{
	const int64_t layers = b->model->hyper.layers;

	while (depths->layers && depths->layers != layers)
		depths++;
	if (!depths->layers)
		b->status =
			bb_fail(b->error, BB_EUSAGE, "--model %s: no %s has %jd layers; give %s",
				b->model->name, kind, layers, known);
	return depths;
}

/* Add NAME, a layer of OUT x IN weights and OUT biases, of FORWARD FLOPs. */
static void add_layer(struct bb_builder *b, double forward, bool reversed, int64_t out, int64_t in,
		      const char *name)
{
	struct bb_tensor t = {
		.rows = (uint64_t)out, .columns = (uint64_t)in, .work = b->model->nworks};

	add_product(b, forward, reversed);
	add_tensor(b, t, "", name, ".weight");
	t.columns = 1;
	add_tensor(b, t, "", name, ".bias");
}

/* A convolution is followed by ReLU, a stage by pooling: modules without parameters, which
   torchvision numbers, too. */
void bb_build_vgg(struct bb_builder *b)
{
	static const struct depth depths[] = {
		{11, {1, 1, 2, 2, 2}, 1},
		{13, {2, 2, 2, 2, 2}, 1},
		{16, {2, 2, 3, 3, 3}, 1},
		{19, {2, 2, 4, 4, 4}, 1},
		{.layers = 0},
	};
	static const int widths[STAGES] = {64, 128, 256, 512, 512}, dense[] = {4096, 4096, CLASSES};
	const struct depth *const depth = find_depth(b, depths, "VGG", "11, 13, 16 or 19");
	struct feature_map p = {3, 224};
	char name[PREFIX];
	int module = 0, in;

	for (b->layer = 0; b->layer < STAGES; b->layer++, module++, p.pixels /= 2)
		for (int i = 0; i < depth->blocks[b->layer]; i++, module += 2) {
			const int out = widths[b->layer];

			snprintf(name, sizeof(name), "features.%d", module);
			add_layer(b, 2.0 * 9 * p.channels * out * p.pixels * p.pixels, false, out,
				  9 * p.channels, name);
			p.channels = out;
		}
	b->model->blocks = b->layer;
	in = p.channels * p.pixels * p.pixels;
	for (int i = 0; i < 3; in = dense[i++]) {
		snprintf(name, sizeof(name), "classifier.%d", 3 * i);
		add_layer(b, 2.0 * in * dense[i], true, dense[i], in, name);
	}
}

/* A convolution and its batch norm. */
static void convolve(struct bb_builder *b, struct feature_map *p, int kernel, int stride, int out,
		     const char *prefix, const char *conv, const char *bn)
{
	const int area = kernel * kernel;
	struct bb_tensor t = {.rows = (uint64_t)out,
			      .columns = (uint64_t)(p->channels * area),
			      .work = b->model->nworks};

	p->pixels /= stride;
	add_product(b, 2.0 * area * p->channels * out * p->pixels * p->pixels, true);
	add_tensor(b, t, prefix, conv, ".weight");
	t = (struct bb_tensor){.rows = (uint64_t)out, .columns = 1, .work = b->model->nworks};
	add_work(b, (struct bb_work){.forward = 0});
	add_tensor(b, t, prefix, bn, ".weight");
	add_tensor(b, t, prefix, bn, ".bias");
	b->model->buffers += 2 * (uint64_t)out;
	b->model->counters++;
	p->channels = out;
}

void bb_build_resnet(struct bb_builder *b)
{
	static const struct depth depths[] = {
		{18, {2, 2, 2, 2}, 1},   {34, {3, 4, 6, 3}, 1},   {50, {3, 4, 6, 3}, 4},
		{101, {3, 4, 23, 3}, 4}, {152, {3, 8, 36, 3}, 4}, {.layers = 0},
	};
	const struct depth *const depth = find_depth(b, depths, "ResNet", "18, 34, 50, 101 or 152");
	struct feature_map p = {3, 224};
	char prefix[PREFIX];

	convolve(b, &p, 7, 2, 64, "", "conv1", "bn1");
	p.pixels /= 2; /* max pooling */
	b->layer = 0;
	for (int stage = 0; stage < STAGES; stage++)
		for (int i = 0; i < depth->blocks[stage]; i++, b->layer++) {
			const int width = 64 << stage, out = width * depth->expansion;
			const int stride = stage > 0 && i == 0 ? 2 : 1;
			struct feature_map side = p;

			snprintf(prefix, sizeof(prefix), "layer%d.%d.", stage + 1, i);
			if (depth->expansion == 1) {
				convolve(b, &p, 3, stride, width, prefix, "conv1", "bn1");
				convolve(b, &p, 3, 1, width, prefix, "conv2", "bn2");
			} else {
				convolve(b, &p, 1, 1, width, prefix, "conv1", "bn1");
				convolve(b, &p, 3, stride, width, prefix, "conv2", "bn2");
				convolve(b, &p, 1, 1, out, prefix, "conv3", "bn3");
			}
			if (stride != 1 || side.channels != out)
				convolve(b, &side, 1, stride, out, prefix, "downsample.0",
					 "downsample.1");
		}
	b->model->blocks = b->layer;
	add_layer(b, 2.0 * p.channels * CLASSES, true, CLASSES, p.channels, "fc");
}

void bb_build_linear(struct bb_builder *b)
{
	const int64_t width = b->model->hyper.hidden;
	char name[PREFIX];

	b->model->blocks = (int)b->model->hyper.layers;
	for (b->layer = 0; b->layer < b->model->blocks; b->layer++) {
		snprintf(name, sizeof(name), "%d", b->layer);
		add_layer(b, 2.0 * (double)width * (double)width, true, width, width, name);
	}
}

/* ---- all --------------------------------------------------------------------------------- */

static int compare_ready(const void *a, const void *b, void *model)
{
	const struct bb_tensor *tensors = ((const struct bb_model *)model)->tensors;
	const struct bb_work *works = ((const struct bb_model *)model)->works;
	const size_t x = *(const size_t *)a, y = *(const size_t *)b;

	if (tensors[x].work != tensors[y].work)
		return tensors[x].work < tensors[y].work ? 1 : -1;
	return (x < y ? 1 : x > y ? -1 : 0) * (works[tensors[x].work].reversed ? 1 : -1);
}

bb_status bb_model_build(struct bb_model *m, const struct bb_family *family, struct bb_error *error)
{
	struct bb_builder b = {.model = m, .error = error, .layer = BB_LAYER_BEFORE};
	const struct bb_hyper hyper = m->hyper;
	const unsigned traits = family->build ? 0 : model_traits(m, family);

	if (family->build) {
		family->build(&b);
	} else {
		m->encoder = family->encoder && !(traits & BB_HAS_CAUSAL);
		m->gated = traits & BB_HAS_GATE;
		m->logits = traits & BB_HAS_LM;
		m->blocks = (int)(hyper.layers + hyper.decoders);
		/* The vision tower and its projector, behind the work of the text's embedding. */
		if (family->tower) {
			add_work(&b, (struct bb_work){.forward = 0});
			m->hyper = m->vision;
			b.tower = true;
			add_family(&b, family->tower, false);
			b.tower = false;
			m->hyper = hyper;
		}
		add_family(&b, family, family->tower);
	}
	if (b.status != BB_OK)
		return b.status;
	m->order = malloc(m->ntensors * sizeof(*m->order));
	if (!m->order)
		return bb_no_memory(error, "the model");
	for (size_t i = 0; i < m->ntensors; i++)
		m->order[i] = i;
	qsort_r(m->order, m->ntensors, sizeof(*m->order), compare_ready, m);
	model_sum(m);
	return BB_OK;
}
