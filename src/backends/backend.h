/*
 * backend.h - how bytes move and where memory is.
 *
 * A backend is one constant table with its own clock: a core of functions, which every backend has,
 * and parts, which only some have; a part is there if its pointer is not NULL. Everything above it
 * is written from the view of one rank: each rank has a driver thread that attaches once and makes
 * all calls of that rank. What a backend cannot do it refuses with BB_EUNSUPPORTED and a reason; it
 * never does something else instead.
 */
#ifndef BB_BACKENDS_BACKEND_H
#define BB_BACKENDS_BACKEND_H

#include "core/datatype.h"
#include "core/payload.h"
#include "core/random.h"
#include "core/status.h"
#include "core/strbuf.h"
#include "schedules/schedule.h"
#include "simulator/timeline.h"

#include <stdatomic.h>
#include <stdint.h>

#define BB_BACKEND_ABI 21u

struct bb_cluster; /* topology/cluster.h */

/* The world, as the launch found it. */
struct bb_world {
	int nranks;     /* in all processes */
	int nprocs;     /* processes */
	int proc;       /* this one */
	int first_rank; /* rank of this process's first driver */
	int nlocal;     /* drivers in this process */
};

/* Ranks that a driver stands for, its own and those after it: 1, or all where time is virtual. */
static inline int bb_world_ranks_per_driver(const struct bb_world *world)
{
	return world->nranks / (world->nlocal * world->nprocs);
}

/*
 * How the drivers of all ranks reach each other beside the backend: for what it must tell them
 * before it can move bytes itself.
 */
struct bb_exchange {
	/*
	 * all[r] = what rank r gave, checked by TABLE; ALL holds nranks payloads. Called by every
	 * driver of the world, on its own thread; LOCAL is its index in this process. BB_ETIMEOUT
	 * once the run is being abandoned.
	 */
	bb_status (*gather)(void *own, int local, const struct bb_payload *table, const void *mine,
			    void *all);
	void *own;
};

/* Who hears how far something has come that takes long to compute. */
struct bb_listener {
	/* DONE of ALL rounds of SCHEDULE, or (NULL) operations of a program, are played; ALL 0: it
	   is over. Often, on the thread that called the backend. NULL: nobody hears. */
	void (*hear)(void *own, const struct bb_algorithm *schedule, size_t done, size_t all);
	void *own;
};

/* How buffers are made known to the library before they are used (GPUs). */
enum bb_registration { BB_REGISTER_NONE, BB_REGISTER_LOCAL, BB_REGISTER_SYMMETRIC };

/* All zeros: nothing special is asked for. */
struct bb_backend_config {
	double link_rate;    /* bytes per second of every ordered pair of ranks; 0: not paced */
	double link_latency; /* seconds, added to every message when paced */
	bool link_port;      /* paced is not the pair, but all that a rank sends, and receives */
	/* Of virtual time: what joins the ranks, instead of the above; NULL: nothing else. */
	const struct bb_cluster *cluster;
	const char *calibrate; /* or a file of records that times are fitted to; NULL: none */
	/* struct bb_link_model's. */
	double link_noise;
	uint64_t seed;
	struct {
		int from, to;
		double factor; /* by which what goes this way over a route takes longer; 0: none */
	} slow_link;
	/* Of virtual time: a rank that comes to each collective so much later; what is wrong with a
	   cluster. */
	struct {
		int rank;
		double seconds; /* 0: none */
	} slow_rank;
	bool flawed;
	struct bb_fabric_flaw flaw;
	struct bb_listener listener;
	/* For a backend of GPUs; the others have no use for them. */
	struct bb_exchange exchange; /* it needs one */
	int ranks_before; /* on this host, in processes before this one: their GPUs are taken */
	int ranks_here;   /* on this host, in all processes */
	enum bb_registration registration;
	int cta_policy; /* 0: the library's default, 1: few thread blocks, 2: none if it can */
	bool reached;   /* other ranks are to reach buffers, over routes */
	/* Neither collectives nor messages are called: the library of them may be missing. */
	bool library_optional;
	bool default_stream; /* the main queue is the device's default stream */
};

/* By how much longer than healthy a route from rank FROM to rank TO takes: 0: no longer. */
static inline double bb_route_slowness(const struct bb_backend_config *config, int from, int to)
{
	return config->slow_link.factor != 0 && config->slow_link.from == from &&
			       config->slow_link.to == to
		       ? config->slow_link.factor - 1
		       : 0;
}

