/*
 * library.h - the part of a backend whose collectives a library chooses algorithms for, or the
 * model of a library.
 */
#ifndef BB_BACKENDS_LIBRARY_H
#define BB_BACKENDS_LIBRARY_H

#include <stdbool.h>

#define BB_CHOSEN_TEXT 32

struct bb_context;
struct bb_group;

struct bb_library {
	/* The library with its version; lasts as long as CONTEXT. NULL: it has none. */
	const char *(*name)(const struct bb_context *context);
	/*
	 * From ON to OFF the library is listened to, which takes time: chosen says what it chose
	 * for the last call of GROUP meanwhile. Between it and the calls all ranks of the process
	 * meet.
	 */
	void (*listen)(struct bb_group *group, bool on);
	/* TEXT = "ring:LL128"; empty where the library does not tell. */
	void (*chosen)(struct bb_group *group, char text[BB_CHOSEN_TEXT]);
};

#endif
