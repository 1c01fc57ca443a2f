/*
 * options.c - what can be asked of training under ZeRO.
 */
#include "core/units.h"
#include "harness/measure/collective.h"
#include "harness/run/options_check.h"
#include "harness/measure/play.h"
#include "memory/zero/zero.h"

#include <stdio.h>
#include <string.h>

#define BB_TARGET struct bb_zero_options
#include "harness/measure/step_rows.h"

#define MOST_RANKS (1 << 20)
#define MOST_PARAMETERS UINT64_C(1000000000000000) /* bytes of so many fit into 64 bits */

static const char *const dtype_names[] = {"half", "bfloat16", "float", NULL};
static const char *const overlap_names[] = {"on", "off", NULL};

const struct bb_option bb_zero_rows[] = {
	{STRING("model", 0, model_text, "linear:20x200", "NAME|FILE|COUNT",
		"what is trained: a preset, a family with its hyperparameters (see --list), a "
		"config.json, or a number of parameters, such as 7.5M, in 32 layers"),
	 .section = "Model"},
	{SEQ_ROW},
	{ROW(BB_OPT_CHOICE, "datatype", 'd', dtype_choice, "half", "TYPE",
	     "of parameters and gradients: half or bfloat16, with fp32 copies and a loss scale, or "
	     "float"),
	 .choices = dtype_names},
	{STRING("stages", 0, stages_text, "0,1,2,3", "LIST",
		"0: every rank has all; 1 divides the optimizer, 2 gradients too, 3 parameters "
		"too"),
	 .section = "ZeRO"},
	{STRING("algo", 0, algo_text, "ring", "NAME",
		"algorithm of all collectives; auto: whichever is best")},
	{CHOICE("overlap", overlap, "on", "WORD", overlap_names,
		"on: collectives run beside the computations; off: one after the other")},
	{INT("accumulate", 0, accumulate, "1", "N", 1, 1024, "micro-batches of a step")},
	{FLAG("offload", 0, offload, "the optimizer's states are in the host's memory (of GPUs)")},
	{ITERS_ROW("5", "steps that are timed, after -w others and without one that overflows"),
	 .section = "Steps"},
	{DURATION("step-time", 0, step_ns, NULL, 1,
		  "forward and backward pass of a micro-batch, beside what the data takes; without "
		  "it nothing")},
	{FLOPS_ROW(", in place of --step-time")},
	{INT("batch", 0, batch, "1", "N", 1, INT64_C(1) << 30,
	     "sequences or images of a micro-batch, whose FLOPs --flops is for"),
	 GIVEN(batch_given)},
	{COMPUTE_ROW, GIVEN(compute_given)},
	{INT("loss-scale", 0, scale, "65536", "N", 1, 65536,
	     "before the first step; halves when a "
	     "gradient overflows")},
	{INT("growth-interval", 0, growth, "2000", "N", 1, MAX_COUNT,
	     "good steps after which the loss scale doubles, to 65536 at most")},
	{INT("overflow", 0, overflow, "2", "STEP", 0, 1000000,
	     "step in which a gradient of the last rank overflows, from 1; 0: none"),
	 GIVEN(overflow_given)},
	{INT("as-rank", 0, as_rank, "0", "RANK", 0, MOST_RANKS - 1,
	     "hold what this rank of --world would, alone: memory is booked, nothing is sent"),
	 GIVEN(as_rank_given), .section = "One rank of many"},
	{INT("world", 0, world, "1", "N", 1, MOST_RANKS, "ranks of that world"),
	 GIVEN(world_given)},
	{.name = NULL},
};

static bb_status refuse_others(const struct bb_options *o, struct bb_error *error)
{
	const char *given = bb_options_size_given(o);

	if (!given && o->precision > 0)
		given = "--precision";
	if (!given)
		return BB_OK;
	return bb_fail(error, BB_EUSAGE,
		       "%s: nothing is swept; leave it out, --model says how much is trained, -n "
		       "how many steps are timed",
		       given);
}

static bb_status read_stages(struct bb_zero_options *a, struct bb_error *error)
{
	const char *rest = a->stages_text;
	char word[BB_WORD];

	do {
		const bool whole = bb_next_word(&rest, word);

		if (!whole || strlen(word) != 1 || *word < '0' || *word >= '0' + BB_ZERO_STAGES)
			return bb_fail(error, BB_EUSAGE,
				       "--stages: \"%s\" is not a stage; give a list of 0 to 3, as "
				       "0,3",
				       word);
		a->stages[*word - '0'] = true;
	} while (*rest++ == ',');
	return BB_OK;
}

static bb_status check_scaling(const struct bb_zero_options *a, const struct bb_options *o,
			       struct bb_error *error)
{
	const long long steps = (long long)(a->iters + o->warmup_iters);

	if (a->overflow_given && a->overflow > 0 && a->dtype == BB_FLOAT)
		return bb_fail(error, BB_EUSAGE,
			       "--overflow: fp32 has no loss scale that makes gradients overflow; "
			       "take -d half or bfloat16");
	if (a->overflow_given && a->overflow > steps)
		return bb_fail(error, BB_EUSAGE,
			       "--overflow %lld: there are %lld steps (-w and -n together)",
			       (long long)a->overflow, steps);
	return BB_OK;
}

