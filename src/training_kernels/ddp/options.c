/*
 * options.c - the options of data-parallel training.
 */
#include "harness/measure/collective.h"
#include "harness/run/options_check.h"
#include "training_kernels/ddp/ddp.h"

#include <stdio.h>
#include <string.h>

#define MOST_BATCH (INT64_C(1) << 30)
#define STEP_NS 50000000 /* of a batch, unless an option sets it */

const char *const bb_ddp_dtypes[] = {"float", "half", "bfloat16", "double", NULL};
static const char *const overlap_names[] = {"on", "off", "both", NULL};

#define BB_OPTIONS struct bb_ddp_options
const struct bb_option bb_ddp_rows[] = BB_OPTION_ROWS(BB_DDP_OPTIONS);

/* ---- algorithms ------------------------------------------------------------------ */

static bb_status add_algorithm(struct bb_ddp_options *a, const char *name, struct bb_error *error)
{
	if (a->nalgorithms == BB_DDP_MOST_ALGORITHMS)
		return bb_fail(error, BB_EUSAGE, "--algo %s: more than %d algorithms", a->algo_text,
			       BB_DDP_MOST_ALGORITHMS);
	snprintf(a->algorithms[a->nalgorithms++], BB_WORD, "%s", name);
	return BB_OK;
}

/* A schedule of busbench gets its prefix if the backend's library has the name too. */
static bb_status add_schedule(struct bb_ddp_options *a, const char *name, struct bb_error *error)
{
	char own[BB_WORD];

	snprintf(own, sizeof(own), BB_OWN "%s", name);
	for (size_t i = 0; i < a->nalgorithms; i++)
		if (strcmp(a->algorithms[i], name) == 0)
			return add_algorithm(a, own, error);
	return add_algorithm(a, name, error);
}

/* The algorithms of --algo, which has passed its check. */
static bb_status read_algorithms(struct bb_ddp_options *a, const struct bb_backend *backend,
				 struct bb_error *error)
{
	const char *rest = a->algo_text;
	char word[BB_WORD];
	bb_status status = BB_OK;

	if (strcmp(rest, "all") != 0) {
		do {
			bb_next_word(&rest, word);
			status = add_algorithm(a, word, error);
		} while (status == BB_OK && *rest++ == ',');
		return status;
	}
	for (const struct bb_native *n = backend->natives; n->name && status == BB_OK; n++)
		if (!a->predict && (!n->refuses || !n->refuses(n, &bb_all_reduce)))
			status = add_algorithm(a, n->name, error);
	for (int i = 0; bb_algorithms[i] && status == BB_OK; i++)
		if (bb_algorithms[i]->collective == &bb_all_reduce)
			status = add_schedule(a, bb_algorithms[i]->name, error);
	return status;
}

/* ---- the check ------------------------------------------------------------------------ */

bb_status bb_ddp_check_time(bool flops_given, bool step_given, bool batch_given,
			    struct bb_error *error)
{
	if (flops_given && step_given)
		return bb_fail(error, BB_EUSAGE,
			       "--flops and --step-time both set the time of a batch; give one");
	if (step_given && batch_given)
		return bb_fail(
			error, BB_EUSAGE,
			"--batch: --step-time is the time of a batch of any size; leave one of "
			"them out");
	return BB_OK;
}

bb_status bb_ddp_check(const struct bb_benchmark *benchmark, void *own, struct bb_options *o,
		       const struct bb_environment *environment, struct bb_error *error)
{
	struct bb_ddp *ddp = own;
	struct bb_ddp_options *a = &ddp->asked;
	bb_status status;

	if (a->predict && o->fault_text_given)
		return bb_fail(error, BB_EUSAGE,
			       "--fault: --predict runs nothing; leave one of them out");
	BB_TRY(status, bb_ddp_check_time(a->flops_given, a->step_ns_given, a->batch_given, error),
	       out);
	BB_TRY(status, bb_check_algorithms(a->algo_text, o, &bb_all_reduce, error), out);
	BB_TRY(status, read_algorithms(a, o->backend, error), out);
	BB_TRY(status, bb_model_open(&ddp->model, a->model_text, a->seq, error), out);
	if (!a->predict && !a->flops_given && !a->step_ns_given) {
		a->step_ns = STEP_NS;
		a->step_ns_given = true;
	}
	if (a->predict)
		status = bb_check_outputs(o, NULL, environment->launch.proc == 0, error);
out:
	return status;
}
