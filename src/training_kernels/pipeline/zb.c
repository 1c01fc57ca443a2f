/*
 * zb.c - zb-auto: the best of several tries within a memory limit. Eight of them are
 * greedy (arXiv 2401.10241, 3.1), with each answer to three questions: may a stage be idle before
 * its first B, does B go before F, and may a W fill a gap that is shorter than it? They need memory
 * for about as many microbatches as stages; with less, list scheduling (draft.h) is better. The
 * rules are tried too, so that none is better than the search: 1F1B, ZB-H1, ZB-H2, and GPipe in
 * groups of as many microbatches as fit.
 */
#include "training_kernels/pipeline/draft.h"

#include <stdlib.h>
#include <string.h>

struct search {
	struct bb_draft *draft;
	bool waits;   /* a stage may be idle before its first B */
	bool hurries; /* B goes before F where another stage waits for it */
	bool eager;   /* a gap is filled by a W that is longer */
};

/* W while they fit before ARRIVAL, then one that is too long for the rest of the gap, if EAGER or
   if the stage's bubble would otherwise be the longest. */
static void fill_gap(struct search *s, int stage, int64_t arrival)
{
	const struct bb_stage_state *state = &s->draft->stages[stage];
	const int64_t slack = s->draft->bubble - state->bubble;

	bb_draft_put_fitting_w(s->draft, stage, arrival);
	if (state->waiting > 0 && state->time < arrival &&
	    (s->eager || arrival - state->time > slack))
		bb_draft_put_w(s->draft, stage);
}

/* ---- warm-up: until each stage has done its first B ------------------------------------------ */

/* F that fit, in time and in memory, before the first B of a stage, which can begin at ARRIVAL. */
static int fitting(const struct search *s, int stage, int64_t arrival, int64_t *time)
{
	const struct bb_draft *draft = s->draft;
	const struct bb_stage_state *state = &draft->stages[stage];
	int64_t held = state->held;
	int n = 0;

	*time = state->time;
	while (state->done[BB_PASS_F][0] + n < draft->microbatches &&
	       held + bb_draft_change(draft, stage, BB_PASS_F, 0) <= bb_draft_room(draft, stage) &&
	       (s->waits ? *time + bb_draft_cost(draft, stage, BB_PASS_F, 0) <= arrival
			 : *time < arrival)) {
		held += bb_draft_change(draft, stage, BB_PASS_F, 0);
		*time += bb_draft_cost(draft, stage, BB_PASS_F, 0);
		n++;
	}
	return n;
}

static void warm_up(struct search *s)
{
	struct bb_draft *draft = s->draft;
	struct bb_stage_state *stages = draft->stages;
	const int p = draft->order.stages;
	int64_t arrival = 0, time; /* of the first B of the next stage */

	for (int j = 0; j < p; j++)
		bb_draft_put(draft, j, BB_PASS_F, 0);
	for (int j = p - 1; j >= 0; j--) {
		stages[j].extra = j == p - 1 ? 0 : fitting(s, j, arrival, &time);
		if (j == p - 1)
			time = stages[j].time;
		arrival = (time > arrival ? time : arrival) +
			  bb_draft_cost(draft, j, BB_PASS_B, 0) + draft->hop;
	}
	/* No stage is ahead of the one that feeds it. */
	for (int j = 1; j < p; j++)
		while (stages[j].extra > 0 && stages[j].extra >= stages[j - 1].extra &&
		       stages[j].done[BB_PASS_F][0] + stages[j].extra < draft->microbatches)
			stages[j].extra--;
	for (int j = 0; j < p; j++)
		for (; stages[j].extra > 0; stages[j].extra--)
			bb_draft_put(draft, j, BB_PASS_F, 0);
}

/* ---- rounds: each stage does an F, if any, and a B ------------------------------------------- */

/* The arrival of a B from the next stage, once that has done one more F and B. */
static int64_t next_b(const struct bb_draft *draft, int stage)
{
	return draft->stages[stage + 1].time + bb_draft_cost(draft, stage + 1, BB_PASS_F, 0) +
	       bb_draft_cost(draft, stage + 1, BB_PASS_B, 0) + draft->hop;
}

/* The time of the W that must make room for an F. */
static int64_t room_time(const struct bb_draft *draft, int stage)
{
	const struct bb_stage_state *state = &draft->stages[stage];
	int64_t held = state->held + bb_draft_change(draft, stage, BB_PASS_F, 0), time = 0;

	for (int n = 0; held > bb_draft_room(draft, stage) && n < state->waiting; n++) {
		held += bb_draft_change(draft, stage, BB_PASS_W, 0);
		time += bb_draft_cost(draft, stage, BB_PASS_W, 0);
	}
	return time;
}

