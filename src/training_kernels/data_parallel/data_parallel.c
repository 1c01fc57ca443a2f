/*
 * data_parallel.c - strategies of data-parallel training: options, record and descriptor of the
 * benchmark.
 */
#include "training_kernels/data_parallel/data_parallel.h"

#include "core/units.h"
#include "harness/measure/algorithms.h"
#include "harness/run/options_check.h"
#include "training_kernels/ddp/ddp.h"
#include "training_kernels/kernel/estimate.h"
#include "training_kernels/sampler.h"
#include "training_kernels/train.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* ---- options --------------------------------------------------------------------------------- */

static const char *strategy_name(int index)
{
	return bb_strategies[index] ? bb_strategies[index]->name : NULL;
}

static const char *const colocated_names[] = {"off", "on", "both", NULL};
static const char *const server_names[] = {"aggregate", "update", NULL};

#define BB_OPTIONS struct bb_dp_options
const struct bb_option bb_dp_rows[] = BB_OPTION_ROWS(BB_DP_OPTIONS);

/* ---- the check ------------------------------------------------------------------------------- */

static bb_status dp_check(const struct bb_benchmark *benchmark, void *own, struct bb_options *o,
			  const struct bb_environment *environment, struct bb_error *error)
{
	struct bb_dp *dp = own;
	struct bb_dp_options *a = &dp->options;
	const bb_status status = bb_algorithms_check_one(a->algo_text, o, error);
	bool averages = false;

	if (status != BB_OK || a->sampler_given)
		return status;
	if (!a->train_given && o->fault.kind == BB_FAULT_CORRUPT)
		return bb_fail(error, BB_EUSAGE, "--fault %s: only --train verifies data",
			       o->fault_text);
	for (size_t i = 0; i < a->strategies.n; i++)
		averages |= bb_strategies[a->strategies.list[i]] == &bb_strategy_average;
	if (a->train_given && averages && a->train % a->every != 0)
		return bb_fail(error, BB_EUSAGE,
			       "--train %lld: average needs a multiple of --every %lld steps",
			       (long long)a->train, (long long)a->every);
	return bb_replica_open(&dp->replica, &BB_REPLICA_REQUEST(a), o, error);
}

/* ---- the record ------------------------------------------------------------------------------ */

static void servers_cell(const void *record, char text[BB_CELL_TEXT])
{
	const struct bb_dp_record *r = record;

	if (r->servers == BB_ABSENT)
		snprintf(text, BB_CELL_TEXT, "-");
	else if (r->colocated)
		snprintf(text, BB_CELL_TEXT, "all");
	else
		snprintf(text, BB_CELL_TEXT, "%lld", (long long)r->servers);
}

static void dp_about(const void *record, struct bb_strbuf *out)
{
	const struct bb_dp_record *r = record;
	char batch[BB_UNIT_TEXT];

	bb_strbuf_addf(out, "# %s: %lld parameters, M = %.3f MiB of gradients (%s)\n", r->model,
		       (long long)r->parameters, (double)r->gradient_bytes / (1 << 20), r->dtype);
	if (r->train_steps != BB_ABSENT) {
		bb_strbuf_addf(
			out,
			"# Trained for %lld steps of %lld samples; nothing is timed. #wrong: "
			"numbers that differ from one rank with all samples\n",
			(long long)r->train_steps, (long long)r->samples);
		return;
	}
	bb_strbuf_addf(out, "# DDP %s\n", r->fit);
	bb_strbuf_addf(out, "# Batch: forward and backward %s (%s)",
		       bb_format_duration(batch, 1e-6 * r->batch_us), r->compute);
	if (r->batches > 1)
		bb_strbuf_addf(out, "; %lld batches per step", (long long)r->batches);
	bb_strbuf_add(out,
		      "\n# k: number of servers; all: every worker is one. root, worker: memory "
		      "of a root or server, and of a worker. wire: bytes of the busiest rank\n");
}

#define BB_RECORD bb_dp_record
BB_RECORD_KIND(bb_record_strategy, BB_DP_FIELDS, "way",
	       "Data-parallel training: a step by one strategy.", .about = dp_about);

/* ---- the benchmark --------------------------------------------------------------------------- */

static void dp_list(struct bb_strbuf *out)
{
	bb_strbuf_add(out, "strategies (--way):\n");
	for (int i = 0; bb_strategies[i]; i++) {
		bb_strbuf_item(out, 2, bb_strategies[i]->name, 13, bb_strategies[i]->brief);
		bb_strbuf_item(out, 2, "", 13, bb_strategies[i]->formula);
		if (bb_strategies[i]->shared)
			bb_strbuf_item(out, 2, "with ports", 13, bb_strategies[i]->shared);
	}
	bb_model_list(out);
}

static bb_status dp_show(struct bb_run *run, struct bb_strbuf *out)
{
	const struct bb_dp *dp = run->own;
	const struct bb_sampler sampler = {
		.samples = (size_t)dp->options.sampler,
		.nranks = bb_estimate_ranks(&run->options, &run->environment),
		.drop_last = dp->options.drop_last,
		.seed = (uint64_t)run->options.seed,
	};

	return bb_sampler_describe(&sampler, (uint64_t)dp->options.epochs, out, &run->error);
}

static bb_status dp_plan(struct bb_run *run)
{
	struct bb_dp *dp = run->own;

	run->record.algorithms = dp->options.algo_text;
	if (!dp->options.train_given)
		return bb_replica_plan(&dp->replica, run, 2, "gradients and parameters",
				       "fewer ranks, a smaller datatype or --backend sim");
	if (dp->options.samples < run->world.nranks)
		return bb_fail(
			&run->error, BB_EUSAGE,
			"--samples %lld: fewer than the %d ranks; give at least one for each rank",
			(long long)dp->options.samples, run->world.nranks);
	return BB_OK;
}

static void dp_free(void *own)
{
	bb_replica_close(&((struct bb_dp *)own)->replica);
}

static bool dp_shows(const void *own)
{
	const struct bb_dp *dp = own;

	return dp->options.sampler_given;
}

const struct bb_benchmark bb_dp_benchmark = {
	.brief = "Data-parallel training: the same step by different strategies.",
	.examples = {"-g 5 --train 12", "--backend sim --cluster hgx-h100:16 --model gpt2"},
	.own_bytes = sizeof(struct bb_dp),
	.options = bb_dp_rows,
	.faults = 1u << BB_FAULT_CORRUPT | 1u << BB_FAULT_DIE,
	.refuses = {{BB_ALL_SIZES, "the model's gradients are sent; leave it out, --model selects "
				   "them"}},
	.queues = true,
	.shows = dp_shows,
	.check = dp_check,
	.free_options = dp_free,
	.list = dp_list,
	.show = dp_show,
	.open_text = bb_sink_table_open,
	.rows = &bb_record_strategy,
	.plan = dp_plan,
	.experiment = &bb_dp_experiment,
};
