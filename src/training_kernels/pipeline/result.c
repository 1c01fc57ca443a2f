/*
 * result.c - results from the times of passes.
 */
#include "training_kernels/pipeline/program.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bb_status bb_pass_times_open(struct bb_pass_times *times, const struct bb_order *order,
			     const struct bb_pipeline *pipeline, struct bb_error *error)
{
	const size_t slots = bb_order_slots(order), n = (size_t)order->stages;

	*times = (struct bb_pass_times){.order = order,
					.pipeline = pipeline,
					.from = malloc(slots * sizeof(double)),
					.to = malloc(slots * sizeof(double)),
					.held = calloc(n, sizeof(int64_t)),
					.peaks = calloc(n, sizeof(int64_t)),
					.sent = calloc(n, sizeof(int64_t))};
	if (!times->from || !times->to || !times->held || !times->peaks || !times->sent)
		return bb_no_memory(error, "the times of passes");
	for (size_t i = 0; i < slots; i++)
		times->from[i] = times->to[i] = NAN;
	return BB_OK;
}

void bb_pass_times_close(struct bb_pass_times *times)
{
	free(times->from);
	free(times->to);
	free(times->held);
	free(times->peaks);
	free(times->sent);
}

void bb_pass_times_begin(struct bb_pass_times *times)
{
	const size_t bytes = (size_t)times->order->stages * sizeof(*times->held);

	memset(times->held, 0, bytes);
	memset(times->peaks, 0, bytes);
	memset(times->sent, 0, bytes);
}

static void note_pass(struct bb_pass_times *times, size_t slot)
{
	const struct bb_order *order = times->order;
	int stage;
	const struct bb_pass pass = bb_order_pass(order, slot, &stage);
	const int depth = bb_order_depth(order, stage, pass.chunk);

	times->held[stage] += bb_part_of(times->pipeline, order, depth).change[pass.kind];
	if (times->held[stage] > times->peaks[stage])
		times->peaks[stage] = times->held[stage];
}

void bb_pass_times_note(void *own, int rank, size_t index, const struct bb_operation *operation,
			double from, double to, int source)
{
	struct bb_pass_times *times = own;

	if (operation->act == BB_ACT_SEND)
		times->sent[rank] += (int64_t)bb_operation_bytes(operation);
	if (operation->act != BB_ACT_COMPUTE)
		return;
	note_pass(times, operation->item);
	times->from[operation->item] = from;
	times->to[operation->item] = to;
}

/* A stage does its passes in the order of its list. */
static double span_of(const struct bb_pass_times *times, int stage, double *end)
{
	const struct bb_order *order = times->order;
	const struct bb_pass *passes = bb_order_passes(order, stage);

	*end = times->to[bb_order_slot(order, stage, &passes[order->length - 1])];
	return *end - times->from[bb_order_slot(order, stage, &passes[0])];
}

/* PART / WHOLE, without what is only rounding of sums. */
static double ratio(double part, double whole)
{
	return fabs(part) < 1e-9 * whole ? 0 : part / whole;
}

struct bb_pipeline_result bb_pipeline_result_of(const struct bb_pass_times *times,
						const struct bb_pipeline *pipeline, double *spans)
{
	const struct bb_order *order = times->order;
	struct bb_pipeline_result r = {.makespan = 0};

	for (int s = 0; s < order->stages; s++) {
		const double passes = 1e-9 * (double)order->microbatches *
				      (double)bb_stage_ns(pipeline, order, s);
		double end;
		const double span = span_of(times, s, &end);

		if (spans)
			spans[s] = span;
		r.makespan = fmax(r.makespan, end);
		r.ideal = fmax(r.ideal, passes);
		r.span = fmax(r.span, span);
	}
	r.bubble_over_ideal = ratio(r.makespan - r.ideal, r.ideal);
	r.bubble_over_total = ratio(r.makespan - r.ideal, r.makespan);
	r.span_bubble_over_ideal = ratio(r.span - r.ideal, r.ideal);
	r.span_bubble_over_total = ratio(r.span - r.ideal, r.span);
	return r;
}
