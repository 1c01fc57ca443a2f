/*
 * Pipeline parallelism: how much of a step stages wait for each other, under which schedule.
 */
#include "harness/run/benchmark.h"
#include "training_kernels/pipeline/pipeline.h"

int main(int argc, char **argv)
{
	return bb_main(argc, argv, &bb_pipeline_benchmark);
}
