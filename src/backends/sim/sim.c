/*
 * sim.c - the backend whose time is virtual: no byte moves, each rank has a clock that goes on by
 * what the model of the links says (schedules/timeline.h). One driver stands for all ranks.
 */
#include "backends/sim/calibration_calls.h"
#include "backends/sim/nccl_calls.h"
#include "backends/sim/network.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_RANKS BB_CLUSTER_MOST_RANKS
#define PAGE 4096

/* A clock of each rank, on links as they are. */
struct course {
	struct bb_link_model links;
	double *clocks;                    /* [rank], seconds */
	const struct bb_fabric_flaw *flaw; /* of the cluster; NULL: none */
	int slow_rank;
	double late; /* how much later SLOW_RANK comes to each collective */
};

struct bb_context {
	struct bb_world world;
	/* The first is told; the second, where a fault was asked for, is as if there were none.
	   What is chosen is chosen on the last: nobody knows of the fault. */
	struct course courses[2];
	int ncourses;
	struct bb_network network; /* with a cluster */
	const struct bb_cluster *cluster;
	struct bb_calibration *calibration; /* NULL: times are those of the network or the links */
	struct bb_nccl_constants nccl;      /* of a cluster of GPUs */
	char library[BB_SIM_NCCL_TEXT];     /* that is modelled */
	struct bb_choices choices;
	struct bb_error *error;
	uint64_t calls, programs; /* made, evaluated: each draws its own noise */
	atomic_bool aborted;      /* sooner or later every call ends with BB_ETIMEOUT */
	/* Stands for every buffer: it has an address, nothing is ever kept there. */
	_Alignas(PAGE) char page[PAGE];
};

struct bb_rank {
	struct bb_context *context;
};

struct bb_group {
	struct bb_context *context;
	int n;
	int *members;
	bool first_ranks;                   /* its members are 0, 1, … */
	double *times;                      /* [member], for one call */
	const char *evaluator;              /* of the last */
	struct bb_nccl_machine machines[2]; /* of GPUs: as NCCL would find them, by course */
	char chosen[BB_CHOSEN_TEXT];        /* by NCCL for the last call */
};

/* ---- the process ----------------------------------------------------------------------- */

static void sim_close(struct bb_context *context)
{
	bb_choices_free(&context->choices);
	bb_network_free(&context->network);
	bb_calibration_free(context->calibration);
	for (int i = 0; i < context->ncourses; i++)
		free(context->courses[i].clocks);
	free(context);
}

static bool is_faulty(const struct bb_backend_config *config)
{
	return config->flawed || config->slow_link.factor > 0 || config->slow_rank.seconds > 0;
}

static bool open_course(struct bb_context *c, const struct bb_backend_config *config, bool faulty)
{
	struct course *course = &c->courses[c->ncourses++];

	*course = (struct course){
		.links = {.rate = config->link_rate,
			  .latency = config->link_latency,
			  .port = config->link_port,
			  .noise = config->link_noise,
			  .seed = config->seed,
			  .choices = &c->choices},
		.clocks = calloc((size_t)c->world.nranks, sizeof(*course->clocks)),
	};
	if (config->cluster)
		course->links.fabric = faulty ? &c->network.faulty : &c->network.fabric;
	if (!faulty)
		return course->clocks;
	course->links.slow_link.from = config->slow_link.from;
	course->links.slow_link.to = config->slow_link.to;
	course->links.slow_link.factor = config->slow_link.factor;
	course->flaw = config->flawed ? &c->network.flaw : NULL;
	course->slow_rank = config->slow_rank.rank;
	course->late = config->slow_rank.seconds;
	return course->clocks;
}

static bb_status sim_open(struct bb_context **context, const struct bb_world *world,
			  const struct bb_backend_config *config, struct bb_error *error)
{
	struct bb_context *c = aligned_alloc(PAGE, sizeof(*c));

	if (!c)
		goto fail;
	*c = (struct bb_context){.world = *world, .cluster = config->cluster, .error = error};
	if (config->cluster &&
	    !bb_network_make(&c->network, config->cluster, config->flawed ? &config->flaw : NULL))
		goto fail;
	if (is_faulty(config) && !open_course(c, config, true))
		goto fail;
	if (!open_course(c, config, false))
		goto fail;
	if (config->calibrate &&
	    bb_calibration_read(&c->calibration, config->calibrate, error) != BB_OK) {
		sim_close(c);
		return bb_error_status(error);
	}
	*context = c;
	return BB_OK;
fail:
	if (c)
		sim_close(c);
	return bb_fail(error, BB_EINTERNAL, "out of memory for the clocks of %d ranks",
		       world->nranks);
}

