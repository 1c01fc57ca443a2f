#include "backends/cpu/executor.h"

/* A message whose data the peer may still be reading. */
struct sent {
	const char *begin;
	const char *end;
	int peer;
	int channel;
	uint32_t ticket;
};

/* A piece of a message of a round. Pieces are received in this order. */
struct piece {
	int step;   /* in the round */
	size_t at;  /* bytes into the message */
	int source; /* 0, or 1: of the second peer */
};

struct run {
	const struct bb_executor *x;
	const struct bb_call *call;
	bb_reduce_fn *reduce;
	struct bb_step_buffers buffers;
	bool stream;
	int nsent;
	struct sent sent[BB_SENT_MOST];
	/* The pieces of this round that are expected, if the transport has expect. */
	const struct bb_step *steps;
	int nsteps;
	struct piece next; /* the first that is not yet expected */
	int nexpected, nlent;
};

static bb_status wait_for(struct run *run, int i)
{
	const struct sent s = run->sent[i];

	run->nsent--;
	for (; i < run->nsent; i++) /* the oldest stays first */
		run->sent[i] = run->sent[i + 1];
	return run->x->p2p->wait_taken(run->x->port, s.peer, s.channel, s.ticket);
}

/* Wait until no peer still reads from [begin, begin + bytes). */
static bb_status make_writable(struct run *run, const char *begin, size_t bytes)
{
	const char *end = begin + bytes;

	for (int i = run->nsent - 1; i >= 0; i--) {
		const struct sent *s = &run->sent[i];
		bb_status status;

		if (s->begin < end && begin < s->end && (status = wait_for(run, i)) != BB_OK)
			return status;
	}
	return BB_OK;
}

static bb_status send_step(struct run *run, const struct bb_step *step)
{
	const struct bb_executor *x = run->x;
	const char *data = bb_place_address(&run->buffers, step->src);
	size_t bytes = step->count * run->buffers.element;
	uint32_t ticket;
	bool lent;
	bb_status status;

	if (run->nsent == BB_SENT_MOST && (status = wait_for(run, 0)) != BB_OK)
		return status;
	status = x->p2p->send(x->port, step->peer, step->channel, data, bytes, &ticket, &lent);
	if (status == BB_OK && lent)
		run->sent[run->nsent++] =
			(struct sent){data, data + bytes, step->peer, step->channel, ticket};
	return status;
}

static bool receives(const struct bb_step *step)
{
	return step->kind == BB_RECV || step->kind == BB_RECV_REDUCE;
}

static size_t piece_length(const struct run *run, size_t bytes)
{
	const struct bb_p2p *p2p = run->x->p2p;

	return p2p->piece ? p2p->piece(run->x->port, bytes) : bytes;
}

/* Announce as many pieces to the transport as the limits allow. */
static bb_status expect_pieces(struct run *run)
{
	const struct bb_executor *x = run->x;
	struct piece *next = &run->next;
	bb_status status;

	while (next->step < run->nsteps && run->nexpected < BB_EXPECTED_MOST) {
		const struct bb_step *step = &run->steps[next->step];
		const bool lent = step->kind == BB_RECV_REDUCE;
		const size_t all = step->count * run->buffers.element,
			     length = piece_length(run, all);
		const size_t bytes = all - next->at < length ? all - next->at : length;
		char *dst = lent ? NULL : bb_place_address(&run->buffers, step->dst) + next->at;

		if (lent && run->nlent == BB_LENT_MOST)
			break;
		if (dst)
			BB_TRY(status, make_writable(run, dst, bytes), out);
		BB_TRY(status,
		       x->p2p->expect(x->port, next->source ? step->peer2 : step->peer,
				      step->channel, dst, bytes),
		       out);
		run->nexpected++;
		run->nlent += lent;
		if (next->source == 0 && step->peer2 != BB_NO_PEER) {
			next->source = 1;
			continue;
		}
		next->source = 0;
		next->at += length;
		if (next->at < all)
			continue;
		next->at = 0;
		while (++next->step < run->nsteps && !receives(&run->steps[next->step]))
			;
	}
	status = BB_OK;
out:
	return status;
}

/* Receive STEP's message piece by piece, each from every peer. */
static bb_status receive_step(struct run *run, const struct bb_step *step)
{
	const struct bb_executor *x = run->x;
	const int peers[2] = {step->peer, step->peer2};
	const int n = step->peer2 == BB_NO_PEER ? 1 : 2;
	const size_t all = step->count * run->buffers.element, length = piece_length(run, all);
	const bool stream = step->final && run->stream;
	bb_status status = make_writable(run, bb_place_address(&run->buffers, step->dst), all);

	for (size_t at = 0; at < all && status == BB_OK; at += length) {
		const size_t bytes = all - at < length ? all - at : length;
		void *dst = bb_place_address(&run->buffers, step->dst) + at;
		const void *sources[3] = {bb_place_address(&run->buffers, step->src) + at};
		/* What a reduction just read is in the cache, where a store is cheap. */
		const struct bb_reduce_args args = {.stream = stream && dst != sources[0]};

		for (int i = 0; i < n && status == BB_OK; i++)
			status = x->p2p->recv(x->port, peers[i], step->channel, bytes,
					      &sources[1 + i]);
		if (status != BB_OK)
			return status;
		if (step->kind == BB_RECV_REDUCE)
			run->reduce(&dst, 1, sources, 1 + n, bytes / run->buffers.element, &args);
		else if (dst != sources[1])
			x->kernels->copy(&dst, 1, sources[1], bytes, stream);
		for (int i = 0; i < n && x->p2p->release; i++)
			x->p2p->release(x->port, peers[i], step->channel);
		if (!x->p2p->expect)
			continue;
		run->nexpected -= n;
		run->nlent -= step->kind == BB_RECV_REDUCE ? n : 0;
		status = expect_pieces(run);
	}
	return status;
}

