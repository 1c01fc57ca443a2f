/*
 * train.c - a small model is trained by a strategy; at the end each rank compares its result with
 * that of one rank with all samples.
 */
#include "training_kernels/data_parallel/data_parallel.h"
#include "training_kernels/train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The training of one rank; each array has room for all elements with padding. */
struct bb_trainee {
	struct bb_dp_variant *v;
	int rank;
	uint64_t seed;
	int64_t steps;
	size_t samples, room;
	double *values, *gradient; /* of a worker; the gradient of a root becomes the sum */
	double *sum, *inbox;       /* of a server */
	double *gathered;          /* of a root: [worker * room] */
	size_t added;              /* gradients that the server has summed */
};

static size_t part_start(const struct bb_trainee *p, size_t part)
{
	return bb_part_start(p->v->setting.elements, p->v->setting.servers, (int)part);
}

static size_t part_count(const struct bb_trainee *p, size_t part)
{
	return bb_part_count(p->v->setting.elements, p->v->setting.servers, (int)part);
}

/* ---- computations ---------------------------------------------------------------------------- */

static void compute_batch(struct bb_trainee *p, size_t batch)
{
	const struct bb_strategy_setting *s = &p->v->setting;
	const int worker = bb_strategy_worker(p->v->strategy, s, p->rank);
	const int workers = bb_strategy_workers(p->v->strategy, s);
	const size_t first = bb_part_start(p->samples, workers, worker);
	const size_t share = bb_part_count(p->samples, workers, worker);

	if (batch == 0)
		memset(p->gradient, 0, p->room * sizeof(*p->gradient));
	bb_train_add(p->values, p->seed, first + bb_part_start(share, (int)s->batches, (int)batch),
		     bb_part_count(share, (int)s->batches, (int)batch), p->gradient);
}

/* Adds the gradient of WORKER, or the server's own, to the sum. */
static void trainee_add(struct bb_trainee *p, size_t worker)
{
	const struct bb_strategy_setting *s = &p->v->setting;
	const size_t n = (size_t)bb_strategy_workers(p->v->strategy, s);
	const double *from = &p->gathered[worker * p->room];
	double *to = p->gradient;
	size_t count = s->elements;

	if (p->v->strategy->servers) {
		const size_t part = (size_t)p->rank;
		const bool own = s->colocated && worker == part;

		from = own ? p->gradient + part_start(p, part) : p->inbox;
		to = p->sum;
		count = part_count(p, part);
		if (p->added++ % n == 0)
			memset(p->sum, 0, count * sizeof(*p->sum));
	}
	for (size_t i = 0; i < count; i++)
		to[i] += from[i];
}

/* Updates part PART of the parameters, as divided among servers. */
static void update_part(struct bb_trainee *p, size_t part)
{
	const struct bb_strategy_setting *s = &p->v->setting;
	const bool serves = part == (size_t)p->rank && (s->colocated || s->updates);
	const size_t first = part_start(p, part);
	const double *sum = serves ? p->sum : p->gradient + first;
	double samples = (double)p->samples;

	if (!p->v->strategy->synchronous) { /* the gradient of one worker, from its samples */
		sum = p->inbox;
		samples /= bb_strategy_workers(p->v->strategy, s);
	}
	bb_train_update(p->values, first, part_count(p, part), sum, samples);
}

/* Elements of the model from FIRST on. */
struct range {
	size_t first, count;
};

/* Those that this rank sums: a server its part, a root all, by zero each rank a part of one length,
   of which the last ones are padded. */
static struct range summed_range(const struct bb_trainee *p)
{
	const struct bb_strategy_setting *s = &p->v->setting;
	const size_t part = bb_part_count(s->elements, s->active, 0), rank = (size_t)p->rank;
	const size_t before = rank * part < s->elements ? rank * part : s->elements;

