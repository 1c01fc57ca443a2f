/*
 * deepspeed.c - DeepSpeed's estimates.
 */
#include "memory/tool/calculators.h"
#include "memory/tool/tool.h"

/* ---- what is calculated ---------------------------------------------------------------------- */

/* BYTES with DeepSpeed's factor of 1.5 for buffers. */
static uint64_t buffered(uint64_t bytes)
{
	const uint64_t thrice = bb_bytes_times(bytes, 3);

	return thrice == UINT64_MAX ? thrice : thrice / 2;
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
			.host = buffered(bb_bytes_times(p, gpus(in) > 4 ? 4 * gpus(in) : 16)),
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

/* ---- the subject ----------------------------------------------------------------------------- */

static const struct {
	int stage;
	bool offload, parameters, zero_init;
} configurations[] = {
	{2, true, false, false}, {2, false, false, false}, {3, true, true, true},
	{3, true, true, false},  {3, true, false, true},   {3, true, false, false},
	{3, false, false, true}, {3, false, false, false},
};

static void add_estimate(struct job *job, const struct bb_estimate_input *in, size_t i)
{
	const bool three = configurations[i].stage == 3;
	const char *offload = configurations[i].parameters ? "parameters"
			      : configurations[i].offload  ? "optimizer"
							   : "none";
	const struct bb_estimate e =
		three ? bb_estimate_zero3(in, configurations[i].offload,
					  configurations[i].parameters, configurations[i].zero_init)
		      : bb_estimate_zero2(in, configurations[i].offload);

	bb_table_cellf(&job->table, "%d\t%s\t%s\t%.2f\t%.2f\t%.2f\t%.2f", configurations[i].stage,
		       offload,
		       !three                        ? "-"
		       : configurations[i].zero_init ? "yes"
						     : "no",
		       GiB(e.host), GiB(e.gpu), GB(e.host), GB(e.gpu));
	bb_json_object(&job->json);
	bb_json_add_int(&job->json, "zero", configurations[i].stage);
	bb_json_add_string(&job->json, "offload", offload);
	bb_json_key(&job->json, "zero_init");
	if (three)
		bb_json_bool(&job->json, configurations[i].zero_init);
	else
		bb_json_null(&job->json);
	bb_json_add_uint(&job->json, "host_bytes", e.host);
	bb_json_add_uint(&job->json, "gpu_bytes", e.gpu);
	bb_json_end(&job->json);
}

bb_status bb_memory_deepspeed(struct job *job)
{
	static const struct bb_table_head heads[] = {
		{"stage", "", 0},   {"offload", "", -10}, {"zero.Init", "", 0}, {"node", "GiB", 10},
		{"GPU", "GiB", 10}, {"node", "GB", 10},   {"GPU", "GB", 10},    {NULL, NULL, 0},
	};
	char layer[BB_GROUPED_TEXT];
	struct bb_module largest = {.parameters = 0};
	const struct options *o = job->o;
	struct bb_estimate_input in;
	bb_status st;

	BB_TRY(st, bb_memory_open_subject(job), out);
	if (job->has_model)
		largest = bb_model_largest_module(&job->model);
	in = (struct bb_estimate_input){
		.parameters = job->parameters,
		.largest_layer = o->largest_layer_given ? o->largest_layer : largest.parameters,
		.nodes = (uint64_t)o->nodes,
		.gpus_per_node = (uint64_t)o->gpus_per_node,
	};
	if (in.largest_layer > in.parameters)
		return bb_fail(job->error, BB_EUSAGE,
			       "--largest-layer %llu: exceeds the %llu parameters of the model",
			       (unsigned long long)in.largest_layer,
			       (unsigned long long)in.parameters);
	if (in.largest_layer == 0)
		return bb_fail(job->error, BB_EUSAGE,
			       "--params: stage 3 also needs the parameters of the largest layer; "
			       "give --largest-layer, or --model");
	bb_memory_grouped(layer, in.largest_layer);
	bb_strbuf_addf(&job->text,
		       "# largest layer: %s parameters%s%s; nodes: %llu, GPUs per node: %llu\n"
		       "# GiB are the GB of DeepSpeed\n#\n",
		       layer, o->largest_layer_given ? "" : ", ",
		       o->largest_layer_given ? "" : largest.name, (unsigned long long)in.nodes,
		       (unsigned long long)in.gpus_per_node);
	bb_table_columns(&job->table, heads, 3);
	bb_json_add_uint(&job->json, "largest_layer", in.largest_layer);
	bb_json_add_uint(&job->json, "nodes", in.nodes);
	bb_json_add_uint(&job->json, "gpus_per_node", in.gpus_per_node);
	bb_json_add_array(&job->json, "estimates");
	for (size_t i = 0; i < sizeof(configurations) / sizeof(configurations[0]); i++)
		add_estimate(job, &in, i);
	bb_json_end(&job->json);
	bb_memory_end_table(job);
	bb_json_add_uint(&job->json, "documented_zero2_gpu_bytes",
			 bb_estimate_zero2_documented(&in));
	bb_strbuf_addf(&job->text,
		       "# stage 2 without offload: DeepSpeed's documentation says %.2f GiB per "
		       "GPU, 4 P + 16 P / GPUs; its code computes 2 P + 18 P / GPUs, as above\n",
		       GiB(bb_estimate_zero2_documented(&in)));
out:
	return st;
}
