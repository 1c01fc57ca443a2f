/*
 * Time of a barrier of all ranks: the backend's own, and all-reduces of 8 bytes.
 */
#include "collectives/collective.h"

int main(int argc, char **argv)
{
	return bb_main(argc, argv, &bb_barrier_benchmark);
}
