/*
 * zero.c - the benchmark of ZeRO and its plan.
 */
#include "training_kernels/zero/zero.h"

#include "core/units.h"

#include <stdio.h>
#include <string.h>

#define ALONE_SHARE 0.95

static void zero_set_up(struct bb_zero *zero, const struct bb_run *run)
{
	const struct bb_zero_options *a = &zero->options;
	const bool scaled = a->dtype != BB_FLOAT;

	zero->alone = a->as_rank_given;
	zero->nranks = zero->alone ? (int)a->world : run->world.nranks;
	zero->overlaps = a->overlap == BB_ZERO_OVERLAP_ON;
	zero->recipe = (struct bb_recipe){&bb_precisions[scaled ? BB_MIXED : BB_ALL_FP32],
					  &bb_optimizers[BB_ADAMW]};
	zero->data = (struct bb_zero_data){
		.dtype = a->dtype,
		.nranks = zero->nranks,
		.microbatches = a->accumulate,
		.most = bb_zero_most_draw(a->dtype, zero->nranks, a->accumulate),
		.elements = zero->units.elements,
		.overflow = scaled ? a->overflow : 0,
	};
	zero->scale = (struct bb_zero_scale){
		.scale = scaled ? (float)a->scale : 1, .growth = a->growth, .fixed = !scaled};
}

static bb_status check_sums(const struct bb_zero *zero, struct bb_run *run)
{
	if (zero->data.most > 0 || !bb_zero_trains(zero, run))
		return BB_OK;
	return bb_fail(&run->error, BB_EUSAGE,
		       "--accumulate %lld on %d rank%s: sums of so many gradients are not exact in "
		       "%s; give a smaller number or another -d",
		       (long long)zero->options.accumulate, zero->nranks, bb_plural(zero->nranks),
		       bb_dtype_name(zero->options.dtype));
}

/* Bytes that the ranks of this process may allocate: nearly all of a GPU for a rank alone. */
static uint64_t room_for(const struct bb_zero *zero, const struct bb_run *run)
{
	const struct bb_backend *backend = run->options.backend;

	if (zero->alone && backend->gpu)
		return (uint64_t)(ALONE_SHARE * (double)backend->memory_available(run->context));
	return run->memory;
}

/* Skip stages that do not fit into memory. BB_EUNSUPPORTED if none fits. */
static bb_status find_room(struct bb_zero *zero, struct bb_run *run)
{
	const uint64_t room = room_for(zero, run);
	char need[BB_UNIT_TEXT], have[BB_UNIT_TEXT];
	int first = -1;
	bool any = false;

	for (int stage = 0; stage < BB_ZERO_STAGES; stage++) {
		uint64_t bytes = 0;
		const bb_status status = bb_zero_need(zero, stage, &bytes, &run->error);

		if (status != BB_OK)
			return status;
		bytes *= (uint64_t)run->world.nlocal;
		if (!(zero->options.stages >> stage & 1))
			continue;
		if (bytes > room) {
			snprintf(zero->skip_text[stage], sizeof(zero->skip_text[stage]),
				 "needs %s on %d rank%s, but only %s are available; give a smaller "
				 "--model",
				 bb_format_bytes(need, bytes), run->world.nlocal,
				 bb_plural(run->world.nlocal), bb_format_bytes(have, room));
			zero->skips[stage] = zero->skip_text[stage];
			first = first < 0 ? stage : first;
		}
		any |= !zero->skips[stage];
	}
	return any ? BB_OK
		   : bb_fail(&run->error, BB_EUNSUPPORTED, "stage %d %s", first,
			     zero->skips[first]);
}

static bb_status zero_plan(struct bb_run *run)
{
	struct bb_zero *zero = run->own;
	bb_status status;

	run->record.algorithms = zero->options.algo_text;
	if (zero->options.as_rank_given && run->world.nranks > 1)
		return bb_fail(&run->error, BB_EUSAGE,
			       "--as-rank: runs one rank alone, not %d; leave -t and -g out",
			       run->world.nranks);
	zero_set_up(zero, run);
	status = check_sums(zero, run);
	return status == BB_OK ? find_room(zero, run) : status;
}

static void add_heading(struct bb_run *run, struct bb_strbuf *out)
{
	bb_strbuf_add(out, "# MB: 1e6 bytes, of one rank at its peak. formula: states by the ZeRO "
			   "paper (Rajbhandari et al.), with padding;\n"
			   "# comm: gathered layers, buckets, buffers of collectives; frag: "
			   "allocated but not held; wire: sent by a rank per step\n");
}

static void zero_release(struct bb_run *run)
{
	struct bb_zero *zero = run->own;

	bb_zero_units_free(&zero->units);
}

const struct bb_benchmark bb_zero_benchmark = {
	.brief = "ZeRO: memory, traffic and results of a mixed-precision Adam step under each "
		 "stage.",
	.examples = {"-g 4", "--model gpt2 --stages 3 --as-rank 0 --world 64"},
	.own_bytes = sizeof(struct bb_zero),
	.options = bb_zero_rows,
	.faults = 1u << BB_FAULT_CORRUPT | 1u << BB_FAULT_DIE,
	.refuses =
		{{BB_ALL_SIZES " precision",
		  "no size is swept; leave it out: --model sets the size, -n the number of steps"}},
	.queues = true,
	.check = bb_zero_check,
	.list = bb_model_list,
	.open_text = bb_sink_table_open,
	.rows = &bb_record_zero,
	.plan = zero_plan,
	.experiment = &bb_zero_experiment,
	.tell = add_heading,
	.close = zero_release,
};
