/*
 * host.h - the host backend from inside: ranks are threads of one process that read each other's
 * memory.
 *
 *   host.c    the backend's table: groups, choices, opening, pinning
 *   wait.c    waiting and waking, also with more threads than cores
 *   p2p.c     messages, for the executor and queues; routes between two ranks
 *   direct.c  the algorithm without messages
 */
#pragma once

#include "backends/backend.h"
#include "backends/cpu/executor.h"
#include "backends/cpu/memory.h"
#include "backends/cpu/queue.h"
#include "backends/routes.h"
#include "simulator/timeline/timeline.h"

#include <pthread.h>

#define BB_HOST_MAX_RANKS 1024
#define BB_LINE 64 /* bytes of a cache line */

/* With ports: the times at which a rank's outgoing and incoming port are free again. */
struct bb_host_port {
	_Alignas(BB_LINE) _Atomic double out;
	_Alignas(BB_LINE) _Atomic double in;
};

struct bb_context {
	struct bb_cpu_context cpu;
	struct bb_host_port *ports; /* [local]; NULL: links are not ports */
	pthread_mutex_t lock;       /* teams */
	struct bb_host_team *teams; /* open or being joined */
};

struct bb_rank {
	struct bb_context *context;
	int rank;
	struct bb_choices choices; /* over paced links */
};

/* ---- waiting (wait.c) -------------------------------------------------------------- */

/* The threads of one member that sleep: its driver, and those of its queues. */
struct bb_bell {
	_Alignas(BB_LINE) atomic_int sleeping;
	atomic_uint rung;
};

/* Do waiting threads sleep, to leave the core to others? */
static inline bool bb_host_sleeps(const struct bb_context *context)
{
	return context->cpu.crowded ||
	       atomic_load_explicit(&context->cpu.queues, memory_order_relaxed) > 0;
}

/* Wait until *word has reached TARGET (counters may wrap). BB_ETIMEOUT once aborted. */
BB_MUST bb_status bb_host_wait(struct bb_context *context, struct bb_bell *bell, atomic_uint *word,
			       uint32_t target);
/* Wait until MET(ARGUMENT) is true. BB_ETIMEOUT once aborted. */
BB_MUST bb_status bb_host_wait_for(struct bb_context *context, struct bb_bell *bell,
				   bool (*met)(const void *argument), const void *argument);
/* Store VALUE in *word and wake the threads that sleep at BELL. */
void bb_host_signal(const struct bb_context *context, struct bb_bell *bell, atomic_uint *word,
		    uint32_t value);
/* Wake the threads at all N bells, after bb_host_store stored the word that they wait for. */
void bb_host_wake(const struct bb_context *context, struct bb_bell *bells, int n);
void bb_host_store(const struct bb_context *context, atomic_uint *word, uint32_t value);

static inline bool bb_reached(uint32_t value, uint32_t target)
{
	return (int32_t)(value - target) >= 0;
}

/* ---- groups (host.c) --------------------------------------------------------------- */

#define BB_INLINE_BYTES 40
#define BB_SLOTS 16 /* messages in flight per (pair, channel) */

/* One message. */
struct bb_slot {
	_Alignas(BB_LINE) atomic_uint sequence; /* number of its message, once complete */
	double ready_at;                        /* paced links: earliest time of arrival */
	size_t bytes;
	union {
		const void *data;
		unsigned char inlined[BB_INLINE_BYTES];
	};
};

/* One direction of a pair, on one channel. */
struct bb_pipe {
	_Alignas(BB_LINE) struct bb_slot slots[BB_SLOTS];
	_Alignas(BB_LINE) atomic_uint taken; /* messages that the receiver has read */
};

#define BB_FLAT_BYTES 2048 /* inputs up to this are copied through the offer */

/* What a member of a team offers to the others in `direct`. */
struct bb_host_offer {
	_Alignas(BB_LINE) atomic_uint arrived; /* calls it has entered */
	const void *in;
	void *out;
	_Alignas(BB_LINE) atomic_uint left; /* calls in which it is done with others' buffers */
	struct {
		_Alignas(BB_LINE) atomic_uint posted;
		_Alignas(8) unsigned char data[BB_FLAT_BYTES + BB_LINE - 8];
	} flat[2]; /* by parity of the call */
};

/* Shared by a crowded team: any running member does work of all. */
struct bb_pool {
	_Alignas(BB_LINE) atomic_uint arrived; /* members that entered, over all calls */
	_Alignas(BB_LINE) atomic_uint open;    /* calls that all members have entered */
	_Alignas(BB_LINE) atomic_uint next;    /* next task of the open call */
	_Alignas(BB_LINE) atomic_uint done;    /* tasks done of the open call */
	_Alignas(BB_LINE) atomic_uint closed;  /* calls complete */
};

/* Counter that one member waits for in a ping from another. */
struct bb_word {
	_Alignas(BB_LINE) atomic_uint count;
};

/* State that the members of a group share. */
struct bb_host_team {
	struct bb_host_team *next;
	size_t bytes; /* of this struct and all arrays, in one mapping */
	int n;
	int left;
	struct bb_pipe *pipes; /* [(dst * n + src) * BB_CHANNELS + channel], lazily touched */
	struct bb_word *words; /* [dst * n + src], lazily touched */
	struct bb_host_offer *offers; /* [member] */
	struct bb_bell *bells;        /* [member] */
	int *members;
	bool *has_joined; /* [member] */
	struct bb_pool pool;
	_Alignas(BB_LINE) atomic_uint barrier_arrived; /* members, over all barriers */
	_Alignas(BB_LINE) atomic_uint barrier_opened;  /* barriers that all have reached */
};

/* What a rank counts of a peer. */
struct bb_host_peer {
	uint32_t sent[BB_CHANNELS], received[BB_CHANNELS]; /* messages so far */
	uint32_t words;                                    /* pings received from it */
	double link_free; /* time at which the paced link to it is free again */
};

/* One rank's view of a team. */
struct bb_group {
	struct bb_rank *rank;
	struct bb_turns turns;
	struct bb_host_team *team;
	int me;
	uint32_t calls;              /* direct calls made */
	uint32_t entered;            /* direct call that all members are known to have entered */
	uint32_t barriers;           /* barriers passed */
	int last_sender;             /* that of the last BB_MESSAGE_RECV_ANY */
	char *bounce;                /* buffer of staged transfers; NULL: not needed yet */
	struct bb_host_peer peers[]; /* [member] */
};

BB_CPU_STRUCTS_FIT;

/* ---- messages and routes (p2p.c), and the algorithm without them (direct.c) ------------ */

extern const struct bb_p2p bb_host_p2p; /* port: struct bb_group * */
BB_MUST bb_status bb_host_message(const struct bb_message *message);

extern const struct bb_native bb_host_natives[];
BB_MUST bb_status bb_host_direct(struct bb_group *group, const struct bb_call *call);
size_t bb_host_direct_tmp_bytes(const struct bb_call *call, int rank);
double bb_host_direct_cost(const struct bb_call *call);

extern const struct bb_routes bb_host_routes;
void bb_host_bounce_free(struct bb_group *group);
