/*
 * Quantised all-reduces: what coding numbers in fewer bits costs and saves, and below which bus
 * bandwidth it pays.
 */
#include "harness/run/benchmark.h"
#include "training_kernels/quantised/quantised.h"

int main(int argc, char **argv)
{
	return bb_main(argc, argv, &bb_quantised_benchmark);
}
