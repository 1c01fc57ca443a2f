/*
 * gloo.h - the gloo backend from inside: a rank is a thread of any process, which Gloo connects to
 * all others by TCP.
 *
 *   gloo.c      the backend's table: opening, ranks, memory
 *   address.c   which address of this host a rank announces
 *   group.c     messages of schedules, queues and clocks; groups and their meshes; meeting
 *   native.c    Gloo's own collectives
 *   wrapper.cc  Gloo as plain C (wrapper.h)
 */
#ifndef BB_BACKENDS_GLOO_GLOO_H
#define BB_BACKENDS_GLOO_GLOO_H

#include "backends/backend.h"
#include "backends/cpu/clocks.h"
#include "backends/cpu/memory.h"
#include "backends/cpu/port.h"
#include "backends/cpu/queue.h"
#include "backends/gloo/wrapper.h"

#include <pthread.h>

/* ---- addresses (address.c) --------------------------------------------------------------- */

#define BB_GLOO_HOST_ADDRESS 80 /* bytes of "fe80::1%eth0" */

/* An address of this host, numeric, and why it was chosen. */
struct bb_gloo_choice {
	char address[BB_GLOO_HOST_ADDRESS];
	int family; /* AF_INET or AF_INET6 */
	bool is_loopback;
	char reason[96]; /* "GLOO_SOCKET_IFNAME=eth0" */
};

/*
 * Choose the address as PyTorch does: that of the interface GLOO_SOCKET_IFNAME; else, unlike
 * PyTorch, the one that leads to MASTER_ADDR; else that of the host's name if it is an address of
 * this host; else the loopback address. BB_EUSAGE if the variable names no usable interface.
 */
BB_MUST bb_status bb_gloo_choose_address(struct bb_gloo_choice *choice, struct bb_error *error);

/* ---- the process ------------------------------------------------------------------------- */

struct bb_context {
	struct bb_cpu_context cpu;
	struct bb_gloo_choice choice;
	char name[BB_GLOO_NAME + sizeof(struct bb_gloo_choice)]; /* Gloo, and its address */
	/* Meshes of all ranks of this process, which the watchdog aborts (group.c). */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct bb_gloo_member *meshes;
	pthread_t watchdog;
	bool has_watchdog, closing;
};

struct bb_rank {
	struct bb_context *context;
	int rank; /* in the world */
	int local;
	struct bb_gloo_device *device;
	struct bb_gloo_member *world; /* to all ranks, for what opens groups and compares clocks */
	int *hosts;                   /* [rank]: the lowest rank of its host */
	bool one_clock;               /* all ranks of the world read the same */
};

/* Report that RANK's ACT failed because of WHY, unless the run is abandoned for another cause,
   which this waits for: then BB_ETIMEOUT. */
bb_status bb_gloo_failed(const struct bb_rank *rank, const char *act, const char *why);

/* ---- what ranks exchange (group.c) ------------------------------------------------------- */

/* Connect RANK to all others: sets world, hosts and one_clock. BB_EUSAGE if their addresses cannot
   reach each other. Collective over the world. */
BB_MUST bb_status bb_gloo_meet(struct bb_rank *rank);

/* ---- groups (group.c) -------------------------------------------------------------------- */

/* A rank's mesh among those of its process. */
struct bb_gloo_member {
	struct bb_gloo_member *next;
	struct bb_gloo_mesh *mesh;
};

struct bb_group {
	struct bb_port port;
	struct bb_gloo_member *member; /* NULL: a group of one */
	int64_t *counts;               /* 2 n, for alltoallv */
};

BB_PORT_STRUCTS_FIT;

/* Connect it to all others of N MEMBERS (NULL: of the world), ADDRESSES[i] being the end that
   member i made for this rank. */
void bb_gloo_member_close(struct bb_rank *rank, struct bb_gloo_member *member);

/* Start the thread that aborts the meshes once the run is being abandoned; end it. */
BB_MUST bb_status bb_gloo_watchdog_open(struct bb_context *context, struct bb_error *error);
void bb_gloo_watchdog_close(struct bb_context *context);

BB_MUST bb_status bb_gloo_group_open(struct bb_rank *rank, const int *members, int n,
				     struct bb_group **group, struct bb_error *error);
void bb_gloo_group_close(struct bb_group *group);
BB_MUST bb_status bb_gloo_group_barrier(struct bb_group *group);

/* ---- messages and routes (group.c) ----------------------------------------------------- */

/* Uses of a mesh, whose messages do not mix. Gloo's collectives take slots below them. */
enum bb_gloo_use { BB_GLOO_SCHEDULES = 0x10, BB_GLOO_QUEUES, BB_GLOO_OPENING, BB_GLOO_PINGS };

static inline uint64_t bb_gloo_slot(enum bb_gloo_use use, int channel)
{
	return (uint64_t)use << 56 | (uint32_t)channel;
}

extern const struct bb_clocks bb_gloo_clocks;

/* bb_cpu_context's pass. */
BB_MUST bb_status bb_gloo_message(const struct bb_message *message);

extern const struct bb_routes bb_gloo_routes;

/* ---- Gloo's collectives (native.c) ------------------------------------------------------- */

extern const struct bb_native bb_gloo_natives[];

BB_MUST bb_status bb_gloo_choose(struct bb_group *group, struct bb_call *call);
const char *bb_gloo_refuses(struct bb_group *group, const struct bb_call *call);
size_t bb_gloo_native_tmp_bytes(const struct bb_group *group, const struct bb_call *call);
BB_MUST bb_status bb_gloo_native(struct bb_group *group, const struct bb_call *call);

#endif
