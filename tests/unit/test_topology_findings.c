/*
 * Each finding about a machine made by hand, with a value on either side of its limit; and what a
 * digest tells apart.
 */
#include "topology/rates.h"
#include "topology/topology.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define GPUS 4
#define NICS 2
#define PORT (GPUS + NICS) /* spare PCI objects */

/* Four GPUs and two NICs, each with a slot of its own at one host bridge, and nothing wrong. */
struct machine {
	struct bb_topology t;
	struct bb_pci pcis[PORT + 6];
	struct bb_device devices[GPUS + NICS];
	struct bb_link links[8];
	uint8_t p2p[GPUS * GPUS];
	struct bb_numa numas[2];
	struct bb_package package;
	int distances[4];
	char said[4096];
};

static void machine_init(struct machine *m)
{
	static char cpus[] = "0-3";

	memset(m, 0, sizeof(*m));
	for (int d = 0; d < GPUS + NICS; d++) {
		struct bb_device *const v = &m->devices[d];

		snprintf(v->name, sizeof(v->name), d < GPUS ? "GPU%d" : "mlx5_%d",
			 d < GPUS ? d : d - GPUS);
		snprintf(v->model, sizeof(v->model), d < GPUS ? "A" : "N");
		v->kind = d < GPUS ? BB_GPU : BB_NIC;
		v->pci = d;
		if (d >= GPUS) {
			v->rate_Mbps = 400000;
			v->layer = BB_INFINIBAND;
			v->state = BB_STATE_UP;
		}
	}
	for (int p = 0; p < PORT + 6; p++) {
		m->pcis[p] = (struct bb_pci){.class_code = p < GPUS ? 0x0302 : 0x0200,
					     .vendor = p < GPUS ? 0x10de : 0x15b3,
					     .device = 7,
					     .parent = -1,
					     .now = bb_pcie(5, 16),
					     .most = bb_pcie(5, 16)};
		snprintf(m->pcis[p].id, sizeof(m->pcis[p].id), "0000:%02x:00.0", p);
	}
	memset(m->p2p, BB_P2P_OK, sizeof(m->p2p));
	for (int i = 0; i < 2; i++)
		m->numas[i] = (struct bb_numa){.os = i, .bytes = 1 << 30, .cpus = cpus};
	m->t = (struct bb_topology){.nodes = 1,
				    .nvlink_nodes = 1,
				    .npcis = PORT,
				    .ndevices = GPUS + NICS,
				    .pcis = m->pcis,
				    .devices = m->devices,
				    .links = m->links,
				    .p2p = m->p2p};
	m->t.host.nnumas = m->t.host.npackages = 1;
	m->t.host.numas = m->numas;
	m->t.host.packages = &m->package;
}

/* Puts PORT + N above DEVICE, with links of generation GEN and WIDTH, below PORT + ABOVE (-1:
 * none).
 */
static struct bb_pci *put_port(struct machine *m, int device, int n, int above,
			       enum bb_pci_role role, int gen, int width)
{
	struct bb_pci *const p = &m->pcis[PORT + n];

	p->class_code = 0x0604;
	p->vendor = 0x1000;
	p->role = role;
	p->parent = above < 0 ? -1 : PORT + above;
	p->now = p->most = bb_pcie(gen, width);
	if (device >= 0)
		m->pcis[device].parent = PORT + n;
	if (m->t.npcis < PORT + n + 1)
		m->t.npcis = PORT + n + 1;
	return p;
}

static void keep(void *context, const char *text)
{
	struct machine *const m = context;

	strncat(m->said, text, sizeof(m->said) - strlen(m->said) - 2);
	strcat(m->said, "\n");
}

/* The machine must have N findings, with WORDS parted by bars in them; it is whole again then. */
static void expect(struct machine *m, int n, const char *words)
{
	char copy[512], *rest, *word;
	int found;

	m->said[0] = '\0';
	found = bb_topology_findings(&m->t, keep, m);
	if (found != n)
		fail_msg("%d findings, not %d: %s\n%s", found, n, words, m->said);
	snprintf(copy, sizeof(copy), "%s", words);
	for (word = strtok_r(copy, "|", &rest); word; word = strtok_r(NULL, "|", &rest))
		if (!strstr(m->said, word))
			fail_msg("\"%s\" is not in:\n%s", word, m->said);
	machine_init(m);
}

