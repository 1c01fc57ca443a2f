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

/* Whether TEXT looks like the output of nvidia-smi (topo -m, nvlink -s, -L). */
bool bb_is_nvidia_smi(const char *text, size_t length);
/* The same from such a text. BB_EUSAGE also: the matrix of topo -m is missing or cut off. */
BB_MUST bb_status bb_read_nvidia_smi(const char *text, size_t length, struct bb_topology *t,
				     struct bb_error *error);

/* The object with hwloc's gp_index GP: a device, BB_PEER_SWITCH or BB_PEER_CPU. */
struct bb_gp {
	int64_t gp;
	int device;
};
/* Read the links and peer access in busbench's own files, at the GPUs below X. */
BB_MUST bb_status bb_read_own_links(const struct bb_gp *gps, int ngps, const struct bb_xml *x,
				    struct bb_topology *t, struct bb_error *error);
/* Read hwloc's NVLinkBandwidth matrix: MB/s of all links between two objects, 0 none. */
BB_MUST bb_status bb_read_hwloc_nvlinks(const struct bb_gp *gps, int ngps,
					const struct bb_xml *matrix, struct bb_topology *t,
					struct bb_error *error);

/* The bits of a mask in hexadecimal words ("0x000000ff,0xffffffff"). NULL: it is malformed,
   infinite or empty. */
hwloc_bitmap_t bb_read_mask(const char *mask);
/* The same as a list: "0-3,8"; NULL as above. The caller frees it. */
char *bb_cpu_list(const char *mask);

/*
 * Info attributes of busbench's own files, for what hwloc's format lacks. Values are numbers and
 * words separated by spaces.
 */
#define BB_INFO_MODEL "busbench.model"   /* Machine: nodes, those that share NVSwitches, */
					 /* NVSwitches, hidden GPUs, cores, processors made up, */
					 /* links unknown */
#define BB_INFO_CACHES "busbench.caches" /* Machine: level, bytes and count of each */
#define BB_INFO_NAME "busbench.name"
#define BB_INFO_SOURCE "busbench.source"
#define BB_INFO_DRIVER "busbench.driver"
#define BB_INFO_PCI "busbench.pci"       /* PCIDev, Bridge: role, host bridge, ACS */
#define BB_INFO_LINK "busbench.link"     /* generation and width now, the same at most */
#define BB_INFO_DEVICE "busbench.device" /* OSDev: kind, place in the order, bytes, sm, */
					 /* rate, layer, state, GPUDirect RDMA */
#define BB_INFO_PORT "busbench.interface"
#define BB_INFO_NVLINK "busbench.links" /* of each: kind, peer, version, count, down, MB/s */
#define BB_INFO_P2P "busbench.p2p"      /* a digit for each GPU */

#endif
