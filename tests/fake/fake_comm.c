/*
 * Communicators between threads, of one process or several, their registrations and operations.
 */
#include "fake.h"

#include "core/clock.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static _Thread_local char last_error[256];

/* ---- errors ------------------------------------------------------------------------ */

ncclResult_t fake_complain(ncclResult_t result, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(last_error, sizeof(last_error), format, args);
	va_end(args);
	return result;
}

const char *ncclGetLastError(ncclComm_t comm)
{
	return last_error;
}

const char *ncclGetErrorString(ncclResult_t result)
{
	switch (result) {
	case ncclSuccess:
		return "no error";
	case ncclSystemError:
		return "unhandled system error";
	case ncclInvalidArgument:
		return "invalid argument";
	case ncclInvalidUsage:
		return "invalid usage";
	case ncclRemoteError:
		return "remote process exited or there was a network error";
	default:
		return "internal error";
	}
}

int fake_version(void)
{
	return (int)fake_number("BUSBENCH_FAKE_VERSION", NCCL_VERSION_CODE);
}

ncclResult_t ncclGetVersion(int *version)
{
	FAKE_NCCL();
	*version = fake_version();
	return ncclSuccess;
}

/* The eight-bit floats are the last two. */
ncclResult_t fake_check_type(ncclDataType_t type)
{
	if ((int)type < 10 || fake_version() >= BB_NCCL_SINCE_FP8)
		return ncclSuccess;
	return fake_complain(ncclInvalidArgument, "invalid type %d", (int)type);
}

/* ---- life of a communicator -------------------------------------------------------- */

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
	struct fake_shared *const all = fake_shared();
	uint64_t number;

	FAKE_NCCL();
	pthread_mutex_lock(&all->lock);
	number = ++all->ids;
	pthread_mutex_unlock(&all->lock);
	memset(id, 0, sizeof(*id));
	memcpy(id->internal, &number, sizeof(number));
	return ncclSuccess;
}

static struct fake_clique *find_clique(uint64_t id, int n)
{
	struct fake_shared *const all = fake_shared();
	struct fake_clique *c;

	pthread_mutex_lock(&all->lock);
	for (c = all->cliques; c && c->id != id; c = c->next)
		;
	if (!c) {
		c = fake_zeroed(sizeof(*c));
		c->id = id;
		c->n = n;
		c->next = all->cliques;
		fake_mutex_init(&c->lock);
		bb_clock_open_moment(&c->changed);
		for (int i = 0; i < FAKE_MOST_RANKS; i++)
			bb_clock_open_moment(&c->mail[i]);
		all->cliques = c;
	}
	c->refs++;
	pthread_mutex_unlock(&all->lock);
	return c;
}

static void leave_clique(struct fake_clique *c)
{
	struct fake_shared *const all = fake_shared();
	struct fake_clique **link = &all->cliques;
	bool last;

	pthread_mutex_lock(&all->lock);
	last = --c->refs == 0;
	while (last && *link != c)
		link = &(*link)->next;
	if (last)
		*link = c->next;
	pthread_mutex_unlock(&all->lock);
	if (!last)
		return;
	while (c->meetings) {
		struct fake_meeting *m = c->meetings;

		c->meetings = m->next;
		fake_free(m, sizeof(*m));
	}
	pthread_cond_destroy(&c->changed);
	for (int i = 0; i < FAKE_MOST_RANKS; i++)
		pthread_cond_destroy(&c->mail[i]);
	pthread_mutex_destroy(&c->lock);
	fake_free(c, sizeof(*c));
}

void fake_comm_hold(ncclComm_t comm)
{
	pthread_mutex_lock(&comm->clique->lock);
	comm->refs++;
	pthread_mutex_unlock(&comm->clique->lock);
}

void fake_comm_drop(ncclComm_t comm)
{
	struct fake_clique *c = comm->clique;
	bool last;

	pthread_mutex_lock(&c->lock);
	last = --comm->refs == 0;
	pthread_mutex_unlock(&c->lock);
	if (!last)
		return;
	free(comm);
	leave_clique(c);
}

static const char *environment(const char *name)
{
	const char *const value = getenv(name);

	return value ? value : "";
}

static bool is_token(const char *token, size_t length, const char *const *tokens)
{
	for (; *tokens; tokens++)
		if (strlen(*tokens) == length && strncasecmp(*tokens, token, length) == 0)
			return true;
	return false;
}

