/*
 * runner_calls.c - groups, lanes, and the calls of collectives in them. Groups are handled in the
 * order of their numbers, so that no two members wait for each other in different groups.
 */
#include "backends/gpu.h"
#include "harness/measure/runner_calls.h"

#include <stdlib.h>
#include <string.h>

/* ---- which algorithm --------------------------------------------------------------------- */

/* True if A and B are the same call but for their buffers. */
static bool is_like(const struct bb_operation *a, const struct bb_operation *b)
{
	return a->group == b->group && a->collective == b->collective && a->count == b->count &&
	       a->dtype == b->dtype && a->op == b->op && a->root == b->root &&
	       a->in_place == b->in_place;
}

/* *HANDLE = the backend's group of the members of GROUP, or of all ranks if GROUP is negative. */
static bb_status open_group(struct bb_runner *p, int group, struct bb_group **handle)
{
	const struct bb_program *program = p->program;
	const int n = group < 0 ? program->nranks : program->group_size(program, group);
	int *members = calloc((size_t)n, sizeof(*members));
	bb_status status;

	if (!members)
		return bb_no_memory(&p->run->error, "a group");
	for (int i = 0; i < n; i++)
		members[i] = group < 0 ? i : program->member(program, group, i);
	status = p->backend->group_open(p->rank, members, n, handle, &p->run->error);
	free(members);
	return status;
}

static const char *algorithm_of(const struct bb_runner *p)
{
	return p->program->algorithm ? p->program->algorithm : "auto";
}

/* *CHOICE = the program's algorithm for the collective of O. Returns why there is none; NULL: there
   is. A stand-in is not what was requested; a rank alone always gets the backend's choice. */
static const char *find_choice(const struct bb_runner *p, const struct bb_operation *o, int size,
			       struct bb_choice *choice)
{
	const char *reason = o->collective->refuses ? o->collective->refuses(size) : NULL;

	if (o->collective->flags & BB_VARIABLE)
		return "a program does not say how much goes where";
	if (!reason)
		reason = bb_choice_find(choice, p->natives, o->collective, size,
					size > 1 ? algorithm_of(p) : "auto");
	return reason ? reason : choice->reason;
}

static void object_to_call(struct bb_runner *p, const struct bb_operation *o, int size,
			   const char *reason)
{
	bb_runner_object(p, "%s by %s among %d ranks: %s", o->collective->name, algorithm_of(p),
			 size, reason);
}

/* The call of O, without buffers, by CHOICE. */
static struct bb_call call_of(const struct bb_operation *o, int size,
			      const struct bb_choice *choice)
{
	return (struct bb_call){
		.collective = o->collective,
		.schedule = choice->schedule,
		.native = choice->native,
		.dtype = o->dtype,
		.op = o->op,
		.shape = {.nranks = size,
			  .root = o->root,
			  .in_place = o->in_place,
			  .count = o->count},
	};
}

/* Objects unless the library can run O by CHOICE in its group, which is open only for this
   question. */
static bb_status judge_native(struct bb_runner *p, const struct bb_operation *o,
			      const struct bb_choice *choice)
{
	const int n = p->program->group_size(p->program, o->group);
	const struct bb_call call = call_of(o, n, choice);
	struct bb_group *group;
	const char *reason;
	bb_status status = open_group(p, o->group, &group);

	if (status != BB_OK)
		return status;
	reason = p->backend->refuses(group, &call);
	if (reason)
		object_to_call(p, o, n, reason);
	p->backend->group_close(group);
	return BB_OK;
}

#define KINDS_KEPT 8 /* judged or counted collectives that are remembered */

/* True if a collective like O was judged already. No backend refuses a size, so it does not count.
 */
static bool is_judged(struct bb_operation kinds[KINDS_KEPT], size_t *n, struct bb_operation o)
{
	o.count = 1;
	for (size_t i = 0; i < *n && i < KINDS_KEPT; i++)
		if (is_like(&kinds[i], &o))
			return true;
	kinds[(*n)++ % KINDS_KEPT] = o;
	return false;
}

bb_status bb_runner_judge_collectives(struct bb_runner *p, int rank)
{
	struct bb_operation kinds[KINDS_KEPT];
	size_t nkinds = 0;
	bb_status status = BB_OK;
	const struct bb_program *program = p->program;
	const size_t n = program->length(program, rank);

	for (size_t i = 0; i < n && !p->objection[0] && status == BB_OK; i++) {
		const struct bb_operation o = bb_program_at(program, rank, i);
		struct bb_choice choice;
		const char *reason;

		if (o.act != BB_ACT_COLLECTIVE || program->member(program, o.group, 0) != rank ||
		    is_judged(kinds, &nkinds, o))
			continue;
		reason = find_choice(p, &o, program->group_size(program, o.group), &choice);
		if (reason)
			object_to_call(p, &o, program->group_size(program, o.group), reason);
		else if (choice.native)
			status = judge_native(p, &o, &choice);
	}
	return status;
}