static void link_all(struct machine *m, int peer, int count)
{
	for (int g = 0; g < GPUS; g++)
		m->links[m->t.nlinks++] = (struct bb_link){.kind = BB_NVLINK,
							   .device = g,
							   .peer = peer >= 0 ? g ^ 1 : peer,
							   .count = count};
}

static void test_nvlinks(void **state)
{
	struct machine m;

	machine_init(&m);
	expect(&m, 0, "");
	m.t.hidden_gpus = 1;
	expect(&m, 1, "1 GPU is");
	m.t.hidden_gpus = 2;
	expect(&m, 1, "2 GPUs are");
	link_all(&m, BB_PEER_SWITCH, 18);
	expect(&m, 0, "");
	/* Those that are down say it themselves. */
	link_all(&m, BB_PEER_SWITCH, 18);
	m.links[1].count = 17;
	m.links[1].down = 1;
	expect(&m, 1, "GPU1: 1 of 18 NVLinks is down");
	link_all(&m, BB_PEER_SWITCH, 18);
	m.links[3].count = 16;
	m.links[3].down = 2;
	expect(&m, 1, "GPU3: 2 of 18 NVLinks are down");
	m.links[m.t.nlinks++] = (struct bb_link){
		.kind = BB_C2C, .device = 2, .peer = BB_PEER_CPU, .count = 4, .down = 1};
	expect(&m, 1, "GPU2: 1 of 5 NVLink-C2C is down");
	link_all(&m, BB_PEER_SWITCH, 18);
	m.links[2].count = 17;
	expect(&m, 1, "GPU2: 17 NVLinks, where others of its model have 18");
	/* Half of them are no rule, but one of two is; of another model it is none. */
	link_all(&m, BB_PEER_SWITCH, 18);
	m.links[2].count = m.links[3].count = 17;
	expect(&m, 0, "");
	link_all(&m, BB_PEER_SWITCH, 18);
	m.links[2].count = m.links[3].count = m.links[1].count = 17;
	expect(&m, 0, "");
	link_all(&m, BB_PEER_SWITCH, 18);
	m.links[2].count = 17;
	m.devices[2].model[0] = 'B';
	expect(&m, 0, "");
	link_all(&m, BB_PEER_SWITCH, 18);
	m.links[3].count = 17;
	m.devices[2].model[0] = m.devices[3].model[0] = 'B';
	expect(&m, 1, "GPU3: 17 NVLinks");
	/* both ends of a link */
	link_all(&m, 0, 4);
	expect(&m, 0, "");
	link_all(&m, 0, 4);
	m.links[1].count = 3;
	expect(&m, 2, "GPU1: 3 NVLinks|GPU0 has 4 NVLinks to GPU1, which has 3 back");
	link_all(&m, 0, 4);
	m.links[2].count = 1;
	expect(&m, 2, "GPU2: 1 NVLink,|GPU2 has 1 NVLink to GPU3, which has 4 back");
}

