/*
 * train.c - a small model, trained by a strategy; at the end each rank compares its result with
 * that of one rank with all samples.
 */

#include "core/random.h"
#include "training_kernels/data_parallel/learner.h"

#include <math.h>
#include <string.h>

/* ---- the model ------------------------------------------------------------------------------- */

#define GRID 64.0
#define LIMIT 2.0
#define LOSS_FIXED 0x1p40 /* of a loss in whole numbers */
#define MOST_LOSS 0x1p10  /* beyond it a training has diverged */
#define RATE 0.5          /* of learning: a power of two, so products are exact */

/* Offsets among the parameters. */
enum {
	WEIGHTS1 = 0, /* [hidden][input] */
	BIASES1 = BB_TRAIN_HIDDEN * BB_TRAIN_INPUTS,
	WEIGHTS2 = BIASES1 + BB_TRAIN_HIDDEN,
	BIAS2 = WEIGHTS2 + BB_TRAIN_HIDDEN,
	LOSS
};
_Static_assert(LOSS == BB_TRAIN_PARAMETERS, "the loss comes behind the parameters");

/* Number I of splitmix64 with SEED. */
static uint64_t train_draw(uint64_t seed, uint64_t i)
{
	return bb_random_mix(seed + (i + 1) * BB_RANDOM_STEP);
}

double bb_train_round(double value)
{
	return fmin(LIMIT, fmax(-LIMIT, nearbyint(value * GRID) / GRID));
}

void bb_train_begin(double *values, uint64_t seed)
{
	for (int i = 0; i < LOSS; i++)
		values[i] = ((double)(train_draw(~seed, (uint64_t)i) % 65) - 32) / GRID;
	values[LOSS] = 0;
}

void bb_train_add(const double *values, uint64_t seed, size_t first, size_t count, double *gradient)
{
	for (size_t k = first; k < first + count; k++) {
		double input[BB_TRAIN_INPUTS], hidden[BB_TRAIN_HIDDEN];
		double output = values[BIAS2], error;

		for (size_t i = 0; i < BB_TRAIN_INPUTS; i++)
			input[i] = (double)(train_draw(seed, k * BB_TRAIN_INPUTS + i) % 3) - 1;
		for (int h = 0; h < BB_TRAIN_HIDDEN; h++) {
			double sum = values[BIASES1 + h];

			for (int i = 0; i < BB_TRAIN_INPUTS; i++)
				sum += values[WEIGHTS1 + h * BB_TRAIN_INPUTS + i] * input[i];
			hidden[h] = sum > 0 ? sum : 0;
			output += values[WEIGHTS2 + h] * hidden[h];
		}
		/* The target follows from the inputs. The objective is half the square of the
		   error, whose derivative is the error. */
		error = output - (input[0] * input[1] + 0.5 * input[2] - 0.25 * input[3]);
		gradient[LOSS] += error * error;
		gradient[BIAS2] += error;
		for (int h = 0; h < BB_TRAIN_HIDDEN; h++) {
			const double through = hidden[h] > 0 ? error * values[WEIGHTS2 + h] : 0;

			gradient[WEIGHTS2 + h] += error * hidden[h];
			gradient[BIASES1 + h] += through;
			for (int i = 0; i < BB_TRAIN_INPUTS; i++)
				gradient[WEIGHTS1 + h * BB_TRAIN_INPUTS + i] += through * input[i];
		}
	}
}

void bb_train_update(double *values, size_t first, size_t count, const double *sum, double samples)
{
	for (size_t i = 0; i < count; i++) {
		const double mean = sum[i] / samples;

		if (first + i < LOSS)
			values[first + i] = bb_train_round(values[first + i] - RATE * mean);
		else if (first + i == LOSS)
			values[first + i] = mean;
	}
}

/* ---- the training of a rank ------------------------------------------------------------------ */

/* The training of one rank; each array has room for all elements with padding. */
struct bb_trainee {
	const struct bb_strategy_setting *setting;
	int rank;
	uint64_t seed;
	int64_t steps;
	size_t samples, room;
	double *values, *gradient;
	double *sum;      /* of gradients; without servers it replaces a rank's own gradient */
	double *inbox;    /* of a server: a gradient */
	double *gathered; /* of a root: [worker * room] */
	size_t added;     /* gradients that the server has summed */
	struct bb_learner *learner; /* of --coded */
};

