/*
 * The choice of `auto`, and the message size of pipelined algorithms.
 */
#include "backends/host/host.h"

#include <string.h>

/* ALGORITHM was the fastest up to max_bytes and max_ranks; the first row that fits counts. */
struct choice {
	const char *collective;
	bool crowded; /* more ranks than cores */
	int max_ranks;
	size_t max_bytes;
	const char *algorithm;
};

#define K *1024
#define M *1048576

/* Written by studies/tune.py (make tune). Without a matching row, direct is used. */
static const struct choice choices[] = {
#include "backends/host/tuning_table.inc"
	{.collective = NULL},
};

#define CHUNK_BYTES ((size_t)128 << 10)
#define CROWDED_CHUNK_BYTES ((size_t)64 << 10)

static const char *measured_best(const struct bb_group *group, const struct bb_call *call)
{
	const size_t bytes =
		bb_size_count(call->collective, &call->shape) * bb_dtype_size(call->dtype);

	for (const struct choice *c = choices; c->collective; c++)
		if (strcmp(c->collective, call->collective->name) == 0 &&
		    c->crowded == group->rank->context->cpu.crowded &&
		    call->shape.nranks <= c->max_ranks && bytes <= c->max_bytes)
			return c->algorithm;
	return "direct";
}

/*
 * Paced links carry only messages, which excludes direct. Their times are known, as on the sim
 * backend. Returns the schedule NAME, or the best one if that is NULL; *CHUNK = its best message
 * length.
 */
static const struct bb_algorithm *over_links(struct bb_group *group, const struct bb_call *call,
					     const char *name, size_t *chunk)
{
	const struct bb_backend_config *config = &group->rank->context->cpu.config;
	const struct bb_link_model links = {.rate = config->link_rate,
					    .latency = config->link_latency,
					    .port = config->link_port,
					    .choices = &group->rank->choices};
	struct bb_error refusal = {.text = ""}; /* reported by refuses */
	struct bb_shape shape = call->shape;
	const struct bb_algorithm *schedule = bb_timeline_choose(
		&links, name, call->collective, &shape, bb_dtype_size(call->dtype), &refusal);

	*chunk = shape.chunk;
	return schedule;
}

static const struct bb_algorithm *measured_schedule(const struct bb_group *group,
						    const struct bb_call *call)
{
	const struct bb_algorithm *schedule =
		bb_algorithm_find(call->collective, measured_best(group, call));

	/* A collective that is an algorithm of its own has no direct. */
	if (!schedule && bb_host_natives[0].refuses(NULL, call->collective))
		schedule = bb_algorithm_find(call->collective, call->collective->name);
	if (schedule && schedule->refuses && schedule->refuses(&call->shape))
		schedule = NULL;
	return schedule;
}

bb_status bb_host_choose(struct bb_group *group, struct bb_call *call)
{
	const bool paced = group->rank->context->cpu.config.link_rate != 0;
	size_t chunk;

	call->native = NULL;
	call->schedule =
		paced ? over_links(group, call, NULL, &chunk) : measured_schedule(group, call);
	if (call->schedule)
		return BB_OK;
	if (paced || bb_host_natives[0].refuses(NULL, call->collective))
		return BB_EUNSUPPORTED;
	call->native = &bb_host_natives[0];
	return BB_OK;
}

bb_status bb_host_tune(struct bb_group *group, struct bb_call *call)
{
	const size_t bytes = group->rank->context->cpu.crowded ? CROWDED_CHUNK_BYTES : CHUNK_BYTES;

	call->shape.chunk = bytes / bb_dtype_size(call->dtype);
	if (group->rank->context->cpu.config.link_rate != 0 && call->schedule)
		(void)over_links(group, call, call->schedule->name, &call->shape.chunk);
	return BB_OK;
}
