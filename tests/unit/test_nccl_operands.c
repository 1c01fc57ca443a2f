/*
 * Which datatypes NCCL 2.30.7 reduces by which operations, algorithms and protocols: each cell of
 * the table against the kernels that src/device/generate.py lists and the conditions of
 * updateCollCostTable (src/enqueue.cc).
 */
#include "nccl_constants_of.h"

#include "simulator/nccl/model.h"

#include <math.h>

#define GB 1e9
#define OPERATIONS 6 /* sum, prod, min, max, avg, mulsum */

/* One letter an operation, in the order of enum bb_op: 'x' there is a kernel that NCCL considers.
 */
struct row {
	enum bb_dtype dtype;
	char nvls[OPERATIONS + 1];      /* also NVLSTree */
	char pat[OPERATIONS + 1];       /* of reduce_scatter */
	char rings[OPERATIONS + 1];     /* also trees, each by LL, LL128 and Simple */
	char before_90[OPERATIONS + 1]; /* rings and trees below compute capability 9.0 */
};

static const struct row table[] = {
	/*              spmMam    spmMam    spmMam    spmMam */
	{BB_INT8, "......", "xxxx..", "xxxxxx", "xxxxxx"},
	{BB_UINT8, "......", "xxxx..", "xxxxxx", "xxxxxx"},
	{BB_INT32, "x.xx..", "xxxx..", "xxxxxx", "xxxxxx"},
	{BB_UINT32, "x.xx..", "xxxx..", "xxxxxx", "xxxxxx"},
	{BB_INT64, "x.xx..", "xxxx..", "xxxxxx", "xxxxxx"},
	{BB_UINT64, "x.xx..", "xxxx..", "xxxxxx", "xxxxxx"},
	{BB_HALF, "x.xx..", "xxxx..", "xxxxxx", "xxxxxx"},
	{BB_FLOAT, "x.....", "xxxx..", "xxxxxx", "xxxxxx"},
	{BB_DOUBLE, "x.....", "xxxx..", "xxxxxx", "xxxxxx"},
	{BB_BFLOAT16, "x.xx..", "xxxx..", "xxxxxx", "xxxxxx"},
	{BB_F8E4M3, "......", "xxxx..", "xxxxxx", "......"},
	{BB_F8E5M2, "......", "xxxx..", "xxxxxx", "......"},
};

/* What algos_of_coll of generate.py has, as far as it is modelled. */
static const struct {
	const struct bb_collective *collective;
	char algorithms[BB_NCCL_ALGORITHMS + 1]; /* ring, tree, NVLS, NVLSTree, PAT */
} collectives[] = {
	{&bb_all_reduce, "xxxx."},
	{&bb_reduce, "x...."},
	{&bb_reduce_scatter, "x...x"},
};

/* A machine that ALGORITHM runs on. */
static struct bb_nccl_machine machine_for(int sm, enum bb_nccl_algorithm algorithm)
{
	const int nodes = algorithm == BB_NCCL_NVLS ? 1 : 4,
		  gpus = algorithm == BB_NCCL_PAT ? 1 : 8;

	return (struct bb_nccl_machine){.ranks = nodes * gpus,
					.nodes = nodes,
					.fewest = gpus,
					.nvlink = true,
					.nvswitch = true,
					.gpu_rate = sm >= 90 ? 370.8 * GB : 240 * GB,
					.gpu_share = 0.98,
					.rails = gpus,
					.nic_rate = 50 * GB,
					.net_rate = 48.5 * GB * gpus,
					.rank_rate = 48.5 * GB,
					.rail_rate = 48.5 * GB};
}

static const char *cells(const struct row *row, int sm, enum bb_nccl_algorithm algorithm)
{
	if (algorithm == BB_NCCL_NVLS || algorithm == BB_NCCL_NVLSTREE)
		return sm < 90 ? "......" : row->nvls;
	if (algorithm == BB_NCCL_PAT && sm >= 90)
		return row->pat;
	if (algorithm == BB_NCCL_PAT)
		return row->before_90[0] == 'x' ? row->pat : "......";
	return sm < 90 ? row->before_90 : row->rings;
}

/* Is there a kernel of PROTOCOL? ("proto!=SIMPLE and algo not in (RING,TREE)") */
static bool has_protocol(enum bb_nccl_algorithm algorithm, enum bb_nccl_protocol protocol)
{
	return algorithm <= BB_NCCL_TREE || protocol == BB_NCCL_SIMPLE;
}

static int differs(const struct bb_nccl_constants *c, const struct bb_nccl_call *call, bool wanted)
{
	struct bb_nccl_call chosen;
	const bool got = bb_nccl_choose(c, call, &chosen);

	if (got == wanted &&
	    (!got || (chosen.algorithm == call->algorithm && chosen.protocol == call->protocol)))
		return 0;
	print_message("%s %s %s by %s:%s is %s\n", call->collective->name,
		      bb_dtype_name(call->dtype), bb_op_name(call->op),
		      bb_nccl_algorithm_name(call->algorithm),
		      bb_nccl_protocol_name(call->protocol), got ? "chosen" : "refused");
	return 1;
}

/* Differences of one collective by one algorithm on GPUs of compute capability SM. */
static int table_differences(int sm, const struct bb_collective *collective,
			     enum bb_nccl_algorithm algorithm, bool exists)
{
	const struct bb_nccl_constants c = constants_of(sm, "2.30.7");
	const struct bb_nccl_machine m = machine_for(sm, algorithm);
	int different = 0;

