/*
 * systems.c - known systems, from the documents of their vendors, and from users' `nvidia-smi topo
 * -m` and NCCL_TOPO_DUMP_FILE. Bus numbers are invented.
 *
 * What these sources lack is left out. The memory of a NUMA node is its share of the whole.
 */
#include "topology/systems.h"
#include "core/option.h"
#include "topology/build.h"
#include "topology/rates.h"

#include <stdio.h>
#include <string.h>

/* ---- CPUs ---------------------------------------------------------------------------------- */

#define CPU(cpu, ...) static const struct bb_system_cpu cpu = {__VA_ARGS__}
/* Two packages with a NUMA node each: model of CPUID, cores of each, GiB of memory in all; KiB of
   L2 per core, MiB of L3 per package; generation of PCIe (0: that of the GPUs). */
#define XEON(cpu, name, number, cores, gib, l2, l3, pcie)                                          \
	CPU(cpu, "Intel(R) Xeon(R) " name, "GenuineIntel", "x86_64", 6, number, 2, 1, cores, 2,    \
	    gib, l2, l3, cores, 10, 21, pcie)
/* Family and model of CPUID; packages, NUMA nodes and cores of each, GiB; KiB of L2, MiB of an L3
   and its cores; distances of NUMA nodes by the firmware; generation of PCIe. */
#define EPYC(cpu, name, family, number, packages, numas, cores, gib, l2, l3, sharing, near, far,   \
	     pcie)                                                                                 \
	CPU(cpu, "AMD EPYC " name, "AuthenticAMD", "x86_64", family, number, packages, numas,      \
	    cores, 2, gib, l2, l3, sharing, near, far, pcie)
#define GRACE(cpu, packages, gib)                                                                  \
	CPU(cpu, "NVIDIA Grace", "NVIDIA", "arm64", 0, 0, packages, 1, 72, 1, gib, 1024, 114, 72,  \
	    10, 40, 5)

XEON(xeon_6148, "Gold 6148 CPU @ 2.40GHz", 85, 20, 384, 1024, 27, 0);
/* 2 x E5-2698 v4, 512 GB (NVIDIA, DGX-1 system architecture). */
XEON(xeon_2698, "CPU E5-2698 v4 @ 2.20GHz", 79, 20, 512, 256, 50, 0);
/* 2 x Platinum 8168, 1.5 TB (DGX-2 user guide). */
XEON(xeon_8168, "Platinum 8168 CPU @ 2.70GHz", 85, 24, 1536, 1024, 33, 0);
/* 2 x EPYC 7742 with four NUMA nodes each, 1 TB (DGX A100 user guide; NVIDIA/nccl#1505). */
EPYC(epyc_7742, "7742 64-Core Processor", 23, 49, 2, 4, 64, 1024, 512, 16, 4, 12, 32, 0);
/* 2 x Platinum 8480C, 2 TB (DGX H100 user guide; affinities of NVIDIA/nccl#1264). */
XEON(xeon_8480, "Platinum 8480C", 143, 56, 2048, 2048, 105, 0);
/* 2 x Platinum 8480+ (NVIDIA/nccl#1639); memory as the DGX H100's. */
XEON(xeon_8480_plus, "Platinum 8480+", 143, 56, 2048, 2048, 105, 0);
/* 2 x Platinum 8275CL, 1152 GiB (AWS, instance types; cores by the affinities in
   p4de-24xl-topo.xml, aws/aws-ofi-nccl). */
XEON(xeon_8275, "Platinum 8275CL CPU @ 3.00GHz", 85, 24, 1152, 1024, 36, 0);
/* 2 x Platinum 8488C, 2 TiB (hwloc's XML of p5en.48xlarge, aws/aws-ofi-nccl). */
XEON(xeon_8488, "Platinum 8488C", 143, 48, 2048, 2048, 105, 0);
/* 2 x Platinum 8559C, 2 or 4 TiB (the same of p6-b200.48xlarge and p6-b300.48xlarge). */
XEON(xeon_8559, "Platinum 8559C", 207, 48, 2048, 2048, 320, 0);
XEON(xeon_8559_4t, "Platinum 8559C", 207, 48, 4096, 2048, 320, 5);
/* 2 x Xeon 6776P, 2 TB (DGX B300 data sheet). */
XEON(xeon_6776, "6776P", 173, 64, 2048, 2048, 336, 5);
/* 2 x EPYC 7R13, 2 TiB (AWS, P5 instances). */
EPYC(epyc_7r13, "7R13 Processor", 25, 1, 2, 1, 48, 2048, 512, 32, 8, 10, 32, 0);
/* 2 x EPYC 9374F, 1.5 TiB (AMD's MI300X in MLPerf Inference 4.1). */
EPYC(epyc_9374, "9374F 32-Core Processor", 25, 17, 2, 1, 32, 1536, 1024, 32, 4, 10, 32, 0);
/* 2 x EPYC 9575F; 24 x 96 GB (voipmonitor/rtx6kpro), or 24 x 128 GB (tinycorp's MI350X in MLPerf
   Training 6.0). */
EPYC(epyc_9575, "9575F 64-Core Processor", 26, 2, 2, 1, 64, 2304, 1024, 32, 8, 10, 32, 0);
EPYC(epyc_9575_3t, "9575F 64-Core Processor", 26, 2, 2, 1, 64, 3072, 1024, 32, 8, 10, 32, 0);
/* 2 x Platinum 8570, 2 TB (DGX B200 data sheet). */
XEON(xeon_8570, "Platinum 8570", 207, 56, 2048, 2048, 300, 0);
/* 2 x Grace, 480 GB each (GB200 NVL72 data sheet). */
GRACE(grace, 2, 960);
/* 4 x Grace, 120 GB each (JUPITER, Alps: arXiv 2408.11556). */
GRACE(grace_quad, 4, 480);
/* 2 x EPYC 7742, 256 GB (CSCS, Eiger), with a NUMA node for each CPU. */
EPYC(epyc_7742_alone, "7742 64-Core Processor", 23, 49, 2, 1, 64, 256, 512, 16, 4, 10, 32, 4);
EPYC(epyc_9354, "9354 32-Core Processor", 25, 17, 2, 1, 32, 768, 1024, 32, 4, 10, 32, 0);
/* Frontier's nodes: EPYC 7A53 with four NUMA nodes, 512 GB (OLCF, Frontier user guide). */
EPYC(epyc_7a53, "7A53 64-Core Processor", 25, 48, 1, 4, 64, 512, 512, 32, 8, 12, 12, 0);
/* DGX Spark: 10 Cortex-X925 and 10 Cortex-A725, 128 GB shared with the GPU (NVIDIA, DGX Spark
   hardware overview). */
