/*
 * The reader of logs: files as people post them (tests/logs/field), where runs end, forms of text,
 * and what a log says of the machine.
 */
#include "acceptance/claims.h"
#include "core/embed.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "log_tables.h"

BB_EMBED(log_c01, "tests/logs/field/c01-1453-3nodes.txt");
BB_EMBED(log_c03, "tests/logs/field/c03-119-a100-4nic.txt");
BB_EMBED(log_c15, "tests/logs/field/c15-5090-socket.txt");
BB_EMBED(log_c18, "tests/logs/field/c18-h100-2n-196.txt");
BB_EMBED(log_c19, "tests/logs/field/c19-h200-vm.txt");
BB_EMBED(log_c28, "tests/logs/field/c28-78-alltoall.txt");
BB_EMBED(log_c30, "tests/logs/field/c30-1161-h100pcie.txt");
BB_EMBED(log_c33, "tests/logs/field/c33-a100-p2p-off.txt");
BB_EMBED(log_c36, "tests/logs/field/c36-232-1gpu4nic.txt");
BB_EMBED(log_c40, "tests/logs/field/c40-1676-gdr-off.txt");
BB_EMBED(log_fleet0, "tests/logs/field/fleet0.log");
BB_EMBED(log_json, "tests/logs/field/nccl-v3.json");

static struct bb_claim_file read_log(const char *text)
{
	struct bb_claim_file file;
	struct bb_error error = {0};

	if (bb_claims_read("log", text, strlen(text), &file, &error) != BB_OK)
		fail_msg("%s", error.text);
	return file;
}

/* Reads TEXT, which must have TABLES tables. */
static struct bb_claim_file read_tables(const char *text, size_t tables)
{
	const struct bb_claim_file file = read_log(text);

	if (file.n != tables)
		fail_msg("%zu tables, not %zu: %s", file.n, tables, text);
	return file;
}

static void expect_fact(const struct bb_claims *c, enum bb_fact_kind kind, int64_t value, int line,
			const char *quote)
{
	const struct bb_fact *const f = bb_claims_fact(c, kind);

	if (!f)
		fail_msg("no fact %d", kind);
	assert_int_equal(f->value, value);
	assert_int_equal(f->line, line);
	if (!strstr(f->quote, quote))
		fail_msg("\"%s\" is not in \"%s\"", quote, f->quote);
	assert_true(strlen(f->quote) <= 153);
}

/* ---- files from the field ------------------------------------------------------------------- */

static void test_field(void **state)
{
	static const struct {
		const char *text, *collective;
		size_t tables, n;
		int64_t ranks, hosts;
		double last; /* bus bandwidth */
	} cases[] = {
		{log_c01, "", 1, 22, 24, 3, 5.33},
		{log_c03, "", 1, 12, 24, 3, 95.94},
		{log_c15, "all_reduce", 1, 16, 2, 1, 2.31},
		{log_c18, "", 1, 10, 16, 2, 196.51},
		{log_c19, "all_reduce", 1, 12, 16, 2, 107.63},
		{log_c28, "alltoall", 1, 4, 64, 0, 0.51},
		{log_c30, "all_reduce", 1, 4, 2, 1, 115.93},
		{log_c33, "all_reduce", 2, 8, 4, 1, 234.74},
		{log_c36, "all_reduce", 1, 10, 2, 0, 41.52},
		{log_c40, "", 1, 2, 16, 2, 9.99},
		{log_fleet0, "all_reduce", 1, 2, 8, 1, 479.8},
		{log_json, "all_reduce", 1, 10, 16, 2, 196.51},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bb_claim_file file = read_tables(cases[i].text, cases[i].tables);
		const struct bb_claims *const c = &file.list[0];

		assert_string_equal(c->collective, cases[i].collective);
		assert_int_equal(c->n, cases[i].n);
		assert_int_equal(c->nranks, cases[i].ranks);
		assert_int_equal(c->hosts, cases[i].hosts);
		assert_float_equal(c->list[c->n - 1].busbw_GBps, cases[i].last, 1e-9);
		assert_int_equal(c->wrong + c->unchecked + c->implausible, 0);
		assert_int_equal(c->runs, 1);
		assert_string_equal(c->type, "float");
		bb_claims_free(&file);
	}
}

