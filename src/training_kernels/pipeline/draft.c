/*
 * draft.c - passes that are placed one by one; list scheduling: no stage waits that has something
 * to do; the searches of zb-v and zb-auto (arXiv 2401.10241); and the checker of orders.
 */
#include "training_kernels/pipeline/draft.h"

#include <stdlib.h>
#include <string.h>

#define NEVER INT64_MAX

/* The lists of TO become those of FROM, of the same sizes. */
static void order_copy(struct bb_order *to, const struct bb_order *from)
{
	memcpy(to->passes, from->passes, (size_t)to->stages * to->length * sizeof(*to->passes));
}

/* The part of the model that is CHUNK of STAGE. */
static const struct bb_part *draft_part(const struct bb_draft *draft, int stage, int chunk)
{
	return &draft->parts[bb_order_depth(&draft->order, stage, chunk)];
}

/* Memory of STAGE. */
static int64_t draft_room(const struct bb_draft *draft, int stage)
{
	return draft->limit * draft->kept[stage];
}

/* LIMIT: most that a stage holds, in units of what F leaves there of a microbatch. Free DRAFT
   whatever comes back. */
static bb_status draft_open(struct bb_draft *draft, const struct bb_order *order, int microbatches,
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

/* Removes all passes. */
static void draft_clear(struct bb_draft *draft)
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

	if (input < 0)
		return 0;
	const int64_t end = *draft_end(draft, pass->kind, input, pass->microbatch);
	return end < 0 || bb_order_stage(order, input) == stage ? end : end + order->pipeline.hop;
}

/* The next pass of KIND and CHUNK: microbatches take turns. */
static struct bb_pass next_pass(const struct bb_draft *draft, int stage, enum bb_pass_kind kind,
				int chunk)
{
	return (struct bb_pass){(uint8_t)kind, (uint8_t)chunk,
				(uint16_t)draft->stages[stage].done[kind][chunk]};
}

/* The same of the next pass of KIND and CHUNK; also below 0 where there is none, or the pass that
   it builds on is not placed on this stage. */
static int64_t draft_arrival(const struct bb_draft *draft, int stage, enum bb_pass_kind kind,
			     int chunk)
{
	const struct bb_pass pass = next_pass(draft, stage, kind, chunk);
	const int possible = kind == BB_PASS_F ? draft->order.microbatches
					       : draft->stages[stage].done[kind - 1][chunk];

	return pass.microbatch < possible ? arrival_of(draft, stage, &pass) : -1;
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
	draft->failed |= state->held > draft_room(draft, stage);
	*draft_end(draft, pass.kind, depth, pass.microbatch) = state->time;
	if (pass.microbatch < draft->requested)
		draft->order.passes[(size_t)stage * draft->order.length + state->written++] = pass;
}

static void draft_put(struct bb_draft *draft, int stage, enum bb_pass_kind kind, int chunk)
{
	struct bb_stage_state *state = &draft->stages[stage];

	draft->failed |= draft_arrival(draft, stage, kind, chunk) < 0;
	if (draft->failed)
		return;
	place(draft, stage, next_pass(draft, stage, kind, chunk));
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
		const int depth = bb_order_depth(&draft->order, stage, c);
		const int64_t since = next < state->done[BB_PASS_B][c]
					      ? *draft_end(draft, BB_PASS_B, depth, next)
					      : INT64_MAX;

		if (since < oldest) {
			oldest = since;
			chunk = c;
		}
	}
	return chunk;
}

/* Put the W that has waited longest. */
static void draft_put_w(struct bb_draft *draft, int stage)
{
	draft_put(draft, stage, BB_PASS_W, draft_next_w(draft, stage));
}

/* The pass of KIND and CHUNK, after W that make room for it and W that fit before it; then, if
   LATE, one that is too long for the rest of the gap, where the stage's bubble would otherwise grow
   by more than SLACK. */
