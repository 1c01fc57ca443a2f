/*
 * machine.h - cores, caches and GPUs of this machine that this process may use, without PCI and
 * CUDA's libraries, for a quick start; and packages and memory of a host, of this one or another.
 */
#pragma once

#include "core/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BB_TEXT 64
#define BB_CACHES 8

struct bb_package {
	char model[BB_TEXT]; /* "Intel(R) Xeon(R) Platinum 8480C", empty if unknown */
	char vendor[32];     /* by CPUID: "GenuineIntel" */
	int family, number;  /* of the CPU model; 0 unknown */
};

struct bb_numa {
	int os;        /* number of the operating system */
	int package;   /* -1 unknown */
	int64_t bytes; /* of memory; 0 unknown */
	char *cpus;    /* list of hardware threads, "0-23,48-71"; NULL none or unknown; owned */
};

struct bb_core {
	int pu;      /* the operating system's number of its first hardware thread */
	int package; /* index, -1 unknown */
	int numa;    /* the operating system's number, -1 unknown */
};

struct bb_cpu_cache {
	int level;
	int64_t bytes; /* of one */
	int count;
};

struct bb_host {
	char arch[16]; /* "x86_64", "arm64"; empty if unknown */
	int npackages, nnumas, ncores, nthreads, ncaches;
	struct bb_package *packages;
	struct bb_numa *numas;
	struct bb_core *cores;
	struct bb_cpu_cache caches[BB_CACHES]; /* data and unified, level by level */
	int *distances; /* nnumas x nnumas, row by row, of the firmware; NULL unknown */
};

void bb_host_free(struct bb_host *host); /* and zeroes it */

/* The index of the NUMA node that the operating system calls OS, or -1. */
int bb_host_numa(const struct bb_host *host, int os);

/* Total memory, 0 if unknown. */
int64_t bb_host_memory(const struct bb_host *host);

struct hwloc_topology;
struct hwloc_obj;

/* Fill HOST from a loaded TOPOLOGY of hwloc. The caller frees HOST whatever is returned.
   BB_EINTERNAL without memory. */
BB_MUST bb_status bb_host_read(struct hwloc_topology *topology, struct bb_host *host,
			       struct bb_error *error);

/* The index of the NUMA node that contains OBJ, a normal object; -1 if it spans several. If cores
   have memory of two kinds, that with the lower number. */
int bb_host_numa_of(const struct bb_host *host, struct hwloc_topology *topology,
		    struct hwloc_obj *obj);

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
