/*
 * sim.c - the backend with virtual time: no byte moves, and each rank has a clock that the model of
 * the links advances (simulator/timeline/timeline.h). One driver stands for all ranks.
 */
#include "backends/sim/sim_inside.h"

#include "backends/dataless.h"
#include "backends/routes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- the process ---------------------------------------------------------------------- */

static void sim_close(struct bb_context *context)
{
	bb_choices_free(&context->choices);
	free(context->counts);
	bb_network_free(&context->network);
	bb_calibration_free(context->calibration);
	for (int i = 0; i < context->ncourses; i++)
		free(context->courses[i].clocks);
	free(context);
}

static bool open_course(struct bb_context *c, const struct bb_backend_config *config, bool faulty)
{
	const struct bb_virtual_config *virtual = config->virtual;
	struct bb_course *course = &c->courses[c->ncourses++];

	*course = (struct bb_course){
		.links = {.rate = config->link_rate,
			  .latency = config->link_latency,
			  .port = config->link_port,
			  .noise = virtual->noise,
			  .seed = virtual->seed,
			  .choices = faulty ? NULL : &c->choices, /* no fault is known to them */
			  .pace = &c->pace},
		.clocks = calloc((size_t)c->world.nranks, sizeof(*course->clocks)),
	};
	if (virtual->cluster)
		course->links.fabric = faulty ? &c->network.faulty : &c->network.fabric;
	if (!faulty)
		return course->clocks;
	course->links.slow_link.from = config->slow_link.from;
	course->links.slow_link.to = config->slow_link.to;
	course->links.slow_link.factor = config->slow_link.factor;
	course->flaw = virtual->flawed ? &c->network.flaw : NULL;
	course->slow_rank = virtual->slow_rank.rank;
	course->late = virtual->slow_rank.seconds;
	return course->clocks;
}

/* An evaluation ends when the run is aborted. */
static bool report_progress(void *own, const struct bb_algorithm *schedule, size_t done, size_t all)
{
	const struct bb_context *c = own;

	if (c->listener.progress)
		c->listener.progress(c->listener.own, schedule, done, all);
	return !atomic_load(&c->aborted);
}

/* Open with the model of LIBRARY (NULL: none). */
static bb_status open_with(const struct bb_sim_library *library, struct bb_context **context,
			   const struct bb_world *world, const struct bb_backend_config *config,
			   struct bb_error *error)
{
	const struct bb_virtual_config *virtual = config->virtual;
	const bool faulty = virtual->flawed || config->slow_link.factor > 0 ||
			    virtual->slow_rank.seconds > 0;
	struct bb_context *c = aligned_alloc(BB_SIM_PAGE, sizeof(*c));
	bb_status st = BB_OK;

	if (!c)
		return bb_no_memory(error, "the clocks of all ranks");
	*c = (struct bb_context){.world = *world,
				 .cluster = virtual->cluster,
				 .library = library,
				 .error = error,
				 .listener = virtual->listener,
				 .pace = {report_progress, c}};
	if ((virtual->cluster && !bb_network_make(&c->network, virtual->cluster, world->nranks,
						  virtual->flawed ? &virtual->flaw : NULL)) ||
	    (faulty && !open_course(c, config, true)) || !open_course(c, config, false)) {
		st = bb_no_memory(error, "the clocks of all ranks");
		goto out;
	}
	if (library)
		BB_TRY(st, library->open(c, error), out);
	if (virtual->calibrate)
		st = bb_calibration_read(&c->calibration, virtual->calibrate, virtual->cluster,
					 &c->nccl, error);
out:
	if (st != BB_OK)
		sim_close(c);
	else
		*context = c;
	return st;
}

static bb_status sim_open(struct bb_context **context, const struct bb_world *world,
			  const struct bb_backend_config *config, struct bb_error *error)
{
	return open_with(NULL, context, world, config, error);
}

static bb_status gpu_open(struct bb_context **context, const struct bb_world *world,
			  const struct bb_backend_config *config, struct bb_error *error)
{
	return open_with(&bb_sim_nccl, context, world, config, error);
}

static bb_status cpu_open(struct bb_context **context, const struct bb_world *world,
			  const struct bb_backend_config *config, struct bb_error *error)
{
	return open_with(&bb_sim_openmpi, context, world, config, error);
}

