#include "backends/host/host.h"

/* What `auto` means, and how large a pipelined algorithm's messages are. */

#define CHUNK_BYTES ((size_t)128 << 10)
#define CROWDED_CHUNK_BYTES ((size_t)64 << 10)

bb_status bb_host_choose(struct bb_group *group, struct bb_call *call)
{
	call->schedule = NULL;
	call->native = &bb_host_natives[0];
	return BB_OK;
}

void bb_host_tune(struct bb_group *group, struct bb_call *call)
{
	const size_t bytes = group->rank->context->crowded ? CROWDED_CHUNK_BYTES : CHUNK_BYTES;

	call->shape.chunk = bytes / bb_dtype_size(call->dtype);
}
