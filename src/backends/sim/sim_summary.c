/*
 * sim_summary.c - how collectives were evaluated: NCCL's algorithms by their model, schedules
 * message by message, and why the model was not used.
 */
#include "backends/sim/sim_inside.h"
#include "core/array.h"
#include "core/units.h"

#include <stdio.h>
#include <string.h>

#define BY_TEXT 48

struct bb_sim_count {
	const struct bb_collective *collective;
	int n, nodes; /* ranks, and nodes of a cluster that they are on; 0: there is none */
	bool native;
	char by[BY_TEXT];      /* "ring:LL" */
	const char *evaluator; /* constant */
	const char *instead;   /* of struct bb_call */
};

/* The same collective of groups of the same shape? */
static bool is_same(const struct bb_sim_count *a, const struct bb_sim_count *b)
{
	return a->collective == b->collective && a->n == b->n && a->nodes == b->nodes;
}

static bool is_evaluated_alike(const struct bb_sim_count *a, const struct bb_sim_count *b)
{
	return is_same(a, b) && a->evaluator == b->evaluator && a->native == b->native &&
	       strcmp(a->by, b->by) == 0;
}

/* Does the library have an algorithm of this name, so that the schedule is called busbench:NAME? */
static bool is_ambiguous(const struct bb_context *c, const char *name)
{
	for (const struct bb_native *n = c->library ? c->library->natives : NULL; n && n->name; n++)
		if (strcmp(n->name, name) == 0)
			return true;
	return false;
}

static void algorithm_name(const struct bb_group *group, const struct bb_call *call,
			   char by[BY_TEXT])
{
	if (call->native)
		snprintf(by, BY_TEXT, "%s",
			 *group->chosen ? group->chosen : group->context->library->unnamed);
	else
		snprintf(by, BY_TEXT, "%s%s",
			 is_ambiguous(group->context, call->schedule->name) ? BB_OWN : "",
			 call->schedule->name);
}

bb_status bb_sim_count(const struct bb_group *group, const struct bb_call *call,
		       struct bb_error *error)
{
	struct bb_context *c = group->context;
	struct bb_sim_count count = {.collective = call->collective,
				     .n = group->n,
				     .nodes = group->machines[0].nodes,
				     .native = call->native != NULL,
				     .evaluator = group->evaluator,
				     .instead = call->instead};
	struct bb_sim_count *more;

	if (group->n == 1) /* sends nothing */
		return BB_OK;
	algorithm_name(group, call, count.by);
	for (size_t i = 0; i < c->ncounts; i++)
		if (is_evaluated_alike(&c->counts[i], &count))
			return BB_OK;
	more = BB_ARRAY_ADD(c->counts, c->ncounts, c->count_room);
	if (!more)
		return bb_no_memory(error, "the list of collectives");
	*more = count;
	return BB_OK;
}

/* Is it the first of those that are the same? */
static bool leads(const struct bb_context *c, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (is_same(&c->counts[k], &c->counts[i]))
			return false;
	return true;
}

/* Does a later one of the same replace the library for the same reason? */
static bool is_repeated_later(const struct bb_context *c, size_t i)
{
	for (size_t k = i + 1; k < c->ncounts; k++)
		if (is_same(&c->counts[k], &c->counts[i]) &&
		    c->counts[k].instead == c->counts[i].instead)
			return true;
	return false;
}

static void add_all(const struct bb_context *c, size_t first, struct bb_strbuf *out)
{
	for (size_t i = first; i < c->ncounts; i++) {
		const struct bb_sim_count *count = &c->counts[i];

		if (!is_same(count, &c->counts[first]))
			continue;
		bb_strbuf_addf(out, "%s%s %s", i > first ? ", " : "", count->by, count->evaluator);
		if (count->instead && !is_repeated_later(c, i))
			bb_strbuf_addf(out, " (%s)", count->instead);
	}
}

bool bb_sim_summarize(const struct bb_context *c, struct bb_strbuf *out)
{
	bool modelled = false;

	for (size_t i = 0; i < c->ncounts; i++) {
		const struct bb_sim_count *count = &c->counts[i];

		modelled = modelled || (count->native && c->library->is_whole);
		if (!leads(c, i))
			continue;
		bb_strbuf_addf(out, "%s%s among %d", i ? "; " : "", count->collective->name,
			       count->n);
		if (count->nodes > 0)
			bb_strbuf_addf(out, " on %d node%s", count->nodes, bb_plural(count->nodes));
		bb_strbuf_add(out, ": ");
		add_all(c, i, out);
	}
	return modelled;
}
