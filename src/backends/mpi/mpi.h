/*
 * mpi.h - the mpi backend from within: a rank is a process of MPI_COMM_WORLD.
 *
 *   mpi.c     the backend's table; opening, place, memory
 *   group.c   groups, and what is made ready for a call
 *   native.c  the library's own collectives
 *   forced.c  the algorithms that the library has names for
 *   types.c   its datatypes and operations
 *   p2p.c     messages, for the executor; waiting
 *   messages.c  messages of queues
 *   routes.c  routes between two ranks
 *   clock.c   how the clocks of the processes differ
 *   compat.h  what differs between versions of MPI
 *
 * MPI is started and ended by the launch. The library's errors are returned, none is fatal.
 */
#ifndef BB_BACKENDS_MPI_MPI_H
#define BB_BACKENDS_MPI_MPI_H

#include "backends/backend.h"
#include "backends/cpu/executor.h"
#include "backends/cpu/memory.h"
#include "backends/cpu/queue.h"
#include "backends/mpi/compat.h"
#include "backends/routes.h"

/* ---- datatypes and operations (types.c) ------------------------------------------------- */

struct bb_mpi_types {
	MPI_Datatype type[BB_NDTYPES];
	MPI_Op op[BB_NDTYPES][BB_NOPS]; /* where the op takes the type; of avg and mulsum the sum */
	bool own[BB_NDTYPES][BB_NOPS];  /* it is ours, to be freed */
};

/* Collective over COMM. Returns an MPI code; close TYPES, zeroed before, whatever comes back. */
int bb_mpi_types_open(struct bb_mpi_types *types, const struct bb_kernels *kernels, MPI_Comm comm);
void bb_mpi_types_close(struct bb_mpi_types *types);

/* ---- the library's own algorithms (forced.c) -------------------------------------------- */

/* The library's functions that have algorithms to choose from. */
enum bb_mpi_function {
	BB_MPI_ALLREDUCE,
	BB_MPI_ALLGATHER,
	BB_MPI_REDUCE_SCATTER_BLOCK,
	BB_MPI_REDUCE_SCATTER,
	BB_MPI_BCAST,
	BB_MPI_REDUCE,
	BB_MPI_GATHER,
	BB_MPI_SCATTER,
	BB_MPI_ALLTOALL,
	BB_MPI_ALLTOALLV,
	BB_MPI_FUNCTIONS
};

/* bb_native's own for "native:NAME"; of plain "native" it is NULL. */
struct bb_mpi_forced {
	int value[BB_MPI_FUNCTIONS]; /* what the library calls NAME; 0: it has none */
	bool only_pairs;             /* needs exactly two ranks */
};

BB_MUST bb_status bb_mpi_discover(struct bb_native **natives, struct bb_error *error);

/* The library's control variables, once somebody needs them. */
struct bb_mpi_controls {
	bool open;
	const char *reason; /* why no algorithm can be forced; NULL: it can */
};

void bb_mpi_controls_open(struct bb_mpi_controls *controls);
void bb_mpi_controls_close(struct bb_mpi_controls *controls);
/* TEXT = the name of what control variable NAME is set to, cut at ROOM; false: it has none. */
bool bb_mpi_control_read(const struct bb_mpi_controls *controls, const char *name, char *text,
			 size_t room);
/*
 * *FORCED = a duplicate of COMM on which FUNCTION takes algorithm VALUE; or MPI_COMM_NULL, and
 * *REASON why not, on all members alike. Collective over COMM. Returns an MPI code.
 */
int bb_mpi_force(struct bb_mpi_controls *controls, MPI_Comm comm, enum bb_mpi_function function,
		 int value, MPI_Comm *forced, const char **reason);

/*
 * TEXT = the names of FRAMEWORK's components that are open, "self,tcp", cut at ROOM: of FRAMEWORK
 * "btl_" those that have a control variable "btl_NAME" SUFFIX. "none": there are none, or the
 * library does not tell.
 */
void bb_mpi_components(const struct bb_mpi_controls *controls, const char *framework,
		       const char *suffix, char *text, size_t room);

/* How bytes move between processes of one host; the same in all processes. */
struct bb_mpi_found {
	bool p2p; /* one process works on another's memory */
	char text[BB_SWITCH_TEXT];
	char why[BB_SWITCH_TEXT + 64]; /* it does not */
};

/* ---- the process ------------------------------------------------------------------------ */

struct bb_context {
	struct bb_cpu_context cpu;
	struct bb_world world;
	struct bb_backend_config config;
	struct bb_error *error; /* where the library's errors are told */
	MPI_Comm comm;          /* of the world; groups are made of it */
	bool threads;           /* several threads may call the library at once */
	int *hosts;             /* [rank]: the lowest rank of its host */
	int sharing;            /* of them on the cores that this one may use, itself included */
	int place;              /* of this one among them, by rank */
	bool one_clock;         /* all processes of the world read the same */
	struct bb_mpi_types types;
	struct bb_mpi_controls controls;
	struct bb_mpi_found found;
};

struct bb_rank {
	struct bb_context *context;
	struct bb_mpi_shared *shared; /* memory that others may reach */
};

/* Tell that FUNCTION of the library failed with CODE. */
bb_status bb_mpi_failed(struct bb_context *context, const char *function, int code);

/* The same; BB_OK if it did not. */
BB_MUST static inline bb_status bb_mpi_told(struct bb_context *context, const char *function,
					    int code)
{
	return code == MPI_SUCCESS ? BB_OK : bb_mpi_failed(context, function, code);
}

static inline bool bb_mpi_aborted(const struct bb_context *context)
{
	return bb_cpu_aborted(&context->cpu);
}

