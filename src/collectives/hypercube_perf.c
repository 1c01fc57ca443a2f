/*
 * An all-gather in log2(n) steps of pairwise exchanges that double: only for n a power of two.
 */
#include "harness/run/harness.h"

int main(int argc, char **argv)
{
	return bb_collective_main(argc, argv, &bb_hypercube);
}
