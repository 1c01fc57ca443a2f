/*
 * sim_nccl.c - the model of NCCL: its names of algorithms, their limits and times.
 */
#include "backends/sim/sim_inside.h"
#include "simulator/nccl_model.h"

#include <math.h>
#include <stdio.h>

/* ---- NCCL's names ------------------------------------------------------------------------ */

struct choice {
	enum bb_nccl_algorithm algorithm;
	enum bb_nccl_protocol protocol;
};

/* Collectives that NCCL makes of messages run with auto alone, as they have no algorithm. */
static const char *choice_refuses(const struct bb_native *native,
				  const struct bb_collective *collective)
{
	const struct choice *choice = native->own;

	if (collective == &bb_hypercube)
		return "it is an algorithm of its own, not a collective of NCCL";
	if (choice->algorithm == BB_NCCL_ANY && choice->protocol == BB_NCCL_ANY_PROTOCOL)
		return NULL;
	return bb_nccl_lacks(collective, choice->algorithm);
}

#define NATIVE(text, sentence, algo, proto)                                                        \
	{                                                                                          \
		.name = text, .brief = sentence, .refuses = choice_refuses,                        \
		.own = &(const struct choice)                                                      \
		{                                                                                  \
			BB_NCCL_##algo, BB_NCCL_##proto                                            \
		}                                                                                  \
	}

const struct bb_native bb_sim_nccl_natives[] = {
	NATIVE("ring", "the model of NCCL_ALGO=Ring", RING, ANY_PROTOCOL),
	NATIVE("tree", "the model of NCCL_ALGO=Tree", TREE, ANY_PROTOCOL),
	NATIVE("nvls", "the model of NCCL_ALGO=NVLS: reduced by NVSwitch", NVLS, ANY_PROTOCOL),
	NATIVE("nvlstree",
	       "the model of NCCL_ALGO=NVLSTree: NVSwitch in a node, a tree between them", NVLSTREE,
	       ANY_PROTOCOL),
	NATIVE("pat", "the model of NCCL_ALGO=PAT: parallel aggregated trees", PAT, ANY_PROTOCOL),
	NATIVE("ring:LL", "the model of NCCL_ALGO=Ring and NCCL_PROTO=LL", RING, LL),
	NATIVE("ring:LL128", "the model of NCCL_ALGO=Ring and NCCL_PROTO=LL128", RING, LL128),
	NATIVE("ring:Simple", "the model of NCCL_ALGO=Ring and NCCL_PROTO=Simple", RING, SIMPLE),
	NATIVE("tree:LL", "the model of NCCL_ALGO=Tree and NCCL_PROTO=LL", TREE, LL),
	NATIVE("tree:LL128", "the model of NCCL_ALGO=Tree and NCCL_PROTO=LL128", TREE, LL128),
	NATIVE("tree:Simple", "the model of NCCL_ALGO=Tree and NCCL_PROTO=Simple", TREE, SIMPLE),
	NATIVE("auto:LL", "NCCL's choice under NCCL_PROTO=LL", ANY, LL),
	NATIVE("auto:LL128", "NCCL's choice under NCCL_PROTO=LL128", ANY, LL128),
	NATIVE("auto:Simple", "NCCL's choice under NCCL_PROTO=Simple", ANY, SIMPLE),
	{.name = NULL},
};

static const struct bb_native nccl_auto = NATIVE("auto", "NCCL's own choice", ANY, ANY_PROTOCOL);

/* ---- constants ----------------------------------------------------------------------------- */

/* Compute capability of the first GPU; 0: there is none, or it is not NVIDIA's. */
static int capability(const struct bb_cluster *cluster)
{
	const struct bb_topology *t = cluster->node;

	return bb_topology_count(t, BB_GPU) > 0 ? t->devices[bb_topology_device(t, BB_GPU, 0)].sm
						: 0;
}

bb_status bb_sim_nccl_find(struct bb_nccl_constants *c, const struct bb_cluster *cluster,
			   char text[BB_SIM_LIBRARY_TEXT], struct bb_error *error)
{
	const bb_status status = bb_nccl_constants_find(c, capability(cluster), error);

	text[0] = '\0';
	if (status == BB_OK && c->channels > 0)
		snprintf(
			text, BB_SIM_LIBRARY_TEXT,
			"a model of NCCL 2.30.7 (%s: of its constants %d are published, %d fitted, "
			"%d assumed)",
			c->generation, c->published, c->fitted, c->assumed);
	return status;
}

/* ---- calls ------------------------------------------------------------------------------- */

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

