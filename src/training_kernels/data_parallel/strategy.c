/*
 * strategy.c - the strategies as programs, and the bytes that they hold and send.
 */
#include "training_kernels/data_parallel/learner.h"

#include <math.h>

enum { COMPUTING, SENDING, RECEIVING, QUEUES };
enum { TO_SERVER, TO_WORKER, LANES };

const char *bb_strategy_refuses(const struct bb_strategy_setting *s)
{
	const struct bb_coded_form coded = {.scheme = &bb_coded_schemes[BB_CODED_ALLTOALL],
					    .nranks = s->active};

	if (s->strategy->coding)
		return bb_coded_refuses(&coded);
	if (!s->strategy->servers)
		return NULL;
	if (s->colocated && !s->strategy->synchronous)
		return "a server that receives from any worker cannot be a worker";
	if (s->colocated && s->servers != s->active)
		return "with colocated servers, every worker is a server";
	if (!s->colocated && s->servers >= s->active)
		return "no rank is left for a worker";
	if (!s->colocated && 2 * s->servers > s->active)
		return "fewer workers than servers: the links of the workers limit a step";
	return NULL;
}

size_t bb_strategy_steps(const struct bb_strategy_setting *s)
{
	if (s->strategy->kind == BB_BY_AVERAGE)
		return s->every;
	return s->strategy->synchronous && s->strategy->kind != BB_BY_CODES ? 1 : s->steps;
}

/* The ranks before the first worker. */
static int servers_before(const struct bb_strategy_setting *s)
{
	return s->strategy->servers && !s->colocated ? s->servers : 0;
}

int bb_strategy_workers(const struct bb_strategy_setting *s)
{
	return s->active - servers_before(s);
}

int bb_strategy_worker(const struct bb_strategy_setting *s, int rank)
{
	const int worker = rank - servers_before(s);

	return rank < s->active && worker >= 0 ? worker : -1;
}

/* Elements of a part, of which all ranks have equal ones; those of the last ranks are padded. */
static size_t equal_part(const struct bb_strategy_setting *s)
{
	return bb_part_count(s->elements, s->active, 0);
}

/* ---- operations ------------------------------------------------------------------------------ */

static void add_batches(struct bb_tape *tape, const struct bb_strategy_setting *s)
{
	for (size_t k = 0; k < s->batches; k++)
		bb_tape_compute(tape, COMPUTING, BB_STRATEGY_COMPUTE, k, s->compute_s, s->flops);
}

static void add_real(struct bb_tape *tape, const struct bb_strategy_setting *s, int queue,
		     enum bb_strategy_work work, size_t item)
{
	if (s->real)
		bb_tape_compute(tape, queue, work, item, 0, 0);
}

/* An end of a message to or from PEER. Without a peer a receive is from any, and a send answers the
   latest one. */
static void add_end(struct bb_tape *tape, const struct bb_strategy_setting *s, enum bb_act act,
		    enum bb_strategy_work work, int peer, size_t item)
{
	const bool answers = act == BB_ACT_SEND && peer == BB_NO_PEER;
	const int queue = act == BB_ACT_SEND && !answers ? SENDING : RECEIVING;
	const int parts = s->strategy->servers ? s->servers : 1;

	/* The request that is answered is the operation before, or the one before its sum. */
	bb_tape_add(tape, (struct bb_operation){
				  act, queue, work, item,
				  .count = bb_part_count(s->elements, parts, (int)item),
				  .dtype = s->dtype,
				  .lane = work == BB_STRATEGY_PUSH ? TO_SERVER : TO_WORKER,
				  .peer = peer, .answers = answers ? tape->n - 1 - s->real : 0});
}

static void add_message(struct bb_tape *tapes, const struct bb_strategy_setting *s,
			enum bb_strategy_work work, int from, int to, size_t item)
{
	add_end(&tapes[from], s, BB_ACT_SEND, work, to, item);
	add_end(&tapes[to], s, BB_ACT_RECV, work, from, item);
}

