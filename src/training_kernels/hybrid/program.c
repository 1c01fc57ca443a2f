/*
 * program.c - the program of a pipeline, whose passes are expanded into layers.
 *
 * The operations of a stage are those of the pipeline, in their order, with each pass in pieces: a
 * computation, an all-reduce, a computation, … So they can be done one at a time if those of the
 * pipeline can. They are the same for all ranks of the stage.
 */
#include "training_kernels/hybrid/program.h"

#include "core/array.h"
#include "models/memory/training.h"
#include "training_kernels/moe/exchange.h"
#include "training_kernels/pipeline/program.h"

#include <stdio.h>
#include <stdlib.h>

enum kind { BASE, COMPUTE, SUM, GATHER, LOSS, FORK, MESSAGE, JOIN, EMBEDDING, DATA };

/* The subject of a computation. */
enum subject { LAYER, DENSE_LAYER, LOOK_UP, HEAD };

/* One operation: operation BASE of the pipeline, or a piece of that pass. */
struct step {
	size_t base;
	int event;     /* FORK, JOIN: the first event */
	uint32_t k;    /* FORK, MESSAGE, JOIN: its number; COMPUTE: enum subject */
	uint8_t kind;  /* enum kind */
	uint8_t half;  /* of the layer, 1: has rows of experts; DATA: 1 for experts */
	bool backward; /* COMPUTE */
	bool last;     /* the second of two exchanges of a half, or of ZeRO's two collectives */
};

/* The families of groups, in the order of their numbers: tensor ranks; replicas; replicas with the
   same experts; first and last stages. Groups of one rank do not count. */
enum family { TENSOR, REPLICAS, ALIKE, ENDS, FAMILIES };

struct bb_hybrid_program {
	struct bb_hybrid_shape shape;
	struct bb_pipeline pipeline;
	struct bb_order order;
	struct bb_pipeline_program base;
	struct bb_moe_exchange exchange;
	int first[FAMILIES + 1]; /* first group of each family */
	int events;              /* of the pipeline, before those of exchanges */
	struct step *steps;      /* of all stages */
	size_t nsteps, room;
	size_t *begins; /* [stage], one more for the end */
};

static const enum bb_axis axes[FAMILIES] = {BB_AXIS_TP, BB_AXIS_DP, BB_AXIS_EDP, BB_AXIS_PP};

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

size_t bb_hybrid_boundary(const struct bb_hybrid_shape *s)
{
	return s->sequence_parallel ? s->activation / (size_t)s->grid.tp : s->activation;
}

/* The replicas that share gradients and parameters, of experts or all others. */
static enum family holders(const struct bb_hybrid_shape *s, bool experts)
{
	return experts && s->grid.ep > 1 ? ALIKE : REPLICAS;
}

/* ---- functions of the program ---------------------------------------------------------------- */

static int hybrid_stage(const struct bb_hybrid_program *h, int rank)
{
	return bb_grid_place(&h->shape.grid, BB_AXIS_PP, rank);
}

static size_t hybrid_program_length(const struct bb_program *program, int rank)
{
	const struct bb_hybrid_program *h = program->own;
	const int stage = hybrid_stage(h, rank);

	return h->begins[stage + 1] - h->begins[stage];
}

static enum family family_of(const struct bb_hybrid_program *h, int group)
{
	int family = TENSOR;

	while (group >= h->first[family + 1])
		family++;
	return (enum family)family;
}

static int hybrid_group_size(const struct bb_program *program, int group)
{
	const struct bb_hybrid_program *h = program->own;
	const enum family family = family_of(h, group);

	return family == ENDS ? 2 : bb_grid_size(&h->shape.grid, axes[family]);
}

static int hybrid_member(const struct bb_program *program, int group, int i)
{
	const struct bb_hybrid_program *h = program->own;
	const enum family family = family_of(h, group);

	return bb_grid_member(&h->shape.grid, axes[family], group - h->first[family],
			      family == ENDS ? i * (h->shape.grid.pp - 1) : i);
}

/* A collective of tensor ranks, replicas or ends. The loss takes three numbers per token, one after
   another. */