static double call_size(const struct bb_call *call)
{
	if (call->collective == &bb_alltoallv)
		return even_size(&call->shape) * (double)bb_dtype_size(call->dtype);
	return (double)bb_size_count(call->collective, &call->shape) *
	       (double)bb_dtype_size(call->dtype);
}

static struct bb_nccl_call call_of(const struct bb_nccl_machine *machine,
				   const struct bb_call *call)
{
	const struct choice *choice = call->native->own;

	return (struct bb_nccl_call){
		.collective = call->collective,
		.algorithm = choice->algorithm,
		.protocol = choice->protocol,
		.machine = machine,
		.in_place = call->shape.in_place,
		.bytes = call_size(call),
	};
}

static bool is_messages(const struct bb_call *call)
{
	return bb_nccl_lacks(call->collective, BB_NCCL_ANY) != NULL;
}

static const char *nccl_refuses(const struct bb_group *group, const struct bb_call *call)
{
	const struct bb_nccl_constants *c = &group->context->nccl;
	const struct bb_nccl_machine *machine = &group->machines[group->context->ncourses - 1];
	const struct choice *choice = call->native->own;
	enum bb_nccl_algorithm algorithm = choice->algorithm;
	enum bb_nccl_protocol protocol = choice->protocol;
	const char *why = call->native->refuses(call->native, call->collective);

	if (why)
		return why;
	if (c->channels == 0)
		return "there is no model of NCCL for these GPUs";
	if ((call->collective->flags & BB_REDUCES) && call->op > BB_MULSUM)
		return "NCCL has no logical or bitwise operations, no maxloc and no minloc";
	if ((why = bb_nccl_unfit(c, machine, algorithm)))
		return why;
	if (is_messages(call))
		return NULL;
	return bb_nccl_choose(c, machine, call->collective, 1, &algorithm, &protocol)
		       ? NULL
		       : "NCCL does not run this protocol on such a machine";
}

/* Seconds of CALL, which has an algorithm. Sets GROUP's choice, and that of older versions. */
static double algorithm_seconds(struct bb_group *group, const struct bb_nccl_call *call)
{
	const struct bb_nccl_constants *c = &group->context->nccl;
	enum bb_nccl_algorithm algorithm = call->algorithm, older = algorithm;
	enum bb_nccl_protocol protocol = call->protocol, older_protocol = protocol;
	struct bb_model_prediction *prediction = &group->prediction;

	if (!bb_nccl_choose(c, call->machine, call->collective, call->bytes, &algorithm, &protocol))
		return INFINITY;
	snprintf(group->chosen, sizeof(group->chosen), "%s:%s", bb_nccl_algorithm_name(algorithm),
		 bb_nccl_protocol_name(protocol));
	if (bb_nccl_choose_before(c, call->machine, call->collective, call->bytes, &older,
				  &older_protocol) &&
	    (older != algorithm || older_protocol != protocol))
		snprintf(prediction->otherwise, sizeof(prediction->otherwise),
			 "%s:%s by " BB_NCCL_BEFORE, bb_nccl_algorithm_name(older),
			 bb_nccl_protocol_name(older_protocol));
	return bb_nccl_time(c, call->machine, BB_NCCL_AS_MEASURED, call->collective, algorithm,
			    protocol, call->bytes);
}

/* Closed forms: all members end at once. */
static bb_status nccl_time(struct bb_group *group, int course, const struct bb_link_model *links,
			   const struct bb_call *call, uint64_t number, double *times,
			   struct bb_error *error)
{
	const struct bb_nccl_constants *c = &group->context->nccl;
	const struct bb_calibration *calibration = group->context->calibration;
	struct bb_calibrated *support = &group->prediction.support;
	const struct bb_nccl_call asked = call_of(&group->machines[course], call);
	double factor = bb_timeline_noise(links, number), seconds;

	group->chosen[0] = '\0';
	if (calibration)
		factor *= bb_calibration_of_nccl(calibration, &asked, support);
	else
		bb_nccl_interval(c, &asked, &support->low, &support->high);
	seconds = is_messages(call)
			  ? bb_nccl_messages_time(c, asked.machine, asked.collective, asked.bytes)
			  : algorithm_seconds(group, &asked);
	bb_sim_time_whole(group, factor * seconds, times);
	return BB_OK;
}

const struct bb_sim_library bb_sim_nccl = {
	.natives = bb_sim_nccl_natives,
	.choice = &nccl_auto,
	.unnamed = "NCCL's messages",
	.is_whole = true,
	.refuses = nccl_refuses,
	.time = nccl_time,
};