/* Elements of the model from FIRST on. */
struct range {
	size_t first, count;
};

/* Part PART of the model, as divided among servers. */
static struct range part_range(const struct bb_trainee *p, size_t part)
{
	const struct bb_strategy_setting *s = p->setting;
	const int parts = s->strategy->servers ? s->servers : 1;

	return (struct range){bb_part_start(s->elements, parts, (int)part),
			      bb_part_count(s->elements, parts, (int)part)};
}

/* The elements that this rank sums: a server its part, a root all, by zero each rank a part of one
   length, of which the last ones are padded. */
static struct range summed_range(const struct bb_trainee *p)
{
	const struct bb_strategy_setting *s = p->setting;
	const size_t part = bb_part_count(s->elements, s->active, 0), rank = (size_t)p->rank;
	const size_t before = rank * part < s->elements ? rank * part : s->elements;

	if (p->rank >= s->active || (s->strategy->kind == BB_BY_ROOT && p->rank > 0) ||
	    (s->strategy->servers && p->rank >= s->servers))
		return (struct range){0, 0};
	if (s->strategy->kind != BB_BY_PARTS)
		return part_range(p, s->strategy->servers ? rank : 0);
	return (struct range){before, s->elements - before < part ? s->elements - before : part};
}

/* ---- computations ---------------------------------------------------------------------------- */

static void train_compute(void *own, int rank, const struct bb_operation *o)
{
	const struct bb_dp_variant *v = own;
	struct bb_trainee *p = v->trainee;
	const struct bb_strategy_setting *s = p->setting;
	const bool servers = s->strategy->servers;
	const bool mine = o->item == (size_t)p->rank; /* the worker, or the server's part */
	const int worker = bb_strategy_worker(s, p->rank), workers = bb_strategy_workers(s);
	const int batches = (int)s->batches, batch = (int)o->item;
	struct range r = summed_range(p);
	double *sum = p->sum + r.first, samples = (double)p->samples;
	const double *from;
	size_t share;

	switch ((enum bb_strategy_work)o->work) {
	case BB_STRATEGY_COMPUTE:
		if (batch == 0)
			memset(p->gradient, 0, p->room * sizeof(*p->gradient));
		share = bb_part_count(p->samples, workers, worker);
		bb_train_add(p->values, p->seed,
			     bb_part_start(p->samples, workers, worker) +
				     bb_part_start(share, batches, batch),
			     bb_part_count(share, batches, batch), p->gradient);
		break;
	case BB_STRATEGY_ADD: /* the gradient of a worker, or the server's own */
		from = !servers               ? &p->gathered[o->item * p->room]
		       : s->colocated && mine ? p->gradient + r.first
					      : p->inbox;
		if (servers && p->added++ % (size_t)workers == 0)
			memset(sum, 0, r.count * sizeof(*sum));
		for (size_t i = 0; i < r.count; i++)
			sum[i] += from[i];
		break;
	case BB_STRATEGY_UPDATE: /* of what this rank sums or, of a worker or server, of a part */
		if (servers) {
			r = part_range(p, o->item);
			sum = (mine && (s->colocated || s->updates) ? p->sum : p->gradient) +
			      r.first;
		}
		if (s->strategy->kind == BB_BY_AVERAGE) {
			samples = (double)bb_part_count(p->samples, s->active, p->rank);
		} else if (!s->strategy->synchronous) { /* by the gradient of one worker */
			sum = p->inbox;
			samples /= workers;
		}
		bb_train_update(p->values, r.first, r.count, sum, samples);
		break;
	case BB_STRATEGY_PREPARE:
		bb_learner_prepare(p->learner, p->gradient, samples);
		v->losses[o->item] = p->gradient[BB_TRAIN_PARAMETERS] / samples;
		break;
	case BB_STRATEGY_CODE:
		bb_coded_compute(&p->learner->coded, o->item);
		break;
	case BB_STRATEGY_APPLY:
		bb_learner_apply(p->learner);
		for (size_t i = 0; i < BB_TRAIN_PARAMETERS; i++)
			p->values[i] = p->learner->p[i];
		break;
	default:
		for (size_t i = 0; i < BB_TRAIN_PARAMETERS; i++)
			p->values[i] = bb_train_round(p->values[i] / s->active);
		p->values[BB_TRAIN_PARAMETERS] /= s->active;
	}
}