static bb_status run_round(struct run *run, const struct bb_step *steps, int n)
{
	bb_status status = BB_OK;

	/* Announce its pieces if the transport has expect. */
	if (run->x->p2p->expect) {
		run->steps = steps;
		run->nsteps = n;
		run->next = (struct piece){.step = -1};
		while (++run->next.step < n && !receives(&steps[run->next.step]))
			;
		status = expect_pieces(run);
	}
	for (int i = 0; i < n && status == BB_OK; i++)
		if (steps[i].kind == BB_SEND)
			status = send_step(run, &steps[i]);
	for (int i = 0; i < n && status == BB_OK; i++) {
		const size_t bytes = steps[i].count * run->buffers.element;
		const void *src = bb_place_address(&run->buffers, steps[i].src);
		void *dst = bb_place_address(&run->buffers, steps[i].dst);

		if (receives(&steps[i]))
			status = receive_step(run, &steps[i]);
		else if (steps[i].kind == BB_COPY && dst != src) {
			BB_TRY(status, make_writable(run, dst, bytes), out);
			run->x->kernels->copy(&dst, 1, src, bytes, steps[i].final && run->stream);
		}
	}
out:
	return status;
}

static size_t schedule_tmp_bytes(const struct bb_call *call, int rank)
{
	const struct bb_shape shape = bb_call_scheduled_shape(call);
	const size_t bytes =
		bb_algorithm_tmp_count(call->schedule, &shape, rank) * bb_dtype_size(call->dtype);

	return (bytes + 63) & ~(size_t)63;
}

size_t bb_execute_tmp_bytes(const struct bb_call *call, int rank)
{
	const size_t weighed = bb_call_weighs(call, rank) ? bb_call_in_bytes(call, rank) : 0;

	return schedule_tmp_bytes(call, rank) + ((weighed + 63) & ~(size_t)63);
}

bb_reduce_fn *bb_cpu_reduction(const struct bb_kernels *kernels, const struct bb_call *call)
{
	const bool sums = call->op == BB_AVG || call->op == BB_MULSUM;

	return call->collective->flags & BB_REDUCES
		       ? kernels->reduce[call->dtype][sums ? BB_SUM : call->op]
		       : NULL;
}

void bb_cpu_weigh(const struct bb_kernels *kernels, const struct bb_call *call, int rank,
		  void *weighed)
{
	const uint8_t weight = (uint8_t)bb_mulsum_weight(rank);
	const struct bb_reduce_args args = {.weight = &weight};

	kernels->reduce[call->dtype][BB_MULSUM](
		&weighed, 1, &call->in, 1, bb_collective_in(call->collective, &call->shape, rank),
		&args);
}

void bb_cpu_divide(const struct bb_kernels *kernels, const struct bb_call *call, int rank)
{
	const struct bb_reduce_args args = {.divisor = call->shape.nranks};
	const void *sum = call->out;

	kernels->reduce[call->dtype][BB_AVG](
		&(void *){call->out}, 1, &sum, 1,
		bb_collective_out(call->collective, &call->shape, rank), &args);
}

bb_status bb_execute(const struct bb_executor *executor, const struct bb_call *call)
{
	const struct bb_shape shape = bb_call_scheduled_shape(call);
	struct bb_step steps[BB_MAX_STEPS];
	struct bb_role role;
	struct run run;
	bb_status status = BB_OK;

	run.x = executor;
	run.call = call;
	run.reduce = bb_cpu_reduction(executor->kernels, call);
	run.buffers = (struct bb_step_buffers){{(char *)call->in, call->out, call->tmp},
					       bb_dtype_size(call->dtype)};
	run.stream = executor->stream;
	run.nsent = run.nexpected = run.nlent = 0;
	if (bb_call_weighs(call, executor->rank)) {
		/* The weighted copy lies behind the algorithm's TMP, and the schedule reads it. */
		run.buffers.at[BB_IN] =
			(char *)call->tmp + schedule_tmp_bytes(call, executor->rank);
		bb_cpu_weigh(executor->kernels, call, executor->rank, run.buffers.at[BB_IN]);
	}
	bb_algorithm_prepare(call->schedule, &shape, executor->rank, &role);
	for (size_t round = 0; round < role.rounds && status == BB_OK; round++)
		status = run_round(&run, steps,
				   bb_algorithm_steps(call->schedule, &shape, &role, round, steps));
	while (run.nsent > 0 && status == BB_OK)
		status = wait_for(&run, run.nsent - 1);
	if (status == BB_OK && bb_call_divides(call))
		bb_cpu_divide(executor->kernels, call, executor->rank);
	return status;
}