static const struct bb_system_cpu gb10_cpu = {
	"NVIDIA GB10", "NVIDIA", "arm64", 0, 0, 1, 1, 20, 1, 128, 2048, 24, 20, 10, 10, 0};
EPYC(epyc_7313, "7313 16-Core Processor", 25, 1, 2, 1, 16, 256, 512, 32, 4, 10, 32, 0);

/* ---- GPUs and NICs ------------------------------------------------------------------------- */

static const struct bb_system_gpu v100_sxm2 = {0x1db1, "V100 SXM2 16GB", 70, 16, 3, "V100", 900};
static const struct bb_system_gpu v100_sxm2_32 = {0x1db5, "V100 SXM2 32GB", 70, 32, 3, "V100", 900};
static const struct bb_system_gpu v100_sxm3 = {0x1db8, "V100 SXM3 32GB", 70, 32, 3, "V100", 0};
static const struct bb_system_gpu a100_sxm4 = {0x20b2, "A100 SXM4 80GB", 80, 80, 4, "A100", 2039};
static const struct bb_system_gpu h100_sxm5 = {0x2330, "H100 SXM5 80GB", 90, 80, 5, "H100", 3350};
static const struct bb_system_gpu h200_sxm5 = {0x2335, "H200 SXM5 141GB", 90, 141, 5, "H200", 4800};
static const struct bb_system_gpu gh200 = {0x2342, "GH200 96GB", 90, 96, 5, "GH200", 4000};
static const struct bb_system_gpu b200 = {0x2901, "B200", 100, 180, 5, "B200", 8000};
static const struct bb_system_gpu gb200 = {0x2941, "GB200", 100, 186, 5, "GB200", 8000};
static const struct bb_system_gpu l40s = {0x26b9, "L40S", 89, 48, 4, "L40S", 864};
static const struct bb_system_gpu rtx_4090 = {0x2684, "RTX 4090", 89, 24, 4, "RTX 4090", 1008};
static const struct bb_system_gpu h100_pcie = {0x2331, "H100 PCIe", 90, 80, 5, "H100 PCIe", 2000};
/* Memory as OpenCL or the driver reports it: hwloc's XML of p6-b300.48xlarge, lspci of a GB300. */
static const struct bb_system_gpu b300 = {0x3182, "B300", 103, 268, 6, "B300", 0};
static const struct bb_system_gpu gb300 = {0x31c2, "GB300", 103, 277, 6, "GB300", 0};
static const struct bb_system_gpu rtx_pro_6000 = {0x2bb5, "RTX PRO 6000", 120, 96,
						  5,      "RTX PRO 6000", 0};
static const struct bb_system_gpu rtx_5090 = {0x2b85, "RTX 5090", 120, 32, 5, "RTX 5090", 0};
/* Versions for China: NVLink of H800 and A800 has 8 links, 400 GB/s both directions together, that
   of H20 all 18, 900 GB/s (NVIDIA's product briefs; DeepSeek-V3, arXiv 2412.19437, for H800). */
static const struct bb_system_gpu a800_sxm4 = {0x20f3, "A800 SXM4 80GB", 80, 80, 4, "A800", 0};
static const struct bb_system_gpu h800_sxm5 = {0x2324, "H800 SXM5 80GB", 90, 80, 5, "H800", 0};
static const struct bb_system_gpu h20_sxm5 = {0x2329, "H20 SXM5 96GB", 90, 96, 5, "H20", 0};
static const struct bb_system_gpu a100_sxm4_40 = {0x20b0, "A100 SXM4 40GB", 80,  40,
						  4,      "A100",           1555};
/* Cards: memory, PCIe and NVLink bridges by their data sheets (NVIDIA). A PCI device of 0 is not
   known. RTX 6000D has no data sheet; PCIe as its sister's, RTX PRO 6000. */
static const struct bb_system_gpu v100_pcie = {0x1db6, "V100 PCIe 32GB", 70, 32, 3, "V100 PCIe", 0};
static const struct bb_system_gpu t4 = {0x1eb8, "T4", 75, 16, 3, "T4", 0};
static const struct bb_system_gpu rtx_2080_ti = {0x1e07, "RTX 2080 Ti", 75, 11,
						 3,      "RTX 2080 Ti", 0};
static const struct bb_system_gpu a100_pcie = {0x20b5, "A100 PCIe 80GB", 80, 80, 4, "A100 PCIe", 0};
static const struct bb_system_gpu a30 = {0x20b7, "A30", 80, 24, 4, "A30", 0};
static const struct bb_system_gpu a40 = {0x2235, "A40", 86, 48, 4, "A40", 0};
static const struct bb_system_gpu a10 = {0x2236, "A10", 86, 24, 4, "A10", 0};
static const struct bb_system_gpu rtx_a6000 = {0x2230, "RTX A6000", 86, 48, 4, "RTX A6000", 0};
static const struct bb_system_gpu rtx_3090 = {0x2204, "RTX 3090", 86, 24, 4, "RTX 3090", 0};
static const struct bb_system_gpu l4 = {0x27b8, "L4", 89, 24, 4, "L4", 0};
static const struct bb_system_gpu l20 = {0x26ba, "L20", 89, 48, 4, "L20", 0};
static const struct bb_system_gpu l40 = {0x26b5, "L40", 89, 48, 4, "L40", 0};
static const struct bb_system_gpu rtx_6000_ada = {0x26b1, "RTX 6000 Ada", 89, 48,
						  4,      "RTX 6000 Ada", 0};
