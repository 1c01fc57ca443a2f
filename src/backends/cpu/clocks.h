/*
 * clocks.h - differences of the clocks of processes. Processes in one time namespace of one booted
 * kernel read the same clock.
 */
#ifndef BB_BACKENDS_CPU_CLOCKS_H
#define BB_BACKENDS_CPU_CLOCKS_H

#include "backends/cpu/context.h"

#define BB_CLOCK_NAME 128

/* NAME = identity of this process's clock, padded with zeros; false if unknown. A kernel without
   time namespaces has only its boot ID. */
bool bb_clock_identify(char name[BB_CLOCK_NAME]);

/* Send a message to rank PEER of the world, or receive one from it; return when it is done. */
typedef bb_status bb_clock_pass(struct bb_rank *rank, bool sends, int peer, void *data,
				size_t bytes);

/* The offset of struct bb_clocks, by messages that PASS passes; 0 if all ranks have ONE_CLOCK. */
BB_MUST bb_status bb_clock_compare(struct bb_rank *rank, bool one_clock, bb_clock_pass *pass,
				   double *offset, double *uncertainty);

#endif
