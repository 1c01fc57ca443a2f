/*
 * states.c - bytes of parameters, gradients and optimizer.
 */
#include "models/memory/states.h"

#include <stddef.h>

#define FP32 4

const struct bb_precision bb_precisions[] = {
	{"mixed", "fp16 or bf16, the optimizer with an fp32 copy of the parameters",
	 "ZeRO (arXiv 1910.02054), section 3.1; DeepSpeed", 2, 2, FP32, FP32},
	{"megatron-bf16", "bf16 parameters, fp32 gradients, an fp32 copy of the parameters",
	 "Megatron-LM, distributed optimizer: 18 bytes, 6 + 12/d divided", 2, FP32, FP32, FP32},
	{"megatron-fp16", "fp16, the optimizer with fp32 copies of parameters and gradients",
	 "Megatron-LM, distributed optimizer: 20 bytes, 4 + 16/d divided", 2, 2, 2 * FP32, FP32},
	{"fp32", "all in fp32", "Megatron-LM, distributed optimizer: 16 bytes, 8 + 8/d divided",
	 FP32, FP32, 0, FP32},
	{"bf16", "all in bf16, without an fp32 copy",
	 "torch.optim: states have the format of their parameter", 2, 2, 0, 2},
	{.name = NULL},
};

const char *const bb_precision_words[] = {"mixed", "megatron-bf16", "megatron-fp16",
					  "fp32",  "bf16",          NULL};

const struct bb_optimizer bb_optimizers[] = {
	{"adamw", "two moments", "Loshchilov and Hutter (arXiv 1711.05101)", 2, 0, false},
	{"adamw-8bit", "two moments of one byte",
	 "Dettmers et al. (arXiv 2110.02861); its scales, fp32 for each block, are not counted", 2,
	 1, false},
	{"sgd", "one moment: SGD with momentum", "torch.optim.SGD", 1, 0, false},
	{"adafactor", "sums of rows and of columns of the squares, in fp32",
	 "Shazeer and Stern (arXiv 1804.04235), without the first moment", 0, 0, true},
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

/* What a reduce-scatter or an all-gather sends: each part but one. */
static uint64_t one_pass(uint64_t elements, uint64_t ranks)
{
	return (ranks - 1) * bb_partition(elements, ranks);
}

static uint64_t reductions(int stage, uint64_t steps)
{
	return stage >= 2 ? steps : 1;
}

static uint64_t gatherings(int stage, uint64_t steps)
{
	return stage == 3 ? 2 * steps : 1;
}

uint64_t bb_zero_volume(uint64_t elements, int stage, uint64_t ranks, uint64_t steps)
{
	return one_pass(elements, ranks) * (reductions(stage, steps) + gatherings(stage, steps));
}

uint64_t bb_zero_bytes(const struct bb_recipe *recipe, uint64_t elements, int stage, uint64_t ranks,
		       uint64_t steps)
{
	const struct bb_states each = bb_states_each(recipe);
	const uint64_t gathered = stage == 0 ? each.gradients : each.parameters;

	return one_pass(elements, ranks) *
	       (reductions(stage, steps) * each.gradients + gatherings(stage, steps) * gathered);
}
