/*
 * topology.h - the model of a machine, or of several identical ones: the CPU side, devices by
 * their PCI path, links between GPUs, and peer access.
 *
 * Plain values: built once by one source, then read-only, freed once. An index is a
 * position in an array of the model; -1 stands for unknown or none.
 */
#pragma once

#include "core/status.h"
#include "core/strbuf.h"
#include "topology/probes/machine.h"

#include <stdbool.h>
#include <stdint.h>

/* ---- PCI ------------------------------------------------------------------------------- */

struct bb_pcie {
	int gen, width; /* 0 unknown */
	double GBps;    /* after line coding, in one direction; may be known alone; 0 unknown */
};

enum bb_pci_role { BB_PCI_ENDPOINT, BB_PCI_ROOT_PORT, BB_PCI_SWITCH_UP, BB_PCI_SWITCH_DOWN };

enum bb_acs { BB_ACS_UNKNOWN, BB_ACS_OFF, BB_ACS_REDIRECT };

struct bb_pci {
	char id[16];         /* "0000:1b:00.0" */
	uint32_t class_code; /* base and sub class: 0x0302 */
	uint32_t vendor, device;
	enum bb_pci_role role;
	int parent;          /* index of the port above; -1: a host bridge */
	int root;            /* number of its host bridge, the same for all below it */
	int numa;            /* index */
	struct bb_pcie now;  /* link to the object above, as it runs */
	struct bb_pcie most; /* capability of this end */
	enum bb_acs acs;     /* of a port: whether it redirects traffic between peers upwards */
};

/* ---- devices --------------------------------------------------------------------------- */

enum bb_device_kind { BB_GPU, BB_NIC, BB_NVME, BB_DEVICE_KINDS };

enum bb_nic_layer { BB_LAYER_UNKNOWN, BB_INFINIBAND, BB_ETHERNET };
enum bb_nic_state { BB_STATE_UNKNOWN, BB_STATE_UP, BB_STATE_DOWN };
/* GPUDirect RDMA of a GPU or a NIC, as NCCL found it. */
enum bb_gdr { BB_GDR_UNKNOWN, BB_GDR_OFF, BB_GDR_ON };

struct bb_device {
	enum bb_device_kind kind;
	char name[32];       /* "GPU0", "mlx5_0", "nvme0n1"; unique */
	char model[BB_TEXT]; /* empty if unknown */
	int pci;             /* index */
	int numa;            /* index */
	int64_t bytes;       /* memory of a GPU; 0 unknown */
	int sm;              /* of an NVIDIA GPU: 90 is compute capability 9.0; 0 unknown */
	int64_t rate_Mbps;   /* of a NIC; 0 unknown */
	enum bb_nic_layer layer;
	enum bb_nic_state state;
	enum bb_gdr gdr;
	char port[32]; /* of a NIC with RDMA: its network interface, empty if unknown */
};

/* ---- links ----------------------------------------------------------------------------- */

#define BB_PEER_SWITCH (-1) /* an NVSwitch */
#define BB_PEER_CPU (-2)    /* the CPU of its NUMA node */
#define BB_PEER_ANY (-4)    /* all of them, where links are counted */

enum bb_link_kind { BB_NVLINK /* or xGMI, between AMD GPUs */, BB_C2C };

/* Links of one GPU to one peer. A link between two GPUs is listed twice. */
struct bb_link {
	enum bb_link_kind kind;
	int device;  /* index of a GPU */
	int peer;    /* index of a GPU, or one of the above */
	int version; /* of NVLink: 4; 0 unknown */
	int count;   /* working links */
	int down;    /* links that are down */
	double GBps; /* one link, payload in one direction */
};

/* Whether two GPUs can reach each other's memory, as NVML puts it. */
enum bb_peer_access {
	BB_P2P_OK,
	BB_P2P_CHIPSET,
	BB_P2P_GPU,
	BB_P2P_TOPOLOGY,
	BB_P2P_DISABLED,
	BB_P2P_NOT_SUPPORTED,
	BB_P2P_UNKNOWN
};

/* ---- the model ------------------------------------------------------------------------- */

struct bb_topology {
	char name[BB_TEXT];   /* host name, known system or file */
	char source[BB_TEXT]; /* of the model, for users */
	char driver[32];      /* of the GPUs; empty if unknown */
	int nodes;            /* machines like this one, >= 1 */
	int nvlink_nodes;     /* nodes that share their NVSwitches, >= 1 */
	int nvswitches;       /* chips in one machine; 0 none or unknown */
	struct bb_host host;
	int hidden_gpus;    /* on the bus, but not shown by their driver */
	bool links_unknown; /* between GPUs: the source has none, and the machine may */
	int npcis, ndevices, nlinks;
	struct bb_pci *pcis;       /* parents before children */
	struct bb_device *devices; /* GPUs, then NICs, then NVMe, each in order */
	struct bb_link *links;     /* by device, then peer */
	uint8_t *p2p; /* enum bb_peer_access, GPUs x GPUs, row reads column; NULL: nothing is known
		       */
};

