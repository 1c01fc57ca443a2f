/*
 * The host backend: ranks are threads, memory is shared, messages are pointers.
 */
#include "backends/host/host.h"

#include "backends/cpu/memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- groups -------------------------------------------------------------------------- */

/*
 * Groups. The members' drivers open a group independently; the first makes the team, the others
 * join it. Memory that only some pairs need is mapped and left untouched until used.
 */

/* A team and all that its members share lie in one mapping. */
static struct bb_host_team *team_new(const int *members, int n)
{
	const size_t size = (size_t)n;
	const size_t pipes = size * size * BB_CHANNELS * sizeof(struct bb_pipe);
	const size_t words = size * size * sizeof(struct bb_word);
	const size_t offers = size * sizeof(struct bb_host_offer);
	const size_t bells = size * sizeof(struct bb_bell);
	const size_t bytes = sizeof(struct bb_host_team) + pipes + words + offers + bells +
			     size * (sizeof(*members) + sizeof(bool));
	struct bb_host_team *team = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
					 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (team == MAP_FAILED)
		return NULL;
	char *at = (char *)(team + 1);
	team->bytes = bytes;
	team->n = n;
	team->pipes = (struct bb_pipe *)at;
	team->words = (struct bb_word *)(at += pipes);
	team->offers = (struct bb_host_offer *)(at += words);
	team->bells = (struct bb_bell *)(at += offers);
	team->members = (int *)(at += bells);
	team->has_joined = (bool *)(team->members + n);
	memcpy(team->members, members, size * sizeof(*members));
	return team;
}

static void host_group_close(struct bb_group *group)
{
	if (!group)
		return;
	struct bb_context *const c = group->rank->context;
	struct bb_host_team **link = &c->teams, *const team = group->team;
	if (team) {
		pthread_mutex_lock(&c->lock);
		const bool last = ++team->left == team->n;
		while (*link != team)
			link = &(*link)->next;
		if (last)
			*link = team->next;
		pthread_mutex_unlock(&c->lock);
		if (last)
			munmap(team, team->bytes);
	}
	bb_host_bounce_free(group);
	free(group);
}

static bb_status host_group_open(struct bb_rank *rank, const int *members, int n,
				 struct bb_group **group, struct bb_error *error)
{
	struct bb_context *c = rank->context;
	struct bb_group *g = calloc(1, sizeof(*g) + (size_t)n * sizeof(*g->peers));
	struct bb_host_team **link, *team;
	bb_status status;

	if (!g)
		return bb_no_memory(error, "a group");
	g->rank = rank;
	BB_TRY(status, bb_member_find(members, n, rank->rank, &g->me, error), failed);
	/* The oldest team with these members that this one has not joined yet, made if there is
	   none. */
	pthread_mutex_lock(&c->lock);
	for (link = &c->teams; (team = *link) != NULL; link = &team->next)
		if (team->n == n && !team->has_joined[g->me] &&
		    memcmp(team->members, members, (size_t)n * sizeof(*members)) == 0)
			break;
	if (!team)
		team = *link = team_new(members, n);
	if (team)
		team->has_joined[g->me] = true;
	pthread_mutex_unlock(&c->lock);
	g->team = team;
	if (!team)
		BB_TRY(status, bb_no_memory(error, "a group"), failed);
	*group = g;
	return BB_OK;
failed:
	host_group_close(g);
	return status;
}

static bb_status host_barrier(struct bb_group *group)
{
	struct bb_context *context = group->rank->context;
	struct bb_host_team *team = group->team;
	const uint32_t number = ++group->barriers;

	if (atomic_fetch_add(&team->barrier_arrived, 1) + 1 == number * (uint32_t)team->n) {
		bb_host_store(context, &team->barrier_opened, number);
		bb_host_wake(context, team->bells, team->n);
		return BB_OK;
	}
	return bb_host_wait(context, &team->bells[group->me], &team->barrier_opened, number);
}

/* ---- choices ------------------------------------------------------------------------- */

