/*
 * choose.c - the fastest schedule and the fastest length of its messages.
 */
#include "schedules/parts.h"
#include "simulator/timeline/links.h"

#include "core/array.h"
#include "core/strbuf.h"

#include <stdlib.h>
#include <string.h>

#define SWEEP_MOST 200000 /* rounds times ranks of a sweep; more are estimated */
#define ALIKE_MOST 4e6    /* the same for the evaluator alike */
#define SAMPLE 64         /* ranks that stand for all in an estimate */
#define ROUNDS_MOST 1000  /* rounds in an estimate */
#define WORSE_MOST 2      /* chunks in a row without a gain that end the search */
#define GAIN 0.01         /* share of the time that a shorter chunk must save, as each costs some */

struct choosing {
	struct bb_link_model links; /* without noise, which is not known beforehand */
	size_t element;
	double *times;
	bb_status status; /* of the last evaluation */
};

static size_t rounds_of(const struct bb_algorithm *schedule, const struct bb_shape *shape)
{
	struct bb_role role;

	bb_algorithm_prepare(schedule, shape, 0, &role);
	return role.rounds;
}

static bool is_long(const struct choosing *c, const struct bb_algorithm *schedule,
		    const struct bb_shape *shape)
{
	if (bb_timeline_evaluator(&c->links, schedule, shape) == BB_EVALUATOR_ALIKE)
		return bb_timeline_alike_work(&c->links, schedule, shape) > ALIKE_MOST;
	return rounds_of(schedule, shape) > SWEEP_MOST / (size_t)shape->nranks;
}

/* Seconds of a call whose ranks all begin at once; < 0: it failed. */
static double swept(struct choosing *c, const struct bb_algorithm *schedule,
		    const struct bb_shape *shape)
{
	double latest = 0;

	for (int rank = 0; rank < shape->nranks; rank++)
		c->times[rank] = 0;
	c->status = bb_timeline_collective(&c->links, schedule, shape, c->element, 0, c->times);
	if (c->status != BB_OK)
		return -1;
	for (int rank = 0; rank < shape->nranks; rank++)
		latest = fmax(latest, c->times[rank]);
	return latest;
}

/* The sum over rounds, each as long as the slowest rank of a sample, the first ones and others
   evenly spaced, as if all that a rank sends left by one port. */
static double estimated(struct choosing *c, const struct bb_algorithm *schedule,
			const struct bb_shape *shape)
{
	const int n = shape->nranks < SAMPLE ? shape->nranks : SAMPLE, half = SAMPLE / 2;
	struct bb_role roles[SAMPLE];
	double all = 0;

	for (int i = 0; i < n; i++)
		bb_algorithm_prepare(schedule, shape,
				     shape->nranks <= SAMPLE || i < half
					     ? i
					     : (int)((int64_t)(i - half) * shape->nranks / half),
				     &roles[i]);
	const size_t step = 1 + roles[0].rounds / ROUNDS_MOST;
	for (size_t round = 0; round < roles[0].rounds; round += step) {
		double longest = 0;

		for (int i = 0; i < n; i++) {
			struct bb_step steps[BB_MAX_STEPS];
			const int nsteps =
				bb_algorithm_steps(schedule, shape, &roles[i], round, steps);
			double seconds = 0, latency = 0;

			for (const struct bb_step *s = steps; s < steps + nsteps; s++) {
				const double bytes = (double)s->count * (double)c->element;
				struct bb_fabric_route route = {.latency = 0};

				if (s->kind == BB_SEND)
					route = bb_link_route(&c->links, roles[i].rank, s->peer);
				const struct bb_passage p = bb_link_passage(
					&c->links, &route, route.second_per_byte, bytes, 0);
				if (s->kind == BB_RECV_REDUCE)
					seconds += p.sum;
				if (s->kind != BB_SEND)
					continue;
				seconds += p.entry;
				latency = fmax(latency, p.latency);
			}
			longest = fmax(longest, seconds + latency);
		}
		all += longest * (double)bb_least(step, roles[0].rounds - round);
	}
	return all;
}

/* Set shape->chunk to the fastest of none and of powers of two, longest first; returns its seconds.
 */