static const struct bb_system_gpu h100_nvl = {0x2321, "H100 NVL", 90, 94, 5, "H100 NVL", 0};
static const struct bb_system_gpu h200_nvl = {0x233b, "H200 NVL", 90, 141, 5, "H200 NVL", 0};
static const struct bb_system_gpu rtx_6000d = {0, "RTX 6000D", 120, 84, 5, "RTX 6000D", 0};
static const struct bb_system_gpu gb10 = {0x2e12, "GB10", 121, 128, 5, "GB10", 0};
/* 128 and 153.6 GB/s a link, both directions together (AMD, platform data sheets). The PCI device
   of MI350X is assumed. */
static const struct bb_system_gpu mi300x = {0x74a1, "MI300X", 0, 192, 5, "MI300X", 5300};
static const struct bb_system_gpu mi308x = {0x74a2, "MI308X", 0, 192, 5, "MI308X", 0};
static const struct bb_system_gpu mi325x = {0x74a5, "MI325X", 0, 256, 5, "MI325X", 6000};
static const struct bb_system_gpu mi350x = {0x75a0, "MI350X", 0, 288, 5, "MI350X", 0};
static const struct bb_system_gpu mi355x = {0x75a3, "MI355X", 0, 288, 5, "MI355X", 0};
/* A die of the two in a package, which drivers show as a GPU. */
static const struct bb_system_gpu mi250x = {0x7408, "MI250X", 0, 64, 4, "MI250X", 0};

#define CONNECTX(...)                                                                              \
	{                                                                                          \
		__VA_ARGS__, 0x15b3, 16                                                            \
	}
static const struct bb_system_nic edr = CONNECTX(0x1013, 100, 0, BB_INFINIBAND, 3);
static const struct bb_system_nic edr_side = CONNECTX(0x1017, 100, 100, BB_INFINIBAND, 3);
static const struct bb_system_nic hdr = CONNECTX(0x101b, 200, 200, BB_INFINIBAND, 4);
static const struct bb_system_nic ndr = CONNECTX(0x1021, 400, 200, BB_INFINIBAND, 5);
static const struct bb_system_nic ndr_200 = CONNECTX(0x1021, 200, 0, BB_INFINIBAND, 5);
static const struct bb_system_nic roce_400 = CONNECTX(0x1021, 400, 200, BB_ETHERNET, 5);
static const struct bb_system_nic roce_200 = CONNECTX(0x101b, 200, 0, BB_ETHERNET, 4);
static const struct bb_system_nic roce_200_gen5 = CONNECTX(0x1021, 200, 0, BB_ETHERNET, 5);
static const struct bb_system_nic roce_100 = CONNECTX(0x1017, 100, 0, BB_ETHERNET, 3);
static const struct bb_system_nic roce_100_gen4 = CONNECTX(0x101d, 100, 0, BB_ETHERNET, 4);
static const struct bb_system_nic roce_25 = CONNECTX(0x1017, 25, 0, BB_ETHERNET, 3);
static const struct bb_system_nic xdr = CONNECTX(0x1023, 800, 0, BB_INFINIBAND, 6);
static const struct bb_system_nic roce_400_only = CONNECTX(0x1021, 400, 0, BB_ETHERNET, 5);
/* Elastic Fabric Adapters; their packets are not those of RoCE. The PCI device of p5's is assumed.
 */
#define EFA(device, rate, pcie, ...)                                                               \
	{                                                                                          \
		device, rate, 0, BB_LAYER_UNKNOWN, pcie, 0x1d0f, __VA_ARGS__                       \
	}
static const struct bb_system_nic efa_first = EFA(0xefa0, 100, 3, 16);
static const struct bb_system_nic efa_100 = EFA(0xefa1, 100, 4, 8);
static const struct bb_system_nic efa_200 = EFA(0xefa2, 200, 5, 8);
static const struct bb_system_nic efa_400 = EFA(0xefa3, 400, 5, 16);

/* One ConnectX-7 of 200G on two links of four lanes, half of its rate on each. */
static const struct bb_system_nic roce_spark = {0x1021, 100, 0, BB_ETHERNET, 5, 0x15b3, 4};

/* Slingshot-11: HPE's Cassini. */
static const struct bb_system_nic slingshot = {0x0501, 200, 0, BB_LAYER_UNKNOWN, 4, 0x17db, 16};

/* ---- slots ----------------------------------------------------------------------------------- */

/* In the notation of systems.h. */

/* Dell C4140 with SXM2: four GPUs and a NIC on one switch. */
static const char one_switch[] = "0(GGGGN)";
/* DGX-1: a switch for two GPUs and a NIC, two switches at each CPU's host bridge. */
static const char dgx1[] = "0[(GGN)(GGN)]1[(GGN)(GGN)]";
/* DGX-2: two GPUs and a NIC on an inner switch, two of those on an outer one, two of those at each
   CPU, on host bridges of their own (NVIDIA/nccl-tests#78). */
static const char dgx2[] = "0((GGN)(GGN))((GGN)(GGN))1((GGN)(GGN))((GGN)(GGN))SP";
/* DGX A100: two GPUs and two NICs on switches of one family, which show as two levels; NUMA nodes
   3, 1, 7 and 5 in this order (NVIDIA/nccl#1505). */
static const char dgx_a100[] = "3((GG)(NN))1((GG)(NN))2SP7((GG)(NN))5((GG)(NN))6SP";
/* HGX with eight GPUs: each with a NIC on a switch and host bridge of its own (nccl#1264, where
   newer drivers print NODE for what is SYS there). */
