/*
 * program.c - parts of a transformer as programs: their steps forward and in reverse, where
 * computations that follow each other are one operation, and the bytes that they send.
 *
 * Backward, what the gradients of inputs need is sent before those of weights are computed, which
 * so hide it.
 */
#include "training_kernels/tensor/tensor.h"

#include <string.h>

/* ---- refusals -------------------------------------------------------------------------------- */

const char *bb_tensor_refuses(const struct bb_tensor_scheme *scheme, const struct bb_tensor_size *s,
			      int nranks)
{
	const enum bb_tensor_mode mode = scheme->mode;
	const bool layer = scheme->of == BB_TENSOR_LAYER;
	const bool by_tokens = layer ? mode != BB_TENSOR_SPLIT : mode == BB_TENSOR_SEQUENCE;
	const size_t t = (size_t)nranks;

	if (!layer && scheme->of != BB_TENSOR_MLP && s->vocab == 0)
		return "the model has no vocabulary";
	if (by_tokens && s->tokens % t != 0)
		return "the number of ranks does not divide the tokens";
	if (layer && mode != BB_TENSOR_RING && (s->heads % t != 0 || s->kv_heads % t != 0))
		return "the number of ranks does not divide the heads, or those of keys and values";
	if (layer && mode != BB_TENSOR_RING && mode != BB_TENSOR_ULYSSES && s->ffn % t != 0)
		return "the number of ranks does not divide the inner width of the MLP";
	if (mode == BB_TENSOR_ROWS && s->hidden % t != 0)
		return "the number of ranks does not divide the width";
	return NULL;
}

/* ---- the builder ----------------------------------------------------------------------------- */

enum queue { COMPUTING, COMMUNICATING, SENDING = COMMUNICATING, RECEIVING, QUEUES };
enum lane { BLOCKS, GRADIENTS, LANES };

/* Computations that are not written yet. */
struct batch {
	size_t first, n; /* steps; n 0: none */
	double flops;
};

/* A program in the making. */
struct builder {
	const struct bb_tensor_form *form;
	struct bb_tape *tape;
	struct bb_tensor_state of;               /* the sizes of matrices */
	struct batch batches[BB_TW_WEIGHTS + 1]; /* [work] */
	bool joins;      /* the next computation waits for what was called */
	int sent[LANES]; /* event after the latest message of a lane; -1: none */
};

static bool communicates(const struct builder *b)
{
	return b->form->half != BB_HALF_COMPUTE;
}

static void build_compute(struct builder *b, enum bb_tensor_work work, size_t item, size_t steps,
			  double flops)
{
	if (b->form->half == BB_HALF_COMMUNICATE || (flops == 0 && !b->form->real))
		return;
	bb_tape_compute(b->tape, COMPUTING, work, item, flops * b->of.size->seconds, flops)->count =
		steps;
}

static void build_join(struct builder *b)
{
	if (b->joins && communicates(b))
		bb_tape_order(b->tape, COMMUNICATING, COMPUTING);
	b->joins = false;
}

/* Writes the computations of WORK so far as one. */
static void build_flush(struct builder *b, enum bb_tensor_work work)
{
	struct batch *batch = &b->batches[work];

	if (batch->n > 0)
		build_compute(b, work, batch->first, batch->n, batch->flops);
	*batch = (struct batch){.n = 0};
}

/* FLOPs of step P on this rank. */
static double build_flops(const struct builder *b, const struct bb_tensor_step *p, bool back)
{
	const uint8_t offset = back ? p->back : p->cost;
	double flops = 0;

	if (offset)
		memcpy(&flops, (const char *)b->of.size + offset, sizeof(flops));
	return flops / (double)b->of.t;
}

static void build_batch(struct builder *b, enum bb_tensor_work work, size_t step)
{
	const struct bb_tensor_step *p = &bb_tensor_steps[step];
	struct batch *batch = &b->batches[work];

	if (batch->n == 0)
		batch->first = step;
	batch->n = (step > batch->first ? step - batch->first : batch->first - step) + 1;
	batch->flops += build_flops(b, p, work == BB_TW_INPUT);
}

