/*
 * states.c - bytes of parameters, gradients and optimizer.
 */
#include "models/memory/states.h"

#include <stddef.h>

#define FP32 4

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
 * the first moment.
 */
const struct bb_optimizer bb_optimizers[] = {
	[BB_ADAMW] = {"adamw", 2, 0, false},
	[BB_ADAMW_8BIT] = {"adamw-8bit", 2, 1, false},
	[BB_SGD] = {"sgd", 1, 0, false},
	[BB_ADAFACTOR] = {"adafactor", 0, 0, true},
	{.name = NULL},
};

const char *const bb_optimizer_words[] = {"adamw", "adamw-8bit", "sgd", "adafactor", NULL};

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
