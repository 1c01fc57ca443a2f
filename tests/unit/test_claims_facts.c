/*
 * What the reader of logs notes beside rows: lists of ranks, OSU's tables, wrapped lines, facts of
 * the machine; and the ranks that ratios of bandwidths prove.
 */
#include "acceptance/claims.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "log_tables.h"

#define MB "1000000 250000 float sum -1 10 100 175 0\n"
#define INFO "n1:12:34 [0] NCCL INFO "
#define RANK(rank, host, rest) "#  Rank  " rank " Group  0 Pid 1 on " host " device " rest "\n"

static bb_status try_log(const char *text, size_t length, struct bb_claim_file *file,
			 struct bb_error *error)
{
	*error = (struct bb_error){0};
	return bb_claims_read("log", text, length, file, error);
}

static void read_log(const char *text, struct bb_claim_file *file)
{
	struct bb_error error;

	if (try_log(text, strlen(text), file, &error) != BB_OK)
		fail_msg("%s: %s", error.text, text);
}

/* ---- refused --------------------------------------------------------------------------------- */

static void test_refused(void **state)
{
	static const struct {
		const char *text;
		size_t length;
		const char *found; /* in the message */
	} cases[] = {
		{"a\0b", 3, "UTF-16"},
		{"a\rb", 3, "CR alone"},
		{"a\r\nb", 4, "neither"},
		{"ab\r", 3, "neither"}, /* the only line may end so */
		{"nothing", 7, "neither"},
		{MB "x", 0, "neither"},
		{"n: Test NCCL failure a.cu:3 'x'\nmore", 36, "\"Test NCCL failure a.cu:3 'x'\""},
		{"n: Test CUDA failure a", 22, "\"Test CUDA failure a\""},
		{"n Test failure common.cu:9", 26, "\"Test failure common.cu:9\""},
		{"x\nNCCL WARN why\rno", 18, "\"NCCL WARN why\""},
		{"1\n1000000 250000 float sum -1 10\n", 33, "log:2:"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bb_claim_file file;
		struct bb_error error;

		assert_int_equal(try_log(cases[i].text, cases[i].length, &file, &error), BB_EUSAGE);
		if (!strstr(error.text, cases[i].found))
			fail_msg("%s is not in %s", cases[i].found, error.text);
		assert_null(file.list);
		assert_int_equal(file.n, 0);
	}
}

/* ---- lists of ranks -------------------------------------------------------------------------- */

static void test_lists_of_ranks(void **state)
{
	static const struct {
		const char *text;
		int64_t ranks, hosts;
		const char *host, *gpu;
		int64_t shared;
	} cases[] = {
		{RANK("0", "a", "0 [0000:1b:00] A  100") RANK("1", "a", "1 [0000:1c:00] A 100"), 2,
		 1, "a", "A 100", 0},
		{RANK("0", "a", "0 [0x1b] X") RANK("1", "b", "0 [0x1b] X")
			 RANK("2", "a", "1 [0x1c] Y"),
		 3, 2, "a", "Y", 0},
		{RANK("0", "b", "0 [0x1b] X") RANK("5", "a", "0 [0x1b] X"), 6, 2, "b", "X", 0},
		/* one line of a list that lacks the others */
		{RANK("5", "a", "0 [0x1b] X"), 6, 0, "", "X", 0},
		{RANK("1", "a", "0 [0x1b] X"), 2, 0, "", "X", 0},
		{RANK("0", "a", "0 [0x1b] X"), 1, 1, "a", "X", 0},
		{RANK("0", "a", "0 [0x1b] X") RANK("16777216", "a", "0 [0x1c] X"), 1, 1, "a", "X",
		 0},
		{RANK("0", "a", "0 [0x1b] X") RANK("16777215", "a", "0 [0x1c] X"), 16777216, 1, "a",
		 "X", 0},
		/* a second list replaces the first */
		{RANK("0", "a", "0 [0x1b] X") RANK("1", "c", "0 [0x1b] X")
			 RANK("0", "b", "0 [0x1b] Y"),
		 1, 1, "b", "Y", 0},
		/* the GPU that most ranks share */
		{RANK("0", "a", "0 [0x1b] X") RANK("1", "a", "0 [0x1b] X")
			 RANK("2", "a", "1 [0x1c] X") RANK("3", "a", "1 [0x1c] X")
				 RANK("4", "a", "1 [0x1c] X"),
		 5, 1, "a", "X", 3},
		{RANK("0", "a", "0 [0x1b] X") RANK("1", "b", "0 [0x1b] X")
			 RANK("2", "a", "0 [0x1b] X"),
		 3, 2, "a", "X", 2},
		{RANK("0", "a", "0 [0x1b] X") RANK("1", "a", "0 [0x1b] X")
			 RANK("2", "a", "0 [0x1c] X") RANK("3", "a", "0 [0x1d] X"),
		 4, 1, "a", "X", 2},
		/* no address, no name */
		{RANK("0", "a", "0") RANK("1", "a", "0"), 2, 1, "a", "", 0},
		{RANK("0", "a", "0 0x1b X") RANK("1", "a", "0 0x1b X"), 2, 1, "a", "", 0},
		{"# Rank 0 Pid 1 device 0 [0x1b] X\n# Rank 1 Pid 1 device 0 [0x1b] X\n", 2, 0, "",
		 "X", 0},
		/* no lists of ranks */
		{"# Rank 0 on a\n# Rank 1 on b\n", 0, 0, "", "", 0},
		{"# device 0 Rank 3 on a\n", 0, 0, "", "", 0},
		{"# Rank x on a device 0 [0x1b] X\n", 0, 0, "", "", 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bb_claim_file file;
		const struct bb_claims *c;
		const struct bb_fact *shared;
		char text[1024];

		snprintf(text, sizeof(text), "%s" HEAD MB, cases[i].text);
		read_log(text, &file);
		assert_int_equal(file.n, 1);
		c = &file.list[0];
		shared = bb_claims_fact(c, BB_FACT_SHARED_GPU);
		if (c->nranks != cases[i].ranks || c->hosts != cases[i].hosts ||
		    strcmp(c->host, cases[i].host) != 0 || strcmp(c->gpu, cases[i].gpu) != 0 ||
		    (shared ? shared->value : 0) != cases[i].shared)
			fail_msg("%lld ranks, %lld hosts, %s, \"%s\", %lld share: %s",
				 (long long)c->nranks, (long long)c->hosts, c->host, c->gpu,
				 shared ? (long long)shared->value : 0, text);
		bb_claims_free(&file);
	}
}

/* ---- OSU ------------------------------------------------------------------------------------- */

static void test_osu(void **state)
{
#define OSU "# OSU MPI Allreduce Latency Test v5.9\n# Size       Avg Latency(us)\n"
	static const struct {
		const char *text;
		int n, wrong; /* n -1: refused */
	} cases[] = {
		{OSU "1048576 1000.00\n", 1, 0},
		{OSU "1048576 1000.00\n2097152 2000\n", 2, 0},
		{OSU "1048576 1000.00 900 1100 100\n", 1, 0},
		{OSU "1048576 1000.00 900 1100 100 5 6 7 8\n", 1, 0},
		{OSU "1048576 1000.00 900 1100 100 5 6 7 8 9\n", -1, 0},
		{OSU "1048576 1000.00 Pass\n2097152 2000 Fail\n", 2, 1},
		{OSU "1048576 1000.00 Maybe\n", -1, 0},
		{OSU "[1,0]<stdout>:1048576 1000.00\n", 1, 0},
		{OSU "n1: 1048576 1000.00\n", 1, 0},
		{OSU "1048576\n", -1, 0},
		{OSU "1048576 0\n", -1, 0},
		{OSU "1048576 -5\n", -1, 0},
		{OSU "1048576 1e12\n", -1, 0},
		{OSU "1048576 9e11\n", 1, 0},
		{OSU "0 1000.00\n", -1, 0},
		{OSU "17592186044416 1000.00\n", 1, 0}, /* 2^44 */
		{OSU "17592186044417 1000.00\n", -1, 0},
		{"1048576 1000.00\n", -1, 0}, /* no title */
		{"# Size Avg Latency(us)\n1048576 1000.00\n", 1, 0},
		{"# Size Avg Latency (us)\n1048576 1000.00\n", 1, 0},
		{"# Size Latency(us)\n1048576 1000.00\n", -1, 0},
		{"# Size Avg Bandwidth\n1048576 1000.00\n", -1, 0},
		/* a table of nccl-tests ends it */
		{OSU "1048576 1000.00\n" HEAD "2097152 2000\n", 1, 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bb_claim_file file;
		struct bb_error error;
		const bb_status st = try_log(cases[i].text, strlen(cases[i].text), &file, &error);

		if (st != (cases[i].n < 0 ? BB_EUSAGE : BB_OK) ||
		    (st == BB_OK && ((int)file.list[0].n != cases[i].n ||
				     (int)file.list[0].wrong != cases[i].wrong)))
			fail_msg("%d, %zu rows, %zu wrong: %s", st, file.n ? file.list[0].n : 0,
				 file.n ? file.list[0].wrong : 0, cases[i].text);
		bb_claims_free(&file);
	}
}

static void test_titles_of_osu(void **state)
{
	static const struct {
		const char *title, *collective, *backend;
		bool all; /* the size is that of all ranks */
		double factor;
	} cases[] = {
		{"OSU MPI Allreduce Latency Test v5.9", "all_reduce", "mpi", true, 1.5},
		{"OSU MPI-CUDA Allgather Latency Test v7.3", "all_gather", "", false, 0.75},
		{"OSU MPI All-to-All Latency Test v7", "alltoall", "mpi", false, 0.75},
		{"OSU MPI Broadcast Latency Test v7", "broadcast", "mpi", true, 1},
		{"OSU MPI Reduce_scatter Latency Test", "reduce_scatter", "mpi", true, 0.75},
		{"OSU MPI Reduce Latency Test", "reduce", "mpi", true, 1},
		{"OSU MPI Gather Latency Test", "gather", "mpi", false, 0.75},
		{"OSU NCCL Scatter Latency Test", "scatter", "", false, 0.75},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bb_claim_file file;
		struct bb_claims *c;
		const double size = cases[i].all ? 1e6 : 4e6;
		char text[512];

		snprintf(text, sizeof(text), "# %s\n1000000 100\n", cases[i].title);
		read_log(text, &file);
		c = &file.list[0];
		assert_string_equal(c->collective, cases[i].collective);
		assert_string_equal(c->backend, cases[i].backend);
		assert_float_equal(c->rounding, 1e-9, 1e-15);
		/* One rank has no bandwidth, and ranks alone do not say which collective it is. */
		bb_claims_complete(c, 1);
		assert_true(c->incomplete);
		c->collective[0] = '\0';
		bb_claims_complete(c, 4);
		assert_true(c->incomplete);
		snprintf(c->collective, sizeof(c->collective), "%s", cases[i].collective);
		bb_claims_complete(c, 4);
		assert_false(c->incomplete);
		assert_int_equal(c->nranks, 4);
		assert_float_equal((double)c->list[0].size_bytes, size, 0.5);
		assert_float_equal(c->list[0].algbw_GBps, size / 100 / 1e3, 1e-9);
		assert_float_equal(c->list[0].busbw_GBps, cases[i].factor * size / 100 / 1e3, 1e-9);
		/* once */
		bb_claims_complete(c, 8);
		assert_int_equal(c->nranks, 4);
		bb_claims_free(&file);
	}
}

/* ---- wrapped lines --------------------------------------------------------------------------- */

#define MB_IN_JSON "1000000 250000 float sum -1 10 100 175 0"
static void test_wrapped(void **state)
{
	static const struct {
		const char *text;
		int rows, line; /* of the last row */
	} cases[] = {
		{"{\"log\":\"" MB_IN_JSON "\"}\n", 1, 1},
		{"{\"log\": \"" MB_IN_JSON "\"}\n", 1, 1},
		{"{\"a\":1,\"message\":\"" MB_IN_JSON "\",\"b\":2}\n", 1, 1},
		{" {\"a\":1,\"msg\":\"" MB_IN_JSON "\"}\n", 1, 1},
		{"{\"line\":\"" MB_IN_JSON "\",\"c\":\"1 1 1\"}\n", 1, 1},
		{"{\"textPayload\":\"" MB_IN_JSON "\"}\n", 1, 1},
		{"{\"log\":5,\"msg\":\"" MB_IN_JSON "\"}\n", 1, 1},
		/* escapes: a tab, a slash, a quotation mark, no-break space, a character */
		{"{\"log\":\"1000000\\t250000 float sum -1 10 100 175 0\\r\\n\"}\n", 1, 1},
		{"{\"log\":\"a\\/b: " MB_IN_JSON "\"}\n", 1, 1},
		{"{\"log\":\"\\\"x\\\" " MB_IN_JSON "\"}\n", 1, 1},
		{"{\"log\":\"1000000\\u00a0250000 float sum -1 10 100 175 0\"}\n", 1, 1},
		{"{\"log\":\"1000000\\u0000250000 float sum -1 10 100 175 0\"}\n", 1, 1},
		{"{\"log\":\"\\u0031000000 250000 float sum -1 10 100 175 0\"}\n", 1, 1},
		{"{\"log\":\"\\u00e9 " MB_IN_JSON "\"}\n", 1, 1},
		{"{\"log\":\"\\u00gg " MB_IN_JSON "\"}\n", 1, 1},
		/* two rows in one line of text, then a third */
		{"x\\n" MB_IN_JSON "\\n" MB_IN_JSON "\n" MB, 3, 2},
		{"x\\\\n" MB_IN_JSON "\\\\n" MB_IN_JSON "\n", 2, 1},
		{"x\\\\\\\\n" MB_IN_JSON "\\\\\\\\n" MB_IN_JSON "\n", 2, 1},
		{"[\"# a\", \" " MB_IN_JSON "\", \"" MB_IN_JSON "\"]\n", 2, 1},
		{"['# a', ' " MB_IN_JSON "',' " MB_IN_JSON "']\n", 2, 1},
		{"[\"# a\",\n\"" MB_IN_JSON "\",\n\"" MB_IN_JSON "\"\n]\n", 2, 3},
		{"{\"stdout_lines\": [\"# a\", \" " MB_IN_JSON
		 "\"], \"stdout\": \"# a\\n" MB_IN_JSON "\"}\n",
		 1, 1},
		{"{\"stdout\": \"# a\\n" MB_IN_JSON "\", \"stdout_lines\": [\"# a\", \" " MB_IN_JSON
		 "\"]}\n",
		 1, 1},
		/* colours, carriage returns, no-break spaces */
		{"\033[1;31m1000000\033[0m 250000 float sum -1 10 100 175 0\r\n", 1, 1},
		{"1000000\xc2\xa0"
		 "250000 float sum -1 10 100 175 0\n",
		 1, 1},
		{"|1000000|250000|float|sum|-1|10|100|175|0|\n", 1, 1},
		{"\"1000000\", \"250000\", \"float\", \"sum\", \"-1\", 10, 100, 175, 0\n", 1, 1},
		{"1000000 250000 float sum -1 10,0 100,0 175,0 0\n", 1, 1},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bb_claim_file file;

		read_log(cases[i].text, &file);
		if (file.n != 1 || (int)file.list[0].n != cases[i].rows ||
		    file.list[0].list[file.list[0].n - 1].line != cases[i].line)
			fail_msg("%zu tables, %zu rows, line %d: %s", file.n, file.list[0].n,
				 file.list[0].list[file.list[0].n - 1].line, cases[i].text);
		bb_claims_free(&file);
	}
}

/* ---- facts ----------------------------------------------------------------------------------- */

static const struct {
	const char *text;
	enum bb_fact_kind kind;
	int64_t value; /* -1: no such fact */
	const char *says;
} facts[] = {
	{"NCCL_P2P_DISABLE=1\n", BB_FACT_P2P_OFF, 0, "1"},
	{"NCCL_P2P_DISABLE=0\n", BB_FACT_P2P_OFF, -1, NULL},
	{"NCCL_P2P_DISABLE=yes\n", BB_FACT_P2P_OFF, -1, NULL},
	{"NCCL_P2P_DISABLE=1x\n", BB_FACT_P2P_OFF, -1, NULL},
	{"NCCL_P2P_DISABLE=\"1\"\n", BB_FACT_P2P_OFF, 0, "1"},
	{"NCCL_P2P_DISABLE='1'\n", BB_FACT_P2P_OFF, 0, "1"},
	{"NCCL_P2P_DISABLE=\n", BB_FACT_P2P_OFF, -1, NULL},
	{"XNCCL_P2P_DISABLE=1\n", BB_FACT_P2P_OFF, -1, NULL},
	{"export MY_NCCL_P2P_DISABLE=1\n", BB_FACT_P2P_OFF, -1, NULL},
	{"export NCCL_P2P_DISABLED=1\n", BB_FACT_P2P_OFF, -1, NULL},
	{"  $ export NCCL_P2P_DISABLE=1;\n", BB_FACT_P2P_OFF, 0, "1"},
	{"+ env NCCL_P2P_DISABLE=1 x\n", BB_FACT_P2P_OFF, 0, "1"},
	{"ENV NCCL_P2P_DISABLE=1\n", BB_FACT_P2P_OFF, 0, "1"},
	{"setenv NCCL_P2P_DISABLE=1\n", BB_FACT_P2P_OFF, 0, "1"},
	{"-x NCCL_P2P_DISABLE=1 \\\n", BB_FACT_P2P_OFF, 0, "1"},
	{"we set NCCL_P2P_DISABLE=1 once\n", BB_FACT_P2P_OFF, -1, NULL},
	{"NCCL_P2P_DISABLE=1\nNCCL_P2P_DISABLE=0\n", BB_FACT_P2P_OFF, -1, NULL},
	{"NCCL_SHM_DISABLE=1\n", BB_FACT_SHM_OFF, 0, "1"},
	{"NCCL_NVLS_ENABLE=1\n", BB_FACT_NVLS_OFF, -1, NULL},
	{"NCCL_NVLS_ENABLE=x\n", BB_FACT_NVLS_OFF, -1, NULL},
	{"NCCL_MNNVL_ENABLE=0\n", BB_FACT_MNNVL_OFF, 0, "0"},
	{"NCCL_COLLNET_ENABLE=0\n", BB_FACT_SHARP, -1, NULL},
	{"NCCL_NET_GDR_LEVEL=LOC\n", BB_FACT_GDR_OFF, 0, "LOC"},
	{"NCCL_NET_GDR_LEVEL=PHB\n", BB_FACT_GDR_OFF, -1, NULL},
	{"NCCL_NET=socket\n", BB_FACT_SOCKET, 0, "socket"},
	{"NCCL_NET=IB\n", BB_FACT_SOCKET, -1, NULL},
	{"FI_PROVIDER=efa\n", BB_FACT_EFA, 0, "efa"},
	{"FI_PROVIDER=tcp\n", BB_FACT_EFA, -1, NULL},
	{"NCCL_ALGO=Ring,Tree\n", BB_FACT_ALGORITHM, 0, "Ring,Tree"},
	{"NCCL_ALGO=$ALGO\n", BB_FACT_ALGORITHM, -1, NULL},
	{"NCCL_ALGO=CollNetChain\n", BB_FACT_SHARP, 0, "CollNetChain"},
	{"NCCL_ALGO=Ring\n", BB_FACT_SHARP, -1, NULL},
	/* the first of two settings, unless the same variable is set again */
	{"NCCL_MIN_NCHANNELS=4\nNCCL_MAX_NCHANNELS=8\n", BB_FACT_CHANNELS, 4, "4"},
	{"NCCL_MIN_NCHANNELS=4\nNCCL_MIN_NCHANNELS=8\n", BB_FACT_CHANNELS, 8, "8"},
	{"NCCL_MIN_NCHANNELS=0\n", BB_FACT_CHANNELS, -1, NULL},
	{"NCCL_MIN_NCHANNELS=1023\n", BB_FACT_CHANNELS, 1023, "1023"},
	{"NCCL_MIN_NCHANNELS=1024\n", BB_FACT_CHANNELS, -1, NULL},
	{"NCCL_IB_HCA=mlx5_0\n", BB_FACT_NICS, 1, "mlx5_0"},
	{"NCCL_IB_HCA=mlx5_0,mlx5_1:1,mlx5_10\n", BB_FACT_NICS, 3, NULL},
	{"NCCL_IB_HCA==mlx5_0\n", BB_FACT_NICS, 1, NULL},
	{"NCCL_IB_HCA=rdma0,mlx4\n", BB_FACT_NICS, -1, NULL}, /* a family */
	{"NCCL_IB_HCA=mlx5_0,mlx\n", BB_FACT_NICS, -1, NULL},
	{"NCCL_IB_HCA=bnx5\n", BB_FACT_NICS, 1, NULL},
	{"NCCL_IB_HCA=:1\n", BB_FACT_NICS, -1, NULL},
	{"mpirun -x NCCL_IB_HCA=mlx5_0,NCCL_ALGO=Ring ./x\n", BB_FACT_ALGORITHM, 0, "Ring"},
	/* what NCCL reports, before what is asked for */
	{INFO "NCCL_ALGO set by environment to Tree.\n", BB_FACT_ALGORITHM, 0, "Tree"},
	{INFO "NCCL_ALGO set to Tree\n", BB_FACT_ALGORITHM, 0, "Tree"},
	{INFO "NCCL_ALGO is Tree\n", BB_FACT_ALGORITHM, -1, NULL},
	{INFO "NCCL_ALGO set to Tree\nNCCL_ALGO=Ring\n", BB_FACT_ALGORITHM, 0, "Tree"},
	{"NCCL_ALGO=Ring\n" INFO "NCCL_ALGO set to Tree\n", BB_FACT_ALGORITHM, 0, "Tree"},
	/* YAML */
	{"- name: NCCL_ALGO\n  value: Tree\n", BB_FACT_ALGORITHM, 0, "Tree"},
	{"- name: NCCL_ALGO\n  values\n  value: Tree\n", BB_FACT_ALGORITHM, -1, NULL},
	{"- {name: NCCL_ALGO, value: 'Tree'}\n", BB_FACT_ALGORITHM, 0, "Tree"},
	{"- NCCL_ALGO\n  value: Tree\n", BB_FACT_ALGORITHM, -1, NULL},
	/* messages */
	{INFO "24 coll channels, 0 nvls\n", BB_FACT_CHANNELS, 24, NULL},
	{INFO "0 coll channels, 0 nvls\n", BB_FACT_CHANNELS, -1, NULL},
	{INFO "1023 coll channels\n", BB_FACT_CHANNELS, 1023, NULL},
	{INFO "1024 coll channels\n", BB_FACT_CHANNELS, -1, NULL},
	{INFO "24 channels\n", BB_FACT_CHANNELS, -1, NULL},
	{INFO "Channel 00/16 : 0 1\n", BB_FACT_CHANNELS, 16, NULL},
	{INFO "Channel 00/16 0 1\n", BB_FACT_CHANNELS, -1, NULL},
	{INFO "+ NET[12.5] - NET/0\n", BB_FACT_NIC_RATE, 100, NULL},
	{INFO "+ NET[12.55] - NET/0\n", BB_FACT_NIC_RATE, 100, NULL},
	{INFO "NET/IB : Using [0]a:1/IB [1]b:1/RoCE [2]c:1/IB [RO]\n", BB_FACT_NICS, 2, NULL},
	{INFO "NET/IB : Using [0]a:1/IB [1]b:1/RoCE [2]c:1/IB [RO]\n", BB_FACT_INFINIBAND, 0, NULL},
	{INFO "NET/IB : Using [0]a:1/RoCE [1]b:1/RoCE [2]c:1/IB [RO]\n", BB_FACT_NICS, 2, NULL},
	{INFO "NET/IB : Using [0]a:1/RoCE [1]b:1/RoCE [2]c:1/IB [RO]\n", BB_FACT_ROCE, 0, NULL},
	{INFO "NET/IB : Using [0]a:1/IB [1]b:1/RoCE\n", BB_FACT_INFINIBAND, 0, NULL},
	{INFO "NET/IB : Using [0]a:1/IB [1]b:1/IB [RO]; OOB x:1/IB [2]y\n", BB_FACT_NICS, 2, NULL},
	{INFO "NET/IB : Using [0]a:1 [RO]\n", BB_FACT_NICS, -1, NULL},
	{INFO "NET/IB : No device found\n", BB_FACT_NICS, -1, NULL},
	{INFO "GPU Direct RDMA Disabled for HCA 0\n", BB_FACT_GDR_OFF, 0, NULL},
	{INFO "Using network SHARP\n", BB_FACT_SHARP, 0, NULL},
	/* A warning that another message explains is no other fact. */
	{"n1 NCCL WARN P2P is disabled between connected GPUs\n", BB_FACT_ERROR, -1, NULL},
	{"n1 NCCL WARN Something\n", BB_FACT_ERROR, 0, NULL},
};

static void test_facts(void **state)
{
	for (size_t i = 0; i < sizeof(facts) / sizeof(facts[0]); i++) {
		struct bb_claim_file file;
		const struct bb_fact *f;
		char text[1024];

		snprintf(text, sizeof(text), "%s" HEAD MB, facts[i].text);
		read_log(text, &file);
		assert_int_equal(file.n, 1);
		f = bb_claims_fact(&file.list[0], facts[i].kind);
		if ((f ? f->value : -1) != facts[i].value ||
		    (f && facts[i].says && strcmp(f->text, facts[i].says) != 0))
			fail_msg("fact %d is %lld, %s: %s", facts[i].kind,
				 f ? (long long)f->value : -1, f ? f->text : "", facts[i].text);
		bb_claims_free(&file);
	}
}

/* An error below the average of a table is no reason of its rows. */
static void test_errors_below_tables(void **state)
{
#define WARNING "n1 NCCL WARN Something\n"
	static const struct {
		const char *text;
		bool first, last; /* tables that have the error */
	} cases[] = {
		{WARNING HEAD MB, true, true},
		{HEAD MB WARNING, true, true},
		{HEAD MB "# Avg bus bandwidth : 175\n" WARNING, false, false},
		{WARNING HEAD MB "# Avg bus bandwidth : 175\n", true, true},
		{HEAD MB WARNING HEAD MB, false, true},
		{HEAD MB "# Avg bus bandwidth : 175\n" WARNING HEAD MB, false, true},
		{HEAD MB HEAD MB WARNING, false, true},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bb_claim_file file;

		read_log(cases[i].text, &file);
		if (cases[i].first != (bb_claims_fact(&file.list[0], BB_FACT_ERROR) != NULL) ||
		    cases[i].last !=
			    (bb_claims_fact(&file.list[file.n - 1], BB_FACT_ERROR) != NULL))
			fail_msg("%s", cases[i].text);
		bb_claims_free(&file);
	}
}

static void test_sockets(void **state)
{
#define TWO_HOSTS RANK("0", "a", "0 [0x1b] X") RANK("1", "b", "0 [0x1b] X")
#define ONE_HOST RANK("0", "a", "0 [0x1b] X") RANK("1", "a", "1 [0x1c] X")
#define ONE_GPU RANK("0", "a", "0 [0x1b] X") RANK("1", "a", "0 [0x1b] X")
#define USING INFO "NET/Socket : Using [0]eth0:1.2.3.4<0>\n"
#define IB INFO "NET/IB : Using [0]mlx5_0:1/IB [RO]\n"
#define ROCE INFO "NET/IB : Using [0]mlx5_0:1/RoCE [RO]\n"
	static const struct {
		const char *text;
		bool is_socket;
	} cases[] = {
		{TWO_HOSTS USING, true},
		{ONE_HOST USING, false},
		{ONE_GPU USING, true}, /* ranks of one GPU use the network */
		{ONE_HOST INFO "Channel 0 via NET/Socket/0\n", true},
		{TWO_HOSTS USING IB, false},
		{TWO_HOSTS USING ROCE, false},
		{TWO_HOSTS USING INFO "Using network AWS Libfabric\n", false},
		{TWO_HOSTS INFO "Using network Socket\n" IB, true},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bb_claim_file file;
		char text[1024];

		snprintf(text, sizeof(text), "%s" HEAD MB, cases[i].text);
		read_log(text, &file);
		if (cases[i].is_socket != (bb_claims_fact(&file.list[0], BB_FACT_SOCKET) != NULL))
			fail_msg("%s", text);
		bb_claims_free(&file);
	}
}

static void test_cards(void **state)
{
	static const struct {
		const char *text, *card;
	} cases[] = {
		{"H100", "H100"},
		{"eight H100s here", "H100"},
		{"(h100)", "H100"},
		{"H100 SXM5", "H100"},
		{"H100-SXM5-80GB", "H100"},
		{"H100 80GB HBM3", "H100"},
		{"H100 PCIe", "H100 PCIe"},
		{"H100-PCIe-80GB", "H100 PCIe"},
		{"NVIDIA H100-PCIE-80GB", "H100 PCIe"},
		{"A100-PCIE-40GB", "A100 PCIe"},
		{"H100 80GB PCIe", "H100 PCIe"},
		{"H100_PCI", NULL}, /* another word */
		{"H100 PCIex", "H100"},
		{"H100 NVL", "H100 NVL"},
		{"H100 NVLs", "H100 NVL"},
		{"H100 NVLink", "H100"},
		{"H100 94GB NVL", "H100 NVL"},
		{"8xH100", "H100"},
		{"8XA100", "A100"},
		{"xH100", NULL},
		{"DGX-A100", "A100"},
		{"HGX-H200", "H200"},
		{"AGX-H200", NULL},
		{"/H100", NULL},
		{"H100x", NULL},
		{"H100-node-1", NULL},
		{"H100.example", NULL},
		{"H100.", "H100"},
		{"H100ss", NULL},
		{"A100 and A100", "A100"},
		{"A100 and H100", NULL},
		{"A100\nno H100", NULL},
		{"nothing", NULL},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bb_claim_file file;
		const struct bb_fact *f;
		char text[512];

		snprintf(text, sizeof(text), "%s\n" HEAD MB, cases[i].text);
		read_log(text, &file);
		f = bb_claims_fact(&file.list[0], BB_FACT_CARD);
		if ((f != NULL) != (cases[i].card != NULL) ||
		    (f && strcmp(f->text, cases[i].card) != 0))
			fail_msg("%s: %s", f ? f->text : "no card", cases[i].text);
		if (f)
			assert_string_equal(f->quote, cases[i].text);
		bb_claims_free(&file);
	}
}

/* A quote has 150 bytes at most, with what matters, and signs where it was cut. */
static void test_quotes(void **state)
{
	char text[1024], want[1024], many[512];
	struct bb_claim_file file;
	const struct bb_fact *f;

	memset(many, 'x', 300);
	many[300] = '\0';
	snprintf(text, sizeof(text), "  \tNCCL_ALGO=Ring\xff\t%s\n" HEAD MB, many);
	read_log(text, &file);
	f = bb_claims_fact(&file.list[0], BB_FACT_ALGORITHM);
	/* 147 bytes, then the three of a sign; a byte of no character is a question mark. */
	snprintf(want, sizeof(want), "NCCL_ALGO=Ring? %.*s\xe2\x80\xa6", 147 - 16, many);
	assert_non_null(f);
	assert_string_equal(f->quote, want);
	bb_claims_free(&file);
	/* AT is byte 300 + 1 + 10: from the first word in the 20 bytes before it. */
	snprintf(text, sizeof(text), "env %.*s ab NCCL_ALGO=Tree  \n" HEAD MB, 300, many);
	read_log(text, &file);
	f = bb_claims_fact(&file.list[0], BB_FACT_ALGORITHM);
	assert_non_null(f);
	assert_string_equal(f->quote, "\xe2\x80\xa6"
				      "ab NCCL_ALGO=Tree");
	assert_int_equal(f->line, 1);
	bb_claims_free(&file);
}

/* ---- ranks by ratios ------------------------------------------------------------------------- */

/* Rows of 100 GB/s with these bus bandwidths. */
static bool ranks_of(const double *busbw, size_t n, const char *collective, int64_t *least,
		     int64_t *most)
{
	struct bb_claim rows[40];
	const struct bb_claims claims = {.rounding = 0.0051, .list = rows, .n = n};

	for (size_t i = 0; i < n; i++)
		rows[i] = (struct bb_claim){.size_bytes = 1 << 20,
					    .time_us = 1,
					    .algbw_GBps = busbw[i] < 0 ? 0.5 : 100,
					    .busbw_GBps = fabs(busbw[i])};
	return bb_claims_ranks(&claims, collective, least, most);
}

/* 175 of 100 GB/s is 2(n-1)/n of 8 ranks. */
static void test_ranks_by_ratios(void **state)
{
	double rows[40];
	int64_t least, most;

	for (int i = 0; i < 40; i++)
		rows[i] = 175;
	assert_true(ranks_of(rows, 3, "all_reduce", &least, &most));
	assert_int_equal(least, 8);
	assert_int_equal(most, 8);
	/* One of three is no misprint, one of four is, wherever it is. */
	rows[1] = 150;
	assert_false(ranks_of(rows, 3, "all_reduce", &least, &most));
	assert_true(least > most);
	for (int at = 0; at < 4; at++) {
		rows[0] = rows[1] = rows[2] = rows[3] = 175;
		rows[at] = 150;
		assert_true(ranks_of(rows, 4, "all_reduce", &least, &most));
		assert_int_equal(least, 8);
		assert_int_equal(most, 8);
	}
	rows[0] = rows[1] = 150;
	rows[3] = 175;
	assert_false(ranks_of(rows, 5, "all_reduce", &least, &most));
	assert_false(ranks_of(rows, 19, "all_reduce", &least, &most));
	/* Two of 20, three of 30. */
	assert_true(ranks_of(rows, 20, "all_reduce", &least, &most));
	assert_int_equal(least, 8);
	rows[2] = 150;
	assert_false(ranks_of(rows, 29, "all_reduce", &least, &most));
	assert_true(ranks_of(rows, 30, "all_reduce", &least, &most));
	/* Slow rows have no digits. */
	rows[0] = -0.5;
	rows[1] = rows[2] = 175;
	assert_true(ranks_of(rows, 3, "all_reduce", &least, &most));
	assert_int_equal(most, 8);
	assert_false(ranks_of(rows, 1, "all_reduce", &least, &most));
	assert_int_equal(least, 1);
	assert_int_equal(most, 0);
	/* (n-1)/n: 87.5 +- 0.0051 of 100 +- 0.0051 is 0.87490 to 0.87510, 7.994 to 8.006 ranks. */
	rows[0] = 87.5;
	assert_true(ranks_of(rows, 1, "reduce_scatter", &least, &most));
	assert_int_equal(least, 8);
	assert_int_equal(most, 8);
	/* 99.9 is 0.9989 to 0.9991: 909.5 to 1113.5 ranks by hand: 1 / (1 - 0.998898) = 907.6,
	   1 / (1 - 0.999102) = 1113.6. */
	rows[0] = 99.9;
	assert_true(ranks_of(rows, 1, "alltoall", &least, &most));
	assert_int_equal(least, 908);
	assert_int_equal(most, 1113);
	/* 99.995 may be 1, which no number reaches. */
	rows[0] = 99.995;
	assert_true(ranks_of(rows, 1, "gather", &least, &most));
	assert_int_equal(most, 1000000000);
	assert_int_equal(least, 6580); /* 100.0051 / 0.0152 = 6579.3 */
	/* Half of 100 is 2 ranks, less is none. */
	rows[0] = 50;
	assert_true(ranks_of(rows, 1, "scatter", &least, &most));
	assert_int_equal(least, 2);
	assert_int_equal(most, 2);
	rows[0] = 49;
	assert_false(ranks_of(rows, 1, "scatter", &least, &most));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_lists_of_ranks),
		cmocka_unit_test(test_osu),
		cmocka_unit_test(test_titles_of_osu),
		cmocka_unit_test(test_wrapped),
		cmocka_unit_test(test_facts),
		cmocka_unit_test(test_errors_below_tables),
		cmocka_unit_test(test_sockets),
		cmocka_unit_test(test_cards),
		cmocka_unit_test(test_quotes),
		cmocka_unit_test(test_ranks_by_ratios),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
