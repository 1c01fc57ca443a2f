/*
 * Groups and their communicators.
 */
#include "backends/nccl/nccl.h"

#include "core/clock.h"
#include "core/file.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bb_status no_memory(const struct bb_rank *rank)
{
	return bb_no_memory(rank->context->error, "a rank");
}

static int least_of(int a, int b)
{
	return a < b ? a : b;
}

/* ---- meeting ------------------------------------------------------------------------- */

/*
 * All ranks exchange the location and capabilities of their GPUs before the first communicator.
 * Processes number their GPUs separately, so only this shows whether two ranks share one.
 */

struct rank_gpu {
	uint64_t host; /* as NCCL identifies hosts */
	char name[64]; /* of the host */
	char bus[16];
	unsigned char uuid[16]; /* see struct bb_rank */
	bool shares;            /* see bb_nccl_may_share */
	int capability;
	int version;
	int ranks_per_root;
};

static const struct bb_payload_field rank_gpu_fields[] = {
	BB_PAYLOAD_FIELD("the host", BB_PAYLOAD_ANY, struct rank_gpu, host),
	BB_PAYLOAD_FIELD("the name", BB_PAYLOAD_TEXT, struct rank_gpu, name),
	BB_PAYLOAD_FIELD("the bus", BB_PAYLOAD_TEXT, struct rank_gpu, bus),
	BB_PAYLOAD_FIELD("the UUID", BB_PAYLOAD_ANY, struct rank_gpu, uuid),
	BB_PAYLOAD_FIELD("the sharing mark", BB_PAYLOAD_UNSIGNED, struct rank_gpu, shares,
			 .high = 1),
	BB_PAYLOAD_FIELD("the capability", BB_PAYLOAD_SIGNED, struct rank_gpu, capability,
			 .high = INT32_MAX),
	BB_PAYLOAD_FIELD("the version", BB_PAYLOAD_SIGNED, struct rank_gpu, version,
			 .high = INT32_MAX),
	BB_PAYLOAD_FIELD("the ranks of a root", BB_PAYLOAD_SIGNED, struct rank_gpu, ranks_per_root,
			 .low = 1, .high = INT32_MAX),
	{.name = NULL}};
static const struct bb_payload rank_gpu_table = {"a GPU", sizeof(struct rank_gpu), rank_gpu_fields,
						 NULL};

/*
 * All drivers of the world exchange payloads of TABLE: all[r] = that of rank r. A driver that has
 * failed must not call it, but end: others may wait for it inside NCCL, where nothing can interrupt
 * them.
 */
static bb_status nccl_gather(struct bb_rank *rank, const struct bb_payload *table, const void *mine,
			     void *all)
{
	const struct bb_exchange *exchange = &rank->context->config.exchange;

	return exchange->gather(exchange->own, rank->local, table, mine, all);
}

/* ---- hosts --------------------------------------------------------------------------- */

static uint64_t hash_add(uint64_t hash, const char *text)
{
	return bb_random_hash(hash, text, strlen(text));
}

/* ---- GPUs ---------------------------------------------------------------------------- */

/* Does a rank before R have R's GPU? By NCCL's rule: before 2.30.7 the parts of a GPU under MIG are
   one GPU. */
static bool is_taken(const struct rank_gpu *all, int r)
{
	for (const struct rank_gpu *a = all, *b = &all[r]; a < b; a++) {
		const bool by_bus = (a->version > 0 && a->version < BB_NCCL_SINCE_UUIDS) ||
				    (b->version > 0 && b->version < BB_NCCL_SINCE_UUIDS);

		if (a->host == b->host && (by_bus ? strcmp(a->bus, b->bus)
						  : memcmp(a->uuid, b->uuid, sizeof(a->uuid))) == 0)
			return true;
	}
	return false;
}

/*
 * Called before the first communicator: BB_EUSAGE on all ranks if some would share a GPU without
 * permission. Afterwards capability, version and ranks_per_root are the minimum of all ranks, so
 * that all ranks decide alike what NCCL can do.
 */
