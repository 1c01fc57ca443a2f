#include "backends/cpu/context.h"

#include "core/clock.h"
#include "topology/probes/memory.h"

#include <stdio.h>
#include <stdlib.h>

bb_status bb_cpu_open(struct bb_cpu_context *context, const struct bb_world *world,
		      const struct bb_backend_config *config, struct bb_error *error)
{
	bb_status status;

	context->world = *world;
	context->config = *config;
	context->error = error;
	context->kernels = bb_kernels_select();
	if (!context->kernels)
		return bb_fail(
			error, BB_EUSAGE,
			"BUSBENCH_ISA=%s: expected plain, avx2 or avx512, as this CPU supports",
			getenv("BUSBENCH_ISA"));
	BB_TRY(status, bb_machine_open(&context->machine, error), out);
	context->ranks = config->ranks_here > 0 ? config->ranks_here : world->nlocal;
	context->cores = context->machine->ncores;
	context->crowded = context->ranks > context->cores;
out:
	return status;
}

void bb_cpu_close(struct bb_cpu_context *context)
{
	bb_machine_close(context->machine);
}

void bb_cpu_abort(struct bb_context *context)
{
	atomic_store(&((struct bb_cpu_context *)context)->aborted, 1);
}

uint64_t bb_cpu_memory_available(struct bb_context *context)
{
	const struct bb_cpu_context *c = (const struct bb_cpu_context *)context;

	return bb_available_memory() / (uint64_t)c->ranks * (uint64_t)c->world.nlocal;
}

void bb_cpu_locate(const struct bb_cpu_context *context, int core, const char *unbound,
		   struct bb_location *location)
{
	const struct bb_core c = context->machine->cores[core];

	bb_location_here(location);
	location->device = c.pu;
	location->numa = c.numa;
	snprintf(location->bus, sizeof(location->bus), "%04x:%02x:%02x", c.package & 0xffff,
		 c.numa & 0xff, c.pu & 0xff);
	snprintf(location->name, sizeof(location->name), "%s%s", context->machine->cpu, unbound);
}

/*
 * Non-temporal stores save reading what is overwritten, but send it to memory. They pay once the
 * buffers of a core exceed its L2 by far and those of all ranks a good part of the L3; ranks that
 * share cores leave more of each other's data there.
 */
#define STREAM_L2S 4
#define STREAM_L3_PART 5
#define CROWDED_STREAM_L3_PART 4

bool bb_cpu_streams(const struct bb_cpu_context *context, size_t bytes, int n)
{
	const size_t total = bytes * (size_t)n;
	const size_t part = context->crowded ? CROWDED_STREAM_L3_PART : STREAM_L3_PART;
	const int cores = n < context->cores ? n : context->cores;

	return total / (size_t)cores >= STREAM_L2S * context->machine->l2 &&
	       total >= context->machine->l3 / part;
}

bb_status bb_cpu_copy(struct bb_rank *rank, void *dst, const void *src, size_t bytes)
{
	const struct bb_cpu_context *c = bb_cpu_of(rank);

	c->kernels->copy(&dst, 1, src, bytes, bb_cpu_streams(c, 2 * bytes, c->ranks));
	return BB_OK;
}

double bb_cpu_now(struct bb_rank *rank)
{
	return bb_clock_now();
}
