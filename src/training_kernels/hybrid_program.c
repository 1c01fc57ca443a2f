/*
 * hybrid_program.c - a pipeline's program, whose passes are taken apart into layers.
 *
 * A stage's operations are those of the pipeline, in their order, but that a pass becomes pieces: a
 * computation, an all-reduce, a computation, … So they can be done one at a time wherever those of
 * the pipeline can. Once made they are the same for all ranks of the stage.
 */
#include "training_kernels/hybrid_program.h"

#include "training_kernels/pipeline_program.h"

#include <stdio.h>
#include <stdlib.h>

#define REDUCTIONS 2 /* of a layer, in a pass */
#define THE_END SIZE_MAX

/* Operation BASE of the pipeline's; of a pass its piece PIECE, even ones being computations.
   THE_END: the gradients. */
struct step {
	size_t base;
	unsigned piece;
};

struct bb_hybrid_program {
	struct bb_hybrid_shape shape;
	struct bb_pipeline pipeline;
	struct bb_order order;
	struct bb_pipeline_program base;
	struct step *steps; /* of all stages */
	size_t *begins;     /* [stage], one more for the end */
};

static int layers_of(const struct bb_hybrid_shape *shape, int stage)
{
	const int p = shape->grid.pp;

	return (stage + 1) * shape->layers / p - stage * shape->layers / p;
}

/* ---- read by whoever plays it -----------------------------------------------------------------
 */

static int stage_of(const struct bb_hybrid_program *h, int rank)
{
	return bb_grid_place(&h->shape.grid, BB_AXIS_PP, rank);
}

static size_t length(const struct bb_program *program, int rank)
{
	const struct bb_hybrid_program *h = program->own;
	const int stage = stage_of(h, rank);

	return h->begins[stage + 1] - h->begins[stage];
}

/* Groups are numbered: those of tensor ranks, if they are more than one, then those of replicas. */
static int tensor_groups(const struct bb_hybrid_shape *shape)
{
	return shape->grid.tp > 1 ? bb_grid_groups(&shape->grid, BB_AXIS_TP) : 0;
}

static int group_size(const struct bb_program *program, int group)
{
	const struct bb_hybrid_shape *s = &((const struct bb_hybrid_program *)program->own)->shape;

	return group < tensor_groups(s) ? s->grid.tp : s->grid.dp;
}

static int member(const struct bb_program *program, int group, int i)
{
	const struct bb_hybrid_shape *s = &((const struct bb_hybrid_program *)program->own)->shape;
	const int tensor = tensor_groups(s);

	return group < tensor ? bb_grid_member(&s->grid, BB_AXIS_TP, group, i)
			      : bb_grid_member(&s->grid, BB_AXIS_DP, group - tensor, i);
}

static void reduce(const struct bb_hybrid_program *h, int rank, bool data, struct bb_operation *o)
{
	const struct bb_hybrid_shape *s = &h->shape;

	o->act = BB_ACT_COLLECTIVE;
	o->queue = BB_HYBRID_COMPUTES;
	o->work = data ? BB_HYBRID_DATA : BB_HYBRID_TENSOR;
	o->collective = &bb_all_reduce;
	o->root = 0;
	o->dtype = data ? s->gradient_dtype : s->dtype;
	o->op = data ? BB_AVG : BB_SUM;
	o->in_place = data;
	o->count = data ? (size_t)s->gradients[stage_of(h, rank)] : s->activation;
	o->group = data ? tensor_groups(s) + bb_grid_group(&s->grid, BB_AXIS_DP, rank)
			: bb_grid_group(&s->grid, BB_AXIS_TP, rank);
}

/* A piece of the pass O. */
static void take_piece(const struct bb_hybrid_program *h, int rank, unsigned piece,
		       struct bb_operation *o)
{
	const struct bb_hybrid_shape *s = &h->shape;
	const bool forward = o->work == BB_PASS_F;
	const double both = s->forward_s + s->backward_s;
	const double mine = forward ? s->forward_s : s->backward_s;

	if (piece % 2) {
		reduce(h, rank, false, o);
		return;
	}
	o->work = BB_HYBRID_COMPUTE;
	o->seconds = mine / REDUCTIONS;
	o->flops = both > 0 ? s->flops * mine / both / REDUCTIONS : 0;
}

/* The rank of the stage PEER beside RANK. */
static int neighbour(const struct bb_hybrid_program *h, int rank, int peer)
{
	const struct bb_grid *g = &h->shape.grid;

	return bb_grid_member(g, BB_AXIS_PP, bb_grid_group(g, BB_AXIS_PP, rank), peer);
}

static void operation(const struct bb_program *program, int rank, size_t index,
		      struct bb_operation *o)
{
	const struct bb_hybrid_program *h = program->own;
	const int stage = stage_of(h, rank);
	const struct step *step = &h->steps[h->begins[stage] + index];

	if (step->base == THE_END) {
		reduce(h, rank, true, o);
		return;
	}
	*o = bb_program_at(&h->base.program, stage, step->base);
	if (o->act == BB_ACT_COMPUTE) {
		take_piece(h, rank, step->piece, o);
		return;
	}
	o->work = BB_HYBRID_PIPELINE;
	if (o->act == BB_ACT_SEND || o->act == BB_ACT_RECV) {
		o->peer = neighbour(h, rank, o->peer);
		o->count = h->shape.activation;
		o->dtype = h->shape.dtype;
	}
}

