/*
 * step.c - a step with gradients in buckets. Its operations are in this order, those in brackets
 * once per bucket:
 *
 *     broadcasts record wait
 *     forward [backward]   of all microbatches but the last
 *     forward [backward, copy in, record, wait, reduce]   with overlap
 *     forward [backward, copy in] record wait [reduce]    without
 *     [copy out] record wait inspect [update]
 *
 * The tape has the second line once. Where updates go beside the backward pass, copy out and update
 * follow each reduction.
 */
#include "training_kernels/ddp/step.h"

#include "training_kernels/kernel/kernel.h"

#include <math.h>

/* Only the rules of fusion that negotiate have no updates. */
enum queue { COMPUTING, COMMUNICATING, NEGOTIATING, QUEUES, UPDATING = NEGOTIATING };

const enum bb_dtype bb_ddp_extra_dtypes[BB_DDP_EXTRAS] = {BB_FLOAT, BB_INT64, BB_INT32};

/* Groups: all ranks, twice, as each queue has groups of its own; the ranks with one place in their
   nodes, for each place; nodes. On the tape a group is one of these. */
enum { ALL, NEGOTIATORS, ACROSS, NODE };

static int ddp_group_size(const struct bb_program *program, int group)
{
	const struct bb_ddp_step *s = ((const struct bb_taped *)program->own)->own;
	const int n = program->nranks, l = s->node_ranks, place = group - ACROSS;
	const int rest = n - (place - l) * l;

	return group < ACROSS ? n : place < l ? (n - place + l - 1) / l : rest < l ? rest : l;
}

static int ddp_member(const struct bb_program *program, int group, int i)
{
	const struct bb_ddp_step *s = ((const struct bb_taped *)program->own)->own;
	const int l = s->node_ranks, place = group - ACROSS;

	return group < ACROSS ? i : place < l ? i * l + place : (place - l) * l + i;
}

static struct bb_fusion_shares ddp_shares(const struct bb_ddp_step *s, size_t bucket)
{
	return bb_fusion_divide(s->buckets->list[bucket].padded, s->node_ranks, s->unequal);
}

/* What does not divide joins the part of the root. */
static void ddp_complete(const void *own, int rank, struct bb_operation *o)
{
	const struct bb_ddp_step *s = own;

	if (o->act != BB_ACT_COLLECTIVE || o->group < ACROSS)
		return;
	const struct bb_fusion_shares shares = ddp_shares(s, o->item);
	const int place = rank % s->node_ranks;

	if (o->group == ACROSS)
		o->count += place == shares.root ? (size_t)shares.rest : 0;
	o->group = ACROSS + (o->group == ACROSS ? place : s->node_ranks + rank / s->node_ranks);
}

void bb_ddp_in_place(const struct bb_ddp_step *s, const struct bb_operation *o, int rank, char *at,
		     void **in, void **out)
{
	*in = *out = at;
	if (!s->node_ranks)
		return;
	const size_t part = (size_t)ddp_shares(s, o->item).each * bb_dtype_size(o->dtype);
	const int place = rank % s->node_ranks;

	if (o->collective == &bb_all_reduce)
		at += (size_t)place * part;
	else if (o->collective->flags & BB_ROOTED)
		at += (size_t)s->node_ranks * part;
	bb_kernel_in_place(o, place, at, in, out);
}

static void add_hierarchical(struct bb_tape *tape, const struct bb_ddp_step *s, size_t bucket)
{
	const enum bb_dtype dtype = s->buckets->list[bucket].dtype;
	const struct bb_fusion_shares h = ddp_shares(s, bucket);
	const struct {
		const struct bb_collective *collective;
		int group;
		uint64_t count;
	} stages[] = {{&bb_reduce_scatter, NODE, h.each},
		      {&bb_reduce, NODE, h.rest},
		      {&bb_all_reduce, ACROSS, h.each},
		      {&bb_broadcast, NODE, h.rest},
		      {&bb_all_gather, NODE, h.each}};
	struct bb_operation *o = NULL;

	for (size_t i = 0; i < sizeof(stages) / sizeof(*stages); i++) {
		if (stages[i].group == NODE && stages[i].count == 0)
			continue;
		o = bb_tape_collective(tape, COMMUNICATING, o ? BB_DDP_ACROSS : BB_DDP_SCATTER,
				       bucket, stages[i].collective, (size_t)stages[i].count, dtype,
				       BB_SUM);
		o->group = stages[i].group;
		o->root = stages[i].collective->flags & BB_ROOTED ? h.root : 0;
	}
	o->work = BB_DDP_REDUCE;
}

/* ---- works on memory ------------------------------------------------------------------------- */

