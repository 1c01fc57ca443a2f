/*
 * world.h - what the processes of a run agree on before they begin, so that none of them goes on
 * alone. All functions are collective over the launch.
 */
#ifndef BB_HARNESS_RUN_WORLD_H
#define BB_HARNESS_RUN_WORLD_H

#include "harness/run/options.h"
#include "launch/launch.h"

/* Told to other versions of busbench too: its layout stays. */
struct bb_member {
	char host[64];
	int pid;
};

/* The processes, as one of them takes part in what they agree on. */
struct bb_assembly {
	struct bb_launch *launch;
	struct bb_error *error;
	bool lost; /* set when the launch itself failed: the others may not know of it */
	struct bb_member *members; /* of each process, once they have compared; owned */
};

void bb_assembly_close(struct bb_assembly *assembly);

/*
 * BB_OK if everybody's MINE is. If not, all return the status of the first process that failed,
 * and the error of process 0 says why, naming that process.
 */
BB_MUST bb_status bb_assembly_agree(struct bb_assembly *assembly, bb_status mine);

/* *EXIT_STATUS becomes that of process 0. */
BB_MUST bb_status bb_assembly_end(struct bb_assembly *assembly, int *exit_status);

/* *least = the least of what all gave. */
BB_MUST bb_status bb_assembly_least(struct bb_assembly *assembly, uint64_t mine, uint64_t *least);

/*
 * Does the same busbench with the same library run in all processes, the same program with the
 * same command line and environment, on the same BACKEND? If not, all return BB_EBACKEND (version
 * or library) or BB_EUSAGE, and the error of process 0 names the first process that differs from
 * it, and in what.
 */
BB_MUST bb_status bb_assembly_compare(struct bb_assembly *assembly, int argc, char **argv,
				      const struct bb_environment *environment,
				      const struct bb_backend *backend);

/* How many processes of this host come before this one. After compare, or alone. */
int bb_assembly_before(const struct bb_assembly *assembly);
/* How many processes this host has. After compare, or alone. */
int bb_assembly_here(const struct bb_assembly *assembly);

/*
 * *ALL = the COUNT payloads of every process, each checked by TABLE, at process 0, to be freed;
 * elsewhere NULL.
 */
BB_MUST bb_status bb_assembly_collect(struct bb_assembly *assembly, const struct bb_payload *table,
				      const void *mine, size_t count, void **all);

/* Is this the lowest process but 0 of its host? After compare. */
bool bb_assembly_speaks_for_host(const struct bb_assembly *assembly);

#endif
