/*
 * Routes between two ranks: direct access to the peer's memory by copy engine or kernel, pinned
 * host memory between them, and NCCL's messages; and round trips of small messages.
 */
#include "backends/nccl/nccl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- fabric handles ------------------------------------------------------------------ */

/*
 * Fabric handles: by them processes map GPU memory of each other within an NVLink domain, also
 * where it spans several hosts. Memory has them if cuMemCreate made it for them. That takes a GPU
 * that supports them, and a channel of nvidia-imex that the user of the processes may open.
 */

/* As in cuda.h from 12.3 on. */
#define FABRIC ((CUmemAllocationHandleType)8)
#define FABRIC_SUPPORTED ((CUdevice_attribute)128)

struct bb_nccl_fabric {
	struct bb_nccl_driver driver;
	CUmemAllocationProp memory; /* of the rank's */
	size_t granularity;
};

/* Call a function of the driver. Its results are numbered as the runtime's. */
#define DRIVER(rank, call) BB_CUDA_RESULT(rank, (cudaError_t)(rank)->fabric->driver.call, #call)

/* ---- whether the rank has them ------------------------------------------------------------ */

/* Why another rank cannot map memory of a rank with this OBSTACLE; it is not BB_NCCL_NO_OBSTACLE.
 */
static const char *nccl_obstacle_text(enum bb_nccl_obstacle obstacle)
{
	static const char *const texts[] = {
		[BB_NCCL_NOT_USED] = "the GPUs are in different hosts",
		[BB_NCCL_NOT_SUPPORTED] =
			"GPU or driver have no fabric handles, which reach other hosts "
			"(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED)",
		[BB_NCCL_NO_CHANNEL] =
			"CUDA makes no fabric handles, which reach other hosts: this takes "
			"nvidia-imex and a channel in /dev/nvidia-caps-imex-channels",
	};

	return texts[obstacle];
}

/* Open F for DEVICE. Whether memory can be made, exported and imported shows only when it is. */
static enum bb_nccl_obstacle fabric_find(struct bb_nccl_fabric *f, int device)
{
	const struct bb_nccl_driver *driver = &f->driver;
	unsigned char handle[BB_NCCL_HANDLE_BYTES];
	CUmemGenericAllocationHandle made, imported;
	CUdevice number;
	int supported = 0;
	bool has;