/* Bytes that WORK moves for ELEMENTS. */
static double work_bytes(const struct bb_ddp_step *s, enum bb_ddp_work work, uint64_t elements)
{
	const double bytes = (double)elements * (double)bb_dtype_size(s->buckets->list[0].dtype);

	return work == BB_DDP_UPDATE ? 28 * (double)elements
				     : (work == BB_DDP_INSPECT ? 1 : 2) * bytes;
}

int bb_ddp_passes(const struct bb_ddp_step *s, size_t bucket)
{
	return s->buckets->ncycles > 0 && s->buckets->list[bucket].count == 1 ? 0 : (int)s->view;
}

double bb_ddp_part_bytes(const struct bb_ddp_step *s, enum bb_ddp_part part)
{
	double bytes = 0;

	for (size_t k = 0; k < s->buckets->n; k++) {
		const uint64_t n = s->buckets->list[k].elements;

		if (part == BB_DDP_COPIES)
			bytes += bb_ddp_passes(s, k) * work_bytes(s, BB_DDP_COPY_IN, n);
		else if (s->place != BB_DDP_NEVER)
			bytes += work_bytes(s, BB_DDP_UPDATE, n) +
				 s->inspects * work_bytes(s, BB_DDP_INSPECT, n);
	}
	return bytes;
}

/* WORK on a bucket, or the inspection of all. */
static void add_work(struct bb_tape *tape, enum queue queue, enum bb_ddp_work work,
		     const struct bb_ddp_step *s, size_t bucket)
{
	uint64_t n = s->buckets->list[bucket].elements;

	if (work == BB_DDP_INSPECT)
		n = s->buckets->bytes / bb_dtype_size(s->buckets->list[0].dtype);
	bb_tape_compute(tape, queue, work, bucket,
			s->memory_rate > 0 ? work_bytes(s, work, n) / s->memory_rate : 0, 0);
}

static void add_updates(struct bb_tape *tape, const struct bb_ddp_step *s)
{
	if (s->inspects)
		add_work(tape, COMPUTING, BB_DDP_INSPECT, s, 0);
	for (size_t k = 0; k < s->buckets->n; k++)
		add_work(tape, COMPUTING, BB_DDP_UPDATE, s, k);
}

/* ---- the step -------------------------------------------------------------------------------- */

/* Are a bucket's gradients copied out, and its parameters updated, as soon as it is reduced? */
static bool updates_beside(const struct bb_ddp_step *s)
{
	return s->place == BB_DDP_OWN_QUEUE || s->place == BB_DDP_COMM_QUEUE;
}

static void add_extra(struct bb_tape *tape, const struct bb_ddp_step *s, enum bb_ddp_extra extra)
{
	if (s->extras[extra] > 0)
		bb_tape_collective(tape, COMMUNICATING, BB_DDP_EXTRA, (size_t)extra,
				   extra == BB_DDP_USED ? &bb_all_reduce : &bb_broadcast,
				   s->extras[extra], bb_ddp_extra_dtypes[extra], BB_SUM);
}

/* The call of a bucket and, in a step, what follows in its queue or in one beside it. */
static void add_call(struct bb_tape *tape, const struct bb_ddp_step *s, size_t bucket)
{
	const struct bb_bucket *b = &s->buckets->list[bucket];
	const bool start = s->part == BB_DDP_START, clocked = s->buckets->ncycles > 0;
	const int passes = bb_ddp_passes(s, bucket);
	const bool fused = clocked && s->part == BB_DDP_STEP && passes == 2;
	const enum queue beside = s->place == BB_DDP_OWN_QUEUE ? UPDATING : COMMUNICATING;

	if (fused)
		add_work(tape, COMMUNICATING, BB_DDP_COPY_IN, s, bucket);
	if (s->node_ranks)
		add_hierarchical(tape, s, bucket);
	else
		bb_tape_collective(tape, COMMUNICATING, start ? BB_DDP_BROADCAST : BB_DDP_REDUCE,
				   bucket, start ? &bb_broadcast : &bb_all_reduce,
				   (size_t)b->padded, b->dtype, passes > 0 ? BB_SUM : BB_AVG);
	if (fused)
		add_work(tape, COMMUNICATING, BB_DDP_COPY_OUT, s, bucket);
	if (s->part != BB_DDP_STEP || clocked)
		return;
	if (beside == UPDATING)
		bb_tape_order(tape, COMMUNICATING, UPDATING);
	if (updates_beside(s)) {
		if (passes == 2)
			add_work(tape, beside, BB_DDP_COPY_OUT, s, bucket);
		add_work(tape, beside, BB_DDP_UPDATE, s, bucket);
	} else if (passes == 2) {
		bb_tape_record(tape, COMMUNICATING);
	}
}