static const char hgx[] = "0(GN)(GN)(GN)(GN)1(GN)(GN)(GN)(GN)0SP";
/* Quad GH200: each Grace has a GPU and a NIC (arXiv 2408.11556, 2408.14090). */
static const char gh200_quad[] = "0GN1GN2GN3GN";
/* GB200: each Grace has two GPUs and two NICs, all on host bridges of their own. */
static const char gb200_node[] = "0GG1GG0NN1NN";
/* GB300: the NIC is the PCIe switch above its GPU (NVIDIA, ConnectX-8; lspci of a tray). */
static const char gb300_node[] = "0(GN)(GN)1(GN)(GN)";
/* Eight GPUs, each with a NIC on a switch and host bridge of its own. */
static const char pairs[] = "0(GN)(GN)(GN)(GN)1(GN)(GN)(GN)(GN)";
/* AWS p4d and p4de: two GPUs and a NIC on each switch (aws/aws-ofi-nccl, p4de-24xl-topo.xml). */
static const char aws_p4de[] = "0(GGN)(GGN)1(GGN)(GGN)";
/* OCI's GB300: two NICs with each GPU. */
static const char oci_gb300[] = "0(GNN)(GNN)1(GNN)(GNN)";
/* HGX A100 with a NIC for two GPUs on each switch, and OCI's with four. */
static const char hgx_a100[] = "3(GGN)1(GGN)7(GGN)5(GGN)";
static const char oci_b4[] = "3(GGNNNN)1(GGNNNN)7(GGNNNN)5(GGNNNN)";
/* AWS p5: a GPU and four NICs on each switch (aws/aws-ofi-nccl, p5.48xl-topo.xml; GPUs of one NUMA
   node there, of two as on p5en here). */
static const char aws_p5[] = "0(GNNNN)(GNNNN)(GNNNN)(GNNNN)1(GNNNN)(GNNNN)(GNNNN)(GNNNN)";
/* AWS p5en: two GPUs and four NICs on each switch (hwloc's XML in aws/aws-ofi-nccl). */
static const char aws_p5en[] = "0(GGNNNN)(GGNNNN)1(GGNNNN)(GGNNNN)";
/* AWS p6-b200: two GPUs and two NICs on each switch (the same). */
static const char aws_p6_b200[] = "0(GGNN)(GGNN)1(GGNN)(GGNN)";
/* AWS p6-b300: a GPU and two NICs on each switch (the same). */
static const char aws_p6_b300[] = "0(GNN)(GNN)(GNN)(GNN)1(GNN)(GNN)(GNN)(GNN)";
/* Eight cards in slots, four of each CPU; no source names a NIC. */
static const char eight_slots[] = "0GGGG1GGGG";
/* Eight cards, four on the switch of each CPU, with a NIC. */
static const char two_switches[] = "0(GGGGN)1(GGGGN)";
/* Eight cards in slots and a NIC at each CPU: no switch limits them, so no other server of eight
   exceeds their bounds within a node. */
static const char slots_and_two[] = "0GGGGN1GGGGN";
/* The same with two NICs at each CPU. */
static const char slots_and_four[] = "0GGGGNN1GGGGNN";
/* Frontier: two dies of a package and a NIC at each NUMA node, in this order (OLCF). */
static const char frontier[] = "3[GGN]1[GGN]0[GGN]2[GGN]";
static const char spark[] = "0GNN";
/* Four cards in slots of the CPUs, a NIC at the first. */
static const char slots_only[] = "0GG1GG0N";
static const char one_nic[] = "0N";
static const char four_nics[] = "0N1N2N3N";

/* ---- NVLinks between GPUs -------------------------------------------------------------------- */

static const char *const full_of_4[] = {"0222", "2022", "2202", "2220"};
static const char *const sixfold_of_4[] = {"0666", "6066", "6606", "6660"};
/* The hybrid cube mesh (DGX-1 system architecture). */
static const char *const cube_mesh[] = {"01122000", "10210200", "12020010", "21200001",
					"20000112", "02001021", "00101202", "00012120"};
static const char *const bridges_of_12[] = {"0c00", "c000", "000c", "00c0"};
/* Bridges between two neighbours, with this digit as the number of links; bridges among four. */
#define PAIRS(n)                                                                                   \
	{                                                                                          \
		"0" n "000000", n "0000000", "000" n "0000", "00" n "00000", "00000" n "00",       \
			"0000" n "000", "0000000" n, "000000" n "0"                                \
	}
static const char *const pairs_of_2[] = PAIRS("2");
static const char *const pairs_of_4[] = PAIRS("4");
static const char *const pairs_of_12[] = PAIRS("c");
static const char *const fours_of_6[] = {"06660000", "60660000", "66060000", "66600000",
					 "00000666", "00006066", "00006606", "00006660"};
/* Four links within a package, two or one between packages (Pearson, arXiv 2302.14827). */
static const char *const frontier_links[] = {"04100020", "40010100", "10042000", "01400001",
					     "00200410", "01004001", "20001004", "00010140"};
