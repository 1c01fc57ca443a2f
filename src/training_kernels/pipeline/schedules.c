/*
 * schedules.c - the schedules: lists of passes that follow a rule, zb-v, and the search of zb-auto.
 *
 * Sources: GPipe arXiv 1811.06965; 1F1B arXiv 1806.03377 and 2104.04473, also interleaved;
 * ZB-H1, ZB-H2, zb-v and the search arXiv 2401.10241.
 */
#include "training_kernels/pipeline/draft.h"

#include <stdlib.h>
#include <string.h>

/* ---- by rule --------------------------------------------------------------------------------- */

/* Pass number I of KIND on any stage. With several chunks as many microbatches as there are stages
   go through a chunk before the next chunk; the backward pass is mirrored. */
static struct bb_pass rule_pass(const struct bb_order *order, enum bb_pass_kind kind, int i)
{
	const int p = order->stages, v = order->chunks;
	const int chunk = i % (p * v) / p;

	return (struct bb_pass){.kind = (uint8_t)kind,
				.chunk = (uint8_t)(kind == BB_PASS_F ? chunk : v - 1 - chunk),
				.microbatch = (uint16_t)(i / (p * v) * p + i % p)};
}

/*
 * Groups of GROUP microbatches go forward together and then back. GROUP 0: a stage does REACH times
 * as many F ahead as there are stages behind it, and those of a round of all chunks but one; from
 * then on F and B take turns. With W split from B, W begins after LATE times as many B as there are
 * stages before; with LATE as REACH that is when the first stage begins with it, so that those that
 * are left fill the bubble at the end.
 */
static void write_rule(struct bb_order *order, int reach, int late, int group)
{
	const int all = order->microbatches * order->chunks;
	const int round = (order->chunks - 1) * order->stages;
	struct bb_pass *at = order->passes;

	for (int stage = 0; stage < order->stages; stage++) {
		const int64_t ahead = (int64_t)reach * (order->stages - 1 - stage) + round;
		int f = 0, w = 0;

		for (int b = 0; b < all; b++) {
			const int64_t due = group ? (b / group + 1) * group : ahead + b + 1;

			while (f < all && f < due)
				*at++ = rule_pass(order, BB_PASS_F, f++);
			*at++ = rule_pass(order, order->split ? BB_PASS_B : BB_PASS_BW, b);
			if (order->split && b >= late * stage)
				*at++ = rule_pass(order, BB_PASS_W, w++);
		}
		while (order->split && w < all)
			*at++ = rule_pass(order, BB_PASS_W, w++);
	}
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
	int64_t most = draft->bubble;

	if (f->granted && f->most_granted - f->granted[stage] > most)
		most = f->most_granted - f->granted[stage];
	bb_draft_fill_gap(draft, stage, kind, chunk, late, most - draft->stages[stage].bubble);
	bb_draft_put(draft, stage, kind, chunk);
}

/* Before the first B: one microbatch there and back, where on the way back each stage adds the F
   that fit before its turn; then each stage gets as many F as the one before it. */
static void fold_warm_up(struct bb_draft *draft)
{
	const struct bb_stage_state *stages = draft->stages;
	const int p = draft->order.stages;
	int chunk = 0;

	for (int i = 0; i < p; i++)
		bb_draft_put(draft, i, BB_PASS_F, 0);
	for (int i = p - 1; i >= 0 && !draft->failed; i--) {
		const int64_t arrival = bb_draft_arrival(draft, i, BB_PASS_F, 1);
		const struct bb_part *part = bb_draft_part(draft, i, 0);

		while (i < p - 1 &&
		       stages[i].held + part->change[BB_PASS_F] * (2 + 2 * i) <=
			       bb_draft_room(draft, i) &&
		       stages[i].time + part->cost[BB_PASS_F] <= arrival &&
		       stages[i].done[BB_PASS_F][0] < draft->order.microbatches && !draft->failed)
			for (int j = 0; j <= i; j++)
				bb_draft_put(draft, j, BB_PASS_F, 0);
		bb_draft_put(draft, i, BB_PASS_F, 1);
	}
	for (int i = 1; i < p; i++) {
		const int *here = stages[i].done[BB_PASS_F];
		const int *before = stages[i - 1].done[BB_PASS_F];

		for (; !draft->failed && here[0] + here[1] < before[0] + before[1];
		     chunk = 1 - chunk)
			for (int j = p - 1; j >= i; j--)
				if (stages[j].done[BB_PASS_F][chunk] < draft->order.microbatches)
					bb_draft_put(draft, j, BB_PASS_F, chunk);
	}
}

