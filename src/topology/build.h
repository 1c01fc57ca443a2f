/*
 * build.h - building a model: a source adds what it finds, in any order but parents before
 * children, and finishes.
 *
 * All numbers are bounded, since they may come from a file: beyond a limit below adding is
 * BB_EDATA.
 */
#ifndef BB_TOPOLOGY_BUILD_H
#define BB_TOPOLOGY_BUILD_H

#include "topology/topology.h"

#define BB_TOPOLOGY_MOST 16384 /* NUMA nodes, PCI objects, links; of each */
#define BB_MOST_GPUS 64        /* of one machine: sets of them are bits of a word */
#define BB_MOST_NUMAS 1024     /* and packages */
#define BB_MOST_DEVICES 1024

/* An empty model of one machine. NULL: out of memory. */
struct bb_topology *bb_topology_new(void);

/* Each copies its argument and sets *INDEX (may be NULL) to its index. That of a device is valid
   until bb_sort_devices or bb_topology_finish. BB_EINTERNAL: out of memory. */
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
/* A link of the same kind between the same two adds to the one before. */
BB_MUST bb_status bb_add_link(struct bb_topology *t, const struct bb_link *link,
			      struct bb_error *error);
/* Allocate the distances, all zero, unless they exist. */
BB_MUST bb_status bb_add_distances(struct bb_topology *t, struct bb_error *error);
/* Allocate peer access, all unknown, unless it exists; all GPUs must have been added. */
BB_MUST bb_status bb_add_p2p(struct bb_topology *t, struct bb_error *error);

/* The PCI object called ID, whatever the digits of its domain ("00000000:1B:00.0"), or -1. */
int bb_find_pci(const struct bb_topology *t, const char *id);
/* Write ID, as NVML, NCCL or hwloc has it, into TEXT as "0000:1b:00.0". False: it is malformed. */
bool bb_pci_id(char text[16], const char *id);

/* The role of a port below PARENT: root ports are at the top, below them the two ends of a switch
   alternate. */
enum bb_pci_role bb_port_role(const struct bb_topology *t, int parent);

/* A device for PCI object P: KIND, NUMA node, name and compute capability of its model. */
struct bb_device bb_device_of(const struct bb_topology *t, int p, enum bb_device_kind kind);

/* Sort the devices: GPUs by NUMBERS[device], as their driver counts them (NULL: as they came),
   before NICs and disks by name. MOVED[device] is where it went; both have room for
   BB_MOST_DEVICES. False: out of memory. */
bool bb_sort_devices(struct bb_topology *t, const int *numbers, int *moved);

/*
 * Sort the devices (GPUs as they came, NICs and disks by name), give those without a name one,
 * drop ports with no device below, and order the links. From then on indices hold.
 */
BB_MUST bb_status bb_topology_finish(struct bb_topology *t, struct bb_error *error);

#endif