static const char *const single_of_8[] = {"01111111", "10111111", "11011111", "11101111",
					  "11110111", "11111011", "11111101", "11111110"};

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
	 .switched = 18, .nvswitches = 4, .alias = "dgx-h100"},
	{"hgx-h100-roce", "the same with Ethernet", &xeon_8480, &h100_sxm5, &roce_400, hgx,
	 .switched = 18, .nvswitches = 4},
	{"gcp-a3-highgpu", "8 H100 on 4 NVSwitches, 4 Ethernet 200G (TCPX)", &xeon_8480, &h100_sxm5,
	 &roce_200_gen5, aws_p4de, .switched = 18, .nvswitches = 4},
	{"gcp-a3-megagpu", "8 H100 on 4 NVSwitches, 8 Ethernet 200G (TCPXO)", &xeon_8480,
	 &h100_sxm5, &roce_200_gen5, pairs, .switched = 18, .nvswitches = 4},
	/* NICs: OCI, BM.GPU.H100.8 and BM.GPU.B4.8; their places are assumed. */
	{"oci-h100", "8 H100 on 4 NVSwitches, 16 Ethernet 200G (BM.GPU.H100.8)", &xeon_8480,
	 &h100_sxm5, &roce_200_gen5, aws_p6_b300, .switched = 18, .nvswitches = 4},
	{"oci-b4", "8 A100 on 6 NVSwitches, 16 Ethernet 100G (BM.GPU.B4.8)", &epyc_7742,
	 &a100_sxm4_40, &roce_100_gen4, oci_b4, .switched = 12, .nvswitches = 6},
	/* A NIC for two GPUs, as HGX servers are sold (NVIDIA/nccl-tests#119); CPU and places are
	   assumed. */
	{"hgx-a100-4nic", "8 A100 on 6 NVSwitches, 4 InfiniBand 200G", &epyc_7742, &a100_sxm4, &hdr,
	 hgx_a100, .switched = 12, .nvswitches = 6},
	/* NICs and CPUs as usual for the unrestricted cards; assumed but for H800's NICs. */
	{"hgx-a800", "8 A800 on 6 NVSwitches, 8 links each, 8 InfiniBand 200G", &epyc_7742,
	 &a800_sxm4, &hdr, dgx_a100, .switched = 8, .nvswitches = 6},
	{"hgx-h800", "8 H800 on 4 NVSwitches, 8 links each, 8 InfiniBand 400G", &xeon_8480,
	 &h800_sxm5, &ndr, pairs, .switched = 8, .nvswitches = 4},
	{"hgx-h20", "8 H20 on 4 NVSwitches, 8 InfiniBand 400G", &xeon_8480, &h20_sxm5, &ndr, pairs,
	 .switched = 18, .nvswitches = 4},
	{"hgx-h200", "8 H200 on 4 NVSwitches, 8 InfiniBand 400G", &xeon_8480, &h200_sxm5, &ndr, hgx,
	 .switched = 18, .nvswitches = 4, .alias = "dgx-h200"},
	{"hgx-h200-roce", "the same with Ethernet", &xeon_8480, &h200_sxm5, &roce_400, hgx,
	 .switched = 18, .nvswitches = 4, .alias = "gcp-a3-ultragpu"},
	{"gh200-x4", "4 GH200, six NVLinks between any two, 4 InfiniBand 200G", &grace_quad, &gh200,
	 &ndr_200, gh200_quad, .bridged = sixfold_of_4},
	{"hgx-b200", "8 B200 on 2 NVSwitches, 8 InfiniBand 400G", &xeon_8570, &b200, &ndr, hgx,
	 .switched = 18, .nvswitches = 2, .alias = "dgx-b200"},
	{"hgx-b200-roce", "the same with Ethernet", &xeon_8570, &b200, &roce_400, hgx,
	 .switched = 18, .nvswitches = 2},
	/* 18 trays of 4 GPUs; C2C as NCCL's dump of such a tray has it. */
	{"gb200-nvl72", "18 nodes of 4 GB200 that share NVSwitches, 4 InfiniBand 400G each", &grace,
	 &gb200, &ndr, gb200_node, .switched = 18, .nodes = 18, .c2c = 5},
	/* DGX B300 data sheet; NVLinks as B200's (NVIDIA, HGX). */
	{"hgx-b300", "8 B300 on 2 NVSwitches, 8 InfiniBand 800G", &xeon_6776, &b300, &xdr, pairs,
	 .switched = 18, .nvswitches = 2, .alias = "dgx-b300"},
	/* Four ConnectX-8 a tray (NVIDIA, enterprise reference architecture of GB300 NVL72); C2C as
	   GB200. */
	{"gb300-nvl72", "18 nodes of 4 GB300 that share NVSwitches, 4 InfiniBand 800G each", &grace,
	 &gb300, &xdr, gb300_node, .switched = 18, .nodes = 18, .c2c = 5},
	/* Eight RoCE ports a tray (OCI, BM.GPU.GB300.4). */
	{"gb300-nvl72-roce", "18 nodes of 4 GB300 that share NVSwitches, 8 Ethernet 400G each",
	 &grace, &gb300, &roce_400_only, oci_gb300, .switched = 18, .nodes = 18, .c2c = 5},
	/* Rates of EFA: AWS, instance types. */
	{"aws-p4d", "8 A100 40GB on 6 NVSwitches, 4 EFA 100G (p4d.24xlarge)", &xeon_8275,
	 &a100_sxm4_40, &efa_first, aws_p4de, .switched = 12, .nvswitches = 6},
	{"aws-p4de", "8 A100 on 6 NVSwitches, 4 EFA 100G (p4de.24xlarge)", &xeon_8275, &a100_sxm4,
	 &efa_first, aws_p4de, .switched = 12, .nvswitches = 6},
	{"aws-p5", "8 H100 on 4 NVSwitches, 32 EFA 100G (p5.48xlarge)", &epyc_7r13, &h100_sxm5,
	 &efa_100, aws_p5, .switched = 18, .nvswitches = 4},
	{"aws-p5en", "8 H200 on 4 NVSwitches, 16 EFA 200G (p5en.48xlarge)", &xeon_8488, &h200_sxm5,
	 &efa_200, aws_p5en, .switched = 18, .nvswitches = 4},
	{"aws-p6-b200", "8 B200 on 2 NVSwitches, 8 EFA 400G (p6-b200.48xlarge)", &xeon_8559, &b200,
	 &efa_400, aws_p6_b200, .switched = 18, .nvswitches = 2},
	{"aws-p6-b300", "8 B300 on 2 NVSwitches, 16 EFA 400G (p6-b300.48xlarge)", &xeon_8559_4t,
	 &b300, &efa_400, aws_p6_b300, .switched = 18, .nvswitches = 2},
	/* Seven links of each GPU, one to each other. NICs: OCI BM.GPU.MI300X.8; no source places
	   them. */
	{"mi300x-x8", "8 MI300X, an xGMI link between any two, 8 Ethernet 400G", &epyc_9374,
	 &mi300x, &roce_400_only, pairs, .bridged = single_of_8},
	/* Eight NICs, as AMD's platforms of eight have; CPU and places are assumed. */
	{"mi308x-x8", "8 MI308X, an xGMI link between any two, 8 Ethernet 400G", &epyc_9374,
	 &mi308x, &roce_400_only, pairs, .bridged = single_of_8},
	{"mi325x-x8", "8 MI325X, an xGMI link between any two, 8 Ethernet 400G", &epyc_9374,
	 &mi325x, &roce_400_only, pairs, .bridged = single_of_8},
	{"mi350x-x8", "8 MI350X, an xGMI link between any two, 8 Ethernet 400G", &epyc_9575_3t,
	 &mi350x, &roce_400_only, pairs, .bridged = single_of_8},
	{"mi355x-x8", "8 MI355X, an xGMI link between any two, 8 Ethernet 400G", &epyc_9575_3t,
	 &mi355x, &roce_400_only, pairs, .bridged = single_of_8},
	/* Frontier, with the dies as GPUs; NICs are at the packages (OLCF). */
	{"mi250x-x4", "4 MI250X of 2 GPUs each, 1 to 4 xGMI links, 4 Slingshot 200G", &epyc_7a53,
	 &mi250x, &slingshot, frontier, .bridged = frontier_links},
	{"pcie-l40s", "8 L40S on two PCIe switches, with P2P, 2 Ethernet 200G", &epyc_9354, &l40s,
	 &roce_200, two_switches, .switched = 0},
	{"pcie-4090", "4 RTX 4090 in slots, without P2P, Ethernet 25G", &epyc_7313, &rtx_4090,
	 &roce_25, slots_only, .no_p2p = true},
	/* Without P2P as other GeForce cards. */
	{"pcie-5090", "8 RTX 5090 in slots, without P2P", &xeon_8480_plus, &rtx_5090, NULL,
	 eight_slots, .no_p2p = true},
	/* NICs as NVIDIA's reference for servers of eight cards has them. */
	{"pcie-rtx-pro-6000", "8 RTX PRO 6000 in slots, with P2P, 4 Ethernet 400G", &epyc_9575,
	 &rtx_pro_6000, &roce_400_only, slots_and_four, .switched = 0},
	{"pcie-h100", "4 H100 PCIe, bridged in pairs, InfiniBand 400G", &epyc_9354, &h100_pcie,
	 &ndr, slots_only, .bridged = bridges_of_12},
	/* Servers for cards: how many, CPUs and NICs are assumed; eight cards and four NICs of 400G
	   are NVIDIA's reference for the NVL cards. GeForce cards reach each other by bridge alone,
	   which RTX 2080 Ti and 3090 can have. */
	{"pcie-v100", "8 V100 PCIe in slots, 2 Ethernet 100G", &xeon_6148, &v100_pcie, &roce_100,
	 slots_and_two, .switched = 0},
	{"pcie-t4", "8 T4 in slots, 2 Ethernet 100G", &xeon_6148, &t4, &roce_100, slots_and_two,
	 .switched = 0},
	{"pcie-2080ti", "8 RTX 2080 Ti in slots, without P2P, 2 Ethernet 100G", &xeon_6148,
	 &rtx_2080_ti, &roce_100, slots_and_two, .no_p2p = true},
	{"pcie-2080ti-pairs", "the same bridged in pairs, 2 NVLinks", &xeon_6148, &rtx_2080_ti,
	 &roce_100, slots_and_two, .bridged = pairs_of_2, .no_p2p = true},
	{"pcie-a100", "8 A100 PCIe bridged in pairs, 2 Ethernet 200G", &epyc_7313, &a100_pcie,
	 &roce_200, slots_and_two, .bridged = pairs_of_12},
	{"pcie-a30", "8 A30 bridged in pairs, 2 Ethernet 200G", &epyc_7313, &a30, &roce_200,
	 slots_and_two, .bridged = pairs_of_4},
	{"pcie-a40", "8 A40 bridged in pairs, 2 Ethernet 200G", &epyc_7313, &a40, &roce_200,
	 slots_and_two, .bridged = pairs_of_4},
	{"pcie-a10", "8 A10 in slots, 2 Ethernet 200G", &epyc_7313, &a10, &roce_200, slots_and_two,
	 .switched = 0},
	{"pcie-a6000", "8 RTX A6000 bridged in pairs, 2 Ethernet 200G", &epyc_7313, &rtx_a6000,
	 &roce_200, slots_and_two, .bridged = pairs_of_4},
	{"pcie-3090", "8 RTX 3090 in slots, without P2P, 2 Ethernet 200G", &epyc_7313, &rtx_3090,
	 &roce_200, slots_and_two, .no_p2p = true},
	{"pcie-3090-pairs", "the same bridged in pairs, 4 NVLinks", &epyc_7313, &rtx_3090,
	 &roce_200, slots_and_two, .bridged = pairs_of_4, .no_p2p = true},
	{"pcie-l4", "8 L4 in slots, 2 Ethernet 200G", &epyc_9354, &l4, &roce_200, slots_and_two,
	 .switched = 0},
	{"pcie-l20", "8 L20 in slots, 2 Ethernet 200G", &epyc_9354, &l20, &roce_200, slots_and_two,
	 .switched = 0},
	{"pcie-l40", "8 L40 in slots, 2 Ethernet 200G", &epyc_9354, &l40, &roce_200, slots_and_two,
	 .switched = 0},
	{"pcie-rtx-6000-ada", "8 RTX 6000 Ada in slots, 2 Ethernet 200G", &epyc_9354, &rtx_6000_ada,
	 &roce_200, slots_and_two, .switched = 0},
	{"pcie-rtx-6000d", "8 RTX 6000D in slots, 2 Ethernet 400G", &epyc_9575, &rtx_6000d,
	 &roce_400_only, slots_and_two, .switched = 0},
	{"pcie-h100-nvl", "8 H100 NVL bridged in pairs, 4 Ethernet 400G", &epyc_9354, &h100_nvl,
	 &roce_400_only, slots_and_four, .bridged = pairs_of_12},
	{"pcie-h200-nvl", "8 H200 NVL bridged in fours, 4 Ethernet 400G", &epyc_9354, &h200_nvl,
	 &roce_400_only, slots_and_four, .bridged = fours_of_6},
	/* C2C of 600 GB/s, both directions together (NVIDIA, GB10). */
	{"dgx-spark", "1 GB10, Ethernet 200G on two PCIe links", &gb10_cpu, &gb10, &roce_spark,
	 spark, .c2c = 1, .c2c_GBps = 300},
	/* Nodes of CSCS, used without GPUs. */
	{"epyc-7742", "2 EPYC 7742 without GPUs, Slingshot 200G", &epyc_7742_alone, NULL,
	 &slingshot, one_nic, .switched = 0},
	{"grace-x4", "4 Grace without GPUs, 4 Slingshot 200G", &grace_quad, NULL, &slingshot,
	 four_nics, .switched = 0},
};