static void draft_put_after_w(struct bb_draft *draft, int stage, enum bb_pass_kind kind, int chunk,
			      bool late, int64_t slack)
{
	const struct bb_stage_state *state = &draft->stages[stage];
	const int64_t change = draft_part(draft, stage, chunk)->change[kind];
	const int64_t arrival = draft_arrival(draft, stage, kind, chunk);

	while (!draft->failed && state->held + change > draft_room(draft, stage))
		draft_put_w(draft, stage);
	while (!draft->failed && state->waiting > 0 &&
	       state->time + draft_part(draft, stage, draft_next_w(draft, stage))
				       ->cost[BB_PASS_W] <=
		       arrival)
		draft_put_w(draft, stage);
	if (late && state->waiting > 0 && arrival - state->time > slack)
		draft_put_w(draft, stage);
	draft_put(draft, stage, kind, chunk);
}

/* The W that are left. */
static void draft_finish(struct bb_draft *draft)
{
	for (int s = 0; s < draft->order.stages; s++)
		while (!draft->failed && draft->stages[s].waiting > 0)
			draft_put_w(draft, s);
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
	const struct bb_part *part = draft_part(draft, stage, 0);
	int64_t arrival, earliest[3];

	state->begins = NEVER;
	if (draft->rule.fixed) {
		if (state->written == draft->order.length || lacks_own(draft, stage))
			return;
		state->next = bb_order_passes(&draft->order, stage)[state->written];
		arrival = arrival_of(draft, stage, &state->next);
		if (arrival >= 0)
			state->begins = later(arrival, state->time);
		return;
	}
	for (int kind = BB_PASS_F; kind <= BB_PASS_W; kind++) {
		arrival = draft_arrival(draft, stage, kind, 0);
		earliest[kind] = arrival < 0 ? NEVER : later(arrival, state->time);
	}
	if (state->held + part->change[BB_PASS_F] > draft_room(draft, stage))
		earliest[BB_PASS_F] = NEVER;
	const int64_t b = earliest[BB_PASS_B];
	for (int i = 0; i < 3; i++) {
		const int64_t at = earliest[list[i]];

		if (draft->rule.patient && list[i] != BB_PASS_B && at < b && b < NEVER &&
		    at + part->cost[list[i]] > b)
			continue;
		if (at < state->begins) {
			state->begins = at;
			state->next.kind = (uint8_t)list[i];
		}
	}
}

/* ---- the stage that can begin first: a tree of winners, whose last half are the stages ------- */

static void choose_again(struct bb_draft *draft, int stage)
{
	draft_choose(draft, stage);
	for (int at = (draft->order.stages + stage) / 2; at > 0; at /= 2) {
		const int a = draft->winners[2 * at], b = draft->winners[2 * at + 1];

		draft->winners[at] = draft->stages[b].begins < draft->stages[a].begins ? b : a;
	}
}

/* Begins list scheduling of an empty draft. A rule that is not fixed is for one chunk. */
static void draft_list(struct bb_draft *draft, struct bb_list_rule rule)
{
	draft->rule = rule;
	for (int s = 0; s < draft->order.stages; s++)
		draft->winners[draft->order.stages + s] = s;
	for (int s = 0; s < draft->order.stages; s++)
		choose_again(draft, s);
}

bb_status bb_draft_follow(struct bb_draft *draft, const struct bb_order *order,
			  struct bb_error *error)
{
	const bb_status status = draft_open(draft, order, order->microbatches, 0, error);

	if (status != BB_OK)
		return status;
	order_copy(&draft->order, order);
	draft_clear(draft);
	draft_list(draft, (struct bb_list_rule){.fixed = true});
	return BB_OK;
}

/* Only the stage itself, and the one that waits for the pass, may have got what they need. */
const struct bb_pass *bb_draft_step(struct bb_draft *draft, int *stage)
{
	const int s = *stage = draft->winners[1];
	const struct bb_stage_state *state = &draft->stages[s];
	const struct bb_pass *pass = &bb_order_passes(&draft->order, s)[state->written];

	if (state->begins == NEVER)
		return NULL;
	if (draft->rule.fixed)
		place(draft, s, state->next);
	else
		draft_put(draft, s, state->next.kind, 0);
	choose_again(draft, s);
	const int output = bb_order_output(&draft->order, s, pass);
	if (output >= 0)
		choose_again(draft, bb_order_stage(&draft->order, output));
	return pass;
}

