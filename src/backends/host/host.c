/*
 * The host backend: ranks are threads, memory is shared, messages are pointers.
 */
#include "backends/host/host.h"

#include "backends/cpu/work.h"
#include "core/clock.h"

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

static bb_status host_open(struct bb_context **context, const struct bb_world *world,
			   const struct bb_backend_config *config, struct bb_error *error)
{
	struct bb_context *c = calloc(1, sizeof(*c));
	bb_status status;

	if (!c)
		return bb_no_memory(error, "the host backend");
	if (world->nprocs != 1) {
		free(c);
		return bb_fail(error, BB_EBACKEND,
			       "the host backend joins threads of one process, not %d processes",
			       world->nprocs);
	}
	c->kernels = bb_kernels_select();
	if (!c->kernels) {
		free(c);
		return bb_fail(
			error, BB_EUSAGE,
			"BUSBENCH_ISA=%s: expected one this CPU can run of plain, avx2, avx512",
			getenv("BUSBENCH_ISA"));
	}
	status = bb_machine_open(&c->machine, error);
	if (status == BB_OK && config->link_port)
		status = open_ports(c, world->nlocal, error);
	if (status != BB_OK) {
		bb_machine_close(c->machine);
		free(c);
		return status;
	}
	c->world = *world;
	c->config = *config;
	c->crowded = world->nlocal > bb_machine_cores(c->machine);
	pthread_mutex_init(&c->lock, NULL);
	*context = c;
	return BB_OK;
}

static void host_close(struct bb_context *context)
{
	bb_host_teams_free(context);
	pthread_mutex_destroy(&context->lock);
	bb_machine_close(context->machine);
	free(context->ports);
	free(context);
}

static void host_abort(struct bb_context *context)
{
	atomic_store(&context->aborted, 1);
}

static uint64_t host_memory_available(struct bb_context *context)
{
	return bb_memory_available();
}

/* Neighbours in rank share a core, or sit on neighbouring ones. */
static int core_of(const struct bb_context *context, int local)
{
	int cores = bb_machine_cores(context->machine);

	return context->crowded ? (int)((int64_t)local * cores / context->world.nlocal) : local;
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
		.kernels = c->kernels,
		.stream = bb_host_streams(c, 2 * size, group->team->n),
	};

	return call->native ? bb_host_direct(group, call) : bb_execute(&executor, call);
}

/* The workers of a rank's queues share its core. */
static void host_settle(struct bb_rank *rank)
{
	bb_machine_pin(rank->context->machine, rank->core);
}

static bb_status host_attach(struct bb_context *context, int local, struct bb_rank **rank,
			     struct bb_error *error)
{
	struct bb_rank *r = calloc(1, sizeof(*r));

	if (!r)
		return bb_no_memory(error, "a rank");
	r->context = context;
	r->rank = context->world.first_rank + local;
	r->core = core_of(context, local);
	r->pinned = bb_machine_pin(context->machine, r->core);
	r->queues = (struct bb_queues){.rank = r,
				       .number = r->rank,
				       .aborted = &context->aborted,
				       .opened = &context->queues,
				       .settle = host_settle,
				       .run = host_run,
				       .pass = bb_host_message};
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
	bb_cpu_locate(rank->context->machine, rank->core, rank->pinned ? "" : " (not pinned)",
		      location);
}

static bb_status host_alloc(struct bb_rank *rank, size_t bytes, void **memory)
{
	return bb_cpu_alloc(bytes, memory);
}

static void host_release(struct bb_rank *rank, void *memory, size_t bytes)
{
	bb_cpu_release(memory, bytes);
}

static bb_status host_copy(struct bb_rank *rank, void *dst, const void *src, size_t bytes)
{
	const struct bb_context *c = rank->context;

	c->kernels->copy(&dst, 1, src, bytes, bb_host_streams(c, 2 * bytes, c->world.nlocal));
	return BB_OK;
}

static bb_status host_fill(struct bb_rank *rank, void *dst, const struct bb_pattern *pattern,
			   size_t first, size_t count)
{
	bb_cpu_fill(dst, pattern, first, count);
	return BB_OK;
}

static bb_status host_verify(struct bb_rank *rank, const void *got,
			     const struct bb_pattern *pattern, size_t first, size_t count,
			     enum bb_dtype dtype, int ulps, uint64_t *wrong)
{
	*wrong += bb_cpu_verify(got, pattern, first, count, dtype, ulps);
	return BB_OK;
}

