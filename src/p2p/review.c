/*
 * review.c - the undisturbed rounds of each pair that findings are judged by (suspects/retest.h), and
 * the pairs to measure again until every finding is decided.
 */
#include "p2p/pairs.h"

#include "core/payload.h"
#include "core/random.h"

#include <stdlib.h>
#include <string.h>

#define EACH 8 /* suspects, and as many references, of a finding in a round */

double bb_pair_rate(double seconds)
{
	return seconds > 0 ? 1 / seconds : 0;
}

int bb_pair_timer(const struct bb_cell *cell, int from, int to)
{
	return cell->ping || cell->route->actor == BB_BY_SOURCE ? from : to;
}

/* ---- bounds -------------------------------------------------------------------------------- */

/* Returns the seconds that BYTES take over --link or --cluster without faults; 0: there is neither.
 */
static double over_link(const struct bb_pairs *pairs, double bytes, int from, int to,
			const char **source)
{
	const struct bb_options *o = &pairs->run->options;
	struct bb_cluster_route route;

	if (o->cluster) {
		route = bb_cluster_route(o->cluster, bb_pair_rank(pairs, from),
					 bb_pair_rank(pairs, to));
		*source = "its path in --cluster, without a fault";
		return bytes / route.rate + route.latency +
		       o->cluster->figures[BB_FIGURE_MESSAGE_OVERHEAD];
	}
	*source = "--link";
	return o->config.link_rate > 0 ? bytes / o->config.link_rate + o->config.link_latency : 0;
}

const char bb_pair_private_copy[] = "private copy of the rank that acts, in this run";

double bb_pair_bound(struct bb_pairs *pairs, const struct bb_cell *cell, int from, int to,
		     double private_s, const char **source)
{
	const double bytes = (double)cell->bytes;
	const char *link;
	double bound = 0, linked;

	if (cell->ping || cell->bidirectional || from == to)
		return 0;
	if (cell->direct)
		bound = bb_pair_link_bound(pairs, from, to, source);
	if (bound == 0 && cell->direct && cell->route->actor != BB_BY_BOTH) {
		bound = bytes * bb_pair_rate(private_s);
		*source = bb_pair_private_copy;
	}
	linked = bytes * bb_pair_rate(over_link(pairs, bytes, from, to, &link));
	if (linked > 0 && (bound == 0 || linked < bound)) {
		bound = linked;
		*source = link;
	}
	return bound;
}

/* ---- values -------------------------------------------------------------------------------- */

static struct bb_floor *floor_of(const struct bb_pairs *pairs, size_t matrix, int from, int to)
{
	const struct bb_judged *judged = &pairs->judged[matrix];
	const int rank = bb_pair_timer(&judged->cell, from, to), peer = rank == from ? to : from;

	return &judged->floors[rank * pairs->n + peer];
}

/* Add one direction to V. */
static void add_floor(struct bb_pair_value *v, const struct bb_floor *floor, double unit)
{
	v->best += unit * bb_pair_rate(bb_floor_best(floor));
	v->usual += unit * bb_pair_rate(bb_floor_usual(floor));
	v->near = v->rounds == 0 || floor->near < v->near ? floor->near : v->near;
	v->rounds = v->rounds == 0 || floor->rounds < v->rounds ? floor->rounds : v->rounds;
}

static struct bb_pair_value value_of(struct bb_pairs *pairs, size_t matrix, int from, int to)
{
	const struct bb_cell *cell = &pairs->judged[matrix].cell;
	const int actor = cell->route->actor == BB_BY_SOURCE ? from : to;
	const bool adds = cell->bidirectional && !cell->ping;
	const double unit = cell->ping ? 1 : (double)cell->bytes;
	char path[BB_PAIR_PATH_TEXT];
	struct bb_pair_value v = {.from = from,
				  .to = to,
				  .like = bb_pair_path(pairs, from, to, path),
				  .factor = bb_pair_factor(pairs, cell, from, to),
				  .unit = adds ? 2 * unit : unit};
	const char *source;

	add_floor(&v, floor_of(pairs, matrix, from, to), unit);
	if (adds)
		add_floor(&v, floor_of(pairs, matrix, to, from), unit);
	/* Where time is exact, one round says as much as many. */
	if (pairs->run->options.exact && v.rounds > 0)
		v.rounds = BB_FINDING_ROUNDS;
	v.planned_s = over_link(pairs, cell->ping ? 0 : unit, from, to, &source);
	v.bound = bb_pair_bound(pairs, cell, from, to,
				bb_floor_usual(floor_of(pairs, matrix, actor, actor)), &source);
	return v;
}