/*
 * ---- zb-v ----
 *
 * The parts of the model are folded over the stages, so each stage has two chunks and the first
 * stage is also the last (arXiv 2401.10241, 6). Passes are placed round by round, a B and an F of
 * each stage, and W where a stage would otherwise be idle.
 */

struct fold {
	struct bb_draft draft;
	bool before_f, before_b; /* a W may fill a shorter gap before the pass */
	/* [stage]: bubbles of the previous try, which this one may have too; NULL: none. */
	const int64_t *granted;
	int64_t most_granted;
};

/* A pass, for which no stage gets a longer bubble than the worst has or had in the previous try. */
static void fold_put(struct fold *f, int stage, enum bb_pass_kind kind, int chunk)
{
	struct bb_draft *draft = &f->draft;
	const bool late = kind == BB_PASS_B ? chunk == 0 || f->before_b : f->before_f;
	const int64_t most =
		later(draft->bubble, f->granted ? f->most_granted - f->granted[stage] : 0);

	draft_put_after_w(draft, stage, kind, chunk, late, most - draft->stages[stage].bubble);
}

/* Before the first B: one microbatch there and back, where on the way back each stage adds the F
   that fit before its turn; then each stage gets as many F as the one before it. */
static void fold_warm_up(struct bb_draft *draft)
{
	const struct bb_stage_state *stages = draft->stages;
	const int p = draft->order.stages;
	int chunk = 0;

	for (int i = 0; i < p; i++)
		draft_put(draft, i, BB_PASS_F, 0);
	for (int i = p - 1; i >= 0 && !draft->failed; i--) {
		const int64_t arrival = draft_arrival(draft, i, BB_PASS_F, 1);
		const struct bb_part *part = draft_part(draft, i, 0);

		while (i < p - 1 &&
		       stages[i].held + part->change[BB_PASS_F] * (2 + 2 * i) <=
			       draft_room(draft, i) &&
		       stages[i].time + part->cost[BB_PASS_F] <= arrival &&
		       stages[i].done[BB_PASS_F][0] < draft->order.microbatches && !draft->failed)
			for (int j = 0; j <= i; j++)
				draft_put(draft, j, BB_PASS_F, 0);
		draft_put(draft, i, BB_PASS_F, 1);
	}
	for (int i = 1; i < p; i++) {
		const int *here = stages[i].done[BB_PASS_F];
		const int *before = stages[i - 1].done[BB_PASS_F];

		for (; !draft->failed && here[0] + here[1] < before[0] + before[1];
		     chunk = 1 - chunk)
			for (int j = p - 1; j >= i; j--)
				if (stages[j].done[BB_PASS_F][chunk] < draft->order.microbatches)
					draft_put(draft, j, BB_PASS_F, chunk);
	}
}

/* A B and an F of each stage that has what they need, as all do if their parts are equal; returns
   the number of these passes. */
static int fold_round(struct fold *f)
{
	struct bb_draft *draft = &f->draft;
	struct bb_stage_state *stages = draft->stages;
	const int p = draft->order.stages;
	int placed = 0;

	/* The B of the first chunk once its input has arrived, else that of the second. */
	for (int i = 0; i < p; i++) {
		const int *done = stages[i].done[BB_PASS_B];

		stages[i].extra = done[0] >= done[1] || (done[1] < draft->order.microbatches &&
							 draft_arrival(draft, i, BB_PASS_B, 0) < 0);
	}
	/* The first chunk from the last stage on, the second from the first. */
	for (int n = 0; n < 2 * p; n++) {
		const int chunk = n / p, i = chunk ? n - p : p - 1 - n;

		if (stages[i].extra == chunk && draft_arrival(draft, i, BB_PASS_B, chunk) >= 0) {
			fold_put(f, i, BB_PASS_B, chunk);
			placed++;
		}
	}
	/* The F of the second chunk, which is never ahead of the first, once its input has
	   arrived. */
	for (int i = 0; i < p; i++) {
		const int *done = stages[i].done[BB_PASS_F];
		const int chunk = done[1] < done[0] && draft_arrival(draft, i, BB_PASS_F, 1) >= 0;

		if (draft_arrival(draft, i, BB_PASS_F, chunk) < 0)
			continue;
		fold_put(f, i, BB_PASS_F, chunk);
		placed++;
	}
	return placed;
}

