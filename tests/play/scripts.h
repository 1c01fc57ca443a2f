/*
 * scripts.h - small programs for the runner, written down operation by operation, and the buffers
 * that they work on: slots of SLOT_COUNT numbers.
 */
#ifndef BB_TESTS_SCRIPTS_H
#define BB_TESTS_SCRIPTS_H

#include "programs/program.h"

#define MOST_RANKS 16
#define MOST_OPERATIONS 64
#define MOST_GROUPS (3 * MOST_RANKS)
#define SLOT_COUNT ((size_t)40000)
#define SLOTS 32 /* of a rank: the first half are read, the second half written */

enum kernel { KERNEL_DDP, KERNEL_PIPELINE, KERNEL_SERVER, KERNEL_GRID, KERNEL_PASSES, KERNELS };
extern const char *const kernel_names[]; /* ends with NULL */

struct group {
	int size;
	int members[MOST_RANKS];
};

/* Zeroed before it is written. */
struct script {
	struct bb_program program;
	enum kernel kernel;
	double seconds; /* of a computation */
	size_t length[MOST_RANKS];
	struct bb_operation operations[MOST_RANKS][MOST_OPERATIONS];
	struct group groups[MOST_GROUPS];
};

/* What a program of this kernel among NRANKS does; false: not among so many. */
bool script_write(struct script *script, enum kernel kernel, int nranks, double seconds,
		  const char *algorithm);

/* The slots of an operation: work is the one it reads, item the one it writes. */
int script_reads(const struct bb_operation *operation);
int script_writes(const struct bb_operation *operation);

/* Number I of slot S of RANK before the program is played, and after; slots that the program does
   not write stay as they are. */
int32_t script_before(int rank, int slot, size_t i);
int32_t script_after(const struct script *script, int rank, int slot, size_t i);
/* Numbers of a slot that script_after speaks of. */
size_t script_count(const struct script *script, int rank, int slot);

#endif
