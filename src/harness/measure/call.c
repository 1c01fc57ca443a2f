/*
 * call.c - settles calls of collectives, lays out their buffers, and prepares those of a program.
 */
#include "harness/measure/call.h"

#include "backends/gpu.h"
#include "backends/virtual.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

bb_status bb_call_settle(const struct bb_backend *backend, struct bb_group *group,
			 const struct bb_choice *choice, struct bb_call *call, size_t *tmp,
			 const char **objection)
{
	bb_status status = BB_OK;

	*tmp = 0;
	*objection = NULL;
	call->schedule = choice->schedule;
	call->native = choice->native;
	if (!call->schedule && !call->native)
		status = backend->choose(group, call);
	if (status == BB_EUNSUPPORTED)
		*objection = "the backend has none";
	else if (call->native && call->native->refuses_group)
		*objection = call->native->refuses_group(call->native, call->shape.nranks);
	if (status != BB_OK || *objection)
		return status;
	status = backend->tune(group, call);
	if (status == BB_OK)
		*tmp = backend->tmp_bytes(group, call);
	return status;
}

bb_status bb_call_ready(const struct bb_backend *backend, struct bb_group *group,
			struct bb_call *call, const char **objection)
{
	const bb_status status = backend->gpu ? backend->gpu->ready(group, call) : BB_OK;

	*objection = status == BB_OK ? backend->refuses(group, call) : NULL;
	return status;
}

/* ---- a rank's buffers -------------------------------------------------------------------- */

/*
 * On CPUs an odd number of cache lines separates IN from OUT, and one
 * set from the next: buffers whose addresses agree in their low 12 bits would share cache sets and
 * alias in the load buffers. On GPUs buffers begin where an allocation of their own would, since
 * transfers, registered buffers and multicast objects need alignment: at 4 KiB, and from 2 MiB on
 * at a page of the device's memory.
 */
#define LINE ((size_t)64)
#define APART (33 * LINE)
#define GPU_SMALL ((size_t)4 << 10)
#define GPU_PAGE ((size_t)2 << 20)

/* What lies behind BYTES begins at a multiple of GRAIN, and APART further. */
struct spacing {
	size_t grain, apart;
};

static size_t behind(struct spacing spacing, size_t bytes)
{
	return (bytes + spacing.grain - 1) / spacing.grain * spacing.grain + spacing.apart;
}

/* Sets of twice the cache, at least one, and a pristine one. */
static size_t filling_sets(size_t cache, size_t set_bytes)
{
	const size_t sets = (2 * cache + set_bytes - 1) / set_bytes;

	return sets == 0 ? 2 : sets >= BB_MOST_SETS ? BB_MOST_SETS : sets + 1;
}

size_t bb_layout_bytes(const struct bb_layout *layout, size_t cache)
{
	return layout->sets_at + filling_sets(cache, layout->set_bytes) * layout->set_bytes;
}

struct bb_layout bb_layout_make(const struct bb_collective *collective,
				const struct bb_shape *shape, int rank, size_t element_size,
				size_t unalign, size_t tmp_bytes, size_t arena_bytes, bool on_gpu,
				size_t cache)
{
	const size_t shift = unalign * element_size;
	const size_t in_bytes = bb_collective_in(collective, shape, rank) * element_size;
	const size_t out_bytes = bb_collective_out(collective, shape, rank) * element_size;
	const size_t largest = in_bytes > out_bytes ? in_bytes : out_bytes;
	const struct spacing spacing = {.grain = !on_gpu              ? LINE
						 : largest < GPU_PAGE ? GPU_SMALL
								      : GPU_PAGE,
					.apart = on_gpu ? 0 : APART};
	struct bb_layout l = {.in_bytes = in_bytes,
			      .out_bytes = out_bytes,
			      .in_at = shift,
			      .out_at = behind(spacing, shift + in_bytes) + shift,
			      .sets_at = behind(spacing, tmp_bytes)};

	if (shape->in_place) {
		l.in_at = shift + bb_collective_at(collective, shape, rank, BB_IN) * element_size;
		l.out_at = shift + bb_collective_at(collective, shape, rank, BB_OUT) * element_size;
	}
	const size_t end = l.in_at + l.in_bytes > l.out_at + l.out_bytes ? l.in_at + l.in_bytes
									 : l.out_at + l.out_bytes;
	l.set_bytes = behind(spacing, end ? end : 1);
	if (arena_bytes >= l.sets_at + l.set_bytes) {
		size_t fit = (arena_bytes - l.sets_at) / l.set_bytes;
		size_t most = filling_sets(cache, l.set_bytes);

		most = most < BB_USUAL_SETS ? BB_USUAL_SETS : most;
		l.sets = (int)(fit > most ? most : fit);
	}
	return l;
}

