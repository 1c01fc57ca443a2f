/*
 * rates.h - rates of links, in GB/s (10^9 bytes per second) in one direction.
 *
 * payload: the rate after line coding and packet headers; nothing exceeds it. usable: the rate that
 * NCCL's tuning assumes for its kernels in a ring (NCCL, src/graph/topo.h and topo.cc). The
 * simulator uses it; it is not a bound, since kernels and copy engines may exceed it.
 */
#pragma once

#include "topology/topology.h"

/* ---- PCIe ---- */

/* The PCIe generation with a transfer rate in GT/s; 0: none. */
int bb_pcie_gen(double gigatransfers);
/* The transfer rate in GT/s of a generation that bb_pcie gave; 0 unknown. */
double bb_pcie_gigatransfers(int gen);
/* A link of GEN and WIDTH with its rate after line coding (8b/10b, 128b/130b; generation 6: 242/256
   of a flit); invalid values become 0. */
struct bb_pcie bb_pcie(int gen, int width);
double bb_pcie_payload(const struct bb_pcie *link); /* packets of 256 bytes with 24 of overhead */
double bb_pcie_usable(const struct bb_pcie *link);  /* width x 12/16 GB/s for generation 3, etc. */

/* ---- NVLink ---- */

struct bb_nvlink {
	int version;
	double payload, usable; /* of one link */
};
/* The NVLink of a GPU of compute capability SM; NVML has reported a wrong version for H100. All
   zero: none, or unknown. */
struct bb_nvlink bb_nvlink_of(int sm);

/* The payload of an xGMI link of the AMD GPU with this PCI device, in one direction; 0: unknown. */
double bb_xgmi_of(uint32_t device);

/* ---- NICs ---- */

/* The payload as a share of the rate, for InfiniBand or RoCE packets of 4096 bytes. */
double bb_nic_share(enum bb_nic_layer layer);

/* ---- models ---- */

/* A known PCI device: name (NULL unknown), compute capability of a GPU, maximum rate of a NIC's
   port (0 unknown). */
struct bb_pci_device {
	const char *name;
	int sm;
	int64_t rate_Mbps;
};
struct bb_pci_device bb_pci_model(uint32_t vendor, uint32_t device);
/* Compute capability by the name of a GPU ("NVIDIA H100 80GB HBM3"); 0 unknown. */
int bb_gpu_sm(const char *name);

/* The generation of the Elastic Fabric Adapter (EFA) P of AWS, from 1; 0: P is none. */
int bb_efa_generation(const struct bb_pci *p);

/* The kind of PCI object P; BB_DEVICE_KINDS: neither GPU nor NIC nor NVMe disk. */
enum bb_device_kind bb_pci_kind(const struct bb_pci *p);
/* Whether P is the bridge of a virtual machine, whose link speed means nothing. */
bool bb_pci_virtual(const struct bb_pci *p);
