/*
 * best.c - the best of the schedules that fit.
 */
#include "core/array.h"
#include "core/recommend.h"
#include "core/units.h"
#include "harness/run/run.h"
#include "training_kernels/pipeline/pipeline.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

bool bb_pipeline_fits(const struct bb_pipeline_record *r)
{
	return !r->fit || r->memory_bytes <= r->memory_limit_bytes;
}

bb_status bb_pipeline_keep(struct bb_pipeline_state *state, const struct bb_pipeline_record *r)
{
	struct bb_pipeline_record *kept;

	if (!bb_pipeline_fits(r))
		return BB_OK;
	kept = BB_ARRAY_ADD(state->kept, state->nkept, state->kept_room);
	if (!kept)
		return BB_EINTERNAL;
	for (; kept > state->kept && kept[-1].peak_bytes > r->peak_bytes; kept--)
		*kept = kept[-1];
	*kept = *r;
	return BB_OK;
}

/* OWN of a candidate is its record; its time is a step's or a stage's. */
static void bubble_cause(const struct bb_candidate *ahead, const struct bb_candidate *behind,
			 struct bb_strbuf *out)
{
	const struct bb_pipeline_record *a = ahead->own, *b = behind->own;
	const double bubble =
		behind->seconds - 1e-6 * b->ideal_us - (ahead->seconds - 1e-6 * a->ideal_us);
	char text[BB_UNIT_TEXT];

	bb_strbuf_addf(out, "its bubble is %s longer", bb_format_duration(text, bubble));
}

/* Are the times predicted, or simulated without noise? */
static bool is_exact(const struct bb_run *run)
{
	const struct bb_pipeline_state *state = run->own;

	return !state->kept[0].compute ||
	       (run->record.virtual_time && isnan(run->record.link_noise));
}

/* The best by the step, or by the predicted stage. */
static void add_best(const struct bb_run *run, bool by_stage, struct bb_strbuf *out)
{
	const struct bb_pipeline_state *state = run->own;
	struct bb_candidate *list = calloc(state->nkept, sizeof(*list));
	struct bb_recommendation choice = {.subject = by_stage ? "schedule by stage time"
							       : "schedule by step time",
					   .noise = is_exact(run) ? NULL : "their ranges overlap",
					   .unit = "",
					   .list = list,
					   .n = list ? state->nkept : 0,
					   .preference = "no more memory",
					   .cause = bubble_cause};

	out->failed |= !list;
	for (size_t i = 0; i < choice.n; i++) {
		const struct bb_pipeline_record *r = &state->kept[i];
		const double us = by_stage     ? r->predicted_span_us
				  : r->compute ? r->p50_us
					       : r->predicted_us;
		char bytes[BB_UNIT_TEXT];

		list[i] = (struct bb_candidate){.seconds = 1e-6 * us,
						.low = 1e-6 * r->min_us,
						.high = 1e-6 * r->max_us,
						.own = r};
		snprintf(list[i].name, sizeof(list[i].name), "%s (peak %s)", r->schedule,
			 bb_format_bytes(bytes, (uint64_t)r->peak_bytes));
	}
	bb_recommend(&choice, out);
	free(list);
}

void bb_pipeline_recommend(struct bb_run *run, struct bb_strbuf *out)
{
	const struct bb_pipeline_state *state = run->own;
	const size_t answer = out->length;

	/* Measured times of stages have no interval. */
	if (state->nkept > 0 && !state->kept[0].compute)
		add_best(run, true, out);
	if (state->nkept > 0)
		add_best(run, false, out);
	bb_run_answer(run, out, answer);
}
