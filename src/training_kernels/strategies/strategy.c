/*
 * strategy.c - the strategies as programs, and the bytes that they send.
 */
#include "training_kernels/strategies/strategy.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { COMPUTING, SENDING, RECEIVING, QUEUES };
enum { TO_SERVER, TO_WORKER, LANES };

size_t bb_strategy_steps(const struct bb_strategy *strategy, const struct bb_strategy_setting *s)
{
	if (strategy == &bb_strategy_average)
		return s->every;
	return strategy->synchronous ? 1 : s->steps;
}

int bb_strategy_workers(const struct bb_strategy *strategy, const struct bb_strategy_setting *s)
{
	return strategy->servers && !s->colocated ? s->active - s->servers : s->active;
}

int bb_strategy_worker(const struct bb_strategy *strategy, const struct bb_strategy_setting *s,
		       int rank)
{
	const int worker = strategy->servers && !s->colocated ? rank - s->servers : rank;

	return rank < s->active && worker >= 0 ? worker : -1;
}

/* ---- the writer ------------------------------------------------------------------------------ */

static void add_batches(struct bb_strategy_program *w, int rank)
{
	const struct bb_strategy_setting *s = &w->setting;

	for (size_t k = 0; k < s->batches; k++)
		bb_tape_compute(&w->taped.tapes[rank], COMPUTING, BB_STRATEGY_COMPUTE, k,
				s->compute_s, s->flops);
}

static void add_real(struct bb_strategy_program *w, int rank, int queue, enum bb_strategy_work work,
		     size_t item)
{
	if (w->setting.real)
		bb_tape_compute(&w->taped.tapes[rank], queue, work, item, 0, 0);
}

/* The end at RANK of a message to or from PEER. Without a peer a receive is from any, and a send
   answers the latest one. */
static void add_end(struct bb_strategy_program *w, int rank, enum bb_act act,
		    enum bb_strategy_work work, int peer, size_t item)
{
	const struct bb_strategy_setting *s = &w->setting;
	struct bb_tape *tape = &w->taped.tapes[rank];
	const bool answers = act == BB_ACT_SEND && peer == BB_NO_PEER;

	bb_tape_add(tape,
		    (struct bb_operation){
			    .act = act,
			    .queue = act == BB_ACT_SEND && !answers ? SENDING : RECEIVING,
			    .work = work,
			    .item = item,
			    .count = bb_part_count(
				    s->elements, w->strategy->servers ? s->servers : 1, (int)item),
			    .dtype = s->dtype,
			    .lane = work == BB_STRATEGY_PUSH ? TO_SERVER : TO_WORKER,
			    .peer = peer,
			    /* The request is the operation before, or the one before its sum. */
			    .answers = answers ? tape->n - 1 - s->real : 0,
		    });
}

static void add_message(struct bb_strategy_program *w, enum bb_strategy_work work, int from, int to,
			size_t item)
{
	add_end(w, from, BB_ACT_SEND, work, to, item);
	add_end(w, to, BB_ACT_RECV, work, from, item);
}

static void add_collective(struct bb_strategy_program *w, int rank, enum bb_strategy_work work,
			   const struct bb_collective *collective, size_t count)
{
	bb_tape_collective(&w->taped.tapes[rank], SENDING, work, 0, collective, count,
			   w->setting.dtype, BB_SUM);
}

/* Bytes of all gradients. */
static uint64_t gradient_bytes(const struct bb_strategy_setting *s)
{
	return (uint64_t)s->elements * bb_dtype_size(s->dtype);
}

/* ---- a root ---------------------------------------------------------------------------------- */

/* As in a single process that drives all devices: rank 0 sends its parameters to one worker after
   another, computes a batch like all others, gathers the gradients and updates. */
static void root_write(struct bb_strategy_program *w, const struct bb_strategy_setting *s)
{
	struct bb_tape *tapes = w->taped.tapes;

	for (int worker = 1; worker < s->active; worker++)
		add_message(w, BB_STRATEGY_PULL, 0, worker, 0);
	add_batches(w, 0);
	for (int worker = 1; worker < s->active; worker++) {
		bb_tape_order(&tapes[worker], RECEIVING, COMPUTING);
		add_batches(w, worker);
		bb_tape_order(&tapes[worker], COMPUTING, SENDING);
		add_message(w, BB_STRATEGY_PUSH, worker, 0, 0);
	}
	bb_tape_order(&tapes[0], RECEIVING, COMPUTING);
	for (int worker = 1; worker < s->active; worker++)
		add_real(w, 0, COMPUTING, BB_STRATEGY_ADD, (size_t)worker);
	/* Parameters stay unchanged until the last worker has them. */
	bb_tape_order(&tapes[0], SENDING, COMPUTING);
	add_real(w, 0, COMPUTING, BB_STRATEGY_UPDATE, 0);
}

