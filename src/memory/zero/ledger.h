/*
 * ledger.h - accounted memory of one rank: held bytes of each kind, their peak, and bytes allocated
 * from the backend that hold nothing.
 *
 * Released memory is kept and reused by the next request of the same size, as in the caching
 * allocators of frameworks. So the memory allocated from the backend never shrinks before the
 * ledger is closed, and temporary layers cost no allocation.
 */
#ifndef BB_MEMORY_ZERO_LEDGER_H
#define BB_MEMORY_ZERO_LEDGER_H

#include "backends/backend.h"

enum bb_holding {
	BB_HOLD_PARAMETERS,
	BB_HOLD_GRADIENTS,
	BB_HOLD_OPTIMIZER,
	BB_HOLD_COMMUNICATION, /* gathered layers, buckets, buffers of collectives */
	BB_HOLDINGS
};

/* Bytes, at one moment. */
struct bb_books {
	uint64_t holds[BB_HOLDINGS]; /* as requested */
	uint64_t reserved;           /* allocated from the backend: at least the sum of HOLDS */
	uint64_t host;               /* held in host memory, not part of the others */
};

uint64_t bb_books_held(const struct bb_books *books);          /* of all kinds */
uint64_t bb_books_fragmentation(const struct bb_books *books); /* reserved but not held */

/* A piece of memory. */
struct bb_held {
	char *memory; /* NULL: none */
	size_t bytes, block;
};

struct bb_ledger { /* zero-initialise all but backend, rank and error */
	const struct bb_backend *backend;
	struct bb_rank *rank;
	struct bb_error *error;
	struct bb_books now;
	struct bb_books peak; /* when the most was held */
	struct bb_block *blocks;
	size_t n, room;
};

/* Memory is allocated in multiples of BB_LEDGER_PAGE or, from BB_LEDGER_HUGE on, of that. Backends
   round alike, so the system reports the same bytes. */
#define BB_LEDGER_PAGE ((size_t)4 << 10)
#define BB_LEDGER_HUGE ((size_t)2 << 20)
size_t bb_ledger_rounded(size_t bytes);

/*
 * *HELD = BYTES (more than 0) for HOLDING; HOST: in host memory, for any backend. The contents are
 * undefined. BB_EINTERNAL or the backend's status without memory.
 */
BB_MUST bb_status bb_ledger_take(struct bb_ledger *ledger, enum bb_holding holding, size_t bytes,
				 bool host, struct bb_held *held);
/* Release HELD, which no call may still use. Without memory: nothing. */
void bb_ledger_give(struct bb_ledger *ledger, struct bb_held *held);
/* Free all blocks, also held ones. */
void bb_ledger_close(struct bb_ledger *ledger);

#endif
