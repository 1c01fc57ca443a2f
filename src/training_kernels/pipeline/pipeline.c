/*
 * pipeline.c - the descriptor of the pipeline benchmark.
 */
#include "training_kernels/pipeline/pipeline.h"

#include "models/model.h"

static void pipeline_list(struct bb_strbuf *out)
{
	bb_strbuf_add(out, "schedules:\n");
	for (const struct bb_pipeline_schedule *s = bb_pipeline_schedules; s->name; s++)
		bb_strbuf_addf(out, "    %-12s %s\n", s->name, s->brief);
	bb_model_list(out);
}

static bb_status check_world(struct bb_run *run, const struct bb_pipeline_options *a)
{
	const int n = run->world.nranks;

	if (a->predict || run->options.backend->virtual || n == a->stages)
		return BB_OK;
	return bb_fail(&run->error, BB_EUSAGE,
		       "--stages %lld: each stage is a rank, and the number of ranks is %d; give "
		       "as many, or --predict",
		       (long long)a->stages, n);
}

static bool pipeline_predicts(const void *own)
{
	const struct bb_pipeline_state *state = own;

	return state->asked.predict;
}

static bb_status pipeline_plan(struct bb_run *run)
{
	struct bb_pipeline_state *state = run->own;
	const struct bb_pipeline_options *a = &state->asked;
	const bb_status status = check_world(run, a);

	state->pipeline = (struct bb_pipeline){
		.stages = (int)a->stages,
		.microbatches = (int)a->microbatches,
		.chunks = (int)a->chunks,
		.f = (int64_t)a->tf_ns,
		.b = (int64_t)a->tb_ns,
		.w = (int64_t)a->tw_ns,
		.kept = (int64_t)a->mb_bytes,
		.kept_w = (int64_t)a->mw_bytes,
		.layers = a->layers,
		.first = a->first,
		.last = a->last,
		.limit = a->memory ? a->memory : 2 * a->stages,
		.by_step = a->cost == BB_COST_STEP,
	};
	for (int i = 0; i < a->nschedules; i++)
		if (!bb_pipeline_refuses(a->schedules[i], &state->pipeline))
			return status;
	return bb_fail(&run->error, BB_EUNSUPPORTED, "--schedule %s: %s", a->schedules[0]->name,
		       bb_pipeline_refuses(a->schedules[0], &state->pipeline));
}

static bb_status open_results(struct bb_run *run)
{
	const struct bb_pipeline_state *state = run->own;
	bb_ticker_start(&run->ticker, (size_t)state->asked.nschedules,
			(uint64_t)state->asked.nschedules);
	return BB_OK;
}

static void pipeline_tell(struct bb_run *run, struct bb_strbuf *out)
{
	const struct bb_pipeline_state *state = run->own;
	const bool virtual = run->options.backend->virtual;
	const char *found = virtual ? "simulated" : "measured";

	bb_strbuf_addf(
		out,
		"# step: time until the last pass ends, median of %s steps. /ideal: bubble / time "
		"of "
		"the passes. /total: bubble / step\n"
		"# stage: longest time of a stage from its first pass to its last, the cost of a "
		"step if stages do not meet at its end\n",
		found);
	if (state->asked.gantt)
		bb_strbuf_addf(
			out,
			"# charts: a line per stage; each pass is its letter, the number of its "
			"microbatch if there is room, and dashes;\n"
			"# small letters: odd chunks; long B: B and W together; dots: waits; %s "
			"charts show the last step\n",
			found);
}

const struct bb_benchmark bb_pipeline_benchmark = {
	.brief = "Pipeline parallelism: the bubble of each schedule, predicted and measured.",
	.own_bytes = sizeof(struct bb_pipeline_state),
	.options = bb_pipeline_rows,
	.faults = 1u << BB_FAULT_CORRUPT | 1u << BB_FAULT_SLOW | 1u << BB_FAULT_DIE |
		  1u << BB_FAULT_SWAP,
	.refuses =
		{{BB_ALL_SIZES " precision",
		  "a pipeline has no sweep of sizes; leave it out, --message sets the size of its "
		  "messages, -n the number of timed steps"}},
	.queues = true,
	.programs = true, /* of messages alone */
	.predicts = pipeline_predicts,
	.check = bb_pipeline_check,
	.list = pipeline_list,
	.open_text = bb_sink_pipeline_open,
	.rows = &bb_record_pipeline,
	.plan = pipeline_plan,
	.open_results = open_results,
	.experiment = &bb_pipeline_experiment,
	.tell = pipeline_tell,
};
