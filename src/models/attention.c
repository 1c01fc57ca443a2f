#include "models/attention.h"

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

double bb_attention_core(const struct bb_model *model, int layer, enum bb_attention attention)
{
	double flops = 0;

	for (size_t i = 0; i < model->nworks; i++)
		if (model->works[i].layer == layer && model->works[i].core != BB_CORE_NONE)
			flops += bb_attention_work(&model->works[i], attention).forward;
	return flops;
}
