/*
 * Every rank contributes a piece and receives all pieces in rank order. Use: gathering sharded
 * parameters before a layer runs.
 */
#include "collectives/collective.h"

int main(int argc, char **argv)
{
	return bb_collective_main(argc, argv, &bb_all_gather);
}
