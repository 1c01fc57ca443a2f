/*
 * systems.c - known systems, from the documents of their vendors, and from users' `nvidia-smi topo
 * -m` and NCCL_TOPO_DUMP_FILE. Bus numbers are invented.
 *
 * What these sources lack is left out. The memory of a NUMA node is its share of the whole.
 */
#include "topology/systems.h"

#include <string.h>

/* ---- CPUs ---------------------------------------------------------------------------------- */

#define CPU(maker, is, version, of) .vendor = maker, .arch = is, .family = version, .number = of
#define INTEL(number) CPU("GenuineIntel", "x86_64", 6, number)
#define EPYC(family, number) CPU("AuthenticAMD", "x86_64", family, number)
/* Packages, NUMA nodes and cores of each, threads per core; GiB of memory in all. */
#define COUNTS(n, of_each, all, smt, memory)                                                       \
	.packages = n, .numas = of_each, .cores = all, .threads = smt, .gib = memory
/* KiB of L2 per core, MiB of an L3 and its cores; distances of NUMA nodes by the firmware. */
#define CACHES(l2, l3, sharing) .l2_kib = l2, .l3_mib = l3, .l3_cores = sharing
#define DISTANCES(same, other) .near = same, .far = other

static const struct bb_system_cpu xeon_6148 = {"Intel(R) Xeon(R) Gold 6148 CPU @ 2.40GHz",
					       INTEL(85), COUNTS(2, 1, 20, 2, 384),
					       CACHES(1024, 27, 20), DISTANCES(10, 21)};

/* 2 x E5-2698 v4, 512 GB (NVIDIA, DGX-1 system architecture). */
static const struct bb_system_cpu xeon_2698 = {"Intel(R) Xeon(R) CPU E5-2698 v4 @ 2.20GHz",
					       INTEL(79), COUNTS(2, 1, 20, 2, 512),
					       CACHES(256, 50, 20), DISTANCES(10, 21)};

/* 2 x Platinum 8168, 1.5 TB (DGX-2 user guide). */
static const struct bb_system_cpu xeon_8168 = {"Intel(R) Xeon(R) Platinum 8168 CPU @ 2.70GHz",
					       INTEL(85), COUNTS(2, 1, 24, 2, 1536),
					       CACHES(1024, 33, 24), DISTANCES(10, 21)};

/* 2 x EPYC 7742 with four NUMA nodes each, 1 TB (DGX A100 user guide; NVIDIA/nccl#1505). */
static const struct bb_system_cpu epyc_7742 = {"AMD EPYC 7742 64-Core Processor", EPYC(23, 49),
					       COUNTS(2, 4, 64, 2, 1024), CACHES(512, 16, 4),
					       DISTANCES(12, 32)};

/* 2 x Platinum 8480C, 2 TB (DGX H100 user guide; affinities of NVIDIA/nccl#1264). */
static const struct bb_system_cpu xeon_8480 = {"Intel(R) Xeon(R) Platinum 8480C", INTEL(143),
					       COUNTS(2, 1, 56, 2, 2048), CACHES(2048, 105, 56),
					       DISTANCES(10, 21)};

/* 2 x Platinum 8570, 2 TB (DGX B200 data sheet). */
static const struct bb_system_cpu xeon_8570 = {"Intel(R) Xeon(R) Platinum 8570", INTEL(207),
					       COUNTS(2, 1, 56, 2, 2048), CACHES(2048, 300, 56),
					       DISTANCES(10, 21)};

/* 2 x Grace, 480 GB each (GB200 NVL72 data sheet). */
static const struct bb_system_cpu grace = {"NVIDIA Grace", CPU("NVIDIA", "arm64", 0, 0),
					   COUNTS(2, 1, 72, 1, 960), CACHES(1024, 114, 72),
					   DISTANCES(10, 40)};

/* 4 x Grace, 120 GB each (JUPITER, Alps: arXiv 2408.11556). */
static const struct bb_system_cpu grace_quad = {"NVIDIA Grace", CPU("NVIDIA", "arm64", 0, 0),
						COUNTS(4, 1, 72, 1, 480), CACHES(1024, 114, 72),
						DISTANCES(10, 40)};

static const struct bb_system_cpu epyc_9354 = {"AMD EPYC 9354 32-Core Processor", EPYC(25, 17),
					       COUNTS(2, 1, 32, 2, 768), CACHES(1024, 32, 4),
					       DISTANCES(10, 32)};

static const struct bb_system_cpu epyc_7313 = {"AMD EPYC 7313 16-Core Processor", EPYC(25, 1),
					       COUNTS(2, 1, 16, 2, 256), CACHES(512, 32, 4),
					       DISTANCES(10, 32)};

