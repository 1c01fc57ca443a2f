/*
 * review.c - the undisturbed rounds of each pair that findings are judged by (core/retest.h), and
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
	const struct bb_cell *cell = &pairs->cells[pairs->matrix_cells[matrix]];
	const int rank = bb_pair_timer(cell, from, to), peer = rank == from ? to : from;

	return &pairs->floors[matrix][(size_t)rank * (size_t)pairs->n + (size_t)peer];
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
	const struct bb_cell *cell = &pairs->cells[pairs->matrix_cells[matrix]];
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

/* Compute all values of MATRIX from its floors. A rank with itself is not judged. */
static void settle(struct bb_pairs *pairs, size_t matrix)
{
	const bool bidirectional = pairs->matrices[matrix].bidirectional;
	const int n = pairs->n;

	for (int i = 0; i < n * n; i++) {
		struct bb_pair_value *v = &pairs->values[matrix][i];

		*v = (struct bb_pair_value){.rounds = 0};
		if (bidirectional ? i / n < i % n : i / n != i % n)
			*v = value_of(pairs, matrix, i / n, i % n);
	}
}

/* Returns the matrix of CELL's route and direction, which holds the largest size. */
static size_t place_of(const struct bb_pairs *pairs, const struct bb_cell *cell)
{
	size_t i = 0;

	while (i < pairs->nmatrices &&
	       (pairs->cells[pairs->matrix_cells[i]].route != cell->route ||
		pairs->cells[pairs->matrix_cells[i]].direct != cell->direct ||
		pairs->cells[pairs->matrix_cells[i]].bidirectional != cell->bidirectional))
		i++;
	return i;
}

bb_status bb_review_keep(struct bb_pairs *pairs, size_t number, const struct bb_pair_part *parts)
{
	const struct bb_cell *cell = &pairs->cells[number];
	const size_t all = (size_t)pairs->n * (size_t)pairs->n, k = place_of(pairs, cell);

	if (k == pairs->nmatrices) {
		pairs->floors[k] = calloc(all, sizeof(**pairs->floors));
		pairs->values[k] = calloc(all, sizeof(**pairs->values));
		pairs->nmatrices++;
	}
	if (!pairs->floors[k] || !pairs->values[k])
		return bb_no_memory(&pairs->run->error, "the findings");
	pairs->matrix_cells[k] = number;
	pairs->matrices[k] = (struct bb_pair_matrix){
		.direct = cell->direct,
		.bidirectional = cell->bidirectional,
		.by_source = cell->route->actor == BB_BY_SOURCE,
		.by_target = cell->route->actor == BB_BY_TARGET,
		.exact = pairs->run->options.exact,
		.values = pairs->values[k],
		.nranks = pairs->n,
	};
	for (size_t i = 0; i < all; i++)
		pairs->floors[k][i] = parts[i].floor;
	settle(pairs, k);
	return BB_OK;
}

void bb_review_merge(struct bb_pairs *pairs, size_t number, const struct bb_pair_part *parts)
{
	const size_t all = (size_t)pairs->n * (size_t)pairs->n;
	const size_t k = place_of(pairs, &pairs->cells[number]);

	for (size_t i = 0; i < all; i++)
		bb_floor_merge(&pairs->floors[k][i], &parts[i].floor);
	settle(pairs, k);
}

/* ---- between a child process and its parent ------------------------------------------------- */

bb_status bb_review_send(struct bb_pairs *pairs)
{
	const size_t all = (size_t)pairs->n * (size_t)pairs->n;
	struct bb_pair_part *parts = calloc(all, sizeof(*parts));
	bb_status status = BB_OK;

	if (!parts)
		return bb_no_memory(&pairs->run->error, "the findings");
	for (size_t k = 0; k < pairs->nmatrices && status == BB_OK; k++) {
		for (size_t i = 0; i < all; i++)
			parts[i].floor = pairs->floors[k][i];
		status = bb_child_send_cell(pairs, pairs->matrix_cells[k], parts, true);
	}
	free(parts);
	return status;
}

bb_status bb_review_receive(struct bb_pairs *pairs)
{
	bb_status status = BB_OK;

	for (size_t i = 0; i < pairs->ncells && status == BB_OK; i++) {
		const struct bb_child_cell *child = pairs->cells[i].child;

		if (child && child->again)
			status = bb_review_keep(pairs, i, child->again);
	}
	return status;
}

/* ---- measuring again ---------------------------------------------------------------- */