/* Each kind of try is repeated, with the bubbles of the previous one allowed, while that improves
   it. */
bb_status bb_order_search_v(struct bb_order *order, struct bb_error *error)
{
	/* That many microbatches fill the pipeline; those beyond the requested are not written. */
	const int p = order->stages, least = 2 * p - 1;
	const int m = order->microbatches > least ? order->microbatches : least;
	int64_t *bubbles = calloc((size_t)p, sizeof(*bubbles));
	struct fold f = {.before_f = false};
	struct bb_draft *draft = &f.draft;
	int64_t best = INT64_MAX;
	bb_status status = draft_open(draft, order, m, p, error);

	if (status == BB_OK && !bubbles)
		status = bb_no_memory(error, "a pipeline's order");
	/* A stage holds about twice as many microbatches as stages of its first chunk and later of
	   its second: memory is for twice the larger of the two. */
	for (int s = 0; s < p && status == BB_OK; s++) {
		const int64_t there = draft_part(draft, s, 0)->change[BB_PASS_F];

		draft->kept[s] = 2 * later(there, draft_part(draft, s, 1)->change[BB_PASS_F]);
	}
	for (int i = 0; i < 4 && status == BB_OK; i++) {
		f.before_b = i < 2;
		f.before_f = i % 2 == 0;
		f.granted = NULL;
		for (int64_t last = INT64_MAX;; f.granted = bubbles) {
			draft_clear(draft);
			fold_warm_up(draft);
			while (!draft->failed && fold_round(&f) > 0)
				;
			draft_finish(draft);
			for (int n = 0; n < 2 * p; n++)
				draft->failed |= draft->stages[n / 2].done[BB_PASS_B][n % 2] < m;
			if (draft->failed || draft->bubble >= last)
				break;
			last = f.most_granted = draft->bubble;
			for (int s = 0; s < p; s++)
				bubbles[s] = draft->stages[s].bubble;
			if (last < best)
				order_copy(order, &draft->order);
			best = last < best ? last : best;
		}
	}
	if (status == BB_OK && best == INT64_MAX)
		status = bb_fail(
			error, BB_EUNSUPPORTED,
			"no folded order of %d stages is found for these times and activations", p);
	bb_draft_free(draft);
	free(bubbles);
	return status;
}

/*
 * ---- zb-auto ----
 *
 * The best of several tries within a memory limit. Eight of them are greedy (arXiv 2401.10241,
 * 3.1), with each answer to three questions: may a stage be idle before its first B, does B go
 * before F, and may a W fill a gap that is shorter than it? They need memory for about as many
 * microbatches as stages; with less, list scheduling (draft.h) is better. The rules are tried too,
 * so that none is better than the search: 1F1B, ZB-H1, ZB-H2, and GPipe in groups of as many
 * microbatches as fit.
 */

struct greedy {
	struct bb_draft *draft;
	bool waits;   /* a stage may be idle before its first B */
	bool hurries; /* B goes before F where another stage waits for it */
	bool eager;   /* a gap is filled by a W that is longer */
};

/* The pass of KIND after W that make room for it and W that fit before it, and one more if EAGER or
   if the stage's bubble would otherwise be the longest. The LAST_W all go first. */
static void greedy_put(const struct greedy *g, int stage, enum bb_pass_kind kind, bool last_w)
{
	struct bb_draft *draft = g->draft;
	const struct bb_stage_state *state = &draft->stages[stage];

	while (last_w && state->waiting > 0 && !draft->failed)
		draft_put_w(draft, stage);
	draft_put_after_w(draft, stage, kind, 0, true,
			  g->eager ? 0 : draft->bubble - state->bubble);
}