struct bb_buffers bb_arena_set(const struct bb_arena *arena, const struct bb_layout *layout,
			       int set)
{
	char *base = arena->memory + layout->sets_at + (size_t)set * layout->set_bytes;

	return (struct bb_buffers){base + layout->in_at, base + layout->out_at};
}

/* ---- the algorithm of an operation ------------------------------------------------------- */

/* Groups are handled in the order of their numbers, so that no two members wait for each other in
   different groups. */

#define KINDS_KEPT 8 /* collectives that are remembered in virtual time */

void bb_calls_object(struct bb_calls *c, const char *format, ...)
{
	va_list args;

	if (c->objection[0])
		return;
	va_start(args, format);
	vsnprintf(c->objection, sizeof(c->objection), format, args);
	va_end(args);
}

/* Returns the call of O; NULL: it is not known. Calls that are alike differ in their buffers. */
static struct bb_settled *call_find(const struct bb_calls *c, const struct bb_operation *o)
{
	for (size_t i = 0; i < c->n && i < c->room; i++) {
		const struct bb_operation *a = &c->list[i].like;

		if (a->group == o->group && a->collective == o->collective &&
		    a->count == o->count && a->dtype == o->dtype && a->op == o->op &&
		    a->root == o->root && a->in_place == o->in_place)
			return &c->list[i];
	}
	return NULL;
}

static struct bb_settled *call_add(struct bb_calls *c, const struct bb_operation *o)
{
	struct bb_settled *s = &c->list[c->n++ % c->room];

	*s = (struct bb_settled){.like = *o, .bytes = NAN};
	return s;
}

/* *HANDLE = the backend's group of the members of GROUP, or of all ranks if GROUP is negative. */
static bb_status open_group(struct bb_calls *c, int group, struct bb_group **handle)
{
	const struct bb_program *program = c->program;
	const int n = group < 0 ? program->nranks : program->group_size(program, group);
	int *members = calloc((size_t)n, sizeof(*members));
	bb_status status;

	if (!members)
		return bb_no_memory(&c->run->error, "a group");
	for (int i = 0; i < n; i++)
		members[i] = group < 0 ? i : program->member(program, group, i);
	status = c->backend->group_open(c->driver->handle, members, n, handle, &c->run->error);
	free(members);
	return status;
}

static const char *algorithm_of(const struct bb_calls *c)
{
	return c->program->algorithm ? c->program->algorithm : "auto";
}

static void object_to_call(struct bb_calls *c, const struct bb_operation *o, int size,
			   const char *reason)
{
	bb_calls_object(c, "%s by %s among %d ranks: %s", o->collective->name, algorithm_of(c),
			size, reason);
}

/* Chooses the algorithm of S, whose operation is known, for a group of G's size; where G is open,
   settles it there. Objects if there is none. */
static bb_status settle(struct bb_calls *c, const struct bb_calls_group *g, struct bb_settled *s)
{
	const struct bb_operation *o = &s->like;
	struct bb_choice choice = {.schedule = NULL};
	const char *reason = o->collective->refuses ? o->collective->refuses(g->size) : NULL;
	bb_status status = BB_OK;

	if (o->collective->flags & BB_VARIABLE)
		reason = "a program does not say how much goes where";
	/* A stand-in is not what was requested; a rank alone always gets the backend's choice. */
	if (!reason)
		reason = bb_choice_find(&choice, c->natives, o->collective, g->size,
					g->size > 1 ? algorithm_of(c) : "auto");
	reason = reason ? reason : choice.reason;
	s->call = (struct bb_call){
		.collective = o->collective,
		.schedule = choice.schedule,
		.native = choice.native,
		.dtype = o->dtype,
		.op = o->op,
		.shape = {.nranks = g->size,
			  .root = o->root,
			  .in_place = o->in_place,
			  .count = o->count},
	};
	c->names_native |= choice.native != NULL;
	if (!reason && g->handle)
		status = bb_call_settle(c->backend, g->handle, &choice, &s->call, &s->tmp, &reason);
	if (!reason)
		return status;
	object_to_call(c, o, g->size, reason);
	return BB_OK;
}