/* ---- groups ------------------------------------------------------------------------------ */

/* True if this rank needs the group: alone in a group, only an out-of-place collective does work.
 */
static bool is_needed(const struct bb_runner *p, int group)
{
	if (p->groups[group].place < 0)
		return false;
	if (p->groups[group].size > 1)
		return true;
	for (size_t i = 0; i < p->nitems; i++) {
		const struct bb_operation *o = &p->items[i].operation;

		if (o->act == BB_ACT_COLLECTIVE && o->group == group && !o->in_place)
			return true;
	}
	return false;
}

static bb_status open_groups(struct bb_runner *p)
{
	const struct bb_program *program = p->program;
	bb_status status = BB_OK;

	p->groups = calloc((size_t)program->groups + 1, sizeof(*p->groups));
	if (!p->groups)
		return bb_no_memory(&p->run->error, "a program's groups");
	for (int i = 0; i < program->groups && status == BB_OK; i++) {
		struct bb_runner_group *g = &p->groups[i];

		g->size = program->group_size(program, i);
		g->place = bb_program_place(program, i, p->driver->rank);
		if (is_needed(p, i))
			status = open_group(p, i, &g->handle);
	}
	for (int l = 0; l < program->lanes && status == BB_OK && program->nranks > 1; l++)
		status = open_group(p, -1, &p->lanes[l]);
	return status;
}

/* ---- calls ------------------------------------------------------------------------------- */

/* Choose the algorithm of C, whose operation is known, in G. Objects if there is none. */
static bb_status settle(struct bb_runner *p, const struct bb_runner_group *g,
			struct bb_runner_call *c)
{
	const struct bb_operation *o = &c->like;
	struct bb_choice choice;
	const char *reason = find_choice(p, o, g->size, &choice);
	bb_status status;
	size_t tmp;

	if (reason) {
		object_to_call(p, o, g->size, reason);
		return BB_OK;
	}
	c->call = call_of(o, g->size, &choice);
	p->names_native |= choice.native != NULL;
	status = bb_call_settle(p->backend, g->handle, &choice, &c->call, &tmp, &reason);
	if (reason) {
		object_to_call(p, o, g->size, reason);
		return BB_OK;
	}
	if (status == BB_OK)
		c->layout = bb_layout_make(o->collective, &c->call.shape, g->place,
					   bb_dtype_size(o->dtype), 0, tmp, SIZE_MAX,
					   p->backend->gpu, 0);
	return status;
}

/* All members settle the same calls in the same order. */
static bb_status settle_group(struct bb_runner *p, int group)
{
	const size_t first = p->ncalls;
	bb_status status = BB_OK;

	for (size_t i = 0; i < p->nitems && status == BB_OK; i++) {
		const struct bb_operation *o = &p->items[i].operation;
		size_t c = first;

		if (o->act != BB_ACT_COLLECTIVE || o->group != group)
			continue;
		while (c < p->ncalls && !is_like(&p->calls[c].like, o))
			c++;
		p->items[i].call = c;
		if (c < p->ncalls)
			continue;
		p->calls[p->ncalls++].like = *o;
		status = settle(p, &p->groups[group], &p->calls[c]);
	}
	return status;
}

/* ---- buffers ----------------------------------------------------------------------------- */

static size_t bytes_of(const struct bb_runner *p, const struct bb_item *item)
{
	const struct bb_operation *o = &item->operation;
	const struct bb_layout *l;

	switch (o->act) {
	case BB_ACT_COLLECTIVE:
		if (!p->groups[o->group].handle)
			return 0;
		l = &p->calls[item->call].layout;
		return l->sets_at + (p->workload->buffers ? 0 : l->set_bytes);
	case BB_ACT_SEND:
	case BB_ACT_RECV:
	case BB_ACT_RECV_ANY:
		return p->workload->buffers ? 0 : bb_operation_bytes(o);
	default:
		return 0;
	}
}

static bb_status open_arenas(struct bb_runner *p)
{
	uint64_t all = 0;
	bb_status status = BB_OK;

	for (size_t i = 0; i < p->nitems; i++) {
		struct bb_arena *arena = &p->queues[p->items[i].operation.queue].arena;
		const size_t bytes = bytes_of(p, &p->items[i]);

		arena->bytes = bytes > arena->bytes ? bytes : arena->bytes;
	}
	for (int q = 0; q < p->program->queues; q++)
		all += p->queues[q].arena.bytes;
	if (all > p->run->memory / (uint64_t)p->run->world.nlocal)
		bb_runner_object(p, "rank %d: its buffers do not fit into memory", p->driver->rank);
	for (int q = 0; q < p->program->queues && status == BB_OK && !p->objection[0]; q++) {
		struct bb_arena *arena = &p->queues[q].arena;

		if (!arena->bytes)
			continue;
		status = p->backend->alloc(p->rank, arena->bytes, (void **)&arena->memory);
		if (status != BB_OK)
			return bb_fail(&p->run->error, status, "rank %d cannot allocate %zu bytes",
				       p->driver->rank, arena->bytes);
	}
	return status;
}

