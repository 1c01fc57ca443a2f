#include "collectives/collective.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#define MAX_ARGS 48

/* The words of LINE, behind a program's name, into ARGV; the words live in COPY. */
static int split_line(const char *line, char *copy, size_t room, char **argv)
{
	static char program[] = "all_reduce_perf";
	char *word, *rest = NULL;
	int argc = 0;

	argv[argc++] = program;
	assert_true(strlen(line) < room);
	memcpy(copy, line, strlen(line) + 1);
	for (word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
		assert_true(argc < MAX_ARGS - 1);
		argv[argc++] = strcmp(word, "''") == 0 ? word + 2 : word;
	}
	argv[argc] = NULL;
	return argc;
}

struct reading {
	char copy[512];
	char *argv[MAX_ARGS];
	struct bb_options options;
	struct bb_collective_options asked;
	struct bb_error error;
};

static bb_status read_env(struct reading *r, const struct bb_collective *collective,
			  const char *line, struct bb_environment environment)
{
	const struct bb_benchmark benchmark = bb_collective_benchmark(collective);
	int argc;

	memset(r, 0, sizeof(*r));
	argc = split_line(line, r->copy, sizeof(r->copy), r->argv);
	return bb_options_read(&r->options, &benchmark, &r->asked, argc, r->argv, &environment,
			       &r->error);
}

static bb_status read_line(struct reading *r, const char *line)
{
	return read_env(r, &bb_all_reduce, line, (struct bb_environment){.nccl_algo = NULL});
}