static double best_chunk(struct choosing *c, const struct bb_algorithm *schedule,
			 struct bb_shape *shape)
{
	const size_t whole = bb_size_count(schedule->collective, shape);
	struct bb_shape trial = *shape;
	size_t rounds, chunk = 1;
	int worse = 0;

	trial.chunk = shape->chunk = 0;
	const bool estimate = is_long(c, schedule, &trial);
	double best = (estimate ? estimated : swept)(c, schedule, &trial);
	rounds = rounds_of(schedule, &trial);
	while (chunk < whole)
		chunk *= 2;
	for (; chunk > 0 && worse < WORSE_MOST && best >= 0; chunk /= 2) {
		trial.chunk = chunk;
		if (rounds_of(schedule, &trial) == rounds)
			continue;
		rounds = rounds_of(schedule, &trial);
		if (!estimate && is_long(c, schedule, &trial))
			break;
		const double seconds = (estimate ? estimated : swept)(c, schedule, &trial);
		worse++;
		if (seconds >= (1 - GAIN) * best)
			continue;
		worse = 0;
		best = seconds;
		shape->chunk = chunk;
	}
	return best;
}

/* The fastest schedule of COLLECTIVE, or (not NULL) the REQUESTED one. */
static const struct bb_algorithm *choose_schedule(const struct bb_link_model *links,
						  const struct bb_algorithm *requested,
						  const struct bb_collective *collective,
						  struct bb_shape *shape, size_t element,
						  struct bb_error *error)
{
	const char *reason = collective->refuses ? collective->refuses(shape->nranks) : NULL;
	struct choosing c = {*links, element, malloc((size_t)shape->nranks * sizeof(*c.times)),
			     BB_OK};
	const struct bb_algorithm *best = NULL;
	struct bb_shape trial = *shape;
	double least = 0, seconds;

	c.links.noise = 0;
	if (reason)
		(void)bb_fail(error, BB_EUNSUPPORTED, "%s among %d ranks: %s", collective->name,
			      shape->nranks, reason);
	for (const struct bb_algorithm *const *a = bb_algorithms;
	     *a && c.times && !reason && c.status == BB_OK; a++) {
		if ((*a)->collective != collective || (requested && *a != requested))
			continue;
		seconds = best_chunk(&c, *a, &trial);
		if (c.status != BB_OK || (best && seconds >= least))
			continue;
		best = *a;
		least = seconds;
		shape->chunk = trial.chunk;
	}
	if (c.status == BB_ETIMEOUT)
		(void)bb_fail(error, c.status, "the choice of a schedule was interrupted");
	else if (c.status != BB_OK || !c.times)
		(void)bb_no_memory(error, "the choice of a schedule");
	else if (!best) /* a reason that is there already stays */
		(void)bb_fail(error, BB_EUNSUPPORTED, "no schedule does %s among %d ranks",
			      collective->name, shape->nranks);
	free(c.times);
	return c.status == BB_OK ? best : NULL;
}

/* ---- the cache ------------------------------------------------------------------------ */

struct bb_chosen {
	uint64_t members; /* their placement, hashed */
	const struct bb_collective *collective;
	const struct bb_algorithm *named; /* as requested; NULL: the fastest */
	struct bb_shape shape;            /* with the chosen chunk */
	size_t element;
	const struct bb_algorithm *schedule;
	double *done; /* [member]: its end if all enter at time 0; NULL: not known yet */
};

/* Equal for groups placed alike: the same GPUs, on nodes at the same distances, with as many other
   users of shared links. */
static uint64_t place_of_members(const struct bb_link_model *links, int n)
{
	const struct bb_fabric *f = links->fabric;
	uint64_t place = 0;

	for (int i = 0; f && links->members && i < n; i++) {
		const int first = links->members[0] / f->per_node;
		const int node = links->members[i] / f->per_node;

		place = bb_draw(place, (uint64_t)(links->members[i] % f->per_node));
		place = bb_draw(place, (uint64_t)(node - first));
		place = bb_draw(place, (uint64_t)(node / f->domain - first / f->domain));
		place = bb_draw(place, (uint64_t)(node / f->leaf - first / f->leaf));
		place = bb_draw(place, (uint64_t)(node / f->pod - first / f->pod));
	}
	for (int i = 0; links->crowd && i < n * BB_LEVELS; i++) {
		uint64_t bits;

		memcpy(&bits, &links->crowd[i], sizeof(bits));
		place = bb_draw(place, bits);
	}
	return place;
}

