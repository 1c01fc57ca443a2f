/*
 * sim_collectives.c - calls of collectives in virtual time, alone and in programs: their algorithm,
 * when each member is done, on every course, and a summary of how they were evaluated.
 */
#include "backends/sim/sim_inside.h"
#include "core/array.h"
#include "core/random.h"
#include "core/units.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BY_TEXT 48

/* Report to the listener that an evaluation has ended. */
static void progress_done(const struct bb_context *c)
{
	if (c->listener.progress)
		c->listener.progress(c->listener.own, NULL, 0, 0);
}

/* Do times of schedules come from a calibration, not from links? */
static bool fits_schedules(const struct bb_context *c)
{
	return c->calibration && !c->cluster;
}

double bb_sim_latest(const double *times, int n)
{
	double latest = 0;

	for (int i = 0; i < n; i++)
		latest = times[i] > latest ? times[i] : latest;
	return latest;
}

/* A group of the first ranks needs no list. */
struct bb_link_model bb_sim_links(const struct bb_group *group, int course,
				  const struct bb_link_model *all)
{
	struct bb_link_model links = *all;

	if (!group->first_ranks)
		links.members = group->members;
	links.crowd = group->crowds[course];
	return links;
}

/* Set CALL's schedule to NAME or (NULL) the fastest, and its chunk to that of its measurement. */
static bb_status resolve_calibrated(const struct bb_calibration *c, const char *name,
				    struct bb_call *call, struct bb_error *error)
{
	const struct bb_shape shape = bb_call_scheduled_shape(call);
	const size_t element = bb_dtype_size(call->dtype);

	if (call->collective->flags & BB_VARIABLE)
		return bb_fail(error, BB_EUNSUPPORTED,
			       "--calibrate does not model messages of several sizes");
	call->schedule = name ? bb_algorithm_find(call->collective, name)
			      : bb_calibration_choose(c, call->collective, &shape, element);
	if (!call->schedule)
		return bb_fail(error, BB_EUNSUPPORTED, "%s has no schedule for this call",
			       call->collective->name);
	call->shape.chunk = bb_calibration_chunk(c, call->schedule, &shape, element);
	return BB_OK;
}

/* Set CALL's schedule to NAME (NULL: the fastest) and its chunk. */
static bb_status resolve_schedule(struct bb_group *group, const char *name, struct bb_call *call,
				  struct bb_error *error)
{
	struct bb_context *c = group->context;
	struct bb_shape shape = bb_call_scheduled_shape(call);
	const struct bb_link_model links =
		bb_sim_links(group, c->ncourses - 1, &bb_sim_faultless(c)->links);
	struct bb_error reason = {.text = ""};

	if (fits_schedules(c))
		return resolve_calibrated(c->calibration, name, call, error);
	call->schedule = bb_timeline_choose(&links, name, call->collective, &shape,
					    bb_dtype_size(call->dtype), &reason);
	progress_done(c);
	if (!call->schedule && bb_error_status(&reason) == BB_ETIMEOUT)
		return BB_ETIMEOUT;
	if (!call->schedule)
		return bb_fail(error, bb_error_status(&reason), "%s", reason.text);
	call->shape.chunk = shape.chunk;
	return BB_OK;
}

/* The library's choice; the fastest schedule where it has none, and where there is no library. A
   fault changes no choice. RCCL's choice is refused. */
static bb_status choose_algorithm(struct bb_group *group, struct bb_call *call,
				  struct bb_error *error)
{
	call->schedule = NULL;
	call->instead = NULL;
	const struct bb_sim_library *library = group->context->library;

	if (library && group->n > 1 && bb_topology_is_amd(group->context->cluster->node, 0))
		return bb_fail(error, BB_EUNSUPPORTED,
			       "%s by auto among %d ranks: AMD GPUs run RCCL, of which there is no "
			       "model; name a schedule, as in --algo busbench:ring",
			       call->collective->name, group->n);
	/* A rank alone sends nothing. */
	if (library && (group->n > 1 || library->is_whole)) {
		call->native = library->choice;
		call->instead = library->refuses(group, call);
		if (!call->instead)
			return BB_OK;
	}
	call->native = NULL;
	return resolve_schedule(group, NULL, call, error);
}

