/*
 * The rules by which the reader of logs tells runs, tags, rows, footers and command lines apart,
 * one case for each branch.
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

#define AVERAGE "# Avg bus bandwidth    : 7.5\n"

/* Reads TEXT; tables: -1 if it is refused. */
static int read_all(const char *text, struct bb_claim_file *file)
{
	struct bb_error error = {0};

	return bb_claims_read("log", text, strlen(text), file, &error) == BB_OK ? (int)file->n : -1;
}

static void read_tables(const char *text, int tables, struct bb_claim_file *file)
{
	const int n = read_all(text, file);

	if (n != tables)
		fail_msg("%d tables, not %d: %s", n, tables, text);
}

/* ---- command lines -------------------------------------------------------------------------- */

/* Without rows, nothing contradicts the ranks of the command. */
static void test_commands(void **state)
{
	static const struct {
		const char *text;
		int64_t ranks, hosts;
	} cases[] = {
		{"mpirun -np 6 ./all_reduce_perf", 6, 0},
		{"mpirun --np 6 -N 3 ./all_reduce_perf", 6, 2},
		{"mpirun -n 7 -N 2 ./all_reduce_perf", 7, 0},
		{"mpirun -n 2 -N 2 ./all_reduce_perf", 2, 1},
		{"mpirun -N 2 ./all_reduce_perf", 0, 0},
		{"mpirun -H a:4,b:4,c:4 ./all_reduce_perf", 12, 3},
		{"mpirun -H a:4,b:2 ./all_reduce_perf", 6, 2}, /* 3 of each: the sum counts */
		{"mpirun -H a:4,b:3 ./all_reduce_perf", 0, 0},
		{"mpirun -H a,b ./all_reduce_perf", 0, 0},
		{"mpirun -H a,b -np 6 ./all_reduce_perf", 6, 2},
		{"mpirun -H a,a,b,b ./all_reduce_perf", 4, 2},
		{"mpirun -H a:2,ab:2 ./all_reduce_perf", 4, 2},
		{"mpirun -H ab:2,ac:2 ./all_reduce_perf", 4, 2},
		{"mpirun -np 6 -H ab,a,ab ./all_reduce_perf", 6, 3},
		{"mpirun -np 6 -H ,a,,a ./all_reduce_perf", 6, 2}, /* an empty name parts them */
		{"mpirun -np 6 -H a: ./all_reduce_perf", 6, 1},
		{"mpirun -H a:3000000,b:3000000 ./all_reduce_perf", 1000000, 2},
		{"mpirun -H a:3,b:-1 ./all_reduce_perf", 0, 0}, /* 3 slots */
		{"mpirun -np 4 -H :2,:2 ./all_reduce_perf", 4, 0},
		{"mpirun -np 4 -H $HOSTS ./all_reduce_perf", 4, 0},
		{"mpirun -np 4 -H {a,b} ./all_reduce_perf", 4, 0},
		{"mpirun -np 4 -H [a,b] ./all_reduce_perf", 4, 0},
		{"mpirun -np 4 -host a,b ./all_reduce_perf", 4, 2},
		{"mpirun -np 4 --hosts=a,b ./all_reduce_perf", 4, 2},
		{"mpirun -np 4 ./all_reduce_perf -t 3 -g 2", 24, 0},
		{"mpirun -np 4 -npernode 2 ./all_reduce_perf -t3 -g2", 24, 2},
		{"mpirun -np 4 ./all_reduce_perf --nthreads 3 --ngpus=2", 24, 0},
		{"mpirun -np 4 -g 2 ./all_reduce_perf", 4, 0}, /* not the launcher's */
		{"mpirun -np 4 ./all_reduce_perf -np 5", 4, 0},
		{"mpirun --map-by ppr:4:node -np 8 ./all_reduce_perf", 8, 2},
		{"mpirun --map-by ppr:4:node -H a,b ./all_reduce_perf", 8, 2},
		{"mpirun --map-by ppr:4:socket -np 8 ./all_reduce_perf", 8, 0},
		{"mpirun --map-by ppr:x:node -np 8 ./all_reduce_perf", 8, 0},
		{"mpiexec.hydra -ppn 4 -n 8 ./all_reduce_perf", 8, 2},
		{"/usr/bin/orterun -np 3 ./all_reduce_perf", 3, 0},
		{"mpirun -np 12345678 ./all_reduce_perf", 1000000, 0},
		{"mpirun -np 123456789 ./all_reduce_perf", 0, 0}, /* too long for a number */
		{"mpirun -np 4 ./all_reduce_perf -g 2.5", 4, 0},
		{"mpirun -np 4 ./all_reduce_perf -g 0", 4, 0},
		{"srun -N2 -n16 ./all_reduce_perf", 16, 2},
		{"srun --nodes=2 --ntasks=16 ./all_reduce_perf", 16, 2},
		{"srun --nodes=2 --ntasks-per-node=8 ./all_reduce_perf", 16, 2},
		{"srun -n 8 ./all_reduce_perf", 8, 0},
		{"#SBATCH -N 3\n#SBATCH -n 6\nsrun ./all_reduce_perf", 6, 3},
		/* mpirun is another command than the lines of sbatch */
		{"#SBATCH -N 3\n#SBATCH -n 6\nmpirun ./all_reduce_perf", 0, 0},
		{"./all_reduce_perf -g 4", 4, 1},
		{"all_reduce_perf -t 2 -g 4", 8, 1},
		{"./all_reduce_perf", 0, 0},
		{"mpirun 4 ./all_reduce_perf -g 2", 2, 1}, /* a sentence with "mpirun" */
		{"mpirun\n./all_reduce_perf -g 2", 0, 0},  /* of unknown processes */
		{"see mpirun\n./all_reduce_perf -g 2", 2, 1},
		{"mpirun -np 4 \\\n-N 2 \\\n./all_reduce_perf \\\n-g 2", 8, 2},
		{"mpirun -np 4\n-N 2\n./all_reduce_perf\n-g 2", 4, 0},
		{"mpirun -np 4 ./all_reduce_perf -g 2\nmpirun -np 6 ./all_reduce_perf", 6, 0},
		{"mpirun -np 4 ./all_reduce_perf -g 2\n./all_reduce_perf -g 3", 3, 1},
		{"mpirun -np 4 -N 2 ./all_reduce_perf\n"
		 "# nThread 2 nGpus 4 minBytes 8 maxBytes 64 step: 4(factor)",
		 32, 2},
		{"# nThread 2 nGpus 4 minBytes 8 maxBytes 64 step: 4(factor)", 0, 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bb_claim_file file;
		char text[512];

		snprintf(text, sizeof(text), "%s\n" AVERAGE, cases[i].text);
		read_tables(text, 1, &file);
		if (file.list[0].nranks != cases[i].ranks || file.list[0].hosts != cases[i].hosts)
			fail_msg("%lld ranks, %lld hosts: %s", (long long)file.list[0].nranks,
				 (long long)file.list[0].hosts, text);
		bb_claims_free(&file);
	}
}

static void test_settings_of_commands(void **state)
{
	static const struct {
		const char *text, *collective, *type;
		uint64_t least, most, step;
		double factor;
	} cases[] = {
		{"./all_reduce_perf -b 8 -e 128M -f 2 -i 16", "all_reduce", "", 8, 128 << 20, 0, 2},
		{"./all_gather_perf -b 1K -e 1G -i 1M", "all_gather", "", 1024, 1 << 30, 1 << 20,
		 0},
		{"./alltoall_perf -f 1 -i 8 -d half", "alltoall", "half", 0, 0, 8, 0},
		{"./broadcast_perf_mpi -d nonsense", "broadcast", "", 0, 0, 0, 0},
		{"./reduce_perf --minbytes=8 --maxbytes=64 --stepfactor=4 --datatype=double",
		 "reduce", "double", 8, 64, 0, 4},
		{"./reduce_perf --stepbytes 32 -b x -e 64", "reduce", "", 0, 64, 32, 0},
		{"/opt/a_perf/scatter_perf. -b 8", "scatter", "", 8, 0, 0, 0},
		{"mpirun -np 4 ./osu_allreduce -b 8", "all_reduce", "", 8, 0, 0, 0},
		{"mpirun -np 4 ./osu_bcast", "broadcast", "", 0, 0, 0, 0},
		{"mpirun -np 4 ./osu_reduce_scatter", "reduce_scatter", "", 0, 0, 0, 0},
		{"mpirun -np 4 ./osu_latency", "", "", 0, 0, 0, 0},
		{"./gather_perf -b 8\nall_reduce_perf-worker-0 -b 16", "gather", "", 8, 0, 0, 0},
		{"./gather_perf -b 8\n./unheard_of_perf -b 16", "gather", "", 8, 0, 0, 0},
		{"./gather_perf -b 8 ./scatter_perf -b 16", "scatter", "", 16, 0, 0, 0},
		/* What the benchmark prints wins over the command. */
		{"./gather_perf -b 8\n# nThread 1 nGpus 1 minBytes 2 maxBytes 4 step: 16(bytes)",
		 "gather", "", 2, 4, 16, 0},
		{"./gather_perf -b 8\n# nThread 1 nGpus 1 minBytes 2 maxBytes 4 step: 3(factor)",
		 "gather", "", 2, 4, 0, 3},
		{"# Collective test starting: gather_perf", "gather", "", 0, 0, 0, 0},
		{"./scatter_perf\n# Collective test starting: gather_perf", "gather", "", 0, 0, 0,
		 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bb_claim_file file;
		const struct bb_claims *c;
		char text[512];

		snprintf(text, sizeof(text), "%s\n" AVERAGE, cases[i].text);
		read_tables(text, 1, &file);
		c = &file.list[0];
		if (strcmp(c->collective, cases[i].collective) != 0 ||
		    strcmp(c->type, cases[i].type) != 0 || c->least_bytes != cases[i].least ||
		    c->most_bytes != cases[i].most || c->step_bytes != cases[i].step ||
		    c->factor != cases[i].factor)
			fail_msg("%s %s, %llu to %llu by %llu or %g: %s", c->collective, c->type,
				 (unsigned long long)c->least_bytes,
				 (unsigned long long)c->most_bytes,
				 (unsigned long long)c->step_bytes, c->factor, text);
		bb_claims_free(&file);
	}
}

/* ---- tags ----------------------------------------------------------------------------------- */

/* Headings and rows of two tags are two runs, if the tags are such. */
static void test_tags(void **state)
{
	static const struct {
		const char *a, *b;
		int tables;
	} cases[] = {
		{"n1: ", "n2: ", 2},
		{"[1,0]<stdout>:", "[1,8]<stdout>:", 2},
		{"[1,0]<stdout>: ", "[1,8]<stdout>: ", 2},
		{"(w pid=11) ", "(w pid=12) ", 2},
		{"(w pid=11, ip=1) ", "(w pid=12, ip=1) ", 2},
		{"pod-a | ", "pod-b | ", 2},
		{"pod-a  |", "pod-b  |", 2},
		{"12:00:01 n1: ", "12:00:01 n2: ", 2},
		{"[12:00:01] n1: ", "[12:00:01] n2: ", 2},
		{"2026-01-01T00:00:00.123Z n1: ", "2026-01-01T00:00:00.123Z n2: ", 2},
		{"n1: stdout F ", "n2: stdout F ", 2},
		{"stderr F n1: ", "stderr F n2: ", 2},
		{"stdout F n1: 7.250 ", "stdout F n2: 7.250 ", 2},
		/* no tags: the rows are one table */
		{"(a) ", "(b) ", 1},
		{"(pid=1 ", "(pid=2 ", 1},
		{"value:a: ", "value:b: ", 1},
		{"name:a: ", "name:b: ", 1},
		{"stdout P a ", "stdout P b ", 1},
		{"a ", "b ", 1},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *const a = cases[i].a, *const b = cases[i].b;
		struct bb_claim_file file;
		char text[2048];

		snprintf(text, sizeof(text),
			 "%sCollective test starting: all_reduce_perf\n"
			 "%sCollective test starting: all_gather_perf\n"
			 "%s" FAST_1G "%s" SLOW_1G "%s" FAST_2G "%s" SLOW_2G,
			 a, b, a, b, a, b);
		read_tables(text, cases[i].tables, &file);
		for (int k = 0; cases[i].tables == 2 && k < 2; k++) {
			assert_int_equal(file.list[k].n, 4);
			assert_string_equal(file.list[k].collective,
					    k == 0 ? "all_reduce" : "all_gather");
		}
		bb_claims_free(&file);
	}
}

/* Dates, times and bare numbers before a row are no part of its tag. */
static void test_times_are_no_tags(void **state)
{
	static const struct {
		const char *a, *b;
		int tables;
	} cases[] = {
		{"10:00:01 ", "10:00:02 ", 1},
		{"1:2:3 ", "1:2:4 ", 1},
		{"1:2 ", "1:3 ", 2},   /* two digits */
		{"1:23 ", "1:24 ", 2}, /* one mark */
		{"1-23-4 ", "1-24-5 ", 1},
		{"2026/01/02 ", "2026/01/03 ", 1},
		{"12.5 ", "12.6 ", 1},
		{"1.5 ", "1.6 ", 2},
		{"7 ", "8 ", 1},
		{"2026-01-01T00:00:00.123Z ", "2026-01-01T00:00:01.123Z ", 1},
		{"10:00:01+02:00 ", "10:00:02+02:00 ", 1},
		{"[10:00:01,5] ", "[10:00:02,5] ", 1},
		{"10:00:0a ", "10:00:0b ", 2},
		{"a1 ", "a2 ", 2},
		{"10:00:01 a1 ", "10:00:02 a1 ", 1},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bb_claim_file file;
		char text[1024];

		snprintf(text, sizeof(text), "%s" FAST_1G "%s" FAST_2G, cases[i].a, cases[i].b);
		read_tables(text, cases[i].tables, &file);
		bb_claims_free(&file);
	}
}

/* ---- rows ----------------------------------------------------------------------------------- */

/* size / time / 1000 is 100 GB/s: the tolerance is 0.0051 + (0.002 + 0.0051 / 10) * 100 = 0.2561.
 */
#define MB "1000000 250000 float sum -1 "

static void test_rows(void **state)
{
	static const struct {
		const char *text;
		int n, implausible, not_finite, wrong, unchecked,
			unchecked_in_place; /* n -1: refused */
	} cases[] = {
		{MB "10 100.25 175 0\n", 1, 0, 0, 0, 0, 0},
		{MB "10 100.26 175 0\n", 0, 1, 0, 0, 0, 0},
		{MB "10 99.75 175 0\n", 1, 0, 0, 0, 0, 0},
		{MB "10 99.74 175 0\n", 0, 1, 0, 0, 0, 0},
		{MB "10 100 -1 0\n", 0, 1, 0, 0, 0, 0},
		{MB "10 100 0 0\n", 1, 0, 0, 0, 0, 0},
		{MB "0 100 175 0\n", 0, 1, 0, 0, 0, 0},
		{MB "-10 -100 175 0\n", 0, 1, 0, 0, 0, 0},
		{MB "10 100 175 0 10 100 175 0\n", 2, 0, 0, 0, 0, 0},
		/* Halves of one row have one factor. */
		{MB "10 100 175 0 10 100 150 0\n", 1, 1, 0, 0, 0, 0},
		{MB "10 100 150 0 10 100 175 0\n", 1, 1, 0, 0, 0, 0},
		/* Neither half of a row with mixed-up columns decides about the other. */
		{MB "10 120 150 0 10 100 175 0\n", 1, 1, 0, 0, 0, 0},
		{MB "N/A N/A N/A N/A 10 100 175 0\n", 1, 0, 0, 0, 0, 0},
		{MB "10 100 175 0 N/A N/A N/A N/A\n", 1, 0, 0, 0, 0, 0},
		{MB "10 100 nan 0 10 100 175 0\n", 1, 0, 1, 0, 0, 0},
		{MB "10 100 -nan 0 10 100 inf 0\n", 0, 0, 2, 0, 0, 0},
		{MB "0 inf inf 0\n", 0, 0, 1, 0, 0, 0},
		{MB "10 100 175 N/A 10 100 175 0\n", 2, 0, 0, 0, 1, 0},
		{MB "10 100 175 0 10 100 175 N/A\n", 2, 0, 0, 0, 1, 1},
		{MB "10 100 175 N/A 10 100 175 N/A\n", 2, 0, 0, 0, 2, 1},
		{MB "10 100 175 1 10 100 175 7\n", 2, 0, 0, 2, 0, 0},
		{MB "10 100 175 0.5 10 100 175 1e-07*\n", 2, 0, 0, 1, 0, 0},
		/* What is implausible is neither wrong nor unchecked. */
		{MB "10 120 175 3 10 120 175 N/A\n", 0, 2, 0, 0, 0, 0},
		/* "1.1e+07" has two digits: within 6% the bandwidth tells the time. */
		{"1099511627776 1 float sum -1 1.1e+07 95.00 166.25 0\n", 1, 0, 0, 0, 0, 0},
		{"1099511627776 1 float sum -1 1.1e+07 94.00 164.50 0\n", 0, 1, 0, 0, 0, 0},
		{"1099511627776 1 float sum -1 11000000 95.00 166.25 0\n", 0, 1, 0, 0, 0, 0},
		/* without redop, without root */
		{"1000000 250000 float 10 100 175 0\n", 1, 0, 0, 0, 0, 0},
		{"1000000 250000 float sum 10 100 175 0\n", 1, 0, 0, 0, 0, 0},
		{"1000000 250000 float 0 10 100 175 0 10 100 175 0\n", 2, 0, 0, 0, 0, 0},
		/* cut */
		{MB "10 100 175\n", -1, 0, 0, 0, 0, 0},
		{MB "10 100 175 0 10 100\n", -1, 0, 0, 0, 0, 0},
		{MB "10 100 175 0\n" MB "10 100\n", 1, 0, 0, 0, 0, 0},
		/* A row that is as large as the one above it has as many columns. */
		{MB "10 100 175 0 10 100 175 0\n" MB "10 100 175 0\n", 2, 0, 0, 0, 0, 0},
		{MB "10 100 175 0 10 100 175 0\n" MB "10 100 175 0\n10 100 175 0\n", 4, 0, 0, 0, 0,
		 0},
		/* no rows */
		{"0 0 float sum -1 10 100 175 0\n", -1, 0, 0, 0, 0, 0},
		{"1000000 250000 words sum -1 10 100 175 0\n", -1, 0, 0, 0, 0, 0},
		{"1000000 x float sum -1 10 100 175 0\n", -1, 0, 0, 0, 0, 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bb_claim_file file;
		const struct bb_claims *c;

		read_tables(cases[i].text, cases[i].n < 0 ? -1 : 1, &file);
		if (cases[i].n < 0)
			continue;
		c = &file.list[0];
		if ((int)c->n != cases[i].n || (int)c->implausible != cases[i].implausible ||
		    (int)c->not_finite != cases[i].not_finite || (int)c->wrong != cases[i].wrong ||
		    (int)c->unchecked != cases[i].unchecked ||
		    (int)c->unchecked_in_place != cases[i].unchecked_in_place)
			fail_msg("%zu, %zu implausible, %zu not finite, %zu wrong, %zu unchecked, "
				 "%zu in place: %s",
				 c->n, c->implausible, c->not_finite, c->wrong, c->unchecked,
				 c->unchecked_in_place, cases[i].text);
		bb_claims_free(&file);
	}
}

static void test_columns(void **state)
{
	struct bb_claim_file file;

	read_tables("# out-of-place in-place\n" MB "10 100 175 0\n", 1, &file);
	assert_false(file.list[0].list[0].in_place);
	bb_claims_free(&file);
	read_tables("# in-place\n" MB "10 100 175 1\n", 1, &file);
	assert_true(file.list[0].list[0].in_place);
	assert_true(file.list[0].list[0].wrong);
	assert_string_equal(file.list[0].op, "sum");
	assert_string_equal(file.list[0].root, "-1");
	bb_claims_free(&file);
	/* A heading ends what the one above said of placements and columns. */
	read_tables("# in-place\n" MB "10 100 175 0\n# out-of-place\n" MB "10 100 175 0\n", 2,
		    &file);
	assert_true(file.list[0].list[0].in_place);
	assert_false(file.list[1].list[0].in_place);
	bb_claims_free(&file);
	read_tables("1000000 250000 float 3 20 50 87.5 0 10 100 175 0\n", 1, &file);
	assert_string_equal(file.list[0].op, "");
	assert_string_equal(file.list[0].root, "3");
	assert_float_equal(file.list[0].list[0].time_us, 20, 1e-9);
	assert_float_equal(file.list[0].list[0].algbw_GBps, 50, 1e-9);
	assert_float_equal(file.list[0].list[0].busbw_GBps, 87.5, 1e-9);
	assert_false(file.list[0].list[0].in_place);
	assert_float_equal(file.list[0].list[1].time_us, 10, 1e-9);
	assert_true(file.list[0].list[1].in_place);
	assert_int_equal(file.list[0].list[1].size_bytes, 1000000);
	assert_float_equal(file.list[0].rounding, 0.0051, 1e-12);
	bb_claims_free(&file);
	/* 1099511627776 bytes at 95 GB/s last 11573806.6 us, which were printed as 1.1e+07. */
	read_tables("1099511627776 1 float sum -1 1.1e+07 95.00 166.25 0\n", 1, &file);
	assert_float_equal(file.list[0].list[0].time_us, 11573806.6, 0.1);
	bb_claims_free(&file);
}

/* Size, count and datatype prove the ranks of a gather, if all rows agree. */
static void test_ranks_by_rows(void **state)
{
	static const struct {
		const char *rows;
		int64_t ranks;
	} cases[] = {
		{"4000000 1000000 int8 none -1 40 100 75 0\n", 4},
		{"4000000 500000 uint16 none -1 40 100 75 0\n", 4},
		{"4000000 500000 bfloat16 none -1 40 100 75 0\n", 4},
		{"4000000 1000000 f8e4m3 none -1 40 100 75 0\n", 4},
		{"4000000 125000 double none -1 40 100 75 0\n", 4},
		{"4000000 250000 float none -1 40 100 75 0\n", 4},
		{"4000000 250000 float none -1 40 100 50 0\n", 0}, /* the ratio is that of 2 */
		{"4000000 1000000 float none -1 40 100 75 0\n", 0},
		{"4000000 300000 float none -1 40 100 75 0\n", 0},
		{"4000000 250000 float none -1 40 100 75 0\n"
		 "8000000 500000 float none -1 80 100 75 0\n",
		 4},
		{"4000000 250000 float none -1 40 100 75 0\n"
		 "8000000 1000000 float none -1 80 100 75 0\n",
		 0},
		{"4000000 1000000 float none -1 40 100 75 0\n"
		 "8000000 500000 float none -1 80 100 75 0\n",
		 0},
	};
	static const struct {
		const char *text;
		int64_t ranks;
	} starts[] = {
		{"# Collective test starting: all_gather_perf\n", -1},
		{"", -1},
		{"# Collective test starting: reduce_scatter_perf\n", -1},
		{"# Collective test starting: all_reduce_perf\n", 0}, /* has no shares */
	};

	for (size_t s = 0; s < sizeof(starts) / sizeof(starts[0]); s++)
		for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
			const int64_t ranks =
				starts[s].ranks < 0 ? cases[i].ranks : starts[s].ranks;
			struct bb_claim_file file;
			char text[512];

			snprintf(text, sizeof(text), "%s%s", starts[s].text, cases[i].rows);
			read_tables(text, 1, &file);
			if (file.list[0].nranks != ranks)
				fail_msg("%lld ranks: %s", (long long)file.list[0].nranks, text);
			bb_claims_free(&file);
		}
}

/* ---- footers -------------------------------------------------------------------------------- */

static void test_averages(void **state)
{
	static const struct {
		const char *text;
		int tables;
		double average; /* of the last table */
	} cases[] = {
		{"# Avg bus bandwidth : 100\n", 1, 100},
		{"# Avg bus bandwidth: 100\n", 0, 0}, /* another sentence */
		{"# Avg bus bandwidth :100\n", 1, 100},
		{"# Avg bus bandwidth 100\n", 1, 100},
		{"see Avg bus bandwidth : 100\n", 1, 100},
		{"they see Avg bus bandwidth : 100\n", 0, 0},
		{"# Avg bus bandwidth : 0\n", 0, 0},
		{"# Avg bus bandwidth : -3\n", 0, 0},
		{"# Avg bus bandwidth : inf\n", 0, 0},
		{"# Avg bus bandwidth : none\n", 0, 0},
		{"# Avg bus bandwidth : 999999\n", 1, 999999},
		{"# Avg bus bandwidth : 1000000\n", 0, 0},
		{"# Avg bus bandwidth : 100\n# Avg bus bandwidth : 100\n", 1, 100},
		{"# Avg bus bandwidth : 100\n# Avg bus bandwidth : 200\n", 2, 200},
		{"# Avg bus bandwidth : 100\n" HEAD "# Avg bus bandwidth : 100\n", 2, 100},
		{"# Avg bus bandwidth : 100\n# Collective test starting: all_reduce_perf\n"
		 "# Avg bus bandwidth : 100\n",
		 2, 100},
		/* The average of rows is no table; of three mixed runs neither are the next two. */
		{HEAD FAST_1G "# Avg bus bandwidth : 100\n", 1, 0},
		{HEAD FAST_1G "# Avg bus bandwidth : 100\n# Avg bus bandwidth : 200\n", 2, 200},
		{HEAD HEAD HEAD FAST_1G "# Avg bus bandwidth : 100\n# Avg bus bandwidth : 200\n"
					"# Avg bus bandwidth : 300\n",
		 1, 0},
		{HEAD HEAD HEAD FAST_1G "# Avg bus bandwidth : 100\n# Avg bus bandwidth : 200\n"
					"# Avg bus bandwidth : 300\n# Avg bus bandwidth : 400\n",
		 2, 400},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bb_claim_file file;

		read_tables(cases[i].text, cases[i].tables ? cases[i].tables : -1, &file);
		if (cases[i].tables > 0)
			assert_float_equal(file.list[file.n - 1].average_GBps, cases[i].average,
					   1e-9);
		bb_claims_free(&file);
	}
}

static void test_bounds(void **state)
{
#define BAD "1000000 250000 float sum -1 10 100 175 5 10 100 175 0\n"
	static const struct {
		const char *text;
		int wrong;
	} cases[] = {
		{HEAD FAST_1G "# Out of bounds values : 0 OK\n", 0},
		{HEAD FAST_1G "# Out of bounds values : 1 FAILED\n", 1},
		{HEAD FAST_1G "# Out of bounds values : 2 FAILED\n", 2},
		{HEAD FAST_1G "# Out of bounds values : 9 FAILED\n", 2},
		{HEAD FAST_1G "# Out of bounds values : 0 FAILED\n", 2},
		{HEAD FAST_1G "# Out of bounds values : 9\n", 0},
		{HEAD FAST_1G "# Out of bounds values : FAILED\n", 0},
		{HEAD BAD "# Out of bounds values : 9 FAILED\n", 1},
		{HEAD BAD "# Out of bounds values : 0 OK\n", 1},
		/* Without the heading the number may be an error that is allowed. */
		{BAD, 1},
		{BAD "# Out of bounds values : 0 OK\n", 0},
		{BAD "# Out of bounds values : 5 OK\n", 1},
		{BAD "# Out of bounds values : 5 FAILED\n", 1},
		{BAD "# Out of bounds values : 0 OK\n# Out of bounds values : 1 FAILED\n", 1},
		{"# Out of bounds values : 1 FAILED\n" FAST_1G, 0},
		/* One of two mixed runs failed: the footer does not tell which. */
		{HEAD HEAD FAST_1G "# Out of bounds values : 1 FAILED\n", 0},
		{"# Collective test starting: all_reduce_perf\n"
		 "# Out of bounds values : 2 FAILED\n" AVERAGE
		 "# Out of bounds values : 2 FAILED\n",
		 1}, /* no rows */
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bb_claim_file file;

		read_tables(cases[i].text, 1, &file);
		if ((int)file.list[0].wrong != cases[i].wrong)
			fail_msg("%zu wrong: %s", file.list[0].wrong, cases[i].text);
		bb_claims_free(&file);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_commands),      cmocka_unit_test(test_settings_of_commands),
		cmocka_unit_test(test_tags),          cmocka_unit_test(test_times_are_no_tags),
		cmocka_unit_test(test_rows),          cmocka_unit_test(test_columns),
		cmocka_unit_test(test_ranks_by_rows), cmocka_unit_test(test_averages),
		cmocka_unit_test(test_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