/* A collective on the results so far; computations continue until a join. */
static void build_call(struct builder *b, enum bb_tensor_work work, size_t item,
		       const struct bb_collective *collective, size_t count, enum bb_op op)
{
	const struct bb_tensor_size *size = b->of.size;
	const bool sums = collective == &bb_all_reduce;

	b->joins = true;
	if (!communicates(b))
		return;
	bb_tape_order(b->tape, COMPUTING, COMMUNICATING);
	bb_tape_collective(
		b->tape, COMMUNICATING, work, item, collective, count,
		sums && b->of.scheme->of == BB_TENSOR_LOSS ? size->loss_dtype : size->dtype, op)
		->in_place = sums;
}

/* The collective by which ranks perform a step that communicates; NULL: the scheme needs none. */
static const struct bb_collective *collective_of(const struct builder *b,
						 const struct bb_tensor_step *p, bool back)
{
	const enum bb_tensor_mode mode = b->of.scheme->mode;

	switch ((enum bb_tensor_kind)p->kind) {
	case BB_TK_EXCHANGE:
		return &bb_alltoall;
	case BB_TK_MOST:
	case BB_TK_TOTAL:
		return &bb_all_reduce;
	case BB_TK_GATHER:
	case BB_TK_SUM:
		if (mode == BB_TENSOR_SEQUENCE || mode == BB_TENSOR_GATHER)
			return (p->kind == BB_TK_GATHER) != back ? &bb_all_gather
								 : &bb_reduce_scatter;
		return mode == BB_TENSOR_SPLIT && (p->kind == BB_TK_SUM) != back ? &bb_all_reduce
										 : NULL;
	default:
		return NULL;
	}
}

/* The calls of a step. */
static void build_calls(struct builder *b, enum bb_tensor_work work, size_t step)
{
	const bool back = work == BB_TW_INPUT;
	const struct bb_tensor_step *p = &bb_tensor_steps[step];
	const struct bb_collective *collective = collective_of(b, p, back);

	for (int k = 0; k <= p->more; k++) {
		const size_t in = bb_tensor_numbers(&b->of, (back ? p->out : p->in) + k);
		const size_t out = bb_tensor_numbers(&b->of, (back ? p->in : p->out) + k);

		build_call(b, work, step + BB_TENSOR_STEPS * (size_t)k, collective,
			   collective == &bb_reduce_scatter ? out
			   : collective == &bb_alltoall     ? in / b->of.t
							    : in,
			   p->kind == BB_TK_MOST ? BB_MAX : BB_SUM);
	}
}

/* ---- the ring -------------------------------------------------------------------------------- */

/*
 * Sends the next message of LANE to the next rank, after the computations so far, and receives that
 * of the previous rank. There are two buffers: the received message replaces the one sent before,
 * which earlier computations used. Odd ranks receive first (tensor_complete). Returns the event of
 * arrival.
 */
static int ring_pass(struct builder *b, enum lane lane, enum bb_tensor_work work, size_t item)
{
	const size_t count = bb_tensor_numbers(&b->of, BB_TS_BLOCK);
	const enum bb_dtype dtype = b->of.size->dtype;
	const int done = bb_tape_record(b->tape, COMPUTING);

	bb_tape_wait(b->tape, SENDING, done);
	bb_tape_wait(b->tape, RECEIVING, done);
	if (b->sent[lane] >= 0)
		bb_tape_wait(b->tape, RECEIVING, b->sent[lane]);
	for (int end = 0; end < 2; end++)
		bb_tape_add(b->tape, (struct bb_operation){.act = end ? BB_ACT_RECV : BB_ACT_SEND,
							   .queue = end ? RECEIVING : SENDING,
							   .peer = end ? -1 : 1,
							   .work = work,
							   .item = item,
							   .lane = lane,
							   .count = count,
							   .dtype = dtype});
	b->sent[lane] = bb_tape_record(b->tape, SENDING);
	return bb_tape_record(b->tape, RECEIVING);
}

