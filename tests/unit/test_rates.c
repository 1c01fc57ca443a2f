/*
 * The tables of PCI devices and rates of links.
 */
#include "topology/build.h"
#include "topology/rates.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static void test_kinds(void **state)
{
	static const struct {
		uint32_t class_code, vendor;
		enum bb_device_kind kind;
	} cases[] = {
		{0x0302, 0, BB_GPU},
		{0x1200, 0x1002, BB_GPU},
		{0x1200, 0x10de, BB_DEVICE_KINDS},
		{0x0300, 0x10de, BB_GPU},
		{0x0300, 0x1002, BB_GPU},
		{0x0300, 0x8086, BB_DEVICE_KINDS},
		{0x0300, 0x102b, BB_DEVICE_KINDS},
		{0x0380, 0x1002, BB_GPU},
		{0x0380, 0x8086, BB_GPU},
		{0x0380, 0x10de, BB_DEVICE_KINDS},
		{0x0200, 0, BB_NIC},
		{0x0207, 0, BB_NIC},
		{0x0280, 0, BB_NIC},
		{0x0108, 0, BB_NVME},
		{0x0107, 0, BB_DEVICE_KINDS},
		{0x0301, 0x10de, BB_DEVICE_KINDS},
	};
	static const struct {
		uint32_t vendor, device;
		bool is_virtual;
		int efa;
	} others[] = {
		{0x1b36, 1, true, 0},       {0x1af4, 1, true, 0},       {0x104c, 0x8232, true, 0},
		{0x104c, 0x8233, true, 0},  {0x104c, 0x8234, false, 0}, {0x10de, 0x8232, false, 0},
		{0x1d0f, 0xefa0, false, 1}, {0x1d0f, 0xefa3, false, 4}, {0x1d0f, 0xefaf, false, 16},
		{0x1d0f, 0xefb0, false, 0}, {0x1d0f, 0xef90, false, 0}, {0x15b3, 0xefa0, false, 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct bb_pci p = {.class_code = cases[i].class_code,
					 .vendor = cases[i].vendor};

		assert_int_equal(bb_pci_kind(&p), cases[i].kind);
	}
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		const struct bb_pci p = {.vendor = others[i].vendor, .device = others[i].device};

		assert_int_equal(bb_pci_virtual(&p), others[i].is_virtual);
		assert_int_equal(bb_efa_generation(&p), others[i].efa);
	}
}

static void test_models(void **state)
{
	static const struct {
		uint32_t vendor, device;
		const char *name;
		int sm;
	} cases[] = {
		{0x10de, 0x15f9, "P100 SXM2", 60},
		{0x15b3, 0x1021, "ConnectX-7", 0},
		{0x10de, 0x2330, "H100 SXM5 80GB", 90},
		{0x1002, 0x74a1, "MI300X", 0},
		{0x10de, 0x74a1, NULL, 0},
		{0x1002, 0x2330, NULL, 0},
		{0x8086, 0x2330, NULL, 0},
		{0x10de, 0x1021, NULL, 0},
	};
	static const struct {
		const char *name;
		int sm;
	} names[] = {{"NVIDIA H100 80GB HBM3", 90},
		     {"Tesla P100-PCIE", 60},
		     {"NVIDIA B100", 100},
		     {"NVIDIA GB200", 100},
		     {"NVIDIA B200", 100},
		     {"NVIDIA A100-SXM4-80GB", 80},
		     {"NVIDIA A10G", 86},
		     {"NVIDIA L40S", 89},
		     {"Tesla V100-SXM2-32GB", 70},
		     {"H10", 0},
		     {"", 0}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct bb_pci_device d = bb_pci_model(cases[i].vendor, cases[i].device);

		if (!cases[i].name)
			assert_null(d.name);
		else
			assert_non_null(strstr(d.name, cases[i].name));
		assert_int_equal(d.sm, cases[i].sm);
	}
	assert_int_equal(bb_pci_model(0x15b3, 0x1021).rate_Mbps, 400000);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (bb_gpu_sm(names[i].name) != names[i].sm)
			fail_msg("%s: %d", names[i].name, bb_gpu_sm(names[i].name));
}

