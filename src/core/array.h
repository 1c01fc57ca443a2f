/*
 * array.h - arrays that grow.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/*
 * Make room for one more element of SIZE (above 0) bytes in ITEMS, which holds N and has room for
 * *ROOM. Returns the array, which may have moved, or NULL without memory: then ITEMS and *ROOM
 * stay.
 */
static inline void *bb_array_fit(void *items, size_t n, size_t *room, size_t size)
{
	const size_t more = *room > 0 ? 2 * *room : 16;

	if (n < *room)
		return items;
	items = more <= SIZE_MAX / size ? realloc(items, more * size) : NULL;
	if (items)
		*room = more;
	return items;
}

/*
 * Append an element to LIST, which holds N and has room for ROOM: three lvalues, NULL and 0 at
 * first; N and ROOM are integers of any type. The value is the new element, which is not
 * initialised, or NULL without memory: then all three stay. The owner frees LIST.
 */
#define BB_ARRAY_ADD(list, n, room)                                                                \
	({                                                                                         \
		size_t bb_array_room = (size_t)(room);                                             \
		__typeof__(list) bb_array_list =                                                   \
			bb_array_fit((list), (size_t)(n), &bb_array_room, sizeof(*(list)));        \
                                                                                                   \
		if (bb_array_list) {                                                               \
			(list) = bb_array_list;                                                    \
			(room) = (__typeof__(room))bb_array_room;                                  \
		}                                                                                  \
		bb_array_list ? &bb_array_list[(n)++] : NULL;                                      \
	})

/* Append a value of the elements' type, which does not stand in LIST itself. False: without memory,
   as above. */
#define BB_ARRAY_PUT(list, n, room, ...)                                                           \
	({                                                                                         \
		__typeof__(list) bb_array_new = BB_ARRAY_ADD(list, n, room);                       \
                                                                                                   \
		if (bb_array_new)                                                                  \
			*bb_array_new = (__VA_ARGS__);                                             \
		bb_array_new != NULL;                                                              \
	})