/* The core of attention, block by block; backward with gradients that go one step further. */
static void build_ring(struct builder *b, enum bb_tensor_work work, size_t step)
{
	const struct bb_tensor_step *p = &bb_tensor_steps[step];
	const bool back = work == BB_TW_INPUT, passes = communicates(b) && b->of.t > 1;
	const double flops = build_flops(b, p, back) / (double)b->of.t;
	int gradients = -1;

	for (size_t i = 0; i < b->of.t; i++) {
		const size_t item = step + BB_TENSOR_STEPS * i;
		const bool more = passes && i + 1 < b->of.t;
		const int arrived = more ? ring_pass(b, BLOCKS, work, item) : -1;

		build_compute(b, work, item, 1, flops);
		if (gradients >= 0)
			bb_tape_wait(b->tape, COMPUTING, gradients);
		if (back)
			build_compute(b, BB_TW_WEIGHTS, item, 1, 0);
		if (back && passes)
			gradients = ring_pass(b, GRADIENTS, BB_TW_WEIGHTS, item);
		if (more)
			bb_tape_wait(b->tape, COMPUTING, arrived);
	}
	build_flush(b, BB_TW_WEIGHTS);
	if (gradients >= 0)
		bb_tape_wait(b->tape, COMPUTING, gradients);
	/* Sent buffers may be written again. */
	for (int lane = 0; lane < LANES; lane++) {
		if (b->sent[lane] >= 0)
			bb_tape_wait(b->tape, COMPUTING, b->sent[lane]);
		b->sent[lane] = -1;
	}
}

/* ---- a part ---------------------------------------------------------------------------------- */

/* All steps, forward in their order or backward in reverse. */
static void build_steps(struct builder *b, bool back)
{
	const bool again = back && b->of.scheme->mode == BB_TENSOR_SEQUENCE;
	const enum bb_tensor_work work = back ? BB_TW_INPUT : BB_TW_FORWARD;

	for (size_t n = 0; n < BB_TENSOR_STEPS; n++) {
		const size_t i = back ? BB_TENSOR_STEPS - 1 - n : n;
		const struct bb_tensor_step *p = &bb_tensor_steps[i];

		if (!bb_tensor_has(b->of.scheme, p))
			continue;
		if (p->kind == BB_TK_RING || collective_of(b, p, back)) {
			build_flush(b, work);
			if (again && p->kind == BB_TK_GATHER) {
				b->joins = true;
				build_join(b);
			}
			if (p->kind == BB_TK_RING)
				build_ring(b, work, i);
			else
				build_calls(b, work, i);
			/* A sum's conjugate has gathered; the input of this block, which was not
			   kept, comes again while computations go on. */
			if (again && p->kind == BB_TK_SUM) {
				build_join(b);
				while (p > bb_tensor_steps && p->kind != BB_TK_GATHER)
					p--;
				if (bb_tensor_has(b->of.scheme, p))
					build_calls(b, BB_TW_AGAIN, (size_t)(p - bb_tensor_steps));
				b->joins = false; /* until what they compute is sent */
			}
			build_flush(b, BB_TW_WEIGHTS);
			continue;
		}
		/* Weights of a block are behind its inputs even where it sends nothing. */
		if (back && p->kind == BB_TK_NORM) {
			build_flush(b, BB_TW_INPUT);
			build_flush(b, BB_TW_WEIGHTS);
		}
		build_join(b);
		build_batch(b, work, i);
		if (back && p->kind == BB_TK_PRODUCT)
			build_batch(b, BB_TW_WEIGHTS, i);
	}
	build_flush(b, work);
	build_flush(b, BB_TW_WEIGHTS);
	build_join(b);
}

/* ---- the program ----------------------------------------------------------------------------- */

/* The peer on the tape is a step around the ring. Odd ranks receive before they send: otherwise
   ranks that do one operation at a time would all wait in their sends. */
