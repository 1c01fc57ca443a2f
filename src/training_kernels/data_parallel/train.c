/*
 * train.c - a small model trained by a way for real, on every rank its part; in the
 * end each rank compares with what it comes to alone, with all samples.
 */
#include "training_kernels/data_parallel/data_parallel.h"
#include "training_kernels/train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A rank's, in elements of doubles; as long as all, with padding. */
struct pupil {
	struct bb_dp_cell *cell;
	int rank;
	uint64_t seed;
	size_t samples, room;
	double *memory;
	double *values, *gradient; /* what workers have; the root's gradient becomes the sum */
	double *sum, *inbox;       /* a server's */
	double *gathered;          /* the root's: [worker * room] */
	size_t added;              /* gradients that the server has summed up */
};

static size_t part_start(const struct pupil *p, size_t part)
{
	return bb_part_start(p->cell->setting.elements, p->cell->setting.servers, (int)part);
}

static size_t part_count(const struct pupil *p, size_t part)
{
	return bb_part_count(p->cell->setting.elements, p->cell->setting.servers, (int)part);
}

/* ---- computations ------------------------------------------------------------------------- */

static void compute_batch(struct pupil *p, size_t batch)
{
	const struct bb_way_setting *s = &p->cell->setting;
	const int worker = bb_way_worker(p->cell->way, s, p->rank);
	const int workers = bb_way_workers(p->cell->way, s);
	const size_t first = bb_part_start(p->samples, workers, worker);
	const size_t share = bb_part_count(p->samples, workers, worker);

	if (batch == 0)
		memset(p->gradient, 0, p->room * sizeof(*p->gradient));
	bb_train_add(p->values, p->seed, first + bb_part_start(share, (int)s->batches, (int)batch),
		     bb_part_count(share, (int)s->batches, (int)batch), p->gradient);
}