static void sim_explain(const struct bb_context *context, struct bb_strbuf *out)
{
	if (context->calibration)
		bb_calibration_tell(context->calibration, out);
	if (*context->library)
		bb_sim_nccl_tell(context->cluster, context->world.nranks, out);
}

static void sim_abort(struct bb_context *context)
{
	atomic_store(&context->aborted, true);
}

static int sim_max_local(void)
{
	return MAX_RANKS;
}

static uint64_t sim_memory_available(struct bb_context *context)
{
	return UINT64_MAX;
}

static bb_status sim_attach(struct bb_context *context, int local, struct bb_rank **rank,
			    struct bb_error *error)
{
	*rank = malloc(sizeof(**rank));
	if (!*rank)
		return bb_fail(error, BB_EINTERNAL, "out of memory for the driver of all ranks");
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

/* ---- memory: there is none --------------------------------------------------------------- */

static bb_status sim_alloc(struct bb_rank *rank, size_t bytes, void **memory)
{
	*memory = rank->context->page;
	return BB_OK;
}

static void sim_release(struct bb_rank *rank, void *memory, size_t bytes)
{
}

static bb_status sim_copy(struct bb_rank *rank, void *dst, const void *src, size_t bytes)
{
	return BB_OK;
}

static bb_status sim_fill(struct bb_rank *rank, void *dst, const struct bb_pattern *pattern,
			  size_t first, size_t count)
{
	return BB_OK;
}

static bb_status sim_verify(struct bb_rank *rank, const void *got, const struct bb_pattern *pattern,
			    size_t first, size_t count, enum bb_dtype dtype, int ulps,
			    uint64_t *wrong)
{
	return BB_EUNSUPPORTED;
}

/* ---- groups ------------------------------------------------------------------------------ */

static void sim_group_close(struct bb_group *group)
{
	if (!group)
		return;
	free(group->members);
	free(group->times);
	free(group);
}

static bb_status sim_group_open(struct bb_rank *rank, const int *members, int n,
				struct bb_group **group, struct bb_error *error)
{
	struct bb_group *g = calloc(1, sizeof(*g));

