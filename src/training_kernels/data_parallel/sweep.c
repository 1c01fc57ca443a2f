/*
 * sweep.c - the experiment: a program for each strategy and setting, timed against each other or
 * trained by.
 */
#include "training_kernels/data_parallel/data_parallel.h"
#include "training_kernels/train.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bb_status dp_no_memory(struct bb_dp_sweep *s)
{
	return bb_no_memory(&s->engine.run->error, "the strategies");
}

/* ---- observation of steps -------------------------------------------------------------------- */

/* Server 0: the staleness of each gradient that arrives. */
static void dp_observe(void *own, int rank, size_t index, const struct bb_operation *operation,
		       double from, double to, int source)
{
	struct bb_dp_cell *c = own;
	uint64_t age;

	if (rank != 0 || operation->act != BB_ACT_RECV_ANY)
		return;
	if (index == 0) {
		c->update = 0;
		memset(c->fetched, 0, (size_t)c->setting.nranks * sizeof(*c->fetched));
	}
	age = c->update - c->fetched[source];
	c->fetched[source] = ++c->update;
	c->staleness[age < BB_STALENESS_MOST ? age : BB_STALENESS_MOST - 1]++;
}

/* ---- one cell -------------------------------------------------------------------------------- */

static struct bb_strategy_setting setting_of(const struct bb_dp_sweep *s, int active)
{
	const struct bb_dp *dp = s->dp;
	const struct bb_dp_options *a = &dp->options;

	return (struct bb_strategy_setting){
		.nranks = s->engine.run->world.nranks,
		.active = active,
		.elements =
			a->train_given ? BB_TRAIN_ELEMENTS : (size_t)dp->replica.model.parameters,
		.dtype = a->train_given ? BB_DOUBLE : a->dtype,
		.compute_s = a->train_given ? 0 : s->batch_s,
		.flops =
			(dp->replica.model.forward + dp->replica.model.backward) * (double)a->batch,
		.batches = (size_t)a->accumulate,
		.every = (size_t)a->every,
		.steps = a->train_given ? (size_t)a->train : (size_t)a->steps,
		.servers = 1,
		.updates = a->server_does == 1,
		.real = a->train_given,
	};
}

void bb_dp_in_place(const struct bb_operation *o, int rank, void *all, void **in, void **out)
{
	char *own = (char *)all + bb_operation_bytes(o) * (size_t)rank;

	*in = o->collective == &bb_all_gather ? own : all;
	*out = o->collective == &bb_reduce_scatter ? own : all;
}

static void dp_buffers(void *own, int rank, const struct bb_operation *operation, void **in,
		       void **out)
{
	const struct bb_dp_sweep *s = ((const struct bb_dp_cell *)own)->sweep;

	*in = s->out;
	*out = s->in;
	if (operation->act == BB_ACT_COLLECTIVE)
		bb_dp_in_place(operation, rank, s->out, in, out);
}

static bb_status add_timed(struct bb_dp_cell *c, struct bb_trial *trial)
{
	struct bb_dp_sweep *s = c->sweep;

	trial->workload.buffers = s->out ? dp_buffers : NULL;
	trial->workload.own = c;
	if (c->strategy->synchronous || !c->strategy->servers)
		return BB_OK;
	trial->watch = (struct bb_timeline_watch){dp_observe, c};
	c->fetched = calloc((size_t)c->setting.nranks, sizeof(*c->fetched));
	return c->fetched ? BB_OK : dp_no_memory(s);
}

static bb_status dp_add_cell(struct bb_dp_sweep *s, const struct bb_strategy *strategy,
			     const struct bb_strategy_setting *setting)
{
	const char *reason = strategy->refuses ? strategy->refuses(setting) : NULL;
	struct bb_dp_cell *c = &s->cells[s->engine.ntrials];
	struct bb_trial trial = {
		.workload = {.program = &c->program.taped.program,
			     .stand_in = (enum bb_stand_in)s->dp->options.stand_in}};
	bb_status status = BB_OK;

	/* Refusals of fewer ranks are not reported. */
	if (reason && setting->active < setting->nranks)
		return BB_OK;
	*c = (struct bb_dp_cell){.strategy = strategy,
				 .setting = *setting,
				 .sweep = s,
				 .wrong = BB_ABSENT,
				 .loss = NAN,
				 .apart = NAN};
	snprintf(trial.what, sizeof(trial.what), "%s of %d ranks", strategy->name, setting->active);
	if (!reason) {
		status = bb_strategy_program_make(&c->program, strategy, setting,
						  s->dp->options.algo_text, &s->engine.run->error);
		if (status == BB_OK)
			status = s->dp->options.train_given ? bb_dp_train_add(c, &trial)
							    : add_timed(c, &trial);
	}
	return status == BB_OK ? bb_engine_add(&s->engine, &trial, reason) : status;
}

