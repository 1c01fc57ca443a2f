/*
 * Every rank contributes a vector and receives the element-wise reduction of all. Use: averaging
 * gradients in data-parallel training.
 */
#include "collectives/collective.h"

int main(int argc, char **argv)
{
	return bb_collective_main(argc, argv, &bb_all_reduce);
}
