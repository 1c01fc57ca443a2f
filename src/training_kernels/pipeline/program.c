/*
 * program.c - orders of passes as programs, and results from the times of passes.
 *
 * Operations are laid out as a draft follows the order (draft.h): a pass, then its message, at both
 * ends. So the operations of each stage could also be done one at a time, whatever their queue.
 */
#include "training_kernels/pipeline/program.h"

#include "core/array.h"
#include "training_kernels/pipeline/draft.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COMPUTES 0
#define SENDS 1    /* and the next queue: forward, backward */
#define RECEIVES 3 /* and the next queues: by lane */
#define ELEMENT BB_UINT32

struct bb_pipeline_step {
	uint8_t act, queue, lane;
	uint16_t peer;
	uint32_t at; /* the event; or the slot of the pass, or of that whose result is sent */
};

/* The operations of a stage. */
struct bb_pipeline_list {
	struct bb_pipeline_step *steps;
	size_t n, room;
	bool failed; /* no memory */
};

/* ---- functions of the program ---------------------------------------------------------------- */

static size_t pipeline_program_length(const struct bb_program *program, int rank)
{
	const struct bb_pipeline_program *p = program->own;

	return p->lists[rank].n;
}

static void pipeline_program_operation(const struct bb_program *program, int rank, size_t index,
				       struct bb_operation *operation)
{
	const struct bb_pipeline_program *p = program->own;
	const struct bb_pipeline_step *step = &p->lists[rank].steps[index];
	const struct bb_fault *fault = &p->form.fault;
	const bool slow = fault->kind == BB_FAULT_SLOW && fault->rank == rank;
	const bool swaps = fault->kind == BB_FAULT_SWAP && fault->rank == rank;
	const size_t *swapped = p->swapped;
	size_t slot = step->at;
	int depth;

	operation->act = (enum bb_act)step->act;
	operation->queue = step->queue;
	if (step->act == BB_ACT_RECORD || step->act == BB_ACT_WAIT) {
		operation->event = (int)step->at;
		return;
	}
	if (step->act == BB_ACT_COMPUTE && swaps && (slot == swapped[0] || slot == swapped[1]))
		slot = swapped[slot == swapped[0]];
	const int kind = bb_order_pass(&p->order, slot, &depth).kind;
	operation->item = slot;
	operation->work = kind;
	if (step->act == BB_ACT_COMPUTE) {
		operation->seconds = 1e-9 * (double)bb_part_of(&p->order, depth).cost[kind];
		operation->flops = operation->seconds * p->form.rate;
		operation->seconds += slow ? fault->seconds : 0;
	} else {
		operation->peer = step->peer;
		operation->lane = step->lane;
		operation->count = p->form.elements;
		operation->dtype = ELEMENT;
	}
}

/* ---- layout ---------------------------------------------------------------------------------- */

static void layout_add(struct bb_pipeline_list *list, enum bb_act act, int queue, size_t at,
		       int lane, int peer)
{
	const struct bb_pipeline_step step = {(uint8_t)act, (uint8_t)queue, (uint8_t)lane,
					      (uint16_t)peer, (uint32_t)at};

	list->failed |= !BB_ARRAY_PUT(list->steps, list->n, list->room, step);
}

/* Does MICROBATCH need a message from depth FROM to depth TO? */
static bool is_sent(const struct bb_pipeline_program *program, int from, int to, int microbatch)
{
	const struct bb_order *order = &program->order;
	const bool wraps = from / order->stages != to / order->stages;

	if (to < 0 || bb_order_stage(order, from) == bb_order_stage(order, to))
		return false;
	return !program->form.first_wraps || !wraps || microbatch % order->stages == 0;
}

#define EVENTS 4 /* of a chunk and a microbatch: each direction has one at both ends */

/* The event of a stage: PASS is done there in CHUNK, or its input has ARRIVED. */
static uint32_t event_of(const struct bb_order *order, const struct bb_pass *pass, int chunk,
			 bool arrived)
{
	const int part = chunk * order->microbatches + pass->microbatch;

	return (uint32_t)(EVENTS * part + 2 * (pass->kind != BB_PASS_F) + arrived);
}

