/*
 * Every rank receives the data of the root. Use: distributing initial weights.
 */
#include "collectives/collective.h"

int main(int argc, char **argv)
{
	return bb_collective_main(argc, argv, &bb_broadcast);
}
