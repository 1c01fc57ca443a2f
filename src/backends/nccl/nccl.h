/*
 * nccl.h - internals of the nccl backend: a rank is a GPU with a driver thread of its own.
 *
 *   nccl.c      the backend's table; queues, events and graphs; waiting; devices, attaching
 *   memory.c    buffers: allocated, registered, copied, filled, verified, measured
 *   comm.c      first exchange of all ranks; groups and their communicators
 *   native.c    NCCL's collectives, and kernels on its device API (device.h, device.cu)
 *   chosen.c    NCCL's choice for a call
 *   ras.c       NCCL's own report on a run that hangs
 *   executor.c  busbench's schedules over ncclSend and ncclRecv
 *   health.c    state and counters of the GPUs, by NVML
 *   gemm.c      matrix products by cuBLAS (cublas_api.h)
 *   routes.c    access to the memory of other ranks, also by fabric handles; routes to them
 *   staged.c    the route through host memory
 *   compat.h    differences between versions
 *   library.c   finding NCCL and CUDA's driver
 *   versions.c  the version and usable features of the NCCL that was found; failures of its calls
 *               and of CUDA's
 *   kernels.h   kernels: patterns.cu, reductions.cu, works.cu; all use pieces.cuh
 *
 * NCCL reads NCCL_ALGO and NCCL_PROTO when a communicator is created. A group has one communicator
 * at a time. To change its algorithm all drivers destroy theirs, one driver of each process sets
 * the environment, all create the new communicator, and the environment is restored; barriers
 * separate these steps. The first communicator, and that of `auto`, uses the environment of the
 * user.
 *
 * Waiting never blocks in CUDA: it polls the stream, the errors of the communicators, and whether
 * the run is being abandoned. Calls of NCCL that wait for other ranks cannot be interrupted.
 */
#pragma once

#include "backends/backend.h"
#include "backends/gpu.h"
#include "backends/graphs.h"
#include "backends/library.h"
#include "backends/messages.h"
#include "backends/nccl/compat.h"
#include "backends/nccl/device.h"
#include "backends/nccl/kernels.h"
#include "backends/routes.h"
#include "backends/spaces.h"

#define BB_NCCL_MAX_LOCAL 64 /* ranks of one process */

struct bb_context {
	struct bb_world world;
	struct bb_backend_config config;
	struct bb_error *error;
	struct bb_nccl_library nccl;
	struct bb_error unusable;   /* why NCCL cannot be used; without text: it can */
	char library[96];           /* its name and version, and CUDA's */
	int devices;                /* visible to this process */
	int first_device;           /* of this process's first rank; see bb_nccl_device */
	int ranks_per_device;       /* upper bound, for the ranks of all processes */
	int ranks_per_root;         /* limit for the ranks that first connect to one root */
	bool profiler_set;          /* chosen.c has set NCCL_PROFILER_PLUGIN */
	struct bb_nccl_lane *lanes; /* from local rank to local rank */
	const char *ras_address;    /* see bb_nccl_ras_address */
	struct bb_nccl_ras *ras;    /* NULL: not needed yet */
	atomic_int aborted;
	atomic_ullong arrived; /* how often its drivers have arrived at a barrier of the world */
};

/* May ranks share a device? NCCL permits it from 2.30 on, if NCCL_MULTI_RANK_GPU_ENABLE is 1. */
bool bb_nccl_may_share(void);
/* The device of local rank LOCAL; devices repeat where ranks share them. */
int bb_nccl_device(const struct bb_context *context, int local);

/* How other processes find a rank's host memory. */
struct bb_nccl_staging {
	int32_t pid;    /* 0: not created yet */
	int32_t number; /* its file descriptor in that process; -1: creation failed */
	uint64_t file;  /* its inode */
};

/* Why a rank's memory has no fabric handles. */
enum bb_nccl_obstacle {
	BB_NCCL_NO_OBSTACLE, /* it has */
	BB_NCCL_NOT_USED,
	BB_NCCL_NOT_SUPPORTED,
	BB_NCCL_NO_CHANNEL
};

/* Another rank, or this one, as this rank accesses it. */
struct bb_nccl_peer {
	bool known;      /* the members below are set */
	bool within;     /* in this process */
	bool shares_gpu; /* with this rank */
	int reached;     /* number of its buffers that are mapped */
	const char *why; /* why its memory cannot be accessed; NULL: it can */
	char *scratch;   /* address of its scratch buffer for this rank */
	size_t scratch_bytes;
	bool by_fabric; /* its memory is mapped by fabric handles */
	uint32_t pings; /* pings exchanged so far */
	/* In another process: lanes to it and back, and why the processes cannot share host memory;
	   NULL: they can. */
	struct bb_nccl_lane *lanes;
	const char *apart;
};