static const struct {
	const char *line;
	bb_status status;
	const char *says; /* part of the sentence */
} bad[] = {
	{"--nonsense", BB_EUSAGE, "nonsense"},
	{"--minbyte 1M --ngpu", BB_EUSAGE, "ngpu"},
	{"-q 1", BB_EUSAGE, "q"},
	{"operand", BB_EUSAGE, "operand"},
	{"-b", BB_EUSAGE, "b"},
	{"-b 2M -e 1M", BB_EUSAGE, "2M"},
	{"-b 64M", BB_EUSAGE, "-b 64M is above -e 32M (the default)"},
	{"-e 1M", BB_EUSAGE, "-b 32M (the default) is above -e 1M;"},
	{"-b 0", BB_EUSAGE, "0"},
	{"-b -1", BB_EUSAGE, "-1"},
	{"-b 12Q", BB_EUSAGE, "12Q"},
	{"-b 1e400", BB_EUSAGE, "1e400"},
	{"-b 99999999999999999999", BB_EUSAGE, "99999999999999999999"},
	{"-e 17179869184G", BB_EUSAGE, "17179869184G"},
	{"-b ''", BB_EUSAGE, ""},
	{"-e 1M1", BB_EUSAGE, "1M1"},
	{"-i 0", BB_EUSAGE, "0"},
	{"-f 0", BB_EUSAGE, "0"},
	{"-f -2", BB_EUSAGE, "-2"},
	{"-f 1.5", BB_EUSAGE, "1.5"},
	{"-b 1M -e 2M -f 1", BB_EUSAGE, "-f 1 never gets"},
	{"-g 0", BB_EUSAGE, "0"},
	{"-g 100000", BB_EUSAGE, "100000"},
	{"-g -8", BB_EUSAGE, "-8"},
	{"-t 0", BB_EUSAGE, "0"},
	{"-t 1025", BB_EUSAGE, "1025"},
	{"-t 64 -g 64", BB_EUSAGE, "more than 1024 ranks"},
	{"-g 8x", BB_EUSAGE, "8x"},
	{"-n 0", BB_EUSAGE, "0"},
	{"-n 9999999999", BB_EUSAGE, "9999999999"},
	{"-n 9223372036854775808", BB_EUSAGE, "9223372036854775808"},
	{"-m 0", BB_EUSAGE, "0"},
	{"-w -1", BB_EUSAGE, "-1"},
	{"-N -1", BB_EUSAGE, "-1"},
	{"-c -1", BB_EUSAGE, "-1"},
	{"-a 4", BB_EUSAGE, "4"},
	{"-z 4", BB_EUSAGE, "4"},
	{"-I 2", BB_EUSAGE, "2"},
	{"-C yes", BB_EUSAGE, "yes"},
	{"-K 20", BB_EUSAGE, "-K 20"},
	{"-n 5 -K 5", BB_EUSAGE, "-n 5"},
	{"-u -1", BB_EUSAGE, "-1"},
	{"-o summ", BB_EUSAGE, "did you mean sum"},
	{"-o sum,", BB_EUSAGE, "an empty item"},
	{"-o ,sum", BB_EUSAGE, "an empty item"},
	{"-d flaot", BB_EUSAGE, "did you mean float"},
	{"-d float,,int8", BB_EUSAGE, "an empty item"},
	{"-d band -o band", BB_EUSAGE, "band"},
	{"-o band -d float", BB_EUSAGE, "-o band does not take -d float"},
	{"-o maxloc", BB_EUSAGE, "-o maxloc"},
	{"-r -2", BB_EUSAGE, "-2"},
	{"-r first", BB_EUSAGE, "first"},
	{"-r 99999999999", BB_EUSAGE, "99999999999"},
	{"--backend hots", BB_EUSAGE, "did you mean \"host\""},
	{"--backend cuda", BB_EUSAGE, "\"cuda\"; expected auto, "},
	{"--backend mip", BB_EUSAGE, "did you mean \"mpi\""},
	{"--algo native:ring", BB_EUSAGE, "native:ring"},
	{"--algo rnig", BB_EUSAGE, "did you mean \"ring\""},
	{"--algo ring,,tree", BB_EUSAGE, "an empty name"},
	{"--algo ring,all", BB_EUSAGE, "all stands alone"},
	{"--algo ''", BB_EUSAGE, "an empty name"},
	{"--algo a_name_that_is_longer_than_any_name_could_be", BB_EUSAGE, "a_name_that"},
	{"--precision 1", BB_EUSAGE, "1"},
	{"--precision 0%", BB_EUSAGE, "0%"},
	{"--precision 101%", BB_EUSAGE, "101%"},
	{"--max-time soon", BB_EUSAGE, "soon"},
	{"--max-time 0", BB_EUSAGE, "0"},
	{"-T -1", BB_EUSAGE, "-1"},
	{"--cache rotat", BB_EUSAGE, "rotate"},
	{"--seed -1", BB_EUSAGE, "-1"},
	{"--fault", BB_EUSAGE, "fault"},
	{"--fault corrupt", BB_EUSAGE, "incomplete; give corrupt:RANK"},
	{"--fault corrupt:", BB_EUSAGE, "\"\" is not a rank or node; give corrupt:RANK"},
	{"--fault corrupt:-1", BB_EUSAGE, "\"-1\" is not a rank or node; give corrupt:RANK"},
	{"--fault corrupt:1:2", BB_EUSAGE, "\"2\" is too much; give corrupt:RANK"},
	{"--fault slow:1", BB_EUSAGE, "incomplete; give slow:RANK:TIME"},
	{"--fault slow:1:often", BB_EUSAGE, "\"often\" is not a time; give slow:RANK:TIME"},
	{"-g 2 --backend sim --link 1GB/s --fault slow_link:0:1:0.5", BB_EUSAGE,
	 "\"0.5\" is not a factor above 1"},
	{"--fault corupt:1", BB_EUSAGE,
	 "\"corupt\" is not a fault here; did you mean corrupt:RANK?"},
	{"--fault explode:1", BB_EUSAGE, "die:RANK"},
	{"--fault corrupt:0 -c 0", BB_EUSAGE, "-c 0"},
	{"--link fast", BB_EUSAGE, "fast"},
	{"--link 0", BB_EUSAGE, "out of range"},
	{"--link 10", BB_EUSAGE, "10GB/s"},
	{"--link 10b/s", BB_EUSAGE, "out of range"},
	{"--link 2000TB/s", BB_EUSAGE, "out of range"},
	{"--link 1GB/s,2m", BB_EUSAGE, "out of range"},
	{"--link 1GB/s,5", BB_EUSAGE, "not a link"}, /* 5 what? */
	{"--fault die:0 --fault slow:1:1ms", BB_EUSAGE, "only one fault"},
	{"--algo ring,", BB_EUSAGE, "an empty name"},
	{"--algo ''", BB_EUSAGE, "an empty name"},
	{"-d float,,half", BB_EUSAGE, "an empty item"},
	{"--explain -o max", BB_EUSAGE, "sums"},
	{"--explain -o sum,max", BB_EUSAGE, "sums"},
	{"--explain -b 1G", BB_EUSAGE, "4 to 4096 bytes"},
	{"--explain -b 3", BB_EUSAGE, "4 to 4096 bytes"},
	{"--link 10G,", BB_EUSAGE, "10G,"},
	{"--link 10G,x", BB_EUSAGE, "10G,x"},
	{"--csv /nonexistent/directory/x.csv", BB_EUSAGE, "--csv"},
	{"--json /", BB_EUSAGE, "--json"},
	{"--csv ''", BB_EUSAGE, "empty file name"},
	{"--csv /dev/null/x", BB_EUSAGE, "--csv"},
	{"--csv /tmp/same.out --json /tmp/same.out", BB_EUSAGE, "/tmp/same.out"},
	{"--csv - --json -", BB_EUSAGE, "--csv and --json"},
	{"--json /tmp/same.json -J /tmp/same.json", BB_EUSAGE, "-J"},
	{"-J /tmp/out.txt", BB_EUSAGE, ".json"},
	{"-J /tmp/json", BB_EUSAGE, ".json"},
	{"-G 1", BB_EUNSUPPORTED, "only the nccl backend"},
	{"-R 1", BB_EUNSUPPORTED, "-R 1: the host backend"},
	{"-R 3", BB_EUSAGE, "3"},
	{"-D 1", BB_EUSAGE, "-D 1 needs -R 2"},
	{"-D 1 -R 2", BB_EUNSUPPORTED, "nccl"},
	{"-D 1 -R 2 --algo ring", BB_EUSAGE, "-D 1 and --algo ring exclude"},
	{"-D 1 -R 2 --proto LL", BB_EUSAGE, "-D 1 and --proto LL exclude"},
	{"-G 8 -I 1", BB_EUSAGE, "-G 8 and -I 1 exclude"},
	{"-G 8 -z 2", BB_EUSAGE, "-G 8 and -z 2 exclude"},
	{"-G 8 -y 1", BB_EUSAGE, "-G 8 and -y 1 exclude"},
	{"-G 8 --precision 1%", BB_EUSAGE, "-G 8 and --precision exclude"},
	{"-G 8 --cache rewrite", BB_EUSAGE, "-G 8 and --cache rewrite exclude"},
	{"-G 8 --fault slow:0:1ms", BB_EUSAGE, "-G 8 and --fault slow:0:1ms exclude"},
	{"-G 8 --cache reuse", BB_EUNSUPPORTED, "captured graphs"},
	{"-x 0", BB_EUNSUPPORTED, "nccl"},
	{"-y 1", BB_EUNSUPPORTED, "nccl"},
	{"-V 0", BB_EUSAGE, "0"},
	{"-V 129", BB_EUSAGE, "129"},
};

