/*
 * backend.h - how bytes move and where memory is.
 *
 * A backend is one constant table of functions with its own clock. Everything above it is written
 * from the view of one rank: each rank has a driver thread that attaches once and makes all
 * calls of that rank. What a backend cannot do it refuses with BB_EUNSUPPORTED and a reason;
 * it never does something else instead.
 */
#ifndef BB_BACKENDS_BACKEND_H
#define BB_BACKENDS_BACKEND_H

#include "core/payload.h"
#include "core/datatype.h"
#include "core/status.h"
#include "core/strbuf.h"
#include "schedules/schedule.h"
#include "simulator/timeline.h"

#include <stdatomic.h>
#include <stdint.h>

#define BB_BACKEND_ABI 19u
#define BB_CHOSEN_TEXT 32
#define BB_SWITCH_TEXT 160

struct bb_cluster; /* topology/cluster.h */

/* The world, as the launch found it. */
struct bb_world {
	int nranks;     /* in all processes */
	int nprocs;     /* processes */
	int proc;       /* this one */
	int first_rank; /* rank of this process's first driver */
	int nlocal;     /* drivers in this process */
};

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

/* How buffers are made known to the library before they are used (BB_CAP_GPU). */
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
	int cta_policy;      /* 0: the library's default, 1: few thread blocks, 2: none if it can */
	bool reached;        /* other ranks are to reach buffers, over routes */
	/* Neither collectives nor messages are called: the library of them may be missing. */
	bool library_optional;
	bool default_stream; /* the main queue is the device's default stream */
};

struct bb_context; /* a backend opened in this process; shared by its drivers */
struct bb_rank;    /* one rank's view; its driver's alone */
struct bb_group;   /* one rank's view of an ordered subset of ranks */
struct bb_queue;   /* an in-order lane of work of one rank */
struct bb_event;   /* a point in a queue */
struct bb_graph;   /* what was issued to a queue, to be issued again as a whole */

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
	const void *own; /* the backend's affair */
};

/* ---- routes between two ranks, beside collectives ---------------------------------------- */

enum bb_route_use {
	BB_ROUTE_TRANSFER = 1, /* takes bytes: transfer */
	BB_ROUTE_PING = 2      /* takes words to and fro: ping */
};

/* Which end of a transfer moves the bytes. */
enum bb_route_actor { BB_BY_TARGET, BB_BY_SOURCE, BB_BY_BOTH };

/* One way from a rank's memory to another's. */
struct bb_route {
	const char *name; /* "read", "staged" */
	const char *brief;
	unsigned uses; /* enum bb_route_use */
	enum bb_route_actor actor;
	/* The one end works on the other's memory (P2P on); else there is a place between them (P2P
	   off). */
	bool direct;
	const void *own; /* the backend's affair */
	/* It is the library's: direct only as long as library_p2p says so. */
	bool switched;
};

/* One way in which a library moves bytes between ranks of a host. It settles it when it starts. */
struct bb_library_state {
	const char *name;    /* "shared memory, two copies" */
	const char *setting; /* NAME=VALUE in the environment of its process brings it about */
	bool p2p;            /* one end works on the other's memory */
};

/* What a rank tells about its memory so that others reach it. A value: it may be sent anywhere. */
struct bb_token {
	_Alignas(8) unsigned char bytes[256];
};

/* One direction of a transfer, seen from one of its two ends. */
struct bb_half {
	void *mine;   /* what goes out, or the place for what comes in */
	void *theirs; /* the other end's, as reach gave it */
	size_t bytes; /* 0: nothing goes this way */
};

/* ---- memory, worked on to see how fast it is --------------------------------------------- */

/*
 * What is done with A, B and C, arrays of the same size. The bytes that count are those the work
 * itself reads and writes: a line that caches fetch because it is about to be written does not,
 * and stores go past the caches so that none need be.
 */
enum bb_memory_work {
	BB_WORK_READ,  /* reads A */
	BB_WORK_WRITE, /* writes A: bytes of 1 */
	BB_WORK_COPY,  /* A = B */
	BB_WORK_TRIAD, /* A = B + 2 C, numbers in double precision */
	BB_WORKS
};

