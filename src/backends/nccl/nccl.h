/*
 * nccl.h - the nccl backend from inside: a rank is a GPU with a driver thread of its own.
 *
 *   nccl.c      the backend's table: opening, devices, attaching, location
 *   memory.c    buffers: allocated, registered, copied, filled, verified
 *   meet.c      first exchange of all ranks: the GPUs and their capabilities
 *   comm.c      groups and their communicators, one algorithm at a time
 *   native.c    the library's collectives
 *   chosen.c    the library's choice for a call
 *   ras.c       the library's own report of a run that hangs
 *   executor.c  busbench's schedules over ncclSend and ncclRecv
 *   queue.c     streams, events and graphs; waiting
 *   health.c    state of the GPUs, by the driver's library
 *   gemm.c      matrix products by cuBLAS (cublas_api.h), in place of compute kernels
 *   peers.c     access to memory of other ranks
 *   routes.c    routes between two ranks
 *   staged.c    the route through host memory
 *   spaces.c    measuring memory
 *   check.h     calls of the libraries, and reports of their failures
 *   compat.h    differences between versions
 *   library.c   finding the library
 *   versions.c  the library that was found: its version and its usable features
 *   kernels.h   kernels: patterns.cu, reductions.cu, works.cu, transfers.cu; all use pieces.cuh
 *
 * NCCL reads NCCL_ALGO and NCCL_PROTO when a communicator is created. A group has one communicator
 * at a time. To change its algorithm all drivers destroy theirs and meet, one driver of each
 * process sets the environment, all create the new communicator and meet again, and the environment
 * is restored. The first communicator, and that of `auto`, uses the environment of the user.
 *
 * No call of CUDA waits for work of the device: waiting polls the stream, the errors of the
 * communicators, and whether the run is being abandoned. Only the libraries themselves can end
 * their own waits (for the ranks of a communicator).
 */
#ifndef BB_BACKENDS_NCCL_NCCL_H
#define BB_BACKENDS_NCCL_NCCL_H

#include "backends/backend.h"
#include "backends/gpu.h"
#include "backends/graphs.h"
#include "backends/library.h"
#include "backends/messages.h"
#include "backends/nccl/check.h"
#include "backends/nccl/compat.h"
#include "backends/nccl/kernels.h"
#include "backends/routes.h"
#include "backends/spaces.h"

#define BB_NCCL_MAX_LOCAL 64 /* ranks of one process */

struct bb_context {
	struct bb_world world;
	struct bb_backend_config config;
	struct bb_error *error;
	struct bb_nccl_library nccl;
	struct bb_error unusable; /* why NCCL cannot be used; without text: it can */
	char library[96];         /* its name and version, and CUDA's */
	int devices;              /* that this process sees */
	int first_device;     /* of its first rank, before wrapping around; see bb_nccl_device */
	int ranks_per_device; /* largest number of ranks on one device, in all processes */
	int ranks_per_root;   /* most ranks of a root, which brings those of a communicator together
			       */
	bool profiler_set;    /* chosen.c has set NCCL_PROFILER_PLUGIN */
	struct bb_nccl_lane *lanes; /* from local rank to local rank */
	const char *ras_address;    /* see bb_nccl_ras_address */
	struct bb_nccl_ras *ras;    /* NULL: not needed yet */
	atomic_int aborted;
	atomic_ullong arrived; /* its drivers at barriers of the world, each time */
};

/* NCCL_MULTI_RANK_GPU_ENABLE: does the library let ranks share a device (from 2.30 on)? */
bool bb_nccl_may_share(void);
/* The device of a local rank. */
int bb_nccl_device(const struct bb_context *context, int local);

/* Host memory, as other processes find it. */
struct bb_nccl_staging {
	int32_t pid;    /* 0: not created yet */
	int32_t number; /* of the file in that process; -1: creation failed */
	uint64_t file;  /* its inode */
};