static bb_status nccl_meet(struct bb_rank *rank)
{
	const int n = rank->context->world.nranks;
	struct rank_gpu *all = calloc((size_t)n, sizeof(*all));
	const char *const id = getenv("NCCL_HOSTID");
	struct rank_gpu mine;
	char boot[64];
	int shared = -1, ranks = 0, gpus = 0; /* of the host where SHARED, a rank, has another's */

	if (!all)
		return no_memory(rank);
	/* Processes that agree in the host's name and its boot can share memory. */
	bb_kernel_read("/proc/sys/kernel/random/boot_id", boot, sizeof(boot));
	rank->machine = hash_add(hash_add(BB_RANDOM_HASH, rank->location.host), boot);
	memset(&mine, 0, sizeof(mine)); /* padding is sent, too */
	/* NCCL treats ranks of one NCCL_HOSTID as one host, so a machine may appear as several. */
	mine.host = id && *id ? hash_add(BB_RANDOM_HASH, id) : rank->machine;
	snprintf(mine.name, sizeof(mine.name), "%s", rank->location.host);
	snprintf(mine.bus, sizeof(mine.bus), "%s", rank->location.bus);
	memcpy(mine.uuid, rank->uuid, sizeof(mine.uuid));
	mine.shares = bb_nccl_may_share();
	mine.capability = rank->capability;
	mine.version = rank->version;
	mine.ranks_per_root = rank->ranks_per_root;
	bb_status status = nccl_gather(rank, &rank_gpu_table, &mine, all);
	for (int r = 0; r < n && status == BB_OK; r++) {
		if (shared < 0 && !all[r].shares && is_taken(all, r))
			shared = r;
		rank->capability = least_of(rank->capability, all[r].capability);
		rank->version = least_of(rank->version, all[r].version);
		rank->ranks_per_root = least_of(rank->ranks_per_root, all[r].ranks_per_root);
	}
	for (int r = 0; r < n && shared >= 0; r++) {
		ranks += all[r].host == all[shared].host;
		gpus += all[r].host == all[shared].host && !is_taken(all, r);
	}
	if (shared >= 0)
		status = bb_fail(rank->context->error, BB_EUSAGE,
				 "%d GPUs are requested on host %s, but its processes see %d: each "
				 "rank needs its own (unless NCCL_MULTI_RANK_GPU_ENABLE=1, from "
				 "NCCL 2.30 on; the parts of a GPU under MIG are one GPU to "
				 "earlier versions)",
				 ranks, all[shared].name, gpus);
	free(all);
	return status;
}

#define CLOCK_TRIES 16
#define SPINS 1024 /* polls between two sched_yield */

#define VARIABLES 2
static const char *const variables[VARIABLES] = {"NCCL_ALGO", "NCCL_PROTO"};

static struct bb_group *world_of(const struct bb_rank *rank)
{
	struct bb_group *g = rank->groups;

	while (g && g->next)
		g = g->next;
	return g;
}

/* ---- barriers ------------------------------------------------------------------------ */

bb_status bb_nccl_any(struct bb_rank *rank, bool mine, bool *any)
{
	const size_t n = (size_t)rank->context->world.nranks;
	const char flag = mine;
	char *const all = malloc(n);
	bb_status status = all ? nccl_gather(rank, &bb_payload_flags, &flag, all) : no_memory(rank);

	*any = status == BB_OK && memchr(all, 1, n);
	free(all);
	return status;
}

/* Of all drivers, through the launch. */
static bb_status launch_barrier(struct bb_rank *rank)
{
	bool any;

	return bb_nccl_any(rank, false, &any);
}

bb_status bb_nccl_messages_end(const struct bb_rank *rank, bb_status status)
{
	if (status == BB_OK)
		return BB_NCCL(rank, ncclGroupEnd());
	rank->nccl->ncclGroupEnd();
	return status;
}

bb_status bb_nccl_exchange(struct bb_group *group, int to, const struct bb_half *out, int from,
			   const struct bb_half *in)
{
	struct bb_rank *rank = group->rank;
	bb_status status;

	BB_TRY(status, BB_NCCL(rank, ncclGroupStart()), end);
	if (out->bytes)
		status = BB_NCCL(rank, ncclSend(out->mine, out->bytes, ncclInt8, to, group->comm,
						rank->main));
	if (in->bytes && status == BB_OK)
		status = BB_NCCL(rank, ncclRecv(in->mine, in->bytes, ncclInt8, from, group->comm,
						rank->main));
	status = bb_nccl_messages_end(rank, status);
end:
	return status;
}

/* A dissemination barrier among every STRIDE-th member of GROUP. */
static bb_status members_barrier(struct bb_group *group, int stride)
{
	struct bb_rank *rank = group->rank;
	char *const token = rank->scratch + BB_SCRATCH_ID;
	const struct bb_half out = {.mine = token, .bytes = 1};
	const struct bb_half in = {.mine = token + 1, .bytes = 1};
	bb_status status = BB_OK;

	for (int distance = stride; distance < group->n && status == BB_OK; distance *= 2) {
		const int to = (group->me + distance) % group->n;
		const int from = (group->me + group->n - distance) % group->n;

		status = bb_nccl_exchange(group, to, &out, from, &in);
	}
	return status == BB_OK ? bb_nccl_wait(rank, rank->main) : status;
}

