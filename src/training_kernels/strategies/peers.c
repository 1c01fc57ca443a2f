/*
 * peers.c - strategies without a root: all ranks do the same.
 */
#include "training_kernels/strategies/writer.h"

/* The batches, a collective of their gradients, and the update. */
static void peers_write_rank(struct bb_strategy_program *w, const struct bb_strategy_setting *s,
			     int rank)
{
	const size_t part = bb_part_count(s->elements, s->active, 0);

	bb_writer_add_batches(w, rank);
	if (s->active > 1) {
		bb_tape_order(&w->taped.tapes[rank], COMPUTING, SENDING);
		if (w->strategy == &bb_strategy_zero)
			bb_writer_add_collective(w, rank, BB_STRATEGY_REDUCE, &bb_reduce_scatter,
						 part);
		else
			bb_writer_add_collective(w, rank, BB_STRATEGY_REDUCE, &bb_all_reduce,
						 s->elements);
		bb_tape_order(&w->taped.tapes[rank], SENDING, COMPUTING);
	}
	bb_writer_add_real(w, rank, COMPUTING, BB_STRATEGY_UPDATE, (size_t)rank);
	if (s->active > 1 && w->strategy == &bb_strategy_zero) {
		bb_tape_order(&w->taped.tapes[rank], COMPUTING, SENDING);
		bb_writer_add_collective(w, rank, BB_STRATEGY_GATHER, &bb_all_gather, part);
	}
}

static void peers_write(struct bb_strategy_program *w, const struct bb_strategy_setting *s)
{
	for (int rank = 0; rank < s->active; rank++)
		peers_write_rank(w, s, rank);
}

/* Each rank updates by its own gradients, until parameters are averaged. */
static void write_average(struct bb_strategy_program *w, const struct bb_strategy_setting *s)
{
	for (int rank = 0; rank < s->active; rank++) {
		for (size_t k = 0; k < s->every; k++) {
			bb_writer_add_batches(w, rank);
			bb_writer_add_real(w, rank, COMPUTING, BB_STRATEGY_UPDATE, (size_t)rank);
		}
		if (s->active == 1)
			continue;
		bb_tape_order(&w->taped.tapes[rank], COMPUTING, SENDING);
		bb_writer_add_collective(w, rank, BB_STRATEGY_AVERAGE, &bb_all_reduce, s->elements);
		bb_tape_order(&w->taped.tapes[rank], SENDING, COMPUTING);
		bb_writer_add_real(w, rank, COMPUTING, BB_STRATEGY_AVERAGE, 0);
	}
}

/* 2 (n-1) rounds, each with the largest part on some link. */
static double ring_seconds(const struct bb_strategy_setting *s, const struct bb_link_model *links)
{
	return 2 * (s->active - 1) *
	       (links->latency + bb_strategy_slowest_entry(s, links, s->active));
}

static double peers_seconds(const struct bb_strategy_setting *s, const struct bb_link_model *links)
{
	return bb_strategy_compute(s) + ring_seconds(s, links);
}

static double average_seconds(const struct bb_strategy_setting *s,
			      const struct bb_link_model *links)
{
	return bb_strategy_compute(s) + ring_seconds(s, links) / (double)s->every;
}

static struct bb_strategy_memory peers_memory(const struct bb_strategy_setting *s)
{
	const uint64_t bytes = 2 * (uint64_t)bb_strategy_bytes(s);

	return (struct bb_strategy_memory){bytes, bytes};
}

/* All parts have one length; those of the last ranks may have padding. */
static struct bb_strategy_memory padded_memory(const struct bb_strategy_setting *s)
{
	const size_t part = bb_part_count(s->elements, s->active, 0) * bb_dtype_size(s->dtype);
	const uint64_t bytes = 2 * (uint64_t)part * (uint64_t)s->active;

	return (struct bb_strategy_memory){bytes, bytes};
}

const struct bb_strategy bb_strategy_ddp = {
	.name = "ddp",
	.brief = "gradients are summed by an all-reduce, every rank updates",
	.formula = "C + 2 (n-1) (L + M/nB)",
	.synchronous = true,
	.reduces = true,
	.write = peers_write,
	.seconds = peers_seconds,
	.memory = peers_memory,
};

const struct bb_strategy bb_strategy_zero = {
	.name = "zero",
	.brief = "each rank sums and updates a part (reduce-scatter), then all gather it",
	.formula = "C + 2 (n-1) (L + M/nB)",
	.synchronous = true,
	.reduces = true,
	.write = peers_write,
	.seconds = peers_seconds,
	.memory = padded_memory,
};

const struct bb_strategy bb_strategy_average = {
	.name = "average",
	.brief = "ranks update independently; every H steps parameters are averaged",
	.formula = "C + 2 (n-1) (L + M/nB) / H",
	.reduces = true,
	.write = write_average,
	.seconds = average_seconds,
	.memory = peers_memory,
};
