/*
 * nccl_constants_of.h - the constants and times of the model of NCCL in unit tests.
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

/* Seconds of BYTES of COLLECTIVE by ALGORITHM and PROTOCOL on MACHINE. */
static inline double time_of(const struct bb_nccl_constants *c,
			     const struct bb_nccl_machine *machine, enum bb_nccl_view view,
			     const struct bb_collective *collective,
			     enum bb_nccl_algorithm algorithm, enum bb_nccl_protocol protocol,
			     double bytes)
{
	const struct bb_nccl_call call = {.collective = collective,
					  .algorithm = algorithm,
					  .protocol = protocol,
					  .machine = machine,
					  .bytes = bytes};

	return bb_nccl_time(c, &call, view);
}

static inline double messages_time_of(const struct bb_nccl_constants *c,
				      const struct bb_nccl_machine *machine,
				      const struct bb_collective *collective, double bytes)
{
	const struct bb_nccl_call call = {
		.collective = collective, .machine = machine, .bytes = bytes};

	return bb_nccl_messages_time(c, &call);
}

#endif