/* It waits for computations, and later reductions for it. */
static void add_negotiation(struct bb_tape *tape, const struct bb_ddp_step *s, size_t cycle)
{
	bb_tape_order(tape, COMPUTING, NEGOTIATING);
	bb_tape_collective(tape, NEGOTIATING, BB_DDP_NEGOTIATE, cycle, &bb_all_reduce, s->words,
			   BB_UINT64, BB_BAND)
		->group = NEGOTIATORS;
	bb_tape_order(tape, NEGOTIATING, COMMUNICATING);
}

/* Seconds until all buckets are complete. */
static double all_ready(const struct bb_ddp_step *s)
{
	double end = 0;

	for (size_t k = 0; k < s->buckets->n; k++)
		end = fmax(end, bb_bucket_ready(&s->buckets->list[k], s->ready_s));
	return end;
}

/* The computations of a microbatch, WORK of its backward pass; REDUCES: with the reduction of each
   bucket when it is complete or its cycle begins, which may be after the pass. */
static void add_microbatch(struct bb_tape *tape, const struct bb_ddp_step *s, enum bb_ddp_work work,
			   bool reduces)
{
	const struct bb_buckets *b = s->buckets;
	const bool clocked = reduces && b->ncycles > 0;
	const bool whole = work == BB_DDP_BACKWARD && s->part == BB_DDP_STEP && b->ncycles == 0;
	const double end = all_ready(s);
	double now = 0;

	bb_tape_compute(tape, COMPUTING, BB_DDP_FORWARD, 0, s->forward_s, s->forward_s * s->flops);
	for (size_t i = 0, k = 0; i < (clocked ? b->ncycles : b->n); i++) {
		const double at = clocked ? b->cycles[i]
					  : fmax(now, bb_bucket_ready(&b->list[i], s->ready_s));
		const double seconds = fmin(at, end) - now;

		if (!clocked || now < end)
			bb_tape_compute(tape, COMPUTING, work, i, seconds, seconds * s->flops);
		if (at > end)
			bb_tape_compute(tape, COMPUTING, BB_DDP_CYCLE, i, at - fmax(now, end), 0);
		now = at;
		if (whole && s->view != BB_DDP_AVERAGED)
			add_work(tape, COMPUTING, BB_DDP_COPY_IN, s, i);
		if (whole && s->place == BB_DDP_IN_BACKWARD)
			add_work(tape, COMPUTING, BB_DDP_UPDATE, s, i);
		if (clocked)
			add_negotiation(tape, s, i);
		else if (reduces)
			bb_tape_order(tape, COMPUTING, COMMUNICATING);
		for (; reduces && k < b->n && (clocked ? b->list[k].launch_s <= at : k <= i); k++)
			add_call(tape, s, k);
	}
}

bb_status bb_ddp_write(struct bb_taped *taped, const struct bb_ddp_step *s, int nranks,
		       const char *algorithm, struct bb_error *error)
{
	const struct bb_buckets *b = s->buckets;
	const bool steps = s->part == BB_DDP_STEP, clocked = b->ncycles > 0;
	const bool computes = steps || s->part == BB_DDP_ALONE;
	const bool reduces = steps ? s->place != BB_DDP_IN_BACKWARD
				   : s->part == BB_DDP_REDUCTIONS || s->part == BB_DDP_START;
	const bool overlaps = steps && reduces && s->overlap;
	const bb_status status = bb_taped_begin(taped, nranks, 1, 1, error);
	struct bb_tape *tape = taped->tapes;
	struct bb_program *p = &taped->program;

	if (status != BB_OK)
		return status;
	p->algorithm = algorithm;
	p->queues = clocked || (steps && s->place == BB_DDP_OWN_QUEUE) ? QUEUES : NEGOTIATING;
	p->groups = !reduces ? 0 : clocked ? ACROSS : NEGOTIATORS;
	if (s->node_ranks && reduces) {
		p->groups = ACROSS + s->node_ranks + (nranks + s->node_ranks - 1) / s->node_ranks;
		p->group_size = ddp_group_size;
		p->member = ddp_member;
		taped->complete = ddp_complete;
		taped->own = s;
	}
	for (int i = 0; i < BB_DDP_USED && reduces; i++)
		add_extra(tape, s, (enum bb_ddp_extra)i);
	if (steps && tape->n > 0)
		bb_tape_order(tape, COMMUNICATING, COMPUTING);
	bb_taped_perform(taped, 0, 0, 0, 1, 0);
	size_t from = tape->n;
	if (computes && s->microbatches > 1)
		add_microbatch(tape, s, BB_DDP_EARLIER, false);
	bb_taped_perform(taped, 0, 0, from, s->microbatches - 1, 0);
	from = tape->n;
	const int events = tape->events;
	if (computes)
		add_microbatch(tape, s, BB_DDP_BACKWARD, overlaps);
	if (steps && reduces && !overlaps)
		bb_tape_order(tape, COMPUTING, COMMUNICATING);
	/* One cycle finds all buckets; it comes first, so that it is timed apart from them. */
	if (clocked && reduces && !overlaps)
		add_negotiation(tape, s, 0);
	for (size_t k = 0; k < b->n && reduces && !overlaps; k++)
		add_call(tape, s, k);
	if (reduces)
		add_extra(tape, s, BB_DDP_USED);
	if (steps && reduces) {
		/* Copies wait for reductions. Each of these, or all of them, wait for an event. */
		for (size_t k = 0; k < b->n && !clocked && !updates_beside(s); k++)
			if (s->view == BB_DDP_COPIED) {
				bb_tape_wait(tape, COMPUTING,
					     events + 1 + (int)k * (overlaps ? 2 : 1));
				add_work(tape, COMPUTING, BB_DDP_COPY_OUT, s, k);
			}
		bb_tape_order(tape, COMMUNICATING, COMPUTING);
		if (s->place == BB_DDP_OWN_QUEUE)
			bb_tape_order(tape, UPDATING, COMPUTING);
	}
	if (s->part == BB_DDP_UPDATES ? s->place != BB_DDP_NEVER
				      : steps && s->place == BB_DDP_AFTER)
		add_updates(tape, s);
	for (size_t k = 0; s->part == BB_DDP_COPIES && k < b->n; k++) {
		if (bb_ddp_passes(s, k) > 0)
			add_work(tape, COMPUTING, BB_DDP_COPY_IN, s, k);
		if (bb_ddp_passes(s, k) == 2)
			add_work(tape, COMPUTING, BB_DDP_COPY_OUT, s, k);
	}
	bb_taped_perform(taped, 0, 0, from, 1, 0);
	return bb_taped_end(taped, "a step", error);
}

