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

#include "simulator/timeline/timeline.h"

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
	if (!s->node_ranks || o->work == BB_DDP_BROADCAST)
		return;
	const struct bb_fusion_shares shares = ddp_shares(s, o->item);
	const size_t part = (size_t)shares.each * bb_dtype_size(o->dtype);
	const size_t place = (size_t)(rank % s->node_ranks);

	if (o->collective == &bb_reduce_scatter)
		*out = at + place * part;
	else if (o->collective == &bb_all_gather)
		*in = at + place * part;
	else if (o->collective == &bb_all_reduce)
		*in = *out = at + place * part;
	else
		*in = *out = at + (size_t)s->node_ranks * part;
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
static double ddp_bytes(const struct bb_ddp_step *s, enum bb_ddp_work work, uint64_t elements)
{
	const double bytes = (double)elements * (double)bb_dtype_size(s->buckets->list[0].dtype);

	return work == BB_DDP_UPDATE ? 28 * (double)elements
				     : (work == BB_DDP_INSPECT ? 1 : 2) * bytes;
}

static uint64_t ddp_elements(const struct bb_ddp_step *s)
{
	return s->buckets->bytes / bb_dtype_size(s->buckets->list[0].dtype);
}

bool bb_ddp_copies(const struct bb_ddp_step *s, size_t k)
{
	return s->view == BB_DDP_COPIED &&
	       (s->buckets->ncycles == 0 || s->buckets->list[k].count > 1);
}

double bb_ddp_part_bytes(const struct bb_ddp_step *s, enum bb_ddp_part part)
{
	const uint64_t n = ddp_elements(s);
	uint64_t passed = 0;

	for (size_t k = 0; k < s->buckets->n; k++)
		if (s->view != BB_DDP_COPIED || bb_ddp_copies(s, k))
			passed += s->buckets->list[k].elements;
	if (part == BB_DDP_COPIES)
		return (double)s->view * ddp_bytes(s, BB_DDP_COPY_IN, passed);
	return s->place == BB_DDP_NEVER ? 0
					: ddp_bytes(s, BB_DDP_UPDATE, n) +
						  s->inspects * ddp_bytes(s, BB_DDP_INSPECT, n);
}

