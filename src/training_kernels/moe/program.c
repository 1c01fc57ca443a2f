/*
 * program.c - operations in this order, without those of parts that the step leaves out:
 *
 *     counts   [record, wait, wait]   dispatch   [record, record, wait, wait]   experts
 *     [record, wait, wait]   combine
 *
 * Brackets stand between two parts.
 */
#include "training_kernels/moe/program.h"

#include <stdio.h>

enum queue { COMPUTES, SENDS, RECEIVES, QUEUES };
enum event { COUNTED, SENT, RECEIVED, COMPUTED, EVENTS };

/* ---- the order ------------------------------------------------------------------------------- */

/* Pieces of a program, in their order. */
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

static size_t piece_length(const struct bb_moe_step *step, enum piece piece)
{
	const unsigned p = step->parts;
	const bool layer = p == BB_MOE_LAYER;
	const size_t messages = bb_moe_messages(step->load);
	const size_t lengths[PIECES] = {
		[COUNTS] = p & BB_MOE_COUNTS ? 1 : 0,
		[BEFORE_DISPATCH] = layer ? BB_MOE_FORKS : 0,
		[DISPATCH] = p & BB_MOE_DISPATCH ? messages : 0,
		[BEFORE_EXPERTS] = layer ? BB_MOE_JOINS : 0,
		[EXPERTS] = p & BB_MOE_EXPERTS ? 1 : 0,
		[BEFORE_COMBINE] = layer ? BB_MOE_FORKS : 0,
		[COMBINE] = p & BB_MOE_COMBINE ? messages : 0,
	};

	return lengths[piece];
}

static size_t moe_program_length(const struct bb_program *program, int rank)
{
	size_t sum = 0;

	for (int piece = 0; piece < PIECES; piece++)
		sum += piece_length(program->own, (enum piece)piece);
	return sum;
}

static void moe_program_operation(const struct bb_program *program, int rank, size_t index,
				  struct bb_operation *o)
{
	const struct bb_moe_step *step = program->own;
	const struct bb_moe_load *l = step->load;
	const struct bb_moe_exchange exchange = {.load = l,
						 .hidden = step->hidden,
						 .dtype = step->dtype,
						 .computes = COMPUTES,
						 .sends = SENDS,
						 .receives = RECEIVES};
	enum piece piece = COUNTS;

	for (; index >= piece_length(step, piece); piece++)
		index -= piece_length(step, piece);
	switch (piece) {
	case COUNTS:
		o->act = BB_ACT_COLLECTIVE;
		o->queue = COMPUTES;
		o->work = BB_MOE_COUNTS;
		o->collective = &bb_alltoall;
		o->count = (size_t)(l->form.experts / l->form.nranks);
		o->dtype = BB_INT64;
		break;
	case BEFORE_DISPATCH:
		bb_moe_fork(&exchange, COUNTED, index, o);
		break;
	case BEFORE_EXPERTS:
		bb_moe_join(&exchange, SENT, index, o);
		break;
	case EXPERTS:
		o->act = BB_ACT_COMPUTE;
		o->queue = COMPUTES;
		o->work = BB_MOE_EXPERTS;
		o->seconds = step->expert_s * (double)bb_moe_rows_at(l, rank) /
			     ((double)l->form.tokens * l->form.top_k);
		break;
	case BEFORE_COMBINE:
		bb_moe_fork(&exchange, COMPUTED, index, o);
		break;
	default:
		o->work = piece == COMBINE ? BB_MOE_COMBINE : BB_MOE_DISPATCH;
		bb_moe_message(&exchange, piece == COMBINE, rank, index, o);
	}
}

static void moe_program_describe(const struct bb_program *program, const struct bb_operation *o,
				 char text[BB_PROGRAM_TEXT])
{
	const char *what = o->work == BB_MOE_DISPATCH ? "dispatch" : "combine";

	if (o->act == BB_ACT_SEND || o->act == BB_ACT_RECV)
		snprintf(text, BB_PROGRAM_TEXT, "%s %s %zu", what,
			 o->act == BB_ACT_SEND ? "to" : "from", o->item);
	else
		snprintf(text, BB_PROGRAM_TEXT, "%s",
			 o->work == BB_MOE_COUNTS ? "exchange of counts" : "experts");
}

void bb_moe_program(struct bb_program *program, const struct bb_moe_step *step)
{
	const unsigned messages = BB_MOE_DISPATCH | BB_MOE_COMBINE;

	*program = (struct bb_program){
		.own = step,
		.nranks = step->load->form.nranks,
		.queues = step->parts & messages ? QUEUES : 1,
		.lanes = step->parts & messages ? BB_MOE_LANES : 0,
		.events = step->parts == BB_MOE_LAYER ? EVENTS : 0,
		.groups = step->parts & BB_MOE_COUNTS ? 1 : 0,
		.length = moe_program_length,
		.operation = moe_program_operation,
		.group_size = bb_program_all_ranks,
		.member = bb_program_rank_itself,
		.describe = moe_program_describe,
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