#define SYSTEMS (int)(sizeof(systems) / sizeof(systems[0]))

const struct bb_system *bb_system_at(int i)
{
	return i >= 0 && i < SYSTEMS ? &systems[i] : NULL;
}

const struct bb_system *bb_system_find(const char *name)
{
	for (int i = 0; i < SYSTEMS; i++)
		if (strcmp(systems[i].name, name) == 0 ||
		    (systems[i].alias && strcmp(systems[i].alias, name) == 0))
			return &systems[i];
	return NULL;
}

/* ---- the model of a known system ------------------------------------------------------------ */

#define GIB ((int64_t)1 << 30)
#define MIB ((int64_t)1 << 20)

struct builder {
	struct bb_topology *t;
	const struct bb_system *s;
	struct bb_error *error;
	int bus, root; /* last numbers of a bus and a host bridge */
	int numa;
	bool bridged; /* all objects have the same host bridge */
	int ngpus, nnics;
};

static bb_status build_host(struct builder *b)
{
	const struct bb_system_cpu *c = b->s->cpu;
	struct bb_host *h = &b->t->host;
	const int n = c->packages * c->numas, of_numa = c->cores / c->numas;
	bb_status st;

	snprintf(h->arch, sizeof(h->arch), "%s", c->arch);
	for (int i = 0; i < c->packages; i++) {
		struct bb_package p = {.family = c->family, .number = c->number};

		snprintf(p.model, sizeof(p.model), "%s", c->model);
		snprintf(p.vendor, sizeof(p.vendor), "%s", c->vendor);
		BB_TRY(st, bb_add_package(b->t, &p, NULL, b->error), out);
	}
	for (int i = 0; i < n; i++) {
		const struct bb_numa numa = {
			.os = i, .package = i / c->numas, .bytes = c->gib / n * GIB};
		const int first = i * of_numa, last = first + of_numa - 1,
			  all = c->packages * c->cores;
		char cpus[64];
		/* Second threads follow all first ones: "0-19,40-59". */
		const int at = snprintf(cpus, sizeof(cpus), "%d-%d", first, last);

		if (c->threads > 1)
			snprintf(cpus + at, sizeof(cpus) - (size_t)at, ",%d-%d", all + first,
				 all + last);
		BB_TRY(st, bb_add_numa(b->t, &numa, cpus, NULL, b->error), out);
	}
	if (n > 1)
		BB_TRY(st, bb_add_distances(b->t, b->error), out);
	for (int i = 0; i < n * n && n > 1; i++)
		h->distances[i] = i / n == i % n                         ? 10
				  : i / n / c->numas == i % n / c->numas ? c->near
									 : c->far;
	h->caches[0] = (struct bb_cpu_cache){2, c->l2_kib * (MIB / 1024), c->packages * c->cores};
	h->caches[1] =
		(struct bb_cpu_cache){3, c->l3_mib * MIB, c->packages * c->cores / c->l3_cores};
	h->ncaches = 2;
	for (int i = 0; i < c->packages * c->cores; i++) {
		const struct bb_core core = {.pu = i, .package = i / c->cores, .numa = i / of_numa};

		BB_TRY(st, bb_add_core(b->t, &core, b->error), out);
	}
	h->nthreads = h->ncores * c->threads;
out:
	return st;
}

