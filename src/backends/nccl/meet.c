/*
 * What all ranks tell each other before the first communicator: whose GPU is where, and what it can
 * do. Only then is it known whether processes that number their GPUs apart have different ones.
 */
#include "backends/nccl/nccl.h"

#include "core/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct card {
	uint64_t host; /* as the library tells hosts apart */
	char name[64]; /* of the host */
	char bus[16];
	unsigned char uuid[16]; /* see struct bb_rank */
	bool shares;            /* see bb_nccl_may_share */
	int capability;
	int version;
	int per_root;
};

static const struct bb_payload_field card_fields[] = {
	BB_PAYLOAD_FIELD("the host", BB_PAYLOAD_ANY, struct card, host),
	BB_PAYLOAD_FIELD("the name", BB_PAYLOAD_TEXT, struct card, name),
	BB_PAYLOAD_FIELD("the bus", BB_PAYLOAD_TEXT, struct card, bus),
	BB_PAYLOAD_FIELD("the UUID", BB_PAYLOAD_ANY, struct card, uuid),
	BB_PAYLOAD_FIELD("the sharing mark", BB_PAYLOAD_UNSIGNED, struct card, shares, .high = 1),
	BB_PAYLOAD_FIELD("the capability", BB_PAYLOAD_SIGNED, struct card, capability,
			 .high = INT32_MAX),
	BB_PAYLOAD_FIELD("the version", BB_PAYLOAD_SIGNED, struct card, version, .high = INT32_MAX),
	BB_PAYLOAD_FIELD("the ranks of a root", BB_PAYLOAD_SIGNED, struct card, per_root, .low = 1,
			 .high = INT32_MAX),
	{.name = NULL}};
static const struct bb_payload card_table = {"a card", sizeof(struct card), card_fields, NULL};

bb_status bb_nccl_gather(struct bb_rank *rank, const struct bb_payload *table, const void *mine,
			 void *all)
{
	const struct bb_exchange *exchange = &rank->context->config.exchange;

	return exchange->gather(exchange->own, rank->local, table, mine, all);
}

/* ---- hosts --------------------------------------------------------------------------- */

#define EMPTY_HASH UINT64_C(0xcbf29ce484222325)

/* FNV-1a of all that was added to HASH. */
static uint64_t add(uint64_t hash, const char *text)
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
	return add(add(EMPTY_HASH, name), boot);
}

/* What NCCL takes for one host: NCCL_HOSTID, which may split a machine into several. */
static uint64_t identify_host(uint64_t machine)
{
	const char *const given = getenv("NCCL_HOSTID");

	return given && *given ? add(EMPTY_HASH, given) : machine;
}

static struct card describe(const struct bb_rank *rank)
{
	struct card card;

	memset(&card, 0, sizeof(card)); /* it is sent as it is */
	card.host = identify_host(rank->machine);
	snprintf(card.name, sizeof(card.name), "%s", rank->location.host);
	snprintf(card.bus, sizeof(card.bus), "%s", rank->location.bus);
	memcpy(card.uuid, rank->uuid, sizeof(card.uuid));
	card.shares = bb_nccl_may_share();
	card.capability = rank->capability;
	card.version = rank->version;
	card.per_root = rank->per_root;
	return card;
}

/* ---- GPUs ---------------------------------------------------------------------------- */

/* As the library tells them apart: before 2.30.7 the parts of a GPU (MIG) are one to it. */
static bool is_same_gpu(const struct card *a, const struct card *b)
{
	const bool by_bus = (a->version > 0 && a->version < BB_NCCL_SINCE_UUIDS) ||
			    (b->version > 0 && b->version < BB_NCCL_SINCE_UUIDS);

	if (a->host != b->host)
		return false;
	return by_bus ? strcmp(a->bus, b->bus) == 0
		      : memcmp(a->uuid, b->uuid, sizeof(a->uuid)) == 0;
}

/* Does a rank before R have its GPU? */
static bool is_taken(const struct card *cards, int r)
{
	for (int before = 0; before < r; before++)
		if (is_same_gpu(&cards[before], &cards[r]))
			return true;
	return false;
}

static bb_status refuse_sharing(const struct bb_rank *rank, const struct card *cards, int shared)
{
	int ranks = 0, gpus = 0;

	for (int r = 0; r < rank->context->world.nranks; r++) {
		if (cards[r].host != cards[shared].host)
			continue;
		ranks++;
		gpus += !is_taken(cards, r);
	}
	return bb_fail(rank->context->error, BB_EUSAGE,
		       "%d GPUs are requested on host %s, but its processes see %d: each rank "
		       "needs its own (unless NCCL_MULTI_RANK_GPU_ENABLE=1, from NCCL 2.30 on; "
		       "the parts of a GPU under MIG are one GPU to earlier versions)",
		       ranks, cards[shared].name, gpus);
}

bb_status bb_nccl_meet(struct bb_rank *rank)
{
	const int n = rank->context->world.nranks;
	struct card *cards = calloc((size_t)n, sizeof(*cards));
	struct card mine;
	bb_status status;

	if (!cards)
		return bb_no_memory(rank->context->error, "a rank");
	rank->machine = identify_machine(rank->location.host);
	mine = describe(rank);
	status = bb_nccl_gather(rank, &card_table, &mine, cards);
	for (int r = 0; r < n && status == BB_OK; r++) {
		if (!cards[r].shares && is_taken(cards, r))
			status = refuse_sharing(rank, cards, r);
		if (cards[r].capability < rank->capability)
			rank->capability = cards[r].capability;
		if (cards[r].version < rank->version)
			rank->version = cards[r].version;
		if (cards[r].per_root < rank->per_root)
			rank->per_root = cards[r].per_root;
	}
	free(cards);
	return status;
}
