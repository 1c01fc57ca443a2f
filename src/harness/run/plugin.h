/*
 * plugin.h - backends, launches and readers that are loaded at run time, because they need a
 * library that not every machine has.
 */
#pragma once

#include "backends/backend.h"
#include "core/strbuf.h"
#include "launch/launch.h"
#include "simulator/cluster/cluster.h"

#define BB_GPUS "nccl"    /* the backend of GPUs */
#define BB_CPUS "gloo"    /* the backend of processes without MPI and without GPUs */
#define BB_LAUNCHER "mpi" /* has the launch of processes that an MPI launcher started */

struct bb_loadable {
	const char *name;
	const char *remedy; /* how to build it */
	const char *needs;  /* reported if one of its libraries cannot be loaded; NULL: nothing */
};

/* What can be loaded; ends with name NULL. */
extern const struct bb_loadable bb_loadables[];

struct bb_plugin {
	const struct bb_backend *backend;        /* NULL: it has none */
	const struct bb_launch_kind *launch;     /* likewise */
	const struct bb_topology_reader *reader; /* likewise */
	bool missing;                            /* there is no such file */
};

/* Returns the row of NAME; NULL: none. */
const struct bb_loadable *bb_loadable_find(const char *name);

/*
 * Load WHAT: NAME.so in backends/ beside the program, in ../lib/busbench/ from there, or in
 * $BUSBENCH_BACKEND_DIR, in this order. It stays loaded until the process ends; loading it again is
 * cheap. BB_EBACKEND with the reason if it is in none of them, cannot be loaded, or was built for
 * another busbench; BB_EUSAGE for a BUSBENCH_BACKEND_DIR that is not an absolute path.
 */
BB_MUST bb_status bb_plugin_load(struct bb_plugin *plugin, const struct bb_loadable *what,
				 struct bb_error *error);

/* A bb_topology_parser that loads the reader of topologies. BB_EUNSUPPORTED if it was not built. */
BB_MUST bb_status bb_plugin_parse_topology(const char *text, size_t length, const char *name,
					   struct bb_topology **t, struct bb_error *error);

/* For --list: call LIST for each backend, and append why others cannot be loaded. */
void bb_plugin_list(struct bb_strbuf *out,
		    void (*list)(struct bb_strbuf *out, const struct bb_backend *backend));
