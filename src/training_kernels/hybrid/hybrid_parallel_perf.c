/*
 * Hybrid-parallel training: how to divide a model among ranks, and what each kind of communication
 * then costs.
 */
#include "harness/run/benchmark.h"
#include "training_kernels/hybrid/hybrid.h"

int main(int argc, char **argv)
{
	return bb_main(argc, argv, &bb_hybrid_benchmark);
}
