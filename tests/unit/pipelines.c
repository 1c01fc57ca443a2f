#include "pipelines.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define MOST 4096 /* stages times microbatches times chunks */

/* ---- an evaluator --------------------------------------------------------------------------- */

static double ends[3][MOST];

/* When the pass of DEPTH and MICROBATCH is done; 0 outside the model. */
static double *end_of(const struct bb_order *o, int kind, int depth, int microbatch)
{
	static double none;

	none = 0;
	return depth < 0 || depth == o->stages * o->chunks
		       ? &none
		       : &ends[kind][depth * o->microbatches + microbatch];
}

double evaluate(const struct bb_order *o, bool first_wraps, double *span)
{
	const struct bb_pipeline *p = &o->pipeline;
	const double costs[] = {p->f, p->b, p->w, p->b + p->w};
	double last = 0;

	memset(ends, 0, sizeof(ends));
	for (bool changed = true; changed;) {
		changed = false;
		last = *span = 0;
		for (int s = 0; s < o->stages; s++) {
			double time = 0, begin = -1;

			for (size_t i = 0; i < o->length; i++) {
				const struct bb_pass *pass = &bb_order_passes(o, s)[i];
				const int d = bb_order_depth(o, s, pass->chunk);
				const int kind = pass->kind % 3 + (pass->kind == BB_PASS_BW);
				const int next = kind == 0 ? d - 1 : kind == 1 ? d + 1 : -1;
				const bool around = next >= 0 &&
						    next / o->stages != d / o->stages &&
						    next < o->stages * o->chunks;
				double at = *end_of(o, kind, next, pass->microbatch);
				double *end = end_of(o, kind, d, pass->microbatch);

				if (at > 0 && bb_order_stage(o, next) != s)
					at += (double)p->hop;
				if (around && first_wraps && pass->microbatch % o->stages)
					at = 0;
				time = fmax(time, at);
				begin = begin < 0 ? time : begin;
				time += p->layers ? (double)bb_part_of(o, d).cost[pass->kind]
						  : costs[pass->kind] / o->chunks;
				changed |= *end != time;
				*end = time;
			}
			last = fmax(last, time);
			*span = fmax(*span, time - begin);
		}
	}
	return last;
}

void order_memory(const struct bb_order *o, double *peaks)
{
	for (int s = 0; s < o->stages; s++) {
		const struct bb_pass *passes = bb_order_passes(o, s);
		int64_t held = 0, peak = 0;

		for (size_t i = 0; i < o->length; i++) {
			const int d = bb_order_depth(o, s, passes[i].chunk);

			held += bb_part_of(o, d).change[passes[i].kind];
			peak = held > peak ? held : peak;
		}
		peaks[s] = (double)peak / (double)bb_part_of_stage(o, s).change[BB_PASS_F];
	}
}

struct bb_order make_order(const char *name, const struct bb_pipeline *p)
{
	const struct bb_pipeline_schedule *schedule = bb_pipeline_find(name);
	struct bb_error error = {.text = ""};
	struct bb_order o;

	assert_non_null(schedule);
	assert_true(!bb_pipeline_refuses(schedule, p));
	if (bb_order_make(schedule, p, &o, &error) != BB_OK || bb_order_check(&o, &error) != BB_OK)
		fail_msg("%s, %d stages, %d microbatches, %d chunks: %s", name, p->stages,
			 p->microbatches, p->chunks, error.text);
	return o;
}

struct bb_pipeline unit_pipeline(int stages, int microbatches, int chunks)
{
	return (struct bb_pipeline){.stages = stages,
				    .microbatches = microbatches,
				    .chunks = chunks,
				    .f = 1000000,
				    .b = 1000000,
				    .w = 1000000,
				    .kept = 2000,
				    .kept_w = 1000,
				    .limit = 2 * stages};
}
