/*
 * build.c - the operations of a layer, in their order.
 */
#include "training_kernels/tensor/program.h"

enum queue { COMPUTING, COMMUNICATING, SENDING = COMMUNICATING, RECEIVING, QUEUES };
enum lane { BLOCKS, GRADIENTS, LANES };

#define ATTENTION 0 /* added to a work: its half of the layer */
#define MLP 1

/* ---- the builder ----------------------------------------------------------------------------- */

/* A program in the making. */
struct builder {
	struct bb_tensor_program *p;
	struct bb_tape *tape; /* of P */
	const struct bb_tensor_size *size;
	enum bb_tensor_mode mode;
	size_t t;
	int sent[LANES]; /* event after the latest message of a lane; -1: none */
};

static bool communicates(const struct builder *b)
{
	return b->p->form.half != BB_TENSOR_COMPUTE;
}

static void build_compute_item(struct builder *b, int work, size_t item,
			       struct bb_tensor_cost whole, double times)
{
	const double share = times / (double)b->t;

	if (b->p->form.half == BB_TENSOR_COMMUNICATE || (whole.flops == 0 && !b->p->form.real))
		return;
	bb_tape_add(b->tape, (struct bb_operation){.act = BB_ACT_COMPUTE,
						   .queue = COMPUTING,
						   .work = work,
						   .item = item,
						   .seconds = whole.seconds * share,
						   .flops = whole.flops * share});
}

/* A memory-bound computation, which counts as 0 seconds. */
static void build_untimed(struct builder *b, int work)
{
	build_compute_item(b, work, 0, (struct bb_tensor_cost){0}, 1);
}

/* The rank's part of TIMES WHOLE. */
static void build_compute(struct builder *b, int work, struct bb_tensor_cost whole, double times)
{
	build_compute_item(b, work, 0, whole, times);
}

/* A collective of the results so far; computations continue until join. */
static void build_call_item(struct builder *b, int work, size_t item,
			    const struct bb_collective *collective, size_t count, enum bb_op op)
{
	const bool loss = b->p->form.scheme->of == BB_TENSOR_LOSS && collective == &bb_all_reduce;

	if (!communicates(b))
		return;
	bb_tape_order(b->tape, COMPUTING, COMMUNICATING);
	bb_tape_add(b->tape,
		    (struct bb_operation){.act = BB_ACT_COLLECTIVE,
					  .queue = COMMUNICATING,
					  .work = work,
					  .item = item,
					  .collective = collective,
					  .count = count,
					  .dtype = loss ? b->size->loss_dtype : b->size->dtype,
					  .op = op,
					  .in_place = collective == &bb_all_reduce});
}

static void build_call(struct builder *b, int work, const struct bb_collective *collective,
		       size_t count)
{
	build_call_item(b, work, 0, collective, count, BB_SUM);
}

static void build_join(struct builder *b)
{
	if (communicates(b))
		bb_tape_order(b->tape, COMMUNICATING, COMPUTING);
}

/* ---- a layer --------------------------------------------------------------------------------- */

static size_t activation(const struct builder *b)
{
	return b->size->tokens * b->size->hidden;
}

static bool is_split(const struct builder *b)
{
	return b->mode == BB_TENSOR_SPLIT || b->mode == BB_TENSOR_SEQUENCE;
}

static void build_sum(struct builder *b, int work)
{
	if (b->mode == BB_TENSOR_SEQUENCE)
		build_call(b, work, &bb_reduce_scatter, activation(b) / b->t);
	else
		build_call(b, work, &bb_all_reduce, activation(b));
}

static void build_gather(struct builder *b, int work)
{
	if (b->mode == BB_TENSOR_SEQUENCE)
		build_call(b, work, &bb_all_gather, activation(b) / b->t);
}

/* COST: of all matrices, with the core of attention. */
static void build_block(struct builder *b, int whose, struct bb_tensor_cost cost)
{
	build_untimed(b, BB_TW_NORM + whose);
	build_gather(b, BB_TW_GATHER + whose);
	if (is_split(b))
		build_join(b);
	build_compute(b, BB_TW_INNER + whose, cost, 1);
	if (is_split(b)) {
		build_sum(b, BB_TW_SUM + whose);
		build_join(b);
	}
	build_untimed(b, BB_TW_ADD + whose);
}

/* The gradient of the input is summed while those of the weights are computed. INPUT: cost of the
   former; WEIGHTS: cost of the latter. */
static void build_back_block(struct builder *b, int whose, struct bb_tensor_cost input,
			     struct bb_tensor_cost weights)
{
	if (b->mode == BB_TENSOR_SEQUENCE) {
		build_gather(b, BB_TW_BACK_GATHER + whose);
		build_join(b);
		build_gather(b, BB_TW_GATHER_AGAIN + whose);
	}
	build_compute(b, BB_TW_BACK_INNER + whose, input, 1);
	if (b->mode == BB_TENSOR_SEQUENCE)
		build_join(b);
	if (is_split(b))
		build_sum(b, BB_TW_BACK_SUM + whose);
	build_compute(b, BB_TW_WEIGHTS + whose, weights, 1);
	if (is_split(b))
		build_join(b);
	build_untimed(b, BB_TW_BACK_NORM + whose);
}

