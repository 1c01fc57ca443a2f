/*
 * null.c - the backend that does nothing, so that a run measures the harness alone.
 */
#include "backends/cpu/context.h"
#include "backends/dataless.h"

#include <stdio.h>
#include <stdlib.h>

#define MAX_RANKS 1024

struct bb_context {
	struct bb_world world;
};

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

/* Ranks, groups, queues and events have no contents either. */
static bb_status null_attach(struct bb_context *context, int local, struct bb_rank **rank,
			     struct bb_location *location, struct bb_error *error)
{
	*rank = (struct bb_rank *)bb_dataless_page;
	bb_location_here(location);
	location->device = context->world.first_rank + local;
	location->numa = -1;
	snprintf(location->name, sizeof(location->name), "nothing");
	return BB_OK;
}

static bb_status null_group_open(struct bb_rank *rank, const int *members, int n,
				 struct bb_group **group, struct bb_error *error)
{
	*group = (struct bb_group *)bb_dataless_page;
	return BB_OK;
}

static void null_group_close(struct bb_group *group)
{
}

static bb_status null_barrier(struct bb_group *group)
{
	return BB_OK;
}

/* All take the same time, so the first schedule will do. */
static bb_status null_choose(struct bb_group *group, struct bb_call *call)
{
	int i = 0;

	while (bb_algorithms[i] && bb_algorithms[i]->collective != call->collective)
		i++;
	call->native = NULL;
	call->schedule = bb_algorithms[i];
	return call->schedule ? BB_OK : BB_EUNSUPPORTED;
}

static bb_status null_tune(struct bb_group *group, struct bb_call *call)
{
	call->shape.chunk = 0;
	return BB_OK;
}

static bb_status null_queue_open(struct bb_rank *rank, struct bb_queue **queue,
				 struct bb_error *error)
{
	*queue = (struct bb_queue *)bb_dataless_page;
	return BB_OK;
}

static bb_status null_event_open(struct bb_rank *rank, struct bb_event **event,
				 struct bb_error *error)
{
	*event = (struct bb_event *)bb_dataless_page;
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

static const struct bb_native null_natives[] = {{.name = NULL}};

const struct bb_backend bb_backend_null = {
	BB_DATALESS_ENTRIES,
	.abi = BB_BACKEND_ABI,
	.name = "null",
	.brief = "does nothing: measures the harness itself",
	.in_processes = true,
	.natives = null_natives,
	.open = null_open,
	.close = null_close,
	.abort = null_abort,
	.max_local = MAX_RANKS,
	.attach = null_attach,
	.group_open = null_group_open,
	.group_close = null_group_close,
	.barrier = null_barrier,
	.choose = null_choose,
	.tune = null_tune,
	.refuses = bb_backend_accept,
	.queue_open = null_queue_open,
	.event_open = null_event_open,
	.compute = null_compute,
	.collective = null_collective,
	.now = bb_cpu_now,
};