	if (p->rank >= s->active || (p->v->strategy == &bb_strategy_dp && p->rank > 0) ||
	    (p->v->strategy->servers && p->rank >= s->servers))
		return (struct range){0, 0};
	if (p->v->strategy->servers)
		return (struct range){part_start(p, rank), part_count(p, rank)};
	if (p->v->strategy != &bb_strategy_zero)
		return (struct range){0, s->elements};
	return (struct range){before, s->elements - before < part ? s->elements - before : part};
}

/* PART: that of a server. */
static void trainee_update(struct bb_trainee *p, size_t part)
{
	const struct bb_strategy_setting *s = &p->v->setting;
	const struct range mine = summed_range(p);
	double samples = (double)p->samples;

	if (p->v->strategy->servers) {
		update_part(p, part);
		return;
	}
	if (p->v->strategy == &bb_strategy_average)
		samples = (double)bb_part_count(p->samples, s->active, p->rank);
	bb_train_update(p->values, mine.first, mine.count, p->gradient + mine.first, samples);
}

static void train_compute(void *own, int rank, const struct bb_operation *operation)
{
	struct bb_trainee *p = ((struct bb_dp_variant *)own)->trainee;

	switch ((enum bb_strategy_work)operation->work) {
	case BB_STRATEGY_COMPUTE:
		compute_batch(p, operation->item);
		break;
	case BB_STRATEGY_ADD:
		trainee_add(p, operation->item);
		break;
	case BB_STRATEGY_UPDATE:
		trainee_update(p, operation->item);
		break;
	default:
		for (size_t i = 0; i < BB_TRAIN_PARAMETERS; i++)
			p->values[i] = bb_train_round(p->values[i] / p->v->setting.active);
		p->values[BB_TRAIN_PARAMETERS] /= p->v->setting.active;
	}
}

/* ---- communication --------------------------------------------------------------------------- */

static void message_buffers(struct bb_trainee *p, const struct bb_operation *o, void **in,
			    void **out)
{
	const struct bb_strategy_setting *s = &p->v->setting;
	const bool servers = p->v->strategy->servers;
	const size_t first = servers ? part_start(p, o->item) : 0;
	const bool parameters = !servers || !p->v->strategy->synchronous || s->updates;

	if (o->work == BB_STRATEGY_PUSH) {
		*in = p->gradient + first;
		*out = servers ? p->inbox
			       : &p->gathered[(size_t)(o->peer > 0 ? o->peer : 0) * p->room];
		return;
	}
	*in = parameters ? p->values + first : p->sum;
	*out = (parameters ? p->values : p->gradient) + first;
}

static void train_buffers(void *own, int rank, const struct bb_operation *o, void **in, void **out)
{
	struct bb_trainee *p = ((struct bb_dp_variant *)own)->trainee;

	if (o->act == BB_ACT_COLLECTIVE)
		bb_dp_in_place(o, rank, o->work == BB_STRATEGY_REDUCE ? p->gradient : p->values, in,
			       out);
	else
		message_buffers(p, o, in, out);
}

/* ---- comparison ------------------------------------------------------------------------------ */

static int64_t differences(const double *a, const double *b, size_t n)
{
	int64_t wrong = 0;

	for (size_t i = 0; i < n; i++)
		wrong += memcmp(&a[i], &b[i], sizeof(*a)) != 0;
	return wrong;
}

struct outcome {
	int64_t wrong;
	double loss, apart; /* NAN: this rank has no parameters */
};

/* Compares with one rank that trains alone with all samples. */
static struct outcome train_compare(const struct bb_trainee *p)
{
	const struct bb_strategy *strategy = p->v->strategy;
	double values[BB_TRAIN_ELEMENTS], sum[BB_TRAIN_ELEMENTS];
	struct outcome o = {0, NAN, NAN};
	const struct range mine = summed_range(p);

