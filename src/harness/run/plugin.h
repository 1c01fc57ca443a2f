/*
 * plugin.h - backends and launches that are loaded at run time, because they need a library that
 * not every machine has.
 */
#ifndef BB_HARNESS_RUN_PLUGIN_H
#define BB_HARNESS_RUN_PLUGIN_H

#include "backends/backend.h"
#include "core/strbuf.h"
#include "launch/launch.h"
#include "simulator/cluster.h"

#define BB_GPUS "nccl"    /* the backend of machines that have GPUs */
#define BB_LAUNCHER "mpi" /* whose launch the processes of a launcher find each other by */

struct bb_loadable {
	const char *name;
	const char *remedy; /* how it is had where it is missing */
	const char *needs;  /* of the machine, told where it cannot be loaded; NULL: nothing */
};

/* What can be loaded; ends with name NULL. */
extern const struct bb_loadable bb_loadables[];

struct bb_plugin {
	const struct bb_backend *backend;        /* NULL: it has none */
	const struct bb_launch_kind *launch;     /* likewise */
	const struct bb_topology_reader *reader; /* likewise */
	bool missing;                            /* it was not loaded because it is not there */
};

/* The row of NAME, or NULL. */
const struct bb_loadable *bb_loadable_find(const char *name);

/*
 * Load WHAT. It is NAME.so, in this order of places: backends/ beside the
 * program, ../lib/busbench/ from there, $BUSBENCH_BACKEND_DIR. It stays loaded until the process
 * ends; loading it again is cheap. BB_EBACKEND with the reason if it is in none of them, cannot be
 * loaded, or was built for another busbench; BB_EUSAGE for a BUSBENCH_BACKEND_DIR that is not an
 * absolute path.
 */
BB_MUST bb_status bb_plugin_load(struct bb_plugin *plugin, const struct bb_loadable *what,
				 struct bb_error *error);

/* A bb_topology_parser that loads what it needs. BB_EUNSUPPORTED where that was not built. */
BB_MUST bb_status bb_plugin_parse_topology(const char *text, size_t length, const char *name,
					   struct bb_topology **t, struct bb_error *error);

/* For --list: LIST appends what there is to say of a backend, of each in turn; of those that cannot
   be loaded a line says why. */
void bb_plugin_list(struct bb_strbuf *out,
		    void (*list)(struct bb_strbuf *out, const struct bb_backend *backend));

#endif
