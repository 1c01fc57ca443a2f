/*
 * The root sends each rank its piece.
 */
#include "collectives/collective.h"

int main(int argc, char **argv)
{
	return bb_collective_main(argc, argv, &bb_scatter);
}
