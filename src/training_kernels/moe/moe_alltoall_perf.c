/*
 * Expert parallelism: the cost of sending tokens to their experts and back, under even and uneven
 * loads.
 */
#include "harness/run/benchmark.h"
#include "training_kernels/moe/moe.h"

int main(int argc, char **argv)
{
	return bb_main(argc, argv, &bb_moe_benchmark);
}
