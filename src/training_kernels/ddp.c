/*
 * ddp.c - the benchmark of data-parallel training.
 */
#include "training_kernels/ddp.h"

bool bb_ddp_compute(const struct bb_ddp *ddp, double *forward_s, double *backward_s)
{
	const struct bb_ddp_options *a = &ddp->asked;
	const struct bb_model *m = &ddp->model;
	double per_flop = 0;

	if (a->step_given)
		per_flop = 1e-9 * (double)a->step_ns / (m->forward + m->backward);
	else if (a->flops_text)
		per_flop = (double)a->batch / a->flops;
	*forward_s = m->forward * per_flop;
	*backward_s = m->backward * per_flop;
	return per_flop > 0;
}

static void close_ddp(struct bb_run *run)
{
	struct bb_ddp *ddp = run->own;

	bb_model_free(&ddp->model);
}

const struct bb_benchmark bb_ddp_benchmark = {
	.brief = "Data-parallel training: how large should the buckets of gradients be?",
	.own_bytes = sizeof(struct bb_ddp),
	.options = bb_ddp_rows,
	.check = bb_ddp_check,
	.list = bb_model_list,
	.show = bb_ddp_predict,
	.rows = &bb_record_ddp,
	.close = close_ddp,
};