struct bb_rank {
	struct bb_context *context;
	const struct bb_nccl_library *nccl; /* the context's */
	int rank;
	int local;
	int device;
	struct bb_location location;
	unsigned char uuid[16]; /* of the GPU, or of its part (MIG) */
	int capability;         /* 90: 9.0; once the world is open the minimum of all ranks */
	uint64_t machine; /* identity of the machine whose ranks can share memory; set with the
			     world */
	/* Of NCCL; once the world is open the minimum of all ranks. 0: some have no usable one. */
	int version;
	int ranks_per_root; /* see struct bb_context; likewise */
	unsigned blocks;    /* largest number of thread blocks of busbench's kernels */
	cudaStream_t main;
	struct bb_group *groups; /* open groups; the world is the last */
	struct bb_nccl_memory *memories;
	char *scratch; /* small device buffer, see BB_SCRATCH_TABLE */
	size_t scratch_bytes;
	struct bb_nccl_fabric *fabric; /* NULL: OBSTACLE says why */
	enum bb_nccl_obstacle obstacle;
	bool batched;  /* a batch has begun */
	bool grouping; /* ncclGroupStart has been called */
	struct bb_nccl_mapped *mapped;
	struct bb_nccl_staging staging; /* for lanes to ranks of other processes */
	atomic_uint *halt;              /* pinned: 1 ends waiting kernels */
	struct bb_nccl_gemm *gemm;      /* NULL: not needed yet */
	struct bb_nccl_health *health;  /* NULL: NVML is missing */
	struct bb_nccl_peer peers[];    /* of all ranks */
};

/* Offsets in a rank's scratch buffer. Two areas of BB_SCRATCH_PROBE bytes per rank follow, and one
   of BB_SCRATCH_FLAG bytes per rank. */
#define BB_SCRATCH_TABLE BB_GPU_TABLE_MARGIN
#define BB_SCRATCH_WRONG (BB_SCRATCH_TABLE + 2 * BB_GPU_PERIOD_MOST * 8 + BB_GPU_TABLE_MARGIN)
#define BB_SCRATCH_ID (BB_SCRATCH_WRONG + 256)
#define BB_SCRATCH_PROBES (BB_SCRATCH_ID + 256)
#define BB_SCRATCH_PROBE 16
#define BB_SCRATCH_FLAG 128

/* Offset of the flags that other ranks write. */
static inline size_t bb_nccl_scratch_flags(const struct bb_context *context)
{
	return (BB_SCRATCH_PROBES + 2 * (size_t)context->world.nranks * BB_SCRATCH_PROBE + 255) &
	       ~(size_t)255;
}

/* ---- calls of CUDA and NCCL (versions.c) --------------------------------------------- */

/*
 * BB_OK if CALL, made by RANK, succeeded; BB_NCCL calls a function of the rank's library. Otherwise
 * the context's error names the call, the file and the reason, all waits end, and the result is
 * BB_EBACKEND. BB_ETIMEOUT, without a report, if waits had ended before: they are the cause.
 */
#define BB_CUDA(rank, call) BB_CUDA_RESULT(rank, call, #call)
#define BB_NCCL(rank, call) BB_NCCL_RESULT(rank, (rank)->nccl->call, #call)
/* The same for the RESULT of a call of NAME. */
#define BB_CUDA_RESULT(rank, result, name)                                                         \
	bb_cuda_check(rank, (rank)->context->error, result, name, __FILE__, __LINE__)
#define BB_NCCL_RESULT(rank, result, name)                                                         \
	bb_nccl_check(rank, (rank)->nccl, (rank)->context->error, result, name, __FILE__, __LINE__)

/* For freeing: the same, but CALL is not made once the run is being abandoned. Other ranks may then
   still use what it frees, which lives until the process ends. */
#define BB_CUDA_FREE(rank, call)                                                                   \
	bb_nccl_ignore(bb_nccl_aborted((rank)->context) ? BB_OK : BB_CUDA(rank, call))

/* The same for a call that belongs to no rank. The reason goes into ERROR, and no wait ends. */
#define BB_CUDA_PROCESS(error, call) bb_cuda_check(NULL, error, call, #call, __FILE__, __LINE__)

/* RANK NULL: the call belongs to none. */
BB_MUST bb_status bb_cuda_check(const struct bb_rank *rank, struct bb_error *error,
				cudaError_t result, const char *call, const char *file, int line);
BB_MUST bb_status bb_nccl_check(const struct bb_rank *rank, const struct bb_nccl_library *library,
				struct bb_error *error, ncclResult_t result, const char *call,
				const char *file, int line);

