/*
 * options.c - what can be asked of ways of data-parallel training.
 */
#include "core/units.h"
#include "harness/measure/collective.h"
#include "harness/run/options_check.h"
#include "training_kernels/data_parallel/data_parallel.h"
#include "training_kernels/ddp/ddp.h"
#include "training_kernels/train.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BB_TARGET struct bb_dp_options
#include "harness/measure/step_rows.h"

#define STEP_NS 50000000 /* where nothing says how long a batch takes */

static const char *const colocated_names[] = {"off", "on", "both", NULL};
static const char *const server_names[] = {"aggregate", "update", NULL};

const struct bb_option bb_dp_rows[] = {
	{STRING("way", 0, ways_text, "all", "LIST|all",
		"ways to do the step, see --list: dp, ps, ps_async, ddp, zero, average"),
	 .section = "Ways"},
	{STRING("servers", 0, servers_text, "1", "LIST",
		"numbers of parameter servers that are ranks of their own, one after the other")},
	{CHOICE("colocated", colocated, "both", "WORD", colocated_names,
		"on: of ps, every worker is a server too; both: beside --servers")},
	{CHOICE("server", server_does, "update", "WORD", server_names,
		"what servers do: update parameters, or sum gradients alone, which workers then "
		"update by")},
	{INT("every", 0, every, "4", "H", 1, 1 << 20,
	     "of average: steps from one averaging of parameters to the next")},
	{INT("steps", 0, steps, "10", "N", 1, 1 << 20,
	     "of ps_async: steps of each worker in a row")},
	{FLAG("scale", 0, scale, "also with 1, 2, 4, … of the ranks: speed-up and how it decays")},
	{STRING("algo", 0, algo_text, "ring", "NAME",
		"algorithm of the collectives; the formulas are those of ring")},
	{STRING("model", 0, model_text, "resnet50", "NAME|FILE",
		"whose gradients: a preset, a family with its hyperparameters (see --list), or a "
		"config.json"),
	 .section = "Model"},
	{SEQ_ROW},
	{INT("batch", 0, batch, "1", "N", 1, INT64_C(1) << 30,
	     "sequences or images of each rank, whose FLOPs --flops is for"),
	 GIVEN(batch_given)},
	{STRING("datatype", 'd', dtype_text, "float", "TYPE",
		"of the gradients: float, half, bfloat16 or double")},
	{INT("accumulate", 0, accumulate, "1", "N", 1, 1 << 20,
	     "batches that a rank computes before it lets go of their gradient")},
	{FLOPS_ROW(": how long its batch takes"), .section = "Time"},
	{STEP_TIME_ROW, GIVEN(step_given)},
	{COMPUTE_ROW},
	{ITERS_ROW("5", "timed programs of each way, over all rounds"), GIVEN(iters_given)},
	{INT("train", 0, train, NULL, "N", 1, 1 << 20,
	     "time nothing; train a small model for N steps and compare with one rank"),
	 GIVEN(train_given), .section = "For real"},
	{INT("samples", 0, samples, "61", "N", 1, BB_TRAIN_MOST_SAMPLES,
	     "of --train: samples of a step, of all workers together"),
	 GIVEN(samples_given)},
	{INT("sampler", 0, sampler, NULL, "N", 1, 1 << 30,
	     "print how a DistributedSampler shares out N samples; run nothing"),
	 GIVEN(sampler_given)},
	{INT("epochs", 0, epochs, "2", "N", 1, 1000, "of --sampler"), GIVEN(epochs_given)},
	{FLAG("drop-last", 0, drop_last, "of --sampler: drop the tail, else pad it")},
	{.name = NULL},
};

/* ---- lists --------------------------------------------------------------------------- */

static bb_status add_way(struct bb_dp_options *a, const char *word, struct bb_error *error)
{
	const char *names[BB_DP_MOST_WAYS + 1] = {NULL};
	const struct bb_dp_way *way = bb_way_find(word);
	char hint[64];

	for (int i = 0; bb_ways[i]; i++)
		names[i] = bb_ways[i]->name;
	if (!way)
		return bb_fail(error, BB_EUSAGE, "--way: there is no way \"%s\"%s", word,
			       bb_suggest(hint, word, names));
	for (size_t i = 0; i < a->nways; i++)
		if (a->ways[i] == way)
			return bb_fail(error, BB_EUSAGE, "--way: %s is there twice", word);
	a->ways[a->nways++] = way;
	return BB_OK;
}

static bb_status read_ways(struct bb_dp_options *a, struct bb_error *error)
{
	const char *rest = a->ways_text;
	bb_status status = BB_OK;
	char word[BB_WORD];

	if (strcmp(rest, "all") == 0) {
		for (int i = 0; bb_ways[i]; i++)
			a->ways[a->nways++] = bb_ways[i];
		return BB_OK;
	}
	do {
		if (!bb_next_word(&rest, word))
			return bb_fail(error, BB_EUSAGE,
				       "--way %s: a name is missing; give a list as dp,ddp",
				       a->ways_text);
		status = add_way(a, word, error);
	} while (status == BB_OK && *rest++ == ',');
	return status;
}