static void test_field_facts(void **state)
{
	struct bb_claim_file file = read_tables(log_c15, 1);

	expect_fact(&file.list[0], BB_FACT_SHARED_GPU, 2, 13, "#  Rank  1 Group");
	assert_string_equal(file.list[0].host, "lab");
	bb_claims_free(&file);
	file = read_tables(log_c33, 2);
	assert_null(bb_claims_fact(&file.list[0], BB_FACT_P2P_OFF));
	expect_fact(&file.list[1], BB_FACT_P2P_OFF, 0, 21, "NCCL_P2P_DISABLE=1 ./build");
	expect_fact(&file.list[0], BB_FACT_CARD, 0, 1, "DGX A100 (640 GB)");
	assert_string_equal(bb_claims_fact(&file.list[1], BB_FACT_CARD)->text, "A100");
	bb_claims_free(&file);
	file = read_tables(log_c36, 1);
	expect_fact(&file.list[0], BB_FACT_NICS, 4, 1, "NCCL_IB_HCA=mlx5_0,mlx5_1,mlx5_4,mlx5_5");
	assert_string_equal(bb_claims_fact(&file.list[0], BB_FACT_ALGORITHM)->text, "Tree");
	bb_claims_free(&file);
	file = read_tables(log_c40, 1);
	expect_fact(&file.list[0], BB_FACT_NICS, 8, 20, "learn01:2228637:2230195 [3] NCCL INFO");
	expect_fact(&file.list[0], BB_FACT_GDR_OFF, 0, 21, "GPU Direct RDMA Disabled for HCA 0");
	assert_non_null(bb_claims_fact(&file.list[0], BB_FACT_INFINIBAND));
	bb_claims_free(&file);
	file = read_tables(log_json, 1);
	assert_string_equal(file.list[0].host, "node0");
	assert_int_equal(file.list[0].most_bytes, UINT64_C(8) << 30);
	bb_claims_free(&file);
}

/* ---- where runs end ------------------------------------------------------------------------- */

#define AVERAGE "# Avg bus bandwidth    : 469.76\n"
#define RANKS(host)                                                                                \
	"#  Rank  0 Group  0 Pid 1 on " host " device  0 [0000:1b:00] NVIDIA A100-SXM4-40GB\n"     \
	"#  Rank  7 Group  0 Pid 1 on " host " device  7 [0000:cb:00] NVIDIA A100-SXM4-40GB\n"

static void test_boundaries(void **state)
{
	static const struct {
		const char *text;
		size_t tables;
	} cases[] = {
		{HEAD FAST_1G FAST_2G, 1},
		{HEAD FAST_1G HEAD SLOW_1G, 2},
		{HEAD FAST_1G "# Avg bus bandwidth    : 469.76\n" SLOW_1G, 2},
		{HEAD FAST_1G "# Collective test starting: all_reduce_perf\n" SLOW_1G, 2},
		/* printed twice, and another run */
		{HEAD FAST_1G FAST_2G AVERAGE HEAD FAST_1G FAST_2G, 1},
		{HEAD FAST_1G FAST_2G AVERAGE HEAD FAST_1G SLOW_2G, 2},
		/* the averages of two runs whose rows are mixed, and that of a third */
		{HEAD HEAD FAST_1G SLOW_1G AVERAGE AVERAGE, 1},
		{HEAD HEAD FAST_1G SLOW_1G AVERAGE AVERAGE "# Avg bus bandwidth    : 1.5\n", 2},
		{HEAD FAST_1G "# nThread 1 nGpus 8 minBytes 1 maxBytes 2\n" SLOW_1G, 2},
		{HEAD FAST_1G "$ ./all_reduce_perf -b 1G -e 1G -g 8\n" SLOW_1G, 2},
		{HEAD FAST_1G "mpirun -np 8 \\\n  ./all_reduce_perf -b 1G\n" SLOW_1G, 2},
		{HEAD FAST_1G "mpirun noticed that process rank 0 ended\n" SLOW_2G, 1},
		{HEAD FAST_1G
		 "1073741824 1 half sum -1 8000.0 134.22 234.88 0 8000.0 134.22 234.88 0\n",
		 2},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bb_claim_file file = read_tables(cases[i].text, cases[i].tables);

		bb_claims_free(&file);
	}
}

