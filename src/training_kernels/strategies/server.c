/*
 * server.c - parameter servers: each has a part of the parameters, receives the gradients of that
 * part from all workers, and answers with the result.
 *
 * Messages are exchanged in rounds. In round j worker w communicates with server (w + j) mod k, so
 * that all servers are busy at once. Both sides order their messages by round, then by worker, so
 * that no two wait for each other, even if a rank that is both does one operation at a time.
 */
#include "training_kernels/strategies/writer.h"

static int worker_rank(const struct bb_strategy_setting *s, int worker)
{
	return s->colocated ? worker : s->servers + worker;
}

static const char *server_refuses(const struct bb_strategy_setting *s)
{
	if (s->colocated && s->servers != s->active)
		return "with colocated servers, every worker is a server";
	if (!s->colocated && s->servers >= s->active)
		return "no rank is left for a worker";
	if (!s->colocated && 2 * s->servers > s->active)
		return "fewer workers than servers: the links of the workers limit a step";
	return NULL;
}

/* Both ends of the gradients from WORKER to SERVER, and of the answer. */
static void write_push(struct bb_strategy_program *w, const struct bb_strategy_setting *s,
		       int worker, int server)
{
	const int rank = worker_rank(s, worker);

	if (rank != server) {
		bb_writer_add_send(w, rank, BB_STRATEGY_PUSH, server, (size_t)server);
		bb_writer_add_recv(w, server, BB_STRATEGY_PUSH, rank, (size_t)server);
	}
	bb_writer_add_real(w, server, RECEIVING, BB_STRATEGY_ADD, (size_t)worker);
}

static void write_pull(struct bb_strategy_program *w, const struct bb_strategy_setting *s,
		       int worker, int server)
{
	const int rank = worker_rank(s, worker);

	if (rank == server)
		return;
	bb_writer_add_send(w, server, BB_STRATEGY_PULL, rank, (size_t)server);
	bb_writer_add_recv(w, rank, BB_STRATEGY_PULL, server, (size_t)server);
}

static void in_rounds(struct bb_strategy_program *w, const struct bb_strategy_setting *s,
		      void (*write)(struct bb_strategy_program *,
				    const struct bb_strategy_setting *, int, int))
{
	for (int round = 0; round < s->servers; round++)
		for (int worker = 0; worker < bb_strategy_workers(&bb_strategy_ps, s); worker++)
			write(w, s, worker, (worker + round) % s->servers);
}

static void server_write(struct bb_strategy_program *w, const struct bb_strategy_setting *s)
{
	const int workers = bb_strategy_workers(&bb_strategy_ps, s);

	for (int worker = 0; worker < workers; worker++) {
		bb_writer_add_batches(w, worker_rank(s, worker));
		bb_tape_order(&w->taped.tapes[worker_rank(s, worker)], COMPUTING, SENDING);
		/* A colocated server also adds its own gradient. */
		if (s->real && s->colocated && worker < s->servers)
			bb_tape_order(&w->taped.tapes[worker], COMPUTING, RECEIVING);
	}
	in_rounds(w, s, write_push);
	for (int server = 0; server < s->servers; server++) {
		if (s->updates)
			bb_writer_add_real(w, server, RECEIVING, BB_STRATEGY_UPDATE,
					   (size_t)server);
		bb_tape_order(&w->taped.tapes[server], RECEIVING, SENDING);
	}
	in_rounds(w, s, write_pull);
	for (int worker = 0; worker < workers && !s->updates; worker++)
		for (int part = 0; part < s->servers; part++)
			bb_writer_add_real(w, worker_rank(s, worker), RECEIVING, BB_STRATEGY_UPDATE,
					   (size_t)part);
}

/*
 * Seconds until all workers have pushed. With ports, the parts of the workers enter a server one
 * after another; a worker that has been served is a latency away from its next server, which
 * dominates if that is longer than the entry of the others. Exact if k divides the number of
 * workers or there is no latency; otherwise it may be one latency too long for each server.
 */
static double push_seconds(const struct bb_strategy_setting *s, const struct bb_link_model *links)
{
	const int n = bb_strategy_workers(&bb_strategy_ps, s), k = s->servers;
	const double entry = bb_strategy_slowest_entry(s, links, k);
	const double alone = k * (links->latency + entry);

	if (!links->port)
		return alone;
	return fmax(n * entry + links->latency, alone + ((n + k - 1) / k - 1) * entry);
}

