/*
 * program.c - the program of a pipeline, whose passes are expanded into layers.
 *
 * The operations of a stage are those of the pipeline, in their order, with each pass in pieces: a
 * computation, an all-reduce, a computation, … So they can be done one at a time if those of the
 * pipeline can. All ranks of a stage perform the same tapes: a forward and a backward pass are
 * written once, and performed for each micro-batch.
 */
#include "training_kernels/hybrid/program.h"

#include "models/memory/training.h"
#include "training_kernels/pipeline/program.h"

/* The families of groups, in the order of their numbers: tensor ranks; replicas; replicas with the
   same experts; first and last stages. Groups of one rank do not count. */
enum family { TENSOR, REPLICAS, ALIKE, ENDS };

static const enum bb_axis axes[BB_HYBRID_FAMILIES] = {BB_AXIS_TP, BB_AXIS_DP, BB_AXIS_EDP,
						      BB_AXIS_PP};

/*
 * Tapes of a stage: operations between its passes, and those of a pass, whose exchanges record
 * events. On them a collective has its family as group, a message to or from another stage that
 * stage as peer, and a message of an exchange its number as item.
 */
enum { BETWEEN, FORWARD, BACKWARD, TAPES };

/* ---- sizes ----------------------------------------------------------------------------------- */

size_t bb_hybrid_part(const struct bb_hybrid_shape *s, int half, int rank)
{
	if (!s->sequence_parallel)
		return s->activation;
	if (half == 0 || !s->load)
		return s->activation / (size_t)s->grid.tp;
	return s->hidden *
	       (size_t)bb_moe_rows_at(s->load, bb_grid_place(&s->grid, BB_AXIS_EP, rank));
}

static bool shares_embedding(const struct bb_hybrid_shape *s)
{
	return s->shared > 0 && s->grid.pp > 1;
}

/* ---- functions of the program ---------------------------------------------------------------- */

static int hybrid_stage_of(const void *own, int rank)
{
	return bb_grid_place(&((const struct bb_hybrid_program *)own)->shape.grid, BB_AXIS_PP,
			     rank);
}

/* The program's own, and the family of GROUP. */
static const struct bb_hybrid_program *hybrid_of(const struct bb_program *program, int group,
						 enum family *family)
{
	const struct bb_hybrid_program *h = ((const struct bb_taped *)program->own)->own;

	*family = TENSOR;
	while (group >= h->first[*family + 1])
		(*family)++;
	return h;
}

static int hybrid_group_size(const struct bb_program *program, int group)
{
	enum family family;
	const struct bb_hybrid_program *h = hybrid_of(program, group, &family);

	return family == ENDS ? 2 : bb_grid_size(&h->shape.grid, axes[family]);
}

static int hybrid_member(const struct bb_program *program, int group, int i)
{
	enum family family;
	const struct bb_hybrid_program *h = hybrid_of(program, group, &family);

	return bb_grid_member(&h->shape.grid, axes[family], group - h->first[family],
			      family == ENDS ? i * (h->shape.grid.pp - 1) : i);
}

static void hybrid_complete(const void *own, int rank, struct bb_operation *o)
{
	const struct bb_hybrid_program *h = own;
	const struct bb_grid *g = &h->shape.grid;
	enum bb_axis axis = o->work == BB_HYBRID_EXPERT ? BB_AXIS_EP : BB_AXIS_PP;

	if (o->act == BB_ACT_COLLECTIVE) {
		axis = axes[o->group];
		o->group = h->first[o->group] + bb_grid_group(g, axis, rank);
		if (o->work == BB_HYBRID_TENSOR && o->item == 1)
			o->count = bb_hybrid_part(&h->shape, 1, rank);
	} else if (o->act == BB_ACT_SEND || o->act == BB_ACT_RECV) {
		if (axis == BB_AXIS_EP)
			bb_moe_message(h->exchange.load, bb_grid_place(g, axis, rank), o);
		o->peer = bb_grid_member(g, axis, bb_grid_group(g, axis, rank), o->peer);
	}
}

/* ---- a pass ---------------------------------------------------------------------------------- */

/* Writes to TAPE the operations of the parts that the program has. */
struct writer {
	const struct bb_hybrid_shape *s;
	const struct bb_moe_exchange *exchange;
	struct bb_tape *tape;
	bool backward;
};

static void write_collective(const struct writer *w, enum family family, enum bb_hybrid_work work,
			     size_t item, const struct bb_collective *collective, size_t count,
			     enum bb_dtype dtype)
{
	if (!(w->s->parts & (unsigned)work))
		return;
	struct bb_operation *const o =
		bb_tape_collective(w->tape, BB_HYBRID_COMPUTES, work, item, collective, count,
				   dtype, work == BB_HYBRID_DATA ? BB_AVG : BB_SUM);
	o->group = family;
	o->in_place = work != BB_HYBRID_TENSOR;
}