/* Should the stage do an F now? With HURRIES not if it is well ahead and its B would be late. */
static int wants_f(const struct search *s, int stage)
{
	const struct bb_draft *draft = s->draft;
	const struct bb_stage_state *state = &draft->stages[stage];
	int64_t b;

	if (state->done[BB_PASS_F][0] == draft->microbatches)
		return 0;
	if (!s->hurries || stage + 1 == draft->order.stages ||
	    state->done[BB_PASS_F][0] < state[1].done[BB_PASS_F][0] + 2)
		return 1;
	b = next_b(draft, stage);
	if (state->time >= b)
		return 0;
	if (state->time + bb_draft_cost(draft, stage, BB_PASS_F, 0) + room_time(draft, stage) <= b)
		return 1;
	return b - state->time > draft->bubble - state->bubble;
}

static void search_round(struct search *s)
{
	struct bb_draft *draft = s->draft;
	struct bb_stage_state *stages = draft->stages;
	const int p = draft->order.stages;

	for (int j = 0; j < p; j++)
		stages[j].extra = wants_f(s, j);
	for (int j = p - 2; j >= 0; j--)
		if (stages[j].extra > stages[j + 1].extra)
			stages[j].extra = stages[j + 1].extra;
	for (int j = 0; j < p; j++) {
		if (!stages[j].extra)
			continue;
		bb_draft_make_room(draft, j, BB_PASS_F, 0);
		fill_gap(s, j, bb_draft_arrival(draft, j, BB_PASS_F, 0));
		bb_draft_put(draft, j, BB_PASS_F, 0);
	}
	for (int j = p - 1; j >= 0; j--) {
		bb_draft_make_room(draft, j, BB_PASS_B, 0);
		fill_gap(s, j, bb_draft_arrival(draft, j, BB_PASS_B, 0));
		while (j == 0 && stages[j].done[BB_PASS_F][0] == draft->microbatches &&
		       stages[j].waiting > 0 && !draft->failed)
			bb_draft_put_w(draft, j);
		bb_draft_put(draft, j, BB_PASS_B, 0);
	}
}

/* ---- tries ----------------------------------------------------------------------------------- */

static void search(struct bb_draft *draft, int flags)
{
	struct search s = {draft, flags & 1, flags & 2, flags & 4};

	warm_up(&s);
	for (int j = draft->order.stages - 1; j >= 0; j--)
		bb_draft_put(draft, j, BB_PASS_B, 0);
	for (int i = 1; i < draft->microbatches && !draft->failed; i++)
		search_round(&s);
	bb_draft_finish(draft);
}

/* A rule: REACH times as many F ahead as there are stages behind, and W delayed by LATE times as
   many B as there are stages before. 1F1B is 1 and 0, ZB-H1 1 and 1, ZB-H2 2 and 2. */
static void follow_rule_of(struct bb_draft *draft, int reach, int late)
{
	const int p = draft->order.stages, m = draft->microbatches;

	for (int j = 0; j < p; j++)
		for (int i = 0; i < reach * (p - 1 - j) && i < m; i++)
			bb_draft_put(draft, j, BB_PASS_F, 0);
	for (int i = 0; i < m; i++) {
		for (int j = 0; j < p; j++)
			if (draft->stages[j].done[BB_PASS_F][0] < m)
				bb_draft_put(draft, j, BB_PASS_F, 0);
		for (int j = p - 1; j >= 0; j--) {
			bb_draft_put(draft, j, BB_PASS_B, 0);
			if (i >= late * j)
				bb_draft_put_w(draft, j);
		}
	}
	bb_draft_finish(draft);
}

/* GPipe in groups of N microbatches. */
static void follow_groups(struct bb_draft *draft, int n)
{
	const int p = draft->order.stages, m = draft->microbatches;

	for (int begin = 0; begin < m; begin += n) {
		const int these = begin + n < m ? n : m - begin;

		for (int j = 0; j < p; j++)
			for (int i = 0; i < these; i++)
				bb_draft_put(draft, j, BB_PASS_F, 0);
		for (int j = p - 1; j >= 0; j--)
			for (int i = 0; i < these; i++) {
				bb_draft_put(draft, j, BB_PASS_B, 0);
				bb_draft_put_w(draft, j);
			}
	}
}

static void follow_rule(struct bb_draft *draft, struct bb_list_rule rule)
{
	int stage;

	bb_draft_list(draft, rule);
	while (!draft->failed && bb_draft_step(draft, &stage))
		;
}

#define SEARCHES 8
#define LISTS 4
#define RULES 3
#define TRIES (SEARCHES + LISTS + RULES + 1)

/* Try number I of TRIES, within the memory of LIMIT microbatches. */
static void try_draft(struct bb_draft *draft, int i, int limit)
{
	static const int rules[RULES][2] = {{1, 0}, {1, 1}, {2, 2}};

	bb_draft_clear(draft);
	if (i < SEARCHES)
		search(draft, i);
	else if ((i -= SEARCHES) < LISTS)
		follow_rule(draft, (struct bb_list_rule){.first = i & 1 ? BB_PASS_F : BB_PASS_B,
							 .patient = i & 2});
	else if ((i -= LISTS) < RULES)
		follow_rule_of(draft, rules[i][0], rules[i][1]);
	else
		follow_groups(draft, limit);
}

