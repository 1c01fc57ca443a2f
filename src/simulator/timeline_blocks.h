/*
 * timeline_blocks.h - blocks of memory that are freed together.
 */
#ifndef BB_SIMULATOR_TIMELINE_BLOCKS_H
#define BB_SIMULATOR_TIMELINE_BLOCKS_H

#include <stdbool.h>
#include <stdlib.h>

struct bb_block {
	struct bb_block *next;
	_Alignas(16) char bytes[];
};

struct bb_blocks { /* zero-initialise */
	struct bb_block *first;
	bool lacking; /* there was no memory for one of them */
};

static inline void *bb_blocks_take(struct bb_blocks *blocks, size_t bytes, bool zeroed)
{
	struct bb_block *new =
		zeroed ? calloc(1, sizeof(*new) + bytes) : malloc(sizeof(*new) + bytes);

	if (!new) {
		blocks->lacking = true;
		return NULL;
	}
	new->next = blocks->first;
	blocks->first = new;
	return new->bytes;
}

static inline void bb_blocks_free(struct bb_blocks *blocks)
{
	while (blocks->first) {
		struct bb_block *next = blocks->first->next;

		free(blocks->first);
		blocks->first = next;
	}
}

/* Set POINTER to room for COUNT elements: NULL where BLOCKS are lacking. */
#define BB_TAKE(blocks, pointer, count)                                                            \
	((pointer) = bb_blocks_take((blocks), (count) * sizeof(*(pointer)), false))
#define BB_TAKE_ZEROED(blocks, pointer, count)                                                     \
	((pointer) = bb_blocks_take((blocks), (count) * sizeof(*(pointer)), true))

#endif