/* Returns the number of the matrix of CELL's route and direction, which holds the largest size;
   nmatrices: there is none yet. */
static size_t place_of(const struct bb_pairs *pairs, const struct bb_cell *cell)
{
	size_t k = 0;

	while (k < pairs->nmatrices && (pairs->judged[k].cell.route != cell->route ||
					pairs->judged[k].cell.direct != cell->direct ||
					pairs->judged[k].cell.bidirectional != cell->bidirectional))
		k++;
	return k;
}

/* Make matrix K that of CELL. */
static bb_status open_matrix(struct bb_pairs *pairs, size_t k, const struct bb_cell *cell)
{
	struct bb_judged *judged = &pairs->judged[k];
	const size_t all = (size_t)pairs->n * (size_t)pairs->n;

	if (k == pairs->nmatrices) {
		if (k == 2 * pairs->ncells)
			return bb_fail(&pairs->run->error, BB_EINTERNAL, "too many matrices");
		judged->floors = calloc(all, sizeof(*judged->floors));
		judged->values = calloc(all, sizeof(*judged->values));
		pairs->nmatrices++;
	}
	if (!judged->floors || !judged->values)
		return bb_no_memory(&pairs->run->error, "the findings");
	judged->cell = *cell;
	pairs->matrices[k] = (struct bb_pair_matrix){
		.direct = cell->direct,
		.bidirectional = cell->bidirectional,
		.by_source = cell->route->actor == BB_BY_SOURCE,
		.by_target = cell->route->actor == BB_BY_TARGET,
		.exact = pairs->run->options.exact,
		.values = judged->values,
		.nranks = pairs->n,
	};
	return BB_OK;
}

bb_status bb_review_keep(struct bb_pairs *pairs, size_t number, const struct bb_pair_part *parts)
{
	const size_t k = place_of(pairs, &pairs->cells[number]);
	bb_status status = open_matrix(pairs, k, &pairs->cells[number]);

	if (status != BB_OK)
		return status;
	pairs->judged[k].number = (int)number;
	for (int i = 0; i < pairs->n * pairs->n; i++)
		pairs->judged[k].floors[i] = parts[i].floor;
	return BB_OK;
}

bb_status bb_review_take(struct bb_pairs *pairs, const struct bb_cell *cell, int rank, int peer,
			 const struct bb_floor *floor)
{
	const size_t k = place_of(pairs, cell);
	bb_status status = open_matrix(pairs, k, cell);

	if (status != BB_OK)
		return status;
	pairs->judged[k].number = -1;
	pairs->judged[k].floors[rank * pairs->n + peer] = *floor;
	return BB_OK;
}

void bb_review_merge(struct bb_pairs *pairs, size_t number, const struct bb_pair_part *parts)
{
	const size_t k = place_of(pairs, &pairs->cells[number]);

	for (int i = 0; i < pairs->n * pairs->n; i++)
		bb_floor_merge(&pairs->judged[k].floors[i], &parts[i].floor);
}

/* ---- measuring again ---------------------------------------------------------------- */

/* Add at most EACH pairs of matrix K that F suspects, or others, different ones in each round; also
   the private copies of the ends of suspects, which are their bound. */
static void add_turns(const struct bb_pairs *pairs, const struct bb_finding *f, size_t k,
		      bool suspects, int round, struct bb_pair_turns *turns)
{
	const int n = pairs->n, all = n * n;
	const int begin = (int)((int64_t)round * EACH % all);

	for (int i = 0, added = 0; i < all && added < EACH; i++) {
		const int at = (begin + i) % all, from = at / n, to = at % n;
		const struct bb_pair_turn turn = {(int32_t)pairs->judged[k].number, from, to};
		const bool is_suspect = f->rank >= 0 ? from == f->rank || to == f->rank
						     : (from == f->from || from == f->to) &&
							       (to == f->from || to == f->to);
		int before = 0;

		if (is_suspect != suspects || (pairs->matrices[k].bidirectional && from > to) ||
		    floor_of(pairs, k, from, to)->rounds == 0)
			continue;
		while (before < turns->n && memcmp(&turns->list[before], &turn, sizeof(turn)) != 0)
			before++;
		if (before == turns->n && before < BB_PAIR_TURNS)
			turns->list[turns->n++] = turn;
		added++;
	}
}

