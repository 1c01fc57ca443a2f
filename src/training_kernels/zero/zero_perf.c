/*
 * ZeRO: what a rank holds and sends under each stage, and that all stages come to the same.
 */
#include "harness/run/benchmark.h"
#include "training_kernels/zero/zero.h"

int main(int argc, char **argv)
{
	return bb_main(argc, argv, &bb_zero_benchmark);
}
