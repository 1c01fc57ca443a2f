/*
 * sim_openmpi.c - the model of Open MPI: its choice among schedules, which are evaluated over the
 * links of the cluster.
 */
#include "backends/sim/sim_inside.h"
#include "simulator/openmpi/openmpi.h"

#include <stdio.h>

static enum bb_openmpi_call kind_of(const struct bb_native *native)
{
	return *(const enum bb_openmpi_call *)native->own;
}

static const char *native_refuses(const struct bb_native *native,
				  const struct bb_collective *collective)
{
	const struct bb_shape shape = {.nranks = 2, .count = 1};
	struct bb_openmpi_plan plan;

	/* What it refuses among two ranks, it has no name for. */
	return bb_openmpi_choose(collective, &shape, 1, kind_of(native), &plan) && !*plan.name
		       ? "Open MPI has no such call of this collective"
		       : NULL;
}

#define OPENMPI(text, sentence, kind)                                                              \
	{                                                                                          \
		.name = text, .brief = sentence, .refuses = native_refuses,                        \
		.own = &(const enum bb_openmpi_call)                                               \
		{                                                                                  \
			BB_OPENMPI_##kind                                                          \
		}                                                                                  \
	}

const struct bb_native bb_sim_openmpi_natives[] = {
	OPENMPI("nonblocking",
		"the model of Open MPI's coll/libnbc: nonblocking and persistent calls",
		NONBLOCKING),
	{.name = NULL},
};

static const struct bb_native openmpi_auto = OPENMPI("auto", "Open MPI's own choice", BLOCKING);

static const char *openmpi_refuses(const struct bb_group *group, const struct bb_call *call)
{
	struct bb_openmpi_plan plan;

	return bb_openmpi_choose(call->collective, &call->shape, bb_dtype_size(call->dtype),
				 kind_of(call->native), &plan);
}

/* Each phase begins on a member when the one before has ended there. */
static bb_status openmpi_time(struct bb_group *group, int scenario,
			      const struct bb_link_model *links, const struct bb_call *call,
			      uint64_t number, double *times, struct bb_error *error)
{
	static const struct bb_collective *const of_han[] = {
		&bb_all_reduce, &bb_broadcast, &bb_reduce, &bb_all_gather, &bb_gather, &bb_scatter};
	const size_t element = bb_dtype_size(call->dtype);
	const int nodes = group->machines[scenario].nodes;
	struct bb_evaluation *last = &group->last;
	struct bb_openmpi_plan plan;
	size_t han = 0;
	bb_status status = BB_OK;

	/* The interval follows from published rows of all_reduce, broadcast and reduce within a
	   node, and of alltoall. Among ranks of several nodes 5.0 performs some by coll/han
	   (coll_han_module.c, 5.0.3). */
	while (han < 6 && of_han[han] != call->collective)
		han++;
	if (call->collective == &bb_alltoall || (nodes == 1 && han < 3))
		bb_openmpi_interval((double)bb_size_count(call->collective, &call->shape) *
					    (double)element,
				    &last->support.low, &last->support.high);
	if (nodes > 1 && han < 6 && kind_of(call->native) == BB_OPENMPI_BLOCKING)
		snprintf(last->otherwise, sizeof(last->otherwise), "coll/han by Open MPI 5.0");
	/* It is not refused. */
	(void)bb_openmpi_choose(call->collective, &call->shape, element, kind_of(call->native),
				&plan);
	snprintf(group->chosen, sizeof(group->chosen), "%s", plan.name);
	for (int r = 0; r < call->shape.nranks && plan.copies; r++)
		times[r] += bb_timeline_copy(links, plan.phase[0].schedule, &plan.phase[0].shape,
					     element);
	for (int i = 0; i < plan.phases && status == BB_OK; i++) {
		group->last.evaluator = bb_evaluator_name(
			bb_timeline_evaluator(links, plan.phase[i].schedule, &plan.phase[i].shape),
			links);
		status = bb_timeline_collective(links, plan.phase[i].schedule, &plan.phase[i].shape,
						element, number, times);
	}
	if (status == BB_EINTERNAL)
		(void)bb_no_memory(error, "the messages of a collective");
	return status;
}

static bb_status openmpi_open(struct bb_context *context, struct bb_error *error)
{
	snprintf(context->library_text, BB_SIM_LIBRARY_TEXT, "a model of " BB_OPENMPI_VERSIONS);
	return BB_OK;
}

const struct bb_sim_library bb_sim_openmpi = {
	.natives = bb_sim_openmpi_natives,
	.choice = &openmpi_auto,
	.unnamed = "Open MPI",
	.open = openmpi_open,
	.refuses = openmpi_refuses,
	.time = openmpi_time,
};
