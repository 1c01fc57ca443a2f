/*
 * nccl_constants_of.h - the constants of the model of NCCL in unit tests.
 */
#ifndef BB_TEST_NCCL_CONSTANTS_OF_H
#define BB_TEST_NCCL_CONSTANTS_OF_H

#include "simulator/nccl/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* Those of VERSIONS for GPUs of compute capability SM. */
static inline struct bb_nccl_constants constants_of(int sm, const char *versions)
{
	struct bb_nccl_constants c, other;
	struct bb_error error = {.text = ""};
	bool more = true;

	if (bb_nccl_constants_find(&c, sm, &error) != BB_OK)
		fail_msg("%s", error.text);
	other = c;
	for (int i = 0; strcmp(other.versions, versions) != 0; i++) {
		if (bb_nccl_constants_other(&other, &c, i, &more, &error) != BB_OK)
			fail_msg("%s", error.text);
		if (!more)
			fail_msg("no constants of NCCL %s", versions);
	}
	return other;
}

#endif
