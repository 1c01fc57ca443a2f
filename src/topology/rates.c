#include "topology/rates.h"

#include "topology/systems.h"

#include <string.h>

/* ---- PCIe --------------------------------------------------------------------------------- */

static const struct {
	double gigatransfers; /* per second and lane */
	double coding;        /* share of data */
	double usable;        /* GB/s of 16 lanes (NCCL, topo.cc: width x rate / 80) */
} generations[] = {
	{0, 0, 0},
	{2.5, 8.0 / 10, 3},
	{5, 8.0 / 10, 6},
	{8, 128.0 / 130, 12},
	{16, 128.0 / 130, 24},
	{32, 128.0 / 130, 48},
	{64, 242.0 / 256, 96},
};

#define GENERATIONS (int)(sizeof(generations) / sizeof(generations[0]))
#define PACKET 256.0  /* bytes of payload, typical of platforms */
#define OVERHEAD 24.0 /* framing and sequence 4, header with a 64-bit address 16, CRC 4 */

int bb_pcie_gen(double gigatransfers)
{
	for (int g = 1; g < GENERATIONS; g++)
		if (gigatransfers > generations[g].gigatransfers * 0.99 &&
		    gigatransfers < generations[g].gigatransfers * 1.01)
			return g;
	return 0;
}

double bb_pcie_gigatransfers(int gen)
{
	return generations[gen].gigatransfers;
}

struct bb_pcie bb_pcie(int gen, int width)
{
	struct bb_pcie link = {.gen = gen > 0 && gen < GENERATIONS ? gen : 0,
			       .width = width > 0 && width <= 64 ? width : 0};

	link.GBps =
		generations[link.gen].gigatransfers * generations[link.gen].coding / 8 * link.width;
	return link;
}

double bb_pcie_payload(const struct bb_pcie *link)
{
	return link->GBps * PACKET / (PACKET + OVERHEAD);
}

double bb_pcie_usable(const struct bb_pcie *link)
{
	if (link->gen > 0 && link->width > 0)
		return generations[link->gen].usable * link->width / 16;
	/* The ratio of generations 3 to 5: 16 lanes of generation 3 carry 15.754 GB/s. */
	return link->GBps * 12 / 15.754;
}

/* ---- NVLink ------------------------------------------------------------------------------- */

/*
 * Payload as NVIDIA specifies it (signalling at 25, 26.56 and 53.1 GB/s from A100 on, times 0.94
 * on the last two); usable: NCCL, topo.h. GA10x has fewer and slower lanes: its bridge carries
 * 56.25 GB/s over 4 links.
 */
static const struct {
	int from, to; /* compute capability */
	struct bb_nvlink link;
} nvlinks[] = {
	{60, 62, {1, 20, 18}},      {70, 75, {2, 25, 20}},   {80, 80, {3, 25, 20}},
	{86, 87, {3, 14.0625, 12}}, {90, 90, {4, 25, 20.6}}, {100, 103, {5, 50, 40.1}},
};

struct bb_nvlink bb_nvlink_of(int sm)
{
	for (size_t i = 0; i < sizeof(nvlinks) / sizeof(nvlinks[0]); i++)
		if (sm >= nvlinks[i].from && sm <= nvlinks[i].to)
			return nvlinks[i].link;
	return (struct bb_nvlink){0};
}

/* AMD, data sheets of the accelerators: 16 lanes at 25, 32 and 38.4 GT/s. */
double bb_xgmi_of(uint32_t device)
{
	static const struct {
		uint32_t device;
		double GBps;
	} links[] = {
		{0x7408, 50},   /* MI250X */
		{0x740c, 50},   /* MI250 */
		{0x740f, 50},   /* MI210 */
		{0x74a1, 64},   /* MI300X */
		{0x74a2, 64},   /* MI308X */
		{0x74a5, 64},   /* MI325X */
		{0x74b5, 64},   /* MI300X, virtual function */
		{0x75a0, 76.8}, /* MI350X */
		{0x75a3, 76.8}, /* MI355X */
	};

	for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++)
		if (links[i].device == device)
			return links[i].GBps;
	return 0;
}

/* ---- NICs --------------------------------------------------------------------------------- */

double bb_nic_share(enum bb_nic_layer layer)
{
	/* Preamble and gap 20, Ethernet 18, IPv4 20, UDP 8, BTH 12, ICRC 4. */
	if (layer == BB_ETHERNET)
		return 4096.0 / (4096 + 82);
	/* LRH 8, BTH 12, ICRC 4, VCRC 2. */
	return 4096.0 / (4096 + 26);
}

