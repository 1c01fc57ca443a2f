/*
 * files.h - a topology in files: hwloc's XML (lstopo FILE.xml, versions 2 and 3), NCCL's
 * (NCCL_TOPO_DUMP_FILE), and busbench's own, which is hwloc's with what hwloc does not know in
 * info attributes.
 *
 * Files are untrusted and their sizes bounded: the result is always a model or an error.
 */
#ifndef BB_TOPOLOGY_FILES_FILES_H
#define BB_TOPOLOGY_FILES_FILES_H

#include "topology/topology.h"

#include <stddef.h>

#define BB_FILE_MOST ((size_t)64 << 20) /* bytes of a file */

/* Read the file at PATH. BB_EUSAGE: it cannot be read, or is too large; BB_EDATA: what is in it is
   no topology. *T is to be freed. */
BB_MUST bb_status bb_topology_load(const char *path, struct bb_topology **t,
				   struct bb_error *error);

/* The same of LENGTH bytes at TEXT; NAME is what errors and the model call it. */
BB_MUST bb_status bb_topology_parse(const char *text, size_t length, const char *name,
				    struct bb_topology **t, struct bb_error *error);

/* T as hwloc 2 reads it, and bb_topology_load without loss. */
void bb_topology_export(const struct bb_topology *t, struct bb_strbuf *out);

#endif
