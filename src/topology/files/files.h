/*
 * files.h - topologies in files: XML of hwloc (lstopo FILE.xml, versions 2 and 3) and of NCCL
 * (NCCL_TOPO_DUMP_FILE), and text of nvidia-smi topo -m.
 *
 * Files are untrusted: any input gives a model or an error, and sizes are bounded.
 */
#pragma once

#include "topology/topology.h"

#include <stddef.h>

#define BB_FILE_MOST ((size_t)64 << 20) /* bytes of a file */

/* Read the file at PATH. BB_EUSAGE: it cannot be read, is too large or holds no topology. The
   caller frees *T. */
BB_MUST bb_status bb_topology_load(const char *path, struct bb_topology **t,
				   struct bb_error *error);

/* The same from LENGTH bytes at TEXT; NAME stands for the file in errors and in the model. */
BB_MUST bb_status bb_topology_parse(const char *text, size_t length, const char *name,
				    struct bb_topology **t, struct bb_error *error);

/*
 * Append T as XML of NCCL (NCCL_TOPO_FILE), one node of it for each that shares its NVSwitches.
 * bb_topology_load reads PCI, NUMA nodes, GPUs, NICs and links from it, and what NCCL passes over:
 * packages, host bridges, P2P, layers and states of NICs. Memory, cores, caches and names of CPUs
 * are lost, as are links that are down.
 */
void bb_topology_export(const struct bb_topology *t, struct bb_strbuf *out);
