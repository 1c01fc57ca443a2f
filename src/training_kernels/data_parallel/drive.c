/*
 * drive.c - what every driver does: time all ways, or train by each of them.
 */
#include "core/units.h"
#include "training_kernels/data_parallel/data_parallel.h"

#include <string.h>

static void buffers(void *own, int rank, const struct bb_operation *operation, void **in,
		    void **out)
{
	const struct bb_dp_cell *c = own;
	const struct bb_dp_sweep *s = c->sweep;
	const size_t part = bb_operation_bytes(operation) * (size_t)rank;

	*in = s->out;
	*out = s->in;
	if (operation->act != BB_ACT_COLLECTIVE)
		return;
	/* In place. */
	*out = s->out;
	if (operation->collective == &bb_reduce_scatter)
		*out = s->out + part;
	if (operation->collective == &bb_all_gather)
		*in = s->out + part;
}

static bb_status open_room(struct bb_dp_sweep *s)
{
	const struct bb_run *run = s->run;
	const struct bb_backend *backend = run->options.backend;
	/* Parts of one length: up to an element of padding for each rank. */
	const size_t elements = s->cells[0].setting.elements + (size_t)run->world.nranks;
	bb_status status;

	if (backend->capabilities & BB_CAP_VIRTUAL)
		return BB_OK;
	s->bytes = elements * bb_dtype_size(s->cells[0].setting.dtype);
	status = backend->alloc(s->driver->handle, s->bytes, (void **)&s->out);
	if (status == BB_OK)
		status = backend->alloc(s->driver->handle, s->bytes, (void **)&s->in);
	if (status != BB_OK)
		return bb_fail(&s->run->error, status, "rank %d cannot allocate %zu bytes",
			       s->driver->rank, 2 * s->bytes);
	for (size_t i = 0; i < s->trials.n; i++)
		s->trials.list[i].play.buffers = buffers;
	if (bb_driver_leads(s->driver))
		s->run->end.memory_user_bytes = 2 * (int64_t)s->bytes * run->world.nlocal;
	return BB_OK;
}

static void close_room(struct bb_dp_sweep *s)
{
	const struct bb_backend *backend = s->run->options.backend;

	if (s->out)
		backend->release(s->driver->handle, s->out, s->bytes);
	if (s->in)
		backend->release(s->driver->handle, s->in, s->bytes);
}

static double batch_seconds(const struct bb_dp *dp)
{
	const struct bb_dp_options *a = &dp->asked;

	if (a->flops_given)
		return (dp->model.forward + dp->model.backward) * (double)a->batch / a->flops;
	return 1e-9 * (double)a->step_ns;
}

static bb_status open_sweep(struct bb_dp_sweep *s)
{
	const struct bb_backend_config *config = &s->run->options.config;
	bb_status status;

	BB_TRY(status, bb_run_attend(s->run, s->driver, NULL, &s->world), out);
	s->batch_s = batch_seconds(s->dp);
	s->links = (struct bb_link_model){.rate = config->link_rate,
					  .latency = config->link_latency,
					  .port = config->link_port};
	s->trials.run = s->run;
	s->trials.driver = s->driver;
	BB_TRY(status, bb_dp_cells_make(s), out);
	if (!s->dp->asked.train_given)
		BB_TRY(status, open_room(s), out);
	status = bb_run_begin(s->run, s->driver, NAN);
out:
	return status;
}

static bb_status train(struct bb_dp_sweep *s)
{
	bb_status status = BB_OK;

	for (size_t i = 0; i < s->trials.n && status == BB_OK; i++)
		if (!s->trials.list[i].refusal[0])
			status = bb_dp_train(&s->cells[i], &s->trials.list[i]);
	return status;
}

bb_status bb_dp_drive(struct bb_driver *driver, void *argument)
{
	struct bb_run *run = argument;
	struct bb_dp_sweep s = {.dp = run->own, .run = run, .driver = driver};
	bb_status status = open_sweep(&s);

	if (status == BB_OK)
		status = s.dp->asked.train_given ? train(&s) : bb_trials_measure(&s.trials);
	if (status == BB_OK && bb_driver_leads(driver))
		status = bb_dp_deliver(&s);
	status = bb_crew_part(driver, status);
	if (status == BB_OK)
		close_room(&s);
	bb_dp_cells_free(&s);
	run->options.backend->group_close(s.world);
	atomic_store(&driver->progress->finished, status == BB_OK);
	return status;
}
