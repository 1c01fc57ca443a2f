/*
 * profile_narrow.c - steps that find the culprit of a group that failed.
 *
 * Halving the groups of all nodes at once takes log2 of their size. In pairs with either neighbour
 * a slow node is slow twice, and a slow path between two nodes once.
 */
#include "acceptance/profile.h"

#include <stdio.h>
#include <stdlib.h>

#define MOST_NARROWER 24 /* log2 of the most nodes, a shift, and room */

/* Returns about half of NODES, at least a pair. No node should be left over of all SPAN. */
static int64_t half_of(int64_t nodes, int64_t span)
{
	int64_t half = (nodes + 1) / 2;

	while (half > 2 && half < nodes && span % half == 1)
		half++;
	return half < nodes ? half : 2;
}

/* Adds to P groups of NODES nodes instead of those of STEP. */
static void narrower_add(struct bb_profile *p, const struct bb_profile_step *step, int64_t nodes,
			 int64_t shift)
{
	struct bb_profile_step *const new = &p->steps[p->nsteps++];
	const int64_t span = bb_step_nodes(step);

	*new = *step;
	new->narrows = step;
	new->ranks = nodes *(step->ranks / step->nodes);
	new->nodes = nodes;
	new->groups = span / nodes;
	new->left = span % nodes;
	new->shift = shift;
	new->after_failure = nodes < step->nodes || step->left != 1;
	new->repeats = new->after_failure ? 1 : step->repeats;
	snprintf(new->own_name, sizeof(new->own_name), "%s@%lld%s", step->name, (long long)nodes,
		 shift > 0 ? "+1" : "");
	new->name = new->own_name;
}

static void step_narrow(struct bb_profile *p, const struct bb_profile_step *step)
{
	const int64_t span = bb_step_nodes(step);
	int64_t nodes = step->nodes;

	if (step->mode == 0 || step->after_failure || bb_step_diagnoses(step) || nodes < 2 ||
	    span < 3)
		return;
	if (step->left == 1)
		narrower_add(p, step, nodes, 1);
	while (nodes > 2) {
		nodes = half_of(nodes, span);
		narrower_add(p, step, nodes, 0);
	}
	if (step->nodes > 2 || step->left != 1)
		narrower_add(p, step, 2, 1);
}

bb_status bb_profile_narrow(struct bb_profile *p, struct bb_error *error)
{
	p->steps = calloc((size_t)p->ndeclared * MOST_NARROWER, sizeof(*p->steps));
	if (!p->steps)
		return bb_no_memory(error, "steps");
	for (uint32_t i = 0; i < p->ndeclared; i++) {
		struct bb_profile_step *const step = &p->steps[p->nsteps++];

		*step = p->declared[i];
		step_narrow(p, step);
	}
	return BB_OK;
}