static bb_status check_rank(const struct bb_zero_options *a, struct bb_error *error)
{
	if (a->as_rank_given != a->world_given)
		return bb_fail(error, BB_EUSAGE,
			       "--as-rank and --world belong together: rank 0 of 64 is --as-rank 0 "
			       "--world 64");
	if (a->as_rank >= a->world)
		return bb_fail(error, BB_EUSAGE, "--as-rank %lld: --world %lld has ranks 0 to %lld",
			       (long long)a->as_rank, (long long)a->world, (long long)a->world - 1);
	return BB_OK;
}

static bb_status check_backend(const struct bb_zero_options *a, const struct bb_options *o,
			       struct bb_error *error)
{
	const unsigned can = o->backend->capabilities;

	if (a->offload && !(can & BB_CAP_GPU))
		return bb_fail(error, BB_EUNSUPPORTED,
			       "--offload: the memory of the %s backend is the host's already",
			       o->backend->name);
	if (a->as_rank_given && can & BB_CAP_FREE_COST)
		return bb_fail(error, BB_EUNSUPPORTED,
			       "--as-rank: the %s backend has no memory of its own to hold",
			       o->backend->name);
	return BB_OK;
}

static bb_status check_compute(const struct bb_zero_options *a, const struct bb_options *o,
			       struct bb_error *error)
{
	if (!a->compute_given)
		return BB_OK;
	if (!a->flops_text && !a->step_ns)
		return bb_fail(error, BB_EUSAGE,
			       "--compute: passes take no time; give --step-time or --flops");
	if (a->stand_in == BB_GEMM && !a->flops_text)
		return bb_fail(error, BB_EUSAGE,
			       "--compute gemm: how many operations passes have is told by --flops "
			       "and --batch; give them instead of --step-time");
	if (a->stand_in == BB_GEMM && !o->backend->gemm)
		return bb_fail(
			error, BB_EUNSUPPORTED,
			"--compute gemm: the %s backend multiplies no matrices; it sleeps or "
			"spins",
			o->backend->name);
	return BB_OK;
}

static bb_status check_algorithm(const struct bb_zero_options *a, const struct bb_options *o,
				 struct bb_error *error)
{
	if (strchr(a->algo_text, ',') || strcmp(a->algo_text, "all") == 0)
		return bb_fail(error, BB_EUSAGE,
			       "--algo %s: give one, which does all collectives of a step",
			       a->algo_text);
	return bb_check_algorithms(a->algo_text, o, &bb_all_reduce, error);
}

/* How long a micro-batch takes: FORWARD and BACKWARD are FLOPs of a sample; 0: not known. */
static bb_status read_time(struct bb_zero *zero, double forward, double backward,
			   struct bb_error *error)
{
	const struct bb_zero_options *a = &zero->asked;
	double flops = 0, per_flop = 0;
	bb_status status = bb_read_flops(a->flops_text, &flops, error);

	if (status != BB_OK)
		return status;
	if (a->flops_text && a->step_ns)
		return bb_fail(
			error, BB_EUSAGE,
			"--flops and --step-time both say how long a micro-batch takes; give "
			"one");
	if (a->batch_given && !a->flops_text)
		return bb_fail(error, BB_EUSAGE, "--batch: it is --flops that counts them");
	if (a->flops_text && forward == 0)
		return bb_fail(
			error, BB_EUSAGE,
			"--flops: of a number of parameters no FLOPs are known; give a model, "
			"or --step-time");
	if (a->flops_text)
		per_flop = (double)a->batch / flops;
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
		return bb_fail(error, BB_EUSAGE, "--model %s: 1 to 1000T parameters",
			       zero->asked.model_text);
	status = bb_zero_units_of_size(&zero->units, count, error);
	return status == BB_OK ? read_time(zero, 0, 0, error) : status;
}

static bb_status open_units(struct bb_zero *zero, struct bb_error *error)
{
	const struct bb_zero_options *a = &zero->asked;
	struct bb_model model = {0};
	uint64_t count;
	bb_status status;

	if (bb_parse_count(a->model_text, &count))
		return open_size(zero, count, error);
	BB_TRY(status, bb_model_open(&model, a->model_text, a->seq, error), out);
	BB_TRY(status, bb_zero_units_of_model(&zero->units, &model, error), out);
	status = read_time(zero, model.forward, model.backward, error);
out:
	bb_model_free(&model);
	return status;
}

bb_status bb_zero_check(const struct bb_benchmark *benchmark, void *own, struct bb_options *o,
			const struct bb_environment *environment, struct bb_error *error)
{
	static const enum bb_dtype dtypes[] = {BB_HALF, BB_BFLOAT16, BB_FLOAT};
	struct bb_zero *zero = own;
	struct bb_zero_options *a = &zero->asked;
	bb_status status;

	o->iters = a->iters;
	a->dtype = dtypes[a->dtype_choice];
	BB_TRY(status, refuse_others(o, error), out);
	BB_TRY(status, read_stages(a, error), out);
	BB_TRY(status, check_scaling(a, o, error), out);
	BB_TRY(status, check_rank(a, error), out);
	BB_TRY(status, check_algorithm(a, o, error), out);
	BB_TRY(status, check_backend(a, o, error), out);
	BB_TRY(status, check_compute(a, o, error), out);
	status = open_units(zero, error);
	o->config.library_optional =
		a->as_rank_given || (o->threads * o->gpus == 1 && environment->launch.nprocs <= 1);
out:
	return status;
}
