/*
 * step.c - operations in this order, those in brackets once per bucket:
 *
 *     forward [backward]   of all microbatches but the last
 *     forward [backward, record, wait, reduce]   with overlap
 *     forward [backward] record wait [reduce]    without
 *     record wait
 *
 * The tape has the first line once.
 */
#include "training_kernels/ddp/step.h"

#include <stdio.h>

enum queue { COMPUTING, COMMUNICATING, QUEUES };

/* ---- writing --------------------------------------------------------------------------------- */

static void add_compute(struct bb_ddp_program *p, enum bb_ddp_work work, size_t item,
			double seconds)
{
	bb_tape_add(&p->tape, (struct bb_operation){.act = BB_ACT_COMPUTE,
						    .queue = COMPUTING,
						    .work = work,
						    .item = item,
						    .seconds = seconds,
						    .flops = seconds * p->step.flops,
						    .peer = BB_NO_PEER});
}

static void add_call(struct bb_ddp_program *p, size_t bucket)
{
	const bool start = p->step.part == BB_DDP_START;

	bb_tape_add(&p->tape,
		    (struct bb_operation){.act = BB_ACT_COLLECTIVE,
					  .queue = COMMUNICATING,
					  .work = start ? BB_DDP_BROADCAST : BB_DDP_REDUCE,
					  .item = bucket,
					  .collective = start ? &bb_broadcast : &bb_all_reduce,
					  .count = (size_t)p->step.buckets->list[bucket].elements,
					  .dtype = p->step.dtype,
					  .op = BB_AVG,
					  .in_place = true,
					  .peer = BB_NO_PEER});
}

/* The computations of a microbatch; REDUCES: with the reduction of each bucket. */
static void add_microbatch(struct bb_ddp_program *p, bool reduces)
{
	const double *ready_s = p->step.ready_s;

	add_compute(p, BB_DDP_FORWARD, 0, p->step.forward_s);
	for (size_t k = 0; k < p->step.buckets->n; k++) {
		add_compute(p, BB_DDP_BACKWARD, k, ready_s[k] - (k > 0 ? ready_s[k - 1] : 0));
		if (!reduces)
			continue;
		bb_tape_order(&p->tape, COMPUTING, COMMUNICATING);
		add_call(p, k);
	}
}

static void step_write(struct bb_ddp_program *p)
{
	const enum bb_ddp_part part = p->step.part;
	const bool overlaps = part == BB_DDP_STEP && p->step.overlap;

	if (part == BB_DDP_STEP || part == BB_DDP_ALONE) {
		add_microbatch(p, false);
		p->repeated = p->tape.n;
		add_microbatch(p, overlaps);
	}
	if (part == BB_DDP_STEP && !overlaps)
		bb_tape_order(&p->tape, COMPUTING, COMMUNICATING);
	for (size_t k = 0; k < p->step.buckets->n && part != BB_DDP_ALONE && !overlaps; k++)
		add_call(p, k);
	if (part == BB_DDP_STEP)
		bb_tape_order(&p->tape, COMMUNICATING, COMPUTING);
}

/* ---- the program ----------------------------------------------------------------------------- */

static size_t ddp_step_length(const struct bb_program *program, int rank)
{
	const struct bb_ddp_program *p = program->own;

	return p->tape.n + (p->step.microbatches - 1) * p->repeated - p->repeated;
}

static void ddp_step_operation(const struct bb_program *program, int rank, size_t index,
			       struct bb_operation *o)
{
	const struct bb_ddp_program *p = program->own;
	const size_t last = p->step.microbatches - 1, before = last * p->repeated;
	const bool repeats = index < before;

	*o = p->tape.list[repeats ? index % p->repeated : p->repeated + index - before];
	if (o->act == BB_ACT_COMPUTE)
		o->item += (repeats ? index / p->repeated : last) * p->step.buckets->n;
}

static void ddp_step_describe(const struct bb_program *program, const struct bb_operation *o,
			      char text[BB_PROGRAM_TEXT])
{
	static const char *const names[] = {
		[BB_DDP_FORWARD] = "forward pass of microbatch",
		[BB_DDP_BACKWARD] = "backward pass until bucket",
		[BB_DDP_REDUCE] = "all-reduce of bucket",
		[BB_DDP_BROADCAST] = "broadcast of bucket",
	};
	const size_t n = ((const struct bb_ddp_program *)program->own)->step.buckets->n;

	snprintf(text, BB_PROGRAM_TEXT, "%s %zu", names[o->work],
		 o->work == BB_DDP_FORWARD ? o->item / n : o->item % n);
}

bb_status bb_ddp_program_make(struct bb_ddp_program *p, const struct bb_ddp_step *step, int nranks,
			      const char *algorithm, struct bb_error *error)
{
	*p = (struct bb_ddp_program){.step = *step};
	step_write(p);
	p->program = (struct bb_program){
		.own = p,
		.nranks = nranks,
		.queues = QUEUES,
		.events = p->tape.events,
		.groups = step->part == BB_DDP_ALONE ? 0 : 1,
		.algorithm = algorithm,
		.length = ddp_step_length,
		.operation = ddp_step_operation,
		.group_size = bb_program_all_ranks,
		.member = bb_program_rank_itself,
		.describe = ddp_step_describe,
	};
	return p->tape.failed ? bb_no_memory(error, "a step") : BB_OK;
}

void bb_ddp_program_free(struct bb_ddp_program *p)
{
	bb_tape_free(&p->tape);
}