struct bb_context; /* a backend opened in this process; shared by its drivers */
struct bb_rank;    /* one rank's view; its driver's alone */
struct bb_group;   /* one rank's view of an ordered subset of ranks */
struct bb_queue;   /* an in-order lane of work of one rank */
struct bb_event;   /* a point in a queue */

/* Parts; each is described in a header of its name. */
struct bb_gpu;
struct bb_graphs;
struct bb_library;
struct bb_messages;
struct bb_routes;
struct bb_spaces;
struct bb_virtual;

/* Where a rank lives, for the "# Rank" lines and the records. */
struct bb_location {
	int pid;
	int device; /* ordinal: GPU, or core on host */
	int numa;   /* -1: unknown */
	char host[64];
	char bus[16];  /* "0000:3b:00" of a GPU; host: package, NUMA node and core */
	char name[64]; /* "Intel(R) Xeon(R) Processor" */
};

/* *LOCATION = this process on this host, all else zero. */
void bb_location_here(struct bb_location *location);

/* An algorithm of the backend's own, beside the schedules. */
struct bb_native {
	const char *name; /* "direct", "native:ring" */
	const char *brief;
	/* NULL, or why this backend cannot do the collective this way. */
	const char *(*refuses)(const struct bb_native *native,
			       const struct bb_collective *collective);
	/* NULL, or why no group of NRANKS can use it, whatever the collective and its size. */
	const char *(*refuses_group)(const struct bb_native *native, int nranks);
	/*
	 * All natives of the backend, with variants of this one that only its library can name:
	 * "NAME:…". Needs no open backend. One block, ends with name NULL; the caller frees it.
	 * NULL: there are no variants.
	 */
	bb_status (*discover)(struct bb_native **natives, struct bb_error *error);
	const void *own; /* the backend's affair */
};

/* A rank's clock, where each rank has one of its own. */
struct bb_clocks {
	/* By how much this rank's clock is ahead of rank 0's, in seconds, and how wrong that may
	   be. Collective over the world. */
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
	const void *prepared; /* what tune made ready: the backend's affair */
	/* Of a schedule that choose took although the backend has a library: why that does not do
	   it. NULL: nothing of the kind. */
	const char *instead;
};

/* mulsum: is what each rank gives weighted, by bb_mulsum_weight? */
static inline bool bb_call_is_weighted(const struct bb_call *call)
{
	return call->op == BB_MULSUM && (call->collective->flags & BB_REDUCES);
}

/* Must RANK weigh its input into a copy, and give that? */
static inline bool bb_call_weighs(const struct bb_call *call, int rank)
{
	return bb_call_is_weighted(call) && (call->shape.in_place || bb_mulsum_weight(rank) != 1);
}

/* avg: is what comes out a sum, to be divided by the number of ranks? */
static inline bool bb_call_divides(const struct bb_call *call)
{
	return call->op == BB_AVG && (call->collective->flags & BB_REDUCES);
}

/* The shape for CALL's schedule. Weighted inputs are copies: to it such a call is never in place.
 */