static void tensor_complete(const void *own, int rank, struct bb_operation *o)
{
	const struct bb_program *program = own;
	const bool sends = o->act == BB_ACT_SEND, odd = rank % 2;

	if (!sends && o->act != BB_ACT_RECV)
		return;
	o->act = sends != odd ? BB_ACT_SEND : BB_ACT_RECV;
	o->queue = sends != odd ? SENDING : RECEIVING;
	o->peer = (rank + (odd ? -o->peer : o->peer) + program->nranks) % program->nranks;
}

bb_status bb_tensor_write(struct bb_taped *taped, const struct bb_tensor_form *form, int nranks,
			  struct bb_error *error)
{
	const enum bb_tensor_mode mode = form->scheme->mode;
	bb_status status = bb_taped_begin(taped, nranks, 1, 1, error);
	struct builder b = {.form = form,
			    .tape = taped->tapes,
			    .of = {.scheme = form->scheme, .size = form->size, .t = (size_t)nranks},
			    .sent = {-1, -1}};

	if (status != BB_OK)
		return status;
	build_steps(&b, false);
	bb_taped_perform(taped, 0, 0, 0, form->layers, 0);
	const size_t forward = b.tape->n;
	/* The loss computes its gradient at once, and the MLP that is wrong has none. */
	if (form->scheme->of == BB_TENSOR_LAYER || form->scheme->of == BB_TENSOR_EMBEDDING)
		build_steps(&b, true);
	/* Ranks that hold all weights sum their gradients. */
	if (form->real && (mode == BB_TENSOR_ULYSSES || mode == BB_TENSOR_RING))
		for (size_t m = 0; m < BB_TENSOR_MATRICES; m++)
			build_call(&b, BB_TW_REDUCE, BB_TENSOR_STEPS * m, &bb_all_reduce,
				   bb_tensor_numbers(&b.of, BB_TS_WEIGHTS + (int)m), BB_SUM);
	build_join(&b);
	bb_taped_perform(taped, 0, 0, forward, form->layers, 0);
	status = bb_taped_end(taped, form->scheme->part, error);
	taped->complete = tensor_complete;
	taped->own = &taped->program;
	taped->program.queues = QUEUES;
	taped->program.lanes = mode == BB_TENSOR_RING && communicates(&b) ? LANES : 0;
	taped->program.groups = communicates(&b) ? 1 : 0;
	taped->program.events *= (int)form->layers;
	return status;
}

/* ---- bytes on the wire ----------------------------------------------------------------------- */

double bb_tensor_wire_formula(const struct bb_tensor_scheme *scheme, const struct bb_tensor_size *s,
			      int nranks)
{
	const double t = nranks, others = (t - 1) / t, bytes = (double)bb_dtype_size(s->dtype);
	const double a = (double)s->tokens * (double)s->hidden * bytes;
	const double q = (double)s->tokens * (double)s->queries * bytes;
	const double k = (double)s->tokens * (double)s->keys * bytes;
	const double column = (double)s->tokens * (double)bb_dtype_size(s->loss_dtype);

	switch (scheme->mode) {
	case BB_TENSOR_SPLIT:
		if (scheme->of == BB_TENSOR_LOSS)
			return 3 * 2 * others * column;
		return (scheme->of == BB_TENSOR_LAYER ? 4 : 1) * 2 * others * a;
	case BB_TENSOR_SEQUENCE:
		return (scheme->of == BB_TENSOR_LAYER ? 10 : 2) * others * a;
	case BB_TENSOR_ULYSSES: /* of k = q = h: 8 A / t */
		return 2 * others * (2 * q + 2 * k) / t;
	case BB_TENSOR_RING:
		return nranks == 1 ? 0 : ((t - 1) + (2 * t - 1)) * 2 * k / t;
	case BB_TENSOR_GATHER:
		return others * (double)s->tokens *
		       (double)((s->vocab + (size_t)nranks - 1) / (size_t)nranks) * t * bytes;
	case BB_TENSOR_ROWS:
		break;
	}
	return 2 * others * a;
}
