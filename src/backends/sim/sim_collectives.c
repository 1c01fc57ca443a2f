/*
 * sim_collectives.c - calls of collectives in virtual time: their algorithm, and when each member
 * is done, on every course.
 */
#include "backends/sim/sim_inside.h"

#include <math.h>
#include <string.h>

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

	if (bb_sim_fits_schedules(c))
		return resolve_calibrated(c->calibration, name, call, error);
	call->schedule = bb_timeline_choose(&links, name, call->collective, &shape,
					    bb_dtype_size(call->dtype), &reason);
	bb_sim_progress_done(c);
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

/* The algorithm NAME of LIBRARY; NULL: it has none. */
static const struct bb_native *find_native(const struct bb_sim_library *library, const char *name)
{
	const struct bb_native *native = library ? library->natives : NULL;

	while (native && native->name && strcmp(native->name, name) != 0)
		native++;
	return native && native->name ? native : NULL;
}

bb_status bb_sim_set_algorithm(struct bb_group *group, const char *name, struct bb_call *call,
			       struct bb_error *error)
{
	const char *reason;
	bb_status st = BB_OK;

	/* One rank has nothing to choose from. */
	if (!name || strcmp(name, "auto") == 0 || group->n == 1) {
		BB_TRY(st, choose_algorithm(group, call, error), out);
	} else {
		call->native = find_native(group->context->library, name);
		call->instead = NULL;
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

	if (bb_sim_fits_schedules(c) && c->courses[0].links.slow_link.factor > 0)
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

/* Seconds of a schedule, by a calibration. */
static double calibrated_seconds(struct bb_group *group, const struct bb_call *call)
{
	const struct bb_calibration *calibration = group->context->calibration;
	const struct bb_shape shape = bb_call_scheduled_shape(call);
	const size_t element = bb_dtype_size(call->dtype);

	bb_calibration_support(calibration, call->schedule, &shape, element,
			       &group->prediction.support);
	return bb_calibration_time(calibration, call->schedule, &shape, element);
}

static bb_status time_schedule(struct bb_group *group, int course, const struct bb_link_model *all,
			       const struct bb_call *call, uint64_t number, double *times,
			       struct bb_error *error)
{
	const struct bb_shape shape = bb_call_scheduled_shape(call);
	const struct bb_link_model links = bb_sim_links(group, course, all);
	bb_status status;

	group->evaluator =
		bb_evaluator_name(bb_timeline_evaluator(&links, call->schedule, &shape), &links);
	status = bb_timeline_collective(&links, call->schedule, &shape, bb_dtype_size(call->dtype),
					number, times);
	if (status == BB_EINTERNAL)
		(void)bb_no_memory(error, "the messages of a collective");
	return status;
}

bb_status bb_sim_time_call(struct bb_group *group, int course, const struct bb_link_model *links,
			   const struct bb_call *call, uint64_t number, double *times,
			   struct bb_error *error)
{
	const struct bb_context *c = group->context;
	bb_status status = BB_OK;

	group->prediction = (struct bb_model_prediction){.support = {NAN, NAN, NAN, NAN, NAN, NAN}};
	if (call->native)
		status = c->library->time(group, course, links, call, number, times, error);
	else if (bb_sim_fits_schedules(c))
		bb_sim_time_whole(
			group, calibrated_seconds(group, call) * bb_timeline_noise(links, number),
			times);
	else
		status = time_schedule(group, course, links, call, number, times, error);
	/* Course 0 is the one that is reported. */
	return status == BB_OK && course == 0 ? bb_sim_count(group, call, error) : status;
}

/* Evaluate CALL number NUMBER on course I and set its clocks. */
static bb_status call_on_course(struct bb_group *group, int i, const struct bb_call *call,
				uint64_t number)
{
	struct bb_course *course = &group->context->courses[i];
	bb_status status;

	for (int m = 0; m < group->n; m++) {
		group->times[m] = course->clocks[group->members[m]];
		if (course->late > 0 && group->members[m] == course->slow_rank)
			group->times[m] += course->late;
	}
	status = bb_sim_time_call(group, i, &course->links, call, number, group->times,
				  group->context->error);
	for (int m = 0; m < group->n; m++)
		course->clocks[group->members[m]] = group->times[m];
	return status;
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
	for (int i = c->ncourses - 1; i >= 0 && status == BB_OK; i--)
		status = call_on_course(group, i, call, number);
	bb_sim_progress_done(c);
	return status;
}
