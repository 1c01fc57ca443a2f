/*
 * deepspeed.c - the arithmetic of DeepSpeed's estimates; divisions truncate, as int() does there.
 */
#include "models/memory/deepspeed.h"
#include "models/memory/activations.h"

/* BYTES with DeepSpeed's factor of 1.5 for buffers. */
static uint64_t buffered(uint64_t bytes)
{
	const uint64_t thrice = bb_bytes_times(bytes, 3);

	return thrice == UINT64_MAX ? thrice : thrice / 2;
}

static uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t gpus(const struct bb_estimate_input *in)
{
	return in->nodes * in->gpus_per_node;
}

struct bb_estimate bb_estimate_zero2(const struct bb_estimate_input *in, bool cpu_offload)
{
	const uint64_t p = in->parameters;

	if (cpu_offload)
		return (struct bb_estimate){
			.gpu = 2 * p,
			.host = buffered(bb_bytes_times(p, most(4 * gpus(in), 16))),
		};
	return (struct bb_estimate){
		.gpu = 2 * p + 18 * p / gpus(in),
		.host = buffered(bb_bytes_times(p, 4 * in->gpus_per_node)),
	};
}

/* A node whose processes each create the model in fp32, or its share of EACH bytes a parameter if
   that is more. */
static uint64_t made_whole(const struct bb_estimate_input *in, unsigned each)
{
	const uint64_t p = in->parameters, processes = 4 * in->gpus_per_node;

	return processes * in->nodes > each ? buffered(bb_bytes_times(p, processes))
					    : buffered(each * p) / in->nodes;
}

struct bb_estimate bb_estimate_zero3(const struct bb_estimate_input *in, bool cpu_offload,
				     bool cpu_offload_params, bool zero_init)
{
	const uint64_t p = in->parameters, layer = 4 * in->largest_layer;
	const unsigned each = cpu_offload_params ? 18 : 16;

	if (cpu_offload)
		return (struct bb_estimate){
			.gpu = layer + (cpu_offload_params ? 0 : 2 * p / gpus(in)),
			.host = zero_init ? buffered(each * p) / in->nodes : made_whole(in, each),
		};
	return (struct bb_estimate){
		.gpu = layer + 18 * p / gpus(in),
		.host = buffered(
			bb_bytes_times(zero_init ? in->largest_layer : p, 4 * in->gpus_per_node)),
	};
}

uint64_t bb_estimate_zero2_documented(const struct bb_estimate_input *in)
{
	return 4 * in->parameters + 16 * in->parameters / gpus(in);
}
