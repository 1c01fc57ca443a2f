/*
 * draft.c - passes that are placed one by one; list scheduling: no stage waits that has something
 * to do; and the checker of orders.
 */
#include "training_kernels/pipeline/draft.h"

#include <stdlib.h>
#include <string.h>

#define NEVER INT64_MAX

bb_status bb_draft_open(struct bb_draft *draft, const struct bb_order *order, int microbatches,
			int64_t limit, struct bb_error *error)
{
	const size_t stages = (size_t)order->stages;

	*draft = (struct bb_draft){
		.order = *order,
		.requested = order->microbatches,
		.limit = limit,
		.parts = calloc((size_t)bb_order_depths(order), sizeof(*draft->parts)),
		.kept = calloc(stages, sizeof(*draft->kept)),
		.stages = calloc(stages, sizeof(*draft->stages)),
		.winners = calloc(2 * stages, sizeof(*draft->winners)),
	};
	draft->order.microbatches = microbatches;
	draft->order.passes = calloc(stages * order->length, sizeof(*draft->order.passes));
	draft->ends = malloc(bb_order_slots(&draft->order) * sizeof(*draft->ends));
	for (int d = 0; d < bb_order_depths(order) && draft->parts; d++)
		draft->parts[d] = bb_part_of(order, d);
	for (int s = 0; s < order->stages && draft->kept; s++)
		draft->kept[s] = bb_part_of_stage(order, s).change[BB_PASS_F];
	return draft->parts && draft->kept && draft->ends && draft->stages && draft->winners &&
			       draft->order.passes
		       ? BB_OK
		       : bb_no_memory(error, "a pipeline's order");
}

void bb_draft_free(struct bb_draft *draft)
{
	bb_order_free(&draft->order);
	free(draft->parts);
	free(draft->kept);
	free(draft->ends);
	free(draft->stages);
	free(draft->winners);
}

void bb_draft_clear(struct bb_draft *draft)
{
	memset(draft->stages, 0, (size_t)draft->order.stages * sizeof(*draft->stages));
	for (size_t i = 0; i < bb_order_slots(&draft->order); i++)
		draft->ends[i] = -1;
	draft->bubble = 0;
	draft->failed = false;
}

