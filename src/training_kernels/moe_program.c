/*
 * moe_program.c - operations in this order, those of parts that are not asked for left out:
 *
 *     counts   [record, wait, wait]   dispatch   [record, record, wait, wait]   experts
 *     [record, wait, wait]   combine
 *
 * Brackets stand wherever something comes before and behind. A dispatch or combine is a send and a
 * receive for each shift. Ranks that a shift leads to from each other are a ring, in which one
 * receives before it sends: so everything ends also where a rank does one thing at a time. The
 * rings of shift k are as many as divide both it and the ranks, and their lowest ranks come first.
 */
#include "training_kernels/moe_program.h"

#include <stdio.h>

enum queue { COMPUTES, SENDS, RECEIVES, QUEUES };
enum lane { OUTWARD, BACK, LANES };
enum event { COUNTED, SENT, RECEIVED, COMPUTED, EVENTS };

static int ranks_of(const struct bb_moe_step *step)
{
	return step->load->form.nranks;
}

/* ---- one operation ----------------------------------------------------------------------------
 */

static void event(struct bb_operation *o, enum bb_act act, enum queue queue, enum event event)
{
	o->act = act;
	o->queue = queue;
	o->work = BB_MOE_EVENT;
	o->event = event;
}

static void counts(const struct bb_moe_step *step, struct bb_operation *o)
{
	const struct bb_moe_form *f = &step->load->form;

	o->act = BB_ACT_COLLECTIVE;
	o->queue = COMPUTES;
	o->work = BB_MOE_COUNTS;
	o->collective = &bb_alltoall;
	o->count = (size_t)(f->experts / f->nranks);
	o->dtype = BB_INT64;
}

static void experts(const struct bb_moe_step *step, int rank, struct bb_operation *o)
{
	const struct bb_moe_load *l = step->load;

	o->act = BB_ACT_COMPUTE;
	o->queue = COMPUTES;
	o->work = BB_MOE_EXPERTS;
	o->seconds = step->expert_s * (double)bb_moe_rows_at(l, rank) /
		     ((double)l->form.tokens * l->form.top_k);
}

