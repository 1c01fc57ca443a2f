/*
 * When something is slow: which node, rail or link it is, and which rank comes last.
 */
#include "diagnose/diagnose.h"
#include "harness/run/benchmark.h"

int main(int argc, char **argv)
{
	return bb_main(argc, argv, &bb_diagnose_benchmark);
}
