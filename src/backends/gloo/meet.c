/*
 * Ranks exchange their places, their clocks and the ends of their connections before they are
 * connected.
 */
#include "backends/gloo/gloo.h"

#include "core/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define IDENTITY 192 /* bytes: a host's name, its boot and its network */
#define PART (IDENTITY / 3)

struct place {
	char host[PART]; /* its name */
	char identity[IDENTITY];
	char clock[BB_CLOCK_NAME];
	bool has_clock;
	char address[BB_GLOO_HOST_ADDRESS];
	int family;
	bool is_loopback;
};

static const struct bb_payload_field place_fields[] = {
	BB_PAYLOAD_FIELD("the host", BB_PAYLOAD_TEXT, struct place, host),
	BB_PAYLOAD_FIELD("the host's identity", BB_PAYLOAD_ANY, struct place, identity),
	BB_PAYLOAD_FIELD("the clock", BB_PAYLOAD_ANY, struct place, clock),
	BB_PAYLOAD_FIELD("the mark of a clock", BB_PAYLOAD_UNSIGNED, struct place, has_clock,
			 .high = 1),
	BB_PAYLOAD_FIELD("the address", BB_PAYLOAD_TEXT, struct place, address),
	BB_PAYLOAD_FIELD("the address family", BB_PAYLOAD_SIGNED, struct place, family,
			 .high = INT32_MAX),
	BB_PAYLOAD_FIELD("the mark of loopback", BB_PAYLOAD_UNSIGNED, struct place, is_loopback,
			 .high = 1),
	{.name = NULL}};
static const struct bb_payload place_table = {"a place", sizeof(struct place), place_fields, NULL};

static bb_status ranks_gather(struct bb_rank *rank, const struct bb_payload *table,
			      const void *mine, void *all)
{
	const struct bb_exchange *exchange = &rank->context->cpu.config.exchange;

	return exchange->gather(exchange->own, rank->local, table, mine, all);
}

static void place_describe(struct place *place, const struct bb_gloo_choice *choice)
{
	struct bb_location here;

	memset(place, 0, sizeof(*place)); /* padding is sent, too */
	bb_location_here(&here);
	snprintf(place->host, sizeof(place->host), "%s", here.host);
	memcpy(place->identity, place->host, PART);
	bb_kernel_read("/proc/sys/kernel/random/boot_id", place->identity + PART, PART);
	/* Network namespaces of one host have loopback addresses of their own. */
	if (readlink("/proc/self/ns/net", place->identity + 2 * PART, PART) < 0)
		place->identity[2 * PART] = '\0';
	place->has_clock = bb_clock_identify(place->clock);
	snprintf(place->address, sizeof(place->address), "%s", choice->address);
	place->family = choice->family;
	place->is_loopback = choice->is_loopback;
}

/* Can the addresses of all ranks reach each other, as far as they show? */
static bb_status check_places(const struct bb_rank *rank, const struct place *all)
{
	struct bb_error *const error = rank->context->cpu.error;
	const int n = rank->context->cpu.world.nranks;

	for (int r = 1; r < n; r++)
		if (all[r].family != all[0].family)
			return bb_fail(error, BB_EUSAGE,
				       "Gloo's ranks 0 (%s, %s) and %d (%s, %s) announce addresses "
				       "of different families; set GLOO_SOCKET_IFNAME to an "
				       "interface that has the same family on all hosts",
				       all[0].host, all[0].address, r, all[r].host, all[r].address);
	for (int r = 0; r < n; r++)
		for (int o = 0; o < n && all[r].is_loopback; o++)
			if (rank->hosts[o] != rank->hosts[r])
				return bb_fail(
					error, BB_EUSAGE,
					"rank %d (%s) announces the loopback address %s, which "
					"rank %d (%s) cannot reach; set GLOO_SOCKET_IFNAME to the "
					"interface between the hosts",
					r, all[r].host, all[r].address, o, all[o].host);
	return BB_OK;
}

static bb_status exchange_places(struct bb_rank *rank)
{
	const int n = rank->context->cpu.world.nranks;
	struct place *all = calloc((size_t)n, sizeof(*all)), mine;
	bb_status status;

	rank->hosts = calloc((size_t)n, sizeof(*rank->hosts));
	if (!all || !rank->hosts) {
		free(all);
		return bb_no_memory(rank->context->cpu.error, "a rank");
	}
	place_describe(&mine, &rank->context->choice);
	status = ranks_gather(rank, &place_table, &mine, all);
	rank->one_clock = mine.has_clock;
	for (int r = 0; r < n && status == BB_OK; r++) {
		while (memcmp(all[rank->hosts[r]].identity, all[r].identity, IDENTITY) != 0)
			rank->hosts[r]++;
		rank->one_clock &=
			all[r].has_clock && memcmp(all[r].clock, all[0].clock, BB_CLOCK_NAME) == 0;
	}
	if (status == BB_OK)
		status = check_places(rank, all);
	free(all);
	return status;
}

/* MINE[i] is the end for rank i. It is replaced by the end that rank i made for this rank. */
static bb_status exchange_ends(struct bb_rank *rank, struct bb_gloo_address *mine)
{
	const size_t n = (size_t)rank->context->cpu.world.nranks;
	const struct bb_payload_field fields[] = {
		{.name = "the length of an address",
		 .kind = BB_PAYLOAD_UNSIGNED,
		 .offset = offsetof(struct bb_gloo_address, bytes),
		 .bytes = sizeof(mine->bytes),
		 .count = n,
		 .stride = sizeof(*mine),
		 .high = BB_GLOO_ADDRESS},
		{.name = NULL}};
	const struct bb_payload table = {"addresses", n * sizeof(*mine), fields, NULL};
	struct bb_gloo_address *all = calloc(n * n, sizeof(*all));
	bb_status status;

	if (!all)
		return bb_no_memory(rank->context->cpu.error, "addresses");
	status = ranks_gather(rank, &table, mine, all);
	for (size_t r = 0; r < n && status == BB_OK; r++)
		mine[r] = all[r * n + (size_t)rank->rank];
	free(all);
	return status;
}

static bb_status connect_world(struct bb_rank *rank)
{
	const int n = rank->context->cpu.world.nranks;
	struct bb_gloo_address *ends = calloc((size_t)n, sizeof(*ends));
	bb_status status;

	if (!ends)
		return bb_no_memory(rank->context->cpu.error, "addresses");
	BB_TRY(status, bb_gloo_member_open(rank, rank->rank, n, ends, &rank->world), out);
	BB_TRY(status, exchange_ends(rank, ends), out);
	status = bb_gloo_member_connect(rank, rank->world, NULL, n, ends);
out:
	free(ends);
	return status;
}

bb_status bb_gloo_meet(struct bb_rank *rank)
{
	const bb_status status = exchange_places(rank);

	if (status != BB_OK || rank->context->cpu.world.nranks == 1)
		return status;
	return connect_world(rank);
}
