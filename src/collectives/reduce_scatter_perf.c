/*
 * The vectors of all ranks are reduced, and each rank gets its own piece of the result: the first
 * half of an all-reduce, and how sharded gradients are summed.
 */
#include "harness/run/harness.h"

int main(int argc, char **argv)
{
	return bb_collective_main(argc, argv, &bb_reduce_scatter);
}
