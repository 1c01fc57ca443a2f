/*
 * Of worlds of real GPUs: nobody counts what was not let go. ci/gpu_check.sh, which knows how many
 * there are, says so in the environment.
 */
#include "gpus.h"

#include <stdlib.h>

int gpus_count(void)
{
	const char *const given = getenv("BUSBENCH_TEST_GPUS");

	return given ? atoi(given) : 1;
}

void gpus_left_nothing(void)
{
}

void gpus_forget_memory(void)
{
}
