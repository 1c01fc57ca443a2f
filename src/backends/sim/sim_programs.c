/*
 * sim_programs.c - programs in virtual time, on every course.
 */
#include "backends/sim/sim_inside.h"

/* A watch whose times are those of the clock. */
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

bb_status bb_sim_evaluate(struct bb_rank *rank, const struct bb_program *program,
			  const struct bb_timeline_watch *watch, double *end,
			  struct bb_error *error)
{
	struct bb_context *c = rank->context;
	bb_status status = BB_OK;

	if (atomic_load(&c->aborted))
		return BB_ETIMEOUT;
	if (c->calibration)
		return bb_fail(error, BB_EUNSUPPORTED,
			       "--calibrate is for collectives; give --link or --cluster");
	for (int i = c->ncourses - 1; i >= 0 && status == BB_OK; i--) { /* sound ones choose */
		const struct bb_course *course = &c->courses[i];
		struct later later = {watch, bb_sim_now(c, course)};
		const struct bb_timeline_watch on_clock = {done_later, &later};
		struct bb_link_model links = course->links;
		double seconds = 0;

		links.seed += c->programs * UINT64_C(0x9e3779b97f4a7c15);
		status = bb_timeline_program(&links, program, watch && i == 0 ? &on_clock : NULL,
					     &seconds, error);
		if (i == 0)
			*end = later.by + seconds;
		for (int r = 0; r < c->world.nranks; r++)
			course->clocks[r] = later.by + seconds;
	}
	c->programs++;
	return status;
}