/* Colocated servers communicate with all others in turn, as in a ring. Otherwise a server answers
   one worker after another. */
static double server_seconds(const struct bb_strategy_setting *s, const struct bb_link_model *links)
{
	const double strategy = links->latency + bb_strategy_slowest_entry(s, links, s->servers);

	if (s->colocated)
		return bb_strategy_compute(s) + 2 * (s->active - 1) * strategy;
	return bb_strategy_compute(s) + push_seconds(s, links) +
	       bb_strategy_workers(&bb_strategy_ps, s) * strategy;
}

/* A server holds its part of the sum and of one gradient, and of the parameters if it updates them.
 */
static struct bb_strategy_memory server_memory(const struct bb_strategy_setting *s)
{
	const uint64_t part = bb_part_count(s->elements, s->servers, 0) * bb_dtype_size(s->dtype);
	const uint64_t worker = 2 * (uint64_t)bb_strategy_bytes(s);
	const uint64_t server = (s->updates ? 3 : 2) * part;

	return (struct bb_strategy_memory){s->colocated ? worker + server : server, worker};
}

const struct bb_strategy bb_strategy_ps = {
	.name = "ps",
	.brief = "workers push gradients to k servers, which answer once all have arrived",
	.formula = "C + (k + N) (L + M/kB), N workers; as many: C + 2 (n-1) (L + M/nB)",
	.shared = "C + max(L + N M/kB, k L + (k + ceil(N/k) - 1) M/kB) + N (L + M/kB); as many: "
		  "C + 2 (n-1) (L + M/nB)",
	.synchronous = true,
	.servers = true,
	.refuses = server_refuses,
	.write = server_write,
	.seconds = server_seconds,
	.memory = server_memory,
};

/* ---- asynchronous ---------------------------------------------------------------------------- */

static const char *refuses_async(const struct bb_strategy_setting *s)
{
	if (s->colocated)
		return "a server that receives from any worker cannot be a worker";
	return server_refuses(s);
}

static void write_worker(struct bb_strategy_program *w, const struct bb_strategy_setting *s,
			 int worker)
{
	const int rank = worker_rank(s, worker);

	for (size_t step = 0; step < s->steps; step++) {
		if (step > 0)
			bb_tape_order(&w->taped.tapes[rank], RECEIVING, COMPUTING);
		bb_writer_add_batches(w, rank);
		bb_tape_order(&w->taped.tapes[rank], COMPUTING, SENDING);
		for (int round = 0; round < s->servers; round++) {
			const int server = (worker + round) % s->servers;

			bb_writer_add_send(w, rank, BB_STRATEGY_PUSH, server, (size_t)server);
			bb_writer_add_recv(w, rank, BB_STRATEGY_PULL, server, (size_t)server);
		}
	}
}

static void write_async(struct bb_strategy_program *w, const struct bb_strategy_setting *s)
{
	for (int worker = 0; worker < bb_strategy_workers(&bb_strategy_ps, s); worker++)
		write_worker(w, s, worker);
	for (int server = 0; server < s->servers; server++)
		for (size_t i = 0; i < s->steps * (size_t)bb_strategy_workers(&bb_strategy_ps, s);
		     i++) {
			bb_writer_add_serve(w, server, (size_t)server);
			bb_writer_add_real(w, server, RECEIVING, BB_STRATEGY_UPDATE,
					   (size_t)server);
			bb_writer_add_answer(w, server, (size_t)server);
		}
}

/* The bound is a worker, or a server, which answers all workers in a step. */
static double async_seconds(const struct bb_strategy_setting *s, const struct bb_link_model *links)
{
	const double strategy = links->latency + bb_strategy_slowest_entry(s, links, s->servers);

	return fmax(bb_strategy_compute(s) + (s->servers + 1) * strategy,
		    bb_strategy_workers(&bb_strategy_ps, s) * strategy);
}

const struct bb_strategy bb_strategy_ps_async = {
	.name = "ps_async",
	.brief = "servers update by each gradient as it arrives, and answer its worker",
	.formula = "max(C + (k+1) (L + M/kB), N (L + M/kB)), N workers",
	.servers = true,
	.refuses = refuses_async,
	.write = write_async,
	.seconds = async_seconds,
	.memory = server_memory,
};
