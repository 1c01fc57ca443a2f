/*
 * bench.c - the experiment of a collective: one case after the other.
 */
#include "collectives/bench.h"

#include "backends/gpu.h"
#include "backends/library.h"
#include "core/clock.h"
#include "core/units.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PRECISION_SAMPLES 20000 /* most iterations of a row under --precision */
/* The least arena of a rank, and of all ranks together, so that small sizes can rotate. */
#define LEAST_ARENA ((size_t)4 << 20)
#define LEAST_ARENAS ((size_t)256 << 20)
/* Size of the copies that measure the memory: on CPUs of all ranks of a process together, beyond
   the caches of cores; on GPUs of each, beyond the second-level cache and far longer than a launch.
 */
#define COPY_BYTES ((size_t)64 << 20)
#define COPY_BYTES_GPU ((size_t)256 << 20)

/* ---- before the first case ------------------------------------------------------------- */

/* Opens this rank's group of a split world, else takes the world itself. */
static bb_status open_group(struct bb_session *s)
{
	struct bb_run *run = s->engine.run;
	const bool split = s->settings->split.sign;
	const int nranks = run->world.nranks;
	const struct bb_library *library = s->engine.backend->library;
	const int rank = split && s->engine.backend->virtual ? s->bench->simulated_rank
							     : s->engine.driver->rank;
	bb_status status;

	s->members = calloc((size_t)nranks, sizeof(*s->members));
	if (!s->members)
		return bb_no_memory(&s->engine.run->error, "groups");
	for (int r = 0; r < nranks; r++) {
		if (run->infos[r].group != run->infos[rank].group)
			continue;
		if (r == rank)
			s->me = s->n;
		s->members[s->n++] = r;
	}
	s->group = s->engine.world;
	if (!split)
		return BB_OK;
	BB_TRY(status,
	       (library && library->split ? library->split : s->engine.backend->group_open)(
		       s->engine.rank, s->members, s->n, &s->group, &run->error),
	       out);
	BB_TRY(status, bb_driver_barrier(s->engine.driver), out);
	if (bb_engine_leads(&s->engine))
		bb_run_mark(run, &run->record.split_ms);
out:
	return status;
}

/*
 * Settle the call of the session's case in one placement: if STANDS_IN, by the schedule that stands
 * in for the library's algorithm. Its buffers are laid out in BYTES. *OBJECTION as for
 * bb_call_settle.
 */
static bb_status settle(struct bb_session *s, bool in_place, bool stands_in, size_t bytes,
			const char **objection)
{
	const struct bb_case *c = s->c;
	const struct bb_backend *backend = s->engine.backend;
	const struct bb_collective *collective = s->bench->plan.collective;
	const struct bb_choice stand_in = {.schedule = c->choice->stand_in};
	size_t tmp = 0;
	bb_status status = BB_OK;

	*objection = NULL;
	s->call = (struct bb_call){
		.collective = collective,
		.dtype = c->dtype,
		.op = c->op == BB_NO_OP ? BB_SUM : (enum bb_op)c->op,
		.shape = bb_plan_shape(&s->bench->plan, c, s->n, in_place, s->matrix),
	};
	if (!c->barrier)
		status = bb_call_settle(backend, s->group, stands_in ? &stand_in : c->choice,
					&s->call, &tmp, objection);
	else if (backend->virtual)
		*objection = "clocks of virtual ranks meet without messages, in no time";
	/* Without a library's own choice, the other barriers are measured. */
	if (status == BB_EUNSUPPORTED && s->bench->barriers && *objection)
		status = BB_OK;
	s->layout =
		bb_layout_make(collective, &s->call.shape, s->me, bb_dtype_size(c->dtype),
			       (size_t)s->settings->unalign, tmp, bytes, backend->gpu, s->cache);
	return status;
}

/* Allocates what the largest case can use, two sets or those that a GPU's cache needs, within this
   rank's share of the memory. */