static void describe(const struct bb_program *program, const struct bb_operation *o,
		     char text[BB_PROGRAM_TEXT])
{
	const struct bb_hybrid_program *h = program->own;
	const int m = (int)(o->item % (size_t)h->shape.micro_batches);

	if (o->work == BB_HYBRID_DATA)
		snprintf(text, BB_PROGRAM_TEXT, "all-reduce of the gradients");
	else if (o->act == BB_ACT_RECORD || o->act == BB_ACT_WAIT)
		snprintf(text, BB_PROGRAM_TEXT, "event %d", o->event);
	else
		snprintf(text, BB_PROGRAM_TEXT, "%s of micro-batch %d",
			 o->work == BB_HYBRID_TENSOR    ? "all-reduce of a layer"
			 : o->work == BB_HYBRID_COMPUTE ? "half a layer"
			 : o->act == BB_ACT_SEND        ? "send"
							: "receive",
			 m);
}

/* ---- made -------------------------------------------------------------------------------------
 */

/* Steps that operation I of STAGE's pipeline becomes, into STEPS if that is not NULL. */
static size_t take_apart(const struct bb_hybrid_program *h, int stage, size_t i, struct step *steps)
{
	const struct bb_hybrid_shape *s = &h->shape;
	const struct bb_operation o = bb_program_at(&h->base.program, stage, i);
	const unsigned pieces = 2u * REDUCTIONS * (unsigned)layers_of(s, stage);
	size_t n = 0;

	if (o.act != BB_ACT_COMPUTE) {
		if (s->parts & BB_HYBRID_PIPELINE && steps)
			steps[0] = (struct step){i, 0};
		return s->parts & BB_HYBRID_PIPELINE ? 1 : 0;
	}
	for (unsigned piece = 0; piece < pieces; piece++) {
		const unsigned part = piece % 2 ? BB_HYBRID_TENSOR : BB_HYBRID_COMPUTE;

		if (!(s->parts & part) || (piece % 2 && s->grid.tp == 1))
			continue;
		if (steps)
			steps[n] = (struct step){i, piece};
		n++;
	}
	return n;
}

static void lay_out(struct bb_hybrid_program *h, bool writes)
{
	const bool data = h->shape.parts & BB_HYBRID_DATA && h->shape.grid.dp > 1;
	size_t at = 0;

	for (int stage = 0; stage < h->shape.grid.pp; stage++) {
		h->begins[stage] = at;
		for (size_t i = 0; i < h->base.program.length(&h->base.program, stage); i++)
			at += take_apart(h, stage, i, writes ? &h->steps[at] : NULL);
		if (data && writes)
			h->steps[at] = (struct step){THE_END, 0};
		at += data;
	}
	h->begins[h->shape.grid.pp] = at;
}

static bb_status make(struct bb_hybrid_program *h, struct bb_error *error)
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
	BB_TRY(status, bb_pipeline_program_make(&h->base, &h->order, &h->pipeline, &form, error),
	       out);
	h->begins = calloc((size_t)s->grid.pp + 1, sizeof(*h->begins));
	if (h->begins) {
		lay_out(h, false);
		h->steps = calloc(h->begins[s->grid.pp] + 1, sizeof(*h->steps));
	}
	if (h->steps)
		lay_out(h, true);
	else
		status = bb_fail(error, BB_EINTERNAL, "out of memory for a step's program");
out:
	return status;
}

bb_status bb_hybrid_program_open(struct bb_program *program, const struct bb_hybrid_shape *shape,
				 const char *algorithm, struct bb_error *error)
{
	const bool messages = shape->parts & BB_HYBRID_PIPELINE;
	const int data_groups = shape->grid.dp > 1 ? bb_grid_groups(&shape->grid, BB_AXIS_DP) : 0;
	struct bb_hybrid_program *h = calloc(1, sizeof(*h));
	bb_status status;

	*program = (struct bb_program){.own = h};
	if (!h)
		return bb_fail(error, BB_EINTERNAL, "out of memory for a step's program");
	h->shape = *shape;
	status = make(h, error);
	if (status != BB_OK) {
		bb_hybrid_program_close(program);
		return status;
	}
	*program = (struct bb_program){
		.own = h,
		.nranks = bb_grid_ranks(&shape->grid),
		.queues = messages ? h->base.program.queues : 1,
		.lanes = messages ? h->base.program.lanes : 0,
		.events = messages ? h->base.program.events : 0,
		.groups = tensor_groups(shape) + data_groups,
		.algorithm = algorithm,
		.length = length,
		.operation = operation,
		.group_size = group_size,
		.member = member,
		.describe = describe,
	};
	return BB_OK;
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

struct bb_hybrid_count bb_hybrid_program_count(const struct bb_program *program, int rank,
					       enum bb_hybrid_work work)
{
	struct bb_hybrid_count count = {0};

	for (size_t i = 0; i < program->length(program, rank); i++) {
		const struct bb_operation o = bb_program_at(program, rank, i);
		const double bytes = (double)bb_operation_bytes(&o);

		if (o.work != (int)work || (o.act != BB_ACT_COLLECTIVE && o.act != BB_ACT_SEND))
			continue;
		count.calls++;
		if (o.act == BB_ACT_SEND) {
			count.sent += bytes;
		} else {
			const int n = group_size(program, o.group);

			count.sent += 2 * bytes * (n - 1) / n;
		}
	}
	return count;
}
