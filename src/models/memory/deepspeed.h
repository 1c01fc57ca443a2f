/*
 * deepspeed.h - DeepSpeed's own estimates, reproduced exactly: those of
 * estimate_zero2_model_states_mem_needs in deepspeed/runtime/zero/stage_1_and_2.py and of
 * estimate_zero3_model_states_mem_needs in stage3.py. They count only states, of Adam in mixed
 * precision. Bytes that exceed 64 bits are UINT64_MAX.
 */
#ifndef BB_MODELS_MEMORY_DEEPSPEED_H
#define BB_MODELS_MEMORY_DEEPSPEED_H

#include <stdbool.h>
#include <stdint.h>

struct bb_estimate_input {
	uint64_t parameters;    /* of the model */
	uint64_t largest_layer; /* parameters of its largest module, for stage 3 */
	uint64_t nodes, gpus_per_node;
};

struct bb_estimate {
	uint64_t gpu;  /* bytes of each GPU */
	uint64_t host; /* bytes of each node's memory, with DeepSpeed's factor of 1.5 for buffers */
};

struct bb_estimate bb_estimate_zero2(const struct bb_estimate_input *in, bool cpu_offload);
/* ZERO_INIT: the model is created under zero.Init, so no process ever holds all of it. */
struct bb_estimate bb_estimate_zero3(const struct bb_estimate_input *in, bool cpu_offload,
				     bool cpu_offload_params, bool zero_init);

/*
 * Stage 2 without offload as documented by DeepSpeed (docs/code-docs, "Memory Requirements"): 4 P +
 * 16 P / GPUs, where its code computes 2 P + 18 P / GPUs.
 */
uint64_t bb_estimate_zero2_documented(const struct bb_estimate_input *in);

#endif