/* True if F suspects the pair; also for the private copies of its ends, which are its bound. */
static bool is_suspect(const struct bb_finding *f, int from, int to)
{
	if (f->rank >= 0)
		return from == f->rank || to == f->rank;
	return (from == f->from || from == f->to) && (to == f->from || to == f->to);
}

static void add_turn(struct bb_pair_turns *turns, struct bb_pair_turn turn)
{
	for (int i = 0; i < turns->n; i++)
		if (memcmp(&turns->list[i], &turn, sizeof(turn)) == 0)
			return;
	if (turns->n < BB_PAIR_TURNS)
		turns->list[turns->n++] = turn;
}

/* Add at most EACH pairs of MATRIX that F suspects, or others, different ones in each round. */
static void add_turns(const struct bb_pairs *pairs, const struct bb_finding *f, size_t matrix,
		      bool suspects, int round, struct bb_pair_turns *turns)
{
	const bool bidirectional = pairs->matrices[matrix].bidirectional;
	const int n = pairs->n, all = n * n;
	const int begin = (int)((int64_t)round * EACH % all);

	for (int i = 0, added = 0; i < all && added < EACH; i++) {
		const int at = (begin + i) % all, from = at / n, to = at % n;

		if (is_suspect(f, from, to) != suspects || (bidirectional && from > to) ||
		    floor_of(pairs, matrix, from, to)->rounds == 0)
			continue;
		add_turn(turns,
			 (struct bb_pair_turn){(int32_t)pairs->matrix_cells[matrix], from, to});
		added++;
	}
}

/* Another order in each ROUND, so that no pair always finds the caches of the same one. */
static void shuffle(struct bb_pair_turns *turns, int round)
{
	uint64_t random = (uint64_t)round;

	for (int i = turns->n - 1; i > 0; i--) {
		const struct bb_pair_turn last = turns->list[i];
		int with;

		with = (int)((bb_random_congruential(&random) >> 33) % (uint64_t)(i + 1));
		turns->list[i] = turns->list[with];
		turns->list[with] = last;
	}
}

bb_status bb_review_list(struct bb_pairs *pairs, int round, struct bb_pair_turns *turns)
{
	struct bb_findings found;
	bb_status status = bb_findings_make(&found, pairs->matrices, pairs->nmatrices);

	turns->n = 0;
	if (status != BB_OK)
		(void)bb_no_memory(&pairs->run->error, "the findings");
	for (size_t i = 0; i < found.n && status == BB_OK; i++) {
		const struct bb_finding *f = &found.list[i];
		const bool direct = f->kind == BB_FIND_SLOWER_DIRECT;

		for (size_t k = 0; k < pairs->nmatrices && !f->confirmed; k++) {
			/* P2P that is slower is compared with the routes without it. */
			if ((k != f->matrix && (!direct || pairs->matrices[k].bidirectional)) ||
			    pairs->cells[pairs->matrix_cells[k]].child)
				continue;
			add_turns(pairs, f, k, true, round, turns);
			add_turns(pairs, f, k, false, round, turns);
		}
	}
	bb_findings_free(&found);
	shuffle(turns, round);
	return status;
}

void bb_review_add(struct bb_pairs *pairs, const struct bb_pair_turns *turns, const double *seconds)
{
	for (int i = 0; i < turns->n; i++) {
		const struct bb_pair_turn *t = &turns->list[i];
		const size_t k = place_of(pairs, &pairs->cells[t->cell]);
		const int ends[2] = {t->from, t->to};

		for (int e = 0; e < (t->from == t->to ? 1 : 2); e++) {
			const size_t rank = (size_t)ends[e], peer = (size_t)ends[1 - e];
			const double s = seconds[rank * BB_PAIR_TURNS + (size_t)i];

			if (s > 0)
				bb_floor_add(&pairs->floors[k][rank * (size_t)pairs->n + peer], s);
		}
		if (t->from != t->to)
			pairs->values[k][t->from * pairs->n + t->to] =
				value_of(pairs, k, t->from, t->to);
		else
			settle(pairs, k); /* a bound of others */
	}
}

void bb_review_close(struct bb_pairs *pairs)
{
	for (size_t i = 0; i < pairs->nmatrices; i++) {
		free(pairs->floors[i]);
		free(pairs->values[i]);
	}
	free(pairs->floors);
	free(pairs->values);
	free(pairs->matrices);
	free(pairs->matrix_cells);
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