/* Tags keep two runs apart; without them they are counted. */
static void test_interleaved(void **state)
{
	static const char *const apart[] = {
		"a: " HEAD "b: " HEAD "a: " FAST_1G "b: " SLOW_1G "a: " FAST_2G "b: " SLOW_2G,
		"a: " FAST_1G "b: " SLOW_1G "a: " FAST_2G "b: " SLOW_2G,
		"[1,0]<stdout>:" FAST_1G "[1,8]<stdout>:" SLOW_1G "[1,0]<stdout>:" FAST_2G,
	};
	static const char *const mixed[] = {
		RANKS("a") RANKS("b") HEAD HEAD FAST_1G SLOW_1G FAST_2G SLOW_2G,
		RANKS("a") RANKS("b") HEAD FAST_1G SLOW_1G FAST_2G SLOW_2G,
	};
	struct bb_claim_file file;

	for (size_t i = 0; i < 3; i++) {
		file = read_tables(apart[i], 2);
		assert_float_equal(file.list[0].list[0].busbw_GBps, 469.76, 1e-9);
		assert_float_equal(file.list[1].list[0].busbw_GBps, 234.88, 1e-9);
		assert_int_equal(file.list[0].runs, 1);
		assert_int_equal(file.list[0].n, 4);
		bb_claims_free(&file);
	}
	for (size_t i = 0; i < 2; i++) {
		file = read_tables(mixed[i], 1);
		assert_int_equal(file.list[0].runs, 2);
		assert_int_equal(file.list[0].n, 8);
		assert_int_equal(file.list[0].hosts, 0);
		bb_claims_free(&file);
	}
	/* A sweep that repeats (-N) is one run. */
	file = read_tables(HEAD FAST_1G FAST_2G SLOW_1G SLOW_2G, 1);
	assert_int_equal(file.list[0].runs, 1);
	bb_claims_free(&file);
}

/* mpirun starts nccl-tests without MPI=1: as many tables of one rank as processes. */
static void test_copies(void **state)
{
	static const char one[] =
		"#  Rank  0 Group  0 Pid %d on a device  0 [0000:1b:00] NVIDIA H100 80GB "
		"HBM3\n" HEAD "1073741824 1 float sum -1 400%d.0 %s 0.00 0\n"
		"2147483648 1 float sum -1 400%d.0 %s 0.00 0\n";
	char text[8192] = "", line[2048];

	for (int tagged = 0; tagged < 2; tagged++) {
		struct bb_claim_file file;

		text[0] = '\0';
		for (int part = 0; part < 4; part++)
			for (int i = 0; i < 4; i++) {
				char *rest = line, *at = NULL;

				snprintf(line, sizeof(line), one, i, i, i ? "268.37" : "268.44", i,
					 i ? "536.74" : "536.87");
				for (int k = 0; k <= part; k++)
					at = strtok_r(k ? NULL : line, "\n", &rest);
				snprintf(text + strlen(text), sizeof(text) - strlen(text),
					 tagged ? "[1,%d]<stdout>:%s\n" : "%.0d%s\n",
					 tagged ? i : 0, at);
			}
		file = read_tables(text, 1);
		assert_int_equal(file.list[0].runs, 4);
		assert_int_equal(file.list[0].nranks, 1);
		bb_claims_free(&file);
	}
}

/* ---- forms ---------------------------------------------------------------------------------- */

#define ESCAPED_ROWS                                                                               \
	"1073741824 1 float sum -1 4000.0 268.44 469.76 0 4000.0 268.44 469.76 0"                  \
	"\\n  2147483648 1 float sum -1 8000.0 268.44 469.76 0 8000.0 268.44 469.76 0"
#define ELEMENTS(quote)                                                                            \
	quote "# Collective test starting: all_reduce_perf" quote ", " quote                       \
	      "  1073741824 1 float sum -1 4000.0 268.44 469.76 0 4000.0 268.44 469.76 0" quote    \
	      ", " quote "  2147483648 1 float sum -1 8000.0 268.44 469.76 0 8000.0 268.44 "       \
	      "469.76 0" quote