bb_status bb_sim_choose(struct bb_group *group, struct bb_call *call)
{
	return choose_algorithm(group, call, group->context->error);
}

/* Set CALL's algorithm to NAME (NULL: auto), as --algo does. BB_EUNSUPPORTED with the reason. */
static bb_status set_algorithm(struct bb_group *group, const char *name, struct bb_call *call,
			       struct bb_error *error)
{
	const char *reason;
	bb_status st = BB_OK;

	/* One rank has nothing to choose from. */
	if (!name || strcmp(name, "auto") == 0 || group->n == 1) {
		BB_TRY(st, choose_algorithm(group, call, error), out);
	} else {
		const struct bb_sim_library *library = group->context->library;

		call->instead = NULL;
		call->native = library ? library->natives : NULL;
		while (call->native && call->native->name && strcmp(call->native->name, name) != 0)
			call->native++;
		if (call->native && !call->native->name)
			call->native = NULL;
		if (!call->native)
			return resolve_schedule(group, name, call, error);
	}
	reason = call->native ? bb_sim_refuses(group, call) : NULL;
	if (reason)
		st = bb_fail(error, BB_EUNSUPPORTED, "%s by %s among %d ranks: %s",
			     call->collective->name, name ? name : "auto", group->n, reason);
out:
	return st;
}

const char *bb_sim_refuses(struct bb_group *group, const struct bb_call *call)
{
	const struct bb_context *c = group->context;
	const char *why;

	if (fits_schedules(c) && c->courses[0].links.slow_link.factor > 0)
		return "a model has no links between two ranks: slow_link needs a schedule over "
		       "--link or --cluster";
	if (!call->native)
		return call->schedule->refuses ? call->schedule->refuses(&call->shape) : NULL;
	why = c->library->refuses(group, call);
	return why || !c->library->refuses_fault ? why : c->library->refuses_fault(group, call);
}

/* A call that cannot run is refused later. */
bb_status bb_sim_tune(struct bb_group *group, struct bb_call *call)
{
	if (call->native || bb_sim_refuses(group, call))
		return BB_OK;
	return resolve_schedule(group, call->schedule->name, call, group->context->error);
}

void bb_sim_time_whole(struct bb_group *group, double seconds, double *times)
{
	const double start = bb_sim_latest(times, group->n);

	for (int i = 0; i < group->n; i++)
		times[i] = start + seconds;
	group->evaluator = "model";
}

/* ---- how calls were evaluated --------------------------------------------------------- */

struct bb_sim_count {
	const struct bb_collective *collective;
	int n, nodes; /* ranks, and nodes of a cluster that they are on; 0: there is none */
	bool native;
	char by[BY_TEXT];      /* "ring:LL" */
	const char *evaluator; /* constant */
	const char *instead;   /* of struct bb_call */
};

/* The same collective of groups of the same shape? */
static bool is_same(const struct bb_sim_count *a, const struct bb_sim_count *b)
{
	return a->collective == b->collective && a->n == b->n && a->nodes == b->nodes;
}

static bool is_evaluated_alike(const struct bb_sim_count *a, const struct bb_sim_count *b)
{
	return is_same(a, b) && a->evaluator == b->evaluator && a->native == b->native &&
	       strcmp(a->by, b->by) == 0;
}

/* Remember how GROUP evaluated CALL. BB_EINTERNAL: out of memory. */
static bb_status count_call(const struct bb_group *group, const struct bb_call *call,
			    struct bb_error *error)
{
	struct bb_context *c = group->context;
	struct bb_sim_count count = {.collective = call->collective,
				     .n = group->n,
				     .nodes = group->machines[0].nodes,
				     .native = call->native != NULL,
				     .evaluator = group->evaluator,
				     .instead = call->instead};
	const struct bb_native *same = c->library ? c->library->natives : NULL;
	struct bb_sim_count *more;