/*
 * The launch releases its processes one after the other, and a process wakes its drivers one by
 * one. In the world two closer barriers follow: the first drivers of all processes, then the
 * drivers of each process, which spin, because waking a sleeping thread takes some ten
 * microseconds.
 */
bb_status bb_nccl_barrier(struct bb_group *group)
{
	struct bb_rank *rank = group->rank;
	struct bb_context *const c = rank->context;
	const struct bb_world *w = &c->world;
	const unsigned long long n = (unsigned long long)w->nlocal;

	if (group != world_of(rank))
		return group->comm ? members_barrier(group, 1) : bb_nccl_lanes_barrier(group);
	bb_status status = launch_barrier(rank);
	if (status == BB_OK && w->nprocs > 1 && group->comm && rank->local == 0)
		status = members_barrier(group, w->nlocal);
	if (status != BB_OK)
		return status;
	const unsigned long long last = (atomic_fetch_add(&c->arrived, 1) / n + 1) * n;
	for (unsigned polls = 1; atomic_load(&c->arrived) < last; polls++) {
		if (bb_nccl_aborted(c))
			return BB_ETIMEOUT;
		if (polls % SPINS == 0)
			sched_yield();
	}
	return BB_OK;
}

/*
 * Rank 0 reads its clock between this driver's arrival at the barrier and its return from the
 * gather. The try with the shortest interval counts.
 */
static bb_status clock_offset(struct bb_rank *rank, double *offset, double *uncertainty)
{
	double *all = calloc((size_t)rank->context->world.nranks, sizeof(*all));
	bb_status status = all ? BB_OK : no_memory(rank);

	*offset = *uncertainty = 0;
	for (int i = 0; i < CLOCK_TRIES && status == BB_OK && rank->context->world.nprocs > 1;
	     i++) {
		const double before = bb_clock_now();
		double now, after;

		BB_TRY(status, launch_barrier(rank), out);
		now = bb_clock_now();
		BB_TRY(status, nccl_gather(rank, &bb_payload_seconds, &now, all), out);
		after = bb_clock_now();
		if (i > 0 && after - before >= 2 * *uncertainty)
			continue;
		*offset = (before + after) / 2 - all[0];
		*uncertainty = (after - before) / 2;
	}
	if (rank->rank == 0)
		*offset = *uncertainty = 0;
out:
	free(all);
	return status;
}

const struct bb_clocks bb_nccl_clocks = {.offset = clock_offset};

/* ---- communicators ------------------------------------------------------------------- */

/* The number of members that create an ID. Each member connects first to a root; older versions of
   NCCL have one root. */
static int roots_of(const struct bb_group *group)
{
	return bb_nccl_has(group->rank->version, BB_NCCL_SINCE_ROOTS)
		       ? (group->n + group->rank->ranks_per_root - 1) / group->rank->ranks_per_root
		       : 1;
}

/* The member that is root I: NCCL divides the members evenly, the larger parts first. */
static int root_member(const struct bb_group *group, int i)
{
	const int roots = roots_of(group), larger = group->n % roots;

	return i * (group->n / roots) + (i < larger ? i : larger);
}

static ncclConfig_t comm_configure(struct bb_group *group)
{
	const struct bb_backend_config *const wanted = &group->rank->context->config;
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

	/* A non-blocking communicator starts a thread for each group of calls (group.cc since
	   2.24), which would be timed. If its creation hangs, the watch thread ends the process at
	   the deadline. */
	config.blocking = 1;
/* An older library ignores the members at the end that it does not know. */
#if NCCL_VERSION_CODE >= BB_NCCL_SINCE_POLICIES
	config.CTAPolicy = wanted->cta_policy;
#endif
/* As nccl-tests sets them, so that times can be compared. */
#if NCCL_VERSION_CODE >= BB_NCCL_SINCE_NVLINK_SCHEDULING
	config.nvlinkCentricSched = 1;
#endif
#if NCCL_VERSION_CODE >= BB_NCCL_SINCE_PEERS
	if (wanted->peers > 0)
		config.maxP2pPeers = wanted->peers;
#endif
#if NCCL_VERSION_CODE >= BB_NCCL_SINCE_NAMES
	config.commName = bb_nccl_observer_name(group);
#endif
	(void)wanted; /* old headers */
	return config;
}