static void hybrid_collective(const struct bb_hybrid_program *h, int rank, const struct step *step,
			      struct bb_operation *o)
{
	const struct bb_hybrid_shape *s = &h->shape;
	const bool experts = step->kind == DATA && step->half == 1;
	const uint64_t *elements = experts ? s->experts : s->gradients;
	enum family family = TENSOR;

	o->act = BB_ACT_COLLECTIVE;
	o->queue = BB_HYBRID_COMPUTES;
	o->work = BB_HYBRID_TENSOR;
	o->collective = &bb_all_reduce;
	o->dtype = s->dtype;
	o->op = BB_SUM;
	switch (step->kind) {
	case LOSS:
		o->item = BB_HYBRID_LOSS;
		o->dtype = BB_FLOAT;
		o->count = s->tokens;
		break;
	case EMBEDDING:
		family = ENDS;
		o->work = BB_HYBRID_EMBEDDING;
		o->dtype = s->gradient_dtype;
		o->in_place = true;
		o->count = s->shared;
		break;
	case DATA:
		family = holders(s, experts);
		o->work = BB_HYBRID_DATA;
		o->item = experts;
		if (!step->last)
			o->dtype = s->gradient_dtype;
		o->op = BB_AVG;
		o->in_place = true;
		o->count = (size_t)elements[hybrid_stage(h, rank)];
		if (!s->zero)
			break;
		o->collective = step->last ? &bb_all_gather : &bb_reduce_scatter;
		o->count = (size_t)bb_partition(o->count,
						(uint64_t)bb_grid_size(&s->grid, axes[family]));
		break;
	default:
		o->item = step->half;
		o->count = bb_hybrid_part(s, step->half, rank);
		if (step->kind == GATHER)
			o->collective = &bb_all_gather;
		else if (s->sequence_parallel)
			o->collective = &bb_reduce_scatter;
	}
	o->group = h->first[family] + bb_grid_group(&s->grid, axes[family], rank);
}

static void hybrid_compute(const struct bb_hybrid_program *h, const struct step *step,
			   struct bb_operation *o)
{
	const struct bb_hybrid_shape *s = &h->shape;
	const struct bb_hybrid_time *times[] = {[LAYER] = &s->layer,
						[DENSE_LAYER] = &s->dense_layer,
						[LOOK_UP] = &s->embedding,
						[HEAD] = &s->head};
	const struct bb_hybrid_time *t = times[step->k];
	const int pieces = step->k <= DENSE_LAYER ? BB_HYBRID_HALVES : 1;
	const double both = t->forward_s + t->backward_s;
	const double mine = step->backward ? t->backward_s : t->forward_s;

	o->act = BB_ACT_COMPUTE;
	o->queue = BB_HYBRID_COMPUTES;
	o->work = BB_HYBRID_COMPUTE;
	o->seconds = mine / pieces;
	o->flops = both > 0 ? t->flops * mine / both / pieces : 0;
}

/* The rank at PLACE of the group of RANK along AXIS. */
static int at_place(const struct bb_hybrid_program *h, enum bb_axis axis, int rank, int place)
{
	const struct bb_grid *g = &h->shape.grid;

	return bb_grid_member(g, axis, bb_grid_group(g, axis, rank), place);
}

static void hybrid_program_operation(const struct bb_program *program, int rank, size_t index,
				     struct bb_operation *o)
{
	const struct bb_hybrid_program *h = program->own;
	const int stage = hybrid_stage(h, rank);
	const struct step *step = &h->steps[h->begins[stage] + index];