/* The entry of CACHE (NULL: none) for the call of WANTED: SCHEDULE in the same chunks or (NULL)
   what was chosen for the same request. */
static struct bb_chosen *find_chosen(const struct bb_choices *cache, const struct bb_chosen *wanted,
				     const struct bb_algorithm *schedule)
{
	const struct bb_shape *b = &wanted->shape;

	for (size_t i = 0; cache && i < cache->n; i++) {
		struct bb_chosen *c = &cache->chosen[i];
		const struct bb_shape *a = &c->shape;

		if (c->members == wanted->members && c->collective == wanted->collective &&
		    c->element == wanted->element && a->nranks == b->nranks && a->root == b->root &&
		    a->in_place == b->in_place && a->count == b->count &&
		    (schedule ? c->schedule == schedule && a->chunk == b->chunk
			      : c->named == wanted->named))
			return c;
	}
	return NULL;
}

const struct bb_algorithm *bb_timeline_choose(const struct bb_link_model *links, const char *name,
					      const struct bb_collective *collective,
					      struct bb_shape *shape, size_t element,
					      struct bb_error *error)
{
	/* The contents of a matrix may change. */
	struct bb_choices *cache = shape->matrix ? NULL : links->choices;
	struct bb_chosen chosen = {
		.members = place_of_members(links, shape->nranks),
		.collective = collective,
		.named = name ? bb_algorithm_find(collective, bb_algorithm_own(name)) : NULL,
		.shape = *shape,
		.element = element,
	};

	if (name && !chosen.named) {
		struct bb_strbuf names = {0};

		for (const struct bb_algorithm *const *a = bb_algorithms; *a; a++)
			if ((*a)->collective == collective)
				bb_strbuf_addf(&names, "%s%s", names.length ? ", " : "",
					       (*a)->name);
		(void)bb_fail(error, BB_EUNSUPPORTED, "%s has no schedule %s; it has %s",
			      collective->name, name, bb_strbuf_text(&names));
		bb_strbuf_free(&names);
		return NULL;
	}
	struct bb_chosen *const known = find_chosen(cache, &chosen, NULL);
	if (known) {
		shape->chunk = known->shape.chunk;
		return known->schedule;
	}
	chosen.schedule = choose_schedule(links, chosen.named, collective, shape, element, error);
	chosen.shape.chunk = shape->chunk;
	if (!chosen.schedule || !cache)
		return chosen.schedule;
	if (BB_ARRAY_PUT(cache->chosen, cache->n, cache->room, chosen))
		return chosen.schedule;
	(void)bb_no_memory(error, "the choice of a schedule");
	return NULL;
}

bb_status bb_timeline_collective_known(const struct bb_link_model *links,
				       const struct bb_algorithm *schedule,
				       const struct bb_shape *shape, size_t element, uint64_t call,
				       double *times)
{
	const struct bb_choices *cache = shape->matrix ? NULL : links->choices;
	const size_t n = (size_t)shape->nranks;
	const double start = times[0];
	struct bb_chosen *known = NULL, wanted = {.collective = schedule->collective,
						  .shape = *shape,
						  .element = element};
	bool together =
		cache && isfinite(start) && links->noise == 0 && links->slow_link.factor == 0;
	bb_status status = BB_OK;

	for (size_t i = 1; i < n && together; i++)
		together = times[i] == start;
	if (together) {
		wanted.members = place_of_members(links, shape->nranks);
		known = find_chosen(cache, &wanted, schedule);
	}
	if (!known)
		return bb_timeline_collective(links, schedule, shape, element, call, times);
	if (!known->done) {
		double *done = calloc(n, sizeof(*done));

		if (!done)
			return BB_EINTERNAL;
		status = bb_timeline_collective(links, schedule, shape, element, call, done);
		if (status != BB_OK) {
			free(done);
			return status;
		}
		known->done = done;
	}
	for (size_t i = 0; i < n; i++)
		times[i] = start + known->done[i];
	return BB_OK;
}

void bb_choices_free(struct bb_choices *choices)
{
	for (size_t i = 0; i < choices->n; i++)
		free(choices->chosen[i].done);
	free(choices->chosen);
}
