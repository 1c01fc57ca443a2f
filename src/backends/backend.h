/*
 * backend.h - the interface of all backends: how bytes move and where memory is.
 *
 * A backend is one constant table with its own clock: a core of functions, which every backend has,
 * and parts, which only some have; a part exists if its pointer is not NULL. Everything above a
 * backend is written from the view of one rank: each rank has a driver thread that attaches once
 * and makes all calls of that rank. A backend refuses what it cannot do with BB_EUNSUPPORTED and a
 * reason; it never does something else instead.
 */
#pragma once

#include "core/datatype.h"
#include "core/payload.h"
#include "core/random.h"
#include "core/status.h"
#include "core/strbuf.h"
#include "schedules/schedule.h"

#include <stdatomic.h>
#include <stdint.h>

#define BB_BACKEND_ABI 31u

/* The world, as the launch found it. */
struct bb_world {
	int nranks;     /* in all processes */
	int nprocs;     /* processes */
	int proc;       /* this one */
	int first_rank; /* rank of this process's first driver */
	int nlocal;     /* drivers in this process */
};

/*
 * How the drivers of all ranks exchange data without the backend: a backend needs it before it can
 * move bytes itself.
 */
struct bb_exchange {
	/*
	 * all[r] = the payload of rank r, checked by TABLE; ALL holds nranks payloads. Every driver
	 * of the world calls it, on its own thread; LOCAL is its index in this process. BB_ETIMEOUT
	 * once the run is being abandoned.
	 */
	bb_status (*gather)(void *own, int local, const struct bb_payload *table, const void *mine,
			    void *all);
	void *own;
};

/* How buffers are registered with the library before they are used (GPUs). */
enum bb_registration { BB_REGISTER_NONE, BB_REGISTER_LOCAL, BB_REGISTER_SYMMETRIC };

/* By which of CUDA's handles a process maps GPU memory of another. Fabric handles also reach other
   hosts. */
enum bb_handles {
	BB_HANDLES_AUTO, /* fabric, if the run has several hosts and the GPU supports them */
	BB_HANDLES_IPC,
	BB_HANDLES_FABRIC
};

/* All zeros: the default. */
struct bb_backend_config {
	double link_rate;    /* bytes per second of every ordered pair of ranks; 0: not paced */
	double link_latency; /* seconds, added to every message when paced */
	bool link_port;      /* the rate holds for all that a rank sends, and for all it receives */
	const struct bb_virtual_config *virtual; /* of virtual time; NULL: time is real */
	struct bb_exchange exchange; /* for backends that meet without a library's launch */
	int ranks_before;            /* on this host, in earlier processes: their GPUs are in use */
	int ranks_here;              /* on this host, in all processes; 0: as in this one */
	/* Only for backends of GPUs. */
	enum bb_registration registration;
	int cta_policy;    /* 0: the library's default, 1: few thread blocks, 2: none if possible */
	int device_blocks; /* thread blocks of kernels on its device API; 0: the default */
	int peers;         /* ranks that each rank exchanges messages with; 0: any number */
	bool reached;      /* other ranks access buffers, over routes */
	enum bb_handles handles; /* if REACHED */
	/* No collectives and messages are called, so their library may be missing. */
	bool library_optional;
	bool default_stream; /* the main queue is the device's default stream */
};

struct bb_context; /* a backend opened in this process; shared by its drivers */
struct bb_rank;    /* one rank's view; its driver's alone */
struct bb_group;   /* one rank's view of an ordered subset of ranks */
struct bb_queue;   /* an in-order lane of work of one rank */
struct bb_event;   /* a point in a queue */

/* Parts; each has a header of its name. */
struct bb_gpu;
struct bb_graphs;
struct bb_library;
struct bb_messages;
struct bb_routes;
struct bb_spaces;
struct bb_virtual; /* with struct bb_virtual_config */