static void test_forms(void **state)
{
	static const char *const cases[] = {
		"# Collective test starting: all_reduce_perf\n" FAST_1G FAST_2G,
		/* tags within rows */
		"[0] # Collective test starting: all_reduce_perf\n"
		"[0] 1073741824 1 float sum -1[0] 4000.0 268.44 469.76 0[0] 4000.0 268.44 469.76 "
		"0\n"
		"[0] 2147483648 1 float sum -1[0] 8000.0 268.44 469.76 0[0] 8000.0 268.44 469.76 "
		"0\n",
		/* Docker and its like */
		"{\"log\":\"# Collective test starting: "
		"all_reduce_perf\\n\",\"stream\":\"stdout\"}\n"
		"{\"log\":\"1073741824 1 float sum -1 4000.0 268.44 469.76 0 4000.0 268.44 469.76 "
		"0\\n\",\"stream\":\"stdout\"}\n"
		"{\"stream\":\"stdout\",\"message\":\"\\u001b[0m2147483648 1 float sum -1 8000.0 "
		"268.44 469.76 0 8000.0 268.44 469.76 0\\n\"}\n",
		/* Ansible, in one line, in many, and both */
		"{\"stdout_lines\": [" ELEMENTS("\"") "]}\n",
		"[" ELEMENTS("'") "]\n",
		"\"stdout_lines\": [\n\"# Collective test starting: all_reduce_perf\",\n"
		"\"  1073741824 1 float sum -1 4000.0 268.44 469.76 0 4000.0 268.44 469.76 0\",\n"
		"\"  2147483648 1 float sum -1 8000.0 268.44 469.76 0 8000.0 268.44 469.76 "
		"0\"\n]\n",
		"ok: [n] => {\"stdout\": \"# Collective test starting: "
		"all_reduce_perf\\n" ESCAPED_ROWS "\", \"stdout_lines\": [" ELEMENTS("\"") "]}\n",
		/* escaped */
		"# Collective test starting: all_reduce_perf\\n" ESCAPED_ROWS "\\n\n",
		"# Collective test starting: all_reduce_perf\\\\n1073741824 1 float sum -1 4000.0 "
		"268.44 "
		"469.76 0 4000.0 268.44 469.76 0\\\\n2147483648 1 float sum -1 8000.0 268.44 "
		"469.76 0 "
		"8000.0 268.44 469.76 0\n",
		/* CRI */
		"2026-05-01T10:00:00.000000000Z stdout F # Collective test starting: "
		"all_reduce_perf\n"
		"2026-05-01T10:00:01.000000000Z stdout F " FAST_1G
		"2026-05-01T10:00:02.000000000Z stdout F " FAST_2G,
		/* decimal commas */
		"# Collective test starting: all_reduce_perf\n"
		"1073741824 1 float sum -1 4000,0 268,44 469,76 0 4000,0 268,44 469,76 0\n"
		"2147483648 1 float sum -1 8000,0 268,44 469,76 0 8000,0 268,44 469,76 0\n",
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bb_claim_file file = read_tables(cases[i], 1);
		const struct bb_claims *const c = &file.list[0];

		if (c->n != 4)
			fail_msg("%zu results in %s", c->n, cases[i]);
		assert_string_equal(c->collective, "all_reduce");
		assert_float_equal(c->list[3].busbw_GBps, 469.76, 1e-9);
		assert_float_equal(c->list[1].time_us, 4000, 1e-9);
		bb_claims_free(&file);
	}
}