static void test_cards(void **state)
{
	struct machine m;

	machine_init(&m);
	m.pcis[1].now.width = 8;
	expect(&m, 1, "GPU1: runs at PCIe x8; the card supports x16");
	m.pcis[1].now.width = 0;
	expect(&m, 0, "");
	put_port(&m, 1, 0, -1, BB_PCI_ROOT_PORT, 5, 8);
	m.pcis[1].now = bb_pcie(5, 8);
	expect(&m, 1, "GPU1: runs at PCIe x8|its slot has x8");
	put_port(&m, 1, 0, -1, BB_PCI_ROOT_PORT, 5, 16);
	m.pcis[1].now = bb_pcie(5, 8);
	expect(&m, 1, "GPU1: runs at PCIe x8|so does its slot");
	/* The upper end of a switch is no slot. */
	put_port(&m, 1, 0, -1, BB_PCI_SWITCH_UP, 5, 16);
	m.pcis[PORT].now.width = m.pcis[PORT].most.width = 16;
	m.pcis[1].now = bb_pcie(5, 8);
	expect(&m, 1, "GPU1: runs at PCIe x8; the card supports x16");
	/* Generations: idle GPUs lower theirs. */
	m.pcis[GPUS].now.gen = 4;
	expect(&m, 1, "mlx5_0: runs at PCIe generation 4; both ends support 5");
	m.pcis[GPUS].now.gen = 0;
	expect(&m, 0, "");
	m.pcis[0].now.gen = 1;
	expect(&m, 0, "");
	for (int d = 0; d < GPUS; d++)
		put_port(&m, d, d, -1, BB_PCI_ROOT_PORT, 4, 16);
	expect(&m, 4, "GPU3: a card of PCIe generation 5 in a slot of generation 4");
	put_port(&m, 0, 0, -1, BB_PCI_ROOT_PORT, 4, 16);
	expect(&m, 2,
	       "GPU0: a card of PCIe generation 5|GPU0: runs at PCIe Gen4 x16, 28.8 GB/s; "
	       "others of its model carry 57.6");
	put_port(&m, GPUS, 0, -1, BB_PCI_ROOT_PORT, 4, 16);
	m.pcis[GPUS].now.gen = 4;
	m.devices[GPUS].rate_Mbps = m.devices[GPUS + 1].rate_Mbps = 100000;
	expect(&m, 2, "mlx5_0: a card of PCIe generation 5|28.8 GB/s, where those of others");
	put_port(&m, 0, 0, -1, BB_PCI_ROOT_PORT, 6, 16);
	expect(&m, 0, "");
	/* a switch that runs with fewer lanes than it has */
	put_port(&m, -1, 0, -1, BB_PCI_SWITCH_UP, 5, 16)->now.width = 8;
	expect(&m, 1, "PCIe switch 0000:06:00.0: runs at PCIe x8");
	put_port(&m, -1, 0, -1, BB_PCI_SWITCH_UP, 5, 16)->now.gen = 4;
	expect(&m, 1, "PCIe switch 0000:06:00.0: runs at PCIe generation 4");
	put_port(&m, -1, 0, -1, BB_PCI_SWITCH_UP, 5, 16)->now.width = 8;
	m.pcis[PORT].vendor = 0x1b36;
	expect(&m, 0, "");
}

/* Switches on the way to the host: 28.8, 14.4 and 57.6 GB/s are generations 4, 3 and 5. */
static void test_switches(void **state)
{
	struct machine m;

	machine_init(&m);
	put_port(&m, 2, 0, -1, BB_PCI_SWITCH_UP, 4, 16);
	expect(&m, 1, "GPU2: its way to the host passes PCIe switch 0000:06:00.0, 28.8 GB/s|57.6");
	put_port(&m, 2, 0, -1, BB_PCI_SWITCH_UP, 3, 16);
	expect(&m, 2,
	       "GPU2: its way|PCIe switch 0000:06:00.0 above GPU2: Gen3 x16, 14.4 GB/s|57.6");
	put_port(&m, 2, 0, -1, BB_PCI_SWITCH_UP, 5, 16);
	expect(&m, 0, "");
	/* Of two switches the slower one. */
	put_port(&m, -1, 0, -1, BB_PCI_SWITCH_UP, 4, 16);
	put_port(&m, 2, 1, 0, BB_PCI_SWITCH_UP, 5, 16);
	expect(&m, 1, "passes PCIe switch 0000:06:00.0");
	/* All have one: nobody is slower, but half is the least. */
	for (int d = 0; d < GPUS; d++)
		put_port(&m, d, 0, -1, BB_PCI_SWITCH_UP, 3, 16);
	expect(&m, 1, "above GPU0, GPU1, GPU2, GPU3: Gen3 x16|limits GPUDirect RDMA");
	for (int d = 0; d < GPUS; d++)
		put_port(&m, d, 0, -1, BB_PCI_SWITCH_UP, 3, 16);
	m.pcis[PORT].vendor = 0x1af4;
	expect(&m, 1, "above GPU0, GPU1, GPU2, GPU3: Gen3 x16|NCCL_TOPO_FILE");
	for (int d = 0; d < GPUS; d++)
		put_port(&m, d, 0, -1, BB_PCI_SWITCH_UP, 4, 16);
	expect(&m, 0, "");
	/* A disk does not count. */
	put_port(&m, GPUS, 0, -1, BB_PCI_SWITCH_UP, 3, 4);
	m.devices[GPUS].kind = BB_NVME;
	expect(&m, 0, "");
}