/* ---- GPUs and NICs ------------------------------------------------------------------------- */

static const struct bb_system_gpu v100_sxm2 = {0x1db1, "V100 SXM2 16GB", 70, 16, 3, "V100"};
static const struct bb_system_gpu v100_sxm2_32 = {0x1db5, "V100 SXM2 32GB", 70, 32, 3, "V100"};
static const struct bb_system_gpu v100_sxm3 = {0x1db8, "V100 SXM3 32GB", 70, 32, 3, "V100"};
static const struct bb_system_gpu a100_sxm4 = {0x20b2, "A100 SXM4 80GB", 80, 80, 4, "A100"};
static const struct bb_system_gpu h100_sxm5 = {0x2330, "H100 SXM5 80GB", 90, 80, 5, "H100"};
static const struct bb_system_gpu h200_sxm5 = {0x2335, "H200 SXM5 141GB", 90, 141, 5, "H200"};
static const struct bb_system_gpu gh200 = {0x2342, "GH200 96GB", 90, 96, 5, "GH200"};
static const struct bb_system_gpu b200 = {0x2901, "B200", 100, 180, 5, "B200"};
static const struct bb_system_gpu gb200 = {0x2941, "GB200", 100, 186, 5, "GB200"};
static const struct bb_system_gpu l40s = {0x26b9, "L40S", 89, 48, 4, "L40S"};
static const struct bb_system_gpu rtx_4090 = {0x2684, "RTX 4090", 89, 24, 4, "RTX 4090"};
static const struct bb_system_gpu h100_pcie = {0x2331, "H100 PCIe", 90, 80, 5, "H100 PCIe"};

static const struct bb_system_nic edr = {0x1013, 100, 0, BB_INFINIBAND, 3};
static const struct bb_system_nic edr_side = {0x1017, 100, 100, BB_INFINIBAND, 3};
static const struct bb_system_nic hdr = {0x101b, 200, 200, BB_INFINIBAND, 4};
static const struct bb_system_nic ndr = {0x1021, 400, 200, BB_INFINIBAND, 5};
static const struct bb_system_nic ndr_200 = {0x1021, 200, 0, BB_INFINIBAND, 5};
static const struct bb_system_nic roce_400 = {0x1021, 400, 200, BB_ETHERNET, 5};
static const struct bb_system_nic roce_200 = {0x101b, 200, 0, BB_ETHERNET, 4};
static const struct bb_system_nic roce_25 = {0x1017, 25, 0, BB_ETHERNET, 3};

/* ---- slots ----------------------------------------------------------------------------------- */

/* A card: NUMA node, host bridge, outer switch, inner switch (0: none). */
#define GPU(...)                                                                                   \
	{                                                                                          \
		BB_CARD_GPU, __VA_ARGS__                                                           \
	}
#define NIC(...)                                                                                   \
	{                                                                                          \
		BB_CARD_NIC, __VA_ARGS__                                                           \
	}
#define SIDE_NIC(...)                                                                              \
	{                                                                                          \
		BB_CARD_SIDE_NIC, __VA_ARGS__                                                      \
	}
#define SIDE_PORT(...)                                                                             \
	{                                                                                          \
		BB_CARD_SIDE_PORT, __VA_ARGS__                                                     \
	}
#define END                                                                                        \
	{                                                                                          \
		BB_CARD_NONE, 0, 0, 0, 0                                                           \
	}

/* clang-format off */

/* Dell C4140 with SXM2: four GPUs and a NIC on one switch. */
static const struct bb_system_slot one_switch[] = {
	GPU(0, 0, 1, 0), GPU(0, 0, 1, 0), GPU(0, 0, 1, 0), GPU(0, 0, 1, 0), NIC(0, 0, 1, 0), END,
};

/* DGX-1: a switch for two GPUs and a NIC, two switches at each CPU's host bridge. */
static const struct bb_system_slot dgx1[] = {
	GPU(0, 0, 1, 0), GPU(0, 0, 1, 0), NIC(0, 0, 1, 0),
	GPU(0, 0, 2, 0), GPU(0, 0, 2, 0), NIC(0, 0, 2, 0),
	GPU(1, 1, 1, 0), GPU(1, 1, 1, 0), NIC(1, 1, 1, 0),
	GPU(1, 1, 2, 0), GPU(1, 1, 2, 0), NIC(1, 1, 2, 0), END,
};

/* DGX-2: two GPUs and a NIC on an inner switch, two of those on an outer one, two of those at each
   CPU, on host bridges of their own (NVIDIA/nccl-tests#78). */