static bb_status read_servers(struct bb_dp_options *a, struct bb_error *error)
{
	const char *rest = a->servers_text;
	char word[BB_WORD];

	do {
		int64_t n = 0;

		if (a->nservers == BB_DP_MOST_SERVERS)
			return bb_fail(error, BB_EUSAGE, "--servers: more than %d numbers",
				       BB_DP_MOST_SERVERS);
		if (!bb_next_word(&rest, word) || !bb_parse_int(word, &n) || n < 1 ||
		    n > BB_MAX_RANKS)
			return bb_fail(error, BB_EUSAGE,
				       "--servers: \"%s\" is not a number of servers; give a list "
				       "as 1,2,4",
				       word);
		a->servers[a->nservers++] = (int)n;
	} while (*rest++ == ',');
	return BB_OK;
}

/* ---- together ------------------------------------------------------------------------ */

static bb_status check_algorithm(const struct bb_dp_options *a, const struct bb_options *o,
				 struct bb_error *error)
{
	if (strchr(a->algo_text, ',') || strcmp(a->algo_text, "all") == 0)
		return bb_fail(error, BB_EUSAGE, "--algo %s: one algorithm at a time, as in ring",
			       a->algo_text);
	return bb_check_algorithms(a->algo_text, o, &bb_all_reduce, error);
}

static bb_status check_sampler(const struct bb_dp_options *a, struct bb_error *error)
{
	if (!a->sampler_given && (a->drop_last || a->epochs_given))
		return bb_fail(error, BB_EUSAGE, "%s: only with --sampler N",
			       a->drop_last ? "--drop-last" : "--epochs");
	if (a->sampler_given && a->train_given)
		return bb_fail(error, BB_EUSAGE,
			       "--train: --sampler runs nothing; leave one of them out");
	return BB_OK;
}

static bool has_way(const struct bb_dp_options *a, const char *name)
{
	for (size_t i = 0; i < a->nways; i++)
		if (strcmp(a->ways[i]->name, name) == 0)
			return true;
	return false;
}

static bb_status check_train(const struct bb_dp_options *a, const struct bb_options *o,
			     struct bb_error *error)
{
	const char *given = a->step_given   ? "--step-time"
			    : a->flops_text ? "--flops"
			    : a->scale      ? "--scale"
					    : NULL;

	if (!a->train_given && a->samples_given)
		return bb_fail(error, BB_EUSAGE, "--samples: only with --train N");
	if (!a->train_given && o->fault.kind == BB_FAULT_CORRUPT)
		return bb_fail(error, BB_EUSAGE, "--fault %s: only --train looks at what comes out",
			       o->fault_text);
	if (!a->train_given)
		return BB_OK;
	if (given)
		return bb_fail(error, BB_EUSAGE, "%s: --train times nothing; leave one out", given);
	if (!o->backend->has_data)
		return bb_fail(error, BB_EUNSUPPORTED, "--train: the %s backend moves no data",
			       o->backend->name);
	if (o->backend->gpu)
		return bb_fail(error, BB_EUNSUPPORTED,
			       "--train: its arithmetic is the CPU's, which does not reach the "
			       "memory of the %s backend",
			       o->backend->name);
	if (has_way(a, "average") && a->train % a->every != 0)
		return bb_fail(error, BB_EUSAGE,
			       "--train %lld: average needs a multiple of --every %lld steps",
			       (long long)a->train, (long long)a->every);
	return BB_OK;
}

static bb_status refuse_sizes(const struct bb_options *o, struct bb_error *error)
{
	const char *given = bb_options_size_given(o);

	if (!given)
		return BB_OK;
	return bb_fail(error, BB_EUSAGE,
		       "%s: what is sent are the model's gradients; leave it out, --model says "
		       "which",
		       given);
}

/* What --sampler would ignore. */
static bb_status check_shown(const struct bb_options *o, struct bb_error *error)
{
	const char *given = o->csv_file      ? "--csv"
			    : o->json_file   ? "--json"
			    : o->fault_given ? "--fault"
					     : NULL;

	if (!given)
		return BB_OK;
	return bb_fail(error, BB_EUSAGE,
		       "%s: --sampler runs nothing and prints text; leave one out", given);
}

bb_status bb_dp_check(const struct bb_benchmark *benchmark, void *own, struct bb_options *o,
		      const struct bb_environment *environment, struct bb_error *error)
{
	struct bb_dp *dp = own;
	struct bb_dp_options *a = &dp->asked;
	bb_status status;

	bb_options_set_iters(o, a->iters, a->iters_given);
	BB_TRY(status, refuse_sizes(o, error), out);
	BB_TRY(status, read_ways(a, error), out);
	BB_TRY(status, read_servers(a, error), out);
	BB_TRY(status, bb_ddp_read_dtype(a->dtype_text, &a->dtype, error), out);
	BB_TRY(status, bb_read_flops(a->flops_text, &a->flops, error), out);
	BB_TRY(status, bb_ddp_check_time(a->flops_text, a->step_given, a->batch_given, error), out);
	BB_TRY(status, check_algorithm(a, o, error), out);
	BB_TRY(status, check_sampler(a, error), out);
	BB_TRY(status, check_train(a, o, error), out);
	if (a->sampler_given) {
		status = check_shown(o, error);
		goto out;
	}
	if (!a->flops_text && !a->step_given)
		a->step_ns = STEP_NS;
	status = bb_model_open(&dp->model, a->model_text, a->seq, error);
out:
	return status;
}
