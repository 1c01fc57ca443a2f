/*
 * The root receives the element-wise reduction of the vectors of all ranks.
 */
#include "collectives/collective.h"

int main(int argc, char **argv)
{
	return bb_collective_main(argc, argv, &bb_reduce);
}