static void add_work(struct bb_tape *tape, enum queue queue, enum bb_ddp_work work,
		     const struct bb_ddp_step *s, size_t bucket)
{
	const uint64_t n =
		work == BB_DDP_INSPECT ? ddp_elements(s) : s->buckets->list[bucket].elements;

	bb_tape_compute(tape, queue, work, bucket,
			s->memory_rate > 0 ? ddp_bytes(s, work, n) / s->memory_rate : 0, 0);
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

/* The call of bucket K and, in a step, what follows in its queue or in one beside it. */
static void ddp_add_call(struct bb_tape *tape, const struct bb_ddp_step *s, size_t bucket)
{
	const struct bb_bucket *b = &s->buckets->list[bucket];
	const bool start = s->part == BB_DDP_START;
	const enum queue beside = s->place == BB_DDP_OWN_QUEUE ? UPDATING : COMMUNICATING;
	const bool clocked = s->buckets->ncycles > 0;
	const bool fused = clocked && s->part == BB_DDP_STEP && bb_ddp_copies(s, bucket);
	const bool sums = s->view == BB_DDP_VIEWS || bb_ddp_copies(s, bucket);

	if (fused)
		add_work(tape, COMMUNICATING, BB_DDP_COPY_IN, s, bucket);
	if (s->node_ranks && !start)
		add_hierarchical(tape, s, bucket);
	else
		bb_tape_collective(tape, COMMUNICATING, start ? BB_DDP_BROADCAST : BB_DDP_REDUCE,
				   bucket, start ? &bb_broadcast : &bb_all_reduce,
				   (size_t)b->padded, b->dtype, sums ? BB_SUM : BB_AVG);
	if (fused)
		add_work(tape, COMMUNICATING, BB_DDP_COPY_OUT, s, bucket);
	if (s->part != BB_DDP_STEP || clocked)
		return;
	if (s->place == BB_DDP_OWN_QUEUE)
		bb_tape_order(tape, COMMUNICATING, UPDATING);
	if (updates_beside(s)) {
		if (s->view == BB_DDP_COPIED)
			add_work(tape, beside, BB_DDP_COPY_OUT, s, bucket);
		add_work(tape, beside, BB_DDP_UPDATE, s, bucket);
	} else if (s->view == BB_DDP_COPIED) {
		bb_tape_record(tape, COMMUNICATING);
	}
}

/* It waits for computations and, if it blocks, for earlier reductions; later ones wait for it. */
static void add_negotiation(struct bb_tape *tape, const struct bb_ddp_step *s, size_t cycle)
{
	const int queue = s->blocks ? COMMUNICATING : NEGOTIATING;

	bb_tape_order(tape, COMPUTING, queue);
	bb_tape_collective(tape, queue, BB_DDP_NEGOTIATE, cycle, &bb_all_reduce, s->words,
			   BB_UINT64, BB_BAND)
		->group = NEGOTIATORS;
	if (queue != COMMUNICATING)
		bb_tape_order(tape, queue, COMMUNICATING);
}

/* Does bucket K begin a cycle's buckets? */
static bool begins_cycle(const struct bb_buckets *b, size_t k)
{
	return b->ncycles > 0 && (k == 0 || b->list[k].launch_s > b->list[k - 1].launch_s);
}

size_t bb_ddp_negotiations(const struct bb_buckets *b)
{
	size_t n = 0;

	for (size_t k = 0; k < b->n; k++)
		n += begins_cycle(b, k);
	return n;
}

/* The last backward pass with cycles beside it, each with a negotiation and its buckets. The last
   cycle may begin later than the pass ends. */
static void add_cycles(struct bb_tape *tape, const struct bb_ddp_step *s)
{
	const struct bb_buckets *b = s->buckets;
	double end = 0, now = 0;
	size_t k = 0;

	for (size_t i = 0; i < b->n; i++)
		end = fmax(end, bb_bucket_ready(&b->list[i], s->ready_s));
	for (size_t c = 0; c < b->ncycles; c++) {
		const double at = b->cycles[c], to = fmin(at, end);

		/* The last bucket's item is that of the end of the pass. */
		if (now < end)
			bb_tape_compute(tape, COMPUTING, BB_DDP_BACKWARD,
					to < end ? b->n : b->n - 1, to - now,
					(to - now) * s->flops);
		if (at > end)
			bb_tape_compute(tape, COMPUTING, BB_DDP_CYCLE, c, at - fmax(now, end), 0);
		now = at;
		add_negotiation(tape, s, c);
		for (; k < b->n && b->list[k].launch_s <= at; k++)
			ddp_add_call(tape, s, k);
	}
}

/* The computations of the last microbatch, or of an earlier one; REDUCES: with the reduction of
   each bucket. */
static void add_microbatch(struct bb_tape *tape, const struct bb_ddp_step *s, bool last,
			   bool reduces)
{
	const bool whole = last && s->part == BB_DDP_STEP && s->buckets->ncycles == 0;
	double now = 0;

	bb_tape_compute(tape, COMPUTING, BB_DDP_FORWARD, 0, s->forward_s, s->forward_s * s->flops);
	if (reduces && s->buckets->ncycles > 0) {
		add_cycles(tape, s);
		return;
	}
	for (size_t k = 0; k < s->buckets->n; k++) {
		const double ready = bb_bucket_ready(&s->buckets->list[k], s->ready_s);
		const double seconds = fmax(0, ready - now);

		bb_tape_compute(tape, COMPUTING, last ? BB_DDP_BACKWARD : BB_DDP_EARLIER, k,
				seconds, seconds * s->flops);
		now = fmax(now, ready);
		if (whole && s->view != BB_DDP_AVERAGED)
			add_work(tape, COMPUTING, BB_DDP_COPY_IN, s, k);
		if (whole && s->place == BB_DDP_IN_BACKWARD)
			add_work(tape, COMPUTING, BB_DDP_UPDATE, s, k);
		if (reduces) {
			bb_tape_order(tape, COMPUTING, COMMUNICATING);
			ddp_add_call(tape, s, k);
		}
	}
}

/* What a step ends with. EVENT was recorded behind the first reduction, and one STRIDE later behind
   the next, if copies wait for them. */
static void add_end(struct bb_tape *tape, const struct bb_ddp_step *s, int event, int stride)
{
	for (size_t k = 0; k < s->buckets->n && s->buckets->ncycles == 0; k++)
		if (s->view == BB_DDP_COPIED && !updates_beside(s)) {
			bb_tape_wait(tape, COMPUTING, event + (int)k * stride);
			add_work(tape, COMPUTING, BB_DDP_COPY_OUT, s, k);
		}
	bb_tape_order(tape, COMMUNICATING, COMPUTING);
	if (s->place == BB_DDP_OWN_QUEUE)
		bb_tape_order(tape, UPDATING, COMPUTING);
	if (s->place == BB_DDP_AFTER)
		add_updates(tape, s);
}

/* The works on memory alone. */
static void add_memory_part(struct bb_tape *tape, const struct bb_ddp_step *s)
{
	if (s->part == BB_DDP_UPDATES && s->place != BB_DDP_NEVER)
		add_updates(tape, s);
	for (size_t k = 0; s->part == BB_DDP_COPIES && k < s->buckets->n; k++) {
		if (s->view == BB_DDP_VIEWS || bb_ddp_copies(s, k))
			add_work(tape, COMPUTING, BB_DDP_COPY_IN, s, k);
		if (bb_ddp_copies(s, k))
			add_work(tape, COMPUTING, BB_DDP_COPY_OUT, s, k);
	}
}

/* The groups and queues of a program whose buckets are REDUCED. */
static void ddp_set_groups(struct bb_taped *taped, const struct bb_ddp_step *s, bool reduced)
{
	struct bb_program *p = &taped->program;
	const int nodes = s->node_ranks ? (p->nranks + s->node_ranks - 1) / s->node_ranks : 0;
	const bool negotiates = s->buckets->ncycles > 0 && s->part != BB_DDP_START;
	const bool third = negotiates || (s->part == BB_DDP_STEP && s->place == BB_DDP_OWN_QUEUE);

	p->queues = third ? QUEUES : NEGOTIATING;
	p->groups = !reduced ? 0 : negotiates ? ACROSS : NEGOTIATORS;
	if (nodes && reduced && s->part != BB_DDP_START) {
		p->groups = ACROSS + s->node_ranks + nodes;
		p->group_size = ddp_group_size;
		p->member = ddp_member;
		taped->complete = ddp_complete;
		taped->own = s;
	}
}

bb_status bb_ddp_write(struct bb_taped *taped, const struct bb_ddp_step *s, int nranks,
		       const char *algorithm, struct bb_error *error)
{
	const bool steps = s->part == BB_DDP_STEP, starts = s->part == BB_DDP_START;
	const bool computes = steps || s->part == BB_DDP_ALONE;
	const bool reduces =
		(steps && s->place != BB_DDP_IN_BACKWARD) || s->part == BB_DDP_REDUCTIONS || starts;
	const bool overlaps = steps && reduces && s->overlap;
	const bb_status status = bb_taped_begin(taped, nranks, 1, 1, error);
	struct bb_tape *tape = taped->tapes;

	if (status != BB_OK)
		return status;
	ddp_set_groups(taped, s, reduces);
	taped->program.algorithm = algorithm;
	for (int i = 0; i < BB_DDP_USED && reduces && !starts; i++)
		add_extra(tape, s, (enum bb_ddp_extra)i);
	if (steps && tape->n > 0)
		bb_tape_order(tape, COMMUNICATING, COMPUTING);
	bb_taped_perform(taped, 0, 0, 0, 1, 0);
	size_t from = tape->n;
	if (computes && s->microbatches > 1)
		add_microbatch(tape, s, false, false);
	bb_taped_perform(taped, 0, 0, from, s->microbatches - 1, 0);
	from = tape->n;
	const int events = tape->events;
	if (computes)
		add_microbatch(tape, s, true, overlaps);
	if (steps && reduces && !overlaps)
		bb_tape_order(tape, COMPUTING, COMMUNICATING);
	const size_t reduced = reduces && !overlaps ? s->buckets->n : 0;
	/* Negotiations first, so that they are timed apart from reductions. */
	for (size_t k = 0; k < reduced && !starts; k++)
		if (begins_cycle(s->buckets, k))
			add_negotiation(tape, s, 0);
	for (size_t k = 0; k < reduced; k++)
		ddp_add_call(tape, s, k);
	if (reduces && !starts)
		add_extra(tape, s, BB_DDP_USED);
	/* Each reduction, or all of them, wait for an event of their own. */
	if (steps && reduces)
		add_end(tape, s, events + 1, overlaps ? 2 : 1);
	add_memory_part(tape, s);
	bb_taped_perform(taped, 0, 0, from, 1, 0);
	return bb_taped_end(taped, "a step", error);
}

/* ---- from its parts -------------------------------------------------------------------------- */

/* Seconds of WORK on bucket K, or of the inspection, as a share of its part. */
static double work_s(const struct bb_ddp_step *s, const struct bb_ddp_alone *alone,
		     enum bb_ddp_work work, size_t k)
{
	const bool copies = work == BB_DDP_COPY_IN || work == BB_DDP_COPY_OUT;
	const double part_s = copies ? alone->copy_s : alone->update_s;
	const uint64_t n = work == BB_DDP_INSPECT ? ddp_elements(s) : s->buckets->list[k].elements;

	return part_s > 0 ? part_s * ddp_bytes(s, work, n) /
				    bb_ddp_part_bytes(s, copies ? BB_DDP_COPIES : BB_DDP_UPDATES)
			  : 0;
}

size_t bb_ddp_row(const struct bb_operation *o, size_t n)
{
	return o->work == BB_DDP_NEGOTIATE ? n
	       : o->work == BB_DDP_EXTRA   ? n + 1 + o->item
					   : o->item;
}

struct given {
	const double *reduce_s;
	size_t buckets;
};

static bb_status take_given_time(void *own, const struct bb_operation *o, const int *members, int n,
				 uint64_t number, double *times, bool *whole,
				 struct bb_error *error)
{
	const struct given *g = own;

	times[0] += g->reduce_s[bb_ddp_row(o, g->buckets)];
	*whole = true;
	return BB_OK;
}

static double all_ready(const struct bb_ddp_step *s)
{
	double end = 0;

	for (size_t k = 0; k < s->buckets->n; k++)
		end = fmax(end, bb_bucket_ready(&s->buckets->list[k], s->ready_s));
	return end;
}

bb_status bb_ddp_simulate(const struct bb_ddp_step *step, const struct bb_ddp_alone *alone,
			  struct bb_ddp_times *t, struct bb_error *error)
{
	const size_t n = step->buckets->n;
	struct given times = {alone->reduce_s, n};
	const struct bb_timeline_performer given = {take_given_time, &times};
	const struct bb_link_model none = {.rate = 0};
	const double scale = alone->backward_s / all_ready(step);
	const double beside_s = alone->copy_s + alone->update_s;
	struct bb_ddp_step whole = *step;
	struct bb_taped taped;
	bb_status status;

	*t = (struct bb_ddp_times){.hidden = NAN};
	whole.microbatches = 1;
	whole.node_ranks = 0;
	BB_TRY(status, bb_ddp_write(&taped, &whole, 1, NULL, error), out);
	for (size_t i = 0; i < taped.tapes->n; i++) {
		struct bb_operation *o = &taped.tapes->list[i];

		if (o->work == BB_DDP_FORWARD)
			o->seconds = alone->compute_s - alone->backward_s;
		else if (o->work >= BB_DDP_COPY_IN)
			o->seconds = work_s(step, alone, (enum bb_ddp_work)o->work, o->item);
		else if (o->work != BB_DDP_CYCLE)
			o->seconds *= scale;
	}
	BB_TRY(status,
	       bb_timeline_program_by(&given, &none, &taped.program, NULL, &t->step_s, error), out);
	if (step->buckets->ncycles > 0)
		t->reduce_s = (double)bb_ddp_negotiations(step->buckets) * alone->reduce_s[n];
	for (size_t k = 0; k < n; k++)
		t->reduce_s += alone->reduce_s[k];
	for (size_t i = 0; i < BB_DDP_EXTRAS; i++)
		t->reduce_s += step->extras[i] > 0 ? alone->reduce_s[n + 1 + i] : 0;
	t->exposed_s = t->step_s - alone->compute_s;
	/* Below 0 only by rounding. */
	if (t->reduce_s + beside_s > 0)
		t->hidden = fmax(0, 1 - t->exposed_s / (t->reduce_s + beside_s));
out:
	bb_taped_free(&taped);
	return status;
}

double bb_ddp_formula(const struct bb_ddp_step *s, const struct bb_ddp_alone *alone)
{
	const size_t n = s->buckets->n;
	const double scale = alone->backward_s / all_ready(s);
	const double copy_in_s = s->view == BB_DDP_AVERAGED ? 0 : alone->copy_s / (double)s->view;
	const double backward = alone->backward_s + copy_in_s;
	double before = alone->compute_s - alone->backward_s, copied = 0, complete = 0;
	double end = 0, updated = 0;

	if (s->place == BB_DDP_IN_BACKWARD)
		return before + backward + alone->update_s;
	for (size_t i = 0; i < BB_DDP_USED; i++)
		before += s->extras[i] > 0 ? alone->reduce_s[n + 1 + i] : 0;
	for (size_t k = 0; k < n; k++) {
		const double in_s = work_s(s, alone, BB_DDP_COPY_IN, k);
		const double update_s = work_s(s, alone, BB_DDP_UPDATE, k);
		const double out_s = s->view == BB_DDP_COPIED ? in_s : 0;

		complete = fmax(complete, bb_bucket_ready(&s->buckets->list[k], s->ready_s));
		const double ready = scale * complete + (copied += in_s);

		end = fmax(s->overlap ? ready : backward, end) + alone->reduce_s[k];
		if (s->place == BB_DDP_COMM_QUEUE)
			end += out_s + update_s;
		else if (s->place == BB_DDP_OWN_QUEUE)
			updated = fmax(end, updated) + out_s + update_s;
		else
			updated = fmax(fmax(backward, end), updated) + out_s;
	}
	if (s->extras[BB_DDP_USED] > 0)
		end += alone->reduce_s[n + 1 + BB_DDP_USED];
	return before + fmax(end, updated) + (s->place == BB_DDP_AFTER ? alone->update_s : 0);
}
