/*
 * How long all ranks need to meet: by the backend's own barrier, and by all-reduces of 8 bytes.
 */
#include "collectives/barrier.h"
#include "harness/run/harness.h"

int main(int argc, char **argv)
{
	return bb_main(argc, argv, &bb_barrier_benchmark);
}