/* ---- preparing the library ------------------------------------------------------------------ */

/*
 * All ranks together prepare a named algorithm (ready in backends/gpu.h), each for one group at a
 * time. So every rank must be in the same number of groups, and all must prepare theirs in turn.
 */
static bool groups_are_layers(const struct bb_runner *p, int *count)
{
	const struct bb_program *program = p->program;

	for (int g = 0; g < program->groups; g++) {
		const int size = program->group_size(program, g);
		const int layer = count[program->member(program, g, 0)];

		for (int i = 0; i < size && size > 1; i++)
			if (count[program->member(program, g, i)]++ != layer)
				return false;
	}
	for (int r = 1; r < program->nranks; r++)
		if (count[r] != count[0])
			return false;
	return true;
}

static bb_status check_layers(struct bb_runner *p)
{
	int *count;

	if (!p->names_native)
		return BB_OK;
	count = calloc((size_t)p->program->nranks, sizeof(*count));
	if (!count)
		return bb_no_memory(&p->run->error, "a program's groups");
	if (!groups_are_layers(p, count))
		bb_runner_object(
			p,
			"%s: the library prepares it for all ranks at once, but some ranks "
			"are in other groups than the rest, or in none",
			p->program->algorithm);
	free(count);
	return BB_OK;
}

static bb_status make_ready(struct bb_runner *p)
{
	bb_status status = BB_OK;

	for (size_t i = 0; i < p->ncalls && status == BB_OK; i++) {
		struct bb_runner_call *c = &p->calls[i];
		const struct bb_runner_group *g = &p->groups[c->like.group];
		const char *reason;

		status = bb_call_ready(p->backend, g->handle, &c->call, &reason);
		if (reason)
			object_to_call(p, &c->like, g->size, reason);
	}
	return status;
}

/* ---- all of it --------------------------------------------------------------------------- */

/* After an objection of any rank nothing more is prepared. */
bb_status bb_runner_open_calls(struct bb_runner *p)
{
	bb_status status;

	BB_TRY(status, open_groups(p), out);
	p->calls = calloc(p->nitems + 1, sizeof(*p->calls));
	if (!p->calls)
		BB_TRY(status, bb_no_memory(&p->run->error, "a program's calls"), out);
	for (int g = 0; g < p->program->groups; g++)
		if (p->groups[g].handle)
			BB_TRY(status, settle_group(p, g), out);
	if (p->backend->gpu)
		BB_TRY(status, check_layers(p), out);
	BB_TRY(status, open_arenas(p), out);
	BB_TRY(status, bb_crew_hear(p->driver, p->objection), out);
	if (!p->objection[0])
		status = make_ready(p);
out:
	return status;
}

void bb_runner_close_calls(struct bb_runner *p)
{
	for (int g = 0; g < p->program->groups && p->groups; g++)
		p->backend->group_close(p->groups[g].handle);
	for (int l = 0; l < BB_PROGRAM_LANES; l++)
		p->backend->group_close(p->lanes[l]);
	for (int q = 0; q < BB_PROGRAM_QUEUES && !p->failed; q++)
		if (p->queues[q].arena.memory)
			p->backend->release(p->rank, p->queues[q].arena.memory,
					    p->queues[q].arena.bytes);
	free(p->groups);
	free(p->calls);
}

/* ---- what a rank sends -------------------------------------------------------------------- */

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
	bb_status status = open_group(p, o->group, &group.handle);

	if (status != BB_OK)
		return status;
	status = settle(p, &group, &c);
	*call = c.call;
	*tmp = status == BB_OK ? p->backend->tmp_bytes(group.handle, call) : 0;
	p->backend->group_close(group.handle);
	return status;
}

/* *BYTES = those that the member of a group of N sends in O that sends most. */
static bb_status count_collective(struct counting *counting, const struct bb_operation *o, int n,
				  double *bytes)
{
	struct bb_runner *p = counting->runner;
	struct bb_call call = {.schedule = NULL};
	struct bb_sent *sent = counting->sent;
	size_t wire = 0, tmp = 0, c = 0;
	bb_status status = BB_OK;

	*bytes = 0;
	if (n == 1)
		return BB_OK;
	if (p->backend->virtual) {
		status = choose_virtual(p, o, &call, &tmp);
	} else {
		while (!is_like(&p->calls[c].like, o))
			c++;
		call = p->calls[c].call;
		tmp = p->backend->tmp_bytes(p->groups[o->group].handle, &call);
	}
	if (status != BB_OK)
		return status;
	sent->tmp_bytes = tmp > sent->tmp_bytes ? tmp : sent->tmp_bytes;
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
		if (is_like(&c->kept[i].like, o)) {
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