static void test_averages(void **state)
{
	struct bb_claim_file file = read_tables(
		"mpirun -np 16 -H a:8,b:8 ./all_gather_perf -b 512M -e 8G -f 2 -g 1 -d half\n"
		"# Avg bus bandwidth    : 194.675 \n# Avg bus bandwidth    : 194.675 \n",
		1);

	assert_string_equal(file.list[0].collective, "all_gather");
	assert_string_equal(file.list[0].type, "half");
	assert_int_equal(file.list[0].n, 0);
	assert_float_equal(file.list[0].average_GBps, 194.675, 1e-9);
	assert_int_equal(file.list[0].nranks, 16);
	assert_int_equal(file.list[0].hosts, 2);
	assert_int_equal(file.list[0].least_bytes, 512 << 20);
	assert_int_equal(file.list[0].most_bytes, UINT64_C(8) << 30);
	assert_float_equal(file.list[0].factor, 2, 1e-9);
	bb_claims_free(&file);
	file = read_tables("# nThread 1 nGpus 1 minBytes 8 maxBytes 64 step: 16(bytes)\n"
			   "#\n# Avg bus bandwidth : 84,5\n",
			   1);
	assert_float_equal(file.list[0].average_GBps, 84.5, 1e-9);
	assert_int_equal(file.list[0].step_bytes, 16);
	assert_float_equal(file.list[0].factor, 0, 1e-9);
	bb_claims_free(&file);
}