static void test_bad(void **state)
{
	struct reading r;

	assert_true(sizeof(bad) / sizeof(bad[0]) >= 40);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		bb_status st = read_line(&r, bad[i].line);

		if (st != bad[i].status)
			fail_msg("'%s' came to %d (%s), not %d", bad[i].line, (int)st, r.error.text,
				 (int)bad[i].status);
		assert_int_equal(bb_error_status(&r.error), st);
		if (!strstr(r.error.text, bad[i].says) || strlen(r.error.text) < 10)
			fail_msg("'%s' is told '%s', which lacks '%s'", bad[i].line, r.error.text,
				 bad[i].says);
	}
}

static void test_defaults(void **state)
{
	struct reading r;
	const struct bb_options *o = &r.options;
	const struct bb_collective_options *a = &r.asked;

	assert_int_equal(read_line(&r, ""), BB_OK);
	assert_int_equal(o->threads, 1);
	assert_int_equal(o->gpus, 1);
	assert_int_equal(o->min_bytes, 32 << 20);
	assert_int_equal(o->max_bytes, 32 << 20);
	assert_int_equal(o->step_factor, 2);
	assert_int_equal(o->iters, 20);
	assert_int_equal(a->agg_iters, 1);
	assert_int_equal(o->warmup_iters, 1);
	assert_int_equal(a->run_cycles, 1);
	assert_int_equal(o->check, 1);
	assert_int_equal(a->average, BB_AVERAGE_MEAN);
	assert_true(o->timeout_ns == 120 * UINT64_C(1000000000));
	assert_true(o->max_time_ns == 60 * UINT64_C(1000000000));
	assert_true(o->precision == 0);
	assert_int_equal(a->cache, BB_CACHE_ROTATE);
	assert_int_equal(a->dtypes, 1u << BB_FLOAT);
	assert_int_equal(a->ops, 1u << BB_SUM);
	assert_int_equal(a->root, 0);
	assert_string_equal(o->backend->name, "host");
	assert_string_equal(a->algorithms, "auto");
	assert_int_equal(o->fault.kind, BB_FAULT_NONE);
	assert_int_equal(a->split.sign, '\0');
	assert_true(o->config.link_rate == 0 && a->min_bw == 0 && a->spread == 1);
	assert_false(bb_options_stdout_taken(o));
}

