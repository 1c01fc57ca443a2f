/*
 * ledger.h - memory of one rank, booked by what it holds: how many bytes of which kind there are,
 * how many there were at most, and what of the memory taken from the backend holds nothing.
 *
 * Memory that is given is kept, and taken again by whoever asks for as much of it: as the caching
 * allocators of frameworks do. So what the backend gave never shrinks before the ledger is closed,
 * and layers that come and go cost nothing.
 */
#ifndef BB_MEMORY_ZERO_LEDGER_H
#define BB_MEMORY_ZERO_LEDGER_H

#include "backends/backend.h"

enum bb_holding {
	BB_HOLD_PARAMETERS,
	BB_HOLD_GRADIENTS,
	BB_HOLD_OPTIMIZER,
	BB_HOLD_COMMUNICATION, /* gathered layers, buckets that are reduced, what collectives need
				*/
	BB_HOLDINGS
};

/* Bytes, at one moment. */
struct bb_books {
	uint64_t holds[BB_HOLDINGS]; /* as they were asked for */
	uint64_t reserved;           /* what the backend gave: never less than all of them */
	uint64_t host;               /* held in the memory of the host, beside all of these */
};

uint64_t bb_books_held(const struct bb_books *books);          /* of all kinds */
uint64_t bb_books_fragmentation(const struct bb_books *books); /* reserved, and not held */

/* A piece of it. */
struct bb_held {
	char *memory; /* NULL: there is none */
	size_t bytes, block;
};

struct bb_ledger { /* zero-initialise all but backend, rank and error */
	const struct bb_backend *backend;
	struct bb_rank *rank;
	struct bb_error *error;
	struct bb_books now;
	struct bb_books peak; /* when most was held */
	struct bb_block *blocks;
	size_t n, room;
};

/* BB_LEDGER_PAGE or, from BB_LEDGER_HUGE on, that: in steps of these memory is taken. Backends
   round likewise, so that what the system says is the same. */
#define BB_LEDGER_PAGE ((size_t)4 << 10)
#define BB_LEDGER_HUGE ((size_t)2 << 20)
size_t bb_ledger_rounded(size_t bytes);

/*
 * *HELD = BYTES (more than 0) for HOLDING; HOST: in the memory of the host, whatever the backend's
 * is. The contents are undefined. BB_EINTERNAL or the backend's status without memory.
 */
BB_MUST bb_status bb_ledger_take(struct bb_ledger *ledger, enum bb_holding holding, size_t bytes,
				 bool host, struct bb_held *held);
/* No call works on it any more. Of one that holds nothing: nothing. */
void bb_ledger_give(struct bb_ledger *ledger, struct bb_held *held);
/* All blocks, also those that are held, go back to the backend. */
void bb_ledger_close(struct bb_ledger *ledger);

#endif
