/*
 * Of worlds of GPUs that are stood in for: what was not let go is counted.
 */
#include "fake.h"
#include "gpus.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

int gpus_count(void)
{
	return (int)fake_number("BUSBENCH_FAKE_GPUS", 8);
}

void gpus_left_nothing(void)
{
	char text[256];

	if (fake_leaks(text, sizeof(text)) > 0)
		fail_msg("not let go: %s", text);
	if (fake_misuse())
		fail_msg("%s", fake_misuse());
}

void gpus_forget_memory(void)
{
	fake_forget_memory();
}
