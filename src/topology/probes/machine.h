/*
 * machine.h - cores and caches of this machine that this process may use, without PCI, for a quick
 * start.
 */
#ifndef BB_TOPOLOGY_PROBES_MACHINE_H
#define BB_TOPOLOGY_PROBES_MACHINE_H

#include "core/status.h"
#include "topology/probes/host.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bb_machine; /* read-only once open; may be shared by threads */

/* Read the machine by hwloc, within the affinity and cgroup of this thread. BB_EBACKEND: hwloc
   failed; BB_EINTERNAL without memory. */
BB_MUST bb_status bb_machine_open(struct bb_machine **machine, struct bb_error *error);
void bb_machine_close(struct bb_machine *machine); /* NULL: nothing */
/* The whole host, including cores that this process may not use. */
const struct bb_host *bb_machine_host(const struct bb_machine *machine);

int bb_machine_cores(const struct bb_machine *machine); /* usable cores, >= 1 */
/* The usable core number CORE; its pu is the first usable hardware thread. */
struct bb_core bb_machine_core(const struct bb_machine *machine, int core);
size_t bb_machine_l2(const struct bb_machine *machine);       /* bytes per core; 1 MiB if unknown */
size_t bb_machine_l3(const struct bb_machine *machine);       /* bytes in all; 32 MiB if unknown */
const char *bb_machine_cpu(const struct bb_machine *machine); /* model name, or "unknown CPU" */

/* Pin the calling thread to CORE. False if the system refuses. */
bool bb_machine_pin(const struct bb_machine *machine, int core);

#endif
