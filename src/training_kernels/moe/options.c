/*
 * options.c - the options of expert parallelism.
 */
#include "training_kernels/moe/moe.h"

const struct bb_moe_preset bb_moe_presets[] = {
	{"mixtral-8x7b", "Jiang et al. 2024, table 1; config.json of Mixtral-8x7B", 8, 2, 4096},
	{"deepseek-v3", "DeepSeek-AI 2024, section 4.2; config.json of DeepSeek-V3", 256, 8, 7168},
	{.name = NULL},
};

static const char *preset_name(int index)
{
	return bb_moe_presets[index].name;
}

static const char *const dtypes[] = {"bfloat16", "half", "float", "f8e4m3", "f8e5m2", NULL};
/* No gemm: the FLOPs of experts are unknown. */
static const char *const stand_ins[] = {[BB_SLEEP] = "sleep", [BB_SPIN] = "spin", [BB_GEMM] = NULL};

#define BB_OPTIONS struct bb_moe_options
const struct bb_option bb_moe_rows[] = BB_OPTION_ROWS(BB_MOE_OPTIONS);

bb_status bb_moe_check(const struct bb_benchmark *benchmark, void *own, struct bb_options *o,
		       const struct bb_environment *environment, struct bb_error *error)
{
	struct bb_moe_options *a = &((struct bb_moe *)own)->asked;
	const struct bb_moe_preset *p = bb_moe_presets + (a->preset_given ? a->preset : 0);

	if (!a->preset_given)
		return BB_OK;
	a->experts = a->experts_given ? a->experts : p->experts;
	a->top_k = a->top_k_given ? a->top_k : p->top_k;
	a->hidden = a->hidden_given ? a->hidden : p->hidden;
	return BB_OK;
}
