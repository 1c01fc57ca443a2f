/*
 * runner_sent.c - the bytes that a rank sends in a program, and needs for it.
 */
#include "harness/measure/runner_inside.h"

#define KINDS_KEPT 8 /* counted collectives that are remembered */

struct kept {
	struct bb_operation like;
	double bytes;
};

struct counting {
	struct bb_runner *runner;
	struct bb_sent *sent;
	struct kept kept[KINDS_KEPT];
	size_t n;
};

/* Virtual time: *CALL = the call of O, settled in a group that is open only for this, and *TMP the
   temporary memory that it needs. */
static bb_status choose_virtual(struct bb_runner *p, const struct bb_operation *o,
				struct bb_call *call, size_t *tmp)
{
	struct bb_runner_call c = {.like = *o};
	struct bb_runner_group group = {.size = p->program->group_size(p->program, o->group)};
	bb_status status = bb_runner_open_group(p, o->group, &group.handle);

	if (status != BB_OK)
		return status;
	status = bb_runner_settle(p, &group, &c);
	*call = c.call;
	*tmp = status == BB_OK ? p->backend->tmp_bytes(group.handle, call) : 0;
	p->backend->group_close(group.handle);
	return status;
}

/* *BYTES = those that the member of a group of N sends in O that sends most. */
static bb_status count_collective(struct counting *c, const struct bb_operation *o, int n,
				  double *bytes)
{
	struct bb_runner *p = c->runner;
	struct bb_call call = {.schedule = NULL};
	size_t wire = 0, tmp = 0;
	bb_status status = BB_OK;

	*bytes = 0;
	if (n == 1)
		return BB_OK;
	if (p->backend->virtual)
		status = choose_virtual(p, o, &call, &tmp);
	else
		call = *bb_runner_call(p, o);
	if (status != BB_OK)
		return status;
	if (!p->backend->virtual)
		tmp = p->backend->tmp_bytes(p->groups[o->group].handle, &call);
	c->sent->tmp_bytes = tmp > c->sent->tmp_bytes ? tmp : c->sent->tmp_bytes;
	/* A library's own algorithm is unknown, but sends no less than the cheapest schedule. */
	if (!call.schedule)
		call.schedule = bb_algorithm_cheapest(o->collective, &call.shape, 0, 1);
	bb_algorithm_cost(call.schedule, &call.shape, NULL, &wire);
	*bytes = (double)wire * (double)bb_dtype_size(o->dtype);
	return BB_OK;
}

static bb_status count(struct counting *c, const struct bb_operation *o, double *bytes)
{
	const struct bb_program *program = c->runner->program;
	bb_status status;

	if (o->act == BB_ACT_SEND) {
		*bytes = (double)bb_operation_bytes(o);
		return BB_OK;
	}
	for (size_t i = 0; i < c->n && i < KINDS_KEPT; i++)
		if (bb_runner_is_like(&c->kept[i].like, o)) {
			*bytes = c->kept[i].bytes;
			return BB_OK;
		}
	status = count_collective(c, o, program->group_size(program, o->group), bytes);
	c->kept[c->n++ % KINDS_KEPT] = (struct kept){*o, *bytes};
	return status;
}

bb_status bb_runner_count(struct bb_runner *runner, int rank, int work, struct bb_sent *sent)
{
	const struct bb_program *program = runner->program;
	struct counting c = {.runner = runner, .sent = sent};
	bb_status status = BB_OK;

	*sent = (struct bb_sent){.calls = 0};
	for (size_t i = 0; i < program->length(program, rank) && status == BB_OK; i++) {
		const struct bb_operation o = bb_program_at(program, rank, i);
		double bytes = 0;

		if (o.work != work || (o.act != BB_ACT_COLLECTIVE && o.act != BB_ACT_SEND))
			continue;
		status = count(&c, &o, &bytes);
		sent->calls++;
		sent->bytes += bytes;
	}
	return status;
}