static void test_peer_access(void **state)
{
	struct machine m;

	machine_init(&m);
	m.p2p[1 * GPUS + 2] = BB_P2P_CHIPSET;
	expect(&m, 1, "no P2P between 1 pair of GPUs, such as GPU1 and GPU2|chipset");
	m.p2p[1 * GPUS + 2] = m.p2p[2 * GPUS + 3] = BB_P2P_NOT_SUPPORTED;
	expect(&m, 1, "no P2P between 2 pairs of GPUs, such as GPU1 and GPU2|not supported");
	m.p2p[1 * GPUS + 2] = BB_P2P_DISABLED;
	m.p2p[0 * GPUS + 3] = BB_P2P_TOPOLOGY;
	expect(&m, 2, "GPU1 and GPU2: it is disabled|GPU0 and GPU3: the path");
	memset(m.p2p, BB_P2P_GPU, sizeof(m.p2p));
	expect(&m, 1, "no P2P between any two GPUs: the GPU");
	memset(m.p2p, BB_P2P_UNKNOWN, sizeof(m.p2p));
	expect(&m, 0, "");
	m.t.p2p = NULL;
	expect(&m, 0, "");
	/* below the diagonal it says nothing new */
	m.p2p[2 * GPUS + 1] = BB_P2P_GPU;
	expect(&m, 0, "");
	for (int d = 0; d < 2; d++)
		put_port(&m, d, d, -1, BB_PCI_SWITCH_DOWN, 5, 16)->acs = BB_ACS_REDIRECT;
	expect(&m, 1, "P2P of 2 devices up to the host bridge, at port 0000:06:00.0 and others");
	put_port(&m, 0, 0, -1, BB_PCI_SWITCH_DOWN, 5, 16)->acs = BB_ACS_OFF;
	put_port(&m, 1, 1, -1, BB_PCI_SWITCH_DOWN, 5, 16)->acs = BB_ACS_REDIRECT;
	expect(&m, 1, "P2P of 1 device up to the host bridge, at port 0000:07:00.0: slow");
	put_port(&m, 0, 0, -1, BB_PCI_ROOT_PORT, 5, 16)->acs = BB_ACS_REDIRECT;
	expect(&m, 0, "");
}

