/*
 * Data-parallel training: the best size of the buckets in which gradients are reduced.
 */
#include "harness/run/benchmark.h"
#include "training_kernels/ddp/ddp.h"

int main(int argc, char **argv)
{
	return bb_main(argc, argv, &bb_ddp_benchmark);
}
