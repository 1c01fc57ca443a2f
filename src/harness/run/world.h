/*
 * world.h - what the processes of a run agree on, so that none of them goes on alone. Functions
 * that return a status are collective over the launch.
 */
#pragma once

#include "harness/run/options.h"
#include "launch/launch.h"

/* The first payload that processes exchange. Its layout never changes, because other versions of
   busbench read it. */
struct bb_member {
	char version[32];  /* of busbench */
	char library[128]; /* of the launch; "": none */
	char host[64];
	int pid;
};

/* The processes of a run, as seen by one of them. */
struct bb_assembly {
	struct bb_launch *launch;
	struct bb_error *error;
	bool lost;                 /* the launch itself failed, which the others may not know */
	struct bb_member *members; /* of each process, after bb_assembly_compare; free them */
};

/*
 * Returns BB_OK if MINE is BB_OK in every process. Else all return the status of the first process
 * that failed, and the error of process 0 has its cause and names it.
 */
BB_MUST bb_status bb_assembly_agree(struct bb_assembly *assembly, bb_status mine);

/* Replace *EXIT_STATUS by that of process 0. */
BB_MUST bb_status bb_assembly_end(struct bb_assembly *assembly, int *exit_status);

/* *LEAST = the minimum of MINE over all processes. */
BB_MUST bb_status bb_assembly_least(struct bb_assembly *assembly, uint64_t mine, uint64_t *least);

/*
 * Check that all processes run the same version of busbench with the same library, and the same
 * program with the same command line, environment and BACKEND. If not, all return BB_EBACKEND
 * (version or library) or BB_EUSAGE, and the error of process 0 names the first process that
 * differs, and in what.
 */
BB_MUST bb_status bb_assembly_compare(struct bb_assembly *assembly, int argc, char **argv,
				      const struct bb_environment *environment,
				      const struct bb_backend *backend);

/* Returns how many processes of this host precede this one. After compare, or with one process. */
int bb_assembly_before(const struct bb_assembly *assembly);
/* Returns how many processes this host has. After compare, or with one process. */
int bb_assembly_here(const struct bb_assembly *assembly);

/*
 * *ALL = the COUNT payloads of every process, each checked by TABLE, which the caller frees; unless
 * EVERYWHERE only at process 0, elsewhere NULL, as after a failure.
 */
BB_MUST bb_status bb_assembly_collect(struct bb_assembly *assembly, const struct bb_payload *table,
				      const void *mine, size_t count, bool everywhere, void **all);

/* True if this is the lowest process but 0 of its host. After compare. */
bool bb_assembly_speaks_for_host(const struct bb_assembly *assembly);