struct bb_rank {
	struct bb_context *context;
	const struct bb_nccl_library *nccl; /* the context's */
	int rank;
	int local;
	int device;
	struct bb_location location;
	unsigned char uuid[16]; /* of the GPU, or of its part (MIG) */
	int capability;         /* 90: 9.0; once the world is open the least of all ranks */
	uint64_t machine; /* identity of the machine whose ranks can share memory; set with the
			     world */
	/* Of the library; once the world is open the least of all ranks. 0: some have none. */
	int version;
	int ranks_per_root; /* see struct bb_context; likewise */
	unsigned blocks;    /* largest number of thread blocks of busbench's kernels */
	cudaStream_t main;
	struct bb_group *groups; /* open groups; the world is the last */
	struct bb_nccl_memory *memories;
	char *scratch;              /* small device buffer, see BB_DESK_… */
	bool batched;               /* between batch_begin and batch_end */
	bool grouping;              /* a group of the library has begun */
	struct bb_nccl_peer *peers; /* of all ranks */
	struct bb_nccl_mapped *mapped;
	struct bb_nccl_staging staging; /* for lanes to ranks of other processes */
	atomic_uint *halt;              /* pinned: 1 ends waiting kernels; NULL: not needed yet */
	struct bb_nccl_gemm *gemm;      /* NULL: not needed yet */
	struct bb_nccl_health *health;  /* NULL: the driver's library is missing */
};

/* Offsets in a rank's desk. Behind them follow two areas of BB_SCRATCH_PROBE bytes for each rank,
   and one of BB_SCRATCH_FLAG. */
#define BB_SCRATCH_TABLE BB_GPU_TABLE_MARGIN
#define BB_SCRATCH_WRONG (BB_SCRATCH_TABLE + 2 * BB_GPU_PERIOD_MOST * 8 + BB_GPU_TABLE_MARGIN)
#define BB_SCRATCH_ID (BB_SCRATCH_WRONG + 256)
#define BB_SCRATCH_PROBES (BB_SCRATCH_ID + 256)
#define BB_SCRATCH_PROBE 16
#define BB_SCRATCH_FLAG 128

/* Offset of the words that other ranks write. */
static inline size_t bb_nccl_scratch_flags(const struct bb_context *context)
{
	return (BB_SCRATCH_PROBES + 2 * (size_t)context->world.nranks * BB_SCRATCH_PROBE + 255) &
	       ~(size_t)255;
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

/* Do the library's VERSION and the headers both have a feature that NCCL has SINCE a version? */
static inline bool bb_nccl_has(int version, int since)
{
	return version >= since && NCCL_VERSION_CODE >= since;
}

void bb_nccl_version_text(int code, char text[BB_NCCL_VERSION_TEXT]);
/* Find LIBRARY, its functions and its version. BB_EBACKEND with the reason unless it is usable. */
BB_MUST bb_status bb_nccl_library_open(struct bb_nccl_library *library, struct bb_error *error);
/* The same (library.c) without checking the version, which stays as it is. */
BB_MUST bb_status bb_nccl_library_find(struct bb_nccl_library *library, struct bb_error *error);
/* *FUNCTION, a pointer to a function, = symbol NAME of HANDLE; false: there is none, NULL. */
bool bb_nccl_resolve(void *handle, const char *name, void *function);
/* Required before the library is called: BB_EBACKEND with the reason unless all ranks have one. */
BB_MUST bb_status bb_nccl_need(const struct bb_rank *rank);
/* BB_EUNSUPPORTED unless bb_nccl_has; names OPTION and which of LIBRARY and headers is too old. */
BB_MUST bb_status bb_nccl_require(const struct bb_nccl_library *library, int since,
				  const char *option, const char *feature, struct bb_error *error);
/* See backend.h. */
void bb_nccl_list(struct bb_strbuf *out);

/* Failures of cleaning up have been reported; nothing else can be done about them. */
static inline void bb_nccl_ignore(bb_status status)
{
}

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
	void *handle; /* NULL: the library cannot register it here, and did not */
};

BB_MUST bb_status bb_nccl_alloc(struct bb_rank *rank, size_t bytes, void **memory);
void bb_nccl_release(struct bb_rank *rank, void *memory, size_t bytes);
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

