/*
 * fake.h - stand-ins for CUDA and NCCL, so that the nccl backend runs where there is no GPU:
 * devices whose memory is the host's, streams that are threads, kernels that are run one thread
 * after the other, communicators between the threads of one process or several. Only what the
 * backend uses is there. Several processes share a communicator if all are given the same file to
 * share memory in.
 *
 *   fake.c          which call is to fail, what was not let go, the texts of errors
 *   fake_region.c   memory that several processes share
 *   fake_stream.c   streams, events, graphs
 *   fake_cuda.c     devices, memory, copies, kernels
 *   fake_driver.c   memory with fabric handles
 *   fake_library.c  how the backend finds the library
 *   fake_comm.c     communicators
 *   fake_known.c    operations, registered memory and device parts of communicators
 *   fake_ops.c      collectives and messages, and groups of calls
 *   fake_profiler.c  what a profiler is told
 *   fake_compute.c  what the ranks of a collective get
 *   fake_grid.cc    the backend's kernels, compiled for the CPU (cuda_on_cpu.h)
 *
 * Environment: BUSBENCH_FAKE_GPUS (8) is how many devices there are, BUSBENCH_FAKE_FIRST (0) which
 * of the machine's is the first of them, BUSBENCH_FAKE_BYTES (1 GiB) how much memory each has,
 * BUSBENCH_FAKE_CAPABILITY (90) what it can do; BUSBENCH_FAKE_DRIVER is the driver's version code,
 * 0 without one, BUSBENCH_FAKE_VERSION the library's version code; BUSBENCH_FAKE_LAX=1 lets it run
 * a ring where it lacks the algorithm of NCCL_ALGO, as before 2.24, BUSBENCH_FAKE_INTERNAL=1 call
 * that an internal error; BUSBENCH_FAKE_STRAY=1: it runs NVLS whatever NCCL_ALGO was;
 * NCCL_LOCAL_REGISTER=0, NCCL_WIN_ENABLE=0: it registers no buffers, no windows;
 * BUSBENCH_FAKE_DEVICE=1 says on stderr for how many barriers a device part is made;
 * BUSBENCH_FAKE_LSA=N: kernels of a rank reach the memory of N ranks;
 * BUSBENCH_FAKE_L2=N: its second-level cache has N bytes (0: unknown);
 * BUSBENCH_FAKE_PEERS=0: no GPU reaches another's memory;
 * BUSBENCH_FAKE_FABRIC=1: memory has fabric handles; BUSBENCH_FAKE_IMEX=0: the process has no
 * channel for them; BUSBENCH_FAKE_DOMAIN=N: processes import handles of those with the same N;
 * BUSBENCH_FAKE_PINS=0: memory of the host cannot be pinned in place;
 * BUSBENCH_FAKE_NCCL=0: there is no NCCL;
 * BUSBENCH_FAKE_FAIL=NAME:K lets the K-th call of function NAME fail;
 * BUSBENCH_FAKE_LEAKS=1 says on stderr at the end what was not let go, or misused;
 * BUSBENCH_FAKE_COPY_US makes copies within the devices take as long, so that one too few waits
 * shows; BUSBENCH_FAKE_CONTEXTS=1 says on stderr at the end on which devices the process had a
 * context; BUSBENCH_FAKE_STUCK=1: the last rank's communicators never come about;
 * BUSBENCH_FAKE_CONFIG=1 says on stderr how, and with which configuration, each communicator is
 * made;
 * BUSBENCH_FAKE_MIG=N: N GPUs are parts of one, with UUIDs of their own on one bus;
 * BUSBENCH_FAKE_ALIGNED=N also says that a collective's buffer did not begin at a multiple of N;
 * BUSBENCH_FAKE_GROUPS=1 also says that a group of collectives was larger than the first of its
 * communicator, for which alone it is connected;
 * BUSBENCH_FAKE_REGION=FILE is what the processes of a run share, made by the first of them.
 */
#ifndef BB_TESTS_FAKE_H
#define BB_TESTS_FAKE_H

#include "fake_device.h"

#include "backends/nccl/compat.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* ---- for tests ----------------------------------------------------------------------- */

/* Forget all calls so far and which was to fail. */
void fake_reset(void);
/* The CALL-th call (from 1) of FUNCTION since the reset fails. */
void fake_fail(const char *function, int call);
/* Calls of FUNCTION since the reset; and the I-th function that was ever called, NULL behind the
   last. */