/* Most models compute nothing in the embedding. */
static void write_compute(const struct writer *w, const struct bb_hybrid_time *t, int pieces)
{
	const double both = t->forward_s + t->backward_s;
	const double mine = w->backward ? t->backward_s : t->forward_s;

	if (w->s->parts & BB_HYBRID_COMPUTE && both > 0)
		bb_tape_compute(w->tape, BB_HYBRID_COMPUTES, BB_HYBRID_COMPUTE, 0, mine / pieces,
				t->flops * mine / both / pieces);
}

/* The tensor ranks gather an activation, or sum it; ROWS: that of a half with rows of experts. */
static void write_tensor(const struct writer *w, bool gathers, bool rows)
{
	const struct bb_hybrid_shape *s = w->s;

	if (s->grid.tp > 1 && (s->sequence_parallel || !gathers))
		write_collective(w, TENSOR, BB_HYBRID_TENSOR, rows,
				 gathers                ? &bb_all_gather
				 : s->sequence_parallel ? &bb_reduce_scatter
							: &bb_all_reduce,
				 bb_hybrid_part(s, 0, 0), s->dtype);
}

/* The second half of a layer without experts communicates as the first. */
static void write_layers(struct writer w, int stage, bool backward)
{
	const struct bb_hybrid_shape *s = w.s;
	const uint64_t layers = (uint64_t)s->layers, pp = (uint64_t)s->grid.pp;
	const int begin = (int)bb_layers_before(layers, pp, (uint64_t)stage);
	const int end = (int)bb_layers_before(layers, pp, (uint64_t)stage + 1);

	w.backward = backward;
	for (int i = 0; i < BB_HYBRID_HALVES * (end - begin); i++) {
		const int at =
			backward ? BB_HYBRID_HALVES * end - 1 - i : BB_HYBRID_HALVES * begin + i;
		const bool dense =
			s->model && !bb_model_block(s->model, at / BB_HYBRID_HALVES).sparse;
		const bool rows = at % BB_HYBRID_HALVES == 1 && !dense;
		const bool moves = rows && w.exchange->load;

		if (moves)
			bb_moe_write(w.exchange, w.tape, BB_HYBRID_EXPERT, false, true, true);
		for (int n = 0; n <= backward; n++)
			write_tensor(&w, true, rows);
		write_compute(&w, dense ? &s->dense_layer : &s->layer, BB_HYBRID_HALVES);
		write_tensor(&w, false, rows);
		if (moves)
			bb_moe_write(w.exchange, w.tape, BB_HYBRID_EXPERT, true, true, true);
	}
}

/* A pass of all layers of STAGE, with the embedding or the head. */
static void write_pass(const struct writer *w, int stage)
{
	const struct bb_hybrid_shape *s = w->s;
	/* The stages, of which one is an end of the model, where the pass begins and ends. */
	const int begin = w->backward ? s->grid.pp - 1 : 0, end = s->grid.pp - 1 - begin;

	if (stage == begin) {
		write_compute(w, w->backward ? &s->head : &s->embedding, 1);
		write_tensor(w, false, false);
	}
	if (w->backward && s->recomputes)
		write_layers(*w, stage, false);
	write_layers(*w, stage, w->backward);
	if (stage != end)
		return;
	write_tensor(w, true, false);
	write_compute(w, w->backward ? &s->embedding : &s->head, 1);
	/* Three numbers per token, one after another. */
	for (int i = 0; i < 3 && s->grid.tp > 1 && !w->backward; i++)
		write_collective(w, TENSOR, BB_HYBRID_TENSOR, BB_HYBRID_LOSS, &bb_all_reduce,
				 s->tokens, BB_FLOAT);
}

/* ---- a stage --------------------------------------------------------------------------------- */