/* A PCI object on a new bus below PARENT. */
static bb_status plug(struct builder *b, int parent, enum bb_pci_role role, int gen, int *index)
{
	struct bb_pci p = {.class_code = 0x0604,
			   .vendor = 0x1000, /* Broadcom */
			   .device = 0xc030,
			   .role = role,
			   .parent = parent,
			   .root = b->root,
			   .numa = b->numa,
			   .now = bb_pcie(gen, 16),
			   .most = bb_pcie(gen, 16)};

	snprintf(p.id, sizeof(p.id), "0000:%02x:00.0", ++b->bus);
	return bb_add_pci(b->t, &p, index, b->error);
}

/* The generation of the CPUs' PCIe, and of the devices'. */
static int host_gen(const struct builder *b)
{
	return b->s->cpu->gen > 0 ? b->s->cpu->gen : b->s->gpu->gen;
}

static int device_gen(const struct builder *b)
{
	return b->s->gpu ? b->s->gpu->gen : host_gen(b);
}

/* Add the device of card CARD (systems.h) below PORT. */
static bb_status build_card(struct builder *b, char card, int port)
{
	const struct bb_system_gpu *const gpu = b->s->gpu;
	const struct bb_system_nic *const nic = b->s->nic;
	struct bb_device d = {.numa = b->numa};
	struct bb_pci pci, *p;
	bb_status st;

	if (card == 'P') {
		pci = b->t->pcis[b->t->npcis - 1];
		pci.id[strlen(pci.id) - 1]++; /* the next function */
		BB_TRY(st, bb_add_pci(b->t, &pci, &d.pci, b->error), out);
	} else {
		BB_TRY(st, plug(b, port, BB_PCI_ENDPOINT, device_gen(b), &d.pci), out);
	}
	p = &b->t->pcis[d.pci];
	if (card == 'G') {
		const bool amd = bb_xgmi_of(gpu->device) > 0;

		p->class_code = amd ? 0x1200 : 0x0302;
		p->vendor = amd ? 0x1002 : 0x10de;
		p->device = gpu->device;
		d.kind = BB_GPU;
		d.bytes = gpu->gib * GIB;
		d.sm = gpu->sm;
		snprintf(d.model, sizeof(d.model), "%s", gpu->model);
		b->ngpus++;
	} else {
		const bool side = card != 'N', cxi = nic->vendor == 0x17db;

		p->class_code = nic->layer == BB_INFINIBAND && !side ? 0x0207 : 0x0200;
		p->vendor = nic->vendor;
		p->device = nic->device;
		p->now = p->most = bb_pcie(nic->gen, nic->lanes);
		d.kind = BB_NIC;
		d.rate_Mbps = 1000 * (int64_t)(side ? nic->side_Gbps : nic->Gbps);
		d.layer = side ? BB_ETHERNET : nic->layer;
		d.state = BB_STATE_UP;
		snprintf(d.model, sizeof(d.model), "%s", bb_pci_model(p->vendor, p->device).name);
		if (nic->layer == BB_LAYER_UNKNOWN)
			snprintf(d.name, sizeof(d.name), cxi ? "cxi%d" : "rdmap%ds0",
				 cxi ? b->nnics++ : b->bus);
		else
			snprintf(d.name, sizeof(d.name), "mlx5_%d", b->nnics++);
	}
	st = bb_add_device(b->t, &d, NULL, b->error);
out:
	return st;
}

