/*
 * server.c - parameter servers: each has a part of the parameters, gets the gradients of that part
 * from all workers, and answers with what comes of them.
 *
 * Messages are exchanged in rounds. In round j worker w has to do with server (w + j) mod k, so
 * that all servers are busy at once; both sides go through their messages by round, then by worker,
 * so that no two wait for each other, also where a rank that is both does one after the other.
 */
#include "training_kernels/strategies/writer.h"

static int rank_of(const struct bb_strategy_setting *s, int worker)
{
	return s->colocated ? worker : s->servers + worker;
}

static int workers_of(const struct bb_strategy_setting *s)
{
	return s->colocated ? s->active : s->active - s->servers;
}

static const char *refuses(const struct bb_strategy_setting *s)
{
	if (s->colocated && s->servers != s->active)
		return "of servers that are workers too there are as many as workers";
	if (!s->colocated && s->servers >= s->active)
		return "no rank is left that could be a worker";
	if (!s->colocated && 2 * s->servers > s->active)
		return "fewer workers than servers: what limits a step are the workers' links";
	return NULL;
}

/* Both ends of what worker and server have to do with each other in ROUND. */
static void write_push(struct bb_strategy_writer *w, const struct bb_strategy_setting *s,
		       int worker, int server)
{
	const int rank = rank_of(s, worker);

	if (rank != server) {
		bb_write_send(w, rank, BB_STRATEGY_PUSH, server, (size_t)server, s->servers);
		bb_write_recv(w, server, BB_STRATEGY_PUSH, rank, (size_t)server, s->servers);
	}
	bb_write_real(w, server, RECEIVING, BB_STRATEGY_ADD, (size_t)worker);
}

static void write_pull(struct bb_strategy_writer *w, const struct bb_strategy_setting *s,
		       int worker, int server)
{
	const int rank = rank_of(s, worker);

	if (rank == server)
		return;
	bb_write_send(w, server, BB_STRATEGY_PULL, rank, (size_t)server, s->servers);
	bb_write_recv(w, rank, BB_STRATEGY_PULL, server, (size_t)server, s->servers);
}

static void in_rounds(struct bb_strategy_writer *w, const struct bb_strategy_setting *s,
		      void (*write)(struct bb_strategy_writer *, const struct bb_strategy_setting *,
				    int, int))
{
	for (int round = 0; round < s->servers; round++)
		for (int worker = 0; worker < workers_of(s); worker++)
			write(w, s, worker, (worker + round) % s->servers);
}

static void write(struct bb_strategy_writer *w, const struct bb_strategy_setting *s)
{
	const int workers = workers_of(s);

	for (int worker = 0; worker < workers; worker++) {
		bb_write_batches(w, rank_of(s, worker));
		bb_write_order(w, rank_of(s, worker), COMPUTING, SENDING);
		/* A server that is a worker adds its own gradient too. */
		if (s->real && s->colocated && worker < s->servers)
			bb_write_order(w, worker, COMPUTING, RECEIVING);
	}
	in_rounds(w, s, write_push);
	for (int server = 0; server < s->servers; server++) {
		if (s->updates)
			bb_write_real(w, server, RECEIVING, BB_STRATEGY_UPDATE, (size_t)server);
		bb_write_order(w, server, RECEIVING, SENDING);
	}
	in_rounds(w, s, write_pull);
	for (int worker = 0; worker < workers && !s->updates; worker++)
		for (int part = 0; part < s->servers; part++)
			bb_write_real(w, rank_of(s, worker), RECEIVING, BB_STRATEGY_UPDATE,
				      (size_t)part);
}

/*
 * How long all workers take to push. With ports a server's way in has a part of each worker one
 * after the other; the first of those that wait at a server are a latency away from the next one,
 * which is the longer way if it takes more than the others take to come in. Exact where k divides
 * the number of workers or there is no latency; else it may be a latency longer for each server.
 */
static double push_seconds(const struct bb_strategy_setting *s, const struct bb_link_model *links)
{
	const int n = workers_of(s), k = s->servers;
	const double entry = bb_strategy_slowest_entry(s, links, k);
	const double alone = k * (links->latency + entry);

	if (!links->port)
		return alone;
	return fmax(n * entry + links->latency, alone + ((n + k - 1) / k - 1) * entry);
}