/* Where a rank lives, for the "# Rank" lines and the records. */
struct bb_location {
	int pid;
	int device;     /* ordinal: GPU, or core on host */
	int numa;       /* -1: unknown */
	uint64_t cache; /* bytes of a GPU's second-level cache; 0: unknown, or no GPU */
	char host[64];
	char bus[16];  /* "0000:3b:00" of a GPU; host: package, NUMA node and core */
	char uuid[33]; /* of a GPU, or of its part (MIG), in hexadecimal; empty: it has none */
	char name[64]; /* "Intel(R) Xeon(R) Processor" */
	/* Kind of CUDA's handles by which other processes map its memory: "ipc", "fabric"; empty:
	   they do not. */
	char handle[8];
};

/* *LOCATION = this process on this host, all else zero. */
void bb_location_here(struct bb_location *location);

/* An algorithm of the backend itself, beside the schedules. */
struct bb_native {
	const char *name; /* "direct", "native:ring" */
	const char *brief;
	/* NULL, or why this algorithm cannot do the collective. */
	const char *(*refuses)(const struct bb_native *native,
			       const struct bb_collective *collective);
	/* NULL, or why no group of NRANKS can use it, for any collective and size. */
	const char *(*refuses_group)(const struct bb_native *native, int nranks);
	/*
	 * *NATIVES = all natives of the backend, including variants of this one that only its
	 * library can name, "NAME:…". Needs no open backend. One block that ends with name NULL;
	 * the caller frees it. NULL: no variants.
	 */
	bb_status (*discover)(struct bb_native **natives, struct bb_error *error);
	const void *own; /* private to the backend */
};

/* A rank's clock, where each rank has one of its own. */
struct bb_clocks {
	/* *OFFSET = seconds that this rank's clock is ahead of rank 0's, *UNCERTAINTY = its largest
	   error. Collective over the world. */
	bb_status (*offset)(struct bb_rank *rank, double *offset, double *uncertainty);
};

/* One call of a collective by one rank. Buffers are borrowed until it completes. */
struct bb_call {
	const struct bb_collective *collective;
	const struct bb_algorithm *schedule; /* NULL: native */
	const struct bb_native *native;      /* NULL: schedule */
	enum bb_dtype dtype;
	enum bb_op op;
	struct bb_shape shape;
	const void *in;
	void *out;
	void *tmp;            /* at least tmp_bytes() */
	const void *prepared; /* made by tune; private to the backend */
	/* Why the library cannot make the call, where choose set a schedule although the backend
	   has a library; else NULL. */
	const char *instead;
};

/* mulsum: is the input of each rank weighted by bb_mulsum_weight? */
static inline bool bb_call_is_weighted(const struct bb_call *call)
{
	return call->op == BB_MULSUM && (call->collective->flags & BB_REDUCES);
}

/* Must RANK copy its input, weighted, and use the copy? */
static inline bool bb_call_weighs(const struct bb_call *call, int rank)
{
	return bb_call_is_weighted(call) && (call->shape.in_place || bb_mulsum_weight(rank) != 1);
}

/* avg: is the output a sum that is still to be divided by the number of ranks? */
static inline bool bb_call_divides(const struct bb_call *call)
{
	return call->op == BB_AVG && (call->collective->flags & BB_REDUCES);
}

/* Bytes of RANK's input. */
static inline size_t bb_call_in_bytes(const struct bb_call *call, int rank)
{
	return bb_collective_in(call->collective, &call->shape, rank) * bb_dtype_size(call->dtype);
}

/* The shape for CALL's schedule. Weighted inputs are copies, so such a call is never in place. */
static inline struct bb_shape bb_call_scheduled_shape(const struct bb_call *call)
{
	struct bb_shape shape = call->shape;

	if (bb_call_is_weighted(call))
		shape.in_place = false;
	return shape;
}