/* The root keeps the gradients of all ranks until it sums them. */
static struct bb_strategy_memory root_memory(const struct bb_strategy_setting *s)
{
	const uint64_t bytes = gradient_bytes(s);

	return (struct bb_strategy_memory){(uint64_t)(1 + s->active) * bytes, 2 * bytes};
}

const struct bb_strategy bb_strategy_dp = {
	.name = "dp",
	.brief = "a root sends parameters and gathers gradients, as a single process does",
	.formula = "C + n (L + M/B)",
	.synchronous = true,
	.write = root_write,
	.memory = root_memory,
};

/* ---- equal ranks ----------------------------------------------------------------------------- */

/* The batches, a collective of their gradients, and the update. */
static void peers_write(struct bb_strategy_program *w, const struct bb_strategy_setting *s)
{
	const size_t part = bb_part_count(s->elements, s->active, 0);
	const bool divided = w->strategy == &bb_strategy_zero, peers = s->active > 1;

	for (int rank = 0; rank < s->active; rank++) {
		struct bb_tape *tape = &w->taped.tapes[rank];

		add_batches(w, rank);
		if (peers) {
			bb_tape_order(tape, COMPUTING, SENDING);
			add_collective(w, rank, BB_STRATEGY_REDUCE,
				       divided ? &bb_reduce_scatter : &bb_all_reduce,
				       divided ? part : s->elements);
			bb_tape_order(tape, SENDING, COMPUTING);
		}
		add_real(w, rank, COMPUTING, BB_STRATEGY_UPDATE, (size_t)rank);
		if (peers && divided) {
			bb_tape_order(tape, COMPUTING, SENDING);
			add_collective(w, rank, BB_STRATEGY_GATHER, &bb_all_gather, part);
		}
	}
}

/* Each rank updates by its own gradients, until parameters are averaged. */
static void write_average(struct bb_strategy_program *w, const struct bb_strategy_setting *s)
{
	for (int rank = 0; rank < s->active; rank++) {
		for (size_t k = 0; k < s->every; k++) {
			add_batches(w, rank);
			add_real(w, rank, COMPUTING, BB_STRATEGY_UPDATE, (size_t)rank);
		}
		if (s->active == 1)
			continue;
		bb_tape_order(&w->taped.tapes[rank], COMPUTING, SENDING);
		add_collective(w, rank, BB_STRATEGY_AVERAGE, &bb_all_reduce, s->elements);
		bb_tape_order(&w->taped.tapes[rank], SENDING, COMPUTING);
		add_real(w, rank, COMPUTING, BB_STRATEGY_AVERAGE, 0);
	}
}

static struct bb_strategy_memory peers_memory(const struct bb_strategy_setting *s)
{
	const uint64_t bytes = 2 * gradient_bytes(s);

	return (struct bb_strategy_memory){bytes, bytes};
}

/* All parts have one length; those of the last ranks may have padding. */
static struct bb_strategy_memory padded_memory(const struct bb_strategy_setting *s)
{
	const size_t part = bb_part_count(s->elements, s->active, 0) * bb_dtype_size(s->dtype);
	const uint64_t bytes = 2 * (uint64_t)part * (uint64_t)s->active;

	return (struct bb_strategy_memory){bytes, bytes};
}

static const struct bb_strategy strategy_ddp = {
	.name = "ddp",
	.brief = "gradients are summed by an all-reduce, every rank updates",
	.formula = "C + 2 (n-1) (L + M/nB)",
	.synchronous = true,
	.reduces = true,
	.write = peers_write,
	.memory = peers_memory,
};

const struct bb_strategy bb_strategy_zero = {
	.name = "zero",
	.brief = "each rank sums and updates a part (reduce-scatter), then all gather it",
	.formula = "C + 2 (n-1) (L + M/nB)",
	.synchronous = true,
	.reduces = true,
	.write = peers_write,
	.memory = padded_memory,
};

const struct bb_strategy bb_strategy_average = {
	.name = "average",
	.brief = "ranks update independently; every H steps parameters are averaged",
	.formula = "C + 2 (n-1) (L + M/nB) / H",
	.reduces = true,
	.write = write_average,
	.memory = peers_memory,
};

