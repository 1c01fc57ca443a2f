/*
 * train.c - a small model, trained by a strategy; at the end each rank compares its result with
 * that of one rank with all samples.
 */
#include "training_kernels/data_parallel/train.h"

#include "core/random.h"
#include "training_kernels/data_parallel/data_parallel.h"

#include <math.h>
#include <string.h>

/* ---- the model ------------------------------------------------------------------------------- */

#define GRID 64.0
#define LIMIT 2.0
#define RATE 0.5 /* of learning: a power of two, so products are exact */

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

/* The inputs of a sample; returns its target, which follows from them. */
static double train_sample(uint64_t seed, size_t number, double input[BB_TRAIN_INPUTS])
{
	for (int i = 0; i < BB_TRAIN_INPUTS; i++)
		input[i] =
			(double)(train_draw(seed, number * BB_TRAIN_INPUTS + (uint64_t)i) % 3) - 1;
	return input[0] * input[1] + 0.5 * input[2] - 0.25 * input[3];
}

static double train_forward(const double *values, const double *input,
			    double hidden[BB_TRAIN_HIDDEN])
{
	double output = values[BIAS2];

	for (int h = 0; h < BB_TRAIN_HIDDEN; h++) {
		double sum = values[BIASES1 + h];

		for (int i = 0; i < BB_TRAIN_INPUTS; i++)
			sum += values[WEIGHTS1 + h * BB_TRAIN_INPUTS + i] * input[i];
		hidden[h] = sum > 0 ? sum : 0;
		output += values[WEIGHTS2 + h] * hidden[h];
	}
	return output;
}