static void test_nics(void **state)
{
	struct machine m;

	machine_init(&m);
	m.devices[GPUS].state = BB_STATE_DOWN;
	expect(&m, 1, "mlx5_0: its port is down");
	/* An Ethernet port is used if another of its model is. */
	m.devices[GPUS].state = BB_STATE_DOWN;
	m.devices[GPUS].layer = m.devices[GPUS + 1].layer = BB_ETHERNET;
	expect(&m, 1, "mlx5_0: its port is down");
	m.devices[GPUS].state = m.devices[GPUS + 1].state = BB_STATE_DOWN;
	m.devices[GPUS].layer = m.devices[GPUS + 1].layer = BB_ETHERNET;
	expect(&m, 0, "");
	m.devices[GPUS].state = BB_STATE_DOWN;
	m.devices[GPUS].layer = BB_ETHERNET;
	m.devices[GPUS].model[0] = 'M';
	expect(&m, 0, "");
	m.devices[GPUS].state = BB_STATE_DOWN;
	m.devices[GPUS].layer = BB_ETHERNET;
	m.devices[GPUS].model[0] = m.devices[GPUS + 1].model[0] = '\0';
	expect(&m, 0, "");
	/* rates */
	m.devices[GPUS].rate_Mbps = 200000;
	expect(&m, 1, "mlx5_0: 200 Gb/s, where others of its model run at 400");
	m.devices[GPUS].rate_Mbps = 0;
	expect(&m, 0, "");
	m.devices[GPUS].rate_Mbps = 200000;
	m.devices[GPUS].model[0] = 'M';
	expect(&m, 0, "");
	m.devices[GPUS].rate_Mbps = 200000;
	m.devices[GPUS].layer = BB_LAYER_UNKNOWN;
	expect(&m, 0, "");
	m.devices[GPUS].rate_Mbps = 200000;
	m.devices[GPUS].state = BB_STATE_DOWN; /* says it already */
	expect(&m, 1, "mlx5_0: its port is down");
	/* Without a model, the same device of a vendor. */
	m.devices[GPUS].rate_Mbps = 200000;
	m.devices[GPUS].model[0] = m.devices[GPUS + 1].model[0] = '\0';
	expect(&m, 1, "mlx5_0: 200 Gb/s");
	m.devices[GPUS].rate_Mbps = 200000;
	m.devices[GPUS].model[0] = m.devices[GPUS + 1].model[0] = '\0';
	m.pcis[GPUS].device = 8;
	expect(&m, 0, "");
	m.devices[GPUS].rate_Mbps = 200000;
	m.devices[GPUS].model[0] = m.devices[GPUS + 1].model[0] = '\0';
	m.pcis[GPUS].vendor = 0x8086;
	expect(&m, 0, "");
	m.devices[GPUS].rate_Mbps = 200000;
	m.devices[GPUS].model[0] = m.devices[GPUS + 1].model[0] = '\0';
	m.pcis[GPUS].vendor = m.pcis[GPUS + 1].vendor = 0;
	expect(&m, 0, "");
	m.devices[GPUS].rate_Mbps = 200000;
	m.devices[GPUS].model[0] = m.devices[GPUS + 1].model[0] = '\0';
	m.devices[GPUS + 1].pci = -1;
	expect(&m, 0, "");
	/* A NIC that is nearer to GPUs than the other is for something else. */
	m.devices[GPUS].rate_Mbps = 200000;
	for (int d = 0; d <= GPUS; d++)
		put_port(&m, d, 0, -1, BB_PCI_SWITCH_UP, 5, 16);
	expect(&m, 0, "");
	/* slots: 14.4 GB/s of 400 Gb/s, which are 49.7 with headers */
	m.pcis[GPUS].now = m.pcis[GPUS].most = bb_pcie(3, 16);
	expect(&m, 1, "mlx5_0: its PCIe link carries 14.4 GB/s, its port 49.7");
	m.pcis[GPUS].now = m.pcis[GPUS].most = bb_pcie(5, 16);
	m.devices[GPUS].rate_Mbps = m.devices[GPUS + 1].rate_Mbps = 470000; /* 58.4: within 3% */
	expect(&m, 0, "");
	m.devices[GPUS].rate_Mbps = m.devices[GPUS + 1].rate_Mbps = 485000;
	expect(&m, 2, "mlx5_1: its PCIe link carries 57.6 GB/s, its port 60.2");
	m.devices[GPUS].rate_Mbps = m.devices[GPUS + 1].rate_Mbps = 0;
	m.pcis[GPUS].now = m.pcis[GPUS].most = bb_pcie(4, 16);
	expect(&m, 1,
	       "mlx5_0: its PCIe link carries 28.8 GB/s, where those of others of its model "
	       "carry 57.6");
	m.devices[GPUS].rate_Mbps = m.devices[GPUS + 1].rate_Mbps = 0;
	m.pcis[GPUS].now = bb_pcie(5, 8); /* fewer lanes than it has: said once */
	expect(&m, 1, "mlx5_0: runs at PCIe x8");
}

