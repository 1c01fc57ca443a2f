/*
 * model.c - putting a model together.
 */
#include "models/parts.h"
#include "core/array.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void bb_build_tensor(struct bb_builder *b, uint64_t rows, uint64_t columns, const char *format, ...)
{
	struct bb_model *m = b->model;
	const uint64_t matrices = b->matrices > 0 ? b->matrices : 1;
	const uint64_t elements = matrices * rows * columns; /* at most 2^57: bb_hyper_rows */
	struct bb_tensor *t;
	va_list args;

	if (b->status == BB_OK && m->ntensors == BB_MODEL_MOST_TENSORS)
		b->status = bb_fail(b->error, BB_EUSAGE,
				    "--model %s: more than %zu tensors; give fewer layers or "
				    "experts",
				    m->name, BB_MODEL_MOST_TENSORS);
	if (b->status == BB_OK && (m->parameters += elements) > BB_MODEL_MOST_PARAMETERS)
		b->status = bb_fail(b->error, BB_EUSAGE,
				    "--model %s: more than 2^56 parameters; give smaller "
				    "hyperparameters",
				    m->name);
	if (b->status != BB_OK)
		return;
	t = BB_ARRAY_ADD(m->tensors, m->ntensors, b->tensor_room);
	if (!t) {
		b->status = bb_no_memory(b->error, "the model");
		return;
	}
	*t = (struct bb_tensor){.elements = elements,
				.rows = rows,
				.columns = columns,
				.matrices = matrices,
				.expert = b->expert,
				.layer = b->layer,
				.work = m->nworks - 1};
	va_start(args, format);
	vsnprintf(t->name, sizeof(t->name), format, args);
	va_end(args);
}

void bb_build_set_work(struct bb_builder *b, size_t work)
{
	if (b->status == BB_OK)
		b->model->tensors[b->model->ntensors - 1].work = work;
}

static void add_work(struct bb_builder *b, struct bb_work work)
{
	struct bb_model *m = b->model;
	struct bb_work *new;

	if (b->status != BB_OK)
		return;
	new = BB_ARRAY_ADD(m->works, m->nworks, b->work_room);
	work.layer = b->layer;
	if (new)
		*new = work;
	else
		b->status = bb_no_memory(b->error, "the model");
}

void bb_build_light(struct bb_builder *b)
{
	add_work(b, (struct bb_work){.forward = 0});
}

void bb_build_product(struct bb_builder *b, double forward, bool learns)
{
	add_work(b, (struct bb_work){.forward = forward,
				     .input = learns ? forward : 0,
				     .weights = forward,
				     .reversed = true});
}

void bb_build_convolution(struct bb_builder *b, double forward, bool learns)
{
	add_work(b, (struct bb_work){
			    .forward = forward, .input = learns ? forward : 0, .weights = forward});
}

void bb_build_attention(struct bb_builder *b, double forward, enum bb_attention_core core)
{
	add_work(b, (struct bb_work){.core = core, .forward = forward, .input = 2 * forward});
}

static int compare_ready(const void *a, const void *b, void *model)
{
	const struct bb_tensor *tensors = ((const struct bb_model *)model)->tensors;
	const size_t x = *(const size_t *)a, y = *(const size_t *)b;

	const struct bb_work *works = ((const struct bb_model *)model)->works;

	if (tensors[x].work != tensors[y].work)
		return tensors[x].work < tensors[y].work ? 1 : -1;
	return (x < y ? 1 : x > y ? -1 : 0) * (works[tensors[x].work].reversed ? 1 : -1);
}

void bb_build_sum(struct bb_model *m)
{
	m->forward = m->backward = 0;
	/* From last to first, as bb_model_ready does, so that its last time is exact. */
	for (size_t i = m->nworks; i-- > 0;) {
		m->forward += m->works[i].forward;
		m->backward += m->works[i].input + m->works[i].weights;
	}
}

bb_status bb_build_finish(struct bb_builder *b)
{
	struct bb_model *m = b->model;

	if (b->status != BB_OK)
		return b->status;
	m->order = malloc(m->ntensors * sizeof(*m->order));
	if (!m->order)
		return bb_no_memory(b->error, "the model");
	for (size_t i = 0; i < m->ntensors; i++)
		m->order[i] = i;
	qsort_r(m->order, m->ntensors, sizeof(*m->order), compare_ready, m);
	bb_build_sum(m);
	return BB_OK;
}

void bb_model_free(struct bb_model *model)
{
	free(model->tensors);
	free(model->works);
	free(model->order);
	bb_strbuf_free(&model->origin);
	*model = (struct bb_model){.family = NULL};
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