static const struct bb_system_slot dgx2[] = {
	GPU(0, 0, 1, 1), GPU(0, 0, 1, 1), NIC(0, 0, 1, 1), GPU(0, 0, 1, 2), GPU(0, 0, 1, 2), NIC(0, 0, 1, 2),
	GPU(0, 1, 1, 1), GPU(0, 1, 1, 1), NIC(0, 1, 1, 1), GPU(0, 1, 1, 2), GPU(0, 1, 1, 2), NIC(0, 1, 1, 2),
	GPU(1, 2, 1, 1), GPU(1, 2, 1, 1), NIC(1, 2, 1, 1), GPU(1, 2, 1, 2), GPU(1, 2, 1, 2), NIC(1, 2, 1, 2),
	GPU(1, 3, 1, 1), GPU(1, 3, 1, 1), NIC(1, 3, 1, 1), GPU(1, 3, 1, 2), GPU(1, 3, 1, 2), NIC(1, 3, 1, 2),
	SIDE_NIC(1, 4, 0, 0), SIDE_PORT(1, 4, 0, 0), END,
};

/* DGX A100: two GPUs and two NICs on switches of one family, which show as two levels; NUMA nodes
   3, 1, 7 and 5 in this order (NVIDIA/nccl#1505). */
static const struct bb_system_slot dgx_a100[] = {
	GPU(3, 0, 1, 1), GPU(3, 0, 1, 1), NIC(3, 0, 1, 2), NIC(3, 0, 1, 2),
	GPU(1, 1, 1, 1), GPU(1, 1, 1, 1), NIC(1, 1, 1, 2), NIC(1, 1, 1, 2),
	SIDE_NIC(2, 4, 0, 0), SIDE_PORT(2, 4, 0, 0),
	GPU(7, 2, 1, 1), GPU(7, 2, 1, 1), NIC(7, 2, 1, 2), NIC(7, 2, 1, 2),
	GPU(5, 3, 1, 1), GPU(5, 3, 1, 1), NIC(5, 3, 1, 2), NIC(5, 3, 1, 2),
	SIDE_NIC(6, 5, 0, 0), SIDE_PORT(6, 5, 0, 0), END,
};

/* HGX with eight GPUs: each with a NIC on a switch and host bridge of its own (nccl#1264, where
   newer drivers print NODE for what is SYS there). */
static const struct bb_system_slot hgx[] = {
	GPU(0, 0, 1, 0), NIC(0, 0, 1, 0), GPU(0, 1, 1, 0), NIC(0, 1, 1, 0),
	GPU(0, 2, 1, 0), NIC(0, 2, 1, 0), GPU(0, 3, 1, 0), NIC(0, 3, 1, 0),
	GPU(1, 4, 1, 0), NIC(1, 4, 1, 0), GPU(1, 5, 1, 0), NIC(1, 5, 1, 0),
	GPU(1, 6, 1, 0), NIC(1, 6, 1, 0), GPU(1, 7, 1, 0), NIC(1, 7, 1, 0),
	SIDE_NIC(0, 8, 0, 0), SIDE_PORT(0, 8, 0, 0), END,
};

/* Quad GH200: each Grace has a GPU and a NIC (arXiv 2408.11556, 2408.14090). */
static const struct bb_system_slot gh200_quad[] = {
	GPU(0, 0, 0, 0), NIC(0, 1, 0, 0), GPU(1, 2, 0, 0), NIC(1, 3, 0, 0),
	GPU(2, 4, 0, 0), NIC(2, 5, 0, 0), GPU(3, 6, 0, 0), NIC(3, 7, 0, 0), END,
};

/* GB200: each Grace has two GPUs and two NICs, all on host bridges of their own. */
static const struct bb_system_slot gb200_node[] = {
	GPU(0, 0, 0, 0), GPU(0, 1, 0, 0), GPU(1, 2, 0, 0), GPU(1, 3, 0, 0),
	NIC(0, 4, 0, 0), NIC(0, 5, 0, 0), NIC(1, 6, 0, 0), NIC(1, 7, 0, 0), END,
};

/* Eight cards, four on the switch of each CPU, with a NIC. */
static const struct bb_system_slot two_switches[] = {
	GPU(0, 0, 1, 0), GPU(0, 0, 1, 0), GPU(0, 0, 1, 0), GPU(0, 0, 1, 0), NIC(0, 0, 1, 0),
	GPU(1, 1, 1, 0), GPU(1, 1, 1, 0), GPU(1, 1, 1, 0), GPU(1, 1, 1, 0), NIC(1, 1, 1, 0), END,
};