/* ---- works (spaces.c) ------------------------------------------------------------------ */

extern const struct bb_spaces bb_nccl_spaces;

/* ---- access to other ranks (peers.c) ------------------------------------------------------- */

/* Another rank, or this one, as this rank accesses it. */
struct bb_nccl_peer {
	bool known;
	bool within;     /* in this process */
	bool shares_gpu; /* with this rank */
	int reached;     /* number of its memories that are reached */
	const char *why; /* why its memory cannot be accessed; NULL: it can */
	char *scratch;   /* address of its desk for this rank */
	uint32_t pings;  /* pings exchanged so far */
	/* In another process: lanes to it and back, and why the two processes share no host memory;
	   NULL: they do. */
	struct bb_nccl_lane *lanes;
	const char *apart;
};

/* Memory of another process, mapped. */
struct bb_nccl_mapped {
	struct bb_nccl_mapped *next;
	char *at;
	void *base;
};

BB_MUST bb_status bb_nccl_peers_open(struct bb_rank *rank);
void bb_nccl_peers_close(struct bb_rank *rank);
/* See backends/routes.h. */
BB_MUST bb_status bb_nccl_share(struct bb_rank *rank, void *memory, size_t bytes,
				struct bb_token *token);
BB_MUST bb_status bb_nccl_reach(struct bb_group *group, int peer, const struct bb_token *token,
				void **theirs, struct bb_error *error);
void bb_nccl_unreach(struct bb_group *group, int peer, void *theirs);

/* ---- routes (routes.c) --------------------------------------------------------------- */

extern const struct bb_routes bb_nccl_routes;
/* Free what RANK holds for routes. */
void bb_nccl_routes_close(struct bb_rank *rank);

/* ---- staged transfers (staged.c) -------------------------------------------------------- */

#define BB_NCCL_SLOTS 4 /* pieces in flight */

/* Lanes between the ranks of this process. The caller frees context->lanes. */
BB_MUST bb_status bb_nccl_lanes_open(struct bb_context *context);
/* *STAGING = where ranks of other processes find this rank's lanes to them. */
void bb_nccl_staging_open(struct bb_rank *rank, struct bb_nccl_staging *staging);
/* Map the lanes to rank OTHER, in another process of this host, and the lanes back, at STAGING. On
   failure peer->apart holds the reason. */
BB_MUST bb_status bb_nccl_lanes_meet(struct bb_rank *rank, int other,
				     const struct bb_nccl_staging *staging);
/* Free RANK's part of all lanes, which nobody uses any more. */
void bb_nccl_lanes_close(struct bb_rank *rank);
BB_MUST bb_status bb_nccl_stage(struct bb_group *group, int peer, const struct bb_half *out,
				const struct bb_half *in);
/* Do lanes connect this rank with all others of the group? */
bool bb_nccl_lanes_join(const struct bb_group *group);
/* A barrier of a group that bb_nccl_lanes_join. */
BB_MUST bb_status bb_nccl_lanes_barrier(struct bb_group *group);

/* ---- what the library chooses (chosen.c) ------------------------------------------------ */

/* Receives the profiler's events of a communicator. */
struct bb_nccl_observer {
	char name[32]; /* of the communicator; identifies the ear */
	int *events;   /* the library's mask of reported events, for all communicators. NULL: it
			  reports none */
	_Atomic(const char *) algorithm,
		protocol; /* as the library names them; NULL: not reported */
};

/* Called before the drivers start: enables bb_nccl_listen, unless the user has set a profiler. */
BB_MUST bb_status bb_nccl_profiler_set(struct bb_context *context, struct bb_error *error);
void bb_nccl_profiler_unset(struct bb_context *context);
/* The name with which the group's communicator must be created. */
const char *bb_nccl_observer_name(struct bb_group *group);
void bb_nccl_listen(struct bb_group *group, bool on);
void bb_nccl_chosen(struct bb_group *group, char text[BB_CHOSEN_TEXT]);