/* After the computations before it; later ones wait for it if they are ORDERED. */
static void add_collective(struct bb_tape *tape, const struct bb_strategy_setting *s,
			   enum bb_strategy_work work, const struct bb_collective *collective,
			   size_t count, bool ordered)
{
	bb_tape_order(tape, COMPUTING, SENDING);
	bb_tape_collective(tape, SENDING, work, 0, collective, count, s->dtype, BB_SUM);
	if (ordered)
		bb_tape_order(tape, SENDING, COMPUTING);
}

/* ---- a root ---------------------------------------------------------------------------------- */

/* As in a single process that drives all devices: rank 0 sends its parameters to one worker after
   another, computes a batch like all others, gathers the gradients and updates. */
static void root_write(struct bb_tape *tapes, const struct bb_strategy_setting *s)
{
	for (int worker = 1; worker < s->active; worker++)
		add_message(tapes, s, BB_STRATEGY_PULL, 0, worker, 0);
	add_batches(&tapes[0], s);
	for (int worker = 1; worker < s->active; worker++) {
		bb_tape_order(&tapes[worker], RECEIVING, COMPUTING);
		add_batches(&tapes[worker], s);
		bb_tape_order(&tapes[worker], COMPUTING, SENDING);
		add_message(tapes, s, BB_STRATEGY_PUSH, worker, 0, 0);
	}
	bb_tape_order(&tapes[0], RECEIVING, COMPUTING);
	for (int worker = 1; worker < s->active; worker++)
		add_real(&tapes[0], s, COMPUTING, BB_STRATEGY_ADD, (size_t)worker);
	/* Parameters stay unchanged until the last worker has them. */
	bb_tape_order(&tapes[0], SENDING, COMPUTING);
	add_real(&tapes[0], s, COMPUTING, BB_STRATEGY_UPDATE, 0);
}

/* ---- equal ranks ----------------------------------------------------------------------------- */

/* The batches, a collective of their gradients, and the update; or each rank updates by its own
   gradients, until parameters are averaged. */
static void peers_write(struct bb_tape *tapes, const struct bb_strategy_setting *s)
{
	const bool divides = s->strategy->kind == BB_BY_PARTS, peers = s->active > 1;
	const bool averages = s->strategy->kind == BB_BY_AVERAGE;

	for (int rank = 0; rank < s->active; rank++) {
		struct bb_tape *tape = &tapes[rank];

		for (size_t k = 0; k < bb_strategy_steps(s); k++) {
			add_batches(tape, s);
			if (peers && !averages)
				add_collective(tape, s, BB_STRATEGY_REDUCE,
					       divides ? &bb_reduce_scatter : &bb_all_reduce,
					       divides ? equal_part(s) : s->elements, true);
			add_real(tape, s, COMPUTING, BB_STRATEGY_UPDATE, (size_t)rank);
		}
		if (peers && divides)
			add_collective(tape, s, BB_STRATEGY_GATHER, &bb_all_gather, equal_part(s),
				       false);
		if (peers && averages) {
			add_collective(tape, s, BB_STRATEGY_AVERAGE, &bb_all_reduce, s->elements,
				       true);
			add_real(tape, s, COMPUTING, BB_STRATEGY_AVERAGE, 0);
		}
	}
}

/* ---- parameter servers ----------------------------------------------------------------------- */

/*
 * Each server has a part of the parameters, receives the gradients of that part from all workers,
 * and answers with the result. Messages are exchanged in rounds. In round j worker w communicates
 * with server (w + j) mod k, so that all servers are busy at once. Both sides order their messages
 * by round, then by worker, so that no two wait for each other, even if a rank that is both does
 * one operation at a time.
 */

/* The gradients of all workers to all servers, or PULLS: the answers. */
static void write_rounds(struct bb_tape *tapes, const struct bb_strategy_setting *s, bool pulls)
{
	for (int round = 0; round < s->servers; round++)
		for (int worker = 0; worker < bb_strategy_workers(s); worker++) {
			const int server = (worker + round) % s->servers;
			const int rank = servers_before(s) + worker;

			if (rank != server)
				add_message(tapes, s, pulls ? BB_STRATEGY_PULL : BB_STRATEGY_PUSH,
					    pulls ? server : rank, pulls ? rank : server,
					    (size_t)server);
			if (!pulls)
				add_real(&tapes[server], s, RECEIVING, BB_STRATEGY_ADD,
					 (size_t)worker);
		}
}

