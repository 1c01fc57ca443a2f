/*
 * step.c - a step with gradients in buckets. Its operations are in this order, those in brackets
 * once per bucket:
 *
 *     forward [backward]   of all microbatches but the last
 *     forward [backward, record, wait, reduce]   with overlap
 *     forward [backward] record wait [reduce]    without
 *     record wait
 *
 * The tape has the first line once.
 */
#include "training_kernels/ddp/step.h"

#include "simulator/timeline/timeline.h"

#include <math.h>

enum queue { COMPUTING, COMMUNICATING, QUEUES };

static void ddp_add_call(struct bb_tape *tape, const struct bb_ddp_step *s, size_t bucket)
{
	const bool start = s->part == BB_DDP_START;

	bb_tape_collective(tape, COMMUNICATING, start ? BB_DDP_BROADCAST : BB_DDP_REDUCE, bucket,
			   start ? &bb_broadcast : &bb_all_reduce,
			   (size_t)s->buckets->list[bucket].elements, s->dtype, BB_AVG);
}

/* The computations of the last microbatch, or of an earlier one; REDUCES: with the reduction of
   each bucket. */
static void add_microbatch(struct bb_tape *tape, const struct bb_ddp_step *s, bool last,
			   bool reduces)
{
	bb_tape_compute(tape, COMPUTING, BB_DDP_FORWARD, 0, s->forward_s, s->forward_s * s->flops);
	for (size_t k = 0; k < s->buckets->n; k++) {
		const struct bb_bucket *b = &s->buckets->list[k];
		const double seconds = bb_bucket_ready(b, s->ready_s) -
				       (k > 0 ? bb_bucket_ready(b - 1, s->ready_s) : 0);

		bb_tape_compute(tape, COMPUTING, last ? BB_DDP_BACKWARD : BB_DDP_EARLIER, k,
				seconds, seconds * s->flops);
		if (reduces) {
			bb_tape_order(tape, COMPUTING, COMMUNICATING);
			ddp_add_call(tape, s, k);
		}
	}
}

bb_status bb_ddp_write(struct bb_taped *taped, const struct bb_ddp_step *s, int nranks,
		       const char *algorithm, struct bb_error *error)
{
	const bool steps = s->part == BB_DDP_STEP, overlaps = steps && s->overlap;
	const bb_status status = bb_taped_begin(taped, nranks, 1, 1, error);
	struct bb_tape *tape = taped->tapes;
	size_t earlier = 0;

	if (status != BB_OK)
		return status;
	taped->program.queues = QUEUES;
	taped->program.groups = s->part == BB_DDP_ALONE ? 0 : 1;
	taped->program.algorithm = algorithm;
	if (steps || s->part == BB_DDP_ALONE) {
		if (s->microbatches > 1)
			add_microbatch(tape, s, false, false);
		bb_taped_perform(taped, 0, 0, 0, s->microbatches - 1, 0);
		earlier = tape->n;
		add_microbatch(tape, s, true, overlaps);
	}
	if (steps && !overlaps)
		bb_tape_order(tape, COMPUTING, COMMUNICATING);
	for (size_t k = 0; k < s->buckets->n && s->part != BB_DDP_ALONE && !overlaps; k++)
		ddp_add_call(tape, s, k);
	if (steps)
		bb_tape_order(tape, COMMUNICATING, COMPUTING);
	bb_taped_perform(taped, 0, 0, earlier, 1, 0);
	return bb_taped_end(taped, "a step", error);
}

/* ---- from its parts -------------------------------------------------------------------------- */

static bb_status take_given_time(void *own, const struct bb_operation *o, const int *members, int n,
				 uint64_t number, double *times, bool *whole,
				 struct bb_error *error)
{
	const double *reduce_s = own;

	times[0] += reduce_s[o->item];
	*whole = true;
	return BB_OK;
}

bb_status bb_ddp_simulate(const struct bb_ddp_step *step, double alone_s, double backward_s,
			  const double *reduce_s, struct bb_ddp_times *t, struct bb_error *error)
{
	const struct bb_timeline_performer given = {take_given_time, (void *)reduce_s};
	const struct bb_link_model none = {.rate = 0};
	const size_t n = step->buckets->n;
	const double scale =
		backward_s / bb_bucket_ready(&step->buckets->list[n - 1], step->ready_s);
	struct bb_ddp_step whole = *step;
	struct bb_taped taped;
	bb_status status;

	*t = (struct bb_ddp_times){.hidden = NAN};
	whole.microbatches = 1;
	BB_TRY(status, bb_ddp_write(&taped, &whole, 1, NULL, error), out);
	for (size_t i = 0; i < taped.tapes->n; i++) {
		struct bb_operation *o = &taped.tapes->list[i];

		o->seconds = o->work == BB_DDP_FORWARD ? alone_s - backward_s : o->seconds * scale;
	}
	BB_TRY(status,
	       bb_timeline_program_by(&given, &none, &taped.program, NULL, &t->step_s, error), out);
	for (size_t k = 0; k < n; k++)
		t->reduce_s += reduce_s[k];
	t->exposed_s = t->step_s - alone_s;
	/* Below 0 only by rounding. */
	if (t->reduce_s > 0)
		t->hidden = fmax(0, 1 - t->exposed_s / t->reduce_s);
out:
	bb_taped_free(&taped);
	return status;
}
