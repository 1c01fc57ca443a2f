/*
 * formats.h - readers of the formats of files into a model.
 */
#ifndef BB_TOPOLOGY_FILES_FORMATS_H
#define BB_TOPOLOGY_FILES_FORMATS_H

#include "topology/files/files.h"
#include "topology/files/xml.h"

#include <hwloc/bitmap.h>

/* Add the machine under ROOT to T, which is empty and not finished afterwards. BB_EUSAGE: ROOT is
   of another format, or describes an impossible machine. */
BB_MUST bb_status bb_read_hwloc_xml(const struct bb_xml *root, struct bb_topology *t,
				    struct bb_error *error);
BB_MUST bb_status bb_read_nccl_xml(const struct bb_xml *root, struct bb_topology *t,
				   struct bb_error *error);

/* The same from the output of nvidia-smi (topo -m, nvlink -s, -L). *FOUND is false if TEXT is
   another's. BB_EUSAGE also: the matrix of topo -m is missing or cut off. */
BB_MUST bb_status bb_read_nvidia_smi(const char *text, size_t length, struct bb_topology *t,
				     bool *found, struct bb_error *error);

/* The bits of a mask in hexadecimal words ("0x000000ff,0xffffffff"). NULL: it is malformed,
   infinite or empty. */
hwloc_bitmap_t bb_read_mask(const char *mask);
/* The same as a list: "0-3,8"; NULL as above. The caller frees it. */
char *bb_cpu_list(const char *mask);

/* The mask of a list, as NCCL writes it ("000000ff,ffffffff"); NULL without memory. The caller
   frees it. */
char *bb_cpu_mask(const char *list);

#endif