	if (group->n == 1) /* sends nothing */
		return BB_OK;
	/* A schedule is called busbench:NAME if the library has an algorithm of this name. */
	while (!call->native && same && same->name && strcmp(same->name, call->schedule->name) != 0)
		same++;
	if (call->native)
		snprintf(count.by, BY_TEXT, "%s",
			 *group->chosen ? group->chosen : c->library->unnamed);
	else
		snprintf(count.by, BY_TEXT, "%s%s", same && same->name ? BB_OWN : "",
			 call->schedule->name);
	for (size_t i = 0; i < c->ncounts; i++)
		if (is_evaluated_alike(&c->counts[i], &count))
			return BB_OK;
	more = BB_ARRAY_ADD(c->counts, c->ncounts, c->count_room);
	if (!more)
		return bb_no_memory(error, "the list of collectives");
	*more = count;
	return BB_OK;
}

/* Append all that are the same as FIRST, which leads them. */
static void add_same(const struct bb_context *c, size_t first, struct bb_strbuf *out)
{
	for (size_t i = first; i < c->ncounts; i++) {
		const struct bb_sim_count *count = &c->counts[i];
		bool repeated = false; /* a later one replaces the library for the same reason */

		if (!is_same(count, &c->counts[first]))
			continue;
		for (size_t k = i + 1; k < c->ncounts; k++)
			repeated = repeated || (is_same(&c->counts[k], count) &&
						c->counts[k].instead == count->instead);
		bb_strbuf_addf(out, "%s%s %s", i > first ? ", " : "", count->by, count->evaluator);
		if (count->instead && !repeated)
			bb_strbuf_addf(out, " (%s)", count->instead);
	}
}

bool bb_sim_summarize(const struct bb_context *c, struct bb_strbuf *out)
{
	bool modelled = false;

	for (size_t i = 0; i < c->ncounts; i++) {
		const struct bb_sim_count *count = &c->counts[i];
		size_t first = 0;

		while (!is_same(&c->counts[first], count))
			first++;
		modelled = modelled || (count->native && c->library->is_whole);
		if (first < i)
			continue;
		bb_strbuf_addf(out, "%s%s among %d", i ? "; " : "", count->collective->name,
			       count->n);
		if (count->nodes > 0)
			bb_strbuf_addf(out, " on %d node%s", count->nodes, bb_plural(count->nodes));
		bb_strbuf_add(out, ": ");
		add_same(c, i, out);
	}
	return modelled;
}

/* ---- times ---------------------------------------------------------------------------- */

/* Evaluate CALL, as the library's time does. */
static bb_status time_call(struct bb_group *group, int course, const struct bb_link_model *all,
			   const struct bb_call *call, uint64_t number, double *times,
			   struct bb_error *error)
{
	const struct bb_context *c = group->context;
	const struct bb_shape shape = bb_call_scheduled_shape(call);
	const struct bb_link_model links = bb_sim_links(group, course, all);
	const size_t element = bb_dtype_size(call->dtype);
	bb_status status = BB_OK;

	group->prediction = (struct bb_model_prediction){.support = {NAN, NAN, NAN, NAN, NAN, NAN}};
	if (call->native) {
		status = c->library->time(group, course, all, call, number, times, error);
	} else if (fits_schedules(c)) {
		bb_calibration_support(c->calibration, call->schedule, &shape, element,
				       &group->prediction.support);
		bb_sim_time_whole(
			group,
			bb_calibration_time(c->calibration, call->schedule, &shape, element) *
				bb_timeline_noise(all, number),
			times);
	} else {
		group->evaluator = bb_evaluator_name(
			bb_timeline_evaluator(&links, call->schedule, &shape), &links);
		status = bb_timeline_collective_known(&links, call->schedule, &shape, element,
						      number, times);
		if (status == BB_EINTERNAL)
			(void)bb_no_memory(error, "the messages of a collective");
	}
	/* Course 0 is the one that is reported. */
	return status == BB_OK && course == 0 ? count_call(group, call, error) : status;
}