bb_status bb_review_find(struct bb_pairs *pairs, struct bb_findings *found)
{
	const int n = pairs->n;
	bb_status status;

	for (size_t k = 0; k < pairs->nmatrices; k++)
		for (int i = 0; i < n * n; i++) {
			struct bb_pair_value *v = &pairs->judged[k].values[i];

			*v = (struct bb_pair_value){.rounds = 0};
			/* A rank with itself is not judged. */
			if (pairs->matrices[k].bidirectional ? i / n < i % n : i / n != i % n)
				*v = value_of(pairs, k, i / n, i % n);
		}
	status = bb_findings_make(found, pairs->matrices, pairs->nmatrices);
	return status == BB_OK ? BB_OK : bb_no_memory(&pairs->run->error, "the findings");
}

bb_status bb_review_list(struct bb_pairs *pairs, int round, struct bb_pair_turns *turns)
{
	uint64_t random = (uint64_t)round;
	struct bb_findings found;
	bb_status status = bb_review_find(pairs, &found);

	turns->n = 0;
	for (size_t i = 0; i < found.n && status == BB_OK; i++) {
		const struct bb_finding *f = &found.list[i];
		const bool direct = f->kind == BB_FIND_SLOWER_DIRECT;

		for (size_t k = 0; k < pairs->nmatrices && !f->confirmed; k++) {
			/* P2P that is slower is compared with the routes without it. */
			if ((k != f->matrix && (!direct || pairs->matrices[k].bidirectional)) ||
			    pairs->judged[k].number < 0)
				continue;
			add_turns(pairs, f, k, true, round, turns);
			add_turns(pairs, f, k, false, round, turns);
		}
	}
	bb_findings_free(&found);
	/* Another order in each ROUND, so that no pair always finds the caches of the same one. */
	for (int i = turns->n - 1; i > 0; i--) {
		const struct bb_pair_turn last = turns->list[i];
		const int with = (int)((bb_random_congruential(&random) >> 33) % (uint64_t)(i + 1));

		turns->list[i] = turns->list[with];
		turns->list[with] = last;
	}
	return status;
}

void bb_review_add(struct bb_pairs *pairs, const struct bb_pair_turns *turns, const double *seconds)
{
	for (int i = 0; i < turns->n; i++) {
		const struct bb_pair_turn *t = &turns->list[i];
		const size_t k = place_of(pairs, &pairs->cells[t->cell]);
		const int ends[2] = {t->from, t->to};

		for (int e = 0; e < (t->from == t->to ? 1 : 2); e++) {
			const double s = seconds[ends[e] * BB_PAIR_TURNS + i];

			if (s > 0)
				bb_floor_add(
					&pairs->judged[k].floors[ends[e] * pairs->n + ends[1 - e]],
					s);
		}
	}
}

void bb_review_close(struct bb_pairs *pairs)
{
	for (size_t i = 0; i < pairs->nmatrices; i++) {
		free(pairs->judged[i].floors);
		free(pairs->judged[i].values);
	}
	free(pairs->judged);
	free(pairs->matrices);
}

/* ---- sharing the turns -------------------------------------------------------------------------
 */

#define TURN(label, member)                                                                        \
	BB_PAYLOAD_EACH(label, BB_PAYLOAD_SIGNED, struct bb_pair_turns, list, .member,             \
			BB_PAIR_TURNS, .high = INT32_MAX)

static const struct bb_payload_field turn_fields[] = {
	BB_PAYLOAD_FIELD("the number of turns", BB_PAYLOAD_SIGNED, struct bb_pair_turns, n,
			 .high = BB_PAIR_TURNS),
	TURN("a cell", cell),
	TURN("a source", from),
	TURN("a target", to),
	{.name = NULL}};

static const struct bb_payload turns_table = {"turns of pairs", sizeof(struct bb_pair_turns),
					      turn_fields, NULL};

bb_status bb_review_share(struct bb_pairs *pairs, struct bb_driver *driver,
			  struct bb_pair_turns *turns)
{
	const int nranks = pairs->run->world.nranks;
	const void *all;
	bb_status status = bb_crew_gather(driver, &turns_table, turns, 1, &all);

	if (status != BB_OK)
		return status;
	*turns = *(const struct bb_pair_turns *)all;
	for (int i = 0; i < turns->n; i++) {
		const struct bb_pair_turn *t = &turns->list[i];

		if ((size_t)t->cell >= pairs->ncells || t->from >= nranks || t->to >= nranks)
			return bb_fail(&pairs->run->error, BB_EBACKEND,
				       "rank 0 names a pair that does not exist");
	}
	return BB_OK;
}
