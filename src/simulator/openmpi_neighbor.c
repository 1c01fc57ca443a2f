/*
 * openmpi_neighbor.c - all_gather by Open MPI's neighbor exchange (coll_base_allgather.c), for an
 * even number of ranks: pairs of neighbours swap their blocks, then each rank passes the pair of
 * blocks that it received last to its neighbours on both sides in turn.
 */
#include "schedules/parts.h"
#include "simulator/openmpi.h"

static const char *neighbor_refuses(const struct bb_shape *shape)
{
	return shape->nranks % 2 ? "the number of ranks is odd" : NULL;
}

static void neighbor_prepare(const struct bb_shape *shape, int rank, struct bb_role *role)
{
	bb_role_fill(role, rank, (size_t)shape->nranks / 2);
}

/* The first of the two blocks that RANK, in ROUND, passes on in the next one. */
static int held_after(int n, int rank, int round)
{
	const int pair = rank - rank % 2, times = round / 2 + round % 2;
	/* Even ranks receive from the right in even rounds, odd ranks in odd rounds. */
	const int away = (round % 2 == rank % 2 ? 2 : -2) * times;

	return ((pair + away) % n + n) % n;
}

static void neighbor_round(const struct bb_shape *shape, const struct bb_role *role, size_t round,
			   struct bb_writer *w)
{
	const int n = shape->nranks, rank = role->rank, at = (int)round;
	const int peer = bb_wrap(at % 2 == rank % 2 ? rank + 1 : rank - 1, n);
	const bool last = 2 * (at + 1) == n;
	const size_t count = shape->count;

	if (at == 0) {
		if (!shape->in_place)
			bb_copy(w, bb_at(BB_IN, 0), bb_at(BB_OUT, (size_t)rank * count), count,
				last);
		bb_send(w, peer, bb_at(BB_IN, 0), count);
		bb_recv(w, peer, bb_at(BB_OUT, (size_t)peer * count), count, last);
		return;
	}
	bb_send(w, peer, bb_at(BB_OUT, (size_t)held_after(n, rank, at - 1) * count), 2 * count);
	bb_recv(w, peer, bb_at(BB_OUT, (size_t)held_after(n, rank, at) * count), 2 * count, last);
}

const struct bb_algorithm bb_openmpi_neighbor = {
	.name = "neighbor",
	.collective = &bb_all_gather,
	.meaning = "Neighbours swap blocks, then pass on pairs of blocks to both sides in turn.",
	.refuses = neighbor_refuses,
	.prepare = neighbor_prepare,
	.round = neighbor_round,
};