/* The greatest that divides both. */
static int divisor(int a, int b)
{
	while (b) {
		const int rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

/* Message K of a dispatch or combine of RANK. */
static void message(const struct bb_moe_step *step, bool back, int rank, size_t k,
		    struct bb_operation *o)
{
	const int n = ranks_of(step);
	const int shift = (int)(k / 2) + 1;
	const bool sends = (k % 2 == 0) != (rank < divisor(n, shift));
	const int peer = (sends ? rank + shift : rank - shift + n) % n;
	/* Who the rows belong to decides how many there are: the one whose experts they go through.
	 */
	const int at = sends != back ? peer : rank;

	o->act = sends ? BB_ACT_SEND : BB_ACT_RECV;
	o->queue = sends ? SENDS : RECEIVES;
	o->work = back ? BB_MOE_COMBINE : BB_MOE_DISPATCH;
	o->item = (size_t)peer;
	o->peer = peer;
	o->lane = back ? BACK : OUTWARD;
	o->count = (size_t)step->load->rows_to[at] * step->hidden;
	o->dtype = step->dtype;
}

/* ---- the order --------------------------------------------------------------------------------
 */

/* Pieces of a program in their order, and how many operations of each. */
enum piece {
	COUNTS,
	BEFORE_DISPATCH,
	DISPATCH,
	BEFORE_EXPERTS,
	EXPERTS,
	BEFORE_COMBINE,
	COMBINE,
	PIECES
};

static size_t length_of(const struct bb_moe_step *step, enum piece piece)
{
	const unsigned p = step->parts;
	const size_t messages = 2 * (size_t)(ranks_of(step) - 1);
	const bool layer = p == BB_MOE_LAYER;

	switch (piece) {
	case COUNTS:
		return p & BB_MOE_COUNTS ? 1 : 0;
	case DISPATCH:
		return p & BB_MOE_DISPATCH ? messages : 0;
	case EXPERTS:
		return p & BB_MOE_EXPERTS ? 1 : 0;
	case COMBINE:
		return p & BB_MOE_COMBINE ? messages : 0;
	case BEFORE_EXPERTS:
		return layer ? 4 : 0;
	default:
		return layer ? 3 : 0;
	}
}

static size_t length(const struct bb_program *program, int rank)
{
	size_t sum = 0;

	for (int piece = 0; piece < PIECES; piece++)
		sum += length_of(program->own, (enum piece)piece);
	return sum;
}

/* Operation K of the events between two pieces: all of AFTER is done before anything behind. */
static void part_ways(struct bb_operation *o, size_t k, enum event after)
{
	static const enum queue queues[] = {COMPUTES, SENDS, RECEIVES};

	event(o, k == 0 ? BB_ACT_RECORD : BB_ACT_WAIT, queues[k], after);
}

static void meet(struct bb_operation *o, size_t k)
{
	static const enum queue queues[] = {SENDS, RECEIVES, COMPUTES, COMPUTES};

	event(o, k < 2 ? BB_ACT_RECORD : BB_ACT_WAIT, queues[k], k % 2 ? RECEIVED : SENT);
}

static void operation(const struct bb_program *program, int rank, size_t index,
		      struct bb_operation *o)
{
	const struct bb_moe_step *step = program->own;
	enum piece piece = COUNTS;

	for (; index >= length_of(step, piece); piece++)
		index -= length_of(step, piece);
	switch (piece) {
	case COUNTS:
		counts(step, o);
		break;
	case BEFORE_DISPATCH:
		part_ways(o, index, COUNTED);
		break;
	case BEFORE_EXPERTS:
		meet(o, index);
		break;
	case EXPERTS:
		experts(step, rank, o);
		break;
	case BEFORE_COMBINE:
		part_ways(o, index, COMPUTED);
		break;
	default:
		message(step, piece == COMBINE, rank, index, o);
	}
}

static int group_size(const struct bb_program *program, int group)
{
	return program->nranks;
}

static int member(const struct bb_program *program, int group, int i)
{
	return i;
}

static void describe(const struct bb_program *program, const struct bb_operation *o,
		     char text[BB_PROGRAM_TEXT])
{
	const char *what = o->work == BB_MOE_DISPATCH ? "dispatch" : "combine";

	if (o->act == BB_ACT_SEND || o->act == BB_ACT_RECV)
		snprintf(text, BB_PROGRAM_TEXT, "%s %s %zu", what,
			 o->act == BB_ACT_SEND ? "to" : "from", o->item);
	else
		snprintf(text, BB_PROGRAM_TEXT, "%s",
			 o->work == BB_MOE_COUNTS    ? "exchange of counts"
			 : o->work == BB_MOE_EXPERTS ? "experts"
						     : "event");
}

void bb_moe_program(struct bb_program *program, const struct bb_moe_step *step)
{
	const unsigned messages = BB_MOE_DISPATCH | BB_MOE_COMBINE;

	*program = (struct bb_program){
		.own = step,
		.nranks = ranks_of(step),
		.queues = step->parts & messages ? QUEUES : 1,
		.lanes = step->parts & messages ? LANES : 0,
		.events = step->parts == BB_MOE_LAYER ? EVENTS : 0,
		.groups = step->parts & BB_MOE_COUNTS ? 1 : 0,
		.length = length,
		.operation = operation,
		.group_size = group_size,
		.member = member,
		.describe = describe,
	};
}

struct bb_moe_bytes bb_moe_bytes_of(const struct bb_moe_step *step, int rank)
{
	const struct bb_moe_load *l = step->load;
	const double row = (double)(step->hidden * bb_dtype_size(step->dtype));
	const int n = l->form.nranks;

	return (struct bb_moe_bytes){
		.sent = row * (double)(l->rows_before[n] - l->rows_to[rank]),
		.received = row * (double)((n - 1) * l->rows_to[rank]),
	};
}