bb_status bb_sim_collective(struct bb_group *group, struct bb_queue *queue,
			    const struct bb_call *call)
{
	struct bb_context *c = group->context;
	const uint64_t number = c->calls++;
	bb_status status = BB_OK;

	if (atomic_load(&c->aborted))
		return BB_ETIMEOUT;
	/* Course 0 comes last, as it is the one that is reported. */
	for (int i = c->ncourses - 1; i >= 0 && status == BB_OK; i--) {
		struct bb_course *course = &c->courses[i];

		for (int m = 0; m < group->n; m++) {
			group->times[m] = course->clocks[group->members[m]];
			if (course->late > 0 && group->members[m] == course->slow_rank)
				group->times[m] += course->late;
		}
		status = time_call(group, i, &course->links, call, number, group->times, c->error);
		for (int m = 0; m < group->n; m++)
			course->clocks[group->members[m]] = group->times[m];
	}
	progress_done(c);
	return status;
}

/* ---- programs ------------------------------------------------------------------------- */

/* A watch whose times are those of the clock, BY seconds later. */
struct later {
	const struct bb_timeline_watch *watch;
	double by;
};

static void done_later(void *own, int rank, size_t index, const struct bb_operation *operation,
		       double from, double to, int source)
{
	const struct later *later = own;

	later->watch->done(later->watch->own, rank, index, operation, from + later->by,
			   to + later->by, source);
}

/* The evaluation of a program on one course. */
struct evaluation {
	struct bb_rank *rank;
	const struct bb_program *program;
	struct bb_group **groups; /* [group]: NULL: no collective of it has come yet */
	struct bb_link_model links;
	int course;
};

static bb_status program_perform(void *own, const struct bb_operation *o, const int *members, int n,
				 uint64_t number, double *times, bool *whole,
				 struct bb_error *error)
{
	const struct evaluation *p = own;
	struct bb_group **group = &p->groups[o->group];
	struct bb_call call = {
		.collective = o->collective,
		.dtype = o->dtype,
		.op = o->op,
		.shape = {.nranks = n, .root = o->root, .in_place = o->in_place, .count = o->count},
	};
	bb_status status = BB_OK;

	if (!*group)
		BB_TRY(status, bb_sim_group_open(p->rank, members, n, group, error), out);
	BB_TRY(status, set_algorithm(*group, p->program->algorithm, &call, error), out);
	*whole = call.native && (*group)->context->library->is_whole;
	status = time_call(*group, p->course, &p->links, &call, number, times, error);
out:
	return status;
}

bb_status bb_sim_evaluate(struct bb_rank *rank, const struct bb_program *program,
			  const struct bb_timeline_watch *watch, double *end,
			  struct bb_error *error)
{
	struct bb_context *c = rank->context;
	bb_status status = BB_OK;

	if (atomic_load(&c->aborted))
		return BB_ETIMEOUT;
	if (fits_schedules(c))
		return bb_fail(error, BB_EUNSUPPORTED,
			       "--calibrate is for collectives; give --link or --cluster");
	/* Course 0 comes last, as it is the one that is reported. */
	for (int i = c->ncourses - 1; i >= 0 && status == BB_OK; i--) {
		struct later later = {watch, bb_sim_now(c, &c->courses[i])};
		const struct bb_timeline_watch on_clock = {done_later, &later};
		struct evaluation p = {
			.rank = rank,
			.program = program,
			.groups = calloc((size_t)program->groups + 1, sizeof(struct bb_group *)),
			.links = c->courses[i].links,
			.course = i,
		};
		const struct bb_timeline_performer performer = {program_perform, &p};
		double seconds = 0;

		if (!p.groups)
			return bb_no_memory(error, "the groups of a program");
		p.links.seed += c->programs * BB_RANDOM_STEP;
		status =
			bb_timeline_program_by(&performer, &p.links, program,
					       watch && i == 0 ? &on_clock : NULL, &seconds, error);
		for (int g = 0; g < program->groups; g++)
			bb_sim_group_close(p.groups[g]);
		free(p.groups);
		if (i == 0)
			*end = later.by + seconds;
		for (int r = 0; r < c->world.nranks; r++)
			c->courses[i].clocks[r] = later.by + seconds;
	}
	c->programs++;
	progress_done(c);
	return status;
}
