#include "training_kernels/hybrid/bubble.h"

#include "core/array.h"
#include "models/memory/activations.h"
#include "training_kernels/pipeline/draft.h"

#include <math.h>
#include <string.h>

/* Bytes of activations, of which half are needed by W: an order depends on their ratio alone. */
#define KEPT 2

static bool is_named(const struct bb_bubble_form *form, const char *name)
{
	return strcmp(form->schedule->name, name) == 0;
}

const struct bb_pipeline_schedule *bb_bubble_usual(uint64_t chunks)
{
	return bb_pipeline_find(chunks > 1 ? "interleaved" : "1f1b");
}

/* ---- orders that are searched ------------------------------------------------------------- */

static int64_t whole_ns(double seconds)
{
	return seconds > 0 ? (int64_t)llround(1e9 * seconds) : 0;
}

static struct bb_pipeline pipeline_of(const struct bb_bubble_form *form)
{
	return (struct bb_pipeline){
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

/* Seconds of all passes of a stage. */
static double form_passes(const struct bb_bubble_form *form)
{
	return (double)form->micro_batches * (form->forward + form->input + form->weights);
}

static bool find_order(const struct bb_bubble_form *form, struct bb_bubble *bubble)
{
	const double all = form_passes(form);
	const struct bb_pipeline pipeline = pipeline_of(form);
	struct bb_order order = {.passes = NULL};
	struct bb_error error;
	double with = 0, without = 0;
	bool found = form->stages <= BB_PIPELINE_STAGES && form->micro_batches <= UINT16_MAX &&
		     3 * form->stages * form->chunks * form->micro_batches <= BB_PIPELINE_PASSES &&
		     !bb_pipeline_refuses(form->schedule, &pipeline);

	found = found && bb_order_make(form->schedule, &pipeline, &order, &error) == BB_OK &&
		order_span(&order, &with);
	order.pipeline.hop = 0;
	found = found && order_span(&order, &without);
	bb_order_free(&order);
	*bubble = (struct bb_bubble){fmax(without - all, 0), with - without};
	return found;
}

/* An order that was searched. */
struct bb_bubble_order {
	struct bb_bubble_form form;
	bool found;
	struct bb_bubble bubble;
};

static bool find_order_once(const struct bb_bubble_form *form, struct bb_bubble_orders *orders,
			    double most, struct bb_bubble *bubble)
{
	const struct bb_pipeline pipeline = pipeline_of(form);
	const double least =
		form->chunks > 1 ? 0 : 1e-9 * (double)bb_auto_least(&pipeline) - form_passes(form);
	struct bb_bubble_order *added;
	bool found;

	if (fmax(least, 0) > most) {
		*bubble = (struct bb_bubble){.idle = fmax(least, 0)};
		return true;
	}
	for (size_t i = 0; i < orders->n; i++) {
		const struct bb_bubble_form *a = &orders->list[i].form;

		if (a->schedule == form->schedule && a->stages == form->stages &&
		    a->chunks == form->chunks && a->micro_batches == form->micro_batches &&
		    a->kept == form->kept && a->forward == form->forward &&
		    a->input == form->input && a->weights == form->weights && a->hop == form->hop) {
			*bubble = orders->list[i].bubble;
			return orders->list[i].found;
		}
	}
	found = find_order(form, bubble);
	added = BB_ARRAY_ADD(orders->list, orders->n, orders->room);
	if (added)
		*added = (struct bb_bubble_order){*form, found, *bubble};
	return found;
}

void bb_bubble_orders_free(struct bb_bubble_orders *orders)
{
	free(orders->list);
	*orders = (struct bb_bubble_orders){.list = NULL};
}

/* ---- formulas ----------------------------------------------------------------------------- */

static double idle_seconds(const struct bb_bubble_form *form)
{
	const double others = (double)form->stages - 1, m = (double)form->micro_batches;
	const double pass = form->forward + form->input;

	if (is_named(form, "naive"))
		return others * m * (pass + form->weights);
	if (is_named(form, "zb-h1"))
		return fmax(others * (pass - form->weights), 0);
	if (is_named(form, "zb-h2"))
		return fmax(others * (pass - 2 * form->weights), 0);
	return others * (pass + form->weights) / (double)form->chunks;
}

static double message_hops(const struct bb_bubble_form *form)
{
	const double p = (double)form->stages, m = (double)form->micro_batches;
	const double ends = 2 * (p - 1), rounds = ends * (m / p + 1) - 2;

	if (is_named(form, "naive"))
		return ends * m;
	if (is_named(form, "interleaved"))
		return 2 * (p * (double)form->chunks - 1);
	if (form->overlapped || is_named(form, "gpipe") || is_named(form, "zb-h2"))
		return ends;
	return is_named(form, "zb-h1") ? fmin(rounds, 2 * ends) : rounds;
}

bool bb_bubble_find(const struct bb_bubble_form *form, struct bb_bubble_orders *orders, double most,
		    struct bb_bubble *bubble)
{
	*bubble = (struct bb_bubble){.idle = 0};
	if (form->stages == 1)
		return true;
	if (form->schedule->search)
		return orders ? find_order_once(form, orders, most, bubble)
			      : find_order(form, bubble);
	if (is_named(form, "interleaved") && form->micro_batches % form->stages)
		return false;
	*bubble = (struct bb_bubble){idle_seconds(form), message_hops(form) * form->hop};
	return true;
}

uint64_t bb_bubble_kept(const struct bb_bubble_form *form, uint64_t stage)
{
	const uint64_t p = form->stages, m = form->micro_batches;
	const bool once = is_named(form, "1f1b"), rounds = is_named(form, "interleaved");
	uint64_t kept = p;

	if (p == 1 || once || rounds)
		return bb_in_flight(rounds ? BB_INTERLEAVED : BB_1F1B, stage, p, form->chunks, m);
	if (is_named(form, "naive"))
		kept = 1;
	else if (is_named(form, "gpipe"))
		kept = m;
	else if (is_named(form, "zb-h2"))
		kept = 2 * p - 1;
	else if (is_named(form, "zb-auto"))
		kept = form->kept;
	return form->chunks * (kept < m ? kept : m);
}