/* The largest error of old versions is no count of wrong data. */
static void test_errors(void **state)
{
#define OLD "# size count type time algbw busbw error time algbw busbw error\n"
#define OLD_ROW "1048576 262144 float 104.8 10.01 17.51 0e+00 104.8 10.01 17.51 "
	static const struct {
		const char *text;
		size_t wrong, unchecked;
	} cases[] = {
		{OLD OLD_ROW "1e+00\n# Out of bounds values : 0 OK\n", 0, 0},
		{OLD OLD_ROW "1e+00\n", 0, 1},
		{OLD OLD_ROW "1e+00*\n# Out of bounds values : 1 FAILED\n", 1, 0},
		{OLD OLD_ROW "1e+00\n# Out of bounds values : 2 FAILED\n", 2, 0},
		{OLD OLD_ROW "1e+00\n# Out of bounds values : 1 FAILED\n", 1, 0},
		{OLD OLD_ROW "1e+00\n# Out of bounds values : 0 FAILED\n", 2, 0},
		{OLD OLD_ROW "1e+00\n# Out of bounds values : 5 OK\n", 0, 1},
		{OLD OLD_ROW "1e-07\n# Out of bounds values : 3 FAILED\n", 2, 0},
		{OLD_ROW "1e+00\n# Out of bounds values : 0 OK\n", 0, 0},
		{HEAD FAST_1G "# Out of bounds values : 0 OK\n", 0, 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bb_claim_file file = read_tables(cases[i].text, 1);

		assert_int_equal(file.list[0].wrong, cases[i].wrong);
		assert_int_equal(file.list[0].unchecked, cases[i].unchecked);
		bb_claims_free(&file);
	}
}

static void test_osu(void **state)
{
	static const char gather[] = "mpirun -np 16 -H a:8,b:8 ./osu_allgather\n"
				     "# OSU MPI-CUDA Allgather Latency Test v7.3\n"
				     "# Size       Avg Latency(us)   Min Latency(us)\n"
				     "[1,0]<stdout>:1048576     1000.00   900.5\n";
	static const char reduce[] = "# OSU MPI Allreduce Latency Test v5.9\n"
				     "# Size       Avg Latency(us)\n1048576     1000.00\n";
	struct bb_claim_file file = read_tables(gather, 1);

	assert_string_equal(file.list[0].collective, "all_gather");
	assert_int_equal(file.list[0].list[0].size_bytes, 16 << 20);
	assert_float_equal(file.list[0].list[0].algbw_GBps, 16.777216, 1e-9);
	assert_float_equal(file.list[0].list[0].busbw_GBps, 16.777216 * 15 / 16, 1e-9);
	assert_false(file.list[0].incomplete);
	bb_claims_free(&file);
	file = read_tables(reduce, 1);
	assert_true(file.list[0].incomplete);
	assert_float_equal(file.list[0].list[0].busbw_GBps, 0, 1e-9);
	bb_claims_complete(&file.list[0], 4);
	assert_float_equal(file.list[0].list[0].busbw_GBps, 1.048576 * 1.5, 1e-9);
	assert_int_equal(file.list[0].list[0].size_bytes, 1 << 20);
	bb_claims_free(&file);
}

/* ---- facts and ranks ------------------------------------------------------------------------ */

#define INFO "n1:12:34 [0] NCCL INFO "

static void test_facts(void **state)
{
	static const struct {
		const char *text;
		enum bb_fact_kind kind;
		int64_t value; /* -1: no such fact */
	} cases[] = {
		{"export NCCL_P2P_LEVEL=LOC\n", BB_FACT_P2P_OFF, 0},
		{"export NCCL_P2P_LEVEL=NVL\n", BB_FACT_P2P_OFF, -1},
		{"with NCCL_P2P_DISABLE=1 it was slow\n", BB_FACT_P2P_OFF, -1},
		{"srun --export=ALL,NCCL_SHM_DISABLE=1,NCCL_PROTO=LL ./x\n", BB_FACT_SHM_OFF, 0},
		{"srun --export=ALL,NCCL_SHM_DISABLE=1,NCCL_PROTO=LL ./x\n", BB_FACT_PROTOCOL, 0},
		{"mpirun -x NCCL_NVLS_ENABLE=0 ./x\n", BB_FACT_NVLS_OFF, 0},
		{"mpirun -np 8 \\\n  -x NCCL_NVLS_ENABLE ./x\n", BB_FACT_NVLS_OFF, -1},
		{"- name: NCCL_MNNVL_ENABLE\n  value: \"0\"\n", BB_FACT_MNNVL_OFF, 0},
		{"NCCL_COLLNET_ENABLE=1\n", BB_FACT_SHARP, 0},
		{"NCCL_ALGO=CollNetDirect\n", BB_FACT_SHARP, 0},
		{"NCCL_NET_GDR_LEVEL=0\n", BB_FACT_GDR_OFF, 0},
		{"NCCL_NET_GDR_LEVEL=4\n", BB_FACT_GDR_OFF, -1},
		{"NCCL_IB_DISABLE=1\n", BB_FACT_SOCKET, 0},
		{"NCCL_NET=Socket\n", BB_FACT_SOCKET, 0},
		{"NCCL_IB_HCA==mlx5_0:1,mlx5_1:1\n", BB_FACT_NICS, 2},
		{"NCCL_IB_HCA='^mlx5_2'\n", BB_FACT_NICS, -1},
		{"NCCL_IB_HCA=mlx5\n", BB_FACT_NICS, -1},
		{"NCCL_P2P_DISABLE=1\n" INFO "NCCL_P2P_DISABLE set by environment to 0.\n",
		 BB_FACT_P2P_OFF, -1},
		{INFO "NCCL_P2P_DISABLE set by environment to 1.\n", BB_FACT_P2P_OFF, 0},
		{INFO "Using network Socket\n", BB_FACT_SOCKET, 0},
		{INFO "NET/Socket : Using [0]eth0:1.2.3.4<0>\n", BB_FACT_SOCKET, 0},
		{INFO "NET/Socket : Using [0]eth0:1.2.3.4<0>\n" INFO
		      "NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:1.2.3.4<0>\n",
		 BB_FACT_SOCKET, -1},
		{INFO "NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]; OOB eth0\n",
		 BB_FACT_NICS, 2},
		{INFO "NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]; OOB eth0\n",
		 BB_FACT_ROCE, 0},
		{"NCCL_IB_HCA=mlx5_0\n" INFO "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB\n",
		 BB_FACT_NICS, 2},
		{INFO "NET/OFI Selected provider is efa, fabric is efa (found 32 nics)\n",
		 BB_FACT_NICS, 32},
		{INFO "Using network AWS Libfabric\n", BB_FACT_EFA, 0},
		{INFO "  + NET[25.0] - NET/0 (b8/1/25.0)\n", BB_FACT_NIC_RATE, 200},
		{INFO "24 coll channels, 0 nvls channels\n", BB_FACT_CHANNELS, 24},
		{"NCCL_MAX_NCHANNELS=2\n", BB_FACT_CHANNELS, 2},
		{"n1:1:2 [0] NCCL WARN P2P is disabled between connected GPUs 0 and 1\n",
		 BB_FACT_P2P_OFF, 0},
		{"n1:1:2 [0] NCCL WARN Missing \"iommu=pt\" from kernel\n", BB_FACT_ERROR, 0},
		{"mpirun -np 8 -x FI_PROVIDER=efa ./x\n", BB_FACT_EFA, 0},
		{INFO "NVLS multicast support is not available on dev 0\n", BB_FACT_NVLS_OFF, 0},
		{INFO "GPU Direct RDMA Disabled for GPU 0 / HCA 3 (distance 9 > 5)\n",
		 BB_FACT_GDR_OFF, -1},
		{INFO "Channel 00/0 : 8[0] -> 0[0] [receive] via NET/IB/0\n", BB_FACT_GDR_OFF, 0},
		{INFO "Channel 00/0 : 8[0] -> 0[0] [receive] via NET/IB/0/GDRDMA\n",
		 BB_FACT_GDR_OFF, -1},
		{INFO "Channel 00/24 :    0   1   2   3\n", BB_FACT_CHANNELS, 24},
		{INFO "Channel 00/0 : 8[0] -> 0[0] via P2P/CUMEM\n", BB_FACT_CHANNELS, -1},
		{"Eight H100s in a DGX\n", BB_FACT_CARD, 0},
		{"two H100 80GB PCIe\n", BB_FACT_CARD, 0},
		{"A100 beside H100\n", BB_FACT_CARD, -1},
		{"ssh nccl-h100-1 and H100-node-2\n", BB_FACT_CARD, -1},
	};
	char text[1024];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bb_claim_file file;
		const struct bb_fact *f;

		snprintf(text, sizeof(text), "%s%s", cases[i].text, HEAD FAST_1G);
		file = read_tables(text, 1);
		f = bb_claims_fact(&file.list[0], cases[i].kind);
		if ((f != NULL) != (cases[i].value >= 0))
			fail_msg("fact %d of %s", cases[i].kind, cases[i].text);
		if (f)
			assert_int_equal(f->value, cases[i].value);
		bb_claims_free(&file);
	}
}

