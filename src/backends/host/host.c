/*
 * The host backend: ranks are threads, memory is shared, messages are pointers.
 */
#include "backends/host/host.h"

#include "backends/cpu/work.h"

#include <stdlib.h>
#include <string.h>

static bb_status open_ports(struct bb_context *c, int n, struct bb_error *error)
{
	c->ports = aligned_alloc(BB_LINE, (size_t)n * sizeof(*c->ports));
	if (!c->ports)
		return bb_no_memory(error, "ports");
	memset(c->ports, 0, (size_t)n * sizeof(*c->ports));
	return BB_OK;
}

static bb_status host_run(struct bb_group *group, const struct bb_call *call)
{
	const struct bb_context *c = group->rank->context;
	const size_t size =
		bb_size_count(call->collective, &call->shape) * bb_dtype_size(call->dtype);
	const struct bb_executor executor = {
		.p2p = &bb_host_p2p,
		.port = group,
		.rank = group->me,
		.kernels = c->cpu.kernels,
		.stream = bb_cpu_streams(&c->cpu, 2 * size, group->team->n),
	};

	return call->native ? bb_host_direct(group, call) : bb_execute(&executor, call);
}

/* The worker threads of a rank share its core. */
static void host_settle(struct bb_rank *rank)
{
	bb_machine_pin(rank->context->cpu.machine, rank->core);
}

static void host_close(struct bb_context *context)
{
	bb_host_teams_free(context);
	pthread_mutex_destroy(&context->lock);
	bb_cpu_close(&context->cpu);
	free(context->ports);
	free(context);
}

static bb_status host_open(struct bb_context **context, const struct bb_world *world,
			   const struct bb_backend_config *config, struct bb_error *error)
{
	struct bb_context *c;
	bb_status status;

	if (world->nprocs != 1)
		return bb_fail(error, BB_EBACKEND, "the host backend runs in one process, not %d",
			       world->nprocs);
	c = calloc(1, sizeof(*c));
	if (!c)
		return bb_no_memory(error, "the host backend");
	c->cpu.settle = host_settle;
	c->cpu.run = host_run;
	c->cpu.pass = bb_host_message;
	pthread_mutex_init(&c->lock, NULL);
	BB_TRY(status, bb_cpu_open(&c->cpu, world, config, error), failed);
	if (config->link_port)
		BB_TRY(status, open_ports(c, world->nlocal, error), failed);
	*context = c;
	return BB_OK;
failed:
	host_close(c);
	return status;
}

/* Neighbouring ranks share a core, or have neighbouring cores. */
static int core_of(const struct bb_context *context, int local)
{
	const struct bb_cpu_context *c = &context->cpu;

	return c->crowded ? (int)((int64_t)local * c->cores / c->ranks) : local;
}

static bb_status host_attach(struct bb_context *context, int local, struct bb_rank **rank,
			     struct bb_error *error)
{
	struct bb_rank *r = calloc(1, sizeof(*r));

	if (!r)
		return bb_no_memory(error, "a rank");
	r->context = context;
	r->rank = context->cpu.world.first_rank + local;
	r->core = core_of(context, local);
	r->pinned = bb_machine_pin(context->cpu.machine, r->core);
	*rank = r;
	return BB_OK;
}

static void host_detach(struct bb_rank *rank)
{
	if (rank)
		bb_choices_free(&rank->choices);
	free(rank);
}

static void host_locate(struct bb_rank *rank, struct bb_location *location)
{
	bb_cpu_locate(&rank->context->cpu, rank->core, rank->pinned ? "" : " (not pinned)",
		      location);
}

static const char *host_refuses(struct bb_group *group, const struct bb_call *call)
{
	if (call->native && group->rank->context->cpu.config.link_rate != 0)
		return "direct sends no messages, which a paced link could delay";
	if (call->native)
		return call->native->refuses ? call->native->refuses(call->native, call->collective)
					     : NULL;
	return call->schedule->refuses ? call->schedule->refuses(&call->shape) : NULL;
}

static size_t host_tmp_bytes(struct bb_group *group, const struct bb_call *call)
{
	return call->native ? bb_host_direct_tmp_bytes(call, group->me)
			    : bb_execute_tmp_bytes(call, group->me);
}

static double host_cost_bytes(struct bb_group *group, const struct bb_call *call)
{
	const double element = (double)bb_dtype_size(call->dtype);

	return element * (call->native
				  ? bb_host_direct_cost(call)
				  : bb_algorithm_cost(call->schedule, &call->shape, NULL, NULL));
}

const struct bb_backend bb_backend_host = {
	BB_CPU_ENTRIES,
	.abi = BB_BACKEND_ABI,
	.name = "host",
	.brief = "ranks are threads of this process, over shared memory",
	.has_data = true,
	.natives = bb_host_natives,
	.open = host_open,
	.close = host_close,
	.max_local = BB_HOST_MAX_RANKS,
	.attach = host_attach,
	.detach = host_detach,
	.locate = host_locate,
	.release = bb_cpu_release,
	.group_open = bb_host_group_open,
	.group_close = bb_host_group_close,
	.barrier = bb_host_barrier,
	.choose = bb_host_choose,
	.tune = bb_host_tune,
	.refuses = host_refuses,
	.tmp_bytes = host_tmp_bytes,
	.cost_bytes = host_cost_bytes,
	.queue_open = bb_cpu_queue_open,
	.spaces = &bb_cpu_spaces,
	.routes = &bb_host_routes,
};
