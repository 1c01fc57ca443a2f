/*
 * options.c - options of training under ZeRO.
 */
#include "core/units.h"
#include "harness/measure/algorithms.h"
#include "harness/run/options_check.h"
#include "training_kernels/zero/zero.h"

#include <stdio.h>
#include <string.h>

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
	if (a->overflow_given && a->overflow > 0 && a->dtype == BB_FLOAT)
		return bb_fail(error, BB_EUSAGE,
			       "--overflow: fp32 has no loss scale, so gradients cannot overflow; "
			       "give -d half or bfloat16");
	if (a->overflow_given && a->overflow > steps)
		return bb_fail(error, BB_EUSAGE,
			       "--overflow %lld: exceeds the %lld steps (-w and -n together)",
			       (long long)a->overflow, steps);
	return BB_OK;
}

static bb_status check_rank(const struct bb_zero_options *a, struct bb_error *error)
{
	if (a->as_rank_given != a->world_given)
		return bb_fail(error, BB_EUSAGE,
			       "--as-rank and --world go together: for rank 0 of 64 give --as-rank "
			       "0 --world 64");
	if (a->as_rank >= a->world)
		return bb_fail(error, BB_EUSAGE, "--as-rank %lld: --world %lld has ranks 0 to %lld",
			       (long long)a->as_rank, (long long)a->world, (long long)a->world - 1);
	return BB_OK;
}

static bb_status check_backend(const struct bb_zero_options *a, const struct bb_options *o,
			       struct bb_error *error)
{
	if (a->offload && !o->backend->gpu)
		return bb_fail(error, BB_EUNSUPPORTED,
			       "--offload: the %s backend already uses host memory",
			       o->backend->name);
	if (a->as_rank_given && !o->backend->has_data)
		return bb_fail(error, BB_EUNSUPPORTED, "--as-rank: the %s backend has no memory",
			       o->backend->name);
	return BB_OK;
}

static bb_status check_compute(const struct bb_zero_options *a, const struct bb_options *o,
			       struct bb_error *error)
{
	if (!a->stand_in_given)
		return BB_OK;
	if (!a->flops_given && !a->step_ns)
		return bb_fail(error, BB_EUSAGE,
			       "--compute: passes take no time; give --step-time or --flops");
	if (a->stand_in == BB_GEMM && !a->flops_given)
		return bb_fail(error, BB_EUSAGE,
			       "--compute gemm: needs the number of operations; give --flops and "
			       "--batch instead of --step-time");
	if (a->stand_in == BB_GEMM && !o->backend->gpu)
		return bb_fail(
			error, BB_EUNSUPPORTED,
			"--compute gemm: the %s backend multiplies no matrices; give sleep or spin",
			o->backend->name);
	return BB_OK;
}

/* Set time and FLOPs of a microbatch. FORWARD and BACKWARD are FLOPs of a sample; 0: unknown. */
static bb_status read_time(struct bb_zero *zero, double forward, double backward,
			   struct bb_error *error)
{
	const struct bb_zero_options *a = &zero->options;
	double per_flop = 0;

	if (a->flops_given && a->step_ns)
		return bb_fail(
			error, BB_EUSAGE,
			"--flops and --step-time both set the duration of a microbatch; give one");
	if (a->batch_given && !a->flops_given)
		return bb_fail(error, BB_EUSAGE, "--batch: valid only with --flops");
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

static bb_status open_size(struct bb_zero *zero, uint64_t count, struct bb_error *error)
{
	bb_status status;

	if (count == 0 || count > MOST_PARAMETERS)
		return bb_fail(error, BB_EUSAGE, "--model %s: expected 1 to 1000T parameters",
			       zero->options.model_text);
	status = bb_zero_units_of_size(&zero->units, count, error);
	return status == BB_OK ? read_time(zero, 0, 0, error) : status;
}

static bb_status open_units(struct bb_zero *zero, struct bb_error *error)
{
	const struct bb_zero_options *a = &zero->options;
	struct bb_model model = {0};
	uint64_t count;
	bb_status status;

	if (bb_parse_count(a->model_text, &count))
		return open_size(zero, count, error);
	BB_TRY(status, bb_model_open(&model, a->model_text, a->seq, error), out);
	bb_attention_apply(&model, (enum bb_attention)a->attention);
	BB_TRY(status, bb_zero_units_of_model(&zero->units, &model, error), out);
	status = read_time(zero, model.forward, model.backward, error);
out:
	bb_model_free(&model);
	return status;
}

bb_status bb_zero_check(const struct bb_benchmark *benchmark, void *own, struct bb_options *o,
			const struct bb_environment *environment, struct bb_error *error)
{
	struct bb_zero *zero = own;
	struct bb_zero_options *a = &zero->options;
	bb_status status;

	o->iters = a->iters;
	BB_TRY(status, check_scaling(a, o, error), out);
	BB_TRY(status, check_rank(a, error), out);
	BB_TRY(status, bb_algorithms_check_one(a->algo_text, o, error), out);
	BB_TRY(status, check_backend(a, o, error), out);
	BB_TRY(status, check_compute(a, o, error), out);
	status = open_units(zero, error);
	o->config.library_optional =
		a->as_rank_given || (o->threads * o->gpus == 1 && environment->launch.nprocs <= 1);
out:
	return status;
}