/* What the steps of a schedule read and write. */
struct bb_step_buffers {
	char *at[3];    /* enum bb_buffer */
	size_t element; /* bytes */
};

static inline char *bb_place_address(const struct bb_step_buffers *buffers, struct bb_place place)
{
	return buffers->at[place.buffer] + place.offset * buffers->element;
}

/*
 * Inputs and expected outputs. Element i of a pattern is
 *     table[(i % period + rotation(i / period)) % period],
 * rotation(b) = bb_pattern_rotation(pattern, b); the table holds the period twice, so that
 * every block of a period is one contiguous piece of it.
 */
struct bb_pattern {
	const void *table; /* 2 * period elements, host memory */
	size_t period;
	size_t element_size;
	uint64_t seed;
};

static inline size_t bb_pattern_rotation(const struct bb_pattern *pattern, uint64_t block)
{
	return (size_t)(bb_random_mix(pattern->seed + block * BB_RANDOM_STEP) % pattern->period);
}

/* The refuses of a backend that can make every such call. */
const char *bb_backend_accept(struct bb_group *group, const struct bb_call *call);

/* *MEMBER = index of RANK among the N MEMBERS of a group that it opens. */
BB_MUST bb_status bb_member_find(const int *members, int n, int rank, int *member,
				 struct bb_error *error);

struct bb_backend {
	unsigned abi;
	const char *name;
	const char *brief;
	const struct bb_native *natives; /* its own algorithms; ends with name NULL */
	int max_local;                   /* most ranks of a process */
	bool in_processes;               /* its ranks may live in several processes */
	/* It moves real data, which can be verified. Otherwise it has no memory: copy and fill do
	   nothing, verify finds no error, and memory limits no size. */
	bool has_data;

	/* Called once per process, before the drivers start. close frees *CONTEXT, after all
	   drivers have detached. ERROR must live as long: it also receives later failures. */
	bb_status (*open)(struct bb_context **context, const struct bb_world *world,
			  const struct bb_backend_config *config, struct bb_error *error);
	void (*close)(struct bb_context *context);
	/* From any thread or a signal handler: from now on every wait soon returns BB_ETIMEOUT. */
	void (*abort)(struct bb_context *context);
	/* Bytes available to all buffers of this process: UINT64_MAX without data; 0 if the
	   hardware does not say, with the reason in the ERROR of open. */
	uint64_t (*memory_available)(struct bb_context *context);

	/* Called by each driver, on its own thread: pins it and places its memory. *LOCATION =
	   where that is. */
	bb_status (*attach)(struct bb_context *context, int local, struct bb_rank **rank,
			    struct bb_location *location, struct bb_error *error);
	void (*detach)(struct bb_rank *rank); /* NULL: nothing */

	/* Memory of this rank, 4 KiB aligned; its content is undefined. Of a backend without data
	   it is one page that nobody may write. */
	bb_status (*alloc)(struct bb_rank *rank, size_t bytes, void **memory);
	void (*release)(struct bb_rank *rank, void *memory, size_t bytes);
	/* Private copy of BYTES at full speed; either side may be host memory. Within a device it
	   is in the rank's main queue, and finish(rank, NULL) waits for it. */
	bb_status (*copy)(struct bb_rank *rank, void *dst, const void *src, size_t bytes);
	/* dst[0, count) = elements first … of PATTERN. */
	bb_status (*fill)(struct bb_rank *rank, void *dst, const struct bb_pattern *pattern,
			  size_t first, size_t count);
	/* Elements of got[0, count) that differ from PATTERN by more than ULPS units in the last
	   place of DTYPE (0: any bit). Adds to *wrong. */
	bb_status (*verify)(struct bb_rank *rank, const void *got, const struct bb_pattern *pattern,
			    size_t first, size_t count, enum bb_dtype dtype, int ulps,
			    uint64_t *wrong);