/* Virtual time: settles S in its group, which is open only for this; or, if JUDGES, objects unless
   the library can run it there. */
static bb_status settle_virtual(struct bb_calls *c, struct bb_settled *s, bool judges)
{
	struct bb_calls_group g = {.size = c->program->group_size(c->program, s->like.group)};
	const char *reason = NULL;
	bb_status status;

	if (judges)
		BB_TRY(status, settle(c, &g, s), out);
	if (judges && (c->objection[0] || !s->call.native))
		return BB_OK;
	BB_TRY(status, open_group(c, s->like.group, &g.handle), out);
	if (judges)
		reason = c->backend->refuses(g.handle, &s->call);
	else
		status = settle(c, &g, s);
	if (reason)
		object_to_call(c, &s->like, g.size, reason);
	c->backend->group_close(g.handle);
out:
	return status;
}

/* ---- groups ------------------------------------------------------------------------------ */

static bb_status open_groups(struct bb_calls *c)
{
	const struct bb_program *program = c->program;
	const int rank = c->driver->rank;
	bb_status status = BB_OK;

	c->groups = calloc((size_t)program->groups + 1, sizeof(*c->groups));
	if (!c->groups)
		return bb_no_memory(&c->run->error, "a program's groups");
	for (int g = 0; g < program->groups && status == BB_OK; g++) {
		struct bb_calls_group *group = &c->groups[g];
		bool needed, alone;

		group->size = program->group_size(program, g);
		group->place = -1;
		for (int i = 0; i < group->size && group->place < 0; i++)
			if (program->member(program, g, i) == rank)
				group->place = i;
		needed = group->place >= 0 && group->size > 1;
		alone = group->place >= 0 && group->size == 1;
		/* Alone in a group, only an out-of-place collective does work. */
		for (size_t i = 0; alone && i < program->length(program, rank); i++) {
			const struct bb_operation o = bb_program_at(program, rank, i);

			needed |= o.act == BB_ACT_COLLECTIVE && o.group == g && !o.in_place;
		}
		if (needed)
			status = open_group(c, g, &group->handle);
	}
	for (int l = 0; l < program->lanes && status == BB_OK && program->nranks > 1; l++)
		status = open_group(c, -1, &c->lanes[l]);
	return status;
}

/*
 * All ranks together prepare a named algorithm (ready in backends/gpu.h), each for one group at a
 * time. So every rank must be in the same number of groups, and all must prepare theirs in turn.
 */
