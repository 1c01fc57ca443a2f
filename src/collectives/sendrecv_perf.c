/*
 * Every rank sends to the next one and receives from the previous one, as pipeline stages do.
 */
#include "collectives/collective.h"

int main(int argc, char **argv)
{
	return bb_collective_main(argc, argv, &bb_sendrecv);
}
