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

enum queue { COMPUTING, COMMUNICATING, NEGOTIATING, QUEUES };

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

static void ddp_add_call(struct bb_tape *tape, const struct bb_ddp_step *s, size_t bucket)
{
	const struct bb_bucket *b = &s->buckets->list[bucket];
	const bool start = s->part == BB_DDP_START;

	if (s->node_ranks && !start)
		add_hierarchical(tape, s, bucket);
	else
		bb_tape_collective(tape, COMMUNICATING, start ? BB_DDP_BROADCAST : BB_DDP_REDUCE,
				   bucket, start ? &bb_broadcast : &bb_all_reduce,
				   (size_t)b->padded, b->dtype, BB_AVG);
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
	const bool negotiates = s->buckets->ncycles > 0 && s->part != BB_DDP_START;
	taped->program.queues = negotiates ? QUEUES : NEGOTIATING;
	taped->program.groups = s->part == BB_DDP_ALONE ? 0 : negotiates ? ACROSS : NEGOTIATORS;
	if (s->node_ranks && s->part != BB_DDP_ALONE && s->part != BB_DDP_START) {
		taped->program.groups =
			ACROSS + s->node_ranks + (nranks + s->node_ranks - 1) / s->node_ranks;
		taped->program.group_size = ddp_group_size;
		taped->program.member = ddp_member;
		taped->complete = ddp_complete;
		taped->own = s;
	}
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
	const size_t reduced = s->part != BB_DDP_ALONE && !overlaps ? s->buckets->n : 0;
	/* Negotiations first, so that they are timed apart from reductions. */
	for (size_t k = 0; k < reduced && s->part != BB_DDP_START; k++)
		if (begins_cycle(s->buckets, k))
			add_negotiation(tape, s, 0);
	for (size_t k = 0; k < reduced; k++)
		ddp_add_call(tape, s, k);
	if (steps)
		bb_tape_order(tape, COMMUNICATING, COMPUTING);
	bb_taped_perform(taped, 0, 0, earlier, 1, 0);
	return bb_taped_end(taped, "a step", error);
}

/* ---- from its parts -------------------------------------------------------------------------- */

struct given {
	const double *reduce_s;
	size_t buckets;
};

static bb_status take_given_time(void *own, const struct bb_operation *o, const int *members, int n,
				 uint64_t number, double *times, bool *whole,
				 struct bb_error *error)
{
	const struct given *g = own;

	times[0] += g->reduce_s[o->work == BB_DDP_NEGOTIATE ? g->buckets : o->item];
	*whole = true;
	return BB_OK;
}

bb_status bb_ddp_simulate(const struct bb_ddp_step *step, double alone_s, double backward_s,
			  const double *reduce_s, struct bb_ddp_times *t, struct bb_error *error)
{
	const size_t n = step->buckets->n;
	struct given times = {reduce_s, n};
	const struct bb_timeline_performer given = {take_given_time, &times};
	const struct bb_link_model none = {.rate = 0};
	double end = 0;
	struct bb_ddp_step whole = *step;
	struct bb_taped taped;
	bb_status status;

	*t = (struct bb_ddp_times){.hidden = NAN};
	whole.microbatches = 1;
	whole.node_ranks = 0;
	for (size_t k = 0; k < n; k++)
		end = fmax(end, bb_bucket_ready(&step->buckets->list[k], step->ready_s));
	BB_TRY(status, bb_ddp_write(&taped, &whole, 1, NULL, error), out);
	for (size_t i = 0; i < taped.tapes->n; i++) {
		struct bb_operation *o = &taped.tapes->list[i];

		if (o->work != BB_DDP_CYCLE)
			o->seconds = o->work == BB_DDP_FORWARD ? alone_s - backward_s
							       : o->seconds * (backward_s / end);
	}
	BB_TRY(status,
	       bb_timeline_program_by(&given, &none, &taped.program, NULL, &t->step_s, error), out);
	if (step->buckets->ncycles > 0)
		t->reduce_s = (double)bb_ddp_negotiations(step->buckets) * reduce_s[n];
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
