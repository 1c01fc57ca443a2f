/*
 * drive.c - the experiment: all ways timed against each other, or trained by.
 */
#include "training_kernels/data_parallel/data_parallel.h"

static double batch_seconds(const struct bb_dp *dp)
{
	const struct bb_dp_options *a = &dp->asked;

	if (a->flops_given)
		return (dp->model.forward + dp->model.backward) * (double)a->batch / a->flops;
	return 1e-9 * (double)a->step_ns;
}

static bb_status dp_open(struct bb_engine *engine)
{
	const struct bb_backend_config *config = &engine->run->options.config;
	struct bb_dp_sweep *s = (struct bb_dp_sweep *)engine;

	s->dp = engine->run->own;
	s->batch_s = batch_seconds(s->dp);
	s->links = (struct bb_link_model){.rate = config->link_rate,
					  .latency = config->link_latency,
					  .port = config->link_port};
	return bb_dp_cells_make(s);
}

/* What was trained is compared. */
static bb_status dp_gather(struct bb_engine *engine)
{
	struct bb_dp_sweep *s = (struct bb_dp_sweep *)engine;
	bb_status status = BB_OK;

	for (size_t i = 0; i < engine->ntrials && status == BB_OK; i++)
		if (s->dp->asked.train_given && !engine->trials[i].refusal)
			status = bb_dp_train_compare(&s->cells[i]);
	return status;
}

static void dp_close(struct bb_engine *engine)
{
	bb_dp_cells_free((struct bb_dp_sweep *)engine);
}

const struct bb_experiment bb_dp_experiment = {
	.bytes = sizeof(struct bb_dp_sweep),
	.open = dp_open,
	.gather = dp_gather,
	.deliver = bb_dp_deliver,
	.close = dp_close,
};
