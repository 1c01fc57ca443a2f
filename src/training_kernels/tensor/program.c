/*
 * program.c - parts of a transformer as programs: what can be split, its operations in their order,
 * and the bytes that they send.
 */
#include "training_kernels/tensor/program.h"

#include <stdio.h>
#include <string.h>

const struct bb_tensor_scheme bb_tensor_schemes[] = {
	{"layer", "tensor", "attention by heads, MLP by columns, then rows", BB_TENSOR_LAYER,
	 BB_TENSOR_SPLIT},
	{"layer", "sequence", "the same, and by tokens between the matrices", BB_TENSOR_LAYER,
	 BB_TENSOR_SEQUENCE},
	{"layer", "ulysses", "by tokens; attention by heads, between all-to-alls", BB_TENSOR_LAYER,
	 BB_TENSOR_ULYSSES},
	{"layer", "ring", "by tokens; blocks of keys and values go around the ring",
	 BB_TENSOR_LAYER, BB_TENSOR_RING},
	{"embedding", "tensor", "by vocabulary, summed", BB_TENSOR_EMBEDDING, BB_TENSOR_SPLIT},
	{"embedding", "sequence", "by vocabulary, summed for the tokens of each rank",
	 BB_TENSOR_EMBEDDING, BB_TENSOR_SEQUENCE},
	{"loss", "tensor", "cross-entropy of logits by vocabulary: three small all-reduces",
	 BB_TENSOR_LOSS, BB_TENSOR_SPLIT},
	{"loss", "gather", "cross-entropy of logits that every rank gathers", BB_TENSOR_LOSS,
	 BB_TENSOR_GATHER},
	{"mlp", "rows", "first matrix by rows: GeLU of partial sums, which is wrong", BB_TENSOR_MLP,
	 BB_TENSOR_ROWS},
	{.part = NULL},
};

/* Elements of a matrix of a layer. */
static size_t matrix_elements(const struct bb_tensor_size *s, int matrix)
{
	const size_t elements[BB_TENSOR_MATRICES] = {
		s->hidden * s->queries, s->hidden * s->keys, s->hidden * s->keys,
		s->queries * s->hidden, s->hidden * s->ffn,  s->ffn * s->hidden,
	};

	return elements[matrix];
}

/* Vocabulary of each of T ranks; that of the last one may be padded. */
static size_t vocab_part(const struct bb_tensor_size *s, size_t t)
{
	return (s->vocab + t - 1) / t;
}

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
				matrix_elements(s, m), BB_SUM);
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
		build_call(b, BB_TW_LOGITS, &bb_all_gather, tokens * vocab_part(b->size, b->t));
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

/* ---- the program ----------------------------------------------------------------------------- */

static const struct bb_tensor_program *of(const struct bb_program *program)
{
	return program->own;
}

static size_t tensor_program_length(const struct bb_program *program, int rank)
{
	return of(program)->tape.n * of(program)->form.layers;
}

/* Odd ranks receive before they send: otherwise ranks that do one operation at a time would all
   wait in their sends. */
static size_t in_order(const struct bb_tensor_program *p, int rank, size_t k)
{
	if (rank % 2 == 1 && p->tape.list[k].act == BB_ACT_SEND)
		return k + 1;
	return rank % 2 == 1 && p->tape.list[k].act == BB_ACT_RECV ? k - 1 : k;
}

/* Forward of all layers, then backward from the last to the first. */
static void tensor_program_operation(const struct bb_program *program, int rank, size_t index,
				     struct bb_operation *o)
{
	const struct bb_tensor_program *p = of(program);
	const size_t layers = p->form.layers, back = p->tape.n - p->forward;
	const size_t before = layers * p->forward;
	const size_t layer =
		index < before ? index / p->forward : layers - 1 - (index - before) / back;
	const size_t k = index < before ? index % p->forward : p->forward + (index - before) % back;

	*o = p->tape.list[in_order(p, rank, k)];
	o->event += (int)layer * p->tape.events;
	if (o->act == BB_ACT_SEND || o->act == BB_ACT_RECV)
		o->peer = (rank + o->peer + program->nranks) % program->nranks;
	else
		o->peer = BB_NO_PEER;
}

static void tensor_program_describe(const struct bb_program *program, const struct bb_operation *o,
				    char text[BB_PROGRAM_TEXT])
{
#define PAIR_NAME(name, text) text " attention", text " the MLP",
#define WORK_NAME(name, text) text,
	static const char *const names[] = {BB_TENSOR_WORKS(PAIR_NAME, WORK_NAME)};

	snprintf(text, BB_PROGRAM_TEXT, "%s", names[o->work]);
}

bb_status bb_tensor_program_make(struct bb_tensor_program *p, const struct bb_tensor_form *form,
				 int nranks, struct bb_error *error)
{
	static void (*const builders[])(struct builder * b) = {
		[BB_TENSOR_LAYER] = build_layer,
		[BB_TENSOR_EMBEDDING] = build_embedding,
		[BB_TENSOR_LOSS] = build_loss,
		[BB_TENSOR_MLP] = build_rows,
	};
	struct builder b = {.p = p,
			    .tape = &p->tape,
			    .size = form->size,
			    .mode = form->scheme->mode,
			    .t = (size_t)nranks,
			    .sent = {-1, -1}};

	*p = (struct bb_tensor_program){.form = *form};
	p->program = (struct bb_program){
		.own = p,
		.nranks = nranks,
		.length = tensor_program_length,
		.operation = tensor_program_operation,
		.group_size = bb_program_all_ranks,
		.member = bb_program_rank_itself,
		.describe = tensor_program_describe,
	};
	builders[form->scheme->of](&b);
	p->program.queues = QUEUES;
	p->program.lanes = b.mode == BB_TENSOR_RING && communicates(&b) ? LANES : 0;
	p->program.groups = communicates(&b) ? 1 : 0;
	p->program.events = p->tape.events * (int)form->layers;
	return p->tape.failed ? bb_no_memory(error, form->scheme->part) : BB_OK;
}

void bb_tensor_program_free(struct bb_tensor_program *p)
{
	bb_tape_free(&p->tape);
}

/* ---- bytes on the wire ----------------------------------------------------------------------- */

double bb_tensor_wire_counted(const struct bb_tensor_program *p, size_t *calls)
{
	const int nranks = p->program.nranks;
	double bytes = 0;
	size_t n = 0;

	for (size_t i = 0; i < p->tape.n; i++) {
		const struct bb_operation *o = &p->tape.list[i];
		const struct bb_shape shape = {
			.nranks = nranks, .in_place = o->in_place, .count = o->count};
		size_t wire = 0;

		n += o->act == BB_ACT_COLLECTIVE || o->act == BB_ACT_SEND;
		if (o->act == BB_ACT_SEND)
			bytes += (double)bb_operation_bytes(o);
		if (o->act != BB_ACT_COLLECTIVE || nranks == 1)
			continue;
		bb_algorithm_cost(bb_algorithm_cheapest(o->collective, &shape, 0, 1), &shape, NULL,
				  &wire);
		bytes += (double)(wire * bb_dtype_size(o->dtype));
	}
	if (calls)
		*calls = n * p->form.layers;
	return bytes * (double)p->form.layers;
}

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
		return others * (double)s->tokens * (double)vocab_part(s, (size_t)nranks) * t *
		       bytes;
	case BB_TENSOR_ROWS:
		break;
	}
	return 2 * others * a;
}