	if (!g)
		goto fail;
	g->context = rank->context;
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
	for (int i = 0; i < g->context->ncourses && g->context->cluster; i++) {
		bb_sim_nccl_machine(&g->machines[i], g->context->cluster, members, n);
		bb_sim_nccl_mar(&g->machines[i], g->context->cluster, g->context->courses[i].flaw,
				members, n);
	}
	*group = g;
	return BB_OK;
fail:
	sim_group_close(g);
	return bb_fail(error, BB_EINTERNAL, "out of memory for a group");
}

static double latest_of(const double *times, int n)
{
	double latest = 0;

	for (int i = 0; i < n; i++)
		latest = times[i] > latest ? times[i] : latest;
	return latest;
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

/* ---- collectives ------------------------------------------------------------------------- */

/* Those of the members on COURSE. The whole world needs no list of them. */
static struct bb_link_model links_of(const struct bb_group *group, const struct course *course)
{
	struct bb_link_model links = course->links;

	if (!group->first_ranks)
		links.members = group->members;
	return links;
}

/* Without a fault. */
static const struct course *sound_course(const struct bb_context *c)
{
	return &c->courses[c->ncourses - 1];
}

/* NAME NULL: whatever takes the least time. */
static bb_status settle(struct bb_group *group, const char *name, struct bb_call *call)
{
	struct bb_context *c = group->context;
	struct bb_shape shape = bb_call_scheduled_shape(call);
	const struct bb_link_model links = links_of(group, sound_course(c));
	struct bb_error reason = {.text = ""};

	if (c->calibration)
		return bb_calibration_settle(c->calibration, name, call, c->error);
	call->schedule = bb_timeline_choose(&links, name, call->collective, &shape,
					    bb_dtype_size(call->dtype), &reason);
	if (!call->schedule)
		return bb_fail(c->error, bb_error_status(&reason), "%s", reason.text);
	call->shape.chunk = shape.chunk;
	return BB_OK;
}

static bb_status sim_choose(struct bb_group *group, struct bb_call *call)
{
	call->native = NULL;
	return settle(group, NULL, call);
}

static const char *sim_refuses(struct bb_group *group, const struct bb_call *call)
{
	const struct bb_context *c = group->context;

	if ((call->native || c->calibration) && c->courses[0].links.slow_link.factor > 0)
		return "a model has no links between two ranks: of slow_link only schedules over "
		       "--link or --cluster know";
	if (call->native)
		return bb_sim_nccl_refuses(&c->nccl, &group->machines[c->ncourses - 1], call);
	return call->schedule->refuses ? call->schedule->refuses(&call->shape) : NULL;
}

/* What cannot be done is refused later. */
static bb_status sim_tune(struct bb_group *group, struct bb_call *call)
{
	if (call->native || sim_refuses(group, call))
		return BB_OK;
	return settle(group, call->schedule->name, call);
}

static size_t sim_tmp_bytes(struct bb_group *group, const struct bb_call *call)
{
	return 0;
}

static double sim_cost_bytes(struct bb_group *group, const struct bb_call *call)
{
	return 0;
}

/* What is not played message by message begins when the last has come, and ends on all at once. */
static void play_whole(struct bb_group *group, double seconds)
{
	const double start = latest_of(group->times, group->n);

	for (int i = 0; i < group->n; i++)
		group->times[i] = start + seconds;
	group->evaluator = "model";
}

/* Seconds by a model instead of messages. */
static double modelled(struct bb_group *group, int course, const struct bb_call *call,
		       uint64_t number)
{
	const struct bb_context *c = group->context;
	const double noise = bb_timeline_noise(&c->courses[course].links, number);

	if (!call->native)
		return bb_calibration_call_time(c->calibration, call) * noise;
	return bb_sim_nccl_time(&c->nccl, &group->machines[course], call, group->chosen) * noise;
}

static bb_status play_schedule(struct bb_group *group, int course, const struct bb_call *call,
			       uint64_t number)
{
	const struct bb_shape shape = bb_call_scheduled_shape(call);
	const struct bb_link_model links = links_of(group, &group->context->courses[course]);

	group->evaluator = bb_evaluator_name(bb_timeline_evaluator(&links, call->schedule, &shape));
	if (bb_timeline_collective(&links, call->schedule, &shape, bb_dtype_size(call->dtype),
				   number, group->times) != BB_OK)
		return bb_fail(group->context->error, BB_EINTERNAL,
			       "out of memory for the messages of %d ranks", group->n);
	return BB_OK;
}

/* Number CALL. */
static bb_status play(struct bb_group *group, int i, const struct bb_call *call, uint64_t number)
{
	struct course *course = &group->context->courses[i];
	bb_status status = BB_OK;

	for (int m = 0; m < group->n; m++) {
		group->times[m] = course->clocks[group->members[m]];
		if (course->late > 0 && group->members[m] == course->slow_rank)
			group->times[m] += course->late;
	}
	if (call->native || group->context->calibration)
		play_whole(group, modelled(group, i, call, number));
	else
		status = play_schedule(group, i, call, number);
	for (int m = 0; m < group->n; m++)
		course->clocks[group->members[m]] = group->times[m];
	return status;
}

static bb_status sim_collective(struct bb_group *group, struct bb_queue *queue,
				const struct bb_call *call)
{
	struct bb_context *c = group->context;
	const uint64_t number = c->calls++;
	bb_status status = BB_OK;

	if (atomic_load(&c->aborted))
		return BB_ETIMEOUT;
	/* The last one played is the one that is told. */
	for (int i = c->ncourses - 1; i >= 0 && status == BB_OK; i--)
		status = play(group, i, call, number);
	return status;
}

/* ---- GPUs: NCCL's collectives by their model ---------------------------------------------- */

static bb_status gpu_open(struct bb_context **context, const struct bb_world *world,
			  const struct bb_backend_config *config, struct bb_error *error)
{
	bb_status status;

	BB_TRY(status, sim_open(context, world, config, error), out);
	status = bb_sim_nccl_find(&(*context)->nccl, config->cluster, (*context)->library, error);
	if (status != BB_OK)
		sim_close(*context);
out:
	return status;
}

static const char *gpu_library(const struct bb_context *context)
{
	return *context->library ? context->library : NULL;
}

/* NCCL's choice; where it has nothing to choose, the fastest schedule. */
static bb_status gpu_choose(struct bb_group *group, struct bb_call *call)
{
	call->native = &bb_sim_nccl_auto;
	call->schedule = NULL;
	return sim_refuses(group, call) ? sim_choose(group, call) : BB_OK;
}

static void gpu_listen(struct bb_group *group, bool on)
{
}

static void gpu_chosen(struct bb_group *group, char text[BB_CHOSEN_TEXT])
{
	snprintf(text, BB_CHOSEN_TEXT, "%s", group->chosen);
}

/* ---- queues: of programs, which are evaluated as a whole ------------------------------------ */

static bb_status sim_queue_open(struct bb_rank *rank, struct bb_queue **queue,
				struct bb_error *error)
{
	return bb_fail(error, BB_EUNSUPPORTED, "on sim queues are those of programs alone");
}

static void sim_queue_close(struct bb_queue *queue)
{
}

static bb_status sim_event_open(struct bb_rank *rank, struct bb_event **event,
				struct bb_error *error)
{
	return bb_fail(error, BB_EUNSUPPORTED, "on sim events are those of programs alone");
}

static void sim_event_close(struct bb_event *event)
{
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

static bb_status sim_finish(struct bb_rank *rank, struct bb_queue *queue)
{
	return BB_OK;
}

/* ---- time -------------------------------------------------------------------------------- */

static double now_on(const struct bb_context *c, const struct course *course)
{
	return latest_of(course->clocks, c->world.nranks);
}

static double sim_now(struct bb_rank *rank)
{
	return now_on(rank->context, &rank->context->courses[0]);
}

static void sim_delay(struct bb_rank *rank, double seconds)
{
	const struct bb_context *c = rank->context;

	for (int i = 0; i < c->ncourses; i++)
		for (int r = 0; r < c->world.nranks; r++)
			c->courses[i].clocks[r] += seconds;
}

static void sim_played(struct bb_group *group, const char **evaluator, double *faultless)
{
	const struct bb_context *c = group->context;

	*evaluator = group->evaluator;
	*faultless = c->ncourses > 1 ? now_on(c, sound_course(c)) : NAN;
}

/* ---- programs ---------------------------------------------------------------------------- */

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

static bb_status sim_evaluate(struct bb_rank *rank, const struct bb_program *program,
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
		const struct course *course = &c->courses[i];
		struct later later = {watch, now_on(c, course)};
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

/* What both tables have in common. */
#define SIM                                                                                        \
	.abi = BB_BACKEND_ABI, .name = "sim",                                                      \
	.brief = "ranks are virtual: times are computed from --link, --cluster or --calibrate",    \
	.capabilities = BB_CAP_FREE_COST | BB_CAP_VIRTUAL, .close = sim_close,                     \
	.explain = sim_explain, .abort = sim_abort, .max_local = sim_max_local,                    \
	.memory_available = sim_memory_available, .attach = sim_attach, .detach = sim_detach,      \
	.locate = sim_locate, .alloc = sim_alloc, .release = sim_release, .copy = sim_copy,        \
	.fill = sim_fill, .verify = sim_verify, .group_open = sim_group_open,                      \
	.group_close = sim_group_close, .barrier = sim_barrier, .tune = sim_tune,                  \
	.refuses = sim_refuses, .tmp_bytes = sim_tmp_bytes, .cost_bytes = sim_cost_bytes,          \
	.queue_open = sim_queue_open, .queue_close = sim_queue_close,                              \
	.event_open = sim_event_open, .event_close = sim_event_close, .event_record = sim_event,   \
	.event_wait = sim_event, .compute = sim_compute, .collective = sim_collective,             \
	.finish = sim_finish, .now = sim_now, .delay = sim_delay, .evaluate = sim_evaluate,        \
	.played = sim_played

static const struct bb_backend over_gpus = {
	SIM,
	.natives = bb_sim_nccl_natives,
	.open = gpu_open,
	.library = gpu_library,
	.choose = gpu_choose,
	.listen = gpu_listen,
	.chosen = gpu_chosen,
};

const struct bb_backend bb_backend_sim = {
	SIM,
	.natives = &(const struct bb_native){.name = NULL},
	.over_gpus = &over_gpus,
	.open = sim_open,
	.choose = sim_choose,
};
