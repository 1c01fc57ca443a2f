/*
 * sim_programs.c - programs in virtual time, on every course.
 */
#include "backends/sim/sim_inside.h"
#include "core/random.h"

#include <stdlib.h>

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
	BB_TRY(status, bb_sim_set_algorithm(*group, p->program->algorithm, &call, error), out);
	*whole = call.native && (*group)->context->library->is_whole;
	status = bb_sim_time_call(*group, p->course, &p->links, &call, number, times, error);
out:
	return status;
}

/* *SECONDS = when all of PROGRAM was done. WATCH may be NULL. */
static bb_status evaluate_on_course(struct bb_rank *rank, int course,
				    const struct bb_program *program,
				    const struct bb_timeline_watch *watch, double *seconds,
				    struct bb_error *error)
{
	struct bb_context *c = rank->context;
	struct evaluation p = {
		.rank = rank,
		.program = program,
		.groups = calloc((size_t)program->groups + 1, sizeof(struct bb_group *)),
		.links = c->courses[course].links,
		.course = course,
	};
	const struct bb_timeline_performer performer = {program_perform, &p};
	bb_status status;

	if (!p.groups)
		return bb_no_memory(error, "the groups of a program");
	p.links.seed += c->programs * BB_RANDOM_STEP;
	status = bb_timeline_program_by(&performer, &p.links, program, watch, seconds, error);
	for (int g = 0; g < program->groups; g++)
		bb_sim_group_close(p.groups[g]);
	free(p.groups);
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
	if (bb_sim_fits_schedules(c))
		return bb_fail(error, BB_EUNSUPPORTED,
			       "--calibrate is for collectives; give --link or --cluster");
	/* Course 0 comes last, as it is the one that is reported. */
	for (int i = c->ncourses - 1; i >= 0 && status == BB_OK; i--) {
		struct later later = {watch, bb_sim_now(c, &c->courses[i])};
		const struct bb_timeline_watch on_clock = {done_later, &later};
		double seconds = 0;

		status = evaluate_on_course(rank, i, program, watch && i == 0 ? &on_clock : NULL,
					    &seconds, error);
		if (i == 0)
			*end = later.by + seconds;
		for (int r = 0; r < c->world.nranks; r++)
			c->courses[i].clocks[r] = later.by + seconds;
	}
	c->programs++;
	bb_sim_progress_done(c);
	return status;
}
