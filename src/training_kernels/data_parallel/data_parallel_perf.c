/*
 * Data-parallel training: the same step by a root, by parameter servers, by all-reduce, by
 * reduce-scatter and all-gather, and by averaging parameters.
 */
#include "harness/run/benchmark.h"
#include "training_kernels/data_parallel/data_parallel.h"

int main(int argc, char **argv)
{
	return bb_main(argc, argv, &bb_dp_benchmark);
}
