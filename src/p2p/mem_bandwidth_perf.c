/*
 * How fast memory is: what the cores of each NUMA node read, write and copy per second in the
 * memory of each, and how long a load takes.
 */
#include "harness/run/harness.h"
#include "p2p/memory.h"

int main(int argc, char **argv)
{
	return bb_main(argc, argv, &bb_memory_benchmark);
}
