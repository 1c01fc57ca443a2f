/*
 * ddp.c - the descriptor of the benchmark of data-parallel training.
 */
#include "training_kernels/ddp/ddp.h"

#include "harness/measure/plan.h"
#include "training_kernels/estimate.h"

#include <stdio.h>

bool bb_ddp_compute(const struct bb_ddp *ddp, double *forward_s, double *backward_s)
{
	const struct bb_ddp_options *a = &ddp->asked;
	const struct bb_model *m = &ddp->model;
	double per_flop = 0;

	if (a->step_ns_given)
		per_flop = 1e-9 * (double)a->step_ns / (m->forward + m->backward);
	else if (a->flops_given)
		per_flop = (double)a->batch / a->flops;
	*forward_s = m->forward * per_flop;
	*backward_s = m->backward * per_flop;
	return per_flop > 0;
}

/* ---- the descriptor ---------------------------------------------------------------------------
 */

static bb_status ddp_plan(struct bb_run *run)
{
	const struct bb_ddp *ddp = run->own;
	char subject[128];

	run->record.collective = bb_all_reduce.name;
	run->record.algorithms = ddp->asked.algo_text;
	snprintf(subject, sizeof(subject), "--model %s", ddp->asked.model_text);
	return bb_estimate_room(run, ddp->model.parameters * bb_dtype_size(ddp->asked.dtype),
				subject, "gradients",
				"fewer ranks, a smaller datatype, --predict or --backend sim");
}

static void ddp_list(struct bb_strbuf *out)
{
	bb_model_list(out);
	bb_plan_list(out);
}

static void close_ddp(struct bb_run *run)
{
	struct bb_ddp *ddp = run->own;

	bb_model_free(&ddp->model);
}

static bool ddp_shows(const void *own)
{
	const struct bb_ddp *ddp = own;

	return ddp->asked.predict;
}

const struct bb_benchmark bb_ddp_benchmark = {
	.brief = "Data-parallel training: the best size of gradient buckets.",
	.own_bytes = sizeof(struct bb_ddp),
	.options = bb_ddp_rows,
	.faults = 1u << BB_FAULT_CORRUPT | 1u << BB_FAULT_DIE,
	.refuses = {{BB_ALL_SIZES, "the model's gradients are reduced; leave it out, --buckets "
				   "sets the sizes of buckets"}},
	.queues = true,
	.shows = ddp_shows,
	.check = bb_ddp_check,
	.list = ddp_list,
	.show = bb_ddp_predict,
	.open_text = bb_sink_table_open,
	.rows = &bb_record_ddp,
	.plan = ddp_plan,
	.experiment = &bb_ddp_experiment,
	.close = close_ddp,
};