/* What came from WORKER, or is the server's own, is added to the sum. */
static void add(struct pupil *p, size_t worker)
{
	const struct bb_way_setting *s = &p->cell->setting;
	const size_t n = (size_t)bb_way_workers(p->cell->way, s);
	const double *from = &p->gathered[worker * p->room];
	double *to = p->gradient;
	size_t count = s->elements;

	if (p->cell->way->servers) {
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

/* Part PART of the parameters, as servers share them out. */
static void update_part(struct pupil *p, size_t part)
{
	const struct bb_way_setting *s = &p->cell->setting;
	const bool serves = part == (size_t)p->rank && (s->colocated || s->updates);
	const size_t first = part_start(p, part);
	const double *sum = serves ? p->sum : p->gradient + first;
	double samples = (double)p->samples;

	if (!p->cell->way->synchronous) { /* one worker's gradient, of its share of the samples */
		sum = p->inbox;
		samples /= bb_way_workers(p->cell->way, s);
	}
	bb_train_update(p->values, first, part_count(p, part), sum, samples);
}

/* ITEM: the part, which is the rank where each updates its own. */
static void update(struct pupil *p, size_t item)
{
	const struct bb_way_setting *s = &p->cell->setting;
	const char *name = p->cell->way->name;
	const size_t part = bb_part_count(s->elements, s->active, 0);
	size_t first = 0, count = s->elements;
	double samples = (double)p->samples;

	if (p->cell->way->servers) {
		update_part(p, item);
		return;
	}
	if (strcmp(name, "zero") == 0) {
		first = item * part < s->elements ? item * part : s->elements;
		count = s->elements - first < part ? s->elements - first : part;
	} else if (strcmp(name, "average") == 0) {
		samples = (double)bb_part_count(p->samples, s->active, p->rank);
	}
	bb_train_update(p->values, first, count, p->gradient + first, samples);
}

static void average(struct pupil *p)
{
	const struct bb_way_setting *s = &p->cell->setting;

	for (size_t i = 0; i < BB_TRAIN_PARAMETERS; i++)
		p->values[i] = bb_train_round(p->values[i] / s->active);
	p->values[BB_TRAIN_PARAMETERS] /= s->active;
}

static void compute(void *own, int rank, const struct bb_operation *operation)
{
	struct pupil *p = own;

	switch ((enum bb_way_work)operation->work) {
	case BB_WAY_COMPUTE:
		compute_batch(p, operation->item);
		break;
	case BB_WAY_ADD:
		add(p, operation->item);
		break;
	case BB_WAY_UPDATE:
		update(p, operation->item);
		break;
	default:
		average(p);
	}
}

/* ---- communication ------------------------------------------------------------------------ */

static void message_buffers(struct pupil *p, const struct bb_operation *o, void **in, void **out)
{
	const struct bb_way_setting *s = &p->cell->setting;
	const bool servers = p->cell->way->servers;
	const size_t first = servers ? part_start(p, o->item) : 0;
	const bool parameters = !servers || !p->cell->way->synchronous || s->updates;

	if (o->work == BB_WAY_PUSH) {
		*in = p->gradient + first;
		*out = servers ? p->inbox
			       : &p->gathered[(size_t)(o->peer > 0 ? o->peer : 0) * p->room];
		return;
	}
	*in = parameters ? p->values + first : p->sum;
	*out = (parameters ? p->values : p->gradient) + first;
}

static void buffers(void *own, int rank, const struct bb_operation *o, void **in, void **out)
{
	struct pupil *p = own;
	double *all = o->work == BB_WAY_REDUCE ? p->gradient : p->values;

	if (o->act != BB_ACT_COLLECTIVE) {
		message_buffers(p, o, in, out);
		return;
	}
	*in = *out = all;
	if (o->collective == &bb_reduce_scatter)
		*out = all + (size_t)rank * o->count;
	if (o->collective == &bb_all_gather)
		*in = all + (size_t)rank * o->count;
}

/* ---- what came of it ---------------------------------------------------------------------- */

/* One rank with all samples. *SUM = the last gradient, undivided. */
static void train_alone(const struct pupil *p, double *values, double *sum)
{
	bb_train_begin(values, p->seed);
	for (int64_t k = 0; k < p->cell->sweep->dp->asked.train; k++) {
		memset(sum, 0, BB_TRAIN_ELEMENTS * sizeof(*sum));
		bb_train_add(values, p->seed, 0, p->samples, sum);
		bb_train_update(values, 0, BB_TRAIN_ELEMENTS, sum, (double)p->samples);
	}
}

static int64_t differences(const double *a, const double *b, size_t n)
{
	int64_t wrong = 0;

	for (size_t i = 0; i < n; i++)
		wrong += memcmp(&a[i], &b[i], sizeof(*a)) != 0;
	return wrong;
}

/* Has this rank all parameters in the end? A worker of a root has those that it is handed. */
static bool is_complete(const struct pupil *p)
{
	const struct bb_dp_way *way = p->cell->way;

	if (strcmp(way->name, "dp") == 0)
		return p->rank == 0;
	return bb_way_worker(way, &p->cell->setting, p->rank) >= 0;
}

/* The sum of all gradients, or the part of it, that this rank has: where it is, and of what. */
static const double *sum_of(const struct pupil *p, size_t *first, size_t *count)
{
	const struct bb_way_setting *s = &p->cell->setting;
	const size_t part = bb_part_count(s->elements, s->active, 0);

	*first = 0;
	*count = 0;
	if (p->rank >= s->active)
		return p->gradient;
	if (p->cell->way->servers) {
		if (p->rank < s->servers) {
			*first = part_start(p, (size_t)p->rank);
			*count = part_count(p, (size_t)p->rank);
		}
		return p->sum;
	}
	*count = s->elements;
	if (strcmp(p->cell->way->name, "dp") == 0 && p->rank > 0)
		*count = 0;
	if (strcmp(p->cell->way->name, "zero") == 0) {
		*first =
			(size_t)p->rank * part < s->elements ? (size_t)p->rank * part : s->elements;
		*count = s->elements - *first < part ? s->elements - *first : part;
	}
	return p->gradient + *first;
}

struct outcome {
	int64_t wrong;
	double loss, apart; /* NAN: this rank has no parameters */
};

/* Loss of VALUES over all samples. */
static double loss_of(const struct pupil *p, const double *values)
{
	double sum[BB_TRAIN_ELEMENTS] = {0};

	bb_train_add(values, p->seed, 0, p->samples, sum);
	return sum[BB_TRAIN_PARAMETERS] / (double)p->samples;
}

static struct outcome compare(const struct pupil *p)
{
	double values[BB_TRAIN_ELEMENTS], sum[BB_TRAIN_ELEMENTS];
	struct outcome o = {0, NAN, NAN};
	size_t first, count;
	const double *mine = sum_of(p, &first, &count);

	train_alone(p, values, sum);
	if (p->cell->way->synchronous)
		o.wrong += differences(mine, sum + first, count);
	if (!is_complete(p))
		return o;
	if (p->cell->way->synchronous)
		o.wrong += differences(p->values, values, BB_TRAIN_ELEMENTS);
	o.loss = loss_of(p, p->values);
	o.apart = 0;
	for (size_t i = 0; i < BB_TRAIN_PARAMETERS; i++)
		o.apart = fmax(o.apart, fabs(p->values[i] - values[i]));
	return o;
}

/* All ranks learn what came of all. */
static bb_status agree(struct bb_dp_cell *c, const struct outcome *mine)
{
	const struct outcome *all;
	const void *gathered;
	bb_status status = bb_crew_gather(c->sweep->driver, &bb_payload_number, mine,
					  sizeof(*mine) / sizeof(uint64_t), &gathered);

	if (status != BB_OK)
		return status;
	all = gathered;
	c->wrong = c->way->synchronous ? 0 : BB_ABSENT;
	for (int r = 0; r < c->setting.nranks; r++) {
		if (c->way->synchronous)
			c->wrong += all[r].wrong;
		c->loss = isnan(all[r].loss) ? c->loss : fmax(c->loss, all[r].loss);
		c->apart = isnan(all[r].apart) ? c->apart : fmax(c->apart, all[r].apart);
	}
	return BB_OK;
}

/* ---- all of it ---------------------------------------------------------------------------- */

static bb_status open_pupil(struct pupil *p)
{
	struct bb_dp_sweep *s = p->cell->sweep;
	const size_t n = (size_t)p->cell->setting.active;
	bb_status status;

	p->room = p->cell->setting.elements + n;
	status = s->run->options.backend->alloc(
		s->driver->handle, (4 + n) * p->room * sizeof(double), (void **)&p->memory);
	if (status != BB_OK)
		return bb_fail(&s->run->error, status, "rank %d cannot allocate %zu bytes", p->rank,
			       (4 + n) * p->room * sizeof(double));
	memset(p->memory, 0, (4 + n) * p->room * sizeof(double));
	p->values = p->memory;
	p->gradient = p->values + p->room;
	p->sum = p->gradient + p->room;
	p->inbox = p->sum + p->room;
	p->gathered = p->inbox + p->room;
	bb_train_begin(p->values, p->seed);
	return BB_OK;
}

static bb_status learn(struct pupil *p, struct bb_player *player)
{
	const struct bb_dp_cell *c = p->cell;
	const size_t playings =
		(size_t)c->sweep->dp->asked.train / bb_way_steps(c->way, &c->setting);
	const struct bb_fault *fault = &c->sweep->run->options.fault;
	bb_status status = BB_OK;
	double end;

	if (fault->kind == BB_FAULT_DIE && fault->rank == p->rank)
		return BB_ETIMEOUT; /* leaves without a word, as a killed process would */
	for (size_t i = 0; i < playings && status == BB_OK; i++)
		status = bb_player_play(player, NULL, &end);
	if (fault->kind == BB_FAULT_CORRUPT && fault->rank == p->rank) {
		((unsigned char *)p->values)[0] ^= 0x55;
		((unsigned char *)p->sum)[0] ^= 0x55; /* all that some servers have */
	}
	return status;
}

bb_status bb_dp_train(struct bb_dp_cell *c, struct bb_trial *trial)
{
	struct bb_dp_sweep *s = c->sweep;
	struct pupil p = {.cell = c,
			  .rank = s->driver->rank,
			  .seed = (uint64_t)s->run->options.seed,
			  .samples = (size_t)s->dp->asked.samples};
	struct bb_error refusal = {.text = ""};
	struct bb_player *player = NULL;
	struct outcome mine;
	bb_status status;

	if (s->driver->local == 0)
		bb_crew_deadline(s->driver, trial->what);
	trial->play.compute = compute;
	trial->play.buffers = buffers;
	trial->play.own = &p;
	BB_TRY(status, open_pupil(&p), out);
	status = bb_player_open(&player, s->run, s->driver, &trial->play, &refusal);
	if (status == BB_EUNSUPPORTED) {
		snprintf(trial->refusal, sizeof(trial->refusal), "%s", refusal.text);
		status = BB_OK;
	} else if (status == BB_OK) {
		BB_TRY(status, learn(&p, player), out);
		mine = compare(&p);
		status = agree(c, &mine);
	}
out:
	if (status != BB_OK)
		bb_crew_abandon(s->driver);
	bb_player_close(player);
	if (p.memory && status == BB_OK)
		s->run->options.backend->release(s->driver->handle, p.memory,
						 (4 + (size_t)c->setting.active) * p.room *
							 sizeof(double));
	return status;
}
