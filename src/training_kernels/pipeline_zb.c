/*
 * pipeline_zb.c - zb-auto: the best of eight tries within a memory limit, each of them greedy
 * (arXiv 2401.10241, 3.1). Three questions have no answer that is always best, so both are tried:
 * may a stage be idle before its first B, does B go before F, and is a gap filled by a W that is
 * longer than it?
 */
#include "training_kernels/pipeline_greedy.h"

#include <stdlib.h>
#include <string.h>

struct search {
	struct bb_draft draft;
	bool waits;   /* a stage may be idle before its first B */
	bool hurries; /* B goes before F where another stage waits for it */
	bool eager;   /* a gap is filled by a W that is longer */
};

static void fill_gap(struct search *s, int stage, int64_t arrival)
{
	const int64_t slack = s->draft.bubble - s->draft.desks[stage].bubble;

	bb_draft_fill_gap(&s->draft, stage, arrival, slack, s->eager);
}

/* ---- until each stage has done its first B -------------------------------------------------- */

/* F that fit before the first B of a stage, which can begin at ARRIVAL, in time and in memory. */
static int fitting(const struct search *s, int stage, int64_t arrival, int64_t *time)
{
	const struct bb_draft *draft = &s->draft;
	const struct bb_desk *desk = &draft->desks[stage];
	int64_t held = desk->held;
	int n = 0;

	*time = desk->time;
	while (desk->done[BB_PASS_F][0] + n < draft->microbatches &&
	       held + draft->change[BB_PASS_F] <= draft->limit &&
	       (s->waits ? *time + draft->cost[BB_PASS_F] <= arrival : *time < arrival)) {
		held += draft->change[BB_PASS_F];
		*time += draft->cost[BB_PASS_F];
		n++;
	}
	return n;
}

static void warm_up(struct search *s)
{
	struct bb_draft *draft = &s->draft;
	struct bb_desk *desks = draft->desks;
	const int p = draft->order.stages;
	int64_t arrival = 0, time; /* of the first B of the stage after */

	for (int j = 0; j < p; j++)
		bb_draft_put(draft, j, BB_PASS_F, 0);
	for (int j = p - 1; j >= 0; j--) {
		desks[j].extra = j == p - 1 ? 0 : fitting(s, j, arrival, &time);
		if (j == p - 1)
			time = desks[j].time;
		arrival = (time > arrival ? time : arrival) + draft->cost[BB_PASS_B] + draft->hop;
	}
	/* A stage is not ahead of the one that feeds it. */
	for (int j = 1; j < p; j++)
		while (desks[j].extra > 0 && desks[j].extra >= desks[j - 1].extra &&
		       desks[j].done[BB_PASS_F][0] + desks[j].extra < draft->microbatches)
			desks[j].extra--;
	for (int j = 0; j < p; j++)
		for (; desks[j].extra > 0; desks[j].extra--)
			bb_draft_put(draft, j, BB_PASS_F, 0);
}

/* ---- then each stage does an F, if any, and a B --------------------------------------------- */

/* When the stage after this one could be done with one F and one B more, and that B be here. */
static int64_t next_b(const struct bb_draft *draft, int stage)
{
	return draft->desks[stage + 1].time + draft->cost[BB_PASS_F] + draft->cost[BB_PASS_B] +
	       draft->hop;
}

/* The time that W takes which must make room for an F. */
static int64_t room_time(const struct bb_draft *draft, int stage)
{
	const struct bb_desk *desk = &draft->desks[stage];
	int64_t held = desk->held + draft->change[BB_PASS_F], time = 0;

	for (int n = 0; held > draft->limit && n < desk->waiting; n++) {
		held += draft->change[BB_PASS_W];
		time += draft->cost[BB_PASS_W];
	}
	return time;
}

/* Is the stage to do an F now? With HURRIES not if it is well ahead and its B would be late. */
static int wants_f(const struct search *s, int stage)
{
	const struct bb_draft *draft = &s->draft;
	const struct bb_desk *desk = &draft->desks[stage];
	int64_t b;

	if (desk->done[BB_PASS_F][0] == draft->microbatches)
		return 0;
	if (!s->hurries || stage + 1 == draft->order.stages ||
	    desk->done[BB_PASS_F][0] < desk[1].done[BB_PASS_F][0] + 2)
		return 1;
	b = next_b(draft, stage);
	if (desk->time >= b)
		return 0;
	if (desk->time + draft->cost[BB_PASS_F] + room_time(draft, stage) <= b)
		return 1;
	return b - desk->time > draft->bubble - desk->bubble;
}

static void do_round(struct search *s)
{
	struct bb_draft *draft = &s->draft;
	struct bb_desk *desks = draft->desks;
	const int p = draft->order.stages;

	for (int j = 0; j < p; j++)
		desks[j].extra = wants_f(s, j);
	for (int j = p - 2; j >= 0; j--)
		if (desks[j].extra > desks[j + 1].extra)
			desks[j].extra = desks[j + 1].extra;
	for (int j = 0; j < p; j++) {
		if (!desks[j].extra)
			continue;
		bb_draft_make_room(draft, j, BB_PASS_F);
		fill_gap(s, j, bb_draft_arrival(draft, j, BB_PASS_F, 0));
		bb_draft_put(draft, j, BB_PASS_F, 0);
	}
	for (int j = p - 1; j >= 0; j--) {
		bb_draft_make_room(draft, j, BB_PASS_B);
		fill_gap(s, j, bb_draft_arrival(draft, j, BB_PASS_B, 0));
		while (j == 0 && desks[j].done[BB_PASS_F][0] == draft->microbatches &&
		       desks[j].waiting > 0 && !draft->failed)
			bb_draft_put_w(draft, j);
		bb_draft_put(draft, j, BB_PASS_B, 0);
	}
}

/* ---- the search ----------------------------------------------------------------------------- */

/* The longest time that a stage takes from its first pass to its last. */
static int64_t span_of(const struct bb_draft *draft)
{
	int64_t most = 0;

	for (int s = 0; s < draft->order.stages; s++)
		if (draft->desks[s].time - draft->desks[s].begin > most)
			most = draft->desks[s].time - draft->desks[s].begin;
	return most;
}

static void try(struct search *s)
{
	bb_draft_clear(&s->draft);
	warm_up(s);
	for (int j = s->draft.order.stages - 1; j >= 0; j--)
		bb_draft_put(&s->draft, j, BB_PASS_B, 0);
	for (int i = 1; i < s->draft.microbatches && !s->draft.failed; i++)
		do_round(s);
	bb_draft_finish(&s->draft);
}

bb_status bb_fill_auto(const struct bb_pipeline *pipeline, struct bb_order *order,
		       struct bb_error *error)
{
	const size_t bytes = (size_t)order->stages * order->length * sizeof(*order->passes);
	struct search s = {.draft.failed = false};
	int64_t best = INT64_MAX;
	bb_status status = bb_draft_open(&s.draft, pipeline, order, order->microbatches,
					 pipeline->limit, error);

	for (int i = 0; i < 8 && status == BB_OK; i++) {
		s.waits = i < 4;
		s.hurries = i % 4 < 2;
		s.eager = i % 2 == 0;
		try(&s);
		if (s.draft.failed || span_of(&s.draft) >= best)
			continue;
		best = span_of(&s.draft);
		memcpy(order->passes, s.draft.order.passes, bytes);
	}
	if (status == BB_OK && best == INT64_MAX)
		status = bb_fail(error, BB_EUNSUPPORTED,
				 "the search finds no order within the memory of %lld microbatches",
				 (long long)pipeline->limit);
	bb_draft_free(&s.draft);
	return status;
}
