/*
 * machine.h - cores, caches and GPUs of this machine that this process may use, without PCI and
 * CUDA's libraries, for a quick start.
 */
#ifndef BB_TOPOLOGY_PROBES_MACHINE_H
#define BB_TOPOLOGY_PROBES_MACHINE_H

#include "core/status.h"
#include "topology/probes/host.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Plain values, read-only once open; may be shared by threads. */
struct bb_machine {
	struct hwloc_topology *topology;
	struct bb_host host;   /* all of it, including cores that this process may not use */
	int ncores;            /* usable cores, >= 1 */
	struct bb_core *cores; /* each with its first usable hardware thread */
	size_t l2;             /* bytes per core; 1 MiB if unknown */
	size_t l3;             /* bytes in all; 32 MiB if unknown */
	char cpu[BB_TEXT];     /* model name, or "unknown CPU" */
};

/* Read the machine by hwloc, within the affinity and cgroup of this thread. BB_EBACKEND: hwloc
   failed; BB_EINTERNAL without memory. */
BB_MUST bb_status bb_machine_open(struct bb_machine **machine, struct bb_error *error);
void bb_machine_close(struct bb_machine *machine); /* NULL: nothing */

/* Pin the calling thread to CORE. False if the system refuses. */
bool bb_machine_pin(const struct bb_machine *machine, int core);

/*
 * Number of device files of the NVIDIA driver (/dev/nvidia0, …) that container and cgroup let this
 * process open; 0 if CUDA_VISIBLE_DEVICES hides all GPUs from CUDA. BUSBENCH_DEVICE_FOLDER replaces
 * /dev in tests.
 */
int bb_gpus_present(void);

#endif