static void test_values(void **state)
{
	struct reading r;
	const struct bb_options *o = &r.options;
	const struct bb_collective_options *a = &r.asked;

	assert_int_equal(read_line(&r, "-t 2 -g 4 -b 1K -e 1.5G -n 7 -m 3 -w 0 -N 0 -p 1 -c 0 -z 3 "
				       "-T 500ms -C 1 -a 3 -S 1 -M 1 -u 5 -I 1 -K 6 -y 0 -G 0"),
			 BB_OK);
	assert_int_equal(o->threads * o->gpus, 8);
	assert_true(o->max_bytes == UINT64_C(3) << 29);
	assert_int_equal(a->run_cycles, 0);
	assert_int_equal(a->blocking, 3);
	assert_true(o->timeout_ns == 500000000);
	assert_int_equal(a->average, BB_AVERAGE_MAX);
	assert_int_equal(a->unalign, 5);
	assert_int_equal(a->per_iter_skip, 6);

	assert_int_equal(read_line(&r, "--nthreads 3 --minbytes 4 --maxbytes 8 --iters=9 --op max "
				       "--datatype int8,half --root all --check 2"),
			 BB_OK);
	assert_int_equal(o->iters, 9);
	assert_int_equal(a->ops, 1u << BB_MAX);
	assert_int_equal(a->dtypes, 1u << BB_INT8 | 1u << BB_HALF);
	assert_int_equal(a->root, BB_ROOT_ALL);

	assert_int_equal(read_line(&r, "-d all -o all -r -1 -T 0"), BB_OK);
	assert_int_equal(a->dtypes, (1u << BB_NDTYPES) - 1);
	assert_int_equal(a->ops, (1u << BB_NOPS) - 1);
	assert_true(o->timeout_ns == 0);
	assert_int_equal(a->root, BB_ROOT_ALL);

	assert_int_equal(
		read_line(&r, "-n 3 -n 4 -r 3 --precision 1% --max-time 2m --cache rewrite"),
		BB_OK);
	assert_int_equal(o->iters, 4);
	assert_int_equal(a->root, 3);
	assert_true(o->precision > 0.0099 && o->precision < 0.0101);
	assert_int_equal(a->cache, BB_CACHE_REWRITE);
	assert_int_equal(read_line(&r, "--csv -"), BB_OK);
	assert_true(bb_options_stdout_taken(o));
	assert_int_equal(read_line(&r, "--csv /dev/null --json /dev/null"), BB_OK);
}

/* What a launcher says decides between auto's backends, and who may judge files. */
static void test_launcher(void **state)
{
	struct bb_environment e = {
		.launch = {.launcher = "mpirun", .variable = "SIZE", .nprocs = 4, .proc = 1}};
	struct reading r;

	assert_int_equal(read_env(&r, &bb_all_reduce, "--backend host", e), BB_EUSAGE);
	assert_non_null(strstr(r.error.text, "mpirun started 4"));
	/* No plug-in lies beside this program. */
	assert_int_equal(read_env(&r, &bb_all_reduce, "", e), BB_EBACKEND);
	assert_non_null(
		strstr(r.error.text, "mpirun started 4 processes: there is no mpi backend"));
	assert_int_equal(read_env(&r, &bb_all_reduce, "--backend null", e), BB_EBACKEND);
	assert_int_equal(read_env(&r, &bb_all_reduce, "--backend null --explain", e), BB_OK);
	assert_null(r.options.launch);
	assert_int_equal(read_env(&r, &bb_all_reduce, "--backend null --csv /no/such/x", e),
			 BB_EBACKEND);
	e.launch.proc = 0;
	assert_int_equal(read_env(&r, &bb_all_reduce, "--backend null --csv /no/such/x", e),
			 BB_EUSAGE);
	e.launch.nprocs = 1;
	assert_int_equal(read_env(&r, &bb_all_reduce, "--backend host", e), BB_OK);
	assert_null(r.options.launch);
	assert_int_equal(read_env(&r, &bb_all_reduce, "--backend auto", e), BB_EBACKEND);
	assert_int_equal(read_line(&r, "--backend auto"), BB_OK);
	assert_string_equal(r.options.backend->name, "host");
	assert_int_equal(read_line(&r, "--backend mpi"), BB_EBACKEND);
	assert_non_null(strstr(r.error.text, "/backends/mpi.so"));
}