static void sim_explain(const struct bb_context *context, struct bb_strbuf *out)
{
	if (context->calibration)
		bb_calibration_describe(context->calibration, out);
}

static void sim_abort(struct bb_context *context)
{
	atomic_store(&context->aborted, true);
}

static bb_status sim_attach(struct bb_context *context, int local, struct bb_rank **rank,
			    struct bb_error *error)
{
	*rank = malloc(sizeof(**rank));
	if (!*rank)
		return bb_no_memory(error, "the driver of all ranks");
	(*rank)->context = context;
	return BB_OK;
}

static void sim_detach(struct bb_rank *rank)
{
	free(rank);
}

static void sim_locate(struct bb_rank *rank, struct bb_location *location)
{
	bb_location_here(location);
	location->numa = -1;
	snprintf(location->name, sizeof(location->name), "virtual");
}

/* ---- memory: none is needed ----------------------------------------------------------- */

static bb_status sim_alloc(struct bb_rank *rank, size_t bytes, void **memory)
{
	*memory = rank->context->page;
	return BB_OK;
}

/* ---- groups --------------------------------------------------------------------------- */

void bb_sim_group_close(struct bb_group *group)
{
	if (!group)
		return;
	for (int i = 0; i < group->context->ncourses; i++)
		free(group->crowds[i]);
	free(group->members);
	free(group->times);
	free(group);
}

bb_status bb_sim_group_open(struct bb_rank *rank, const int *members, int n,
			    struct bb_group **group, struct bb_error *error)
{
	struct bb_context *c = rank->context;
	struct bb_group *g = calloc(1, sizeof(*g));

	if (!g)
		goto fail;
	g->context = c;
	g->n = n;
	g->members = malloc((size_t)n * sizeof(*g->members));
	g->times = malloc((size_t)n * sizeof(*g->times));
	if (!g->members || !g->times)
		goto fail;
	g->first_ranks = true;
	for (int i = 0; i < n; i++) {
		g->members[i] = members[i];
		g->first_ranks = g->first_ranks && members[i] == i;
	}
	for (int i = 0; i < c->ncourses && c->cluster; i++) {
		const struct bb_link_model *const links = &c->courses[i].links;

		if (!bb_network_crowd(&c->network, links->fabric, members, n, &g->crowds[i]))
			goto fail;
		if (c->cluster->inside == BB_INSIDE_MEMORY) {
			/* The members are sorted. */
			for (int k = 0; k < n; k++)
				g->machines[i].nodes +=
					k == 0 ||
					bb_cluster_node(c->cluster, members[k]) !=
						bb_cluster_node(c->cluster, members[k - 1]);
			continue;
		}
		if (!bb_nccl_shape_make(&g->machines[i], c->cluster, c->world.nranks, members, n))
			goto fail;
		if (c->calibration)
			bb_calibration_adjust(c->calibration, &g->machines[i]);
		bb_nccl_shape_apply_flaw(&g->machines[i], c->cluster, c->courses[i].flaw,
					 c->world.nranks, members, n);
		if (links->slow_link.factor > 0 &&
		    !bb_nccl_shape_apply_slow_path(&g->machines[i], c->cluster,
						   links->slow_link.factor, links->slow_link.from,
						   links->slow_link.to, members, n))
			goto fail;
	}
	*group = g;
	return BB_OK;
fail:
	bb_sim_group_close(g);
	return bb_no_memory(error, "a group");
}

static bb_status sim_barrier(struct bb_group *group)
{
	struct bb_context *c = group->context;

	for (int k = 0; k < c->ncourses; k++) {
		double *clocks = c->courses[k].clocks, latest = 0;

		for (int i = 0; i < group->n; i++)
			if (clocks[group->members[i]] > latest)
				latest = clocks[group->members[i]];
		for (int i = 0; i < group->n; i++)
			clocks[group->members[i]] = latest;
	}
	return atomic_load(&c->aborted) ? BB_ETIMEOUT : BB_OK;
}

/* ---- modelled libraries: NCCL over GPUs, Open MPI over ranks on CPUs ------------------ */

static const char *library_name(const struct bb_context *context)
{
	return *context->library_text ? context->library_text : NULL;
}

static void library_listen(struct bb_group *group, bool on)
{
}

static void library_chosen(struct bb_group *group, char text[BB_CHOSEN_TEXT])
{
	snprintf(text, BB_CHOSEN_TEXT, "%s", group->chosen);
}

