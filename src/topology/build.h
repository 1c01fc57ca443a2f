/*
 * build.h - building a model: a source adds objects, parents before children, and calls
 * bb_topology_finish.
 *
 * Numbers of objects are bounded, since they may come from a file: beyond a limit below adding is
 * BB_EUSAGE.
 */
#pragma once

#include "topology/topology.h"

#define BB_TOPOLOGY_MOST 16384 /* PCI objects, links, cores; of each */
#define BB_MOST_GPUS 64        /* of one machine: a set of them is a uint64_t */
#define BB_MOST_NUMAS 1024     /* and packages */
#define BB_MOST_DEVICES 1024

/* An empty model of one machine; NULL without memory. */
struct bb_topology *bb_topology_new(void);

/* Each adds a copy of its argument, and sets *INDEX (may be NULL) to its index; bb_sort_devices and
   bb_topology_finish change indices of devices. BB_EINTERNAL without memory. */
BB_MUST bb_status bb_add_package(struct bb_topology *t, const struct bb_package *package,
				 int *index, struct bb_error *error);
BB_MUST bb_status bb_add_numa(struct bb_topology *t, const struct bb_numa *numa, const char *cpus,
			      int *index, struct bb_error *error);
BB_MUST bb_status bb_add_core(struct bb_topology *t, const struct bb_core *core,
			      struct bb_error *error);
BB_MUST bb_status bb_add_pci(struct bb_topology *t, const struct bb_pci *pci, int *index,
			     struct bb_error *error);
BB_MUST bb_status bb_add_device(struct bb_topology *t, const struct bb_device *device, int *index,
				struct bb_error *error);
/* COUNT NVLinks or xGMI links of GPU (a device) to PEER, with the version and rate of its model. */
struct bb_link bb_gpu_links(const struct bb_topology *t, int gpu, int peer, int count);
/* Links of the same kind between the same ends add up in one. */
BB_MUST bb_status bb_add_link(struct bb_topology *t, const struct bb_link *link,
			      struct bb_error *error);
/* Allocate the distances, all zero, unless they exist. */
BB_MUST bb_status bb_add_distances(struct bb_topology *t, struct bb_error *error);
/* Allocate peer access, all unknown, unless it exists; all GPUs must have been added. */
BB_MUST bb_status bb_add_p2p(struct bb_topology *t, struct bb_error *error);

/* The PCI object ID, with any number of digits of its domain ("00000000:1B:00.0"), or -1. */
int bb_find_pci(const struct bb_topology *t, const char *id);
/* Write ID, in the format of NVML, NCCL or hwloc, into TEXT as "0000:1b:00.0". False: ID is
   malformed. */
bool bb_pci_id(char text[16], const char *id);

/* Whether GPUs of T may be joined by NVLinks or xGMI: there are several, and not all of a model
   that has none. For sources that do not show these links. */
bool bb_may_have_links(const struct bb_topology *t);

#define BB_PEER_MISSING (-3) /* the other end of a link is not in the model */

/* The role of a port below PARENT: root ports are at the top; below them upstream and downstream
   ports of switches alternate. */
enum bb_pci_role bb_port_role(const struct bb_topology *t, int parent);

/* A device of KIND at PCI object P, with its NUMA node, model and compute capability. */
struct bb_device bb_device_of(const struct bb_topology *t, int p, enum bb_device_kind kind);

/* Sort the devices: GPUs by NUMBERS[device], their driver's numbers (NULL: in the order of adding),
   then NICs and disks by name. Set MOVED[device] to its new index; both arrays have BB_MOST_DEVICES
   elements. False without memory. */
bool bb_sort_devices(struct bb_topology *t, const int *numbers, int *moved);

/*
 * Sort the devices (NICs and disks by name), name those without a name, drop ports without a device
 * below, and sort the links. Afterwards indices do not change.
 */
BB_MUST bb_status bb_topology_finish(struct bb_topology *t, struct bb_error *error);

/* ---- what this machine is read from, beside hwloc (probes) ---- */

/* Fill T from sysfs, mounted at ROOT ("/sys"): link speed and width, NUMA node, access control,
   rate and state of NICs. Values that sysfs lacks stay unchanged. */
void bb_sysfs_read(struct bb_topology *t, const char *root);

/* Add GPUs by NVML to T, which has its PCI objects already: names and order, NVLink, peer access.
   *FOUND is false, and T unchanged, where its library is missing or does not start. BB_EINTERNAL:
   out of memory. */
BB_MUST bb_status bb_nvml_read(struct bb_topology *t, bool *found, struct bb_error *error);
