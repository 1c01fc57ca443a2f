/*
 * root.c - data parallelism with a root, as in a single process that drives all devices: rank 0
 * sends its parameters to one worker after another, computes a batch like all others, gathers the
 * gradients and updates.
 */
#include "training_kernels/strategies/writer.h"

static void root_write_root(struct bb_strategy_program *w, const struct bb_strategy_setting *s)
{
	for (int worker = 1; worker < s->active; worker++)
		bb_writer_add_send(w, 0, BB_STRATEGY_PULL, worker, 0);
	bb_writer_add_batches(w, 0);
	for (int worker = 1; worker < s->active; worker++)
		bb_writer_add_recv(w, 0, BB_STRATEGY_PUSH, worker, 0);
	bb_tape_order(&w->taped.tapes[0], RECEIVING, COMPUTING);
	for (int worker = 1; worker < s->active; worker++)
		bb_writer_add_real(w, 0, COMPUTING, BB_STRATEGY_ADD, (size_t)worker);
	/* Parameters stay unchanged until the last worker has them. */
	bb_tape_order(&w->taped.tapes[0], SENDING, COMPUTING);
	bb_writer_add_real(w, 0, COMPUTING, BB_STRATEGY_UPDATE, 0);
}

static void root_write(struct bb_strategy_program *w, const struct bb_strategy_setting *s)
{
	root_write_root(w, s);
	for (int worker = 1; worker < s->active; worker++) {
		bb_writer_add_recv(w, worker, BB_STRATEGY_PULL, 0, 0);
		bb_tape_order(&w->taped.tapes[worker], RECEIVING, COMPUTING);
		bb_writer_add_batches(w, worker);
		bb_tape_order(&w->taped.tapes[worker], COMPUTING, SENDING);
		bb_writer_add_send(w, worker, BB_STRATEGY_PUSH, 0, 0);
	}
}

/* Worker i has the parameters after i messages, and gradients follow each other likewise; the last
   one arrives a message later. */
static double root_seconds(const struct bb_strategy_setting *s, const struct bb_link_model *links)
{
	const int n = s->active;

	return bb_strategy_compute(s) +
	       (n > 1 ? n * (links->latency + bb_strategy_slowest_entry(s, links, 1)) : 0);
}

/* The root keeps the gradients of all ranks until it sums them. */
static struct bb_strategy_memory root_memory(const struct bb_strategy_setting *s)
{
	const uint64_t bytes = (uint64_t)bb_strategy_bytes(s);

	return (struct bb_strategy_memory){(uint64_t)(1 + s->active) * bytes, 2 * bytes};
}

const struct bb_strategy bb_strategy_dp = {
	.name = "dp",
	.brief = "a root sends parameters and gathers gradients, as a single process does",
	.formula = "C + n (L + M/B)",
	.synchronous = true,
	.write = root_write,
	.seconds = root_seconds,
	.memory = root_memory,
};