static bb_status open_arena(struct bb_session *s)
{
	const struct bb_plan *plan = &s->bench->plan;
	const size_t nlocal = (size_t)s->engine.run->world.nlocal, even = LEAST_ARENAS / nlocal;
	const size_t floor = even < LEAST_ARENA ? even : LEAST_ARENA;
	const uint64_t share = s->engine.run->memory / nlocal;
	/* For ONE set of the largest case that fits, TWO of any, ALL that fill a cache, if they
	 * fit. */
	size_t one = 0, two = floor, all = 0, bytes;
	const struct bb_layout *l = &s->layout;
	const char *reason;
	double most;
	bb_status status = BB_OK;

	/* All ranks go by the same cache, so that they rotate through as many sets. */
	for (int r = 0; r < s->engine.run->world.nranks; r++)
		if (s->engine.run->infos[r].location.cache > s->cache)
			s->cache = (size_t)s->engine.run->infos[r].location.cache;
	/* Each case in both placements; with a stand-in also by that. */
	for (size_t i = 0; i < 4 * plan->ncases; i++) {
		const bool stands_in = i % 4 >= 2;

		s->c = &plan->cases[i / 4];
		if (s->c->skip || (stands_in && !s->c->choice->stand_in))
			continue;
		BB_TRY(status, settle(s, i % 2, stands_in, SIZE_MAX, &reason), out);
		if (reason)
			continue;
		bytes = l->sets_at + l->set_bytes;
		one = bytes <= share && bytes > one ? bytes : one;
		bytes += l->set_bytes;
		two = bytes > two ? bytes : two;
		bytes = bb_layout_bytes(l, s->cache);
		all = bytes <= share && bytes > all ? bytes : all;
	}
	bytes = two <= share ? two : one > floor ? one : floor;
	bytes = all > bytes ? all : bytes;
	if (s->engine.options->config.registration == BB_REGISTER_SYMMETRIC) {
		/* Symmetric windows have the same size on all ranks. */
		most = (double)bytes;
		BB_TRY(status, bb_driver_most(s->engine.driver, &bb_payload_real, &most, 1), out);
		bytes = (size_t)most;
	}
	s->arena.bytes = bytes;
	status = bb_engine_alloc(&s->engine, bytes, (void **)&s->arena.memory);
out:
	return status;
}

/* *RATE = bytes per second of copies by all devices together. Collective over the world. */
static bb_status measure_memory(struct bb_session *s, double *rate)
{
	const struct bb_arena kept = s->arena;
	const struct bb_run *run = s->engine.run;
	const bool gpu = s->engine.backend->gpu;
	const size_t ranks = (size_t)run->world.nlocal;
	/* The area that the copies move through, if there is room for it beside the arena; the same
	   on all ranks. */
	const size_t bytes = gpu ? 2 * COPY_BYTES_GPU : COPY_BYTES / ranks;
	const bool larger =
		kept.bytes < bytes && bytes > LEAST_ARENA && bytes <= run->memory / ranks / 4;
	bb_status status = BB_OK;

	if (larger) {
		s->arena.bytes = bytes;
		status = bb_engine_alloc(&s->engine, bytes, (void **)&s->arena.memory);
	}
	if (status == BB_OK)
		status = bb_measure_copy(s, gpu ? COPY_BYTES_GPU : COPY_BYTES, rate);
	if (larger)
		bb_engine_release(&s->engine, s->arena.memory);
	s->arena = kept;
	return status;
}

static int color_of(const struct bb_run *run, int rank)
{
	const struct bb_bench *bench = run->own;

	return bb_split_color(&bench->settings.split, rank);
}

static bb_status bench_open(struct bb_engine *engine)
{
	struct bb_session *s = (struct bb_session *)engine;
	struct bb_run *run = engine->run;
	struct bb_bench *bench = run->own;
	const struct bb_options *o = engine->options;
	const struct bb_matrices *m = &bench->settings.matrices;
	const bool variable = bench->plan.collective->flags & BB_VARIABLE;
	/* The device's events time the iterations. */
	const bool events = engine->backend->gpu && bench->settings.per_iter_timing &&
			    bench->settings.blocking == 0;
	const size_t iters = (size_t)o->iters;
	/* Half of the digest: a number that a double holds. */
	const double digest = (double)(uint32_t)bb_matrices_digest(m);
	double most[] = {digest, -digest};
	bb_status status = BB_OK;

	s->bench = bench;
	s->settings = &bench->settings;
	s->reported_matrix = BB_NO_MATRIX;
	s->copies = bb_is_first_on_device(run->infos, engine->driver->rank);
	if (m->n > 0)
		BB_TRY(status, bb_driver_most(engine->driver, &bb_payload_real, most, 2), done);
	if (most[0] != -most[1])
		return bb_fail(&run->error, BB_EUSAGE,
			       "%.200s differs between processes; give all the same matrices",
			       bench->settings.matrix_file);
	BB_TRY(status, open_group(s), done);
	/* Without --precision there is one more, as the last may be timed alone. */
	s->most_samples = o->precision != 0 ? 2 * iters + PRECISION_SAMPLES : iters + 1;
	s->samples = calloc(4 * s->most_samples, sizeof(*s->samples));
	if (variable)
		s->matrix = calloc((size_t)s->n * (size_t)s->n, sizeof(*s->matrix));
	if (events)
		s->events = calloc(iters + 1, sizeof(*s->events));
	if (!s->samples || (variable && !s->matrix) || (events && !s->events))
		return bb_no_memory(&run->error, "samples");
	s->arrivals = s->samples + 2 * s->most_samples;
	for (; events && s->nevents <= iters; s->nevents++)
		BB_TRY(status,
		       engine->backend->event_open(engine->rank, &s->events[s->nevents],
						   &run->error),
		       done);
	BB_TRY(status, bb_run_note_memory(run, engine->driver, &run->end.memory_init_bytes), done);
	BB_TRY(status, open_arena(s), done);
	if (!bench->barriers && !bench->settings.accuracy)
		status = measure_memory(s, &engine->copy_rate);
done:
	return status;
}