	switch ((enum kind)step->kind) {
	case BASE: /* between RANK and the other stages of its replica */
		*o = bb_program_at(&h->base.program, stage, step->base);
		o->work = BB_HYBRID_PIPELINE;
		if (o->act == BB_ACT_SEND || o->act == BB_ACT_RECV) {
			o->peer = at_place(h, BB_AXIS_PP, rank, o->peer);
			o->count = bb_hybrid_boundary(&h->shape);
			o->dtype = h->shape.dtype;
		}
		break;
	case COMPUTE:
		hybrid_compute(h, step, o);
		break;
	case FORK:
		o->work = BB_HYBRID_EXPERT;
		bb_moe_fork(&h->exchange, step->event, step->k, o);
		break;
	case JOIN:
		o->work = BB_HYBRID_EXPERT;
		bb_moe_join(&h->exchange, step->event, step->k, o);
		break;
	case MESSAGE:
		o->work = BB_HYBRID_EXPERT;
		bb_moe_message(&h->exchange, step->last,
			       bb_grid_place(&h->shape.grid, BB_AXIS_EP, rank), step->k, o);
		o->peer = at_place(h, BB_AXIS_EP, rank, o->peer);
		break;
	default:
		hybrid_collective(h, rank, step, o);
	}
}

static void hybrid_program_describe(const struct bb_program *program, const struct bb_operation *o,
				    char text[BB_PROGRAM_TEXT])
{
	if (o->act == BB_ACT_COLLECTIVE)
		snprintf(text, BB_PROGRAM_TEXT, "%s of %s", o->collective->name,
			 o->item == BB_HYBRID_LOSS        ? "the loss"
			 : o->work == BB_HYBRID_TENSOR    ? "a layer"
			 : o->work == BB_HYBRID_EMBEDDING ? "the embedding's gradient"
			 : o->item                        ? "experts"
							  : "gradients and parameters");
	else if (o->act == BB_ACT_COMPUTE)
		snprintf(text, BB_PROGRAM_TEXT, "computation");
	else
		snprintf(text, BB_PROGRAM_TEXT, "%s of %s",
			 o->act == BB_ACT_SEND ? "send" : "receive",
			 o->work == BB_HYBRID_EXPERT ? "tokens" : "a micro-batch");
}

/* ---- layout ---------------------------------------------------------------------------------- */

struct layout {
	struct bb_hybrid_program *program;
	int events;  /* of the stage */
	bool failed; /* no memory */
};

static const unsigned kind_parts[] = {
	[BASE] = BB_HYBRID_PIPELINE,       [COMPUTE] = BB_HYBRID_COMPUTE,
	[SUM] = BB_HYBRID_TENSOR,          [GATHER] = BB_HYBRID_TENSOR,
	[LOSS] = BB_HYBRID_TENSOR,         [FORK] = BB_HYBRID_EXPERT,
	[MESSAGE] = BB_HYBRID_EXPERT,      [JOIN] = BB_HYBRID_EXPERT,
	[EMBEDDING] = BB_HYBRID_EMBEDDING, [DATA] = BB_HYBRID_DATA,
};

static void layout_add(struct layout *l, struct step step)
{
	struct bb_hybrid_program *h = l->program;
	struct step *added;

	if (!(h->shape.parts & kind_parts[step.kind]))
		return;
	added = BB_ARRAY_ADD(h->steps, h->nsteps, h->room);
	l->failed |= !added;
	if (added)
		*added = step;
}

static void layout_add_exchange(struct layout *l, bool combines)
{
	const struct bb_hybrid_shape *s = &l->program->shape;
	struct step step = {.event = l->program->events + l->events, .last = combines};

	if (!(s->parts & BB_HYBRID_EXPERT) || !s->load || s->grid.ep == 1)
		return;
	l->events += 3;
	step.kind = FORK;
	for (step.k = 0; step.k < BB_MOE_FORKS; step.k++)
		layout_add(l, step);
	step.kind = MESSAGE;
	for (step.k = 0; step.k < bb_moe_messages(s->load); step.k++)
		layout_add(l, step);
	step.kind = JOIN;
	step.event++;
	for (step.k = 0; step.k < BB_MOE_JOINS; step.k++)
		layout_add(l, step);
}

/* HALF of a layer; the second one of a DENSE layer communicates as the first. */
static void layout_add_half(struct layout *l, int half, bool dense, bool backward)
{
	const struct bb_hybrid_shape *s = &l->program->shape;
	const bool has_rows = half == 1 && !dense;
	struct step step = {
		.half = has_rows, .k = dense ? DENSE_LAYER : LAYER, .backward = backward};

	if (has_rows)
		layout_add_exchange(l, false);
	step.kind = GATHER;
	for (int i = 0; i < (s->sequence_parallel ? 1 + backward : 0); i++)
		layout_add(l, step);
	step.kind = COMPUTE;
	layout_add(l, step);
	step.kind = SUM;
	if (s->grid.tp > 1)
		layout_add(l, step);
	if (has_rows)
		layout_add_exchange(l, true);
}

