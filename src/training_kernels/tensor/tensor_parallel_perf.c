/*
 * tensor_parallel_perf - a transformer layer split over ranks, checked and timed.
 */
#include "harness/run/benchmark.h"
#include "training_kernels/tensor/tensor.h"

int main(int argc, char **argv)
{
	return bb_main(argc, argv, &bb_tensor_benchmark);
}