/* ---- messages (p2p.c) ------------------------------------------------------------------- */

/* A message sent, in pieces. */
struct bb_mpi_sent {
	int pieces; /* of them the first TAKEN were */
	int taken;
	MPI_Request requests[BB_PIECES_MOST];
};

/* A piece expected. */
struct bb_mpi_expected {
	int peer;
	int channel;
	void *data;
	MPI_Request request;
};

/* One rank's end of the messages of a group. */
struct bb_mpi_port {
	struct bb_context *context;
	MPI_Comm comm; /* for messages alone */
	size_t piece;  /* that this call's messages are cut into, but for very long ones */
	char *lent;    /* in its TMP: room for BB_LENT_MOST pieces of lent_bytes */
	size_t lent_bytes;
	unsigned nlent; /* pieces lent so far */
	unsigned expected, received;
	struct bb_mpi_expected queue[BB_EXPECTED_MOST];
	int nfree;
	uint32_t free[BB_SENT_MOST]; /* tickets that stand for no message */
	struct bb_mpi_sent sent[BB_SENT_MOST];
};

void bb_mpi_port_init(struct bb_mpi_port *port, struct bb_context *context, MPI_Comm comm);
/* Until REQUEST is done; BB_ETIMEOUT once the run is being abandoned. */
BB_MUST bb_status bb_mpi_await(struct bb_mpi_port *port, MPI_Request *request, MPI_Status *message);
size_t bb_mpi_schedule_tmp_bytes(const struct bb_group *group, const struct bb_call *call);
BB_MUST bb_status bb_mpi_schedule(struct bb_group *group, const struct bb_call *call);

/* ---- messages of queues (messages.c) ----------------------------------------------------- */

/* bb_cpu_context's pass. */
BB_MUST bb_status bb_mpi_message(const struct bb_message *message);

/* ---- groups (group.c) ------------------------------------------------------------------- */

struct bb_mpi_row; /* how the library is called for a collective (native.c) */

/* What all calls of one collective by one native have in common; bb_call's prepared. */
struct bb_mpi_way {
	struct bb_mpi_way *next;
	const struct bb_native *native;
	const struct bb_mpi_row *row;
	enum bb_mpi_function function; /* of those that ROW has */
	MPI_Comm forced;               /* made for an algorithm that was forced */
	MPI_Comm comm;                 /* that calls are made on: FORCED, or the group's */
	const char *reason;            /* NULL, or why no call can be made this way */
};

struct bb_group {
	struct bb_rank *rank;
	struct bb_turns turns;
	MPI_Comm comm;
	int me;
	int n;
	int *members;
	bool one_host;
	int reached;    /* what of others is reached, */
	bool windowed;  /* and there is */
	MPI_Win window; /* a window to it */
	int crowded;    /* any member's process is; the same on all */
	struct bb_mpi_way *ways;
	bb_mpi_count *counts;   /* 2 n, for the functions that take them */
	bb_mpi_offset *offsets; /* likewise */
	struct bb_mpi_port port;
};

BB_CPU_STRUCTS_FIT;

BB_MUST bb_status bb_mpi_group_open(struct bb_rank *rank, const int *members, int n,
				    struct bb_group **group, struct bb_error *error);
void bb_mpi_group_close(struct bb_group *group);
BB_MUST bb_status bb_mpi_barrier(struct bb_group *group);
BB_MUST bb_status bb_mpi_choose(struct bb_group *group, struct bb_call *call);
BB_MUST bb_status bb_mpi_tune(struct bb_group *group, struct bb_call *call);
const char *bb_mpi_refuses(struct bb_group *group, const struct bb_call *call);

/* ---- the library's state (library.c) ----------------------------------------------------- */

extern const struct bb_route_switch bb_mpi_route_switch;

/* ---- routes (routes.c) ------------------------------------------------------------------ */

struct bb_mpi_shared {
	struct bb_mpi_shared *next;
	char *memory;
	size_t bytes;
};

extern const struct bb_routes bb_mpi_routes;
/* What was shared of BYTES at MEMORY is not any more; no window is open to it. */
void bb_mpi_unshare(struct bb_rank *rank, const void *memory, size_t bytes);

/* ---- the library's collectives (native.c) ----------------------------------------------- */

extern const struct bb_native bb_mpi_natives[];

/* NULL, or why COLLECTIVE cannot be had as NATIVE (bb_native's refuses). */
const char *bb_mpi_native_refuses(const struct bb_native *native,
				  const struct bb_collective *collective);
/* NULL, or why NRANKS cannot have a NATIVE that is forced (bb_native's refuses_group). */
const char *bb_mpi_native_refuses_group(const struct bb_native *native, int nranks);
/* How COLLECTIVE is done; NULL: the library has no such thing. */
const struct bb_mpi_row *bb_mpi_row_find(const struct bb_collective *collective);
/* What forces NATIVE on ROW: sets *function and returns its value. 0: nothing is to be forced, and
 *function is the one that ROW prefers. */
int bb_mpi_native_forces(const struct bb_native *native, const struct bb_mpi_row *row,
			 enum bb_mpi_function *function);
/* NULL, or why the library cannot take CALL; the same on all ranks. */
const char *bb_mpi_native_limits(const struct bb_call *call);
size_t bb_mpi_native_tmp_bytes(const struct bb_call *call, int rank);
BB_MUST bb_status bb_mpi_native(struct bb_group *group, const struct bb_call *call);

/* ---- the clock (clock.c) ---------------------------------------------------------------- */

/* Sets context->one_clock. Collective over the world. Returns an MPI code. */
int bb_mpi_compare_clocks(struct bb_context *context);
extern const struct bb_clocks bb_mpi_clocks;

#endif