/* NCCL_ALGO and NCCL_PROTO are lists; a name that is not known is refused. */
static ncclResult_t check_list(const char *name, const char *const *tokens)
{
	const char *list = environment(name);

	while (*list) {
		const size_t length = strcspn(list, ",");

		if (!is_token(list, length, tokens))
			return fake_complain(ncclInvalidUsage,
					     "Unrecognized element token \"%.*s\" when parsing %s",
					     (int)length, list, name);
		list += length + (list[length] == ',');
	}
	return ncclSuccess;
}

static ncclResult_t check_environment(void)
{
	static const char *const algorithms[] = {
		"Tree", "Ring", "CollnetDirect", "CollnetChain", "NVLS", "NVLSTree", "PAT", NULL};
	static const char *const protocols[] = {"LL", "LL128", "Simple", NULL};
	ncclResult_t result = check_list("NCCL_ALGO", algorithms);

	return result == ncclSuccess ? check_list("NCCL_PROTO", protocols) : result;
}

/* The first to come says what the environment is; locked. */
static void note_environment(struct fake_clique *c)
{
	const char *const algorithm = environment("NCCL_ALGO");
	const char *const protocol = environment("NCCL_PROTO");

	if (c->joined++ == 0) {
		snprintf(c->algorithm, sizeof(c->algorithm), "%s", algorithm);
		snprintf(c->protocol, sizeof(c->protocol), "%s", protocol);
	} else if (strcmp(c->algorithm, algorithm) != 0 || strcmp(c->protocol, protocol) != 0) {
		fake_misused("ranks of a communicator find different environments");
	}
}

/* By the card's bus, from 2.30 on by the UUID of its part. */
static bool is_same_gpu(int a, int b)
{
	return fake_version() < BB_NCCL_SINCE_UUIDS ? fake_card(a - 1) == fake_card(b - 1) : a == b;
}

/* NCCL lets ranks share a GPU when it is told so, or that they are on several hosts. Locked. */
static ncclResult_t check_gpu(const struct fake_clique *c, int rank)
{
	if (strcmp(environment("NCCL_MULTI_RANK_GPU_ENABLE"), "1") == 0) {
		if (!fake_loads_eagerly())
			fake_misused("ranks may share a GPU, and kernels are loaded lazily");
		return ncclSuccess;
	}
	for (int r = 0; r < c->n; r++)
		if (r != rank && c->gpus[r] > 0 && is_same_gpu(c->gpus[r], c->gpus[rank]) &&
		    strcmp(c->hosts[r], c->hosts[rank]) == 0)
			return fake_complain(ncclInvalidUsage,
					     "Duplicate GPU detected : rank %d and rank %d both on "
					     "CUDA device %d",
					     rank, r, c->gpus[rank] - 1);
	return ncclSuccess;
}

/* What a user of the library has set, as far as the header has it. */
static void tell_config(const char *how, const ncclConfig_t *config)
{
	if (!fake_number("BUSBENCH_FAKE_CONFIG", 0))
		return;
	fprintf(stderr, "fake: communicator by %s with", how);
#if NCCL_VERSION_CODE >= BB_NCCL_SINCE_NVLINK_SCHEDULING
	fprintf(stderr, " nvlinkCentricSched=%d", config->nvlinkCentricSched);
#endif
#if NCCL_VERSION_CODE >= BB_NCCL_SINCE_POLICIES
	if (config->CTAPolicy != NCCL_CTA_POLICY_DEFAULT)
		fprintf(stderr, " CTAPolicy=%d", config->CTAPolicy);
#endif
#if NCCL_VERSION_CODE >= BB_NCCL_SINCE_PEERS
	if (config->maxP2pPeers != NCCL_CONFIG_UNDEF_INT)
		fprintf(stderr, " maxP2pPeers=%d", config->maxP2pPeers);
#endif
	fprintf(stderr, "\n");
}