/* Servers that are workers: each deals with all others in turn, as in a ring. Else a server answers
   one worker after the other. */
static double seconds(const struct bb_strategy_setting *s, const struct bb_link_model *links)
{
	const double strategy = links->latency + bb_strategy_slowest_entry(s, links, s->servers);

	if (s->colocated)
		return bb_strategy_compute(s) + 2 * (s->active - 1) * strategy;
	return bb_strategy_compute(s) + push_seconds(s, links) + workers_of(s) * strategy;
}

/* A server has its part of the sum and room for one more gradient of it, parameters if it updates
   them. */
static struct bb_strategy_memory memory(const struct bb_strategy_setting *s)
{
	const uint64_t part = bb_part_count(s->elements, s->servers, 0) * bb_dtype_size(s->dtype);
	const uint64_t worker = 2 * (uint64_t)bb_strategy_bytes(s);
	const uint64_t server = (s->updates ? 3 : 2) * part;

	return (struct bb_strategy_memory){s->colocated ? worker + server : server, worker};
}

const struct bb_strategy bb_strategy_ps = {
	.name = "ps",
	.brief = "workers push gradients to k servers, which answer once they have all of them",
	.formula = "C + (k + N) (L + M/kB), N workers; as many: C + 2 (n-1) (L + M/nB)",
	.shared = "C + max(L + N M/kB, k L + (k + ceil(N/k) - 1) M/kB) + N (L + M/kB); as many: "
		  "C + 2 (n-1) (L + M/nB)",
	.synchronous = true,
	.servers = true,
	.refuses = refuses,
	.write = write,
	.seconds = seconds,
	.memory = memory,
};

/* ---- asynchronous ------------------------------------------------------------------------ */

static const char *refuses_async(const struct bb_strategy_setting *s)
{
	if (s->colocated)
		return "a server that waits for whoever comes cannot be a worker too";
	return refuses(s);
}

static void write_worker(struct bb_strategy_writer *w, const struct bb_strategy_setting *s,
			 int worker)
{
	const int rank = rank_of(s, worker);

	for (size_t step = 0; step < s->steps; step++) {
		if (step > 0)
			bb_write_order(w, rank, RECEIVING, COMPUTING);
		bb_write_batches(w, rank);
		bb_write_order(w, rank, COMPUTING, SENDING);
		for (int round = 0; round < s->servers; round++) {
			const int server = (worker + round) % s->servers;

			bb_write_send(w, rank, BB_STRATEGY_PUSH, server, (size_t)server,
				      s->servers);
			bb_write_recv(w, rank, BB_STRATEGY_PULL, server, (size_t)server,
				      s->servers);
		}
	}
}

static void write_async(struct bb_strategy_writer *w, const struct bb_strategy_setting *s)
{
	for (int worker = 0; worker < workers_of(s); worker++)
		write_worker(w, s, worker);
	for (int server = 0; server < s->servers; server++)
		for (size_t i = 0; i < s->steps * (size_t)workers_of(s); i++) {
			bb_write_serve(w, server, (size_t)server, s->servers);
			bb_write_real(w, server, RECEIVING, BB_STRATEGY_UPDATE, (size_t)server);
			bb_write_answer(w, server, (size_t)server, s->servers);
		}
}

/* Either a worker is what takes longest, or a server, which answers all of them in a step. */
static double async_seconds(const struct bb_strategy_setting *s, const struct bb_link_model *links)
{
	const double strategy = links->latency + bb_strategy_slowest_entry(s, links, s->servers);

	return fmax(bb_strategy_compute(s) + (s->servers + 1) * strategy, workers_of(s) * strategy);
}

const struct bb_strategy bb_strategy_ps_async = {
	.name = "ps_async",
	.brief = "servers update by each gradient as it comes, and answer whoever sent it",
	.formula = "max(C + (k+1) (L + M/kB), N (L + M/kB)), N workers",
	.servers = true,
	.refuses = refuses_async,
	.write = write_async,
	.seconds = async_seconds,
	.memory = memory,
};
