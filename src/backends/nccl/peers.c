/*
 * Access to memory of other ranks. Within a process its address is valid once peer access is
 * enabled; memory of other processes is mapped by CUDA's handles: those of CUDA IPC, or fabric
 * ones.
 */
#include "backends/nccl/nccl.h"

#include <stdlib.h>
#include <string.h>

/* The content of a bb_token. */
struct shared {
	uint64_t machine; /* see struct bb_rank */
	char bus[16];     /* of the GPU */
	unsigned char uuid[16];
	int proc;
	int device; /* its number in process PROC */
	uint64_t base, offset, scratch;
	struct bb_nccl_staging staging;
	uint64_t bytes, scratch_bytes; /* from BASE and SCRATCH on */
	/* The kind of handles, see struct bb_rank; zeros in a world of one process. */
	enum bb_nccl_obstacle obstacle;
	unsigned char base_handle[BB_NCCL_HANDLE_BYTES], scratch_handle[BB_NCCL_HANDLE_BYTES];
};

_Static_assert(sizeof(struct shared) <= sizeof(((struct bb_token *)NULL)->bytes),
	       "a token has no room");
_Static_assert(sizeof(cudaIpcMemHandle_t) == BB_NCCL_HANDLE_BYTES, "handles have one size");

static bb_status handle_make(struct bb_rank *rank, void *at,
			     unsigned char handle[BB_NCCL_HANDLE_BYTES])
{
	cudaIpcMemHandle_t ipc;
	bb_status status;

	if (rank->fabric)
		return bb_nccl_fabric_export(rank, at, handle);
	status = BB_CUDA(rank, cudaIpcGetMemHandle(&ipc, at));
	if (status == BB_OK)
		memcpy(handle, &ipc, sizeof(ipc));
	return status;
}

bb_status bb_nccl_share(struct bb_rank *rank, void *memory, size_t bytes, struct bb_token *token)
{
	const struct bb_nccl_memory *m = *bb_nccl_memory_link(rank, memory);
	struct shared s = {.machine = rank->machine,
			   .proc = rank->context->world.proc,
			   .device = rank->device,
			   .scratch_bytes = rank->scratch_bytes,
			   .obstacle = rank->obstacle};
	bb_status status = BB_OK;

	if (!m)
		return bb_fail(rank->context->error, BB_EINTERNAL,
			       "rank %d shares memory that it did not allocate", rank->rank);
	s.base = (uintptr_t)m->base;
	s.offset = (uintptr_t)memory - s.base;
	s.bytes = m->bytes;
	s.scratch = (uintptr_t)rank->scratch;
	BB_TRY(status, BB_CUDA(rank, cudaDeviceGetPCIBusId(s.bus, sizeof(s.bus), rank->device)),
	       out);
	if (rank->context->world.nprocs > 1) {
		BB_TRY(status, handle_make(rank, m->base, s.base_handle), out);
		BB_TRY(status, handle_make(rank, rank->scratch, s.scratch_handle), out);
		bb_nccl_staging_open(rank, &s.staging);
	}
	memcpy(s.uuid, rank->uuid, sizeof(s.uuid));
	memset(token, 0, sizeof(*token));
	memcpy(token->bytes, &s, sizeof(s));
out:
	return status;
}

/* Let this rank's GPU access DEVICE, another one; *WHY = why it cannot. */
static bb_status peer_access_enable(struct bb_rank *rank, int device, bool within, const char **why)
{
	cudaError_t result;
	int can = 0;
	bb_status status = BB_CUDA(rank, cudaDeviceCanAccessPeer(&can, rank->device, device));

	if (status != BB_OK)
		return status;
	if (!can) {
		*why = "the GPUs have no access to each other's memory (cudaDeviceCanAccessPeer)";
		return BB_OK;
	}
	if (!within)
		return BB_OK; /* cudaIpcMemLazyEnablePeerAccess does */
	result = cudaDeviceEnablePeerAccess(device, 0);
	if (result != cudaErrorPeerAccessAlreadyEnabled)
		return bb_cuda_check(rank, result, "cudaDeviceEnablePeerAccess", __FILE__,
				     __LINE__);
	cudaGetLastError(); /* clears it */
	return BB_OK;
}

/* BUS as cudaDeviceGetPCIBusId spells it. */
static bool is_on_bus(const struct bb_rank *rank, const char *bus)
{
	const char *const mine = rank->location.bus;

	return strncasecmp(mine, bus, strlen(mine)) == 0;
}

/* *AT = address of BYTES of PEER's memory, in another process. If that is impossible, peer->why is
   the reason. */
static bb_status handle_map(struct bb_rank *rank, struct bb_nccl_peer *peer,
			    const unsigned char handle[BB_NCCL_HANDLE_BYTES], size_t bytes,
			    void **at)
{
	cudaIpcMemHandle_t ipc;

	if (peer->by_fabric)
		return bb_nccl_fabric_import(rank, handle, bytes, at, &peer->why);
	memcpy(&ipc, handle, sizeof(ipc));
	return BB_CUDA(rank, cudaIpcOpenMemHandle(at, ipc, cudaIpcMemLazyEnablePeerAccess));
}

static void handle_unmap(struct bb_rank *rank, const struct bb_nccl_peer *peer, void *at,
			 size_t bytes)
{
	if (peer->by_fabric)
		bb_nccl_fabric_free(rank, at, bytes);
	else
		BB_CUDA_FREE(rank, cudaIpcCloseMemHandle(at));
}