/* RANK of N comes to the communicator of NUMBER and waits for the others. */
static ncclResult_t join_clique(ncclComm_t *comm, uint64_t number, int n, int rank,
				const ncclConfig_t *config)
{
	struct fake_clique *const c = find_clique(number, n);
	ncclResult_t result;

	pthread_mutex_lock(&c->lock);
	note_environment(c);
	c->gpus[rank] = 1 + fake_gpu(fake_device());
	snprintf(c->hosts[rank], sizeof(c->hosts[rank]), "%s", environment("NCCL_HOSTID"));
	pthread_cond_broadcast(&c->changed);
	while (c->joined < n && !fake_has_failed())
		fake_wait(&c->changed, &c->lock);
	result = c->joined == n ? check_gpu(c, rank)
				: fake_complain(ncclRemoteError, "a rank did not come");
	pthread_mutex_unlock(&c->lock);
	if (result != ncclSuccess) {
		leave_clique(c);
		return result;
	}
	*comm = calloc(1, sizeof(**comm));
	if (!*comm)
		abort();
	**comm = (struct ncclComm){.clique = c, .rank = rank, .refs = 1};
	fake_made(FAKE_COMM);
#if NCCL_VERSION_CODE >= BB_NCCL_SINCE_NAMES
	fake_profiler_begin(*comm, config->commName);
#endif
	return ncclSuccess;
}

static ncclResult_t init_rank(ncclComm_t *comm, int n, const ncclUniqueId *id, int rank,
			      const ncclConfig_t *config)
{
	ncclResult_t result = check_environment();
	uint64_t number;

	if (result != ncclSuccess)
		return result;
	while (rank == n - 1 && fake_number("BUSBENCH_FAKE_STUCK", 0))
		sleep(1);
	if (n > FAKE_MOST_RANKS || rank < 0 || rank >= n)
		return fake_complain(ncclInvalidArgument, "rank %d of %d", rank, n);
	memcpy(&number, id->internal, sizeof(number));
	if (number == 0)
		return fake_complain(ncclInvalidArgument, "an ID that nobody made");
	return join_clique(comm, number, n, rank, config);
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int n, ncclUniqueId id, int rank,
				    ncclConfig_t *config)
{
	FAKE_NCCL();
	if (rank == 0)
		tell_config("one ID", config);
	return init_rank(comm, n, &id, rank, config);
}

#if NCCL_VERSION_CODE >= BB_NCCL_SINCE_ROOTS
/* All ranks have the same IDs, each made by somebody; the first one names the communicator. */
ncclResult_t ncclCommInitRankScalable(ncclComm_t *comm, int n, int rank, int nids,
				      ncclUniqueId *ids, ncclConfig_t *config)
{
	char how[32];

	FAKE_NCCL();
	snprintf(how, sizeof(how), "%d IDs", nids);
	if (rank == 0)
		tell_config(how, config);
	for (int i = 1; i < nids; i++) {
		uint64_t number;

		memcpy(&number, ids[i].internal, sizeof(number));
		if (number == 0)
			return fake_complain(ncclInvalidArgument, "an ID that nobody made");
	}
	return init_rank(comm, n, ids, rank, config);
}
#endif

/* All ranks of the parent have come with color and key; locked. False: a call was let fail. */
static bool meet_split(struct fake_clique *c)
{
	struct fake_shared *const all = fake_shared();

	if (++c->split.arrived == c->n) {
		pthread_mutex_lock(&all->lock);
		c->split.id = all->ids + 1;
		all->ids += (uint64_t)c->n;
		pthread_mutex_unlock(&all->lock);
		pthread_cond_broadcast(&c->changed);
	}
	while (c->split.arrived < c->n && !fake_has_failed())
		fake_wait(&c->changed, &c->lock);
	return c->split.arrived == c->n;
}

/* By color and key of all ranks: the number of RANK's part, its ranks, and its own rank; locked. */
static uint64_t find_part(const struct fake_clique *c, int rank, int *n, int *me)
{
	int first = -1;

	*n = *me = 0;
	for (int r = 0; r < c->n; r++) {
		if (c->split.colors[r] != c->split.colors[rank])
			continue;
		first = first < 0 ? r : first;
		++*n;
		*me += c->split.keys[r] < c->split.keys[rank] ||
		       (c->split.keys[r] == c->split.keys[rank] && r < rank);
	}
	return c->split.id + (uint64_t)first;
}