bb_status bb_pipeline_program_make(struct bb_pipeline_program *program,
				   const struct bb_order *order,
				   const struct bb_pipeline_form *form, struct bb_error *error)
{
	const int lanes = order->stages == 1 ? 0 : order->folded ? 4 : 2;
	const struct bb_pass *pass;
	struct bb_draft draft = {0};
	bb_status status;
	int stage;

	*program = (struct bb_pipeline_program){
		.program = {.own = program,
			    .nranks = order->stages,
			    .queues = lanes ? RECEIVES + lanes : 1,
			    .lanes = lanes,
			    .events = lanes ? EVENTS * order->chunks * order->microbatches : 0,
			    .length = pipeline_program_length,
			    .operation = pipeline_program_operation},
		.order = *order,
		.form = *form,
		.lists = calloc((size_t)order->stages, sizeof(*program->lists)),
	};
	if (!program->lists)
		return bb_no_memory(error, "a pipeline's program");
	if (form->fault.kind == BB_FAULT_SWAP) {
		pass = bb_order_passes(order, form->fault.rank);
		program->swapped[0] = bb_order_slot(order, form->fault.rank, pass);
		program->swapped[1] = program->swapped[0] +
				      (size_t)bb_order_depths(order) * (size_t)order->microbatches;
	}
	BB_TRY(status, bb_draft_follow(&draft, order, error), out);
	/* Each pass, after the message that it waits for, and the message with its result. Those of
	   a lane always come from the same side. */
	while ((pass = bb_draft_step(&draft, &stage))) {
		const int m = pass->microbatch, depth = bb_order_depth(order, stage, pass->chunk);
		const int input = bb_order_input(order, stage, pass);
		const int output = bb_order_output(order, stage, pass);
		const size_t slot = bb_order_slot(order, stage, pass);
		const int backward = pass->kind != BB_PASS_F;
		const int lane = backward + (order->folded ? 2 * (depth / order->stages % 2) : 0);
		const int sends = SENDS + backward, receives = RECEIVES + lane;
		const uint32_t done = event_of(order, pass, pass->chunk, false);
		struct bb_pipeline_list *list = &program->lists[stage], *peer;

		if (input >= 0 && is_sent(program, input, depth, m))
			layout_add(list, BB_ACT_WAIT, COMPUTES,
				   event_of(order, pass, pass->chunk, true), 0, 0);
		layout_add(list, BB_ACT_COMPUTE, COMPUTES, slot, 0, 0);
		if (!is_sent(program, depth, output, m))
			continue;
		peer = &program->lists[bb_order_stage(order, output)];
		layout_add(list, BB_ACT_RECORD, COMPUTES, done, 0, 0);
		layout_add(list, BB_ACT_WAIT, sends, done, 0, 0);
		layout_add(list, BB_ACT_SEND, sends, slot, lane, (int)(peer - program->lists));
		layout_add(peer, BB_ACT_RECV, receives, slot, lane, stage);
		layout_add(peer, BB_ACT_RECORD, receives,
			   event_of(order, pass, output / order->stages, true), 0, 0);
		program->messages++;
	}
	for (int s = 0; s < order->stages && status == BB_OK; s++)
		if (program->lists[s].failed)
			status = bb_no_memory(error, "a pipeline's program");
out:
	bb_draft_free(&draft);
	return status;
}

void bb_pipeline_program_free(struct bb_pipeline_program *program)
{
	for (int s = 0; program->lists && s < program->order.stages; s++)
		free(program->lists[s].steps);
	free(program->lists);
}

/* ---- results --------------------------------------------------------------------------------- */

bb_status bb_pass_times_open(struct bb_pass_times *times, const struct bb_order *order,
			     struct bb_error *error)
{
	const size_t slots = bb_order_slots(order), n = (size_t)order->stages;

	*times = (struct bb_pass_times){
		.order = order,
		.from = calloc(2 * slots + 4 * n, sizeof(double)),
	};
	if (!times->from)
		return bb_no_memory(error, "the times of passes");
	times->to = times->from + slots;
	times->held = times->to + slots;
	times->peaks = times->held + n;
	times->sent = times->peaks + n;
	times->spans = times->sent + n;
	return BB_OK;
}

void bb_pass_times_close(struct bb_pass_times *times)
{
	free(times->from);
	*times = (struct bb_pass_times){.from = NULL};
}

void bb_pass_times_begin(struct bb_pass_times *times)
{
	memset(times->held, 0, 3 * (size_t)times->order->stages * sizeof(double));
}

void bb_pass_times_note(void *own, int rank, size_t index, const struct bb_operation *operation,
			double from, double to, int source)
{
	struct bb_pass_times *times = own;
	const struct bb_order *order = times->order;
	int depth;

	if (operation->act == BB_ACT_SEND)
		times->sent[rank] += (double)bb_operation_bytes(operation);
	if (operation->act != BB_ACT_COMPUTE)
		return;
	const struct bb_pass pass = bb_order_pass(order, operation->item, &depth);
	times->held[rank] += (double)bb_part_of(order, depth).change[pass.kind];
	times->peaks[rank] = fmax(times->peaks[rank], times->held[rank]);
	times->from[operation->item] = from;
	times->to[operation->item] = to;
}

/* Without what is only rounding of sums. */
double bb_pipeline_bubble(double time, double ideal, double whole)
{
	return fabs(time - ideal) < 1e-9 * whole ? 0 : (time - ideal) / whole;
}

struct bb_pipeline_result bb_pipeline_result_of(struct bb_pass_times *times)
{
	const struct bb_order *order = times->order;
	struct bb_pipeline_result r = {.makespan = 0};

	for (int s = 0; s < order->stages; s++) {
		/* A stage does its passes in the order of its list. */
		const struct bb_pass *passes = bb_order_passes(order, s);
		const double begin = times->from[bb_order_slot(order, s, &passes[0])];
		const double end = times->to[bb_order_slot(order, s, &passes[order->length - 1])];

		times->spans[s] = end - begin;
		r.makespan = fmax(r.makespan, end);
		r.ideal = fmax(r.ideal,
			       1e-9 * (double)order->microbatches * (double)bb_stage_ns(order, s));
		r.span = fmax(r.span, times->spans[s]);
	}
	return r;
}