#define BB_SPACE_TEXT 16
#define BB_WORK_ALIGNMENT 256 /* of arrays, and of their sizes */
#define BB_CHASE_STRIDE 128   /* bytes from one stop of a chase to the next: two lines */

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
	uint64_t x = pattern->seed + block * 0x9e3779b97f4a7c15u; /* splitmix64 */

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return (size_t)((x ^ (x >> 31)) % pattern->period);
}

enum bb_capability {
	BB_CAP_DATA = 1,      /* moves real data: results can be verified */
	BB_CAP_PROCESSES = 2, /* its ranks may live in several processes */
	BB_CAP_FREE_COST = 4, /* has no memory or time of its own (null): no bounds, no skips */
	BB_CAP_GPU = 8,       /* its memory and queues are a GPU's: graphs, registration, … */
	/*
	 * The main queue, too, runs beside the driver. What fill, collective and copies within its
	 * memory issue is done in their order, and known to be once finish has returned. verify
	 * and copies from or to host memory wait for all before them, and are done when they
	 * return.
	 */
	BB_CAP_ASYNC = 16,
	/*
	 * Time is virtual: one driver, rank 0's, stands for all ranks of the world. What it calls
	 * happens to all of them, its clock is the latest of theirs; programs are evaluated.
	 */
	BB_CAP_VIRTUAL = 32
};

struct bb_backend {
	unsigned abi;
	const char *name;
	const char *brief;
	unsigned capabilities;
	const struct bb_native *natives; /* ends with name NULL */
	/* BB_CAP_VIRTUAL: the same for collectives over a cluster of GPUs, whose algorithms are
	   called as their library calls them. NULL: there is no other. */
	const struct bb_backend *over_gpus;
	/*
	 * All natives, with those that only the backend's library can name: "NAME:…", NAME being
	 * that of a row of NATIVES. Needs no open backend. One block, ends with name NULL; the
	 * caller frees it. NULL: there are no others.
	 */
	bb_status (*discover)(struct bb_native **natives, struct bb_error *error);

	/*
	 * BB_EBACKEND with the reason unless the hardware that it needs is there. Before open,
	 * whether or not that follows. NULL: any will do.
	 */
	bb_status (*usable)(struct bb_error *error);
	/* For --list: append lines about the library that was found, and what of it is not used.
	   Needs no open backend. NULL: there is nothing to say. */
	void (*list)(struct bb_strbuf *out);
	/* Once per process, before the drivers. CONTEXT is closed by close, after all detached.
	   What fails later is told in ERROR too, which must live as long. */
	bb_status (*open)(struct bb_context **context, const struct bb_world *world,
			  const struct bb_backend_config *config, struct bb_error *error);
	void (*close)(struct bb_context *context);
	/* What moves the bytes, with its version; lasts as long as CONTEXT. NULL: what carries the
	   launch, or nothing but this program. */
	const char *(*library)(const struct bb_context *context);
	/* Lines that begin with "# ": what its times come from. NULL: they are measured, or said
	   elsewhere. */
	void (*explain)(const struct bb_context *context, struct bb_strbuf *out);
	/* From any thread or a signal handler: every wait returns BB_ETIMEOUT soon, for good. */
	void (*abort)(struct bb_context *context);
	/* Most ranks per process, and bytes that buffers of this process may take in all: 0, and
	   the ERROR of open tells why, where the hardware does not say. */
	int (*max_local)(void);
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
	/* Let TIME seconds pass on this rank (a delayed rank). */
	void (*delay)(struct bb_rank *rank, double seconds);
	/*
	 * By how much this rank's clock is ahead of rank 0's, in seconds, and how wrong that may
	 * be. Collective over the world. NULL: there is but one clock.
	 */
	bb_status (*clock_offset)(struct bb_rank *rank, double *offset, double *uncertainty);

	/* ---- from here on NULL: the backend has no such thing -------------------------------- */

