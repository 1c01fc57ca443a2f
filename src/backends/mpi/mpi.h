/*
 * mpi.h - the mpi backend from inside: a rank is a process of MPI_COMM_WORLD.
 *
 *   mpi.c       the library's own collectives; groups, and what tune prepares for their calls; the
 *               backend's table: opening, location, memory
 *   forced.c    what the library reveals: algorithms that it names, how it moves bytes in a host
 *   types.c     datatypes and operations
 *   messages.c  messages of schedules and queues, routes, differences of the processes' clocks
 *   launch.c    the launch over MPI (launch/launch.h), for other backends too
 *   compat.h    differences between versions of MPI
 *
 * The launch starts and ends MPI. Errors of the library are returned; none is fatal.
 */
#pragma once

#include "backends/backend.h"
#include "backends/cpu/memory.h"
#include "backends/cpu/port.h"
#include "backends/cpu/queue.h"
#include "backends/mpi/compat.h"

/* ---- datatypes and operations (types.c) ------------------------------------------------- */

struct bb_mpi_types {
	MPI_Datatype type[BB_NDTYPES];
	MPI_Op op[BB_NDTYPES][BB_NOPS]; /* where the op takes the type; of avg and mulsum the sum */
	bool own[BB_NDTYPES][BB_NOPS];  /* it is busbench's own, to be freed */
};

/* Collective over COMM. TYPES is zeroed before. Returns an MPI code; close TYPES in any case. */
int bb_mpi_types_open(struct bb_mpi_types *types, const struct bb_kernels *kernels, MPI_Comm comm);
void bb_mpi_types_close(struct bb_mpi_types *types);

/* ---- the library's own algorithms (forced.c) -------------------------------------------- */

/* Functions of the library with selectable algorithms. */
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

/* The own of a bb_native "native:NAME"; for plain "native" it is NULL. */
struct bb_mpi_forced {
	int value[BB_MPI_FUNCTIONS]; /* the library's number of NAME; 0: none */
	bool only_pairs;             /* needs exactly two ranks */
};

BB_MUST bb_status bb_mpi_discover(struct bb_native **natives, struct bb_error *error);

/* The library's control variables, opened on first use. */
struct bb_mpi_controls {
	bool open;
	const char *reason; /* why no algorithm can be forced; NULL: they can */
};

void bb_mpi_controls_close(struct bb_mpi_controls *controls);
/*
 * *FORCED = a duplicate of COMM on which FUNCTION uses algorithm VALUE; or MPI_COMM_NULL and
 * *REASON, on all members alike. Collective over COMM. Returns an MPI code.
 */
int bb_mpi_force(struct bb_mpi_controls *controls, MPI_Comm comm, enum bb_mpi_function function,
		 int value, MPI_Comm *forced, const char **reason);

/* How bytes move between processes of one host; the same in all processes. */
struct bb_mpi_found {
	bool p2p; /* one process accesses another's memory */
	char text[BB_SWITCH_TEXT];
	char why[BB_SWITCH_TEXT + 64]; /* why it does not */
};

/* ---- the process ------------------------------------------------------------------------ */

struct bb_context {
	struct bb_cpu_context cpu;
	MPI_Comm comm;  /* of the world; groups are made of it */
	bool threads;   /* several threads may call the library at once */
	int *hosts;     /* [rank]: the lowest rank of its host */
	int sharing;    /* processes of this host on the cores of this one, with itself */
	int place;      /* of this one among them, by rank */
	bool one_clock; /* all processes of the world read the same */
	struct bb_mpi_types types;
	struct bb_mpi_controls controls;
	struct bb_mpi_found found;
};

struct bb_rank {
	struct bb_context *context;
	int rank;
	struct bb_mpi_shared *shared; /* memory that others may reach */
};

/* BB_OK if CODE is MPI_SUCCESS; else report that FUNCTION of the library failed with it. */
BB_MUST bb_status bb_mpi_check(struct bb_context *context, const char *function, int code);

/* ---- messages (messages.c) -------------------------------------------------------------- */

extern const struct bb_port_calls bb_mpi_port_calls;

/* ---- groups (mpi.c) ------------------------------------------------------------------- */

struct bb_mpi_row; /* the library's function for a collective (mpi.c) */

/* What all calls of one collective by one native share: prepared of bb_call. */
struct bb_mpi_prepared {
	struct bb_mpi_prepared *next;
	const struct bb_native *native;
	const struct bb_mpi_row *row;
	enum bb_mpi_function function; /* one of ROW's */
	MPI_Comm forced;               /* for a forced algorithm */
	MPI_Comm comm;                 /* of the calls: FORCED, or the group's */
	const char *reason;            /* NULL, or why no call can be made */
};

struct bb_group {
	struct bb_port port;
	MPI_Comm comm;
	MPI_Comm messages; /* for messages and barriers only */
	int reached;       /* number of reached memories of others */
	bool windowed;     /* there is a window to them */
	MPI_Win window;
	int crowded; /* any member's process is; the same on all */
	struct bb_mpi_prepared *prepared;
	bb_mpi_count *counts;   /* 2 n, for the functions that take them */
	bb_mpi_offset *offsets; /* likewise */
};

BB_PORT_STRUCTS_FIT;

/* ---- how bytes move within a host (forced.c) --------------------------------------------- */

extern const struct bb_route_switch bb_mpi_route_switch;

/* ---- routes (messages.c) ---------------------------------------------------------------- */

struct bb_mpi_shared {
	struct bb_mpi_shared *next;
	char *memory;
	size_t bytes;
};

extern const struct bb_routes bb_mpi_routes;
/* Unshare all that was shared of BYTES at MEMORY; no window may be open to it. */
void bb_mpi_unshare(struct bb_rank *rank, const void *memory, size_t bytes);

/* ---- the library's collectives (mpi.c) ----------------------------------------------- */

extern const struct bb_native bb_mpi_natives[];

size_t bb_mpi_native_tmp_bytes(const struct bb_group *group, const struct bb_call *call);
BB_MUST bb_status bb_mpi_native(struct bb_group *group, const struct bb_call *call);

/* ---- the clock (messages.c) ------------------------------------------------------------- */

/* Sets context->one_clock. Collective over the world. Returns an MPI code. */
int bb_mpi_compare_clocks(struct bb_context *context);
extern const struct bb_clocks bb_mpi_clocks;
