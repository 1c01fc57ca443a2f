/*
 * data_parallel.c - the descriptor of the benchmark of data-parallel strategies.
 */
#include "training_kernels/data_parallel/data_parallel.h"
#include "training_kernels/estimate.h"
#include "training_kernels/sampler.h"

#include <stdio.h>

static void dp_list(struct bb_strbuf *out)
{
	bb_strbuf_add(out, "strategies (--way):\n");
	for (int i = 0; bb_strategies[i]; i++) {
		bb_strbuf_addf(out, "  %-10s %s\n  %-10s %s\n", bb_strategies[i]->name,
			       bb_strategies[i]->brief, "", bb_strategies[i]->formula);
		if (bb_strategies[i]->shared)
			bb_strbuf_addf(out, "  %-10s %s, with ports\n", "",
				       bb_strategies[i]->shared);
	}
	bb_model_list(out);
}

static bb_status dp_show(struct bb_run *run, struct bb_strbuf *out)
{
	const struct bb_dp *dp = run->own;
	const struct bb_sampler sampler = {
		.samples = (size_t)dp->asked.sampler,
		.nranks = bb_estimate_ranks(&run->options, &run->environment),
		.drop_last = dp->asked.drop_last,
		.seed = (uint64_t)run->options.seed,
	};

	return bb_sampler_tell(&sampler, (uint64_t)dp->asked.epochs, out, &run->error);
}

static bb_status dp_plan(struct bb_run *run)
{
	const struct bb_dp *dp = run->own;
	char subject[128];

	run->record.algorithms = dp->asked.algo_text;
	if (dp->asked.train_given && dp->asked.samples < run->world.nranks)
		return bb_fail(
			&run->error, BB_EUSAGE,
			"--samples %lld: fewer than the %d ranks; give at least one for each rank",
			(long long)dp->asked.samples, run->world.nranks);
	if (dp->asked.train_given)
		return BB_OK;
	snprintf(subject, sizeof(subject), "--model %s", dp->asked.model_text);
	return bb_estimate_room(run, 2 * dp->model.parameters * bb_dtype_size(dp->asked.dtype),
				subject, "gradients and parameters",
				"fewer ranks, a smaller datatype or --backend sim");
}

static void close_dp(struct bb_run *run)
{
	struct bb_dp *dp = run->own;

	bb_model_free(&dp->model);
}

static bool dp_shows(const void *own)
{
	const struct bb_dp *dp = own;

	return dp->asked.sampler_given;
}

const struct bb_benchmark bb_dp_benchmark = {
	.brief = "Data-parallel training: the same step by different strategies.",
	.own_bytes = sizeof(struct bb_dp),
	.options = bb_dp_rows,
	.faults = 1u << BB_FAULT_CORRUPT | 1u << BB_FAULT_DIE,
	.refuses = {{BB_ALL_SIZES, "the model's gradients are sent; leave it out, --model selects "
				   "them"}},
	.queues = true,
	.shows = dp_shows,
	.check = bb_dp_check,
	.list = dp_list,
	.show = dp_show,
	.open_text = bb_sink_table_open,
	.rows = &bb_record_way,
	.plan = dp_plan,
	.experiment = &bb_dp_experiment,
	.close = close_dp,
};