/*
 * The choice of `auto`, and the message size of pipelined algorithms.
 */

/* ALGORITHM was the fastest up to max_bytes and max_ranks; the first row that fits counts. */
struct choice {
	const char *collective;
	bool crowded; /* more ranks than cores */
	int max_ranks;
	size_t max_bytes;
	const char *algorithm;
};

#define K *1024
#define M *1048576

/* Written by studies/tune.py (make tune). Without a matching row, direct is used. */
static const struct choice choices[] = {
#include "backends/host/tuning_table.inc"
	{.collective = NULL},
};

#define CHUNK_BYTES ((size_t)128 << 10)
#define CROWDED_CHUNK_BYTES ((size_t)64 << 10)

/*
 * Paced links carry only messages, which excludes direct. Their times are known, as on the sim
 * backend. Returns the schedule NAME, or the best one if that is NULL; *CHUNK = its best message
 * length.
 */
static const struct bb_algorithm *over_links(struct bb_group *group, const struct bb_call *call,
					     const char *name, size_t *chunk)
{
	const struct bb_backend_config *config = &group->rank->context->cpu.config;
	const struct bb_link_model links = {.rate = config->link_rate,
					    .latency = config->link_latency,
					    .port = config->link_port,
					    .choices = &group->rank->choices};
	struct bb_error refusal = {.text = ""}; /* reported by refuses */
	struct bb_shape shape = call->shape;
	const struct bb_algorithm *schedule = bb_timeline_choose(
		&links, name, call->collective, &shape, bb_dtype_size(call->dtype), &refusal);

	*chunk = shape.chunk;
	return schedule;
}

static bb_status host_choose(struct bb_group *group, struct bb_call *call)
{
	const struct bb_cpu_context *cpu = &group->rank->context->cpu;
	const bool has_direct = !bb_host_natives[0].refuses(NULL, call->collective);
	const size_t bytes =
		bb_size_count(call->collective, &call->shape) * bb_dtype_size(call->dtype);
	const struct choice *c = choices;
	size_t chunk;

	call->native = NULL;
	if (cpu->config.link_rate != 0) {
		call->schedule = over_links(group, call, NULL, &chunk);
		return call->schedule ? BB_OK : BB_EUNSUPPORTED;
	}
	while (c->collective &&
	       (strcmp(c->collective, call->collective->name) != 0 || c->crowded != cpu->crowded ||
		call->shape.nranks > c->max_ranks || bytes > c->max_bytes))
		c++;
	call->schedule =
		bb_algorithm_find(call->collective, c->collective ? c->algorithm : "direct");
	/* A collective that is an algorithm of its own has no direct. */
	if (!call->schedule && !has_direct)
		call->schedule = bb_algorithm_find(call->collective, call->collective->name);
	if (!call->schedule && has_direct)
		call->native = &bb_host_natives[0];
	return call->schedule || call->native ? BB_OK : BB_EUNSUPPORTED;
}

static bb_status host_tune(struct bb_group *group, struct bb_call *call)
{
	const size_t bytes = group->rank->context->cpu.crowded ? CROWDED_CHUNK_BYTES : CHUNK_BYTES;

	call->shape.chunk = bytes / bb_dtype_size(call->dtype);
	if (group->rank->context->cpu.config.link_rate != 0 && call->schedule)
		(void)over_links(group, call, call->schedule->name, &call->shape.chunk);
	return BB_OK;
}

static bb_status host_run(struct bb_group *group, const struct bb_call *call)
{
	const struct bb_context *c = group->rank->context;
	const size_t size =
		bb_size_count(call->collective, &call->shape) * bb_dtype_size(call->dtype);
	const struct bb_executor executor = {
		.p2p = &bb_host_p2p,
		.port = group,
		.rank = group->me,
		.kernels = c->cpu.kernels,
		.stream = bb_cpu_streams(&c->cpu, 2 * size, group->team->n),
	};

	return call->native ? bb_host_direct(group, call) : bb_execute(&executor, call);
}

