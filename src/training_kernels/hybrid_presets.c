/*
 * hybrid_presets.c - published runs.
 */
#include "training_kernels/hybrid.h"

#define GB(n) ((uint64_t)(n)*1000000000)

const struct bb_hybrid_preset bb_hybrid_presets[] = {
	/* Four links of 100 Gb/s of a node are shared by its eight GPUs; NVLink 3 carries 300 GB/s
	   each way. A100s do 312 TFLOPS, of which the run reached about 150. Latencies are assumed.
	 */
	{
		.name = "bloom-176b",
		.source = "BigScience 2022: model card of bloom and its chronicles: 48 nodes of 8 "
			  "A100 "
			  "80GB, TP 4, PP 12, DP 8, ZeRO 1, batch 2048, micro-batch 2",
		.model = "bloom-176b",
		.grid = {4, 12, 8, 1, BB_GRID_TP_PP_DP},
		.node = 8,
		.batch = 2048,
		.micro_batch = 2,
		.recompute = BB_RECOMPUTE_FULL,
		.zero = 1,
		.memory = GB(80),
		.flops = 150e12,
		.inside = {300e9, 5e-6},
		.between = {6.25e9, 5e-6},
	},
	{
		.name = "deepspeed-3d",
		.source =
			"DeepSpeed's example of 3D parallelism (2020): 8 nodes of 4 GPUs, model 4, "
			"pipeline 4, data 2, ZeRO 1; it names no model",
		.grid = {4, 4, 2, 1, BB_GRID_TP_DP_PP},
		.node = 4,
		.zero = 1,
	},
	{.name = NULL},
};