/* ---- the best try ---------------------------------------------------------------------------- */

/* The longest time of a stage from its first pass to its last, and the end of the last pass. FIRST
   is the one to minimize, REST decides between equals. */
struct cost {
	int64_t first, rest;
};

static struct cost cost(int64_t span, int64_t end, bool by_step)
{
	return by_step ? (struct cost){end, span} : (struct cost){span, end};
}

static struct cost draft_cost(const struct bb_draft *draft, bool by_step)
{
	int64_t span = 0, end = 0;

	for (int s = 0; s < draft->order.stages; s++) {
		const struct bb_stage_state *state = &draft->stages[s];

		if (state->time - state->begin > span)
			span = state->time - state->begin;
		if (state->time > end)
			end = state->time;
	}
	return cost(span, end, by_step);
}

static bool is_better(struct cost a, struct cost b)
{
	return a.first != b.first ? a.first < b.first : a.rest < b.rest;
}

/* A bound from below: a stage begins after one F of each stage before it, and does all its passes.
   Before its first B it waits for one F and B of each stage behind, and has memory for few F. */
static struct cost least_cost(const struct bb_pipeline *pipeline, const struct bb_order *order)
{
	const int64_t m = order->microbatches, kept = pipeline->limit < m ? pipeline->limit : m;
	int64_t before = 0, wait = 0, span = 0, end = 0;

	for (int s = 0; s < order->stages - 1; s++)
		before += bb_part_of(pipeline, order, s).cost[BB_PASS_F] + pipeline->hop;
	for (int s = order->stages - 1; s >= 0; s--) {
		const struct bb_part part = bb_part_of(pipeline, order, s);
		int64_t passes = m * bb_stage_ns(pipeline, order, s);

		wait += part.cost[BB_PASS_F];
		if (wait > kept * part.cost[BB_PASS_F])
			passes += wait - kept * part.cost[BB_PASS_F];
		span = passes > span ? passes : span;
		end = before + passes > end ? before + passes : end;
		wait += part.cost[BB_PASS_B] + 2 * pipeline->hop;
		before -= s > 0 ? bb_part_of(pipeline, order, s - 1).cost[BB_PASS_F] + pipeline->hop
				: 0;
	}
	return cost(span, end, pipeline->by_step);
}

int64_t bb_auto_least(const struct bb_pipeline *pipeline)
{
	const struct bb_order order = {.stages = pipeline->stages,
				       .microbatches = pipeline->microbatches,
				       .chunks = 1,
				       .split = true};
	const struct cost least = least_cost(pipeline, &order);

	return pipeline->by_step ? least.rest : least.first;
}

/* True if BEST can be better: LEAST is a bound from below. */
static bool can_improve(const struct bb_pipeline *pipeline, struct cost least, struct cost best)
{
	return pipeline->hasty ? least.first < best.first : is_better(least, best);
}

/* All tries within LIMIT microbatches, until none can be better; the best, if better than BEST, is
   copied to ORDER. */
static void try_all(struct bb_draft *draft, const struct bb_pipeline *pipeline, int limit,
		    struct cost least, struct bb_order *order, struct cost *best)
{
	draft->limit = limit;
	for (int i = 0; i < TRIES && can_improve(pipeline, least, *best); i++) {
		struct cost this;

		try_draft(draft, i, limit);
		this = draft_cost(draft, pipeline->by_step);
		if (draft->failed || !is_better(this, *best))
			continue;
		*best = this;
		memcpy(order->passes, draft->order.passes,
		       (size_t)order->stages * order->length * sizeof(*order->passes));
	}
}

/* Lower limits are tried too, as they are sometimes better; so more memory is never worse. */
bb_status bb_fill_auto(const struct bb_pipeline *pipeline, struct bb_order *order,
		       struct bb_error *error)
{
	const size_t passes = TRIES * (size_t)order->stages * order->length;
	const size_t tried = pipeline->hasty ? BB_PIPELINE_TRIED / 32 : BB_PIPELINE_TRIED;
	const int most = (int)(pipeline->limit < order->microbatches ? pipeline->limit
								     : order->microbatches);
	const struct cost least = least_cost(pipeline, order);
	struct cost best = {INT64_MAX, INT64_MAX};
	struct bb_draft draft;
	bb_status status = bb_draft_open(&draft, pipeline, order, order->microbatches, most, error);

	for (int limit = most; limit > 0 && status == BB_OK; limit--) {
		if (!can_improve(pipeline, least, best) ||
		    (limit < most && (size_t)(most - limit + 1) * passes > tried))
			break;
		try_all(&draft, pipeline, limit, least, order, &best);
	}
	if (status == BB_OK && best.first == INT64_MAX)
		status = bb_fail(error, BB_EUNSUPPORTED,
				 "the search finds no order within the memory of %lld microbatches",
				 (long long)pipeline->limit);
	bb_draft_free(&draft);
	return status;
}
