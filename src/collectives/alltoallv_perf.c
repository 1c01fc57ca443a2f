/*
 * All-to-all with pieces of different sizes, as in real expert routing: those of a file (--matrix),
 * or every rank sends more to ranks further round the ring (NCCL_TESTS_ALLTOALLV_SPREAD).
 */
#include "collectives/collective.h"

int main(int argc, char **argv)
{
	return bb_collective_main(argc, argv, &bb_alltoallv);
}
