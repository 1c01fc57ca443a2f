/*
 * sim.c - the backend whose time is virtual: no byte moves, each rank has a clock that goes on by
 * what the model of the links says (schedules/timeline.h). One driver stands for all ranks.
 */
#include "backends/sim/nccl_calls.h"
#include "backends/sim/network.h"

#include <stdio.h>
#include <stdlib.h>

#define MAX_RANKS BB_CLUSTER_MOST_RANKS
#define PAGE 4096

struct bb_context {
	struct bb_world world;
	struct bb_link_model links;
	struct bb_network network; /* with a cluster */
	const struct bb_cluster *cluster;
	struct bb_nccl_constants nccl; /* of a cluster of GPUs */
	char library[128];             /* that is modelled */
	struct bb_choices choices;
	struct bb_error *error;
	double *clocks;      /* [rank], seconds */
	uint64_t calls;      /* collectives made: each draws its own noise */
	uint64_t programs;   /* evaluated, likewise */
	atomic_bool aborted; /* sooner or later every call ends with BB_ETIMEOUT */
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
	bool first_ranks;               /* its members are 0, 1, … */
	double *times;                  /* [member], for one call */
	struct bb_nccl_machine machine; /* of a cluster of GPUs: as NCCL would find it */
	char chosen[BB_CHOSEN_TEXT];    /* by NCCL for the last call */
};

/* ---- the process ----------------------------------------------------------------------- */

static void sim_close(struct bb_context *context)
{
	bb_choices_free(&context->choices);
	bb_network_free(&context->network);
	free(context->clocks);
	free(context);
}

static bb_status sim_open(struct bb_context **context, const struct bb_world *world,
			  const struct bb_backend_config *config, struct bb_error *error)
{
	struct bb_context *c = aligned_alloc(PAGE, sizeof(*c));

	if (!c)
		goto fail;
	*c = (struct bb_context){
		.world = *world,
		.links = {.rate = config->link_rate,
			  .latency = config->link_latency,
			  .port = config->link_port,
			  .noise = config->link_noise,
			  .seed = config->seed},
		.cluster = config->cluster,
		.error = error,
		.clocks = calloc((size_t)world->nranks, sizeof(*c->clocks)),
	};
	if (!c->clocks)
		goto fail;
	c->links.choices = &c->choices;
	if (config->cluster && !bb_network_make(&c->network, config->cluster))
		goto fail;
	if (config->cluster)
		c->links.fabric = &c->network.fabric;
	*context = c;
	return BB_OK;
fail:
	if (c)
		free(c->clocks);
	free(c);
	return bb_fail(error, BB_EINTERNAL, "out of memory for the clocks of %d ranks",
		       world->nranks);
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
	if (g->context->cluster)
		bb_sim_nccl_machine(&g->machine, g->context->cluster, members, n);
	*group = g;
	return BB_OK;
fail:
	sim_group_close(g);
	return bb_fail(error, BB_EINTERNAL, "out of memory for a group");
}

static bb_status sim_barrier(struct bb_group *group)
{
	double *clocks = group->context->clocks, latest = 0;

	for (int i = 0; i < group->n; i++)
		if (clocks[group->members[i]] > latest)
			latest = clocks[group->members[i]];
	for (int i = 0; i < group->n; i++)
		clocks[group->members[i]] = latest;
	return atomic_load(&group->context->aborted) ? BB_ETIMEOUT : BB_OK;
}

/* ---- collectives ------------------------------------------------------------------------- */

/* Those of the members. The whole world needs no list of them. */
static struct bb_link_model links_of(const struct bb_group *group)
{
	struct bb_link_model links = group->context->links;

	if (links.fabric && !group->first_ranks)
		links.members = group->members;
	return links;
}

