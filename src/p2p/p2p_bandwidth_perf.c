/*
 * All pairs of ranks: bandwidth from the memory of one to that of the other.
 */
#include "harness/run/benchmark.h"
#include "p2p/pairs.h"

int main(int argc, char **argv)
{
	return bb_main(argc, argv, &bb_bandwidth_benchmark);
}
