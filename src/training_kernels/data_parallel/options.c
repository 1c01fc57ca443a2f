/*
 * options.c - the options of data-parallel strategies.
 */
#include "harness/measure/collective.h"
#include "harness/run/options_check.h"
#include "training_kernels/data_parallel/data_parallel.h"
#include "training_kernels/ddp/ddp.h"
#include "training_kernels/train.h"

#include <string.h>

#define STEP_NS 50000000 /* of a batch, unless an option sets it */

static const char *way_name(int index)
{
	return bb_strategies[index] ? bb_strategies[index]->name : NULL;
}

static const char *const colocated_names[] = {"off", "on", "both", NULL};
static const char *const server_names[] = {"aggregate", "update", NULL};

#define BB_OPTIONS struct bb_dp_options
const struct bb_option bb_dp_rows[] = BB_OPTION_ROWS(BB_DP_OPTIONS);

/* ---- the check ------------------------------------------------------------------------ */

static bb_status check_sampler(const struct bb_dp_options *a, struct bb_error *error)
{
	if (!a->sampler_given && (a->drop_last || a->epochs_given))
		return bb_fail(error, BB_EUSAGE, "%s needs --sampler; give both or neither",
			       a->drop_last ? "--drop-last" : "--epochs");
	if (a->sampler_given && a->train_given)
		return bb_fail(error, BB_EUSAGE,
			       "--train: --sampler runs nothing; leave one of them out");
	return BB_OK;
}

static bool has_way(const struct bb_dp_options *a, const char *name)
{
	for (size_t i = 0; i < a->nstrategies; i++)
		if (strcmp(a->strategies[i]->name, name) == 0)
			return true;
	return false;
}

static bb_status check_train(const struct bb_dp_options *a, const struct bb_options *o,
			     struct bb_error *error)
{
	const char *given = a->step_ns_given ? "--step-time"
			    : a->flops_given ? "--flops"
			    : a->scale       ? "--scale"
					     : NULL;

	if (!a->train_given && a->samples_given)
		return bb_fail(error, BB_EUSAGE, "--samples needs --train; give both or neither");
	if (!a->train_given && o->fault.kind == BB_FAULT_CORRUPT)
		return bb_fail(error, BB_EUSAGE, "--fault %s: only --train verifies data",
			       o->fault_text);
	if (!a->train_given)
		return BB_OK;
	if (given)
		return bb_fail(error, BB_EUSAGE, "%s: --train times nothing; leave one of them out",
			       given);
	if (!o->backend->has_data)
		return bb_fail(error, BB_EUNSUPPORTED, "--train: the %s backend moves no data",
			       o->backend->name);
	if (o->backend->gpu)
		return bb_fail(error, BB_EUNSUPPORTED,
			       "--train: the CPU computes, and cannot access the memory of the %s "
			       "backend",
			       o->backend->name);
	if (has_way(a, "average") && a->train % a->every != 0)
		return bb_fail(error, BB_EUSAGE,
			       "--train %lld: average needs a multiple of --every %lld steps",
			       (long long)a->train, (long long)a->every);
	return BB_OK;
}

/* Options that --sampler would ignore. */
static bb_status check_sampler_alone(const struct bb_options *o, struct bb_error *error)
{
	const char *given = o->csv_file           ? "--csv"
			    : o->json_file        ? "--json"
			    : o->fault_text_given ? "--fault"
						  : NULL;

	if (!given)
		return BB_OK;
	return bb_fail(error, BB_EUSAGE,
		       "%s: --sampler runs nothing and prints text; leave one of them out", given);
}

bb_status bb_dp_check(const struct bb_benchmark *benchmark, void *own, struct bb_options *o,
		      const struct bb_environment *environment, struct bb_error *error)
{
	struct bb_dp *dp = own;
	struct bb_dp_options *a = &dp->asked;
	bb_status status;

	for (size_t i = 0; i < a->way_choices.n; i++)
		a->strategies[a->nstrategies++] = bb_strategies[a->way_choices.list[i]];
	BB_TRY(status, bb_ddp_check_time(a->flops_given, a->step_ns_given, a->batch_given, error),
	       out);
	BB_TRY(status, bb_check_one_algorithm(a->algo_text, o, error), out);
	BB_TRY(status, check_sampler(a, error), out);
	BB_TRY(status, check_train(a, o, error), out);
	if (a->sampler_given) {
		status = check_sampler_alone(o, error);
		goto out;
	}
	if (!a->flops_given && !a->step_ns_given)
		a->step_ns = STEP_NS;
	status = bb_model_open(&dp->model, a->model_text, a->seq, error);
out:
	return status;
}
