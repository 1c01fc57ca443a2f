/*
 * list.c - list scheduling: nobody waits who has something to do.
 *
 * At each step the stage that can begin first does the first pass of its list that can begin then:
 * B before F before W, or F before B before W. F only where there is room for it. So memory is
 * never short and there is always an order; with little memory it is about as good as can be,
 * because W makes room for the next F as soon as there is nothing else to do.
 */
#include "training_kernels/pipeline/greedy.h"

#define NEVER INT64_MAX

/* What a stage could do, and when: the later of when it is free and when what it needs is there. */
static int64_t earliest(const struct bb_draft *draft, int stage, enum bb_pass_kind kind)
{
	const struct bb_stage_state *desk = &draft->desks[stage];
	int64_t arrival;

	if (kind == BB_PASS_W)
		return desk->waiting > 0 ? desk->time : NEVER;
	if (kind == BB_PASS_B && desk->done[BB_PASS_B][0] == desk->done[BB_PASS_F][0])
		return NEVER;
	if (kind == BB_PASS_F && (desk->done[BB_PASS_F][0] == draft->microbatches ||
				  desk->held + bb_draft_change(draft, stage, BB_PASS_F, 0) >
					  bb_draft_room(draft, stage)))
		return NEVER;
	arrival = bb_draft_arrival(draft, stage, kind, 0);
	return arrival < 0 ? NEVER : arrival > desk->time ? arrival : desk->time;
}

/* The pass that STAGE does next as things are, and when it begins. With PATIENT none that would
   make a B late of which is known when it comes. */
static void look_at(struct bb_draft *draft, int stage, enum bb_pass_kind first, bool patient)
{
	struct bb_stage_state *desk = &draft->desks[stage];
	const enum bb_pass_kind list[] = {first, first == BB_PASS_B ? BB_PASS_F : BB_PASS_B,
					  BB_PASS_W};
	const int64_t b = earliest(draft, stage, BB_PASS_B);

	desk->begins = NEVER;
	for (int i = 0; i < 3; i++) {
		const int64_t at = earliest(draft, stage, list[i]);

		if (patient && list[i] != BB_PASS_B && at < b && b < NEVER &&
		    at + bb_draft_cost(draft, stage, list[i], 0) > b)
			continue;
		if (at < desk->begins) {
			desk->begins = at;
			desk->next = list[i];
		}
	}
}

/* ---- the stage that can begin first: a tree of winners, the leaves behind the rest ------------
 */

static void play_off(struct bb_draft *draft, int at)
{
	const int a = draft->winners[2 * at], b = draft->winners[2 * at + 1];

	draft->winners[at] = draft->desks[b].begins < draft->desks[a].begins ? b : a;
}

static void look_again(struct bb_draft *draft, int stage, enum bb_pass_kind first, bool patient)
{
	const int p = draft->order.stages;

	if (stage < 0 || stage == p)
		return;
	look_at(draft, stage, first, patient);
	for (int at = (p + stage) / 2; at > 0; at /= 2)
		play_off(draft, at);
}

void bb_draft_list(struct bb_draft *draft, enum bb_pass_kind first, bool patient)
{
	const int p = draft->order.stages;

	for (int s = 0; s < p; s++) {
		draft->winners[p + s] = s;
		look_at(draft, s, first, patient);
	}
	for (int at = p - 1; at > 0; at--)
		play_off(draft, at);
	while (!draft->failed && draft->desks[draft->winners[1]].begins < NEVER) {
		const int s = draft->winners[1];

		bb_draft_put(draft, s, draft->desks[s].next, 0);
		/* Who is next to it may have got what it waits for. */
		for (int near = s - 1; near <= s + 1; near++)
			look_again(draft, near, first, patient);
	}
}