static inline struct bb_shape bb_call_scheduled_shape(const struct bb_call *call)
{
	struct bb_shape shape = call->shape;

	if (bb_call_is_weighted(call))
		shape.in_place = false;
	return shape;
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

/* Where RANK is among the N MEMBERS of a group; -1: nowhere. */
static inline int bb_member_index(const int *members, int n, int rank)
{
	for (int i = 0; i < n; i++)
		if (members[i] == rank)
			return i;
	return -1;
}

struct bb_backend {
	unsigned abi;
	const char *name;
	const char *brief;
	const struct bb_native *natives; /* its own algorithms; ends with name NULL */
	int max_local;                   /* most ranks of a process */
	bool in_processes;               /* its ranks may live in several processes */
	/* It moves real data, which can be verified. Else it has no memory either: copy and fill do
	   nothing, verify finds nothing wrong, and nothing is bounded or skipped for it. */
	bool has_data;

	/* Once per process, before the drivers. CONTEXT is closed by close, after all detached.
	   What fails later is told in ERROR too, which must live as long. */
	bb_status (*open)(struct bb_context **context, const struct bb_world *world,
			  const struct bb_backend_config *config, struct bb_error *error);
	void (*close)(struct bb_context *context);
	/* From any thread or a signal handler: every wait returns BB_ETIMEOUT soon, for good. */
	void (*abort)(struct bb_context *context);
	/* Bytes that buffers of this process may take in all: UINT64_MAX without data; 0, and the
	   ERROR of open tells why, where the hardware does not say. */
	uint64_t (*memory_available)(struct bb_context *context);

	/* Per driver, on its own thread: pins it and places its memory. */
	bb_status (*attach)(struct bb_context *context, int local, struct bb_rank **rank,
			    struct bb_error *error);
	void (*detach)(struct bb_rank *rank); /* NULL: nothing */
	void (*locate)(struct bb_rank *rank, struct bb_location *location);

	/* Memory of this rank, 4 KiB aligned, content undefined. */
	bb_status (*alloc)(struct bb_rank *rank, size_t bytes, void **memory);
	void (*release)(struct bb_rank *rank, void *memory, size_t bytes);
	/* Private copy of BYTES at full speed; either side may be host memory. */
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

	/* What `auto` means for this call: sets schedule or native. tuned chunk: see tune. */
	bb_status (*choose)(struct bb_group *group, struct bb_call *call);
	/* Sets call->shape.chunk for the algorithm chosen, and makes ready what all calls of it
	   have in common: prepared, which lasts as long as the group. Before the call is made;
	   whatever is changed of it but its buffers needs another tune. Collective over the group.
	 */
	bb_status (*tune)(struct bb_group *group, struct bb_call *call);
	/* NULL, or why this call cannot be made here (algorithm, op, link pacing, …). */
	const char *(*refuses)(struct bb_group *group, const struct bb_call *call);
	size_t (*tmp_bytes)(struct bb_group *group, const struct bb_call *call);
	/* Bytes moved by all ranks, counted in copies (see bb_algorithm_cost). 0: unknown. */
	double (*cost_bytes)(struct bb_group *group, const struct bb_call *call);

	/* Queue NULL in the calls below is the main one: work is done before the call returns,
	   or by finish at the latest. Other queues run beside it, each in order. A group's
	   collectives match in issue order, on whatever queue. The first error poisons a queue. */
	bb_status (*queue_open)(struct bb_rank *rank, struct bb_queue **queue,
				struct bb_error *error);
	void (*queue_close)(struct bb_queue *queue); /* drains it; NULL: nothing */
	bb_status (*event_open)(struct bb_rank *rank, struct bb_event **event,
				struct bb_error *error);
	void (*event_close)(struct bb_event *event); /* NULL: nothing */
	/* The event is reached when all work issued to QUEUE so far is done. */
	bb_status (*event_record)(struct bb_rank *rank, struct bb_queue *queue,
				  struct bb_event *event);
	/* Later work of QUEUE waits for the event's latest record. */
	bb_status (*event_wait)(struct bb_rank *rank, struct bb_queue *queue,
				struct bb_event *event);
	/* Run FUNCTION(ARGUMENT) in QUEUE's order: a compute kernel's stand-in. */
	bb_status (*compute)(struct bb_rank *rank, struct bb_queue *queue,
			     void (*function)(void *argument), void *argument);
	bb_status (*collective)(struct bb_group *group, struct bb_queue *queue,
				const struct bb_call *call);
	/* Wait until QUEUE is empty; returns its first error. */
	bb_status (*finish)(struct bb_rank *rank, struct bb_queue *queue);

	/* Seconds on this rank's clock, monotonic. */
	double (*now)(struct bb_rank *rank);

	/* ---- parts: NULL where the backend has no such thing --------------------------------- */

	const struct bb_clocks *clocks;     /* NULL: there is but one clock */
	const struct bb_messages *messages; /* between two members of a group */
	const struct bb_routes *routes;     /* between two ranks */
	const struct bb_spaces *spaces;     /* that memory may be in */
	const struct bb_graphs *graphs;     /* of what a queue does */
	const struct bb_gpu *gpu;           /* NULL: ranks are no GPUs */
	const struct bb_library *library;   /* NULL: no library chooses algorithms */
	const struct bb_virtual *virtual;   /* NULL: time is real */
};

/* What a backend's shared object exports, as `bb_plugin_backend`: its table. */
#define BB_BACKEND_SYMBOL "bb_plugin_backend"

/* Backends built in, in the order of preference for --list; ends with NULL. */
extern const struct bb_backend bb_backend_host, bb_backend_sim, bb_backend_null;
extern const struct bb_backend *const bb_backends[];
const struct bb_backend *bb_backend_find(const char *name); /* or NULL */

#endif
