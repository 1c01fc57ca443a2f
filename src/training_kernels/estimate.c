#include "training_kernels/estimate.h"

#include "core/units.h"
#include "simulator/cluster/cluster.h"
#include "topology/systems.h"

bb_status bb_estimate_room(struct bb_run *run, uint64_t bytes, const char *subject,
			   const char *data, const char *give)
{
	const uint64_t all = bytes * (uint64_t)run->world.nlocal;
	char need[BB_UNIT_TEXT], have[BB_UNIT_TEXT];

	if (all <= run->memory)
		return BB_OK;
	return bb_fail(&run->error, BB_EUNSUPPORTED,
		       "%s: %s take %s on %d rank%s, there is room for %s; give %s", subject, data,
		       bb_format_bytes(need, all), run->world.nlocal, bb_plural(run->world.nlocal),
		       bb_format_bytes(have, run->memory), give);
}

bb_status bb_estimate_fit(struct bb_fit_verdict *verdict, const struct bb_replica *r,
			  uint64_t limit, struct bb_error *error)
{
	static const struct bb_precision doubles = {"fp64", 8, 8, 0, 8};
	const struct bb_training training = {
		.model = r->model,
		.recipe = {r->dtype == BB_DOUBLE  ? &doubles
			   : r->dtype == BB_FLOAT ? &bb_precisions[BB_ALL_FP32]
						  : &bb_precisions[BB_MIXED],
			   &bb_optimizers[BB_ADAMW]},
		.trainable = 1,
		.dp = (uint64_t)r->nranks,
		.tp = 1,
		.pp = 1,
		.ep = 1,
		.eager = r->attention == BB_ATTENTION_EAGER,
		.chunks = 1,
		.micro_batch = (uint64_t)r->batch,
		.micro_batches = 1,
	};

	return bb_fit_judge(verdict, &training, limit, error);
}

bb_status bb_estimate_capacity(struct bb_capacity *capacity, const char *option, int64_t memory,
			       bool given, int64_t reserve, const struct bb_cluster *cluster,
			       struct bb_error *error)
{
	const struct bb_system *const system =
		cluster && !given ? bb_system_find(cluster->node->name) : NULL;
	const struct bb_system_gpu *const gpu = system ? system->gpu : NULL;

	return bb_capacity_open(capacity, option, gpu ? (uint64_t)gpu->gib << 30 : (uint64_t)memory,
				gpu ? gpu->card : NULL, (uint64_t)reserve, error);
}

int bb_estimate_ranks(const struct bb_options *o, const struct bb_environment *environment)
{
	const int nprocs = environment->launch.nprocs;

	return (int)(o->threads * o->gpus) * (nprocs > 1 ? nprocs : 1);
}

const char *bb_estimate_noise(const struct bb_run *run)
{
	return run->record.virtual_time && isnan(run->record.link_noise) ? NULL : "95% confidence";
}

void bb_estimate_set_ranks(struct bb_options *o, const struct bb_environment *environment,
			   int64_t n)
{
	if (!o->threads_given && !o->gpus_given && environment->launch.nprocs <= 1 &&
	    o->backend->max_local > 1)
		o->gpus = n;
}