/* The objective is half the square of the error, whose derivative is the error. */
static void train_backward(const double *values, const double *input, const double *hidden,
			   double error, double *gradient)
{
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

void bb_train_add(const double *values, uint64_t seed, size_t first, size_t count, double *gradient)
{
	for (size_t k = first; k < first + count; k++) {
		double input[BB_TRAIN_INPUTS], hidden[BB_TRAIN_HIDDEN];
		const double target = train_sample(seed, k, input);
		const double error = train_forward(values, input, hidden) - target;

		train_backward(values, input, hidden, error, gradient);
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

	if (p->rank >= s->active || (s->strategy == &bb_strategy_dp && p->rank > 0) ||
	    (s->strategy->servers && p->rank >= s->servers))
		return (struct range){0, 0};
	if (s->strategy != &bb_strategy_zero)
		return part_range(p, s->strategy->servers ? rank : 0);
	return (struct range){before, s->elements - before < part ? s->elements - before : part};
}

/* ---- computations ---------------------------------------------------------------------------- */

static void compute_batch(struct bb_trainee *p, size_t batch)
{
	const struct bb_strategy_setting *s = p->setting;
	const int worker = bb_strategy_worker(s, p->rank), workers = bb_strategy_workers(s);
	const size_t first = bb_part_start(p->samples, workers, worker);
	const size_t share = bb_part_count(p->samples, workers, worker);

	if (batch == 0)
		memset(p->gradient, 0, p->room * sizeof(*p->gradient));
	bb_train_add(p->values, p->seed, first + bb_part_start(share, (int)s->batches, (int)batch),
		     bb_part_count(share, (int)s->batches, (int)batch), p->gradient);
}

/* Adds the gradient of WORKER, or the server's own, to the sum. */
static void add_gradient(struct bb_trainee *p, size_t worker)
{
	const struct bb_strategy_setting *s = p->setting;
	const struct range mine = summed_range(p);
	const double *from = &p->gathered[worker * p->room];
	double *to = p->sum + mine.first;

	if (s->strategy->servers) {
		const bool own = s->colocated && worker == (size_t)p->rank;

		from = own ? p->gradient + mine.first : p->inbox;
		if (p->added++ % (size_t)bb_strategy_workers(s) == 0)
			memset(to, 0, mine.count * sizeof(*to));
	}
	for (size_t i = 0; i < mine.count; i++)
		to[i] += from[i];
}

/* Updates the parameters that this rank sums or, of a worker or server, those of PART. */
static void update_parameters(struct bb_trainee *p, size_t part)
{
	const struct bb_strategy_setting *s = p->setting;
	const bool servers = s->strategy->servers;
	const bool receives = servers && !(part == (size_t)p->rank && (s->colocated || s->updates));
	const struct range r = servers ? part_range(p, part) : summed_range(p);
	const double *sum = (receives ? p->gradient : p->sum) + r.first;
	double samples = (double)p->samples;

	if (s->strategy == &bb_strategy_average) {
		samples = (double)bb_part_count(p->samples, s->active, p->rank);
	} else if (!s->strategy->synchronous) { /* by the gradient of one worker */
		sum = p->inbox;
		samples /= bb_strategy_workers(s);
	}
	bb_train_update(p->values, r.first, r.count, sum, samples);
}

static void train_compute(void *own, int rank, const struct bb_operation *operation)
{
	struct bb_trainee *p = ((struct bb_dp_variant *)own)->trainee;

	switch ((enum bb_strategy_work)operation->work) {
	case BB_STRATEGY_COMPUTE:
		compute_batch(p, operation->item);
		break;
	case BB_STRATEGY_ADD:
		add_gradient(p, operation->item);
		break;
	case BB_STRATEGY_UPDATE:
		update_parameters(p, operation->item);
		break;
	default:
		for (size_t i = 0; i < BB_TRAIN_PARAMETERS; i++)
			p->values[i] = bb_train_round(p->values[i] / p->setting->active);
		p->values[BB_TRAIN_PARAMETERS] /= p->setting->active;
	}
}

static void train_buffers(void *own, int rank, const struct bb_operation *o, void **in, void **out)
{
	struct bb_trainee *p = ((struct bb_dp_variant *)own)->trainee;
	const struct bb_strategy_setting *s = p->setting;
	const bool servers = s->strategy->servers;
	const bool parameters = !servers || !s->strategy->synchronous || s->updates;
	const size_t first = part_range(p, o->item).first;

	if (o->act == BB_ACT_COLLECTIVE) {
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

/* Compares with one rank that trains alone with all samples. Returns the numbers that differ, and
   sets *LOSS and *APART, unless this rank has no parameters. */
static uint64_t train_compare(const struct bb_trainee *p, double *loss, double *apart)
{
	const struct bb_strategy_setting *s = p->setting;
	double values[BB_TRAIN_ELEMENTS], sum[BB_TRAIN_ELEMENTS];
	const struct range mine = summed_range(p);
	uint64_t wrong;

	bb_train_begin(values, p->seed);
	for (int64_t k = 0; k < p->steps; k++) {
		memset(sum, 0, sizeof(sum));
		bb_train_add(values, p->seed, 0, p->samples, sum);
		bb_train_update(values, 0, BB_TRAIN_ELEMENTS, sum, (double)p->samples);
	}
	wrong = differences(p->sum + mine.first, sum + mine.first, mine.count);
	/* A worker of a root has the parameters of the step before, a server a part of them. */
	if (s->strategy == &bb_strategy_dp ? p->rank > 0 : bb_strategy_worker(s, p->rank) < 0)
		return wrong;
	memset(sum, 0, sizeof(sum));
	bb_train_add(p->values, p->seed, 0, p->samples, sum);
	*loss = sum[BB_TRAIN_PARAMETERS] / (double)p->samples;
	for (size_t i = 0; i < BB_TRAIN_PARAMETERS; i++)
		*apart = fmax(*apart, fabs(p->values[i] - values[i]));
	return wrong + differences(p->values, values, BB_TRAIN_ELEMENTS);
}

bb_status bb_dp_train_compare(struct bb_dp_variant *v)
{
	struct bb_engine *e = &v->variant.kernel->engine;
	const struct bb_strategy *strategy = v->setting.strategy;
	const struct bb_trainee *p = v->trainee;
	double most[2] = {0, 0}; /* loss, apart */
	uint64_t wrong;
	bb_status status;

	BB_TRY(status, bb_engine_corrupt(e, p->values), out);
	/* A server may have nothing else. */
	if (strategy->servers)
		BB_TRY(status, bb_engine_corrupt(e, p->sum + summed_range(p).first), out);
	wrong = train_compare(p, &most[0], &most[1]);
	BB_TRY(status, bb_engine_sum(e, &wrong, 1), out);
	BB_TRY(status, bb_engine_slowest(e, most, 2), out);
	v->loss = most[0];
	v->apart = most[1];
	if (strategy->synchronous)
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
	bb_status status;

	if (!p)
		return BB_EINTERNAL;
	v->trainee = p;
	*p = (struct bb_trainee){.setting = &v->setting,
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
	p->sum = v->setting.strategy->servers ? p->gradient + room : p->gradient;
	p->inbox = p->gradient + 2 * room;
	p->gathered = p->inbox + room;
	bb_train_begin(p->values, p->seed);
	trial->workload.compute = train_compute;
	trial->workload.buffers = train_buffers;
	trial->timing = BB_TIMING_STEPS;
	trial->steps = (size_t)a->train / bb_strategy_steps(&v->setting);
	return BB_OK;
}
