/*
 * deepspeed.c - DeepSpeed's estimates.
 */
#include "models/memory/deepspeed.h"
#include "memory/tool/tool.h"

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
