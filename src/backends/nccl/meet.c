/*
 * All ranks exchange the location and capabilities of their GPUs before the first communicator.
 * Processes number their GPUs separately, so only this shows whether two ranks share one.
 */
#include "backends/nccl/nccl.h"

#include "core/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

bb_status bb_nccl_gather(struct bb_rank *rank, const struct bb_payload *table, const void *mine,
			 void *all)
{
	const struct bb_exchange *exchange = &rank->context->config.exchange;

	return exchange->gather(exchange->own, rank->local, table, mine, all);
}

/* ---- hosts --------------------------------------------------------------------------- */

#define EMPTY_HASH UINT64_C(0xcbf29ce484222325)

/* FNV-1a. */
static uint64_t hash_add(uint64_t hash, const char *text)
{
	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
	return hash;
}

/* The host's name and its boot: processes that agree in both can share memory. */
static uint64_t identify_machine(const char *name)
{
	char boot[64];

	bb_kernel_read("/proc/sys/kernel/random/boot_id", boot, sizeof(boot));
	return hash_add(hash_add(EMPTY_HASH, name), boot);
}

/* NCCL treats ranks of one NCCL_HOSTID as one host, so a machine may appear as several. */
static uint64_t identify_host(uint64_t machine)
{
	const char *const given = getenv("NCCL_HOSTID");

	return given && *given ? hash_add(EMPTY_HASH, given) : machine;
}

static struct rank_gpu rank_gpu_describe(const struct bb_rank *rank)
{
	struct rank_gpu rank_gpu;

	memset(&rank_gpu, 0, sizeof(rank_gpu)); /* padding is sent, too */
	rank_gpu.host = identify_host(rank->machine);
	snprintf(rank_gpu.name, sizeof(rank_gpu.name), "%s", rank->location.host);
	snprintf(rank_gpu.bus, sizeof(rank_gpu.bus), "%s", rank->location.bus);
	memcpy(rank_gpu.uuid, rank->uuid, sizeof(rank_gpu.uuid));
	rank_gpu.shares = bb_nccl_may_share();
	rank_gpu.capability = rank->capability;
	rank_gpu.version = rank->version;
	rank_gpu.ranks_per_root = rank->ranks_per_root;
	return rank_gpu;
}

/* ---- GPUs ---------------------------------------------------------------------------- */

/* By NCCL's rule: before 2.30.7 the parts of a GPU under MIG are one GPU. */
static bool is_same_gpu(const struct rank_gpu *a, const struct rank_gpu *b)
{
	const bool by_bus = (a->version > 0 && a->version < BB_NCCL_SINCE_UUIDS) ||
			    (b->version > 0 && b->version < BB_NCCL_SINCE_UUIDS);

	if (a->host != b->host)
		return false;
	return by_bus ? strcmp(a->bus, b->bus) == 0
		      : memcmp(a->uuid, b->uuid, sizeof(a->uuid)) == 0;
}

/* Does a rank before R have R's GPU? */
static bool is_taken(const struct rank_gpu *all, int r)
{
	for (int before = 0; before < r; before++)
		if (is_same_gpu(&all[before], &all[r]))
			return true;
	return false;
}

static bb_status refuse_sharing(const struct bb_rank *rank, const struct rank_gpu *all, int shared)
{
	int ranks = 0, gpus = 0;

	for (int r = 0; r < rank->context->world.nranks; r++) {
		if (all[r].host != all[shared].host)
			continue;
		ranks++;
		gpus += !is_taken(all, r);
	}
	return bb_fail(rank->context->error, BB_EUSAGE,
		       "%d GPUs are requested on host %s, but its processes see %d: each rank "
		       "needs its own (unless NCCL_MULTI_RANK_GPU_ENABLE=1, from NCCL 2.30 on; "
		       "the parts of a GPU under MIG are one GPU to earlier versions)",
		       ranks, all[shared].name, gpus);
}

bb_status bb_nccl_meet(struct bb_rank *rank)
{
	const int n = rank->context->world.nranks;
	struct rank_gpu *all = calloc((size_t)n, sizeof(*all));
	struct rank_gpu mine;
	bb_status status;

	if (!all)
		return bb_no_memory(rank->context->error, "a rank");
	rank->machine = identify_machine(rank->location.host);
	mine = rank_gpu_describe(rank);
	status = bb_nccl_gather(rank, &rank_gpu_table, &mine, all);
	for (int r = 0; r < n && status == BB_OK; r++) {
		if (!all[r].shares && is_taken(all, r))
			status = refuse_sharing(rank, all, r);
		if (all[r].capability < rank->capability)
			rank->capability = all[r].capability;
		if (all[r].version < rank->version)
			rank->version = all[r].version;
		if (all[r].ranks_per_root < rank->ranks_per_root)
			rank->ranks_per_root = all[r].ranks_per_root;
	}
	free(all);
	return status;
}