/* Is rank S, in another process, accessed by fabric handles alone? */
static bool is_by_fabric(const struct bb_rank *rank, const struct shared *s)
{
	return s->machine != rank->machine || s->obstacle == BB_NCCL_NO_OBSTACLE ||
	       rank->context->config.handles == BB_HANDLES_FABRIC;
}

/* Map the scratch buffer of rank S, in another process, by its fabric handle. */
static bb_status fabric_open(struct bb_rank *rank, struct bb_nccl_peer *peer,
			     const struct shared *s)
{
	const enum bb_nccl_obstacle obstacle = s->obstacle ? s->obstacle : rank->obstacle;

	peer->by_fabric = true;
	if (obstacle == BB_NCCL_NO_OBSTACLE)
		return handle_map(rank, peer, s->scratch_handle, s->scratch_bytes,
				  (void **)&peer->scratch);
	peer->why = bb_nccl_obstacle_text(obstacle);
	return BB_OK;
}

static bb_status peer_open(struct bb_rank *rank, int other, const struct shared *s)
{
	struct bb_nccl_peer *peer = &rank->peers[other];
	int device = s->device;
	bb_status status = BB_OK;

	peer->known = true;
	peer->within = s->proc == rank->context->world.proc;
	peer->shares_gpu =
		s->machine == rank->machine && memcmp(s->uuid, rank->uuid, sizeof(rank->uuid)) == 0;
	peer->scratch_bytes = s->scratch_bytes;
	if (s->machine != rank->machine)
		peer->apart = bb_nccl_obstacle_text(BB_NCCL_NOT_USED);
	else if (!peer->within)
		BB_TRY(status, bb_nccl_lanes_meet(rank, other, &s->staging), out);
	if (!peer->within && is_by_fabric(rank, s))
		return fabric_open(rank, peer, s);
	if (!peer->within && cudaDeviceGetByPCIBusId(&device, s->bus) != cudaSuccess) {
		cudaGetLastError();
		peer->why = "the process does not see the other's GPU (CUDA_VISIBLE_DEVICES)";
		return BB_OK;
	}
	if (!peer->shares_gpu && is_on_bus(rank, s->bus))
		peer->why = "CUDA does not let parts of one GPU (MIG) access each other's memory";
	else if (!peer->shares_gpu)
		BB_TRY(status, peer_access_enable(rank, device, peer->within, &peer->why), out);
	if (peer->within)
		peer->scratch = (char *)(uintptr_t)s->scratch;
	else if (!peer->why)
		status = handle_map(rank, peer, s->scratch_handle, s->scratch_bytes,
				    (void **)&peer->scratch);
out:
	return status;
}

/* *THEIRS = the address of memory S of PEER, in another process, or peer->why. */
static bb_status remote_map(struct bb_rank *rank, struct bb_nccl_peer *peer, const struct shared *s,
			    void **theirs)
{
	struct bb_nccl_mapped *m = calloc(1, sizeof(*m));
	bb_status status;

	if (!m)
		return bb_no_memory(rank->context->error, "a rank");
	m->bytes = s->bytes;
	status = handle_map(rank, peer, s->base_handle, m->bytes, &m->base);
	if (status != BB_OK || peer->why) {
		free(m);
		return status;
	}
	m->at = (char *)m->base + s->offset;
	m->next = rank->mapped;
	rank->mapped = m;
	*theirs = m->at;
	return BB_OK;
}

bb_status bb_nccl_reach(struct bb_group *group, int number, const struct bb_token *token,
			void **theirs, struct bb_error *error)
{
	struct bb_rank *rank = group->rank;
	struct bb_nccl_peer *peer = &rank->peers[group->members[number]];
	struct shared s;
	bb_status status = BB_OK;

	*theirs = NULL;
	memcpy(&s, token->bytes, sizeof(s));
	if (!peer->known)
		BB_TRY(status, peer_open(rank, group->members[number], &s), out);
	if (peer->why)
		return BB_OK;
	peer->reached++;
	if (peer->within)
		*theirs = (void *)(uintptr_t)(s.base + s.offset);
	else
		status = remote_map(rank, peer, &s, theirs);
out:
	return status;
}

void bb_nccl_unreach(struct bb_group *group, int number, void *theirs)
{
	struct bb_rank *rank = group->rank;
	struct bb_nccl_peer *peer = &rank->peers[group->members[number]];
	struct bb_nccl_mapped **link = &rank->mapped, *m;

	if (!theirs)
		return;
	while (!peer->within && *link && (*link)->at != (char *)theirs)
		link = &(*link)->next;
	if (!peer->within && *link) {
		m = *link;
		*link = m->next;
		handle_unmap(rank, peer, m->base, m->bytes);
		free(m);
	}
	if (--peer->reached > 0)
		return;
	if (!peer->within)
		handle_unmap(rank, peer, peer->scratch, peer->scratch_bytes);
	peer->scratch = NULL;
	peer->known = false;
}

/* ---- a rank's part ------------------------------------------------------------------- */

bb_status bb_nccl_peers_open(struct bb_rank *rank)
{
	rank->peers = calloc((size_t)rank->context->world.nranks, sizeof(*rank->peers));
	return rank->peers ? BB_OK : bb_no_memory(rank->context->error, "a rank");
}

/* Memory that is still mapped, after a failure, stays so until the process ends. */
void bb_nccl_peers_close(struct bb_rank *rank)
{
	struct bb_nccl_mapped *m;

	while ((m = rank->mapped) != NULL) {
		rank->mapped = m->next;
		free(m);
	}
	free(rank->peers);
}