/* ---- models ------------------------------------------------------------------------------- */

#define NVIDIA 0x10de
#define AMD 0x1002
#define INTEL 0x8086
#define MELLANOX 0x15b3
#define AMAZON 0x1d0f

/* GPUs of no known system, and NICs. */
static const struct {
	uint32_t vendor, device;
	struct bb_pci_device model;
} models[] = {
	{NVIDIA, 0x15f9, {"P100 SXM2", 60, 0}},
	{NVIDIA, 0x1db4, {"V100 PCIe 16GB", 70, 0}},
	{NVIDIA, 0x1e04, {"RTX 2080 Ti", 75, 0}},
	{NVIDIA, 0x20f1, {"A100 PCIe 40GB", 80, 0}},
	{0x17db, 0x0501, {"Slingshot-11", 0, 200000}},
	{AMAZON, 0xefa0, {"EFA", 0, 100000}},
	{AMAZON, 0xefa1, {"EFA", 0, 100000}},
	{AMAZON, 0xefa2, {"EFA", 0, 200000}},
	{AMAZON, 0xefa3, {"EFA", 0, 400000}},
	{MELLANOX, 0x1013, {"ConnectX-4", 0, 100000}},
	{MELLANOX, 0x1017, {"ConnectX-5", 0, 100000}},
	{MELLANOX, 0x1019, {"ConnectX-5 Ex", 0, 100000}},
	{MELLANOX, 0x101b, {"ConnectX-6", 0, 200000}},
	{MELLANOX, 0x101d, {"ConnectX-6 Dx", 0, 100000}},
	{MELLANOX, 0x1021, {"ConnectX-7", 0, 400000}},
	{MELLANOX, 0x1023, {"ConnectX-8", 0, 800000}},
	{MELLANOX, 0xa2dc, {"BlueField-3", 0, 400000}},
};

struct bb_pci_device bb_pci_model(uint32_t vendor, uint32_t device)
{
	for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++)
		if (models[i].vendor == vendor && models[i].device == device)
			return models[i].model;
	for (int i = 0; bb_system_at(i) && (vendor == NVIDIA || vendor == AMD); i++) {
		const struct bb_system_gpu *const gpu = bb_system_at(i)->gpu;

		if (gpu && gpu->device == device && (bb_xgmi_of(device) > 0) == (vendor == AMD))
			return (struct bb_pci_device){gpu->model, gpu->sm, 0};
	}
	return (struct bb_pci_device){NULL, 0, 0};
}

int bb_gpu_sm(const char *name)
{
	size_t longest = 0;
	int sm = strstr(name, "P100") ? 60 : strstr(name, "B100") ? 100 : 0;

	for (int i = 0; bb_system_at(i); i++) {
		const struct bb_system_gpu *const gpu = bb_system_at(i)->gpu;

		if (gpu && strlen(gpu->card) > longest && strstr(name, gpu->card)) {
			longest = strlen(gpu->card);
			sm = gpu->sm;
		}
	}
	return sm;
}

int bb_efa_generation(const struct bb_pci *p)
{
	return p->vendor == AMAZON && (p->device & ~0xfu) == 0xefa0 ? (int)(p->device & 0xf) + 1
								    : 0;
}

enum bb_device_kind bb_pci_kind(const struct bb_pci *p)
{
	/* Instinct cards are processing accelerators. */
	if (p->class_code == 0x0302 || (p->class_code == 0x1200 && p->vendor == AMD))
		return BB_GPU;
	/* Displays of Matrox or ASPEED, on board of servers, are no GPUs. */
	if ((p->class_code == 0x0300 && (p->vendor == NVIDIA || p->vendor == AMD)) ||
	    (p->class_code == 0x0380 && (p->vendor == AMD || p->vendor == INTEL)))
		return BB_GPU;
	if (p->class_code >> 8 == 0x02)
		return BB_NIC;
	return p->class_code == 0x0108 ? BB_NVME : BB_DEVICE_KINDS;
}

bool bb_pci_virtual(const struct bb_pci *p)
{
	/* Devices of QEMU: Red Hat's, and two of Texas Instruments that it emulates. */
	return p->vendor == 0x1b36 || p->vendor == 0x1af4 ||
	       (p->vendor == 0x104c && (p->device == 0x8232 || p->device == 0x8233));
}