static void test_fault_and_link(void **state)
{
	struct reading r;

	assert_int_equal(read_line(&r, "--fault slow:3:5ms --link 100Gb/s,2us"), BB_OK);
	assert_int_equal(r.options.fault.kind, BB_FAULT_SLOW);
	assert_int_equal(r.options.fault.rank, 3);
	assert_true(r.options.fault.seconds > 0.00499 && r.options.fault.seconds < 0.00501);
	assert_true(r.options.config.link_rate == 12.5e9);
	assert_true(r.options.config.link_latency > 1.99e-6 &&
		    r.options.config.link_latency < 2.01e-6);
	assert_int_equal(read_line(&r, "--fault die:0 --link 1GB/s"), BB_OK);
	assert_int_equal(r.options.fault.kind, BB_FAULT_DIE);
	assert_true(r.options.config.link_rate == 1e9 && r.options.config.link_latency == 0);
	assert_int_equal(read_line(&r, "--fault corrupt:7"), BB_OK);
	assert_int_equal(r.options.fault.kind, BB_FAULT_CORRUPT);
	assert_int_equal(r.options.fault.rank, 7);
}

static void expect_sizes(const char *line, const uint64_t *sizes)
{
	struct reading r;
	uint64_t size;

	assert_int_equal(read_line(&r, line), BB_OK);
	for (size = r.options.min_bytes; size; size = bb_options_next_size(&r.options, size))
		assert_true(size == *sizes++);
	assert_true(*sizes == 0);
}

static void test_sizes(void **state)
{
	expect_sizes("-b 1 -e 8", (const uint64_t[]){1, 2, 4, 8, 0});
	expect_sizes("-b 3 -e 20", (const uint64_t[]){3, 6, 12, 0});
	expect_sizes("-b 10 -e 35 -i 10", (const uint64_t[]){10, 20, 30, 0});
	expect_sizes("-b 10 -e 30 -i 10", (const uint64_t[]){10, 20, 30, 0});
	expect_sizes("-b 10 -e 300 -i 10 -f 4", (const uint64_t[]){10, 40, 160, 0});
	expect_sizes("-b 10 -e 30 -i 10 -f 1", (const uint64_t[]){10, 20, 30, 0});
	expect_sizes("-b 10 -e 10 -f 1", (const uint64_t[]){10, 0});
	expect_sizes("-b 524288T -e 1048576T",
		     (const uint64_t[]){UINT64_C(1) << 59, UINT64_C(1) << 60, 0});
	expect_sizes("-b 1 -e 1048576T -f 1073741824",
		     (const uint64_t[]){1, 1 << 30, UINT64_C(1) << 60, 0});
}

static void test_environment(void **state)
{
	struct reading r;
	struct bb_environment e = {.nccl_algo = "RING"};

	assert_int_equal(read_env(&r, &bb_all_reduce, "", e), BB_OK);
	assert_string_equal(r.asked.algorithms, "ring");
	assert_int_equal(read_env(&r, &bb_all_reduce, "--algo tree,auto", e), BB_OK);
	assert_string_equal(r.asked.algorithms, "tree,auto");
	e.nccl_algo = "tree";
	assert_int_equal(read_env(&r, &bb_broadcast, "", e), BB_OK);
	assert_string_equal(r.asked.algorithms, "tree");
	e.nccl_algo = "NVLS";
	assert_int_equal(read_env(&r, &bb_all_reduce, "", e), BB_EUSAGE);
	assert_non_null(strstr(r.error.text, "NCCL_ALGO=\"NVLS\""));
	assert_int_equal(read_env(&r, &bb_all_reduce, "--algo ring", e), BB_OK);
	e.nccl_algo = "";
	assert_int_equal(read_env(&r, &bb_all_reduce, "", e), BB_OK);
	assert_string_equal(r.asked.algorithms, "auto");

	e = (struct bb_environment){.min_bw = "12.5", .spread = "0.25", .split = "MOD 2"};
	assert_int_equal(read_env(&r, &bb_all_reduce, "", e), BB_OK);
	assert_true(r.asked.min_bw == 12.5 && r.asked.spread == 0.25);
	assert_int_equal(r.asked.split.sign, '%');
	assert_int_equal(r.asked.split.operand, 2);
	e = (struct bb_environment){.min_bw = "12.5GB"};
	assert_int_equal(read_env(&r, &bb_all_reduce, "", e), BB_EUSAGE);
	assert_non_null(strstr(r.error.text, "NCCL_TESTS_MIN_BW"));
	e = (struct bb_environment){.min_bw = "nan"};
	assert_int_equal(read_env(&r, &bb_all_reduce, "", e), BB_EUSAGE);
	e = (struct bb_environment){.min_bw = "-3"};
	assert_int_equal(read_env(&r, &bb_all_reduce, "", e), BB_EUSAGE);
	e = (struct bb_environment){.spread = "1.1"};
	assert_int_equal(read_env(&r, &bb_all_reduce, "", e), BB_EUSAGE);
	e = (struct bb_environment){.split = "XOR 3"};
	assert_int_equal(read_env(&r, &bb_all_reduce, "", e), BB_EUSAGE);
}