/* A X + B Y. */
static struct bb_tensor_cost cost_add(double a, struct bb_tensor_cost x, double b,
				      struct bb_tensor_cost y)
{
	return (struct bb_tensor_cost){a * x.seconds + b * y.seconds, a * x.flops + b * y.flops};
}

/* ---- attention by tokens: ulysses ------------------------------------------------------------ */

/* All-to-all of a matrix of WIDTH columns, from tokens to heads or back. */
static void exchange_all(struct builder *b, int work, size_t item, size_t width)
{
	build_call_item(b, work, item, &bb_alltoall, b->size->tokens / b->t * (width / b->t),
			BB_SUM);
}

static void exchange_inputs(struct builder *b, int work)
{
	exchange_all(b, work, 0, b->size->queries);
	exchange_all(b, work, 1, b->size->keys);
	exchange_all(b, work, 2, b->size->keys);
}

static void build_ulysses(struct builder *b)
{
	build_untimed(b, BB_TW_NORM);
	build_compute(b, BB_TW_PROJECT, b->size->project, 1);
	exchange_inputs(b, BB_TW_TO_HEADS);
	build_join(b);
	build_compute(b, BB_TW_CORE, b->size->core, 1);
	exchange_all(b, BB_TW_TO_TOKENS, 0, b->size->queries);
	build_join(b);
	build_compute(b, BB_TW_OUTPUT, b->size->output, 1);
	build_untimed(b, BB_TW_ADD);
}

static void build_back_ulysses(struct builder *b)
{
	build_compute(b, BB_TW_BACK_OUTPUT, b->size->output, 1);
	exchange_all(b, BB_TW_BACK_TO_HEADS, 0, b->size->queries);
	build_compute(b, BB_TW_OUTPUT_WEIGHTS, b->size->output, 1);
	build_join(b);
	build_compute(b, BB_TW_BACK_CORE, b->size->core_back, 1);
	exchange_inputs(b, BB_TW_BACK_TO_TOKENS);
	build_join(b);
	build_compute(b, BB_TW_BACK_PROJECT, b->size->project, 2);
	build_untimed(b, BB_TW_BACK_NORM);
}

/* ---- attention by tokens: ring --------------------------------------------------------------- */

/*
 * Sends the next message of LANE to the next rank, after the computations so far, and receives that
 * of the previous rank. There are two buffers: the received message replaces the one sent before,
 * which earlier computations used. Odd ranks receive first (see operation). Returns the event of
 * arrival.
 */
static int ring_pass(struct builder *b, enum lane lane, int work, size_t item)
{
	const struct bb_operation message = {
		.work = work,
		.item = item,
		.lane = lane,
		.count = b->size->tokens / b->t * 2 * b->size->keys,
		.dtype = b->size->dtype,
	};
	struct bb_operation send = message, recv = message;
	const int done = bb_tape_record(b->tape, COMPUTING);

	bb_tape_wait(b->tape, SENDING, done);
	bb_tape_wait(b->tape, RECEIVING, done);
	if (b->sent[lane] >= 0)
		bb_tape_wait(b->tape, RECEIVING, b->sent[lane]);
	send.act = BB_ACT_SEND;
	send.queue = SENDING;
	send.peer = 1;
	recv.act = BB_ACT_RECV;
	recv.queue = RECEIVING;
	recv.peer = -1;
	bb_tape_add(b->tape, send);
	bb_tape_add(b->tape, recv);
	b->sent[lane] = bb_tape_record(b->tape, SENDING);
	return bb_tape_record(b->tape, RECEIVING);
}

/* Sent buffers may be written again. */
static void end_lane(struct builder *b, enum lane lane)
{
	if (b->sent[lane] >= 0)
		bb_tape_wait(b->tape, COMPUTING, b->sent[lane]);
	b->sent[lane] = -1;
}

static void build_ring(struct builder *b)
{
	build_untimed(b, BB_TW_NORM);
	build_compute(b, BB_TW_PROJECT, b->size->project, 1);
	for (size_t i = 0; i < b->t; i++) {
		const bool more = communicates(b) && i + 1 < b->t;
		const int arrived = more ? ring_pass(b, BLOCKS, BB_TW_PASS, i) : -1;

		build_compute_item(b, BB_TW_BLOCK, i, b->size->core, 1.0 / (double)b->t);
		if (more)
			bb_tape_wait(b->tape, COMPUTING, arrived);
	}
	end_lane(b, BLOCKS);
	build_compute(b, BB_TW_OUTPUT, b->size->output, 1);
	build_untimed(b, BB_TW_ADD);
}