/* Each GPU has NICs on a switch of its own, but for one. */
static void test_near_nics(void **state)
{
	struct machine m;

	machine_init(&m);
	for (int d = 0; d < GPUS; d++)
		put_port(&m, d, d, -1, BB_PCI_SWITCH_UP, 5, 16);
	for (int n = 0; n < NICS; n++)
		m.pcis[GPUS + n].parent = PORT + n;
	/* Two of four are no rule. */
	expect(&m, 0, "");
	m.devices[3].kind = BB_NVME;
	m.devices[3].model[0] = 'D';
	m.t.ndevices = GPUS + NICS;
	for (int d = 0; d < 3; d++)
		put_port(&m, d, d, -1, BB_PCI_SWITCH_UP, 5, 16);
	for (int n = 0; n < NICS; n++)
		m.pcis[GPUS + n].parent = PORT + n;
	/* GPUs come first: of three, two have one. */
	{
		const struct bb_device disk = m.devices[3];

		memmove(&m.devices[3], &m.devices[4], NICS * sizeof(*m.devices));
		m.devices[5] = disk;
	}
	expect(&m, 1, "GPU2: no NIC near it");
	/* Two NICs of three GPUs at one switch: the third has fewer at its own. */
	for (int d = 0; d < 2; d++)
		put_port(&m, d, 0, -1, BB_PCI_SWITCH_UP, 5, 16);
	put_port(&m, 2, 1, -1, BB_PCI_SWITCH_UP, 5, 16);
	m.pcis[4].parent = m.pcis[5].parent = PORT;
	m.pcis[3].parent = PORT + 1;
	m.pcis[3].vendor = 0x15b3;
	m.devices[3] = m.devices[4];
	m.devices[3].pci = 3;
	snprintf(m.devices[3].name, sizeof(m.devices[3].name), "mlx5_9");
	expect(&m, 1, "GPU2: 1 NIC at|others of its model have 2");
}

static void test_host(void **state)
{
	struct machine m;

	machine_init(&m);
	m.devices[1].gdr = BB_GDR_OFF;
	expect(&m, 1, "of 1 device: GPU1; data");
	m.devices[1].gdr = m.devices[GPUS].gdr = BB_GDR_OFF;
	expect(&m, 1, "of 2 devices: GPU1, mlx5_0; data");
	m.devices[1].gdr = BB_GDR_ON;
	expect(&m, 0, "");
	m.devices[GPUS].gdr = BB_GDR_OFF;
	m.devices[GPUS].pci = -1;
	expect(&m, 0, "");
	m.t.host.nnumas = 2;
	expect(&m, 0, "");
	m.t.host.nnumas = 2;
	m.numas[1].bytes = 0;
	expect(&m, 1, "NUMA node 1 has cores but no memory");
	m.t.host.nnumas = 2;
	m.numas[0].bytes = m.numas[1].bytes = 0;
	expect(&m, 0, "");
	m.t.host.nnumas = 2;
	m.numas[1].bytes = 0;
	m.numas[1].cpus = NULL;
	expect(&m, 0, "");
	m.numas[0].bytes = 0;
	expect(&m, 0, "");
	m.t.host.nnumas = 2;
	m.devices[1].numa = m.devices[GPUS + 1].numa = -1;
	expect(&m, 2, "GPU1: the firmware|mlx5_1: the firmware");
	m.devices[1].numa = -1;
	expect(&m, 0, "");
}

/* ---- digest ---------------------------------------------------------------------------------- */