/* Does the stage have what the pass needs? Always if all parts are equal; else it may skip a
   turn. */
static bool is_ready(const struct bb_draft *draft, int stage, enum bb_pass_kind kind, int chunk)
{
	const int(*done)[2] = draft->stages[stage].done;

	return done[kind][chunk] <
		       (kind == BB_PASS_F ? draft->order.microbatches : done[BB_PASS_F][chunk]) &&
	       bb_draft_arrival(draft, stage, kind, chunk) >= 0;
}

/* A B and an F of each stage that has what they need; returns the number of these passes. */
static int fold_round(struct fold *f)
{
	struct bb_draft *draft = &f->draft;
	struct bb_stage_state *stages = draft->stages;
	const int p = draft->order.stages;
	int placed = 0;

	/* The B of the first chunk once its input has arrived, else that of the second. */
	for (int i = 0; i < p; i++) {
		const int *done = stages[i].done[BB_PASS_B];

		bb_draft_make_room(draft, i, BB_PASS_B, 0);
		stages[i].extra =
			done[0] >= done[1] || (done[1] < draft->order.microbatches &&
					       bb_draft_arrival(draft, i, BB_PASS_B, 0) < 0);
	}
	/* The first chunk from the last stage on, the second from the first. */
	for (int n = 0; n < 2 * p; n++) {
		const int chunk = n / p, i = chunk ? n - p : p - 1 - n;

		if (stages[i].extra == chunk && is_ready(draft, i, BB_PASS_B, chunk)) {
			fold_put(f, i, BB_PASS_B, chunk);
			placed++;
		}
	}
	/* The F of the second chunk, which is never ahead of the first, once its input has
	   arrived. */
	for (int i = 0; i < p; i++) {
		const int *done = stages[i].done[BB_PASS_F];
		const int chunk =
			done[1] < done[0] && bb_draft_arrival(draft, i, BB_PASS_F, 1) >= 0;

		if (!is_ready(draft, i, BB_PASS_F, chunk))
			continue;
		bb_draft_make_room(draft, i, BB_PASS_F, chunk);
		fold_put(f, i, BB_PASS_F, chunk);
		placed++;
	}
	return placed;
}

/* Each kind of try is repeated, with the bubbles of the previous one allowed, while that improves
   it. */