/* nccl-tests' variables of alltoallv are of no concern elsewhere; one of them is not supported. */
static void test_alltoallv_environment(void **state)
{
	struct bb_environment e = {.print_summary = "1"};
	struct reading r;

	assert_int_equal(read_env(&r, &bb_alltoallv, "", e), BB_EUNSUPPORTED);
	assert_non_null(strstr(r.error.text, "NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY"));
	assert_int_equal(read_env(&r, &bb_alltoall, "", e), BB_OK);
	e = (struct bb_environment){.print_summary = "0", .matrix_scale = "2"};
	assert_int_equal(read_env(&r, &bb_alltoallv, "", e), BB_OK);
	e = (struct bb_environment){.matrix_file = "none.txt"};
	assert_int_equal(read_env(&r, &bb_alltoallv, "", e), BB_EUSAGE);
	assert_non_null(strstr(r.error.text, "NCCL_TESTS_ALLTOALLV_MATRIX_FILE none.txt"));
	assert_int_equal(read_env(&r, &bb_alltoall, "", e), BB_OK);
	e = (struct bb_environment){.matrix_scale = "-1"};
	assert_int_equal(read_env(&r, &bb_alltoallv, "", e), BB_EUSAGE);
	e = (struct bb_environment){.matrix_file = NULL};
	assert_int_equal(read_env(&r, &bb_alltoall, "--matrix none.txt", e), BB_EUSAGE);
	assert_non_null(strstr(r.error.text, "has no matrix"));
	assert_int_equal(read_env(&r, &bb_alltoallv, "--matrix-scale 2", e), BB_EUSAGE);
	assert_int_equal(read_env(&r, &bb_alltoallv, "--matrix none.txt -b 8 -e 64", e), BB_EUSAGE);
	assert_non_null(strstr(r.error.text, "their own sizes"));
}

/* An explanation has one root and as many elements as can be read; -e does not matter. */
static void test_explain(void **state)
{
	struct bb_environment none = {.nccl_algo = NULL};
	struct reading r;

	assert_int_equal(read_line(&r, "--explain -g 4 -b 64"), BB_OK);
	assert_int_equal(read_line(&r, "--explain -g 4 -b 4K -e 8"), BB_OK);
	assert_int_equal(read_env(&r, &bb_broadcast, "--explain -g 4 -r 3 -o max", none), BB_OK);
	assert_int_equal(read_env(&r, &bb_broadcast, "--explain -g 4 -r 7", none), BB_EUSAGE);
	assert_non_null(strstr(r.error.text, "there is no rank 7 among 4"));
	assert_int_equal(read_env(&r, &bb_broadcast, "--explain -g 4 -r all", none), BB_EUSAGE);
	assert_non_null(strstr(r.error.text, "one root"));
	assert_int_equal(read_env(&r, &bb_all_gather, "--explain -g 4 -b 12", none), BB_EUSAGE);
	assert_int_equal(read_env(&r, &bb_all_gather, "--explain -g 4 -b 16", none), BB_OK);
	assert_int_equal(r.asked.explained_ranks, 4);
	/* What a launcher has started counts. */
	none.launch = (struct bb_launch_hint){.launcher = "mpirun", .nprocs = 3};
	assert_int_equal(
		read_env(&r, &bb_all_gather, "--backend null --explain -t 2 -g 4 -b 96", none),
		BB_OK);
	assert_int_equal(r.asked.explained_ranks, 24);
	none.launch.nprocs = INT_MAX;
	assert_int_equal(read_env(&r, &bb_all_gather, "--backend null --explain -g 1024", none),
			 BB_EUSAGE);
	assert_non_null(strstr(r.error.text, "at most 64 ranks"));
	none.launch.nprocs = 0;
	assert_int_equal(read_env(&r, &bb_all_gather, "--backend null --explain", none), BB_OK);
	assert_int_equal(r.asked.explained_ranks, 1);
}