int fake_calls(const char *function);
const char *fake_function(int i);
/* What was made and not let go, in words; returns how many things. */
int fake_leaks(char *text, size_t room);
/* Let go of all memory: after a failure it stays as long as the process. Nobody may be using it. */
void fake_forget_memory(void);
/* What was used as it may not be, since the process began; NULL: nothing. */
const char *fake_misuse(void);

/* ---- within the fake ----------------------------------------------------------------- */

/* Count a call; true if it is to fail. Most make a context on the thread's device. */
bool fake_enter(const char *function);
/* The process has a context on the device ORDINAL from now on. */
void fake_context(int ordinal);
#define FAKE_CUDA()                                                                                \
	do {                                                                                       \
		if (fake_enter(__func__))                                                          \
			return cudaErrorUnknown;                                                   \
	} while (0)
#define FAKE_NCCL()                                                                                \
	do {                                                                                       \
		if (fake_enter(__func__))                                                          \
			return fake_complain(ncclSystemError, "%s was to fail", __func__);         \
	} while (0)

/* A call was let fail, and the others may know: whoever waits for them may wait in vain. */
bool fake_has_failed(void);
/* A call was let fail, whether others know it or not. */
bool fake_is_failing(void);
void fake_misused(const char *format, ...) __attribute__((format(printf, 1, 2)));

enum fake_thing {
	FAKE_MEMORY,
	FAKE_STREAM,
	FAKE_EVENT,
	FAKE_GRAPH,
	FAKE_COMM,
	FAKE_DEVICE_COMM,
	FAKE_REGISTRATION,
	FAKE_OPERATION,
	FAKE_THINGS
};
void fake_made(enum fake_thing thing);
void fake_let_go(enum fake_thing thing);

/* Wait for a change, for a moment at most: nobody signals that a call has failed, or wakes another
   process. */
void fake_wait(pthread_cond_t *changed, pthread_mutex_t *lock);

/* ---- memory that all processes see, at the same address (fake_region.c) --------------- */

struct fake_clique;

/* One for all processes. */
struct fake_shared {
	pthread_mutex_t lock;
	struct fake_clique *cliques;
	uint64_t ids;
};
struct fake_shared *fake_shared(void);
bool fake_has_region(void);
#define FAKE_ALIGNMENT ((size_t)512)
/* BYTES, aligned as device memory is; NULL: there are no more. Let go of with the same BYTES. */
void *fake_alloc(size_t bytes);
void fake_free(void *at, size_t bytes);
/* The same, zeros; never NULL. */
void *fake_zeroed(size_t bytes);
/* For all processes. */
void fake_mutex_init(pthread_mutex_t *mutex);

/* Something to do in a stream's order. PAYLOAD is copied; RUN's error is the stream's from then on.
   HOLD, NULL for nothing, is called for each copy that is kept, DROP when it is done with. */
struct fake_task {
	cudaError_t (*run)(void *payload);
	void (*hold)(void *payload);
	void (*drop)(void *payload);
	size_t bytes;
	const void *payload;
};
cudaError_t fake_issue(cudaStream_t stream, const struct fake_task *task);
/* Issues a copy within the devices' memory to STREAM. */
cudaError_t fake_copy(void *dst, const void *src, size_t bytes, cudaStream_t stream);
bool fake_is_capturing(cudaStream_t stream);
/* Wait until the stream is empty; all streams of the thread's device. */
cudaError_t fake_drain(cudaStream_t stream);
void fake_settle(void);
/* Until streams that were destroyed with work under way are gone. */
void fake_settle_ended(void);

/* The library's version code. */
int fake_version(void);
/* A number of the environment. */
long fake_number(const char *name, long otherwise);
int fake_device(void); /* the thread's */
/* Was CUDA_MODULE_LOADING=EAGER when the devices were counted last? */
bool fake_loads_eagerly(void);
int fake_gpu(int ordinal); /* which of the machine's that is */
int fake_card(int gpu);    /* which of the machine's cards that is part of */

/* Memory of the thread's device. False: there is no more; it is not there. */
bool fake_take_memory(void **at, size_t bytes);
bool fake_give_memory(void *at);
/* The same at an address where ORIGIN is mapped; removing it returns its bytes, 0: it is not there.
   The origin of memory, NULL where nothing is mapped, and AT's OFFSET in it. */
void fake_add_memory(void *at, size_t bytes, void *origin);
size_t fake_remove_memory(void *at);
void *fake_memory_origin(const void *at, size_t *offset);
/* The address of AT in all processes (fake_driver.c): that in the region, where it is mapped. */
const void *fake_everywhere(const void *at);

