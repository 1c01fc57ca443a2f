/*
 * judge_counters.c - links of a step's hosts that went down or made errors while it ran.
 */
#include "acceptance/judge.h"
#include "acceptance/moved.h"
#include "core/units.h"

#include <stdio.h>

/* Healthy links do neither, whatever runs over them. */
static bool means_broken(const struct bb_moved *m)
{
	return m->class == BB_COUNTER_LINK_DOWN || m->class == BB_COUNTER_SYMBOL_ERROR;
}

static bb_status warn(const struct bb_evidence *e, const struct bb_moved *m, size_t others,
		      struct bb_judgements *judgements, struct bb_error *error)
{
	struct bb_judgement *const j = bb_judgement_add(judgements, e, NULL);
	struct bb_strbuf text = {0};

	if (!j)
		return bb_no_memory(error, "verdicts");
	j->own = "counters";
	j->verdict = BB_WARNED;
	bb_moved_name(m, &text);
	snprintf(j->subject, sizeof(j->subject), "%s", bb_strbuf_text(&text));
	bb_strbuf_addf(&text, " rose by %lld during the step (%s)", (long long)m->moved,
		       bb_counter_class_name(m->class));
	if (others > 0)
		bb_strbuf_addf(&text, ", and %zu other counter%s", others,
			       bb_plural((long long)others));
	snprintf(j->reason, sizeof(j->reason), "%s", bb_strbuf_text(&text));
	bb_strbuf_free(&text);
	return BB_OK;
}

bb_status bb_judge_counters(const struct bb_evidence *e, struct bb_judgements *judgements,
			    struct bb_error *error)
{
	struct bb_moved_list moved = {.n = 0};
	const struct bb_moved *worst;
	bb_status st = BB_OK;
	size_t n = 0;

	for (size_t i = 0; st == BB_OK && i < e->nruns; i++)
		if (!bb_moved_add(&moved, &e->runs[i].records))
			st = bb_no_memory(error, "counters");
	worst = bb_moved_next(&moved, NULL);
	for (const struct bb_moved *m = worst; m && means_broken(m); m = bb_moved_next(&moved, m))
		n++;
	if (st == BB_OK && n > 0)
		st = warn(e, worst, n - 1, judgements, error);
	bb_moved_free(&moved);
	return st;
}
