/*
 * context.h - what backends whose ranks compute on the CPU share.
 *
 * Such a backend's struct bb_context begins with a struct bb_cpu_context, its struct bb_rank with
 * the members of struct bb_cpu_rank, its struct bb_group with those of struct bb_cpu_group.
 * Functions with the signature of an entry of struct bb_backend are that entry; backend.h holds
 * their contracts.
 */
#pragma once

#include "backends/backend.h"
#include "backends/cpu/kernels.h"
#include "topology/probes/machine.h"

struct bb_message; /* backends/messages.h */

struct bb_cpu_context {
	struct bb_world world;
	struct bb_backend_config config;
	struct bb_error *error; /* of open, for later failures */
	struct bb_machine *machine;
	const struct bb_kernels *kernels;
	int ranks;         /* on this host */
	int cores;         /* of this host that these ranks may use */
	bool crowded;      /* the ranks outnumber their cores */
	atomic_int queues; /* opened so far: threads beside the drivers */
	atomic_int aborted;
	/* Run CALL on the calling thread, now. */
	bb_status (*run)(struct bb_group *group, const struct bb_call *call);
	/* Pass MESSAGE on the calling thread; returns when it is done. */
	bb_status (*pass)(const struct bb_message *message);
};

struct bb_cpu_rank {
	struct bb_cpu_context *context;
	int rank; /* in the world */
};

/* The collectives of a group, as one member counts them. */
struct bb_turns {
	uint32_t issued;
	atomic_uint completed;
};

struct bb_cpu_group {
	struct bb_rank *rank;
	struct bb_turns turns;
};

/* Structs of a backend that begin as described above. */
#define BB_CPU_RANKS_FIT                                                                           \
	_Static_assert(offsetof(struct bb_context, cpu) == 0, "begins with bb_cpu_context");       \
	_Static_assert(offsetof(struct bb_rank, context) == 0 &&                                   \
			       offsetof(struct bb_rank, rank) ==                                   \
				       offsetof(struct bb_cpu_rank, rank),                         \
		       "begins as bb_cpu_rank")
#define BB_CPU_STRUCTS_FIT                                                                         \
	BB_CPU_RANKS_FIT;                                                                          \
	_Static_assert(offsetof(struct bb_group, rank) == 0 &&                                     \
			       offsetof(struct bb_group, turns) ==                                 \
				       offsetof(struct bb_cpu_group, turns),                       \
		       "begins as bb_cpu_group")

static inline struct bb_cpu_context *bb_cpu_of(const struct bb_rank *rank)
{
	return ((const struct bb_cpu_rank *)rank)->context;
}

static inline bool bb_cpu_aborted(const struct bb_cpu_context *context)
{
	return atomic_load_explicit(&context->aborted, memory_order_relaxed) != 0;
}

/* Set all that is not a function, for ranks that may use all cores of the host. BB_EUSAGE if
   $BUSBENCH_ISA names kernels that this CPU cannot run. CONTEXT is zeroed before; bb_cpu_close ends
   it, also after a failure. */
BB_MUST bb_status bb_cpu_open(struct bb_cpu_context *context, const struct bb_world *world,
			      const struct bb_backend_config *config, struct bb_error *error);
void bb_cpu_close(struct bb_cpu_context *context);
void bb_cpu_abort(struct bb_context *context);
/* Returns the share of this process in what is available on the host. */
uint64_t bb_cpu_memory_available(struct bb_context *context);

/* *LOCATION = core CORE (an index) of the machine in this process. UNBOUND is appended to the name
   of the CPU where the rank may leave that core; else it is "". */
void bb_cpu_locate(const struct bb_cpu_context *context, int core, const char *unbound,
		   struct bb_location *location);

/* Should results bypass the caches when each of N ranks reads and writes BYTES in all? */
bool bb_cpu_streams(const struct bb_cpu_context *context, size_t bytes, int n);
/* A copy for which all ranks of the host are assumed to copy at the same time. */
bb_status bb_cpu_copy(struct bb_rank *rank, void *dst, const void *src, size_t bytes);
double bb_cpu_now(struct bb_rank *rank);