	for (size_t r = 0; r < sizeof(table) / sizeof(table[0]); r++)
		for (int op = 0; op < OPERATIONS; op++)
			for (int p = 0; p < BB_NCCL_PROTOCOLS; p++) {
				const struct bb_nccl_call call = {
					.collective = collective,
					.algorithm = algorithm,
					.protocol = (enum bb_nccl_protocol)p,
					.machine = &m,
					.dtype = table[r].dtype,
					.op = (enum bb_op)op,
					.bytes = 0x1p24,
				};

				different +=
					differs(&c, &call,
						exists && has_protocol(algorithm, call.protocol) &&
							cells(&table[r], sm, algorithm)[op] == 'x');
			}
	return different;
}

static void test_table(void **state)
{
	static const int sms[] = {70, 80, 90, 100};
	int different = 0;

	assert_int_equal(sizeof(table) / sizeof(table[0]), BB_FLOAT_INT);
	for (size_t s = 0; s < sizeof(sms) / sizeof(sms[0]); s++)
		for (size_t k = 0; k < sizeof(collectives) / sizeof(collectives[0]); k++)
			for (int a = 0; a < BB_NCCL_ALGORITHMS; a++)
				different += table_differences(sms[s], collectives[k].collective,
							       (enum bb_nccl_algorithm)a,
							       collectives[k].algorithms[a] == 'x');
	assert_int_equal(different, 0);
}

static enum bb_nccl_algorithm chosen(const struct bb_nccl_machine *m,
				     const struct bb_collective *collective, enum bb_dtype dtype,
				     enum bb_op op, double bytes)
{
	const struct bb_nccl_constants c = constants_of(90, "2.30.7");
	const struct bb_nccl_call call = {.collective = collective,
					  .algorithm = BB_NCCL_ANY,
					  .protocol = BB_NCCL_ANY_PROTOCOL,
					  .machine = m,
					  .dtype = dtype,
					  .op = op,
					  .bytes = bytes};
	struct bb_nccl_call chosen;

	assert_true(bb_nccl_choose(&c, &call, &chosen));
	return chosen.algorithm;
}

/* Whatever is requested, auto picks what the table has, and NVLS where sums of floats get it. */
static void test_auto(void **state)
{
	const struct bb_nccl_machine one = machine_for(90, BB_NCCL_NVLS),
				     four = machine_for(90, BB_NCCL_NVLSTREE);
	int switched = 0;

	for (size_t r = 0; r < sizeof(table) / sizeof(table[0]); r++)
		for (int op = 0; op < OPERATIONS; op++)
			for (double bytes = 8; bytes < 0x1p34; bytes *= 4) {
				const struct bb_nccl_machine *m = switched++ % 2 ? &one : &four;
				const enum bb_nccl_algorithm sum =
					chosen(m, &bb_all_reduce, BB_FLOAT, BB_SUM, bytes);
				const enum bb_nccl_algorithm got = chosen(
					m, &bb_all_reduce, table[r].dtype, (enum bb_op)op, bytes);
				const bool nvls = sum == BB_NCCL_NVLS || sum == BB_NCCL_NVLSTREE;

				assert_int_equal(cells(&table[r], 90, got)[op], 'x');
				if (table[r].nvls[op] == 'x')
					assert_int_equal(got, sum);
				else
					assert_true(!nvls || got <= BB_NCCL_TREE);
			}
}

/* Rings of more than eight ranks come last for fp8: "table[a][p] *= 1024.0". Data that are only
   moved are bytes. */
static void test_fp8(void **state)
{
	const struct bb_nccl_machine node = machine_for(90, BB_NCCL_NVLS),
				     four = machine_for(90, BB_NCCL_NVLSTREE),
				     single = machine_for(90, BB_NCCL_PAT);
	struct bb_nccl_machine nine = single;

	nine.ranks = nine.nodes = 9;
	for (double bytes = 8; bytes < 0x1p34; bytes *= 4) {
		assert_int_equal(chosen(&four, &bb_all_reduce, BB_F8E4M3, BB_SUM, bytes),
				 BB_NCCL_TREE);
		assert_int_equal(chosen(&four, &bb_reduce_scatter, BB_F8E5M2, BB_SUM, bytes),
				 BB_NCCL_RING);
		assert_int_equal(chosen(&nine, &bb_reduce_scatter, BB_F8E5M2, BB_SUM, bytes),
				 BB_NCCL_PAT);
		assert_int_equal(chosen(&four, &bb_all_gather, BB_F8E4M3, BB_SUM, bytes),
				 BB_NCCL_RING);
	}
	/* Eight ranks keep their ring, and rings of float win there, too. */
	assert_int_equal(chosen(&node, &bb_all_reduce, BB_F8E4M3, BB_SUM, 0x1p30), BB_NCCL_RING);
	assert_int_equal(chosen(&four, &bb_all_reduce, BB_FLOAT, BB_SUM, 0x1p33), BB_NCCL_RING);
	assert_int_equal(chosen(&nine, &bb_reduce_scatter, BB_HALF, BB_SUM, 0x1p33), BB_NCCL_RING);
	assert_int_equal(chosen(&nine, &bb_reduce_scatter, BB_HALF, BB_SUM, 0x1p16), BB_NCCL_PAT);
	assert_int_equal(chosen(&nine, &bb_reduce_scatter, BB_HALF, BB_AVG, 0x1p16), BB_NCCL_RING);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_auto),
		cmocka_unit_test(test_fp8),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
