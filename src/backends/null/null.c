/*
 * null.c - the backend that does nothing: what a run takes on it is the harness's own share.
 */
#include "backends/backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MAX_RANKS 1024
#define PAGE 4096

struct bb_context {
	struct bb_world world;
};

struct bb_rank {
	struct bb_context *context;
	int rank;
	void *page; /* stands for every buffer: it has an address, nothing is ever kept there */
};

struct bb_group {
	int nranks;
};

/* Queues and events do nothing either; the page stands for them too. */

static bb_status null_open(struct bb_context **context, const struct bb_world *world,
			   const struct bb_backend_config *config, struct bb_error *error)
{
	if (config->link_rate > 0)
		return bb_fail(error, BB_EUNSUPPORTED,
			       "--link: the null backend moves nothing that could be paced");
	*context = malloc(sizeof(**context));
	if (!*context)
		return bb_no_memory(error, "the null backend");
	(*context)->world = *world;
	return BB_OK;
}

static void null_close(struct bb_context *context)
{
	free(context);
}

static void null_abort(struct bb_context *context)
{
}

static uint64_t null_memory_available(struct bb_context *context)
{
	return UINT64_MAX;
}

static bb_status null_attach(struct bb_context *context, int local, struct bb_rank **rank,
			     struct bb_error *error)
{
	struct bb_rank *r = malloc(sizeof(*r));

	if (!r)
		goto fail;
	r->context = context;
	r->rank = context->world.first_rank + local;
	r->page = aligned_alloc(PAGE, PAGE);
	if (!r->page)
		goto fail;
	*rank = r;
	return BB_OK;
fail:
	free(r);
	return bb_no_memory(error, "a rank of the null backend");
}

static void null_detach(struct bb_rank *rank)
{
	if (!rank)
		return;
	free(rank->page);
	free(rank);
}

static void null_locate(struct bb_rank *rank, struct bb_location *location)
{
	bb_location_here(location);
	location->device = rank->rank;
	location->numa = -1;
	snprintf(location->name, sizeof(location->name), "nothing");
}

static bb_status null_alloc(struct bb_rank *rank, size_t bytes, void **memory)
{
	*memory = rank->page;
	return BB_OK;
}

static void null_release(struct bb_rank *rank, void *memory, size_t bytes)
{
}

static bb_status null_copy(struct bb_rank *rank, void *dst, const void *src, size_t bytes)
{
	return BB_OK;
}

static bb_status null_fill(struct bb_rank *rank, void *dst, const struct bb_pattern *pattern,
			   size_t first, size_t count)
{
	return BB_OK;
}

static bb_status null_verify(struct bb_rank *rank, const void *got,
			     const struct bb_pattern *pattern, size_t first, size_t count,
			     enum bb_dtype dtype, int ulps, uint64_t *wrong)
{
	return BB_OK;
}

static bb_status null_group_open(struct bb_rank *rank, const int *members, int n,
				 struct bb_group **group, struct bb_error *error)
{
	*group = malloc(sizeof(**group));
	if (!*group)
		return bb_no_memory(error, "a group");
	(*group)->nranks = n;
	return BB_OK;
}

static void null_group_close(struct bb_group *group)
{
	free(group);
}

static bb_status null_barrier(struct bb_group *group)
{
	return BB_OK;
}

/* Nothing is as fast as any other nothing: the first schedule there is. */
static bb_status null_choose(struct bb_group *group, struct bb_call *call)
{
	int i;

	for (i = 0; bb_algorithms[i]; i++) {
		const struct bb_algorithm *a = bb_algorithms[i];

		if (a->collective != call->collective || (a->refuses && a->refuses(&call->shape)))
			continue;
		call->schedule = a;
		call->native = NULL;
		return BB_OK;
	}
	return BB_EUNSUPPORTED;
}

static bb_status null_tune(struct bb_group *group, struct bb_call *call)
{
	call->shape.chunk = 0;
	return BB_OK;
}

static const char *null_refuses(struct bb_group *group, const struct bb_call *call)
{
	if (call->schedule && call->schedule->refuses)
		return call->schedule->refuses(&call->shape);
	return NULL;
}

static size_t null_tmp_bytes(struct bb_group *group, const struct bb_call *call)
{
	return 0;
}

static double null_cost_bytes(struct bb_group *group, const struct bb_call *call)
{
	return 0;
}

static bb_status null_queue_open(struct bb_rank *rank, struct bb_queue **queue,
				 struct bb_error *error)
{
	*queue = rank->page;
	return BB_OK;
}

static void null_queue_close(struct bb_queue *queue)
{
}

static bb_status null_event_open(struct bb_rank *rank, struct bb_event **event,
				 struct bb_error *error)
{
	*event = rank->page;
	return BB_OK;
}

static void null_event_close(struct bb_event *event)
{
}

static bb_status null_event(struct bb_rank *rank, struct bb_queue *queue, struct bb_event *event)
{
	return BB_OK;
}

static bb_status null_compute(struct bb_rank *rank, struct bb_queue *queue,
			      void (*function)(void *argument), void *argument)
{
	return BB_OK;
}

static bb_status null_collective(struct bb_group *group, struct bb_queue *queue,
				 const struct bb_call *call)
{
	return BB_OK;
}

static bb_status null_finish(struct bb_rank *rank, struct bb_queue *queue)
{
	return BB_OK;
}

static double null_now(struct bb_rank *rank)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static const struct bb_native null_natives[] = {{.name = NULL}};

const struct bb_backend bb_backend_null = {
	.abi = BB_BACKEND_ABI,
	.name = "null",
	.brief = "does nothing: shows what the harness itself takes",
	.in_processes = true,
	.natives = null_natives,
	.open = null_open,
	.close = null_close,
	.abort = null_abort,
	.max_local = MAX_RANKS,
	.memory_available = null_memory_available,
	.attach = null_attach,
	.detach = null_detach,
	.locate = null_locate,
	.alloc = null_alloc,
	.release = null_release,
	.copy = null_copy,
	.fill = null_fill,
	.verify = null_verify,
	.group_open = null_group_open,
	.group_close = null_group_close,
	.barrier = null_barrier,
	.choose = null_choose,
	.tune = null_tune,
	.refuses = null_refuses,
	.tmp_bytes = null_tmp_bytes,
	.cost_bytes = null_cost_bytes,
	.queue_open = null_queue_open,
	.queue_close = null_queue_close,
	.event_open = null_event_open,
	.event_close = null_event_close,
	.event_record = null_event,
	.event_wait = null_event,
	.compute = null_compute,
	.collective = null_collective,
	.finish = null_finish,
	.now = null_now,
};