/* ---- queues: of programs, which are evaluated as a whole ------------------------------ */

static bb_status sim_queue_open(struct bb_rank *rank, struct bb_queue **queue,
				struct bb_error *error)
{
	return bb_fail(error, BB_EUNSUPPORTED, "sim has queues only in programs");
}

static bb_status sim_event_open(struct bb_rank *rank, struct bb_event **event,
				struct bb_error *error)
{
	return bb_fail(error, BB_EUNSUPPORTED, "sim has events only in programs");
}

static bb_status sim_event(struct bb_rank *rank, struct bb_queue *queue, struct bb_event *event)
{
	return BB_EUNSUPPORTED;
}

static bb_status sim_compute(struct bb_rank *rank, struct bb_queue *queue,
			     void (*function)(void *argument), void *argument)
{
	return BB_EUNSUPPORTED;
}

/* ---- time ----------------------------------------------------------------------------- */

static double sim_now(struct bb_rank *rank)
{
	return bb_sim_now(rank->context, &rank->context->courses[0]);
}

static void sim_delay(struct bb_rank *rank, double seconds)
{
	const struct bb_context *c = rank->context;

	for (int i = 0; i < c->ncourses; i++)
		for (int r = 0; r < c->world.nranks; r++)
			c->courses[i].clocks[r] += seconds;
}

static void sim_evaluated(struct bb_group *group, const char **evaluator, double *faultless)
{
	const struct bb_context *c = group->context;

	*evaluator = group->evaluator;
	*faultless = c->ncourses > 1 ? bb_sim_now(c, bb_sim_faultless(c)) : NAN;
}

static const struct bb_model_prediction *sim_predicted(struct bb_group *group)
{
	return &group->prediction;
}

/* The messages that pairs of ranks send each other. */
static const struct bb_route route_list[] = {
	{.name = "send",
	 .brief = "a message over the modelled link",
	 .uses = BB_ROUTE_TRANSFER,
	 .actor = BB_BY_BOTH,
	 .direct = true},
	{.name = "word",
	 .brief = "a message of 8 bytes, there and back",
	 .uses = BB_ROUTE_PING,
	 .actor = BB_BY_BOTH,
	 .direct = true},
	{.name = NULL},
};

static const struct bb_routes sim_routes = {.list = route_list};

static const struct bb_backend over_gpus, over_cpus;

static const struct bb_virtual sim_virtual = {
	.over_gpus = &over_gpus,
	.over_cpus = &over_cpus,
	.explain = sim_explain,
	.delay = sim_delay,
	.evaluate = bb_sim_evaluate,
	.evaluated = sim_evaluated,
	.predicted = sim_predicted,
	.summarize = bb_sim_summarize,
};

/* Members of both tables. */
#define SIM                                                                                        \
	BB_DATALESS_ENTRIES,                                                                       \
		.abi = BB_BACKEND_ABI, .name = "sim",                                              \
		.brief = "ranks are virtual: times are computed from --link, --cluster or "        \
			 "--calibrate",                                                            \
		.close = sim_close, .abort = sim_abort, .max_local = BB_CLUSTER_MOST_RANKS,        \
		.attach = sim_attach, .detach = sim_detach, .locate = sim_locate,                  \
		.alloc = sim_alloc, .group_open = bb_sim_group_open,                               \
		.group_close = bb_sim_group_close, .barrier = sim_barrier,                         \
		.choose = bb_sim_choose, .tune = bb_sim_tune, .refuses = bb_sim_refuses,           \
		.queue_open = sim_queue_open, .event_open = sim_event_open,                        \
		.event_record = sim_event, .event_wait = sim_event, .compute = sim_compute,        \
		.collective = bb_sim_collective, .now = sim_now, .virtual = &sim_virtual,          \
		.routes = &sim_routes

static const struct bb_library modelled = {
	.name = library_name,
	.listen = library_listen,
	.chosen = library_chosen,
};

static const struct bb_backend over_gpus = {
	SIM,
	.natives = bb_sim_nccl_natives,
	.open = gpu_open,
	.library = &modelled,
};

static const struct bb_backend over_cpus = {
	SIM,
	.natives = bb_sim_openmpi_natives,
	.open = cpu_open,
	.library = &modelled,
};

const struct bb_backend bb_backend_sim = {
	SIM,
	.natives = &(const struct bb_native){.name = NULL},
	.open = sim_open,
};