static bb_status search_v(struct bb_order *order, struct bb_error *error)
{
	/* That many microbatches fill the pipeline; those beyond the requested are not written. */
	const int p = order->stages, least = 2 * p - 1;
	const int m = order->microbatches > least ? order->microbatches : least;
	int64_t *bubbles = calloc((size_t)p, sizeof(*bubbles));
	struct fold f = {.before_f = false};
	struct bb_draft *draft = &f.draft;
	int64_t best = INT64_MAX;
	bb_status status = bb_draft_open(draft, order, m, p, error);

	if (status == BB_OK && !bubbles)
		status = bb_no_memory(error, "a pipeline's order");
	/* A stage holds about twice as many microbatches as stages of its first chunk and later of
	   its second: memory is for twice the larger of the two. */
	for (int s = 0; s < p && status == BB_OK; s++) {
		const int64_t there = bb_draft_part(draft, s, 0)->change[BB_PASS_F];
		const int64_t back = bb_draft_part(draft, s, 1)->change[BB_PASS_F];

		draft->kept[s] = 2 * (there > back ? there : back);
	}
	for (int i = 0; i < 4 && status == BB_OK; i++) {
		f.before_b = i < 2;
		f.before_f = i % 2 == 0;
		f.granted = NULL;
		for (int64_t last = INT64_MAX;; f.granted = bubbles) {
			bb_draft_clear(draft);
			fold_warm_up(draft);
			while (!draft->failed && fold_round(&f) > 0)
				;
			bb_draft_finish(draft);
			for (int n = 0; n < 2 * p; n++)
				draft->failed |= draft->stages[n / 2].done[BB_PASS_B][n % 2] < m;
			if (draft->failed || draft->bubble >= last)
				break;
			last = f.most_granted = draft->bubble;
			for (int s = 0; s < p; s++)
				bubbles[s] = draft->stages[s].bubble;
			if (last < best)
				bb_order_copy(order, &draft->order);
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

	bb_draft_make_room(draft, stage, kind, 0);
	bb_draft_fill_gap(draft, stage, kind, 0, true,
			  g->eager ? 0 : draft->bubble - state->bubble);
	while (last_w && state->waiting > 0 && !draft->failed)
		bb_draft_put_w(draft, stage);
	bb_draft_put(draft, stage, kind, 0);
}

/* Should the stage do an F now? With HURRIES not if it is well ahead and its B would be late. */
static bool wants_f(const struct greedy *g, int stage)
{
	const struct bb_draft *draft = g->draft;
	const struct bb_stage_state *state = &draft->stages[stage];
	const struct bb_part *part = bb_draft_part(draft, stage, 0), *next;
	int64_t held, b, room = 0; /* arrival of the B; time of the W that make room */

	if (state->done[BB_PASS_F][0] == draft->order.microbatches)
		return false;
	if (!g->hurries || stage + 1 == draft->order.stages ||
	    state->done[BB_PASS_F][0] < state[1].done[BB_PASS_F][0] + 2)
		return true;
	/* The next stage does one more F and B. */
	next = bb_draft_part(draft, stage + 1, 0);
	b = state[1].time + next->cost[BB_PASS_F] + next->cost[BB_PASS_B] +
	    draft->order.pipeline.hop;
	if (state->time >= b)
		return false;
	held = state->held + part->change[BB_PASS_F];
	for (int n = 0; held > bb_draft_room(draft, stage) && n < state->waiting; n++) {
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
		bb_draft_put(draft, j, BB_PASS_F, 0);
	for (int j = p - 1; j >= 0; j--) {
		const struct bb_part *part = bb_draft_part(draft, j, 0);
		const int64_t f = part->cost[BB_PASS_F], memory = part->change[BB_PASS_F];
		int64_t held = stages[j].held, time = stages[j].time;

		stages[j].extra = 0;
		while (j < p - 1 && stages[j].done[BB_PASS_F][0] + stages[j].extra < m &&
		       held + memory <= bb_draft_room(draft, j) &&
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
			bb_draft_put(draft, j, BB_PASS_F, 0);
	for (int j = p - 1; j >= 0; j--)
		bb_draft_put(draft, j, BB_PASS_B, 0);
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
	bb_draft_finish(draft);
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
		int64_t passes = m * bb_stage_ns(order, s);

		wait += part.cost[BB_PASS_F];
		if (wait > kept * part.cost[BB_PASS_F])
			passes += wait - kept * part.cost[BB_PASS_F];
		span = passes > span ? passes : span;
		end = before + passes > end ? before + passes : end;
		wait += part.cost[BB_PASS_B] + 2 * hop;
		before -= s > 0 ? bb_part_of(order, s - 1).cost[BB_PASS_F] + hop : 0;
	}
	return cost_of(order, span, end);
}

/* All tries within the limit, until none can be better than the bound. Lower limits are tried too,
   as they are sometimes better; so more memory is never worse. */
static bb_status search_auto(struct bb_order *order, struct bb_error *error)
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
	bb_status status = bb_draft_open(&draft, order, order->microbatches, most, error);

	for (; draft.limit > 0 && status == BB_OK; draft.limit--) {
		if (draft.limit < most && (size_t)(most - draft.limit + 1) * passes > tried)
			break;
		for (int i = 0; i < TRIES; i++) {
			const int rule = i - SEARCHES - LISTS;
			int64_t end, span;
			struct cost this;
			int stage;

			if (pipeline->hasty ? least.first >= best.first : !is_better(least, best))
				goto out;
			bb_draft_clear(&draft);
			if (i < SEARCHES)
				greedy_place(&(struct greedy){&draft, i & 1, i & 2, i & 4});
			if (rule >= 0)
				write_rule(&draft.order, rules[rule].reach, rules[rule].late,
					   rule < RULES - 1 ? 0 : (int)draft.limit);
			if (i >= SEARCHES)
				bb_draft_list(&draft,
					      (struct bb_list_rule){.fixed = rule >= 0,
								    .first = i & 1 ? BB_PASS_F
										   : BB_PASS_B,
								    .patient = i & 2});
			while (i >= SEARCHES && !draft.failed && bb_draft_step(&draft, &stage))
				;
			span = bb_draft_span(&draft, &end);
			this = cost_of(order, span, end);
			if (draft.failed || !is_better(this, best))
				continue;
			best = this;
			bb_order_copy(order, &draft.order);
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

/* ---- the schedules --------------------------------------------------------------------------- */

const struct bb_pipeline_schedule bb_pipeline_schedules[] = {
	{"naive", "one microbatch after another", .chunks = 1},
	{"gpipe", "all forward passes, then all backward passes", .chunks = 1, .grouped = true},
	{"1f1b", "forward and backward passes alternate: memory for as many microbatches as stages",
	 .chunks = 1, .reach = 1},
	{"interleaved", "1f1b with several chunks per stage, in rounds over the stages",
	 .reach = 2},
	{"zb-h1", "1f1b with W split from B, to fill the bubble at the end", .split = true,
	 .chunks = 1, .reach = 1},
	{"zb-h2", "twice as many forward passes ahead: no bubble if F, B and W are equal",
	 .split = true, .chunks = 1, .reach = 2},
	{"zb-v", "two chunks per stage, folded: no bubble with the memory of 1f1b", .split = true,
	 .folded = true, .chunks = 2, .search = search_v},
	{"zb-auto", "the best order that a search finds within --memory", .split = true,
	 .chunks = 1, .search = search_auto},
	{.name = NULL},
};

const struct bb_pipeline_schedule *bb_pipeline_find(const char *name)
{
	for (const struct bb_pipeline_schedule *s = bb_pipeline_schedules; s->name; s++)
		if (strcmp(s->name, name) == 0)
			return s;
	return NULL;
}

const char *bb_pipeline_name(int index)
{
	return bb_pipeline_schedules[index].name;
}

int bb_pipeline_chunks(const struct bb_pipeline_schedule *schedule,
		       const struct bb_pipeline *pipeline)
{
	return schedule->chunks ? schedule->chunks : pipeline->chunks;
}

const char *bb_pipeline_refuses(const struct bb_pipeline_schedule *schedule,
				const struct bb_pipeline *pipeline)
{
	const int chunks = bb_pipeline_chunks(schedule, pipeline);
	const int64_t p = pipeline->stages, m = pipeline->microbatches;

	if (chunks > 1 && pipeline->layers % (chunks * pipeline->stages))
		return "needs a number of layers that the chunks of all stages divide";
	if (!schedule->chunks && m % p)
		return "needs a number of microbatches that the number of stages divides";
	if (schedule->folded && 6 * p * (m > 2 * p ? m : 2 * p) > BB_PIPELINE_TRIED)
		return "needs fewer stages, as its search takes twice as many microbatches";
	return NULL;
}

/* An order without lists. */
static struct bb_order order_of(const struct bb_pipeline_schedule *schedule,
				const struct bb_pipeline *pipeline)
{
	const int chunks = bb_pipeline_chunks(schedule, pipeline);

	return (struct bb_order){
		.pipeline = *pipeline,
		.stages = pipeline->stages,
		.microbatches = pipeline->microbatches,
		.chunks = chunks,
		.split = schedule->split,
		.folded = schedule->folded,
		.length =
			(schedule->split ? 3 : 2) * (size_t)chunks * (size_t)pipeline->microbatches,
	};
}

int64_t bb_auto_least(const struct bb_pipeline *pipeline)
{
	const struct bb_order order = order_of(bb_pipeline_find("zb-auto"), pipeline);
	const struct cost least = least_cost(&order);

	return pipeline->by_step ? least.rest : least.first;
}

bb_status bb_order_make(const struct bb_pipeline_schedule *schedule,
			const struct bb_pipeline *pipeline, struct bb_order *order,
			struct bb_error *error)
{
	*order = order_of(schedule, pipeline);
	order->passes = calloc((size_t)order->stages * order->length, sizeof(*order->passes));
	if (!order->passes)
		return bb_no_memory(error, "a pipeline's order");
	if (schedule->search)
		return schedule->search(order, error);
	write_rule(order, schedule->reach, schedule->reach,
		   schedule->grouped ? order->microbatches : 0);
	return BB_OK;
}