/* Four cards in slots of the CPUs, a NIC at the first. */
static const struct bb_system_slot slots_only[] = {
	GPU(0, 0, 0, 0), GPU(0, 1, 0, 0), GPU(1, 2, 0, 0), GPU(1, 3, 0, 0), NIC(0, 4, 0, 0), END,
};

/* clang-format on */

/* ---- NVLinks between GPUs -------------------------------------------------------------------- */

static const char *const full_of_4[] = {"0222", "2022", "2202", "2220"};
static const char *const sixfold_of_4[] = {"0666", "6066", "6606", "6660"};
/* The hybrid cube mesh (DGX-1 system architecture). */
static const char *const cube_mesh[] = {"01122000", "10210200", "12020010", "21200001",
					"20000112", "02001021", "00101202", "00012120"};
static const char *const bridges_of_12[] = {"0c00", "c000", "000c", "00c0"};

/* ---- the systems ----------------------------------------------------------------------------- */

static const struct bb_system systems[] = {
	{"v100-x4", "4 V100, two NVLinks between any two, InfiniBand 100G", &xeon_6148, &v100_sxm2,
	 &edr, one_switch, .bridged = full_of_4},
	{"dgx-1v", "8 V100 in a hybrid cube mesh, 4 InfiniBand 100G", &xeon_2698, &v100_sxm2_32,
	 &edr, dgx1, .bridged = cube_mesh},
	{"dgx-2", "16 V100 on 12 NVSwitches, 8 InfiniBand 100G", &xeon_8168, &v100_sxm3, &edr_side,
	 dgx2, .switched = 6, .nvswitches = 12},
	{"dgx-a100", "8 A100 on 6 NVSwitches, 8 InfiniBand 200G", &epyc_7742, &a100_sxm4, &hdr,
	 dgx_a100, .switched = 12, .nvswitches = 6},
	{"hgx-h100", "8 H100 on 4 NVSwitches, 8 InfiniBand 400G", &xeon_8480, &h100_sxm5, &ndr, hgx,
	 .switched = 18, .nvswitches = 4},
	{"hgx-h100-roce", "the same with Ethernet", &xeon_8480, &h100_sxm5, &roce_400, hgx,
	 .switched = 18, .nvswitches = 4},
	{"hgx-h200", "8 H200 on 4 NVSwitches, 8 InfiniBand 400G", &xeon_8480, &h200_sxm5, &ndr, hgx,
	 .switched = 18, .nvswitches = 4},
	{"hgx-h200-roce", "the same with Ethernet", &xeon_8480, &h200_sxm5, &roce_400, hgx,
	 .switched = 18, .nvswitches = 4},
	{"gh200-x4", "4 GH200, six NVLinks between any two, 4 InfiniBand 200G", &grace_quad, &gh200,
	 &ndr_200, gh200_quad, .bridged = sixfold_of_4},
	{"hgx-b200", "8 B200 on 2 NVSwitches, 8 InfiniBand 400G", &xeon_8570, &b200, &ndr, hgx,
	 .switched = 18, .nvswitches = 2},
	{"hgx-b200-roce", "the same with Ethernet", &xeon_8570, &b200, &roce_400, hgx,
	 .switched = 18, .nvswitches = 2},
	/* 18 trays of 4 GPUs; C2C as NCCL's dump of such a tray has it. */
	{"gb200-nvl72", "18 nodes of 4 GB200 that share NVSwitches, 4 InfiniBand 400G each", &grace,
	 &gb200, &ndr, gb200_node, .switched = 18, .nodes = 18, .c2c = 5},
	{"pcie-l40s", "8 L40S on two PCIe switches, with P2P, 2 Ethernet 200G", &epyc_9354, &l40s,
	 &roce_200, two_switches, .switched = 0},
	{"pcie-4090", "4 RTX 4090 in slots, without P2P, Ethernet 25G", &epyc_7313, &rtx_4090,
	 &roce_25, slots_only, .no_p2p = true},
	{"pcie-h100", "4 H100 PCIe, bridged in pairs, InfiniBand 400G", &epyc_9354, &h100_pcie,
	 &ndr, slots_only, .bridged = bridges_of_12},
};

#define SYSTEMS (int)(sizeof(systems) / sizeof(systems[0]))

const struct bb_system *bb_system_at(int i)
{
	return i >= 0 && i < SYSTEMS ? &systems[i] : NULL;
}

const struct bb_system *bb_system_find(const char *name)
{
	for (int i = 0; i < SYSTEMS; i++)
		if (strcmp(systems[i].name, name) == 0)
			return &systems[i];
	return NULL;
}