/* ---- what the library says of a run that hangs (ras.c) ----------------------------------- */

/* Where RAS listens; NULL: nowhere. Called before drivers change the environment. */
const char *bb_nccl_ras_address(const struct bb_nccl_library *library);
/* See backends/library.h. */
bool bb_nccl_diagnose(struct bb_context *context, struct bb_strbuf *out);
void bb_nccl_diagnose_end(struct bb_context *context);

/* ---- meeting (meet.c) ------------------------------------------------------------------ */

/*
 * All drivers of the world exchange payloads of TABLE: all[r] = that of rank r. A driver that has
 * failed does not take part but ends: others may wait for it inside the library, where nobody can
 * interrupt them.
 */
BB_MUST bb_status bb_nccl_gather(struct bb_rank *rank, const struct bb_payload *table,
				 const void *mine, void *all);
/*
 * Called before the first communicator: BB_EUSAGE on all ranks if some would share a GPU without
 * permission. Afterwards capability and version are the least of all ranks, so that all ranks
 * decide alike what the library can do; so is the number of ranks of a root.
 */
BB_MUST bb_status bb_nccl_meet(struct bb_rank *rank);

/* ---- the state of GPUs (health.c) --------------------------------------------------------- */

/* Once the rank's location is known. Without the driver's library rank->health stays NULL. */
void bb_nccl_health_open(struct bb_rank *rank);
void bb_nccl_health_close(struct bb_rank *rank);
/* See backends/gpu.h. */
void bb_nccl_health(struct bb_rank *rank, struct bb_gpu_health *health);
void bb_nccl_throttled(struct bb_rank *rank, int64_t us[BB_GPU_THROTTLES]);

/* ---- messages issued as one (comm.c) --------------------------------------------------- */

/*
 * After ncclGroupStart, and whatever STATUS what was issued since then has: end the library's
 * group. Returns the first failure.
 */
BB_MUST bb_status bb_nccl_messages_end(const struct bb_rank *rank, bb_status status);
/* Issue to the main stream, at once: OUT goes to member TO of GROUP, IN comes from member FROM. A
   message of 0 bytes is none. */
BB_MUST bb_status bb_nccl_exchange(struct bb_group *group, int to, const struct bb_half *out,
				   int from, const struct bb_half *in);

/* ---- groups (comm.c) ----------------------------------------------------------------- */

struct bb_group {
	struct bb_group *next; /* of the rank's */
	struct bb_rank *rank;
	int me;
	int n;
	int *members;
	ncclComm_t comm;              /* NULL: none, or there is no library */
	const struct bb_native *made; /* the native that comm was created for */
	struct bb_nccl_registration *registrations;
	bool weighted[BB_NDTYPES]; /* mulsum's operation exists for comm */
	ncclRedOp_t weights[BB_NDTYPES];
	struct bb_nccl_observer observer;
	struct bb_call probed; /* the last call given to ready, and */
	char refusal[256];     /* why the library refuses it; empty: it does not */
};

BB_MUST bb_status bb_nccl_group_open(struct bb_rank *rank, const int *members, int n,
				     struct bb_group **group, struct bb_error *error);
/* See backends/library.h. */
BB_MUST bb_status bb_nccl_split(struct bb_rank *rank, const int *members, int n,
				struct bb_group **group, struct bb_error *error);
void bb_nccl_group_close(struct bb_group *group);
BB_MUST bb_status bb_nccl_barrier(struct bb_group *group);
extern const struct bb_clocks bb_nccl_clocks;
BB_MUST bb_status bb_nccl_ready(struct bb_group *group, const struct bb_call *call);

/* ---- the library's collectives (native.c) -------------------------------------------- */

/* bb_native's own. */
struct bb_nccl_algorithm {
	unsigned algorithms;   /* mask of possible algorithms (native.c); 0: any */
	const char *algorithm; /* value of NCCL_ALGO; NULL: unchanged */
	const char *protocol;  /* value of NCCL_PROTO; likewise */
};