static void train_buffers(void *own, int rank, const struct bb_operation *o, void **in, void **out)
{
	struct bb_trainee *p = ((struct bb_dp_variant *)own)->trainee;
	const struct bb_strategy_setting *s = p->setting;
	const bool servers = s->strategy->servers;
	const bool parameters = !servers || !s->strategy->synchronous || s->updates;
	const size_t first = part_range(p, o->item).first;

	if (o->work == BB_STRATEGY_EXCHANGE) {
		*in = p->learner->coded.sent;
		*out = p->learner->coded.comes;
	} else if (o->act == BB_ACT_COLLECTIVE && p->learner) {
		*in = *out = p->learner->whole;
	} else if (o->act == BB_ACT_COLLECTIVE) {
		bb_kernel_in_place(
			o, rank, (char *)(o->work == BB_STRATEGY_REDUCE ? p->gradient : p->values),
			in, out);
	} else if (o->work == BB_STRATEGY_PUSH) {
		*in = p->gradient + first;
		*out = servers ? p->inbox
			       : &p->gathered[(size_t)(o->peer > 0 ? o->peer : 0) * p->room];
	} else {
		*in = (parameters ? p->values : p->sum) + first;
		*out = (parameters ? p->values : p->gradient) + first;
	}
}

/* ---- comparison ------------------------------------------------------------------------------ */

static uint64_t differences(const double *a, const double *b, size_t n)
{
	uint64_t wrong = 0;

	for (size_t i = 0; i < n; i++)
		wrong += memcmp(&a[i], &b[i], sizeof(*a)) != 0;
	return wrong;
}

/* LOSS of all samples; NAN: it has diverged. */
static double settled_loss(double loss)
{
	return loss < MOST_LOSS ? loss : NAN;
}

/* The same for a learner: parameters by one rank for all, and the invariant of its errors. */
static bb_status learner_compare(struct bb_dp_variant *v)
{
	struct bb_engine *e = &v->variant.kernel->engine;
	const struct bb_trainee *p = v->trainee;
	struct bb_learner *l = p->learner, alone;
	const size_t steps = (size_t)p->steps;
	uint64_t *const losses = bb_kernel_keep(v->variant.kernel, steps, sizeof(*losses));
	double gradient[BB_TRAIN_ELEMENTS] = {0}, loss = 0;
	bool broken = false;
	uint64_t wrong = 0;
	bb_status status;

	if (!losses)
		return BB_EINTERNAL;
	BB_TRY(status, bb_engine_corrupt(e, l->p), out);
	if (p->rank < v->setting.active) {
		if (!bb_learner_alone(&alone, &v->setting, p->rank, p->seed, p->samples))
			return bb_no_memory(&e->run->error, "the check of a learner");
		for (size_t i = 0; i < BB_TRAIN_PARAMETERS; i++)
			wrong += memcmp(&l->p[i], &alone.p[i], sizeof(l->p[i])) != 0;
		bb_train_add(p->values, p->seed, 0, p->samples, gradient);
		loss = fmin(MOST_LOSS, gradient[BB_TRAIN_PARAMETERS] / (double)p->samples);
	}
	BB_TRY(status, bb_engine_sum(e, &wrong, 1), out);
	if (l->form.feedback) {
		l->balance.open += bb_coded_errors(&l->coded, 0);
		BB_TRY(status,
		       bb_kernel_settle(e, &l->balance, v->setting.active, &v->gap, &broken), out);
	}
	/* Losses of all samples, in whole numbers. */
	for (size_t i = 0; i < steps; i++)
		losses[i] = (uint64_t)llrint(fmin(MOST_LOSS, v->losses[i]) * LOSS_FIXED);
	BB_TRY(status, bb_engine_sum(e, losses, steps), out);
	for (size_t i = 0; i < steps; i++)
		v->losses[i] = settled_loss((double)losses[i] / LOSS_FIXED);
	BB_TRY(status, bb_engine_slowest(e, &loss, 1), out);
	v->loss = settled_loss(loss);
	e->trials[v->variant.trial].wrong = (int64_t)wrong + broken;
out:
	return status;
}

