/*
 * The vectors of all ranks are reduced, and each rank receives its piece of the result: the first
 * half of an all-reduce. Use: summing sharded gradients.
 */
#include "collectives/collective.h"

int main(int argc, char **argv)
{
	return bb_collective_main(argc, argv, &bb_reduce_scatter);
}