/* Makes change I of a machine. Returns false behind the last one. */
static bool change(struct machine *m, int i)
{
	switch (i) {
	case 0:
		strcpy(m->t.host.arch, "x");
		return true;
	case 1:
		strcpy(m->package.model, "Xeon");
		return true;
	case 2:
		m->numas[1].bytes += 1 << 30;
		return true;
	case 3:
		m->distances[3]++;
		return true;
	case 4:
		m->t.host.ncores++;
		return true;
	case 5:
		m->t.host.nthreads++;
		return true;
	case 6:
		strcpy(m->devices[2].model, "AB");
		return true;
	case 7:
		m->devices[0].bytes += 1 << 30;
		return true;
	case 8:
		m->devices[0].sm++;
		return true;
	case 9:
		m->devices[GPUS].rate_Mbps++;
		return true;
	case 10:
		m->devices[GPUS].layer = BB_ETHERNET;
		return true;
	case 11:
		m->devices[GPUS].state = BB_STATE_DOWN;
		return true;
	case 12:
		m->devices[GPUS].numa = 1;
		return true;
	case 13:
		m->devices[GPUS].gdr = BB_GDR_OFF;
		return true;
	case 14:
		m->pcis[0].now.width = 8;
		return true;
	case 15:
		m->pcis[0].most.width = 8;
		return true;
	case 16:
		m->pcis[0].most.gen = 4;
		return true;
	case 17:
		m->links[0].count--;
		return true;
	case 18:
		m->links[0].down++;
		return true;
	case 19:
		m->links[0].peer = BB_PEER_CPU;
		return true;
	case 20:
		m->links[0].kind = BB_C2C;
		return true;
	case 21:
		m->p2p[3] = BB_P2P_DISABLED; /* without NVLinks */
		return true;
	case 22:
		m->pcis[GPUS].root = 1; /* another path */
		return true;
	case 23:
		m->pcis[PORT].now = m->pcis[PORT].most = bb_pcie(4, 16);
		return true;
	case 24:
		m->devices[GPUS].pci = -1;
		return true;
	case 25:
		m->t.host.nnumas = 1;
		return true;
	default:
		return false;
	}
}

static void digest_init(struct machine *m)
{
	machine_init(m);
	link_all(m, BB_PEER_SWITCH, 4);
	m->t.nlinks = 3; /* GPU3 has none */
	put_port(m, 1, 0, -1, BB_PCI_SWITCH_UP, 5, 16);
	m->t.host.nnumas = 2;
	m->t.host.distances = m->distances;
	for (int d = 0; d < GPUS; d++)
		m->devices[d].bytes = INT64_C(80) << 30;
}

static void test_digest(void **state)
{
	uint64_t seen[64];
	struct machine m;
	int n = 0;

	digest_init(&m);
	seen[n++] = bb_topology_digest(&m.t);
	for (int i = 0;; i++) {
		digest_init(&m);
		if (!change(&m, i))
			break;
		seen[n] = bb_topology_digest(&m.t);
		for (int k = 0; k < n; k++)
			if (seen[k] == seen[n])
				fail_msg("change %d is like %d", i, k - 1);
		n++;
	}
	/* What a digest passes over. */
	for (int i = 0; i < 8; i++) {
		digest_init(&m);
		switch (i) {
		case 0:
			strcpy(m.t.name, "another");
			break;
		case 1:
			strcpy(m.devices[0].name, "GPU9");
			break;
		case 2:
			m.pcis[0].now.gen = 1; /* an idle GPU */
			break;
		case 3:
			strcpy(m.pcis[0].id, "0009:09:00.0");
			break;
		case 4:
			m.numas[0].bytes += 1 << 28; /* less than half a GiB */
			break;
		case 5:
			m.devices[0].bytes -= 1 << 28;
			break;
		case 6:
			m.t.nodes = 7;
			break;
		default: { /* another order */
			const struct bb_device first = m.devices[2];

			m.devices[2] = m.devices[3];
			m.devices[3] = first;
			m.links[2].device = 3;
		}
		}
		if (bb_topology_digest(&m.t) != seen[0])
			fail_msg("%d changes the digest", i);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nvlinks),  cmocka_unit_test(test_cards),
		cmocka_unit_test(test_switches), cmocka_unit_test(test_peer_access),
		cmocka_unit_test(test_nics),     cmocka_unit_test(test_near_nics),
		cmocka_unit_test(test_host),     cmocka_unit_test(test_digest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