static void build_back_ring(struct builder *b)
{
	const bool passes = communicates(b) && b->t > 1;
	int gradients = -1;

	build_compute(b, BB_TW_BACK_OUTPUT, b->size->output, 1);
	for (size_t i = 0; i < b->t; i++) {
		const bool more = passes && i + 1 < b->t;
		const int arrived = more ? ring_pass(b, BLOCKS, BB_TW_PASS, i) : -1;

		build_compute_item(b, BB_TW_BACK_BLOCK, i, b->size->core_back, 1.0 / (double)b->t);
		if (gradients >= 0)
			bb_tape_wait(b->tape, COMPUTING, gradients);
		build_compute_item(b, BB_TW_BACK_ADD, i, (struct bb_tensor_cost){0}, 1);
		if (passes)
			gradients = ring_pass(b, GRADIENTS, BB_TW_BACK_PASS, i);
		if (more)
			bb_tape_wait(b->tape, COMPUTING, arrived);
	}
	build_compute(b, BB_TW_OUTPUT_WEIGHTS, b->size->output, 1);
	if (passes)
		bb_tape_wait(b->tape, COMPUTING, gradients);
	end_lane(b, BLOCKS);
	end_lane(b, GRADIENTS);
	build_compute(b, BB_TW_BACK_PROJECT, b->size->project, 2);
	build_untimed(b, BB_TW_BACK_NORM);
}

/* ---- parts ----------------------------------------------------------------------------------- */

static void build_layer(struct builder *b)
{
	const struct bb_tensor_size *s = b->size;
	const struct bb_tensor_cost matrices = cost_add(1, s->project, 1, s->output);

	if (is_split(b))
		build_block(b, ATTENTION, cost_add(1, matrices, 1, s->core));
	else if (b->mode == BB_TENSOR_ULYSSES)
		build_ulysses(b);
	else
		build_ring(b);
	build_block(b, MLP, s->mlp);
	b->p->forward = b->tape->n;
	build_back_block(b, MLP, s->mlp, s->mlp);
	if (is_split(b))
		build_back_block(b, ATTENTION, cost_add(1, matrices, 1, s->core_back), matrices);
	else if (b->mode == BB_TENSOR_ULYSSES)
		build_back_ulysses(b);
	else
		build_back_ring(b);
	for (int m = 0; m < BB_TENSOR_MATRICES && !is_split(b) && b->p->form.real; m++)
		build_call_item(b, BB_TW_REDUCE_WEIGHTS, (size_t)m, &bb_all_reduce,
				bb_tensor_matrix(s, m), BB_SUM);
	if (!is_split(b) && b->p->form.real)
		build_join(b);
}

static void build_embedding(struct builder *b)
{
	build_untimed(b, BB_TW_LOOKUP);
	build_sum(b, BB_TW_EMBED_SUM);
	build_join(b);
	b->p->forward = b->tape->n;
	build_gather(b, BB_TW_EMBED_GATHER);
	if (b->mode == BB_TENSOR_SEQUENCE)
		build_join(b);
	build_untimed(b, BB_TW_EMBED_BACK);
}

static void build_loss(struct builder *b)
{
	const size_t tokens = b->size->tokens;

	if (b->mode == BB_TENSOR_GATHER) {
		build_call(b, BB_TW_LOGITS, &bb_all_gather,
			   tokens * bb_tensor_vocab_part(b->size, b->t));
		build_join(b);
		build_untimed(b, BB_TW_LOSS_WHOLE);
	} else {
		build_untimed(b, BB_TW_LOSS_MAX);
		build_call_item(b, BB_TW_ALL_MAX, 0, &bb_all_reduce, tokens, BB_MAX);
		build_join(b);
		build_untimed(b, BB_TW_LOSS_EXP);
		build_call(b, BB_TW_ALL_TARGET, &bb_all_reduce, tokens);
		build_call(b, BB_TW_ALL_EXP, &bb_all_reduce, tokens);
		build_join(b);
		build_untimed(b, BB_TW_LOSS_END);
	}
	b->p->forward = b->tape->n;
}

static void build_rows(struct builder *b)
{
	build_compute(b, BB_TW_ROWS, b->size->mlp, 1);
	build_call(b, BB_TW_ROWS_SUM, &bb_all_reduce, activation(b));
	build_join(b);
	b->p->forward = b->tape->n;
}

void bb_tensor_program_build(struct bb_tensor_program *p)
{
	static void (*const builders[])(struct builder * b) = {
		[BB_TENSOR_LAYER] = build_layer,
		[BB_TENSOR_EMBEDDING] = build_embedding,
		[BB_TENSOR_LOSS] = build_loss,
		[BB_TENSOR_MLP] = build_rows,
	};
	struct builder b = {.p = p,
			    .tape = &p->tape,
			    .size = p->form.size,
			    .mode = p->form.scheme->mode,
			    .t = (size_t)p->program.nranks,
			    .sent = {-1, -1}};

	builders[p->form.scheme->of](&b);
	p->program.queues = QUEUES;
	p->program.lanes = b.mode == BB_TENSOR_RING && communicates(&b) ? LANES : 0;
	p->program.groups = communicates(&b) ? 1 : 0;
	p->program.events = p->tape.events * (int)p->form.layers;
}