static void bench_close(struct bb_engine *engine)
{
	struct bb_session *s = (struct bb_session *)engine;

	for (size_t i = 0; i < s->nevents; i++)
		engine->backend->event_close(s->events[i]);
	free(s->events);
	if (s->group != engine->world)
		engine->backend->group_close(s->group);
	bb_pattern_store_give(&engine->run->patterns, s->patterns);
	free(s->members);
	free(s->matrix);
	free(s->samples);
}

/* ---- the cases ------------------------------------------------------------------------- */

void bb_bench_describe_case(const struct bb_session *s, struct bb_result_record *r)
{
	const struct bb_case *c = s->c;

	bb_record_init(&bb_record_result, r);
	r->collective = s->bench->plan.collective->name;
	r->algorithm_asked = r->algorithm = c->choice->name;
	r->dtype = bb_dtype_name(c->dtype);
	r->op = c->op == BB_NO_OP ? "none" : bb_op_name((enum bb_op)c->op);
	r->root = c->root == BB_NO_ROOT ? -1 : c->root;
	r->nranks = s->n;
	r->size_bytes = (int64_t)c->size_bytes;
	r->count = (int64_t)c->count;
	if (c->matrix != BB_NO_MATRIX)
		r->matrix = s->settings->matrices.names[c->matrix];
	r->cache = bb_cache_names[s->settings->cache];
	r->cycle = s->cycle;
}

/* Rank 0 records that the case is not run, or only one PLACEMENT of it (NULL: both). */
static bb_status skip(struct bb_session *s, const char *placement, const char *reason)
{
	struct bb_result_record absent;
	struct bb_skip_record record;

	if (s->bench->barriers)
		return bb_engine_skip_subject(&s->engine, "barrier", s->c->choice->name, NULL,
					      reason);
	bb_bench_describe_case(s, &absent);
	bb_record_init_from(&bb_record_skip, &record, &bb_record_result, &absent);
	record.placement = placement;
	record.reason = reason;
	return bb_engine_skip(&s->engine, &record);
}

/* Rank 0 reports, once for all sizes, that busbench's SCHEDULE runs in place of the library's
   algorithm, and why. */
static bb_status report_stand_in(struct bb_session *s, const struct bb_algorithm *schedule,
				 const char *objection)
{
	const struct bb_case *c = s->c, *last = s->reported;
	struct bb_result_record r;

	if (!bb_engine_leads(&s->engine) ||
	    (last && last->choice == c->choice && last->dtype == c->dtype && last->op == c->op))
		return BB_OK;
	s->reported = c;
	bb_bench_describe_case(s, &r);
	return bb_engine_comment(&s->engine, "# %s %s %s: %s runs, because %s\n", r.algorithm,
				 r.dtype, r.op, bb_schedule_name(schedule, s->bench->plan.natives),
				 objection);
}

/*
 * Settle the call that all ranks can make, by the requested algorithm, else by the schedule that
 * stands in for it. OBJECTION = the first of any rank, the same on all: groups differ, but a case
 * is run by all or by none. Collective over the world.
 */
static bb_status agree_on_call(struct bb_session *s, bool in_place,
			       char objection[BB_OBJECTION_TEXT])
{
	const struct bb_collective *collective = s->bench->plan.collective;
	const struct bb_algorithm *stand_in = s->c->choice->stand_in;
	bb_status status = BB_OK;

	*objection = '\0';
	for (int stands_in = 0; stands_in < 2; stands_in++) {
		const char *reason;

		/* A schedule would not use a slow link as the algorithm does. */
		if (stands_in && (!*objection || !stand_in ||
				  s->engine.run->options.virtual.slow_link.factor > 0))
			break;
		if (stands_in)
			BB_TRY(status, report_stand_in(s, stand_in, objection), out);
		BB_TRY(status, settle(s, in_place, stands_in, s->arena.bytes, &reason), out);
		if (!reason && s->call.instead)
			BB_TRY(status, report_stand_in(s, s->call.schedule, s->call.instead), out);
		if (!reason && !s->c->barrier)
			BB_TRY(status,
			       bb_call_ready(s->engine.backend, s->group, &s->call, &reason), out);
		if (collective->refuses && collective->refuses(s->n))
			reason = collective->refuses(s->n);
		if (!reason)
			reason = s->layout.sets > 0 ? "" : "its buffers do not fit into memory";
		memset(objection, 0, BB_OBJECTION_TEXT);
		if (*reason && s->group != s->engine.world)
			snprintf(objection, BB_OBJECTION_TEXT, "a group of %d ranks: ", s->n);
		snprintf(objection + strlen(objection), BB_OBJECTION_TEXT - strlen(objection), "%s",
			 reason);
		BB_TRY(status, bb_driver_share_objection(s->engine.driver, objection), out);
	}
out:
	return status;
}

