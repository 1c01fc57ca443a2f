#include "launch/launch.h"

#include <stdio.h>
#include <string.h>

/* Check what the other processes sent. */
static bb_status check_all(struct bb_launch *launch, const struct bb_payload *table, size_t count,
			   char *all)
{
	char why[BB_PAYLOAD_WHY];

	for (int p = 0; p < launch->nprocs; p++)
		for (size_t i = 0; i < count && p != launch->proc; i++) {
			char *payload = all + ((size_t)p * count + i) * table->bytes;

			if (bb_payload_decode(table, payload, why))
				continue;
			snprintf(launch->refused, sizeof(launch->refused), "process %d %s", p, why);
			launch->cause = launch->refused;
			if (launch->refuse)
				launch->refuse(launch);
			return BB_EBACKEND;
		}
	return BB_OK;
}

bb_status bb_launch_all_gather(struct bb_launch *launch, const struct bb_payload *table,
			       const void *mine, size_t count, void *all)
{
	const size_t bytes = count * table->bytes;
	const bb_status status = launch->gather(launch, mine, bytes, all, true);

	if (status != BB_OK)
		return status;
	/* This process's own payloads may have travelled to another process and back. */
	if (bytes > 0)
		memmove((char *)all + (size_t)launch->proc * bytes, mine, bytes);
	return check_all(launch, table, count, all);
}

bb_status bb_launch_gather(struct bb_launch *launch, const struct bb_payload *table,
			   const void *mine, size_t count, void *all)
{
	const bb_status status = launch->gather(launch, mine, count * table->bytes, all, false);

	return status == BB_OK && launch->proc == 0 ? check_all(launch, table, count, all) : status;
}
