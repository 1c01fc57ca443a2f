/*
 * walk.c - one way through an order in which every pass has what it needs.
 */
#include "training_kernels/pipeline/order.h"

#include <stdlib.h>

static int64_t end_of(const struct bb_walk *walk, const struct bb_pass *pass, int depth,
		      enum bb_pass_kind kind)
{
	const struct bb_order *order = walk->order;
	const int stage = bb_order_stage(order, depth);
	const struct bb_pass other = {.kind = (uint8_t)kind,
				      .chunk = (uint8_t)(depth / order->stages),
				      .microbatch = pass->microbatch};

	return walk->ends[bb_order_slot(order, stage, &other)];
}

/* When the stage itself has done what the pass builds on; below 0: it has not. */
static int64_t own_ready(const struct bb_walk *walk, int stage, const struct bb_pass *pass)
{
	const int depth = bb_order_depth(walk->order, stage, pass->chunk);

	if (pass->kind == BB_PASS_F)
		return 0;
	return end_of(walk, pass, depth, pass->kind == BB_PASS_W ? BB_PASS_B : BB_PASS_F);
}

/* When the pass has what it needs; below 0: that is not known yet. */
static int64_t ready(const struct bb_walk *walk, int stage, const struct bb_pass *pass)
{
	const struct bb_order *order = walk->order;
	const int input = bb_order_input(order, stage, pass);
	const int64_t own = own_ready(walk, stage, pass);
	int64_t there = 0;

	if (input >= 0)
		there = end_of(walk, pass, input, pass->kind == BB_PASS_F ? BB_PASS_F : BB_PASS_B);
	if (own < 0 || there < 0)
		return -1;
	if (input >= 0 && bb_order_stage(order, input) != stage)
		there += walk->pipeline->hop;
	return own > there ? own : there;
}

/* ---- the stages whose next pass has what it needs ----------------------------------------------
 */

/* Those that can begin first come first, of several the lowest. */
static bool is_before(const struct bb_walk *walk, int a, int b)
{
	return walk->begins[a] != walk->begins[b] ? walk->begins[a] < walk->begins[b] : a < b;
}

static void push(struct bb_walk *walk, int stage)
{
	int *heap = walk->heap;
	int at = walk->waiting++;

	for (; at > 0 && is_before(walk, stage, heap[(at - 1) / 2]); at = (at - 1) / 2)
		heap[at] = heap[(at - 1) / 2];
	heap[at] = stage;
}

static int pop(struct bb_walk *walk)
{
	int *heap = walk->heap;
	const int first = heap[0], last = heap[--walk->waiting];
	int at = 0;

	for (int child = 1; child < walk->waiting; child = 2 * at + 1) {
		if (child + 1 < walk->waiting && is_before(walk, heap[child + 1], heap[child]))
			child++;
		if (!is_before(walk, heap[child], last))
			break;
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = last;
	return first;
}

/* STAGE's next pass may have what it needs now. */
static void look_at(struct bb_walk *walk, int stage)
{
	int64_t at;

	if (walk->begins[stage] >= 0 || walk->next[stage] == walk->order->length)
		return;
	at = ready(walk, stage, &bb_order_passes(walk->order, stage)[walk->next[stage]]);
	if (at < 0)
		return;
	walk->begins[stage] = at > walk->free[stage] ? at : walk->free[stage];
	push(walk, stage);
}

/* ---- the walk
 * ------------------------------------------------------------------------------------ */

bb_status bb_walk_open(struct bb_walk *walk, const struct bb_order *order,
		       const struct bb_pipeline *pipeline, struct bb_error *error)
{
	const size_t slots = bb_order_slots(order), stages = (size_t)order->stages;

	*walk = (struct bb_walk){
		.order = order,
		.pipeline = pipeline,
		.next = calloc(stages, sizeof(*walk->next)),
		.free = calloc(stages, sizeof(*walk->free)),
		.begins = calloc(stages, sizeof(*walk->begins)),
		.heap = calloc(stages, sizeof(*walk->heap)),
		.ends = malloc(slots * sizeof(*walk->ends)),
	};
	if (!walk->next || !walk->free || !walk->begins || !walk->heap || !walk->ends)
		return bb_fail(error, BB_EINTERNAL, "out of memory for a pipeline's order");
	for (size_t i = 0; i < slots; i++)
		walk->ends[i] = -1;
	for (int s = 0; s < order->stages; s++)
		walk->begins[s] = -1;
	for (int s = 0; s < order->stages; s++)
		look_at(walk, s);
	return BB_OK;
}

void bb_walk_close(struct bb_walk *walk)
{
	free(walk->next);
	free(walk->free);
	free(walk->begins);
	free(walk->heap);
	free(walk->ends);
}

bool bb_walk_lacks_own(const struct bb_walk *walk, int stage)
{
	return walk->next[stage] < walk->order->length &&
	       own_ready(walk, stage, &bb_order_passes(walk->order, stage)[walk->next[stage]]) < 0;
}

/* Only the stage itself, and the one that waits for the pass, may have got what they need. */
const struct bb_pass *bb_walk_next(struct bb_walk *walk, int *stage)
{
	const struct bb_order *order = walk->order;
	const struct bb_pass *pass;
	int output, s;

	if (walk->waiting == 0)
		return NULL;
	*stage = s = pop(walk);
	pass = &bb_order_passes(order, s)[walk->next[s]++];
	walk->free[s] = walk->begins[s] + bb_pass_ns(walk->pipeline, order, s, pass);
	walk->begins[s] = -1;
	walk->ends[bb_order_slot(order, s, pass)] = walk->free[s];
	look_at(walk, s);
	output = bb_order_output(order, s, pass);
	if (output >= 0)
		look_at(walk, bb_order_stage(order, output));
	return pass;
}