/* ---- parameter servers ----------------------------------------------------------------------- */

/*
 * Each server has a part of the parameters, receives the gradients of that part from all workers,
 * and answers with the result. Messages are exchanged in rounds. In round j worker w communicates
 * with server (w + j) mod k, so that all servers are busy at once. Both sides order their messages
 * by round, then by worker, so that no two wait for each other, even if a rank that is both does
 * one operation at a time.
 */
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

/* The gradients of all workers to all servers, or PULLS: the answers. */
static void write_rounds(struct bb_strategy_program *w, const struct bb_strategy_setting *s,
			 bool pulls)
{
	for (int round = 0; round < s->servers; round++)
		for (int worker = 0; worker < bb_strategy_workers(&bb_strategy_ps, s); worker++) {
			const int server = (worker + round) % s->servers;
			const int rank = worker_rank(s, worker);

			if (rank != server && pulls)
				add_message(w, BB_STRATEGY_PULL, server, rank, (size_t)server);
			else if (rank != server)
				add_message(w, BB_STRATEGY_PUSH, rank, server, (size_t)server);
			if (!pulls)
				add_real(w, server, RECEIVING, BB_STRATEGY_ADD, (size_t)worker);
		}
}

static void server_write(struct bb_strategy_program *w, const struct bb_strategy_setting *s)
{
	const int workers = bb_strategy_workers(&bb_strategy_ps, s);

	for (int worker = 0; worker < workers; worker++) {
		add_batches(w, worker_rank(s, worker));
		bb_tape_order(&w->taped.tapes[worker_rank(s, worker)], COMPUTING, SENDING);
		/* A colocated server also adds its own gradient. */
		if (s->real && s->colocated && worker < s->servers)
			bb_tape_order(&w->taped.tapes[worker], COMPUTING, RECEIVING);
	}
	write_rounds(w, s, false);
	for (int server = 0; server < s->servers; server++) {
		if (s->updates)
			add_real(w, server, RECEIVING, BB_STRATEGY_UPDATE, (size_t)server);
		bb_tape_order(&w->taped.tapes[server], RECEIVING, SENDING);
	}
	write_rounds(w, s, true);
	for (int worker = 0; worker < workers && !s->updates; worker++)
		for (int part = 0; part < s->servers; part++)
			add_real(w, worker_rank(s, worker), RECEIVING, BB_STRATEGY_UPDATE,
				 (size_t)part);
}

/* A server holds its part of the sum and of one gradient, and of the parameters if it updates them.
 */
static struct bb_strategy_memory server_memory(const struct bb_strategy_setting *s)
{
	const uint64_t part = bb_part_count(s->elements, s->servers, 0) * bb_dtype_size(s->dtype);
	const uint64_t worker = 2 * gradient_bytes(s);
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
	.memory = server_memory,
};

/* ---- asynchronous ---------------------------------------------------------------------------- */

static const char *refuses_async(const struct bb_strategy_setting *s)
{
	if (s->colocated)
		return "a server that receives from any worker cannot be a worker";
	return server_refuses(s);
}

static void write_async_worker(struct bb_strategy_program *w, const struct bb_strategy_setting *s,
			       int worker)
{
	const int rank = worker_rank(s, worker);

	for (size_t step = 0; step < s->steps; step++) {
		if (step > 0)
			bb_tape_order(&w->taped.tapes[rank], RECEIVING, COMPUTING);
		add_batches(w, rank);
		bb_tape_order(&w->taped.tapes[rank], COMPUTING, SENDING);
		for (int round = 0; round < s->servers; round++) {
			const int server = (worker + round) % s->servers;

			add_end(w, rank, BB_ACT_SEND, BB_STRATEGY_PUSH, server, (size_t)server);
			add_end(w, rank, BB_ACT_RECV, BB_STRATEGY_PULL, server, (size_t)server);
		}
	}
}

static void write_async(struct bb_strategy_program *w, const struct bb_strategy_setting *s)
{
	const int workers = bb_strategy_workers(&bb_strategy_ps, s);

	for (int worker = 0; worker < workers; worker++)
		write_async_worker(w, s, worker);
	for (int server = 0; server < s->servers; server++)
		for (size_t i = 0; i < s->steps * (size_t)workers; i++) {
			const size_t part = (size_t)server;

			add_end(w, server, BB_ACT_RECV_ANY, BB_STRATEGY_PUSH, BB_NO_PEER, part);
			add_real(w, server, RECEIVING, BB_STRATEGY_UPDATE, part);
			add_end(w, server, BB_ACT_SEND, BB_STRATEGY_PULL, BB_NO_PEER, part);
		}
}

