/*
 * Every rank gives a piece and gets all pieces, in the order of ranks: how sharded parameters
 * are put together before a layer runs.
 */
#include "harness/run/harness.h"

int main(int argc, char **argv)
{
	return bb_collective_main(argc, argv, &bb_all_gather);
}