/* NAME NULL: whatever takes the least time. */
static bb_status settle(struct bb_group *group, const char *name, struct bb_call *call)
{
	struct bb_context *c = group->context;
	struct bb_shape shape = bb_call_scheduled_shape(call);
	const struct bb_link_model links = links_of(group);
	struct bb_error reason = {.text = ""};

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

/* What cannot be done is refused later. */
static bb_status sim_tune(struct bb_group *group, struct bb_call *call)
{
	if (call->native)
		return BB_OK;
	if (call->schedule->refuses && call->schedule->refuses(&call->shape))
		return BB_OK;
	return settle(group, call->schedule->name, call);
}

static const char *sim_refuses(struct bb_group *group, const struct bb_call *call)
{
	const struct bb_context *c = group->context;

	if (call->native)
		return bb_sim_nccl_refuses(&c->nccl, &group->machine, call);
	return call->schedule->refuses ? call->schedule->refuses(&call->shape) : NULL;
}

static size_t sim_tmp_bytes(struct bb_group *group, const struct bb_call *call)
{
	return 0;
}

static double sim_cost_bytes(struct bb_group *group, const struct bb_call *call)
{
	return 0;
}

/* A collective of the library's begins when the last has come, and ends on all at once. */
static void play_native(struct bb_group *group, const struct bb_call *call)
{
	struct bb_context *c = group->context;
	double end = 0;

	for (int i = 0; i < group->n; i++)
		if (group->times[i] > end)
			end = group->times[i];
	end += bb_sim_nccl_time(&c->nccl, &group->machine, call, group->chosen) *
	       bb_timeline_noise(&c->links, c->calls++);
	for (int i = 0; i < group->n; i++)
		group->times[i] = end;
}

static bb_status play_schedule(struct bb_group *group, const struct bb_call *call)
{
	const struct bb_shape shape = bb_call_scheduled_shape(call);
	const struct bb_link_model links = links_of(group);
	struct bb_context *c = group->context;

	if (bb_timeline_collective(&links, call->schedule, &shape, bb_dtype_size(call->dtype),
				   c->calls++, group->times) != BB_OK)
		return bb_fail(c->error, BB_EINTERNAL, "out of memory for the messages of %d ranks",
			       group->n);
	return BB_OK;
}

static bb_status sim_collective(struct bb_group *group, struct bb_queue *queue,
				const struct bb_call *call)
{
	struct bb_context *c = group->context;
	bb_status status = BB_OK;

	if (atomic_load(&c->aborted))
		return BB_ETIMEOUT;
	for (int i = 0; i < group->n; i++)
		group->times[i] = c->clocks[group->members[i]];
	if (call->native)
		play_native(group, call);
	else
		status = play_schedule(group, call);
	for (int i = 0; i < group->n; i++)
		c->clocks[group->members[i]] = group->times[i];
	return status;
}

/* ---- GPUs: NCCL's collectives by their model ---------------------------------------------- */

/* Compute capability of the first GPU; 0: there is none, or it is not NVIDIA's. */
static int capability(const struct bb_cluster *cluster)
{
	const struct bb_topology *t = cluster->node;

	return bb_topology_count(t, BB_GPU) > 0 ? t->devices[bb_topology_device(t, BB_GPU, 0)].sm
						: 0;
}

static bb_status gpu_open(struct bb_context **context, const struct bb_world *world,
			  const struct bb_backend_config *config, struct bb_error *error)
{
	bb_status status = sim_open(context, world, config, error);

	if (status != BB_OK)
		return status;
	status = bb_nccl_constants_find(&(*context)->nccl, capability(config->cluster), error);
	if (status != BB_OK)
		sim_close(*context);
	else if ((*context)->nccl.channels > 0)
		snprintf((*context)->library, sizeof((*context)->library),
			 "a model of NCCL 2.30 (%s: of its constants %d are published, %d fitted, "
			 "%d assumed)",
			 (*context)->nccl.generation, (*context)->nccl.published,
			 (*context)->nccl.fitted, (*context)->nccl.assumed);
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

static double sim_now(struct bb_rank *rank)
{
	const struct bb_context *c = rank->context;
	double latest = 0;

	for (int r = 0; r < c->world.nranks; r++)
		if (c->clocks[r] > latest)
			latest = c->clocks[r];
	return latest;
}

static void sim_delay(struct bb_rank *rank, double seconds)
{
	const struct bb_context *c = rank->context;

	for (int r = 0; r < c->world.nranks; r++)
		c->clocks[r] += seconds;
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
	struct later later = {watch, sim_now(rank)};
	const struct bb_timeline_watch on_clock = {done_later, &later};
	struct bb_link_model links = c->links;
	double seconds;
	bb_status status;

	if (atomic_load(&c->aborted))
		return BB_ETIMEOUT;
	links.seed += c->programs++ * UINT64_C(0x9e3779b97f4a7c15);
	status = bb_timeline_program(&links, program, watch ? &on_clock : NULL, &seconds, error);
	if (status != BB_OK)
		return status;
	*end = later.by + seconds;
	for (int r = 0; r < c->world.nranks; r++)
		c->clocks[r] = *end;
	return BB_OK;
}

static const struct bb_native sim_natives[] = {{.name = NULL}};

/* What both tables have in common. */
#define SIM                                                                                        \
	.abi = BB_BACKEND_ABI, .name = "sim",                                                      \
	.brief = "ranks are virtual: times are computed from --link or --cluster",                 \
	.capabilities = BB_CAP_FREE_COST | BB_CAP_VIRTUAL, .close = sim_close, .abort = sim_abort, \
	.max_local = sim_max_local, .memory_available = sim_memory_available,                      \
	.attach = sim_attach, .detach = sim_detach, .locate = sim_locate, .alloc = sim_alloc,      \
	.release = sim_release, .copy = sim_copy, .fill = sim_fill, .verify = sim_verify,          \
	.group_open = sim_group_open, .group_close = sim_group_close, .barrier = sim_barrier,      \
	.tune = sim_tune, .refuses = sim_refuses, .tmp_bytes = sim_tmp_bytes,                      \
	.cost_bytes = sim_cost_bytes, .queue_open = sim_queue_open,                                \
	.queue_close = sim_queue_close, .event_open = sim_event_open,                              \
	.event_close = sim_event_close, .event_record = sim_event, .event_wait = sim_event,        \
	.compute = sim_compute, .collective = sim_collective, .finish = sim_finish,                \
	.now = sim_now, .delay = sim_delay, .evaluate = sim_evaluate

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
	.natives = sim_natives,
	.over_gpus = &over_gpus,
	.open = sim_open,
	.choose = sim_choose,
};
