/*
 * zero.c - the stages of ZeRO, compared.
 */
#include "memory/tool/tool.h"

/* Add STAGE with RANKS ranks: a line of text and an object of JSON. */
static void add_zero_stage(struct job *job, const struct bb_recipe *recipe, int stage,
			   uint64_t ranks)
{
	const uint64_t n = job->parameters, steps = (uint64_t)job->o->micro_batches;
	const struct bb_states whole = bb_states_of_rank(recipe, n, 0, 0, 1);
	const struct bb_states s = bb_states_of_rank(recipe, n, 0, stage, ranks);
	const uint64_t sum = bb_states_sum(&s);
	const uint64_t sent = bb_zero_bytes(recipe, n, stage, ranks, steps);
	struct bb_json *j = &job->json;

	bb_table_cellf(&job->table, "%llu\t%d\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%.1f\t%.2f\t%.3f",
		       (unsigned long long)ranks, stage, GB(s.parameters), GB(s.gradients),
		       GB(s.optimizer), GB(sum), GiB(sum), GB(bb_bytes_times(sum, ranks)),
		       (double)bb_states_sum(&whole) / (double)sum, GB(sent));
	bb_json_object(j);
	bb_json_add_uint(j, "dp", ranks);
	bb_json_add_int(j, "zero", stage);
	bb_json_add_uint(j, "parameters_bytes", s.parameters);
	bb_json_add_uint(j, "gradients_bytes", s.gradients);
	bb_json_add_uint(j, "optimizer_bytes", s.optimizer);
	bb_json_add_uint(j, "total_bytes", sum);
	bb_json_add_uint(j, "world_bytes", bb_bytes_times(sum, ranks));
	bb_json_add_uint(j, "sent_bytes", sent);
	bb_json_end(j);
}

bb_status bb_memory_zero(struct job *job)
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
	const size_t n = o->dp_given ? 1 : sizeof(typical) / sizeof(typical[0]);
	bb_status st;

	BB_TRY(st, bb_memory_open_subject(job), out);
	if (recipe.optimizer->factored)
		return bb_fail(job->error, BB_EUSAGE,
			       "--optimizer %s needs rows and columns of tensors, but ZeRO divides "
			       "flat arrays; give another optimizer",
			       recipe.optimizer->name);
	bb_memory_add_recipe(job, &recipe);
	bb_strbuf_addf(&job->text,
		       "# total: states of one rank; world: of all ranks; saved: factor against "
		       "stage 0\n# sent: by one rank per step (microbatches: %lld)\n"
		       "# FSDP: stage 0 is NO_SHARD, 2 SHARD_GRAD_OP, 3 FULL_SHARD\n#\n",
		       (long long)o->micro_batches);
	bb_table_columns(&job->table, heads, 2);
	bb_json_add_array(&job->json, "stages");
	for (size_t i = 0; i < n; i++)
		for (int stage = 0; stage < BB_ZERO_STAGES; stage++)
			add_zero_stage(job, &recipe, stage,
				       o->dp_given ? (uint64_t)o->dp : typical[i]);
	bb_json_end(&job->json);
	bb_memory_end_table(job);
out:
	return st;
}
