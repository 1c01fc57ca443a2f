#include "training_kernels/moe/program.h"

#include <stdio.h>

enum queue { COMPUTES, SENDS, RECEIVES, QUEUES };

static void moe_complete(const void *own, int rank, struct bb_operation *o)
{
	const struct bb_moe_step *step = own;
	const struct bb_moe_form *f = &step->load->form;

	if (o->act == BB_ACT_SEND)
		bb_moe_message(step->load, rank, o);
	else if (o->act == BB_ACT_COMPUTE)
		o->seconds = o->seconds * (double)bb_moe_rows_at(step->load, rank) /
			     ((double)f->tokens * f->top_k);
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

bb_status bb_moe_program(struct bb_taped *taped, const struct bb_moe_step *step,
			 struct bb_error *error)
{
	const unsigned parts = step->parts;
	const bool layer = parts == BB_MOE_LAYER,
		   messages = parts & (BB_MOE_DISPATCH | BB_MOE_COMBINE);
	const struct bb_moe_form *f = &step->load->form;
	const struct bb_moe_exchange exchange = {.load = step->load,
						 .hidden = step->hidden,
						 .dtype = step->dtype,
						 .computes = COMPUTES,
						 .sends = SENDS};
	const bb_status status = bb_taped_begin(taped, f->nranks, true, error);
	struct bb_tape *tape = taped->tapes;

	if (status != BB_OK)
		return status;
	taped->complete = moe_complete;
	taped->own = step;
	taped->program.queues = messages ? QUEUES : 1;
	taped->program.lanes = messages ? BB_MOE_LANES : 0;
	taped->program.groups = parts & BB_MOE_COUNTS ? 1 : 0;
	taped->program.describe = moe_program_describe;
	if (parts & BB_MOE_COUNTS)
		bb_tape_add(tape, (struct bb_operation){.act = BB_ACT_COLLECTIVE,
							.queue = COMPUTES,
							.work = BB_MOE_COUNTS,
							.collective = &bb_alltoall,
							.count = (size_t)(f->experts / f->nranks),
							.dtype = BB_INT64,
							.peer = BB_NO_PEER});
	if (parts & BB_MOE_DISPATCH)
		bb_moe_write(&exchange, tape, BB_MOE_DISPATCH, false, layer, layer);
	if (parts & BB_MOE_EXPERTS)
		bb_tape_compute(tape, COMPUTES, BB_MOE_EXPERTS, 0, step->expert_s, 0);
	if (parts & BB_MOE_COMBINE)
		bb_moe_write(&exchange, tape, BB_MOE_COMBINE, true, layer, false);
	return bb_taped_end(taped, "a layer of experts", error);
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
