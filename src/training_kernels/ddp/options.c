/*
 * options.c - what can be asked of data-parallel training.
 */
#include "core/units.h"
#include "harness/measure/collective.h"
#include "harness/run/options_check.h"
#include "training_kernels/ddp/ddp.h"

#include <errno.h>
#include <string.h>

#define BB_TARGET struct bb_ddp_options
#include "harness/measure/step_rows.h"

#define MOST_BATCH (INT64_C(1) << 30)
#define STEP_NS 50000000 /* where nothing says how long a batch takes */

static const char *const overlap_names[] = {"on", "off", "both", NULL};

const struct bb_option bb_ddp_rows[] = {
	{STRING("model", 0, model_text, "resnet50", "NAME|FILE",
		"whose gradients: a preset, a family with its hyperparameters (see --list), or a "
		"config.json"),
	 .section = "Model"},
	{SEQ_ROW},
	{INT("batch", 0, batch, "1", "N", 1, MOST_BATCH,
	     "sequences or images of each rank, whose FLOPs --flops is for"),
	 GIVEN(batch_given)},
	{STRING("datatype", 'd', dtype_text, "float", "TYPE",
		"of the gradients: float, half, bfloat16 or double")},
	{STRING("buckets", 0, buckets_text, "1M,5M,10M,25M,50M,100M,200M", "LIST",
		"sizes at which a bucket is closed, each tried by itself"),
	 .section = "Buckets"},
	{STRING("first-bucket", 0, first_text, "1M", "SIZE|cap",
		"that of the first bucket; cap: the same as of all others")},
	{STRING("algo", 0, algo_text, "auto", "LIST|all",
		"algorithms of the all-reduce, one after the other; auto: whichever is best")},
	{CHOICE("overlap", overlap, "both", "WORD", overlap_names,
		"on: buckets are reduced while the backward pass goes on; off: after it")},
	{INT("accumulate", 0, accumulate, "1", "N", 1, 1 << 20,
	     "batches of which only the last one's gradients are reduced")},
	{FLOPS_ROW(": how long its batch takes"), .section = "Time"},
	{STEP_TIME_ROW, GIVEN(step_given)},
	{COMPUTE_ROW},
	{ITERS_ROW("10", "steps of each kind, over all rounds"), GIVEN(iters_given)},
	{FLAG("predict", 0, predict, "print the buckets and, with --link, the step; run nothing")},
	{.name = NULL},
};

/* ---- each by itself ------------------------------------------------------------------ */

bb_status bb_ddp_read_dtype(const char *text, enum bb_dtype *dtype, struct bb_error *error)
{
	static const char *const names[] = {"float", "half", "bfloat16", "double", NULL};
	char hint[64];

	for (int i = 0; names[i]; i++)
		if (strcmp(names[i], text) == 0) {
			*dtype = bb_dtype_named(names[i]);
			return BB_OK;
		}
	return bb_fail(error, BB_EUSAGE,
		       "-d: \"%s\" is not a datatype of gradients%s (float, half, bfloat16, "
		       "double)",
		       text, bb_suggest(hint, text, names));
}

static bool read_cap(const char *text, uint64_t *cap)
{
	errno = 0;
	return bb_parse_size(text, cap) && *cap > 0 && *cap <= (uint64_t)MAX_SIZE;
}

static bb_status read_buckets(struct bb_ddp_options *a, struct bb_error *error)
{
	const char *rest = a->buckets_text;
	char word[BB_WORD];

	do {
		const bool whole = bb_next_word(&rest, word);

		if (a->ncaps == BB_DDP_MOST_CAPS)
			return bb_fail(error, BB_EUSAGE, "--buckets: more than %d sizes",
				       BB_DDP_MOST_CAPS);
		if (!whole || !read_cap(word, &a->caps[a->ncaps++]))
			return bb_fail(error, BB_EUSAGE,
				       "--buckets: \"%s\" is not a size; give a list as 1M,25M",
				       word);
	} while (*rest++ == ',');
	return BB_OK;
}