/* Every rank has a color. */
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *part,
			   ncclConfig_t *config)
{
	struct fake_clique *const c = comm->clique;
	uint64_t number;
	bool met;
	int n, me;

	FAKE_NCCL();
	if (color < 0)
		return fake_complain(ncclInvalidArgument, "color %d", color);
	if (comm->rank == 0)
		tell_config("split", config);
	pthread_mutex_lock(&c->lock);
	if (comm->running > 0)
		fake_misused("a communicator is split while it has work");
	while (c->split.left > 0 && !fake_has_failed())
		fake_wait(&c->changed, &c->lock);
	c->split.colors[comm->rank] = color;
	c->split.keys[comm->rank] = key;
	met = meet_split(c);
	number = find_part(c, comm->rank, &n, &me);
	if (met && ++c->split.left == c->n)
		c->split.arrived = c->split.left = 0;
	pthread_mutex_unlock(&c->lock);
	if (!met)
		return fake_complain(ncclRemoteError, "a rank did not come");
	return join_clique(part, number, n, me, config);
}

static void close_comm(ncclComm_t comm)
{
	if (fake_group_depth() > 0)
		fake_misused("a communicator is let go within a group of calls");
	for (int i = 0; i < comm->registrations; i++)
		fake_let_go(FAKE_REGISTRATION);
	for (int i = 0; i < comm->device_comms; i++)
		fake_let_go(FAKE_DEVICE_COMM);
	for (int i = 0; i < comm->noperations; i++)
		if (comm->open[i])
			fake_let_go(FAKE_OPERATION);
	fake_profiler_end(comm);
	fake_let_go(FAKE_COMM);
	fake_comm_drop(comm);
}

/* All ranks come to it, with nothing left to do. */
ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
	struct fake_clique *c = comm->clique;
	const bool fails = fake_enter(__func__);
	bool together;

	pthread_mutex_lock(&c->lock);
	if (comm->refs > 1)
		fake_misused("a communicator is destroyed while it has work");
	if (comm->registrations > 0)
		fake_misused("a communicator is destroyed with %d registrations",
			     comm->registrations);
	if (comm->device_comms > 0)
		fake_misused("a communicator is destroyed with its device part");
	c->left++;
	pthread_cond_broadcast(&c->changed);
	while (c->left < c->n && !fake_has_failed())
		fake_wait(&c->changed, &c->lock);
	together = c->left == c->n;
	pthread_mutex_unlock(&c->lock);
	close_comm(comm);
	if (fails)
		return fake_complain(ncclSystemError, "ncclCommDestroy was to fail");
	return together ? ncclSuccess : fake_complain(ncclRemoteError, "a rank did not come");
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
	struct fake_clique *c = comm->clique;
	const bool fails = fake_enter(__func__);

	pthread_mutex_lock(&c->lock);
	comm->aborted = true;
	pthread_cond_broadcast(&c->changed);
	while (comm->running > 0)
		fake_wait(&c->changed, &c->lock);
	pthread_mutex_unlock(&c->lock);
	close_comm(comm);
	return fails ? fake_complain(ncclSystemError, "ncclCommAbort was to fail") : ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
	FAKE_NCCL();
	*error = (ncclResult_t)atomic_load(&comm->error);
	return ncclSuccess;
}

bool fake_is_over(ncclComm_t comm)
{
	return comm->aborted;
}

/* ---- algorithms -------------------------------------------------------------------- */

/* One node without a network that reduces and without NVSwitch. */
static bool has_algorithm(enum fake_kind kind, const char *name, size_t length)
{
	if (strncasecmp(name, "Ring", length) == 0)
		return true;
	if (strncasecmp(name, "Tree", length) == 0)
		return kind == FAKE_ALL_REDUCE;
	if (strncasecmp(name, "PAT", length) == 0)
		return kind == FAKE_ALL_GATHER || kind == FAKE_REDUCE_SCATTER;
	return false;
}

ncclResult_t fake_check_algorithm(ncclComm_t comm, enum fake_kind kind, ncclDataType_t type)
{
	const char *list = comm->clique->algorithm;

	if (!*list || kind > FAKE_REDUCE)
		return ncclSuccess;
	for (; *list; list += strcspn(list, ",") + (list[strcspn(list, ",")] == ','))
		if (has_algorithm(kind, list, strcspn(list, ",")))
			return ncclSuccess;
	if (fake_number("BUSBENCH_FAKE_LAX", 0))
		return ncclSuccess;
	return fake_complain(fake_number("BUSBENCH_FAKE_INTERNAL", 0) ? ncclInternalError
								      : ncclInvalidUsage,
			     "No algorithm/protocol%s available for function %d with datatype %d. "
			     "NCCL_ALGO was set to %s.",
			     fake_version() >= 23100 ? " nor symKernelId" : "", (int)kind,
			     (int)type, comm->clique->algorithm);
}