/* Should the stage do an F now? With HURRIES not if it is well ahead and its B would be late. */
static bool wants_f(const struct greedy *g, int stage)
{
	const struct bb_draft *draft = g->draft;
	const struct bb_stage_state *state = &draft->stages[stage];
	const struct bb_part *part = draft_part(draft, stage, 0), *next;
	int64_t held, b, room = 0; /* arrival of the B; time of the W that make room */

	if (state->done[BB_PASS_F][0] == draft->order.microbatches)
		return false;
	if (!g->hurries || stage + 1 == draft->order.stages ||
	    state->done[BB_PASS_F][0] < state[1].done[BB_PASS_F][0] + 2)
		return true;
	/* The next stage does one more F and B. */
	next = draft_part(draft, stage + 1, 0);
	b = state[1].time + next->cost[BB_PASS_F] + next->cost[BB_PASS_B] +
	    draft->order.pipeline.hop;
	if (state->time >= b)
		return false;
	held = state->held + part->change[BB_PASS_F];
	for (int n = 0; held > draft_room(draft, stage) && n < state->waiting; n++) {
		held += part->change[BB_PASS_W];
		room += part->cost[BB_PASS_W];
	}
	return state->time + part->cost[BB_PASS_F] + room <= b ||
	       b - state->time > draft->bubble - state->bubble;
}

/* Places all passes. */
static void greedy_place(const struct greedy *g)
{
	struct bb_draft *draft = g->draft;
	struct bb_stage_state *stages = draft->stages;
	const int p = draft->order.stages, m = draft->order.microbatches;
	int64_t arrival = 0; /* of the first B of the next stage */

	/* Until each stage has done its first B: F that fit before it, in time and in memory. */
	for (int j = 0; j < p; j++)
		draft_put(draft, j, BB_PASS_F, 0);
	for (int j = p - 1; j >= 0; j--) {
		const struct bb_part *part = draft_part(draft, j, 0);
		const int64_t f = part->cost[BB_PASS_F], memory = part->change[BB_PASS_F];
		int64_t held = stages[j].held, time = stages[j].time;

		stages[j].extra = 0;
		while (j < p - 1 && stages[j].done[BB_PASS_F][0] + stages[j].extra < m &&
		       held + memory <= draft_room(draft, j) &&
		       (g->waits ? time + f <= arrival : time < arrival)) {
			held += memory;
			time += f;
			stages[j].extra++;
		}
		arrival = (time > arrival ? time : arrival) + part->cost[BB_PASS_B] +
			  draft->order.pipeline.hop;
	}
	/* No stage is ahead of the one that feeds it. */
	for (int j = 1; j < p; j++)
		while (stages[j].extra > 0 && stages[j].extra >= stages[j - 1].extra &&
		       stages[j].done[BB_PASS_F][0] + stages[j].extra < m)
			stages[j].extra--;
	for (int j = 0; j < p; j++)
		for (; stages[j].extra > 0; stages[j].extra--)
			draft_put(draft, j, BB_PASS_F, 0);
	for (int j = p - 1; j >= 0; j--)
		draft_put(draft, j, BB_PASS_B, 0);
	/* Then, in rounds, each stage does an F, if any, and a B. */
	for (int round = 1; round < m && !draft->failed; round++) {
		for (int j = 0; j < p; j++)
			stages[j].extra = wants_f(g, j);
		for (int j = p - 2; j >= 0; j--)
			if (stages[j].extra > stages[j + 1].extra)
				stages[j].extra = stages[j + 1].extra;
		for (int j = 0; j < p; j++)
			if (stages[j].extra)
				greedy_put(g, j, BB_PASS_F, false);
		for (int j = p - 1; j >= 0; j--)
			greedy_put(g, j, BB_PASS_B, j == 0 && stages[j].done[BB_PASS_F][0] == m);
	}
	draft_finish(draft);
}

#define SEARCHES 8
#define LISTS 4
#define RULES 4
#define TRIES (SEARCHES + LISTS + RULES)

/* The longest time of a stage from its first pass to its last, and the end of the last pass: FIRST
   is the one to minimize, REST decides between equals. */
struct cost {
	int64_t first, rest;
};

static struct cost cost_of(const struct bb_order *order, int64_t span, int64_t end)
{
	return order->pipeline.by_step ? (struct cost){end, span} : (struct cost){span, end};
}

static bool is_better(struct cost a, struct cost b)
{
	return a.first != b.first ? a.first < b.first : a.rest < b.rest;
}