/* Writes stage number NUMBER of the pipeline BASE: its passes, and what follows them. */
static void write_stage(struct bb_taped *taped, const struct bb_hybrid_program *h, int number,
			const struct bb_program *base)
{
	const struct bb_hybrid_shape *s = &h->shape;
	struct bb_tape *tapes = &taped->tapes[number * TAPES];
	struct bb_tape *between = &tapes[BETWEEN];
	const struct writer w = {.s = s, .tape = between};
	int events = s->parts & BB_HYBRID_PIPELINE ? base->events : 0;
	size_t written = 0;

	for (int pass = FORWARD; pass <= BACKWARD; pass++)
		write_pass(&(struct writer){s, &h->exchange, &tapes[pass], pass == BACKWARD},
			   number);
	for (size_t i = 0; i < base->length(base, number); i++) {
		struct bb_operation o = bb_program_at(base, number, i);

		if (o.act == BB_ACT_COMPUTE) {
			const int pass = o.work == BB_PASS_F ? FORWARD : BACKWARD;

			bb_taped_perform(taped, number, BETWEEN, written, 1, 0);
			written = between->n;
			bb_taped_perform(taped, number, pass, 0, 1, events);
			events += tapes[pass].events;
		} else if (s->parts & BB_HYBRID_PIPELINE) {
			o.work = BB_HYBRID_PIPELINE;
			o.dtype = s->dtype;
			bb_tape_add(between, o);
		}
	}
	if (shares_embedding(s) && (number == 0 || number == s->grid.pp - 1))
		write_collective(&w, ENDS, BB_HYBRID_EMBEDDING, 0, &bb_all_reduce, s->shared,
				 s->gradient_dtype);
	for (int turn = 0; turn <= s->zero; turn++)
		for (int experts = 0; experts <= (s->experts != NULL); experts++) {
			const enum family family = experts && s->grid.ep > 1 ? ALIKE : REPLICAS;
			const uint64_t n = (experts ? s->experts : s->gradients)[number];
			const uint64_t ranks = (uint64_t)bb_grid_size(&s->grid, axes[family]);

			if (ranks > 1)
				write_collective(&w, family, BB_HYBRID_DATA, (size_t)experts,
						 !s->zero    ? &bb_all_reduce
						 : turn == 0 ? &bb_reduce_scatter
							     : &bb_all_gather,
						 (size_t)(s->zero ? bb_partition(n, ranks) : n),
						 turn == 0 ? s->gradient_dtype : s->dtype);
		}
	bb_taped_perform(taped, number, BETWEEN, written, 1, 0);
	if (taped->program.events < events)
		taped->program.events = events;
}

/* ---- the program ----------------------------------------------------------------------------- */

bb_status bb_hybrid_write(struct bb_taped *taped, struct bb_hybrid_program *h,
			  const struct bb_hybrid_shape *s, const char *algorithm,
			  struct bb_error *error)
{
	const int stages = s->grid.pp;
	const struct bb_pipeline pipeline = {.stages = stages,
					     .microbatches = s->micro_batches,
					     .chunks = 1,
					     .f = 1000,
					     .b = 1000,
					     .w = 1000};
	const struct bb_pipeline_form form = {.elements = bb_hybrid_part(s, 0, 0)};
	const bool messages = s->parts & BB_HYBRID_PIPELINE;
	const bool exchanges = s->parts & BB_HYBRID_EXPERT && s->load && s->grid.ep > 1;
	const bool has[BB_HYBRID_FAMILIES] = {true, true, s->experts && s->grid.ep > 1,
					      shares_embedding(s)};
	struct bb_program *const program = &taped->program;
	struct bb_order order = {.passes = NULL};
	struct bb_pipeline_program base = {.messages = 0};
	bb_status status = bb_taped_begin(taped, bb_grid_ranks(&s->grid), stages, TAPES, error);

	BB_TRY(status, status, out);
	program->algorithm = algorithm;
	taped->sequence_of = hybrid_stage_of;
	taped->complete = hybrid_complete;
	taped->own = h;
	*h = (struct bb_hybrid_program){.shape = *s};
	if (3 * (int64_t)stages * s->micro_batches > BB_PIPELINE_PASSES)
		BB_TRY(status,
		       bb_fail(error, BB_EUSAGE,
			       "--pp and --batch make more than %lld passes; give less",
			       (long long)BB_PIPELINE_PASSES),
		       out);
	BB_TRY(status, bb_order_make(bb_pipeline_find("1f1b"), &pipeline, &order, error), out);
	BB_TRY(status, bb_pipeline_program_make(&base, &order, &form, error), out);
	/* Queues and lanes of exchanges follow those of the pipeline. */
	program->queues = messages ? base.program.queues : 1;
	program->lanes = messages ? base.program.lanes : 0;
	h->exchange = (struct bb_moe_exchange){.load = exchanges ? s->load : NULL,
					       .hidden = s->hidden,
					       .dtype = s->dtype,
					       .computes = BB_HYBRID_COMPUTES,
					       .sends = program->queues,
					       .lane = program->lanes};
	program->queues += exchanges ? 2 : 0;
	program->lanes += exchanges ? BB_MOE_LANES : 0;
	for (int f = 0; f < BB_HYBRID_FAMILIES; f++)
		h->first[f + 1] = h->first[f] + (has[f] && bb_grid_size(&s->grid, axes[f]) > 1
							 ? bb_grid_groups(&s->grid, axes[f])
							 : 0);
	program->groups = h->first[BB_HYBRID_FAMILIES];
	program->group_size = hybrid_group_size;
	program->member = hybrid_member;
	for (int stage = 0; stage < stages; stage++)
		write_stage(taped, h, stage, &base.program);
	status = bb_taped_end(taped, "a step's program", error);
out:
	bb_pipeline_program_free(&base);
	bb_order_free(&order);
	return status;
}