	/*
	 * Messages between members, in QUEUE's order; those from one member to another match in the
	 * order in which they are issued, and must have the same length. A group carries messages
	 * or collectives, not both; at any time one queue sends to a peer, and one receives.
	 * Buffers are borrowed until the message is done: sent, when the peer has it. PEER and
	 * SOURCE are members; *PEER is read when the message's turn has come (BB_CAP_GPU: when it
	 * is issued).
	 */
	bb_status (*send)(struct bb_group *group, struct bb_queue *queue, const int *peer,
			  const void *data, size_t bytes);
	bb_status (*recv)(struct bb_group *group, struct bb_queue *queue, int peer, void *data,
			  size_t bytes);
	/* From whoever's message is there first; *SOURCE says who, when it is done. On this member
	   no message of the group is received in any other way. */
	bb_status (*recv_any)(struct bb_group *group, struct bb_queue *queue, void *data,
			      size_t bytes, int *source);

	/* QUEUE is busy for SECONDS with a kernel: one block, which looks at the clock. */
	bb_status (*spin)(struct bb_rank *rank, struct bb_queue *queue, double seconds);
	/* QUEUE multiplies matrices of half precision, FLOPS operations or the least that makes
	   sense. BB_EUNSUPPORTED with the reason where the library that does it is missing. */
	bb_status (*gemm)(struct bb_rank *rank, struct bb_queue *queue, double flops,
			  struct bb_error *error);

	/*
	 * BB_CAP_VIRTUAL: PROGRAM, which has passed its check, from now on, on all ranks. WATCH,
	 * which may be NULL, hears of its operations on this rank's clock. *END = when all was
	 * done.
	 */
	bb_status (*evaluate)(struct bb_rank *rank, const struct bb_program *program,
			      const struct bb_timeline_watch *watch, double *end,
			      struct bb_error *error);

	/*
	 * BB_CAP_VIRTUAL: how the last collective of GROUP was played (bb_evaluator_name), and what
	 * this rank's clock would say now had nothing been wrong; NAN: nothing is.
	 */
	void (*played)(struct bb_group *group, const char **evaluator, double *faultless);
	/*
	 * BB_CAP_VIRTUAL: append what collectives were done by since open, those of programs too:
	 * "all_reduce among 16: nvlstree:Simple model, busbench:ring alike"; nothing of none. True:
	 * some by a model of the library's, which has each of them alone.
	 */
	bool (*recount)(const struct bb_context *context, struct bb_strbuf *out);

	/* Routes between two ranks; ends with name NULL. NULL: none, nor the six functions below.
	   BB_CAP_VIRTUAL: messages of a program; there are no functions. */
	const struct bb_route *routes;
	/*
	 * *P2P = does the library let one end work on the other's memory? TEXT = the state that it
	 * is in, and how that is known: "no shared memory: pml=ob1 btl=self,tcp". The same in all
	 * processes, which call it together, before routes are asked for. NULL: no route is
	 * switched.
	 */
	bb_status (*library_p2p)(struct bb_context *context, bool *p2p, char text[BB_SWITCH_TEXT]);
	/* The states that are known, one without P2P among them; ends with name NULL. NULL: there
	   is no library. */
	const struct bb_library_state *library_states;
	/* NULL, or why ROUTE does not lead from this rank to PEER of GROUP (no peer access, …),
	   known when both reach each other's memory. It leads there if neither end refuses. Itself
	   is a peer too: a private copy by the same means. Lasts as long as the group. */
	const char *(*route_refuses)(struct bb_group *group, const struct bb_route *route,
				     int peer);
	/* TOKEN for BYTES of this rank's memory, which came from alloc. */
	bb_status (*share)(struct bb_rank *rank, void *memory, size_t bytes,
			   struct bb_token *token);
	/* *THEIRS = where this rank reaches what PEER shared as TOKEN, until unreach. NULL where it
	   does not: route_refuses then says why of the routes that need it. All members call it,
	   in the same order, once all have shared what is to be reached. */
	bb_status (*reach)(struct bb_group *group, int peer, const struct bb_token *token,
			   void **theirs, struct bb_error *error);
	/* Likewise all members. THEIRS NULL: nothing. */
	void (*unreach)(struct bb_group *group, int peer, void *theirs);
	/*
	 * OUT goes to PEER and IN comes from it over ROUTE, both at once. The ends that act call
	 * it; both with halves that match, in the same order. This end has done its part when it
	 * returns, with BB_CAP_ASYNC when finish has: the bytes that it moves are where they
	 * belong. To know that the other end is done too, and may act, is the caller's affair.
	 */
	bb_status (*transfer)(struct bb_group *group, const struct bb_route *route, int peer,
			      const struct bb_half *out, const struct bb_half *in);
	/* A word goes to PEER and comes back, ROUNDS times: this end starts if FIRST, else it
	   answers. Returns when its last word has come, or gone. */
	bb_status (*ping)(struct bb_group *group, const struct bb_route *route, int peer,
			  bool first, size_t rounds);