/* A communicator gets to know memory (1) or forgets it (-1). */
void fake_known(const void *at, int change);

/* Keep the sentence for ncclGetLastError; returns RESULT. */
ncclResult_t fake_complain(ncclResult_t result, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The backend's kernels (cuda_on_cpu.h): RUN calls KERNEL with ARGUMENT, of BYTES, for each thread
   of a grid. */
typedef void fake_grid(const void *kernel, const void *argument, unsigned blocks, unsigned threads);
cudaError_t fake_launch(fake_grid *run, const void *kernel, const void *argument, size_t bytes,
			dim3 grid, dim3 block, cudaStream_t stream);

/* ---- communicators ----------------------------------------------------------------- */

struct fake_message {
	struct fake_message *next;
	int from, to;
	const void *data;
	size_t bytes;
	bool taken;
};

enum fake_kind {
	FAKE_ALL_REDUCE,
	FAKE_ALL_GATHER,
	FAKE_REDUCE_SCATTER,
	FAKE_BROADCAST,
	FAKE_REDUCE,
	FAKE_ALLTOALL,
	FAKE_GATHER,
	FAKE_SCATTER
};

/* What a rank calls. */
struct fake_call {
	enum fake_kind kind;
	const void *in;
	void *out;
	size_t count;
	ncclDataType_t type;
	ncclRedOp_t op; /* of the library's own; ncclNumOps: weighted sum */
	int weight;
	int root;
};

/* Where the ranks of a collective meet. */
struct fake_meeting {
	struct fake_meeting *next;
	unsigned long number;
	int arrived, computed, left;
	struct fake_call calls[FAKE_MOST_RANKS];
};

/* OUT of RANK, of N, of what was called; how many elements it has, and bytes that COUNT of them
 * take. */
void fake_compute(const struct fake_meeting *m, int rank, int n, char *out);
size_t fake_out_count(const struct fake_call *c, int rank, int n);
size_t fake_bytes(size_t count, ncclDataType_t type);

/* What the ranks of a communicator share. */
struct fake_clique {
	struct fake_clique *next;
	uint64_t id;
	int n;
	int refs; /* communicators, and what still uses them */
	int joined, left;
	int gpus[FAKE_MOST_RANKS];       /* 1 + that of each rank that joined */
	char hosts[FAKE_MOST_RANKS][32]; /* NCCL_HOSTID */
	struct {
		int arrived, left;
		uint64_t id; /* of the first communicator */
		int colors[FAKE_MOST_RANKS], keys[FAKE_MOST_RANKS];
	} split;
	int registering, registered;
	size_t window_bytes;
	struct ncclWindow_vidmem *window; /* that is being registered */
	unsigned long long device_arrivals;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	pthread_cond_t
		mail[FAKE_MOST_RANKS]; /* a message to the rank, or one of its own is taken */
	char algorithm[64], protocol[64];
	struct fake_meeting *meetings;
	struct fake_message *messages;
};

#define FAKE_MOST_OPERATIONS 64

struct ncclComm {
	struct fake_clique *clique;
	int rank;
	void *profiler; /* the plug-in's own */
	/* Under the clique's lock. */
	int refs;    /* the handle, and tasks */
	int running; /* tasks */
	bool aborted;
	atomic_int error;
	unsigned long collectives; /* issued */
	int first_group;           /* collectives of its first group; 0: none yet */
	int registrations;
	int device_comms;
	int noperations;
	int weights[FAKE_MOST_OPERATIONS];
	bool open[FAKE_MOST_OPERATIONS];
};

/* Groups of calls that the thread is in. */
int fake_group_depth(void);
/* Does BITS mean 2, of TYPE? */
bool fake_is_two(ncclDataType_t type, uint64_t bits);
void fake_comm_hold(ncclComm_t comm);
void fake_comm_drop(ncclComm_t comm);
/* ncclInvalidArgument, and complained of, unless the library's version knows the type. */
ncclResult_t fake_check_type(ncclDataType_t type);
/* ncclInvalidUsage, and complained of, unless an algorithm of COMM takes the call. */
ncclResult_t fake_check_algorithm(ncclComm_t comm, enum fake_kind kind, ncclDataType_t type);
/* A communicator is made, is destroyed; a collective of it is called. */
void fake_profiler_begin(ncclComm_t comm, const char *name);
void fake_profiler_end(ncclComm_t comm);
void fake_profiler_tell(ncclComm_t comm, const struct fake_call *call);
/* Has COMM been aborted? Under the clique's lock. */
bool fake_is_over(ncclComm_t comm);

#endif
