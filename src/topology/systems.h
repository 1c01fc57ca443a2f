/*
 * systems.h - descriptions of known systems.
 */
#pragma once

#include "topology/topology.h"

struct bb_system_cpu {
	const char *model, *vendor, *arch;
	int family, number;
	int packages, numas;          /* of each package */
	int cores, threads;           /* of each package; of each core */
	int gib;                      /* of memory in all */
	int l2_kib, l3_mib, l3_cores; /* of one; cores that share an L3 */
	int near, far;                /* distance to a NUMA node of the same package, of another */
	int gen;                      /* of PCIe; 0: that of the GPUs */
};

struct bb_system_gpu {
	uint32_t device; /* PCI */
	const char *model;
	int sm, gib;
	int gen;          /* of PCIe */
	const char *card; /* its name in cards.c */
	int memory_GBps;  /* of its memory, by the data sheet; 0: not known here */
};

struct bb_system_nic {
	uint32_t device;
	int Gbps, side_Gbps;
	enum bb_nic_layer layer;
	int gen;
	uint32_t vendor; /* PCI */
	int lanes;       /* of PCIe */
};

struct bb_system {
	const char *name, *brief;
	const struct bb_system_cpu *cpu;
	const struct bb_system_gpu *gpu; /* NULL: none; then the CPU has the generation of PCIe */
	const struct bb_system_nic *nic; /* NULL: its source names none */
	/*
	 * Cards in their slots. A digit is the NUMA node of what follows; G, N: a GPU, a NIC; S: a
	 * NIC for storage and management; P: the second port of the card before. ( ) is a PCIe
	 * switch, with cards and inner switches. Each slot or switch has a host bridge of its own,
	 * unless [ ] stand around those of one.
	 */
	const char *slots;
	int switched; /* NVLinks of each GPU to NVSwitches */
	int nvswitches;
	const char *const *bridged; /* NVLinks or xGMI between GPUs: a row for each GPU, a digit for
				       each peer, letters from 10 on ('c' is 12); NULL: none */
	bool no_p2p;
	int nodes;         /* nodes that share the NVSwitches; 0: one */
	int c2c;           /* NVLink-C2C of each GPU to the CPU */
	double c2c_GBps;   /* of one of them; 0: that of Grace, 44.7 */
	const char *alias; /* another name of the system; NULL: none */
};

/* The I-th system; NULL beyond the last. */
const struct bb_system *bb_system_at(int i);
/* The system of that name or alias, or NULL. */
const struct bb_system *bb_system_find(const char *name);