static const char *host_refuses(struct bb_group *group, const struct bb_call *call)
{
	if (call->native && group->rank->context->config.link_rate != 0)
		return "direct sends no messages that a paced link could delay";
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

static bb_status host_queue_open(struct bb_rank *rank, struct bb_queue **queue,
				 struct bb_error *error)
{
	return bb_cpu_queue_open(&rank->queues, queue, error);
}

static bb_status host_event_open(struct bb_rank *rank, struct bb_event **event,
				 struct bb_error *error)
{
	return bb_cpu_event_open(&rank->queues, event, error);
}

static bb_status host_collective(struct bb_group *group, struct bb_queue *queue,
				 const struct bb_call *call)
{
	return bb_cpu_collective(&group->rank->queues, group, &group->turns, queue, call);
}

static bb_status host_send(struct bb_group *group, struct bb_queue *queue, const int *peer,
			   const void *data, size_t bytes)
{
	const struct bb_message message = {
		.kind = BB_MESSAGE_SEND, .group = group, .to = peer, .out = data, .bytes = bytes};

	return bb_cpu_message(&group->rank->queues, queue, &message);
}

static bb_status host_recv(struct bb_group *group, struct bb_queue *queue, int peer, void *data,
			   size_t bytes)
{
	const struct bb_message message = {
		.kind = BB_MESSAGE_RECV, .group = group, .from = peer, .in = data, .bytes = bytes};

	return bb_cpu_message(&group->rank->queues, queue, &message);
}

static bb_status host_recv_any(struct bb_group *group, struct bb_queue *queue, void *data,
			       size_t bytes, int *source)
{
	const struct bb_message message = {.kind = BB_MESSAGE_RECV_ANY,
					   .group = group,
					   .source = source,
					   .in = data,
					   .bytes = bytes};

	return bb_cpu_message(&group->rank->queues, queue, &message);
}

static const struct bb_messages host_messages = {
	.send = host_send,
	.recv = host_recv,
	.recv_any = host_recv_any,
};

static bb_status host_finish(struct bb_rank *rank, struct bb_queue *queue)
{
	return bb_cpu_finish(&rank->queues, queue);
}

static double host_now(struct bb_rank *rank)
{
	return bb_clock_now();
}

/* ---- memory, worked on --------------------------------------------------------------- */

static int host_space_count(struct bb_context *context)
{
	return bb_cpu_spaces(context->machine);
}

static void host_space_name(struct bb_context *context, int space, char name[BB_SPACE_TEXT])
{
	bb_cpu_space_name(context->machine, space, name);
}

static bb_status host_alloc_in(struct bb_rank *rank, int space, size_t bytes, void **memory,
			       struct bb_error *error)
{
	return bb_cpu_alloc_in(rank->context->machine, space, bytes, memory, error);
}

static void host_release_in(struct bb_rank *rank, int space, void *memory, size_t bytes)
{
	bb_cpu_release(memory, bytes);
}

static bb_status host_work(struct bb_rank *rank, struct bb_queue *queue, enum bb_memory_work what,
			   void *a, const void *b, const void *c, size_t bytes)
{
	if (queue)
		return BB_EUNSUPPORTED;
	bb_cpu_work(rank->context->kernels, what, a, b, c, bytes);
	return BB_OK;
}

static bb_status host_chase_lay(struct bb_rank *rank, void *memory, size_t bytes, uint64_t seed)
{
	bb_cpu_chase_lay(memory, memory, bytes, seed);
	return BB_OK;
}

static bb_status host_chase(struct bb_rank *rank, void *memory, size_t hops)
{
	bb_cpu_chase(memory, hops);
	return BB_OK;
}

static const struct bb_spaces host_spaces = {
	.count = host_space_count,
	.name = host_space_name,
	.alloc = host_alloc_in,
	.release = host_release_in,
	.work = host_work,
	.chase_lay = host_chase_lay,
	.chase = host_chase,
};

const struct bb_backend bb_backend_host = {
	.abi = BB_BACKEND_ABI,
	.name = "host",
	.brief = "ranks are threads of this process, over shared memory",
	.has_data = true,
	.natives = bb_host_natives,
	.open = host_open,
	.close = host_close,
	.abort = host_abort,
	.max_local = BB_HOST_MAX_RANKS,
	.memory_available = host_memory_available,
	.attach = host_attach,
	.detach = host_detach,
	.locate = host_locate,
	.alloc = host_alloc,
	.release = host_release,
	.copy = host_copy,
	.fill = host_fill,
	.verify = host_verify,
	.group_open = bb_host_group_open,
	.group_close = bb_host_group_close,
	.barrier = bb_host_barrier,
	.choose = bb_host_choose,
	.tune = bb_host_tune,
	.refuses = host_refuses,
	.tmp_bytes = host_tmp_bytes,
	.cost_bytes = host_cost_bytes,
	.queue_open = host_queue_open,
	.queue_close = bb_cpu_queue_close,
	.event_open = host_event_open,
	.event_close = bb_cpu_event_close,
	.event_record = bb_cpu_event_record,
	.event_wait = bb_cpu_event_wait,
	.compute = bb_cpu_compute,
	.collective = host_collective,
	.finish = host_finish,
	.now = host_now,
	.messages = &host_messages,
	.spaces = &host_spaces,
	.routes = &bb_host_routes,
};