static void test_rates(void **state)
{
	static const struct {
		int gen, width;
		double GBps, payload, usable;
	} cases[] = {
		/* 2.5 x 0.8 / 8 x 1; 256 of 280 bytes; 3 GB/s of 16 lanes */
		{1, 1, 0.25, 0.25 * 256 / 280, 3.0 / 16},
		{3, 16, 8 * 128.0 / 130 * 2, 16 * 128.0 / 130 * 256 / 280, 12},
		{5, 8, 32 * 128.0 / 130, 32 * 128.0 / 130 * 256 / 280, 24},
		{6, 64, 64 * 242.0 / 256 * 8, 512 * 242.0 / 256 * 256 / 280, 384},
		{7, 16, 0, 0, 0},
		{0, 16, 0, 0, 0},
		{-1, 16, 0, 0, 0},
		{4, 65, 0, 0, 0},
		{4, 0, 0, 0, 0},
		{4, -1, 0, 0, 0},
	};
	static const struct {
		double rate;
		int gen;
	} gens[] = {{2.5, 1},   {5, 2},     {8, 3},    {16, 4},   {32, 5}, {64, 6},
		    {15.85, 4}, {16.15, 4}, {15.8, 0}, {16.2, 0}, {0, 0},  {128, 0}};
	static const struct {
		int sm, version;
		double payload, usable;
	} nvlinks[] = {{59, 0, 0, 0},        {60, 1, 20, 18},      {62, 1, 20, 18},
		       {63, 0, 0, 0},        {70, 2, 25, 20},      {75, 2, 25, 20},
		       {76, 0, 0, 0},        {80, 3, 25, 20},      {81, 0, 0, 0},
		       {86, 3, 14.0625, 12}, {87, 3, 14.0625, 12}, {90, 4, 25, 20.6},
		       {100, 5, 50, 40.1},   {103, 5, 50, 40.1},   {104, 0, 0, 0}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct bb_pcie link = bb_pcie(cases[i].gen, cases[i].width);

		assert_float_equal(link.GBps, cases[i].GBps, 1e-9);
		assert_float_equal(bb_pcie_payload(&link), cases[i].payload, 1e-9);
		assert_float_equal(bb_pcie_usable(&link), cases[i].usable, 1e-9);
	}
	/* A rate without a generation: 15.754 GB/s are 12. */
	assert_float_equal(bb_pcie_usable(&(struct bb_pcie){.GBps = 31.508}), 24, 1e-9);
	assert_float_equal(bb_pcie_usable(&(struct bb_pcie){.gen = 3, .GBps = 31.508}), 24, 1e-9);
	for (size_t i = 0; i < sizeof(gens) / sizeof(gens[0]); i++)
		assert_int_equal(bb_pcie_gen(gens[i].rate), gens[i].gen);
	for (size_t i = 0; i < sizeof(nvlinks) / sizeof(nvlinks[0]); i++) {
		assert_int_equal(bb_nvlink_of(nvlinks[i].sm).version, nvlinks[i].version);
		assert_float_equal(bb_nvlink_of(nvlinks[i].sm).payload, nvlinks[i].payload, 1e-9);
		assert_float_equal(bb_nvlink_of(nvlinks[i].sm).usable, nvlinks[i].usable, 1e-9);
	}
	assert_float_equal(bb_xgmi_of(0x7408), 50, 1e-9);
	assert_float_equal(bb_xgmi_of(0x75a3), 76.8, 1e-9);
	assert_float_equal(bb_xgmi_of(0x2330), 0, 1e-9);
	assert_float_equal(bb_nic_share(BB_ETHERNET), 4096.0 / 4178, 1e-12);
	assert_float_equal(bb_nic_share(BB_INFINIBAND), 4096.0 / 4122, 1e-12);
	assert_float_equal(bb_nic_share(BB_LAYER_UNKNOWN), 4096.0 / 4122, 1e-12);
}

static void test_bus_ids(void **state)
{
	static const struct {
		const char *id, *text; /* NULL: refused */
	} cases[] = {
		{"0000:1b:00.0", "0000:1b:00.0"},
		{"0:1B:1f.7", "0000:1b:1f.7"},
		{"00000002:01:00.0", "0002:01:00.0"},
		{"ffffff:ff:1f.7", "ffffff:ff:1f.7"},
		{"1000000:00:00.0", NULL},
		{"0000:1b:20.0", NULL},
		{"0000:1b:00.8", NULL},
		{"0000:1b:00.0 ", NULL},
		{"0000:1b:00", NULL},
		{"1b:00.0", NULL},
		{"", NULL},
	};
	char text[16];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(bb_pci_id(text, cases[i].id), cases[i].text != NULL);
		if (cases[i].text)
			assert_string_equal(text, cases[i].text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_models),
		cmocka_unit_test(test_rates),
		cmocka_unit_test(test_bus_ids),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