	/* Collective over the members, in the same order on all of them; rank 0 of the group is
	   members[0]. The world itself is a group too. */
	bb_status (*group_open)(struct bb_rank *rank, const int *members, int n,
				struct bb_group **group, struct bb_error *error);
	void (*group_close)(struct bb_group *group); /* NULL: nothing */
	bb_status (*barrier)(struct bb_group *group);

	/* Resolve `auto` for this call: set schedule or native; tune sets the chunk. */
	bb_status (*choose)(struct bb_group *group, struct bb_call *call);
	/* Set call->shape.chunk for the chosen algorithm, which refuses nothing of CALL, and
	   call->prepared, which all such calls share and which lasts as long as the group. Required
	   before the call is made, and again after any change but of its buffers. Collective over
	   the group. */
	bb_status (*tune)(struct bb_group *group, struct bb_call *call);
	/* NULL, or why this call cannot be made here (op, link pacing, …), although its algorithm
	   refuses neither the collective nor the group nor the shape. */
	const char *(*refuses)(struct bb_group *group, const struct bb_call *call);
	size_t (*tmp_bytes)(struct bb_group *group, const struct bb_call *call);
	/* Bytes that all ranks move, counted as copies (see bb_algorithm_cost). 0: unknown. */
	double (*cost_bytes)(struct bb_group *group, const struct bb_call *call);

	/* Queue NULL in the calls below is the main queue: its work is done before the call
	   returns, or at the latest when finish returns. Other queues run beside it, each in order.
	   A group's collectives match in issue order, on any queue. The first error poisons a
	   queue. */
	bb_status (*queue_open)(struct bb_rank *rank, struct bb_queue **queue,
				struct bb_error *error);
	void (*queue_close)(struct bb_queue *queue); /* drains it; NULL: nothing */
	bb_status (*event_open)(struct bb_rank *rank, struct bb_event **event,
				struct bb_error *error);
	void (*event_close)(struct bb_event *event); /* NULL: nothing */
	/* EVENT is reached when all work issued to QUEUE so far is done. */
	bb_status (*event_record)(struct bb_rank *rank, struct bb_queue *queue,
				  struct bb_event *event);
	/* Later work of QUEUE waits for the latest record of EVENT. */
	bb_status (*event_wait)(struct bb_rank *rank, struct bb_queue *queue,
				struct bb_event *event);
	/* Run FUNCTION(ARGUMENT) in QUEUE's order, in place of a compute kernel. */
	bb_status (*compute)(struct bb_rank *rank, struct bb_queue *queue,
			     void (*function)(void *argument), void *argument);
	bb_status (*collective)(struct bb_group *group, struct bb_queue *queue,
				const struct bb_call *call);
	/* Wait until QUEUE is empty; returns its first error. */
	bb_status (*finish)(struct bb_rank *rank, struct bb_queue *queue);

	/* Seconds on this rank's clock, monotonic. */
	double (*now)(struct bb_rank *rank);

	/* ---- parts: NULL where the backend has none --------------------------------- */

	const struct bb_clocks *clocks;     /* NULL: all ranks share one clock */
	const struct bb_messages *messages; /* between two members of a group */
	const struct bb_routes *routes;     /* between two ranks */
	const struct bb_spaces *spaces;     /* spaces of memory */
	const struct bb_graphs *graphs;     /* graphs of a queue's work */
	const struct bb_gpu *gpu;           /* NULL: ranks are not GPUs */
	const struct bb_library *library;   /* NULL: no library chooses algorithms */
	const struct bb_virtual *virtual;   /* NULL: time is real */
};

/* The symbol of a backend's table in its shared object. */
#define BB_BACKEND_SYMBOL "bb_plugin_backend"

/* Backends built in, in the order of preference for --list; ends with NULL. */
extern const struct bb_backend bb_backend_host, bb_backend_sim, bb_backend_null;
extern const struct bb_backend *const bb_backends[];
const struct bb_backend *bb_backend_find(const char *name); /* or NULL */
