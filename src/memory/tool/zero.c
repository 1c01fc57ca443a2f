/*
 * zero.c - the stages of ZeRO: what a rank keeps and sends, and what DeepSpeed estimates.
 */
#include "memory/tool/calculators.h"
#include "memory/tool/tool.h"

/* ---- the stages, compared -------------------------------------------------------------------- */

bb_status bb_calculate_zero(struct job *job)
{
	static const struct bb_table_head heads[] = {
		{"dp", "", 0},         {"ZeRO", "", 0},    {"params", "GB", 0}, {"grads", "GB", 0},
		{"optim", "GB", 0},    {"total", "GB", 0}, {"total", "GiB", 0}, {"world", "GB", 0},
		{"saved", "times", 0}, {"sent", "GB", 0},  {NULL, NULL, 0},
	};
	static const uint64_t typical[] = {1, 4, 16, 64, 256, 1024}; /* table 1 of the ZeRO paper */
	const struct options *o = job->o;
	const struct bb_recipe recipe = {&bb_precisions[o->precision],
					 &bb_optimizers[o->optimizer]};
	const size_t rows =
		BB_ZERO_STAGES * (o->dp_given ? 1 : sizeof(typical) / sizeof(typical[0]));
	struct bb_json *j = &job->json;
	bb_status st;

	BB_TRY(st, bb_job_open_model(job), out);
	if (recipe.optimizer->factored)
		return bb_fail(job->error, BB_EUSAGE,
			       "--optimizer %s needs rows and columns of tensors, but ZeRO divides "
			       "flat arrays; give another optimizer",
			       recipe.optimizer->name);
	if (recipe.optimizer->onebit)
		return bb_fail(job->error, BB_EUSAGE,
			       "--optimizer %s: DeepSpeed refuses it with ZeRO; model_memory train "
			       "has its memory",
			       recipe.optimizer->name);
	bb_job_add_recipe(job, &recipe);
	bb_strbuf_addf(&job->text,
		       "# total: states of one rank; world: of all ranks; saved: factor against "
		       "stage 0\n# sent: by one rank per step (microbatches: %jd)\n"
		       "# FSDP: stage 0 is NO_SHARD, 2 SHARD_GRAD_OP, 3 FULL_SHARD\n#\n",
		       o->micro_batches);
	bb_table_columns(&job->table, heads, 2);
	bb_json_add_array(j, "stages");
	struct bb_states whole = bb_states_of_rank(&recipe, job->parameters, 0, 0, 1);
	for (size_t i = 0; i < rows; i++) {
		const uint64_t ranks = o->dp_given ? (uint64_t)o->dp : typical[i / BB_ZERO_STAGES];
		const int stage = (int)(i % BB_ZERO_STAGES);
		const struct bb_states s =
			bb_states_of_rank(&recipe, job->parameters, 0, stage, ranks);
		const uint64_t sum = bb_states_sum(&s), world = bb_bytes_times(sum, ranks);
		const uint64_t sent = bb_zero_bytes(&recipe, job->parameters, stage, ranks,
						    (uint64_t)o->micro_batches);

		bb_table_cellf(
			&job->table, "%ju\t%d\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%.1f\t%.2f\t%.3f",
			ranks, stage, GB(s.parameters), GB(s.gradients), GB(s.optimizer), GB(sum),
			GiB(sum), GB(world), (double)bb_states_sum(&whole) / (double)sum, GB(sent));
		bb_json_add_object(j, NULL);
		bb_json_add_uint(j, "dp", ranks);
		bb_json_add_int(j, "zero", stage);
		bb_json_add_uint(j, "parameters_bytes", s.parameters);
		bb_json_add_uint(j, "gradients_bytes", s.gradients);
		bb_json_add_uint(j, "optimizer_bytes", s.optimizer);
		bb_json_add_uint(j, "total_bytes", sum);
		bb_json_add_uint(j, "world_bytes", world);
		bb_json_add_uint(j, "sent_bytes", sent);
		bb_json_end(j);
	}
	bb_json_end(j);
	bb_job_end_table(job);
out:
	return st;
}

/* ---- DeepSpeed's estimates ------------------------------------------------------------------- */

/* BYTES with DeepSpeed's factor of 1.5 for buffers. */
static uint64_t buffered(uint64_t bytes)
{
	const uint64_t thrice = bb_bytes_times(bytes, 3);

	return thrice == UINT64_MAX ? thrice : thrice / 2;
}

struct bb_deepspeed_estimate bb_deepspeed_needs(const struct bb_deepspeed_input *in, int stage,
						enum bb_offload offload, bool zero_init)
{
	const uint64_t p = in->parameters, layer = 4 * in->largest_layer;
	const uint64_t gpus = in->nodes * in->gpus_per_node;
	const uint64_t each = offload == BB_OFFLOAD_PARAMETERS ? 18 : 16;
	/* The processes of a node each create the model, or its largest layer, in fp32. */
	const uint64_t created = buffered(bb_bytes_times(
		zero_init && !offload ? in->largest_layer : p, 4 * in->gpus_per_node));