	bb_train_begin(values, p->seed);
	for (int64_t k = 0; k < p->steps; k++) {
		memset(sum, 0, sizeof(sum));
		bb_train_add(values, p->seed, 0, p->samples, sum);
		bb_train_update(values, 0, BB_TRAIN_ELEMENTS, sum, (double)p->samples);
	}
	if (strategy->synchronous)
		o.wrong += differences(strategy->servers ? p->sum : p->gradient + mine.first,
				       sum + mine.first, mine.count);
	/* A worker of a root has the parameters of the step before, a server a part of them. */
	if (strategy == &bb_strategy_dp ? p->rank > 0
					: bb_strategy_worker(strategy, &p->v->setting, p->rank) < 0)
		return o;
	if (strategy->synchronous)
		o.wrong += differences(p->values, values, BB_TRAIN_ELEMENTS);
	memset(sum, 0, sizeof(sum));
	bb_train_add(p->values, p->seed, 0, p->samples, sum);
	o.loss = sum[BB_TRAIN_PARAMETERS] / (double)p->samples;
	o.apart = 0;
	for (size_t i = 0; i < BB_TRAIN_PARAMETERS; i++)
		o.apart = fmax(o.apart, fabs(p->values[i] - values[i]));
	return o;
}

/* All ranks get the outcome of all ranks. */
static bb_status train_agree(struct bb_engine *e, struct bb_dp_variant *c,
			     const struct outcome *mine)
{
	const struct outcome *all;
	const void *gathered;
	bb_status status = bb_crew_gather(e->driver, &bb_payload_number, mine,
					  sizeof(*mine) / sizeof(uint64_t), &gathered);

	if (status != BB_OK)
		return status;
	all = gathered;
	c->wrong = c->strategy->synchronous ? 0 : BB_ABSENT;
	for (int r = 0; r < c->setting.nranks; r++) {
		if (c->strategy->synchronous)
			c->wrong += all[r].wrong;
		c->loss = isnan(all[r].loss) ? c->loss : fmax(c->loss, all[r].loss);
		c->apart = isnan(all[r].apart) ? c->apart : fmax(c->apart, all[r].apart);
	}
	return BB_OK;
}

/* ---- the trial ------------------------------------------------------------------------------- */

bb_status bb_dp_train_add(struct bb_dp_variant *c, struct bb_trial *trial)
{
	struct bb_engine *e = &c->variant.kernel->engine;
	const struct bb_dp_options *a = &((const struct bb_dp *)e->run->own)->options;
	const size_t n = (size_t)c->setting.active, room = c->setting.elements + n;
	struct bb_trainee *p = bb_kernel_keep(c->variant.kernel, 1, sizeof(*p));
	bb_status status;

	if (!p)
		return BB_EINTERNAL;
	c->trainee = p;
	*p = (struct bb_trainee){.v = c,
				 .rank = e->driver->rank,
				 .seed = (uint64_t)e->run->options.seed,
				 .steps = a->train,
				 .samples = (size_t)a->samples,
				 .room = room};
	status = bb_engine_alloc(e, (4 + n) * room * sizeof(double), (void **)&p->values);
	if (status != BB_OK)
		return status;
	memset(p->values, 0, (4 + n) * room * sizeof(double));
	p->gradient = p->values + room;
	p->sum = p->gradient + room;
	p->inbox = p->sum + room;
	p->gathered = p->inbox + room;
	bb_train_begin(p->values, p->seed);
	trial->workload.compute = train_compute;
	trial->workload.buffers = train_buffers;
	trial->timing = BB_TIMING_STEPS;
	trial->steps = (size_t)a->train / bb_strategy_steps(c->strategy, &c->setting);
	return BB_OK;
}

bb_status bb_dp_train_compare(struct bb_dp_variant *c)
{
	struct bb_engine *e = &c->variant.kernel->engine;
	const struct bb_trainee *p = c->trainee;
	struct outcome mine;
	bb_status status;

	BB_TRY(status, bb_engine_corrupt(e, p->values), out);
	BB_TRY(status, bb_engine_corrupt(e, p->sum), out); /* a server may have nothing else */
	mine = train_compare(p);
	status = train_agree(e, c, &mine);
out:
	return status;
}