/* A fact holds for the tables of its job that end below it, and for no other job. */
static void test_facts_of_runs(void **state)
{
	struct bb_claim_file file = read_tables(
		"mpirun -np 8 -x NCCL_ALGO=Ring ./all_reduce_perf\n" HEAD FAST_1G HEAD SLOW_1G
		"export NCCL_PROTO=LL\n"
		"mpirun -np 8 ./all_reduce_perf\n" HEAD FAST_1G "[1,3]<stdout>:" INFO
		"Using network Socket\n",
		3);

	expect_fact(&file.list[0], BB_FACT_ALGORITHM, 0, 1, "mpirun -np 8 -x NCCL_ALGO=Ring");
	expect_fact(&file.list[1], BB_FACT_ALGORITHM, 0, 1, "mpirun -np 8 -x NCCL_ALGO=Ring");
	assert_null(bb_claims_fact(&file.list[1], BB_FACT_PROTOCOL));
	assert_null(bb_claims_fact(&file.list[2], BB_FACT_ALGORITHM));
	expect_fact(&file.list[2], BB_FACT_PROTOCOL, 0, 6, "export NCCL_PROTO=LL");
	expect_fact(&file.list[2], BB_FACT_SOCKET, 0, 10, "n1:12:34 [0] NCCL INFO Using");
	assert_true(strncmp(bb_claims_fact(&file.list[2], BB_FACT_SOCKET)->quote, "n1:12", 5) == 0);
	bb_claims_free(&file);
	/* Within one host, NCCL opens sockets and does not use them. */
	file = read_tables(RANKS("a") INFO "Using network Socket\n" FAST_1G, 1);
	assert_null(bb_claims_fact(&file.list[0], BB_FACT_SOCKET));
	bb_claims_free(&file);
	/* Of two runs with tags of their own, each has its own facts. */
	file = read_tables("a: " INFO "Using network Socket\na: " FAST_1G "b: " SLOW_1G, 2);
	assert_non_null(bb_claims_fact(&file.list[0], BB_FACT_SOCKET));
	assert_null(bb_claims_fact(&file.list[1], BB_FACT_SOCKET));
	bb_claims_free(&file);
}