/* TEXT = LIBRARY's description of its last error, on one line. */
void bb_nccl_last_error(const struct bb_nccl_library *library, char *text, size_t room);

/* For failures of cleaning up, which have been reported and have no other consequence. */
static inline void bb_nccl_ignore(bb_status status)
{
}

static inline bool bb_nccl_aborted(const struct bb_context *context)
{
	return atomic_load_explicit(&context->aborted, memory_order_relaxed) != 0;
}

static inline struct bb_gpu_lane bb_nccl_lane(const struct bb_rank *rank, cudaStream_t stream)
{
	return (struct bb_gpu_lane){.stream = stream, .blocks = rank->blocks};
}

/* ---- versions (versions.c) ----------------------------------------------------------- */

#define BB_NCCL_VERSION_TEXT 32

/* Do both the library, of VERSION, and the headers have a feature that came with version SINCE? */
static inline bool bb_nccl_has(int version, int since)
{
	return version >= since && NCCL_VERSION_CODE >= since;
}

void bb_nccl_version_text(int code, char text[BB_NCCL_VERSION_TEXT]);
/* Load NCCL, its functions and its version. BB_EBACKEND with the reason unless it is usable. */
BB_MUST bb_status bb_nccl_library_open(struct bb_nccl_library *library, struct bb_error *error);
/* The same (library.c) without reading the version, which stays as it is. */
BB_MUST bb_status bb_nccl_library_find(struct bb_nccl_library *library, struct bb_error *error);
/* Find CUDA's driver; returns false if it lacks a function (library.c). */
bool bb_nccl_driver_find(struct bb_nccl_driver *driver);
/* Called before NCCL is: BB_EBACKEND with the reason unless all ranks have a usable one. */
BB_MUST bb_status bb_nccl_need(const struct bb_rank *rank);
/* BB_EUNSUPPORTED unless bb_nccl_has; names OPTION and which of LIBRARY and headers is too old. */
BB_MUST bb_status bb_nccl_require(const struct bb_nccl_library *library, int since,
				  const char *option, const char *feature, struct bb_error *error);
/* See backends/gpu.h. */
void bb_nccl_list(struct bb_strbuf *out);

/* ---- memory (memory.c) --------------------------------------------------------------- */

struct bb_nccl_memory {
	struct bb_nccl_memory *next;
	void *base; /* as allocated, with BYTES; the user's part is aligned */
	size_t bytes;
};

/* A buffer that is registered with a communicator. */
struct bb_nccl_registration {
	struct bb_nccl_registration *next;
	const struct bb_nccl_memory *memory;
	void *handle; /* NULL: NCCL accepted the buffer without registering it */
};

BB_MUST bb_status bb_nccl_alloc(struct bb_rank *rank, size_t bytes, void **memory);
void bb_nccl_release(struct bb_rank *rank, void *memory, size_t bytes);
/* The link to the buffer of RANK that holds address AT, or to NULL. */
struct bb_nccl_memory **bb_nccl_memory_link(struct bb_rank *rank, const void *at);
BB_MUST bb_status bb_nccl_copy(struct bb_rank *rank, void *dst, const void *src, size_t bytes);
BB_MUST bb_status bb_nccl_fill(struct bb_rank *rank, void *dst, const struct bb_pattern *pattern,
			       size_t first, size_t count);
BB_MUST bb_status bb_nccl_verify(struct bb_rank *rank, const void *got,
				 const struct bb_pattern *pattern, size_t first, size_t count,
				 enum bb_dtype dtype, int ulps, uint64_t *wrong);
uint64_t bb_nccl_memory_available(struct bb_context *context);

/* Register all of the rank's buffers with the group's communicator, as configured. Collective over
   the group. */
BB_MUST bb_status bb_nccl_register(struct bb_group *group);
/* MEMORY NULL: all. */
void bb_nccl_deregister(struct bb_group *group, const struct bb_nccl_memory *memory);
/* See backends/library.h. */
const char *bb_nccl_registered(const struct bb_group *group);

extern const struct bb_spaces bb_nccl_spaces;

/* ---- access to other ranks (routes.c) ------------------------------------------------------ */

/* A mapped buffer of another process. */
struct bb_nccl_mapped {
	struct bb_nccl_mapped *next;
	char *at;
	void *base;
	size_t bytes; /* from BASE on */
};

/* ---- fabric handles (routes.c) ------------------------------------------------------ */

#define BB_NCCL_HANDLE_BYTES 64 /* of a fabric handle, and of an IPC handle */

