/*
 * Routes between two ranks: direct access to the peer's memory by copy engine or kernel, pinned
 * host memory between them, and NCCL's messages; and round trips of small messages.
 */
#include "backends/nccl/nccl.h"

#include "core/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FLAG_BYTES sizeof(uint64_t)
#define NO_NCCL                                                                                    \
	"NCCL (libnccl.so.2) is missing or not usable; set NCCL_HOME, or add its folder to "       \
	"LD_LIBRARY_PATH"

enum route_kind { READ, WRITE, READ_KERNEL, WRITE_KERNEL, STAGED, SEND, WORD, COPY };

static const struct bb_route routes[] = {
	[READ] = {.name = "read",
		  .brief = "the target's copy engine, from the source's memory",
		  .uses = BB_ROUTE_TRANSFER,
		  .actor = BB_BY_TARGET,
		  .direct = true},
	[WRITE] = {.name = "write",
		   .brief = "the source's copy engine, into the target's memory",
		   .uses = BB_ROUTE_TRANSFER,
		   .actor = BB_BY_SOURCE,
		   .direct = true},
	[READ_KERNEL] = {.name = "read-kernel",
			 .brief = "a kernel of the target that loads from the source's memory",
			 .uses = BB_ROUTE_TRANSFER,
			 .actor = BB_BY_TARGET,
			 .direct = true},
	[WRITE_KERNEL] = {.name = "write-kernel",
			  .brief = "a kernel of the source that stores into the target's memory",
			  .uses = BB_ROUTE_TRANSFER,
			  .actor = BB_BY_SOURCE,
			  .direct = true},
	[STAGED] = {.name = "staged",
		    .brief = "through pinned memory of the host, in pieces",
		    .uses = BB_ROUTE_TRANSFER,
		    .actor = BB_BY_BOTH},
	[SEND] = {.name = "send",
		  .brief = "ncclSend and ncclRecv",
		  .uses = BB_ROUTE_TRANSFER,
		  .actor = BB_BY_BOTH,
		  .direct = true,
		  .switched = true,
		  .batches = true},
	[WORD] = {.name = "word",
		  .brief = "a kernel of each spins on a word that the other's writes",
		  .uses = BB_ROUTE_PING,
		  .actor = BB_BY_BOTH,
		  .direct = true},
	[COPY] = {.name = "copy",
		  .brief = "8 bytes by copy engine, there and back",
		  .uses = BB_ROUTE_PING,
		  .actor = BB_BY_SOURCE,
		  .direct = true},
	{.name = NULL},
};

static enum route_kind route_kind_of(const struct bb_route *route)
{
	return (enum route_kind)(route - routes);
}

/* ---- NCCL's switch of P2P ------------------------------------------------------------ */

static const struct bb_library_state states[] = {
	{"P2P where the GPUs have it", "NCCL_P2P_DISABLE=0", true},
	{"no P2P", "NCCL_P2P_DISABLE=1", false},
	{NULL, NULL, false},
};

static bb_status library_p2p(struct bb_context *context, bool *p2p, char text[BB_SWITCH_TEXT])
{
	const char *const disabled = getenv("NCCL_P2P_DISABLE"), *const level =
									 getenv("NCCL_P2P_LEVEL");

	if (context->nccl.version == 0)
		snprintf(text, BB_SWITCH_TEXT, "no usable NCCL");
	else if (disabled && *disabled)
		snprintf(text, BB_SWITCH_TEXT, "NCCL_P2P_DISABLE=%s", disabled);
	else if (level && *level)
		snprintf(text, BB_SWITCH_TEXT, "NCCL_P2P_LEVEL=%s", level);
	else
		snprintf(text, BB_SWITCH_TEXT, "NCCL_P2P_DISABLE is not set");
	*p2p = !(disabled && *disabled && strcmp(disabled, "0") != 0) &&
	       !(level && (strcmp(level, "LOC") == 0 || strcmp(level, "0") == 0));
	/* With several processes only some may lack NCCL, yet all must return the same. */
	if (context->nccl.version == 0 && context->world.nprocs == 1)
		*p2p = false;
	return BB_OK;
}

static const char *route_refuses(struct bb_group *group, const struct bb_route *route, int number)
{
	const struct bb_rank *rank = group->rank;
	const struct bb_nccl_peer *peer = &rank->peers[group->members[number]];
	const enum route_kind kind = route_kind_of(route);

	if (number == group->me)
		return kind <= WRITE_KERNEL ? NULL : "the peer is the rank itself";
	if (kind == SEND)
		return rank->version > 0 ? NULL : NO_NCCL;
	/* Without NCCL the two ranks can only meet in shared host memory. */
	if (rank->version == 0 && peer->apart)
		return peer->apart;
	if (kind == STAGED)
		return peer->within ? NULL : peer->apart;
	if (kind == WORD && peer->shares_gpu)
		return "the ranks share a GPU, which may not run the kernels of both at once";
	return peer->why;
}

/* ---- transfers ----------------------------------------------------------------------- */

static bb_status copy_issue(struct bb_rank *rank, bool by_kernel, void *dst, const void *src,
			    size_t bytes)
{
	if (bytes == 0)
		return BB_OK;
	if (by_kernel)
		return BB_CUDA(rank, bb_gpu_copy(bb_nccl_lane(rank, rank->main), dst, src, bytes));
	return BB_CUDA(rank, cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, rank->main));
}