static void layout_add_layers(struct layout *l, int stage, bool backward)
{
	const struct bb_hybrid_shape *s = &l->program->shape;
	const uint64_t layers = (uint64_t)s->layers, pp = (uint64_t)s->grid.pp;
	const int begin = (int)bb_layers_before(layers, pp, (uint64_t)stage);
	const int end = (int)bb_layers_before(layers, pp, (uint64_t)stage + 1);

	for (int i = begin; i < end; i++)
		for (int half = 0; half < BB_HYBRID_HALVES; half++) {
			const int layer = backward ? begin + end - 1 - i : i;

			layout_add_half(l, backward ? BB_HYBRID_HALVES - 1 - half : half,
					s->is_dense && s->is_dense[layer], backward);
		}
}

/* COUNT pieces of KIND, if there are other tensor ranks. */
static void layout_add_tensor(struct layout *l, enum kind kind, int count)
{
	for (int i = 0; i < count && l->program->shape.grid.tp > 1; i++)
		layout_add(l, (struct step){.kind = (uint8_t)kind});
}

/* A pass of all layers of STAGE, with the embedding or the head. */
static void layout_add_pass(struct layout *l, int stage, bool backward)
{
	const struct bb_hybrid_shape *s = &l->program->shape;
	const bool first = stage == 0, last = stage == s->grid.pp - 1;
	/* Most models compute nothing there. */
	const bool looks_up = first && s->embedding.forward_s + s->embedding.backward_s > 0;
	const struct step look_up = {.kind = COMPUTE, .k = LOOK_UP, .backward = backward};
	const struct step head = {.kind = COMPUTE, .k = HEAD, .backward = backward};

	if (!backward) {
		if (looks_up)
			layout_add(l, look_up);
		layout_add_tensor(l, SUM, first);
		layout_add_layers(l, stage, false);
		layout_add_tensor(l, GATHER, last && s->sequence_parallel);
		if (last)
			layout_add(l, head);
		layout_add_tensor(l, LOSS, last ? 3 : 0);
		return;
	}
	if (last)
		layout_add(l, head);
	layout_add_tensor(l, SUM, last);
	if (s->recomputes)
		layout_add_layers(l, stage, false);
	layout_add_layers(l, stage, true);
	layout_add_tensor(l, GATHER, first && s->sequence_parallel);
	if (looks_up)
		layout_add(l, look_up);
}

static bool shares_embedding(const struct bb_hybrid_shape *s)
{
	return s->shared > 0 && s->grid.pp > 1;
}

static void layout_add_stage(struct layout *l, int stage)
{
	const struct bb_hybrid_shape *s = &l->program->shape;
	const struct bb_program *base = &l->program->base.program;

	l->events = 0;
	for (size_t i = 0; i < base->length(base, stage); i++) {
		const struct bb_operation o = bb_program_at(base, stage, i);

		if (o.act != BB_ACT_COMPUTE)
			layout_add(l, (struct step){.kind = BASE, .base = i});
		else
			layout_add_pass(l, stage, o.work != BB_PASS_F);
	}
	if (shares_embedding(s) && (stage == 0 || stage == s->grid.pp - 1))
		layout_add(l, (struct step){.kind = EMBEDDING});
	for (int turn = 0; turn <= s->zero; turn++)
		for (int experts = 0; experts <= (s->experts != NULL); experts++)
			if (bb_grid_size(&s->grid, axes[holders(s, experts)]) > 1)
				layout_add(l, (struct step){.kind = DATA,
							    .half = (uint8_t)experts,
							    .last = turn == 1});
}