static bb_status read_first(struct bb_ddp_options *a, struct bb_error *error)
{
	if (strcmp(a->first_text, "cap") == 0 || read_cap(a->first_text, &a->first_cap))
		return BB_OK;
	return bb_fail(error, BB_EUSAGE,
		       "--first-bucket: \"%s\" is neither a size nor cap; give one, as in 1M",
		       a->first_text);
}

static bb_status add_algorithm(struct bb_ddp_options *a, const char *name, struct bb_error *error)
{
	if (a->nalgorithms == BB_DDP_MOST_ALGORITHMS)
		return bb_fail(error, BB_EUSAGE, "--algo %s: more than %d algorithms", a->algo_text,
			       BB_DDP_MOST_ALGORITHMS);
	snprintf(a->algorithms[a->nalgorithms++], BB_WORD, "%s", name);
	return BB_OK;
}

/* Where the backend's library has one of this name, busbench's is named as its own. */
static bb_status add_schedule(struct bb_ddp_options *a, const char *name, struct bb_error *error)
{
	char own[BB_WORD];

	snprintf(own, sizeof(own), BB_OWN "%s", name);
	for (size_t i = 0; i < a->nalgorithms; i++)
		if (strcmp(a->algorithms[i], name) == 0)
			return add_algorithm(a, own, error);
	return add_algorithm(a, name, error);
}

/* Those of the list, which is a good one. */
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

/* ---- together ------------------------------------------------------------------------ */

static bb_status refuse_sizes(const struct bb_options *o, struct bb_error *error)
{
	const char *given = bb_options_size_given(o);

	if (!given)
		return BB_OK;
	return bb_fail(error, BB_EUSAGE,
		       "%s: what is reduced are the model's gradients; leave it out, --buckets "
		       "says how large the pieces are",
		       given);
}

bb_status bb_ddp_check_time(const char *flops, bool step_given, bool batch_given,
			    struct bb_error *error)
{
	if (flops && step_given)
		return bb_fail(error, BB_EUSAGE,
			       "--flops and --step-time both say how long a batch takes; give one");
	if (step_given && batch_given)
		return bb_fail(error, BB_EUSAGE,
			       "--batch: --step-time is that of a whole batch, however large; "
			       "leave one out");
	return BB_OK;
}

bb_status bb_ddp_check(const struct bb_benchmark *benchmark, void *own, struct bb_options *o,
		       const struct bb_environment *environment, struct bb_error *error)
{
	struct bb_ddp *ddp = own;
	struct bb_ddp_options *a = &ddp->asked;
	bb_status status;

	bb_options_set_iters(o, a->iters, a->iters_given);
	if (a->predict && o->fault_given)
		return bb_fail(error, BB_EUSAGE, "--fault: --predict runs nothing; leave one out");
	BB_TRY(status, refuse_sizes(o, error), out);
	BB_TRY(status, bb_ddp_read_dtype(a->dtype_text, &a->dtype, error), out);
	BB_TRY(status, read_buckets(a, error), out);
	BB_TRY(status, read_first(a, error), out);
	BB_TRY(status, bb_read_flops(a->flops_text, &a->flops, error), out);
	BB_TRY(status, bb_ddp_check_time(a->flops_text, a->step_given, a->batch_given, error), out);
	BB_TRY(status, bb_check_algorithms(a->algo_text, o, &bb_all_reduce, error), out);
	BB_TRY(status, read_algorithms(a, o->backend, error), out);
	BB_TRY(status, bb_model_open(&ddp->model, a->model_text, a->seq, error), out);
	if (!a->predict && !a->flops_text && !a->step_given) {
		a->step_ns = STEP_NS;
		a->step_given = true;
	}
	if (a->predict)
		status = bb_check_outputs(o, NULL, environment->launch.proc == 0, error);
out:
	return status;
}