static int64_t later(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* The end of a pass. */
static int64_t *draft_end(const struct bb_draft *draft, enum bb_pass_kind kind, int depth,
			  int microbatch)
{
	return &draft->ends[bb_order_slot_at(&draft->order, kind, depth, microbatch)];
}

/* The time at which PASS has what it needs of another part: 0 where it needs nothing, below 0 where
   that is not known yet. */
static int64_t arrival_of(const struct bb_draft *draft, int stage, const struct bb_pass *pass)
{
	const struct bb_order *order = &draft->order;
	const int input = bb_order_input(order, stage, pass);
	int64_t end;

	if (input < 0)
		return 0;
	if (pass->microbatch == draft->order.microbatches)
		return -1;
	end = *draft_end(draft, pass->kind, input, pass->microbatch);
	return end < 0 || bb_order_stage(order, input) == stage ? end : end + order->pipeline.hop;
}

/* The next pass of KIND and CHUNK: microbatches take turns. */
static struct bb_pass next_pass(const struct bb_draft *draft, int stage, enum bb_pass_kind kind,
				int chunk)
{
	return (struct bb_pass){(uint8_t)kind, (uint8_t)chunk,
				(uint16_t)draft->stages[stage].done[kind][chunk]};
}

int64_t bb_draft_arrival(const struct bb_draft *draft, int stage, enum bb_pass_kind kind, int chunk)
{
	const struct bb_pass pass = next_pass(draft, stage, kind, chunk);

	return arrival_of(draft, stage, &pass);
}

/* PASS is done as soon as the stage and what it needs of another part are ready. */
static void place(struct bb_draft *draft, int stage, struct bb_pass pass)
{
	struct bb_stage_state *state = &draft->stages[stage];
	const int depth = bb_order_depth(&draft->order, stage, pass.chunk);
	const int64_t from = later(arrival_of(draft, stage, &pass), state->time);

	if (state->written > 0)
		state->bubble += from - state->time;
	else
		state->begin = from;
	draft->bubble = later(draft->bubble, state->bubble);
	state->time = from + draft->parts[depth].cost[pass.kind];
	state->held += draft->parts[depth].change[pass.kind];
	draft->failed |= state->held > bb_draft_room(draft, stage);
	*draft_end(draft, pass.kind, depth, pass.microbatch) = state->time;
	if (pass.microbatch < draft->requested)
		draft->order.passes[(size_t)stage * draft->order.length + state->written++] = pass;
}

void bb_draft_put(struct bb_draft *draft, int stage, enum bb_pass_kind kind, int chunk)
{
	struct bb_stage_state *state = &draft->stages[stage];
	const struct bb_pass pass = next_pass(draft, stage, kind, chunk);

	if (draft->failed || bb_draft_arrival(draft, stage, kind, chunk) < 0 ||
	    pass.microbatch == draft->order.microbatches ||
	    (kind != BB_PASS_F && pass.microbatch >= state->done[kind - 1][chunk])) {
		draft->failed = true;
		return;
	}
	place(draft, stage, pass);
	state->done[kind][chunk]++;
	state->waiting += kind == BB_PASS_B ? 1 : kind == BB_PASS_W ? -1 : 0;
}

/* The chunk of the W that has waited longest. */
static int draft_next_w(const struct bb_draft *draft, int stage)
{
	const struct bb_stage_state *state = &draft->stages[stage];
	int64_t oldest = INT64_MAX;
	int chunk = 0;

	for (int c = 0; c < draft->order.chunks; c++) {
		const int next = state->done[BB_PASS_W][c];
		int64_t since;

		if (next == state->done[BB_PASS_B][c])
			continue;
		since = *draft_end(draft, BB_PASS_B, bb_order_depth(&draft->order, stage, c), next);
		if (since < oldest) {
			oldest = since;
			chunk = c;
		}
	}
	return chunk;
}

void bb_draft_put_w(struct bb_draft *draft, int stage)
{
	bb_draft_put(draft, stage, BB_PASS_W, draft_next_w(draft, stage));
}

void bb_draft_make_room(struct bb_draft *draft, int stage, enum bb_pass_kind kind, int chunk)
{
	const int64_t change = bb_draft_part(draft, stage, chunk)->change[kind];

	while (!draft->failed && draft->stages[stage].held + change > bb_draft_room(draft, stage))
		bb_draft_put_w(draft, stage);
}

void bb_draft_fill_gap(struct bb_draft *draft, int stage, enum bb_pass_kind kind, int chunk,
		       bool late, int64_t slack)
{
	const struct bb_stage_state *state = &draft->stages[stage];
	const int64_t arrival = bb_draft_arrival(draft, stage, kind, chunk);

	while (!draft->failed && state->waiting > 0 &&
	       state->time + bb_draft_part(draft, stage, draft_next_w(draft, stage))
				       ->cost[BB_PASS_W] <=
		       arrival)
		bb_draft_put_w(draft, stage);
	if (late && state->waiting > 0 && arrival - state->time > slack)
		bb_draft_put_w(draft, stage);
}

void bb_draft_finish(struct bb_draft *draft)
{
	for (int s = 0; s < draft->order.stages; s++)
		while (!draft->failed && draft->stages[s].waiting > 0)
			bb_draft_put_w(draft, s);
}

int64_t bb_draft_span(const struct bb_draft *draft, int64_t *end)
{
	int64_t span = 0;

	*end = 0;
	for (int s = 0; s < draft->order.stages; s++) {
		span = later(span, draft->stages[s].time - draft->stages[s].begin);
		*end = later(*end, draft->stages[s].time);
	}
	return span;
}

/* ---- list scheduling: the next pass of a stage ----------------------------------------------- */

/* The earliest begin of a pass of KIND. */
static int64_t earliest(const struct bb_draft *draft, int stage, enum bb_pass_kind kind)
{
	const struct bb_stage_state *state = &draft->stages[stage];
	int64_t arrival;

	if (kind == BB_PASS_W)
		return state->waiting > 0 ? state->time : NEVER;
	if (kind == BB_PASS_B && state->done[BB_PASS_B][0] == state->done[BB_PASS_F][0])
		return NEVER;
	if (kind == BB_PASS_F && (state->done[BB_PASS_F][0] == draft->order.microbatches ||
				  state->held + bb_draft_part(draft, stage, 0)->change[BB_PASS_F] >
					  bb_draft_room(draft, stage)))
		return NEVER;
	arrival = bb_draft_arrival(draft, stage, kind, 0);
	return arrival < 0 ? NEVER : later(arrival, state->time);
}

/* A fixed rule: does the next pass of STAGE precede the pass that it builds on, on the same
   stage? */
static bool lacks_own(const struct bb_draft *draft, int stage)
{
	const size_t written = draft->stages[stage].written;
	const struct bb_pass *pass = &bb_order_passes(&draft->order, stage)[written];

	return written < draft->order.length && pass->kind != BB_PASS_F &&
	       *draft_end(draft, pass->kind == BB_PASS_W ? BB_PASS_B : BB_PASS_F,
			  bb_order_depth(&draft->order, stage, pass->chunk), pass->microbatch) < 0;
}

/* The next pass of STAGE, and when it begins. */
static void draft_choose(struct bb_draft *draft, int stage)
{
	struct bb_stage_state *state = &draft->stages[stage];
	const enum bb_pass_kind first = draft->rule.first;
	const enum bb_pass_kind list[] = {first, first == BB_PASS_B ? BB_PASS_F : BB_PASS_B,
					  BB_PASS_W};
	int64_t b;

	state->begins = NEVER;
	if (draft->rule.fixed) {
		if (state->written == draft->order.length || lacks_own(draft, stage))
			return;
		state->next = bb_order_passes(&draft->order, stage)[state->written];
		b = arrival_of(draft, stage, &state->next);
		if (b >= 0)
			state->begins = later(b, state->time);
		return;
	}
	b = earliest(draft, stage, BB_PASS_B);
	for (int i = 0; i < 3; i++) {
		const int64_t at = earliest(draft, stage, list[i]);

		if (draft->rule.patient && list[i] != BB_PASS_B && at < b && b < NEVER &&
		    at + bb_draft_part(draft, stage, 0)->cost[list[i]] > b)
			continue;
		if (at < state->begins) {
			state->begins = at;
			state->next.kind = (uint8_t)list[i];
		}
	}
}

/* ---- the stage that can begin first: a tree of winners, whose last half are the stages ------- */

static void play_off(struct bb_draft *draft, int at)
{
	const int a = draft->winners[2 * at], b = draft->winners[2 * at + 1];

	draft->winners[at] = draft->stages[b].begins < draft->stages[a].begins ? b : a;
}

static void choose_again(struct bb_draft *draft, int stage)
{
	draft_choose(draft, stage);
	for (int at = (draft->order.stages + stage) / 2; at > 0; at /= 2)
		play_off(draft, at);
}

void bb_draft_list(struct bb_draft *draft, struct bb_list_rule rule)
{
	const int p = draft->order.stages;

	draft->rule = rule;
	for (int s = 0; s < p; s++) {
		draft->winners[p + s] = s;
		draft_choose(draft, s);
	}
	for (int at = p - 1; at > 0; at--)
		play_off(draft, at);
}

bb_status bb_draft_follow(struct bb_draft *draft, const struct bb_order *order,
			  struct bb_error *error)
{
	const bb_status status = bb_draft_open(draft, order, order->microbatches, 0, error);

	if (status != BB_OK)
		return status;
	bb_order_copy(&draft->order, order);
	bb_draft_clear(draft);
	bb_draft_list(draft, (struct bb_list_rule){.fixed = true});
	return BB_OK;
}

/* Only the stage itself, and the one that waits for the pass, may have got what they need. */
const struct bb_pass *bb_draft_step(struct bb_draft *draft, int *stage)
{
	const int s = *stage = draft->winners[1];
	const struct bb_stage_state *state = &draft->stages[s];
	const struct bb_pass *pass = &bb_order_passes(&draft->order, s)[state->written];
	int output;

	if (state->begins == NEVER)
		return NULL;
	if (draft->rule.fixed)
		place(draft, s, state->next);
	else
		bb_draft_put(draft, s, state->next.kind, 0);
	choose_again(draft, s);
	output = bb_order_output(&draft->order, s, pass);
	if (output >= 0)
		choose_again(draft, bb_order_stage(&draft->order, output));
	return pass;
}

/* ---- the checker ----------------------------------------------------------------------------- */

/* "B of microbatch 3, chunk 1, on stage 2" */
#define PASS "%s of microbatch %d, chunk %d, on stage %d"
#define PASS_OF(pass, stage) bb_pass_names[(pass)->kind], (pass)->microbatch, (pass)->chunk, stage

bb_status bb_order_check(const struct bb_order *order, struct bb_error *error)
{
	bool *seen = calloc(bb_order_slots(order), sizeof(*seen));
	struct bb_draft draft = {.failed = false};
	bb_status status = seen ? BB_OK : bb_no_memory(error, "a pipeline's order");
	int stage;

	/* Each pass of a list is there once; with its length, none is missing. */
	for (size_t n = 0; n < (size_t)order->stages * order->length && status == BB_OK; n++) {
		const struct bb_pass *pass = &order->passes[n];
		const int s = (int)(n / order->length);
		const bool wrong_half =
			order->split ? pass->kind == BB_PASS_BW
				     : pass->kind == BB_PASS_B || pass->kind == BB_PASS_W;
		bool *here = NULL;

		if (pass->kind < BB_PASS_KINDS && !wrong_half && pass->chunk < order->chunks &&
		    pass->microbatch < order->microbatches)
			here = &seen[bb_order_slot(order, s, pass)];
		if (!here)
			status = bb_fail(error, BB_EDATA,
					 "no such pass: number %zu of "
					 "stage %d: kind %d, microbatch %d, chunk %d",
					 n % order->length, s, pass->kind, pass->microbatch,
					 pass->chunk);
		else if (*here)
			status = bb_fail(error, BB_EDATA, PASS " appears twice", PASS_OF(pass, s));
		else
			*here = true;
	}
	BB_TRY(status, status, out);
	BB_TRY(status, bb_draft_follow(&draft, order, error), out);
	while (bb_draft_step(&draft, &stage))
		;
	/* Is a stage left whose next pass never begins? The cause is reported before its victims.
	 */
	for (int s = 0; s < 2 * order->stages && status == BB_OK; s++) {
		const bool victim = s >= order->stages;
		const size_t written = draft.stages[stage = s % order->stages].written;
		const struct bb_pass *pass = &bb_order_passes(order, stage)[written];

		if (victim ? written < order->length : lacks_own(&draft, stage))
			status = bb_fail(
				error, BB_EDATA, PASS " %s", PASS_OF(pass, stage),
				victim ? "never begins: the stages wait for each other in a cycle"
				       : "comes before a pass that it depends on");
	}
out:
	free(seen);
	bb_draft_free(&draft);
	return status;
}