static bb_status make_base(struct bb_hybrid_program *h, struct bb_error *error)
{
	const struct bb_hybrid_shape *s = &h->shape;
	const struct bb_pipeline_form form = {
		.elements = s->activation, .late_stage = -1, .swapped_stage = -1};
	bb_status status;

	h->pipeline = (struct bb_pipeline){.stages = s->grid.pp,
					   .microbatches = s->micro_batches,
					   .chunks = 1,
					   .f = 1000,
					   .b = 1000,
					   .w = 1000};
	if (3 * (int64_t)s->grid.pp * s->micro_batches > BB_PIPELINE_PASSES)
		return bb_fail(error, BB_EUSAGE,
			       "--pp and --batch make more than %lld passes; give less",
			       (long long)BB_PIPELINE_PASSES);
	BB_TRY(status, bb_order_make(bb_pipeline_find("1f1b"), &h->pipeline, &h->order, error),
	       out);
	status = bb_pipeline_program_make(&h->base, &h->order, &h->pipeline, &form, error);
out:
	return status;
}

/* Queues, lanes and events of exchanges follow those of the pipeline. */
static void hybrid_number(struct bb_hybrid_program *h, struct bb_program *program)
{
	const struct bb_hybrid_shape *s = &h->shape;
	const bool messages = s->parts & BB_HYBRID_PIPELINE;
	const bool exchanges = s->parts & BB_HYBRID_EXPERT && s->load && s->grid.ep > 1;
	const bool has[FAMILIES] = {true, true, s->experts && s->grid.ep > 1, shares_embedding(s)};

	program->queues = messages ? h->base.program.queues : 1;
	program->lanes = messages ? h->base.program.lanes : 0;
	h->events = messages ? h->base.program.events : 0;
	h->exchange = (struct bb_moe_exchange){.load = s->load,
					       .hidden = s->hidden,
					       .dtype = s->dtype,
					       .computes = BB_HYBRID_COMPUTES,
					       .sends = program->queues,
					       .receives = program->queues + 1,
					       .lane = program->lanes};
	program->queues += exchanges ? 2 : 0;
	program->lanes += exchanges ? BB_MOE_LANES : 0;
	for (int f = 0; f < FAMILIES; f++)
		h->first[f + 1] = h->first[f] + (has[f] && bb_grid_size(&s->grid, axes[f]) > 1
							 ? bb_grid_groups(&s->grid, axes[f])
							 : 0);
	program->groups = h->first[FAMILIES];
}

bb_status bb_hybrid_program_open(struct bb_program *program, const struct bb_hybrid_shape *shape,
				 const char *algorithm, struct bb_error *error)
{
	struct bb_hybrid_program *h = calloc(1, sizeof(*h));
	struct layout l = {.program = h};
	bb_status status;

	*program = (struct bb_program){
		.own = h,
		.nranks = bb_grid_ranks(&shape->grid),
		.algorithm = algorithm,
		.length = hybrid_program_length,
		.operation = hybrid_program_operation,
		.group_size = hybrid_group_size,
		.member = hybrid_member,
		.describe = hybrid_program_describe,
	};
	if (!h)
		return bb_no_memory(error, "a step's program");
	h->shape = *shape;
	h->begins = calloc((size_t)shape->grid.pp + 1, sizeof(*h->begins));
	l.failed = !h->begins;
	BB_TRY(status, make_base(h, error), fail);
	hybrid_number(h, program);
	for (int stage = 0; !l.failed && stage < shape->grid.pp; stage++) {
		layout_add_stage(&l, stage);
		h->begins[stage + 1] = h->nsteps;
		if (program->events < h->events + l.events)
			program->events = h->events + l.events;
	}
	if (!l.failed)
		return BB_OK;
	status = bb_no_memory(error, "a step's program");
fail:
	bb_hybrid_program_close(program);
	return status;
}

void bb_hybrid_program_close(struct bb_program *program)
{
	struct bb_hybrid_program *h = (struct bb_hybrid_program *)program->own;

	if (h) {
		bb_pipeline_program_free(&h->base);
		bb_order_free(&h->order);
		free(h->steps);
		free(h->begins);
		free(h);
	}
	*program = (struct bb_program){.own = NULL};
}