static double slowness(const struct bb_group *group, int from, int to)
{
	return bb_route_slowness(&group->rank->context->config, group->members[from],
				 group->members[to]);
}

/* Wait for what was issued at START, and then SLOW times as long again. */
static bb_status slow_down(struct bb_rank *rank, double slow, double start)
{
	bb_status status;

	if (slow == 0)
		return BB_OK;
	status = bb_nccl_wait(rank, rank->main);
	bb_clock_pause(slow * (bb_clock_now() - start), &rank->context->aborted);
	return status;
}

static bb_status route_transfer(struct bb_group *group, const struct bb_route *route, int peer,
				const struct bb_half *out, const struct bb_half *in)
{
	struct bb_rank *rank = group->rank;
	const double start = bb_clock_now();
	const enum route_kind kind = route_kind_of(route);
	const bool outward = kind == WRITE || kind == WRITE_KERNEL;
	double slow = 0;
	bb_status status;

	if (bb_nccl_aborted(rank->context))
		return BB_ETIMEOUT;
	if (kind == STAGED)
		status = bb_nccl_stage(group, peer, out, in);
	else if (kind == SEND)
		status = bb_nccl_exchange(group, peer, out, peer, in);
	else if (outward)
		status = copy_issue(rank, kind == WRITE_KERNEL, out->theirs, out->mine, out->bytes);
	else
		status = copy_issue(rank, kind == READ_KERNEL, in->mine, in->theirs, in->bytes);
	if (outward && out->bytes)
		slow = slowness(group, group->me, peer);
	if (!outward && in->bytes)
		slow = slowness(group, peer, group->me);
	return status == BB_OK ? slow_down(rank, slow, start) : status;
}

/* A group call around those of the transfers: NCCL begins all at its end. */
static bb_status route_batch(struct bb_group *group, const struct bb_route *route, bool end)
{
	struct bb_rank *rank = group->rank;

	return end ? bb_nccl_messages_end(rank, BB_OK) : BB_NCCL(rank, ncclGroupStart());
}

/* ---- round trips --------------------------------------------------------------------------- */

/* Offset in a scratch area of the flags that rank MEMBER writes. */
static size_t flag_at(const struct bb_context *context, int member)
{
	return bb_nccl_scratch_flags(context) + (size_t)member * BB_SCRATCH_FLAG;
}

/* The kernel also polls rank->halt, so that it ends if the peer never answers. */
static bb_status ping_flag(struct bb_group *group, int number, bool first, size_t rounds)
{
	struct bb_rank *rank = group->rank;
	const int other = group->members[number];
	struct bb_nccl_peer *peer = &rank->peers[other];
	char *const mine = rank->scratch + flag_at(rank->context, other);
	char *const theirs = peer->scratch + flag_at(rank->context, rank->rank);
	bb_status status;

	BB_TRY(status,
	       BB_CUDA(rank, bb_gpu_ping(bb_nccl_lane(rank, rank->main), (unsigned *)theirs,
					 (const unsigned *)mine, (const unsigned *)rank->halt,
					 peer->pings, first, rounds)),
	       out);
	peer->pings += (uint32_t)rounds;
	status = bb_nccl_wait(rank, rank->main);
out:
	return status;
}

/* The rank that is FIRST copies the flag there and back, in stream order; the other does nothing.
 */
static bb_status ping_copy(struct bb_group *group, int number, bool first, size_t rounds)
{
	struct bb_rank *rank = group->rank;
	const int other = group->members[number];
	char *const mine = rank->scratch + flag_at(rank->context, other) + FLAG_BYTES;
	char *const theirs =
		rank->peers[other].scratch + flag_at(rank->context, rank->rank) + FLAG_BYTES;
	bb_status status = BB_OK;

	for (size_t i = 0; i < rounds && first && status == BB_OK; i++) {
		status = copy_issue(rank, false, theirs, mine, FLAG_BYTES);
		if (status == BB_OK)
			status = copy_issue(rank, false, mine, theirs, FLAG_BYTES);
	}
	return status == BB_OK ? bb_nccl_wait(rank, rank->main) : status;
}

static bb_status route_ping(struct bb_group *group, const struct bb_route *route, int peer,
			    bool first, size_t rounds)
{
	const double start = bb_clock_now();
	bb_status status = route_kind_of(route) == WORD ? ping_flag(group, peer, first, rounds)
							: ping_copy(group, peer, first, rounds);
	const double slow =
		0.5 * (slowness(group, group->me, peer) + slowness(group, peer, group->me));

	return status == BB_OK ? slow_down(group->rank, slow, start) : status;
}

/* ---- a rank's part ------------------------------------------------------------------- */

void bb_nccl_routes_close(struct bb_rank *rank)
{
	bb_nccl_lanes_close(rank);
	bb_nccl_peers_close(rank);
}

static const struct bb_route_switch route_switch = {.states = states, .p2p = library_p2p};

const struct bb_routes bb_nccl_routes = {
	.list = routes,
	.library = &route_switch,
	.refuses = route_refuses,
	.share = bb_nccl_share,
	.reach = bb_nccl_reach,
	.unreach = bb_nccl_unreach,
	.transfer = route_transfer,
	.batch = route_batch,
	.ping = route_ping,
};