/* A bound from below: a stage begins after one F of each stage before it, and does all its passes.
   Before its first B it waits for one F and B of each stage behind, and has memory for few F. */
static struct cost least_cost(const struct bb_order *order)
{
	const int64_t m = order->microbatches, limit = order->pipeline.limit;
	const int64_t kept = limit < m ? limit : m, hop = order->pipeline.hop;
	int64_t before = 0, wait = 0, span = 0, end = 0;

	for (int s = 0; s < order->stages - 1; s++)
		before += bb_part_of(order, s).cost[BB_PASS_F] + hop;
	for (int s = order->stages - 1; s >= 0; s--) {
		const struct bb_part part = bb_part_of(order, s);

		wait += part.cost[BB_PASS_F];
		const int64_t idle = later(wait - kept * part.cost[BB_PASS_F], 0);
		const int64_t passes = m * bb_stage_ns(order, s) + idle;
		span = later(span, passes);
		end = later(end, before + passes);
		wait += part.cost[BB_PASS_B] + 2 * hop;
		before -= s > 0 ? bb_part_of(order, s - 1).cost[BB_PASS_F] + hop : 0;
	}
	return cost_of(order, span, end);
}

int64_t bb_auto_least(const struct bb_pipeline *pipeline)
{
	const struct bb_order order = {.pipeline = *pipeline,
				       .stages = pipeline->stages,
				       .microbatches = pipeline->microbatches,
				       .chunks = 1,
				       .split = true};
	const struct cost least = least_cost(&order);

	return pipeline->by_step ? least.rest : least.first;
}

/* All tries within the limit, until none can be better than the bound. Lower limits are tried too,
   as they are sometimes better; so more memory is never worse. */
bb_status bb_order_search_auto(struct bb_order *order, struct bb_error *error)
{
	/* Of 1F1B, ZB-H1, ZB-H2 and GPipe, whose group is the limit. */
	static const struct {
		int reach, late;
	} rules[RULES] = {{1, 0}, {1, 1}, {2, 2}, {0, 0}};
	const struct bb_pipeline *pipeline = &order->pipeline;
	const size_t passes = TRIES * (size_t)order->stages * order->length;
	const size_t tried = pipeline->hasty ? BB_PIPELINE_TRIED / 32 : BB_PIPELINE_TRIED;
	const int most = (int)(pipeline->limit < order->microbatches ? pipeline->limit
								     : order->microbatches);
	const struct cost least = least_cost(order);
	struct cost best = {INT64_MAX, INT64_MAX};
	struct bb_draft draft;
	bb_status status = draft_open(&draft, order, order->microbatches, most, error);

	for (; draft.limit > 0 && status == BB_OK; draft.limit--) {
		if (draft.limit < most && (size_t)(most - draft.limit + 1) * passes > tried)
			break;
		for (int i = 0; i < TRIES; i++) {
			const int rule = i - SEARCHES - LISTS;
			int64_t end, span;
			int stage;

			if (pipeline->hasty ? least.first >= best.first : !is_better(least, best))
				goto out;
			draft_clear(&draft);
			if (i < SEARCHES)
				greedy_place(&(struct greedy){&draft, i & 1, i & 2, i & 4});
			if (rule >= 0)
				bb_order_write_rule(&draft.order, rules[rule].reach,
						    rules[rule].late,
						    rule < RULES - 1 ? 0 : (int)draft.limit);
			if (i >= SEARCHES)
				draft_list(&draft, (struct bb_list_rule){.fixed = rule >= 0,
									 .first = i & 1 ? BB_PASS_F
											: BB_PASS_B,
									 .patient = i & 2});
			while (i >= SEARCHES && !draft.failed && bb_draft_step(&draft, &stage))
				;
			span = bb_draft_span(&draft, &end);
			const struct cost this = cost_of(order, span, end);
			if (draft.failed || !is_better(this, best))
				continue;
			best = this;
			order_copy(order, &draft.order);
		}
	}
	if (status == BB_OK && best.first == INT64_MAX)
		status = bb_fail(error, BB_EUNSUPPORTED,
				 "the search finds no order within the memory of %lld microbatches",
				 (long long)pipeline->limit);
out:
	bb_draft_free(&draft);
	return status;
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
