/*
 * pattern_store.h - the patterns in use, made once for all drivers of a process.
 */
#ifndef BB_HARNESS_MEASURE_PATTERN_STORE_H
#define BB_HARNESS_MEASURE_PATTERN_STORE_H

#include "harness/measure/pattern.h"

#include <pthread.h>

struct bb_pattern_store {
	pthread_mutex_t lock;
	struct bb_stored_patterns *first;
};

void bb_pattern_store_open(struct bb_pattern_store *store);
void bb_pattern_store_close(struct bb_pattern_store *store); /* frees patterns still in use too */

/* *PATTERNS = those for these arguments (see bb_patterns_make), until they are given back. */
BB_MUST bb_status bb_pattern_store_take(struct bb_pattern_store *store, enum bb_dtype dtype, int op,
					int nranks, uint64_t seed,
					const struct bb_patterns **patterns);
/* Give PATTERNS back; the last user's call frees them. NULL: nothing. */
void bb_pattern_store_give(struct bb_pattern_store *store, const struct bb_patterns *patterns);

#endif