void bb_topology_free(struct bb_topology *t); /* NULL: nothing */

/* The number of devices of KIND, and the index of number I of them, or -1. */
int bb_topology_count(const struct bb_topology *t, enum bb_device_kind kind);
int bb_topology_device(const struct bb_topology *t, enum bb_device_kind kind, int i);
/* The device of that name, or -1. */
int bb_topology_find(const struct bb_topology *t, const char *name);

/* Number of working NVLinks of a GPU to PEER (a device or BB_PEER_*). */
int bb_topology_nvlinks(const struct bb_topology *t, int gpu, int peer);
/* Whether GPU (a device) is AMD's: its links to other GPUs are then xGMI. */
bool bb_topology_is_amd(const struct bb_topology *t, int gpu);
/* Write "NVLink4", "NVLink" or "xGMI" into TEXT: what a link of this GPU is called. Returns TEXT.
 */
#define BB_LINK_TEXT 16
const char *bb_topology_link_text(char text[BB_LINK_TEXT], const struct bb_topology *t, int gpu);
/* The first link of this kind of a GPU, or NULL. */
const struct bb_link *bb_topology_link(const struct bb_topology *t, int gpu,
				       enum bb_link_kind kind);
/* Whether GPU A can access the memory of GPU B; GPUs joined by NVLink always can. */
enum bb_peer_access bb_topology_p2p(const struct bb_topology *t, int a, int b);
/* Whether it can, or access is unknown. */
bool bb_topology_reaches(const struct bb_topology *t, int a, int b);
/* What the operating system calls NUMA node NUMA (an index); -1: unknown. */
int bb_numa_number(const struct bb_topology *t, int numa);
/* "InfiniBand", "Ethernet"; empty: unknown. */
const char *bb_nic_layer_name(enum bb_nic_layer layer);

/* ---- paths ----------------------------------------------------------------------------- */

/* The classes of nvidia-smi topo -m, and the links of AMD GPUs, from near to far. */
enum bb_path {
	BB_PATH_SELF,
	BB_PATH_NVLINK,
	BB_PATH_XGMI,
	BB_PATH_PIX,  /* at most one PCIe switch */
	BB_PATH_PXB,  /* several PCIe switches, no host bridge */
	BB_PATH_PHB,  /* one host bridge */
	BB_PATH_NODE, /* several host bridges of a NUMA node */
	BB_PATH_SYS,  /* several NUMA nodes */
	BB_PATH_UNKNOWN
};

/* The path between two devices. *NVLINKS (may be NULL) is the number of bonded NVLinks, through
   switches the smaller number of both; 0 on other paths. */
enum bb_path bb_topology_path(const struct bb_topology *t, int a, int b, int *nvlinks);
/* The same without NVLink. */
enum bb_path bb_topology_pci_path(const struct bb_topology *t, int a, int b);
/* Write "X", "NV18", "PIX" … into TEXT. Returns TEXT. */
#define BB_PATH_TEXT 16
const char *bb_topology_path_text(char text[BB_PATH_TEXT], enum bb_path path, int nvlinks);
/* One sentence per class, as in nvidia-smi's legend; NULL for BB_PATH_UNKNOWN. */
const char *bb_path_meaning(enum bb_path path);
const char *bb_path_word(enum bb_path path);

/* Whether A and B are functions of one card: the same bus and slot. */
bool bb_pci_same_card(const struct bb_pci *a, const struct bb_pci *b);

/* ---- sources --------------------------------------------------------------------------- */

/* This machine by hwloc, sysfs, and NVML if its library exists. Reading PCI takes a while. The
   caller frees *T. */
BB_MUST bb_status bb_topology_here(struct bb_topology **t, struct bb_error *error);

/* The known system NAME (systems.h). BB_EUSAGE with the nearest name if there is none. The caller
   frees *T. */
BB_MUST bb_status bb_topology_system(const char *name, struct bb_topology **t,
				     struct bb_error *error);

/* ---- conclusions ------------------------------------------------------------------------ */

/* Call ADD with a sentence for each finding: links below the capability of both ends, devices
   slower than others of their model. Returns their number. */
int bb_topology_findings(const struct bb_topology *t, void (*add)(void *context, const char *text),
			 void *context);

/* A digest that numbers and order of buses and devices, host names, rounding of memory to GiB, the
   current generation of PCIe links, which idle GPUs lower, and the number of nodes do not change.
 */
uint64_t bb_topology_digest(const struct bb_topology *t);
