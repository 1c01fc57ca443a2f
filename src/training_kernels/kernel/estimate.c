#include "training_kernels/kernel/estimate.h"

#include "core/units.h"
#include "simulator/cluster/cluster.h"
#include "topology/systems.h"

#include <stdio.h>

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

/* ---- a replica ------------------------------------------------------------------------------- */

const char *const bb_replica_dtypes[] = {"float", "half", "bfloat16", "double", NULL};

bb_status bb_replica_open(struct bb_replica *r, const struct bb_replica_request *q,
			  const struct bb_options *o, struct bb_error *error)
{
	const struct bb_model *m = &r->model;
	double flops, per_flop;
	bb_status status;

	r->request = *q;
	BB_TRY(status, bb_model_open(&r->model, q->model, q->seq, error), out);
	bb_attention_apply(&r->model, q->attention);
	flops = m->forward + m->backward;
	r->batch_s = q->flops > 0 ? flops * (double)q->batch / q->flops : 1e-9 * (double)q->step_ns;
	per_flop = q->flops > 0 ? (double)q->batch / q->flops : r->batch_s / flops;
	r->forward_s = m->forward * per_flop;
	r->backward_s = m->backward * per_flop;
	r->bytes = m->parameters * bb_dtype_size(q->dtype);
	status = bb_estimate_capacity(&r->capacity, "--memory", (int64_t)q->memory, q->memory_given,
				      (int64_t)q->reserve, o->cluster, error);
out:
	return status;
}

bb_status bb_replica_judge(struct bb_replica *r, int nranks, struct bb_error *error)
{
	static const struct bb_precision doubles = {"fp64", 8, 8, 0, 8};
	const enum bb_dtype dtype = r->request.dtype;
	struct bb_training training = bb_training_alone(&r->model);

	if (dtype == BB_DOUBLE || dtype == BB_FLOAT)
		training.recipe.precision =
			dtype == BB_DOUBLE ? &doubles : &bb_precisions[BB_ALL_FP32];
	training.dp = (uint64_t)nranks;
	training.eager = r->request.attention == BB_ATTENTION_EAGER;
	training.micro_batch = (uint64_t)r->request.batch;
	return bb_fit_judge(&r->fit, &training, r->capacity.usable, error);
}

bb_status bb_replica_plan(struct bb_replica *r, struct bb_run *run, uint64_t copies,
			  const char *data, const char *give)
{
	const bb_status status = bb_replica_judge(r, run->world.nranks, &run->error);
	char subject[128];

	snprintf(subject, sizeof(subject), "--model %s", r->request.model);
	return status == BB_OK ? bb_estimate_room(run, copies * r->bytes, subject, data, give)
			       : status;
}

void bb_replica_close(struct bb_replica *r)
{
	bb_model_free(&r->model);
}
