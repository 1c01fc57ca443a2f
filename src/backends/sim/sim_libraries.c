/*
 * sim_libraries.c - the libraries whose collectives are modelled.
 */
#include "backends/sim/sim_inside.h"

/* ---- NCCL: closed forms -------------------------------------------------------------------- */

static const char *nccl_refuses(const struct bb_group *group, const struct bb_call *call)
{
	const struct bb_context *c = group->context;

	return bb_sim_nccl_refuses(&c->nccl, &group->machines[c->ncourses - 1], call);
}

static bb_status nccl_time(struct bb_group *group, int course, const struct bb_link_model *links,
			   const struct bb_call *call, uint64_t number, double *times,
			   struct bb_error *error)
{
	const struct bb_nccl_constants *c = &group->context->nccl;
	const struct bb_calibration *calibration = group->context->calibration;
	const struct bb_nccl_machine *machine = &group->machines[course];
	double factor = bb_timeline_noise(links, number);

	bb_sim_nccl_predict(c, machine, call, &group->prediction);
	if (calibration)
		factor *= bb_sim_nccl_correct(calibration, machine, call, &group->prediction);
	bb_sim_time_whole(group, factor * bb_sim_nccl_time(c, machine, call, group->chosen), times);
	return BB_OK;
}

const struct bb_sim_library bb_sim_nccl = {
	.natives = bb_sim_nccl_natives,
	.choice = &bb_sim_nccl_auto,
	.unnamed = "NCCL's messages",
	.is_whole = true,
	.refuses = nccl_refuses,
	.time = nccl_time,
};
