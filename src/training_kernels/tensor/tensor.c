/*
 * tensor.c - the descriptor of the benchmark of tensor and sequence parallelism.
 */
#include "training_kernels/tensor/tensor.h"

static void tensor_list(struct bb_strbuf *out)
{
	bb_strbuf_add(out, "schemes (--way):\n");
	for (const struct bb_tensor_scheme *w = bb_tensor_schemes; w->part; w++)
		bb_strbuf_addf(out, "    %-10s %-9s %s\n", w->name, w->part, w->brief);
	bb_model_list(out);
}

static bb_status tensor_plan(struct bb_run *run)
{
	const struct bb_tensor_run *tensor = run->own;
	const struct bb_tensor_options *a = &tensor->asked;
	const char *reason = bb_tensor_equality_refuses(run);

	if (a->equality && reason)
		return bb_fail(&run->error, BB_EUNSUPPORTED, "--equality: %s", reason);
	for (size_t i = 0; i < a->nschemes && !a->equality; i++) {
		reason = bb_tensor_refuses(a->schemes[i], &tensor->size, run->world.nranks);
		if (!reason)
			return BB_OK;
	}
	if (a->equality)
		return BB_OK;
	return bb_fail(&run->error, BB_EUNSUPPORTED, "--model %s on %d ranks: %s", a->model_text,
		       run->world.nranks, reason);
}

static void close_tensor(struct bb_run *run)
{
	struct bb_tensor_run *tensor = run->own;

	bb_model_free(&tensor->model);
}

const struct bb_benchmark bb_tensor_benchmark = {
	.brief = "Tensor and sequence parallelism: a transformer layer split over ranks.",
	.own_bytes = sizeof(struct bb_tensor_run),
	.options = bb_tensor_rows,
	.faults = 1u << BB_FAULT_CORRUPT | 1u << BB_FAULT_DIE,
	.refuses = {{BB_ALL_SIZES, "sizes follow from the model; leave it out, --seq and "
				   "--micro-batch set them"}},
	.queues = true,
	.check = bb_tensor_check,
	.list = tensor_list,
	.open_text = bb_sink_table_open,
	.rows = &bb_record_tensor,
	.plan = tensor_plan,
	.experiment = &bb_tensor_experiment,
	.close = close_tensor,
};