	if (!offload)
		return (struct bb_deepspeed_estimate){(stage == 3 ? layer : 2 * p) + 18 * p / gpus,
						      created};
	if (stage == 2)
		return (struct bb_deepspeed_estimate){
			2 * p, buffered(bb_bytes_times(p, gpus > 4 ? 4 * gpus : 16))};
	/* The states of the node, or the model as created if that is more. */
	return (struct bb_deepspeed_estimate){
		layer + (offload == BB_OFFLOAD_PARAMETERS ? 0 : 2 * p / gpus),
		zero_init || 4 * gpus <= each ? buffered(each * p) / in->nodes : created};
}

uint64_t bb_deepspeed_zero2_documented(const struct bb_deepspeed_input *in)
{
	return 4 * in->parameters + 16 * in->parameters / (in->nodes * in->gpus_per_node);
}

bb_status bb_calculate_deepspeed(struct job *job)
{
	static const struct bb_table_head heads[] = {
		{"stage", "", 0},   {"offload", "", -10}, {"zero.Init", "", 0}, {"node", "GiB", 10},
		{"GPU", "GiB", 10}, {"node", "GB", 10},   {"GPU", "GB", 10},    {NULL, NULL, 0},
	};
	static const struct {
		int stage;
		enum bb_offload offload;
		bool zero_init;
	} rows[] = {
		{2, BB_OFFLOAD_OPTIMIZER, false}, {2, BB_OFFLOAD_NONE, false},
		{3, BB_OFFLOAD_PARAMETERS, true}, {3, BB_OFFLOAD_PARAMETERS, false},
		{3, BB_OFFLOAD_OPTIMIZER, true},  {3, BB_OFFLOAD_OPTIMIZER, false},
		{3, BB_OFFLOAD_NONE, true},       {3, BB_OFFLOAD_NONE, false},
	};
	char layer[BB_GROUPED_TEXT];
	struct bb_module largest = {.parameters = 0};
	const struct options *o = job->o;
	struct bb_json *j = &job->json;
	bb_status st;

	BB_TRY(st, bb_job_open_model(job), out);
	if (job->has_model)
		largest = bb_model_largest_module(&job->model);
	struct bb_deepspeed_input in = {
		.parameters = job->parameters,
		.largest_layer = o->largest_layer_given ? o->largest_layer : largest.parameters,
		.nodes = (uint64_t)o->nodes,
		.gpus_per_node = (uint64_t)o->gpus_per_node,
	};
	if (in.largest_layer > in.parameters)
		return bb_fail(job->error, BB_EUSAGE,
			       "--largest-layer %ju: exceeds the %ju parameters of the model",
			       in.largest_layer, in.parameters);
	if (in.largest_layer == 0)
		return bb_fail(job->error, BB_EUSAGE,
			       "--params: stage 3 also needs the parameters of the largest layer; "
			       "give --largest-layer, or --model");
	bb_job_grouped(layer, in.largest_layer);
	bb_strbuf_addf(&job->text,
		       "# largest layer: %s parameters%s%s; nodes: %ju, GPUs per node: %ju\n"
		       "# GiB are the GB of DeepSpeed\n#\n",
		       layer, o->largest_layer_given ? "" : ", ",
		       o->largest_layer_given ? "" : largest.name, in.nodes, in.gpus_per_node);
	bb_table_columns(&job->table, heads, 3);
	bb_json_add_uint(j, "largest_layer", in.largest_layer);
	bb_json_add_uint(j, "nodes", in.nodes);
	bb_json_add_uint(j, "gpus_per_node", in.gpus_per_node);
	bb_json_add_array(j, "estimates");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const bool three = rows[i].stage == 3, init = rows[i].zero_init;
		const char *offload = bb_offload_words[rows[i].offload];
		const struct bb_deepspeed_estimate e =
			bb_deepspeed_needs(&in, rows[i].stage, rows[i].offload, init);

		bb_table_cellf(&job->table, "%d\t%s\t%s\t%.2f\t%.2f\t%.2f\t%.2f", rows[i].stage,
			       offload,
			       !three ? "-"
			       : init ? "yes"
				      : "no",
			       GiB(e.host), GiB(e.gpu), GB(e.host), GB(e.gpu));
		bb_json_add_object(j, NULL);
		bb_json_add_int(j, "zero", rows[i].stage);
		bb_json_add_string(j, "offload", offload);
		if (three)
			bb_json_add_bool(j, "zero_init", init);
		else
			bb_json_add_null(j, "zero_init");
		bb_json_add_uint(j, "host_bytes", e.host);
		bb_json_add_uint(j, "gpu_bytes", e.gpu);
		bb_json_end(j);
	}
	bb_json_end(j);
	bb_job_end_table(job);
	bb_json_add_uint(j, "documented_zero2_gpu_bytes", bb_deepspeed_zero2_documented(&in));
	bb_strbuf_addf(&job->text,
		       "# stage 2 without offload: DeepSpeed's documentation says %.2f GiB per "
		       "GPU, 4 P + 16 P / GPUs; its code computes 2 P + 18 P / GPUs, as above\n",
		       GiB(bb_deepspeed_zero2_documented(&in)));
out:
	return st;
}
