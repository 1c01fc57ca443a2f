/*
 * zero.c - the benchmark of ZeRO: options, records, plan.
 */
#include "training_kernels/zero/zero.h"

#include "core/units.h"
#include "harness/measure/algorithms.h"
#include "harness/run/options.h"

#include <stdio.h>
#include <string.h>

#define ALONE_SHARE 0.95
#define MOST_RANKS (1 << 20)
#define MOST_PARAMETERS UINT64_C(1000000000000000) /* their bytes fit into 64 bits */

static const char *const dtypes[] = {"half", "bfloat16", "float", NULL};
static const char *const stage_names[] = {"0", "1", "2", "3", NULL};
static const char *const overlap_names[] = {"on", "off", NULL};

#define BB_OPTIONS struct bb_zero_options
const struct bb_option bb_zero_rows[] = BB_OPTION_ROWS(BB_ZERO_OPTIONS);

static bb_status check_scaling(const struct bb_zero_options *a, const struct bb_options *o,
			       struct bb_error *error)
{
	const long long steps = (long long)(a->iters + o->warmup_iters);

	if (a->scale & (a->scale - 1))
		return bb_fail(error, BB_EUSAGE,
			       "--loss-scale %lld: sums of gradients are exact only for a power of "
			       "two, such as 65536",
			       (long long)a->scale);
	if (a->overflow_given && a->overflow > steps)
		return bb_fail(error, BB_EUSAGE,
			       "--overflow %lld: exceeds the %lld steps (-w and -n together)",
			       (long long)a->overflow, steps);
	return BB_OK;
}

/* Set time and FLOPs of a microbatch. FORWARD and BACKWARD are FLOPs of a sample; 0: unknown. */
static bb_status read_time(struct bb_zero *zero, double forward, double backward,
			   struct bb_error *error)
{
	const struct bb_zero_options *a = &zero->options;
	double per_flop = 0;

	if (a->flops_given && forward == 0)
		return bb_fail(error, BB_EUSAGE,
			       "--flops: the FLOPs of a bare number of parameters are unknown; "
			       "give a model, or --step-time");
	if (a->flops_given)
		per_flop = (double)a->batch / a->flops;
	else if (forward > 0)
		per_flop = 1e-9 * (double)a->step_ns / (forward + backward);
	zero->forward.seconds = forward > 0 ? forward * per_flop : 1e-9 * (double)a->step_ns / 3;
	zero->backward.seconds = forward > 0 ? backward * per_flop : 2 * zero->forward.seconds;
	zero->forward.flops = (double)a->batch * forward;
	zero->backward.flops = (double)a->batch * backward;
	return BB_OK;
}

static bb_status open_units(struct bb_zero *zero, struct bb_error *error)
{
	const struct bb_zero_options *a = &zero->options;
	struct bb_model model = {0};
	uint64_t count;
	bb_status status;

	if (bb_parse_count(a->model_text, &count)) {
		if (count == 0 || count > MOST_PARAMETERS)
			return bb_fail(error, BB_EUSAGE,
				       "--model %s: expected 1 to 1000T parameters", a->model_text);
		status = bb_zero_units_of_size(&zero->units, count, error);
		return status == BB_OK ? read_time(zero, 0, 0, error) : status;
	}
	BB_TRY(status, bb_model_open(&model, a->model_text, a->seq, error), out);
	bb_attention_apply(&model, (enum bb_attention)a->attention);
	BB_TRY(status, bb_zero_units_of_model(&zero->units, &model, error), out);
	status = read_time(zero, model.forward, model.backward, error);
out:
	bb_model_free(&model);
	return status;
}

static bb_status zero_check(const struct bb_benchmark *benchmark, void *own, struct bb_options *o,
			    const struct bb_environment *environment, struct bb_error *error)
{
	struct bb_zero *zero = own;
	struct bb_zero_options *a = &zero->options;
	bb_status status;

	o->iters = a->iters;
	BB_TRY(status, check_scaling(a, o, error), out);
	if (a->as_rank >= a->world)
		return bb_fail(error, BB_EUSAGE, "--as-rank %lld: --world %lld has ranks 0 to %lld",
			       (long long)a->as_rank, (long long)a->world, (long long)a->world - 1);
	BB_TRY(status, bb_algorithms_check_one(a->algo_text, o, error), out);
	status = open_units(zero, error);
	o->config.library_optional =
		a->as_rank_given || (o->threads * o->gpus == 1 && environment->launch.nprocs <= 1);
out:
	return status;
}

/* ---- records --------------------------------------------------------------------------------- */

