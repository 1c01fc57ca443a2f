/*
 * slabs.h - slabs of memory that are freed together.
 */
#ifndef BB_SIMULATOR_TIMELINE_SLABS_H
#define BB_SIMULATOR_TIMELINE_SLABS_H

#include <stdbool.h>
#include <stdlib.h>

struct bb_slab {
	struct bb_slab *next;
	_Alignas(16) char bytes[];
};

struct bb_slabs { /* zero-initialise */
	struct bb_slab *first;
	bool lacking; /* there was no memory for one of them */
};

static inline void *bb_slabs_take(struct bb_slabs *slabs, size_t bytes, bool zeroed)
{
	struct bb_slab *new =
		zeroed ? calloc(1, sizeof(*new) + bytes) : malloc(sizeof(*new) + bytes);

	if (!new) {
		slabs->lacking = true;
		return NULL;
	}
	new->next = slabs->first;
	slabs->first = new;
	return new->bytes;
}

static inline void bb_slabs_free(struct bb_slabs *slabs)
{
	while (slabs->first) {
		struct bb_slab *next = slabs->first->next;

		free(slabs->first);
		slabs->first = next;
	}
}

/* Set POINTER to room for COUNT elements: NULL where SLABS are lacking. */
#define BB_TAKE(slabs, pointer, count)                                                             \
	((pointer) = bb_slabs_take((slabs), (count) * sizeof(*(pointer)), false))
#define BB_TAKE_ZEROED(slabs, pointer, count)                                                      \
	((pointer) = bb_slabs_take((slabs), (count) * sizeof(*(pointer)), true))

#endif