bb_status bb_dp_train_compare(struct bb_dp_variant *v)
{
	struct bb_engine *e = &v->variant.kernel->engine;
	const struct bb_strategy_setting *s = &v->setting;
	const struct bb_trainee *p = v->trainee;
	const struct range mine = summed_range(p);
	/* A worker of a root has the parameters of the step before, a server a part of them. */
	const bool whole = s->strategy->kind == BB_BY_ROOT ? p->rank == 0
							   : bb_strategy_worker(s, p->rank) >= 0;
	double values[BB_TRAIN_ELEMENTS], sum[BB_TRAIN_ELEMENTS];
	double most[2] = {0, 0}; /* loss, apart */
	bb_status status;

	if (p->learner)
		return learner_compare(v);

	BB_TRY(status, bb_engine_corrupt(e, p->values), out);
	/* A server may have nothing else. */
	if (s->strategy->servers)
		BB_TRY(status, bb_engine_corrupt(e, p->sum + mine.first), out);
	/* One rank trains alone with all samples. */
	bb_train_begin(values, p->seed);
	for (int64_t k = 0; k < p->steps; k++) {
		memset(sum, 0, sizeof(sum));
		bb_train_add(values, p->seed, 0, p->samples, sum);
		bb_train_update(values, 0, BB_TRAIN_ELEMENTS, sum, (double)p->samples);
	}
	uint64_t wrong = differences(p->sum + mine.first, sum + mine.first, mine.count);
	if (whole) {
		memset(sum, 0, sizeof(sum));
		bb_train_add(p->values, p->seed, 0, p->samples, sum);
		most[0] = sum[BB_TRAIN_PARAMETERS] / (double)p->samples;
		for (size_t i = 0; i < BB_TRAIN_PARAMETERS; i++)
			most[1] = fmax(most[1], fabs(p->values[i] - values[i]));
		wrong += differences(p->values, values, BB_TRAIN_ELEMENTS);
	}
	BB_TRY(status, bb_engine_sum(e, &wrong, 1), out);
	BB_TRY(status, bb_engine_slowest(e, most, 2), out);
	v->loss = most[0];
	v->apart = most[1];
	if (s->strategy->synchronous)
		e->trials[v->variant.trial].wrong = (int64_t)wrong;
out:
	return status;
}

/* ---- the trial ------------------------------------------------------------------------------- */

bb_status bb_dp_train_begin(struct bb_dp_variant *v, struct bb_trial *trial)
{
	struct bb_engine *e = &v->variant.kernel->engine;
	const struct bb_dp_options *a = &((const struct bb_dp *)e->run->own)->options;
	const size_t n = (size_t)v->setting.active, room = v->setting.elements + n;
	struct bb_trainee *p = bb_kernel_keep(v->variant.kernel, 1, sizeof(*p));

	if (!p)
		return BB_EINTERNAL;
	v->trainee = p;
	*p = (struct bb_trainee){.setting = &v->setting,
				 .rank = e->driver->rank,
				 .seed = (uint64_t)e->run->options.seed,
				 .steps = a->train,
				 .samples = (size_t)a->samples,
				 .room = room};
	const size_t doubles = (4 + n) * room;
	size_t coded = 0;

	if (v->setting.strategy->kind == BB_BY_CODES) {
		p->learner = bb_kernel_keep(v->variant.kernel, 1, sizeof(*p->learner));
		v->losses = bb_kernel_keep(v->variant.kernel, (size_t)a->train, sizeof(double));
		if (!p->learner || !v->losses)
			return BB_EINTERNAL;
		coded = bb_learner_open(p->learner, &v->setting, p->rank, NULL, NULL);
	}
	const size_t bytes = doubles * sizeof(double) + coded;
	const bb_status status = bb_engine_alloc(e, bytes, (void **)&p->values);
	if (status != BB_OK)
		return status;
	memset(p->values, 0, bytes);
	p->gradient = p->values + room;
	p->sum = v->setting.strategy->servers ? p->gradient + room : p->gradient;
	p->inbox = p->gradient + 2 * room;
	p->gathered = p->inbox + room;
	bb_train_begin(p->values, p->seed);
	if (p->learner)
		bb_learner_open(p->learner, &v->setting, p->rank, p->values,
				(char *)(p->values + doubles));
	trial->workload.compute = train_compute;
	trial->workload.buffers = train_buffers;
	trial->timing = BB_TIMING_STEPS;
	trial->steps = (size_t)a->train / bb_strategy_steps(&v->setting);
	return BB_OK;
}