static void test_only_informs(void **state)
{
	static const char *const lines[] = {"--help",       "-h",         "--version",
					    "--list",       "--help-all", "--help-markdown",
					    "--help-schema"};
	struct reading r;

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		assert_int_equal(read_line(&r, lines[i]), BB_OK);
	/* Asked for help, nobody wants to hear about sizes. */
	assert_int_equal(read_line(&r, "-b 2M -e 1M -h"), BB_OK);
	assert_true(r.options.about.help);
}

static void test_unreduced(void **state)
{
	struct reading r;
	struct bb_environment none = {.nccl_algo = NULL};

	/* Where nothing is reduced the operation does not matter. */
	assert_int_equal(read_env(&r, &bb_broadcast, "-o band -d float", none), BB_OK);
	/* An algorithm of another collective is known; the plan tells that it is not there. */
	assert_int_equal(read_env(&r, &bb_hypercube, "--algo ring", none), BB_OK);
}

static void test_world(void **state)
{
	const struct bb_world world = {.nranks = 4, .nprocs = 1, .nlocal = 4};
	struct bb_error error = {0};
	struct reading r;

	assert_int_equal(read_line(&r, "-r 4 --fault die:3"), BB_OK);
	assert_int_equal(bb_options_check_world(&r.options, &world, &error), BB_OK);
	assert_int_equal(read_line(&r, "--fault corrupt:4"), BB_OK);
	assert_int_equal(bb_options_check_world(&r.options, &world, &error), BB_EUSAGE);
	assert_non_null(strstr(error.text, "--fault corrupt:4"));
}

static void test_files(void **state)
{
	char dir[] = "/tmp/bb-options-XXXXXX", line[256], link_path[64];
	struct reading r;

	assert_non_null(mkdtemp(dir));
	snprintf(line, sizeof(line), "--csv %s/a --json %s/b -J %s/c.JSON", dir, dir, dir);
	assert_int_equal(read_line(&r, line), BB_OK);
	snprintf(line, sizeof(line), "%s/a", dir);
	assert_int_equal(access(line, F_OK), -1); /* judging a name does not create the file */
	fclose(fopen(line, "w"));
	snprintf(link_path, sizeof(link_path), "%s/l", dir);
	assert_int_equal(symlink(line, link_path), 0);
	snprintf(line, sizeof(line), "--csv %s/a --json %s/l", dir, dir);
	assert_int_equal(read_line(&r, line), BB_EUSAGE);
	unlink(link_path);
	snprintf(line, sizeof(line), "%s/a", dir);
	unlink(line);
	rmdir(dir);
}

/* Every row has what the help prints, and no two rows of a table share a target, or of all those
   of a program a name. */
static void test_table(void **state)
{
	const struct bb_option *const tables[] = {bb_size_rows, bb_option_rows, bb_collective_rows};
	const struct bb_option *row, *other;

	for (int t = 0; t < 3; t++)
		for (row = tables[t]; row->name; row++) {
			assert_non_null(row->help);
			assert_true(strlen(row->help) < 100);
			for (other = row + 1; other->name; other++)
				assert_true(row->offset != other->offset);
			for (int u = 0; u < 3; u++)
				for (other = tables[u]; other->name; other++) {
					assert_true(row == other || strcmp(row->name, other->name));
					assert_true(row == other || !row->key ||
						    row->key != other->key);
				}
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bad),
		cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_launcher),
		cmocka_unit_test(test_fault_and_link),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_environment),
		cmocka_unit_test(test_alltoallv_environment),
		cmocka_unit_test(test_explain),
		cmocka_unit_test(test_only_informs),
		cmocka_unit_test(test_unreduced),
		cmocka_unit_test(test_world),
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
