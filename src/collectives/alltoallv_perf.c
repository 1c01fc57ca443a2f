/*
 * All-to-all with pieces of different sizes: every rank sends more to ranks further round the
 * ring, as NCCL_TESTS_ALLTOALLV_SPREAD says; real expert routing is never even.
 */
#include "harness/run/harness.h"

int main(int argc, char **argv)
{
	return bb_collective_main(argc, argv, &bb_alltoallv);
}