	f->memory = (CUmemAllocationProp){
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = FABRIC,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
	/* An older driver does not know the attribute. */
	if (!bb_nccl_driver_find(&f->driver) ||
	    driver->cuDeviceGet(&number, device) != CUDA_SUCCESS ||
	    driver->cuDeviceGetAttribute(&supported, FABRIC_SUPPORTED, number) != CUDA_SUCCESS ||
	    !supported)
		return BB_NCCL_NOT_SUPPORTED;
	if (driver->cuMemGetAllocationGranularity(&f->granularity, &f->memory,
						  CU_MEM_ALLOC_GRANULARITY_RECOMMENDED) !=
		    CUDA_SUCCESS ||
	    driver->cuMemCreate(&made, f->granularity, &f->memory, 0) != CUDA_SUCCESS)
		return BB_NCCL_NO_CHANNEL;
	has = driver->cuMemExportToShareableHandle(handle, made, FABRIC, 0) == CUDA_SUCCESS &&
	      driver->cuMemImportFromShareableHandle(&imported, handle, FABRIC) == CUDA_SUCCESS;
	if (has)
		driver->cuMemRelease(imported);
	driver->cuMemRelease(made);
	return has ? BB_NCCL_NO_OBSTACLE : BB_NCCL_NO_CHANNEL;
}

bb_status bb_nccl_fabric_open(struct bb_rank *rank)
{
	const struct bb_context *const c = rank->context;
	const enum bb_handles handles = c->config.handles;

	rank->obstacle = BB_NCCL_NOT_USED;
	if (!c->config.reached || c->world.nprocs == 1 || handles == BB_HANDLES_IPC ||
	    (handles != BB_HANDLES_FABRIC && c->config.ranks_here >= c->world.nranks))
		return BB_OK;
	struct bb_nccl_fabric *const f = calloc(1, sizeof(*f));
	if (!f)
		return bb_no_memory(c->error, "a rank");
	rank->obstacle = fabric_find(f, rank->device);
	if (rank->obstacle == BB_NCCL_NO_OBSTACLE)
		rank->fabric = f;
	else
		free(f);
	return BB_OK;
}

/* ---- memory ------------------------------------------------------------------------------- */

static bb_status access_grant(struct bb_rank *rank, CUdeviceptr at, size_t bytes, int device)
{
	const CUmemAccessDesc access = {
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

	return DRIVER(rank, cuMemSetAccess(at, bytes, &access, 1));
}

/* *AT = address of BYTES of MEMORY, for the rank's GPU. Releases MEMORY, which exists as long as it
   is mapped. */
static bb_status memory_map(struct bb_rank *rank, CUmemGenericAllocationHandle memory, size_t bytes,
			    void **at)
{
	CUdeviceptr address;
	bb_status status;

	BB_TRY(status, DRIVER(rank, cuMemAddressReserve(&address, bytes, 0, 0, 0)), out);
	BB_TRY(status, DRIVER(rank, cuMemMap(address, bytes, 0, memory, 0)), out);
	BB_TRY(status, DRIVER(rank, cuMemRelease(memory)), out);
	BB_TRY(status, access_grant(rank, address, bytes, rank->device), out);
	*at = (void *)(uintptr_t)address;
out:
	return status;
}

bb_status bb_nccl_device_alloc(struct bb_rank *rank, size_t *bytes, void **at)
{
	const struct bb_context *c = rank->context;
	const size_t granularity = rank->fabric ? rank->fabric->granularity : 1;
	CUmemGenericAllocationHandle memory;
	bb_status status;

	if (!rank->fabric)
		return BB_CUDA(rank, cudaMalloc(at, *bytes));
	*bytes = (*bytes + granularity - 1) / granularity * granularity;
	BB_TRY(status, DRIVER(rank, cuMemCreate(&memory, *bytes, &rank->fabric->memory, 0)), out);
	BB_TRY(status, memory_map(rank, memory, *bytes, at), out);
	/* Let the other GPUs of the process access it: cudaDeviceEnablePeerAccess holds for memory
	   of cudaMalloc alone. */
	for (int local = 0; local < c->world.nlocal && status == BB_OK; local++) {
		const int device = bb_nccl_device(c, local);
		int can = 0;

		if (device == rank->device)
			continue;
		status = BB_CUDA(rank, cudaDeviceCanAccessPeer(&can, device, rank->device));
		if (status == BB_OK && can)
			status = access_grant(rank, (CUdeviceptr)(uintptr_t)*at, *bytes, device);
	}
out:
	return status;
}

static void fabric_free(struct bb_rank *rank, void *at, size_t bytes)
{
	const CUdeviceptr address = (CUdeviceptr)(uintptr_t)at;

	if (bb_nccl_aborted(rank->context)) /* see BB_CUDA_FREE */
		return;
	bb_nccl_ignore(DRIVER(rank, cuMemUnmap(address, bytes)));
	bb_nccl_ignore(DRIVER(rank, cuMemAddressFree(address, bytes)));
}

void bb_nccl_device_free(struct bb_rank *rank, void *at, size_t bytes)
{
	if (rank->fabric)
		fabric_free(rank, at, bytes);
	else
		BB_CUDA_FREE(rank, cudaFree(at));
}

/* ---- access to memory of other ranks ------------------------------------------------- */

/*
 * Access to memory of other ranks. Within a process its address is valid once peer access is
 * enabled; memory of other processes is mapped by CUDA's handles: those of CUDA IPC, or fabric
 * ones.
 */

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

/* *HANDLE = that of the rank's memory at AT. */
static bb_status handle_make(struct bb_rank *rank, void *at,
			     unsigned char handle[BB_NCCL_HANDLE_BYTES])
{
	CUmemGenericAllocationHandle memory;
	bb_status status;

	if (!rank->fabric)
		return BB_CUDA(rank, cudaIpcGetMemHandle((cudaIpcMemHandle_t *)handle, at));
	BB_TRY(status, DRIVER(rank, cuMemRetainAllocationHandle(&memory, at)), out);
	BB_TRY(status, DRIVER(rank, cuMemExportToShareableHandle(handle, memory, FABRIC, 0)), out);
	status = DRIVER(rank, cuMemRelease(memory));
out:
	return status;
}

static bb_status nccl_share(struct bb_rank *rank, void *memory, size_t bytes,
			    struct bb_token *token)
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
	const cudaError_t result = cudaDeviceEnablePeerAccess(device, 0);
	if (result != cudaErrorPeerAccessAlreadyEnabled)
		return BB_CUDA_RESULT(rank, result, "cudaDeviceEnablePeerAccess");
	cudaGetLastError(); /* clears it */
	return BB_OK;
}

/* *AT = address of BYTES of PEER's memory, in another process. If that is impossible, peer->why is
   the reason. */
static bb_status handle_map(struct bb_rank *rank, struct bb_nccl_peer *peer,
			    const unsigned char handle[BB_NCCL_HANDLE_BYTES], size_t bytes,
			    void **at)
{
	cudaIpcMemHandle_t copy;
	CUmemGenericAllocationHandle memory;
	CUresult result;

	memcpy(&copy, handle, sizeof(copy));
	if (!peer->by_fabric)
		return BB_CUDA(rank,
			       cudaIpcOpenMemHandle(at, copy, cudaIpcMemLazyEnablePeerAccess));
	result = rank->fabric->driver.cuMemImportFromShareableHandle(&memory, &copy, FABRIC);
	if (result == CUDA_SUCCESS)
		return memory_map(rank, memory, bytes, at);
	peer->why = result == CUDA_ERROR_NOT_PERMITTED
			    ? "the processes share no IMEX channel, so a fabric handle of one is "
			      "refused to the other (CUDA_ERROR_NOT_PERMITTED)"
			    : "the GPU cannot import the other's fabric handle: they are in "
			      "different NVLink domains, or nvidia-imex does not connect their "
			      "hosts";
	return BB_OK;
}

static void handle_unmap(struct bb_rank *rank, const struct bb_nccl_peer *peer, void *at,
			 size_t bytes)
{
	if (peer->by_fabric)
		fabric_free(rank, at, bytes);
	else
		BB_CUDA_FREE(rank, cudaIpcCloseMemHandle(at));
}

static bb_status peer_open(struct bb_rank *rank, int other, const struct shared *s)
{
	struct bb_nccl_peer *peer = &rank->peers[other];
	const char *const bus = rank->location.bus; /* in s->bus the function follows */
	int device = s->device;
	enum bb_nccl_obstacle obstacle;
	bb_status status = BB_OK;

	peer->known = true;
	peer->within = s->proc == rank->context->world.proc;
	peer->shares_gpu =
		s->machine == rank->machine && memcmp(s->uuid, rank->uuid, sizeof(rank->uuid)) == 0;
	peer->scratch_bytes = s->scratch_bytes;
	if (s->machine != rank->machine)
		peer->apart = nccl_obstacle_text(BB_NCCL_NOT_USED);
	else if (!peer->within)
		BB_TRY(status, bb_nccl_lanes_meet(rank, other, &s->staging), out);
	/* Is the other, in another process, accessed by fabric handles alone? */
	peer->by_fabric = !peer->within &&
			  (s->machine != rank->machine || s->obstacle == BB_NCCL_NO_OBSTACLE ||
			   rank->context->config.handles == BB_HANDLES_FABRIC);
	obstacle = s->obstacle ? s->obstacle : rank->obstacle;
	if (peer->by_fabric && obstacle != BB_NCCL_NO_OBSTACLE)
		peer->why = nccl_obstacle_text(obstacle);
	else if (peer->by_fabric)
		status = handle_map(rank, peer, s->scratch_handle, s->scratch_bytes,
				    (void **)&peer->scratch);
	if (peer->by_fabric)
		return status;
	if (!peer->within && cudaDeviceGetByPCIBusId(&device, s->bus) != cudaSuccess) {
		cudaGetLastError();
		peer->why = "the process does not see the other's GPU (CUDA_VISIBLE_DEVICES)";
		return BB_OK;
	}
	if (!peer->shares_gpu && strncasecmp(bus, s->bus, strlen(bus)) == 0)
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

static bb_status nccl_reach(struct bb_group *group, int number, const struct bb_token *token,
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
	if (peer->within) {
		*theirs = (void *)(uintptr_t)(s.base + s.offset);
		return BB_OK;
	}
	struct bb_nccl_mapped *m = calloc(1, sizeof(*m));
	if (!m)
		return bb_no_memory(rank->context->error, "a rank");
	m->bytes = s.bytes;
	status = handle_map(rank, peer, s.base_handle, m->bytes, &m->base);
	if (status != BB_OK || peer->why) {
		free(m);
		return status;
	}
	m->at = (char *)m->base + s.offset;
	m->next = rank->mapped;
	rank->mapped = m;
	*theirs = m->at;
out:
	return status;
}

static void nccl_unreach(struct bb_group *group, int number, void *theirs)
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

#define FLAG_BYTES sizeof(uint64_t)
#define NO_NCCL                                                                                    \
	"NCCL (libnccl.so.2) is missing or not usable; set NCCL_HOME, or add its folder to "       \
	"LD_LIBRARY_PATH"

enum route_kind { READ, WRITE, READ_KERNEL, WRITE_KERNEL, STAGED, SEND, WORD, COPY };

static const struct bb_route routes[] = {
	[READ] = {"read", "the target's copy engine, from the source's memory", BB_ROUTE_TRANSFER,
		  BB_BY_TARGET, .direct = true},
	[WRITE] = {"write", "the source's copy engine, into the target's memory", BB_ROUTE_TRANSFER,
		   BB_BY_SOURCE, .direct = true},
	[READ_KERNEL] = {"read-kernel",
			 "a kernel of the target that loads from the source's memory",
			 BB_ROUTE_TRANSFER, BB_BY_TARGET, .direct = true},
	[WRITE_KERNEL] = {"write-kernel",
			  "a kernel of the source that stores into the target's memory",
			  BB_ROUTE_TRANSFER, BB_BY_SOURCE, .direct = true},
	[STAGED] = {"staged", "through pinned memory of the host, in pieces", BB_ROUTE_TRANSFER,
		    BB_BY_BOTH, .direct = false},
	[SEND] = {"send", "ncclSend and ncclRecv", BB_ROUTE_TRANSFER, BB_BY_BOTH, .direct = true,
		  .switched = true, .batches = true},
	[WORD] = {"word", "a kernel of each spins on a word that the other's writes", BB_ROUTE_PING,
		  BB_BY_BOTH, .direct = true},
	[COPY] = {"copy", "8 bytes by copy engine, there and back", BB_ROUTE_PING, BB_BY_SOURCE,
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

static bb_status route_transfer(struct bb_group *group, const struct bb_route *route, int peer,
				const struct bb_half *out, const struct bb_half *in)
{
	struct bb_rank *rank = group->rank;
	const enum route_kind kind = route_kind_of(route);

	if (bb_nccl_aborted(rank->context))
		return BB_ETIMEOUT;
	if (kind == STAGED)
		return bb_nccl_stage(group, peer, out, in);
	if (kind == SEND)
		return bb_nccl_exchange(group, peer, out, peer, in);
	if (kind == WRITE || kind == WRITE_KERNEL)
		return copy_issue(rank, kind == WRITE_KERNEL, out->theirs, out->mine, out->bytes);
	return copy_issue(rank, kind == READ_KERNEL, in->mine, in->theirs, in->bytes);
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

static bb_status route_ping(struct bb_group *group, const struct bb_route *route, int peer,
			    bool first, size_t rounds)
{
	struct bb_rank *rank = group->rank;
	struct bb_nccl_peer *const p = &rank->peers[group->members[peer]];
	char *const mine = rank->scratch + flag_at(rank->context, group->members[peer]);
	char *const theirs = p->scratch + flag_at(rank->context, rank->rank);
	bb_status status = BB_OK;

	if (route_kind_of(route) == WORD) {
		/* The kernel also polls rank->halt, so that it ends if the peer never answers. */
		BB_TRY(status,
		       BB_CUDA(rank,
			       bb_gpu_ping(bb_nccl_lane(rank, rank->main), (unsigned *)theirs,
					   (const unsigned *)mine, (const unsigned *)rank->halt,
					   p->pings, first, rounds)),
		       out);
		p->pings += (uint32_t)rounds;
	} else {
		/* The rank that is FIRST copies a flag there and back, in stream order; the other
		   does nothing. */
		for (size_t i = 0; i < rounds && first; i++) {
			BB_TRY(status,
			       copy_issue(rank, false, theirs + FLAG_BYTES, mine + FLAG_BYTES,
					  FLAG_BYTES),
			       out);
			BB_TRY(status,
			       copy_issue(rank, false, mine + FLAG_BYTES, theirs + FLAG_BYTES,
					  FLAG_BYTES),
			       out);
		}
	}
	status = bb_nccl_wait(rank, rank->main);
out:
	return status;
}

/* ---- a rank's part ------------------------------------------------------------------- */

void bb_nccl_routes_close(struct bb_rank *rank)
{
	struct bb_nccl_mapped *m;

	bb_nccl_lanes_close(rank);
	/* Memory that is still mapped, after a failure, stays so until the process ends. */
	while ((m = rank->mapped) != NULL) {
		rank->mapped = m->next;
		free(m);
	}
}

const struct bb_routes bb_nccl_routes = {
	.list = routes,
	.library = &(const struct bb_route_switch){.states = states, .p2p = library_p2p},
	.refuses = route_refuses,
	.share = nccl_share,
	.reach = nccl_reach,
	.unreach = nccl_unreach,
	.transfer = route_transfer,
	.batch = route_batch,
	.ping = route_ping,
};
