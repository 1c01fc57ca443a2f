/*
 * algorithms.c - every (collective, algorithm) pair, and what it costs.
 */
#include <string.h>

#include "schedules/parts.h"

/* By collective; within one, the two that every collective has come first. */
const struct bb_algorithm *const bb_algorithms[] = {
	&bb_ring_all_reduce,
	&bb_tree_all_reduce,
	&bb_doubling_all_reduce,
	&bb_halving_all_reduce,
	&bb_linear_all_reduce,
	&bb_naive_all_reduce,
	&bb_reduce_broadcast_all_reduce,
	&bb_reduce_scatter_all_gather_all_reduce,

	&bb_ring_all_gather,
	&bb_tree_all_gather,
	&bb_doubling_all_gather,
	&bb_bruck_all_gather,
	&bb_pairwise_all_gather,
	&bb_linear_all_gather,
	&bb_naive_all_gather,
	&bb_gather_broadcast_all_gather,

	&bb_ring_reduce_scatter,
	&bb_tree_reduce_scatter,
	&bb_halving_reduce_scatter,
	&bb_pairwise_reduce_scatter,
	&bb_linear_reduce_scatter,
	&bb_naive_reduce_scatter,

	&bb_ring_broadcast,
	&bb_tree_broadcast,
	&bb_doubling_broadcast,
	&bb_linear_broadcast,
	&bb_scatter_all_gather_broadcast,

	&bb_ring_reduce,
	&bb_tree_reduce,
	&bb_doubling_reduce,
	&bb_linear_reduce,

	&bb_ring_gather,
	&bb_tree_gather,
	&bb_linear_gather,

	&bb_ring_scatter,
	&bb_tree_scatter,
	&bb_linear_scatter,

	&bb_ring_alltoall,
	&bb_tree_alltoall,
	&bb_bruck_alltoall,
	&bb_pairwise_alltoall,
	&bb_naive_alltoall,

	&bb_ring_alltoallv,
	&bb_tree_alltoallv,
	&bb_pairwise_alltoallv,
	&bb_naive_alltoallv,

	&bb_ring_sendrecv,
	&bb_tree_sendrecv,

	&bb_hypercube_hypercube,
	NULL,
};

const char *bb_algorithm_own(const char *word)
{
	const size_t length = strlen(BB_OWN);

	return strncmp(word, BB_OWN, length) == 0 ? word + length : word;
}

const struct bb_algorithm *bb_algorithm_find(const struct bb_collective *collective,
					     const char *name)
{
	for (int i = 0; bb_algorithms[i]; i++) {
		if (bb_algorithms[i]->collective == collective &&
		    !strcmp(bb_algorithms[i]->name, name))
			return bb_algorithms[i];
	}
	return NULL;
}

/* Does a call copy IN to TMP first, because what it writes to OUT is yet to be sent? */
static bool saves(const struct bb_algorithm *algorithm, const struct bb_shape *shape)
{
	const unsigned exchange = BB_SENDS_BLOCKS | BB_RECEIVES_BLOCKS;

	return shape->in_place && (algorithm->collective->flags & exchange) == exchange;
}

void bb_algorithm_prepare(const struct bb_algorithm *algorithm, const struct bb_shape *shape,
			  int rank, struct bb_role *role)
{
	role->rank = rank;
	role->rounds = 1;
	if (shape->nranks == 1)
		return;
	role->rounds = bb_pieces((size_t)shape->nranks - 1, bb_at_once(algorithm));
	if (algorithm->prepare)
		role->rounds = algorithm->prepare(shape, role);
	role->rounds += saves(algorithm, shape);
}

size_t bb_algorithm_tmp_count(const struct bb_algorithm *algorithm, const struct bb_shape *shape,
			      int rank)
{
	const size_t saved = saves(algorithm, shape) ? bb_alltoall_saved(shape, rank) : 0;

	if (shape->nranks == 1)
		return 0;
	return saved + (algorithm->tmp_count ? algorithm->tmp_count(shape, rank) : 0);
}

size_t bb_algorithm_lay_out(const struct bb_algorithm *algorithm, const struct bb_shape *shape,
			    int rank, size_t start[3], size_t count[3])
{
	const struct bb_collective *collective = algorithm->collective;

	count[BB_IN] = bb_collective_in(collective, shape, rank);
	count[BB_OUT] = bb_collective_out(collective, shape, rank);
	count[BB_TMP] = bb_algorithm_tmp_count(algorithm, shape, rank);
	start[BB_IN] = 0;
	start[BB_OUT] = count[BB_IN];
	if (shape->in_place) {
		start[BB_IN] = bb_collective_at(collective, shape, rank, BB_IN);
		start[BB_OUT] = bb_collective_at(collective, shape, rank, BB_OUT);
	}
	start[BB_TMP] = bb_most(start[BB_IN] + count[BB_IN], start[BB_OUT] + count[BB_OUT]);
	return start[BB_TMP] + count[BB_TMP];
}

