/*
 * Every rank has a piece of the same size for each rank: piece d of rank s becomes piece s of rank
 * d. Use: sending tokens to their experts.
 */
#include "collectives/collective.h"

int main(int argc, char **argv)
{
	return bb_collective_main(argc, argv, &bb_alltoall);
}