static void servers_write(struct bb_tape *tapes, const struct bb_strategy_setting *s)
{
	for (int rank = servers_before(s); rank < s->active; rank++) {
		add_batches(&tapes[rank], s);
		bb_tape_order(&tapes[rank], COMPUTING, SENDING);
		/* A colocated server also adds its own gradient. */
		if (s->real && s->colocated)
			bb_tape_order(&tapes[rank], COMPUTING, RECEIVING);
	}
	write_rounds(tapes, s, false);
	for (int server = 0; server < s->servers; server++) {
		if (s->updates)
			add_real(&tapes[server], s, RECEIVING, BB_STRATEGY_UPDATE, (size_t)server);
		bb_tape_order(&tapes[server], RECEIVING, SENDING);
	}
	write_rounds(tapes, s, true);
	for (int rank = servers_before(s); rank < s->active && !s->updates; rank++)
		for (int part = 0; part < s->servers; part++)
			add_real(&tapes[rank], s, RECEIVING, BB_STRATEGY_UPDATE, (size_t)part);
}

static void async_write(struct bb_tape *tapes, const struct bb_strategy_setting *s)
{
	const int workers = bb_strategy_workers(s);

	for (int worker = 0; worker < workers; worker++) {
		struct bb_tape *tape = &tapes[s->servers + worker];

		for (size_t step = 0; step < s->steps; step++) {
			if (step > 0)
				bb_tape_order(tape, RECEIVING, COMPUTING);
			add_batches(tape, s);
			bb_tape_order(tape, COMPUTING, SENDING);
			for (int round = 0; round < s->servers; round++) {
				const int server = (worker + round) % s->servers;

				add_end(tape, s, BB_ACT_SEND, BB_STRATEGY_PUSH, server,
					(size_t)server);
				add_end(tape, s, BB_ACT_RECV, BB_STRATEGY_PULL, server,
					(size_t)server);
			}
		}
	}
	for (int server = 0; server < s->servers; server++)
		for (size_t i = 0; i < s->steps * (size_t)workers; i++) {
			struct bb_tape *tape = &tapes[server];
			const size_t part = (size_t)server;

			add_end(tape, s, BB_ACT_RECV_ANY, BB_STRATEGY_PUSH, BB_NO_PEER, part);
			add_real(tape, s, RECEIVING, BB_STRATEGY_UPDATE, part);
			add_end(tape, s, BB_ACT_SEND, BB_STRATEGY_PULL, BB_NO_PEER, part);
		}
}

/* ---- all of them ----------------------------------------------------------------------------- */

const struct bb_strategy bb_strategies[] = {
	{BB_BY_ROOT, "dp",
	 "a root sends parameters and gathers gradients, as a single process does",
	 "C + n (L + M/B)", .synchronous = true, .write = root_write},
	{BB_BY_SERVERS, "ps",
	 "workers push gradients to k servers, which answer once all have arrived",
	 "C + (k + N) (L + M/kB), N workers; as many: C + 2 (n-1) (L + M/nB)",
	 "C + max(L + N M/kB, k L + (k + ceil(N/k) - 1) M/kB) + N (L + M/kB); as many: "
	 "C + 2 (n-1) (L + M/nB)",
	 .synchronous = true, .servers = true, .write = servers_write},
	{BB_BY_ANY_SERVER, "ps_async",
	 "servers update by each gradient as it arrives, and answer its worker",
	 "max(C + (k+1) (L + M/kB), N (L + M/kB)), N workers", .servers = true,
	 .write = async_write},
	{BB_BY_SUM, "ddp", "gradients are summed by an all-reduce, every rank updates",
	 "C + 2 (n-1) (L + M/nB)", .synchronous = true, .reduces = true, .write = peers_write},
	{BB_BY_PARTS, "zero",
	 "each rank sums and updates a part (reduce-scatter), then all gather it",
	 "C + 2 (n-1) (L + M/nB)", .synchronous = true, .reduces = true, .write = peers_write},
	{BB_BY_AVERAGE, "average",
	 "ranks update independently; every H steps parameters are averaged",
	 "C + 2 (n-1) (L + M/nB) / H", .reduces = true, .write = peers_write},
	{.name = NULL},
};