/* ---- from its parts -------------------------------------------------------------------------- */

size_t bb_ddp_row(const struct bb_operation *o, size_t n)
{
	return o->work == BB_DDP_NEGOTIATE ? n
	       : o->work == BB_DDP_EXTRA   ? n + 1 + o->item
					   : o->item;
}

double bb_ddp_formula(const struct bb_ddp_step *s, const struct bb_ddp_alone *alone)
{
	const struct bb_buckets *b = s->buckets;
	const bool clocked = b->ncycles > 0;
	const double planned = all_ready(s), scale = alone->backward_s / planned;
	const double copied_bytes = bb_ddp_part_bytes(s, BB_DDP_COPIES);
	const double updated_bytes = bb_ddp_part_bytes(s, BB_DDP_UPDATES);
	const double backward =
		alone->backward_s +
		(clocked || s->view == BB_DDP_AVERAGED ? 0 : alone->copy_s / (double)s->view);
	double before = alone->compute_s - alone->backward_s, copied = 0, complete = 0;
	double end = 0, updated = 0, agreed = 0;

	if (s->place == BB_DDP_IN_BACKWARD)
		return before + backward + alone->update_s;
	for (size_t i = 0; i < BB_DDP_USED; i++)
		before += s->extras[i] > 0 ? alone->reduce_s[b->n + 1 + i] : 0;
	for (size_t k = 0, c = 0; k < b->n; k++) {
		const struct bb_bucket *one = &b->list[k];
		const int passes = bb_ddp_passes(s, k);
		const double pass_s =
			passes == 0 ? 0
				    : alone->copy_s / copied_bytes *
					      work_bytes(s, BB_DDP_COPY_IN, one->elements);
		const double out_s = passes == 2 ? pass_s : 0;
		const double update_s =
			updated_bytes > 0 ? alone->update_s / updated_bytes *
						    work_bytes(s, BB_DDP_UPDATE, one->elements)
					  : 0;

		complete = fmax(complete, bb_bucket_ready(one, s->ready_s));
		copied += pass_s;
		for (; s->overlap && c < b->ncycles && b->cycles[c] <= one->launch_s; c++) {
			const double late = fmax(0, b->cycles[c] - planned);
			const double at = scale * (b->cycles[c] - late) + late;

			agreed = fmax(at, agreed) + alone->reduce_s[b->n];
		}
		if (clocked && !s->overlap)
			agreed = backward + alone->reduce_s[b->n];
		const double ready = clocked      ? agreed
				     : s->overlap ? scale * complete + copied
						  : backward;
		end = fmax(ready, end) + alone->reduce_s[k];
		if (clocked)
			end += pass_s + out_s;
		else if (s->place == BB_DDP_COMM_QUEUE)
			end += out_s + update_s;
		else if (s->place == BB_DDP_OWN_QUEUE)
			updated = fmax(end, updated) + out_s + update_s;
		else
			updated = fmax(fmax(backward, end), updated) + out_s;
	}
	if (s->extras[BB_DDP_USED] > 0)
		end += alone->reduce_s[b->n + 1 + BB_DDP_USED];
	return before + fmax(end, updated) + (s->place == BB_DDP_AFTER ? alone->update_s : 0);
}