static void host_close(struct bb_context *context)
{
	/* Teams of members that never left, after an abort. */
	for (struct bb_host_team *team = context->teams, *next; team; team = next) {
		next = team->next;
		munmap(team, team->bytes);
	}
	pthread_mutex_destroy(&context->lock);
	bb_cpu_close(&context->cpu);
	free(context->ports);
	free(context);
}

static bb_status host_open(struct bb_context **context, const struct bb_world *world,
			   const struct bb_backend_config *config, struct bb_error *error)
{
	bb_status status;

	if (world->nprocs != 1)
		return bb_fail(error, BB_EBACKEND, "the host backend runs in one process, not %d",
			       world->nprocs);
	struct bb_context *c = calloc(1, sizeof(*c));
	if (!c)
		return bb_no_memory(error, "the host backend");
	c->cpu.run = host_run;
	c->cpu.pass = bb_host_message;
	pthread_mutex_init(&c->lock, NULL);
	BB_TRY(status, bb_cpu_open(&c->cpu, world, config, error), failed);
	if (config->link_port) {
		const size_t bytes = (size_t)world->nlocal * sizeof(*c->ports);

		c->ports = aligned_alloc(BB_LINE, bytes);
		if (!c->ports)
			BB_TRY(status, bb_no_memory(error, "ports"), failed);
		memset(c->ports, 0, bytes);
	}
	*context = c;
	return BB_OK;
failed:
	host_close(c);
	return status;
}

static bb_status host_attach(struct bb_context *context, int local, struct bb_rank **rank,
			     struct bb_location *location, struct bb_error *error)
{
	const struct bb_cpu_context *c = &context->cpu;
	/* Neighbouring ranks share a core, or have neighbouring cores. */
	const int core = c->crowded ? (int)((int64_t)local * c->cores / c->ranks) : local;
	struct bb_rank *r = calloc(1, sizeof(*r));

	if (!r)
		return bb_no_memory(error, "a rank");
	r->context = context;
	r->rank = c->world.first_rank + local;
	bb_cpu_locate(c, core, bb_machine_pin(c->machine, core) ? "" : " (not pinned)", location);
	*rank = r;
	return BB_OK;
}

static void host_detach(struct bb_rank *rank)
{
	if (rank)
		bb_choices_free(&rank->choices);
	free(rank);
}

static const char *host_refuses(struct bb_group *group, const struct bb_call *call)
{
	return call->native && group->rank->context->cpu.config.link_rate != 0
		       ? "direct sends no messages, which a paced link could delay"
		       : NULL;
}

static size_t host_tmp_bytes(struct bb_group *group, const struct bb_call *call)
{
	return call->native ? bb_host_direct_tmp_bytes(call, group->me)
			    : bb_execute_tmp_bytes(call, group->me);
}

static double host_cost_bytes(struct bb_group *group, const struct bb_call *call)
{
	const double element = (double)bb_dtype_size(call->dtype);

	return element * (call->native
				  ? bb_host_direct_cost(call)
				  : bb_algorithm_cost(call->schedule, &call->shape, NULL, NULL));
}

const struct bb_backend bb_backend_host = {
	BB_CPU_ENTRIES,
	.abi = BB_BACKEND_ABI,
	.name = "host",
	.brief = "ranks are threads of this process, over shared memory",
	.has_data = true,
	.natives = bb_host_natives,
	.open = host_open,
	.close = host_close,
	.max_local = BB_HOST_MAX_RANKS,
	.attach = host_attach,
	.detach = host_detach,
	.release = bb_cpu_release,
	.group_open = host_group_open,
	.group_close = host_group_close,
	.barrier = host_barrier,
	.choose = host_choose,
	.tune = host_tune,
	.refuses = host_refuses,
	.tmp_bytes = host_tmp_bytes,
	.cost_bytes = host_cost_bytes,
	.queue_open = bb_cpu_queue_open,
	.spaces = &bb_cpu_spaces,
	.routes = &bb_host_routes,
};