/* Called once rank->device is set. rank->fabric stays NULL, and rank->obstacle says why, unless the
   rank's memory is to have fabric handles and can. */
BB_MUST bb_status bb_nccl_fabric_open(struct bb_rank *rank);
/* *AT = device memory that other processes can map, with *BYTES, which may become more. */
BB_MUST bb_status bb_nccl_device_alloc(struct bb_rank *rank, size_t *bytes, void **at);
void bb_nccl_device_free(struct bb_rank *rank, void *at, size_t bytes);

/* ---- routes (routes.c) --------------------------------------------------------------- */

extern const struct bb_routes bb_nccl_routes;
/* Free what RANK holds for routes. */
void bb_nccl_routes_close(struct bb_rank *rank);

/* ---- staged transfers (staged.c) -------------------------------------------------------- */

#define BB_NCCL_SLOTS 4 /* pieces in flight */

/* Lanes between the ranks of this process. The caller frees context->lanes. */
BB_MUST bb_status bb_nccl_lanes_open(struct bb_context *context);
/* *STAGING = how ranks of other processes find this rank's lanes to them. */
void bb_nccl_staging_open(struct bb_rank *rank, struct bb_nccl_staging *staging);
/* Map the lanes to rank OTHER, in another process of this host, and the lanes back, at STAGING. On
   failure peer->apart holds the reason. */
BB_MUST bb_status bb_nccl_lanes_meet(struct bb_rank *rank, int other,
				     const struct bb_nccl_staging *staging);
/* Free RANK's part of all lanes, which no rank uses any more. */
void bb_nccl_lanes_close(struct bb_rank *rank);
BB_MUST bb_status bb_nccl_stage(struct bb_group *group, int peer, const struct bb_half *out,
				const struct bb_half *in);
/* Does this rank have lanes to all others of the group? */
bool bb_nccl_lanes_join(const struct bb_group *group);
/* A barrier of a group whose ranks have lanes to each other. */
BB_MUST bb_status bb_nccl_lanes_barrier(struct bb_group *group);

/* ---- NCCL's choice (chosen.c) ------------------------------------------------ */

/* Receives the profiler's events of a communicator. */
struct bb_nccl_observer {
	char name[32]; /* of the communicator; holds the observer's address */
	int *events;   /* NCCL's mask of reported events; NULL: it reports none */
	_Atomic(const char *) algorithm, protocol; /* as NCCL names them; NULL: not reported */
};

/* Make NCCL load this file as its profiler, unless the user has set one. Called before the drivers
   start. */
BB_MUST bb_status bb_nccl_profiler_set(struct bb_context *context, struct bb_error *error);
void bb_nccl_profiler_unset(struct bb_context *context);
/* The name that the group's communicator must have for bb_nccl_listen. */
const char *bb_nccl_observer_name(struct bb_group *group);
void bb_nccl_listen(struct bb_group *group, bool on);
void bb_nccl_chosen(struct bb_group *group, char text[BB_CHOSEN_TEXT]);

/* ---- NCCL's report on a run that hangs (ras.c) ----------------------------------- */

/* The address of RAS; NULL: it is off. Called before drivers change the environment. */
const char *bb_nccl_ras_address(const struct bb_nccl_library *library);
/* See backends/library.h. */
bool bb_nccl_diagnose(struct bb_context *context, struct bb_strbuf *out);
void bb_nccl_diagnose_end(struct bb_context *context);

/* ---- the state of GPUs (health.c) --------------------------------------------------------- */

/* Called once rank->location is set. Without NVML rank->health stays NULL. */
void bb_nccl_health_open(struct bb_rank *rank);
void bb_nccl_health_close(struct bb_rank *rank);
/* See backends/gpu.h. */
void bb_nccl_health(struct bb_rank *rank, struct bb_gpu_health *health);
void bb_nccl_throttled(struct bb_rank *rank, int64_t us[BB_GPU_THROTTLES]);

/* ---- messages issued as one (comm.c) --------------------------------------------------- */

/* End the group that ncclGroupStart began, whatever the STATUS of the calls in it. Returns the
   first failure. */
BB_MUST bb_status bb_nccl_messages_end(const struct bb_rank *rank, bb_status status);
/* Issue to the main stream, as one group: OUT goes to member TO of GROUP, IN comes from member
   FROM. A half of 0 bytes is not sent. */
BB_MUST bb_status bb_nccl_exchange(struct bb_group *group, int to, const struct bb_half *out,
				   int from, const struct bb_half *in);

/* ---- groups (comm.c) ----------------------------------------------------------------- */

