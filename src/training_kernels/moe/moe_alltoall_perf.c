/*
 * Expert parallelism: what sending tokens to their experts and back costs, and what uneven loads do
 * to it.
 */
#include "harness/run/harness.h"
#include "training_kernels/moe/moe.h"

int main(int argc, char **argv)
{
	return bb_main(argc, argv, &bb_moe_benchmark);
}
