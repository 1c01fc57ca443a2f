#include "training_kernels/ddp/step.h"

#include <stdio.h>

enum queue { COMPUTING, COMMUNICATING, QUEUES };

/*
 * The operations come in this order, those in brackets once per bucket:
 *
 *     forward [backward]   of all microbatches but the last
 *     forward [backward, record, wait, reduce]   with overlap
 *     forward [backward] record wait [reduce]    without
 *     record wait optimise
 *
 * so that an operation follows from its index by division.
 */
struct layout {
	size_t buckets;
	size_t pass;       /* computations of a microbatch */
	size_t before;     /* of all microbatches but the last */
	size_t per_bucket; /* of the last one's backward pass */
	size_t last;       /* of the last microbatch, with its reductions */
	size_t end;        /* record, wait and optimize */
};

static bool step_computes(const struct bb_ddp_step *step)
{
	return step->part == BB_DDP_STEP || step->part == BB_DDP_ALONE;
}

static struct layout step_lay_out(const struct bb_ddp_step *step)
{
	const size_t n = step->buckets->n;
	struct layout l = {.buckets = n, .pass = 1 + n};

	if (!step_computes(step)) {
		l.per_bucket = 1;
		l.last = n;
		return l;
	}
	l.before = (step->microbatches - 1) * l.pass;
	l.per_bucket = step->part == BB_DDP_STEP && step->overlap ? 4 : 1;
	l.last = 1 + n * l.per_bucket;
	if (step->part == BB_DDP_STEP && !step->overlap)
		l.last += 2 + n;
	if (step->part == BB_DDP_STEP)
		l.end = 2;
	l.end += step->optimise_s > 0;
	return l;
}

static size_t ddp_step_length(const struct bb_program *program, int rank)
{
	const struct layout l = step_lay_out(program->own);

	return l.before + l.last + l.end;
}

static void step_compute(const struct bb_ddp_step *step, struct bb_operation *o,
			 enum bb_ddp_work work, size_t item, double seconds)
{
	o->act = BB_ACT_COMPUTE;
	o->queue = COMPUTING;
	o->work = work;
	o->item = item;
	o->seconds = seconds;
	o->flops = seconds * step->flops;
}

static void step_backward(const struct bb_ddp_step *step, struct bb_operation *o, size_t microbatch,
			  size_t bucket)
{
	step_compute(step, o, BB_DDP_BACKWARD, microbatch * step->buckets->n + bucket,
		     step->ready_s[bucket] - (bucket > 0 ? step->ready_s[bucket - 1] : 0));
}

static void step_forward(const struct bb_ddp_step *step, struct bb_operation *o, size_t microbatch)
{
	step_compute(step, o, BB_DDP_FORWARD, microbatch * step->buckets->n, step->forward_s);
}

static void step_communicate(const struct bb_ddp_step *step, struct bb_operation *o, size_t bucket)
{
	const bool start = step->part == BB_DDP_START;

	o->act = BB_ACT_COLLECTIVE;
	o->queue = COMMUNICATING;
	o->work = start ? BB_DDP_BROADCAST : BB_DDP_REDUCE;
	o->item = bucket;
	o->collective = start ? &bb_broadcast : &bb_all_reduce;
	o->count = (size_t)step->buckets->list[bucket].elements;
	o->dtype = step->dtype;
	o->op = BB_AVG;
	o->in_place = true;
}

static void step_event(struct bb_operation *o, bool record, enum queue queue, size_t event)
{
	o->act = record ? BB_ACT_RECORD : BB_ACT_WAIT;
	o->queue = queue;
	o->event = (int)event;
}

/* Operation K of the last microbatch with its reductions. */
static void step_last_pass(const struct bb_ddp_step *step, const struct layout *l, size_t k,
			   struct bb_operation *o)
{
	const size_t microbatch = step->microbatches - 1;
	const size_t bucket = (k - 1) / l->per_bucket, tail = 1 + l->buckets * l->per_bucket;

	if (k == 0) {
		step_forward(step, o, microbatch);
	} else if (k >= tail) {
		if (k < tail + 2)
			step_event(o, k == tail, k == tail ? COMPUTING : COMMUNICATING, 0);
		else
			step_communicate(step, o, k - tail - 2);
	} else {
		switch ((k - 1) % l->per_bucket) {
		case 0:
			step_backward(step, o, microbatch, bucket);
			break;
		case 3:
			step_communicate(step, o, bucket);
			break;
		case 1:
			step_event(o, true, COMPUTING, bucket);
			break;
		default:
			step_event(o, false, COMMUNICATING, bucket);
		}
	}
}

static void ddp_step_operation(const struct bb_program *program, int rank, size_t index,
			       struct bb_operation *o)
{
	const struct bb_ddp_step *step = program->own;
	const struct layout l = step_lay_out(step);
	const size_t at = index - l.before;

	if (!step_computes(step)) {
		step_communicate(step, o, index);
	} else if (index < l.before) {
		if (index % l.pass == 0)
			step_forward(step, o, index / l.pass);
		else
			step_backward(step, o, index / l.pass, index % l.pass - 1);
	} else if (at < l.last) {
		step_last_pass(step, &l, at, o);
	} else if (step->part == BB_DDP_STEP && at - l.last < 2) {
		step_event(o, at == l.last, at == l.last ? COMMUNICATING : COMPUTING, l.buckets);
	} else {
		step_compute(step, o, BB_DDP_OPTIMISE, 0, step->optimise_s);
	}
}

static void ddp_step_describe(const struct bb_program *program, const struct bb_operation *o,
			      char text[BB_PROGRAM_TEXT])
{
	static const char *const names[] = {
		[BB_DDP_FORWARD] = "forward pass of microbatch",
		[BB_DDP_BACKWARD] = "backward pass until bucket",
		[BB_DDP_REDUCE] = "all-reduce of bucket",
		[BB_DDP_BROADCAST] = "broadcast of bucket",
		[BB_DDP_OPTIMISE] = "optimizer",
	};
	const struct bb_ddp_step *step = program->own;
	size_t item = o->item;

	if (o->work == BB_DDP_FORWARD)
		item /= step->buckets->n;
	else if (o->work == BB_DDP_BACKWARD)
		item %= step->buckets->n;
	if (o->work == BB_DDP_OPTIMISE)
		snprintf(text, BB_PROGRAM_TEXT, "%s", names[o->work]);
	else
		snprintf(text, BB_PROGRAM_TEXT, "%s %zu", names[o->work], item);
}

void bb_ddp_program(struct bb_program *program, const struct bb_ddp_step *step, int nranks,
		    const char *algorithm)
{
	*program = (struct bb_program){
		.own = step,
		.nranks = nranks,
		.queues = QUEUES,
		.events = step->part == BB_DDP_STEP ? (int)step->buckets->n + 1 : 0,
		.groups = step->part == BB_DDP_ALONE ? 0 : 1,
		.algorithm = algorithm,
		.length = ddp_step_length,
		.operation = ddp_step_operation,
		.group_size = bb_program_all_ranks,
		.member = bb_program_rank_itself,
		.describe = ddp_step_describe,
	};
}
