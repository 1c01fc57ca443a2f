/*
 * program.c - orders of passes as programs.
 *
 * Operations are laid out as a draft follows the order (draft.h): a pass, then its message, at both
 * ends. So the operations of each stage could also be done one at a time, whatever their queue.
 */
#include "training_kernels/pipeline/program.h"

#include "core/array.h"
#include "training_kernels/pipeline/draft.h"

#include <stdio.h>
#include <stdlib.h>

#define COMPUTES 0
#define SENDS 1    /* and the next queue: forward, backward */
#define RECEIVES 3 /* and the next queues: by lane */
#define ELEMENT BB_UINT32

struct bb_pipeline_step {
	uint8_t act, queue, lane;
	uint16_t peer;
	uint32_t event;
	uint32_t slot; /* of the pass, or of that whose result is sent */
};

/* The operations of a stage. */
struct bb_pipeline_list {
	struct bb_pipeline_step *steps;
	size_t n, room;
	uint32_t events;
};

/* ---- functions of the program ---------------------------------------------------------------- */

static size_t pipeline_program_length(const struct bb_program *program, int rank)
{
	const struct bb_pipeline_program *p = program->own;

	return p->lists[rank].n;
}

struct bb_pass bb_order_pass(const struct bb_order *order, size_t slot, int *stage)
{
	const size_t m = (size_t)order->microbatches;
	const size_t depths = (size_t)bb_order_depths(order);
	const int kind = (int)(slot / m / depths), depth = (int)(slot / m % depths);

	*stage = bb_order_stage(order, depth);
	return (struct bb_pass){
		.kind = kind == BB_PASS_B && !order->split ? BB_PASS_BW : (uint8_t)kind,
		.chunk = (uint8_t)(depth / order->stages),
		.microbatch = (uint16_t)(slot % m),
	};
}

/* The slot of the pass that is done in the place of SLOT: another one if they are swapped. */
static size_t done_at(const struct bb_pipeline_program *p, int rank, size_t slot)
{
	const struct bb_pass *f = bb_order_passes(&p->order, rank);
	const struct bb_pass its_b = {BB_PASS_B, f->chunk, f->microbatch};
	const size_t a = bb_order_slot(&p->order, rank, f);
	const size_t b = bb_order_slot(&p->order, rank, &its_b);

	if (rank != p->form.swapped_stage || (slot != a && slot != b))
		return slot;
	return slot == a ? b : a;
}

static void pipeline_program_operation(const struct bb_program *program, int rank, size_t index,
				       struct bb_operation *operation)
{
	const struct bb_pipeline_program *p = program->own;
	const struct bb_pipeline_step *step = &p->lists[rank].steps[index];
	struct bb_pass pass;
	int stage;

	operation->act = (enum bb_act)step->act;
	operation->queue = step->queue;
	switch (operation->act) {
	case BB_ACT_COMPUTE:
		operation->item = done_at(p, rank, step->slot);
		pass = bb_order_pass(&p->order, operation->item, &stage);
		operation->work = pass.kind;
		operation->seconds =
			1e-9 * (double)bb_pass_ns(&p->pipeline, &p->order, stage, &pass);
		operation->flops = operation->seconds * p->form.rate;
		operation->seconds += rank == p->form.late_stage ? p->form.late : 0;
		break;
	case BB_ACT_SEND:
	case BB_ACT_RECV:
		operation->work = bb_order_pass(&p->order, step->slot, &stage).kind;
		operation->item = step->slot;
		operation->peer = step->peer;
		operation->lane = step->lane;
		operation->count = p->form.elements;
		operation->dtype = ELEMENT;
		break;
	default:
		operation->event = (int)step->event;
	}
}

static void pipeline_program_describe(const struct bb_program *program,
				      const struct bb_operation *operation,
				      char text[BB_PROGRAM_TEXT])
{
	static const char *const acts[] = {
		[BB_ACT_COMPUTE] = "", [BB_ACT_SEND] = "send of ", [BB_ACT_RECV] = "receive of "};
	const struct bb_pipeline_program *p = program->own;
	int stage;
	const struct bb_pass pass = bb_order_pass(&p->order, operation->item, &stage);

	snprintf(text, BB_PROGRAM_TEXT, "%s%s of microbatch %d, chunk %d", acts[operation->act],
		 bb_pass_names[pass.kind], pass.microbatch, pass.chunk);
}

/* ---- layout ---------------------------------------------------------------------------------- */

struct layout {
	struct bb_pipeline_program *program;
	uint32_t *arrivals; /* [slot]: the receiver's event of the arrival of its result */
	bool failed;        /* no memory */
};

static void layout_add(struct layout *l, int stage, struct bb_pipeline_step step)
{
	struct bb_pipeline_list *list = &l->program->lists[stage];
	struct bb_pipeline_step *added = BB_ARRAY_ADD(list->steps, list->n, list->room);

	l->failed |= !added;
	if (added)
		*added = step;
}

