/*
 * An all-gather in log2(n) pairwise exchanges of doubling size, for powers of two.
 */
#include "collectives/collective.h"

int main(int argc, char **argv)
{
	return bb_collective_main(argc, argv, &bb_hypercube);
}