/* After a failure the communicator is aborted: ncclCommDestroy waits for all ranks. */
static bb_status comm_destroy(struct bb_group *group)
{
	struct bb_rank *rank = group->rank;
	ncclComm_t comm = group->comm;
	bb_status status = bb_nccl_device_close(group);

	bb_nccl_deregister(group, NULL);
	group->comm = NULL;
	if (!comm)
		return BB_OK;
	if (bb_nccl_aborted(rank->context)) {
		rank->nccl->ncclCommAbort(comm);
		return BB_ETIMEOUT;
	}
	for (int d = 0; d < BB_NDTYPES && status == BB_OK; d++) {
		if (group->weighted[d])
			status = BB_NCCL(rank, ncclRedOpDestroy(group->weights[d], comm));
		group->weighted[d] = false;
	}
	if (status == BB_OK)
		return BB_NCCL(rank, ncclCommDestroy(comm));
	rank->nccl->ncclCommAbort(comm);
	return status;
}

static bool set_variable(const char *name, const char *value)
{
	return (value ? setenv(name, value, 1) : unsetenv(name)) == 0;
}

static const struct bb_payload_field id_fields[] = {
	{"the ID", BB_PAYLOAD_ANY, 0, sizeof(ncclUniqueId), 1, 0, 0, 0}, {.name = NULL}};
static const struct bb_payload id_table = {"an ID", sizeof(ncclUniqueId), id_fields, NULL};

/* Create the group's communicator for NATIVE. No driver may read the environment while another one
   changes it, so barriers surround each change. After a failure the variables stay: other drivers
   may still be reading them, and no communicator will be created any more. */
static bb_status comm_create(struct bb_group *group, const struct bb_native *native)
{
	struct bb_rank *rank = group->rank;
	const struct bb_nccl_selection *const selection = native->own;
	const char *const values[VARIABLES] = {selection->algorithm, selection->protocol};
	const int changed = native != &bb_nccl_auto && rank->local == 0 ? VARIABLES : 0;
	const int roots = roots_of(group);
	char *saved[VARIABLES] = {NULL}; /* the user's values; NULL: not set */
	ncclUniqueId *const all = calloc((size_t)rank->context->world.nranks, sizeof(*all));
	ncclUniqueId *const ids = calloc((size_t)roots, sizeof(*ids)), mine = {{0}};
	bool is_root = false;
	bb_status status;

	if (!all || !ids)
		BB_TRY(status, no_memory(rank), out);
	for (int i = 0; i < roots; i++)
		is_root |= root_member(group, i) == group->me;
	if (is_root)
		BB_TRY(status, BB_NCCL(rank, ncclGetUniqueId(&mine)), out);
	BB_TRY(status, nccl_gather(rank, &id_table, &mine, all), out);
	for (int i = 0; i < roots; i++)
		ids[i] = all[group->members[root_member(group, i)]];
	for (int i = 0; i < changed; i++) {
		const char *const now = getenv(variables[i]);

		saved[i] = now ? strdup(now) : NULL;
		if ((now && !saved[i]) || (values[i] && !set_variable(variables[i], values[i])))
			BB_TRY(status, no_memory(rank), out);
	}
	BB_TRY(status, launch_barrier(rank), out);
	ncclConfig_t config = comm_configure(group);
	BB_TRY(status,
	       roots > 1 ? BB_NCCL(rank, ncclCommInitRankScalable(&group->comm, group->n, group->me,
								  roots, ids, &config))
			 : BB_NCCL(rank, ncclCommInitRankConfig(&group->comm, group->n, *ids,
								group->me, &config)),
	       out);
	BB_TRY(status, launch_barrier(rank), out);
	for (int i = 0; i < changed; i++)
		if (!set_variable(variables[i], saved[i]))
			BB_TRY(status, no_memory(rank), out);
	BB_TRY(status, launch_barrier(rank), out);
	group->made = native;
out:
	for (int i = 0; i < VARIABLES; i++)
		free(saved[i]);
	free(all);
	free(ids);
	return status;
}

static bb_status comm_change(struct bb_group *group, const struct bb_native *native)
{
	bb_status status;

	group->made = NULL;
	BB_TRY(status, bb_nccl_wait(group->rank, group->rank->main), out);
	BB_TRY(status, comm_destroy(group), out);
	status = comm_create(group, native);
out:
	return status;
}

bb_status bb_nccl_ready(struct bb_group *group, const struct bb_call *call)
{
	const struct bb_native *want = call->native ? call->native : &bb_nccl_auto;
	const bool kernel = bb_nccl_kernel(want) > 0;
	bool refused = false;
	bb_status status;

	group->probed = *call;
	group->refusal[0] = '\0';
	BB_TRY(status, bb_nccl_need(group->rank), out);
	if (group->made != want)
		BB_TRY(status, comm_change(group, want), out);
	if (want != &bb_nccl_auto && !kernel)
		BB_TRY(status, bb_nccl_native_probe(group, call), out);
	BB_TRY(status, bb_nccl_register(group), out);
	if (kernel)
		BB_TRY(status, bb_nccl_device_open(group, call, &refused), out);
	if (refused)
		status = comm_change(group, &bb_nccl_auto);
out:
	return status;
}

