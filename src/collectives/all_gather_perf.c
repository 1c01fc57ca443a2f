/*
 * Every rank contributes a piece and receives all pieces in rank order: sharded parameters are
 * gathered so before a layer runs.
 */
#include "harness/run/harness.h"

int main(int argc, char **argv)
{
	return bb_collective_main(argc, argv, &bb_all_gather);
}
