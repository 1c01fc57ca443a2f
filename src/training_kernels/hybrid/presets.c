/*
 * presets.c - published runs.
 */
#include "training_kernels/hybrid/hybrid.h"

#define GIB(n) ((uint64_t)(n) << 30)

const struct bb_hybrid_preset bb_hybrid_presets[] = {
	/* Four links of 100 Gb/s of a node are shared by its eight GPUs; NVLink 3 carries 300 GB/s
	   each way. 150 TFLOPS and some 105 s a step are one figure: 96 B s L h^2 (1 + s / 6h +
	   V / 16Lh) / (384 x 150 TFLOPS) is 104.5 s, recomputation counted. */
	{
		.name = "bloom-176b",
		.source = "BigScience 2022: model card of bloom and its chronicles: 48 nodes of 8 "
			  "A100 80GB, TP 4, PP 12, DP 8, ZeRO 1, batch 2048, micro-batch 2, all "
			  "recomputed, 150 TFLOPS of the run",
		.assumed = "latencies",
		.model = "bloom-176b",
		.grid = {4, 12, 8, 1, .order = BB_GRID_TP_PP_DP},
		.node = 8,
		.batch = 2048,
		.micro_batch = 2,
		.recompute = BB_RECOMPUTE_FULL,
		.zero = 1,
		.memory = GIB(80),
		.run_flops = 150e12,
		.inside = {300e9, 5e-6},
		.between = {6.25e9, 5e-6},
	},
	/* The 32 workers have no model. DeepSpeed's example of 3D parallelism trains GPT-2 345M, 16
	   micro-batches of 4 in each replica, so here 128 in two. */
	{
		.name = "deepspeed-3d",
		.source = "DeepSpeed 2020: its 32 workers, 8 nodes of 4 GPUs, model 4, pipeline 4, "
			  "data 2, ZeRO 1; model, micro-batch 4, accumulation 16 and recomputation "
			  "of DeepSpeedExamples, Megatron-LM-v1.1.5-3D_parallelism, "
			  "ds_pretrain_gpt2_pipe.sh",
		.assumed = "V100s of 32 GB with NVLink 2, at half of 125 TFLOPS, and 100 Gb/s a "
			   "node",
		.model = "gpt2:layers=24,hidden=1024,heads=16,vocab=50257,seq=1024",
		.grid = {4, 4, 2, 1, .order = BB_GRID_TP_DP_PP},
		.node = 4,
		.batch = 128,
		.micro_batch = 4,
		.recompute = BB_RECOMPUTE_FULL,
		.zero = 1,
		.memory = GIB(32),
		.flops = 62.5e12,
		.inside = {150e9, 5e-6},
		.between = {3.125e9, 5e-6},
	},
	{.name = NULL},
};

/* The rate of the published run, whatever other options say. None of them had FlashAttention. */
static double preset_rate(const struct bb_hybrid_preset *p, const struct bb_model *model,
			  const struct bb_model_layout *layout)
{
	const struct bb_hybrid_cluster cluster = {.ranks = bb_grid_ranks(&p->grid),
						  .node = p->node,
						  .inside = p->inside,
						  .between = p->between};
	struct bb_hybrid_division division = {
		.grid = p->grid,
		.training = {.model = model,
			     .layout = layout,
			     .recipe = {&bb_precisions[0], &bb_optimizers[0]},
			     .trainable = 1,
			     .zero = p->zero,
			     .dp = (uint64_t)p->grid.dp,
			     .tp = (uint64_t)p->grid.tp,
			     .pp = (uint64_t)p->grid.pp,
			     .ep = (uint64_t)p->grid.ep,
			     .chunks = 1,
			     .micro_batch = p->micro_batch,
			     .micro_batches = p->batch / (uint64_t)p->grid.dp / p->micro_batch,
			     .recompute = p->recompute,
			     .eager = true}};

	return bb_hybrid_division_rate(&division, &cluster, p->run_flops);
}

bb_status bb_hybrid_preset_rate(const struct bb_hybrid_preset *p, double *flops,
				struct bb_error *error)
{
	struct bb_model_layout layout = {.before = NULL};
	struct bb_model model = {.tensors = NULL};
	bb_status status = BB_OK;

	*flops = p->flops;
	if (p->run_flops <= 0)
		return BB_OK;
	BB_TRY(status, bb_model_open(&model, p->model, 0, error), out);
	BB_TRY(status, bb_model_layout_make(&layout, &model, 0, error), out);
	*flops = preset_rate(p, &model, &layout);
out:
	bb_model_layout_free(&layout);
	bb_model_free(&model);
	return status;
}