/* ---- cells ----------------------------------------------------------------------------------- */

/* With 1, 2, 4, … and all ranks, or with all ranks only; SERVERS 0: colocated. */
static bb_status dp_add_sizes(struct bb_dp_sweep *s, const struct bb_strategy *strategy,
			      int servers)
{
	const int nranks = s->engine.run->world.nranks;
	bb_status status = BB_OK;
	int active = s->dp->options.scale ? 1 : nranks;

	for (; status == BB_OK; active = 2 * active < nranks ? 2 * active : nranks) {
		struct bb_strategy_setting setting = setting_of(s, active);

		setting.colocated = servers == 0;
		setting.servers = servers == 0 ? active : servers;
		status = dp_add_cell(s, strategy, &setting);
		if (active == nranks)
			break;
	}
	return status;
}

static bb_status dp_add_strategy(struct bb_dp_sweep *s, const struct bb_strategy *strategy)
{
	const struct bb_dp_options *a = &s->dp->options;
	bb_status status = BB_OK;

	if (!strategy->servers)
		return dp_add_sizes(s, strategy, 1);
	if (a->colocated != BB_COLOCATED_ON || !strategy->synchronous)
		for (size_t i = 0; i < a->servers.n && status == BB_OK; i++)
			status = dp_add_sizes(s, strategy, a->servers.list[i]);
	if (a->colocated != BB_COLOCATED_OFF && strategy->synchronous && status == BB_OK)
		status = dp_add_sizes(s, strategy, 0);
	return status;
}

static bb_status open_room(struct bb_dp_sweep *s)
{
	const struct bb_strategy_setting all = setting_of(s, s->engine.run->world.nranks);
	/* Parts have one length: up to one element of padding for each rank. */
	const size_t bytes = (all.elements + (size_t)all.nranks) * bb_dtype_size(all.dtype);
	bb_status status;

	if (s->dp->options.train_given)
		return BB_OK;
	status = bb_engine_alloc(&s->engine, bytes, (void **)&s->out);
	return status == BB_OK ? bb_engine_alloc(&s->engine, bytes, (void **)&s->in) : status;
}

static bb_status make_cells(struct bb_dp_sweep *s)
{
	const struct bb_dp_options *a = &s->dp->options;
	const size_t sizes = 32; /* powers of two of an int, and all ranks */
	bb_status status = open_room(s);

	if (status != BB_OK)
		return status;
	s->ncells = a->strategies.n * (a->servers.n + 1) * sizes;
	s->cells = calloc(s->ncells, sizeof(*s->cells));
	if (!s->cells)
		return dp_no_memory(s);
	for (size_t i = 0; i < a->strategies.n && status == BB_OK; i++)
		status = dp_add_strategy(s, bb_strategies[a->strategies.list[i]]);
	return status;
}

/* ---- the experiment -------------------------------------------------------------------------- */

static bb_status dp_open(struct bb_engine *engine)
{
	const struct bb_backend_config *config = &engine->run->options.config;
	struct bb_dp_sweep *s = (struct bb_dp_sweep *)engine;

	s->dp = engine->run->own;
	s->batch_s = s->dp->replica.batch_s;
	s->links = (struct bb_link_model){.rate = config->link_rate,
					  .latency = config->link_latency,
					  .port = config->link_port};
	return make_cells(s);
}

/* Compares trained models. */
static bb_status dp_gather(struct bb_engine *engine)
{
	struct bb_dp_sweep *s = (struct bb_dp_sweep *)engine;
	bb_status status = BB_OK;

	for (size_t i = 0; i < engine->ntrials && status == BB_OK; i++)
		if (s->dp->options.train_given && !engine->trials[i].refusal)
			status = bb_dp_train_compare(&s->cells[i]);
	return status;
}

static void dp_close(struct bb_engine *engine)
{
	struct bb_dp_sweep *s = (struct bb_dp_sweep *)engine;

	for (size_t i = 0; i < s->ncells && s->cells; i++) {
		bb_taped_free(&s->cells[i].program.taped);
		free(s->cells[i].fetched);
		free(s->cells[i].trainee);
	}
	free(s->cells);
}

const struct bb_experiment bb_dp_experiment = {
	.bytes = sizeof(struct bb_dp_sweep),
	.open = dp_open,
	.gather = dp_gather,
	.deliver = bb_dp_deliver,
	.close = dp_close,
};
