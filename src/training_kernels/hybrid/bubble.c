#include "training_kernels/hybrid/bubble.h"

#include "core/array.h"
#include "models/memory/training.h"
#include "training_kernels/pipeline/draft.h"

#include <math.h>
#include <string.h>

/* Bytes of activations, of which half are needed by W: an order depends on their ratio alone. */
#define KEPT 2

const struct bb_pipeline_schedule *bb_bubble_usual(uint64_t chunks)
{
	return bb_pipeline_find(chunks > 1 ? "interleaved" : "1f1b");
}

/* ---- orders that are searched ------------------------------------------------------------- */

static int64_t whole_ns(double seconds)
{
	return seconds > 0 ? (int64_t)llround(1e9 * seconds) : 0;
}

/* *SECONDS = the longest time of a stage of ORDER from its first pass to its last. */
static bool order_span(const struct bb_order *order, double *seconds)
{
	struct bb_draft draft = {.failed = false};
	struct bb_error error;
	const bool opened = bb_draft_follow(&draft, order, &error) == BB_OK;
	int64_t end;
	int stage;

	while (opened && bb_draft_step(&draft, &stage))
		;
	*seconds = opened ? 1e-9 * (double)bb_draft_span(&draft, &end) : 0;
	bb_draft_free(&draft);
	return opened;
}

/* An order that was searched. */
struct bb_bubble_order {
	struct bb_bubble_form form;
	bool found;
	struct bb_bubble bubble;
};

/* As bb_bubble_find, for a schedule whose order is searched. */
static bool find_order(const struct bb_bubble_form *form, struct bb_bubble_orders *orders,
		       double most, struct bb_bubble *bubble)
{
	const double passes =
		(double)form->micro_batches * (form->forward + form->input + form->weights);
	const struct bb_pipeline pipeline = {
		.stages = (int)form->stages,
		.microbatches = (int)form->micro_batches,
		.chunks = (int)form->chunks,
		.f = whole_ns(form->forward),
		.b = whole_ns(form->input),
		.w = whole_ns(form->weights),
		.hop = whole_ns(form->hop),
		.kept = KEPT,
		.kept_w = KEPT / 2,
		.limit = (int64_t)form->kept,
		.hasty = true,
	};
	const double least =
		form->chunks > 1 ? 0 : 1e-9 * (double)bb_auto_least(&pipeline) - passes;
	struct bb_order order = {.passes = NULL};
	struct bb_error error;
	double with = 0, without = 0;

	if (orders && fmax(least, 0) > most) {
		*bubble = (struct bb_bubble){.idle = fmax(least, 0)};
		return true;
	}
	for (size_t i = 0; orders && i < orders->n; i++) {
		const struct bb_bubble_form *a = &orders->list[i].form;

		if (a->schedule == form->schedule && a->stages == form->stages &&
		    a->chunks == form->chunks && a->micro_batches == form->micro_batches &&
		    a->kept == form->kept && a->forward == form->forward &&
		    a->input == form->input && a->weights == form->weights && a->hop == form->hop) {
			*bubble = orders->list[i].bubble;
			return orders->list[i].found;
		}
	}
	bool found = form->stages <= BB_PIPELINE_STAGES && form->micro_batches <= UINT16_MAX &&
		     3 * form->stages * form->chunks * form->micro_batches <= BB_PIPELINE_PASSES &&
		     !bb_pipeline_refuses(form->schedule, &pipeline) &&
		     bb_order_make(form->schedule, &pipeline, &order, &error) == BB_OK &&
		     order_span(&order, &with);
	order.pipeline.hop = 0;
	found = found && order_span(&order, &without);
	bb_order_free(&order);
	*bubble = (struct bb_bubble){fmax(without - passes, 0), with - without};
	if (orders)
		(void)BB_ARRAY_PUT(orders->list, orders->n, orders->room,
				   (struct bb_bubble_order){*form, found, *bubble});
	return found;
}

/* ---- formulas ----------------------------------------------------------------------------- */

/* A row of the table of bubble.h. */
struct bubble_formula {
	const char *schedule;
	double idle, hops;
	uint64_t kept; /* by any of the stages, but for 1f1b and interleaved */
};

static struct bubble_formula formula_of(const struct bb_bubble_form *form)
{
	const uint64_t stages = form->stages, batches = form->micro_batches;
	const double p = (double)stages, m = (double)batches, v = (double)form->chunks;
	const double pass = form->forward + form->input, w = form->weights;
	const double all = (p - 1) * (pass + w), ends = 2 * (p - 1);
	const double rounds = form->overlapped ? ends : ends * (m / p + 1) - 2;
	const struct bubble_formula list[] = {
		{"naive", (p - 1) * m * (pass + w), ends * m, 1},
		{"gpipe", all, ends, batches},
		{"1f1b", all, rounds, 0},
		{"interleaved", all / v, 2 * (p * v - 1), 0},
		{"zb-h1", fmax((p - 1) * (pass - w), 0), fmin(rounds, 2 * ends), stages},
		{"zb-h2", fmax((p - 1) * (pass - 2 * w), 0), ends, 2 * stages - 1},
		{"zb-v", 0, 0, stages},
		{"zb-auto", 0, 0, form->kept},
	};
	size_t i = 0;

	while (strcmp(list[i].schedule, form->schedule->name) != 0)
		i++;
	return list[i];
}

bool bb_bubble_find(const struct bb_bubble_form *form, struct bb_bubble_orders *orders, double most,
		    struct bb_bubble *bubble)
{
	const struct bubble_formula formula = formula_of(form);

	*bubble = (struct bb_bubble){.idle = 0};
	if (form->stages == 1)
		return true;
	if (form->schedule->search)
		return find_order(form, orders, most, bubble);
	if (!form->schedule->chunks && form->micro_batches % form->stages)
		return false;
	*bubble = (struct bb_bubble){formula.idle, formula.hops * form->hop};
	return true;
}

uint64_t bb_bubble_kept(const struct bb_bubble_form *form, uint64_t stage)
{
	const uint64_t kept = formula_of(form).kept, m = form->micro_batches;

	if (form->stages > 1 && kept > 0)
		return form->chunks * (kept < m ? kept : m);
	return bb_in_flight(form->schedule->chunks ? BB_1F1B : BB_INTERLEAVED, stage, form->stages,
			    form->chunks, m);
}
