/*
 * All pairs of ranks: latency of a small message, as half a round trip.
 */
#include "harness/run/benchmark.h"
#include "p2p/pairs.h"

int main(int argc, char **argv)
{
	return bb_main(argc, argv, &bb_latency_benchmark);
}