/* Does MICROBATCH need a message from depth FROM to depth TO? */
static bool is_sent(const struct layout *l, int from, int to, int microbatch)
{
	const struct bb_order *order = &l->program->order;
	const bool wraps = from / order->stages != to / order->stages;

	if (to < 0 || bb_order_stage(order, from) == bb_order_stage(order, to))
		return false;
	return !l->program->form.first_wraps || !wraps || microbatch % order->stages == 0;
}

/* The lane of the message of a pass at DEPTH: those of a lane always come from the same side. */
static int message_lane(const struct bb_order *order, const struct bb_pass *pass, int depth)
{
	const int backward = pass->kind != BB_PASS_F;

	return order->folded ? backward + 2 * (depth / order->stages % 2) : backward;
}

static void layout_add_message(struct layout *l, int stage, int to, const struct bb_pass *pass,
			       size_t slot)
{
	const struct bb_order *order = &l->program->order;
	const int lane = message_lane(order, pass, bb_order_depth(order, stage, pass->chunk));
	const uint8_t sends = (uint8_t)(SENDS + (pass->kind != BB_PASS_F));
	const uint8_t receives = (uint8_t)(RECEIVES + lane);
	const uint32_t done = l->program->lists[stage].events++;
	const uint32_t arrived = l->program->lists[to].events++;

	l->arrivals[slot] = arrived;
	l->program->messages++;
	layout_add(l, stage, (struct bb_pipeline_step){BB_ACT_RECORD, COMPUTES, .event = done});
	layout_add(l, stage, (struct bb_pipeline_step){BB_ACT_WAIT, sends, .event = done});
	layout_add(l, stage,
		   (struct bb_pipeline_step){BB_ACT_SEND, sends, (uint8_t)lane, (uint16_t)to,
					     .slot = (uint32_t)slot});
	layout_add(l, to,
		   (struct bb_pipeline_step){BB_ACT_RECV, receives, (uint8_t)lane, (uint16_t)stage,
					     .slot = (uint32_t)slot});
	layout_add(l, to, (struct bb_pipeline_step){BB_ACT_RECORD, receives, .event = arrived});
}

static void layout_add_pass(struct layout *l, int stage, const struct bb_pass *pass)
{
	const struct bb_order *order = &l->program->order;
	const int depth = bb_order_depth(order, stage, pass->chunk);
	const int input = bb_order_input(order, stage, pass);
	const int output = bb_order_output(order, stage, pass);
	const size_t slot = bb_order_slot(order, stage, pass);

	if (input >= 0 && is_sent(l, input, depth, pass->microbatch)) {
		struct bb_pass before = *pass;

		before.chunk = (uint8_t)(input / order->stages);
		layout_add(l, stage,
			   (struct bb_pipeline_step){
				   BB_ACT_WAIT, COMPUTES,
				   .event = l->arrivals[bb_order_slot(
					   order, bb_order_stage(order, input), &before)]});
	}
	layout_add(l, stage,
		   (struct bb_pipeline_step){BB_ACT_COMPUTE, COMPUTES, .slot = (uint32_t)slot});
	if (is_sent(l, depth, output, pass->microbatch))
		layout_add_message(l, stage, bb_order_stage(order, output), pass, slot);
}

static bb_status pipeline_lay_out(struct layout *l, struct bb_error *error)
{
	const struct bb_order *order = &l->program->order;
	const struct bb_pass *pass;
	struct bb_draft draft = {0};
	bb_status status;
	int stage;

	BB_TRY(status, bb_draft_follow(&draft, order, &l->program->pipeline, error), out);
	while ((pass = bb_draft_step(&draft, &stage)))
		layout_add_pass(l, stage, pass);
	for (int s = 0; s < order->stages; s++)
		if (l->program->program.events < (int)l->program->lists[s].events)
			l->program->program.events = (int)l->program->lists[s].events;
	if (l->failed)
		status = bb_no_memory(error, "a pipeline's program");
out:
	bb_draft_free(&draft);
	return status;
}

bb_status bb_pipeline_program_make(struct bb_pipeline_program *program,
				   const struct bb_order *order, const struct bb_pipeline *pipeline,
				   const struct bb_pipeline_form *form, struct bb_error *error)
{
	const int lanes = order->stages == 1 ? 0 : order->folded ? 4 : 2;
	struct layout l = {.program = program};
	bb_status status;

	*program = (struct bb_pipeline_program){
		.program = {.own = program,
			    .nranks = order->stages,
			    .queues = lanes ? RECEIVES + lanes : 1,
			    .lanes = lanes,
			    .length = pipeline_program_length,
			    .operation = pipeline_program_operation,
			    .describe = pipeline_program_describe},
		.order = *order,
		.pipeline = *pipeline,
		.form = *form,
		.lists = calloc((size_t)order->stages, sizeof(*program->lists)),
	};
	l.arrivals = calloc(bb_order_slots(order), sizeof(*l.arrivals));
	status = program->lists && l.arrivals ? pipeline_lay_out(&l, error)
					      : bb_no_memory(error, "a pipeline's program");
	free(l.arrivals);
	return status;
}

void bb_pipeline_program_free(struct bb_pipeline_program *program)
{
	for (int s = 0; program->lists && s < program->order.stages; s++)
		free(program->lists[s].steps);
	free(program->lists);
}