static const struct bb_strategy strategy_ps_async = {
	.name = "ps_async",
	.brief = "servers update by each gradient as it arrives, and answer its worker",
	.formula = "max(C + (k+1) (L + M/kB), N (L + M/kB)), N workers",
	.servers = true,
	.refuses = refuses_async,
	.write = write_async,
	.memory = server_memory,
};

const struct bb_strategy *const bb_strategies[] = {
	&bb_strategy_dp,
	&bb_strategy_ps,
	&strategy_ps_async,
	&strategy_ddp,
	&bb_strategy_zero,
	&bb_strategy_average,
	NULL,
};

/* ---- the program ----------------------------------------------------------------------------- */

/* The program's own is its tapes, which are the first member. */
static int strategy_group_size(const struct bb_program *program, int group)
{
	return ((const struct bb_strategy_program *)program->own)->setting.active;
}

static void strategy_describe(const struct bb_program *program, const struct bb_operation *o,
			      char text[BB_PROGRAM_TEXT])
{
	static const char *const names[] = {
		[BB_STRATEGY_COMPUTE] = "batch",
		[BB_STRATEGY_ADD] = "sum, worker",
		[BB_STRATEGY_UPDATE] = "update of part",
		[BB_STRATEGY_PUSH] = "gradients, part",
		[BB_STRATEGY_PULL] = "parameters, part",
		[BB_STRATEGY_REDUCE] = "sum of gradients",
		[BB_STRATEGY_GATHER] = "all-gather of parameters",
		[BB_STRATEGY_AVERAGE] = "average of parameters",
	};

	if (o->act == BB_ACT_COLLECTIVE)
		snprintf(text, BB_PROGRAM_TEXT, "%s", names[o->work]);
	else
		snprintf(text, BB_PROGRAM_TEXT, "%s %zu", names[o->work], o->item);
}

bb_status bb_strategy_program_make(struct bb_strategy_program *p,
				   const struct bb_strategy *strategy,
				   const struct bb_strategy_setting *setting, const char *algorithm,
				   struct bb_error *error)
{
	struct bb_program *program = &p->taped.program;
	const bb_status status = bb_taped_begin(&p->taped, setting->nranks, false, error);

	if (status != BB_OK)
		return status;
	p->strategy = strategy;
	p->setting = *setting;
	program->queues = QUEUES;
	program->lanes = strategy->reduces ? 0 : LANES;
	program->groups = strategy->reduces ? 1 : 0;
	program->algorithm = algorithm;
	program->group_size = strategy_group_size;
	program->describe = strategy_describe;
	strategy->write(p, &p->setting);
	return bb_taped_end(&p->taped, strategy->name, error);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* Bytes that the busiest member sends in a collective; by a ring it receives as many. */
static double collective_wire(const struct bb_strategy_program *p, const struct bb_operation *o,
			      const char *name)
{
	const struct bb_algorithm *algorithm = bb_algorithm_find(o->collective, name);
	const struct bb_shape shape = {
		.nranks = p->setting.active, .in_place = o->in_place, .count = o->count};
	size_t wire = 0;

	if (algorithm)
		(void)bb_algorithm_cost(algorithm, &shape, NULL, &wire);
	return (double)wire * (double)bb_dtype_size(o->dtype);
}

double bb_strategy_wire(const struct bb_strategy_program *p, const char *name)
{
	double most = 0;

	for (int r = 0; r < p->setting.active; r++) {
		double sent = 0, received = 0;

		for (size_t i = 0; i < p->taped.tapes[r].n; i++) {
			const struct bb_operation *o = &p->taped.tapes[r].list[i];

			if (o->act == BB_ACT_SEND)
				sent += (double)bb_operation_bytes(o);
			else if (o->act == BB_ACT_RECV || o->act == BB_ACT_RECV_ANY)
				received += (double)bb_operation_bytes(o);
			else if (o->act == BB_ACT_COLLECTIVE && r == 0)
				sent += collective_wire(p, o, name);
		}
		most = fmax(most, fmax(sent, received));
	}
	return most / (double)bb_strategy_steps(p->strategy, &p->setting);
}
