/*
 * Bandwidth and latency of memory: the cores of each NUMA node read, write, copy and load in the
 * memory of each.
 */
#include "harness/run/benchmark.h"
#include "memory/bandwidth/bandwidth.h"

int main(int argc, char **argv)
{
	return bb_main(argc, argv, &bb_memory_benchmark);
}
