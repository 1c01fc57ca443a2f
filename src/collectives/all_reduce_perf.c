/*
 * Every rank gives a vector and gets the element-wise reduction of all of them: how gradients
 * are averaged in data-parallel training.
 */
#include "harness/run/harness.h"

int main(int argc, char **argv)
{
	return bb_collective_main(argc, argv, &bb_all_reduce);
}