static bb_status run_case(struct bb_session *s)
{
	const struct bb_case *c = s->c;
	const bool barriers = s->bench->barriers, accuracy = s->settings->accuracy;
	const char *name = c->choice->name;
	struct bb_pattern_store *store = &s->engine.run->patterns;
	const struct bb_patterns *before = s->patterns; /* of the case before */
	char objection[BB_OBJECTION_TEXT], size[BB_UNIT_TEXT], what[BB_WHAT_TEXT];
	bb_status status = BB_OK;

	if (c->matrix != BB_NO_MATRIX && c->matrix != s->reported_matrix &&
	    bb_engine_leads(&s->engine)) {
		struct bb_strbuf text = {0}; /* describes the matrix of the rows that follow */

		s->reported_matrix = c->matrix;
		bb_matrices_describe(&s->settings->matrices, (size_t)c->matrix, s->n, &text);
		status = bb_engine_comment(&s->engine, "# Matrix %s\n", bb_strbuf_text(&text));
		bb_strbuf_free(&text);
	}
	if (status == BB_OK && c->skip)
		return skip(s, NULL, c->skip);
	if (status == BB_OK && s->engine.backend->has_data) {
		status = bb_pattern_store_take(store, c->dtype, c->op, s->n,
					       (uint64_t)s->engine.options->seed, &s->patterns);
		if (status != BB_OK)
			return bb_no_memory(&s->engine.run->error, "input data");
		bb_pattern_store_give(store, before);
	}
	if (barriers)
		snprintf(what, sizeof(what), "barrier by %s", name);
	else
		snprintf(what, sizeof(what), "%s at %s", name, bb_format_size(size, c->size_bytes));
	for (int in_place = 0; in_place < (barriers || accuracy ? 1 : 2) && status == BB_OK;
	     in_place++) {
		BB_TRY(status, bb_engine_begin(&s->engine, what), out);
		BB_TRY(status, agree_on_call(s, in_place, objection), out);
		if (!*objection && accuracy)
			BB_TRY(status, bb_accuracy(s, objection), out);
		if (!*objection && !accuracy)
			BB_TRY(status, bb_measure(s), out);
		if (!*objection && !accuracy)
			BB_TRY(status, bb_judge(s, objection), out);
		if (*objection)
			status = skip(s, in_place ? "in-place" : "out-of-place", objection);
	}
out:
	if (bb_engine_leads(&s->engine))
		bb_ticker_step(&s->engine.run->ticker, c->size_bytes);
	return status;
}

static bb_status bench_run(struct bb_engine *engine)
{
	struct bb_session *s = (struct bb_session *)engine;
	struct bb_bench *bench = s->bench;
	const struct bb_plan *plan = &bench->plan;
	struct bb_run *run = engine->run;
	const int64_t cycles = bench->settings.run_cycles;
	bb_status status = BB_OK;

	if (bb_engine_leads(engine) && bb_groups_open(&bench->groups, &run->record.ranks) != BB_OK)
		return bb_no_memory(&run->error, "groups");
	/* The parts of the request that have no cases, and the schedules that always run in place
	   of an algorithm of the library. */
	for (int i = 0; i < plan->nskips; i++)
		BB_TRY(status,
		       bb_engine_skip_subject(engine, plan->collective->name,
					      plan->skips[i].algorithm, NULL,
					      plan->skips[i].reason),
		       out);
	for (int i = 0; i < plan->nchoices && bb_engine_leads(engine); i++) {
		const struct bb_choice *choice = &plan->choices[i];

		if (choice->instead_of)
			BB_TRY(status,
			       bb_engine_comment(engine, "# %s: %s runs, because %s\n",
						 choice->instead_of->name, choice->name,
						 choice->reason),
			       out);
	}
	for (int64_t cycle = 1; cycles == 0 || cycle <= cycles; cycle++) {
		s->cycle = cycle;
		for (size_t i = 0; i < plan->ncases; i++) {
			s->c = &plan->cases[i];
			BB_TRY(status, run_case(s), out);
		}
	}
	status = bb_run_note_memory(run, engine->driver, &run->end.memory_call_bytes);
out:
	return status;
}

const struct bb_experiment bb_bench_experiment = {
	.bytes = sizeof(struct bb_session),
	.group_of = color_of,
	.open = bench_open,
	.run = bench_run,
	.close = bench_close,
};