	/* Spaces that memory may be in: NUMA nodes, a GPU, the host. NULL: there is nothing to
	   choose, nor the functions below. */
	int (*spaces)(struct bb_context *context);
	void (*space_name)(struct bb_context *context, int space, char name[BB_SPACE_TEXT]);
	/* BYTES in SPACE, 4 KiB aligned, touched; reached by this rank at least. */
	bb_status (*alloc_in)(struct bb_rank *rank, int space, size_t bytes, void **memory,
			      struct bb_error *error);
	void (*release_in)(struct bb_rank *rank, int space, void *memory, size_t bytes);
	/* Work on arrays of BYTES; those that WHAT has no use for may be NULL. Copies may go from
	   one space to another. Done when finish returns. QUEUE other than NULL only of GPUs. */
	bb_status (*work)(struct bb_rank *rank, struct bb_queue *queue, enum bb_memory_work what,
			  void *a, const void *b, const void *c, size_t bytes);
	/* Lay a way through all of MEMORY that visits each BB_CHASE_STRIDE bytes once, in an order
	   that follows from SEED; go HOPS steps along it, each of which knows only from the last
	   where to go. */
	bb_status (*chase_lay)(struct bb_rank *rank, void *memory, size_t bytes, uint64_t seed);
	bb_status (*chase)(struct bb_rank *rank, void *memory, size_t hops);

	/*
	 * Make ready what CALL, settled by choose and tune, needs beyond its buffers: a
	 * communicator of its algorithm, buffers registered. Whether it came about refuses says
	 * afterwards. Collective over the world: every rank comes with the group that makes the
	 * call, and all with the same algorithm. Over the group alone where all calls of the group
	 * so far were settled by choose or are by a schedule. NULL: nothing is ever needed.
	 */
	bb_status (*ready)(struct bb_group *group, const struct bb_call *call);
	/* Between the two, collectives of the main queue are issued to the library as one. */
	bb_status (*batch_begin)(struct bb_rank *rank);
	bb_status (*batch_end)(struct bb_rank *rank);
	/*
	 * From ON to OFF the library is listened to, which takes time: chosen says what it chose
	 * for the last call of GROUP meanwhile. Between it and the calls all ranks of the process
	 * meet.
	 */
	void (*listen)(struct bb_group *group, bool on);
	/* TEXT = "ring:LL128"; empty where the library does not tell. */
	void (*chosen)(struct bb_group *group, char text[BB_CHOSEN_TEXT]);
	/* Seconds between two events that were recorded and reached. */
	bb_status (*elapsed)(struct bb_rank *rank, struct bb_event *from, struct bb_event *to,
			     double *seconds);
	/*
	 * Between begin and end, what is issued to QUEUE is not done but kept. launch issues all of
	 * it to QUEUE, as often as it is called. No rank may wait for a queue in between. After an
	 * error there is no graph.
	 */
	bb_status (*graph_begin)(struct bb_rank *rank, struct bb_queue *queue);
	bb_status (*graph_end)(struct bb_rank *rank, struct bb_queue *queue,
			       struct bb_graph **graph);
	bb_status (*graph_launch)(struct bb_rank *rank, struct bb_queue *queue,
				  struct bb_graph *graph);
	void (*graph_close)(struct bb_graph *graph); /* NULL: nothing */
};

/* What a backend's shared object exports, as `bb_plugin_backend`: its table. */
#define BB_BACKEND_SYMBOL "bb_plugin_backend"

/* Backends built in, in the order of preference for --list; ends with NULL. */
extern const struct bb_backend bb_backend_host, bb_backend_sim, bb_backend_null;
extern const struct bb_backend *const bb_backends[];
const struct bb_backend *bb_backend_find(const char *name); /* or NULL */

#endif
