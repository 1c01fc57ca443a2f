/*
 * Data-parallel training: how large the buckets should be that gradients are reduced in.
 */
#include "harness/run/harness.h"
#include "training_kernels/ddp/ddp.h"

int main(int argc, char **argv)
{
	return bb_main(argc, argv, &bb_ddp_benchmark);
}