extern const struct bb_native bb_nccl_natives[]; /* ends with name NULL */
extern const struct bb_native bb_nccl_auto;      /* the library's choice; in no list */

/* NULL, or why the library cannot make CALL: the same on all ranks. */
const char *bb_nccl_native_limits(const struct bb_group *group, const struct bb_call *call);
size_t bb_nccl_native_tmp_bytes(const struct bb_call *call, int rank);
/* Issue CALL to STREAM. */
BB_MUST bb_status bb_nccl_native(struct bb_group *group, cudaStream_t stream,
				 const struct bb_call *call);
/*
 * Try CALL with the present communicator. If the library refuses it, group->refusal holds the
 * reason. Collective over the group; waits.
 */
BB_MUST bb_status bb_nccl_native_probe(struct bb_group *group, const struct bb_call *call);

/* ---- schedules (executor.c) ---------------------------------------------------------- */

size_t bb_nccl_schedule_tmp_bytes(const struct bb_call *call, int rank);
BB_MUST bb_status bb_nccl_schedule(struct bb_group *group, cudaStream_t stream,
				   const struct bb_call *call);

/* ---- matrices (gemm.c) ---------------------------------------------------------------- */

/* Issue FLOPS operations to STREAM, see backends/gpu.h's gemm. */
BB_MUST bb_status bb_nccl_multiply(struct bb_rank *rank, cudaStream_t stream, double flops,
				   struct bb_error *error);
void bb_nccl_gemm_close(struct bb_rank *rank);

/* ---- queues (queue.c) ---------------------------------------------------------------- */

/* Wait until STREAM is empty; BB_ETIMEOUT once the run is being abandoned. */
BB_MUST bb_status bb_nccl_wait(struct bb_rank *rank, cudaStream_t stream);
cudaStream_t bb_nccl_stream(const struct bb_rank *rank, const struct bb_queue *queue);
/* Before a kernel is issued that waits: from here on there is rank->halt, set when waiting for a
   stream has failed. */
BB_MUST bb_status bb_nccl_halt_open(struct bb_rank *rank);
void bb_nccl_halt_close(struct bb_rank *rank);

BB_MUST bb_status bb_nccl_queue_open(struct bb_rank *rank, struct bb_queue **queue,
				     struct bb_error *error);
void bb_nccl_queue_close(struct bb_queue *queue);
BB_MUST bb_status bb_nccl_event_open(struct bb_rank *rank, struct bb_event **event,
				     struct bb_error *error);
void bb_nccl_event_close(struct bb_event *event);
BB_MUST bb_status bb_nccl_event_record(struct bb_rank *rank, struct bb_queue *queue,
				       struct bb_event *event);
BB_MUST bb_status bb_nccl_event_wait(struct bb_rank *rank, struct bb_queue *queue,
				     struct bb_event *event);
BB_MUST bb_status bb_nccl_compute(struct bb_rank *rank, struct bb_queue *queue,
				  void (*function)(void *argument), void *argument);
BB_MUST bb_status bb_nccl_collective(struct bb_group *group, struct bb_queue *queue,
				     const struct bb_call *call);
BB_MUST bb_status bb_nccl_spin(struct bb_rank *rank, struct bb_queue *queue, double seconds);
BB_MUST bb_status bb_nccl_gemm(struct bb_rank *rank, struct bb_queue *queue, double flops,
			       struct bb_error *error);
extern const struct bb_messages bb_nccl_messages;
BB_MUST bb_status bb_nccl_finish(struct bb_rank *rank, struct bb_queue *queue);
/* End the library's group if one has begun. */
BB_MUST bb_status bb_nccl_group_end(struct bb_rank *rank);
BB_MUST bb_status bb_nccl_batch_begin(struct bb_rank *rank);
BB_MUST bb_status bb_nccl_batch_end(struct bb_rank *rank);
BB_MUST bb_status bb_nccl_elapsed(struct bb_rank *rank, struct bb_event *from, struct bb_event *to,
				  double *seconds);
extern const struct bb_graphs bb_nccl_graphs;

#endif
