/*
 * model.c - what follows from the tensors and works of a model.
 */
#include "models/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void bb_model_free(struct bb_model *model)
{
	free(model->tensors);
	free(model->works);
	free(model->order);
	bb_strbuf_free(&model->origin);
	*model = (struct bb_model){.family = NULL};
}

void bb_model_sum(struct bb_model *m)
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
	bb_model_sum(model);
}

double bb_attention_core(const struct bb_model *model, enum bb_attention attention)
{
	double flops = 0;

	for (size_t i = 0; i < model->nworks && model->works[i].layer <= 0; i++)
		if (model->works[i].layer == 0 && model->works[i].core != BB_CORE_NONE)
			flops += bb_attention_work(&model->works[i], attention).forward;
	return flops;
}