static void add_about(const void *record, struct bb_strbuf *out)
{
	const struct bb_zero_record *r = record;

	bb_strbuf_addf(out, "# %s: %lld parameters in %lld layer%s, %s", r->model,
		       (long long)r->parameters, (long long)r->units, bb_plural(r->units),
		       r->dtype);
	if (r->accumulate > 1)
		bb_strbuf_addf(out, ", %lld microbatches per step", (long long)r->accumulate);
	if (r->alone)
		bb_strbuf_addf(out, "; only rank %lld of %lld", (long long)r->rank,
			       (long long)r->nranks);
	bb_strbuf_add(out, "\n");
}

#define BB_RECORD bb_zero_record
BB_RECORD_KIND(bb_record_zero, BB_ZERO_FIELDS, "zero", "ZeRO: a stage, and the memory of one rank.",
	       .about = add_about);

#undef BB_RECORD
#define BB_RECORD bb_zero_moment_record
BB_RECORD_KIND(bb_record_zero_moment, BB_ZERO_MOMENT_FIELDS, "zero_moment",
	       "ZeRO: the memory of one rank at a point of its first step.");

/* ---- the plan -------------------------------------------------------------------------------- */

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

/* Set *BYTES to the maximum that a rank allocates under STAGE, without buffers of collectives and
   offloaded states. */
static bb_status zero_need(const struct bb_zero *zero, int stage, uint64_t *bytes,
			   struct bb_error *error)
{
	const uint64_t n = stage == 0 ? 1 : (uint64_t)zero->nranks;
	struct bb_zero_places places;
	struct bb_states states;
	bb_status status =
		bb_zero_places_make(&places, &zero->units, stage, zero->nranks, 0, error);

	if (status != BB_OK)
		return status;
	states = bb_states_of_rank(&zero->recipe, places.whole, 0, stage, n);
	*bytes = states.parameters + states.gradients +
		 (zero->options.offload ? 0 : states.optimizer);
	/* Two units being reduced, and under stage 3 two being gathered. */
	if (stage >= 2)
		*bytes += (stage == 3 ? 4 : 2) * places.largest * zero->recipe.precision->parameter;
	bb_zero_places_free(&places);
	return BB_OK;
}

/* Skip stages that do not fit into memory. BB_EUNSUPPORTED if none fits. */
static bb_status find_room(struct bb_zero *zero, struct bb_run *run)
{
	const struct bb_backend *backend = run->options.backend;
	/* Nearly all of a GPU for a rank alone. */
	const uint64_t room =
		zero->alone && backend->gpu
			? (uint64_t)(ALONE_SHARE * (double)backend->memory_available(run->context))
			: run->memory;
	char need[BB_UNIT_TEXT], have[BB_UNIT_TEXT];
	int first = -1;
	bool any = false;

	for (int stage = 0; stage < BB_ZERO_STAGES; stage++) {
		uint64_t bytes = 0;
		const bb_status status = zero_need(zero, stage, &bytes, &run->error);

		if (status != BB_OK)
			return status;
		bytes *= (uint64_t)run->world.nlocal;
		if (!(zero->options.stages >> stage & 1))
			continue;
		if (bytes > room) {
			snprintf(zero->skips[stage], sizeof(zero->skips[stage]),
				 "needs %s on %d rank%s, but only %s are available; give a smaller "
				 "--model",
				 bb_format_bytes(need, bytes), run->world.nlocal,
				 bb_plural(run->world.nlocal), bb_format_bytes(have, room));
			first = first < 0 ? stage : first;
		}
		any |= !*zero->skips[stage];
	}
	return any ? BB_OK
		   : bb_fail(&run->error, BB_EUNSUPPORTED, "stage %d %s", first,
			     zero->skips[first]);
}

static bb_status zero_plan(struct bb_run *run)
{
	struct bb_zero *zero = run->own;

	run->record.algorithms = zero->options.algo_text;
	if (zero->options.as_rank_given && run->world.nranks > 1)
		return bb_fail(&run->error, BB_EUSAGE,
			       "--as-rank: runs one rank alone, not %d; leave -t and -g out",
			       run->world.nranks);
	zero_set_up(zero, run);
	if (zero->data.most == 0 && bb_zero_trains(zero, run))
		return bb_fail(&run->error, BB_EUSAGE,
			       "--accumulate %lld on %d rank%s: sums of so many gradients are not "
			       "exact in %s; give a smaller number or another -d",
			       (long long)zero->options.accumulate, zero->nranks,
			       bb_plural(zero->nranks), bb_dtype_name(zero->options.dtype));
	return find_room(zero, run);
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
	bb_zero_units_free(&((struct bb_zero *)run->own)->units);
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
	.check = zero_check,
	.list = bb_model_list,
	.open_text = bb_sink_table_open,
	.rows = &bb_record_zero,
	.plan = zero_plan,
	.experiment = &bb_zero_experiment,
	.tell = add_heading,
	.close = zero_release,
};
