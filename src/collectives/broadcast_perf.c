/*
 * Every rank gets what the root has: how initial weights are handed out.
 */
#include "harness/run/harness.h"

int main(int argc, char **argv)
{
	return bb_collective_main(argc, argv, &bb_broadcast);
}
