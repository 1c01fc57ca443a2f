/*
 * ledger.h - accounted memory of one rank: held bytes of each kind, their peak, and bytes that are
 * allocated from the backend but not held.
 *
 * Released memory is kept and reused by the next request of the same size, as in the caching
 * allocators of frameworks. The memory allocated from the backend therefore does not shrink before
 * the ledger is closed, and gathering a layer again needs no allocation.
 */
#pragma once

#include "backends/backend.h"

enum bb_holding {
	BB_HOLD_PARAMETERS,
	BB_HOLD_GRADIENTS,
	BB_HOLD_OPTIMIZER,
	BB_HOLD_COMMUNICATION, /* gathered layers, buckets, buffers of collectives */
	BB_HOLDINGS
};

/* Bytes at one time. */
struct bb_usage {
	uint64_t holds[BB_HOLDINGS]; /* as requested */
	uint64_t reserved;           /* allocated from the backend: at least the sum of HOLDS */
	uint64_t host;               /* held in host memory, not part of the others */
};

uint64_t bb_usage_held(const struct bb_usage *usage);          /* sum of all kinds */
uint64_t bb_usage_fragmentation(const struct bb_usage *usage); /* reserved but not held */

/* Memory that is held; zeroed: none. */
struct bb_held {
	char *memory;
	size_t bytes, block; /* as requested; index in the ledger */
};

struct bb_ledger { /* zero-initialise all but backend, rank and error */
	const struct bb_backend *backend;
	struct bb_rank *rank;
	struct bb_error *error;
	struct bb_usage now;
	struct bb_usage peak; /* when most bytes were held */
	struct bb_block *blocks;
	size_t n, room;
};

/* Memory is allocated in multiples of BB_LEDGER_PAGE or, from BB_LEDGER_HUGE bytes on, of
   BB_LEDGER_HUGE. Backends round in the same manner, so the system reports the same bytes. */
#define BB_LEDGER_PAGE ((size_t)4 << 10)
#define BB_LEDGER_HUGE ((size_t)2 << 20)
size_t bb_ledger_rounded(size_t bytes);

/*
 * Set HELD to BYTES (above 0) for HOLDING, with undefined contents. HOST: in host memory, for any
 * backend. BB_EINTERNAL or the backend's status without memory.
 */
BB_MUST bb_status bb_ledger_acquire(struct bb_ledger *ledger, enum bb_holding holding, size_t bytes,
				    bool host, struct bb_held *held);
/* Release HELD, which no call may still use, and zero it. */
void bb_ledger_release(struct bb_ledger *ledger, struct bb_held *held);
/* Free all blocks, including held ones. */
void bb_ledger_close(struct bb_ledger *ledger);