struct bb_group {
	struct bb_group *next; /* of the rank's */
	struct bb_rank *rank;
	int me;
	int n;
	int *members;
	ncclComm_t comm;              /* NULL: none, or there is no NCCL */
	const struct bb_native *made; /* the native that comm was created for */
	struct ncclDevComm *device;   /* its device part; NULL: none */
	struct bb_nccl_registration *registrations;
	bool weighted[BB_NDTYPES]; /* mulsum's operation exists for comm */
	ncclRedOp_t weights[BB_NDTYPES];
	struct bb_nccl_observer observer;
	struct bb_call probed; /* the last call given to ready */
	char refusal[256];     /* why NCCL refuses PROBED; empty: it does not */
};

BB_MUST bb_status bb_nccl_group_open(struct bb_rank *rank, const int *members, int n,
				     struct bb_group **group, struct bb_error *error);
/* See backends/library.h. */
BB_MUST bb_status bb_nccl_split(struct bb_rank *rank, const int *members, int n,
				struct bb_group **group, struct bb_error *error);
void bb_nccl_group_close(struct bb_group *group);
BB_MUST bb_status bb_nccl_barrier(struct bb_group *group);
/* *ANY = is MINE true on some rank? Collective over the world. */
BB_MUST bb_status bb_nccl_any(struct bb_rank *rank, bool mine, bool *any);
extern const struct bb_clocks bb_nccl_clocks;
BB_MUST bb_status bb_nccl_ready(struct bb_group *group, const struct bb_call *call);

/* ---- NCCL's collectives (native.c) -------------------------------------------- */

/* The member own of a bb_native: how its algorithm is forced. */
struct bb_nccl_selection {
	unsigned algorithms;   /* mask of what may run (native.c); 0: any */
	const char *algorithm; /* value of NCCL_ALGO; NULL: unchanged */
	const char *protocol;  /* value of NCCL_PROTO; likewise */
	int device;            /* number of a kernel on the device API; 0: NCCL's own kernels */
};

/* The number of NATIVE's kernel on NCCL's device API; 0: it is none. */
static inline int bb_nccl_kernel(const struct bb_native *native)
{
	return ((const struct bb_nccl_selection *)native->own)->device;
}

extern const struct bb_native bb_nccl_natives[]; /* ends with name NULL */
extern const struct bb_native bb_nccl_auto;      /* NCCL's choice; in no list */

/* NULL, or why NCCL cannot make CALL: the same on all ranks. */
const char *bb_nccl_native_limits(const struct bb_group *group, const struct bb_call *call);
size_t bb_nccl_native_tmp_bytes(const struct bb_call *call, int rank);
/* Issue CALL to STREAM. */
BB_MUST bb_status bb_nccl_native(struct bb_group *group, cudaStream_t stream,
				 const struct bb_call *call);
/*
 * Try CALL with the present communicator. If NCCL refuses it, group->refusal holds the reason.
 * Collective over the group; waits.
 */
BB_MUST bb_status bb_nccl_native_probe(struct bb_group *group, const struct bb_call *call);

/* ---- kernels on NCCL's device API (native.c) ------------------------------------------- */

/*
 * Open the device part of the group's communicator, unless it is open. *REFUSED: NCCL, or the GPUs,
 * cannot run the kernel of CALL; the reason is in group->refusal, and the communicator must not be
 * used any more. Collective over the world.
 */
BB_MUST bb_status bb_nccl_device_open(struct bb_group *group, const struct bb_call *call,
				      bool *refused);
BB_MUST bb_status bb_nccl_device_close(struct bb_group *group);

/* ---- schedules (executor.c) ---------------------------------------------------------- */

size_t bb_nccl_schedule_tmp_bytes(const struct bb_call *call, int rank);
BB_MUST bb_status bb_nccl_schedule(struct bb_group *group, cudaStream_t stream,
				   const struct bb_call *call);

/* ---- matrices (gemm.c) ---------------------------------------------------------------- */

/* Issue FLOPS operations to STREAM, see backends/gpu.h's gemm. */
BB_MUST bb_status bb_nccl_multiply(struct bb_rank *rank, cudaStream_t stream, double flops,
				   struct bb_error *error);
void bb_nccl_gemm_close(struct bb_rank *rank);

/* ---- queues (nccl.c) ---------------------------------------------------------------- */

/* Wait until STREAM is empty; BB_ETIMEOUT once the run is being abandoned. */
BB_MUST bb_status bb_nccl_wait(struct bb_rank *rank, cudaStream_t stream);
cudaStream_t bb_nccl_stream(const struct bb_rank *rank, const struct bb_queue *queue);

/* End the group of a batch if one has begun. */
BB_MUST bb_status bb_nccl_group_end(struct bb_rank *rank);