static void test_shared_gpus(void **state)
{
#define RANK(rank, host, device, bus, name)                                                        \
	"# Rank " rank " Group 0 Pid 1 on " host " device " device " [" bus "] " name "\n"
	static const struct {
		const char *text;
		int64_t ranks;
	} cases[] = {
		{RANK("0", "a", "0", "0000:02:00", "X") RANK("1", "a", "0", "0000:02:00", "X"), 2},
		{RANK("0", "a", "0", "0000:02:00", "X") RANK("1", "b", "0", "0000:02:00", "X"), 0},
		{RANK("0", "a", "0", "0008:01:00", "X") RANK("1", "a", "1", "0009:01:00", "X"), 0},
		{RANK("0", "a", "0", "0x01", "X") RANK("1", "a", "1", "0x01", "X"), 0},
		{RANK("0", "a", "0", "0x00", "X") RANK("1", "a", "0", "0x00", "X"), 0},
		{RANK("0", "a", "0", "0x01", "X") RANK("1", "a", "0", "0x01", "X"), 2},
		{RANK("0", "a", "0", "0x01", "A100 MIG 1g")
			 RANK("1", "a", "0", "0x01", "A100 MIG 1g"),
		 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[1024];
		struct bb_claim_file file;
		const struct bb_fact *f;

		snprintf(text, sizeof(text), "%s%s", cases[i].text, HEAD FAST_1G);
		file = read_tables(text, 1);
		f = bb_claims_fact(&file.list[0], BB_FACT_SHARED_GPU);
		assert_int_equal(f ? f->value : 0, cases[i].ranks);
		bb_claims_free(&file);
	}
}

/* Rows prove more than a list of ranks, and that more than the command. */
static void test_ranks(void **state)
{
#define GATHER "268435456 1048576 float none -1 1000.0 268.44 264.24 0\n"
	static const struct {
		const char *text;
		int64_t ranks, hosts;
	} cases[] = {
		{"./all_gather_perf -g 8\n" GATHER, 64, 0},
		{"# Collective test starting: all_gather_perf\n" RANKS("a") GATHER, 64, 0},
		{"mpirun -np 8 ./all_reduce_perf -g 1\n" FAST_1G, 8, 0},
		{"mpirun -np 8 -N 4 ./all_reduce_perf\n" FAST_1G, 8, 2},
		{"mpirun -np 2 -H a,b ./all_reduce_perf -t 2 -g 2\n" FAST_1G, 8, 2},
		{"mpirun -np 8 -H a,a,a,a,b,b,b,b ./all_reduce_perf\n" FAST_1G, 8, 2},
		{"mpirun -np 8 -H <hosts> ./all_reduce_perf\n" FAST_1G, 8, 0},
		{"mpirun -H a:4,b:4 ./all_reduce_perf\n" FAST_1G, 8, 2},
		{"mpirun -np 4 ./all_reduce_perf -g 4\n" FAST_1G, 0, 0}, /* 16 have another ratio */
		{"srun -N 2 --ntasks-per-node=4 ./all_reduce_perf\n" FAST_1G, 8, 2},
		{"srun --nodes 2 -n8 ./all_reduce_perf -n 100 -N 3\n" FAST_1G, 8, 2},
		{"#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=4\nsrun ./all_reduce_perf\n" FAST_1G,
		 8, 2},
		{"./all_reduce_perf -g 8\n" FAST_1G, 8, 1},
		{"mpirun -np 2 \\\n -H a,b \\\n ./all_reduce_perf \\\n -g 4\n" FAST_1G, 8, 2},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bb_claim_file file = read_tables(cases[i].text, 1);

		if (file.list[0].nranks != cases[i].ranks || file.list[0].hosts != cases[i].hosts)
			fail_msg("%lld ranks, %lld hosts: %s", (long long)file.list[0].nranks,
				 (long long)file.list[0].hosts, cases[i].text);
		bb_claims_free(&file);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_field),         cmocka_unit_test(test_field_facts),
		cmocka_unit_test(test_boundaries),    cmocka_unit_test(test_interleaved),
		cmocka_unit_test(test_copies),        cmocka_unit_test(test_forms),
		cmocka_unit_test(test_averages),      cmocka_unit_test(test_errors),
		cmocka_unit_test(test_osu),           cmocka_unit_test(test_facts),
		cmocka_unit_test(test_facts_of_runs), cmocka_unit_test(test_shared_gpus),
		cmocka_unit_test(test_ranks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