/* Build what *SLOTS lists, up to the end of the switch with upstream port UP (-1: none). */
static bb_status build_slots(struct builder *b, const char **slots, int up)
{
	const enum bb_pci_role role = up < 0 ? BB_PCI_ROOT_PORT : BB_PCI_SWITCH_DOWN;
	const int gen = up < 0 ? host_gen(b) : device_gen(b);
	int port = -1, inner;
	bb_status st = BB_OK;

	while (**slots && **slots != ')') {
		const char c = *(*slots)++;
		const bool plugs = strchr("GNS(", c);

		if (c >= '0' && c <= '9')
			b->numa = c - '0';
		b->bridged = c == '[' || (b->bridged && c != ']');
		if (c == '[' || (plugs && up < 0 && !b->bridged))
			b->root++;
		if (plugs)
			BB_TRY(st, plug(b, up, role, gen, &port), out);
		if (c == '(') {
			BB_TRY(st, plug(b, port, BB_PCI_SWITCH_UP, gen, &inner), out);
			BB_TRY(st, build_slots(b, slots, inner), out);
			++*slots;
		} else if (plugs || c == 'P') {
			BB_TRY(st, build_card(b, c, port), out);
		}
	}
out:
	return st;
}

static bb_status build_links(struct builder *b)
{
	struct bb_link l;
	bb_status st = BB_OK;

	for (int i = 0; i < b->ngpus; i++) {
		const int gpu = bb_topology_device(b->t, BB_GPU, i);
		const struct bb_link c2c = {.kind = BB_C2C,
					    .device = gpu,
					    .peer = BB_PEER_CPU,
					    .count = b->s->c2c,
					    .GBps = b->s->c2c_GBps > 0 ? b->s->c2c_GBps : 44.712};

		l = bb_gpu_links(b->t, gpu, BB_PEER_SWITCH, b->s->switched);
		if (l.count > 0)
			BB_TRY(st, bb_add_link(b->t, &l, b->error), out);
		for (int j = 0; b->s->bridged && j < b->ngpus; j++) {
			const char c = b->s->bridged[i][j];

			l.peer = bb_topology_device(b->t, BB_GPU, j);
			l.count = c >= 'a' ? c - 'a' + 10 : c - '0';
			if (l.count > 0)
				BB_TRY(st, bb_add_link(b->t, &l, b->error), out);
		}
		if (c2c.count > 0)
			BB_TRY(st, bb_add_link(b->t, &c2c, b->error), out);
	}
out:
	return st;
}

bb_status bb_topology_system(const char *name, struct bb_topology **topology,
			     struct bb_error *error)
{
	const struct bb_system *const s = bb_system_find(name);
	struct bb_topology *const t = bb_topology_new();
	struct builder b = {.t = t, .s = s, .error = error, .root = -1};
	const char *names[128] = {NULL}, *nearest, *slots;
	bb_status st;

	if (!t)
		return bb_no_memory(error, name);
	if (!s) {
		for (int i = 0; i < 127 && bb_system_at(i); i++)
			names[i] = bb_system_at(i)->name;
		nearest = bb_nearest(name, names);
		st = bb_fail(error, BB_EUSAGE, "%s: not a known system%s%s%s", name,
			     nearest ? "; did you mean " : "; topology --list-systems lists them",
			     nearest ? nearest : "", nearest ? "?" : "");
		goto out;
	}
	snprintf(t->name, sizeof(t->name), "%s", s->name);
	snprintf(t->source, sizeof(t->source), "known system");
	t->nvswitches = s->nvswitches;
	t->nodes = t->nvlink_nodes = s->nodes > 0 ? s->nodes : 1;
	slots = s->slots;
	BB_TRY(st, build_host(&b), out);
	BB_TRY(st, build_slots(&b, &slots, -1), out);
	BB_TRY(st, build_links(&b), out);
	BB_TRY(st, bb_add_p2p(t, error), out);
	memset(t->p2p, s->no_p2p ? BB_P2P_CHIPSET : BB_P2P_OK, (size_t)b.ngpus * (size_t)b.ngpus);
	BB_TRY(st, bb_topology_finish(t, error), out);
	*topology = t;
	return BB_OK;
out:
	bb_topology_free(t);
	return st;
}
