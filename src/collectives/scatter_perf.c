/*
 * The root has one piece for each rank and hands them out.
 */
#include "harness/run/harness.h"

int main(int argc, char **argv)
{
	return bb_collective_main(argc, argv, &bb_scatter);
}