#define CODED(name_, brief_, ...)                                                                  \
	{                                                                                          \
		BB_BY_CODES, name_, brief_, NULL, NULL, true, false, true, bb_learner_write,       \
			__VA_ARGS__                                                                \
	}

const struct bb_strategy bb_coded_strategies[] = {
	CODED("fp32", "gradient descent, gradients in fp32", NULL, false, BB_ONEBIT_NONE),
	CODED("int8", "gradients in int8", "int8", false, BB_ONEBIT_NONE),
	CODED("int8-ef", "the same with error feedback", "int8", true, BB_ONEBIT_NONE),
	CODED("int4", "gradients in int4", "int4", false, BB_ONEBIT_NONE),
	CODED("int4-ef", "the same with error feedback", "int4", true, BB_ONEBIT_NONE),
	CODED("fp8", "gradients in fp8 E4M3", "fp8-e4m3", false, BB_ONEBIT_NONE),
	CODED("fp8-ef", "the same with error feedback", "fp8-e4m3", true, BB_ONEBIT_NONE),
	CODED("adam", "Adam without bias correction, fp32", NULL, false, BB_ONEBIT_ADAM),
	CODED("onebit-adam", "1-bit Adam: a fifth of the steps are warm-up", "sign", true,
	      BB_ONEBIT_ADAM),
	CODED("zero-one-adam", "0/1 Adam: local steps in the second half", "sign", true,
	      BB_ONEBIT_ZERO_ONE),
	CODED("lamb", "LAMB, fp32", NULL, false, BB_ONEBIT_LAMB),
	CODED("onebit-lamb", "1-bit LAMB: a fifth of the steps are warm-up", "sign", true,
	      BB_ONEBIT_LAMB),
	{.name = NULL},
};

/* ---- the program ----------------------------------------------------------------------------- */

bb_status bb_strategy_write(struct bb_taped *taped, const struct bb_strategy_setting *s,
			    const char *algorithm, struct bb_error *error)
{
	struct bb_program *program = &taped->program;
	const bb_status status = bb_taped_begin(taped, s->nranks, s->nranks, 1, error);

	if (status != BB_OK)
		return status;
	program->queues = QUEUES;
	program->lanes = s->strategy->reduces ? 0 : LANES;
	program->groups = s->strategy->reduces ? 1 : 0;
	program->algorithm = s->strategy->kind == BB_BY_CODES ? NULL : algorithm;
	taped->members = s->active;
	s->strategy->write(taped->tapes, s);
	return bb_taped_end(taped, s->strategy->name, error);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

struct bb_strategy_memory bb_strategy_memory(const struct bb_strategy_setting *s)
{
	const size_t element = bb_dtype_size(s->dtype);
	const uint64_t model = (uint64_t)s->elements * element; /* parameters, or gradients */
	struct bb_strategy_memory m = {2 * model, 2 * model};

	if (s->strategy->kind == BB_BY_PARTS) {
		m.most = m.worker = 2 * (uint64_t)equal_part(s) * element * (uint64_t)s->active;
	} else if (s->strategy->kind == BB_BY_CODES) {
		struct bb_learner l;

		m.most = m.worker = 2 * model + bb_learner_open(&l, s, 0, NULL, NULL);
	} else if (s->strategy->kind == BB_BY_ROOT) {
		/* The root keeps the gradients of all ranks until it sums them. */
		m.most = (uint64_t)(1 + s->active) * model;
	} else if (s->strategy->servers) {
		/* A server holds its part of the sum and of one gradient, and of the parameters if
		   it updates them. */
		m.most = (s->colocated ? m.worker : 0) +
			 (s->updates ? 3 : 2) * bb_part_count(s->elements, s->servers, 0) * element;
	}
	return m;
}

double bb_strategy_wire(const struct bb_taped *taped, const struct bb_strategy_setting *s,
			const char *algorithm)
{
	double most = 0;

	/* Ranks that communicate by collectives send the same. */
	for (int rank = 0; rank < (s->strategy->reduces ? 1 : s->active); rank++) {
		const struct bb_tape_traffic t = bb_taped_traffic(taped, rank, algorithm);

		most = fmax(most, fmax(t.sent, t.received));
	}
	return most / (double)bb_strategy_steps(s);
}