int bb_algorithm_steps(const struct bb_algorithm *algorithm, const struct bb_shape *shape,
		       const struct bb_role *role, size_t round, struct bb_step steps[BB_MAX_STEPS])
{
	struct bb_writer w = {algorithm, shape, role, shape->nranks, role->rank, steps, 0};
	const struct bb_place in = bb_at(BB_IN, 0);

	if (shape->nranks == 1)
		bb_copy_own(&w, in, bb_at(BB_OUT, 0),
			    bb_collective_in(algorithm->collective, shape, role->rank), true);
	else if (!saves(algorithm, shape))
		algorithm->round(&w, round);
	else if (round == 0)
		bb_copy(&w, in, bb_at(BB_TMP, 0), bb_alltoall_saved(shape, role->rank), false);
	else
		algorithm->round(&w, round - 1);
	return w.nsteps;
}

/* ---- prepare ------------------------------------------------------------------------- */

size_t bb_prepare_twice_others(const struct bb_shape *shape, struct bb_role *role)
{
	return 2 * role->rounds;
}

size_t bb_prepare_log(const struct bb_shape *shape, struct bb_role *role)
{
	return (size_t)bb_log2_up(shape->nranks);
}

/* ---- cost ---------------------------------------------------------------------------- */

#define WALK_MOST 2000000 /* rounds of all ranks that are walked one by one */

/* Elements that RANK sends in the whole call; adds what it moves to *MOVED. */
static size_t walk(const struct bb_algorithm *algorithm, const struct bb_shape *shape,
		   const struct bb_role *role, double *moved)
{
	static const double weight[] = {[BB_RECV] = 1.0, [BB_RECV_REDUCE] = 1.5, [BB_COPY] = 1.0};
	struct bb_step steps[BB_MAX_STEPS];
	size_t wire = 0;

	for (size_t round = 0; round < role->rounds; round++) {
		int n = bb_algorithm_steps(algorithm, shape, role, round, steps);

		for (int k = 0; k < n; k++) {
			double count = (double)steps[k].count;

			if (steps[k].kind == BB_SEND)
				wire += steps[k].count;
			else if (steps[k].peer2 != BB_NO_PEER)
				*moved += 2.0 * count;
			else
				*moved += weight[steps[k].kind] * count;
		}
	}
	return wire;
}

double bb_algorithm_cost(const struct bb_algorithm *algorithm, const struct bb_shape *shape,
			 size_t *rounds, size_t *wire)
{
	/* Chunks change when data moves, not how much. */
	struct bb_shape whole = *shape;
	struct bb_role role;
	size_t most = 0, all, others = (size_t)shape->nranks - 1;
	double root = 0.0, rest = 0.0;

	bb_algorithm_prepare(algorithm, shape, 0, &role);
	if (rounds)
		*rounds = role.rounds;
	whole.chunk = 0;
	bb_algorithm_prepare(algorithm, &whole, 0, &role);
	/* As many ranks as take at most a second. Ranks that differ only by a shift cost the same,
	   but for single elements. */
	all = role.rounds * (size_t)shape->nranks;
	int walked = shape->nranks;
	if (all > WALK_MOST && algorithm->flags & BB_SHIFT_INVARIANT)
		walked = 1;
	else if (all > 10 * (size_t)WALK_MOST)
		walked = (int)bb_most(2, 10 * (size_t)WALK_MOST / role.rounds);
	/* The root may differ from all others; those are walked evenly spaced. */
	for (int i = 0; i < walked; i++) {
		size_t behind = i ? 1 + (size_t)(i - 1) * others / (size_t)(walked - 1) : 0;

		bb_algorithm_prepare(algorithm, &whole,
				     bb_wrap(shape->root + (int)behind, shape->nranks), &role);
		most = bb_most(most, walk(algorithm, &whole, &role, i ? &rest : &root));
	}
	if (wire)
		*wire = most;
	if (walked == 1)
		return root * shape->nranks;
	return root + rest * (double)others / (walked - 1);
}

const struct bb_algorithm *bb_algorithm_cheapest(const struct bb_collective *collective,
						 const struct bb_shape *shape, double round,
						 double element)
{
	const struct bb_algorithm *best = NULL;
	double least = 0;

	for (const struct bb_algorithm *const *a = bb_algorithms; *a; a++) {
		size_t rounds, wire;

		if ((*a)->collective != collective)
			continue;
		bb_algorithm_cost(*a, shape, &rounds, &wire);
		const double seconds = (double)rounds * round + (double)wire * element;
		if (best && seconds >= least)
			continue;
		best = *a;
		least = seconds;
	}
	return best;
}
