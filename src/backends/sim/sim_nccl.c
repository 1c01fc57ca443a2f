/*
 * sim_nccl.c - the model of NCCL: its names of algorithms, their limits and times.
 */
#include "backends/sim/sim_inside.h"
#include "simulator/nccl/model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- NCCL's names --------------------------------------------------------------------- */

/* Collectives that NCCL makes of messages run with auto alone, as they have no algorithm. */
static const char *choice_refuses(const struct bb_native *native,
				  const struct bb_collective *collective)
{
	enum bb_nccl_algorithm algorithm;
	enum bb_nccl_protocol protocol;

	if (collective == &bb_hypercube)
		return "it is an algorithm of its own, not a collective of NCCL";
	if (strcmp(native->name, "auto") == 0)
		return NULL;
	(void)bb_nccl_named(native->name, &algorithm, &protocol);
	return bb_nccl_lacks(collective, algorithm);
}

#define NATIVE(text, sentence)                                                                     \
	{                                                                                          \
		.name = text, .brief = sentence, .refuses = choice_refuses                         \
	}

const struct bb_native bb_sim_nccl_natives[] = {
	NATIVE("ring", "the model of NCCL_ALGO=Ring"),
	NATIVE("tree", "the model of NCCL_ALGO=Tree"),
	NATIVE("nvls", "the model of NCCL_ALGO=NVLS: reduced by NVSwitch"),
	NATIVE("nvlstree",
	       "the model of NCCL_ALGO=NVLSTree: NVSwitch in a node, a tree between them"),
	NATIVE("pat", "the model of NCCL_ALGO=PAT: parallel aggregated trees"),
	NATIVE("ring:LL", "the model of NCCL_ALGO=Ring and NCCL_PROTO=LL"),
	NATIVE("ring:LL128", "the model of NCCL_ALGO=Ring and NCCL_PROTO=LL128"),
	NATIVE("ring:Simple", "the model of NCCL_ALGO=Ring and NCCL_PROTO=Simple"),
	NATIVE("tree:LL", "the model of NCCL_ALGO=Tree and NCCL_PROTO=LL"),
	NATIVE("tree:LL128", "the model of NCCL_ALGO=Tree and NCCL_PROTO=LL128"),
	NATIVE("tree:Simple", "the model of NCCL_ALGO=Tree and NCCL_PROTO=Simple"),
	NATIVE("auto:LL", "NCCL's choice under NCCL_PROTO=LL"),
	NATIVE("auto:LL128", "NCCL's choice under NCCL_PROTO=LL128"),
	NATIVE("auto:Simple", "NCCL's choice under NCCL_PROTO=Simple"),
	{.name = NULL},
};

static const struct bb_native nccl_auto = NATIVE("auto", "NCCL's own choice");

/* ---- constants ------------------------------------------------------------------------ */

static bb_status nccl_open(struct bb_context *context, struct bb_error *error)
{
	const struct bb_topology *t = context->cluster->node;
	const int gpu = bb_topology_count(t, BB_GPU) > 0 ? bb_topology_device(t, BB_GPU, 0) : -1;
	struct bb_nccl_constants *c = &context->nccl;
	bool more = true;
	bb_status st;

	BB_TRY(st, bb_nccl_constants_find(c, gpu >= 0 ? t->devices[gpu].sm : 0, error), out);
	for (int i = 0; i < BB_SIM_NCCL_OTHERS && more; i++) {
		BB_TRY(st, bb_nccl_constants_other(&context->others[i], c, i, &more, error), out);
		context->nothers += more;
	}
	if (c->generation)
		snprintf(context->library_text, BB_SIM_LIBRARY_TEXT,
			 "a model of NCCL %s (%s: of its constants %d are published, %d fitted, "
			 "%d assumed)",
			 c->versions, c->generation, c->published, c->fitted, c->assumed);
out:
	return st;
}

/* ---- calls ---------------------------------------------------------------------------- */

/* The size of an even alltoall in which each rank moves as much as the busiest rank of SHAPE. */
static double even_size(const struct bb_shape *shape)
{
	const int n = shape->nranks;
	size_t most = 0;

	for (int rank = 0; rank < n; rank++) {
		size_t sent = 0, received = 0;

		for (int peer = 0; peer < n; peer++) {
			sent += peer == rank ? 0 : bb_alltoall_count(shape, rank, peer);
			received += peer == rank ? 0 : bb_alltoall_count(shape, peer, rank);
		}
		most = sent > most ? sent : most;
		most = received > most ? received : most;
	}
	return n > 1 ? (double)most * n / (n - 1) : (double)bb_alltoall_count(shape, 0, 0);
}

static struct bb_nccl_call call_of(const struct bb_nccl_machine *machine,
				   const struct bb_call *call)
{
	const double size = call->collective == &bb_alltoallv
				    ? even_size(&call->shape)
				    : (double)bb_size_count(call->collective, &call->shape);
	struct bb_nccl_call asked = {
		.collective = call->collective,
		.machine = machine,
		.dtype = call->dtype,
		.op = call->op,
		.in_place = call->shape.in_place,
		.bytes = size * (double)bb_dtype_size(call->dtype),
	};

	(void)bb_nccl_named(call->native->name, &asked.algorithm, &asked.protocol);
	return asked;
}

