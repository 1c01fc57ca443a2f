/*
 * Every rank has one piece for each other rank, all of one size; piece d of rank s becomes piece s
 * of rank d: a transposition, and how tokens reach their experts.
 */
#include "harness/run/harness.h"

int main(int argc, char **argv)
{
	return bb_collective_main(argc, argv, &bb_alltoall);
}