static bool groups_are_layers(const struct bb_program *program, int *count)
{
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

/* ---- all calls of a program -------------------------------------------------------------- */

bb_status bb_calls_open(struct bb_calls *c)
{
	const struct bb_program *program = c->program;
	const bool virtual = c->backend->virtual;
	const int rank = c->driver->rank;
	const size_t n = virtual ? KINDS_KEPT : program->length(program, rank) + 1;
	int *count = calloc((size_t)program->nranks, sizeof(*count));
	bb_status status;

	c->list = calloc(n, sizeof(*c->list));
	c->of = calloc(n, sizeof(struct bb_settled *));
	c->room = n;
	status = count && c->list && c->of ? BB_OK
					   : bb_no_memory(&c->run->error, "a program's calls");
	BB_TRY(status, status, out);
	BB_TRY(status,
	       bb_algorithms_natives(&c->natives, &c->owned, c->backend, algorithm_of(c),
				     &c->run->error),
	       out);
	/* One driver judges for all ranks, for each group as its first member. No backend refuses a
	   size, so it does not count. */
	for (int r = 0; virtual && r < program->nranks && program->groups > 0; r++) {
		const size_t length = program->length(program, r);

		for (size_t i = 0; i < length && !c->objection[0]; i++) {
			struct bb_operation o = bb_program_at(program, r, i);

			o.count = 1;
			if (o.act == BB_ACT_COLLECTIVE &&
			    program->member(program, o.group, 0) == r && !call_find(c, &o))
				BB_TRY(status, settle_virtual(c, call_add(c, &o), true), out);
		}
	}
	if (virtual)
		goto out;
	BB_TRY(status, open_groups(c), out);
	/* All members settle the same calls in the same order. */
	for (int g = 0; g < program->groups; g++) {
		const struct bb_calls_group *group = &c->groups[g];

		for (size_t i = 0; group->handle && i < program->length(program, rank); i++) {
			const struct bb_operation o = bb_program_at(program, rank, i);

			if (o.act != BB_ACT_COLLECTIVE || o.group != g)
				continue;
			c->of[i] = call_find(c, &o);
			if (c->of[i])
				continue;
			struct bb_settled *const s = c->of[i] = call_add(c, &o);
			BB_TRY(status, settle(c, group, s), out);
			s->layout = bb_layout_make(o.collective, &s->call.shape, group->place,
						   bb_dtype_size(o.dtype), 0, s->tmp, SIZE_MAX,
						   c->backend->gpu, 0);
		}
	}
	if (c->backend->gpu && c->names_native && !groups_are_layers(program, count))
		bb_calls_object(c,
				"%s: the library prepares it for all ranks at once, but some ranks "
				"are in other groups than the rest, or in none",
				program->algorithm);
out:
	free(count);
	return status;
}

bb_status bb_calls_ready(struct bb_calls *c)
{
	bb_status status = bb_driver_share_objection(c->driver, c->objection);

	if (c->objection[0])
		return status;
	/* All of them, whatever is refused: a backend may prepare one for the whole world. */
	for (size_t i = 0; i < c->n && status == BB_OK; i++) {
		struct bb_settled *s = &c->list[i];
		const struct bb_calls_group *g = &c->groups[s->like.group];
		const char *reason;

		status = bb_call_ready(c->backend, g->handle, &s->call, &reason);
		if (reason)
			object_to_call(c, &s->like, g->size, reason);
	}
	return status;
}

void bb_calls_close(struct bb_calls *c)
{
	for (int g = 0; g < c->program->groups && c->groups; g++)
		c->backend->group_close(c->groups[g].handle);
	for (int l = 0; l < BB_PROGRAM_LANES; l++)
		c->backend->group_close(c->lanes[l]);
	free(c->groups);
	free(c->list);
	free(c->of);
	free(c->owned);
}

/* ---- what a rank sends -------------------------------------------------------------------- */

bb_status bb_calls_count(struct bb_calls *c, int rank, int work, struct bb_sent *sent)
{
	const struct bb_program *program = c->program;
	bb_status status = BB_OK;

	*sent = (struct bb_sent){.calls = 0};
	for (size_t i = 0; i < program->length(program, rank); i++) {
		const struct bb_operation o = bb_program_at(program, rank, i);
		const struct bb_algorithm *schedule;
		size_t wire = 0;

		if (o.work != work || (o.act != BB_ACT_COLLECTIVE && o.act != BB_ACT_SEND))
			continue;
		sent->calls++;
		if (o.act == BB_ACT_SEND)
			sent->bytes += (double)bb_operation_bytes(&o);
		if (o.act == BB_ACT_SEND || program->group_size(program, o.group) == 1)
			continue;
		struct bb_settled *s = call_find(c, &o);
		s = s ? s : call_add(c, &o);
		if (isnan(s->bytes)) {
			if (c->backend->virtual)
				BB_TRY(status, settle_virtual(c, s, false), out);
			/* A library's own algorithm is unknown, but sends no less than the cheapest
			   schedule. */
			schedule = s->call.schedule;
			if (!schedule)
				schedule =
					bb_algorithm_cheapest(o.collective, &s->call.shape, 0, 1);
			bb_algorithm_cost(schedule, &s->call.shape, NULL, &wire);
			s->bytes = (double)wire * (double)bb_dtype_size(o.dtype);
		}
		sent->tmp_bytes = s->tmp > sent->tmp_bytes ? s->tmp : sent->tmp_bytes;
		sent->bytes += s->bytes;
	}
out:
	return status;
}
