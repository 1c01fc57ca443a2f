#include "backends/sim/nccl_calls.h"

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

const struct bb_native bb_sim_nccl_auto = NATIVE("auto", "NCCL's own choice", ANY, ANY_PROTOCOL);

/* ---- constants ----------------------------------------------------------------------------- */

/* Compute capability of the first GPU; 0: there is none, or it is not NVIDIA's. */
static int capability(const struct bb_cluster *cluster)
{
	const struct bb_topology *t = cluster->node;

	return bb_topology_count(t, BB_GPU) > 0 ? t->devices[bb_topology_device(t, BB_GPU, 0)].sm
						: 0;
}

bb_status bb_sim_nccl_find(struct bb_nccl_constants *c, const struct bb_cluster *cluster,
			   char text[BB_SIM_NCCL_TEXT], struct bb_error *error)
{
	const bb_status status = bb_nccl_constants_find(c, capability(cluster), error);

	text[0] = '\0';
	if (status == BB_OK && c->channels > 0)
		snprintf(
			text, BB_SIM_NCCL_TEXT,
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

const char *bb_sim_nccl_refuses(const struct bb_nccl_constants *c,
				const struct bb_nccl_machine *machine, const struct bb_call *call)
{
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

void bb_sim_nccl_predict(const struct bb_nccl_constants *c, const struct bb_nccl_machine *machine,
			 const struct bb_call *call, struct bb_model_prediction *prediction)
{
	const struct choice *choice = call->native->own;
	enum bb_nccl_algorithm algorithm = choice->algorithm, older = algorithm;
	enum bb_nccl_protocol protocol = choice->protocol, older_protocol = protocol;
	const struct bb_nccl_call asked = call_of(machine, call);
	const double bytes = asked.bytes;

	bb_nccl_interval(c, &asked, &prediction->low, &prediction->high);
	prediction->otherwise[0] = '\0';
	if (is_messages(call) ||
	    !bb_nccl_choose(c, machine, call->collective, bytes, &algorithm, &protocol) ||
	    !bb_nccl_choose_before(c, machine, call->collective, bytes, &older, &older_protocol))
		return;
	if (older != algorithm || older_protocol != protocol)
		snprintf(prediction->otherwise, sizeof(prediction->otherwise),
			 "%s:%s by NCCL 2.20 to 2.28.3", bb_nccl_algorithm_name(older),
			 bb_nccl_protocol_name(older_protocol));
}

double bb_sim_nccl_correct(const struct bb_calibration *calibration,
			   const struct bb_nccl_machine *machine, const struct bb_call *call,
			   struct bb_calibrated *support)
{
	const struct bb_nccl_call asked = call_of(machine, call);

	return bb_calibration_of_nccl(calibration, &asked, support);
}

double bb_sim_nccl_time(const struct bb_nccl_constants *c, const struct bb_nccl_machine *machine,
			const struct bb_call *call, char chosen[BB_CHOSEN_TEXT])
{
	const struct choice *choice = call->native->own;
	enum bb_nccl_algorithm algorithm = choice->algorithm;
	enum bb_nccl_protocol protocol = choice->protocol;
	const double bytes = call_size(call);

	if (chosen)
		chosen[0] = '\0';
	if (is_messages(call))
		return bb_nccl_messages_time(c, machine, call->collective, bytes);
	if (!bb_nccl_choose(c, machine, call->collective, bytes, &algorithm, &protocol))
		return INFINITY;
	if (chosen)
		snprintf(chosen, BB_CHOSEN_TEXT, "%s:%s", bb_nccl_algorithm_name(algorithm),
			 bb_nccl_protocol_name(protocol));
	return bb_nccl_time(c, machine, BB_NCCL_AS_MEASURED, call->collective, algorithm, protocol,
			    bytes);
}
