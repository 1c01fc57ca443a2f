/*
 * clocks.h - differences of the clocks of processes. Processes in one time namespace of one booted
 * kernel read the same clock.
 */
#ifndef BB_BACKENDS_CPU_CLOCKS_H
#define BB_BACKENDS_CPU_CLOCKS_H

#include "core/status.h"

#include <stdbool.h>
#include <stddef.h>

#define BB_CLOCK_NAME 128

/* NAME = identity of this process's clock, padded with zeros; false if unknown. A kernel without
   time namespaces has only its boot ID. */
bool bb_clock_identify(char name[BB_CLOCK_NAME]);

/* Messages between two ranks of the world. Each returns when its message is done. */
struct bb_clock_pings {
	bb_status (*send)(void *own, int peer, const void *data, size_t bytes);
	bb_status (*receive)(void *own, int peer, void *data, size_t bytes);
	void *own;
};

/* The offset of struct bb_clocks for rank ME of N. Collective over the world. */
BB_MUST bb_status bb_clock_compare(const struct bb_clock_pings *pings, int me, int n,
				   double *offset, double *uncertainty);

#endif
