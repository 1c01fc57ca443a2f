/*
 * The root receives the pieces of all ranks, in rank order.
 */
#include "collectives/collective.h"

int main(int argc, char **argv)
{
	return bb_collective_main(argc, argv, &bb_gather);
}