/* ---- groups -------------------------------------------------------------------------- */

/* Create the communicator of a group that is not the world, once the main stream is empty: SPLIT by
   all ranks of the world at once (a group's color is its first member), or by the members alone. */
static bb_status part_open(struct bb_group *group, const struct bb_group *world, bool split)
{
	struct bb_rank *const rank = group->rank;
	char *const scratch = rank->scratch + BB_SCRATCH_ID;
	ncclUniqueId id;
	bb_status status;

	if (rank->version == 0 && bb_nccl_lanes_join(group))
		return BB_OK;
	BB_TRY(status, bb_nccl_need(rank), out);
	if (!world || !world->comm)
		return bb_fail(rank->context->error, BB_EINTERNAL,
			       "rank %d opens a group before that of all ranks", rank->rank);
	BB_TRY(status, bb_nccl_wait(rank, rank->main), out);
	/* The first member's ID goes to the others through the world. */
	if (!split) {
		if (group->me == 0) {
			BB_TRY(status, BB_NCCL(rank, ncclGetUniqueId(&id)), out);
			BB_TRY(status, bb_nccl_copy(rank, scratch, &id, sizeof(id)), out);
		}
		BB_TRY(status, BB_NCCL(rank, ncclGroupStart()), out);
		if (group->me > 0)
			status =
				BB_NCCL(rank, ncclRecv(scratch, sizeof(id), ncclInt8,
						       group->members[0], world->comm, rank->main));
		for (int m = 1; group->me == 0 && m < group->n && status == BB_OK; m++)
			status =
				BB_NCCL(rank, ncclSend(scratch, sizeof(id), ncclInt8,
						       group->members[m], world->comm, rank->main));
		BB_TRY(status, bb_nccl_messages_end(rank, status), out);
		BB_TRY(status, bb_nccl_copy(rank, &id, scratch, sizeof(id)), out);
	}
	ncclConfig_t config = comm_configure(group);
	BB_TRY(status,
	       split ? BB_NCCL(rank, ncclCommSplit(world->comm, group->members[0], group->me,
						   &group->comm, &config))
		     : BB_NCCL(rank, ncclCommInitRankConfig(&group->comm, group->n, id, group->me,
							    &config)),
	       out);
	group->made = &bb_nccl_auto;
out:
	return status;
}

/* Add *GROUP, the world if it is the first of all ranks, and create its communicator. */
static bb_status group_make(struct bb_rank *rank, const int *members, int n, bool split,
			    struct bb_group **group, struct bb_error *error)
{
	const struct bb_group *const world = world_of(rank);
	int me;
	bb_status status;

	BB_TRY(status, bb_member_find(members, n, rank->rank, &me, error), out);
	struct bb_group *const g = calloc(1, sizeof(*g) + (size_t)n * sizeof(*members));
	if (!g)
		return no_memory(rank);
	g->members = (int *)(g + 1);
	memcpy(g->members, members, (size_t)n * sizeof(*members));
	g->rank = rank;
	g->n = n;
	g->me = me;
	g->next = rank->groups;
	rank->groups = g;
	if (n != rank->context->world.nranks || world) {
		status = part_open(g, world, split);
	} else {
		status = nccl_meet(rank);
		if (status == BB_OK && rank->version > 0)
			status = comm_create(g, &bb_nccl_auto);
	}
	if (status == BB_OK)
		*group = g;
	else
		bb_nccl_group_close(g);
out:
	return status;
}

bb_status bb_nccl_group_open(struct bb_rank *rank, const int *members, int n,
			     struct bb_group **group, struct bb_error *error)
{
	return group_make(rank, members, n, false, group, error);
}

bb_status bb_nccl_split(struct bb_rank *rank, const int *members, int n, struct bb_group **group,
			struct bb_error *error)
{
	return group_make(rank, members, n, true, group, error);
}

void bb_nccl_group_close(struct bb_group *group)
{
	struct bb_group **link;

	if (!group)
		return;
	bb_nccl_ignore(bb_nccl_group_end(group->rank));
	bb_nccl_ignore(bb_nccl_wait(group->rank, group->rank->main));
	bb_nccl_ignore(comm_destroy(group));
	for (link = &group->rank->groups; *link != group; link = &(*link)->next)
		;
	*link = group->next;
	free(group);
}