static bool is_messages(const struct bb_call *call)
{
	return bb_nccl_lacks(call->collective, BB_NCCL_ANY) != NULL;
}

static const char *nccl_refuses(const struct bb_group *group, const struct bb_call *call)
{
	const struct bb_nccl_constants *c = &group->context->nccl;
	const struct bb_nccl_machine *machine = &group->machines[group->context->nscenarios - 1];
	struct bb_nccl_call asked = call_of(machine, call), chosen;
	const char *why = call->native->refuses(call->native, call->collective);

	if (why)
		return why;
	if (!c->generation)
		return "there is no model of NCCL for these GPUs";
	if ((why = bb_nccl_unfit(c, machine, asked.algorithm)))
		return why;
	if ((why = bb_nccl_cannot_reduce(c, &asked, asked.algorithm)))
		return why;
	if (is_messages(call))
		return NULL;
	asked.bytes = 1;
	return bb_nccl_choose(c, &asked, &chosen) ? NULL
	       : asked.protocol == BB_NCCL_ANY_PROTOCOL
		       ? "NCCL finds no channels for this algorithm on these links"
		       : "NCCL does not run this protocol on such a machine";
}

static const char *nccl_refuses_fault(const struct bb_group *group, const struct bb_call *call)
{
	const struct bb_nccl_call asked = call_of(&group->machines[0], call);

	return bb_nccl_path_unknown(&group->context->nccl, &asked);
}

/* TEXT = what NCCL with constants C chooses for CALL, empty if that is messages or nothing. */
static void write_choice(const struct bb_nccl_constants *c, const struct bb_nccl_call *call,
			 char text[BB_CHOSEN_TEXT])
{
	struct bb_nccl_call chosen;

	text[0] = '\0';
	if (bb_nccl_choose(c, call, &chosen))
		snprintf(text, BB_CHOSEN_TEXT, "%s:%s", bb_nccl_algorithm_name(chosen.algorithm),
			 bb_nccl_protocol_name(chosen.protocol));
}

/* Set GROUP's choice for CALL, and those of other versions that differ from it. MESSAGES have no
   choice: other versions take so many times as long, where that differs. */
static void name_choices(struct bb_group *group, const struct bb_nccl_call *call, bool messages)
{
	const struct bb_context *context = group->context;
	char *text = group->last.otherwise, before[BB_CHOSEN_TEXT] = "";

	text[0] = group->chosen[0] = '\0';
	if (!messages)
		write_choice(&context->nccl, call, group->chosen);
	for (int i = 0; i < context->nothers && (messages || group->chosen[0]); i++) {
		const struct bb_nccl_constants *const c = &context->others[i];
		const size_t end = strlen(text), room = BB_OTHERWISE_TEXT - end;
		char other[BB_CHOSEN_TEXT];

		if (messages) {
			const double times = bb_nccl_call_time(c, call) /
					     bb_nccl_call_time(&context->nccl, call);

			if (fabs(times - 1) > 0.05)
				snprintf(text + end, room, "%sNCCL %s takes %.1f times as long",
					 end ? ", " : "", c->versions, times);
			continue;
		}
		write_choice(c, call, other);
		if (strcmp(other, group->chosen) == 0 || !other[0])
			continue;
		if (strcmp(other, before) == 0)
			snprintf(text + end, room, " and %s", c->versions);
		else
			snprintf(text + end, room, "%s%s by %s%s", end ? ", " : "", other,
				 end ? "" : "NCCL ", c->versions);
		memcpy(before, other, sizeof(before));
	}
}

/* Closed forms: all members end at once. */
static bb_status nccl_time(struct bb_group *group, int scenario, const struct bb_link_model *links,
			   const struct bb_call *call, uint64_t number, double *times,
			   struct bb_error *error)
{
	const struct bb_nccl_constants *c = &group->context->nccl;
	const struct bb_calibration *calibration = group->context->calibration;
	struct bb_calibrated *support = &group->last.support;
	const struct bb_nccl_call asked = call_of(&group->machines[scenario], call);
	double factor = bb_timeline_noise(links, number);

	name_choices(group, &asked, is_messages(call));
	if (calibration)
		factor *= bb_calibration_of_nccl(calibration, &asked, support);
	else {
		bb_nccl_interval(c, &asked, &support->low, &support->high);
		bb_nccl_basis_describe(c, &asked, group->last.basis);
	}
	bb_sim_time_whole(group, factor * bb_nccl_call_time(c, &asked), times);
	return BB_OK;
}

const struct bb_sim_library bb_sim_nccl = {
	.natives = bb_sim_nccl_natives,
	.choice = &nccl_auto,
	.unnamed = "NCCL's messages",
	.is_whole = true,
	.open = nccl_open,
	.refuses = nccl_refuses,
	.refuses_fault = nccl_refuses_fault,
	.time = nccl_time,
};
